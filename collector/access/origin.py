"""Checks that a request without a key does not come from a foreign page, open in a browser on this machine.

Such a page can make its own name resolve to this host, and then read responses (DNS rebinding); and it can send
requests whose responses it cannot read (CSRF). The `Host` header reveals DNS rebinding, and `Origin` reveals CSRF; a
page can set neither header.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from collector.access.errors import CrossOrigin


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Names of the server: its bound address, configured names, and the origins that may call it."""

    bound: str  # HOST:PORT
    allowed: Sequence[str] = ()
    origins: Sequence[str] = ()  # values of the `Origin` header; "*" allows any

    def check(self, host: str | None, origin: str | None, *, changes: bool) -> None:
        """Let a request pass if one of our own pages, or a program, may have sent it.

        Raises:
            CrossOrigin: the request calls the server by another name, or a page of another origin sent it.
        """
        if host is None:  # HTTP/1.0, which no browser speaks
            return
        name = host_of(host)
        if not (is_loopback(name) or name in self._own or (self._is_wide and _is_address(name))):
            raise CrossOrigin(f"this server is not called {name or 'nothing'!r}; name it in the setting allowed_hosts")
        if changes and origin is not None and not self._is_ours(origin, host):
            raise CrossOrigin("pages of other origins may not change anything here; see the setting cors_origins")

    def _is_ours(self, origin: str, host: str) -> bool:
        return "*" in self.origins or origin in self.origins or urlsplit(origin).netloc.lower() == host.lower()

    @property
    def _own(self) -> set[str]:
        return {host_of(self.bound), *(name.lower() for name in self.allowed)}

    @property
    def _is_wide(self) -> bool:
        return host_of(self.bound) in {"0.0.0.0", "::"}  # noqa: S104 - compared with, not bound to


def host_of(address: str) -> str:
    """Return the host in HOST, HOST:PORT or [HOST]:PORT, in lower case."""
    text = address.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


def is_loopback(host: str) -> bool:
    """Return True if a host is always this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
