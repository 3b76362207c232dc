"""How small a difference can be found, and how many items it takes."""

import math
from typing import Final

from rules.statistics.formulas.pairs import binomial, mcnemar_exact, mcnemar_mid_p
from rules.statistics.formulas.quantiles import normal_quantile

ALPHA: Final = 0.05
POWER: Final = 0.8


def _both(alpha: float, power: float) -> float:
    return normal_quantile(1 - alpha / 2) + normal_quantile(power)


def pairs_needed(flips: float, difference: float, alpha: float = ALPHA, power: float = POWER) -> int:
    """Pairs that find a difference when this share of them flips (Miettinen 1968; Connor 1987)."""
    root = normal_quantile(1 - alpha / 2) * math.sqrt(flips)
    root += normal_quantile(power) * math.sqrt(max(0.0, flips - difference**2))
    return math.ceil((root / difference) ** 2 - 1e-9)


def mcnemar_power(count: int, flips: float, difference: float, alpha: float = ALPHA, *, mid_p: bool = True) -> float:
    """The chance that McNemar's test finds it, by adding up all outcomes."""
    test, share = (mcnemar_mid_p if mid_p else mcnemar_exact), (flips + difference) / (2 * flips)
    total = 0.0
    for discordant, likely in enumerate(binomial(count, flips).tolist()):
        if likely > 1e-12:  # noqa: PLR2004 - a million of these would not change the sum
            worse = binomial(discordant, share).tolist()
            total += likely * sum(chance for each, chance in enumerate(worse) if test(each, discordant - each) < alpha)
    return total


def smallest_difference(error: float, alpha: float = ALPHA, power: float = POWER) -> float:
    """The difference that is found with this power when its standard error is this: 2.801585 errors."""
    return _both(alpha, power) * error


def items_needed(spread: float, difference: float, alpha: float = ALPHA, power: float = POWER) -> int:
    """Pairs that find a difference of means, with this standard deviation of the items' differences."""
    return math.ceil((_both(alpha, power) * spread / difference) ** 2 - 1e-9)


def items_needed_with_trials(
    between: float, within: tuple[float, float], trials: tuple[int, int], difference: float, alpha: float = ALPHA
) -> int:
    """Pairs that find a difference of means, where each item has several trials on each side (Miller 2024).

    Of the items' true differences and of trials the variance is known.
    """
    variance = between + within[0] / trials[0] + within[1] / trials[1]
    return items_needed(math.sqrt(variance), difference, alpha)
