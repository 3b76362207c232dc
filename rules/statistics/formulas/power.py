"""Power: the smallest detectable difference, and the number of items that a difference needs."""

import math
from typing import Final

from rules.statistics.formulas.quantiles import normal_quantile

ALPHA: Final = 0.05
POWER: Final = 0.8


def _both(alpha: float, power: float) -> float:
    return normal_quantile(1 - alpha / 2) + normal_quantile(power)


def smallest_difference(error: float, alpha: float = ALPHA, power: float = POWER) -> float:
    """Return the difference that is detected with this power at this standard error; the default is 2.801585 errors."""
    return _both(alpha, power) * error


def items_needed(spread: float, difference: float, alpha: float = ALPHA, power: float = POWER) -> int:
    """Return the pairs needed to detect a difference of means, at this standard deviation of the differences."""
    return math.ceil((_both(alpha, power) * spread / difference) ** 2 - 1e-9)
