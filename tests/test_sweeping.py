"""Sweeps of the running server: over HTTP and the command line, beside ingest, and killed on the way."""

import json
import random
import threading
import time
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.live import PATIENCE_S, a_live_server, until
from tests.serving import a_server, an_export, post, run
from tests.storing import trace_id
from tests.traffic import a_batch, over_http

pytestmark = pytest.mark.costly("collector/live/upkeep", "storage")

LONG_AGO = "UPDATE trace_part SET expires_at = TIMESTAMP '2020-01-01'"


def fill(url: str, *numbers: int, project: str = "shop") -> None:
    """Send traces of two spans."""
    for number in numbers:
        post(url, an_export(trace_id(number), "root", "step", project=project).SerializeToString())


def test_traces_are_pinned_and_deleted_over_http(tmp_path: Path) -> None:
    """A trace is pinned, unpinned and deleted by its id, and a missing one is 404."""
    with a_server(tmp_path) as server, httpx.Client(base_url=f"http://{server.http}", trust_env=False) as client:
        fill(f"http://{server.otlp_http}/v1/traces", 1, 2)
        assert server.store.wait_committed(PATIENCE_S)
        path = f"/api/v1/traces/{trace_id(1)}"
        assert client.post(f"{path}/pin").json() == {"traceId": trace_id(1), "pinned": ["hand"]}
        server.store._writer.store(lambda cursor: cursor.execute(LONG_AGO), 1)
        assert client.post("/api/v1/sweep", params={"dryRun": True}).json()["expiredTraces"] == 1
        assert client.post("/api/v1/sweep").json()["traces"] == 1
        assert client.delete(f"{path}/pin").json() == {"traceId": trace_id(1), "pinned": []}
        deleted = client.delete(path).json()
        assert (deleted["deletedTraces"], deleted["more"]) == (1, False)
        for gone in (client.delete(path), client.post(f"{path}/pin"), client.get(path)):
            assert gone.status_code == httpx.codes.NOT_FOUND


def test_traces_are_deleted_by_filter_over_http(tmp_path: Path) -> None:
    """A filter deletes the traces that match, no filter deletes nothing, and an invalid time is 400."""
    with a_server(tmp_path) as server, httpx.Client(base_url=f"http://{server.http}", trust_env=False) as client:
        fill(f"http://{server.otlp_http}/v1/traces", 1, 2)
        fill(f"http://{server.otlp_http}/v1/traces", 3, project="lab")
        assert server.store.wait_committed(PATIENCE_S)
        for parameters in ({}, {"before": "yesterday"}):
            assert client.delete("/api/v1/traces", params=parameters).status_code == httpx.codes.BAD_REQUEST
        before = {"before": "2020-01-01T00:00:00Z"}
        nothing = client.delete("/api/v1/traces", params=before).json()
        assert (nothing["deletedTraces"], nothing["more"], nothing["state"]) == (0, False, "done")
        assert client.delete("/api/v1/traces", params={"project": "shop"}).json()["deletedTraces"] == 2
        assert [trace["traceId"] for trace in client.get("/api/v1/traces").json()["content"]] == [trace_id(3)]


def test_the_command_sweeps_a_server_and_a_directory(tmp_path: Path) -> None:
    """`tracejury sweep` says what would leave, and lets it leave, with and without a server."""
    with a_server(tmp_path) as server:
        fill(f"http://{server.otlp_http}/v1/traces", 1, 2)
        assert server.store.wait_committed(PATIENCE_S)
        server.store._writer.store(lambda cursor: cursor.execute(f"{LONG_AGO} WHERE trace_id = '{trace_id(1)}'"), 1)
        output = run("sweep", "--dry-run", "--data", tmp_path).output
        assert output.startswith("would delete: 1 trace with 2 spans that have expired, and about 0 spans more")
        assert run("sweep", "--data", tmp_path).output.startswith("1 trace deleted with 2 spans; ")
        server.store._writer.store(lambda cursor: cursor.execute(LONG_AGO), 1)
    assert json.loads(run("sweep", "--dry-run", "--json", "--data", tmp_path).output)["expiredTraces"] == 1
    assert json.loads(run("sweep", "--json", "--data", tmp_path).output)["traces"] == 1
    assert json.loads(run("sql", "--json", "--data", tmp_path, "SELECT count(*) AS n FROM span").output) == [{"n": 0}]


def test_the_server_sweeps_by_itself(tmp_path: Path) -> None:
    """Expired traces are deleted after the interval, without a request."""
    with a_server(tmp_path, sweep_interval_seconds=0.2) as server:
        fill(f"http://{server.otlp_http}/v1/traces", 1)
        assert server.store.wait_committed(PATIENCE_S)
        server.store._writer.store(lambda cursor: cursor.execute(LONG_AGO), 1)
        until(lambda: server.store.queries.trace(trace_id(1)), lambda trace: trace is None)


@pytest.mark.timeout(900)
@pytest.mark.kill("storage/upkeep", "storage/engine")
def test_a_sweep_that_is_killed_has_done_whole_steps(tmp_path: Path, seed: int, kills: int) -> None:
    """After `kill -9` at any moment of a sweep, no trace is there in part, and the next sweep takes the rest."""
    source = random.Random(seed)
    env = {"TRACEJURY_SWEEP_INTERVAL_SECONDS": 3600, "TRACEJURY_MAX_BYTES": 16 << 20}
    for _ in range(kills):
        with a_live_server(tmp_path, env=env) as server:
            before = server.tally().committed
            with over_http(server) as send:
                for _ in range(60):
                    body = a_batch(source, 1000, text=source.randbytes(400).hex()).body
                    until(partial(send, body), lambda answer: answer.kind == "taken")
            server.committed(before + 60_000)
            asking = threading.Thread(target=_sweep_until_killed, args=(server.http,))
            asking.start()
            time.sleep(source.uniform(0.05, 1.2))
            server.kill()
            asking.join()
        with a_live_server(tmp_path, env=env) as server:
            orphans = """
                SELECT count(*)
                FROM trace_part
                FULL JOIN (SELECT trace_id, batch, count(*) AS n FROM span GROUP BY ALL) USING (trace_id, batch)
                WHERE n IS DISTINCT FROM span_count
            """
            assert server.sql(orphans) == [[0]]
            until(partial(_over, server.client, f"{server.http}/api/v1/sweep"), lambda spans: spans == 0)


def _over(client: httpx.Client, url: str) -> int:
    assert client.post(url).status_code == httpx.codes.OK
    return int(client.post(url, params={"dryRun": True}).json()["overSpans"])


def _sweep_until_killed(url: str) -> None:
    with httpx.Client(trust_env=False, timeout=PATIENCE_S) as client:
        try:
            client.post(f"{url}/api/v1/sweep")
        except httpx.TransportError:
            return


def test_answers_are_fast_while_a_sweep_runs(tmp_path: Path, seed: int) -> None:
    """Spans are taken within a second while a hundred thousand expired ones leave."""
    source = random.Random(seed)
    with a_live_server(tmp_path, env={"TRACEJURY_MAX_BYTES": 16 << 20}) as server, over_http(server) as send:
        for _ in range(100):
            body = a_batch(source, 1000, text=source.randbytes(400).hex()).body
            until(partial(send, body), lambda answer: answer.kind == "taken")
        server.committed(100_000)
        sweeping = threading.Thread(target=_sweep_until_killed, args=(server.http,))
        sweeping.start()
        took_s: list[float] = []
        while sweeping.is_alive() or len(took_s) < 5:
            body = a_batch(source, 200).body
            start_s = time.monotonic()
            assert send(body).kind == "taken"
            took_s.append(time.monotonic() - start_s)
        sweeping.join()
        assert max(took_s) < 1
        ((left,),) = server.sql("SELECT count(*) FROM span")
        assert isinstance(left, int)
        assert left < 100_000 + 200 * len(took_s)


def test_what_is_deleted_is_rubbed_out_while_spans_come(tmp_path: Path, seed: int) -> None:
    """Under ingest too, no file of the data directory holds a word of a deleted trace after the next sweep."""
    source = random.Random(seed)
    done = threading.Event()
    with a_live_server(tmp_path) as server, over_http(server) as send:

        def ingest() -> None:
            while not done.wait(0.02):
                assert send(a_batch(source, 300, text=source.randbytes(100).hex()).body).kind == "taken"

        thread = threading.Thread(target=ingest)
        thread.start()
        time.sleep(1)
        export = an_export(trace_id(1), *(f"step {number}" for number in range(100)))
        for span in export.resource_spans[0].scope_spans[0].spans:
            span.attributes.add(key="my.note").value.string_value = "what nobody may read any more"
        assert send(export.SerializeToString()).kind == "taken"
        time.sleep(2)
        until(lambda: _holding(tmp_path, b"what nobody may read"), bool)
        answer = server.client.delete(f"{server.http}/api/v1/traces/{trace_id(1)}")
        assert answer.json()["deletedTraces"] == 1, answer.text
        swept = server.client.post(f"{server.http}/api/v1/sweep", timeout=90)
        done.set()
        thread.join()
        assert swept.status_code == httpx.codes.OK, f"{swept.text}\n{server.log}"
        assert _holding(tmp_path, b"what nobody may read") == []
        both = (
            "SELECT (SELECT count(*) FROM span), (SELECT count(DISTINCT span_id) FROM span), stored FROM ingest_state"
        )
        until(lambda: server.sql(both), lambda rows: rows[0] == [rows[0][2] - 100, rows[0][2] - 100, rows[0][2]])  # type: ignore[operator] # counts


def _holding(directory: Path, words: bytes) -> list[str]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    return [path.name for path in files if path.exists() and words in path.read_bytes()]
