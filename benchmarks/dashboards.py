"""Cost of dashboards for ingest: the same load with and without queries in a loop, over each interface."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.generator import ROOT, Job, Latencies
from benchmarks.scenarios import COMMIT_POLL_S, COMMIT_TIMEOUT_S, Bench
from benchmarks.server import Server, tracejury

ROUNDS: Final = 3
LOOPS: Final = {
    "the documented queries in a loop, over HTTP": ("http", 1),
    "the same over Quack": ("quack", 1),
    "four loops of a query that reads every attribute, over HTTP": ("heavy", 4),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """A kind of query load, beside ingest."""

    what: str
    ratios: list[float]  # spans/s with it, of those without it just before; by round
    queries: int
    failed: int
    seconds: float
    query_ms: Latencies | None  # None if no query was answered before its load was over

    @property
    def ratio(self) -> float:
        """Return the median round."""
        return median(self.ratios)

    @property
    def queries_per_s(self) -> float:
        """Return the rate of successful queries."""
        return self.queries / self.seconds


def measure_dashboards(bench: Bench) -> list[Beside]:
    """Load one server again and again, each time alone and then beside each kind of asking."""
    data, key = bench.directory / "dashboards", secrets.token_hex(16)
    command = [*tracejury(data), "--config", str(_configuration(bench.directory))]
    with Server(command, data, key=key) as server:
        job = Job(
            door="grpc", target=server.target("grpc"), spans=512, senders=bench.senders, seconds=bench.seconds, key=key
        )
        _load(server, bench, replace(job, seconds=bench.warm_up_s))
        ratios: dict[str, list[float]] = {what: [] for what in LOOPS}
        durations_ms: dict[str, list[float]] = {what: [] for what in LOOPS}
        failed = dict.fromkeys(LOOPS, 0)
        for _ in range(ROUNDS):
            for what, (kind, loops) in LOOPS.items():
                alone = _load(server, bench, job)
                panels = [_Panels(kind, server, key) for _ in range(loops)]
                ratios[what].append(_load(server, bench, job) / alone)
                for one in panels:
                    panel_ms, broken = one.end()
                    durations_ms[what] += panel_ms
                    failed[what] += broken
        server.stop()
    return [
        Beside(
            what=what,
            ratios=ratios[what],
            queries=len(panel_ms),
            failed=failed[what],
            seconds=ROUNDS * bench.seconds,
            query_ms=_latencies(panel_ms),
        )
        for what, panel_ms in durations_ms.items()
    ]


def _latencies(took_ms: list[float]) -> Latencies | None:
    if not took_ms:
        return None
    return Latencies(p50=median(took_ms), p99=sorted(took_ms)[len(took_ms) * 99 // 100], max=max(took_ms))


def _load(server: Server, bench: Bench, job: Job) -> float:
    """Send as fast as it goes; the spans that were committed in a second, by the numbers, which wait for no turn."""
    before = server.committed()
    result = bench.generator.run(job)
    deadline_s = time.monotonic() + COMMIT_TIMEOUT_S
    while server.committed() - before < result.acknowledged_spans:
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"{result.acknowledged_spans} spans were acknowledged, and not all are committed")
        time.sleep(COMMIT_POLL_S)
    return result.acknowledged_spans / (time.monotonic() - result.started_s)


def _configuration(directory: Path) -> Path:
    file = directory / "dashboards.yaml"
    file.write_text("quack: 127.0.0.1:0\nsql_seconds: 100\n", encoding="utf-8")
    return file


class _Panels:
    """A process that sends queries until it is killed."""

    def __init__(self, kind: str, server: Server, key: str) -> None:
        address = server.quack if kind == "quack" else server.api
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.panels", kind, address, key],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def end(self) -> tuple[list[float], int]:
        """Stop the process; return the durations of its queries in ms, and the number of failed ones."""
        self._process.kill()
        output, _ = self._process.communicate()
        answers = [json.loads(line) for line in output.splitlines() if line.strip()]
        took_ms = [answer for answer in answers if isinstance(answer, float)]
        return took_ms, len(answers) - len(took_ms)
