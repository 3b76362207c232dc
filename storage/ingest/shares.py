"""Room that senders share. Each leaves a part of it to the others."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

_PARTS: Final = 4
"""One sender leaves a fourth of the room to the others. A guess."""


class Shares:
    """Bytes that senders hold of a room. Its owner keeps threads apart.

    A sender may hold three times what is free, so alone it gets three quarters of the room, two get three
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
        """Hold bytes for a sender; a negative number releases them."""
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
        held = self._held[sender] + nbytes
        counted = self._counted - min(self._held[sender], self._most) + min(held, self._most)
        return held <= (_PARTS - 1) * (self._limit - counted)

    def has_room_for_large(self, sender: str) -> bool:
        """Return whether a sender may hold one request of any size: no other sender exceeds its share."""
        return self._larger <= {sender}

    @property
    def is_full(self) -> bool:
        """True if no sender may hold more."""
        return self._counted > self._limit


def parts_of(nbytes: int, weights: Mapping[str, int]) -> Mapping[str, int]:
    """Divide the bytes of a batch among those who sent it, by what each sent."""
    whole = sum(weights.values())
    parts = {sender: nbytes * weight // whole for sender, weight in weights.items()}
    first = next(iter(parts))
    parts[first] += nbytes - sum(parts.values())
    return parts
