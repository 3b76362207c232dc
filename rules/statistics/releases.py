"""Release monitor: the current release against the previous one."""

from dataclasses import dataclass
from typing import Final

from rules.statistics.drift import DriftWindow, WindowStart
from rules.statistics.sample import NOTHING, ResultRange, Sample, WeightTally
from rules.statistics.settings import MonitorSettings
from rules.statistics.watch import Watch, WatchFinding, WatchState, since_ever

_KNOWN: Final = 64  # releases that are remembered, to recognize their late results. A guess

_STRETCHES: Final = 256  # the most ranges of results kept of a baseline; if short releases add more, the last ones


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasesState:
    """Everything the release monitor has to remember."""

    current: str | None = None
    trail: tuple[tuple[str, int], ...] = ()  # earlier releases that were not bad, with how many results each had
    known: tuple[str, ...] = ()
    baseline: Sample = NOTHING
    own: Sample = NOTHING  # the results of the current release
    edges: tuple[WindowStart, ...] = ()
    watch: WatchState | None = None
    stretches: tuple[ResultRange, ...] = ()  # the baseline's results at the beginning of the comparison, by number
    since: int = 0  # the number of the last result before that
    bad: bool = False  # results are bad: an episode is open, or the current release was withdrawn
    of_earlier: int = 0  # results of the current release that the previous evaluator judged

    def against(self, minimum: int) -> tuple[str, ...]:
        """Return the releases whose results are the baseline: the last with enough of them, and those after it."""
        start = len(self.trail) - 1
        while start > 0 and self.trail[start][1] < minimum:
            start -= 1
        return tuple(release for release, _ in self.trail[max(start, 0) :])


NO_RELEASES: Final = ReleasesState()


def order_of(state: ReleasesState, after: int, *, bad: bool) -> ReleasesState:
    """Return the state with which another evaluator begins after result `after`: the order of releases, no results.

    Late results of the previous release, such as those of a backfill, then join the baseline. The number of results of
    each release is kept, since other settings may require more or fewer. `bad` says that results are bad at present.
    """
    return ReleasesState(
        current=state.current,
        trail=state.trail,
        known=state.known,
        # After drift no release is known to be good: comparing with the current one is better than with nothing.
        bad=(bad or state.bad) and bool(state.trail),
        since=after,
        of_earlier=max(state.of_earlier, state.own.count),  # the same targets, if they were judged again
    )


class Releases:
    """Choice of the current release and its baseline.

    - A release that was not seen before becomes the current one. Its baseline is the window of the previous release,
      if that has enough results. Else the previous release joins the baseline that it was compared with, so that a
      decline over several short releases is seen.
    - While two versions are live, results of the current one are the candidate's, and results of the baseline's
      releases still join the baseline. Those of other releases, and of none, are ignored.
    - A release that was bad is never a baseline: the next one is compared with the bad one's baseline.

    """

    __slots__ = (
        "_known",
        "_of_earlier",
        "_settings",
        "_trail",
        "_window",
        "against",
        "bad",
        "baseline",
        "current",
        "own",
        "since",
        "stretches",
        "watch",
    )

    def __init__(self, state: ReleasesState, settings: MonitorSettings) -> None:
        self._settings = settings
        self._known = dict.fromkeys(state.known)
        self.current, self._trail, self.against = state.current, state.trail, state.against(settings.minimum)
        self.baseline = WeightTally(state.baseline)
        self.own = WeightTally(state.own)
        self._window = DriftWindow(state.edges, self.own, settings.block)
        self.watch = None if state.watch is None else self._watch(state.watch)
        self.bad, self._of_earlier = state.bad, state.of_earlier
        self.stretches, self.since = state.stretches, state.since

    @property
    def state(self) -> ReleasesState:
        """Return a snapshot from which to continue."""
        return ReleasesState(
            current=self.current,
            trail=self._trail,
            known=tuple(self._known),
            baseline=self.baseline.sample(),
            own=self.own.sample(),
            edges=self._window.edges,
            watch=None if self.watch is None else self.watch.state,
            bad=self.bad,
            stretches=self.stretches,
            since=self.since,
            of_earlier=self._of_earlier,
        )

    def arrive(self, release: str | None, number: int, *, bad: bool) -> bool:
        """Note a result's release; return True if it is new.

        `bad` says that results are bad at present, and so nothing to compare with.
        """
        if release is None or release == self.current or release in self._known:
            return False
        if self.current is not None and not (bad or self.bad):
            count = max(self._of_earlier, self.own.count)
            self._trail = (*self._trail, (self.current, count))[-_KNOWN:]
            if count >= self._settings.minimum:
                self.baseline, self.against = WeightTally(self._window.sample), (self.current,)
                after = self._window.after if self.own.count else number - 1
                self.stretches = (ResultRange(after=after, until=number - 1, releases=self.against),)
            else:
                self.baseline = WeightTally(self.baseline.sample() + self.own.sample())
                both = ResultRange(after=self.since, until=number - 1, releases=(*self._joining, self.current))
                self.stretches = (*self.stretches, both)[-_STRETCHES:]
                self.against = (*self.against, self.current)[-_KNOWN:]
        elif not bad:
            self.stretches = self.sources(number - 1)
        self.current, self.bad, self._of_earlier = release, False, 0
        self._known[release] = None
        if len(self._known) > _KNOWN:
            del self._known[next(iter(self._known))]
        self.restart(number - 1)
        return True

    def restart(self, number: int) -> None:
        """Compare from now on only results of the current release after result `number`."""
        self.since = number
        self.own = WeightTally()
        self._window = DriftWindow((), self.own, self._settings.block)
        self.watch = None
        self._arm()

    def forget(self) -> None:
        """Let results of earlier releases join the baseline no longer; the baseline itself stays."""
        self._trail = self.against = ()

    def rebase(self, baseline: Sample, stretches: tuple[ResultRange, ...], number: int, *, bad: bool = False) -> None:
        """Compare the results after result `number` with this baseline."""
        self.baseline, self.stretches, self.bad = WeightTally(baseline), stretches, bad
        self.restart(number)

    def sources(self, number: int) -> tuple[ResultRange, ...]:
        """Return the stretches of results in the baseline, up to result `number`."""
        if number == self.since or not self._joining:
            return self.stretches
        return (*self.stretches, ResultRange(after=self.since, until=number, releases=self._joining))[-_STRETCHES:]

    @property
    def _joining(self) -> tuple[str, ...]:
        return tuple(release for release in self.against if release != self.current)

    def add(self, number: int, release: str | None, point: int, above: int) -> WatchFinding | None:
        """Add a result; return the evidence that the current release is worse, if it is enough."""
        if release == self.current is not None:
            if self.watch is None:
                self._arm()  # with the whole baseline so far: more results make a better bet
            self.own.add(point, above)
            self._window.move(number)
            if self.watch is None or not self.watch.add(point, above) or self.own.count < self._settings.minimum:
                return None
            return self.watch.found()
        if release in self.against:
            self.baseline.add(point, above)
            if self.watch is not None:
                self.watch.add_baseline(point, above)
        return None

    def _arm(self) -> None:
        if "release" not in self._settings.off and self.baseline.count >= self._settings.minimum:
            self.watch = self._watch(
                since_ever(self.baseline.sample(), self.own.sample(), self._settings.log_release_threshold)
            )

    def _watch(self, state: WatchState) -> Watch:
        return Watch(state, margin=self._settings.margin, log_threshold=self._settings.log_release_threshold)
