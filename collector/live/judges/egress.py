"""Check of the addresses of tenants' models, by the policy of webhooks.

The administrator of a tenant chooses the address, and requests to it come from inside of the operator's network.
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
    """Resolver that returns checked addresses only. For any event loop."""

    def __init__(self, policy: AddressPolicy) -> None:
        self._policy = policy

    def check(self, url: str) -> None:
        """Refuse a URL that is forbidden whatever its name resolves to.

        Raises:
            BadUrl: the address is forbidden.
        """
        self._policy.check(url)

    async def __call__(self, url_text: str) -> str:
        """Return the address to connect to for a URL.

        Raises:
            BadUrl: the name has no address that is allowed.
            OSError: the name does not resolve.
        """
        url = self._policy.check(url_text)
        port = url.port or _PORTS[url.scheme]
        addresses = await asyncio.get_running_loop().getaddrinfo(url.host, port, type=socket.SOCK_STREAM)
        refusal: str | None = None
        for *_, place in addresses:
            address = ipaddress.ip_address(place[0])
            refusal = self._policy.refusal(url, address)
            if refusal is None:
                return str(address)
        raise BadUrl(refusal or f"{url.host} has no address")


def address_policy(settings: Settings) -> AddressPolicy:
    """Return the policy for connections on behalf of tenants.

    Raises:
        BadSettings: an entry of the private hosts is neither a name, nor an address, nor a network.
    """
    try:
        return AddressPolicy(settings.webhook_private_hosts)
    except ValueError as error:
        raise BadSettings(f"webhook_private_hosts: {error}") from error
