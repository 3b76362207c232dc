"""Repeated trials of two runs: the chance that one of k trials passes, and that all of them pass."""

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rules.statistics.formulas.trials import pass_at_k, pass_hat_k
from rules.statistics.runs.measures import Measure, Places, Side

Counts: TypeAlias = NDArray[np.int64]

MOST_TRIALS: Final = 10
"""The largest k that is reported. A guess: published figures of agents have k up to 8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassChance:
    """Means over the items that have at least k trials with a known verdict in both runs."""

    k: int
    compared: int
    any_of: tuple[float, float]  # pass@k of the baseline and of the candidate
    all_of: tuple[float, float]  # pass^k of the baseline and of the candidate


def pass_chances(passes: Measure, places: Places) -> list[PassChance]:
    """Return pass@k and pass^k for k from 1 on; empty if no item has two trials with known verdicts in both runs."""
    before, after = (_passed(side)[at] for side, at in zip((passes.baseline, passes.candidate), places, strict=True))
    known = np.minimum(before[:, 0], after[:, 0])
    most = min(int(known.max(initial=0)), MOST_TRIALS)
    chances = []
    for k in range(1, most + 1) if most > 1 else ():
        enough = known >= k
        one, other = _means(before[enough], k), _means(after[enough], k)
        chances.append(
            PassChance(k=k, compared=int(enough.sum()), any_of=(one[0], other[0]), all_of=(one[1], other[1]))
        )
    return chances


def _passed(side: Side) -> Counts:
    counts = (~np.isnan(side.scores)).sum(axis=1), np.nansum(side.scores, axis=1)
    stacked: Counts = np.stack(counts, axis=1).astype(np.int64)
    return stacked


def _means(counts: Counts, k: int) -> tuple[float, float]:
    # One number for trials and passes together: sorting rows takes twenty times as long.
    base = int(counts[:, 0].max(initial=0)) + 1
    kinds, times = np.unique(counts @ (base, 1), return_counts=True)
    pairs = (divmod(kind, base) for kind in kinds.tolist())
    chances = [(pass_at_k(n, passed, k) or 0.0, pass_hat_k(n, passed, k) or 0.0) for n, passed in pairs]
    one, every = np.average(np.array(chances), axis=0, weights=times).tolist()
    return one, every
