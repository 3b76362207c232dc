"""Distribution of a set of scores in whole numbers, as the tests need it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Final

import numpy as np
from numpy.typing import NDArray

ATOMS: Final = 33
"""Scores are kept as weights on this many points from 0 to 1, 1/32 apart.

A score between two points is split between both so that its mean stays. Every test here multiplies wealths that are
linear in the score, whose logarithm is concave, so that splitting can only lower the evidence: no guarantee is lost.
With scores that spread by 0.1 it costs less than 3 % of the evidence, for pass and fail nothing.
"""

UNIT: Final = 2048
"""The weight of one result. Scores are rounded to 1/65536, so that sums are exact and no order of adding matters."""

POINTS: Final = np.linspace(0.0, 1.0, ATOMS)


def split(score: float) -> tuple[int, int]:
    """Return the point at or below a score from 0 to 1, and the part of `UNIT` for the point above it."""
    return divmod(round(score * (ATOMS - 1) * UNIT), UNIT)


class WeightTally:
    """A running sum of weights."""

    __slots__ = ("count", "weights")

    def __init__(self, sample: "Sample | None" = None) -> None:
        self.weights = [0] * ATOMS if sample is None else sample.dense()
        self.count = 0 if sample is None else sample.count

    def add(self, point: int, above: int) -> None:
        """Add one result, as `split` gives it."""
        self.count += 1
        self.weights[point] += UNIT - above
        if above:
            self.weights[point + 1] += above

    def sample(self) -> "Sample":
        """Return a sample of the results so far."""
        return Sample.of_weights(self.weights)


@dataclass(frozen=True)  # no slots: the count is worked out once
class Sample:
    """Scores from 0 to 1, without their order. A pass is 1 and a failure 0."""

    weights: tuple[tuple[int, int], ...] = ()  # point and weight, of points that have any

    @classmethod
    def of_weights(cls, weights: Iterable[int]) -> "Sample":
        """Return the sample with these weights, one for each point."""
        return cls(tuple((point, int(weight)) for point, weight in enumerate(weights) if weight))

    @classmethod
    def of_scores(cls, scores: Iterable[float]) -> "Sample":
        """Return the sample of these scores."""
        tally = WeightTally()
        for score in scores:
            tally.add(*split(score))
        return tally.sample()

    @classmethod
    def of_passes(cls, passes: int, results: int) -> "Sample":
        """Return the sample in which `passes` of `results` passed and the others did not."""
        weights = [0] * ATOMS
        weights[0], weights[-1] = (results - passes) * UNIT, passes * UNIT
        return cls.of_weights(weights)

    @cached_property
    def count(self) -> int:
        """Return the number of results."""
        return sum(weight for _, weight in self.weights) // UNIT

    @property
    def mean(self) -> float:
        """Return the mean score, which is the pass rate for pass and fail; 0 without results."""
        return sum(point * weight for point, weight in self.weights) / (max(self.count, 1) * UNIT * (ATOMS - 1))

    @property
    def mirrored(self) -> "Sample":
        """Return the sample of 1 - score."""
        return Sample(tuple((ATOMS - 1 - point, weight) for point, weight in reversed(self.weights)))

    def dense(self) -> list[int]:
        """Return the weight of each point."""
        weights = [0] * ATOMS
        for point, weight in self.weights:
            weights[point] = weight
        return weights

    def __add__(self, other: "Sample") -> "Sample":
        return Sample.of_weights(map(sum, zip_longest(self.dense(), other.dense())))

    def __sub__(self, earlier: "Sample") -> "Sample":
        """Return the results that were added since an earlier state of this sample."""
        return Sample.of_weights(now - then for now, then in zip(self.dense(), earlier.dense(), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRange:
    """The results of a sample: those numbered `after` + 1 to `until`, of some releases."""

    after: int
    until: int
    releases: tuple[str, ...] | None = None  # None: results of any release, or without one


def in_results(samples: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """Convert weights to numbers of results."""
    return np.asarray(samples, dtype=np.float64) / UNIT


NOTHING: Final = Sample()
