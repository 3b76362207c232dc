"""Events of a monitor, with the figures to check them."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from rules.statistics.intervals import Interval, interval
from rules.statistics.sample import ResultRange, Sample
from rules.statistics.settings import Kind

Change: TypeAlias = Literal["opened", "escalated", "recovered", "withdrawn", "lasting"]
"""Change of an episode. `opened`: the alarm. `escalated`: it is much worse than reported, and goes on. `recovered`:
more than half of the drop is made good, significantly. `withdrawn`: the release that was worse has no results any more.
`lasting`: it has lasted so long that it becomes the new baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRate:
    """A mean score, or a pass rate."""

    count: int
    mean: float
    interval: Interval  # anytime-valid


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeEvent:
    """Begin, worsening or end of an episode."""

    kind: Kind
    change: Change
    at: int  # the number of the result that it took, from 1
    release: str | None  # the current one
    against: tuple[str, ...]  # the releases of the baseline; of drift none
    baseline: StreamRate
    candidate: StreamRate  # since the release, or since drift, worsening or recovery most likely began
    evidence: float  # has reached the threshold, unless the episode ended without
    threshold: float
    of_baseline: tuple[ResultRange, ...] = ()  # of alarms and escalations: the numbers of these results
    of_candidate: tuple[ResultRange, ...] = ()


def rate_of(sample: Sample, alpha: float, *, lower_is_better: bool) -> StreamRate:
    """Return the rate of scores; with `lower_is_better` they are stored mirrored, and are mirrored back."""
    shown = sample.mirrored if lower_is_better else sample
    return StreamRate(count=shown.count, mean=shown.mean, interval=interval(shown, alpha))
