"""Connections and requests that listeners cut or refused: counted, and logged once a minute at most by reason."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

log = logging.getLogger(__name__)

LISTENERS: Final = ("grpc", "otlp_http", "http", "quack")
_EVERY_S: Final = 60.0


class Reason(StrEnum):
    """Reasons why a listener cuts or refuses; also the values of a label of the metric."""

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


LIMITS: Final[Mapping[Reason, str]] = {
    Reason.ADDRESS_LIMIT: "one address has more connections than max_connections_per_address; find the client,"
    " or add a proxy that many clients share to trusted_proxies",
    Reason.TOTAL_LIMIT: "clients have more connections than max_connections; raise it, or find who has most",
    Reason.NO_DESCRIPTOR: "no file descriptor is left for a connection; raise the limit of open files (LimitNOFILE,"
    " ulimit -n)",
}
"""Reasons that mean a lack of room: clients that did nothing wrong are cut, too."""

_FAULTS: Final[Mapping[Reason, str]] = {
    Reason.FIRST_BYTE_TIMEOUT: "no request within first_byte_seconds",
    Reason.HEADER_TIMEOUT: "the header took longer than header_seconds",
    Reason.HEADER_TOO_LARGE: "the header is larger than max_header_bytes",
    Reason.BODY_TIMEOUT: "less than 16 KiB of the body came in idle_seconds",
    Reason.SMALL_PARTS: "the body came in very many very small parts",
    Reason.UNREAD_BODY: "the body went on for long after its answer",
    Reason.UNREAD_ANSWER: "the client did not read its answer within idle_seconds",
    Reason.PIPELINED: "more than 16 requests waited on one connection",
    Reason.MALFORMED: "what came is not HTTP",
    Reason.WASTED_CALLS: "the address left more than 100 calls in a second, had too many at a time, or sent them with"
    " large metadata; it is refused for 10 s, longer if it goes on",
    Reason.TLS_FAILED: "the TLS handshake failed; the client may not trust the certificate, or speak no TLS",
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
        # With zeros, so that the first of them is an increase, which alerts look for.
        self._counts = Counter({(listener, reason): 0 for listener in LISTENERS for reason in Reason})
        self._logged: dict[tuple[str, Reason], _Logged] = {}
        self._lock = threading.Lock()

    def of(self, listener: str) -> ReportClosed:
        """Return how a listener reports."""
        return lambda reason, address, count: self._add(listener, reason, address, count)

    @property
    def counts(self) -> Mapping[tuple[str, Reason], int]:
        """Counts by listener and reason."""
        with self._lock:
            return dict(self._counts)

    def _add(self, listener: str, reason: Reason, address: str, count: int) -> None:
        now_s = time.monotonic()
        with self._lock:
            self._counts[listener, reason] += count
            logged = self._logged.setdefault((listener, reason), _Logged())
            logged.since += count
            if now_s - logged.at_s < _EVERY_S:
                return
            logged.at_s, since, logged.since = now_s, logged.since, 0
        level = logging.WARNING if reason in LIMITS else logging.INFO
        cut = f"{since} connection{'s' if since > 1 else ''}"
        latest = f", the latest from {address}" if address else ""
        text = LIMITS.get(reason) or _FAULTS[reason]
        log.log(level, "the listener %s cut %s%s: %s: %s", listener, cut, latest, reason, text)
