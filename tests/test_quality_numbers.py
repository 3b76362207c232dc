"""Results summed for pages: rates, steps of time, and separately counted outcomes."""

import datetime as dt
from typing import Any

import pytest

from collector.web.quality.quality_comparison import IncomparableReleases, common_evaluator, compare
from collector.web.quality.quality_numbers import begin_us, bins_of, points_of, releases_of, steps_between, sum_of
from rules.statistics.intervals import interval
from rules.statistics.sample import UNIT, Sample, split
from storage.alerting.quality import Cell, ScoreBucket, ScoresOf, Step

DAY_US = 86_400_000_000


def us(year: int, month: int, day: int, hour: int = 0) -> int:
    """Return an instant."""
    return int(dt.datetime(year, month, day, hour, tzinfo=dt.UTC).timestamp()) * 1_000_000


def a_cell(*scores: float, at_us: int = us(2026, 11, 16), **changes: Any) -> Cell:
    """Return results with these scores, of which those from 0.5 on passed."""
    points = []
    for score in scores:
        point, above = split(score)
        points.append(ScoreBucket(point, 1, above))
    passed = sum(score >= 0.5 for score in scores)
    fields: dict[str, Any] = {
        "at_us": at_us,
        "fingerprint": "one",
        "release": "1",
        "scored": len(scores),
        "failed": 0,
        "skipped": 0,
        "passed": passed,
        "not_passed": len(scores) - passed,
        "cost_usd": 0.0,
        "first_us": at_us,
        "last_us": at_us,
        "points": tuple(points),
    }
    return Cell(**(fields | changes))


def test_cells_add_up_to_their_scores() -> None:
    """The sum of cells has the sample of all scores, and its interval is that of the monitors."""
    scores = [0.1, 0.5, 0.97, 1.0, 0.0]
    added = sum_of([a_cell(*scores[:2]), a_cell(*scores[2:], release="2")])
    assert added.scores == Sample.of_scores(scores)
    assert added.mean_score is not None
    assert added.mean_score.interval == interval(Sample.of_scores(scores), 0.05)
    assert added.pass_rate is not None
    assert added.pass_rate.count == 5
    assert added.pass_rate.mean == pytest.approx(0.6)


def test_scores_of_which_the_sum_is_known_have_their_mean_and_a_wider_interval() -> None:
    """Scores deleted with their traces never make an interval too narrow, whatever their sum."""
    kept = sum_of([a_cell(*[0.7] * 40)]).mean_score
    gone = sum_of([a_cell(scored=40, summed=40, score_sum=28.0, points=())]).mean_score
    assert kept is not None
    assert gone is not None
    assert gone.count == kept.count == 40
    assert gone.mean == pytest.approx(kept.mean, abs=1 / UNIT)
    assert gone.interval.low < kept.interval.low
    assert gone.interval.high > kept.interval.high
    beyond = sum_of([a_cell(summed=3, score_sum=40.0)]).mean_score
    assert beyond is not None
    assert beyond.mean == 1.0


@pytest.mark.parametrize(
    "step, begin, count",
    [
        ("hour", us(2026, 2, 27, 13), 48),
        ("day", us(2026, 2, 27), 3),
        ("week", us(2026, 2, 23), 1),
        ("month", us(2026, 2, 1), 2),
    ],
)
def test_steps_begin_where_the_database_begins_them(step: Step, begin: int, count: int) -> None:
    """Hours, days, weeks from Monday, and months, over the end of one."""
    now = us(2026, 3, 1, 13) - 1
    assert begin_us(us(2026, 2, 27, 13), 0, step) == begin
    steps = steps_between(us(2026, 2, 27, 13), now, step)
    assert (steps[0], len(steps)) == (begin, count)
    assert steps == sorted(set(steps))


def test_a_year_ends() -> None:
    """December is followed by January."""
    assert steps_between(us(2025, 12, 5), us(2026, 1, 5), "month") == [us(2025, 12, 1), us(2026, 1, 1)]


def test_every_step_is_in_the_trend_and_evaluators_are_kept_apart() -> None:
    """A step without results is a gap, one with two evaluators has a point for each, and the second says so."""
    first = us(2026, 11, 16)
    cells = [
        a_cell(1.0, 1.0, at_us=first),
        a_cell(1.0, at_us=first + 2 * DAY_US),
        a_cell(0.0, 0.0, at_us=first + 2 * DAY_US, fingerprint="two", first_us=first + 2 * DAY_US + 5),
    ]
    steps = steps_between(first, first + 2 * DAY_US, "day")
    points = points_of(cells, steps, "day", "passed", lambda low, high, each: f"{each}:{(high - low) // DAY_US}")
    assert [(point.value, point.count, point.href) for point in points] == [
        (100.0, 2, "one:1"),
        (None, None, None),
        (100.0, 1, "one:1"),
        (0.0, 2, "two:1"),
    ]
    assert [point.begins for point in points] == [None, None, None, "evaluator two"]


def test_releases_are_those_of_one_evaluator_the_latest_first() -> None:
    """Results of another evaluator are in none of them; results without a release are a row too."""
    cells = [
        a_cell(1.0, release="2", first_us=9),
        a_cell(1.0, release=None, first_us=5),
        a_cell(0.0, release="1", first_us=1),
        a_cell(0.0, release="1", fingerprint="two"),
    ]
    assert [(each.release, each.sum.scored) for each in releases_of(cells, "one")] == [("2", 1), (None, 1), ("1", 1)]


def test_every_score_is_in_one_bin() -> None:
    """From 0 to 1, both ends with it."""
    counts = bins_of([a_cell(0.0, 0.0624, 0.0625, 0.99, 1.0)])
    assert (counts[0], counts[1], counts[15], sum(counts)) == (2, 1, 2, 5)


def test_releases_without_a_common_evaluator_are_not_compared() -> None:
    """Nor is one by an evaluator that did not judge both; among several, it is the one that judged last."""
    cells = [
        a_cell(1.0, release="1", fingerprint="one"),
        a_cell(1.0, release="1", fingerprint="two"),
        a_cell(1.0, release="2", fingerprint="two", last_us=5),
        a_cell(1.0, release="2", fingerprint="three"),
    ]
    assert common_evaluator(cells, "1", "2", None) == "two"
    for expected, some in (("one", cells), (None, [cells[0], cells[3]]), (None, cells[:2])):
        with pytest.raises(IncomparableReleases):
            common_evaluator(some, "1", "2", expected)


@pytest.mark.parametrize("lower_is_better, verdict", [(False, "worse"), (True, "better")])
def test_a_lower_score_is_worse_unless_the_rule_says_otherwise(lower_is_better: bool, verdict: str) -> None:  # noqa: FBT001 - a parameter of the test
    """The verdict follows from the direction; a pass is better either way."""
    before, after = [0.9, 0.8, 0.95, 0.85] * 8, [0.2, 0.1, 0.15, 0.3] * 8
    cells = [a_cell(*before), a_cell(*after, release="2")]
    of = ScoresOf(fingerprint="one", service="", releases=("1", "2"))
    comparison = compare(cells, of, lambda: {"1": before, "2": after}, lower_is_better=lower_is_better)
    assert [(line.measure, line.verdict) for line in comparison.lines] == [("passed", "worse"), ("score", verdict)]
    assert all(line.interval.low <= line.difference <= line.interval.high for line in comparison.lines)
    assert comparison.lines[1].interval.high < 0
