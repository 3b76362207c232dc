"""Cost of reading spans: `python -m benchmarks.reading` prints microseconds of CPU a span, on one core.

Whole commits are read, as the writer does it: made-up spans of 1.2 kB, spans of real instrumentations in equal
parts, and each of these by itself; also the same spans one by one, and the cost of summing their traces.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Final

import pyarrow as pa

from benchmarks.recorded import RecordedRequests, dialects
from benchmarks.spans import Requests
from collector.conventions.columnar.reader import SpanReader
from collector.conventions.columnar.traces import meanings
from collector.conventions.own_keys import NO_KEYS
from collector.conventions.prices import price_table, with_costs
from collector.conventions.span import read_span
from collector.memory import collect_rarely, collecting_later
from collector.otlp.decode import Request, decode
from storage.ingest.dimensions import spelled_out
from storage.ingest.known_times import with_known_times
from storage.query.rows import spans_of

SPANS: Final = 8_192
A_REQUEST: Final = 512
ROUNDS: Final = 7
ALONE: Final = 1_024  # spans that are read one by one


def main() -> None:
    """Measure, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", action="store_true", help="also each instrumentation by itself")
    options = parser.parse_args()
    collect_rarely()  # as the server does
    print("reading a commit | one by one | adding traces up, µs a span")
    _tell("spans of 1.2 kB", Requests(A_REQUEST))
    _tell("all instrumentations in equal parts", RecordedRequests(A_REQUEST))
    for name in dialects() if options.each else ():
        _tell(name, RecordedRequests(A_REQUEST, only=name))


def _tell(name: str, requests: Requests | RecordedRequests) -> None:
    commits = [_rows(requests) for _ in range(2)]  # the second has the shapes of the first, and other texts
    reader = SpanReader(NO_KEYS)
    reader.read(commits[0])
    rows = commits[1]
    prices = price_table({})
    with collecting_later():  # as the server does
        whole_us = _least_s(lambda: with_costs(reader.read(rows).columns, prices)) / rows.num_rows * 1e6
    spans = spans_of(rows.slice(0, ALONE))
    alone_us = _least_s(lambda: [read_span(span, (), NO_KEYS) for span in spans]) / len(spans) * 1e6
    read = reader.read(rows)
    readings = rows.select(["tenant", "trace_id", "span_id", "parent_span_id", "start_time", "end_time", "scope_name"])
    for column in read.columns.column_names:
        readings = readings.append_column(column, read.texts.get(column, read.columns.column(column)))
    traces_us = _least_s(lambda: meanings(readings)) / rows.num_rows * 1e6
    print(f"{whole_us:8.1f} {alone_us:8.1f} {traces_us:8.1f}  {name}", flush=True)


def _rows(requests: Requests | RecordedRequests) -> pa.Table:
    bodies = [Request(body=requests.next().body) for _ in range(SPANS // A_REQUEST)]
    batch = decode(bodies, received_at_us=time.time_ns() // 1000).batch
    return spelled_out(with_known_times(batch.spans), batch)


def _least_s(work: Callable[[], object]) -> float:
    """Return the CPU time of the best of some rounds: other work on the machine only adds to it."""
    least = float("inf")
    for _ in range(ROUNDS):
        begun = time.process_time()
        work()
        least = min(least, time.process_time() - begun)
    return least


if __name__ == "__main__":
    main()
