"""Which model is asked, where, and how patiently."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from evaluators.chat.wire import Protocol


class BadConnection(ValueError):
    """A connection that cannot work; the message names the setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a model costs."""

    input_usd_per_million: float
    output_usd_per_million: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Which model to ask, and how patiently."""

    base_url: str
    model: str
    protocol: Protocol = "RESPONSES"
    key: str | None = field(default=None, repr=False)
    price: Price | None = None
    timeout_s: float = 60  # of one attempt
    attempts: int = 3
    in_flight: int = 8  # a guess; a limit per connection for all evaluators that share the client

    def __post_init__(self) -> None:
        """Refuse what no request could use."""
        url = urlsplit(self.base_url)
        if url.scheme not in {"http", "https"} or not url.hostname:
            raise BadConnection(f"baseUrl must be http://… or https://…, not {url.scheme or 'without a scheme'}")
        if "@" in url.netloc or url.query or url.fragment:
            raise BadConnection("baseUrl must hold no credentials, query or fragment; keyEnv names the key's variable")
        if not self.model.strip():
            raise BadConnection("model must not be blank")
        if self.key is not None and (not self.key or not self.key.isascii() or any(c.isspace() for c in self.key)):
            raise BadConnection("the key must be printable ASCII without spaces")
