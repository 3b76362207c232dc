"""Exchange of JSON with an endpoint. Headers come from here, from the protocol, and from the connection."""

import json
import urllib.request
from typing import Final
from urllib.parse import urlsplit

from evaluators.chat.answering import USER_AGENT, ErrorStatus, RequestProgress, Transport
from evaluators.chat.connection import ModelConnection
from evaluators.chat.direct import DirectTransport
from evaluators.chat.error_body import error_in, error_in_text
from evaluators.chat.wire import WIRES, UnexpectedResponse

_HEADERS: Final = {
    "User-Agent": USER_AGENT,
    "Accept": "application/json",
    "Accept-Encoding": "identity",  # a limit on compressed bytes would not bound memory
    "Content-Type": "application/json",
}


class Exchange:
    """Client of one endpoint: sends a serialized request and parses the response."""

    def __init__(self, connection: ModelConnection) -> None:
        self._transport = _transport(connection)
        self._wire = WIRES[connection.protocol]

    async def close(self) -> None:
        """Close its connections."""
        await self._transport.close()

    async def send(self, request: bytes, trip: RequestProgress) -> object:
        """Return the JSON document that the endpoint answers with. `trip` says afterwards how far the request came.

        Raises:
            UnexpectedResponse: the response is not JSON, or too large.
            ErrorStatus: the endpoint answered with an error, whatever the status of its response.
            EndpointUnreachable: the connection failed, maybe half-way.

        """
        body = await self._transport.post(request, trip)
        document: object = None
        try:
            document = json.loads(body)
            trip.tokens = self._wire.tokens(document)
            error = error_in(document, self._wire.member)
        except (ValueError, RecursionError):
            error = error_in_text(body, self._wire.member)
            if error is None:
                raise UnexpectedResponse("it is not JSON") from None
        if error is not None:
            raise ErrorStatus(error.status, {}, body, error.document, is_in_body=True)
        return document


def _transport(connection: ModelConnection) -> Transport:
    wire = WIRES[connection.protocol]
    headers = {**_HEADERS, **wire.headers, **dict(connection.headers)}
    if connection.key is not None:
        headers[wire.key_header] = wire.key_value.format(key=connection.key)
    last = {name.lower(): (name, value) for name, value in headers.items()}
    headers = dict(last.values())
    if _has_proxy(connection.base_url):
        # The openai package takes half a second to load, and few servers need a proxy.
        from evaluators.chat.packaged import PackagedTransport  # noqa: PLC0415 - see above

        return PackagedTransport(connection.base_url, wire.path, headers, connection.address_of)
    return DirectTransport(f"{connection.base_url.rstrip('/')}{wire.path}", headers, connection.address_of)


def _has_proxy(url_text: str) -> bool:
    url = urlsplit(url_text)
    named = {url.scheme, "all"} & urllib.request.getproxies().keys()
    return bool(named) and not urllib.request.proxy_bypass(url.netloc)
