"""Reading of the lake: what moved there is read as if it had stayed, by every way that leads to it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from collector.app import Running
from collector.sample import SampleReport, send_sample
from storage import sql
from storage.lake.catalog import COLD_TABLES
from storage.store import Store
from tests.lake import Place, a_place, publish_all
from tests.live import until
from tests.log_requests import a_log, a_log_export
from tests.matching import write
from tests.serving import a_server, post
from tests.storing import WAIT_S, rows

pytestmark = pytest.mark.costly("storage/lake", "storage/queries", "storage/query", "storage/views", "storage/engine")

RULE = """
name: judged
conditions:
  - {field: name, op: contains, value: tool}
evaluator: regex
config: {pattern: x}
"""
PATHS = (
    "/jaeger/api/services",
    "/jaeger/api/traces?service=support-agent&limit=10",
    "/api/v1/traces?rule=judged",
    "/api/v1/traces?size=2&text=a&status=ok",
    "/api/v1/traces?attribute=gen_ai.operation.name%3Dchat",
    "/api/v1/sessions?size=1",
    "/api/v1/quality?rule=judged&days=30",
    "/api/v1/quality?rule=judged&days=30&by=release",
    "/api/v1/jobs",
    "/api/v1/export/spans?from=2020-01-01T00:00:00Z&to=2100-01-01T00:00:00Z&format=otlp-json",
)
FAR_FUTURE = "2100-01-01"


@pytest.fixture(params=["file", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Yield a lake in a directory, and one in an object store."""
    with a_place(request.param, tmp_path / "place") as made:
        yield made


def move(store: Store, lake: str, trace_ids: list[str]) -> None:
    """Publish everything, and then leave some traces to the lake alone."""
    publish_all(store.lake(lake))
    ((batch, seq),) = rows(store, "SELECT (SELECT max(batch) FROM span) + 1, (SELECT max(seq) FROM span) + 1")
    write(store, "DELETE FROM lake_boundary")
    write(
        store,
        "INSERT INTO lake_boundary SELECT DISTINCT directory_id, $day::DATE, $batch, $seq FROM lake_position",
        {"day": FAR_FUTURE, "batch": batch, "seq": seq},
    )
    ids = ", ".join(f"'{trace_id}'" for trace_id in trace_ids)
    sums = sql.query("sum_evaluations").replace("$by_day", sql.select_of("evaluation_by_day"))
    sums = sums.replace("SELECT seq FROM leaving_spans", f"SELECT seq FROM span WHERE trace_id IN ({ids})")
    write(store, sums, {"first_seq": 0, "last_seq": seq})
    of_spans = f"SELECT seq FROM span WHERE trace_id IN ({ids})"
    write(store, f"DELETE FROM superseded WHERE job_id IN (SELECT job_id FROM evaluation WHERE trace_id IN ({ids}))")
    write(store, f"DELETE FROM decision WHERE seq IN ({of_spans})")
    for table in COLD_TABLES:
        if table not in {"superseded", "decision"}:
            write(store, f"DELETE FROM {table} WHERE trace_id IN ({ids})")


def a_filled(server: Running) -> SampleReport:
    """Send a sample with logs, and wait for its sums and results."""
    report = send_sample(grpc=server.grpc, otlp_http=server.otlp_http)
    records = [a_log(number, trace=int(report.trace_ids[number], 16) - 1) for number in range(3)]
    post(f"http://{server.otlp_http}/v1/logs", a_log_export(*records).SerializeToString())
    assert server.store.wait_committed(WAIT_S)
    assert server.traces.wait_idle(WAIT_S)
    assert server.pipeline.matcher.wait_matched(WAIT_S)
    counts = "SELECT (SELECT count(*) FROM decision) > 0, (SELECT count(*) FROM job)"
    until(lambda: rows(server.store, counts), lambda counts: counts == [(True, 0)])
    return report


def answers(server: Running, trace_ids: list[str]) -> dict[str, Any]:
    """Return the answers to everything that reads traces."""
    answered: dict[str, Any] = {}
    with httpx.Client(base_url=f"http://{server.http}", trust_env=False, timeout=60) as client:
        for view in sql.documented_views():
            body = {"sql": f"SELECT * FROM {view} ORDER BY ALL"}
            answer = client.post("/api/v1/sql", json=body)
            assert answer.status_code == 200, (view, answer.text)
            answered[view] = answer.json()
        paths = ["/api/v1/traces", "/api/v1/sessions", *PATHS]
        for trace_id in trace_ids:
            paths += [f"/api/v1/traces/{trace_id}", f"/api/v1/traces/{trace_id}/otlp", f"/jaeger/api/traces/{trace_id}"]
        paths += [f"/api/v1/sessions/{session}" for (session,) in rows(server.store, "SELECT session_id FROM sessions")]
        for path in paths:
            answer = client.get(path)
            assert answer.status_code == 200, (path, answer.text)
            answered[path] = answer.text
    return answered


def test_what_moved_answers_as_before(place: Place, tmp_path: Path) -> None:
    """Each view, list, trace, session, export and Jaeger answer is the same with all traces here and most moved."""
    (rules := tmp_path / "rules").mkdir()
    (rules / "judged.yaml").write_text(RULE, encoding="utf-8")
    with a_server(tmp_path / "data", lake=place.uri, lake_interval_seconds=3600, rules=rules) as server:
        ids = list(a_filled(server).trace_ids)
        before = answers(server, ids)
        move(server.store, place.uri, ids[1:])
        assert len(rows(server.store, "SELECT DISTINCT trace_id FROM tracejury.span")) == 1
        after = answers(server, ids)
    assert [name for name, answer in before.items() if after[name] != answer] == []
