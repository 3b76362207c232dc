"""Cost of a sweep: a store is filled with expired spans, which are deleted while new ones arrive.

python -m benchmarks.retention --spans 10000000 --directory /var/tmp
"""

from __future__ import annotations

import argparse
import resource
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.spans import Requests
from collector.otlp.decode import Request, decode
from storage.engine.database import FILE_NAME, ROW_GROUP_ROWS
from storage.ingest.batch import SpanBatch
from storage.ingest.writer import WriterOptions
from storage.store import Store, StoreOptions

SPANS: Final = 512
REQUESTS: Final = ROW_GROUP_ROWS // SPANS
BYTES_PER_SPAN: Final = 1_000  # more than a span takes
RATE: Final = 8_000  # spans a second while the sweep runs
WAIT_S: Final = 600.0
DAY_US: Final = 86_400_000_000
AROUND_S: Final = 3.0  # of ingest before and after the sweep


def main() -> None:
    """Fill, sweep, and print the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=1_000_000)
    parser.add_argument("--days", type=int, help="let so many days of --spans each pass, of which three are kept")
    parser.add_argument("--directory", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as folder:
        if shutil.disk_usage(folder).free < options.spans * BYTES_PER_SPAN:
            raise SystemExit(f"{folder} has too little room for {options.spans} spans")
        kept = WriterOptions(retention_days=30 if options.days is None else 3)
        with Store.open(Path(folder), StoreOptions(writer=kept)) as store:
            if options.days is not None:
                _let_days_pass(store, Path(folder) / FILE_NAME, options.days, options.spans)
                return
            _fill(store, options.spans)
            _measure(store, Path(folder) / FILE_NAME)


def _groups(requests: Requests, received_at_us: int | None = None) -> Iterator[SpanBatch]:
    while True:
        bodies = [Request(body=requests.next().body, tenant="") for _ in range(REQUESTS)]
        yield decode(bodies, received_at_us=received_at_us or time.time_ns() // 1000).batch


def _let_days_pass(store: Store, file: Path, days: int, spans: int) -> None:
    """Store a day's spans as if they came then, and sweep at its end."""
    requests, first_us = Requests(SPANS), time.time_ns() // 1000
    for day in range(days):
        groups = _groups(requests, first_us + day * DAY_US)
        for _ in range(spans // ROW_GROUP_ROWS):
            store.append([next(groups)])
            while store.backlog_bytes > 16 << 20:
                time.sleep(0.01)
        assert store.wait_committed(WAIT_S)
        swept = store.retention.sweep(now_us=first_us + (day + 1) * DAY_US)
        size = file.stat()
        print(
            f"day {day + 1}: {swept.spans:,} spans left; file {size.st_size >> 20} MiB, on the disk "
            f"{size.st_blocks >> 11} MiB, memory {_memory_mib()} MiB",
            flush=True,
        )


def _fill(store: Store, spans: int) -> None:
    """Store them, of three rules a decision each."""
    groups = _groups(Requests(SPANS))
    start_s = time.monotonic()
    for _ in range(spans // ROW_GROUP_ROWS):
        store.append([next(groups)])
        while store.backlog_bytes > 16 << 20:
            time.sleep(0.01)
    assert store.wait_committed(WAIT_S)
    readings = "UPDATE span SET span_type = 'llm', model = name, session_id = trace_id"
    decisions = """INSERT INTO decision (revision, seq, outcome, clause, decided_at)
        SELECT r.range, seq, 1, NULL, received_at FROM range(3) AS r, span"""
    for statement in (readings, decisions):
        store._writer.store(lambda cursor, text=statement: cursor.execute(text), spans)  # type: ignore[misc] # noqa: SLF001 - as the parts do that are not here
    print(f"filled with {store.totals.stored:,} spans in {time.monotonic() - start_s:.0f} s")


def _measure(store: Store, file: Path) -> None:
    before = file.stat()
    peak = _peak_mib()
    cutoff_us = time.time_ns() // 1000 + 30 * DAY_US
    with _ingesting(store) as answers_s:
        time.sleep(AROUND_S)
        start_s = time.monotonic()
        swept = store.retention.sweep(now_us=cutoff_us)
        took_s = time.monotonic() - start_s
        time.sleep(AROUND_S)
    assert store.wait_committed(WAIT_S)
    after = file.stat()
    assert swept.freed_bytes is not None
    print(
        f"swept {swept.spans:,} spans of {swept.traces:,} traces in {took_s:.1f} s; "
        f"freed {swept.freed_bytes >> 20:,} MiB\n"
        f"file {before.st_size >> 20:,} -> {after.st_size >> 20:,} MiB, on the disk {before.st_blocks >> 11:,} -> "
        f"{after.st_blocks >> 11:,} MiB\n"
        f"{len(answers_s)} answers meanwhile, ms: p50 {1e3 * median(answers_s):.0f}, max {1e3 * max(answers_s):.0f}\n"
        f"peak memory before {peak:,.0f} MiB, after {_peak_mib():,.0f} MiB"
    )


@contextmanager
def _ingesting(store: Store) -> Iterator[list[float]]:
    """Append spans of a running time, and say how long each answer took."""
    answers_s: list[float] = []
    done = threading.Event()

    def ingest() -> None:
        groups = _groups(Requests(SPANS))
        while not done.wait(ROW_GROUP_ROWS / RATE):
            group = next(groups)
            for part in (group.slice(0, ROW_GROUP_ROWS // 2), group.slice(ROW_GROUP_ROWS // 2, ROW_GROUP_ROWS)):
                start_s = time.monotonic()
                store.append([part])
                answers_s.append(time.monotonic() - start_s)

    thread = threading.Thread(target=ingest)
    thread.start()
    try:
        yield answers_s
    finally:
        done.set()
        thread.join()


def _memory_mib() -> int:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) >> 10


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
