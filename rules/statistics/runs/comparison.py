"""Two finished runs compared: by each evaluator, on each item, in each slice, in cost and time."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rules.statistics.formulas.pairs import fisher
from rules.statistics.formulas.resampling import signs_p_value, t_interval
from rules.statistics.formulas.several import benjamini_hochberg, holm
from rules.statistics.intervals import Interval
from rules.statistics.runs.differences import Difference, Verdict, decided, difference_of
from rules.statistics.runs.measures import PASS_RATE, Measure, measures_of
from rules.statistics.runs.options import KINDS, Options
from rules.statistics.runs.records import Numbers, Run

Flip: TypeAlias = Literal["to_fail", "to_pass", "none"]
Places: TypeAlias = tuple[NDArray[np.intp], NDArray[np.intp]]

LISTED: Final = 500
"""Items that are told of each measure which became worse, and as many which became better. A guess."""

_HALF: Final = 0.5  # of the trials


class Incomparable(ValueError):
    """The two runs must not be compared; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemChange:
    """An item that changed by one measure."""

    key: str
    text: str
    measure: str
    baseline_mean: float
    candidate_mean: float
    delta: float
    worse: bool
    flip: Flip  # by more than half of its trials
    p_value: float  # of its trials alone; 1 where there are too few to tell
    adjusted_p_value: float  # Benjamini-Hochberg over items


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceDifference:
    """One measure in the items with one value of metadata."""

    key: str
    value: str
    measure: str
    compared: int
    baseline_mean: float
    candidate_mean: float
    delta: float
    p_value: float
    adjusted_p_value: float  # Benjamini-Hochberg over slices and measures


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Cost or time: how many times the baseline's, over the items that both runs know it of."""

    name: str
    compared: int
    baseline_total: float
    candidate_total: float
    ratio: float  # geometric mean over items
    interval: Interval
    p_value: float
    p95: tuple[float, float] | None  # of items' means, on each side
    verdict: Verdict | None  # None: it decides nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What is known of two runs."""

    verdict: Verdict
    differences: Sequence[Difference]
    items: Sequence[ItemChange]  # what became worse first, by how much
    slices: Sequence[SliceDifference]
    ratios: Sequence[Ratio]
    compared: int
    worse: int  # items by any measure
    better: int  # by some, and worse by none
    equal: int
    added: tuple[str, ...]
    removed: tuple[str, ...]
    removed_evaluators: tuple[str, ...]
    added_evaluators: tuple[str, ...]
    failures: tuple[str, ...]  # what makes it regressed beside the tests: floors, severity, refused trials
    warnings: tuple[str, ...]

    @property
    def rate(self) -> Difference:
        """The pass rate; where an evaluator says the same, what that one says."""
        return next((each for each in self.differences if each.name == PASS_RATE), self.differences[0])


def compare(baseline: Run, candidate: Run, options: Options | None = None) -> Comparison:
    """The candidate against the baseline. It is a function of its arguments, random draws included.

    Raises:
        Incomparable: they have no evaluator in common, or one whose fingerprint differs.
    """
    chosen = options or Options()
    names, warnings = common_evaluators(baseline, candidate, chosen)
    before, after = ({item.key: at for at, item in enumerate(run.items)} for run in (baseline, candidate))
    keys = [key for key in before if key in after]
    places = np.array([before[k] for k in keys], dtype=np.intp), np.array([after[k] for k in keys], dtype=np.intp)
    measures = measures_of(baseline, candidate, names)
    differences = _decided(measures, places, chosen)
    items = _items(measures, places, candidate, chosen) if chosen.paired else []
    failures = [*_refused(measures, chosen), *_floors(measures, candidate, chosen), *_severe(items, chosen)]
    ratios = [each for each in (_ratio(name, baseline, candidate, places, chosen) for name in _USAGE) if each]
    unknown = [
        n for n, margin in _USAGE.items() if getattr(chosen, margin) is not None and n not in {r.name for r in ratios}
    ]
    warnings += [f"{name} has a margin and is not known of both runs" for name in unknown]
    verdict = _overall([*differences, *(each for each in ratios if each.verdict)], failures)
    moved = _moved(measures, places, chosen) if chosen.paired else (0, 0, 0)
    theirs = {each.name for each in candidate.evaluators}
    ours = {each.name for each in baseline.evaluators}
    return Comparison(
        verdict="inconclusive" if unknown and verdict == "not_worse" else verdict,
        differences=differences,
        items=items,
        slices=_slices(measures, places, candidate, chosen) if chosen.paired else [],
        ratios=ratios,
        compared=len(keys),
        worse=moved[0],
        better=moved[1],
        equal=moved[2],
        added=tuple(sorted(after.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - after.keys())),
        removed_evaluators=tuple(sorted(ours - theirs)) if chosen.evaluators is None else (),
        added_evaluators=tuple(sorted(theirs - ours)) if chosen.evaluators is None else (),
        failures=tuple(failures),
        warnings=(*warnings, *_unscored_warnings(differences)),
    )


def common_evaluators(baseline: Run, candidate: Run, options: Options) -> tuple[list[str], list[str]]:
    """The evaluators that both runs have, in the order of names, and what is to be told of them.

    Raises:
        Incomparable: there are none, or one of them is another one.
    """
    before = {each.name: each for each in baseline.evaluators}
    names = sorted(each.name for each in candidate.evaluators if each.name in before)
    if options.evaluators is not None:
        names = [name for name in names if name in options.evaluators]
    if not names:
        raise Incomparable("the runs have no evaluator in common")
    warnings = []
    for each in sorted(candidate.evaluators, key=lambda evaluator: evaluator.name):
        if each.name not in names:
            continue
        known = before[each.name]
        if None not in (known.fingerprint, each.fingerprint) and known.fingerprint != each.fingerprint:
            raise Incomparable(
                f"evaluator {each.name!r} is another one: its fingerprint was {known.fingerprint} and is "
                f"{each.fingerprint}, so its scores mean different things"
            )
        if known.better != each.better:
            raise Incomparable(f"evaluator {each.name!r} was better {known.better} and is better {each.better}")
        if known.threshold != each.threshold:
            warnings.append(f"the threshold of {each.name} was {known.threshold} and is {each.threshold}")
    return names, warnings


def _decided(measures: Sequence[Measure], places: Places, options: Options) -> list[Difference]:
    plain = _tested(measures, places, options)
    feared = [measure.feared(options) for measure in measures]
    if not any(feared):
        return plain
    worst = _tested([fear or measure for fear, measure in zip(feared, measures, strict=True)], places, options)
    return [
        found if found.verdict == other.verdict else replace(found, verdict="inconclusive", unsettled=True)
        for found, other in zip(plain, worst, strict=True)
    ]


def _tested(measures: Sequence[Measure], places: Places, options: Options) -> list[Difference]:
    found = [difference_of(measure, places, options) for measure in measures]
    adjusted = holm([difference.p_value for difference in found])
    return [decided(each, p_value, options) for each, p_value in zip(found, adjusted, strict=True)]


def _overall(parts: Sequence[Difference | Ratio], failures: Sequence[str]) -> Verdict:
    verdicts = {part.verdict for part in parts}
    if failures or "regressed" in verdicts:
        return "regressed"
    return "not_worse" if verdicts == {"not_worse"} else "inconclusive"


def _items(measures: Sequence[Measure], places: Places, candidate: Run, options: Options) -> list[ItemChange]:
    """What changed, the worst first. Each measure's p-values are corrected over the items that have any."""
    found = [each for measure in measures for each in _changes(measure, places, candidate, options)]
    return sorted(
        found, key=lambda each: (not each.worse, each.flip == "none", -abs(each.delta), each.key, each.measure)
    )


def _changes(measure: Measure, places: Places, candidate: Run, options: Options) -> list[ItemChange]:
    """The items that changed most by one measure, at most `LISTED` that became worse and as many others."""
    before, after = measure.baseline.means()[places[0]], measure.candidate.means()[places[1]]
    gains = measure.sign * np.nan_to_num(after - before)
    is_pass_or_fail = measure.baseline.is_pass_or_fail and measure.candidate.is_pass_or_fail
    p_values = np.ones(before.size)
    if is_pass_or_fail:
        counts = [_counts(measure.baseline.scores[places[0]]), _counts(measure.candidate.scores[places[1]])]
        for at in np.flatnonzero(np.abs(gains) > options.epsilon).tolist():
            p_values[at] = _item_p_value(*(tuple(side[at].tolist()) for side in counts))
    adjusted = benjamini_hochberg(p_values)
    order = np.argsort(gains, kind="stable")
    worst, best = order[:LISTED], order[max(LISTED, order.size - LISTED) :]
    found = []
    for at in [*worst[gains[worst] < -options.epsilon].tolist(), *best[gains[best] > options.epsilon].tolist()]:
        item = candidate.items[places[1][at]]
        found.append(
            ItemChange(
                key=item.key,
                text=item.text,
                measure=measure.name,
                baseline_mean=float(before[at]),
                candidate_mean=float(after[at]),
                delta=float(after[at] - before[at]),
                worse=bool(gains[at] < 0),
                flip=_flip(float(before[at]), float(after[at]), float(gains[at])) if is_pass_or_fail else "none",
                p_value=float(p_values[at]),
                adjusted_p_value=adjusted[at],
            )
        )
    return found


def _counts(scores: Numbers) -> NDArray[np.int64]:
    """Passes and scored trials of each item."""
    return np.stack([np.nansum(scores, axis=1), (~np.isnan(scores)).sum(axis=1)], axis=1).astype(np.int64)


@lru_cache(maxsize=4_096)
def _item_p_value(baseline: tuple[int, int], candidate: tuple[int, int]) -> float:
    return fisher(baseline, candidate) if baseline[1] and candidate[1] else 1.0


def _flip(before: float, after: float, gain: float) -> Flip:
    if (before >= _HALF) == (after >= _HALF):
        return "none"
    return "to_pass" if gain > 0 else "to_fail"


def _moved(measures: Sequence[Measure], places: Places, options: Options) -> tuple[int, int, int]:
    """How many items became worse by any measure, better by some and worse by none, and neither."""
    gains = [m.sign * (m.candidate.means()[places[1]] - m.baseline.means()[places[0]]) for m in measures]
    worse = np.any([np.nan_to_num(gain) < -options.epsilon for gain in gains], axis=0)
    better = np.any([np.nan_to_num(gain) > options.epsilon for gain in gains], axis=0) & ~worse
    return int(worse.sum()), int(better.sum()), int((~worse & ~better).sum())


def _refused(measures: Sequence[Measure], options: Options) -> list[str]:
    return [
        f"{measure.name}: {measure.candidate.count(kind)} {kind} trials, and none are allowed"
        for measure in measures
        for kind in KINDS
        if options.policy_of(kind) == "refuse" and measure.candidate.count(kind) and measure.name != PASS_RATE
    ]


def _floors(measures: Sequence[Measure], candidate: Run, options: Options) -> list[str]:
    """Items that pass too few of their trials, whatever they did before; what has no score is no pass."""
    if options.floor is None:
        return []
    every = next((each for each in measures if each.name == PASS_RATE), measures[-1])
    passes = _counts(every.candidate.scores)[:, 0]
    trials = (every.candidate.outcomes > 0).sum(axis=1)
    return [
        f"item {candidate.items[at].key} passed {passes[at]} of {trials[at]} trials, and {options.floor} are needed"
        for at in np.flatnonzero(passes < options.floor).tolist()
    ]


def _severe(items: Sequence[ItemChange], options: Options) -> list[str]:
    if options.severity is None:
        return []
    return [
        f"item {each.key} lost {abs(each.delta):.3g} by {each.measure}, and {options.severity:g} is allowed"
        for each in items
        if each.worse and each.measure != PASS_RATE and round(abs(each.delta), 6) > options.severity
    ]


def _slices(measures: Sequence[Measure], places: Places, candidate: Run, options: Options) -> list[SliceDifference]:
    found: list[SliceDifference] = []
    values: dict[tuple[str, str], list[int]] = {}
    for pair, at in enumerate(places[1].tolist()):
        for key in options.slices:
            if key in candidate.items[at].metadata:
                values.setdefault((key, candidate.items[at].metadata[key]), []).append(pair)
    for measure in measures:
        before, after = measure.baseline.means()[places[0]], measure.candidate.means()[places[1]]
        for (key, value), pairs in sorted(values.items()):
            both = [pair for pair in pairs if not math.isnan(before[pair] + after[pair])]
            if both:
                changes = after[both] - before[both]
                p_value = signs_p_value(changes, options.draws, f"{measure.name}\x1f{key}\x1f{value}")
                found.append(
                    SliceDifference(
                        key=key,
                        value=value,
                        measure=measure.name,
                        compared=len(both),
                        baseline_mean=float(before[both].mean()),
                        candidate_mean=float(after[both].mean()),
                        delta=float(changes.mean()),
                        p_value=p_value,
                        adjusted_p_value=p_value,
                    )
                )
    adjusted = benjamini_hochberg([each.p_value for each in found])
    return [replace(each, adjusted_p_value=p) for each, p in zip(found, adjusted, strict=True)]


_USAGE: Mapping[str, str] = {"cost_usd": "cost_margin", "latency_ms": "latency_margin"}


def _ratio(name: str, baseline: Run, candidate: Run, places: Places, options: Options) -> Ratio | None:
    sides = (getattr(baseline, name), getattr(candidate, name))
    if sides[0] is None or sides[1] is None:
        return None
    before, after = (_mean_of_known(side)[at] for side, at in zip(sides, places, strict=True))
    both = (before > 0) & (after > 0)
    before, after = before[both], after[both]
    if not before.size:
        return None
    logs = np.log(after / before)
    found = t_interval(logs, 1 - options.alpha)
    margin, p_value = getattr(options, _USAGE[name]), signs_p_value(logs, options.draws, name)
    verdict: Verdict | None = None
    if margin is not None:
        lost = found.low > 0 and p_value < options.alpha
        verdict = "not_worse" if found.high < math.log1p(margin) else "regressed" if lost else "inconclusive"
    low, high = (math.exp(min(end, 700.0)) for end in (found.low, found.high))
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


def _unscored_warnings(differences: Sequence[Difference]) -> list[str]:
    found = []
    for difference in differences:
        told = [
            f"{after} {kind} (baseline {before})"
            for kind, (before, after) in difference.unscored.items()
            if before or after
        ]
        if told:
            found.append(f"{difference.name}: without a score {', '.join(told)}")
        if difference.unsettled:
            found.append(f"{difference.name}: if the candidate's trials without a score are fails, the verdict moves")
    return found
