"""A finished run as arrays: items, their trials, and each evaluator's result of each trial."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Direction: TypeAlias = Literal["higher", "lower"]
Outcome: TypeAlias = Literal["scored", "failed", "skipped"]
Numbers = NDArray[np.float64]

NO_TRIAL: Final = 0  # the item has fewer trials than others
SCORED: Final = 1
FAILED: Final = 2  # the evaluator or the application broke, or the score is not a number
SKIPPED: Final = 3
MISSING: Final = 4  # the trial exists, but has no result of the evaluator

_CODES: Final[Mapping[str, int]] = {"scored": SCORED, "failed": FAILED, "skipped": SKIPPED}
UNSCORED: Final[Mapping[str, int]] = {"failed": FAILED, "skipped": SKIPPED, "missing": MISSING}
"""States of a trial without a score, with their codes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedEvaluator:
    """An evaluator of a run."""

    name: str
    better: Direction = "higher"
    threshold: float | None = None
    fingerprint: str | None = None  # None: unknown, which is not compared


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedItem:
    """An item that was judged."""

    key: str  # the same in both runs
    text: str = ""  # its input, cut, for people
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """Result of one evaluator on one trial of one item."""

    item: str
    evaluator: str
    trial: int = 0  # from 0
    outcome: Outcome = "scored"
    score: float | None = None
    passed: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FinishedRun:
    """A finished run. Arrays have an axis of evaluators, then of items, then of trials."""

    items: Sequence[JudgedItem]
    evaluators: Sequence[ComparedEvaluator]
    outcomes: NDArray[np.uint8]
    scores: Numbers  # NaN without a score
    passed: Numbers  # 1 or 0; NaN if unknown
    cost_usd: Numbers | None = None  # of items and trials; NaN where unknown
    latency_ms: Numbers | None = None

    def __post_init__(self) -> None:
        shape = (len(self.evaluators), len(self.items))
        if self.outcomes.shape[:2] != shape or self.scores.shape != self.outcomes.shape:
            raise ValueError(f"the arrays do not fit {shape[0]} evaluators and {shape[1]} items")
        keys = {item.key for item in self.items}
        if len(keys) != len(self.items):
            raise ValueError("an item is in the run twice")


def run_of(
    items: Sequence[JudgedItem],
    evaluators: Sequence[ComparedEvaluator],
    results: Iterable[TrialResult],
    usage: Mapping[str, Mapping[tuple[str, int], float]] | None = None,
) -> FinishedRun:
    """Return the run of these results. `usage` maps `cost_usd` and `latency_ms` to numbers by item and trial.

    Raises:
        ValueError: a result is there twice, or is of an unknown item or evaluator.

    """
    rows = list(results)
    of_item = {item.key: at for at, item in enumerate(items)}
    of_evaluator = {evaluator.name: at for at, evaluator in enumerate(evaluators)}
    trials = 1 + max((result.trial for result in rows), default=0)
    shape = (len(evaluators), len(items), trials)
    outcomes = np.full(shape, NO_TRIAL, dtype=np.uint8)
    scores, passed = np.full(shape, math.nan), np.full(shape, math.nan)
    for result in rows:
        if result.item not in of_item or result.evaluator not in of_evaluator:
            raise ValueError(
                f"a result is of item {result.item!r} and evaluator {result.evaluator!r}, and one is unknown"
            )
        at = of_evaluator[result.evaluator], of_item[result.item], result.trial
        if outcomes[at] != NO_TRIAL:
            raise ValueError(
                f"evaluator {result.evaluator!r} judged trial {result.trial} of item {result.item!r} twice"
            )
        outcomes[at] = _code_of(result)
        if outcomes[at] == SCORED:
            scores[at] = result.score
            passed[at] = math.nan if result.passed is None else result.passed
    exists = (outcomes != NO_TRIAL).any(axis=0)
    exists[:, 0] = True  # an item has at least one trial, of which perhaps nothing is known
    outcomes[(outcomes == NO_TRIAL) & exists] = MISSING
    known = usage or {}
    return FinishedRun(
        items=items,
        evaluators=evaluators,
        outcomes=outcomes,
        scores=scores,
        passed=passed,
        cost_usd=_used(known.get("cost_usd"), of_item, shape[1:]),
        latency_ms=_used(known.get("latency_ms"), of_item, shape[1:]),
    )


def _code_of(result: TrialResult) -> int:
    # A score that is not finite is a failure, never a pass.
    if result.outcome == "scored" and (result.score is None or not math.isfinite(result.score)):
        return FAILED
    return _CODES[result.outcome]


def _used(
    known: Mapping[tuple[str, int], float] | None, of_item: Mapping[str, int], shape: tuple[int, ...]
) -> Numbers | None:
    if not known:
        return None
    numbers = np.full(shape, math.nan)
    for (item, trial), number in known.items():
        if trial < shape[1]:
            numbers[of_item[item], trial] = number
    return numbers


def with_terms_of(run: FinishedRun, other: FinishedRun) -> FinishedRun:
    """Return the run; its evaluators that scored nothing in it take direction and threshold from the other run.

    An evaluator that only failed did not record them.
    """
    theirs = {each.name: each for each in other.evaluators}
    has_scored = (run.outcomes == SCORED).any(axis=(1, 2))
    evaluators = [
        each
        if scored or each.name not in theirs
        else replace(each, better=theirs[each.name].better, threshold=theirs[each.name].threshold)
        for each, scored in zip(run.evaluators, has_scored, strict=True)
    ]
    return replace(run, evaluators=evaluators)


def with_thresholds(run: FinishedRun, thresholds: Mapping[str, float]) -> FinishedRun:
    """Return the run with other thresholds for these evaluators; a score that equals one passes."""
    if not thresholds:
        return run
    passed, evaluators = run.passed.copy(), list(run.evaluators)
    for at, each in enumerate(run.evaluators):
        threshold = thresholds.get(each.name)
        if threshold is None:
            continue
        evaluators[at] = replace(each, threshold=threshold)
        scores = run.scores[at]
        is_enough = scores <= threshold if each.better == "lower" else scores >= threshold
        passed[at] = np.where(run.outcomes[at] == SCORED, is_enough, np.nan)
    return replace(run, evaluators=evaluators, passed=passed)
