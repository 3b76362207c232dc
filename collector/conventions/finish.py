"""Finish reasons of answers: one word for each reason, from the spellings and positions of all libraries."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from collector.conventions.messages import ROLES, tool_request
from collector.conventions.pieces import pieces_of_stream
from collector.conventions.python_repr import is_written, written_object
from collector.conventions.slot_values import SlotValues
from collector.conventions.table import Slot
from collector.conventions.values import NotJson, as_dict, decode
from storage.records import JsonValue, Message, SpanEvent

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
_LONGEST: Final = 200  # characters of a reason, and reasons in a list; a guess: the longest that was seen has 29
_KEYS: Final = ("finish_reason", "finishReason", "finish_reasons", "stop_reason", "stopReason", "done_reason")
_WRITTEN: Final = re.compile(
    r"""(?:\bfinish_reason=|'finish_reason':\ ?)(?:<FinishReason\.|')(\w{1,40})"""
    r"""|'(?:[^'\\]|\\.?)*+(?:'|\Z)|"(?:[^"\\]|\\.?)*+(?:"|\Z)""",
    re.DOTALL,
)
"""Pattern of a reason in an object's Python repr, outside of string literals. Parsing all of the repr takes a hundred
times as long."""

_OBJECT: Final = re.compile(r"[A-Z]\w*\(\w+=")
_MAPS: Final = ("message", "delta", "kwargs", "response_metadata", "responseMetadata", "content")
_LISTS: Final = ("choices", "candidates", "generations", "messages", "replies", "parts", "content")
_COUNTS: Final = ("usage", "usage_metadata", "usageMetadata")
_AROUND_ANSWERS: Final = frozenset({*_MAPS, *_LISTS, *_COUNTS, "role", "output"})

_WITHIN: Final = (
    "choices", "candidates", "generations", "message", "messages", "kwargs", "data", "response_metadata",
    "responseMetadata", "generation_info", "generationInfo", "meta", "_meta", "response", "raw", "custom", "output",
    "outputs", "replies", "result", "delta", "llm_output", "lastMessage", "update",
)  # fmt: skip
"""Keys of an answer below which there may be a reason."""
_AROUND: Final = frozenset(_WITHIN)
_MAX_AROUND: Final = 8  # maps and lists around a reason; six were seen
_HAS_REASON: Final = '"finish_reason": "'
_COMPLETED: Final = "completed"
_LAST: Final = 4  # of a list: the answer is at its end
ANSWERS: Final[Sequence[Slot]] = ("output_messages", "raw_dialogue", "output")
"""Slots that may hold the answer as a model sent it."""


def read_finish_reason(slot_values: SlotValues, answered: Sequence[Message] | None) -> str | None:
    """Return why the answer ended: by a field of its own, else by the messages, else by what the model sent."""
    for _, place, value, source in slot_values.candidates("finish_reasons"):
        reason = reason_of(slot_values.member(place, value, source) if place.path else value)
        if reason is not None:
            slot_values.sources["finish_reason"] = source
            return reason
    if slot_values.kind != "llm":
        return None
    reason = reason_of_messages(answered)
    if reason is not None:
        slot_values.sources["finish_reason"] = slot_values.sources.get("output_messages", "")
        return reason
    for slot in ANSWERS:
        for _, place, value, source in slot_values.candidates(slot):
            if place.is_group or (isinstance(value, str) and not may_tell_reason(value)):
                continue
            reason = reason_in(slot_values.opened(value, source) if isinstance(value, str) else value)
            if reason is not None:
                slot_values.sources["finish_reason"] = source
                if reason == "stop" and slot_values.tells("calls_beside"):
                    return _of_stream(slot_values.span.events) or reason
                return reason if reason != _COMPLETED else "stop" if tool_request(answered) is None else "tool_call"
    return None


def _of_stream(events: Iterable[SpanEvent]) -> str | None:
    reasons = [reason_in(piece) for piece in pieces_of_stream(events, _HAS_REASON)]
    return next((reason for reason in reversed(reasons) if reason is not None), None)


def reason_of(value: object) -> str | None:
    """Return the word for a reason; of several choices the worst counts."""
    if isinstance(value, str):
        text = value.strip()
        if text[:1] in ("[", "{", '"'):
            try:
                inner = decode(text)
            except NotJson:
                return None
            return None if isinstance(inner, str) and inner[:1] in ("[", "{", '"') else reason_of(inner)
        return _word(text[:_LONGEST])
    if isinstance(value, dict):  # Vercel's AI SDK 6 has a word of its own and the model's
        return next(filter(None, (reason_of(value.get(key)) for key in ("unified", "type", "reason", "raw"))), None)
    if isinstance(value, list | tuple):
        reasons = [word for item in value[:_LONGEST] if isinstance(item, str | dict) and (word := reason_of(item))]
        return next((word for word in _WORST_FIRST if word in reasons), reasons[0] if reasons else None)
    return None


@lru_cache(maxsize=1_024)  # texts of 200 characters at most
def _word(text: str) -> str | None:
    """Return the word for a text such as `FinishReason.MAX_TOKENS`, `tool-calls` or `stopstop` (of two chunks)."""
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
    """Return whether an answer may contain a finish reason, so that it is worth parsing."""
    return (
        "finish" in text
        or "_reason" in text
        or "stopReason" in text
        or "incomplete_details" in text
        or '"response"' in text
    )


def reason_in(value: object, depth: int = _MAX_AROUND, *, is_within: bool = False) -> str | None:
    """Return the reason in the decoded answer of a model, whichever vendor's, or `completed` of OpenAI's responses.

    `is_within`: an object around it is an answer.
    """
    if depth <= 0:
        return None
    if isinstance(value, str):
        return _reason_written(value)
    if isinstance(value, list):
        items = value[: -_LAST - 1 : -1]
        reasons = (reason_in(item, depth - 1, is_within=is_within) for item in items)
        return next(filter(None, reasons), None)
    if not isinstance(value, dict):
        return None
    is_within = is_within or is_response(value)
    for key in _KEYS if is_within else ():
        reason = reason_of(value[key]) if key in value else None
        if reason is not None:
            return reason
    if "incomplete_details" in value or value.get("object") == "response":
        return _of_response(value)
    for key in () if _AROUND.isdisjoint(value) else _WITHIN:
        inner = value.get(key)
        reason = reason_in(inner, depth - 1, is_within=is_within) if inner else None
        if reason is not None:
            return reason
    return None


def is_response(value: dict[str, JsonValue]) -> bool:
    """Return whether a map is an answer as a vendor or a framework sends it: an answer in JSON may have any keys."""
    if _AROUND_ANSWERS.isdisjoint(value):
        return False
    for key in _AROUND_ANSWERS.intersection(value):  # a loop: generators take twice as long
        item = value[key]
        if isinstance(item, dict):
            if key in _MAPS or (key in _COUNTS and has_counts(item)) or (key == "output" and "message" in item):
                return True
        elif (isinstance(item, list) and key in _LISTS and is_of_maps(item)) or (
            isinstance(item, str) and key == "role" and item.lower() in ROLES
        ):
            return True
    return False


def is_of_maps(value: JsonValue) -> bool:
    """Return whether a value is a list of maps, of lists, or of Python reprs of objects."""
    first = value[0] if isinstance(value, list) and value else None
    return isinstance(first, dict | list) or (isinstance(first, str) and is_written(first))


def has_counts(value: JsonValue) -> bool:
    """Return whether a value is a map with counts."""
    return isinstance(value, dict) and (not value or any(isinstance(count, int) for count in value.values()))


def _reason_written(text: str) -> str | None:
    """Return the last reason in the Python repr of an object."""
    if "finish_reason" not in text or not is_written(text):
        return None
    if not (text.endswith(")") and _OBJECT.match(text)) and written_object(text) is None:
        return None
    reasons = [match[1] for match in _WRITTEN.finditer(text) if match[1]]
    return reason_of(reasons[-1]) if reasons else None


def _of_response(value: dict[str, JsonValue]) -> str | None:
    status = value.get("status")
    return reason_of(as_dict(value.get("incomplete_details")).get("reason")) or (
        _COMPLETED if status == _COMPLETED else reason_of(status)
    )
