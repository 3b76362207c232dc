"""Sustained rate: the highest at which all that is acknowledged is matched within two seconds."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from typing import Final, Self

import httpx

from benchmarks.generator import Job, Kind
from benchmarks.matching import CONDITIONS, TRACE_CONDITIONS
from benchmarks.scenarios import Bench
from benchmarks.server import Server, tracejury

KINDS: Final[dict[Kind, str]] = {"benchmark": "spans of 1.2 kB", "recorded": "all recorded dialects in equal parts"}
SPANS: Final = 512  # in a request
SENDERS: Final = 16
MOST_LAG_S: Final = 2.0
LOOK_S: Final = 1.0
SECONDS: Final = 60.0
PROBE_S: Final = 10.0
STEPS: Final = (1.1, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4)
"""The rates to try, relative to what a load without pauses commits in ten seconds, while matching and sums lag
behind."""
SAMPLE_RATE: Final = 0.001
"""The rate of traces that rules sample: every span is matched, but few are judged, since judging is not measured."""
LAG: Final = "tracejury_matching_lag_seconds "
TRACES_LAG: Final = "tracejury_traces_lag_seconds "
IDLE_TIMEOUT_S: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sustained:
    """A rate that was kept up, or the lowest rate that was tried."""

    kind: Kind
    rules: int
    seconds: float
    rate: float  # requested, in spans/s
    acknowledged_per_s: float
    kept_up: bool
    matching_lag_s: float  # the longest
    traces_lag_s: float  # the longest until the sums of traces are stored
    answer_p99_ms: float
    cpu_us_per_span: float  # of all processes of the server, until all spans were matched and summed
    memory_mib: tuple[float, float]  # after a third of the time, and at its end


def measure_sustained(bench: Bench, seconds: float = SECONDS) -> list[Sustained]:
    """Measure each kind of spans, with a server of its own for each rate that is tried."""
    return [_highest(bench, kind, seconds) for kind in KINDS]


def _highest(bench: Bench, kind: Kind, seconds: float) -> Sustained:
    probe = _try(bench, kind, None, min(PROBE_S, seconds))
    tried = probe
    for step in STEPS:
        tried = _try(bench, kind, probe.acknowledged_per_s * step, seconds)
        if tried.kept_up:
            break
    return tried


def _try(bench: Bench, kind: Kind, rate: float | None, seconds: float) -> Sustained:
    data = bench.directory / f"sustained-{kind}-{round(rate or 0)}"
    with Server(tracejury(data), data) as server:
        rules = _make_rules(server)
        job = Job(door="grpc", target=server.target("grpc"), spans=SPANS, senders=SENDERS, seconds=seconds, kind=kind)
        bench.generator.run(replace(job, seconds=min(2.0, seconds)))
        _wait_idle(server)
        cpu_s = server.all_cpu_s()
        with _Watch(server, seconds / 3) as watch:
            result = bench.generator.run(replace(job, rate=rate))
        memory_mib = watch.memory_mib, server.rss_bytes() / (1 << 20)
        _wait_idle(server)
        cpu_s = server.all_cpu_s() - cpu_s
        server.stop()
    latencies = result.acknowledgement_ms
    kept_up = result.refusals + result.failed + result.abandoned == 0 and watch.matching_lag_s <= MOST_LAG_S
    return Sustained(
        kind=kind,
        rules=rules,
        seconds=seconds,
        rate=rate or 0.0,
        acknowledged_per_s=result.acknowledged_spans / result.elapsed_s,
        kept_up=kept_up,
        matching_lag_s=watch.matching_lag_s,
        traces_lag_s=watch.traces_lag_s,
        answer_p99_ms=latencies.p99 if latencies else 0.0,
        cpu_us_per_span=cpu_s / max(result.acknowledged_spans, 1) * 1e6,
        memory_mib=memory_mib,
    )


class _Watch:
    """Looks at how far a server is behind, during a block."""

    def __init__(self, server: Server, memory_after_s: float) -> None:
        self._server = server
        self._memory_at_s = time.monotonic() + memory_after_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.matching_lag_s = self.traces_lag_s = 0.0
        self.memory_mib = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(LOOK_S):
            metrics = self._server.metrics()
            self.matching_lag_s = max(self.matching_lag_s, _number(metrics, LAG))
            self.traces_lag_s = max(self.traces_lag_s, _number(metrics, TRACES_LAG))
            if not self.memory_mib and time.monotonic() >= self._memory_at_s:
                self.memory_mib = self._server.rss_bytes() / (1 << 20)


def _make_rules(server: Server) -> int:
    """Create the rules of the matching benchmark, which sample few traces; return how many."""
    listed = [("SPAN", one) for one in CONDITIONS] + [("TRACE", one) for one in TRACE_CONDITIONS]
    with httpx.Client(base_url=server.api, timeout=60) as client:
        for number, (target, (field, operator, value)) in enumerate(listed, start=1):
            rule = {
                "name": f"rule {number}",
                "evaluator": "tool_error",
                "target": target,
                "sampleRate": SAMPLE_RATE,
                "conditions": [{"field": field, "op": operator, "value": value}],
            }
            client.post("/api/v1/projects/*/trace-eval-rules", json=rule).raise_for_status()
    return len(listed)


def _wait_idle(server: Server) -> None:
    """Wait until all spans are matched and all traces are summed."""
    deadline_s = time.monotonic() + IDLE_TIMEOUT_S
    while True:
        metrics = server.metrics()
        if _number(metrics, LAG) == 0 and _number(metrics, TRACES_LAG) == 0:
            return
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"the server is behind for too long:\n{server.log_tail()}")
        time.sleep(0.2)


def _number(metrics: str, name: str) -> float:
    (line,) = (line for line in metrics.splitlines() if line.startswith(name))
    return float(line.split()[-1])
