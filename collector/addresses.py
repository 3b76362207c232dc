"""Where webhooks may go.

A receiver's URL is chosen by whoever may write to the API, and requests to it come from inside of the operator's
network: without bounds it would be a way to reach whatever only that network reaches.
"""

import ipaddress
import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import httpx

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
"""Where clouds hand out credentials to whatever runs there; never a receiver, listed or not."""

_NAT64 = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))
_COMPATIBLE = ipaddress.IPv6Network("::/96")
_IPV4_BITS = (1 << 32) - 1

_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\.?", re.ASCII)
_LONGEST_URL = 2048
_VISIBLE = re.compile(r"[\x21-\x7e]+")
_LAST_PORT = 65535


class BadUrl(ValueError):
    """Nothing may be sent there, whatever the name stands for; the message says why."""


class AddressPolicy:
    """Which addresses may be connected to. `private_hosts` are names and networks that may be private."""

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
        """The URL, if something might be sent there; the address is looked at when it is connected to.

        Raises:
            BadUrl: it is none, or nothing may be sent there whatever its name stands for.
        """
        if len(text) > _LONGEST_URL or not _VISIBLE.fullmatch(text):
            raise BadUrl(f"a URL has 1 to {_LONGEST_URL} visible ASCII characters")
        try:
            url = httpx.URL(text)
        except (httpx.InvalidURL, ValueError):  # IDNA and ports raise the latter
            raise BadUrl("this is not a URL") from None
        if url.scheme not in {"http", "https"} or not url.host:
            raise BadUrl("a URL begins with https:// and a host, or with http:// and a host that is listed as private")
        if url.userinfo or url.fragment:
            raise BadUrl("a URL with a user, a password or a fragment is not taken")
        if url.port is not None and not 0 < url.port <= _LAST_PORT:
            raise BadUrl(f"ports go from 1 to {_LAST_PORT}")
        literal = _address(url.host)
        if literal is not None:
            refusal = self.refusal(url, literal)
            if refusal is not None:
                raise BadUrl(refusal)
        elif url.scheme == "http" and not self._networks and _plain(url.host) not in self._names:
            raise BadUrl(f"http:// is for hosts listed in webhook_private_hosts, and {url.host} is not; use https://")
        return url

    def refusal(self, url: httpx.URL, address: Address) -> str | None:
        """Why nothing may be sent to this address on behalf of the URL; None where it may."""
        listed = _plain(url.host) in self._names or any(
            each in network for each in _meanings(address) for network in self._networks
        )
        for each in _meanings(address):
            kind = _never(each)
            if kind is not None:
                return f"{url.host} is at {kind} address, where nothing is ever sent"
        if _is_public(address):
            return None if url.scheme == "https" else f"{url.host} is at a public address, where only https:// goes"
        if not listed:
            return f"{url.host} is at a private address and is not listed in webhook_private_hosts"
        return None


def _never(address: Address) -> str | None:
    """What kind of address this is, where nothing may ever be sent to it."""
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
    return all(each.is_global for each in _meanings(address))


def _meanings(address: Address) -> Iterator[Address]:
    """The address, and those of IPv4 that routers or the system may make of it."""
    yield address
    if not isinstance(address, ipaddress.IPv6Address):
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    inner = int(address) & _IPV4_BITS
    if any(address in network for network in _NAT64) or (address in _COMPATIBLE and inner > 1):
        yield ipaddress.IPv4Address(inner)


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
    """A host name as it is compared."""
    return host.lower().removesuffix(".")
