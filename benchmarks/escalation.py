"""Escalation of open alerts: delays, and false escalations, in simulated streams.

    nice python -m benchmarks.escalation

Prints two tables. Of results: 2,000 at 92 %, then a release at one rate until its alarm and 300 results longer, then
another rate. Of metrics: a limit with an escalation limit, checked every 15 s, at a constant failure rate.
"""

import argparse
from collections.abc import Iterator

import numpy as np

from benchmarks.metric_monitors import ENOUGH, LIMIT, LOOK_S, WINDOW_LOOKS
from rules.metric_limit import LimitState, MetricLimit, look_at
from rules.statistics.monitor import Monitor, MonitoredResult
from rules.statistics.settings import MonitorSettings

BEFORE = 2_000
RATE = 0.92
HELD = 300
RESULTS = 2_000
FALLS = ((0.7, 0.7), (0.7, 0.66), (0.7, 0.5), (0.7, 0.35), (0.7, 0.2), (0.8, 0.8), (0.8, 0.6), (0.8, 0.4))
FURTHER = 0.2


def escalated(source: np.random.Generator, first: float, second: float) -> int | None:
    """Return the result after the second fall at which the alert escalates; negative before it, 0 for never.

    None: the fall to the first rate was not found, or was found to be over, within 2,000 results.

    """
    monitor = Monitor(MonitorSettings(off=frozenset({"drift"})))
    for passed in source.random(BEFORE) < RATE:
        monitor.add(MonitoredResult("1", bool(passed), None))
    opened = next((at for at in range(RESULTS) if _add(monitor, source, first) == "opened"), None)
    if opened is None:
        return None
    for at in range(HELD):
        change = _add(monitor, source, first)
        if change is not None:
            return at - HELD if change == "escalated" else None
    for at in range(RESULTS):
        change = _add(monitor, source, second)
        if change is not None:
            return at + 1 if change == "escalated" else None
    return 0


def _add(monitor: Monitor, source: np.random.Generator, rate: float) -> str | None:
    event = monitor.add(MonitoredResult("2", bool(source.random() < rate), None))
    return None if event is None else event.change


def far_looks(source: np.random.Generator, traces_per_s: float, rate: float, looks: int, of: int) -> Iterator[str]:
    """Yield the crossings of a limit of 5 % with escalation at 20 %, over `of` checks at a failure rate."""
    limit, state = MetricLimit(above=LIMIT, escalate_at=FURTHER, looks=looks), LimitState()
    counts = source.poisson(traces_per_s * LOOK_S, of)
    failed = source.binomial(counts, rate)
    window = np.ones(WINDOW_LOOKS, dtype=int)
    for count, bad in zip(np.convolve(counts, window)[:of], np.convolve(failed, window)[:of], strict=True):
        if count >= ENOUGH:
            state, crossing = look_at(limit, state, float(bad / count))
            if crossing is not None:
                yield crossing


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=60, help="streams for each line about results")
    parser.add_argument("--days", type=int, default=20, help="streams of six hours for each line about metrics")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print("| told, then | open at the fall | told again before it | after it | median |")
    print("|---|--:|--:|--:|--:|")
    for first, second in FALLS:
        source = np.random.default_rng(options.seed)
        every = [escalated(source, first, second) for _ in range(options.streams)]
        print(_line(f"{100 * first:g} %, {100 * second:g} %", every))
    print()
    print("| traces/s | failing | looks | alerts a day | told again a day |")
    print("|--:|--:|--:|--:|--:|")
    for traces_per_s in (0.2, 1.0):
        for rate in (0.08, 0.14, 0.3):
            for looks in (1, 4):
                source = np.random.default_rng(options.seed)
                of = 6 * 3_600 // LOOK_S
                crossings = [
                    each for _ in range(options.days) for each in far_looks(source, traces_per_s, rate, looks, of)
                ]
                days = options.days / 4
                shares = (crossings.count("opened") / days, crossings.count("escalated") / days)
                print(f"| {traces_per_s:g} | {100 * rate:g} % | {looks} | {shares[0]:.3g} | {shares[1]:.3g} |")


def _line(name: str, every: list[int | None]) -> str:
    early = sum(at is not None and at < 0 for at in every)
    held = [at for at in every if at is not None and at >= 0]
    delays = sorted(at for at in held if at > 0)
    median = f"{delays[len(held) // 2]}" if len(delays) > len(held) // 2 else "-"
    share = 100 * len(delays) / max(len(held), 1)
    return f"| {name} | {len(held)} of {len(every)} | {early} | {share:.1f} % | {median} |"


if __name__ == "__main__":
    main()
