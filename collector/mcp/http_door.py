"""MCP over HTTP at `/mcp`, with the keys, rights and limits of the API."""

import asyncio
import importlib
import json
from asyncio import FIRST_COMPLETED
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Final

import httpx
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from collector.access.authenticator import Authenticator
from collector.access.errors import CrossOrigin
from collector.access.origin import Names
from collector.api.base.context import Context
from collector.api.base.fair_scheduler import FairScheduler
from collector.ingest import ByteBudget
from collector.json_values import has_more_values
from collector.listeners.body import HeldBody
from collector.listeners.otlp_http import address_of
from collector.listeners.response_buffer import BufferedResponse, Refused, ResponseBufferLimit
from collector.mcp.background import Background
from collector.mcp.client import Api
from collector.mcp.request_ids import INVALID_REQUEST, WRONG_ID, envelope_of
from storage.errors import Overloaded
from storage.limit import Limit

PATH: Final = "/mcp"
_PATHS: Final = (PATH, f"{PATH}/")
_VERSION_HEADER: Final = b"mcp-protocol-version"
_MOST_BYTES: Final = 1 << 20
"""Most bytes of a request. A guess: a rule with its conditions has a hundredth of this."""

_VALUES: Final = Limit(value=50_000, unit="JSON values", remedy="send the items in several calls")  # a guess
_AT_ONCE: Final = 32
_OF_ONE: Final = 8
_WAIT_S: Final = 30.0
"""Most requests at once, most of one client, and longest wait of a further one, so that other endpoints run, too.
Guesses."""

_LOOK_S: Final = 0.5
_GRACE_S: Final = 1.0
"""Interval of checks whether the server is stopping, and grace for the requests then under way. Guesses."""

_HEADERS: Final = ("authorization", "host", "origin", "x-request-id")
"""Headers that identify the caller, which are passed to the API."""


class McpDoor:
    """ASGI application with the MCP endpoint in front of the API's. `with_mcp` makes it.

    The protocol's library is loaded by the first request: it takes a second of CPU and 40 MB, and many servers never
    need it.
    """

    def __init__(
        self,
        application: ASGIApp,
        names: Names,
        authenticator: Authenticator,
        bodies: ByteBudget,
        answers: ResponseBufferLimit,
        is_stopping: Callable[[], bool],
    ) -> None:
        self._application = application
        self._names = names
        self._authenticator = authenticator
        self._bodies = bodies
        self._answers = answers
        self._is_stopping = is_stopping
        self._turns = FairScheduler(at_once=_AT_ONCE, of_one=_OF_ONE, wait_s=_WAIT_S)
        self._background = Background()
        self._speaking: asyncio.Task[None] | None = None
        self._spoken: asyncio.Future[ASGIApp] = asyncio.get_running_loop().create_future()

    async def close(self) -> None:
        """End the background tasks and the server of the protocol."""
        await self._background.close()
        if self._speaking is not None:
            self._speaking.cancel()
            await asyncio.wait([self._speaking])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a message of the protocol, or let the API answer."""
        if scope["type"] != "http" or scope["path"] not in _PATHS:
            await self._application(scope, receive, send)
        elif scope["method"] != "POST":
            await _error_response(405, "only POST is answered here", {"allow": "POST"})(scope, receive, send)
        else:
            refusal = await self._refusal(scope)
            if refusal is not None:
                await refusal(scope, receive, send)
            else:
                await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a message of a caller that may use MCP."""
        client = self._authenticator.client_of(Headers(scope=scope).get("authorization"), address_of(scope))
        body = HeldBody(self._bodies, client)

        async def refuse(why: str) -> None:
            message = f"this may have been done, but its answer cannot be sent: {why}"
            await _error_response(503, message, {})(scope, receive, send)

        held = BufferedResponse(self._answers, client, send, refuse)
        request = _Replay(receive, body)
        try:
            message = await request.peek()
            if message is None:
                return
            async with self._turns.turn(client_id=client):
                answer = await self._protocol_for(scope, message)
                await self._unless_stopping(answer(scope, request, held.send), request)
        except Overloaded as error:
            await _error_response(503, str(error), {"retry-after": str(error.retry_after_s)})(scope, receive, send)
        except Refused:
            pass
        finally:
            held.let_go()
            body.let_go()

    async def _unless_stopping(self, answering: Awaitable[None], request: "_Replay") -> None:
        """Wait for an answer, but not once the client has left, nor beyond `_GRACE_S` once the server is stopping."""
        task, leaving = asyncio.ensure_future(answering), asyncio.ensure_future(request.left())
        try:
            while not (await asyncio.wait({task, leaving}, timeout=_LOOK_S, return_when=FIRST_COMPLETED))[0]:
                if self._is_stopping():
                    await asyncio.wait({task}, timeout=_GRACE_S)
                    break
        finally:
            has_left = leaving.done()
            leaving.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        if task.cancelled() and has_left:
            return
        if task.cancelled():
            raise Overloaded("the server is being stopped; what was begun may go on after its start", retry_after_s=5)
        task.result()

    async def _protocol_for(self, scope: Scope, message: bytes) -> ASGIApp:
        """Return the application that answers a message: an error if it cannot be a request, else the protocol."""
        if has_more_values(message, int(_VALUES.value)):
            return _error_response(413, f"a message has at most {_VALUES}", {})
        envelope = envelope_of(message)
        if envelope.has_wrong_id:
            error = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": WRONG_ID}}
            return Response(json.dumps(error), status_code=400, media_type="application/json")
        if envelope.method == "initialize":  # negotiates by its body; the header belongs to later messages
            scope["headers"] = [(name, value) for name, value in scope["headers"] if name != _VERSION_HEADER]
        return await self._protocol()

    async def _protocol(self) -> ASGIApp:
        if self._speaking is None:
            self._speaking = asyncio.create_task(self._speak())
        return await asyncio.shield(self._spoken)

    async def _speak(self) -> None:
        try:
            await self._serve()
        except Exception as error:  # noqa: BLE001 - the client gets it as an error
            if self._spoken.done():
                raise
            self._spoken.set_exception(error)  # each request gets it; the server goes on without MCP

    async def _serve(self) -> None:
        transport = await asyncio.to_thread(importlib.import_module, "mcp.server.streamable_http_manager")
        server = await asyncio.to_thread(importlib.import_module, "collector.mcp.server")
        manager = transport.StreamableHTTPSessionManager(
            app=server.make_server(self._api_of_request),
            json_response=True,
            stateless=True,
            max_request_body_size=_MOST_BYTES,
        )
        async with manager.run():
            self._spoken.set_result(manager.handle_request)
            await asyncio.Event().wait()

    async def _refusal(self, scope: Scope) -> Response | None:
        """Return the API's refusal of a caller without the right to use MCP; None if the caller has it."""
        headers = Headers(scope=scope)
        if (
            "authorization" not in headers
        ):  # a page of another origin could send this through the browser of its visitor
            try:
                self._names.check(headers.get("host"), headers.get("origin"), changes=True)
            except CrossOrigin as error:
                return _error_response(403, str(error), {})
        async with self._client(scope) as client:
            answer = await client.get("/api/v1/caller")
        if answer.is_success:
            return None
        headers_kept = {
            name: answer.headers[name] for name in ("www-authenticate", "retry-after") if name in answer.headers
        }
        return _error_response(answer.status_code, str(answer.json().get("error")), headers_kept)

    def _api_of_request(self, request: Any) -> Api:  # noqa: ANN401 - its type is in a library that is loaded late
        return Api(self._client(request.request.scope), self._background)

    def _client(self, scope: Scope) -> httpx.AsyncClient:
        """Return a client of this server's API with the caller's headers, so that rights, limits and audit apply."""
        received = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        headers = {name: value for name, value in received if name in _HEADERS}
        transport = httpx.ASGITransport(
            app=self._application, raise_app_exceptions=False, client=tuple(scope.get("client") or ("127.0.0.1", 0))
        )
        return httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers, trust_env=False)


class _Replay:
    """A request's body, read ahead up to the limit and then received once more from its beginning."""

    def __init__(self, receive: Receive, body: HeldBody) -> None:
        self._receive = receive
        self._body = body
        self._is_whole = False
        self._messages: list[Message] = []

    async def peek(self) -> bytes | None:
        """Return the body, or the beginning of one that is too large; None if the client left before the end.

        Raises:
            Overloaded: the bytes held for requests are at their limit.
        """
        size, more = 0, True
        while more and size <= _MOST_BYTES:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return None
            self._messages.append(message)
            size += len(message.get("body", b""))
            self._body.hold(len(message.get("body", b"")))
            more = message.get("more_body", False)
        self._is_whole = not more
        self._messages.reverse()
        return b"".join(message.get("body", b"") for message in reversed(self._messages))

    async def left(self) -> None:
        """Wait until the client has left, which is how a call over HTTP is cancelled."""
        if not self._is_whole:  # the next messages are the rest of the body
            await asyncio.Event().wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def __call__(self) -> Message:
        return self._messages.pop() if self._messages else await self._receive()


def with_mcp(stack: AsyncExitStack, application: ASGIApp, names: Names, context: Context) -> McpDoor:
    """Wrap an application with the MCP endpoint, until the stack is closed."""
    door = McpDoor(
        application,
        names,
        context.authenticator,
        context.bodies,
        context.answers,
        is_stopping=lambda: context.state == "stopping",
    )
    stack.push_async_callback(door.close)
    return door


def _error_response(status: int, why: str, headers: dict[str, str]) -> Response:
    return Response(json.dumps({"error": why}), status_code=status, headers=headers, media_type="application/json")
