"""Coverage of the interval of a corrected pass rate, by the way in which labels were drawn.

python -m benchmarks.calibration [--samples 4000]
"""

import argparse
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from rules.statistics.calibration import Calibration, calibrate, confusion_of
from rules.statistics.correcting import Confusion, DrawnLabel, IntervalMeasure

_JUDGED = 1_000
_LABELS = 120
_DRAWN_FROM = 2_000
_CELLS = ((True, True), (True, False), (False, True), (False, False))


def a_labelled_sample(
    generator: np.random.Generator, *, failing_first: bool, rate: float = 0.8, sensitivity: float = 0.95
) -> tuple[Confusion, int]:
    """Draw labels of 120 of 1,000 results of a judge with specificity 0.6; return them with its passes."""
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


def a_weighted_sample(generator: np.random.Generator, *, rate: float = 0.8) -> tuple[list[DrawnLabel], int, int]:
    """Draw labels of all results near the threshold, for which the judge errs more often, and of 5 % of the others.

    Returns them with the number of results that the judge passed, and of all 2,000.
    """
    truth = generator.random(_DRAWN_FROM) < rate
    judged = np.where(truth, generator.random(_DRAWN_FROM) < 0.95, generator.random(_DRAWN_FROM) < 0.4)
    near = generator.random(_DRAWN_FROM) < np.where(truth == judged, 0.03, 0.2)
    chance = np.where(near, 1.0, 0.05)
    drawn = generator.random(_DRAWN_FROM) < chance
    rows = zip(truth[drawn].tolist(), judged[drawn].tolist(), chance[drawn].tolist(), strict=True)
    labels = [DrawnLabel(people=people, judged=verdict, probability=each) for people, verdict, each in rows]
    return labels, int(judged.sum()), _DRAWN_FROM


def main() -> None:
    """Print the table of the documentation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=4_000)
    samples = parser.parse_args().samples
    print("| labels | rate | raw | labels alone | corrected | its mean width |\n|---|--:|--:|--:|--:|--:|")
    for way, sample in _WAYS.items():
        for rate in (0.5, 0.8, 0.95):
            print(f"| {way} | {rate:.0%} | {' | '.join(_covered(samples, sample, rate))} |")


Sample = Callable[[np.random.Generator, float], tuple[Calibration, Confusion]]


def _by(*, failing_first: bool) -> Sample:
    def sample(generator: np.random.Generator, rate: float) -> tuple[Calibration, Confusion]:
        confusion, passed = a_labelled_sample(generator, failing_first=failing_first, rate=rate)
        return calibrate(confusion, judged_passed=passed, judged_failed=_JUDGED - passed), confusion

    return sample


def _weighted(generator: np.random.Generator, rate: float) -> tuple[Calibration, Confusion]:
    drawn, passed, judged = a_weighted_sample(generator, rate=rate)
    confusion = confusion_of((each.people, each.judged) for each in drawn)
    return calibrate(confusion, judged_passed=passed, judged_failed=judged - passed, drawn=drawn), confusion


_WAYS: Final[Mapping[str, Sample]] = {
    "blind": _by(failing_first=False),
    "failing first": _by(failing_first=True),
    "near the threshold, weighted": _weighted,
}


def _covered(samples: int, sample: Sample, rate: float) -> list[str]:
    generator = np.random.default_rng(7)
    raw = alone = corrected = known = 0
    width = 0.0
    for _ in range(samples):
        calibration, confusion = sample(generator, rate)
        holds = _holding(rate)
        raw += holds(calibration.raw)
        people = confusion.people_passed
        labels = calibrate(Confusion(), judged_passed=people, judged_failed=confusion.labels - people)
        alone += holds(labels.raw)
        if calibration.corrected.interval is not None:
            known += 1
            corrected += holds(calibration.corrected)
            width += calibration.corrected.interval.high - calibration.corrected.interval.low
    return [f"{raw / samples:.0%}", f"{alone / samples:.0%}", f"{corrected / known:.1%}", f"{width / known:.3f}"]


def _holding(rate: float) -> Callable[[IntervalMeasure], bool]:
    return lambda measure: measure.interval is not None and measure.interval.low <= rate <= measure.interval.high


if __name__ == "__main__":
    main()
