"""When a metric that is looked at again and again has crossed a limit, and when it is back."""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

Crossing: TypeAlias = Literal["opened", "escalated", "recovered"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricLimit:
    """What a metric must not be: above one number, or below one. `looks` in a row have to say so, or the opposite.

    `escalate_at` is further away: what reaches it while an alert is open is told once more.
    """

    above: float | None = None
    below: float | None = None
    escalate_at: float | None = None
    looks: int = 1

    @property
    def number(self) -> float:
        """The limit itself."""
        return next(each for each in (self.above, self.below, 0.0) if each is not None)

    def is_crossed_by(self, value: float) -> bool:
        """Whether a value is on the wrong side; the limit itself is on the right one."""
        if self.above is not None:
            return value > self.above
        return self.below is not None and value < self.below

    def is_far_crossed_by(self, value: float) -> bool:
        """Whether a value has reached the number at which an alert is told once more."""
        if self.escalate_at is None:
            return False
        return value >= self.escalate_at if self.above is not None else value <= self.escalate_at


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitState:
    """What has to be remembered between two looks."""

    is_open: bool = False
    against: int = 0  # looks in a row that say the opposite of `is_open`
    is_escalated: bool = False
    far: int = 0  # looks in a row that had reached the number of escalation, of an alert that is not escalated


def look_at(limit: MetricLimit, state: LimitState, value: float) -> tuple[LimitState, Crossing | None]:
    """Take one value. Returns what to remember, and what there is to say."""
    if limit.is_crossed_by(value) is state.is_open:
        return _look_further(limit, replace(state, against=0), value)
    if state.against + 1 < limit.looks:
        return replace(state, against=state.against + 1, far=0), None
    if state.is_open:
        return LimitState(), "recovered"
    return LimitState(is_open=True, is_escalated=limit.is_far_crossed_by(value)), "opened"


def _look_further(limit: MetricLimit, state: LimitState, value: float) -> tuple[LimitState, Crossing | None]:
    """What a value that opens and ends nothing says of an open alert; one that opened so far away is not told twice."""
    if not state.is_open or state.is_escalated or not limit.is_far_crossed_by(value):
        return replace(state, far=0), None
    if state.far + 1 < limit.looks:
        return replace(state, far=state.far + 1), None
    return replace(state, is_escalated=True, far=0), "escalated"
