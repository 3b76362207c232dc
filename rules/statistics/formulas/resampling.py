"""Resampling tests by random signs and by random assignment, and intervals of means."""

import hashlib
import itertools
import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rules.statistics.formulas.quantiles import around, t_of, z_of
from rules.statistics.intervals import Interval

Numbers = NDArray[np.float64]

TOLERANCE: Final = 1e-12
"""Sums that differ by less are equal: added in another order, the same numbers differ by their rounding."""

_NUMBERS_AT_A_TIME: Final = 2_000_000  # resampled numbers held at a time: 16 MB
_BITS: Final = 8  # items whose 256 signed sums are looked up together
_TABLES: Final = 4_096  # tables of sums held at a time: 8 MB
_GROUPS: Final = 64  # distinct sizes up to which numbers of signs are drawn, not each sign. A guess


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """Number of random draws and the seed of their random stream."""

    seed: int = 42
    count: int = 10_000

    def stream(self, *names: str) -> np.random.Generator:
        """Return a generator seeded for these names alone, so that another evaluator does not change a p-value."""
        text = "\x1f".join([str(self.seed), *names])
        return np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()))


def signs_p_value(differences: ArrayLike, draws: Draws, name: str = "") -> float:
    """Return the share of sign vectors with a mean at least as far from 0 as the observed one (Fisher 1935), two-sided.

    All sign vectors are tried if they are no more than the draws; else p = (hits + 1) / (draws + 1). Zeros do not
    change p.

    """
    values = np.abs(np.asarray(differences, dtype=np.float64))
    seen = abs(float(np.asarray(differences, dtype=np.float64).sum())) - TOLERANCE * max(1, values.size)
    values = values[values > 0]
    if not values.size:
        return 1.0
    if values.size <= math.log2(draws.count):
        return float((np.abs(_all_signed_sums(values)) >= seen).mean())
    stream = draws.stream(name, "signs")
    sizes, counts = np.unique(values.round(12), return_counts=True)
    if sizes.size <= _GROUPS:
        ups = stream.binomial(counts[:, None], 0.5, (sizes.size, draws.count))
        sums = sizes @ (2 * ups - counts[:, None])
    else:
        sums = _random_signed_sums(values, draws.count, stream)
    return float((np.abs(sums) >= seen).sum() + 1) / (draws.count + 1)


def _all_signed_sums(values: Numbers) -> Numbers:
    """Return the sums of the values with every choice of signs; of a table, those of each row."""
    sums = np.zeros((*values.shape[:-1], 1))
    for at in range(values.shape[-1]):
        value = values[..., at : at + 1]
        sums = np.concatenate([sums - value, sums + value], axis=-1)
    return sums


def _random_signed_sums(values: Numbers, count: int, stream: np.random.Generator) -> Numbers:
    """Draw sums of the values with random signs, eight values at a time."""
    sums, whole = np.zeros(count), values.size // _BITS * _BITS
    groups = values[:whole].reshape(-1, _BITS)
    for part in np.array_split(groups, 1 + len(groups) // _TABLES):
        for table in _all_signed_sums(part):
            sums += table.take(stream.integers(0, table.size, count, dtype=np.uint8))
    rest = _all_signed_sums(values[whole:])
    return sums + rest.take(stream.integers(0, rest.size, count, dtype=np.uint8))


def assignment_p_value(baseline: ArrayLike, candidate: ArrayLike, draws: Draws, name: str = "") -> float:
    """Return the share of assignments to the two sides whose means differ at least as much as observed, two-sided.

    All assignments are tried if they are no more than the draws; else p = (hits + 1) / (draws + 1).

    """
    one, other = np.asarray(candidate, dtype=np.float64), np.asarray(baseline, dtype=np.float64)
    pooled = np.concatenate([one, other])
    seen = abs(float(one.mean() - other.mean())) - TOLERANCE
    if math.comb(pooled.size, one.size) <= draws.count:
        chosen = np.array([pooled[list(each)].sum() for each in itertools.combinations(range(pooled.size), one.size)])
        return float((_means_apart(chosen, pooled, one.size) >= seen).mean())
    stream = draws.stream(name, "assignment")
    batch, hits, left = max(1, _NUMBERS_AT_A_TIME // pooled.size), 0, draws.count
    while left:
        rows = min(batch, left)
        mixed = stream.permuted(np.broadcast_to(pooled, (rows, pooled.size)), axis=1)
        hits += int((_means_apart(mixed[:, : one.size].sum(axis=1), pooled, one.size) >= seen).sum())
        left -= rows
    return (hits + 1) / (draws.count + 1)


def _means_apart(sums: Numbers, pooled: Numbers, size: int) -> Numbers:
    return np.asarray(np.abs(sums / size - (pooled.sum() - sums) / (pooled.size - size)))


def t_interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Return Student's interval of a mean; it is infinite with fewer than two values."""
    items = np.asarray(values, dtype=np.float64)
    if items.size < 2:  # noqa: PLR2004 - a spread takes two
        return Interval(low=-math.inf, high=math.inf)
    error = float(items.std(ddof=1)) / math.sqrt(items.size)
    return around(float(items.mean()), t_of(confidence, items.size - 1) * error)


def cautious_interval(differences: ArrayLike, confidence: float = 0.95) -> Interval:
    """Return an interval of the mean difference with two items added, one that rose by 1 and one that fell by 1.

    For pass and fail it is the interval of Bonett and Price. If hardly any item changed, Student's interval would be a
    point, as if changes that were not observed were impossible.
    """
    padded = np.concatenate([np.asarray(differences, dtype=np.float64), [1.0, -1.0]])
    half = z_of(confidence) * float(padded.std()) / math.sqrt(padded.size)
    plain = around(float(padded.mean()), half)
    return Interval(low=max(-1.0, plain.low), high=min(1.0, plain.high))
