"""Comparison of two finished runs: by evaluator, item and slice, in cost and time."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rules.statistics.formulas.multiple_testing import benjamini_hochberg, holm
from rules.statistics.formulas.pairs import fisher
from rules.statistics.runs.differences import Difference, Verdict, decided, difference_of
from rules.statistics.runs.measures import PASS_RATE, Measure, Places, measures_of, pass_rate_of
from rules.statistics.runs.options import KINDS, Options
from rules.statistics.runs.ratios import USAGE, Ratio, ratio_of
from rules.statistics.runs.records import SCORED, FinishedRun, Numbers, with_terms_of, with_thresholds
from rules.statistics.runs.repeats import PassChance, pass_chances
from rules.statistics.runs.slices import SliceDifference, slices_of

Flip: TypeAlias = Literal["to_fail", "to_pass", "none"]

LISTED: Final = 500
"""For each measure, the most items listed that became worse, and that became better. A guess."""

_HALF: Final = 0.5  # share of passed trials


class Incomparable(ValueError):
    """The two runs must not be compared; the message has the reason."""


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
    flip: Flip  # a mean of 1/2 or more counts as passed
    p_value: float  # of its trials alone; 1 if there are too few
    adjusted_p_value: float  # Benjamini-Hochberg over items


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Result of comparing two runs."""

    verdict: Verdict
    differences: Sequence[Difference]
    rate: Difference | None  # the pass rate, or the evaluator whose scores equal it; None if passes are not known
    repeats: Sequence[PassChance]  # of several trials; empty if no item has several with verdicts in both runs
    items: Sequence[ItemChange]  # worse ones first; of worse and of better ones flips first, then the largest changes
    slices: Sequence[SliceDifference]
    ratios: Sequence[Ratio]
    compared: int
    worse: int  # items, by any measure
    better: int  # by some, and worse by none
    equal: int
    unscored: int  # without any measure that has scores in both runs
    added: tuple[str, ...]
    removed: tuple[str, ...]
    removed_evaluators: tuple[str, ...]  # that scored something in the baseline; other removed ones are a warning
    added_evaluators: tuple[str, ...]
    judged: int  # trials of the candidate that a compared evaluator scored
    failures: tuple[str, ...]  # reasons for `regressed` besides the tests: floors, severity, refused trials
    warnings: tuple[str, ...]


def compare(baseline: FinishedRun, candidate: FinishedRun, options: Options | None = None) -> Comparison:
    """Compare the candidate with the baseline. The result depends on the arguments alone, random draws included.

    Raises:
        Incomparable: no evaluator is common, one differs in fingerprint or direction, or a threshold has no evaluator.
    """
    chosen = options or Options()
    baseline, candidate = with_terms_of(baseline, candidate), with_terms_of(candidate, baseline)
    names, warnings = common_evaluators(baseline, candidate, chosen)
    baseline, candidate = (with_thresholds(run, chosen.thresholds) for run in (baseline, candidate))
    before, after = ({item.key: at for at, item in enumerate(run.items)} for run in (baseline, candidate))
    keys = [key for key in before if key in after]
    places = np.array([before[k] for k in keys], dtype=np.intp), np.array([after[k] for k in keys], dtype=np.intp)
    measures = measures_of(baseline, candidate, names)
    passes = pass_rate_of(baseline, candidate, names)
    differences = _decided(measures, places, chosen)
    items = _items(measures, places, candidate, chosen)
    failures = [*_refused(measures, chosen), *_floors(passes, candidate, chosen), *_severe(items, chosen)]
    ratios = [each for each in (ratio_of(name, baseline, candidate, places, chosen) for name in USAGE) if each]
    unknown = [
        n for n, margin in USAGE.items() if getattr(chosen, margin) is not None and n not in {r.name for r in ratios}
    ]
    warnings += [f"{name} has a margin and is not known of both runs" for name in unknown]
    verdict = _overall([*differences, *(each for each in ratios if each.verdict)], failures)
    moved = _moved(measures, places, chosen)
    theirs = {each.name for each in candidate.evaluators}
    ours = {each.name for each in baseline.evaluators}
    removed = sorted(ours - theirs) if chosen.evaluators is None else []
    silent = {name for name in removed if not _scored(baseline, [name])}
    warnings += [f"evaluator {name} of the baseline is missing, and scored nothing there" for name in sorted(silent)]
    return Comparison(
        verdict="inconclusive" if unknown and verdict == "not_worse" else verdict,
        differences=differences,
        rate=next((one for one, of in zip(differences, measures, strict=True) if of.is_pass_rate), None),
        repeats=pass_chances(passes, places),
        items=items,
        slices=slices_of(measures, places, candidate, chosen),
        ratios=ratios,
        compared=len(keys),
        worse=moved[0],
        better=moved[1],
        equal=moved[2],
        unscored=moved[3],
        added=tuple(sorted(after.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - after.keys())),
        removed_evaluators=tuple(name for name in removed if name not in silent),
        added_evaluators=tuple(sorted(theirs - ours)) if chosen.evaluators is None else (),
        judged=_scored(candidate, names),
        failures=tuple(failures),
        warnings=(*warnings, *_unscored_warnings(differences)),
    )


def common_evaluators(baseline: FinishedRun, candidate: FinishedRun, options: Options) -> tuple[list[str], list[str]]:
    """Return the evaluators of both runs, in the order of names, and the warnings about them.

    Raises:
        Incomparable: there are none, one differs in fingerprint or direction, or a threshold is given for another.

    """
    before = {each.name: each for each in baseline.evaluators}
    names = sorted(each.name for each in candidate.evaluators if each.name in before)
    if options.evaluators is not None:
        names = [name for name in names if name in options.evaluators]
    if not names:
        had, has = (", ".join(repr(each.name) for each in run.evaluators) or "none" for run in (baseline, candidate))
        chosen = "" if options.evaluators is None else " of those that are chosen"
        raise Incomparable(f"the runs have no evaluator in common{chosen}: the baseline has {had}, the candidate {has}")
    if unknown := sorted(options.thresholds.keys() - set(names)):
        raise Incomparable(f"a threshold is given for {unknown[0]!r}, and the runs have no such evaluator to compare")
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
        if each.name not in options.thresholds and known.threshold != each.threshold:
            warnings.append(f"the threshold of {each.name} was {known.threshold} and is {each.threshold}")
    return names, warnings


def _scored(run: FinishedRun, names: Collection[str]) -> int:
    chosen = [at for at, each in enumerate(run.evaluators) if each.name in names]
    return int((run.outcomes[chosen] == SCORED).any(axis=0).sum())


def _decided(measures: Sequence[Measure], places: Places, options: Options) -> list[Difference]:
    plain = _tested(measures, places, options)
    feared = [measure.feared(options) for measure in measures]
    if not any(feared):
        return plain
    worst = _tested([fear or measure for fear, measure in zip(feared, measures, strict=True)], places, options)
    return [
        difference
        if difference.verdict == other.verdict
        else replace(difference, verdict="inconclusive", unsettled=True)
        for difference, other in zip(plain, worst, strict=True)
    ]


def _tested(measures: Sequence[Measure], places: Places, options: Options) -> list[Difference]:
    differences = [difference_of(measure, places, options) for measure in measures]
    adjusted = holm([difference.p_value for difference in differences])
    return [decided(each, p_value, options) for each, p_value in zip(differences, adjusted, strict=True)]


def _overall(parts: Sequence[Difference | Ratio], failures: Sequence[str]) -> Verdict:
    verdicts = {part.verdict for part in parts}
    if failures or "regressed" in verdicts:
        return "regressed"
    return "not_worse" if verdicts == {"not_worse"} else "inconclusive"


def _items(measures: Sequence[Measure], places: Places, candidate: FinishedRun, options: Options) -> list[ItemChange]:
    changes = [each for measure in measures for each in _changes(measure, places, candidate, options)]
    return sorted(
        changes, key=lambda each: (not each.worse, each.flip == "none", -abs(each.delta), each.key, each.measure)
    )


def _changes(measure: Measure, places: Places, candidate: FinishedRun, options: Options) -> list[ItemChange]:
    """Return the items that changed most by one measure, at most `LISTED` worse and at most `LISTED` better ones."""
    before, after = measure.baseline.means()[places[0]], measure.candidate.means()[places[1]]
    gains = measure.sign * np.nan_to_num(after - before)
    is_pass_or_fail = measure.baseline.is_pass_or_fail and measure.candidate.is_pass_or_fail
    p_values = np.ones(before.size)
    if is_pass_or_fail:
        changed = np.abs(gains) > options.epsilon
        counts = [_counts(measure.baseline.scores[places[0]]), _counts(measure.candidate.scores[places[1]])]
        p_values[changed] = _item_p_values(*(side[changed] for side in counts))
    adjusted = benjamini_hochberg(p_values)
    order = np.argsort(gains, kind="stable")
    worst, best = order[:LISTED], order[max(LISTED, order.size - LISTED) :]
    changes = []
    for at in [*worst[gains[worst] < -options.epsilon].tolist(), *best[gains[best] > options.epsilon].tolist()]:
        item = candidate.items[places[1][at]]
        changes.append(
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
    return changes


def _counts(scores: Numbers) -> NDArray[np.int64]:
    return np.stack([np.nansum(scores, axis=1), (~np.isnan(scores)).sum(axis=1)], axis=1).astype(np.int64)


def _item_p_values(baseline: NDArray[np.int64], candidate: NDArray[np.int64]) -> Numbers:
    """Test each item's trials by Fisher's exact test; items with equal counts share one test."""
    both = np.concatenate([baseline, candidate], axis=1)
    base = int(both.max(initial=0)) + 1
    kinds, kind_of = np.unique(both @ base ** np.arange(4), return_inverse=True)
    tables = (kinds[:, None] // base ** np.arange(4) % base).tolist()
    return np.array([_item_p_value((a, n), (b, m)) for a, n, b, m in tables])[kind_of]


@lru_cache(maxsize=4_096)
def _item_p_value(baseline: tuple[int, int], candidate: tuple[int, int]) -> float:
    return fisher(baseline, candidate) if baseline[1] and candidate[1] else 1.0


def _flip(before: float, after: float, gain: float) -> Flip:
    if (before >= _HALF) == (after >= _HALF):
        return "none"
    return "to_pass" if gain > 0 else "to_fail"


def _moved(measures: Sequence[Measure], places: Places, options: Options) -> tuple[int, int, int, int]:
    """Count the items that are worse by any measure, better by some and worse by none, the same, and not scored."""
    gains = [m.sign * (m.candidate.means()[places[1]] - m.baseline.means()[places[0]]) for m in measures]
    worse = np.any([np.nan_to_num(gain) < -options.epsilon for gain in gains], axis=0)
    better = np.any([np.nan_to_num(gain) > options.epsilon for gain in gains], axis=0) & ~worse
    unscored = np.all([np.isnan(gain) for gain in gains], axis=0)
    same = ~worse & ~better & ~unscored
    return int(worse.sum()), int(better.sum()), int(same.sum()), int(unscored.sum())


def _refused(measures: Sequence[Measure], options: Options) -> list[str]:
    return [
        f"{measure.name}: {measure.candidate.count(kind)} {kind} trials, and none are allowed"
        for measure in measures
        for kind in KINDS
        if options.policy_of(kind) == "refuse" and measure.candidate.count(kind) and measure.name != PASS_RATE
    ]


def _floors(passes: Measure, candidate: FinishedRun, options: Options) -> list[str]:
    """Return a message for each item that passes too few of its trials; a trial without a score is not a pass."""
    if options.floor is None:
        return []
    passed = _counts(passes.candidate.scores)[:, 0]
    trials = (passes.candidate.outcomes > 0).sum(axis=1)
    return [
        f"item {candidate.items[at].key} passed {passed[at]} of {trials[at]} trials, and {options.floor} are needed"
        for at in np.flatnonzero(passed < options.floor).tolist()
    ]


def _severe(items: Sequence[ItemChange], options: Options) -> list[str]:
    if options.severity is None:
        return []
    return [
        f"item {each.key} lost {abs(each.delta):.3g} by {each.measure}, and {options.severity:g} is allowed"
        for each in items
        if each.worse and each.measure != PASS_RATE and round(abs(each.delta), 6) > options.severity
    ]


def _unscored_warnings(differences: Sequence[Difference]) -> list[str]:
    warnings = []
    for difference in differences:
        counts = [
            f"{after} {kind} (baseline {before})"
            for kind, (before, after) in difference.unscored.items()
            if before or after
        ]
        if counts:
            warnings.append(f"{difference.name}: without a score {', '.join(counts)}")
        if difference.unsettled:
            warnings.append(
                f"{difference.name}: if the candidate's trials without a score are fails, the verdict moves"
            )
    return warnings
