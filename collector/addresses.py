"""Addresses that webhooks may use.

API clients choose a receiver's URL, and the server sends the requests from within the operator's network. Without this
check, a client could make it send requests to internal hosts (SSRF).
"""

import ipaddress
import re
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import httpx

from evaluators.chat.urls import BadUrl, read_url

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_METADATA = frozenset(
    map(
        ipaddress.ip_address,
        (
            "169.254.169.254",  # most clouds; link-local anyway
            "169.254.170.2",  # containers on AWS
            "fd00:ec2::254",  # AWS over IPv6
            "fd20:ce::254",  # Google over IPv6
            "100.100.100.200",  # Alibaba
            "168.63.129.16",  # Azure's host
            "192.0.0.192",  # Oracle
        ),
    )
)
"""Metadata services of clouds, which give credentials to any program there; never allowed as a receiver, even if in
`private_hosts`."""

_NOT_PUBLIC: Final = tuple(
    map(
        ipaddress.ip_network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
            *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
            *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
            *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
        ),
    )
)
"""Addresses that IANA's registries do not mark as globally reachable, and multicast; for IPv6, those within
`_UNICAST`. Written out, because `is_global` differs between releases of Python. The few addresses in 192.0.0.0/24 and
2001::/23 that are globally reachable are not servers."""

_UNICAST: Final = ipaddress.IPv6Network("2000::/3")  # all of IPv6 that is assigned to networks
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_LOCAL_NAT64: Final = ipaddress.IPv6Network("64:ff9b:1::/48")
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")
_ISATAP: Final = frozenset({0x5EFE, 0x200_5EFE})
_IPV4_BITS: Final = (1 << 32) - 1

_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\.?", re.ASCII)
_LONGEST_URL = 2048
_VISIBLE = re.compile(r"[\x21-\x7e]+")
_LAST_PORT = 65535
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)


class AddressPolicy:
    """Policy of addresses to connect to. `private_hosts` lists the names and networks allowed at private addresses."""

    def __init__(self, private_hosts: Sequence[str] = ()) -> None:
        """Read the list.

        Raises:
            ValueError: something in it is neither a name, nor an address, nor a network.
        """
        self._names: set[str] = set()
        self._networks: list[Network] = []
        for text in private_hosts:
            listed = _network(text.strip())
            if listed is not None:
                self._networks.append(listed)
            elif _NAME.fullmatch(text.strip().lower()):
                self._names.add(_plain(text.strip()))
            else:
                msg = f"{text!r} is neither a host name, nor an address, nor a network such as 10.0.0.0/8"
                raise ValueError(msg)

    def check(self, text: str) -> httpx.URL:
        """Return the URL, if it may be allowed; its address is checked on connect.

        Raises:
            BadUrl: the URL is not valid, or not allowed whatever its name resolves to.
        """
        if len(text) > _LONGEST_URL or not _VISIBLE.fullmatch(text):
            raise BadUrl(f"a URL has 1 to {_LONGEST_URL} visible ASCII characters")
        url = read_url(text)
        if url.scheme not in {"http", "https"} or not url.host:
            raise BadUrl("a URL begins with https:// and a host, or with http:// and a host that is listed as private")
        if url.userinfo or url.fragment:
            raise BadUrl("a URL with a user, a password or a fragment is not taken")
        if url.port is not None and not 0 < url.port <= _LAST_PORT:
            raise BadUrl(f"ports go from 1 to {_LAST_PORT}")
        host = _host(url)
        literal = _address(host)
        if literal is None:
            _check_name(host)
        else:
            refusal = self.refusal(url, literal)
            if refusal is not None:
                raise BadUrl(refusal)
        if literal is None and url.scheme == "http" and not self._networks and _plain(host) not in self._names:
            raise BadUrl(f"http:// is for hosts listed in webhook_private_hosts, and {host} is not; use https://")
        return url

    def refusal(self, url: httpx.URL, address: Address) -> str | None:
        """Return why a request for the URL may not go to this address; None if it may."""
        host = _host(url)
        listed = _plain(host) in self._names or any(
            each in network for each in _meanings(address) for network in self._networks
        )
        for each in _meanings(address):
            kind = _never(each)
            if kind is not None:
                return f"{host} is at {kind} address, where nothing is ever sent"
        if _is_public(address):
            return None if url.scheme == "https" else f"{host} is at a public address, where only https:// goes"
        if not listed:
            return f"{host} is at a private address and is not listed in webhook_private_hosts"
        return None


def _never(address: Address) -> str | None:
    """Return the kind of an address that is always refused; None for any other."""
    if address in _METADATA:
        return "a cloud's metadata"
    if address.is_link_local:
        return "a link-local"
    if address.is_unspecified:
        return "an unspecified"
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
        return "a scoped"
    if address.is_multicast:
        return "a multicast"
    if isinstance(address, ipaddress.IPv4Address) and (address.is_reserved or int(address) >> 24 == 0):
        return "a reserved"
    return None


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:  # public if the IPv4 address in it is
            return _is_public(ipaddress.IPv4Address(int(address) & _IPV4_BITS))
        if address not in _UNICAST:
            return False
    return not any(address in network for network in _NOT_PUBLIC) and all(
        _is_public(each) for each in _meanings(address) if each != address
    )


def _meanings(address: Address) -> Iterator[Address]:
    """Yield the address, and the IPv4 addresses to which routers, tunnels or the system may translate it."""
    yield address
    if not isinstance(address, ipaddress.IPv6Address):
        return
    number = int(address)
    inner = number & _IPV4_BITS
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    is_isatap = number >> 32 & _IPV4_BITS in _ISATAP
    if address in _NAT64 or address in _LOCAL_NAT64 or (address in _COMPATIBLE and inner > 1) or is_isatap:
        yield ipaddress.IPv4Address(inner)
    if address in _LOCAL_NAT64:  # RFC 6052: around bits 64 to 71
        yield ipaddress.IPv4Address((number >> 64 & 0xFFFF) << 16 | number >> 40 & 0xFFFF)


def _host(url: httpx.URL) -> str:
    return url.raw_host.decode("ascii")


def _check_name(host: str) -> None:
    """Refuse a name that no resolver should see, such as an address in a spelling of old C libraries."""
    name = _plain(host)
    if not _NAME.fullmatch(name):
        raise BadUrl("the host of a URL is an address or a name of letters, digits, hyphens, underscores and dots")
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        raise BadUrl(f"{host} is a number, not a name; write an address as in 192.0.2.1")


def _address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _network(text: str) -> Network | None:
    try:
        return ipaddress.ip_network(text.strip("[]"), strict=False)
    except ValueError:
        return None


def _plain(host: str) -> str:
    return host.lower().removesuffix(".")
