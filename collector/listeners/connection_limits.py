"""Limits of connections, the same for every listener."""

from dataclasses import dataclass, replace
from typing import Final

from storage.limit import Limit

_RESERVED_FILES: Final = 256
"""Descriptors for all but connections of clients: database, spool, child processes, requests to judges and webhooks.
A guess: an idle server holds 60 to 90."""

_SHARES: Final = 4
"""Listeners that share the limit: HTTP, OTLP over HTTP, gRPC, and the requests of the Quack process over HTTP."""

_LEAST: Final = 16

MOST_PIPELINED: Final = 16
"""Requests that wait behind one on the same connection. Few clients pipeline; a read of 256 KiB may hold 14,000."""

PART_BYTES: Final = 64
"""Minimum average size of a body's parts if it has very many. A guess."""

UNREAD_BYTES: Final = 64 << 20
"""Bytes of a body that are received after its response. A client that sends its whole body first thus sees the
response, and the connection can serve its next request. A guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits of the connections of one listener."""

    total: int = 1000
    per_address: int = 250
    first_byte_s: float = 10.0  # from the accept, including the TLS handshake
    header_s: float = 20.0  # from the first byte of a request
    header_bytes: int = 64 << 10
    idle_s: float = 75.0  # between requests, and within one that makes no progress

    def header_limit(self) -> Limit:
        """Return the limit of the size of a header."""
        return Limit(
            value=self.header_bytes, unit="bytes", setting="max_header_bytes", remedy="send fewer or shorter headers"
        )

    def idle_limit(self) -> Limit:
        """Return the limit of the time that a request may make no progress."""
        return Limit(value=self.idle_s, unit="s", setting="idle_seconds", remedy="send the body without a pause")

    def within(self, open_files: int) -> "ConnectionLimits":
        """Lower the limits to what the limit of open files allows, and leave a quarter to other addresses."""
        total = min(self.total, max((open_files - _RESERVED_FILES) // _SHARES, _LEAST))
        return replace(self, total=total, per_address=min(self.per_address, total * 3 // 4))

    def with_room(self) -> "ConnectionLimits":
        """Leave a quarter of the limits to connections that open between two checks of a `SocketGuard`."""
        total = self.total * 3 // 4
        return replace(self, total=total, per_address=min(self.per_address, total * 3 // 4))
