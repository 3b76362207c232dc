"""Addresses that are refused for a while, because their clients make costly calls and cancel them immediately."""

import threading
import time
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

MOST: Final = 100
"""Maximum number of wasted calls of an address in a second; more get it refused. A guess: a client that stops cancels
its one or two calls."""

_WINDOW_S: Final = 1.0  # in which wasted calls are counted
_FIRST_S: Final = 10.0
_LONGEST_S: Final = 600.0
"""Length of the first refusal of an address and of the longest one. A refusal soon after another one is twice as long,
up to the longest. Until a refusal takes effect, other clients wait up to a second, because gRPC's core has already
accepted calls of this address, which are not cancelled yet."""

_REMEMBERED: Final = 10_000
_REFUSED: Final = 100
"""Maximum number of addresses refused at the same time, the latest ones; each takes lines of the kernel's filter."""


@dataclass(slots=True)
class _Waste:
    since_s: float
    calls: int = 0
    refused_until_s: float = 0.0
    refused_for_s: float = 0.0


class RefusedAddresses:
    """Counter of wasted calls by address. Written on the event loop, read from one other thread."""

    def __init__(self) -> None:
        self._wastes: OrderedDict[str, _Waste] = OrderedDict()
        self._refused: dict[str, float] = {}  # end of the refusal by address; the dict is replaced, never changed
        self.changed = threading.Event()
        """Set when an address is newly refused."""

    def waste(self, address: str) -> None:
        """Count a wasted call."""
        now_s = time.monotonic()
        waste = self._wastes.setdefault(address, _Waste(now_s))
        self._wastes.move_to_end(address)
        if len(self._wastes) > _REMEMBERED:
            self._wastes.popitem(last=False)
        if now_s - waste.since_s > _WINDOW_S:
            waste.since_s, waste.calls = now_s, 0
        waste.calls += 1
        if waste.calls > MOST and waste.refused_until_s < now_s:
            is_again = now_s - waste.refused_until_s < _LONGEST_S
            longer_s = min(max(2 * waste.refused_for_s, _FIRST_S), _LONGEST_S)
            waste.refused_for_s = longer_s if is_again else _FIRST_S
            waste.refused_until_s = now_s + waste.refused_for_s
            latest = [*((each, until_s) for each, until_s in self._refused.items() if until_s > now_s)][1 - _REFUSED :]
            self._refused = dict([*latest, (address, waste.refused_until_s)])
            self.changed.set()

    def is_refused(self, address: str) -> bool:
        """Return whether an address is refused now."""
        return self._refused.get(address, 0.0) > time.monotonic()

    def now(self) -> Collection[str]:
        """Return the addresses that are refused now."""
        now_s = time.monotonic()
        return [address for address, until_s in self._refused.items() if until_s > now_s]
