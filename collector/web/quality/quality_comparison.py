"""Two releases of a rule side by side: their difference, its uncertainty, and whether they are comparable."""

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
from rules.statistics.events import StreamRate
from rules.statistics.finished import Test, permuted_scores, unpaired_passes
from rules.statistics.formulas.multiple_testing import holm
from rules.statistics.formulas.resampling import Draws
from rules.statistics.intervals import Interval, interval
from rules.statistics.sample import Sample
from storage.alerting.quality import Cell, ScoresOf

Verdict: TypeAlias = Literal["better", "worse", "unclear"]
Scores: TypeAlias = Mapping[str, Sequence[float]]

SCORES_OF_EACH: Final = 500
_DRAWS: Final = Draws(count=2_000)
"""With the latest 500 scores of each release, 2,000 resamples take 50 ms; the smallest p-value is 0.0005."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedMeasure:
    """A measure of both releases, and the test of their difference."""

    measure: Measure
    baseline: StreamRate
    candidate: StreamRate
    difference: float  # candidate - baseline
    interval: Interval  # of the difference; anytime-valid
    test: Test
    p_value: float  # corrected (Holm) for the tests of both measures
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseComparison:
    """Two releases that one evaluator judged; `service` is "" for spans without a service."""

    service: str
    fingerprint: str
    baseline: ReleaseResults
    candidate: ReleaseResults
    lines: Sequence[ComparedMeasure]


class IncomparableReleases(Exception):
    """Two releases have no results that may be compared; the message says why."""


def of_common_service(cells: Sequence[Cell], names: tuple[str, str], chosen: str | None) -> tuple[str, Sequence[Cell]]:
    """Return the chosen service, else the latest with both releases, and its cells; "" stands for no service.

    Raises:
        IncomparableReleases: a release has no scores, or the releases are of different services.
    """
    known = [
        {cell.service or "": cell.last_us for cell in cells if cell.release == name and cell.scored} for name in names
    ]
    for name, services in zip(names, known, strict=True):
        if not services:
            raise IncomparableReleases(f"release {name} has no scores in this period")
        if chosen is not None and chosen not in services:
            raise IncomparableReleases(f"{_service(chosen)} has no scores of release {name} in this period")
    common = known[0].keys() & known[1].keys()
    if not common:
        services_text = " and ".join(", ".join(map(_service, sorted(services))) for services in known)
        raise IncomparableReleases(
            f"the releases belong to different services, {services_text}, which are never compared"
        )
    service = chosen if chosen is not None else max(common, key=lambda each: (known[1][each], each))
    return service, [cell for cell in cells if (cell.service or "") == service]


def _service(name: str) -> str:
    return name or "spans without a service"


def common_evaluator(cells: Sequence[Cell], baseline: str, candidate: str, chosen: str | None) -> str:
    """Return the chosen evaluator, else the latest that judged both releases.

    Raises:
        IncomparableReleases: a release has no scores, no evaluator judged both, or the chosen evaluator did not.
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
            raise IncomparableReleases(f"release {release} has no scores in this period")
    common = prints[baseline].keys() & prints[candidate].keys()
    if chosen is not None and chosen not in common:
        raise IncomparableReleases(f"evaluator {short_print(chosen)} did not judge both releases")
    if not common:
        evaluators_text = " and ".join(
            ", ".join(map(short_print, sorted(prints[each]))) for each in (baseline, candidate)
        )
        raise IncomparableReleases(
            f"the releases were judged by different evaluators, {evaluators_text}: their scores are not comparable"
        )
    return chosen or max(common, key=lambda each: (prints[candidate][each], each))


def compare(
    cells: Sequence[Cell],
    of: ScoresOf,
    scores: Callable[[], Scores],
    *,
    lower_is_better: bool = False,
) -> ReleaseComparison:
    """Compare the second release with the first, by the cells of one service. A test may call `scores`."""
    by_name = {each.release: each for each in releases_of(cells, of.fingerprint)}
    before, after = of.releases
    baseline, candidate = by_name[before], by_name[after]
    lines = [*_passes(baseline.sum, candidate.sum), *_scores(baseline.sum, candidate.sum, (before, after), scores)]
    adjusted = holm([line[1].p_value for line in lines])
    return ReleaseComparison(
        service=of.service,
        fingerprint=of.fingerprint,
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
    by_release = scores()
    return [("score", _permuted(tuple(by_release[names[0]]), tuple(by_release[names[1]])))]


@lru_cache(maxsize=64)
def _permuted(baseline: tuple[float, ...], candidate: tuple[float, ...]) -> Test:
    return permuted_scores(baseline, candidate, _DRAWS, "pages")


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
    before, after = _halved(baseline), _halved(candidate)
    return Interval(low=after.low - before.high, high=after.high - before.low)


@lru_cache(maxsize=256)
def _halved(sample: Sample) -> Interval:
    return interval(sample, ALPHA / 2)
