"""Sums of results by time step, evaluator and release, as rates with anytime-valid intervals."""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from collector.web.charts.trend import Scale, TrendPoint
from rules.statistics.events import StreamRate, rate_of
from rules.statistics.sample import ATOMS, UNIT, Sample
from storage.alerting.counted_scores import SCORES
from storage.alerting.quality import Cell, Step, StreamDay
from storage.rates import pass_rate

ALPHA: Final = 0.05
"""Error rate of the anytime-valid intervals: with 95 % confidence they hold at all sample sizes together."""

BINS: Final = 16
MOST_RELEASES: Final = 50

Measure: TypeAlias = Literal["passed", "score"]

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DECEMBER: Final = 12
_FINGERPRINT_DIGITS: Final = 8
_PARTS: Final = 5  # a scale begins at a multiple of 1/5


class Period(NamedTuple):
    """A period to look back, and its steps."""

    label: str
    step: Step


PERIODS: Final[Mapping[int, Period]] = {
    1: Period("24 hours", "hour"),
    7: Period("7 days", "day"),
    30: Period("30 days", "day"),
    90: Period("90 days", "week"),
    365: Period("365 days", "month"),
}
"""By days; a trend has at most about thirty points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultSum:
    """Sums of results; the rates are meaningful only for results of one evaluator."""

    scored: int
    counted: int  # the part of `scored` that monitors count
    failed: int
    skipped: int
    passed: int
    not_passed: int
    cost_usd: float
    unpriced_calls: int  # calls of judges with unknown cost
    scores: Sample
    first_number: int
    first_us: int
    last_us: int

    @property
    def total(self) -> int:
        """Return the number of results of any outcome."""
        return self.scored + self.failed + self.skipped

    @property
    def pass_rate(self) -> StreamRate | None:
        """Return the share that passed; None without verdicts."""
        judged = self.passed + self.not_passed
        return anytime_rate(Sample.of_passes(self.passed, judged)) if judged else None

    @property
    def mean_score(self) -> StreamRate | None:
        """Return the mean of the scores from 0 to 1; None without scores."""
        return anytime_rate(self.scores) if self.scores.count else None

    def rate(self, measure: Measure) -> StreamRate | None:
        """Return the pass rate or the mean score."""
        return self.pass_rate if measure == "passed" else self.mean_score

    @property
    def is_pass_or_fail(self) -> bool:
        """Return True if every score is 1 for a pass or 0 for a failure."""
        return self.scores == Sample.of_passes(self.passed, self.passed + self.not_passed)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorResults:
    """Results of one evaluator. Never compare scores of two."""

    fingerprint: str
    sum: ResultSum


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseResults:
    """Results of one release of a service, or of none."""

    service: str | None
    release: str | None
    sum: ResultSum


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultSeries:
    """Results of a rule in a project; `sum`, and `days` with a rate for each, are of its latest evaluator."""

    project: str | None
    rule_id: str
    rule: str
    fingerprint: str | None  # of the latest evaluator
    sum: ResultSum
    days: Sequence[float | None]
    failed: int  # of all evaluators, as the fields below
    skipped: int
    cost_usd: float
    unpriced_calls: int
    last_us: int

    @property
    def question(self) -> str | None:
        """Return the question that these answers by people and applications belong to.

        None for an evaluator's results.
        """
        return short_print(self.fingerprint) if is_of_people(self.fingerprint) else None


Href: TypeAlias = Callable[[int, int, str], str]
"""Function that returns the link to the results of one evaluator between two instants."""


def sum_of(cells: Iterable[Cell]) -> ResultSum:
    """Sum up cells."""
    held = list(cells)
    weights = [0] * ATOMS
    for cell in held:
        for point, scored, above in cell.points:
            weights[point] += scored * UNIT - above
            if above:
                weights[point + 1] += above
        # Some scores are stored only as a sum. Count them as zeros and ones with that sum: the largest variance for
        # their mean, so that the interval is wider than necessary, but valid.
        upper = round(min(max(cell.score_sum, 0.0), cell.summed) * UNIT)
        weights[0] += cell.summed * UNIT - upper
        weights[-1] += upper
    return ResultSum(
        scored=sum(cell.scored for cell in held),
        counted=sum(cell.counted for cell in held),
        failed=sum(cell.failed for cell in held),
        skipped=sum(cell.skipped for cell in held),
        passed=sum(cell.passed for cell in held),
        not_passed=sum(cell.not_passed for cell in held),
        cost_usd=sum(cell.cost_usd for cell in held),
        unpriced_calls=sum(cell.unpriced_calls for cell in held),
        scores=Sample.of_weights(weights),
        first_number=min((cell.first_number for cell in held), default=0),
        first_us=min((cell.first_us for cell in held), default=0),
        last_us=max((cell.last_us for cell in held), default=0),
    )


def evaluators_of(cells: Sequence[Cell]) -> list[EvaluatorResults]:
    """Return the evaluators that scored, latest first."""
    prints = {cell.fingerprint for cell in cells if cell.fingerprint is not None and cell.scored}
    results = [
        EvaluatorResults(fingerprint=each, sum=sum_of(cell for cell in cells if cell.fingerprint == each))
        for each in prints
    ]
    return sorted(results, key=lambda each: (-each.sum.last_us, each.fingerprint))


def releases_of(cells: Iterable[Cell], fingerprint: str | None) -> list[ReleaseResults]:
    """Return the results of one evaluator by release, latest release first."""
    by_release: dict[tuple[str | None, str | None], list[Cell]] = {}
    for cell in cells:
        if cell.fingerprint == fingerprint:
            by_release.setdefault((cell.service, cell.release), []).append(cell)
    results = [
        ReleaseResults(service=service, release=release, sum=sum_of(held))
        for (service, release), held in by_release.items()
    ]
    order = sorted(results, key=lambda each: (each.release or "", each.service or ""))
    return sorted(order, key=lambda each: (-each.sum.first_us, -each.sum.first_number))


def latest_two(releases: Sequence[ReleaseResults]) -> tuple[ReleaseResults, ReleaseResults] | None:
    """Return the latest release with a predecessor in its service, after that predecessor; None if there is none."""
    named = [each for each in releases if each.release is not None]
    for number, each in enumerate(named):
        before = next((other for other in named[number + 1 :] if other.service == each.service), None)
        if before is not None:
            return before, each
    return None


def bins_of(cells: Iterable[Cell]) -> list[int]:
    """Return the histogram of the scores from 0 to 1, without those that are stored only as sums."""
    counts = [0] * BINS
    for cell in cells:
        for point, scored, _ in cell.points:
            counts[min(point * BINS // (ATOMS - 1), BINS - 1)] += scored
    return counts


def points_of(
    cells: Sequence[Cell], steps: Sequence[int], step: Step, measure: Measure, href: Href
) -> list[TrendPoint]:
    """Return a rate by step and evaluator; a change of the evaluator is marked. Pass rates are in percent."""
    times = 100 if measure == "passed" else 1
    points: list[TrendPoint] = []
    before: str | None = None
    for number, at_us in enumerate(steps):
        until_us = steps[number + 1] if number + 1 < len(steps) else _after(at_us, step)
        here = _by_evaluator(cells, at_us, measure)
        if not here:
            points.append(TrendPoint(label=_step_text(at_us, step), value=None))
        for fingerprint, rate in here:
            is_new = before is not None and fingerprint != before
            points.append(
                TrendPoint(
                    label=_step_text(at_us, step),
                    value=rate.mean * times,
                    low=rate.interval.low * times,
                    high=rate.interval.high * times,
                    count=rate.count,
                    href=href(at_us, until_us, fingerprint),
                    begins=f"evaluator {short_print(fingerprint)}" if is_new else None,
                )
            )
            before = fingerprint
    return points


def scale_of(points: Sequence[TrendPoint], measure: Measure) -> Scale:
    """Return a scale that begins at the highest fifth at or below all intervals, and ends at 1 or 100 %."""
    high, unit = (100.0, " %") if measure == "passed" else (1.0, "")
    least = min((point.low for point in points if point.low is not None), default=0.0)
    return Scale(low=int(least / high * _PARTS) / _PARTS * high, high=high, unit=unit)


def streams_of(days: Sequence[StreamDay], steps: Sequence[int]) -> list[ResultSeries]:
    """Return the results by project and rule; each rule is followed by its questions to people."""
    grouped: dict[tuple[str | None, str, str | None], list[StreamDay]] = {}
    for day in sorted(days, key=lambda day: is_of_people(day.fingerprint)):
        question = day.fingerprint if is_of_people(day.fingerprint) else None
        grouped.setdefault((day.project, day.rule_id, question), []).append(day)
    grouped = dict(sorted(grouped.items(), key=lambda held: _place(held[1][0])))
    return [_stream(held, steps) for held in grouped.values()]


def begin_us(now_us: int, days: int, step: Step) -> int:
    """Return the beginning of the step that contains the instant this many days ago."""
    then = _EPOCH + dt.timedelta(microseconds=now_us) - dt.timedelta(days=days)
    begin = then.replace(minute=0, second=0, microsecond=0)
    if step != "hour":
        begin = begin.replace(hour=0)
    if step == "week":
        begin -= dt.timedelta(days=begin.weekday())
    if step == "month":
        begin = begin.replace(day=1)
    return (begin - _EPOCH) // dt.timedelta(microseconds=1)


def steps_between(first_us: int, last_us: int, step: Step) -> list[int]:
    """Return when each step begins, in microseconds, from the step of one instant to that of another."""
    at_us = begin_us(first_us, 0, step)
    begins = []
    while at_us <= last_us:
        begins.append(at_us)
        at_us = _after(at_us, step)
    return begins


def short_print(fingerprint: str | None) -> str:
    """Return the beginning of a fingerprint, which distinguishes evaluators; for a question to people, its name."""
    if fingerprint is None:
        return "none"
    return fingerprint.removeprefix(SCORES) if is_of_people(fingerprint) else fingerprint[:_FINGERPRINT_DIGITS]


def is_of_people(fingerprint: str | None) -> bool:
    """Return True if results are scores by people and applications, not by an evaluator."""
    return fingerprint is not None and fingerprint.startswith(SCORES)


def _place(day: StreamDay) -> tuple[str, str, str, str]:
    question = day.fingerprint or "" if is_of_people(day.fingerprint) else ""
    return day.project or "", day.rule, day.rule_id, question


def _stream(days: Sequence[StreamDay], steps: Sequence[int]) -> ResultSeries:
    latest = max(days, key=lambda day: (day.fingerprint is not None and day.scored > 0, day.last_us))
    own = [day for day in days if day.fingerprint == latest.fingerprint]
    rates = {day.day_us: pass_rate(day.passed, day.not_passed) for day in own if day.passed + day.not_passed}
    rates = rates or {day.day_us: day.score_sum / day.scored for day in own if day.scored}
    return ResultSeries(
        project=latest.project,
        rule_id=latest.rule_id,
        rule=latest.rule,
        fingerprint=latest.fingerprint,
        sum=sum_of(_as_cell(day) for day in own),
        days=[rates.get(at_us) for at_us in steps],
        failed=sum(day.failed for day in days),
        skipped=sum(day.skipped for day in days),
        cost_usd=sum(day.cost_usd for day in days),
        unpriced_calls=sum(day.unpriced_calls for day in days),
        last_us=max(day.last_us for day in days),
    )


def _as_cell(day: StreamDay) -> Cell:
    return Cell(
        at_us=day.day_us,
        fingerprint=day.fingerprint,
        release=None,
        scored=day.scored,
        failed=day.failed,
        skipped=day.skipped,
        passed=day.passed,
        not_passed=day.not_passed,
        cost_usd=day.cost_usd,
        unpriced_calls=day.unpriced_calls,
        first_us=day.last_us,
        last_us=day.last_us,
        summed=day.scored,
        score_sum=day.score_sum,
    )


def _by_evaluator(cells: Sequence[Cell], at_us: int, measure: Measure) -> list[tuple[str, StreamRate]]:
    here = evaluators_of([cell for cell in cells if cell.at_us == at_us])
    ordered = sorted(here, key=lambda each: (each.sum.first_us, each.fingerprint))
    rates = ((each.fingerprint, each.sum.rate(measure)) for each in ordered)
    return [(fingerprint, rate) for fingerprint, rate in rates if rate is not None]


def _after(at_us: int, step: Step) -> int:
    if step == "month":
        month = _EPOCH + dt.timedelta(microseconds=at_us)
        following = (
            month.replace(year=month.year + 1, month=1)
            if month.month == _DECEMBER
            else month.replace(month=month.month + 1)
        )
        return (following - _EPOCH) // dt.timedelta(microseconds=1)
    return at_us + {"hour": 1, "day": 24, "week": 168}[step] * 3_600_000_000


def _step_text(at_us: int, step: Step) -> str:
    at = _EPOCH + dt.timedelta(microseconds=at_us)
    return {"hour": f"{at:%H}:00", "day": f"{at:%b} {at.day}", "week": f"{at:%b} {at.day}", "month": f"{at:%b %Y}"}[
        step
    ]


@lru_cache(maxsize=8192)
def anytime_rate(sample: Sample) -> StreamRate:
    """Return a rate with its interval. Cached: it takes a millisecond and each view of a page needs it again."""
    return rate_of(sample, ALPHA, lower_is_better=False)
