"""The playground, for the API's route and for the page: prices, responses, and their traces."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic.alias_generators import to_camel

from collector.access.caller import Caller
from collector.api.base.context import Context
from collector.api.responses.base import JsonObject
from collector.conventions.definitions import definitions_of, once_by_name
from collector.listeners.status import failure_of
from collector.live.judges.playground import (
    MOST_ANSWERS,
    AnswerTerms,
    AnswerWish,
    GivenAnswer,
    PlaygroundQuestion,
)
from collector.live.judges.playground_trace import PlaygroundOrigin, trace_of
from evaluators.chat.dialogue import ROLES, ChatDialogue, NotSendable
from evaluators.errors import BadConfiguration
from storage.errors import BadQuery
from storage.records import Message

log = logging.getLogger(__name__)

_MOST_MESSAGES: Final = 500
_MOST_TOOLS: Final = 200
_MOST_OUTPUT: Final = 200_000
_NAME: Final = 200
"""Guesses, as are the limits above: more text than a person reads, and more tools than an agent is offered."""


class WishBody(BaseModel):
    """The connection and the model of one answer."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True)

    connection_id: Annotated[str, Field(min_length=1, max_length=_NAME, description="By its id or its name.")]
    model: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=_NAME,
            description="Another model than the connection's; the connection must not be a shared one then.",
        ),
    ] = None


class OriginBody(BaseModel):
    """The span that the conversation was taken from."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True)

    trace_id: Annotated[str, Field(pattern=r"^[0-9a-fA-F]{32}$")]
    span_id: Annotated[str, Field(pattern=r"^[0-9a-fA-F]{16}$")]


class PlaygroundBody(BaseModel):
    """A conversation, and the models that continue it."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True)

    messages: Annotated[
        list[JsonObject],
        Field(
            min_length=1,
            max_length=_MOST_MESSAGES,
            description="In the form of a span's messages: role and parts; or role and content, a plain text.",
        ),
    ]
    tools: Annotated[
        list[JsonObject], Field(max_length=_MOST_TOOLS, description="name, description, and parameters (JSON Schema).")
    ] = []
    answers: Annotated[list[WishBody], Field(min_length=1, max_length=MOST_ANSWERS)]
    temperature: Annotated[float | None, Field(ge=0, le=2)] = None
    top_p: Annotated[float | None, Field(gt=0, le=1)] = None
    max_output_tokens: Annotated[int | None, Field(ge=1, le=_MOST_OUTPUT)] = None
    reasoning_effort: Annotated[str | None, Field(pattern=r"^[a-z]{1,20}$")] = None
    retries: Annotated[
        bool, Field(description="Retry failed requests, up to `limits.attempts` of the connection; else one attempt.")
    ] = False
    project: Annotated[
        str | None, Field(min_length=1, max_length=_NAME, description="A project whose budget is charged as well.")
    ] = None
    origin: Annotated[OriginBody | None, Field(description="The span that the conversation is from.")] = None
    price_only: Annotated[bool, Field(description="Return the maximum cost, and call no model.")] = False

    @field_validator("messages")
    @classmethod
    def _are_messages(cls, messages: list[JsonObject]) -> list[JsonObject]:
        return [_message(place, message) for place, message in enumerate(messages)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedAnswer:
    """A requested answer with its maximum cost, or why its model cannot be called."""

    wish: AnswerWish
    terms: AnswerTerms | None
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """Response of a model, and the trace that records it."""

    priced: PricedAnswer
    response: GivenAnswer | None  # None: no model could be called
    trace_id: str | None = None
    not_stored: str | None = None  # the reason why no trace was stored


def question_of(caller: Caller, body: PlaygroundBody) -> PlaygroundQuestion:
    """Return the question to ask, for the caller's tenant."""
    return PlaygroundQuestion(
        tenant=caller.tenant,
        project=body.project,
        dialogue=ChatDialogue(
            messages=body.messages, tools=once_by_name(definitions_of(list(body.tools))), top_p=body.top_p
        ),
        max_output_tokens=body.max_output_tokens,
        temperature=body.temperature,
        reasoning_effort=body.reasoning_effort,
        retries=body.retries,
    )


def priced(context: Context, question: PlaygroundQuestion, body: PlaygroundBody) -> list[PricedAnswer]:
    """Return the maximum cost of each answer, without calling a model."""
    wishes = [AnswerWish(connection=each.connection_id, model=each.model) for each in body.answers]
    return [_priced(context, question, wish) for wish in wishes]


def _priced(context: Context, question: PlaygroundQuestion, wish: AnswerWish) -> PricedAnswer:
    try:
        return PricedAnswer(wish=wish, terms=context.playground.terms(question, wish), problem=None)
    except (BadConfiguration, BadQuery, NotSendable) as error:
        return PricedAnswer(wish=wish, terms=None, problem=str(error))


async def played(
    context: Context, caller: Caller, question: PlaygroundQuestion, prices: Sequence[PricedAnswer], body: PlaygroundBody
) -> list[StoredAnswer]:
    """Call the models, and store each answer as a trace of its own before returning them.

    Raises:
        Overloaded: too many calls are running; no model was called.
    """
    terms = [each.terms for each in prices if each.terms is not None]
    responses = iter(await asyncio.to_thread(context.playground.ask, question, terms) if terms else ())
    answers = [StoredAnswer(priced=each, response=None if each.terms is None else next(responses)) for each in prices]
    return list(await asyncio.gather(*(_stored(context, caller, question, each, body.origin) for each in answers)))


async def _stored(
    context: Context, caller: Caller, question: PlaygroundQuestion, answer: StoredAnswer, origin: OriginBody | None
) -> StoredAnswer:
    """Store the answer as a trace. A failure sets `not_stored` and is not raised, since the answer was paid for."""
    if answer.response is None:
        return answer
    source = None
    if origin is not None:
        source = PlaygroundOrigin(trace_id=origin.trace_id.lower(), span_id=origin.span_id.lower())
    trace = trace_of(question, answer.response, source)
    try:
        receipt = await context.reader.take(trace.body, caller)
    except Exception as error:  # noqa: BLE001 - the answer is returned in any case
        failure = failure_of(error)
        log.warning("a response of the playground is not stored: %s", failure.message)
        return replace(answer, not_stored=failure.message)
    return replace(answer, trace_id=trace.trace_id) if receipt.accepted else replace(answer, not_stored=receipt.message)


def _message(place: int, message: JsonObject) -> Message:
    role, parts, content = message.get("role"), message.get("parts"), message.get("content")
    if role not in (*ROLES, "developer"):
        raise ValueError(f"{place}.role: must be one of {', '.join(ROLES)}, developer")
    if parts is None and isinstance(content, str):
        return {"role": str(role), "parts": [{"type": "text", "content": content}]}
    if not isinstance(parts, list) or not all(_is_part(part) for part in parts):
        raise ValueError(f"{place}.parts: must be a list of objects, each with a type, or content a text instead")
    return {"role": str(role), "parts": parts}


def _is_part(part: Any) -> bool:  # noqa: ANN401 - JSON
    return isinstance(part, dict) and isinstance(part.get("type"), str)
