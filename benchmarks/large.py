"""A file with many spans: query times, and the rate of ingest beside that into an empty file."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final

import httpx

from benchmarks.generator import Job
from benchmarks.scenarios import Bench, Ingest, ingest
from benchmarks.server import Server

DISK_BYTES_PER_SPAN: Final = 1_500  # more than a span takes, log and spool included
LOAD_TIMEOUT_S: Final = 4 * 3_600.0
QUESTIONS: Final = 20
NEWEST: Final = 50
TOOL_CALLS: Final = """
    SELECT name, count(*), count(*) FILTER (WHERE is_error), quantile_cont(duration_ms, 0.95)
    FROM tool_calls GROUP BY name
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """Response times of a query on an otherwise idle server, in milliseconds."""

    first: float
    p50: float  # of those after the first
    max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Large:
    """Measurements of one server, before and after it was filled."""

    stored_spans: int
    empty: Ingest
    full: Ingest
    newest_traces_ms: Reads
    one_trace_ms: Reads
    tool_calls: int
    tool_calls_ms: Reads
    peak_rss_mib: float
    disk_bytes_per_span: float


def measure_large(bench: Bench, command: Callable[[Path], list[str]], stored: int) -> Large:
    """Fill a server with `stored` spans through its OTLP door, and measure before and after."""
    data = bench.directory / "large"
    if shutil.disk_usage(bench.directory).free < stored * DISK_BYTES_PER_SPAN:
        needed_gb = stored * DISK_BYTES_PER_SPAN / 1e9
        raise RuntimeError(f"{bench.directory} needs {needed_gb:.0f} GB of room for {stored} spans")
    with Server(command(data), data) as server:
        job = Job(door="grpc", target=server.target("grpc"), spans=512, senders=bench.senders, seconds=bench.seconds)
        warm_up = ingest(server, bench.generator, replace(job, seconds=bench.warm_up_s))
        empty = ingest(server, bench.generator, job)
        missing = max(512, stored - warm_up.acknowledged_spans - empty.acknowledged_spans)
        filling = ingest(server, bench.generator, replace(job, seconds=LOAD_TIMEOUT_S, limit_spans=missing))
        full = ingest(server, bench.generator, job)
        newest, one = _read(server.api, filling.trace_ids + empty.trace_ids)
        tool_calls, tool_calls_ms = _ask_for_tool_calls(server.api)
        peak_rss_bytes = server.peak_rss_bytes()
        server.stop()
        spans = server.stored_in_file()
    return Large(
        stored_spans=spans,
        empty=empty,
        full=full,
        newest_traces_ms=newest,
        one_trace_ms=one,
        tool_calls=tool_calls,
        tool_calls_ms=tool_calls_ms,
        peak_rss_mib=peak_rss_bytes / (1 << 20),
        disk_bytes_per_span=server.disk_bytes() / spans,
    )


def _read(api: str, trace_ids: list[str]) -> tuple[Reads, Reads]:
    with httpx.Client(base_url=api, timeout=60) as client:
        client.get("/health").raise_for_status()  # opening the connection is not measured
        newest = _ask(client, [f"/api/v1/traces?size={NEWEST}"] * (QUESTIONS + 1), "numberOfElements")
        one = _ask(client, [f"/api/v1/traces/{trace_id}" for trace_id in trace_ids[: QUESTIONS + 1]], "spanCount")
    return newest, one


def _ask_for_tool_calls(api: str) -> tuple[int, Reads]:
    """Count the calls of every tool, failed ones apart: how many there are, and how long that takes."""
    took_ms, calls = [], 0
    with httpx.Client(base_url=api, timeout=60) as client:
        for _ in range(QUESTIONS + 1):
            start_s = time.perf_counter()
            answer = client.post("/api/v1/sql", json={"sql": TOOL_CALLS}).raise_for_status()
            took_ms.append((time.perf_counter() - start_s) * 1e3)
            calls = sum(row[1] for row in answer.json()["rows"])
    later_ms = took_ms[1:]
    return calls, Reads(first=took_ms[0], p50=median(later_ms), max=max(later_ms))


def _ask(client: httpx.Client, paths: list[str], counted: str) -> Reads:
    """Time each question; an answer that counts nothing is not an answer."""
    took_ms = []
    for path in paths:
        start_s = time.perf_counter()
        answer = client.get(path)
        took_ms.append((time.perf_counter() - start_s) * 1e3)
        if not answer.raise_for_status().json()[counted]:
            raise RuntimeError(f"{path} is empty")
    later_ms = took_ms[1:] or took_ms
    return Reads(first=took_ms[0], p50=median(later_ms), max=max(later_ms))
