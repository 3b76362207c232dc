"""Why somebody is not let in, named by what he should do.

AccessRefused
|-- Unauthenticated   send a key that opens
|-- Forbidden         ask for a key that may do this
|-- Elsewhere         call this server by its name, from its own pages
`-- TooMany           come again later
"""

from collector.access.caller import Caller


class AccessRefused(Exception):
    """Anything that is refused because of who asks, or how often; `caller` is who, once that is known."""

    caller: Caller | None = None


class Unauthenticated(AccessRefused):
    """There is no key, or one that opens nothing."""

    def __init__(self) -> None:
        super().__init__("Invalid or missing API key")


class Forbidden(AccessRefused):
    """The key is good, but not for this."""


class Elsewhere(AccessRefused):
    """A page of somebody else may have sent it, in the name of a person who only looks at that page."""


class TooMany(AccessRefused):
    """Too much, or too many failed attempts; `retry_after_s` says when to come again."""

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
