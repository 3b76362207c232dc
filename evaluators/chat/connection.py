"""Connection settings of a model: endpoint, price, timeout, retries and limits."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from evaluators.chat.urls import read_url
from evaluators.chat.wire import Protocol
from storage.limit import Limit
from storage.records import JsonValue

AddressOf: TypeAlias = Callable[[str], Awaitable[str]]
"""Returns the address to connect to for a URL; raises if the request is not allowed."""


class BadConnection(ValueError):
    """A connection that cannot work; the message names the setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Price of a model's tokens."""

    input_usd_per_million: float
    output_usd_per_million: float

    def usd(self, input_tokens: int, output_tokens: int) -> float:
        """Return the price of these tokens in USD."""
        of_input = input_tokens * self.input_usd_per_million
        of_output = output_tokens * self.output_usd_per_million
        return (of_input + of_output) / 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConnection:
    """Endpoint, model, and limits of its use."""

    base_url: str
    model: str
    protocol: Protocol = "RESPONSES"
    key: str | None = field(default=None, repr=False)
    price: Price | None = None
    timeout_s: float = 60  # of one attempt
    attempts: int = 3
    in_flight: int = 8  # a guess; a limit per connection for all evaluators that share the client
    requests_per_minute: float | None = None  # evenly spaced
    max_output_tokens: int | None = None  # that an answer may have
    temperature: float | None = None
    reasoning_effort: str | None = None  # as the endpoint names its levels
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # beside those of the protocol
    address_of: AddressOf | None = None  # None: the system resolves the host

    @property
    def provider(self) -> str:
        """Return whose protocol it is, as the semantic conventions name providers."""
        return "anthropic" if self.protocol == "ANTHROPIC" else "openai"

    @property
    def parameters(self) -> dict[str, JsonValue]:
        """Return the parameters that affect the model's answers, without those that are not set."""
        parameters: dict[str, JsonValue] = {"temperature": self.temperature, "reasoningEffort": self.reasoning_effort}
        return {name: value for name, value in parameters.items() if value is not None}

    def __post_init__(self) -> None:
        """Refuse settings that no request could use."""
        check_base_url(self.base_url)
        if not self.model.strip():
            raise BadConnection("model must not be blank")
        if self.key is not None:
            check_key(self.key)
        for name, value in self.headers:
            check_header(name, value)


def check_base_url(text: str) -> None:
    """Refuse text that is not an address of an API.

    Raises:
        BadConnection: the text is not one; the message does not repeat it, because it may contain a key.
    """
    try:
        read_url(text)
        url = urlsplit(text)
        has_host = url.hostname and (url.port is None or url.port > 0)
    except ValueError:
        raise BadConnection("baseUrl is not a URL") from None
    if url.scheme not in {"http", "https"} or not has_host:
        raise BadConnection("baseUrl must be http://… or https://…")
    if "@" in url.netloc or url.query or url.fragment:
        raise BadConnection("baseUrl must hold no credentials, query or fragment; the key is configured apart from it")


def check_key(key: str) -> None:
    """Refuse a key that no header can carry.

    Raises:
        BadConnection: no header could carry the key; the message does not contain it.
    """
    if not key.isascii() or not key.isprintable() or not key.strip() or " " in key:
        raise BadConnection("the key must be printable ASCII without spaces")


_OURS: Final = frozenset(
    (
        *("accept", "accept-encoding", "authorization", "connection", "content-length", "content-type", "cookie"),
        *("expect", "host", "keep-alive", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade"),
        *("user-agent", "traceparent", "tracestate", "x-stainless-raw-response"),
    )
)
"""Headers that cannot be configured: the client sets them, or no request may have them."""

_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_MAX_HEADER: Final = 4096
_HEADER: Final = Limit(value=_MAX_HEADER, unit="characters", remedy="shorten it")


def check_header(name: str, value: str) -> None:
    """Refuse text that is not a custom header.

    Raises:
        BadConnection: the header is not allowed; the message does not contain its value.
    """
    if not _HEADER_NAME.fullmatch(name):
        raise BadConnection("headers: a name has 1 to 100 letters, digits and hyphens")
    if name.lower() in _OURS:
        raise BadConnection(f"headers: {name} cannot be set; a key is configured apart from headers")
    if not value.isascii() or not value.isprintable() or value != value.strip() or not 0 < len(value) <= _MAX_HEADER:
        raise BadConnection(f"headers: the value of {name} must be printable ASCII of at most {_HEADER}")
