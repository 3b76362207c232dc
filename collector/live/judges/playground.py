"""Requests of users to models, over the connections of judges and within their budgets."""

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
from evaluators.errors import BadConfiguration, EvaluationError
from evaluators.outcome import Usage
from storage.errors import BadQuery, NotFound, Overloaded
from storage.judging.spending import NANO
from storage.limit import Limit

MOST_ANSWERS: Final = 3
"""Maximum number of answers to one question, shown side by side. A guess: as many fit on a screen."""

CALLS_TIMEOUT_S: Final = 120.0
"""Timeout of an answer, besides that of its connection. A guess: a person waits."""

_WAIT_S: Final = 10.0
_AT_ONCE: Final = 4
"""Maximum number of questions under way at the same time. A guess."""

_TURNS: Final = Limit(value=_AT_ONCE, unit="at a time", remedy="try again when one has ended")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerWish:
    """A requested answer."""

    connection: str  # by id or name
    model: str | None  # None: that of the connection


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaygroundQuestion:
    """A conversation for models to continue, and its parameters."""

    tenant: str
    project: str | None  # whose budget counts, beside that of each connection
    dialogue: ChatDialogue
    max_output_tokens: int | None  # None: that of the connection
    temperature: float | None
    reasoning_effort: str | None
    retries: bool = False  # failed requests are made again, as often as for a judge


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTerms:
    """The connection of an answer, its parameters, and its highest cost."""

    stored: LlmConnection
    own: ModelConnection  # as judges use it
    adapted: ModelConnection  # as it is used this time
    account: Account
    most: Estimate

    @property
    def usd(self) -> float | None:
        """Return the highest cost, as budgets count it; None for a model without a price."""
        if self.adapted.price is None:
            return None
        return nano_usd_of(self.adapted.price, self.most.input_tokens, self.most.output_tokens) / NANO


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenAnswer:
    """Answer to a request: a reply, or why there is none."""

    terms: AnswerTerms
    reply: ModelReply | None
    usage: Usage | None  # None: no request was sent
    error_kind: str | None
    error: str | None
    start_ns: int
    end_ns: int


class Playground:
    """Requests of users to models. Thread-safe, except from the judges' event loop."""

    def __init__(
        self,
        connections: LlmConnections,
        judges: ConnectedJudges,
        prices: PriceTable,
        run: Callable[[Coroutine[Any, Any, GivenAnswer]], Future[GivenAnswer]],
    ) -> None:
        """Set up the playground. `run` executes a coroutine in the judges' event loop."""
        self._connections = connections
        self._judges = judges
        self._prices = prices
        self._run = run
        self._turns = threading.BoundedSemaphore(_AT_ONCE)

    def terms(self, question: PlaygroundQuestion, wish: AnswerWish) -> AnswerTerms:
        """Return the terms and the highest cost of an answer, without a call.

        Raises:
            NotFound: there is no such connection for this tenant.
            BadConfiguration: the connection cannot be used; the message says what to do.
            BadQuery: the connection does not allow the request.
            NotSendable: the conversation has something that the protocol has no place for.
        """
        try:
            stored = self._connections.resolve(wish.connection, question.tenant)
        except BadConfiguration as error:
            raise NotFound(str(error)) from None
        own = self._connections.usable(stored)
        adapted = self._connection_for(question, wish, stored, own)
        account = self._judges.account_of_playground(stored, adapted, tenant=question.tenant, project=question.project)
        request = with_parameters(dialogue_request(adapted.protocol, adapted.model, question.dialogue), adapted)
        once = most_of_body(body_of(request), adapted, question.dialogue.pictures)
        most = replace(
            once, input_tokens=once.input_tokens * adapted.attempts, output_tokens=once.output_tokens * adapted.attempts
        )
        return AnswerTerms(stored=stored, own=own, adapted=adapted, account=account, most=most)

    def ask(self, question: PlaygroundQuestion, terms: Sequence[AnswerTerms]) -> list[GivenAnswer]:
        """Request the answers; return them in their order, failures included.

        Raises:
            Overloaded: too many requests are running, they took too long, or the server is being stopped.
        """
        if not self._turns.acquire(blocking=False):
            raise Overloaded(f"too many requests of the playground are under way; the limit is {_TURNS}")
        try:
            futures = [self._run(self._answer(question, each)) for each in terms]
            try:
                return [each.result(timeout=CALLS_TIMEOUT_S + _WAIT_S) for each in futures]
            finally:
                for each in futures:
                    each.cancel()
        except (CancelledError, TimeoutError) as error:
            raise Overloaded("the models could not be called: the server is being stopped, or overloaded") from error
        finally:
            self._turns.release()

    def _connection_for(
        self, question: PlaygroundQuestion, wish: AnswerWish, stored: LlmConnection, own: ModelConnection
    ) -> ModelConnection:
        most, allowed = question.max_output_tokens, own.max_output_tokens
        if most is not None and allowed is not None and most > allowed:
            raise BadQuery(f"maxOutputTokens: the connection {stored.row.name!r} allows answers of {allowed} tokens")
        adapted = replace(
            own,
            attempts=own.attempts if question.retries else 1,
            max_output_tokens=most or allowed or ASSUMED_OUTPUT_TOKENS,
            temperature=own.temperature if question.temperature is None else question.temperature,
            reasoning_effort=question.reasoning_effort or own.reasoning_effort,
        )
        if wish.model is None or wish.model == own.model:
            return adapted
        if stored.row.tenant != question.tenant:
            raise BadQuery(f"model: the connection {stored.row.name!r} is shared, so only its own model is allowed")
        return replace(adapted, model=wish.model, price=self._price_of(wish.model))

    def _price_of(self, model: str) -> Price | None:
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
            speaker = self._judges.speaker(terms.stored, terms.own, terms.adapted, terms.account)
            answered = await speaker(question.dialogue, within_s=CALLS_TIMEOUT_S)
            reply, usage = answered.answer, answered.usage
            if terms.adapted.model == terms.own.model:
                self._judges.health.answered(terms.stored.connection_id, is_verdict=False)
        except EvaluationError as broken:
            failed = (broken.kind, str(broken))
            usage = broken.usage if isinstance(broken.usage, Usage) else None
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
