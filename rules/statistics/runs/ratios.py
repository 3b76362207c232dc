"""Ratios of cost and time of two runs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from rules.statistics.formulas.resampling import signs_p_value, t_interval
from rules.statistics.intervals import Interval
from rules.statistics.runs.differences import Verdict
from rules.statistics.runs.measures import Places
from rules.statistics.runs.options import Options
from rules.statistics.runs.records import FinishedRun, Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Cost or time of the candidate as a multiple of the baseline's, over the items with a value in both runs."""

    name: str
    compared: int
    baseline_total: float
    candidate_total: float
    ratio: float  # geometric mean over items
    interval: Interval
    p_value: float
    p95: tuple[float, float] | None  # of items' means, on each side
    verdict: Verdict | None  # None: it decides nothing


USAGE: Final[Mapping[str, str]] = {"cost_usd": "cost_margin", "latency_ms": "latency_margin"}
"""Measures that are compared as ratios, with the option of the tolerated increase."""


def ratio_of(
    name: str, baseline: FinishedRun, candidate: FinishedRun, places: Places, options: Options
) -> Ratio | None:
    """Return the ratio of candidate to baseline, or None if a run has no values."""
    sides = (getattr(baseline, name), getattr(candidate, name))
    if sides[0] is None or sides[1] is None:
        return None
    before, after = (_mean_of_known(side)[at] for side, at in zip(sides, places, strict=True))
    both = (before > 0) & (after > 0)
    before, after = before[both], after[both]
    if not before.size:
        return None
    logs = np.log(after / before)
    interval = t_interval(logs, 1 - options.alpha)
    margin, p_value = getattr(options, USAGE[name]), signs_p_value(logs, options.draws, name)
    verdict: Verdict | None = None
    if margin is not None:
        lost = interval.low > 0 and p_value < options.alpha
        verdict = "not_worse" if interval.high < math.log1p(margin) else "regressed" if lost else "inconclusive"
    low, high = (math.exp(min(end, 700.0)) for end in (interval.low, interval.high))
    return Ratio(
        name=name,
        compared=before.size,
        baseline_total=float(before.sum()),
        candidate_total=float(after.sum()),
        ratio=float(np.exp(logs.mean())),
        interval=Interval(low=low, high=high),
        p_value=p_value,
        p95=(float(np.quantile(before, 0.95)), float(np.quantile(after, 0.95))),
        verdict=verdict,
    )


def _mean_of_known(usage: Numbers) -> Numbers:
    known = ~np.isnan(usage)
    means: Numbers = np.where(known, usage, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    return means
