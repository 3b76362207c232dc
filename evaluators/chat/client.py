"""The chat client: one request to a model, with bounds on time, bytes and attempts.

Attempts are repeated here, so a caller gets one answer or one failure, with the pause that the endpoint requested. Jobs
are retried by their workers, independently. The key is an argument: it is not logged or shown, and is cut out of every
message.
"""

import asyncio
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias
from urllib.parse import quote

from evaluators.chat.answering import (
    FIRST_SERVER_ERROR,
    PARAMETER_REFUSED,
    EndpointUnreachable,
    ErrorStatus,
    RequestProgress,
)
from evaluators.chat.connection import ModelConnection
from evaluators.chat.dialogue import ChatDialogue, dialogue_request
from evaluators.chat.exchange import Exchange
from evaluators.chat.images import Image
from evaluators.chat.pace import NOT_SERVED, RETRYABLE, RateLimit, Share, wait_asked_for
from evaluators.chat.parameters import SCHEMA, suspected_parameters
from evaluators.chat.request import body_of, cost_usd, most_of_body, with_parameters
from evaluators.chat.request_budget import UNSENT, Estimate, RequestBudget, RequestUsage, Reservation, UnlimitedBudget
from evaluators.chat.wire import NOT_COUNTED, WIRES, ChatPrompt, JsonSchema, ModelReply, UnexpectedResponse
from evaluators.errors import EvaluationError
from evaluators.outcome import Usage
from evaluators.regular import encodable
from storage.backoff import backoff_s
from storage.records import JsonValue

log = logging.getLogger(__name__)

_SHOWN_CHARACTERS = 300
_ALIKE_IN_A_ROW = 20  # equal refusals of which one is retried without parameters. A guess.
_MOST_ALIKE = 100  # refused requests that are remembered
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 30.0

FailureKind: TypeAlias = Literal[
    "timeout", "unreachable", "refused", "not_served", "rate_limited", "unavailable", "bad_reply", "declined"
]


class ModelCallFailed(EvaluationError):
    """The model gave no usable answer; `kind` says if a retry may help."""

    def __init__(self, kind: FailureKind, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after_s = retry_after_s  # the pause that was requested; None if there was none


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An answer and its usage."""

    answer: ModelReply
    usage: Usage


class ChatModel(AbstractAsyncContextManager["ChatModel"]):
    """Client of one model. Leave the context to close its connections."""

    def __init__(self, connection: ModelConnection) -> None:
        self.connection = connection
        self.reading = Share()  # of the processor, for parsing the answers of this model
        self._exchange = Exchange(connection)
        self._slots = asyncio.Semaphore(connection.in_flight)
        self._pace = RateLimit(connection.requests_per_minute)
        self._unsupported: dict[str, set[str]] = {}  # parameters that a model refused, and answered without
        # Messages of refusals that came without the parameters, too, each with the number of later refusals (cyclic).
        self._refused_alike: dict[str, int] = {}

    async def __aenter__(self) -> Self:
        """Do nothing: connections are made when they are needed."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._exchange.close()

    @property
    def parameters(self) -> Mapping[str, JsonValue]:
        """Return the parameters of requests that influence replies, without those that the model refused."""
        unsupported = self._unsupported.get(self.connection.model, ())
        taken = {name: value for name, value in self.connection.parameters.items() if name not in unsupported}
        return {**taken, SCHEMA: False} if SCHEMA in unsupported else taken

    async def ask(
        self, prompt: ChatPrompt, schema: JsonSchema, request_budget: RequestBudget | None = None
    ) -> Answered:
        """Ask for an answer that fits the schema. The model may ignore the schema: parse the text tolerantly.

        `request_budget` pays for each request; without one, requests are not counted.

        Raises:
            ModelCallFailed: after the last attempt, or at once if another one would fail alike.
            EvaluationError: the request_budget refused a request, for example as `OverBudget` or `HeldBack`.

        """
        wire, model = WIRES[self.connection.protocol], self.connection.model
        async with self._slots:
            asking = self._asking(lambda form: wire.request(model, prompt, form), self.connection, request_budget)
            return await _with_usage(self._answer(asking, schema), asking)

    async def converse(
        self, dialogue: ChatDialogue, connection: ModelConnection, request_budget: RequestBudget, *, within_s: float
    ) -> Answered:
        """Ask for the next message of a conversation, in at most `connection.attempts` attempts.

        `connection` is that of this client, but may have another model, other parameters and other attempts.

        Raises:
            NotSendable: the conversation has something that the protocol has no place for.
            ModelCallFailed: as `ask` does, or after `within_s` seconds, with the wait for other requests.
            EvaluationError: the request_budget refused a request, as for `ask`.
        """
        request = dialogue_request(connection.protocol, connection.model, dialogue)
        asking = self._asking(lambda _: request, connection, request_budget)
        asking.pictures = dialogue.pictures
        try:
            async with asyncio.timeout(within_s), self._slots:
                asking.started = time.monotonic()
                return await _with_usage(self._answer(asking, None), asking)
        except TimeoutError:
            late = ModelCallFailed(
                "timeout", f"no answer within {within_s:g} s, with the wait for others over this connection"
            )
            late.usage = asking.usage()
            raise late from None

    def _asking(
        self,
        request: Callable[[JsonSchema | None], dict[str, Any]],
        connection: ModelConnection,
        request_budget: RequestBudget | None,
    ) -> "_Asking":
        return _Asking(
            exchange=self._exchange,
            connection=connection,
            pace=self._pace,
            request_budget=request_budget or UnlimitedBudget(),
            request=request,
        )

    async def _answer(self, asking: "_Asking", schema: JsonSchema | None) -> ModelReply:
        """Ask; repeat without parameters that may have been refused; remember these if a reply came without them."""
        model = asking.connection.model
        without = set(self._unsupported.get(model, ()))
        tried: set[str] = set()
        dropped: frozenset[str] = frozenset()
        complaint = ""
        while True:
            try:
                reply = await asking.answer(None if SCHEMA in without else schema, without)
            except ModelCallFailed as failure:
                shape = _shape(failure)
                if shape == complaint:
                    without -= dropped  # these parameters were not the cause
                dropped = asking.suspects - tried
                if failure.kind not in _MAYBE_A_PARAMETER or not dropped or (not tried and self._is_futile(shape)):
                    if shape == complaint:
                        self._note_alike(shape)
                    raise
                complaint = shape
                tried |= dropped
                without |= dropped
                continue
            self._remember(model, without)
            return reply

    def _is_futile(self, refusal: str) -> bool:
        """Return True if a request that was refused with this message is refused in any form."""
        count = self._refused_alike.get(refusal)
        if count is None:
            return False
        # The same message may be about a parameter next time, so now and then one request is retried without it.
        self._refused_alike[refusal] = count = (count + 1) % _ALIKE_IN_A_ROW
        return count != 0

    def _note_alike(self, refusal: str) -> None:
        if len(self._refused_alike) >= _MOST_ALIKE:
            self._refused_alike.clear()
        self._refused_alike[refusal] = 0

    def _remember(self, model: str, without: set[str]) -> None:
        known = self._unsupported.setdefault(model, set())
        if more := sorted(without - known):
            known.update(more)
            log.warning("model %s does not take %s: sent under another name, or left out", model, ", ".join(more))


_KINDS: Mapping[int, FailureKind] = {408: "timeout", 409: "unavailable", 429: "rate_limited"}
_MAY_HAVE_RUN = {408, 504}  # the model may still run, and be charged; other errors cost nothing


_MAYBE_A_PARAMETER = {"refused", NOT_SERVED}  # some endpoints return 404 for a parameter


def _shape(failure: ModelCallFailed) -> str:
    return re.sub(r"\b[^\W\d]*+\d\w*+", "#", str(failure))


async def _with_usage(answering: Awaitable[ModelReply], asking: "_Asking") -> Answered:
    """Return the answer with the usage of all attempts, which a failure carries too."""
    try:
        answer = await answering
    except EvaluationError as broken:
        broken.usage = asking.usage()
        raise
    usage = asking.usage()
    if usage is None:
        raise AssertionError  # a request that was answered was sent
    return Answered(answer=answer, usage=usage)


@dataclass(slots=True, kw_only=True)
class _Asking:
    """A prompt to the model, and the attempts to get its reply."""

    exchange: Exchange
    connection: ModelConnection
    pace: RateLimit
    request_budget: RequestBudget
    request: Callable[[JsonSchema | None], dict[str, Any]]  # builds the body for a form of the answer
    pictures: Sequence[Image] = ()  # in its body
    spent: Usage | None = None  # by all attempts that left
    last_status: int | None = None
    sent: Mapping[str, Any] = field(default_factory=dict)  # by the last attempt
    suspects: frozenset[str] = frozenset()  # parameters for which the last attempt may have been refused
    started: float = field(default_factory=time.monotonic)

    async def answer(self, schema: JsonSchema | None, unsupported: Collection[str]) -> ModelReply:
        self.sent = with_parameters(self.request(schema), self.connection, unsupported)
        body = body_of(self.sent)
        for attempt in range(self.connection.attempts):
            try:
                return await self._attempt(body)
            except ModelCallFailed as failure:
                wait_s = self._wait_s(failure, attempt)
                if wait_s is None:
                    raise
            await asyncio.sleep(wait_s)
        raise AssertionError  # the last attempt returned or raised

    def usage(self) -> Usage | None:
        """Return the usage of all attempts, or None if none was sent."""
        return self.spent and replace(self.spent, latency_ms=(time.monotonic() - self.started) * 1000)

    def _count(self, spent: RequestUsage, most: Estimate) -> None:
        """Count the usage of an attempt; of a failed one without figures, the most that it can have used."""
        tokens = spent.input_tokens, spent.output_tokens
        if spent.outcome != "answered" and None in tokens:
            tokens = most.input_tokens, most.output_tokens
        usage = Usage(
            calls=1,
            input_tokens=tokens[0],
            output_tokens=tokens[1],
            cost_usd=cost_usd(self.connection.price, *tokens),
            latency_ms=0,
            model=spent.model,
        )
        self.spent = usage if self.spent is None else self.spent + usage

    def _wait_s(self, failure: ModelCallFailed, attempt: int) -> float | None:
        """Return the wait before the next attempt in seconds, or None if there is none."""
        if attempt + 1 >= self.connection.attempts or failure.kind not in RETRYABLE:
            return None
        if failure.retry_after_s is None:
            return backoff_s(attempt + 1, first_s=_FIRST_WAIT_S, longest_s=_LONGEST_WAIT_S)
        return failure.retry_after_s if failure.retry_after_s <= _LONGEST_WAIT_S else None

    async def _attempt(self, body: bytes) -> ModelReply:
        """Send one request, and settle its reservation however it ends."""
        most = most_of_body(body, self.connection, self.pictures)
        reservation = await self._fare(most)
        spent, trip = UNSENT, RequestProgress()
        try:
            spent = RequestUsage(outcome="cancelled", started_ns=time.time_ns())
            answer = await self._exchanged(body, trip)
            spent = replace(
                spent,
                outcome="answered",
                model=answer.model,
                input_tokens=answer.input_tokens,
                output_tokens=answer.output_tokens,
            )
            return answer
        except ModelCallFailed as failure:
            tokens = self._tokens_of_failure(trip) if trip.left else _NO_TOKENS
            spent = replace(spent, outcome=failure.kind, **tokens)
            raise
        finally:
            if spent.outcome == "cancelled" and not trip.left:
                spent = UNSENT
            reservation.settle(spent)
            if trip.left:
                self._count(spent, most)

    def _tokens_of_failure(self, trip: RequestProgress) -> Mapping[str, Any]:
        """Return the tokens of a failed request; some endpoints count them in an unusable response too."""
        counts = trip.tokens
        if counts.input_tokens is not None and counts.output_tokens is not None and any(counts):
            return counts._asdict()
        ran = self.last_status is None or self.last_status in _MAY_HAVE_RUN
        return NOT_COUNTED._asdict() if ran else _NO_TOKENS

    async def _fare(self, most: Estimate) -> Reservation:
        """Wait until a request may be sent, and return the reservation of its budget."""
        while True:
            await self._pause()
            reservation = await self.request_budget.reserve(most)
            holds = False
            try:
                await self.pace.turn()
                if holds := not self.pace.pause_s and reservation.still_holds():
                    return reservation
            finally:
                if not holds:
                    reservation.settle(UNSENT)

    async def _pause(self) -> None:
        """Wait for the pause that the endpoint requested; fail if it is longer than the client waits."""
        while pause_s := self.pace.pause_s:
            if pause_s > _LONGEST_WAIT_S:
                message = f"the endpoint requested a pause, {math.ceil(pause_s)} s of which are left"
                raise ModelCallFailed("rate_limited", message, pause_s)
            await asyncio.sleep(pause_s)

    async def _exchanged(self, body: bytes, trip: RequestProgress) -> ModelReply:
        self.last_status, self.suspects = None, frozenset()
        try:
            async with asyncio.timeout(self.connection.timeout_s):
                document = await self.exchange.send(body, trip)
            return WIRES[self.connection.protocol].answer(document)
        except TimeoutError:
            raise ModelCallFailed("timeout", f"no answer within {self.connection.timeout_s:g} s") from None
        except UnexpectedResponse as error:
            raise ModelCallFailed("bad_reply", self._shown(f"this is not what the protocol answers: {error}")) from None
        except EndpointUnreachable as error:
            raise ModelCallFailed("unreachable", self._shown(str(error))) from None
        except ErrorStatus as error:
            raise self._failure_of(error) from None

    def _failure_of(self, error: ErrorStatus) -> ModelCallFailed:
        self.last_status = error.status
        kind = _KINDS.get(error.status, "refused" if error.status < FIRST_SERVER_ERROR else "unavailable")
        message = self._shown(f"{error.place}: {error.explanation()}")
        if error.is_filtered:
            return ModelCallFailed("declined", message)
        if error.is_throttled:
            kind = "rate_limited"
        elif error.is_not_served:
            kind = "not_served"
        if error.status in PARAMETER_REFUSED and kind != "rate_limited":
            wire = WIRES[self.connection.protocol]
            needed = {wire.most_tokens} if wire.needs_most_tokens else set()
            self.suspects = suspected_parameters(error.facts, self.sent) - needed
        wait_s = wait_asked_for(error.headers, time.time())
        if wait_s is not None and kind in RETRYABLE:
            self.pace.pause(wait_s)
        return ModelCallFailed(kind, message, wait_s)

    def _shown(self, text: str) -> str:
        """Shorten a text for an error: one line, without the key."""
        secrets = (self.connection.key, *(value for _, value in self.connection.headers))
        for key in secrets:
            if key:
                text = text.replace(key, "[key]").replace(quote(key, safe=""), "[key]")
        line = " ".join(encodable(text).split())
        return line if len(line) <= _SHOWN_CHARACTERS else line[:_SHOWN_CHARACTERS] + "…"


_NO_TOKENS: Mapping[str, Any] = {"input_tokens": 0, "output_tokens": 0}


class ChatSpeaker:
    """Callable that asks a model for the next message, with the parameters of one conversation."""

    def __init__(self, model: ChatModel, connection: ModelConnection, request_budget: RequestBudget) -> None:
        """`connection` is the model's, except for the settings of this conversation."""
        self._model = model
        self._connection = connection
        self._request_budget = request_budget

    async def __call__(self, dialogue: ChatDialogue, *, within_s: float) -> Answered:
        """Ask.

        Raises:
            NotSendable: the conversation has something that the protocol has no place for.
            EvaluationError: there is no answer; its kind says why.
        """
        return await self._model.converse(dialogue, self._connection, self._request_budget, within_s=within_s)
