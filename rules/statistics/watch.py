"""Evidence that is checked after every result, at the cost of a comparison of two numbers.

A watch sums the evidence that the mean has been below the baseline's by more than the margin since one of several
moments.

- With one start of weight 1 it is the e-process of `two_sample`, and a threshold of 1/alpha is reached with a
  probability of at most alpha, ever.
- With a start of weight w after every w results it is a Shiryaev-Roberts e-detector (Shin, Ramdas and Rinaldo,
  "E-detectors: a nonparametric framework for sequential change detection", New England J. Statist. Data Sci. 2 (2024),
  section 2). While nothing changes, the expected sum after
  n results is at most n, so that a threshold of A is reached within n results with a probability of at most n/A, for
  every n, and the mean number of results before it is at least A/2. (For a known mean of the baseline it would be A.
  Here baselines are samples; one that looks better than its true mean favours early alarms throughout.)
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from rules.statistics.sample import NOTHING, POINTS, ResultRange, Sample, WeightTally, in_results
from rules.statistics.two_sample import Contest, least, refuted_mean
from rules.statistics.wealth import CANDIDATE, LARGEST_SHARE, log_growth_lower, log_wealth_of_baselines

_ROUNDING = 1e-9  # a threshold that is met but for rounding is met


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A moment since which the mean may be lower."""

    count: int  # results of the watch before it
    before: Sample  # these results
    baseline: int  # the number of the baseline it is compared with
    weight: int
    at: int = 0  # the number of the last result before it


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A baseline."""

    number: int  # by which starts refer to it
    planned: int  # the results that it had when it was first compared with; it may have more
    refuted: float  # the means up to this one were refuted by it, when it was first compared with
    sample: Sample
    of: ResultRange | None = None  # the results that it is of, if known when the watch started


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchState:
    """Everything a watch has to remember."""

    baselines: tuple[Compared, ...] = ()
    starts: tuple[Start, ...] = ()
    total: Sample = NOTHING


NOTHING_SEEN: Final = WatchState()


def compared_with(number: int, baseline: Sample, log_threshold: float, of: ResultRange | None = None) -> Compared:
    """Return a new baseline, with the means that it refutes by itself at the threshold."""
    refuted = refuted_mean(baseline, baseline.count, log_threshold)
    return Compared(number=number, planned=baseline.count, refuted=refuted, sample=baseline, of=of)


def since_ever(baseline: Sample, candidate: Sample, log_threshold: float) -> WatchState:
    """Return the state of a watch with one start before all of the candidate's results, past and later ones."""
    compared = compared_with(0, baseline, log_threshold)
    since = Start(count=0, before=NOTHING, baseline=0, weight=1)
    return WatchState(baselines=(compared,), starts=(since,), total=candidate)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchFinding:
    """The start with the most evidence, and the evidence of all starts."""

    log_evidence: float
    baseline: Sample
    candidate: Sample
    of_baseline: ResultRange | None = None  # the results that the baseline is of, if known
    after: int = 0  # the number of the last result before the start


class _Baseline:
    """A baseline that may grow."""

    __slots__ = ("number", "of", "planned", "refuted", "tally")

    def __init__(self, state: Compared) -> None:
        self.number, self.planned, self.refuted, self.of = state.number, state.planned, state.refuted, state.of
        self.tally = WeightTally(state.sample)

    @property
    def state(self) -> Compared:
        sample = self.tally.sample()
        return Compared(number=self.number, planned=self.planned, refuted=self.refuted, sample=sample, of=self.of)


class _Reference:
    """The evidence of all starts if the baseline's mean were a given one: an upper bound at a low cost.

    Starts that are forgotten later stay in it, which keeps it an upper bound.
    """

    __slots__ = ("_baselines", "_grown", "_growth", "at", "most_of_baseline", "most_of_candidate")

    def __init__(self, at: float, margin: float) -> None:
        self.at = at
        self._baselines: dict[int, float] = {}
        self._growth = log_growth_lower(POINTS, np.array([at - margin]))[:, 0, :]
        self._grown = np.full(len(self._growth), -math.inf)
        # What one result can add to the log of the evidence, by its point.
        self.most_of_candidate: list[float] = np.maximum(self._growth.max(axis=0), 0.0).tolist()
        self.most_of_baseline = float(np.log1p(LARGEST_SHARE * (1 / max(at, 1e-9) - 1)))

    def join(self, start: Start, baseline: _Baseline) -> None:
        """Add the evidence of a start."""
        if start.baseline not in self._baselines:
            weights, planned = in_results([baseline.tally.weights]), np.array([baseline.planned])
            wealth = log_wealth_of_baselines(weights, planned, POINTS, np.array([self.at]))
            self._baselines[start.baseline] = float(wealth[0, 0])
        before = self._growth @ in_results([start.before.dense()])[0]
        part = CANDIDATE.log_parts + self._baselines[start.baseline] + math.log(start.weight) - before
        self._grown = np.logaddexp(self._grown, part)

    def log_evidence(self, total: WeightTally) -> float:
        """Return the evidence with this total."""
        logs = self._growth @ in_results([total.weights])[0] + self._grown
        top = logs.max()
        return float(top + np.log(np.exp(logs - top).sum()))


class Watch:
    """The sum of the evidence of all starts, against a threshold.

    The evidence is the least over all means of the baseline, so it is below the threshold if it is below for one mean.
    The last such mean is kept as a reference, with the slack, the log evidence that is missing there. Each result
    reduces the slack by the most that it can add; only once no slack is left, evidence is computed.
    """

    __slots__ = ("_baselines", "_reference", "_slack", "_stale", "_starts", "log_threshold", "margin", "total")

    def __init__(self, state: WatchState, *, margin: float, log_threshold: float) -> None:
        self.margin = margin
        self.log_threshold = log_threshold
        self.total = WeightTally(state.total)
        self._baselines = {each.number: _Baseline(each) for each in state.baselines}
        self._starts = list(state.starts)
        self._reference: _Reference | None = None
        self._slack = 0.0
        self._stale = False  # baselines have grown since the reference was made

    @property
    def state(self) -> WatchState:
        """Return a snapshot from which to continue."""
        return WatchState(
            baselines=tuple(baseline.state for baseline in self._baselines.values()),
            starts=tuple(self._starts),
            total=self.total.sample(),
        )

    @property
    def starts(self) -> Sequence[Start]:
        """Return the moments, oldest first."""
        return self._starts

    def start(self, baseline: Sample | None, weight: int, *, at: int = 0, of: ResultRange | None = None) -> None:
        """Add a moment since which the mean may be lower; without a `baseline`, that of the last start is used.

        `at` is the number of the last result, and `of` says which results the baseline is of.

        The first start of a baseline must not have a greater weight than the others.
        """
        number = max(self._baselines, default=-1)
        if baseline is not None:
            number += 1
            compared = compared_with(number, baseline, self.log_threshold - math.log(weight), of)
            self._baselines[number] = _Baseline(compared)
        before = self.total.sample()
        start = Start(count=self.total.count, before=before, baseline=number, weight=weight, at=at)
        self._starts.append(start)
        self._slack = 0.0
        if self._reference is not None and self._reference.at < self._baselines[number].refuted:
            self._reference = None
        elif self._reference is not None:
            self._reference.join(start, self._baselines[number])

    def keep(self, starts: Iterable[Start]) -> None:
        """Drop all other starts, and baselines that none of them uses."""
        self._starts = list(starts)
        used = {start.baseline for start in self._starts} | {max(self._baselines, default=-1)}
        self._baselines = {number: kept for number, kept in self._baselines.items() if number in used}

    def add_baseline(self, point: int, above: int) -> None:
        """Add a result of the last baseline."""
        self._baselines[max(self._baselines)].tally.add(point, above)
        self._stale = True
        self._slack = self._slack - self._reference.most_of_baseline if self._reference else 0.0

    def add(self, point: int, above: int) -> bool:
        """Add a result, as `split` returns it; return True if `found` has to be called."""
        self.total.add(point, above)
        if self._reference is not None:
            self._slack -= self._reference.most_of_candidate[point]
        return self._slack <= 0

    def found(self) -> WatchFinding | None:
        """Return the evidence, if it has reached the threshold."""
        if not self._starts:
            return None
        if self._reference is not None:
            reference = self._refer(self._reference.at) if self._stale else self._reference
            self._slack = self.log_threshold - reference.log_evidence(self.total)
            if self._slack > 0:
                return None
        least_evidence = least(self._contest())
        if least_evidence.log_evidence >= self.log_threshold - _ROUNDING:
            return self.finding()
        self._slack = self.log_threshold - self._refer(least_evidence.at).log_evidence(self.total)
        return None

    def finding(self) -> WatchFinding:
        """Return the evidence, and the start that has most of it. There must be one."""
        tested = self._contest()
        minimum = least(tested)
        most = self._starts[int(tested.terms(*(np.array([minimum.at]),) * 2)[0].argmax())]
        return WatchFinding(
            log_evidence=minimum.log_evidence,
            baseline=self._baselines[most.baseline].tally.sample(),
            candidate=self.total.sample() - most.before,
            of_baseline=self._baselines[most.baseline].of,
            after=most.at,
        )

    def _refer(self, at: float) -> _Reference:
        self._reference, self._stale = _Reference(at, self.margin), False
        for start in self._starts:
            self._reference.join(start, self._baselines[start.baseline])
        return self._reference

    def _contest(self) -> Contest:
        numbers = list(self._baselines)
        total = np.array(self.total.weights)
        before = np.array([start.before.dense() for start in self._starts])
        candidates = in_results((total - before).tolist())
        baselines = in_results([each.tally.weights for each in self._baselines.values()])
        used = np.flatnonzero(total + baselines.any(axis=0))
        return Contest(
            points=POINTS[used],
            baselines=baselines[:, used],
            planned=np.array([each.planned for each in self._baselines.values()]),
            candidates=candidates[:, used],
            against=[numbers.index(start.baseline) for start in self._starts],
            log_weights=np.log([start.weight for start in self._starts]),
            margin=self.margin,
            floor=max(baseline.refuted for baseline in self._baselines.values()),
        )
