"""Fair sharing of a buffer among senders: each leaves a part of it to the others."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

_PARTS: Final = 4
"""The divisor of the room that one sender leaves to the others. A guess."""

_LEFT: Final = 8
"""First requests of all senders leave an eighth of the room to smaller ones. A guess."""


class Shares:
    """Bytes of a buffer by sender. The owner serializes access.

    A sender may hold three times the free bytes, so alone it gets three quarters of the room, two get three
    sevenths each, and there is always room for one that holds nothing: the dynamic thresholds of Choudhury and Hahne,
    "Dynamic queue length thresholds for shared-memory packet switches", 1998. A sender with one request larger than its
    share counts as if that had the size of the share, because it must not take the rest from the others.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._most = limit - limit // _PARTS
        self._held: Counter[str] = Counter()
        self._larger: set[str] = set()  # senders that hold more than one may
        self._counted = 0  # of each sender at most what one may hold
        self.total = 0

    def of(self, sender: str) -> int:
        """Return the bytes that a sender holds."""
        return self._held[sender]

    def take(self, sender: str, nbytes: int) -> None:
        """Reserve bytes for a sender; a negative number releases them."""
        held = self._held[sender]
        self._counted += min(held + nbytes, self._most) - min(held, self._most)
        self.total += nbytes
        held += nbytes
        (self._larger.add if held > self._most else self._larger.discard)(sender)
        if held:
            self._held[sender] = held
        else:
            del self._held[sender]

    def has_room(self, sender: str, nbytes: int = 0) -> bool:
        """Return whether a sender may hold `nbytes` more."""
        return self._held[sender] + nbytes <= (_PARTS - 1) * (self._limit - self._counted_with(sender, nbytes))

    def has_room_for_only(self, sender: str, nbytes: int) -> bool:
        """Return True if a sender's only request may hold `nbytes` more: it leaves room, or is the only large one.

        A request grows while it arrives. Up to the share it may take more than others with several requests may; beyond
        it counts as if it had that size, and no other sender may have one.
        """
        is_one_large = self._held[sender] + nbytes > self._most and self._larger <= {sender}
        return is_one_large or self._counted_with(sender, nbytes) <= self._limit - self._limit // _LEFT

    def _counted_with(self, sender: str, nbytes: int) -> int:
        held = self._held[sender]
        return self._counted - min(held, self._most) + min(held + nbytes, self._most)

    @property
    def is_full(self) -> bool:
        """Return True if no sender may hold more."""
        return self._counted > self._limit


def parts_of(nbytes: int, weights: Mapping[str, int]) -> Mapping[str, int]:
    """Divide the bytes of a batch among its senders, in proportion to their requests."""
    whole = sum(weights.values())
    parts = {sender: nbytes * weight // whole for sender, weight in weights.items()}
    first = next(iter(parts))
    parts[first] += nbytes - sum(parts.values())
    return parts
