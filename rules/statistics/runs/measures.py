"""Measures by which two runs are compared: each evaluator's scores, and the pass rate over all evaluators."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rules.statistics.runs.options import KINDS, Options
from rules.statistics.runs.records import (
    FAILED,
    MISSING,
    NO_TRIAL,
    SCORED,
    SKIPPED,
    UNSCORED,
    Direction,
    FinishedRun,
    Numbers,
)

Places: TypeAlias = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Index of each paired item in the baseline and in the candidate."""

PASS_RATE: Final = "pass rate"  # noqa: S105 - no password
"""The measure of trials that every evaluator passed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Side:
    """A run by one measure: scores and outcomes of trials by item."""

    scores: Numbers
    outcomes: NDArray[np.uint8]

    def count(self, kind: str) -> int:
        """Return the number of trials that have no score for this reason."""
        return int((self.outcomes == UNSCORED[kind]).sum())

    def means(self) -> Numbers:
        """Return the mean of each item's trials; NaN for an item without a score."""
        scored = ~np.isnan(self.scores)
        counts = scored.sum(axis=1)
        sums = np.where(scored, self.scores, 0.0).sum(axis=1)
        return np.where(counts > 0, sums / np.maximum(counts, 1), math.nan)

    def with_fails(self, kinds: tuple[str, ...], worst: float) -> "Side":
        """Return the side with trials of these kinds taken as the worst score."""
        taken = np.isin(self.outcomes, [UNSCORED[kind] for kind in kinds])
        return Side(scores=np.where(taken, worst, self.scores), outcomes=self.outcomes)

    @property
    def is_pass_or_fail(self) -> bool:
        """Return True if every score is 0 or 1."""
        known = self.scores[~np.isnan(self.scores)]
        return bool(((known == 0) | (known == 1)).all())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measure:
    """A measure by which both runs are compared."""

    name: str
    better: Direction
    baseline: Side
    candidate: Side
    is_pass_rate: bool = False  # it is the pass rate, or its scores equal it

    @property
    def sign(self) -> int:
        """Return the factor, 1 or -1, that makes a greater difference a better one."""
        return 1 if self.better == "higher" else -1

    @property
    def worst(self) -> float:
        """Return the worst score of the scale from 0 to 1."""
        return 0.0 if self.better == "higher" else 1.0

    def settled(self, options: Options) -> "Measure":
        """Return the measure with unscored trials of the policy `worst` as fails."""
        kinds = tuple(kind for kind in KINDS if options.policy_of(kind) == "worst")
        return self._copy(self.baseline.with_fails(kinds, self.worst), self.candidate.with_fails(kinds, self.worst))

    def feared(self, options: Options) -> "Measure | None":
        """Return the measure with the candidate's unscored trials of the policy `check` as fails; None without any."""
        kinds = tuple(k for k in KINDS if options.policy_of(k) == "check" and self.candidate.count(k))
        return self._copy(self.baseline, self.candidate.with_fails(kinds, self.worst)) if kinds else None

    def _copy(self, baseline: Side, candidate: Side) -> "Measure":
        return replace(self, baseline=baseline, candidate=candidate)


def measures_of(baseline: FinishedRun, candidate: FinishedRun, names: list[str]) -> list[Measure]:
    """Return the evaluators of both runs by name, and the pass rate unless an evaluator's scores equal it."""
    before, after = _evaluators(baseline), _evaluators(candidate)
    measures = [
        Measure(
            name=name,
            better=candidate.evaluators[after[name]].better,
            baseline=_side(baseline, before[name]),
            candidate=_side(candidate, after[name]),
        )
        for name in names
    ]
    rate = pass_rate_of(baseline, candidate, names)
    known = all((~np.isnan(side.scores)).any() for side in (rate.baseline, rate.candidate))
    if not known:
        return measures
    same = next((at for at, each in enumerate(measures) if _are_same(each, rate.baseline, rate.candidate)), None)
    if same is None:
        return [*measures, rate]
    return [replace(each, is_pass_rate=at == same) for at, each in enumerate(measures)]


def pass_rate_of(baseline: FinishedRun, candidate: FinishedRun, names: list[str]) -> Measure:
    """Return the pass rate as a measure: a trial passes if all evaluators passed it."""
    sides = [_passes(run, [_evaluators(run)[name] for name in names]) for run in (baseline, candidate)]
    return Measure(name=PASS_RATE, better="higher", baseline=sides[0], candidate=sides[1], is_pass_rate=True)


def _evaluators(run: FinishedRun) -> Mapping[str, int]:
    return {each.name: at for at, each in enumerate(run.evaluators)}


def _side(run: FinishedRun, at: int) -> Side:
    return Side(scores=run.scores[at], outcomes=run.outcomes[at])


def _passes(run: FinishedRun, chosen: list[int]) -> Side:
    """Compute the pass rate of one run.

    A trial fails if any evaluator failed it; else it is unknown if any evaluator has no verdict.

    """
    passed, outcomes = run.passed[chosen], run.outcomes[chosen]
    scored = outcomes == SCORED
    failed = (scored & (passed == 0)).any(axis=0)
    rates = np.where(failed, 0.0, np.where((scored & (passed == 1)).all(axis=0), 1.0, math.nan))
    codes = np.full(rates.shape, SCORED, dtype=np.uint8)
    for code in (MISSING, SKIPPED, FAILED):
        codes[(outcomes == code).any(axis=0)] = code
    codes[~np.isnan(rates)] = SCORED
    codes[(codes == SCORED) & np.isnan(rates)] = MISSING
    codes[(outcomes == NO_TRIAL).all(axis=0)] = NO_TRIAL
    return Side(scores=rates, outcomes=codes)


def _are_same(measure: Measure, before: Side, after: Side) -> bool:
    return measure.better == "higher" and all(
        np.array_equal(one.scores, other.scores, equal_nan=True)
        for one, other in ((measure.baseline, before), (measure.candidate, after))
    )


def unscored_of(measure: Measure) -> Mapping[str, tuple[int, int]]:
    """Return the number of trials without a score on each side, by kind."""
    return {kind: (measure.baseline.count(kind), measure.candidate.count(kind)) for kind in KINDS}
