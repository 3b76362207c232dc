"""Two releases of a rule beside each other: how much they differ, how sure that is, and whether it may be said."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from collector.web.quality.quality_numbers import (
    ALPHA,
    Measure,
    ReleaseResults,
    ResultSum,
    anytime_rate,
    releases_of,
    short_print,
)
from rules.statistics.events import Rate
from rules.statistics.finished import Resampling, Test, permuted_scores, unpaired_passes
from rules.statistics.formulas.several import holm
from rules.statistics.intervals import Interval, interval
from rules.statistics.sample import Sample
from storage.alerting.quality import Cell

Verdict: TypeAlias = Literal["better", "worse", "unclear"]
Scores: TypeAlias = Mapping[str, Sequence[float]]

SCORES_OF_EACH: Final = 500
RESAMPLING: Final = Resampling(resamples=2_000)
"""What the latest 500 scores of each release and 2,000 resamples take is 50 ms, and p-values below 0.0005 are not told
apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedMeasure:
    """One measure of both releases."""

    measure: Measure
    baseline: Rate
    candidate: Rate
    difference: float  # candidate - baseline
    interval: Interval  # of the difference, at all times at once
    test: Test
    p_value: float  # corrected for there being two measures
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseComparison:
    """Two releases that one evaluator judged."""

    fingerprint: str
    baseline: ReleaseResults
    candidate: ReleaseResults
    lines: Sequence[ComparedMeasure]


class Incomparable(Exception):
    """Two releases have no results that may be compared; the message says why."""


def common_evaluator(cells: Sequence[Cell], baseline: str, candidate: str, wanted: str | None) -> str:
    """The evaluator that judged both releases: the one that is wanted, else the latest.

    Raises:
        Incomparable: there is none.
    """
    prints = {
        release: {
            cell.fingerprint: cell.last_us
            for cell in cells
            if cell.release == release and cell.scored and cell.fingerprint is not None
        }
        for release in (baseline, candidate)
    }
    for release, known in prints.items():
        if not known:
            raise Incomparable(f"release {release} has no scores in this time")
    common = prints[baseline].keys() & prints[candidate].keys()
    if wanted is not None and wanted not in common:
        raise Incomparable(f"evaluator {short_print(wanted)} did not judge both releases")
    if not common:
        told = " and ".join(", ".join(map(short_print, sorted(prints[each]))) for each in (baseline, candidate))
        raise Incomparable(
            f"the releases were judged by different evaluators, {told}: their scores mean different things"
        )
    return wanted or max(common, key=lambda each: (prints[candidate][each], each))


def compare(
    cells: Sequence[Cell],
    names: tuple[str, str],
    fingerprint: str,
    scores: Callable[[], Scores],
    *,
    lower_is_better: bool = False,
) -> ReleaseComparison:
    """The second of two releases against the first, by one evaluator. `scores` are looked up if they are needed."""
    by_name = {each.release: each for each in releases_of(cells, fingerprint)}
    baseline, candidate = (by_name[name] for name in names)
    lines = [*_passes(baseline.sum, candidate.sum), *_scores(baseline.sum, candidate.sum, names, scores)]
    adjusted = holm([line[1].p_value for line in lines])
    return ReleaseComparison(
        fingerprint=fingerprint,
        baseline=baseline,
        candidate=candidate,
        lines=[
            _line(measure, (baseline.sum, candidate.sum), test, p_value, lower_is_better=lower_is_better)
            for (measure, test), p_value in zip(lines, adjusted, strict=True)
        ],
    )


def _passes(baseline: ResultSum, candidate: ResultSum) -> list[tuple[Measure, Test]]:
    sides = [(each.passed, each.passed + each.not_passed) for each in (baseline, candidate)]
    return [("passed", unpaired_passes(sides[0], sides[1]))] if all(results for _, results in sides) else []


def _scores(
    baseline: ResultSum, candidate: ResultSum, names: tuple[str, str], scores: Callable[[], Scores]
) -> list[tuple[Measure, Test]]:
    if not (baseline.scores.count and candidate.scores.count):
        return []
    if baseline.is_pass_or_fail and candidate.is_pass_or_fail:
        return []
    found = scores()
    return [("score", _permuted(tuple(found[names[0]]), tuple(found[names[1]])))]


@lru_cache(maxsize=64)
def _permuted(baseline: tuple[float, ...], candidate: tuple[float, ...]) -> Test:
    """What a test of these scores finds, which is asked for again with each look at two releases that are finished."""
    return permuted_scores(baseline, candidate, RESAMPLING, "pages")


def _line(
    measure: Measure, sides: tuple[ResultSum, ResultSum], test: Test, p_value: float, *, lower_is_better: bool
) -> ComparedMeasure:
    baseline, candidate = (anytime_rate(_sample(side, measure)) for side in sides)
    difference = candidate.mean - baseline.mean
    is_better = difference > 0 if measure == "passed" or not lower_is_better else difference < 0
    return ComparedMeasure(
        measure=measure,
        baseline=baseline,
        candidate=candidate,
        difference=difference,
        interval=_difference(*(_sample(side, measure) for side in sides)),
        test=test,
        p_value=p_value,
        verdict="unclear" if p_value >= ALPHA else "better" if is_better else "worse",
    )


def _sample(side: ResultSum, measure: Measure) -> Sample:
    return Sample.of_passes(side.passed, side.passed + side.not_passed) if measure == "passed" else side.scores


def _difference(baseline: Sample, candidate: Sample) -> Interval:
    """Both rates are in their intervals of half the error at once, and then the difference is between their ends."""
    before, after = _halved(baseline), _halved(candidate)
    return Interval(low=after.low - before.high, high=after.high - before.low)


@lru_cache(maxsize=256)
def _halved(sample: Sample) -> Interval:
    return interval(sample, ALPHA / 2)
