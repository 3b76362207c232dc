"""Proxies in front of the server, and the client addresses that they forward."""

import ipaddress
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

FORWARDED_FOR: Final = "x-forwarded-for"


class TrustedProxies:
    """Networks of proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` headers are trusted."""

    def __init__(self, networks: Sequence[str] = ()) -> None:
        self._networks = [ipaddress.ip_network(network) for network in networks]
        self._trusts = lru_cache(maxsize=4096)(self._is_inside)

    def __contains__(self, address: str) -> bool:
        return bool(self._networks) and self._trusts(address)

    def client_of(self, peer: str, forwarded_for: Iterable[str]) -> str:
        """Return the address of the client behind `peer`: the last forwarded one that is not a trusted proxy's.

        The result is always an IP address if `peer` is one: an element that is not an address ends the search.
        """
        client = unmapped(peer)
        hops = [hop for value in forwarded_for for hop in value.split(",")]
        while client in self and hops:
            hop = _address_of(hops.pop())
            if hop is None:
                break
            client = hop
        return client

    def _is_inside(self, address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._networks)


def unmapped(address: str) -> str:
    """Convert an IPv4-mapped IPv6 address (::ffff:192.0.2.1) to IPv4; return any other text unchanged."""
    if not address.startswith("::ffff:"):
        return address
    try:
        mapped = ipaddress.IPv6Address(address).ipv4_mapped
    except ValueError:
        return address
    return address if mapped is None else str(mapped)


def _address_of(hop: str) -> str | None:
    """Read an element of `X-Forwarded-For`: an address, alone or with a port."""
    text = hop.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return unmapped(str(ipaddress.ip_address(text)))
    except ValueError:
        return None
