"""Drift: the latest results against the trailing baseline, for changes that no release explains."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rules.statistics.sample import NOTHING, ResultRange, Sample, WeightTally
from rules.statistics.settings import BASELINE_PARTS, STRIDES, MonitorSettings
from rules.statistics.watch import NOTHING_SEEN, Start, Watch, WatchFinding, WatchState


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowStart:
    """A result at which a window can begin."""

    at: int  # the number of the last result before it
    before: Sample  # the tally at that result


class DriftWindow:
    """The latest of the results in a tally: as many as a baseline has, and up to 1/8 more."""

    __slots__ = ("_block", "_tally", "edges")

    def __init__(self, edges: Sequence[WindowStart], tally: WeightTally, block: int) -> None:
        self.edges = tuple(edges)  # none before the first result
        self._tally = tally
        self._block = block

    def move(self, number: int) -> None:
        """Move the window on; call it after each result, with its number."""
        if not self.edges:
            self.edges = (WindowStart(at=number - 1, before=NOTHING),)
        if self._tally.count % self._block == 0:
            self.edges = (*self.edges, WindowStart(at=number, before=self._tally.sample()))[-BASELINE_PARTS - 1 :]

    @property
    def sample(self) -> Sample:
        """Return the results in the window."""
        return self._tally.sample() - self.edges[0].before if self.edges else NOTHING

    @property
    def after(self) -> int:
        """Return the number of the last result before the window, which must not be empty."""
        return self.edges[0].at


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftState:
    """Everything the drift monitor has to remember."""

    edges: tuple[WindowStart, ...] = ()
    watch: WatchState = NOTHING_SEEN


NO_DRIFT: Final = DriftState()


class Drift:
    """A watch with a start after every few results, each compared with the results before its block."""

    __slots__ = ("_block", "_minimum", "_stride", "watch", "window")

    def __init__(self, state: DriftState, settings: MonitorSettings) -> None:
        self._stride, self._block = settings.stride, settings.block
        self._minimum = settings.minimum
        self.watch = Watch(state.watch, margin=settings.margin, log_threshold=settings.log_drift_threshold)
        self.window = DriftWindow(state.edges, self.watch.total, settings.block)

    @property
    def state(self) -> DriftState:
        """Return a snapshot from which to continue."""
        return DriftState(edges=self.window.edges, watch=self.watch.state)

    def add(self, number: int, point: int, above: int) -> WatchFinding | None:
        """Add a result; return the evidence of drift, if it is enough."""
        watch = self.watch
        due = watch.add(point, above)
        self.window.move(number)
        if watch.total.count % self._stride == 0:
            self._start(number)
        return watch.found() if due else None

    def _start(self, number: int) -> None:
        count = self.watch.total.count
        renewed = count % self._block == 0 and count >= self._minimum
        if renewed or self.watch.starts:
            of = ResultRange(after=self.window.after, until=number)
            self.watch.start(self.window.sample if renewed else None, self._stride, at=number, of=of)
        if renewed:
            self.watch.keep(thinned(self.watch.starts, count, self._stride))


def thinned(starts: Sequence[Start], count: int, stride: int) -> list[Start]:
    """Return the starts that are worth remembering: fewer of old ones, none older than two baselines.

    The evidence is a sum over starts: without some it is smaller, so forgetting costs power, but no guarantee.

    """
    kept = []
    for start in starts:
        age = (count - start.count) // stride
        apart = 1 << max(age // (2 * STRIDES), 1).bit_length() - 1
        if age <= 2 * BASELINE_PARTS * STRIDES and (start.count // stride) % apart == 0:
            kept.append(start)
    return kept
