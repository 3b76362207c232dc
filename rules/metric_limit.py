"""When a metric that is looked at again and again has crossed a limit, and when it is back."""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

Crossing: TypeAlias = Literal["opened", "recovered"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricLimit:
    """What a metric must not be: above one number, or below one. `looks` in a row have to say so, or the opposite."""

    above: float | None = None
    below: float | None = None
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitState:
    """What has to be remembered between two looks."""

    is_open: bool = False
    against: int = 0  # looks in a row that say the opposite of `is_open`


def look_at(limit: MetricLimit, state: LimitState, value: float) -> tuple[LimitState, Crossing | None]:
    """Take one value. Returns what to remember, and what there is to say."""
    if limit.is_crossed_by(value) is state.is_open:
        return replace(state, against=0), None
    if state.against + 1 < limit.looks:
        return replace(state, against=state.against + 1), None
    return LimitState(is_open=not state.is_open), "recovered" if state.is_open else "opened"
