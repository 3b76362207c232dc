"""Connections and requests that listeners cut: counted by listener and reason, each logged once a minute at most."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from collector.listeners.connection_limits import MOST_PIPELINED, PART_BYTES, UNREAD_BYTES, ConnectionLimits
from collector.listeners.refused_addresses import MOST
from storage.limit import Limit

log = logging.getLogger(__name__)

LISTENERS: Final = ("grpc", "otlp_http", "http", "quack")
_EVERY_S: Final = 60.0


class Reason(StrEnum):
    """Reason for which a listener closes or refuses a connection; also the values of a label of the metric."""

    ADDRESS_LIMIT = "address_limit"
    TOTAL_LIMIT = "total_limit"
    NO_DESCRIPTOR = "no_descriptor"
    FIRST_BYTE_TIMEOUT = "first_byte_timeout"
    HEADER_TIMEOUT = "header_timeout"
    HEADER_TOO_LARGE = "header_too_large"
    BODY_TIMEOUT = "body_timeout"
    SMALL_PARTS = "small_parts"
    UNREAD_BODY = "unread_body"
    UNREAD_ANSWER = "unread_answer"
    PIPELINED = "pipelined"
    MALFORMED = "malformed"
    TLS_FAILED = "tls_failed"
    WASTED_CALLS = "wasted_calls"


LACKS_OF_ROOM: Final = frozenset((Reason.ADDRESS_LIMIT, Reason.TOTAL_LIMIT, Reason.NO_DESCRIPTOR))
"""Reasons that mean a lack of room: clients that did nothing wrong are cut, too."""


def _total_limit(limits: ConnectionLimits) -> Limit:
    remedy = "raise it and the limit of open files, or find the client that has most"
    return Limit(value=limits.total, unit="connections", setting="max_connections", remedy=remedy)


def _address_limit(limits: ConnectionLimits) -> Limit:
    remedy = "find the client, or add a proxy that many clients share to trusted_proxies"
    return Limit(value=limits.per_address, unit="connections", setting="max_connections_per_address", remedy=remedy)


def _first_byte_limit(limits: ConnectionLimits) -> Limit:
    remedy = "let the client connect when it has something to send"
    return Limit(value=limits.first_byte_s, unit="s", setting="first_byte_seconds", remedy=remedy)


def _header_time_limit(limits: ConnectionLimits) -> Limit:
    remedy = "let the client send its header at once"
    return Limit(value=limits.header_s, unit="s", setting="header_seconds", remedy=remedy)


def _unread_limit(limits: ConnectionLimits) -> Limit:
    remedy = "let the client read on, or request less"
    return Limit(value=limits.idle_s, unit="s", setting="idle_seconds", remedy=remedy)


_PIPELINED: Final = Limit(value=MOST_PIPELINED, unit="requests", remedy="let the client wait for answers")
_WASTED: Final = Limit(value=MOST, unit="calls in a second", remedy="let the client wait for answers")
_UNREAD: Final = Limit(value=UNREAD_BYTES, unit="bytes", remedy="let the client stop sending once it has an answer")
_PARTS: Final = Limit(value=PART_BYTES, unit="bytes on average", remedy="let the client send larger parts")

_TEXTS: Final[Mapping[Reason, Callable[[ConnectionLimits], str]]] = {
    Reason.ADDRESS_LIMIT: lambda limits: f"one address has more than {_address_limit(limits)}",
    Reason.TOTAL_LIMIT: lambda limits: f"clients have more than {_total_limit(limits)}",
    Reason.NO_DESCRIPTOR: lambda _: (
        "no file descriptor is left for a connection; raise the limit of open files (LimitNOFILE, ulimit -n)"
    ),
    Reason.FIRST_BYTE_TIMEOUT: lambda limits: f"no request came within {_first_byte_limit(limits)}",
    Reason.HEADER_TIMEOUT: lambda limits: f"the header took longer than {_header_time_limit(limits)}",
    Reason.HEADER_TOO_LARGE: lambda limits: f"the header is larger than {limits.header_limit()}",
    Reason.BODY_TIMEOUT: lambda limits: f"less than 16 KiB of the body came within {limits.idle_limit()}",
    Reason.SMALL_PARTS: lambda _: f"the body came in very many parts that are smaller than {_PARTS}",
    Reason.UNREAD_BODY: lambda _: f"after its answer, the body went on for more than {_UNREAD}",
    Reason.UNREAD_ANSWER: lambda limits: f"the client did not read its answer within {_unread_limit(limits)}",
    Reason.PIPELINED: lambda _: f"more requests waited on one connection than {_PIPELINED}",
    Reason.MALFORMED: lambda _: "the bytes received are not HTTP",
    Reason.WASTED_CALLS: lambda _: (
        "the address has too many calls at a time, sent large metadata, or cancelled more than"
        f" {_WASTED}; it is refused for 10 s, longer if it goes on"
    ),
    Reason.TLS_FAILED: lambda _: "the TLS handshake failed; the client may not trust the certificate, or speak no TLS",
}

ReportClosed: TypeAlias = Callable[[Reason, str, int], None]
"""Reports connections that one listener cut: the reason, the address of the client ("" if unknown), how many."""


@dataclass(slots=True)
class _Logged:
    at_s: float = -_EVERY_S
    since: int = 0


class ClosedConnections:
    """Counts since the start, by listener and reason. Safe from any thread."""

    def __init__(self) -> None:
        # With zeros, so that the first closed connection is an increase, which alerts check for.
        self._counts = Counter({(listener, reason): 0 for listener in LISTENERS for reason in Reason})
        self._logged: dict[tuple[str, Reason], _Logged] = {}
        self._limits: dict[str, ConnectionLimits] = {}
        self._lock = threading.Lock()

    def of(self, listener: str, limits: ConnectionLimits) -> ReportClosed:
        """Return the function with which a listener with these limits reports what it cuts."""
        self._limits[listener] = limits
        return lambda reason, address, count: self._add(listener, reason, address, count)

    @property
    def counts(self) -> Mapping[tuple[str, Reason], int]:
        """Return the counts by listener and reason."""
        with self._lock:
            return dict(self._counts)

    def why(self, listener: str, reason: Reason) -> str:
        """Return the reason in words, with the limit of the listener and the remedy."""
        return _TEXTS[reason](self._limits.get(listener, ConnectionLimits()))

    def _add(self, listener: str, reason: Reason, address: str, count: int) -> None:
        now_s = time.monotonic()
        with self._lock:
            self._counts[listener, reason] += count
            logged = self._logged.setdefault((listener, reason), _Logged())
            logged.since += count
            if now_s - logged.at_s < _EVERY_S:
                return
            logged.at_s, since, logged.since = now_s, logged.since, 0
        level = logging.WARNING if reason in LACKS_OF_ROOM else logging.INFO
        cut = f"{since} connection{'s' if since > 1 else ''}"
        latest = f", the latest from {address}" if address else ""
        log.log(level, "the listener %s cut %s%s: %s: %s", listener, cut, latest, reason, self.why(listener, reason))
