"""Test if a candidate is worse than a baseline by more than a margin, with neither mean known.

The null hypothesis is that the candidate's mean is at least p - margin, where p is the baseline's mean, whatever p is.
For one p, the product of the baseline's wealth from betting that its mean is higher than p and the candidate's from
betting that its mean is lower than p - margin is a test supermartingale. The evidence is the least of these products
over all p: an e-process, since it is at most the one of the true p. It reaches 1/alpha with a probability of at most
alpha, whenever and however often one looks, whatever both means are, and however results of both sides alternate.

Means that the baseline alone has refuted at the threshold, before the candidate has any results, are bet against no
more: those bets are won, and their products stay constant. So the least is taken over the other means only (`floor`).
The evidence can then be compared with the threshold; capped at the threshold, the number is an e-value.

Why this construction: dividing by the largest likelihood under the null (universal inference; Wasserman, Ramdas and
Balakrishnan, PNAS 117 (2020)) pays for not knowing p with half a logarithm of the baseline's size. Here the
bet may depend on the p that it is made against, so the baseline only bets against the values of p that make the
candidate look good: a part of its wealth is never staked, and most of the rest on deviations of 1 to 3 standard errors.
Products of wealths as e-variables for two samples: Turner, Ly and Grünwald, "Generic e-variables for exact sequential
k-sample tests", J. Statist. Plann. Inference 230 (2024), section 2; the least over a composite null: Ramdas, Ruf,
Larsson and Koolen, "Testing exchangeability: fork-convexity, supermartingales and e-processes", Int. J. Approx.
Reasoning 141 (2022).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from rules.statistics.sample import POINTS, Sample, in_results
from rules.statistics.wealth import Numbers, log_sum, log_wealth_lower, log_wealth_of_baselines

_CELLS: Final = np.sin(np.linspace(0.0, np.pi / 2, 65)) ** 2
_PARTS: Final = 8  # parts of a cell
_CUTS: Final = (
    4  # so that the last cells are 1/262,144 of the range, a tenth of the standard error of a billion results
)
_CLOSE: Final = 0.005  # tolerance of the log evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Least:
    """The least of the products over all means of the baseline."""

    log_evidence: float  # never more than the true one, and hardly less
    at: float  # the baseline's mean against which there is no more evidence than `above`
    above: float  # the log of the evidence there: the true least is between the two


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contest:
    """Candidates against baselines; the evidence is the sum over the candidates, each with a weight.

    With one candidate and a weight of 1 it is the test of two samples. With more, each candidate has the results
    since a different moment, and the sum is the e-detector of `detector`.
    """

    points: Numbers  # the scores that occur
    baselines: Numbers  # a row for each: how many results at each of the points
    planned: Numbers  # results that each of them was expected to have
    candidates: Numbers  # a row for each: how many results at each of the points
    against: Sequence[int]  # the baseline of each candidate
    log_weights: Numbers
    margin: float
    floor: float = 0.0  # means of the baseline below this one are not tested

    def terms(self, higher_than: Numbers, lower_than: Numbers) -> Numbers:
        """Return the log of each candidate's part, in columns, for bets against these baseline means, in rows."""
        higher = log_wealth_of_baselines(self.baselines, self.planned, self.points, higher_than)[:, self.against]
        lower = log_wealth_lower(self.candidates, self.points, lower_than - self.margin)
        return higher + lower + self.log_weights


def contest(baseline: Sample, candidate: Sample, margin: float, planned: int | None = None) -> Contest:
    """Compare one candidate with one baseline; `planned` is its number of results, by default the actual one."""
    weights = in_results([baseline.dense(), candidate.dense()])
    used = weights.any(axis=0)
    return Contest(
        points=POINTS[used],
        baselines=weights[:1, used],
        planned=np.array([max(baseline.count if planned is None else planned, 1)]),
        candidates=weights[1:, used],
        against=[0],
        log_weights=np.zeros(1),
        margin=margin,
    )


def least(tested: Contest) -> Least:
    """Return the evidence.

    The baseline's wealth falls with the mean and the candidate's grows. So the product within a cell of means is at
    least the baseline's wealth at the upper end times the candidate's at the lower end. Cells are divided where this
    bound is too low.

    """
    lows, highs = np.maximum(_CELLS[:-1], tested.floor), _CELLS[1:]
    lows, highs = lows[lows < highs], highs[lows < highs]
    at, above, settled = 0.0, np.inf, np.inf
    for cut in range(_CUTS + 1):
        exact = log_sum(tested.terms(highs, highs), axis=1)
        lowest = int(exact.argmin())
        if exact[lowest] < above:
            at, above = float(highs[lowest]), float(exact[lowest])
        bounds = log_sum(tested.terms(highs, lows), axis=1)
        coarse = bounds < above - _CLOSE
        settled = min(settled, bounds[~coarse].min(initial=np.inf))
        if cut == _CUTS or not coarse.any():
            settled = min(settled, bounds.min())
            break
        edges = np.linspace(lows[coarse], highs[coarse], _PARTS + 1)
        lows, highs = edges[:-1].T.ravel(), edges[1:].T.ravel()
    return Least(log_evidence=float(settled), at=at, above=above)


def refuted_mean(baseline: Sample, planned: int, log_evidence: float) -> float:
    """Return the highest mean against which the baseline by itself has `log_evidence`, rounded down."""
    weights = in_results([baseline.dense()])
    used = weights.any(axis=0)
    low, high = 0.0, 1.0
    for _ in range(2):
        edges = np.linspace(low, high, len(_CELLS))
        wealth = log_wealth_of_baselines(weights[:, used], np.array([max(planned, 1)]), POINTS[used], edges[1:])[:, 0]
        reached = int((wealth >= log_evidence).sum())
        low, high = float(edges[reached]), float(edges[min(reached + 1, len(edges) - 1)])
    return low


def log_evidence(baseline: Sample, candidate: Sample, margin: float = 0.0, planned: int | None = None) -> float:
    """Return the log of the evidence that the candidate's mean is below the baseline's by more than the margin.

    Significant at alpha when it reaches log(1/alpha). It depends on the two samples alone, not on their order. If the
    baseline grows while the evidence is checked repeatedly, `planned` has to stay the same.

    """
    return least(contest(baseline, candidate, margin, planned)).log_evidence
