"""Questions that somebody asks models on the spot: over the connections of judges, and paid like any judge."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, replace
from typing import Any, Final

from collector.conventions.prices import PriceTable
from collector.live.budgets.payers import Account, nano_usd_of
from collector.live.judges.connections import LlmConnections
from collector.live.judges.judges import ConnectedJudges
from collector.live.judges.llm_connection import LlmConnection
from evaluators.chat.connection import ModelConnection, Price
from evaluators.chat.dialogue import ChatDialogue, NotSendable, dialogue_request
from evaluators.chat.request import body_of, most_of_body, with_parameters
from evaluators.chat.request_budget import ASSUMED_OUTPUT_TOKENS, Estimate
from evaluators.chat.wire import ModelReply
from evaluators.errors import BadConfiguration, Broken
from evaluators.outcome import Usage
from storage.errors import BadQuery, Missing, Overloaded
from storage.judging.spending import NANO
from storage.limit import Limit

MOST_ANSWERS: Final = 3
"""Beside each other. A guess: what fits on a screen."""

ASKED_S: Final = 120.0
"""What an answer has, and what its connection has to allow for it. A guess: a person waits."""

_WAIT_S: Final = 10.0
_AT_ONCE: Final = 4
"""Questions of people under way. A guess."""

_TURNS: Final = Limit(value=_AT_ONCE, unit="at a time", remedy="try again when one has ended")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerWish:
    """An answer that somebody wants."""

    connection: str  # by id or name
    model: str | None  # None: that of the connection


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaygroundQuestion:
    """A conversation that models are to go on with, and how."""

    tenant: str
    project: str | None  # whose budget counts, beside that of each connection
    dialogue: ChatDialogue
    max_output_tokens: int | None  # None: as the connection says
    temperature: float | None
    reasoning_effort: str | None
    retries: bool = False  # failed requests are made again, as often as for a judge


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTerms:
    """Over which connection an answer is asked for, how, and what it takes at most."""

    found: LlmConnection
    own: ModelConnection  # as judges use it
    asked: ModelConnection  # as it is used this time
    account: Account
    most: Estimate

    @property
    def usd(self) -> float | None:
        """What it costs at most, as budgets count it; None where the model has no price."""
        if self.asked.price is None:
            return None
        return nano_usd_of(self.asked.price, self.most.input_tokens, self.most.output_tokens) / NANO


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenAnswer:
    """What came of it: a reply, or why there is none."""

    terms: AnswerTerms
    reply: ModelReply | None
    usage: Usage | None  # None: nothing left this machine
    error_kind: str | None
    error: str | None
    start_ns: int
    end_ns: int


class Playground:
    """Asks models what people want to know. From any thread but that of the event loop in which models are asked."""

    def __init__(
        self,
        connections: LlmConnections,
        judges: ConnectedJudges,
        prices: PriceTable,
        run: Callable[[Coroutine[Any, Any, GivenAnswer]], Future[GivenAnswer]],
    ) -> None:
        """`run` has something done in the event loop in which judges are asked."""
        self._connections = connections
        self._judges = judges
        self._prices = prices
        self._run = run
        self._turns = threading.BoundedSemaphore(_AT_ONCE)

    def terms(self, question: PlaygroundQuestion, wish: AnswerWish) -> AnswerTerms:
        """How an answer would be asked for, and what it takes at most; nobody is asked.

        Raises:
            Missing: there is no such connection for this tenant.
            BadConfiguration: the connection cannot be used; the message says what to do.
            BadQuery: what is wanted of it is not allowed over it.
            NotSendable: the conversation has something that the protocol has no place for.
        """
        try:
            found = self._connections.resolve(wish.connection, question.tenant)
        except BadConfiguration as error:
            raise Missing(str(error)) from None
        own = self._connections.usable(found)
        asked = self._connection_for(question, wish, found, own)
        account = self._judges.account_of_playground(found, asked, tenant=question.tenant, project=question.project)
        request = with_parameters(dialogue_request(asked.protocol, asked.model, question.dialogue), asked)
        once = most_of_body(body_of(request), asked, question.dialogue.pictures)
        most = replace(
            once, input_tokens=once.input_tokens * asked.attempts, output_tokens=once.output_tokens * asked.attempts
        )
        return AnswerTerms(found=found, own=own, asked=asked, account=account, most=most)

    def ask(self, question: PlaygroundQuestion, wanted: Sequence[AnswerTerms]) -> list[GivenAnswer]:
        """The answers, in their order; also why there is none.

        Raises:
            Overloaded: others are at it, or the server is being stopped.
        """
        if not self._turns.acquire(blocking=False):
            raise Overloaded(f"too many requests of the playground are under way; the limit is {_TURNS}")
        try:
            futures = [self._run(self._answer(question, each)) for each in wanted]
            try:
                return [each.result(timeout=ASKED_S + _WAIT_S) for each in futures]
            finally:
                for each in futures:
                    each.cancel()
        except (CancelledError, TimeoutError) as error:
            raise Overloaded("the models could not be asked: the server is being stopped, or far too busy") from error
        finally:
            self._turns.release()

    def _connection_for(
        self, question: PlaygroundQuestion, wish: AnswerWish, found: LlmConnection, own: ModelConnection
    ) -> ModelConnection:
        most, allowed = question.max_output_tokens, own.max_output_tokens
        if most is not None and allowed is not None and most > allowed:
            raise BadQuery(f"maxOutputTokens: the connection {found.row.name!r} allows answers of {allowed} tokens")
        asked = replace(
            own,
            attempts=own.attempts if question.retries else 1,
            max_output_tokens=most or allowed or ASSUMED_OUTPUT_TOKENS,
            temperature=own.temperature if question.temperature is None else question.temperature,
            reasoning_effort=question.reasoning_effort or own.reasoning_effort,
        )
        if wish.model is None or wish.model == own.model:
            return asked
        if found.row.tenant != question.tenant:
            raise BadQuery(f"model: the connection {found.row.name!r} is shared, and is asked for its own model alone")
        return replace(asked, model=wish.model, price=self._price_of(wish.model))

    def _price_of(self, model: str) -> Price | None:
        """The list price of a model that is not that of its connection, whose price would be another one's."""
        listed = self._prices.price_of(model, None)
        if listed is None:
            return None
        return Price(input_usd_per_million=listed.input, output_usd_per_million=max(listed.output, listed.reasoning))

    async def _answer(self, question: PlaygroundQuestion, terms: AnswerTerms) -> GivenAnswer:
        start_ns = time.time_ns()
        reply: ModelReply | None = None
        usage: Usage | None = None
        failed: tuple[str, str] | None = None
        try:
            async with asyncio.timeout(ASKED_S):
                speaker = self._judges.speaker(terms.found, terms.own, terms.asked, terms.account)
                answered = await speaker(question.dialogue)
            reply, usage = answered.answer, answered.usage
            if terms.asked.model == terms.own.model:
                self._judges.health.answered(terms.found.connection_id, is_verdict=False)
        except Broken as broken:
            failed = (broken.kind, str(broken))
            usage = broken.usage if isinstance(broken.usage, Usage) else None
        except TimeoutError:
            failed = ("timeout", f"no answer within {ASKED_S:g} s, with the wait for others over this connection")
        except NotSendable as error:
            failed = ("bad_configuration", str(error))
        return GivenAnswer(
            terms=terms,
            reply=reply,
            usage=usage,
            error_kind=None if failed is None else failed[0],
            error=None if failed is None else failed[1],
            start_ns=start_ns,
            end_ns=time.time_ns(),
        )
