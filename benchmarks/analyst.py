"""Analyst's queries over many spans, and the same over plain tables: `python -m benchmarks.analyst --spans 10000000`.

The server runs with its default settings. The plain tables are copies of what the views show, in a DuckDB file of their
own with as many threads and as much memory, so the ratio is what the views and the way over HTTP cost.
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import duckdb
import httpx

from benchmarks.filling import as_served
from benchmarks.machine import describe
from benchmarks.panels import documented_queries
from benchmarks.server import Server, tracejury
from benchmarks.spans import Requests
from collector.machine import share_of_memory, share_of_threads
from collector.otlp.decode import Request, decode
from collector.reading.updater import TraceUpdater
from storage.ingest.writer import WriterOptions
from storage.store import Store, StoreOptions

QUESTIONS: Final = Path(__file__).with_name("questions.sql")
SEED_SPANS: Final = 204_800  # that are sent; the others are these again, with other ids, at other times
SPANS: Final = 512
DAYS: Final = 30
BATCHES: Final = 1_000  # numbers of commits that each copy has to itself
BYTES_PER_SPAN: Final = 2_500
WAIT_S: Final = 600.0
TIMES: Final = 3
VIEWS: Final = ("spans", "traces", "tool_calls", "evaluations", "decisions", "logs")

COPY: Final = {
    "span": "trace_id, start_time, end_time, received_at, batch, seq",
    "trace_part": "trace_id, trace_key, start_time, last_start_time, end_time, root_start_time, expires_at, batch",
    "trace_reading": "trace_id, trace_key, start_time, last_start_time, end_time, expires_at",
    "tool_call": "trace_id, start_time, end_time",
}
_TRACE: Final = "trace_id[:28] || printf('%04x', $copy::INTEGER)"
OTHERWISE: Final = {
    "trace_id": _TRACE,
    "trace_key": f"('0x' || ({_TRACE})[17:])::UBIGINT",
    "batch": f"batch + $copy * {BATCHES}",
    "seq": f"seq + (($copy * {BATCHES}::BIGINT) << 20)",
}
"""The columns that differ in a copy, besides times, which are earlier."""

EVALUATED: Final = """
    INSERT INTO evaluation BY NAME
    SELECT
        row_number() OVER () AS job_id, 900002 AS revision, seq, tenant, project, trace_id, span_id,
        service_version AS release, 0 AS round, 'Length' AS name, 'scored' AS outcome, 'fingerprint' AS fingerprint,
        (hash(seq) % 1000) / 1000 AS score, hash(seq) % 1000 >= 100 AS passed, 0.1 AS threshold, 1 AS attempts,
        row_number() OVER () AS number, received_at AS created_at
    FROM span WHERE seq % 4 = 0
"""
REVISION: Final = """
    INSERT INTO rule_revision BY NAME
    SELECT
        900002 AS revision, 'rule-of-spans' AS rule_id, '' AS tenant, 'digest' AS digest, 'tidy' AS rule,
        'SPAN' AS target, 'length' AS evaluator, '{}' AS document, [] AS clauses, now()::TIMESTAMP AS created_at
"""


class Question(NamedTuple):
    """A statement and its description."""

    asks: str
    text: str


def main() -> None:
    """Fill a store, run all statements on both, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=10_000_000)
    parser.add_argument("--directory", type=Path, help="where the files are made, and removed again")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tracejury-analyst-", dir=options.directory) as folder:
        data = Path(folder) / "data"
        if shutil.disk_usage(folder).free < options.spans * BYTES_PER_SPAN:
            raise SystemExit(f"{folder} has too little room for {options.spans} spans")
        began_s = time.monotonic()
        spans = fill_views(data, options.spans)
        print(f"filled with {spans:,} spans in {time.monotonic() - began_s:.0f} s", flush=True)
        plain = _copy(data, Path(folder) / "plain.duckdb")
        try:
            _compare(data, plain)
        finally:
            plain.close()
        print(describe(Path(folder)))


def questions() -> Iterator[Question]:
    """Yield the questions of the docs, and those of the file."""
    for text in documented_queries():
        comment = re.match(r"/\*(.*?)\*/", text)
        yield Question(f"docs: {comment[1].strip() if comment else ''}", text)
    for block in QUESTIONS.read_text(encoding="utf-8").split("-- ")[1:]:
        asks, _, text = block.partition("\n")
        yield Question(asks, text.strip().rstrip(";"))


def fill_views(data: Path, spans: int) -> int:
    """Send some spans, and copy their rows until there are about `spans`; return how many."""
    reads = as_served()
    with closing(Store.open(data, StoreOptions(writer=WriterOptions(reads=reads)))) as store:
        requests = Requests(SPANS)
        for _ in range(SEED_SPANS // SPANS // 16):
            bodies = [Request(body=requests.next().body) for _ in range(16)]
            store.append([decode(bodies, received_at_us=time.time_ns() // 1000).batch])
            while store.overload:
                time.sleep(0.01)
        assert store.wait_committed(WAIT_S)
        traces = TraceUpdater(store.trace_meanings, reads, ingest_is_behind=lambda: False)
        traces.start()
        assert traces.wait_idle(WAIT_S)
        traces.close()

        def write(text: str, **values: object) -> None:
            store._writer.store(lambda cursor: cursor.execute(text, values or None), SEED_SPANS)  # noqa: SLF001 - as ingest does

        seeds, from_us = store.totals.stored, _first_start_us(store)
        copies = max(spans // seeds - 1, 0)
        for copy in range(1, copies + 1):
            shift_us = copy * DAYS * 86_400_000_000 // (copies + 1)
            for table, columns in COPY.items():
                write(_copying(table, columns.split(", ")), copy=copy, shift_us=shift_us, from_us=from_us)
        write(f"UPDATE ingest_state SET batch = batch + {(copies + 1) * BATCHES}, stored = {seeds * (copies + 1)}")
        write("UPDATE trace_state SET batch = (SELECT batch FROM ingest_state)")
        write(REVISION)
        write(EVALUATED)
    return seeds * (copies + 1)


def _first_start_us(store: Store) -> int:
    ((first_us,),) = store.queries.sql("SELECT epoch_us(min(start_time)) FROM spans", max_rows=1, timeout_s=WAIT_S).rows
    return int(str(first_us))


def _copying(table: str, columns: list[str]) -> str:
    """Return the statement that stores the rows again, with earlier times."""
    replaced = ", ".join(
        f"{OTHERWISE.get(name) or f'({name} - to_microseconds($shift_us))::{_kind(name)}'} AS {name}"
        for name in columns
    )
    return f"INSERT INTO {table} SELECT * REPLACE ({replaced}) FROM {table} WHERE epoch_us(start_time) >= $from_us"


def _kind(name: str) -> str:
    return "TIMESTAMP" if name in ("received_at", "expires_at") else "TIMESTAMP_NS"


def _copy(data: Path, file: Path) -> duckdb.DuckDBPyConnection:
    """Copy the views into plain tables."""
    plain = duckdb.connect(
        str(file), config={"memory_limit": f"{share_of_memory() >> 20}MiB", "threads": share_of_threads()}
    )
    plain.execute(f"ATTACH '{data / 'tracejury.duckdb'}' AS stored (READ_ONLY)")
    plain.execute("USE stored")
    for view in VIEWS:
        plain.execute(f"CREATE TABLE plain.{view} AS SELECT * FROM stored.{view}")
    plain.execute("USE plain")
    plain.execute("DETACH stored")
    return plain


def _compare(data: Path, plain: duckdb.DuckDBPyConnection) -> None:
    with Server(tracejury(data), data) as server, httpx.Client(base_url=server.api, timeout=120) as client:

        def asked(text: str) -> str | None:
            answer = client.post("/api/v1/sql", json={"sql": text})
            return None if answer.is_success else str(answer.json().get("detail"))

        def of_plain(text: str) -> None:
            plain.execute(text).fetchmany(10_000)

        print("| question | here, ms | plain tables, ms | ratio |\n|---|--:|--:|--:|", flush=True)
        for question in questions():
            took_ms, why = _best(asked, question.text)
            plain_ms, _ = _best(of_plain, question.text)
            cells = why or f"{took_ms:,.0f} | {plain_ms:,.0f} | {took_ms / plain_ms:.2f}"
            print(f"| {question.asks} | {cells} |", flush=True)
        server.stop()


def _best(ask: Callable[[str], str | None], text: str) -> tuple[float, str | None]:
    """Return the best of some times, in milliseconds, and the reason if it was not answered."""
    least, why = float("inf"), None
    for _ in range(TIMES):
        began_s = time.perf_counter()
        why = ask(text)
        least = min(least, (time.perf_counter() - began_s) * 1e3)
        if why:
            break
    return least, why


if __name__ == "__main__":
    main()
