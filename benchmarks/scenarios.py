"""The measurements of a server under load, from the first request to the last commit."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks.generator import Door, Generator, Job, Latencies, Result
from benchmarks.server import Server
from benchmarks.spans import EARLIEST_START_NS

COMMIT_TIMEOUT_S: Final = 60.0
READING_TIMEOUT_S: Final = 3_600.0  # after a load of ten million spans
COMMIT_POLL_S: Final = 0.05  # a question costs the server 4 ms of CPU, and the wait for the last commit is short
HALF_LOAD_SENDERS: Final = 64  # connections enough that a request seldom waits for a free one


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Settings that all measurements share."""

    generator: Generator
    directory: Path
    seconds: float
    senders: int

    @property
    def warm_up_s(self) -> float:
        """Return the seconds of load before a measurement."""
        return min(2.0, self.seconds / 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingest:
    """Result of one job, and its cost for the server."""

    acknowledged_spans: int
    acknowledged_per_s: float
    committed_per_s: float  # acknowledged spans over the time until all of them were committed
    last_commit_after_ms: float  # after the last answer
    cpu_us_per_span: float  # of the server, until all was committed
    read_after_ms: float  # the last span was read so long after the last answer
    cpu_with_reading_us_per_span: float  # of the server and of the process that reads, until all was read
    cpu_cores: float  # that the server kept busy on average
    generator_cpu_us_per_span: float
    acknowledgement_ms: Latencies
    refusal_ms: Latencies | None
    slowest_answer_ms: float
    refusals: int
    abandoned: int
    failed: int
    first_failure: str
    trace_ids: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A server under one kind of load, at full speed and at half speed."""

    name: str
    door: Door
    spans_per_request: int
    senders: int
    full: Ingest
    half: Ingest | None
    peak_rss_mib: float
    disk_bytes_per_span: float  # of all files, after the server has ended
    stored_spans: int


class Commits:
    """Commits of a server from the time this is made."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._since_ns = time.time_ns() - EARLIEST_START_NS
        self._stored_before = server.stored(self._since_ns)
        self._tally_before = server.tally()

    def wait_for(self, spans: int) -> float:
        """Wait until `spans` spans are committed; return the time."""
        deadline_s = time.monotonic() + COMMIT_TIMEOUT_S
        while (committed := self._server.tally() - self._tally_before) < spans:
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"{spans} spans were acknowledged, {committed} are committed")
            time.sleep(COMMIT_POLL_S)
        return time.monotonic()

    def check(self, result: Result, job: Job) -> None:
        """Raise unless the spans that can be queried are the acknowledged ones."""
        stored = self._server.stored(self._since_ns) - self._stored_before
        most = result.acknowledged_spans + result.failed * job.spans  # a failure may be an answer that was lost
        if not result.acknowledged_spans <= stored <= most:
            raise RuntimeError(f"{result.acknowledged_spans} spans were acknowledged, {stored} are in the view")


def ingest(server: Server, generator: Generator, job: Job) -> Ingest:
    """Run a job and wait until every acknowledged span is committed, and no span more."""
    commits = Commits(server) if server.answers_sql else None
    cpu_s, all_cpu_s = server.cpu_s(), server.all_cpu_s()
    result = generator.run(job)
    if result.acknowledgement_ms is None:
        raise RuntimeError(f"nothing was acknowledged: {result}\n{server.log_tail()}")
    committed_s = commits.wait_for(result.acknowledged_spans) if commits else result.ended_s
    until_committed_s = server.cpu_s() - cpu_s
    read_s = _wait_until_read(server) if commits else committed_s
    until_read_s = server.all_cpu_s() - all_cpu_s
    if commits:
        commits.check(result, job)
    spans = result.acknowledged_spans
    return Ingest(
        acknowledged_spans=spans,
        acknowledged_per_s=spans / result.elapsed_s,
        committed_per_s=spans / (committed_s - result.started_s),
        last_commit_after_ms=(committed_s - result.ended_s) * 1e3,
        cpu_us_per_span=until_committed_s / spans * 1e6,
        read_after_ms=(read_s - result.ended_s) * 1e3,
        cpu_with_reading_us_per_span=until_read_s / spans * 1e6,
        cpu_cores=until_committed_s / (committed_s - result.started_s),
        generator_cpu_us_per_span=result.cpu_s / spans * 1e6,
        acknowledgement_ms=result.acknowledgement_ms,
        refusal_ms=result.refusal_ms,
        slowest_answer_ms=result.slowest_answer_ms,
        refusals=result.refusals,
        abandoned=result.abandoned,
        failed=result.failed,
        first_failure=result.first_failure,
        trace_ids=result.trace_ids,
    )


def _wait_until_read(server: Server) -> float:
    """Return the time at which all committed spans were read."""
    deadline_s = time.monotonic() + READING_TIMEOUT_S
    while server.has_stale():
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"spans are not read:\n{server.log_tail()}")
        time.sleep(COMMIT_POLL_S)
    return time.monotonic()


def measure(bench: Bench, name: str, command: Callable[[Path], list[str]], door: Door, spans: int) -> Scenario:
    """Measure a fresh server at full speed, then its response times at half of its commit rate."""
    data = bench.directory / name
    with Server(command(data), data) as server:
        job = Job(door=door, target=server.target(door), spans=spans, senders=bench.senders, seconds=bench.seconds)
        warm_up = ingest(server, bench.generator, replace(job, seconds=bench.warm_up_s))
        full = ingest(server, bench.generator, job)
        half_job = replace(job, rate=full.committed_per_s / 2, senders=HALF_LOAD_SENDERS)
        half = ingest(server, bench.generator, half_job)
        return _conclude(server, name, job, [warm_up, full, half])


def measure_overload(bench: Bench, name: str, command: Callable[[Path], list[str]], senders: int) -> Scenario:
    """Measure a fresh server that more senders than it can serve keep asking."""
    data = bench.directory / name
    with Server(command(data), data) as server:
        job = Job(door="grpc", target=server.target("grpc"), spans=512, senders=senders, seconds=bench.seconds)
        full = ingest(server, bench.generator, job)
        return _conclude(server, name, job, [full])


def _conclude(server: Server, name: str, job: Job, ingests: list[Ingest]) -> Scenario:
    peak_rss_bytes = server.peak_rss_bytes()
    server.stop()
    stored = server.stored_in_file()
    acknowledged = sum(ingest.acknowledged_spans for ingest in ingests)
    failed = sum(ingest.failed for ingest in ingests)
    if not acknowledged <= stored <= acknowledged + failed * job.spans:
        raise RuntimeError(f"{acknowledged} spans were acknowledged, but the file holds {stored}")
    _, full, half = ingests if len(ingests) == 3 else (None, ingests[0], None)
    return Scenario(
        name=name,
        door=job.door,
        spans_per_request=job.spans,
        senders=job.senders,
        full=full,
        half=half,
        peak_rss_mib=peak_rss_bytes / (1 << 20),
        disk_bytes_per_span=server.disk_bytes() / stored,
        stored_spans=stored,
    )
