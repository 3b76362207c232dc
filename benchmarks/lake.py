"""Queries over days that are only in the lake: `python -m benchmarks.lake --spans 10000000`.

One day of traffic is stored through the product, and copied to earlier days. Each day is published by the product's
publisher. What is older than `lake_hot_days` then leaves the database at once, since a move by the mover is not what is
measured. A server with default settings tidies the lake, and answers.
"""

from __future__ import annotations

import argparse
import datetime as dt
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Final, NamedTuple

import httpx

from benchmarks.analyst import COPY, OTHERWISE, WAIT_S
from benchmarks.filling import as_served
from benchmarks.machine import describe
from benchmarks.server import Server, tracejury
from benchmarks.spans import SPANS_PER_TRACE, Requests
from collector.otlp.decode import Request, decode
from collector.reading.updater import TraceUpdater
from collector.settings import Settings
from storage import sql
from storage.ingest.writer import WriterOptions
from storage.lake import publishing
from storage.lake.tables import LAKE_TABLES
from storage.store import Store, StoreOptions

SPANS: Final = 512  # of a request
HOT_DAYS: Final = Settings().lake_hot_days
BYTES_PER_SPAN: Final = 1_500
TIMES: Final = 10
BLOCK_DAYS: Final = 8  # leave the database together
_DAY: Final = dt.timedelta(days=1)

PER_DAY: Final = """
    SELECT start_time::DATE AS "day", model, count(*), sum(cost_usd)
    FROM spans
    WHERE start_time >= TIMESTAMP '{from_}' AND start_time < TIMESTAMP '{to}' AND span_type = 'llm'
    GROUP BY ALL ORDER BY ALL
"""


class Took(NamedTuple):
    """Times of one query, in milliseconds, and the server's processor time for each."""

    first: float
    p50: float
    most: float
    cpu: float


def main() -> None:
    """Fill a lake, query it, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=10_000_000)
    parser.add_argument("--days", type=int, default=80, help="of which nine tenths are only in the lake")
    parser.add_argument("--directory", type=Path, help="where the files are made, and removed again")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tracejury-lake-", dir=options.directory) as folder:
        if shutil.disk_usage(folder).free < options.spans * BYTES_PER_SPAN:
            raise SystemExit(f"{folder} has too little room for {options.spans} spans")
        data, lake = Path(folder) / "data", Path(folder) / "lake"
        began_s = time.monotonic()
        stored, moved = fill(data, str(lake), options.spans, options.days)
        took_s = time.monotonic() - began_s
        print(f"{stored:,} spans, of which {moved:,} only in the lake, made in {took_s:.0f} s", flush=True)
        measure(data, str(lake), options.days)
        print(describe(Path(folder)))


def fill(data: Path, uri: str, spans: int, days: int) -> tuple[int, int]:
    """Store and publish days of spans, of which the older ones leave; return how many, and how many have left."""
    reads = as_served()
    with closing(Store.open(data, StoreOptions(writer=WriterOptions(reads=reads)))) as store:

        def write(text: str, **values: object) -> None:
            store._writer.store(lambda cursor: cursor.execute(text, values or None), SPANS)  # noqa: SLF001 - as ingest

        seeds = _seed(store, max(spans // days // SPANS, 1))
        with store._database.cursor() as cursor:  # noqa: SLF001
            ((batches,),) = cursor.execute("SELECT batch FROM ingest_state").fetchall()
        for table in COPY:
            write(f"CREATE TABLE seed_{table} AS FROM {table}")
            write(f"DELETE FROM {table}")
        lake, moved = store.lake(uri), 0
        upkeep, now = store.lake_upkeep(lake), dt.datetime.now(dt.UTC)
        for number in range(days):
            day = now - dt.timedelta(days=days - 1 - number)
            for table, columns in COPY.items():
                write(_copying(table, columns, number + 1, batches, days - 1 - number))
            write(f"UPDATE ingest_state SET batch = {(number + 2) * batches}, stored = stored + {seeds}")
            write("UPDATE trace_state SET batch = (SELECT batch FROM ingest_state)")
            write("UPDATE matching_state SET seq = (SELECT max(seq) FROM span)")
            _publish(lake, day)
            if number % BLOCK_DAYS == BLOCK_DAYS - 1 and number < days - HOT_DAYS - 1:
                upkeep.move_boundary(day.date() + _DAY)
                for table in COPY:
                    write(f"DELETE FROM {table}")
                write(sql.query("count_moved"), traces=seeds * BLOCK_DAYS // SPANS_PER_TRACE, spans=seeds * BLOCK_DAYS)
                moved += seeds * BLOCK_DAYS
            print(f"{day:%Y-%m-%d}", end=" ", flush=True)
        for table in COPY:
            write(f"DROP TABLE seed_{table}")
        print()
    return seeds * days, moved


def _seed(store: Store, requests: int) -> int:
    """Store a day of spans; return how many."""
    made = Requests(SPANS)
    for begin in range(0, requests, 16):
        bodies = [Request(body=made.next().body) for _ in range(min(16, requests - begin))]
        store.append([decode(bodies, received_at_us=time.time_ns() // 1000).batch])
        assert store.wait_committed(WAIT_S)
    traces = TraceUpdater(store.trace_meanings, as_served(), ingest_is_behind=lambda: False)
    traces.start()
    assert traces.wait_idle(WAIT_S)
    traces.close()
    return store.totals.stored


def _copying(table: str, columns: str, copy: int, batches: int, days: int) -> str:
    """Return the statement that stores the seeds again, days earlier and with later numbers."""
    otherwise = OTHERWISE | {
        "batch": f"batch + {copy * batches}",
        "seq": f"seq + ({copy * batches}::BIGINT << 20)",
        "expires_at": "expires_at + INTERVAL 1000 DAY",
        "write_number": "nextval('write_number')",
    }
    values = {
        name: otherwise.get(name, f"{name} - INTERVAL {days} DAY").replace("$copy", str(copy))
        for name in (*columns.split(", "), "write_number")
    }
    replaced = ", ".join(f"{value} AS {name}" for name, value in values.items())
    return f"INSERT INTO {table} SELECT * REPLACE ({replaced}) FROM seed_{table}"


def _publish(lake: publishing.Lake, day: dt.datetime) -> None:
    """Publish all rows, as on a day: tables without a time are partitioned by the day of publication."""
    vars(publishing)["dt"] = SimpleNamespace(UTC=dt.UTC, datetime=SimpleNamespace(now=lambda _: day))
    for table in LAKE_TABLES:
        while lake.publish(table):
            pass
    vars(publishing)["dt"] = dt


def measure(data: Path, uri: str, days: int) -> None:
    """Start a server, wait until it has tidied the lake, and print how long its answers take."""
    settings = {"TRACEJURY_LAKE": uri}
    with Server(tracejury(data), data, settings=settings) as server, httpx.Client(base_url=server.api) as client:
        client.timeout = httpx.Timeout(600)
        began_s, began_cpu_s = time.monotonic(), server.cpu_s()
        while (status := client.get("/api/v1/status").json()["server"]["lake"])["maintainedAt"] is None:
            if status["waiting"]:
                raise RuntimeError(status["waiting"])
            time.sleep(1)
        files, nbytes = status["files"], status["sizeBytes"] / 1e9
        cpu_s = server.cpu_s() - began_cpu_s
        print(f"tidied in {time.monotonic() - began_s:.0f} s ({cpu_s:.0f} s of CPU): {files} files, {nbytes:.1f} GB")
        print("| query | first, ms | p50, ms | max, ms | CPU, ms |\n|---|--:|--:|--:|--:|", flush=True)
        for name, requests in _queries(client, days).items():
            took = _time(server, requests)
            print(f"| {name} | {took.first:.0f} | {took.p50:.0f} | {took.most:.0f} | {took.cpu:.0f} |", flush=True)
        server.stop()


def _queries(client: httpx.Client, stored_days: int) -> dict[str, Sequence[Callable[[], httpx.Response]]]:
    """Return the requests of each query, each about another day or trace of the lake."""

    def sql_of(text: str) -> Callable[[], httpx.Response]:
        return partial(client.post, "/api/v1/sql", json={"sql": text})

    today = dt.datetime.now(dt.UTC).date()
    first, cold = today - dt.timedelta(days=stored_days - 2), stored_days - HOT_DAYS - 2
    days = [first + number * cold // TIMES * _DAY for number in range(TIMES)]
    traces = []
    for day in days:
        within = f"start_time >= DATE '{day}' AND start_time < DATE '{day + _DAY}'"
        answer = sql_of(f"SELECT trace_id, start_time FROM traces WHERE {within} LIMIT 1")()
        traces += answer.raise_for_status().json()["rows"]
    return {
        "a trace by its id": [partial(client.get, f"/api/v1/traces/{trace_id}") for trace_id, _ in traces],
        "the spans of a trace whose start is known": [
            sql_of(
                f"FROM spans WHERE trace_id = '{trace_id}' AND start_time BETWEEN '{time_}'::TIMESTAMP"
                f" - INTERVAL 1 HOUR AND '{time_}'::TIMESTAMP + INTERVAL 1 HOUR"
            )
            for trace_id, time_ in traces
        ],
        "the newest 50 traces of a day": [
            partial(client.get, f"/api/v1/traces?size=50&from={day}T00:00:00Z&to={day + _DAY}T00:00:00Z")
            for day in days
        ],
        "cost by model and day over 30 days": [
            sql_of(PER_DAY.format(from_=day, to=day + 30 * _DAY)) for day in days[: TIMES // 2]
        ],
        "the newest 50 traces": [partial(client.get, "/api/v1/traces?size=50")] * TIMES,
    }


def _time(server: Server, requests: Sequence[Callable[[], httpx.Response]]) -> Took:
    """Time each request; an empty answer is an error."""
    took_ms, began_cpu_s = [], server.cpu_s()
    for request in requests:
        start_s = time.perf_counter()
        answer = request()
        took_ms.append((time.perf_counter() - start_s) * 1e3)
        content = answer.raise_for_status().json()
        if not (content.get("rows") or content.get("spans") or content.get("content")):
            raise RuntimeError(f"{answer.request.url} is empty: {answer.text[:200]}")
    cpu_ms = (server.cpu_s() - began_cpu_s) * 1e3 / len(requests)
    return Took(first=took_ms[0], p50=median(took_ms[1:]), most=max(took_ms[1:]), cpu=cpu_ms)


if __name__ == "__main__":
    main()
