"""A server whose lake was switched off says what it does not show, and deletes nothing."""

from pathlib import Path

import httpx
import pytest

from tests.lake import a_place
from tests.live import until
from tests.serving import a_server, run
from tests.storing import trace_id
from tests.test_lake_moving import a_trace, days

pytestmark = pytest.mark.costly("storage/lake", "collector/live/upkeep", "collector/api/traces", "collector/cli")


def test_what_moved_is_reported_while_the_lake_is_switched_off(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log, the status, its page, a trace by id and the commands say so, and no deletion is accepted."""
    data = tmp_path / "data"
    with a_place("file", tmp_path / "place") as folder:
        with days(data, folder) as made:
            made.send(0, a_trace(0, 0), a_trace(1, 0))
            made.publish()
            made.move(3)
            assert made.hot() == []
        reason = "2 traces with 6 spans moved to a lake and are not read, because none is set; set TRACEJURY_LAKE"
        with a_server(data) as server, client_of(server.http) as client:
            until(lambda: [each["name"] for each in client.get("/api/v1/status").json()["server"]["conditions"]], bool)
            (condition,) = client.get("/api/v1/status").json()["server"]["conditions"]
            assert condition["name"] == "lake_not_set"
            assert reason in condition["message"]
            assert reason in caplog.text
            assert "lake_not_set" in client.get("/status").text
            path = f"/api/v1/traces/{trace_id(0)}"
            for answer, status in ((client.get(path), 404), (client.get(f"/traces/{trace_id(0)}"), 404)):
                assert answer.status_code == status
                assert reason in answer.text
            for answer in (client.delete(path), client.delete("/api/v1/traces", params={"project": "shop"})):
                assert answer.status_code == 409
                assert reason in answer.text
            deleted = run("delete", "--trace", trace_id(0), "--yes", "--server", f"http://{server.http}")
            assert deleted.exit_code == 1
            assert "TRACEJURY_LAKE" in deleted.output
        with a_server(data, lake=folder.uri) as server, client_of(server.http) as client:
            assert client.get(path).status_code == 200
            until(lambda: client.delete(path).status_code, {200, 202}.__contains__)
            (deletion,) = until(
                lambda: client.get("/api/v1/deletions").json()["content"], lambda each: each[0]["deletedTraces"]
            )
            assert (deletion["deletedTraces"], deletion["deletedSpans"]) == (1, 3)


def client_of(address: object) -> httpx.Client:
    """Return a client of a server."""
    return httpx.Client(base_url=f"http://{address}", trust_env=False, timeout=60)
