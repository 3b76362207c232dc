"""How often the interval of a corrected pass rate holds the rate that people would find, by how labels were drawn.

python -m benchmarks.calibration [--samples 4000]
"""

import argparse
from collections.abc import Callable

import numpy as np

from rules.statistics.calibration import Confusion, Measured, calibrate

_JUDGED = 1_000
_LABELS = 120
_CELLS = ((True, True), (True, False), (False, True), (False, False))


def a_labelled_sample(
    generator: np.random.Generator, *, failing_first: bool, rate: float = 0.8, sensitivity: float = 0.95
) -> tuple[Confusion, int]:
    """Labels of 120 of 1,000 results of a judge with specificity 0.6, and how many of all it passed."""
    truth = generator.random(_JUDGED) < rate
    judged = np.where(truth, generator.random(_JUDGED) < sensitivity, generator.random(_JUDGED) < 0.4)
    order = generator.permutation(_JUDGED)
    if failing_first:
        half = _LABELS // 2
        order = np.concatenate([order[~judged[order]][:half], order[judged[order]][:half]])
    chosen = order[:_LABELS]
    pairs = list(zip(truth[chosen].tolist(), judged[chosen].tolist(), strict=True))
    names = ("passed_passed", "passed_failed", "failed_passed", "failed_failed")
    return Confusion(**{name: pairs.count(cell) for name, cell in zip(names, _CELLS, strict=True)}), int(judged.sum())


def main() -> None:
    """Print the table of the documentation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=4_000)
    samples = parser.parse_args().samples
    print("| labels | rate | raw | labels alone | corrected | its mean width |\n|---|--:|--:|--:|--:|--:|")
    for failing_first in (False, True):
        for rate in (0.5, 0.8, 0.95):
            shares = _covered(samples, failing_first=failing_first, rate=rate)
            print(f"| {'failing first' if failing_first else 'blind'} | {rate:.0%} | {' | '.join(shares)} |")


def _covered(samples: int, *, failing_first: bool, rate: float) -> list[str]:
    generator = np.random.default_rng(7)
    raw = alone = corrected = known = 0
    width = 0.0
    for _ in range(samples):
        confusion, passed = a_labelled_sample(generator, failing_first=failing_first, rate=rate)
        found = calibrate(confusion, judged_passed=passed, judged_failed=_JUDGED - passed)
        holds = _holding(rate)
        raw += holds(found.raw)
        people = confusion.passed_passed + confusion.passed_failed
        labels = calibrate(Confusion(), judged_passed=people, judged_failed=confusion.labels - people)
        alone += holds(labels.raw)
        if found.corrected.interval is not None:
            known += 1
            corrected += holds(found.corrected)
            width += found.corrected.interval.high - found.corrected.interval.low
    return [f"{raw / samples:.0%}", f"{alone / samples:.0%}", f"{corrected / known:.1%}", f"{width / known:.3f}"]


def _holding(rate: float) -> Callable[[Measured], bool]:
    return lambda found: found.interval is not None and found.interval.low <= rate <= found.interval.high


if __name__ == "__main__":
    main()
