"""JSON-RPC requests with an invalid id, which the SDK would take for notifications and never answer."""

import json
from dataclasses import dataclass
from typing import Any, Final

INVALID_REQUEST: Final = -32600
WRONG_ID: Final = "id: must be a string or an integer; leave it out of a notification"


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """The members of a message that decide how it is answered."""

    method: str | None
    has_wrong_id: bool


def envelope_of(message: bytes | str) -> Envelope:
    """Read the envelope of a message; it is empty if the message is not a JSON object."""
    try:
        document: Any = json.loads(message)
    except (ValueError, RecursionError):  # answered by the SDK, as a parse error
        document = None
    if not isinstance(document, dict):
        return Envelope(method=None, has_wrong_id=False)
    method = document.get("method")
    is_request = "method" in document and "id" in document
    return Envelope(
        method=method if isinstance(method, str) else None,
        has_wrong_id=is_request and not _is_id(document["id"]),
    )


def _is_id(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))
