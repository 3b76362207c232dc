"""Search for spans that may be stored already, by key: tenant, trace id and span id.

Two searches complement each other. `RecentKeys` finds a repeated span if it is among the latest millions, whatever its
start time. The query of a time window finds any repeated span with the same start time, however old. It costs little,
because it reads only row groups of the window, and only spans older than those in `RecentKeys`.
"""

from collections.abc import Iterable
from mmap import mmap

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Hashes = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

KEY = ["tenant", "trace_id", "span_id"]
_TRACE_DIGITS, _SPAN_DIGITS = 32, 16
_WORD = 8
_MIXERS = np.random.default_rng().integers(1, 2**63, size=8, dtype=np.uint64) | np.uint64(1)
"""Odd multipliers, new in each process, so that colliding ids cannot be prepared."""

_GAP_NS = 10 * 10**9
_MAX_WINDOWS = 16
"""Guesses: the start times of a batch fall into few clusters, such as one for a sender whose clock is off by years."""


def key_hashes(spans: pa.Table) -> Hashes:
    """Return a 64-bit hash of each span's key. The ids must be of full length, as the decoder guarantees."""
    words = np.hstack([_words(spans.column("trace_id"), _TRACE_DIGITS), _words(spans.column("span_id"), _SPAN_DIGITS)])
    mixed = np.zeros(len(words), dtype=np.uint64)
    for column in range(words.shape[1]):
        mixed = _mix(mixed ^ (words[:, column] * _MIXERS[column]))
    tenants = spans.column("tenant").combine_chunks().dictionary_encode()
    salts = np.array([hash(name) & (2**63 - 1) for name in tenants.dictionary.to_pylist()], dtype=np.uint64)
    return _mix(mixed ^ salts[tenants.indices.to_numpy()])


def _words(ids: pa.ChunkedArray, digits: int) -> npt.NDArray[np.uint64]:
    column = ids.combine_chunks()
    data = np.frombuffer(column.buffers()[2], dtype=np.uint8)
    start = column.offset * digits
    return data[start : start + len(column) * digits].reshape(len(column), digits).copy().view(np.uint64)


def _mix(values: Hashes) -> Hashes:
    # The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every input bit moves every output bit.
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Hashes = values ^ (values >> np.uint64(31))
    return mixed


def repeated(spans: pa.Table, hashes: Hashes) -> Mask:
    """Return a mask of the spans that repeat the key of an earlier one of the same batch."""
    later = np.ones(len(hashes), dtype=np.bool_)
    later[np.unique(hashes, return_index=True)[1]] = False
    if not later.any():
        return later
    suspects = np.flatnonzero(np.isin(hashes, hashes[later]))
    seen: set[tuple[str, ...]] = set()
    later[:] = False
    for row, key in zip(suspects, _keys(spans, suspects), strict=True):
        later[row] = key in seen
        seen.add(key)
    return later


def matching(spans: pa.Table, keys: Iterable[tuple[str, ...]]) -> Mask:
    """Return a mask of the spans that have one of the `keys`."""
    key_set = set(keys)
    mask = np.zeros(spans.num_rows, dtype=np.bool_)
    traces = pa.array({trace_id for _, trace_id, _ in key_set}, pa.string())
    suspects = np.flatnonzero(pc.is_in(spans.column("trace_id"), value_set=traces).to_numpy())
    mask[suspects] = [key in key_set for key in _keys(spans, suspects)]
    return mask


def _keys(spans: pa.Table, rows: npt.NDArray[np.int64]) -> list[tuple[str, ...]]:
    columns = [column.to_pylist() for column in spans.select(KEY).take(pa.array(rows)).columns]
    return list(zip(*columns, strict=True))


def windows(start_times: pa.ChunkedArray) -> list[tuple[int, int]]:
    """Return ranges of time (first and last ns) that cover the start times, split at long gaps to exclude outliers."""
    times = np.sort(start_times.cast(pa.int64()).to_numpy())
    gaps = np.diff(times)
    cuts = np.flatnonzero(gaps > _GAP_NS)
    if len(cuts) > _MAX_WINDOWS - 1:
        cuts = np.sort(cuts[np.argsort(gaps[cuts])[-(_MAX_WINDOWS - 1) :]])
    firsts, lasts = np.concatenate([[0], cuts + 1]), np.concatenate([cuts, [len(times) - 1]])
    return [(int(times[first]), int(times[last])) for first, last in zip(firsts, lasts, strict=True)]


class RecentKeys:
    """Bloom filter over the latest keys, in two generations: when one is full, the older one is dropped.

    Until the first generation is full there is only one, which takes half the memory and half the work. After that the
    filter holds between `capacity` and twice as many keys, in 8 bytes each. It has 8 probes and 32 bits a key, which
    gives 6 to 12 false positives in a million; each costs a look-up.
    """

    _PROBES = 8
    _BITS_PER_KEY = 32

    def __init__(self, *, capacity: int = 1 << 22) -> None:
        self._capacity = capacity
        self._bits = np.uint64(capacity * self._BITS_PER_KEY - 1)  # a power of two, less one: a mask
        self._generations = [self._empty()]  # the young one, and the old one once there is one
        self._young_count = 0
        self._young_since = self._old_since = 0
        self._last = -1  # the commit whose keys were added last

    @property
    def is_empty(self) -> bool:
        """Return whether no key was added."""
        return self._young_count == 0 and len(self._generations) == 1

    @property
    def since(self) -> int:
        """Return the number of the commit from which on the filter has all keys."""
        return self._old_since

    def start(self, since: int) -> None:
        """Set the first commit of the keys added so far; there MUST be at most `capacity` keys."""
        self._young_since = self._old_since = since

    @property
    def capacity(self) -> int:
        """Return how many of the latest keys the filter has at least."""
        return self._capacity

    def add(self, hashes: Hashes, commit: int = 0) -> None:
        """Add the keys of a commit; numbers of commits must not decrease. Without commits, leave `commit` 0."""
        for start in range(0, len(hashes), self._capacity):
            part = hashes[start : start + self._capacity]
            if self._young_count + len(part) > self._capacity:
                self._generations, self._young_count = [self._empty(), self._generations[0]], 0
                self._old_since = self._young_since
                self._young_since = commit + 1 if start or commit == self._last else commit  # the first whole one
            self._last = commit
            for probe in self._probes(part):
                self._set(probe)
            self._young_count += len(part)

    def suspects(self, hashes: Hashes) -> Mask:
        """Return a mask of the keys that may be in the filter: all added ones, and a few false positives."""
        known = [np.ones(len(hashes), dtype=np.bool_) for _ in self._generations]
        for probe in self._probes(hashes):
            byte, bit = probe >> np.uint64(3), _bit(probe)
            for bits, mask in zip(self._generations, known, strict=True):
                np.logical_and(mask, bits[byte] & bit, out=mask)
        either: Mask = np.logical_or.reduce(known)
        return either

    def _probes(self, hashes: Hashes) -> Iterable[Hashes]:
        step = _mix(hashes) | np.uint64(1)  # double hashing (Kirsch, Mitzenmacher 2006)
        for number in range(self._PROBES):
            yield (hashes + np.uint64(number) * step) & self._bits

    def _set(self, probe: Hashes) -> None:
        """Set bits, repeatedly, because fancy assignment keeps only one of two bits that are set in the same byte."""
        young, byte, bit = self._generations[0], probe >> np.uint64(3), _bit(probe)
        while len(byte):
            young[byte] |= bit
            missing = (young[byte] & bit) == 0
            byte, bit = byte[missing], bit[missing]

    def _empty(self) -> npt.NDArray[np.uint8]:
        # Anonymous pages are zero, and take no memory until they are written. `numpy.zeros` may reuse freed memory
        # instead, and then clears it, which takes 10 ms.
        return np.frombuffer(mmap(-1, self._capacity * self._BITS_PER_KEY // 8), dtype=np.uint8)


def _bit(probe: Hashes) -> npt.NDArray[np.uint8]:
    return np.left_shift(np.uint8(1), (probe & np.uint64(7)).astype(np.uint8))
