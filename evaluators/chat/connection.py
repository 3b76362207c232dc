"""Which model is asked, where, and how patiently."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import urlsplit

from evaluators.chat.wire import Protocol

AddressOf: TypeAlias = Callable[[str], Awaitable[str]]
"""Tells the address that a request to a URL goes to; raises where it may go nowhere."""


class BadConnection(ValueError):
    """A connection that cannot work; the message names the setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a model costs."""

    input_usd_per_million: float
    output_usd_per_million: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConnection:
    """Which model to ask, and how patiently."""

    base_url: str
    model: str
    protocol: Protocol = "RESPONSES"
    key: str | None = field(default=None, repr=False)
    price: Price | None = None
    timeout_s: float = 60  # of one attempt
    attempts: int = 3
    in_flight: int = 8  # a guess; a limit per connection for all evaluators that share the client
    requests_per_minute: float | None = None  # at even distances
    max_output_tokens: int | None = None  # that an answer may have
    address_of: AddressOf | None = None  # None: wherever the system finds its host

    def __post_init__(self) -> None:
        """Refuse what no request could use."""
        check_base_url(self.base_url)
        if not self.model.strip():
            raise BadConnection("model must not be blank")
        if self.key is not None:
            check_key(self.key)


def check_base_url(text: str) -> None:
    """Refuse what is no address of an API.

    Raises:
        BadConnection: it is none; the message does not repeat it, because it may hold a key.
    """
    try:
        url = urlsplit(text)
        has_host = url.hostname and (url.port is None or url.port > 0)
    except ValueError:
        raise BadConnection("baseUrl is not a URL") from None
    if url.scheme not in {"http", "https"} or not has_host:
        raise BadConnection("baseUrl must be http://… or https://…")
    if "@" in url.netloc or url.query or url.fragment:
        raise BadConnection("baseUrl must hold no credentials, query or fragment; the key is configured apart from it")


def check_key(key: str) -> None:
    """Refuse what no header could carry.

    Raises:
        BadConnection: it could not; the message does not hold it.
    """
    if not key.isascii() or not key.isprintable() or not key.strip() or " " in key:
        raise BadConnection("the key must be printable ASCII without spaces")
