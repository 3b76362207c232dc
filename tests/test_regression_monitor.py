"""The monitors of a stream: when they speak, for what, and that their state is what the results say."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from rules.statistics.events import EpisodeEvent
from rules.statistics.monitor import Monitor, MonitoredResult, MonitorState
from rules.statistics.releases import order_of
from rules.statistics.sample import ResultRange
from rules.statistics.settings import MonitorSettings

STATE = TypeAdapter(MonitorState)

QUICK = MonitorSettings(alpha=0.2, margin=0.0, minimum=5, baseline=64, every=100)

results = st.lists(
    st.builds(
        MonitoredResult,
        st.sampled_from(["a", "b", "c", None]),
        st.sampled_from([True, True, False, None]),
        st.sampled_from([0.0, 0.31, 0.5, 1.0, None]),
    ),
    max_size=200,
)


class Source:
    """Results of a made-up application."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def passes(self, count: int, rate: float, release: str | None = "1") -> list[MonitoredResult]:
        """Return results that pass at this rate."""
        return [MonitoredResult(release, self._random.random() < rate, None) for _ in range(count)]

    def scores(self, count: int, mean: float, release: str | None = "1") -> list[MonitoredResult]:
        """Return scores around this mean."""
        return [MonitoredResult(release, None, min(max(self._random.gauss(mean, 0.1), 0), 1)) for _ in range(count)]

    def mixed(self, *parts: list[MonitoredResult]) -> list[MonitoredResult]:
        """Return the results of several releases that are live at once, each in its order."""
        order = [at for at, part in enumerate(parts) for _ in part]
        self._random.shuffle(order)
        sides: list[Iterator[MonitoredResult]] = [iter(part) for part in parts]
        return [next(sides[at]) for at in order]


def heard(monitored: Sequence[MonitoredResult], **chosen: Any) -> list[EpisodeEvent]:
    """Run the monitors over a stream; return their events."""
    return taken(Monitor(MonitorSettings(**chosen)), monitored)


def taken(monitor: Monitor, stream: Sequence[MonitoredResult]) -> list[EpisodeEvent]:
    """Let a monitor take results, in order, and return its events."""
    return [event for result in stream if (event := monitor.add(result)) is not None]


def kinds_of(events: Sequence[EpisodeEvent]) -> list[tuple[str, str, str | None]]:
    """Return the events without their numbers."""
    return [(event.kind, event.change, event.release) for event in events]


def test_a_bad_release_raises_one_alarm_with_its_evidence() -> None:
    """92 % and then 78 % is one alarm, with both rates, their counts and intervals, the releases and the evidence."""
    source = Source(1)
    events = heard(source.passes(500, 0.92) + source.passes(2_000, 0.78, "2"))
    assert kinds_of(events) == [("release", "opened", "2")]
    (event,) = events
    assert event.against == ("1",)
    assert 520 <= event.at <= 700
    assert (event.baseline.count, event.candidate.count) == (500, event.at - 500)
    assert event.candidate.mean < event.baseline.mean - 0.01
    for rate in (event.baseline, event.candidate):
        assert 0 < rate.interval.low < rate.mean < rate.interval.high < 1
    assert event.evidence >= event.threshold == pytest.approx(20)


def test_drift_is_found_without_a_release() -> None:
    """A drop within a release is an alarm of drift, whose candidate are the results since about then."""
    source = Source(2)
    events = heard(source.passes(3_000, 0.92) + source.passes(1_000, 0.78))
    assert kinds_of(events) == [("drift", "opened", "1")]
    assert 3_040 <= events[0].at <= 3_400
    assert abs(events[0].candidate.count - (events[0].at - 3_000)) <= 100
    assert events[0].against == ()
    assert events[0].evidence >= events[0].threshold == pytest.approx(200_000)


def test_scores_are_monitored_like_passes() -> None:
    """Scores whose mean falls from 0.8 to 0.7 raise an alarm, or rise from 0.2 to 0.3 where lower is better."""
    source = Source(3)
    down = source.scores(500, 0.8) + source.scores(300, 0.7, "2")
    assert kinds_of(heard(down)) == [("release", "opened", "2")]
    up = [MonitoredResult(result.release, None, 1 - (result.score or 0)) for result in down]
    events = heard(up, lower_is_better=True)
    assert kinds_of(events) == [("release", "opened", "2")]
    assert events[0].candidate.mean > events[0].baseline.mean
    assert heard(up) == []


def test_a_drop_within_the_margin_is_no_alarm() -> None:
    """A drop of 5 points raises no alarm with a margin of 10."""
    source = Source(4)
    assert heard(source.passes(2_000, 0.92) + source.passes(4_000, 0.87, "2"), margin=0.1) == []


@pytest.mark.parametrize(
    "back",
    [
        pytest.param([("2", 0.92)], id="by itself"),
        pytest.param([("3", 0.92)], id="by a new release"),
    ],
)
def test_an_episode_ends_when_the_rate_is_significantly_back(back: list[tuple[str, float]]) -> None:
    """After an alarm, results as before end the episode; the same drop is then a new one."""
    source = Source(5)
    stream = source.passes(1_000, 0.92) + source.passes(400, 0.75, "2")
    for release, rate in back:
        stream += source.passes(1_500, rate, release)
    stream += source.passes(500, 0.75, "4")
    assert kinds_of(heard(stream)) == [
        ("release", "opened", "2"),
        ("release", "recovered", back[0][0]),
        ("release", "opened", "4"),
    ]


def test_one_alarm_for_releases_that_are_all_bad() -> None:
    """While an episode is open, further bad releases raise no alarm, and are compared with the good results."""
    source = Source(6)
    stream = source.passes(1_000, 0.92) + source.passes(400, 0.75, "2") + source.passes(400, 0.75, "3")
    events = heard(stream + source.passes(900, 0.92, "4"))
    assert kinds_of(events) == [("release", "opened", "2"), ("release", "recovered", "4")]
    assert events[1].baseline.count == 1_000


def test_a_release_that_is_rolled_back_is_withdrawn() -> None:
    """When only the release before has results again the episode ends, and the next one is compared with it."""
    source = Source(7)
    stream = source.passes(1_000, 0.92) + source.passes(300, 0.7, "2") + source.passes(600, 0.92, "1")
    events = heard(stream + source.passes(300, 0.7, "3"))
    assert kinds_of(events) == [("release", "opened", "2"), ("release", "withdrawn", "2"), ("release", "opened", "3")]
    assert events[2].against == ("1",)
    assert events[2].baseline.mean > 0.9


def test_a_level_that_lasts_becomes_the_baseline() -> None:
    """After two baselines' lengths at the new level the episode ends, and a further drop is a new one."""
    source = Source(8)
    stream = source.passes(2_000, 0.95) + source.passes(5_500, 0.85, "2") + source.passes(500, 0.6, "3")
    assert kinds_of(heard(stream)) == [
        ("release", "opened", "2"),
        ("release", "lasting", "2"),
        ("release", "opened", "3"),
    ]


def test_a_canary_is_compared_with_the_results_beside_it() -> None:
    """Of two versions that are live at once, the new one is judged, and the old one's results join the baseline."""
    source = Source(9)
    live = source.mixed(source.passes(2_000, 0.92, "1"), source.passes(400, 0.8, "2"))
    events = heard(source.passes(500, 0.92, "1") + live, off=frozenset({"drift"}))
    assert events[0].kind == "release"
    assert events[0].baseline.count > 550
    assert events[0].baseline.count + events[0].candidate.count == events[0].at


def test_short_releases_do_not_hide_from_each_other() -> None:
    """A release with fewer results than the minimum joins the baseline that it was compared with."""
    source = Source(10)
    stream = source.passes(1_000, 0.92)
    for number in range(2, 5):
        stream += source.passes(9, 0.92, f"{number}")
    events = heard(stream + source.passes(300, 0.7, "5"))
    assert kinds_of(events) == [("release", "opened", "5")]
    assert events[0].against == ("1", "2", "3", "4")
    assert events[0].baseline.count == 1_027


def test_nothing_is_said_of_few_results() -> None:
    """Failures alone raise no alarm before the minimum, of the candidate or of the baseline."""
    source = Source(11)
    stream = source.passes(500, 0.95) + source.passes(300, 0.0, "2")
    assert heard(stream)[0].at == 510
    assert heard(stream, minimum=100, off=frozenset({"drift"}))[0].at == 600
    assert heard(source.passes(8, 1.0) + source.passes(100, 0.0, "2")) == []


def test_a_monitor_that_is_off_is_silent() -> None:
    """Each of the two can be left out."""
    source = Source(12)
    stream = source.passes(3_000, 0.95) + source.passes(1_000, 0.6, "2")
    assert kinds_of(heard(stream, off=frozenset({"drift"}))) == [("release", "opened", "2")]
    assert kinds_of(heard(stream, off=frozenset({"release"}))) == [("drift", "opened", "2")]
    assert heard(stream, off=frozenset({"release", "drift"})) == []


def test_results_without_a_score_only_count() -> None:
    """A stream that is measured by passes takes no notice of results without one, but for their number."""
    source = Source(13)
    stream = source.passes(500, 0.92) + source.passes(300, 0.7, "2")
    gaps = [each for result in stream for each in (result, MonitoredResult(result.release, None, 0.0))]
    plain, gapped = heard(stream), heard(gaps)
    assert [event.at * 2 - 1 for event in plain] == [event.at for event in gapped]
    assert [event.evidence for event in plain] == [event.evidence for event in gapped]
    monitor = Monitor(MonitorSettings())
    taken(monitor, gaps)
    assert (monitor.state.results, monitor.state.scored, monitor.state.measure) == (1_600, 800, "passed")


@settings(max_examples=150)
@given(stream=results, cuts=st.lists(st.integers(0, 200), max_size=4), better=st.sampled_from(["higher", "lower"]))
def test_state_is_what_the_results_say(stream: list[MonitoredResult], cuts: list[int], better: str) -> None:
    """However often a monitor is stored as JSON and restored, it says the same and ends in the same state."""
    chosen = replace(QUICK, lower_is_better=better == "lower")
    whole = Monitor(chosen)
    expected = taken(whole, stream)
    state, events, edges = MonitorState(), [], sorted({0, *cuts, len(stream)})
    for start, end in zip(edges, [*edges[1:], len(stream)], strict=True):
        monitor = Monitor(chosen, state)
        events += taken(monitor, stream[start:end])
        state = STATE.validate_json(STATE.dump_json(monitor.state))
    assert events == expected
    assert state == whole.state


@settings(max_examples=100)
@given(stream=results)
def test_episodes_open_and_close_in_turn(stream: list[MonitoredResult]) -> None:
    """No episode opens before the previous one has ended, or worsens while none is open; events name their results."""
    monitor, opened = Monitor(QUICK), False
    for at, result in enumerate(stream, start=1):
        event = monitor.add(result)
        if event is not None:
            assert event.at == at
            assert (event.change == "opened") != opened
            opened = event.change in {"opened", "escalated"}
    assert monitor.state.results == len(stream)
    assert (monitor.state.episode is not None) == opened


@pytest.mark.parametrize("release", ["2", None])
def test_an_episode_that_becomes_much_worse_is_told_once_more(release: str | None) -> None:
    """A fall from 92 to 70 % is one alarm, a further one to 20 % is reported once with the new rate, and stays open."""
    source = Source(5)
    stream = source.passes(1_500, 0.92) + source.passes(500, 0.7, release) + source.passes(500, 0.2, release)
    opened, worse = heard(stream)
    assert (opened.change, worse.change, worse.kind) == ("opened", "escalated", opened.kind)
    assert 2_000 < worse.at < 2_200
    assert worse.baseline.mean == opened.baseline.mean
    assert worse.candidate.mean < 0.4 < opened.candidate.mean
    assert worse.candidate.count <= worse.at - 1_970
    assert worse.evidence >= worse.threshold


def test_what_stays_as_bad_as_it_was_told_is_not_told_again() -> None:
    """Of 60 streams that stay at the rate of the alarm or get a little worse, none is escalated."""
    for rate in (0.7, 0.66):
        source = Source(6)
        for _ in range(30):
            changes = [event.change for event in heard(source.passes(600, 0.92) + source.passes(900, rate, "2"))]
            assert changes[0] == "opened"
            assert "escalated" not in changes


def test_a_further_fall_is_told_each_time_that_it_is_much_worse() -> None:
    """Each report is for a drop half as large again as the last reported, and a recovery resets this."""
    source = Source(7)
    steps = [part for rate in (0.8, 0.4, 0.0) for part in source.passes(400, rate, "2")]
    events = heard(source.passes(1_500, 0.95) + steps + source.passes(1_500, 0.95, "2") + source.passes(300, 0.7, "2"))
    assert [event.change for event in events] == ["opened", "escalated", "escalated", "recovered", "opened"]
    rates = [event.candidate.mean for event in events[:3]]
    assert rates == sorted(rates, reverse=True)


def test_scores_of_which_lower_ones_are_better_become_worse_upwards() -> None:
    """The escalation of a stream whose lower scores are better has the higher rate."""
    source = Source(8)
    stream = source.scores(800, 0.2) + source.scores(300, 0.4, "2") + source.scores(300, 0.9, "2")
    opened, worse = heard(stream, lower_is_better=True)
    assert (opened.change, worse.change) == ("opened", "escalated")
    assert worse.candidate.mean > 0.8 > opened.candidate.mean


@pytest.mark.parametrize("streams", [120])
def test_false_alarms_are_as_rare_as_promised(streams: int) -> None:
    """Of 120 streams with a release and no change, at most a tenth has an alarm of the one kind or the other."""
    source = Source(14)
    alarms = [
        event.kind
        for _ in range(streams)
        for event in heard(source.passes(300, 0.8) + source.passes(900, 0.8, "2"), alpha=0.1, margin=0.0, every=6_000)
        if event.change == "opened"
    ]
    assert alarms.count("release") <= 0.1 * streams
    assert alarms.count("drift") <= streams * 1_200 / 12_000


@pytest.mark.parametrize(
    "wrong", [{"alpha": 0}, {"alpha": 0.6}, {"margin": -0.1}, {"minimum": 0}, {"baseline": 10}, {"every": 1}]
)
def test_settings_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    """A setting that promises nothing is refused by its name."""
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be from"):
        MonitorSettings(**wrong)


def of(stream: Sequence[MonitoredResult], stretches: Sequence[ResultRange]) -> list[bool]:
    """Return the passes and failures of the results that stretches say, of a stream that is numbered by tens."""
    return [
        bool(result.passed)
        for at, result in enumerate(stream, 1)
        for stretch in stretches
        if result.passed is not None
        and stretch.after < 10 * at <= stretch.until
        and (stretch.releases is None or result.release in stretch.releases)
    ]


@pytest.mark.simulation
def test_an_alarm_says_which_results_it_is_about() -> None:
    """Counted again by their numbers and releases, both sides have the counts and rates of the alarm."""
    kinds, joined = set[str](), 0
    for seed in range(30):
        drawn = random.Random(seed)
        monitor, stream = Monitor(replace(QUICK, alpha=0.4, minimum=drawn.choice([5, 30]))), list[MonitoredResult]()
        live, rate = ["0"], 0.9
        for at in range(1, 1_500):
            if drawn.random() < 0.01:
                live = [*live[-drawn.randrange(2) :], str(at)]
            if drawn.random() < 0.005:
                rate = drawn.choice([0.2, 0.6, 0.9])
            passed = None if drawn.random() < 0.05 else drawn.random() < rate
            stream.append(MonitoredResult(drawn.choice([*live, None]), passed, None))
            event = monitor.add(stream[-1], 10 * at)
            if event is not None and event.change in {"opened", "escalated"}:
                kinds.add(event.kind if event.change == "opened" else event.change)
                joined += len(event.of_baseline) > 1
                for pass_rate, stretches in (
                    (event.baseline, event.of_baseline),
                    (event.candidate, event.of_candidate),
                ):
                    alarm = of(stream, stretches)
                    assert (len(alarm), sum(alarm)) == (pass_rate.count, round(pass_rate.mean * pass_rate.count))
    assert kinds == {"release", "drift", "escalated"}
    assert joined > 2


def test_what_has_lasted_is_not_held_against_what_was_good_before() -> None:
    """Late results of the release before a drop that has lasted raise no second alarm for it."""
    source = Source(12)
    good, bad = source.passes(200, 0.95), source.passes(300, 0.5, "2")
    events = heard([*good, *bad, *source.mixed(source.passes(100, 0.95), source.passes(100, 0.5, "2"))], baseline=64)
    assert kinds_of(events) == [("release", "opened", "2"), ("release", "lasting", "2")]


@pytest.mark.parametrize("kind, against", [("release", ("1",)), ("drift", ())])
def test_another_evaluator_takes_over_what_is_known_to_be_bad(kind: str, against: tuple[str, ...]) -> None:
    """After an alarm of a release the next is compared with the good one; after drift none is known to be good."""
    source = Source(13)
    monitor = Monitor(MonitorSettings(baseline=256))
    taken(monitor, [*source.passes(600, 0.95), *source.passes(300, 0.4, "2" if kind == "release" else "1")])
    state = monitor.state
    assert state.episode is not None
    assert state.episode.kind == kind
    order = order_of(state.releases, 900, bad=True)
    assert (order.bad, order.against(10)) == (kind == "release", against)
