"""One request and its answer through the openai package: no retries, no redirects, bounded bytes."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import openai

from evaluators.chat.connection import AddressOf, ModelConnection
from evaluators.chat.wire import WIRES, NotAnAnswer

ANSWER_BYTES = 1 << 20  # a guess: verdicts about hundreds of claims; the worst text of this size is read in 2 s
ERROR_BYTES = 64 << 10  # a guess: what is told of an error is one line
USER_AGENT = "tracejury-judge"  # by which a gateway can tell these calls from those of the application
_STREAMED = "x-stainless-raw-response"  # by which the package itself knows that its answer is to be streamed
_HEADERS = {"accept", "connection", "content-length", "content-type", "host", "transfer-encoding", _STREAMED}
_TOGETHER: Final = 8
"""Requests at once that share connections: for each one the HTTP library looks at all of them, and asks the system
about those that are idle. A guess."""

_FIRST_ERROR_STATUS = 300  # a redirect would carry the key and the data to an address that nobody configured


class ErrorStatus(Exception):
    """The endpoint answered with a status that is no success."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers  # lower-case names
        self.body = body

    def explanation(self) -> str:
        """What the body says, without its JSON."""
        text = self.body.decode("utf-8", "replace")
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            return text or "no explanation"
        error = document.get("error", document) if isinstance(document, dict) else document
        message = error.get("message", error) if isinstance(error, dict) else error
        return message if isinstance(message, str) else json.dumps(message)


@dataclass(slots=True)
class Trip:
    """How far a request came: `left` is False where it is certain that nothing of it left this machine."""

    left: bool = True

    async def note(self, event: str, _details: Mapping[str, Any]) -> None:
        """Hear from the HTTP library what it does."""
        if event in _NOT_CONNECTED:
            self.left = False


_NOT_CONNECTED: Final = {"connection.connect_tcp.failed", "connection.start_tls.failed"}
_TRIP: ContextVar[Trip] = ContextVar("trip")  # of the request that this task is sending


@dataclass(slots=True, eq=False)
class _Connections:
    """Some connections to an endpoint, and how many requests they are at."""

    client: openai.AsyncOpenAI
    requests: int = 0


class Exchange:
    """An endpoint. It is sent what it is given and nothing else: no headers, organisation or project of OPENAI_*."""

    def __init__(self, connection: ModelConnection) -> None:
        wire = WIRES[connection.protocol]
        self._path = wire.path
        self._own_headers = {**wire.headers, **dict(connection.headers)}
        if connection.key is not None:
            self._own_headers[wire.key_header] = wire.key_value.format(key=connection.key)
        self._address_of = connection.address_of
        self._base_url = connection.base_url
        self._connections = [self._more_connections()]

    async def close(self) -> None:
        """Close its connections."""
        for each in self._connections:
            await each.client.close()

    async def send(self, request: Mapping[str, Any], trip: Trip) -> object:
        """The JSON document that the endpoint answers with. `trip` tells afterwards how far the request came.

        Raises:
            NotAnAnswer: it is not JSON, or too large.
            ErrorStatus: the endpoint answered with an error.
            openai.APIConnectionError: the connection failed, maybe half-way.
        """
        _TRIP.set(trip)
        body = await _body(self._posted(request))
        try:
            document: object = json.loads(body)
        except (ValueError, RecursionError):
            raise NotAnAnswer("it is not JSON") from None
        return document

    @asynccontextmanager
    async def _posted(self, request: Mapping[str, Any]) -> AsyncIterator[Any]:
        """The answer, whose body is still to come: read at once it would have no bound."""
        chosen = next((each for each in self._connections if each.requests < _TOGETHER), None)
        if chosen is None:
            chosen = self._more_connections()
            self._connections.append(chosen)
        chosen.requests += 1
        try:
            response: Any = await chosen.client.post(
                self._path, cast_to=object, body=dict(request), options={"headers": {_STREAMED: "stream"}}
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
        """Leave out the headers that the package takes from its environment, or tells of this machine."""
        for name in [name for name in request.headers if name.lower() not in _HEADERS]:
            del request.headers[name]
        request.headers["User-Agent"] = USER_AGENT
        request.headers["Accept-Encoding"] = "identity"  # so that the bound on bytes is one on memory
        for name, value in self._own_headers.items():
            request.headers[name] = value
        request.extensions = {**request.extensions, "trace": _TRIP.get().note}
        if self._address_of is not None:
            await self._send_there(request, self._address_of)

    @staticmethod
    async def _send_there(request: Any, address_of: AddressOf) -> None:  # noqa: ANN401 - as above
        """Let it go to the very address that was looked at: whoever answers for a name can answer differently next.

        The header `Host`, and the certificate that TLS asks for, stay those of the name.
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


async def _body(exchange: AbstractAsyncContextManager[Any]) -> bytes:
    body = bytearray()
    async with exchange as response:
        chunks = response.iter_bytes()
        while True:
            try:
                chunk = await anext(chunks, None)
            except Exception as error:  # the HTTP library's errors are not part of the package's interface
                raise openai.APIConnectionError(request=response.http_request) from error
            if chunk is None:
                return bytes(body)
            body += chunk
            if len(body) > ANSWER_BYTES:
                raise NotAnAnswer(f"it is longer than {ANSWER_BYTES >> 20} MiB")


async def _refuse_errors(response: Any) -> None:  # noqa: ANN401 - httpx's or httpx2's, as the package likes
    """Raise for an error status, with as much of the body as is worth showing."""
    if response.status_code < _FIRST_ERROR_STATUS:
        return
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) >= ERROR_BYTES:
            break
    headers = {name.lower(): value for name, value in response.headers.items()}
    raise ErrorStatus(response.status_code, headers, bytes(body[:ERROR_BYTES]))
