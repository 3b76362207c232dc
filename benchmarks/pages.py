"""Response times of pages over many spans: a store is filled, a server started over it, and each page loaded.

python -m benchmarks.pages --spans 10000000 --directory /var/tmp
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Final
from urllib.parse import quote

import httpx

from benchmarks.filling import as_served
from benchmarks.server import Server, tracejury
from benchmarks.spans import Requests
from collector.otlp.decode import Request, decode
from storage.engine.database import ROW_GROUP_ROWS
from storage.ingest.writer import WriterOptions
from storage.store import Store, StoreOptions

SPANS: Final = 512
REQUESTS: Final = ROW_GROUP_ROWS // SPANS
BYTES_PER_SPAN: Final = 1_000
JUDGED: Final = "rule-of-spans"
WAIT_S: Final = 600.0
TIMES: Final = 21
# What reading and judging would leave, written by statements: it is the pages that are measured.
MADE: Final = (
    """
    UPDATE span SET
        span_type = 'llm', model = 'model-' || (seq % 7), input_tokens = 100, output_tokens = 20,
        edition = (SELECT max(edition) FROM edition)
    """,
    """
    INSERT INTO trace_reading BY NAME
    SELECT
        tenant, trace_id, start_time, 'where is order ' || trace_id[:12] AS input, 'it is on its way' AS "output",
        'session-' || trace_id[:3] AS session_id, 900 AS input_tokens, 120 AS output_tokens, 0.002 AS cost_usd,
        3 AS tool_call_count, trace_key, span_count, (SELECT max(edition) FROM edition) AS edition, root_name, project,
        service_name, last_start_time, end_time, span_count AS stored_span_count, error_count, expires_at
    FROM trace_roll_up
    """,
    """
    INSERT INTO rule_revision BY NAME
    SELECT
        900001 AS revision, 'rule-of-the-benchmark' AS rule_id, '' AS tenant, 'digest' AS digest, 'helpful' AS rule,
        'TRACE' AS target, 'tool-error' AS evaluator, '{}' AS document, [] AS clauses, now()::TIMESTAMP AS created_at
    """,
    """
    INSERT INTO rule_revision BY NAME
    SELECT
        900002 AS revision, 'rule-of-spans' AS rule_id, '' AS tenant, 'digest' AS digest, 'tidy' AS rule,
        'SPAN' AS target, 'length' AS evaluator, '{}' AS document, [] AS clauses, now()::TIMESTAMP AS created_at
    """,
    """
    INSERT INTO evaluation BY NAME
    SELECT
        2000000 + place AS job_id, 900002 AS revision, seq, tenant, project, trace_id, span_id,
        'release-' || (day // 6) AS release, 0 AS round, 'Length' AS name, 'scored' AS outcome,
        'fingerprint-' || (day // 15) AS fingerprint, (hash(seq) % 1000) / 1000 AS score,
        hash(seq) % 1000 >= 100 AS passed, 0.1 AS threshold, 0.001 AS cost_usd, 1 AS attempts, place AS number,
        date_trunc('day', now()::TIMESTAMP) - to_days((30 - day)::INTEGER) + to_milliseconds(place * 80) AS created_at
    FROM (
        SELECT *, row_number() OVER (ORDER BY seq) AS place, (place - 1) * 30 // count(*) OVER () AS day
        FROM span WHERE seq % 4 = 0
    )
    """,
    """
    INSERT INTO evaluation BY NAME
    SELECT
        1000000 + row_number() OVER () AS job_id, 900001 AS revision, first_batch << 20 AS seq, tenant, project,
        trace_id, 0 AS round, 'Helpful' AS name, 'scored' AS outcome, (trace_key % 100) / 100 AS score,
        trace_key % 100 >= 5 AS passed, 0.05 AS threshold, 1 AS attempts, now()::TIMESTAMP AS created_at
    FROM trace_roll_up
    """,
    """
    INSERT INTO superseded (job_id, superseded_at)
    SELECT job_id, created_at FROM evaluation WHERE revision = 900002 AND job_id % 40 = 0
    """,
    "UPDATE trace_state SET batch = (SELECT batch FROM ingest_state)",
    "UPDATE matching_state SET seq = (SELECT max(seq) FROM span)",
)


def main() -> None:
    """Fill, load pages, and print the measurements; CPU time too, as it is independent of other work."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=1_000_000)
    parser.add_argument("--directory", type=Path, help="where the store is made, and removed again")
    parser.add_argument("--keep", type=Path, help="a store that is made once and asked again each time")
    options = parser.parse_args()
    if options.keep is not None:
        if not options.keep.exists():
            fill(options.keep, options.spans)
        ask(options.keep)
        return
    with tempfile.TemporaryDirectory(dir=options.directory) as folder:
        fill(Path(folder) / "data", options.spans)
        ask(Path(folder) / "data")


def fill(data: Path, spans: int) -> None:
    """Store `spans` spans, ten a trace, with their meanings and results."""
    data.parent.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(data.parent).free < spans * BYTES_PER_SPAN:
        raise SystemExit(f"{data} has too little room for {spans} spans")
    start_s = time.monotonic()
    with closing(Store.open(data, _options())) as store:
        requests = Requests(SPANS)
        for _ in range(max(spans // ROW_GROUP_ROWS, 1)):
            bodies = [Request(body=requests.next().body, tenant="") for _ in range(REQUESTS)]
            store.append([decode(bodies, received_at_us=time.time_ns() // 1000).batch])
            while store.backlog_bytes > 16 << 20:
                time.sleep(0.01)
        assert store.wait_committed(WAIT_S)
        for statement in MADE:
            store._writer.store(lambda cursor, text=statement: cursor.execute(text), spans)  # type: ignore[misc] # noqa: SLF001 - as the parts do that are not here
        print(f"filled with {store.totals.stored:,} spans in {time.monotonic() - start_s:.0f} s", flush=True)


def _options() -> StoreOptions:
    return StoreOptions(writer=WriterOptions(reads=as_served()))


def ask(data: Path) -> None:
    """Ask for each page, and say how long it took, and how many rows of a list it showed."""
    with Server(tracejury(data), data) as server:
        with httpx.Client(base_url=server.api, timeout=60, headers={"accept": "text/html"}) as client:
            for name, path in _pages(client):
                before_s = server.cpu_s()
                took_ms, rows, size = _time(client, path)
                cpu_ms = (server.cpu_s() - before_s) * 1e3 / TIMES
                print(
                    f"{name:<30} p50 {median(took_ms[1:]):5.0f} ms  "
                    f"least {min(took_ms):5.0f} ms  max {max(took_ms[1:]):5.0f} ms  "
                    f"CPU {cpu_ms:6.0f} ms  {rows:4} rows  {size >> 10:5} KiB",
                    flush=True,
                )
        server.stop()


def _pages(client: httpx.Client) -> Iterator[tuple[str, str]]:
    listed = client.get("/api/v1/traces?size=50").json()["content"]
    trace_id = listed[0]["traceId"]
    (stored,) = _rows(client, "SELECT trace_id FROM spans LIMIT 1 OFFSET 10000")  # as they came
    session = quote(f"session-{stored[0][:3]}")
    yield "traces", "/traces"
    older = client.get("/traces").text.partition('rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")
    yield "traces, next page", older
    (middle,) = _rows(client, "SELECT epoch_ns(start_time) FROM spans LIMIT 1 OFFSET 400000")
    yield "traces, deep in the past", f"/traces?before={middle[0]}"
    yield "traces with errors", "/traces?status=error"
    yield "traces of a rule that failed", "/traces?rule=helpful&verdict=failed"
    yield "traces of a session", f"/traces?session={session}"
    yield "traces with a model", "/traces?model=model-3"
    yield "traces with an attribute", "/traces?attribute=" + quote("gen_ai.operation.name=execute_tool")
    yield "traces with a text", "/traces?text=" + quote(stored[0][:12])
    yield "traces with a text nowhere", "/traces?text=nobody+ever+wrote+this"
    yield "traces, all columns of spans", "/traces?columns=model,release,user,session"
    yield "overview", "/traces/overview"
    yield "overview of errors", "/traces/overview?status=error"
    yield "overview of a rule that failed", "/traces/overview?rule=helpful&verdict=failed"
    yield "preview of a trace", f"/traces/{trace_id}/preview"
    yield "a trace", f"/traces/{trace_id}"
    yield "an old trace", f"/traces/{stored[0]}"
    rule = {
        "name": "short",
        "evaluator": "tool_error",
        "conditions": [{"field": "span_type", "op": "=", "value": "llm"}],
    }
    made = client.post("/api/v1/projects/*/trace-eval-rules", json=rule).raise_for_status().json()
    yield "rules", "/rules"
    yield "a rule", f"/rules/{made['id']}"
    yield "a rule in its form", f"/rules/{made['id']}/edit"
    yield "quality", "/quality"
    yield "quality of a rule", f"/quality?rule={JUDGED}"
    yield "quality of a rule in a year", f"/quality?rule={JUDGED}&days=365"
    releases = "baseline=release-3&candidate=release-4"
    yield "quality of two releases", f"/quality/compare?rule={JUDGED}&{releases}"
    yield "results of a rule", f"/quality/results?rule={JUDGED}"
    yield "worst results of a rule", f"/quality/results?rule={JUDGED}&order=worst"
    client.delete(f"/api/v1/projects/*/trace-eval-rules/{made['id']}").raise_for_status()


def _rows(client: httpx.Client, statement: str) -> Sequence[list[str]]:
    answer = client.post("/api/v1/sql", json={"sql": statement}).raise_for_status()
    rows: list[list[str]] = answer.json()["rows"]
    return rows


def _time(client: httpx.Client, path: str) -> tuple[list[float], int, int]:
    took_ms, rows, size = [], 0, 0
    for _ in range(TIMES):
        start_s = time.perf_counter()
        answer = client.get(path).raise_for_status()
        took_ms.append((time.perf_counter() - start_s) * 1e3)
        rows, size = answer.text.count("data-row"), len(answer.content)
    return took_ms, rows, size


if __name__ == "__main__":
    main()
