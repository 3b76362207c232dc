"""Failed attempts at guessing a key, limited by the address that they come from."""

import ipaddress
import math
from collections import OrderedDict
from typing import Final

from storage.limit import Limit

ALLOWED: Final = 10
"""Different wrong keys that an address may try in a row; a repeated wrong key is counted once. A guess: more than a
deployment with a mistyped key needs."""

REGAINED_S: Final = 6.0
"""Seconds until one more key may be tried. Ten attempts a minute are too few to guess a key of 16 random characters."""

LIMIT: Final = Limit(
    value=ALLOWED,
    unit=f"at once and one more each {REGAINED_S:g} s",
    remedy="correct the key of the client that sends it, or wait",
)

_REMEMBERED: Final = 10_000
_V6_SITE_BITS: Final = 64


class Attempts:
    """Limiter of wrong keys by client address: an address with too many of them may not try further keys for a while.

    A key that this address already used, valid or wrong, is never delayed: it is not a new guess. Only the latest
    `_REMEMBERED` addresses, valid keys and wrong keys are remembered. Not thread-safe.
    """

    def __init__(self) -> None:
        self._failed: OrderedDict[str, tuple[float, float]] = OrderedDict()  # attempts left, and the time of that count
        self._good: OrderedDict[tuple[str, bytes], None] = OrderedDict()
        self._wrong: OrderedDict[tuple[str, bytes], None] = OrderedDict()

    def wait_s(self, address: str, digest: bytes, now_s: float) -> int:
        """Return the seconds until this key may be tried from this address; 0 for at once."""
        place = _place(address)
        for known in (self._good, self._wrong):
            if (place, digest) in known:
                known.move_to_end((place, digest))
                return 0
        if place not in self._failed:
            return 0
        left = self._left(place, now_s)
        return 0 if left >= 1 else max(math.ceil((1 - left) * REGAINED_S), 1)

    def failed(self, address: str, digest: bytes, now_s: float) -> None:
        """Note a wrong key."""
        place = _place(address)
        if (place, digest) in self._wrong:
            return
        self._wrong[place, digest] = None
        _trim(self._wrong)
        self._failed[place] = (self._left(place, now_s) - 1, now_s)
        self._failed.move_to_end(place)
        _trim(self._failed)

    def succeeded(self, address: str, digest: bytes) -> None:
        """Note a valid key: requests with this key from this address pass, even while the address sends wrong keys."""
        self._good[_place(address), digest] = None
        _trim(self._good)

    def _left(self, place: str, now_s: float) -> float:
        left, since_s = self._failed.get(place, (float(ALLOWED), now_s))
        return min(left + (now_s - since_s) / REGAINED_S, ALLOWED)


def _place(address: str) -> str:
    """Return the name under which an address is counted: for IPv6 its /64 network, all of which one machine can use."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((int(parsed) >> _V6_SITE_BITS << _V6_SITE_BITS, _V6_SITE_BITS)))
    return address


def _trim(remembered: "OrderedDict[str, tuple[float, float]] | OrderedDict[tuple[str, bytes], None]") -> None:
    if len(remembered) > _REMEMBERED:
        remembered.popitem(last=False)
