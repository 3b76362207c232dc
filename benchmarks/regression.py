"""False alarms and delays of the monitors: simulated streams, checked after every result.

    nice python -m benchmarks.regression release --baseline 500 --margin 0
    nice python -m benchmarks.regression drift

Prints a table. The streams are of pass and fail, at 92 %, which falls by the drop of the line.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from rules.statistics.drift import NO_DRIFT, Drift
from rules.statistics.sample import ATOMS, NOTHING, POINTS, UNIT, Sample
from rules.statistics.settings import MonitorSettings
from rules.statistics.watch import Watch, since_ever
from rules.statistics.wealth import log_wealth_lower

RATE = 0.92
DROPS = (0.0, 0.02, 0.05, 0.10, 0.14)
ALPHA = 0.05

Outcomes = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A line of a table, or a part of its streams."""

    drop: float
    baseline: int
    margin: float
    streams: int
    results: int
    seed: int


def monitored(setting: Setting, before: Outcomes, after: Outcomes) -> int:
    """Return the result that raises the alarm of the release monitor, from 1; 0 for none.

    Only a failure can, so that passes are added in one go.

    """
    settings = MonitorSettings(margin=setting.margin)
    baseline = Sample.of_passes(int(before.sum()), len(before))
    state = since_ever(baseline, NOTHING, settings.log_release_threshold)
    watch = Watch(state, margin=settings.margin, log_threshold=settings.log_release_threshold)
    last = -1
    for at in np.flatnonzero(~after).tolist():
        watch.total.weights[-1] += (at - last - 1) * UNIT
        watch.total.count += at - last - 1
        last = at
        if watch.add(0, 0) and at + 1 >= settings.minimum and watch.found() is not None:
            return int(at + 1)
    return 0


def plain(setting: Setting, before: Outcomes, after: Outcomes) -> int:
    """Against a 97.5 % lower bound on the baseline's rate, the same bets at the other half of alpha."""
    passes = int(before.sum())
    bound = float(stats.beta.ppf(ALPHA / 2, passes, len(before) - passes + 1)) - setting.margin
    failures = np.flatnonzero(~after)
    weights = np.zeros((len(failures), 2))
    weights[:, 0] = np.arange(1, len(failures) + 1)
    weights[:, 1] = failures + 1 - weights[:, 0]
    evidence = log_wealth_lower(weights, POINTS[[0, ATOMS - 1]], np.array([bound]))[0]
    return first(failures + 1, evidence >= math.log(2 / ALPHA))


def peeking(setting: Setting, before: Outcomes, after: Outcomes) -> int:
    """Return the first alarm of a one-sided two-sample z-test at alpha after every result from the 20th on."""
    count = np.arange(1, len(after) + 1)
    passes = np.cumsum(after)
    rate, baseline = passes / count, before.mean()
    pooled = (passes + before.sum()) / (count + len(before))
    error = np.sqrt(pooled * (1 - pooled) * (1 / count + 1 / len(before)))
    z = (baseline - setting.margin - rate) / np.maximum(error, 1e-12)
    return first(count, (z >= stats.norm.ppf(1 - ALPHA)) & (count >= 20))


def drifting(setting: Setting, before: Outcomes, after: Outcomes) -> int:
    """Return the result after the change that raises the alarm of the drift monitor; negative for one before it."""
    drift = Drift(NO_DRIFT, MonitorSettings(margin=setting.margin))
    for at, passed in enumerate([*before.tolist(), *after.tolist()], start=1):
        if drift.add(at, (ATOMS - 1) * passed, 0) is not None:
            return at - len(before) or -1
    return 0


def first(counts: NDArray[np.int64], reached: NDArray[np.bool_]) -> int:
    """Return the count at which it is first reached; 0 for never."""
    return int(counts[reached.argmax()]) if reached.any() else 0


METHODS: dict[str, Callable[[Setting, Outcomes, Outcomes], int]] = {
    "release monitor": monitored,
    "plain": plain,
    "fixed test that peeks": peeking,
}


def simulate(setting: Setting) -> dict[str, list[int]]:
    """Simulate streams; return for each method when it alarms in each. All see the same streams."""
    generator = np.random.default_rng(setting.seed)
    alarms: dict[str, list[int]] = {name: [] for name in METHODS}
    for _ in range(setting.streams):
        before = generator.random(setting.baseline) < RATE
        after = generator.random(setting.results) < RATE - setting.drop
        for name, method in METHODS.items():
            alarms[name].append(method(setting, before, after))
    return alarms


def simulate_drift(setting: Setting) -> dict[str, list[int]]:
    """Simulate streams; return when the drift monitor alarms in each."""
    generator = np.random.default_rng(setting.seed)
    alarms = []
    for _ in range(setting.streams):
        before = generator.random(setting.baseline) < RATE
        alarms.append(drifting(setting, before, generator.random(setting.results) < RATE - setting.drop))
    return {"drift monitor": alarms}


def divergence(rate: float, other: float) -> float:
    """Return the Kullback-Leibler divergence of two pass rates."""
    return rate * math.log(rate / other) + (1 - rate) * math.log((1 - rate) / (1 - other))


def least_results(drop: float, margin: float, log_threshold: float) -> str:
    """Return the log of the threshold divided by the divergence.

    Of a release this is Wald's bound: no test that finds every drop does so sooner on average, even if it knew both
    rates. Of drift it is the first order of Lorden's, for the worst case.

    """
    return f"{log_threshold / divergence(RATE - drop, RATE - margin):.0f}" if drop > margin else "-"


def told(at: Sequence[int]) -> str:
    """Return the share of the streams with an alarm, and the median number of results to it, over all streams."""
    speaks = [when for when in at if when > 0]
    times = sorted([*speaks, *[math.inf] * (len(at) - len(speaks))])
    median = times[len(times) // 2]
    return f"{100 * len(speaks) / len(at):.1f} % | {f'{median:,.0f}' if math.isfinite(median) else '-'}"


def spread(
    simulation: Callable[[Setting], dict[str, list[int]]], setting: Setting, processes: int
) -> dict[str, list[int]]:
    """Run the simulation in several processes; the result does not depend on their number."""
    part = max(setting.streams // 8, 1)
    parts = [
        Setting(
            drop=setting.drop,
            baseline=setting.baseline,
            margin=setting.margin,
            streams=min(part, setting.streams - start),
            results=setting.results,
            seed=setting.seed + start,
        )
        for start in range(0, setting.streams, part)
    ]
    alarms: dict[str, list[int]] = {}
    with ProcessPoolExecutor(processes) as pool:
        for each in pool.map(simulation, parts):
            for name, at in each.items():
                alarms.setdefault(name, []).extend(at)
    return alarms


def setting_of(arguments: argparse.Namespace, drop: float) -> Setting:
    """Return the setting of the command line."""
    return Setting(
        drop=drop,
        baseline=arguments.baseline,
        margin=arguments.margin,
        streams=arguments.streams,
        results=arguments.results,
        seed=arguments.seed,
    )


def print_release(arguments: argparse.Namespace) -> None:
    """Print a line for each drop."""
    print(f"baseline {arguments.baseline}, margin {arguments.margin}, {arguments.streams} streams")
    print("| drop | least | " + " | ".join(f"{name}: found | median" for name in METHODS) + " |")
    print("|--:" * (2 + 2 * len(METHODS)) + "|")
    for drop in arguments.drops:
        alarms = spread(simulate, setting_of(arguments, drop), arguments.processes)
        least = least_results(drop, arguments.margin, -math.log(ALPHA))
        print(f"| {100 * drop:.0f} | {least} | " + " | ".join(map(told, alarms.values())) + " |", flush=True)


def print_drift(arguments: argparse.Namespace) -> None:
    """Print a line for each drop; alarms before the change are counted apart."""
    settings = MonitorSettings(margin=arguments.margin)
    print(f"change after {arguments.baseline}, margin {arguments.margin}, {arguments.streams} streams")
    print("| drop | first order | found | median | before the change |")
    print("|--:" * 5 + "|")
    for drop in arguments.drops:
        at = spread(simulate_drift, setting_of(arguments, drop), arguments.processes)["drift monitor"]
        least = least_results(drop, arguments.margin, math.log(settings.every))
        early = 100 * sum(when < 0 for when in at) / len(at)
        print(f"| {100 * drop:.0f} | {least} | {told(at)} | {early:.1f} % |", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", choices=["release", "drift"])
    parser.add_argument("--baseline", type=int, default=2_000, help="results before the drop")
    parser.add_argument("--margin", type=float, default=MonitorSettings().margin)
    parser.add_argument("--streams", type=int, default=2_000)
    parser.add_argument("--results", type=int, default=5_000, help="results after it")
    parser.add_argument("--drops", type=float, nargs="*", default=DROPS)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    {"release": print_release, "drift": print_drift}[arguments.which](arguments)


if __name__ == "__main__":
    main()
