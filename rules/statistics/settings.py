"""Settings of the monitors."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal["release", "drift"]

KINDS: Final[tuple[Kind, ...]] = ("release", "drift")

Measure: TypeAlias = Literal["passed", "score"]

RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "alpha": (1e-9, 0.5),
    "margin": (0.0, 0.99),
    "minimum": (1, 1_000_000),
    "baseline": (64, 10_000_000),
    "every": (100, 10**12),
}
"""The range of each numeric setting."""

BASELINE_PARTS: Final = 8  # a baseline is renewed after 1/8 of its length. A guess
STRIDES: Final = 8  # moments at which drift may begin in that time. A guess


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorSettings:
    """Settings of the monitors of a stream.

    Raises:
        ValueError: a value is out of its range; the message says which.

    """

    alpha: float = 0.05  # the chance of a false alarm for each release
    margin: float = 0.01  # a drop that is not larger than this is not worth an alarm
    # Minimum results of a release, and of a baseline. If all results fail, the drift monitor alarms after 14, and the
    # release monitor should be first.
    minimum: int = 10
    baseline: int = 2_000  # number of latest results that are the baseline
    every: int = 100_000  # average results until a false alarm of the drift monitor, at least
    off: frozenset[Kind] = frozenset()
    lower_is_better: bool = False

    def __post_init__(self) -> None:
        for name, (low, high) in RANGES.items():
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name} must be from {low:g} to {high:,}")

    @property
    def stride(self) -> int:
        """Return the number of results between two moments at which drift may have begun."""
        return -(-self.baseline // (BASELINE_PARTS * STRIDES))

    @property
    def block(self) -> int:
        """Return the number of results between two baselines of the drift monitor."""
        return self.stride * STRIDES

    @property
    def log_release_threshold(self) -> float:
        """Return the log of the evidence that raises an alarm of a release."""
        return -math.log(self.alpha)

    @property
    def log_drift_threshold(self) -> float:
        """Return the log of the evidence that raises an alarm of drift."""
        return math.log(2 * self.every)

    @property
    def log_escalation_threshold(self) -> float:
        """Return the log of the evidence of an escalation; false within a baseline's length with a chance of alpha."""
        return math.log(self.block * BASELINE_PARTS / self.alpha)

    @property
    def log_recovery_threshold(self) -> float:
        """Return the log evidence that ends an episode; false within a baseline's length with a chance of alpha."""
        return math.log(self.block * BASELINE_PARTS / self.alpha)
