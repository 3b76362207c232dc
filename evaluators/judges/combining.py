"""Several scores as one."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

Strategy: TypeAlias = Literal["MEAN", "WEIGHTED_MEAN", "MIN", "MAX"]
Weighted: TypeAlias = tuple[float, float]
"""A score and its weight."""


def _weighted_mean(scores: Sequence[Weighted]) -> float:
    total = sum(weight for _, weight in scores)
    return sum(score * weight for score, weight in scores) / total if total else _mean(scores)


def _mean(scores: Sequence[Weighted]) -> float:
    return sum(score for score, _ in scores) / len(scores)


STRATEGIES: Final[Mapping[Strategy, Callable[[Sequence[Weighted]], float]]] = {
    "MEAN": _mean,
    "WEIGHTED_MEAN": _weighted_mean,
    "MIN": lambda scores: min(score for score, _ in scores),
    "MAX": lambda scores: max(score for score, _ in scores),
}
