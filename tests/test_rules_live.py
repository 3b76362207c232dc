"""Rules of a real process: read at the start, on SIGHUP, and by polling; kept over a kill."""

import signal
from pathlib import Path

import pytest

from tests.live import ANY_PORTS, Live, a_live_server, until

RULE = "name: {}\nevaluator: tool_error\n"
IN_FORCE = 'SELECT "name", enabled, revision, origin FROM rule WHERE deleted_at IS NULL ORDER BY "name"'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with one rule."""
    made = tmp_path / "rules"
    made.mkdir()
    (made / "a.yaml").write_text(RULE.format("a"))
    return made


def names(server: Live) -> list[object]:
    """Return the names of the rules that there are."""
    return [name for name, *_ in server.sql(IN_FORCE)]


def test_a_hangup_reads_the_folder_and_ends_nothing(tmp_path: Path, folder: Path) -> None:
    """SIGHUP activates new files and reports wrong ones by file, line and key; a kill loses none of it."""
    with a_live_server(tmp_path / "data", env={"TRACEJURY_RULES": folder}) as server:
        assert names(server) == ["a"]
        (folder / "b.yaml").write_text(RULE.format("b"))
        (folder / "c.yaml").write_text("name: c\nevaluator: tool_error\ntarget: X\x1b\n")
        (folder / "d.yaml").write_text("name: d\nevaluator: tool_error\ntarget: X\n")
        server.process.send_signal(signal.SIGHUP)
        until(lambda: names(server), lambda seen: seen == ["a", "b"])
        assert "rules: d.yaml:3: target: must be one of SPAN, TRACE, SESSION (got 'X')" in server.log
        assert "rules: c.yaml:3: is not YAML" in server.log
        assert "\x1b" not in server.log
        before = server.sql(IN_FORCE)
        server.kill()
    with a_live_server(tmp_path / "data", env={"TRACEJURY_RULES": folder}) as again:
        assert again.sql(IN_FORCE) == before
        (folder / "a.yaml").unlink()
        until(lambda: names(again), lambda seen: seen == ["b"])
        assert again.stop() == 0
        assert "Traceback" not in again.log


def test_a_hangup_without_a_folder_ends_nothing(tmp_path: Path) -> None:
    """A SIGHUP that is sent to all daemons does not end this one."""
    with a_live_server(tmp_path / "data") as server:
        server.process.send_signal(signal.SIGHUP)
        assert until(lambda: server.client.get(f"{server.http}/ready").status_code, lambda code: code == 200)
        assert server.process.poll() is None
        assert server.stop() == 0


def test_the_sample_comes_with_a_rule(tmp_path: Path, folder: Path) -> None:
    """With the sample, a rule about its project is active as long as no folder is set, and gone when one is."""
    data = tmp_path / "data"
    with a_live_server(data, flags=(*ANY_PORTS, "--sample")) as server:
        assert server.sql('SELECT "name", project, origin, "file" FROM rule') == [
            ["tool errors", "sample", "FILE", "tool-errors.yaml"]
        ]
    with a_live_server(data, flags=(*ANY_PORTS, "--sample", "--rules", str(folder))) as server:
        assert names(server) == ["a"]
    with a_live_server(data) as server:
        assert names(server) == []
