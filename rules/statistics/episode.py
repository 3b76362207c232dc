"""Episodes: one alarm from its beginning to its end, however long it lasts."""

from dataclasses import dataclass, replace
from typing import Final

from rules.statistics.drift import thinned
from rules.statistics.events import Change
from rules.statistics.sample import ATOMS, UNIT, ResultRange, Sample
from rules.statistics.settings import BASELINE_PARTS, Kind, MonitorSettings
from rules.statistics.watch import NOTHING_SEEN, Watch, WatchFinding, WatchState
from rules.statistics.worsening import Worsening, WorseningState

_LASTING_BASELINES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeState:
    """Everything that has to be remembered of an episode."""

    kind: Kind
    opened_at: int
    baseline: Sample  # what the results were worse than
    stretches: tuple[ResultRange, ...]  # the numbers of its results
    drop: float  # how much lower the mean was at the alarm
    results: int = 0  # since the alarm, or the last release or escalation after it
    absent: int = 0  # results of other releases since the last one of the current release
    watch: WatchState = NOTHING_SEEN
    worse: WorseningState | None = None  # the watch for means below the reported one; None: no result since the alarm


class Episode:
    """Watch for recovery: a watch over mirrored scores with a negative margin.

    The null hypothesis is that at least half of the drop is left (or the margin, if that is more). A second watch is
    for means below the reported one.
    """

    __slots__ = ("_settings", "_state", "absent", "kind", "results", "watch", "worse")

    def __init__(self, state: EpisodeState, settings: MonitorSettings) -> None:
        self._state, self._settings = state, settings
        self.kind = state.kind
        self.results, self.absent = state.results, state.absent
        self.watch = Watch(
            state.watch,
            margin=-max(settings.margin, state.drop / 2),
            log_threshold=settings.log_recovery_threshold,
        )
        if not self.watch.starts:
            self.watch.start(state.baseline.mirrored, settings.stride)
        self.worse = self._worsening(state.worse or WorseningState(told=max(state.baseline.mean - state.drop, 0.0)))

    @property
    def state(self) -> EpisodeState:
        """Return a snapshot from which to continue."""
        return replace(
            self._state,
            results=self.results,
            absent=self.absent,
            watch=self.watch.state,
            worse=self.worse.state,
        )

    def release(self) -> None:
        """Note a new release, with which recovery may begin; a false recovery has a probability of at most alpha."""
        self.results = self.absent = 0
        self.watch.start(None, self._settings.block * BASELINE_PARTS)
        if self.kind == "release":
            self.worse = self._worsening(WorseningState(told=self.worse.reported))

    def pass_by(self) -> Change | None:
        """Count a result of another release; return "withdrawn" once the watched release has had none for long."""
        self.absent += 1
        return "withdrawn" if self.absent >= max(self._settings.block, self._settings.minimum) else None

    def add(self, number: int, point: int, above: int) -> Change | None:
        """Add a result; return the change if the episode ends or became worse, else None."""
        self.results += 1
        self.absent = 0
        is_worse = self.worse.add(number, point, above)
        point, above = (ATOMS - 2 - point, UNIT - above) if above else (ATOMS - 1 - point, 0)
        due = self.watch.add(point, above)
        count = self.watch.total.count
        if count % self._settings.stride == 0:
            self.watch.start(None, self._settings.stride)
        if count % self._settings.block == 0:
            self.watch.keep(thinned(self.watch.starts, count, self._settings.stride))
        if due and self.watch.found() is not None:
            return "recovered"
        if is_worse:
            return "escalated"
        return "lasting" if self.results >= _LASTING_BASELINES * BASELINE_PARTS * self._settings.block else None

    def escalate(self) -> None:
        """Record the escalation: further worsening and the duration are measured from here on."""
        reported = min(self.worse.since.mean, self.worse.level)
        self.worse = self._worsening(WorseningState(told=max(reported, 0.0)))
        self.results = 0

    def worse_finding(self) -> WatchFinding:
        """Return the evidence that results became worse than reported, against the baseline of good results."""
        worse = self.worse
        return WatchFinding(
            log_evidence=worse.log_evidence, baseline=self._state.baseline, candidate=worse.since, after=worse.after
        )

    def finding(self, change: Change) -> WatchFinding:
        """Return the evidence of recovery, with the results since it most likely began, or else since the alarm."""
        finding = self.watch.finding()
        candidate = finding.candidate if change == "recovered" else self.watch.total.sample()
        return WatchFinding(
            log_evidence=finding.log_evidence,
            baseline=finding.baseline.mirrored,
            candidate=candidate.mirrored,
        )

    def _worsening(self, state: WorseningState) -> Worsening:
        return Worsening(state, max(self._state.baseline.mean - state.told, 0.0), self._settings)
