"""Current state of a stream's monitors: the rates they compare, and the evidence so far."""

import math
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from rules.statistics.drift import Drift
from rules.statistics.episode import Episode
from rules.statistics.events import StreamRate, rate_of
from rules.statistics.monitor import MonitorState
from rules.statistics.releases import Releases
from rules.statistics.sample import Sample
from rules.statistics.settings import Kind, MonitorSettings
from rules.statistics.watch import Watch

WaitsFor: TypeAlias = Literal["alarm", "recovery"]

_LARGEST_LOG: Final = 700.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorStanding:
    """Current state of a monitor. A rate is None without results, the evidence without enough results."""

    kind: Kind
    waits_for: WaitsFor
    release: str | None  # of the release monitor
    against: tuple[str, ...]
    baseline: StreamRate | None
    candidate: StreamRate | None
    evidence: float | None
    threshold: float


def standings(settings: MonitorSettings, state: MonitorState) -> list[MonitorStanding]:
    """Return the active monitors: in an episode the one that alarmed, else release and drift unless off."""
    if state.episode is not None:
        return [_recovery(settings, state, Episode(state.episode, settings))]
    active = []
    if "release" not in settings.off:
        active.append(_release(settings, state))
    if "drift" not in settings.off:
        active.append(_drift(settings, state))
    return active


def _recovery(settings: MonitorSettings, state: MonitorState, episode: Episode) -> MonitorStanding:
    current = state.releases.current if episode.kind == "release" else None
    return MonitorStanding(
        kind=episode.kind,
        waits_for="recovery",
        release=current,
        against=state.releases.against(settings.minimum) if episode.kind == "release" else (),
        baseline=_rate(settings, state, episode.state.baseline),
        candidate=_rate(settings, state, episode.watch.total.sample().mirrored),
        evidence=_evidence(episode.watch),
        threshold=math.exp(episode.watch.log_threshold),
    )


def _release(settings: MonitorSettings, state: MonitorState) -> MonitorStanding:
    releases = Releases(state.releases, settings)
    return MonitorStanding(
        kind="release",
        waits_for="alarm",
        release=releases.current,
        against=releases.against,
        baseline=_rate(settings, state, releases.baseline.sample()),
        candidate=_rate(settings, state, releases.own.sample()),
        evidence=None if releases.watch is None else _evidence(releases.watch),
        threshold=math.exp(settings.log_release_threshold),
    )


def _drift(settings: MonitorSettings, state: MonitorState) -> MonitorStanding:
    drift = Drift(state.drift, settings)
    finding = drift.watch.finding() if drift.watch.starts else None
    return MonitorStanding(
        kind="drift",
        waits_for="alarm",
        release=None,
        against=(),
        baseline=_rate(settings, state, drift.window.sample if finding is None else finding.baseline),
        candidate=None if finding is None else _rate(settings, state, finding.candidate),
        evidence=_evidence(drift.watch),
        threshold=math.exp(settings.log_drift_threshold),
    )


def _evidence(watch: Watch) -> float | None:
    return math.exp(min(watch.finding().log_evidence, _LARGEST_LOG)) if watch.starts else None


def _rate(settings: MonitorSettings, state: MonitorState, sample: Sample) -> StreamRate | None:
    mirrored = state.measure == "score" and settings.lower_is_better
    return rate_of(sample, settings.alpha, lower_is_better=mirrored) if sample.count else None
