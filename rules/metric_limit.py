"""Limits of metrics that are checked periodically: crossing, escalation and recovery."""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

Crossing: TypeAlias = Literal["opened", "escalated", "recovered"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricLimit:
    """An upper or a lower limit of a metric, crossed or restored after `looks` checks in a row.

    Reaching `escalate_at`, which lies further away, while an alert is open sends a second notification.

    """

    above: float | None = None
    below: float | None = None
    escalate_at: float | None = None
    looks: int = 1

    @property
    def number(self) -> float:
        """Return the limit itself."""
        return next(each for each in (self.above, self.below, 0.0) if each is not None)

    def is_crossed_by(self, value: float) -> bool:
        """Return True if a value is beyond the limit; a value equal to the limit is not."""
        if self.above is not None:
            return value > self.above
        return self.below is not None and value < self.below

    def is_far_crossed_by(self, value: float) -> bool:
        """Return True if a value has reached `escalate_at`."""
        if self.escalate_at is None:
            return False
        return value >= self.escalate_at if self.above is not None else value <= self.escalate_at


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitState:
    """State that is kept between two checks."""

    is_open: bool = False
    against: int = 0  # consecutive checks that contradict `is_open`
    is_escalated: bool = False
    far: int = 0  # consecutive checks that reached `escalate_at`, while the alert is not escalated


def look_at(limit: MetricLimit, state: LimitState, value: float) -> tuple[LimitState, Crossing | None]:
    """Check one value; return the new state, and the crossing if there is one."""
    if limit.is_crossed_by(value) is state.is_open:
        return _look_further(limit, replace(state, against=0), value)
    if state.against + 1 < limit.looks:
        return replace(state, against=state.against + 1, far=0), None
    if state.is_open:
        return LimitState(), "recovered"
    return LimitState(is_open=True, is_escalated=limit.is_far_crossed_by(value)), "opened"


def _look_further(limit: MetricLimit, state: LimitState, value: float) -> tuple[LimitState, Crossing | None]:
    """Check a value that neither opens nor ends an alert for escalation; each alert escalates once at most."""
    if not state.is_open or state.is_escalated or not limit.is_far_crossed_by(value):
        return replace(state, far=0), None
    if state.far + 1 < limit.looks:
        return replace(state, far=state.far + 1), None
    return replace(state, is_escalated=True, far=0), "escalated"
