"""Queue for one or several threads, which take its items in order, a few at a time, until it is closed."""

import threading
from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Inbox(Generic[Item]):
    """Queue of items from any thread, for one or more consumers."""

    def __init__(self) -> None:
        self._waiting: deque[Item] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, items: Sequence[Item]) -> bool:
        """Add items and return True; once the inbox is closed, add none and return False."""
        with self._changed:
            if not self._closed:
                self._waiting.extend(items)
                self._changed.notify_all()
            return not self._closed

    def take(self, most: int, *, beyond: int = 0) -> list[Item]:
        """Wait for items and return the oldest, at most `most`; return [] once closed.

        With `beyond`, wait until more than that many items wait, so that a second consumer helps only if it is needed.
        """
        with self._changed:
            self._changed.wait_for(lambda: len(self._waiting) > beyond or self._closed)
            if self._closed:
                return []
            return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]

    def close(self) -> list[Item]:
        """Close the inbox, end a wait, and return the remaining items."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            left = list(self._waiting)
            self._waiting.clear()
            return left
