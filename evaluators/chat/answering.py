"""Limits and outcomes of a request to an endpoint, for every client."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from evaluators.chat.error_body import facts_of
from evaluators.chat.wire import NOT_COUNTED, TokenCounts
from storage.limit import Limit

ANSWER_BYTES: Final = 1 << 20  # a guess: verdicts about hundreds of claims fit; parsing the worst text takes 2 s
ANSWER: Final = Limit(value=ANSWER_BYTES, unit="bytes", remedy="let the model answer less, or lower maxOutputTokens")
ERROR_BYTES: Final = 64 << 10  # a guess: only one line of an error is shown
FIRST_ERROR_STATUS: Final = 300  # redirects are not followed: the key would go to an unconfigured address
USER_AGENT: Final = "tracejury-judge"  # by which a gateway can tell these calls from those of the application


class ErrorStatus(Exception):
    """The endpoint answered with an error, by its status or within a response with status 200."""

    def __init__(
        self,
        status: int,
        headers: Mapping[str, str],
        body: bytes,
        document: object = None,
        *,
        is_in_body: bool = False,
    ) -> None:
        """`document` is the parsed error, by default the body. `is_in_body`: the response had status 200."""
        super().__init__(status)
        self.status = status
        self.headers = headers  # lower-case names
        self.body = body
        self._document = _document_of(body) if document is None else document
        self._is_in_body = is_in_body
        self.facts = facts_of(self._document)

    @property
    def place(self) -> str:
        """Return the status of the error as text; if it came with status 200, which gateways log, name both."""
        if self._is_in_body:
            return f"status 200 with an error in the body, as of {self.status}"
        return f"status {self.status}"

    def explanation(self) -> str:
        """Return up to three error messages of the body, else its JSON, else that there is no explanation."""
        if self.facts.messages:
            return "; ".join(dict.fromkeys(self.facts.messages[:3]))
        document = self._document
        error = document.get("error", document) if isinstance(document, dict) else document
        try:
            return json.dumps(error) if error else "no explanation"
        except RecursionError:
            return "no explanation"

    @property
    def is_filtered(self) -> bool:
        """Return True if a content filter stopped the request, for which some endpoints return status 400."""
        if self.status >= FIRST_SERVER_ERROR:
            return self.facts.has_filter_code
        return self.status not in _NEVER_FILTERED and self.facts.is_filtered

    @property
    def is_throttled(self) -> bool:
        """Return True if the endpoint takes no more requests now, for which some return status 400 or 403."""
        return self.status == _TOO_MANY or (self.status in _MAYBE_THROTTLED and self.facts.has_rate_code)

    @property
    def is_not_served(self) -> bool:
        """Return True if the endpoint would refuse every request: because of the key, the account or the model."""
        return self.status in _NOT_SERVED or (self.status == _BAD_REQUEST and self.facts.is_not_served)


FIRST_SERVER_ERROR: Final = 500
_BAD_REQUEST: Final = 400
_NOT_SERVED: Final = (401, 402, 403, 404)
_TOO_MANY: Final = 429
_MAYBE_THROTTLED: Final = (400, 403)
_NEVER_FILTERED: Final = (401, 402, 404, 408, 413, _TOO_MANY)

PARAMETER_REFUSED: Final = frozenset({400, 404, 415, 422, 501})
"""Status codes of endpoints for an unknown parameter."""


def _document_of(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return {"message": body.decode("utf-8", "replace")} if body else None


class EndpointUnreachable(Exception):
    """There was no connection, or it ended before the response did; the message has the reason."""


@dataclass(slots=True)
class RequestProgress:
    """Progress of a request: `left` is False if certainly no part of the request left this machine."""

    left: bool = True
    tokens: TokenCounts = NOT_COUNTED  # of a response with status 200, even if it is not an answer

    async def note(self, event: str, _details: Mapping[str, Any]) -> None:
        """Record a step that the HTTP library reports."""
        if event in _NOT_CONNECTED:
            self.left = False


_NOT_CONNECTED: Final = {"connection.connect_tcp.failed", "connection.start_tls.failed"}


class Transport(Protocol):
    """Client of one URL: posts request bodies and returns response bodies."""

    async def post(self, body: bytes, trip: RequestProgress) -> bytes:
        """Return the body of the answer. `trip` says afterwards how far the request came.

        Raises:
            UnexpectedResponse: the response is too large.
            ErrorStatus: the endpoint answered with an error.
            EndpointUnreachable: the connection failed, maybe half-way.

        """

    async def close(self) -> None:
        """Close all connections. Call it after the last response."""
