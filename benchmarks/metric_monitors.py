"""False alerts of monitors of an error rate, and their delays after a change: simulated days of traffic.

    nice python -m benchmarks.metric_monitors

Prints a table: a limit and a change, checked every 15 s. 2 % of the traces fail; after two hours the percentage of the
line.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from collector.live.monitors.metric_looks import MOST_OUTCOMES
from rules.metric_limit import LimitState, MetricLimit, look_at
from rules.statistics.monitor import Monitor, MonitoredResult
from rules.statistics.settings import MonitorSettings

LOOK_S = 15
WINDOW_LOOKS = 20
BEFORE_LOOKS = 2 * 3_600 // LOOK_S
USUAL = 0.02
LIMIT = 0.05
ENOUGH = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """A stream of checks: the number of traces before each check, and how many of them failed."""

    counts: np.ndarray[tuple[int], np.dtype[np.int64]]
    failed: np.ndarray[tuple[int], np.dtype[np.int64]]


def a_day(source: np.random.Generator, traces_per_s: float, rate: float, looks: int) -> Day:
    """Traffic that comes at random, and fails at the usual rate and then at another one."""
    counts = source.poisson(traces_per_s * LOOK_S, looks)
    rates = np.where(np.arange(looks) < BEFORE_LOOKS, USUAL, rate)
    return Day(counts=counts, failed=source.binomial(counts, rates))


def limit_alarms(day: Day, looks: int) -> Iterator[int]:
    """Yield the checks at which a limit of 5 % in five minutes opens an alert."""
    limit, state = MetricLimit(above=LIMIT, looks=looks), LimitState()
    counts = np.convolve(day.counts, np.ones(WINDOW_LOOKS, dtype=int))[: len(day.counts)]
    failed = np.convolve(day.failed, np.ones(WINDOW_LOOKS, dtype=int))[: len(day.counts)]
    for at, (count, bad) in enumerate(zip(counts.tolist(), failed.tolist(), strict=True)):
        if count >= ENOUGH:
            state, crossing = look_at(limit, state, bad / count)
            if crossing == "opened":
                yield at


def change_alarms(day: Day, source: np.random.Generator) -> Iterator[int]:
    """Yield the checks at which the monitors of a change open an alert, given as many traces as the server takes."""
    monitor = Monitor(MonitorSettings(off=frozenset({"release"})))
    for at, (count, bad) in enumerate(zip(day.counts.tolist(), day.failed.tolist(), strict=True)):
        passed = source.permutation(np.arange(count) >= bad)[:MOST_OUTCOMES]
        for each in passed.tolist():
            event = monitor.add(MonitoredResult(None, each, None))
            if event is not None and event.change == "opened":
                yield at


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=40, help="streams for each line")
    parser.add_argument("--hours", type=float, default=8, help="how long each is")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    looks = int(options.hours * 3_600 / LOOK_S)
    print("| traces/s | after two hours | monitor | streams with an alert before | found | median delay |")
    print("|--:|--:|---|--:|--:|--:|")
    for traces_per_s in (0.2, 1.0):
        for rate in (USUAL, 0.04, 0.08, 0.2):
            source = np.random.default_rng(options.seed)
            days = [a_day(source, traces_per_s, rate, looks) for _ in range(options.days)]
            for name, alarms in (
                ("limit of 5 %", [list(limit_alarms(day, 1)) for day in days]),
                ("limit of 5 %, 4 looks", [list(limit_alarms(day, 4)) for day in days]),
                ("change", [list(change_alarms(day, source)) for day in days]),
            ):
                print(_line(traces_per_s, rate, name, alarms))


def _line(traces_per_s: float, rate: float, name: str, alarms: list[list[int]]) -> str:
    early = sum(any(at < BEFORE_LOOKS for at in each) for each in alarms)
    delays = [next((at - BEFORE_LOOKS for at in each if at >= BEFORE_LOOKS), None) for each in alarms]
    detected = sorted(delay for delay in delays if delay is not None)
    middle = len(alarms) // 2
    median = f"{detected[middle] * LOOK_S / 60:.3g} min" if len(detected) > middle else "-"
    shares = [f"{100 * each / len(alarms):.0f} %" for each in (early, len(detected))]
    return f"| {traces_per_s:g} | {100 * rate:g} % | {name} | {shares[0]} | {shares[1]} | {median} |"


if __name__ == "__main__":
    main()
