"""Settings of the comparison of two runs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from rules.statistics.formulas.resampling import Draws

Unscored: TypeAlias = Literal["check", "worst", "exclude", "refuse"]
"""Policy for trials without a score. `check`: they are left out and counted, and if taking those of the candidate as
fails would change the verdict, it is inconclusive. `worst`: they are fails, on both sides. `exclude`: they are left out
and counted. `refuse`: a candidate that has any does not pass."""

KINDS: Final = ("failed", "skipped", "missing")
POLICIES: Final = ("check", "worst", "exclude", "refuse")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Settings of a comparison.

    Raises:
        ValueError: a value is out of its range; the message says which.

    """

    alpha: float = 0.05  # of all evaluators together; intervals have the confidence 1 - alpha
    margin: float = 0.05  # a loss that is smaller is tolerated
    margins: Mapping[str, float] = field(default_factory=dict)  # by evaluator
    epsilon: float = 0.001  # a smaller difference is rounding
    power: float = 0.8  # for the smallest detectable difference and the items needed
    unscored: Mapping[str, Unscored] = field(default_factory=dict)  # by kind; `check` by default
    floor: int | None = None  # the trials that each item must pass, at least
    severity: float | None = None  # no item may lose more by any evaluator
    cost_margin: float | None = None  # a ratio: 0.1 is 10 % more; None: cost is reported and decides nothing
    latency_margin: float | None = None
    slices: tuple[str, ...] = ()  # keys of metadata
    evaluators: tuple[str, ...] | None = None  # only these
    thresholds: Mapping[str, float] = field(default_factory=dict)  # by evaluator: scores pass by these instead
    draws: Draws = field(default_factory=Draws)

    def __post_init__(self) -> None:
        for name in ("alpha", "power"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} must be between 0 and 1")
        for name in ("margin", "epsilon", "severity", "cost_margin", "latency_margin", "floor"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ValueError(f"{name} must be 0 or more")
        for name, threshold in self.thresholds.items():
            if not math.isfinite(threshold):
                raise ValueError(f"the threshold of {name} must be a finite number")
        for kind, policy in self.unscored.items():
            if kind not in KINDS or policy not in POLICIES:
                raise ValueError(f"unscored: {kind} cannot be {policy}")

    def margin_of(self, evaluator: str) -> float:
        """Return the tolerated loss of this evaluator."""
        return self.margins.get(evaluator, self.margin)

    def policy_of(self, kind: str) -> Unscored:
        """Return the policy for trials of this kind."""
        return self.unscored.get(kind, "check")
