"""Client and scheme of HTTP requests, as trusted proxies forward them."""

from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from collector.access.proxies import FORWARDED_FOR, TrustedProxies, unmapped

_FORWARDED_PROTO: Final = "x-forwarded-proto"
_SCHEMES: Final = frozenset({"http", "https"})


class ForwardedClient:
    """ASGI application that replaces the client's address by the one that trusted proxies forward."""

    def __init__(self, application: ASGIApp, proxies: TrustedProxies) -> None:
        self._application = application
        self._proxies = proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Replace client and scheme of a request by the forwarded ones, if its peer is trusted."""
        client = scope.get("client")
        if client:
            peer = unmapped(client[0])
            headers = Headers(scope=scope)
            address = self._proxies.client_of(peer, headers.getlist(FORWARDED_FOR))
            scope["client"] = (address, client[1] if address == peer else 0)
            scheme = headers.get(_FORWARDED_PROTO, "").strip().lower()
            if peer in self._proxies and scheme in _SCHEMES:
                scope["scheme"] = scheme
        await self._application(scope, receive, send)
