"""The protocols of chat models as tables: how a request is built and where the reply is."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from evaluators.regular import encodable
from storage.records import JsonValue

Call = dict[str, JsonValue]


def chat_calls(message: dict[str, JsonValue]) -> Iterator[Call]:
    """Yield the tool calls of a message of Chat Completions."""
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(call, dict) and isinstance(function, dict):
            yield _call(call.get("id"), function.get("name"), function.get("arguments"))


def responses_calls(output: list[JsonValue]) -> Iterator[Call]:
    """Yield the tool calls among the items of a response of Responses."""
    for item in output:
        if isinstance(item, dict) and item.get("type") == "function_call":
            yield _call(item.get("call_id"), item.get("name"), item.get("arguments"))


def anthropic_calls(content: list[JsonValue]) -> Iterator[Call]:
    """Yield the tool calls among the blocks of a response of Anthropic."""
    for block in content:
        if isinstance(block, dict) and block.get("type") == "tool_use":
            yield _call(block.get("id"), block.get("name"), block.get("input"))


def _call(call_id: JsonValue, name: JsonValue, arguments: JsonValue) -> Call:
    if isinstance(arguments, str):
        with suppress(ValueError, RecursionError):  # text that is not JSON stays as the model wrote it
            arguments = json.loads(arguments)
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}


Protocol: TypeAlias = Literal["RESPONSES", "CHAT_COMPLETIONS", "ANTHROPIC"]
JsonSchema: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPrompt:
    """Prompt of a judge: its instructions, and the data to judge."""

    system: str
    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """Reply of a model."""

    text: str  # empty if it wrote nothing
    refusal: str | None  # why it would not answer
    finish: str | None  # why it ended, in the endpoint's words; None if the endpoint gives no reason
    model: str | None  # as the endpoint names it
    input_tokens: int | None
    output_tokens: int | None
    calls: tuple[Call, ...] = ()  # of tools that it was offered
    answers: int = 1  # in the response; if a gateway sends several choices, none of them is the reply

    @property
    def is_cut_off(self) -> bool:
        """Return True if the reply ended before it was complete."""
        return self.refusal is None and not _is_normal(self.finish) and not self._is_calling

    @property
    def wants_tools(self) -> bool:
        """Return True if the model waits for the result of a tool."""
        return bool(self.calls) or self._is_calling

    @property
    def _is_calling(self) -> bool:
        return self.finish is not None and _bare(self.finish) in _CALLING

    def __post_init__(self) -> None:
        # JSON can spell half a surrogate pair, and what stores or shows a reply is UTF-8.
        for name in ("text", "refusal", "finish", "model"):
            if (text := getattr(self, name)) is not None:
                object.__setattr__(self, name, encodable(text))
        if self.calls:
            object.__setattr__(self, "calls", tuple(json.loads(encodable(json.dumps(self.calls, ensure_ascii=False)))))


_COMPLETE: Final = {"stop", "end_turn", "stop_sequence", "eos", "eos_token", "end", "complete", "completed", "finished"}
_CALLING: Final = {"tool_calls", "tool_use", "function_call", "tool_call"}
_FAILED: Final = ("incomplete", "failed", "error", "cancelled")
_DECLINED: Final = {
    *("content_filter", "content_filtered", "content_policy_violation", "refusal", "safety", "image_safety"),
    *("recitation", "blocklist", "prohibited_content", "spii", "guardrail_intervened", "error_toxic", "sensitive"),
}
"""Finish reasons that mean a refusal, of the protocols and of gateways, in lower case."""


_CUT_OFF: Final = {"length", "max_tokens", "max_output_tokens", "model_length"}
_OTHER_REASONS: Final = ("stop_reason", "done_reason", "finishReason")
"""Keys of finish reasons in other protocols, which gateways pass on. Some servers put the stop sequence there."""


def _is_known(reason: object) -> bool:
    return isinstance(reason, str) and _bare(reason) in _CUT_OFF | _DECLINED


def _bare(finish: str) -> str:
    return finish.strip().lower().removeprefix("finish_reason_")


def _is_normal(finish: str | None) -> bool:
    return finish is None or _bare(finish) in _COMPLETE


def _finish(*reasons: object) -> str | None:
    words = [word for word in map(_word, reasons) if word is not None]
    declined = (word for word in words if _bare(word) in _DECLINED)
    unusual = (word for word in words if not _is_normal(word))
    return next(iter((*declined, *unusual, *words)), None)


def _refusal(refusal: object, finish: str | None) -> str | None:
    if refusal:
        return str(refusal)
    return f"its content filter stopped it ({finish})" if finish is not None and _bare(finish) in _DECLINED else None


class TokenCounts(NamedTuple):
    """The tokens of one request as the endpoint counts them.

    None if the endpoint does not; `input_tokens` is also None if the endpoint counts 0.
    """

    input_tokens: int | None
    output_tokens: int | None


NOT_COUNTED: Final = TokenCounts(None, None)


class UnexpectedResponse(Exception):
    """The response is not an answer of the protocol, or too large; the message has the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatProtocol:
    """One protocol. `request` takes a schema for structured output, or None if the endpoint refuses one.

    `most_tokens` is the key that limits the length of a reply, `most_tokens_else` the key for a model that refuses the
    first one; `effort` returns the part of the request that sets the reasoning effort.
    """

    path: str  # below the address of the API
    request: Callable[[str, ChatPrompt, JsonSchema | None], dict[str, Any]]
    most_tokens: str
    effort: Callable[[str], dict[str, Any]]
    answer: Callable[[object], ModelReply]
    tokens: Callable[[object], TokenCounts]  # of a response, also of one that is not an answer
    member: str  # key of the answer in a response
    key_header: str = "Authorization"
    key_value: str = "Bearer {key}"
    headers: Mapping[str, str] = field(default_factory=dict)  # that every request has
    needs_most_tokens: bool = False
    most_tokens_else: str = ""  # "": no other key


def _chat_request(model: str, prompt: ChatPrompt, schema: JsonSchema | None) -> dict[str, Any]:
    messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}]
    request: dict[str, Any] = {"model": model, "messages": messages}
    if schema is not None:
        form = {"name": "judgement", "schema": schema, "strict": True}
        request["response_format"] = {"type": "json_schema", "json_schema": form}
    return request


def _responses_request(model: str, prompt: ChatPrompt, schema: JsonSchema | None) -> dict[str, Any]:
    content = [{"type": "input_text", "text": prompt.user}]
    request: dict[str, Any] = {
        "model": model,
        "instructions": prompt.system,
        "input": [{"role": "user", "content": content}],
        "store": False,  # production data must not stay with the provider
    }
    if schema is not None:
        request["text"] = {"format": {"type": "json_schema", "name": "judgement", "schema": schema, "strict": True}}
    return request


def _anthropic_request(model: str, prompt: ChatPrompt, schema: JsonSchema | None) -> dict[str, Any]:
    request: dict[str, Any] = {
        "model": model,
        "system": prompt.system,
        "messages": [{"role": "user", "content": prompt.user}],
    }
    if schema is not None:
        request["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    return request


def _chat_answer(document: object) -> ModelReply:
    body = _mapping(document, "the answer")
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices:
        raise UnexpectedResponse("it has no choices")
    read = [_choice(_mapping(each, "one of its choices")) for each in choices]
    answers = [each for each in read if each.text or each.refusal or each.calls]
    first = answers[0] if answers else read[0]
    finish = _finish(
        *(reason for each in read for reason in each.reasons),
        body.get("finish_reason"),
        status if (status := body.get("status")) in _FAILED else None,
    )
    return ModelReply(
        text=first.text,
        refusal=_refusal("; ".join(each.refusal for each in read if each.refusal), finish),
        finish=finish,
        model=_name(body),
        **_chat_tokens(body)._asdict(),
        calls=first.calls,
        answers=max(len(answers), 1),
    )


class _Choice(NamedTuple):
    """One of the choices of a response; each is an answer to the same request."""

    text: str
    refusal: str  # empty if it does not refuse
    reasons: tuple[object, ...]  # why it ended
    calls: tuple[Call, ...]


def _choice(choice: Mapping[str, Any]) -> _Choice:
    message = _mapping(choice.get("message"), "the message of a choice")
    _check_role(message)
    refusal = message.get("refusal") or choice.get("refusal") or _refusals(_parts(message.get("content")))
    reasons = (
        choice.get("finish_reason"),
        choice.get("native_finish_reason"),  # of the provider behind a gateway
        message.get("finish_reason"),
        _member(choice.get("finish_details"), "type"),
        *(reason for key in _OTHER_REASONS for reason in (choice.get(key), message.get(key)) if _is_known(reason)),
        "content_filter" if _is_filtered(choice) else None,
        "tool_calls" if message.get("tool_calls") or message.get("function_call") else None,
    )
    text = _text(message.get("content"))
    return _Choice(text, str(refusal) if refusal else "", reasons, tuple(chat_calls(message)))


def _responses_answer(document: object) -> ModelReply:
    body = _mapping(document, "the answer")
    output = body.get("output")
    if not isinstance(output, list):
        raise UnexpectedResponse("it has no output")
    items = [item for item in output if isinstance(item, dict)]
    messages = [item for item in items if _kind(item) == "message" and item.get("role") in (None, "assistant")]
    final = [item for item in messages if _word(item.get("phase") or item.get("channel")) in _FINAL_PHASES]
    calls = tuple(responses_calls(output))
    shown = messages if calls else final  # a commentary is not an answer, but goes with calls
    incomplete = body.get("incomplete_details") or None
    finish = _finish(
        _member(incomplete, "reason"),
        body.get("status"),
        "incomplete" if incomplete else None,
        *(item.get("status") for item in messages),
        *(_kind(item) for item in items if not _goes_on(_kind(item))),
    )
    parts = [part for item in messages for part in _parts(item.get("content"))]
    return ModelReply(
        text="".join(_text(item.get("content")) for item in shown),
        refusal=_refusal(_refusals([*items, *parts]), finish),
        finish=finish,
        model=_name(body),
        **_responses_tokens(body)._asdict(),
        calls=calls,
    )


def _anthropic_answer(document: object) -> ModelReply:
    body = _mapping(document, "the answer")
    content = body.get("content")
    if not isinstance(content, list):
        raise UnexpectedResponse("it has no content")
    _check_role(body)
    finish = _finish(body.get("stop_reason"), _member(body.get("stop_details"), "type"))
    text = _text(content)
    return ModelReply(
        text=text,
        refusal=_refusal(_refusals(_parts(content)) or (text if finish == "refusal" else None), finish),
        finish=finish,
        model=_name(body),
        **_anthropic_tokens(body)._asdict(),
        calls=tuple(anthropic_calls(content)),
    )


_ANTHROPIC_INPUT: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
"""The counts that sum to the input tokens: the first excludes tokens written to a cache or read from it."""


_MOST_TOKENS: Final = 10**12
"""More tokens than any request can use; larger counts are ignored, as their sums would not fit a column."""


def _mapping(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UnexpectedResponse(f"{what} is not an object")
    return value


def _member(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, dict) else value


def _check_role(message: Mapping[str, Any]) -> None:
    if message.get("role") in _ROLES_OF_PROMPTS:
        raise UnexpectedResponse(f"its message is of the role {message['role']}")


_ROLES_OF_PROMPTS: Final = ("user", "system", "developer", "tool")


def _is_filtered(choice: Mapping[str, Any]) -> bool:
    categories: list[object] = []
    for results in (choice.get("content_filter_results"), choice.get("safety_ratings")):
        categories += results.values() if isinstance(results, dict) else results if isinstance(results, list) else ()
    return any(
        isinstance(category, dict) and True in (category.get("filtered"), category.get("blocked"))
        for category in categories
    )


def _kind(item: Mapping[str, Any]) -> str:
    return str(item.get("type") or "message")


def _goes_on(kind: str) -> bool:
    return kind in _PASSING or kind.endswith(("_search_call", "_output"))


_PASSING: Final = {
    *("message", "reasoning", "refusal", "compaction"),
    *("code_interpreter_call", "image_generation_call", "mcp_call", "mcp_list_tools"),
}
_FINAL_PHASES: Final = (None, "final", "final_answer")


def _refusals(parts: list[dict[str, Any]]) -> str:
    refused = (part for part in parts if part.get("type") == "refusal")
    return "; ".join(str(part.get("refusal") or part.get("text") or "it refused") for part in refused)


def _word(value: object) -> str | None:
    return None if value is None or value == "" else str(value)[:100]


def _parts(content: object) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _text(content: object) -> str:
    parts = [part for part in _parts(content) if part.get("thought") is not True]  # Gemini marks reasoning so
    texts = [part.get("text") for part in parts if part.get("type") in {"text", "output_text"}]
    return "".join(text for text in texts if isinstance(text, str))


def _name(body: Mapping[str, Any]) -> str | None:
    name = body.get("model")
    return name if isinstance(name, str) and name else None


def _chat_tokens(document: object) -> TokenCounts:
    return TokenCounts(_count(document, "prompt_tokens") or None, _count(document, "completion_tokens"))


def _responses_tokens(document: object) -> TokenCounts:
    return TokenCounts(_count(document, "input_tokens") or None, _count(document, "output_tokens"))


def _anthropic_tokens(document: object) -> TokenCounts:
    counts = [_count(document, key) for key in _ANTHROPIC_INPUT]
    of_input = None if counts[0] is None else sum(count or 0 for count in counts) or None
    return TokenCounts(of_input, _count(document, "output_tokens"))


def _count(document: object, key: str) -> int | None:
    usage = document.get("usage") if isinstance(document, dict) else None
    count = usage.get(key) if isinstance(usage, dict) else None
    return count if isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= _MOST_TOKENS else None


WIRES: Final[Mapping[Protocol, ChatProtocol]] = {
    "RESPONSES": ChatProtocol(
        path="/responses",
        request=_responses_request,
        most_tokens="max_output_tokens",
        effort=lambda effort: {"reasoning": {"effort": effort}},
        answer=_responses_answer,
        tokens=_responses_tokens,
        member="output",
    ),
    "CHAT_COMPLETIONS": ChatProtocol(
        path="/chat/completions",
        request=_chat_request,
        most_tokens="max_tokens",  # accepted by all servers, except for reasoning models
        most_tokens_else="max_completion_tokens",
        effort=lambda effort: {"reasoning_effort": effort},
        answer=_chat_answer,
        tokens=_chat_tokens,
        member="choices",
    ),
    "ANTHROPIC": ChatProtocol(
        path="/messages",
        request=_anthropic_request,
        most_tokens="max_tokens",
        effort=lambda effort: {"output_config": {"effort": effort}},
        answer=_anthropic_answer,
        tokens=_anthropic_tokens,
        member="content",
        key_header="x-api-key",
        key_value="{key}",
        headers={"anthropic-version": "2023-06-01"},
        needs_most_tokens=True,
    ),
}
