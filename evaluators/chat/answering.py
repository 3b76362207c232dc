"""What a request to an endpoint may take and how it ends, whoever sends it."""

import json
import re
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
        error = self._error()
        if error is None:
            return self.body.decode("utf-8", "replace") or "no explanation"
        message = error.get("message", error) if isinstance(error, dict) else error
        return message if isinstance(message, str) else json.dumps(message)

    @property
    def is_filtered(self) -> bool:
        """True if a content filter stopped the request, for which some endpoints return status 400."""
        return not _FILTERED.isdisjoint(_codes_of(self._error()))

    @property
    def unsupported(self) -> str | None:
        """The parameter that the model does not take, of those that a request can name otherwise or do without."""
        error = self._error()
        text = self.explanation()
        if self.status not in PARAMETER_REFUSED or not _UNSUPPORTED.search(" ".join((*_codes_of(error), text))):
            return None
        named = error.get("param") if isinstance(error, dict) else None
        words = [named] if isinstance(named, str) and named else re.findall(r"\w+", text)
        return next((word for word in words if word in ("max_tokens", "temperature")), None)

    @property
    def names_other_than_schema(self) -> bool:
        """True if the endpoint names the part of the request that it refuses, and that is surely not the schema."""
        error = self._error()
        named = error.get("param") if isinstance(error, dict) else None
        return isinstance(named, str) and bool(_OTHER_PART.match(named))

    def _error(self) -> object:
        try:
            document = json.loads(self.body)
        except (ValueError, RecursionError):
            return None
        return document.get("error", document) if isinstance(document, dict) else document


PARAMETER_REFUSED: Final = frozenset({400, 404, 415, 422, 501})
"""What endpoints answer to a parameter that they do not know."""

_UNSUPPORTED = re.compile(
    r"unsupported|n[o']t support|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed|deprecated|extra ",
    re.IGNORECASE,
)
_OTHER_PART = re.compile(r"(messages|model|input|instructions|system|store|temperature|reasoning\w*|max_\w*tokens)\b")
_FILTERED: Final = {"content_filter", "content_policy_violation", "responsibleaipolicyviolation"}
_STATUS_OF_CODE: Final = {
    **dict.fromkeys(("rate_limit_exceeded", "rate_limit_error", "too_many_requests", "resource_exhausted"), 429),
    **dict.fromkeys(("insufficient_quota", "throttling_exception"), 429),
    **dict.fromkeys(("invalid_request_error", "invalid_argument", *_FILTERED), 400),
    **dict.fromkeys(("authentication_error", "invalid_api_key", "unauthenticated"), 401),
    **dict.fromkeys(("permission_error", "permission_denied"), 403),
    **dict.fromkeys(("not_found_error", "not_found", "model_not_found"), 404),
    **dict.fromkeys(("timeout", "deadline_exceeded"), 504),
}
_UNKNOWN_ERROR: Final = 502
_STATUSES: Final = range(400, 600)


def _codes_of(error: object) -> list[str]:
    """List the names of an error, in lower case."""
    if not isinstance(error, dict):
        return []
    inner = error.get("innererror")
    codes = [error.get(key) for key in ("code", "type", "status")]
    return [str(code).lower() for code in (*codes, inner.get("code") if isinstance(inner, dict) else None) if code]


def error_in(document: object, body: bytes) -> ErrorStatus | None:
    """Return the error in a response with status 200, or None.

    Gateways send the status before the model has replied.
    """
    if isinstance(document, list) and len(document) == 1:
        document = document[0]
    error = document.get("error") if isinstance(document, dict) else None
    if not error:
        return None
    codes = _codes_of(error)
    numbers = [int(code) for code in codes if code.isascii() and code.isdecimal() and int(code) in _STATUSES]
    named = [_STATUS_OF_CODE[code] for code in codes if code in _STATUS_OF_CODE]
    return ErrorStatus((*numbers, *named, _UNKNOWN_ERROR)[0], {}, body[:ERROR_BYTES])


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
