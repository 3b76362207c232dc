"""Agreement of people who judge the same targets: beyond chance, in pairs, by label, by month, and by target."""

import datetime as dt
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, Literal, TypeAlias

import numpy as np

from rules.statistics.correcting import CONFIDENCE, IntervalMeasure
from rules.statistics.formulas.agreement import fleiss_kappa, kappa, kappa_error, krippendorff
from rules.statistics.formulas.quantiles import around, z_of
from rules.statistics.intervals import Interval

Metric: TypeAlias = Literal["nominal", "interval"]

RESAMPLES: Final = 500
"""Bootstrap resamples of whole judged items: 0.1 s for a thousand items with two votes. A guess."""

_TWO: Final = 2  # votes can differ


@dataclass(frozen=True, slots=True, kw_only=True)
class OneVote:
    """A vote of one person on one target: a label, or a score."""

    target: str
    author: str
    value: str | float
    at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PairOfPeople:
    """Two people and their agreement on the targets of both; kappa for labels only."""

    one: str
    other: str
    targets: int
    agreed: float
    kappa: IntervalMeasure


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelAgreement:
    """Agreement of pairs in which one person chose this label, and the labels that others chose instead."""

    label: str
    votes: int
    agreed: float | None
    instead: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthOfVotes:
    """Agreement on the targets whose last vote was in one month and that have two votes or more."""

    month: str
    targets: int
    alpha: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreed:
    """A target on which people disagree, with their votes."""

    target: str
    votes: Mapping[str, str | float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Agreement among people on targets that two or more people judged (`shared`).

    `fleiss` covers the `fleiss_targets` that have `raters` votes each.

    """

    metric: Metric
    votes: int
    targets: int
    shared: int
    alpha: IntervalMeasure
    fleiss: IntervalMeasure
    raters: int
    fleiss_targets: int
    pairs: Sequence[PairOfPeople]
    labels: Sequence[LabelAgreement]
    months: Sequence[MonthOfVotes]
    disagreed: Sequence[Disagreed]

    @property
    def in_words(self) -> str:
        """Interpret alpha by Krippendorff's own norms."""
        if self.alpha.value is None:
            return "Unknown: two people must judge the same targets, and not all alike."
        if self.alpha.value < 0.667:  # noqa: PLR2004 - his norm
            return "People do not agree enough: check the targets on which they disagree, and clarify the question."
        if self.alpha.value < 0.8:  # noqa: PLR2004 - his norm
            return "People agree well enough for tentative conclusions."
        return "People agree: their votes can be relied on."


def agreement(votes: Sequence[OneVote], *, most: int = 50) -> Agreement:
    """Measure agreement from the last vote of each person on each target.

    Labels are compared for equality, scores by their distance.

    """
    metric: Metric = "interval" if votes and all(isinstance(each.value, float) for each in votes) else "nominal"
    by_target: dict[str, dict[str, str | float]] = {}
    last_us: dict[str, int] = {}
    for each in votes:
        by_target.setdefault(each.target, {})[each.author] = each.value
        last_us[each.target] = max(last_us.get(each.target, 0), each.at_us)
    shared = {target: votes_by_author for target, votes_by_author in by_target.items() if len(votes_by_author) >= _TWO}
    codes = {label: float(at) for at, label in enumerate(sorted({str(each.value) for each in votes}))}
    units = {
        target: [float(value) if metric == "interval" else codes[str(value)] for value in votes_by_author.values()]
        for target, votes_by_author in shared.items()
    }
    raters, equal = _most_equal(list(units.values()))
    return Agreement(
        metric=metric,
        votes=len(votes),
        targets=len(by_target),
        shared=len(shared),
        alpha=_resampled(list(units.values()), lambda drawn: krippendorff(drawn, metric)),
        fleiss=_resampled(equal, lambda drawn: _fleiss(drawn, len(codes)))
        if metric == "nominal"
        else IntervalMeasure(value=None),
        raters=raters,
        fleiss_targets=len(equal),
        pairs=_pairs(shared, sorted(codes) if metric == "nominal" else []),
        labels=_labels(shared, sorted(codes)) if metric == "nominal" else [],
        months=_months(units, last_us, metric),
        disagreed=_disagreed(shared, units, most),
    )


def _resampled(
    units: Sequence[Sequence[float]], measure: Callable[[Sequence[Sequence[float]]], float | None]
) -> IntervalMeasure:
    """Return a measure with its bootstrap interval over whole units."""
    value = measure(units) if units else None
    if value is None:
        return IntervalMeasure(value=None)
    generator = np.random.default_rng(0)
    draws = (generator.integers(0, len(units), len(units)).tolist() for _ in range(RESAMPLES))
    known = [each for draw in draws if (each := measure([units[place] for place in draw])) is not None]
    low, high = np.quantile(known or [value], [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]).tolist()
    return IntervalMeasure(value=value, interval=Interval(low=min(low, value), high=max(high, value)))


def _most_equal(units: Sequence[Sequence[float]]) -> tuple[int, list[Sequence[float]]]:
    """Return the most common number of votes and the units that have it: Fleiss' kappa needs equal numbers."""
    counts = Counter(len(unit) for unit in units)
    if not counts:
        return 0, []
    raters, _ = max(counts.items(), key=lambda each: (each[1], each[0]))
    return raters, [unit for unit in units if len(unit) == raters]


def _fleiss(units: Sequence[Sequence[float]], classes: int) -> float | None:
    return fleiss_kappa([[unit.count(float(label)) for label in range(classes)] for unit in map(list, units)])


def _pairs(shared: Mapping[str, Mapping[str, str | float]], labels: Sequence[str]) -> list[PairOfPeople]:
    """Return the pairs of people with targets in common, those with the most targets first."""
    both: dict[tuple[str, str], list[tuple[str | float, str | float]]] = {}
    for by_author in shared.values():
        for one, other in combinations(sorted(by_author), _TWO):
            both.setdefault((one, other), []).append((by_author[one], by_author[other]))
    pairs = [
        PairOfPeople(
            one=one,
            other=other,
            targets=len(values),
            agreed=sum(first == second for first, second in values) / len(values),
            kappa=_kappa(values, labels),
        )
        for (one, other), values in both.items()
    ]
    return sorted(pairs, key=lambda each: (-each.targets, each.one, each.other))


def _kappa(values: Sequence[tuple[str | float, str | float]], labels: Sequence[str]) -> IntervalMeasure:
    if not labels:
        return IntervalMeasure(value=None)
    counts = Counter(values)
    table = [[counts[one, other] for other in labels] for one in labels]
    value, error = kappa(table), kappa_error(table)
    if value is None or error is None:
        return IntervalMeasure(value=None)
    return IntervalMeasure(value=value, interval=around(value, z_of(CONFIDENCE) * error))


def _labels(shared: Mapping[str, Mapping[str, str | float]], labels: Sequence[str]) -> list[LabelAgreement]:
    pairs: Counter[tuple[str, str]] = Counter()
    votes: Counter[str] = Counter()
    for by_author in shared.values():
        values = [str(value) for value in by_author.values()]
        votes.update(values)
        for first, second in combinations(values, _TWO):
            pairs[first, second] += 1
            pairs[second, first] += 1
    agreements = []
    for label in labels:
        instead = {other: pairs[label, other] for other in labels if other != label and pairs[label, other]}
        chosen = pairs[label, label] + sum(instead.values())
        agreed = pairs[label, label] / chosen if chosen else None
        agreements.append(LabelAgreement(label=label, votes=votes[label], agreed=agreed, instead=instead))
    return agreements


def _months(units: Mapping[str, Sequence[float]], last_us: Mapping[str, int], metric: Metric) -> list[MonthOfVotes]:
    by_month: dict[str, list[Sequence[float]]] = {}
    for target, unit in units.items():
        month = f"{dt.datetime.fromtimestamp(last_us[target] / 1_000_000, dt.UTC):%Y-%m}"
        by_month.setdefault(month, []).append(unit)
    return [
        MonthOfVotes(month=month, targets=len(held), alpha=krippendorff(held, metric))
        for month, held in sorted(by_month.items())
    ]


def _disagreed(
    shared: Mapping[str, Mapping[str, str | float]], units: Mapping[str, Sequence[float]], most: int
) -> list[Disagreed]:
    """Rank targets by disagreement: for labels the share of minority votes, for scores the range."""

    def apart(target: str) -> float:
        values = list(shared[target].values())
        if all(isinstance(each, float) for each in values):
            return max(units[target]) - min(units[target])
        return 1 - max(Counter(values).values()) / len(values)

    ranked = sorted(((apart(target), target) for target in shared), key=lambda each: (-each[0], each[1]))
    return [Disagreed(target=target, votes=shared[target]) for far, target in ranked[:most] if far > 0]
