"""Rate limits of API keys: token buckets for requests and for bytes, each of which holds `_BURST_S` of its rate."""

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from collector.access.errors import TooMany
from storage.limit import Limit

_BURST_S: Final = 10.0
"""Seconds of the rate that may be saved up. A guess: exporters send every five."""

_REMEMBERED: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Rates of each key, per second; None: unlimited."""

    requests: float | None = None
    nbytes: float | None = None


class KeyRateLimits:
    """The buckets of all keys. Used on the event loop only."""

    def __init__(self, rates: Rates) -> None:
        requests, nbytes = rates.requests or math.inf, rates.nbytes or math.inf
        self._requests = _Buckets(
            Limit(value=requests, unit="requests/s", setting="key_requests_per_second", remedy="send larger batches")
        )
        self._bytes = _Buckets(
            Limit(value=nbytes, unit="bytes/s", setting="key_bytes_per_second", remedy="send less, or sample")
        )

    def admit(self, key_id: str, now_s: float) -> None:
        """Count a request.

        Raises:
            TooMany: the key sends too much; nothing was counted.
        """
        for bucket, needed in ((self._requests, 1), (self._bytes, 0)):
            wait_s = bucket.wait_s(key_id, needed, now_s)
            if wait_s:
                raise TooMany(f"this key sends more than {bucket.limit}", retry_after_s=math.ceil(wait_s))
        self._requests.take(key_id, 1, now_s)

    def sent(self, key_id: str, nbytes: int, now_s: float) -> None:
        """Count the bytes of a received request. If the key sent too many, `admit` refuses its next requests."""
        self._bytes.take(key_id, nbytes, now_s)


class _Buckets:
    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        self._rate = limit.value
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, key_id: str, amount: float, now_s: float) -> float:
        if self._rate == math.inf:
            return 0
        missing = amount - self._now_left(key_id, now_s)
        return max(missing / self._rate, 0)

    def take(self, key_id: str, amount: float, now_s: float) -> None:
        if self._rate == math.inf:
            return
        self._left[key_id] = (self._now_left(key_id, now_s) - amount, now_s)
        self._left.move_to_end(key_id)
        if len(self._left) > _REMEMBERED:
            self._left.popitem(last=False)

    def _now_left(self, key_id: str, now_s: float) -> float:
        full = max(self._rate * _BURST_S, 1)
        left, since_s = self._left.get(key_id, (full, now_s))
        return min(left + (now_s - since_s) * self._rate, full)
