"""The terminal output of commands: no character of a text that a terminal would obey."""

import os
import pty
import re
import select
from pathlib import Path

import pytest

from collector.escaping import harmless
from tests import forking
from tests.live import PATIENCE_S, TRACEJURY, environment
from tests.serving import an_export
from tests.storing import a_store, commit, decoded, trace_id

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.\x08\x7f\x90q\x9c"
OURS = re.compile(r"\x1b\[[0-9;]*m")  # of styles
OBEYED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def on_a_terminal(*arguments: str) -> str:
    """Run a command on a pseudo-terminal; return both outputs without the colors that it chose itself."""
    ours, theirs = pty.openpty()
    env = environment({"TERM": "xterm-256color", "COLUMNS": "200"})
    process = forking.start([TRACEJURY, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    written = b""
    while select.select([ours], [], [], PATIENCE_S)[0]:
        try:
            piece = os.read(ours, 65_536)
        except OSError:  # nothing holds the other end
            break
        if not piece:
            break
        written += piece
    process.wait(PATIENCE_S)
    os.close(ours)
    return OURS.sub("", written.decode().replace("\r\n", "\n"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a trace whose every text is hostile."""
    directory = tmp_path_factory.mktemp("data")
    with a_store(directory) as store:
        export = an_export(trace_id(1), f"root{EVIL}", f"step{EVIL}", project=f"shop{EVIL}")
        commit(store, decoded(export).batch)
    return directory


@pytest.mark.parametrize(
    "arguments",
    [
        ("traces", "list"),
        ("traces", "show", trace_id(1)),
        ("traces", "show", trace_id(1), "--json"),
        ("sql", "SELECT name, attributes FROM spans"),
        ("sql", "--csv", "SELECT name FROM spans"),
        ("sql", "--raw-csv", "SELECT name FROM spans"),
        ("sql", "--json", "SELECT name FROM spans"),
        ("sql", f"SELECT '{EVIL}"),
        ("export", f"--format={EVIL}"),
        ("status", EVIL),
        (EVIL,),
        (f"--{EVIL}",),
    ],
)
def test_no_command_passes_on_what_a_terminal_obeys(data: Path, arguments: tuple[str, ...]) -> None:
    """Texts of spans, and arguments repeated in errors, reach a terminal with control characters escaped."""
    named = ("--data", str(data)) if arguments[0] in {"traces", "sql", "status"} else ()
    written = on_a_terminal(*arguments, *named)
    assert written
    assert OBEYED.findall(written) == []


def test_what_is_visible_stays_as_it_is() -> None:
    """Line ends, tabs, letters of any script and emoji of several characters are not escaped."""
    text = "a\tb\nçédille 日本語 👩‍💻 עברית"
    assert harmless(text) == text
    assert harmless("\x1b[31m\r\x9b") == "\\x1b[31m\\r\\x9b"
