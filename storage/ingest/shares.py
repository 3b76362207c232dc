"""Fair sharing of a buffer among senders: each leaves a part of it to the others."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

_PARTS: Final = 4
"""A sender alone may fill the buffer but for one part of this many, which stays for other senders. A guess."""

_LEFT: Final = 8
"""Requests of senders that have no other request may fill the buffer but for this fraction: an eighth. A guess."""


class Shares:
    """Bytes of a buffer by sender. The owner serializes access.

    A sender may hold three times the bytes that are free. So a single sender gets three quarters of the buffer, two get
    three sevenths each, and a sender that holds nothing always finds room. These are dynamic thresholds (Choudhury and
    Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998). A single request may be larger
    than three quarters; it is counted as three quarters, so that the rest stays free for others.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._most = limit - limit // _PARTS
        self._held: Counter[str] = Counter()
        self._larger: set[str] = set()  # senders that hold more than `_most`, with one large request
        self._counted = 0  # sum over senders of the bytes held, of each at most `_most`
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
        """Return True if a sender's only request may take `nbytes` more.

        A request grows while it arrives. Up to `_most` it may grow if an eighth of the buffer stays free, so further
        than `has_room` allows. Beyond `_most` it may grow only if no other sender has a request of that size.
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
