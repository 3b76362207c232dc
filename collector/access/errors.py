"""Refusals of access: a class for each thing that the client can do about it.

AccessRefused
|-- Unauthenticated   send a valid key
|-- Forbidden         ask for a key that may do this
|-- CrossOrigin       call this server by its name, from its own pages
`-- TooMany           come again later
"""

from collector.access.caller import Caller


class AccessRefused(Exception):
    """Refusal because of the caller, or of too many requests; `caller` is set once known."""

    caller: Caller | None = None


class Unauthenticated(AccessRefused):
    """Refusal of a request with a missing or invalid key."""

    def __init__(self) -> None:
        super().__init__("Invalid or missing API key")


class Forbidden(AccessRefused):
    """Refusal of a request that the key does not permit."""


class CrossOrigin(AccessRefused):
    """Refusal of a request that a page of another origin may have sent through the browser of its visitor."""


class TooMany(AccessRefused):
    """Refusal of too many requests or failed attempts; `retry_after_s` says when to come again."""

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
