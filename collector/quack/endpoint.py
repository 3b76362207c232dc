"""Internal HTTP endpoint that the Quack process calls for each query, with the client's API key."""

import asyncio
from collections.abc import Generator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

import pyarrow as pa
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from collector.access.authenticator import Authenticator
from collector.access.caller import Caller
from collector.access.origin import Names
from collector.access.permission import Permission, needs
from collector.api.base.fair_scheduler import QueryScheduler
from collector.api.base.problems import problem
from collector.api.serving.gate import Admission, Gate
from collector.ingest import ByteBudget
from collector.listeners.answer_resources import close
from collector.listeners.response_buffer import ResponseBufferLimit
from collector.listeners.status import failure_of
from collector.quack.words import ERROR, PATH
from storage.errors import BadQuery, Damaged, Overloaded
from storage.query.queries import Queries
from storage.query.query_options import QueryOptions

_LOOK_S: Final = 0.2  # between two checks of the process; a guess
_SLACK_S: Final = 10.0
"""Time beyond the limit of a query to send its answer to the Quack process, which is our own. A guess."""

_WITHOUT_KEY: Final = "DuckDB attaches with an API key only, and this server has none: set TRACEJURY_API_KEY"

_Batches: TypeAlias = Generator[pa.RecordBatch, None, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """Services that answer queries."""

    queries: Queries
    turns: QueryScheduler
    bodies: ByteBudget
    answers: ResponseBufferLimit
    seconds: float


def make_door(answering: Answering, authenticator: Authenticator) -> ASGIApp:
    """Make the application, for an address of the loopback interface."""

    @needs(Permission.READ)
    async def ask(request: Request) -> Response:
        """Answer `{"sql": …}` with a stream of Arrow; without `sql` only check the key."""
        caller = cast("Caller", request.state.caller)
        if caller.key_id is None:  # any page in a browser on this machine could send queries
            return problem(403, _WITHOUT_KEY)
        statement = (await request.json()).get("sql")
        if statement is None:
            return Response(status_code=204)
        return await _answer(request, answering, str(statement), caller.client)

    routes = [Route(PATH, ask, methods=["POST"])]
    gate = Gate(
        Starlette(routes=routes),
        admission=Admission(authenticator=authenticator, bodies=answering.bodies, answers=answering.answers),
        names=Names(bound="127.0.0.1"),
        routes=routes,
    )

    async def from_quack(scope: Scope, receive: Receive, send: Send) -> None:
        """Replace the client's address, so that wrong keys over Quack do not bar the loopback address for others."""
        await gate({**scope, "client": ("quack", 0)}, receive, send)

    return from_quack


async def _answer(request: Request, answering: Answering, statement: str, client: str) -> Response:
    terms = QueryOptions(views_only=True, client_id=client)
    asking = _StreamedAnswer(request, answering, statement, terms)
    try:
        await asking.begin()
    except BadQuery as error:
        await asking.end()
        return problem(400, str(error))
    except (Damaged, Overloaded) as error:
        await asking.end()
        failure = failure_of(error)
        return problem(failure.http_status, failure.message, headers=failure.http_headers())
    except BaseException:  # raised again: the query ends with its request, also if that is cancelled
        await asking.end()
        raise
    return asking


class _StreamedAnswer(Response):
    """Response that streams the result of a query."""

    def __init__(self, request: Request, answering: Answering, statement: str, terms: QueryOptions) -> None:
        super().__init__(media_type="application/vnd.apache.arrow.stream")
        del self.headers["content-length"]
        self._request = request
        self._turns = answering.turns
        self._seconds = answering.seconds
        self._terms = terms
        self._stack = AsyncExitStack()
        batches = answering.queries.batches(statement, timeout_s=answering.seconds, terms=terms)
        self._batches = cast("_Batches", batches)
        self._first: pa.RecordBatch | None = None

    async def begin(self) -> None:
        """Wait for a turn, and for the columns.

        Raises:
            BadQuery: the statement failed.
            Damaged: the statement met damaged data.
            Overloaded: no turn became free in time, or the database was opened again.
        """
        await self._stack.enter_async_context(
            self._turns.turn(self._request.is_disconnected, client_id=self._terms.client_id)
        )
        self._first = await self._next()

    async def end(self) -> None:
        """Release the query, also in the middle of it."""
        self._terms.stop.ask()
        try:
            await asyncio.shield(self._turns.run(close, self._batches))
        finally:
            await self._stack.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive  # the request has both
        try:
            async with asyncio.timeout(self._seconds + _SLACK_S):
                await self._send(send)
        finally:
            await self.end()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        pieces = _ArrowPieces()
        batch, schema = self._first, cast("pa.RecordBatch", self._first).schema
        with pa.ipc.new_stream(pieces, schema) as writer:
            while batch is not None:
                writer.write_batch(batch)
                await send({"type": "http.response.body", "body": pieces.take(), "more_body": True})
                try:
                    batch = await self._next()
                except (BadQuery, Damaged, Overloaded) as error:  # Overloaded: the database was opened again
                    last = pa.RecordBatch.from_pylist([], schema=schema)
                    writer.write_batch(last, custom_metadata={ERROR: str(error)})
                    batch = None
        await send({"type": "http.response.body", "body": pieces.take(), "more_body": False})

    async def _next(self) -> pa.RecordBatch | None:
        running = asyncio.create_task(self._turns.run(next, self._batches, None))
        while not (await asyncio.wait({running}, timeout=_LOOK_S))[0]:
            if await self._request.is_disconnected():
                self._terms.stop.ask()
        return running.result()


class _ArrowPieces:
    """File object for Arrow, whose content is read and removed piece by piece."""

    closed = False

    def __init__(self) -> None:
        self._written = bytearray()

    def write(self, data: bytes) -> int:
        """Append bytes."""
        self._written += memoryview(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing: no bytes are held back."""

    def take(self) -> bytes:
        """Return the bytes written since the previous call."""
        taken, self._written = bytes(self._written), bytearray()
        return taken
