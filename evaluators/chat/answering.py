"""What a request to an endpoint may take and how it ends, whoever sends it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

ANSWER_BYTES: Final = 1 << 20  # a guess: verdicts about hundreds of claims; the worst text of this size is read in 2 s
ERROR_BYTES: Final = 64 << 10  # a guess: what is told of an error is one line
FIRST_ERROR_STATUS: Final = 300  # a redirect would carry the key and the data to an address that nobody configured
USER_AGENT: Final = "tracejury-judge"  # by which a gateway can tell these calls from those of the application


class ErrorStatus(Exception):
    """The endpoint answered with a status that is no success."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers  # lower-case names
        self.body = body

    def explanation(self) -> str:
        """What the body says, without its JSON."""
        text = self.body.decode("utf-8", "replace")
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            return text or "no explanation"
        error = document.get("error", document) if isinstance(document, dict) else document
        message = error.get("message", error) if isinstance(error, dict) else error
        return message if isinstance(message, str) else json.dumps(message)


class EndpointUnreachable(Exception):
    """There was no connection, or it ended before the answer did; the message says why."""


@dataclass(slots=True)
class Trip:
    """How far a request came: `left` is False where it is certain that nothing of it left this machine."""

    left: bool = True

    async def note(self, event: str, _details: Mapping[str, Any]) -> None:
        """Hear from the HTTP library what it does."""
        if event in _NOT_CONNECTED:
            self.left = False


_NOT_CONNECTED: Final = {"connection.connect_tcp.failed", "connection.start_tls.failed"}


class Courier(Protocol):
    """Sends bodies to one address, and brings what is answered."""

    async def post(self, body: bytes, trip: Trip) -> bytes:
        """The body of the answer. `trip` tells afterwards how far the request came.

        Raises:
            NotAnAnswer: it is too large.
            ErrorStatus: the endpoint answered with an error.
            EndpointUnreachable: the connection failed, maybe half-way.
        """

    async def close(self) -> None:
        """Let go of all connections, once nobody waits for an answer."""
