"""Cache of comparisons of ended runs."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

MAX_KEPT_BYTES: Final = 128 << 20
"""Room for four comparisons of 10,000 items with 5 trials and 5 evaluators, estimated at 28 MB each. By tracemalloc,
two runs and their comparison take 18 MB; comparing them with other options takes 3 MB more. Four is a guess."""


class LruCache(Generic[T]):
    """LRU cache with a limit in bytes. Thread-safe."""

    def __init__(self, *, most_bytes: int = MAX_KEPT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._values: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._nbytes = 0
        self._changing = threading.Lock()

    def find(self, key: Hashable) -> T | None:
        """Return the value of a key, and mark it as used last."""
        with self._changing:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def first(self, fits: Callable[[T], bool]) -> T | None:
        """Return the latest used value that fits."""
        with self._changing:
            return next((value for value, _ in reversed(self._values.values()) if fits(value)), None)

    def keep(self, key: Hashable, value: T, nbytes: int) -> None:
        """Store a value of `nbytes`, and evict the least recently used; a value above the limit is not stored."""
        with self._changing:
            _, before = self._values.pop(key, (None, 0))
            self._nbytes -= before
            if nbytes > self._most_bytes:
                return
            self._values[key] = value, nbytes
            self._nbytes += nbytes
            while self._nbytes > self._most_bytes:
                _, (_, gone) = self._values.popitem(last=False)
                self._nbytes -= gone
