"""A chat model as a judge: asks, and parses the requested fields from the reply."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from evaluators.chat.client import Answered, ChatModel, ModelCallFailed
from evaluators.chat.reply import NoVerdict, find_reply
from evaluators.chat.request_budget import ASSUMED_OUTPUT_TOKENS, RequestBudget, UnlimitedBudget
from evaluators.chat.wire import ChatPrompt
from evaluators.judge_interface import PromptMessage, Reply, UnusableAnswer
from evaluators.prompting import fences_of
from storage.limit import Limit
from storage.records import JsonValue

_SHOWN_CHARACTERS = 200

_CHARACTERS_PER_TOKEN: Final = 16
"""Maximum characters of an answer per requested output token; a longer one is refused unparsed. English has four."""

_READ_AT_ONCE: Final = 2_000
"""Maximum characters parsed in the event loop, in 4 ms at worst; longer texts are parsed in a thread."""


class ChatJudge:
    """Implements `evaluators.judge_interface.Judge` over a chat model.

    A field whose schema has a `default` is requested like the others and may be missing from the answer.
    """

    def __init__(self, model: ChatModel, request_budget: RequestBudget | None = None) -> None:
        """`request_budget` pays for requests; without one, they are not counted."""
        self._model = model
        self._request_budget = request_budget or UnlimitedBudget()

    @property
    def model(self) -> str:
        """Return the model that is asked for, which is part of an evaluator's fingerprint."""
        return self._model.connection.model

    @property
    def parameters(self) -> Mapping[str, JsonValue]:
        """Return the other parameters of a request that affect its answers."""
        return self._model.parameters

    async def __call__(self, messages: Sequence[PromptMessage], schemas: Mapping[str, JsonValue]) -> Reply:
        """Ask the model, and return the requested fields of its reply.

        Raises:
            ModelCallFailed: the model could not be asked, or would not answer.
            EvaluationError: the request_budget refused a request, for example as `OverBudget`.
            UnusableAnswer: the reply is not a verdict (`find_reply`), unfinished, one of several, or far too long.
        """
        answered = await self._model.ask(_as_prompt(messages), _form(schemas), self._request_budget)
        judged = "\n".join(text for message in messages for text in fences_of(message.content))
        return Reply(fields=await self._read(answered, schemas, judged), usage=answered.usage)

    async def _read(self, answered: Answered, schemas: Mapping[str, JsonValue], judged: str) -> dict[str, JsonValue]:
        text = answered.answer.text
        most = _CHARACTERS_PER_TOKEN * (self._model.connection.max_output_tokens or ASSUMED_OUTPUT_TOKENS)
        if len(text) > most:
            remedy = "let the judge reply with less, or raise maxOutputTokens"
            limit = Limit(value=most, unit="characters", remedy=remedy)
            why = f"has {len(text):,} characters, which is more than {limit}"
            raise UnusableAnswer(f"the reply {why}: {_shown(text[:most])}", answered.usage)
        read = partial(_fields, answered, schemas, judged)
        is_short = len(text) <= _READ_AT_ONCE and len(judged) <= _READ_AT_ONCE
        return read() if is_short else await self._model.reading.spend(read)


def _fields(answered: Answered, schemas: Mapping[str, JsonValue], judged: str) -> dict[str, JsonValue]:
    answer = answered.answer
    if answer.refusal is not None:
        declined = ModelCallFailed("declined", f"the model declined: {_shown(answer.refusal)}")
        declined.usage = answered.usage
        raise declined
    if answer.is_cut_off or answer.wants_tools:
        why = f"is not finished ({answer.finish or 'it has a tool call'})"
        raise UnusableAnswer(f"the reply {why}: {_shown(answer.text)}", answered.usage, "truncated")
    if answer.answers > 1:
        why = f"is one of {answer.answers} choices, though one was requested"
        raise UnusableAnswer(f"the reply {why}: {_shown(answer.text)}", answered.usage)
    required = [name for name, schema in schemas.items() if not _may_be_missing(schema)]
    try:
        optional = [name for name in schemas if name not in required]
        return find_reply(answer.text, required, judged, optional)
    except NoVerdict as error:
        raise UnusableAnswer(f"the reply {error}: {_shown(answer.text)}", answered.usage, error.kind) from None


def _as_prompt(messages: Sequence[PromptMessage]) -> ChatPrompt:
    system, user = (
        "\n\n".join(message.content for message in messages if message.role == role) for role in ("system", "user")
    )
    return ChatPrompt(system=_sendable(system), user=_sendable(user))


def _sendable(text: str) -> str:
    # JSON can express lone surrogates, which UTF-8 cannot encode.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _form(schemas: Mapping[str, JsonValue]) -> dict[str, Any]:
    """Return the schema for strict structured output: all properties required, no others allowed, no defaults."""
    properties = {
        name: {key: value for key, value in schema.items() if key != "default"} if isinstance(schema, dict) else schema
        for name, schema in schemas.items()
    }
    return {"type": "object", "properties": properties, "required": [*schemas], "additionalProperties": False}


def _may_be_missing(schema: JsonValue) -> bool:
    return isinstance(schema, dict) and "default" in schema


def _shown(text: str) -> str:
    line = " ".join(text[: 10 * _SHOWN_CHARACTERS].split())
    return repr(line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}…")
