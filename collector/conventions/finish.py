"""Why the answer of a model ended: one word for it, however a library spells the reason and wherever it keeps it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from collector.conventions.collected import Collected
from collector.conventions.messages import tool_request
from collector.conventions.table import Slot
from collector.conventions.values import NotJson, as_dict, decode
from storage.records import JsonValue, Message

FINISH_REASONS: Final = ("stop", "length", "tool_call", "content_filter", "error", "other")
"""The words of OpenTelemetry GenAI, and one for all other reasons, such as Anthropic's `pause_turn`."""

_SPELLINGS: Final[Mapping[str, Sequence[str]]] = {
    "stop": (
        "stop", "end_turn", "stop_sequence", "completed", "complete", "end", "eos", "eos_token", "finish", "finished",
        "done", "success",
    ),
    "length": (
        "length", "max_tokens", "max_output_tokens", "max_completion_tokens", "max_length", "max_token", "token_limit",
        "model_length", "model_context_window_exceeded", "context_window_exceeded", "context_length",
    ),
    "tool_call": ("tool_call", "tool_calls", "tool_use", "tooluse", "toolcalls", "function_call", "function_calls"),
    "content_filter": (
        "content_filter", "contentfilter", "content_filtered", "safety", "recitation", "language", "blocklist",
        "prohibited_content", "spii", "image_safety", "refusal", "guardrail_intervened", "guardrails", "error_toxic",
        "sensitive",
    ),
    "error": ("error", "failed", "failure", "malformed_function_call", "unexpected_tool_call", "too_many_tool_calls"),
}  # fmt: skip
_WORDS: Final = {spelling: word for word, spellings in _SPELLINGS.items() for spelling in spellings}
_NOTHING: Final = frozenset({"none", "null", "unknown", "unspecified", "finish_reason_unspecified", "incomplete"})
_WORST_FIRST: Final = ("error", "content_filter", "length", "tool_call")
_WORD: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")
_LONGEST: Final = 200  # characters of a reason; a guess: the longest that was seen has 29
_KEYS: Final = ("finish_reason", "finishReason", "finish_reasons", "stop_reason", "stopReason", "done_reason")
_WRITTEN: Final = re.compile(r"finish_reason(?:=|\\?': ?)(?:<FinishReason\.|\\?')(\w{1,40})")
"""A reason in an object that Python wrote, of which nothing else may be JSON."""

_WITHIN: Final = (
    "choices", "candidates", "generations", "message", "messages", "kwargs", "data", "response_metadata",
    "responseMetadata", "generation_info", "generationInfo", "meta", "_meta", "response", "raw", "custom", "output",
    "outputs", "replies", "result", "delta", "llm_output", "lastMessage", "update",
)  # fmt: skip
"""The keys of what stands around a reason in an answer."""
_AROUND: Final = frozenset(_WITHIN)
_MAX_AROUND: Final = 8  # maps and lists around a reason; six were seen
_COMPLETED: Final = "completed"
_LAST: Final = 4  # of a list: the answer is at its end
ANSWERS: Final[Sequence[Slot]] = ("output_messages", "raw_dialogue", "output")
"""What may be the answer as a model sent it."""


def read_finish_reason(collected: Collected, answered: Sequence[Message] | None) -> str | None:
    """Return why the answer ended: by a field of its own, else by the messages, else by what the model sent."""
    for _, place, value, source in collected.candidates("finish_reasons"):
        reason = reason_of(collected.member(place, value, source) if place.path else value)
        if reason is not None:
            collected.sources["finish_reason"] = source
            return reason
    if collected.kind != "llm":
        return None
    reason = reason_of_messages(answered)
    if reason is not None:
        collected.sources["finish_reason"] = collected.sources.get("output_messages", "")
        return reason
    for slot in ANSWERS:
        for _, place, value, source in collected.candidates(slot):
            if place.is_group or (isinstance(value, str) and not may_tell_reason(value)):
                continue
            reason = reason_in(collected.opened(value, source) if isinstance(value, str) else value)
            if reason is None and isinstance(value, str) and (written := _WRITTEN.findall(value)):
                reason = reason_of(written[-1])
            if reason is not None:
                collected.sources["finish_reason"] = source
                return reason if reason != _COMPLETED else "stop" if tool_request(answered) is None else "tool_call"
    return None


def reason_of(value: object) -> str | None:
    """Return the word for a reason; of several choices the worst counts."""
    if isinstance(value, str):
        text = value.strip()[:_LONGEST]
        if text[:1] in ("[", "{", '"'):
            try:
                inner = decode(text)
            except NotJson:
                return None
            return None if isinstance(inner, str) and inner[:1] in ("[", "{", '"') else reason_of(inner)
        return _word(text)
    if isinstance(value, dict):  # Vercel's AI SDK 6 has a word of its own and the model's
        return next(filter(None, (reason_of(value.get(key)) for key in ("unified", "type", "reason", "raw"))), None)
    if isinstance(value, list | tuple):
        told = [word for item in value[:_LONGEST] if isinstance(item, str | dict) and (word := reason_of(item))]
        return next((word for word in _WORST_FIRST if word in told), told[0] if told else None)
    return None


@lru_cache(maxsize=1_024)  # texts of 200 characters at most
def _word(text: str) -> str | None:
    """Return the word for a text: `FinishReason.MAX_TOKENS`, `tool-calls`, and what streams join to `stopstop`."""
    plain = text.rpartition(".")[2].lower().replace("-", "_").replace(" ", "_").removeprefix("finish_reason_")
    half = plain[: len(plain) // 2]
    if plain == half * 2 and half in _WORDS:
        plain = half
    if not plain or plain in _NOTHING:
        return None
    return _WORDS.get(plain, "other" if _WORD.fullmatch(plain) else None)


def reason_of_messages(messages: Iterable[Message] | None) -> str | None:
    """Return the reason that the last message with one has."""
    return reason_of(last_finish(messages or ()))


def last_finish(messages: Iterable[Message]) -> str | None:
    """Return the reason that the last message with one has, as it was sent."""
    reasons = [reason for message in messages if isinstance(reason := message.get("finish_reason"), str)]
    return reasons[-1] if reasons else None


def may_tell_reason(text: str) -> bool:
    """Return whether it is worth opening an answer to look for a reason."""
    return (
        "finish" in text
        or "_reason" in text
        or "stopReason" in text
        or "incomplete_details" in text
        or '"response"' in text
    )


def reason_in(value: object, depth: int = _MAX_AROUND) -> str | None:
    """Return the reason in the decoded answer of a model, whichever vendor's."""
    if depth <= 0:
        return None
    if isinstance(value, list):
        items = value[: -_LAST - 1 : -1]
        return next((reason for item in items if (reason := reason_in(item, depth - 1)) is not None), None)
    if not isinstance(value, dict):
        return None
    for key in _KEYS:
        reason = reason_of(value[key]) if key in value else None
        if reason is not None:
            return reason
    if "incomplete_details" in value or value.get("object") == "response":
        return _of_response(value)
    for key in () if _AROUND.isdisjoint(value) else _WITHIN:
        inner = value.get(key)
        reason = reason_in(inner, depth - 1) if isinstance(inner, list | dict) else None
        if reason is not None:
            return reason
    return None


def _of_response(value: dict[str, JsonValue]) -> str | None:
    """Return the reason of an answer of OpenAI's responses, which has a status instead of one; it tells no calls."""
    status = value.get("status")
    return reason_of(as_dict(value.get("incomplete_details")).get("reason")) or (
        _COMPLETED if status == _COMPLETED else reason_of(status)
    )
