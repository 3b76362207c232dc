"""Requests through the openai package, which finds proxies in the environment: no retries, no redirects."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import openai

from evaluators.chat.answering import (
    ANSWER,
    ANSWER_BYTES,
    ERROR_BYTES,
    FIRST_ERROR_STATUS,
    EndpointUnreachable,
    ErrorStatus,
    RequestProgress,
)
from evaluators.chat.connection import AddressOf
from evaluators.chat.wire import UnexpectedResponse

_STREAMED = "x-stainless-raw-response"  # the package's own header for a streamed response
_HEADERS = {"connection", "content-length", "host", "transfer-encoding", _STREAMED}
_TOGETHER: Final = 8
"""Concurrent requests per connection pool: for each request, the HTTP library checks all connections of the pool, with
a system call for each idle one. A guess."""

_TRIP: ContextVar[RequestProgress] = ContextVar("trip")  # progress of the task's current request


@dataclass(slots=True, eq=False)
class _Connections:
    """A connection pool, and the number of its requests in progress."""

    client: openai.AsyncOpenAI
    requests: int = 0


class PackagedTransport:
    """Implements `Transport`. Requests have no headers, organisation or project from OPENAI_* variables."""

    def __init__(self, base_url: str, path: str, headers: Mapping[str, str], address_of: AddressOf | None) -> None:
        """`headers` are sent with each request, `address_of` returns the address to connect to."""
        self._base_url = base_url
        self._path = path
        self._own_headers = headers
        self._address_of = address_of
        self._connections = [self._more_connections()]

    async def close(self) -> None:
        """Close its connections."""
        for each in self._connections:
            await each.client.close()

    async def post(self, body: bytes, trip: RequestProgress) -> bytes:
        """Return the body of the answer. `trip` says afterwards how far the request came.

        Raises:
            UnexpectedResponse: the response is too large.
            ErrorStatus: the endpoint answered with an error.
            EndpointUnreachable: the connection failed, maybe half-way.

        """
        _TRIP.set(trip)
        try:
            async with self._posted(body) as response:
                return await _body(response)
        except openai.APIConnectionError as error:
            if isinstance(error.__cause__, ErrorStatus):
                raise error.__cause__ from None
            cause = error.__cause__ or error
            raise EndpointUnreachable(f"{type(cause).__name__}: {cause}") from error

    @asynccontextmanager
    async def _posted(self, body: bytes) -> AsyncIterator[Any]:
        """Yield the response before its body, which the caller reads in chunks to bound its size."""
        chosen = next((each for each in self._connections if each.requests < _TOGETHER), None)
        if chosen is None:
            chosen = self._more_connections()
            self._connections.append(chosen)
        chosen.requests += 1
        try:
            response: Any = await chosen.client.post(
                self._path, cast_to=object, body=json.loads(body), options={"headers": {_STREAMED: "stream"}}
            )
            try:
                yield response
            finally:
                await response.close()
        finally:
            chosen.requests -= 1

    def _more_connections(self) -> _Connections:
        hooks: dict[str, list[Callable[..., Any]]] = {"request": [self._send_only_ours], "response": [_refuse_errors]}
        transport = openai.DefaultAsyncHttpxClient(follow_redirects=False, event_hooks=hooks)
        client = openai.AsyncOpenAI(
            base_url=self._base_url, api_key="none", max_retries=0, timeout=None, http_client=transport
        )
        return _Connections(client)

    async def _send_only_ours(self, request: Any) -> None:  # noqa: ANN401 - httpx's or httpx2's, as the package likes
        """Remove the headers that the package takes from its environment, or that describe this machine."""
        for name in [name for name in request.headers if name.lower() not in _HEADERS]:
            del request.headers[name]
        for name, value in self._own_headers.items():
            request.headers[name] = value
        request.extensions = {**request.extensions, "trace": _TRIP.get().note}
        if self._address_of is not None:
            await self._send_there(request, self._address_of)

    @staticmethod
    async def _send_there(request: Any, address_of: AddressOf) -> None:  # noqa: ANN401 - as above
        """Send to the address that was checked: the next DNS lookup may return another.

        The header `Host`, and the name that TLS verifies, keep the host of the URL.

        """
        host, trip = request.url.host, _TRIP.get()
        trip.left = False
        try:
            address = await address_of(str(request.url))
        except (ValueError, OSError) as error:
            raise openai.APIConnectionError(request=request) from error
        trip.left = True
        request.url = request.url.copy_with(host=address)
        request.extensions = {**request.extensions, "sni_hostname": host}


async def _body(response: Any) -> bytes:  # noqa: ANN401 - the package's
    body = bytearray()
    chunks = response.iter_bytes()
    while True:
        try:
            chunk = await anext(chunks, None)
        except Exception as error:  # the HTTP library's errors are not part of the package's interface
            raise EndpointUnreachable(f"{type(error).__name__}: {error}") from error
        if chunk is None:
            return bytes(body)
        body += chunk
        if len(body) > ANSWER_BYTES:
            raise UnexpectedResponse(f"it is longer than {ANSWER}")


async def _refuse_errors(response: Any) -> None:  # noqa: ANN401 - httpx's or httpx2's, as the package likes
    """Raise for an error status, with as much of the body as is worth showing."""
    if response.status_code < FIRST_ERROR_STATUS:
        return
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) >= ERROR_BYTES:
            break
    headers = {name.lower(): value for name, value in response.headers.items()}
    raise ErrorStatus(response.status_code, headers, bytes(body[:ERROR_BYTES]))
