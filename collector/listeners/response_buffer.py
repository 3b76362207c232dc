"""Answers that wait until clients read them: counted by client, written in slices, refused if there is no room."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from starlette.types import Message, Send

from collector.listeners.answer_resources import OpenResources
from storage.ingest.shares import Shares
from storage.limit import Limit
from storage.query.concurrency_limit import hint

SLICE_BYTES: Final = 64 << 10
"""A body is written to the connection in slices of this size, each once less than one slice waits there. Smaller bodies
are not counted: with what waits in its connection, such a response takes at most twice this size."""

STREAM_BYTES: Final = 8 << 20
"""A response without a length counts at least this much, for the memory of what generates it. Twelve stalled exports of
a run with 2,000 items of 20 kB, and others that were begun meanwhile and refused, took 127 MiB."""

CHANGE_BYTES: Final = 1 << 20
"""Room required before a request changes data: refusing its response afterwards would hide the change. A guess."""

RETRY_AFTER_S: Final = 5  # a guess

Refuse: TypeAlias = Callable[[str], Awaitable[None]]


class Refused(Exception):  # no StorageError: handlers of the application must not answer it
    """Signal that a refusal was sent in place of the response; it stops the application from writing more."""


class CutOff(Exception):  # no StorageError either
    """Failure of an answer that has begun; it is logged, and its connection is aborted."""


class ResponseBufferLimit:
    """Memory limit of answers that clients have not read yet. For the event loop."""

    def __init__(self, nbytes: int = 128 << 20) -> None:
        self._nbytes = nbytes
        self._shares = Shares(nbytes)
        self.refused = 0
        self.resources: OpenResources = {}

    @property
    def held(self) -> int:
        """Return the number of waiting bytes."""
        return self._shares.total

    def lack(self, client: str, nbytes: int = CHANGE_BYTES) -> str | None:
        """Return why there is no room for more bytes to a client; by default, for the answer to a change.

        While no response waits, one may be larger than the limit.
        """
        if not self.held or self._shares.has_room(client, nbytes):
            return None
        self.refused += 1
        waiting = f"{self._shares.of(client) >> 20} MiB of answers to you, and {self.held >> 20} MiB in all"
        remedy = f"read or close your other connections, request less at once, or try again later{hint(client)}"
        limit = Limit(value=self._nbytes, unit="bytes", setting="answer_bytes", remedy=remedy)
        return f"{waiting}, wait to be read, so there is no room for {max(nbytes >> 20, 1)} MiB more within {limit}"

    def take(self, client: str, nbytes: int) -> None:
        """Count bytes of an answer, also beyond the limit; a negative number releases them."""
        self._shares.take(client, nbytes)


class BufferedResponse:
    """Response whose bytes count against the limit from its first body until they are written, or until `let_go`.

    `send` replaces the ASGI `send` of the application. It holds the start of a response back until the first body. If
    there is no room for that body, `refuse` sends another response instead.
    """

    def __init__(self, room: ResponseBufferLimit, client: str, send: Send, refuse: Refuse) -> None:
        self._room = room
        self._client = client
        self._send = send
        self._refuse = refuse
        self._start: Message | None = None
        self._has_length = self._is_refused = False
        self._held = 0

    async def send(self, message: Message) -> None:
        """Send a message of the application.

        Raises:
            Refused: the answer was refused, and has further pieces.
        """
        if message["type"] == "http.response.start" and not self._is_refused:
            self._start = message
            self._has_length = any(name.lower() == b"content-length" for name, _ in message.get("headers", ()))
            return
        if not self._is_refused:
            why = self._lack(message)
            if why is None:
                await self._send_held(message)
                return
            self._is_refused = True
            await self._refuse(why)
        if message.get("more_body", False):
            raise Refused

    def let_go(self) -> None:
        """Give the counted bytes of the answer back."""
        self._room.take(self._client, -self._held)
        self._held = 0

    def _lack(self, message: Message) -> str | None:
        """Count a body; return why it has no room, or None. A response that has begun is never refused."""
        nbytes = len(message.get("body", b""))
        is_stream = message.get("more_body", False) and not self._has_length
        needed = max(nbytes, STREAM_BYTES) if is_stream else nbytes if nbytes > SLICE_BYTES else 0
        more = needed - self._held
        if more <= 0:
            return None
        why = None if self._start is None else self._room.lack(self._client, more)
        if why is None:
            self._room.take(self._client, more)
            self._held += more
        return why

    async def _send_held(self, message: Message) -> None:
        """Send a body as copies of its parts, so that a part that waits in the connection does not keep the whole."""
        if self._start is not None:
            start, self._start = self._start, None
            await self._send(start)
        body, begin = memoryview(message.get("body", b"")), 0
        while len(body) - begin > SLICE_BYTES:
            part = bytes(body[begin : begin + SLICE_BYTES])
            await self._send({"type": "http.response.body", "body": part, "more_body": True})
            begin += SLICE_BYTES
        await self._send({**message, "body": bytes(body[begin:])})
        if self._has_length:
            self.let_go()
