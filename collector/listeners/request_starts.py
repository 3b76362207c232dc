"""Fair start of requests: clients take turns, a few in each pass of the event loop, so a flood delays only itself."""

import asyncio
from collections import deque
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

_AT_ONCE: Final = 2
"""Requests that begin in one pass. A request costs the loop half a millisecond, and then mostly waits for a thread.
With 8, others waited for 0.2 s behind 240 connections of one client; with 2 for 0.03 s, and the flood got the same."""


class RequestStarts:
    """Turns of clients at beginning a request, shared by all listeners. For the event loop."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # in the order of the next turns
        self._begun = 0  # in this pass
        self._is_scheduled = False

    async def wait(self, client: str) -> None:
        """Wait for a turn of a client; it comes at once while few requests begin."""
        self._schedule()
        if self._begun < _AT_ONCE and not self._waiting:
            self._begun += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(turn)
        await turn

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._begin_some)

    def _begin_some(self) -> None:
        self._is_scheduled, self._begun = False, 0
        while self._waiting and self._begun < _AT_ONCE:
            client = next(iter(self._waiting))
            turns = self._waiting.pop(client)
            turn = turns.popleft()
            if turns:
                self._waiting[client] = turns
            if not turn.done():  # its request was cancelled
                turn.set_result(None)
                self._begun += 1
        if self._waiting:
            self._schedule()


class InTurns:
    """ASGI application that passes requests to an inner application in fair turns of their clients."""

    def __init__(self, application: ASGIApp, starts: RequestStarts) -> None:
        self._application = application
        self._starts = starts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request once it is its client's turn."""
        client = scope.get("client")
        await self._starts.wait(client[0] if client else "")
        await self._application(scope, receive, send)
