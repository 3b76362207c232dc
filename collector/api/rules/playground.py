"""The playground over HTTP: several models continue a conversation, within the budgets of judges."""

import asyncio
from typing import Any

from pydantic import Field

from collector.access.permission import Permission, needs
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.responses.base import ApiAnswer, JsonObject
from collector.api.responses.declaration import response_model
from collector.api.rules.playing import PlaygroundBody, PricedAnswer, StoredAnswer, played, priced, question_of
from collector.live.judges.playground_trace import reply_message


class MostDocument(ApiAnswer):
    """Upper bounds of a request, as the budget reserves them."""

    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None = Field(description="Null: a model has no price.")


class PlaygroundUsage(ApiAnswer):
    """Usage of a request."""

    calls: int
    model: str | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    latency_ms: float


class PlaygroundFailure(ApiAnswer):
    """Reason for a missing answer: `over_budget`, `bad_configuration`, or the error of the call."""

    kind: str
    message: str


class PlaygroundAnswerDocument(ApiAnswer):
    """Answer of one model, or the reason why there is none."""

    connection_id: str
    connection: str | None = Field(description="The name of the connection; null: none can be used.")
    model: str | None
    at_most: MostDocument
    message: JsonObject | None = Field(description="In the form of the messages of spans: role and parts.")
    is_cut_off: bool = Field(description="True if the answer ended at the limit of tokens.")
    usage: PlaygroundUsage | None = Field(description="Null: no request was sent.")
    failure: PlaygroundFailure | None
    trace_id: str | None = Field(description="The trace of the answer; it may be found only after a second.")
    not_stored: str | None = Field(description="The reason why no trace was stored.")


class PlaygroundDocument(ApiAnswer):
    """The answers, in the order of the requests."""

    at_most: MostDocument
    answers: list[PlaygroundAnswerDocument]


router = api_router(prefix="/api/v1/playground")


@router.post("")
@needs(Permission.WRITE, by_tenant=True)
@response_model(PlaygroundDocument)
async def play(body: PlaygroundBody, context: ContextDep, caller: CallerDep) -> dict[str, Any]:
    """Continue a conversation with one or more models; the status is 200 if a model fails, too.

    Each request counts against the project's and the connection's budgets, and is stored as a trace, which
    rules ignore.
    """
    question = question_of(caller, body)
    prices = await asyncio.to_thread(priced, context, question, body)
    if body.price_only:
        answers = [StoredAnswer(priced=each, response=None) for each in prices]
    else:
        answers = await played(context, caller, question, prices, body)
    return {"atMost": _most(prices), "answers": [_answer(each) for each in answers]}


def _most(answers: list[PricedAnswer]) -> dict[str, Any]:
    """Sum up the maximum cost; USD are None if an answer has no price."""
    terms = [each.terms for each in answers if each.terms is not None]
    usd = [each.usd for each in terms]
    return {
        "calls": sum(each.adapted.attempts for each in terms),
        "inputTokens": sum(each.most.input_tokens for each in terms),
        "outputTokens": sum(each.most.output_tokens for each in terms),
        "costUsd": None if None in usd else sum(amount for amount in usd if amount is not None),
    }


def _answer(answer: StoredAnswer) -> dict[str, Any]:
    terms, response, problem = answer.priced.terms, answer.response, answer.priced.problem
    failed: dict[str, str | None] | None = None
    if problem is not None:
        failed = {"kind": "bad_configuration", "message": problem}
    if response is not None and response.error is not None:
        failed = {"kind": response.error_kind, "message": response.error}
    reply = None if response is None else response.reply
    return {
        "connectionId": answer.priced.wish.connection if terms is None else terms.stored.connection_id,
        "connection": None if terms is None else terms.stored.row.name,
        "model": answer.priced.wish.model if terms is None else terms.adapted.model,
        "atMost": _most([answer.priced]),
        "message": None if reply is None else reply_message(reply),
        "isCutOff": False if reply is None else reply.is_cut_off,
        "usage": response.usage.to_document() if response is not None and response.usage is not None else None,
        "failure": failed,
        "traceId": answer.trace_id,
        "notStored": answer.not_stored,
    }
