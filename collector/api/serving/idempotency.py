"""Idempotent creation: a repeated request with the same `Idempotency-Key` gets the first response."""

import hashlib
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from collector.access.caller import Caller
from collector.access.permission import Permission, Requirements
from collector.api.base.problems import problem

KEY_PATTERN: Final = "^[!-~]{1,200}$"

_KEY: Final = re.compile(KEY_PATTERN)
_REMEMBERED_S: Final = 3600.0
_REMEMBERED: Final = 1_000  # of each caller
_ANSWER_BYTES: Final = 64 << 10
"""Bounds of remembered responses: their age, their number per caller, the size of each. Guesses: clients retry for less
than an hour."""

_MOST_BYTES: Final = 64 << 20
"""Maximum size of all remembered responses; beyond it, the caller with the most bytes loses its oldest ones. A
guess."""

_ENTRY_BYTES: Final = 1 << 10  # overhead of an entry, counted with its path and response; a guess

_FIRST_FAILURE: Final = 400


@dataclass(slots=True, kw_only=True)
class _Done:
    """A request, and the messages of its response so far."""

    digest: bytes
    since_s: float
    nbytes: int
    messages: list[Message] = field(default_factory=list)
    is_complete: bool = False


_Name = tuple[str, str]


class Repetitions:
    """Responses of the last hour, in memory only, because some hold a secret that is shown once.

    A restart forgets them. A failed request is not remembered, and may be retried.
    """

    def __init__(self, application: ASGIApp, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._application = application
        self._clock_s = clock_s
        self._callers: dict[str | None, OrderedDict[_Name, _Done]] = {}
        self._held: Counter[str | None] = Counter()  # bytes, by caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or repeat its answer."""
        key = Headers(scope=scope).get("idempotency-key") if _takes_key(scope) else None
        if key is None:
            await self._application(scope, receive, send)
            return
        if not _KEY.fullmatch(key):
            wrong = "Idempotency-Key: must be 1 to 200 visible ASCII characters"
            await problem(400, wrong)(scope, receive, send)
            return
        try:
            body = await _read(receive)
        except HTTPException as error:
            await problem(error.status_code, str(error.detail))(scope, receive, send)
            return
        except ClientDisconnect:
            return
        caller: Caller = scope["state"]["caller"]
        name = (scope["path"], key)
        digest = hashlib.sha256(scope.get("query_string", b"") + b"\n" + body).digest()
        self._forget()
        known = self._callers.setdefault(caller.key_id, OrderedDict())
        before = known.get(name)
        if before is None:
            if len(known) >= _REMEMBERED:
                self._drop(caller.key_id, next(iter(known)))
            known[name] = done = _Done(digest=digest, since_s=self._clock_s(), nbytes=0)
            await self._remember(caller.key_id, name, done, self._first(done, scope, _again(body, receive), send))
        elif before.digest != digest:
            other = "this Idempotency-Key was used for another request; use a new one"
            await problem(409, other)(scope, receive, send)
        elif not before.is_complete:
            running = "a request with this Idempotency-Key is being worked on"
            await problem(409, running, headers={"retry-after": "1"})(scope, receive, send)
        else:
            for message in before.messages:
                await send(dict(message))

    async def _remember(self, caller: str | None, name: _Name, done: _Done, making: Coroutine[Any, Any, int]) -> None:
        """Run a request. Its entry exists from its start, so that repetitions are refused; a failure removes it."""
        self._count(caller, name, done, _ENTRY_BYTES + len(name[0]))
        try:
            nbytes = await making
        finally:
            if not done.is_complete and self._has(caller, name, done):
                self._drop(caller, name)
        self._count(caller, name, done, nbytes)

    async def _first(self, done: _Done, scope: Scope, receive: Receive, send: Send) -> int:
        """Run a request and keep its response; return the bytes of its body."""
        status, nbytes = _FIRST_FAILURE, 0

        async def send_and_keep(message: Message) -> None:
            nonlocal status, nbytes
            status = message.get("status", status)
            nbytes += len(message.get("body", b""))
            if nbytes <= _ANSWER_BYTES:
                kept = dict(message)
                if "headers" in kept:
                    kept["headers"] = [*kept["headers"], (b"idempotency-replayed", b"true")]
                done.messages.append(kept)
            await send(message)

        try:
            await self._application(scope, receive, send_and_keep)
        finally:
            done.is_complete = status < _FIRST_FAILURE and nbytes <= _ANSWER_BYTES
        return nbytes

    def _count(self, caller: str | None, name: _Name, done: _Done, nbytes: int) -> None:
        """Add bytes to the total, and evict old responses."""
        if not self._has(caller, name, done):
            return
        done.nbytes += nbytes
        self._held[caller] += nbytes
        while self._held.total() > _MOST_BYTES:
            ((largest, _),) = self._held.most_common(1)
            self._drop(largest, next(iter(self._callers[largest])))

    def _has(self, caller: str | None, name: _Name, done: _Done) -> bool:
        known = self._callers.get(caller)
        return known is not None and known.get(name) is done

    def _drop(self, caller: str | None, name: _Name) -> None:
        self._held[caller] -= self._callers[caller].pop(name).nbytes

    def _forget(self) -> None:
        until_s = self._clock_s() - _REMEMBERED_S
        for caller, known in list(self._callers.items()):
            while known and next(iter(known.values())).since_s <= until_s:
                self._drop(caller, next(iter(known)))
            if not known:
                del self._callers[caller], self._held[caller]


def may_be_repeated(need: Requirements) -> bool:
    """Return whether a POST with this need may carry an `Idempotency-Key`."""
    # Spans that are sent twice are recognized by their ids, and files, which are not held in memory, by their content.
    return need.permission in {Permission.WRITE, Permission.ADMINISTER} and not need.takes_files


def _takes_key(scope: Scope) -> bool:
    return scope["type"] == "http" and scope["method"] == "POST" and may_be_repeated(scope["state"]["need"])


async def _read(receive: Receive) -> bytes:
    parts = []
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        # After the body, wait for a real disconnect: a streamed response would end at a message that reports one.
        return messages.pop() if messages else await receive()

    return receive_again
