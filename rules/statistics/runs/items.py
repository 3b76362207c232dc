"""Two runs item by item: movements, by evaluator, in order of importance."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rules.statistics.runs.comparison import common_evaluators
from rules.statistics.runs.measures import PASS_RATE, Measure, measures_of, pass_rate_of
from rules.statistics.runs.options import Options
from rules.statistics.runs.records import FinishedRun, Numbers, with_terms_of, with_thresholds

Movement: TypeAlias = Literal["REGRESSED", "IMPROVED", "UNCHANGED", "UNSCORED", "ADDED", "REMOVED"]
Places: TypeAlias = NDArray[np.intp]
Codes: TypeAlias = NDArray[np.int8]

MOVEMENTS: Final[Sequence[Movement]] = ("REGRESSED", "IMPROVED", "UNCHANGED", "UNSCORED", "ADDED", "REMOVED")
"""Movements of an item; arrays hold the index in this list."""

_REGRESSED, _IMPROVED, _UNCHANGED, _UNSCORED, _ADDED, _REMOVED = range(6)
_HALF: Final = 0.5  # share of passed trials at which an item passes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EvaluatorColumn:
    """The mean scores of each item by one evaluator; NaN if a run has no score of it."""

    name: str
    before: Numbers
    after: Numbers
    gains: Numbers  # after - before, turned so that more is better

    @property
    def is_half_scored(self) -> NDArray[np.bool_]:
        """Return a mask of the items that have a score in one run only."""
        half: NDArray[np.bool_] = np.isnan(self.before) != np.isnan(self.after)
        return half


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ItemTable:
    """All items of two runs. Each array has an entry for each item: those of the candidate first, then removed ones."""

    before: Places  # position of the item in the baseline; -1: missing
    after: Places  # position of the item in the candidate; -1: missing
    movements: Codes
    flips: Codes  # -1: at least half of the trials passed, and no longer do; 1: the other way round
    columns: Sequence[EvaluatorColumn]
    pass_rates: tuple[float, float] | None  # over items with a known rate in both runs; None without any
    order: Places  # items as they are listed
    warnings: Sequence[str]

    @property
    def counts(self) -> Mapping[Movement, int]:
        """Return the number of items by movement."""
        counts = np.bincount(self.movements, minlength=len(MOVEMENTS)).tolist()
        return dict(zip(MOVEMENTS, counts, strict=True))

    def listed(self, movements: Sequence[Movement]) -> list[int]:
        """Return the items with one of these movements: flips first, then greatest losses, then greatest gains."""
        chosen = np.isin(self.movements, [MOVEMENTS.index(each) for each in movements])
        listed: list[int] = self.order[chosen[self.order]].tolist()
        return listed


def compare_items(baseline: FinishedRun, candidate: FinishedRun, options: Options | None = None) -> ItemTable:
    """Compare two runs item by item. Movements are counted as in the verdict on these runs.

    Raises:
        Incomparable: no evaluator is common, one differs in fingerprint or direction, or a threshold has no evaluator.

    """
    chosen = options or Options()
    baseline, candidate = with_terms_of(baseline, candidate), with_terms_of(candidate, baseline)
    names, warnings = common_evaluators(baseline, candidate, chosen)
    baseline, candidate = (with_thresholds(run, chosen.thresholds) for run in (baseline, candidate))
    before, after = _places(baseline, candidate)
    measures = [_column(each, before, after) for each in measures_of(baseline, candidate, names)]
    passes = _column(pass_rate_of(baseline, candidate, names), before, after)
    movements = _movements(measures, before, after, chosen.epsilon)
    flips = _flips(passes)
    columns = [each for each in measures if each.name != PASS_RATE]
    return ItemTable(
        before=before,
        after=after,
        movements=movements,
        flips=flips,
        columns=columns,
        pass_rates=_rates(passes),
        order=_order(measures, movements, flips),
        warnings=warnings,
    )


def _places(baseline: FinishedRun, candidate: FinishedRun) -> tuple[Places, Places]:
    known = {item.key: at for at, item in enumerate(baseline.items)}
    paired = [known.pop(item.key, -1) for item in candidate.items]
    before = np.array([*paired, *known.values()], dtype=np.intp)
    after = np.array([*range(len(paired)), *(-1 for _ in known)], dtype=np.intp)
    return before, after


def _column(measure: Measure, before: Places, after: Places) -> EvaluatorColumn:
    # Index -1, of a missing item, finds the NaN that is appended here.
    means = [np.append(side.means(), math.nan) for side in (measure.baseline, measure.candidate)]
    was, became = means[0][before], means[1][after]
    return EvaluatorColumn(name=measure.name, before=was, after=became, gains=measure.sign * (became - was))


def _movements(measures: Sequence[EvaluatorColumn], before: Places, after: Places, epsilon: float) -> Codes:
    """Classify items: worse by any measure is worse; better needs none that is worse; unscored lacks all measures."""
    movements = np.full(before.size, _UNCHANGED, dtype=np.int8)
    movements[np.any([each.gains > epsilon for each in measures], axis=0)] = _IMPROVED
    movements[np.any([each.gains < -epsilon for each in measures], axis=0)] = _REGRESSED
    movements[np.all([np.isnan(each.gains) for each in measures], axis=0)] = _UNSCORED
    movements[before < 0] = _ADDED
    movements[after < 0] = _REMOVED
    return movements


def _flips(passes: EvaluatorColumn) -> Codes:
    known = ~np.isnan(passes.gains)
    passed = [(side >= _HALF).astype(np.int8) for side in (passes.before, passes.after)]
    flips: Codes = np.where(known, passed[1] - passed[0], 0).astype(np.int8)
    return flips


def _rates(passes: EvaluatorColumn) -> tuple[float, float] | None:
    both = ~np.isnan(passes.gains)
    return (float(passes.before[both].mean()), float(passes.after[both].mean())) if both.any() else None


def _order(measures: Sequence[EvaluatorColumn], movements: Codes, flips: Codes) -> Places:
    """Return the order: flips to fail, flips to pass, other losses and gains, lost scores, and the rest."""
    gains = np.nan_to_num(np.stack([each.gains for each in measures]))
    half = np.any([each.is_half_scored for each in measures], axis=0) & np.isin(movements, (_UNCHANGED, _UNSCORED))
    group = np.select(
        [flips < 0, flips > 0, movements == _REGRESSED, movements == _IMPROVED, half], range(5), 5 + movements
    )
    size = np.where(movements == _REGRESSED, gains.min(axis=0), -gains.max(axis=0))
    order: Places = np.lexsort((np.arange(movements.size), size, group))
    return order
