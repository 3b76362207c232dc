"""Runs that are kept beyond their expiry."""

from pathlib import Path

from tests.offline import an_offline_server
from tests.serving import run

ITEM = {"itemKey": "a", "actualOutputs": {"output": "4"}, "evalResults": [{"name": "exact", "score": 1.0}]}


def test_a_pinned_run_outlives_its_expiry(tmp_path: Path) -> None:
    """A run that is pinned, by any of the ways, stays with its items until it is unpinned; deleting it still works."""
    with an_offline_server(tmp_path / "data") as api:
        kept, by_command, deleted = api.begin(), api.begin(), api.begin()
        for each in (kept, by_command, deleted):
            api.report(each, ITEM)
            api.end(each)
            assert api.ask("GET", f"runs/{each}")["pinned"] is False
        for _ in range(2):
            assert api.ask("POST", f"runs/{kept}/pin") == {"runId": kept, "pinned": True}
        assert run("runs", "pin", by_command, "--server", api.url).exit_code == 0
        api.ask("POST", f"runs/{deleted}/pin")
        api.ask("DELETE", f"runs/{deleted}", 204)
        assert api.running is not None
        expire = api.running.store.runs.expire
        assert expire(before_us=1 << 52) == 0
        assert api.sql("SELECT count(*), bool_and(pinned) FROM runs") == [[2, True]]
        assert api.ask("GET", f"runs/{kept}")["totalItems"] == 1
        assert run("runs", "unpin", by_command, "--server", api.url).exit_code == 0
        assert expire(before_us=1 << 52) == 1
        assert api.ask("DELETE", f"runs/{kept}/pin") == {"runId": kept, "pinned": False}
        assert expire(before_us=1 << 52) == 1
        api.ask("POST", f"runs/{kept}/pin", 404)
