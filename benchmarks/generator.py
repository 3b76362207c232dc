"""The process that sends spans, as the measurements see it: jobs in, results out, one JSON line each."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

ROOT = Path(__file__).resolve().parents[1]

Door = Literal["grpc", "http"]
Kind = Literal["benchmark", "recorded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A load: closed loop (every sender sends again once it is answered), or open loop at a given rate."""

    door: Door
    target: str  # host:port
    spans: int  # in each request
    senders: int  # connections, each with one request at a time
    seconds: float
    rate: float | None = None  # spans/s of an open loop; latency counts from the time a request was due
    limit_spans: int | None = None  # stop once this many were sent, if that is earlier
    key: str | None = None  # shown over gRPC
    kind: Kind = "benchmark"  # of spans: those that are made up, or those that real instrumentations sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """Latencies of responses, in milliseconds."""

    p50: float
    p99: float
    max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Result of a job. Requests sent = acknowledged + abandoned + failed; a refusal is a response, not an end."""

    acknowledged_spans: int
    rejected_spans: int  # by partial success
    acknowledged: int  # requests
    abandoned: int  # requests whose last answer was "later", when the time was up
    failed: int  # requests with a final error, or whose connection broke before an answer
    refusals: int  # answers that said "later"
    started_s: float  # on the monotonic clock, which all processes share
    ended_s: float  # when the last answer was here
    cpu_s: float  # of the generator
    acknowledgement_ms: Latencies | None
    refusal_ms: Latencies | None
    trace_ids: list[str]  # a sample of the acknowledged, evenly over the job
    first_failure: str

    @property
    def elapsed_s(self) -> float:
        """Return the seconds from the first request to the last response."""
        return self.ended_s - self.started_s

    @property
    def slowest_answer_ms(self) -> float:
        """Return the slowest response, refusals included, in milliseconds."""
        return max((latencies.max for latencies in (self.acknowledgement_ms, self.refusal_ms) if latencies), default=0)


def read_result(line: str) -> Result:
    """Parse the line that the process wrote."""
    fields = json.loads(line)
    for name in ("acknowledgement_ms", "refusal_ms"):
        fields[name] = fields[name] and Latencies(**fields[name])
    return Result(**fields)


class Generator:
    """A running load process. It builds its requests once for each request size, so a later job starts faster."""

    def __init__(self, *, pool_spans: int) -> None:
        command = [sys.executable, "-m", "benchmarks.load", "--pool-spans", str(pool_spans)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, job: Job) -> Result:
        """Run a job, and wait for the last response."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(job)) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the load generator ended with exit code {self._process.wait()}")
        return read_result(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if kind is not None:
            self._process.kill()
        self._process.communicate()
