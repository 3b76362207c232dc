"""Rates at which gates stop a sound change, and a worse one: ours beside common ones.

    nice python -m benchmarks.gates --draws 300

Items differ: their chances to pass are Beta(3.4, 0.6), 85 % in the mean. Another model that is as good gives each item
a new chance. A worse candidate breaks some items for good, so that it loses five or ten points.
"""

import argparse
import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from rules.statistics.formulas.quantiles import z_of
from rules.statistics.formulas.resampling import Draws
from rules.statistics.runs.comparison import compare
from rules.statistics.runs.options import Options
from rules.statistics.runs.records import SCORED, ComparedEvaluator, FinishedRun, JudgedItem

ALPHA, BETA = 3.4, 0.6
THRESHOLD = 0.8  # what a team sets that sees 85 %
OPTIONS = Options(draws=Draws(count=400))

Passes = NDArray[np.float64]
Change = Callable[[np.random.Generator, Passes], Passes]


def a_run(passes: Passes) -> FinishedRun:
    """Return the run of these passes, items by trials."""
    return FinishedRun(
        items=[JudgedItem(key=str(at)) for at in range(len(passes))],
        evaluators=[ComparedEvaluator(name="exact", threshold=0.5)],
        outcomes=np.full((1, *passes.shape), SCORED, dtype=np.uint8),
        scores=passes[None],
        passed=passes[None],
    )


def z_test(before: Passes, after: Passes) -> bool:
    """Test two-sided at 5 %, as if every trial were an item of its own."""
    pooled = (before.mean() + after.mean()) / 2
    error = math.sqrt(2 * pooled * (1 - pooled) / before.size)
    return bool((before.mean() - after.mean()) > z_of(0.95) * error)


def any_item(before: Passes, after: Passes) -> bool:
    """Return True if an item stopped passing most of its trials."""
    return bool(((before.mean(axis=1) >= 0.5) & (after.mean(axis=1) < 0.5)).any())


OTHERS: Mapping[str, Callable[[Passes, Passes], bool]] = {
    "threshold 80 %": lambda _, after: bool(after.mean() < THRESHOLD),
    "z-test": z_test,
    "any item failed": any_item,
}


def broken(share: float) -> Change:
    """Return a change after which some items always fail, so that the mean falls by this share."""
    return lambda generator, rates: np.where(
        generator.random(rates.shape) < share / (ALPHA / (ALPHA + BETA)), 0.0, rates
    )


CHANGES: Mapping[str, Change] = {
    "no change": broken(0.0),
    "another model, as good": lambda generator, rates: generator.beta(ALPHA, BETA, rates.shape),
    "5 points lost": broken(0.05),
    "10 points lost": broken(0.1),
}


def stopped(items: int, trials: int, change: str, draws: int) -> dict[str, float]:
    """Return the share of candidates that each gate stops, and the share that ours leaves inconclusive."""
    generator = np.random.default_rng([items, trials, list(CHANGES).index(change)])
    counts = dict.fromkeys(["ours", "ours: inconclusive", *OTHERS], 0)
    for _ in range(draws):
        rates = generator.beta(ALPHA, BETA, (items, 1))
        before = (generator.random((items, trials)) < rates).astype(np.float64)
        after = (generator.random((items, trials)) < CHANGES[change](generator, rates)).astype(np.float64)
        verdict = compare(a_run(before), a_run(after), OPTIONS).verdict
        counts["ours"] += verdict == "regressed"
        counts["ours: inconclusive"] += verdict == "inconclusive"
        for name, gate in OTHERS.items():
            counts[name] += gate(before, after)
    return {name: count / draws for name, count in counts.items()}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=300)
    draws = parser.parse_args().draws
    names = ["ours", "ours: inconclusive", *OTHERS]
    print(f"| change | items | trials | {' | '.join(names)} |")
    print("|---" * (3 + len(names)) + "|")
    for change in CHANGES:
        for items in (50, 200, 1_000):
            for trials in (1, 3, 5):
                shares = stopped(items, trials, change, draws)
                cells = " | ".join(f"{100 * shares[name]:.0f} %" for name in names)
                print(f"| {change} | {items:,} | {trials} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
