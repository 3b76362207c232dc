"""A data directory on a read-only file system: what reads works as elsewhere, and what writes says what to do."""

import asyncio
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click
import pytest
from mcp import Client, StdioServerParameters

from collector.cli.main import main
from storage.engine.database import FILE_NAME
from storage.errors import InUse
from storage.ingest.spool import Spool
from storage.ingest.state import read_state
from storage.store import Store
from tests import forking
from tests.disks import read_only
from tests.live import TRACEJURY
from tests.read_only_process import run_commands
from tests.release_fixture import DATA, RELEASES, unpack
from tests.serving import run
from tests.storing import a_batch, a_store, an_export, commit
from tests.walking import commands

TRACE: Final = "d" * 32
SESSION: Final = "c-1"
ADDRESSES: Final = ("--http", "127.0.0.1:0", "--otlp-http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
RULE: Final = """
name: trial
project: shop
target: SPAN
evaluator: tool_error
"""

READS: Final = {
    "agents": [],
    "alerts list": [],
    "alerts mutes": [],
    "alerts show": ["a"],
    "annotations list": [],
    "backup": ["TMP/backup"],
    "calibration": ["polite"],
    "connections list": [],
    "datasets diff": ["qa@1"],
    "datasets list": [],
    "datasets show": ["qa"],
    "deletions": [],
    "evaluate": ["--trace", TRACE, "--evaluator", "tool_error"],
    "experiments list": ["shop"],
    "experiments runs": ["shop", "qa of-nobody-alone"],
    "experiments show": ["a"],
    "export": ["TMP/export", "--from", "2026-11-01", "--to", "2026-12-01"],
    "jobs list": [],
    "keys list": [],
    "mcp": [],
    "mcp install": ["cursor"],
    "metric-monitors list": [],
    "monitors": [],
    "review agreement": [],
    "review list": [],
    "review progress": ["of-nobody-alone"],
    "rules list": [],
    "rules test": ["TMP/rule.yaml", "--last", "100000h"],
    "saved-views list": [],
    "saved-views show": ["of-nobody-alone"],
    "sessions list": [],
    "sessions show": [SESSION],
    "sql": ["SELECT * FROM spans ORDER BY ALL", "--json"],
    "status": [],
    "sweep": ["--dry-run"],
    "traces list": [],
    "traces show": [TRACE],
    "webhooks list": [],
}
WRITES: Final = {
    "connections test": ["local"],
    "jobs retry": ["1"],
    "reread": [],
    "restore": ["TMP/backup"],
    "serve": [*ADDRESSES],
    "sweep": [],
}
ASKS_A_SERVER: Final = {
    "alerts acknowledge": ["a"],
    "alerts mute": ["--until", "2100-01-01T00:00:00Z"],
    "alerts resolve": ["a"],
    "alerts unmute": ["a"],
    "annotations add": [TRACE, "correct"],
    "health": [],
    "metric-monitors apply": ["TMP/monitors.yaml"],
    "metric-monitors delete": ["a"],
    "review add": ["a", "--trace", TRACE],
    "review create": ["a"],
    "review delete": ["a"],
    "review fill": ["a"],
    "saved-views delete": ["a"],
    "saved-views save": ["a"],
    "webhooks replay": ["a", "--failed"],
    "webhooks test": ["a"],
}
TIMED: Final = {"status", "sweep", "backup", "export"}  # their output names the time, or files
REMEDY: Final = "cp -r"
HOLD: Final = """
import sys, pathlib, storage.store as store
with store.Store.open(pathlib.Path(sys.argv[1]), store.StoreOptions(may_only_read=True)):
    print("open", flush=True)
    sys.stdin.read()
"""


def commands_with_data(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Return each command that takes `--data`."""
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from commands_with_data(each, (*path, name))
    if any("--data" in parameter.opts for parameter in command.params):
        yield " ".join(path)


def stopped_data(directory: Path) -> Path:
    """Make a directory of this version with rows in every table, whose server was stopped."""
    unpack(max(RELEASES.glob("*.tar.xz")), directory)
    with a_store(directory / DATA) as store:
        assert store.totals.stored
    (directory / DATA).chmod(0o700)  # else whatever opens it to write warns
    return directory / DATA


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return such a directory, for reading."""
    return stopped_data(tmp_path_factory.mktemp("stopped"))


def filled(command: str, arguments: Sequence[str], data: Path, scratch: Path) -> list[str]:
    """Return the whole command line."""
    scratch.mkdir(exist_ok=True)
    (scratch / "rule.yaml").write_text(RULE)
    (scratch / "monitors.yaml").write_text("[]")
    more = [each.replace("TMP", str(scratch)) for each in arguments]
    return [*command.split(), *more, "--data", str(data)]


def test_every_command_with_data_is_tried() -> None:
    """The tables of this file name each command that takes `--data`."""
    assert set(commands_with_data(main)) == READS.keys() | WRITES.keys() | ASKS_A_SERVER.keys()


def test_every_command_that_lists_or_shows_something_takes_a_directory() -> None:
    """Every command that can ask a server can also read a directory."""
    reading = {
        " ".join(path): "--data" in options
        for path, options in (
            (path, {opt for each in command.params for opt in each.opts}) for path, command in commands(main)
        )
        if path[-1] in {"list", "show"} and "--server" in options
    }
    assert [name for name, takes_directory in reading.items() if not takes_directory] == []
    assert len(reading) > 15


@pytest.mark.costly(
    "collector/cli", "collector/encryption_key.py", "collector/local_api.py", "collector/mcp", "storage"
)
def test_every_command_works_on_a_read_only_directory_or_says_why_not(stopped: Path, tmp_path: Path) -> None:
    """A reading command prints the same as for a writable copy; any other ends with one error that names the remedy."""
    data, copy = tmp_path / "data", tmp_path / "copy"
    for each in (data, copy):
        shutil.copytree(stopped, each)
    tables = (READS, WRITES, ASKS_A_SERVER)
    commands = [filled(*each, data, tmp_path / "made") for table in tables for each in table.items()]
    run("status", "--data", copy)  # the first opening by a version is put on record
    before = run("check", copy).output
    expected = run_commands([filled(*each, copy, tmp_path / "expected") for each in READS.items()])
    assert run("check", copy).output == before, "a command that reads has changed rows"
    with read_only(data) as disks:
        results = run_commands(commands, disks.inside)
    assert [output for _, output in results if "Traceback" in output] == []
    reads, others = results[: len(READS)], results[len(READS) :]
    writes, asks = others[: len(WRITES)], others[len(WRITES) :]
    for name, (code, output), as_copy in zip(READS, reads, expected, strict=True):
        here = output.replace(str(data), str(copy)).replace(str(tmp_path / "made"), str(tmp_path / "expected"))
        assert (code, name in TIMED or here) == (as_copy[0], name in TIMED or as_copy[1]), name
    for name, (code, output) in zip(WRITES, writes, strict=True):
        remedy = "nothing was changed" if name == "restore" else REMEDY
        assert (code, remedy in output, output.count("\n")) == (1, True, 1), (name, output)
    for name, (code, output) in zip(ASKS_A_SERVER, asks, strict=True):
        assert (code, "no server holds" in output) == (1, True), (name, output)


def test_what_would_be_written_there_names_the_place(stopped: Path, tmp_path: Path) -> None:
    """Backups, exports and restored directories on a read-only disk end with one error that names the file."""
    target = tmp_path / "target"
    target.mkdir()
    commands = [
        ["backup", str(target), "--data", str(stopped)],
        ["backup", str(target / "new"), "--data", str(stopped)],
        ["export", str(target), "--from", "2026-11-01", "--to", "2026-12-01", "--data", str(stopped)],
        ["restore", str(stopped), "--data", str(target / "new")],
        ["restore", str(stopped), "--data", str(target)],
        ["serve", "--data", str(target / "new"), *ADDRESSES],
    ]
    with read_only(target) as disks:
        for command, (code, output) in zip(commands, run_commands(commands, disks.inside), strict=True):
            assert (code, str(target) in output, output.count("\n")) == (1, True, 1), (command, output)
            assert "ead-only file system" in output, (command, output)


def test_a_log_of_the_database_is_read_and_not_backed_up(tmp_path: Path) -> None:
    """Rows that only DuckDB's log has are shown, and a backup that would lack them is refused with what helps."""
    with a_store(tmp_path / "made") as store:
        commit(store, a_batch(an_export(7)))
        data = Path(shutil.copytree(tmp_path / "made", tmp_path / "data"))  # as a kill would leave it
    assert (data / f"{FILE_NAME}.wal").exists()
    select = ["sql", "SELECT count(*) AS n FROM spans", "--json", "--data", str(data)]
    with read_only(data) as disks:
        backup = ["backup", str(tmp_path / "backup"), "--data", str(data)]
        shown, backed_up = run_commands([select, backup], disks.inside)
    assert (shown[0], '"n": 7' in shown[1]) == (0, True), shown
    assert (backed_up[0], REMEDY in backed_up[1]) == (1, True), backed_up
    assert not (tmp_path / "backup").exists()


def test_what_a_server_had_no_time_to_commit_is_not_left_out_in_silence(tmp_path: Path) -> None:
    """A directory whose spool holds more than the database is refused, and a writable copy shows all of it."""
    data = tmp_path / "data"
    with a_store(data) as store:
        position = read_state(store._database).position
    spool = Spool(data / "spool", after=position)
    spool.append([a_batch(an_export(3))])
    spool.close()
    select = ["sql", "SELECT count(*) AS n FROM spans", "--json", "--data"]
    with read_only(data) as disks:
        ((code, output),) = run_commands([[*select, str(data)]], disks.inside)
    assert (code, "no time to commit" in output, REMEDY in output) == (1, True, True), output
    shutil.copytree(data, tmp_path / "copy")
    assert '"n": 3' in run(*select, tmp_path / "copy").output


def test_data_of_another_version_is_not_upgraded_there(tmp_path: Path) -> None:
    """A directory of a release before is refused, with the remedy."""
    unpack(min(RELEASES.glob("*.tar.xz")), tmp_path)
    with read_only(tmp_path / DATA) as disks:
        ((code, output),) = run_commands([["traces", "list", "--data", str(tmp_path / DATA)]], disks.inside)
    assert (code, "has to be upgraded" in output, REMEDY in output) == (1, True, True)


@pytest.mark.costly("collector/cli", "collector/local_api.py", "collector/mcp", "storage")
def test_a_backup_is_read_where_it_lies(stopped: Path, tmp_path: Path) -> None:
    """A backup, which has no lock and no spool, is read from a read-only disk, also by a model, and checked there."""
    assert run("backup", tmp_path / "backup", "--data", stopped).exit_code == 0

    async def rows(inside: Sequence[str]) -> object:
        arguments = [*inside[1:], TRACEJURY, "mcp", "--data", str(tmp_path / "backup")]
        async with Client(StdioServerParameters(command=inside[0], args=arguments)) as client:
            answer = await client.call_tool("query_sql", {"sql": "SELECT count(*) > 0 FROM spans"})
        return (answer.structured_content or {})["rows"]

    with read_only(tmp_path / "backup") as disks:
        show, check = ["traces", "show", TRACE, "--data", str(tmp_path / "backup")], ["check", str(tmp_path / "backup")]
        shown, checked = run_commands([show, check], disks.inside)
        assert (shown[0], TRACE in shown[1]) == (0, True)
        assert (checked[0], checked[1].endswith("no damage\n")) == (0, True), checked[1]
        assert asyncio.run(rows(disks.inside)) == [[True]]


def test_a_server_and_readers_exclude_each_other(stopped: Path, tmp_path: Path) -> None:
    """Readers share a read-only directory, which no server opens meanwhile, and none reads it while a server runs."""
    data = Path(shutil.copytree(stopped, tmp_path / "data"))
    read = ["traces", "show", TRACE, "--data", str(data)]
    with read_only(data) as disks:
        hold = [*disks.inside, sys.executable, "-c", HOLD, str(data)]
        with forking.start(hold, stdin=forking.PIPE, stdout=forking.PIPE) as reader:
            assert reader.stdout is not None
            assert reader.stdout.readline() == b"open\n"
            assert [code for code, _ in run_commands([read], disks.inside)] == [0]
            with pytest.raises(InUse):
                Store.open(data)
            reader.communicate(b"")
        with a_store(data):
            ((code, output),) = run_commands([read], disks.inside)
    assert (code, "in use by another Tracejury" in output) == (1, True)
