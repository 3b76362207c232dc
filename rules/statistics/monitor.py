"""The monitors of one stream of results: a release monitor, a drift monitor, and the episodes that they open.

Results are processed in order, and the monitors are checked after each. If the mean does not change, these bounds hold.

- A false alarm of the release monitor has a probability of at most alpha, for each release and after each recovery.
- A false alarm of the drift monitor within n results has a probability of at most n / (2·every).

The bounds assume that results are independent of the past and that all releases have the same mean. The time of a
release must not depend on the results just before it.

A stream has one episode at a time. Both monitors rest until it ends, and then begin anew. While it lasts, a
further watch detects results that are much worse than reported.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

from rules.statistics.drift import NO_DRIFT, Drift, DriftState
from rules.statistics.episode import Episode, EpisodeState
from rules.statistics.events import Change, EpisodeEvent, rate_of
from rules.statistics.releases import NO_RELEASES, Releases, ReleasesState
from rules.statistics.sample import NOTHING, ResultRange, split
from rules.statistics.settings import Kind, Measure, MonitorSettings
from rules.statistics.watch import WatchFinding

_LARGEST_LOG: Final = 700.0  # log of about the largest float


@dataclass(frozen=True, slots=True)
class MonitoredResult:
    """Result of judging one trace or span."""

    release: str | None
    passed: bool | None
    score: float | None  # from 0 to 1
    is_baseline: bool = False  # it was judged again, for the baseline


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorState:
    """Everything the monitors of a stream have to remember. It depends on the results alone."""

    results: int = 0
    scored: int = 0  # results that have the measure
    measure: Measure | None = None  # that of the first result with any; a stream has one
    releases: ReleasesState = NO_RELEASES
    drift: DriftState = NO_DRIFT
    episode: EpisodeState | None = None


class Monitor:
    """The monitors of one stream."""

    __slots__ = ("_drift", "_episode", "_releases", "_settings", "measure", "results", "scored")

    def __init__(self, settings: MonitorSettings, state: MonitorState | None = None) -> None:
        state = state or MonitorState()
        self._settings = settings
        self.results, self.scored, self.measure = state.results, state.scored, state.measure
        self._releases = Releases(state.releases, settings)
        self._drift = Drift(state.drift, settings)
        self._episode = None if state.episode is None else Episode(state.episode, settings)

    @property
    def state(self) -> MonitorState:
        """Return a snapshot from which to continue."""
        return MonitorState(
            results=self.results,
            scored=self.scored,
            measure=self.measure,
            releases=self._releases.state,
            drift=self._drift.state,
            episode=None if self._episode is None else self._episode.state,
        )

    def add(self, result: MonitoredResult, number: int | None = None) -> EpisodeEvent | None:
        """Add a result; return the event that it causes, or None.

        A result with `is_baseline` only joins the results of its release: it begins no release, and neither drift nor
        an episode counts it. A result without the measure of the stream is counted, and otherwise ignored. Results are
        numbered from 1 unless `number` is given, which must grow; an alarm refers to its results by these numbers.
        """
        self.results += 1
        number = self.results if number is None else number
        score = self._score(result)
        if score is None:
            return None
        self.scored += 1
        point, above = split(score)
        if result.is_baseline:
            late = None if self._episode is not None else self._releases.add(number, result.release, point, above)
            return None if late is None else self._open("release", late, number)
        fresh = self._releases.arrive(result.release, number, bad=self._episode is not None)
        if self._episode is not None:
            if fresh:
                self._episode.release()
            return self._follow(self._episode, result.release, number, (point, above))
        worse = self._releases.add(number, result.release, point, above)
        drifted = None if "drift" in self._settings.off else self._drift.add(number, point, above)
        if worse is not None:
            return self._open("release", worse, number)
        return None if drifted is None else self._open("drift", drifted, number)

    def _score(self, result: MonitoredResult) -> float | None:
        if self.measure is None:
            self.measure = "passed" if result.passed is not None else "score" if result.score is not None else None
        if self.measure == "passed":
            return None if result.passed is None else float(result.passed)
        if result.score is None:
            return None
        return 1.0 - result.score if self._settings.lower_is_better else result.score

    def _open(self, kind: Kind, finding: WatchFinding, number: int) -> EpisodeEvent:
        thresholds = {"release": self._settings.log_release_threshold, "drift": self._settings.log_drift_threshold}
        of_baseline, of_candidate = self._sources(kind, finding, number)
        event = replace(
            self._event(kind, "opened", finding, thresholds[kind]), of_baseline=of_baseline, of_candidate=of_candidate
        )
        if kind == "drift":
            self._releases.forget()
        self._episode = Episode(
            EpisodeState(
                kind=kind,
                opened_at=self.results,
                baseline=finding.baseline,
                stretches=of_baseline,
                drop=max(finding.baseline.mean - finding.candidate.mean, 0.0),
            ),
            self._settings,
        )
        self._releases.rebase(finding.baseline, of_baseline, number, bad=True)
        self._drift = Drift(NO_DRIFT, self._settings)
        return event

    def _sources(
        self, kind: Kind, finding: WatchFinding, number: int
    ) -> tuple[tuple[ResultRange, ...], tuple[ResultRange, ...]]:
        """Return the stretches of results that baseline and candidate consist of."""
        releases = self._releases
        if kind == "drift":
            baseline = () if finding.of_baseline is None else (finding.of_baseline,)
            return baseline, (ResultRange(after=finding.after, until=number),)
        current = () if releases.current is None else (releases.current,)
        return releases.sources(number), (ResultRange(after=releases.since, until=number, releases=current),)

    def _follow(
        self, episode: Episode, release: str | None, number: int, score: tuple[int, int]
    ) -> EpisodeEvent | None:
        if episode.kind == "release" and release != self._releases.current:
            change = episode.pass_by()
        else:
            change = episode.add(number, *score)
        if change == "escalated":
            return self._escalate(episode, number)
        return None if change is None else self._close(episode, change, number)

    def _escalate(self, episode: Episode, number: int) -> EpisodeEvent:
        finding = episode.worse_finding()
        event = self._event(episode.kind, "escalated", finding, self._settings.log_escalation_threshold)
        current = self._releases.current
        of_release = (current,) if episode.kind == "release" and current is not None else None
        episode.escalate()
        return replace(
            event,
            of_baseline=episode.state.stretches,
            of_candidate=(ResultRange(after=finding.after, until=number, releases=of_release),),
        )

    def _close(self, episode: Episode, change: Change, number: int) -> EpisodeEvent:
        state = episode.state
        event = self._event(state.kind, change, episode.finding(change), episode.watch.log_threshold)
        self._episode = None
        baseline, stretches = (NOTHING, ()) if change == "lasting" else (state.baseline, state.stretches)
        if change == "lasting":
            self._releases.forget()  # or late results of releases that were good before would bring the drop back
        self._releases.rebase(baseline, stretches, number, bad=change == "withdrawn")
        return event

    def _event(self, kind: Kind, change: Change, finding: WatchFinding, log_threshold: float) -> EpisodeEvent:
        alpha, mirrored = self._settings.alpha, self.measure == "score" and self._settings.lower_is_better
        return EpisodeEvent(
            kind=kind,
            change=change,
            at=self.results,
            release=self._releases.current,
            against=self._releases.against if kind == "release" else (),
            baseline=rate_of(finding.baseline, alpha, lower_is_better=mirrored),
            candidate=rate_of(finding.candidate, alpha, lower_is_better=mirrored),
            evidence=math.exp(min(finding.log_evidence, _LARGEST_LOG)),
            threshold=math.exp(log_threshold),
        )
