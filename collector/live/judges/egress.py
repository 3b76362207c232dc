"""Where the models of tenants may be: where webhooks may go.

Whoever administers a tenant chooses the address, and requests to it come from inside of the operator's network.
"""

import asyncio
import ipaddress
import socket
from typing import Final

from collector.addresses import AddressPolicy
from collector.settings import BadSettings, Settings
from evaluators.chat.urls import BadUrl

_PORTS: Final = {"https": 443, "http": 80}


class EgressResolver:
    """Tells to which address a request goes, once that was looked at. Used in any event loop."""

    def __init__(self, policy: AddressPolicy) -> None:
        self._policy = policy

    def check(self, url: str) -> None:
        """Refuse where nothing may be sent whatever its name stands for.

        Raises:
            BadUrl: it is such a place.
        """
        self._policy.check(url)

    async def __call__(self, url_text: str) -> str:
        """The address to connect to on behalf of a URL.

        Raises:
            BadUrl: there is none that anything may be sent to.
            OSError: the name stands for nothing.
        """
        url = self._policy.check(url_text)
        port = url.port or _PORTS[url.scheme]
        found = await asyncio.get_running_loop().getaddrinfo(url.host, port, type=socket.SOCK_STREAM)
        refusal: str | None = None
        for *_, place in found:
            address = ipaddress.ip_address(place[0])
            refusal = self._policy.refusal(url, address)
            if refusal is None:
                return str(address)
        raise BadUrl(refusal or f"{url.host} has no address")


def address_policy(settings: Settings) -> AddressPolicy:
    """Which addresses may be connected to on behalf of others.

    Raises:
        BadSettings: what is listed as private is neither a name, nor an address, nor a network.
    """
    try:
        return AddressPolicy(settings.webhook_private_hosts)
    except ValueError as error:
        raise BadSettings(f"webhook_private_hosts: {error}") from error
