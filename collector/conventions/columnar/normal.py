"""Messages that came in the normal form already: checked with one typed parse, and kept as they came."""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from collector.conventions.parts import may_hide_blocks
from collector.conventions.unwrap import WRITTEN
from collector.conventions.values import MAX_DEPTH


class _Text(msgspec.Struct, tag_field="type", tag="text"):
    content: str


class _Reasoning(msgspec.Struct, tag_field="type", tag="reasoning", forbid_unknown_fields=True):
    content: str


_Json = dict[str, msgspec.Raw] | list[msgspec.Raw] | str | float | bool | None


class _Call(msgspec.Struct, tag_field="type", tag="tool_call", forbid_unknown_fields=True):
    id: str | None
    name: str | None
    arguments: _Json


class _Response(msgspec.Struct, tag_field="type", tag="tool_call_response", forbid_unknown_fields=True):
    id: str | None
    response: _Json
    name: str | msgspec.UnsetType = msgspec.UNSET


class _NormalMessage(msgspec.Struct, forbid_unknown_fields=True):
    role: Literal["user", "assistant", "system", "tool"]
    parts: list[_Text | _Reasoning | _Call | _Response]
    name: str | msgspec.UnsetType = msgspec.UNSET
    finish_reason: str | msgspec.UnsetType = msgspec.UNSET


_DECODER: Final = msgspec.json.Decoder(list[_NormalMessage])

MAYBE_JSON: Final = frozenset("{[\"'(-.0123456789tfnNIb \t\r\n")
"""How a text can begin that is JSON or a literal, which would be opened."""

_WRAPPED: Final = ("kwargs", "input_str")
_LAYERS: Final = frozenset({"toolResult", "lc", "type", "output", "content", "blocks", "response"})
"""Keys of what frameworks wrap around arguments and results."""


class NormalMessages(NamedTuple):
    """Messages in the normal form: the last words of the user, those of the answer, whether tools are called."""

    asked: str | None
    answered: str | None
    has_calls: bool


def said(text: str) -> NormalMessages | None:
    """What a text says that holds nothing but messages in the normal form; None where it takes a closer look."""
    if text.count("[") + text.count("{") > MAX_DEPTH or "\\ud" in text:
        return None
    try:
        messages = _DECODER.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return None
    has_calls = was_calling = False
    for message in messages:
        calls = _check(message)
        if calls is None or (calls and was_calling):
            return None
        was_calling = calls and message.role == "assistant"
        has_calls = has_calls or calls
    if not any(message.parts for message in messages):
        return None
    return NormalMessages(_last_words(messages, "user"), _answer(messages), has_calls)


def _check(message: _NormalMessage) -> bool | None:
    """Whether a message has to do with tools; None where it is not quite in the normal form."""
    if message.name == "" or message.finish_reason == "":
        return None
    calls = responses = 0
    for part in message.parts:
        if isinstance(part, _Text):
            if not part.content or may_hide_blocks(part.content):
                return None
        elif isinstance(part, _Call):
            calls += 1
            if not _is_bare(part.arguments, _WRAPPED):
                return None
        elif not _is_plain(part):
            return None
        else:
            responses += isinstance(part, _Response)
    if message.role == "tool" and responses < len(message.parts):
        return None
    if responses and responses == len(message.parts) and message.role != "tool":
        return None
    return calls + responses > 0


def _is_plain(part: _Reasoning | _Response) -> bool:
    """Whether thoughts or a result stand as they are."""
    if isinstance(part, _Reasoning):
        return not may_hide_blocks(part.content)
    is_named = part.id is not None and part.name != ""
    return is_named and not isinstance(part.response, list) and _is_bare(part.response, _LAYERS)


def _is_bare(value: _Json, wrappings: Sequence[str] | frozenset[str]) -> bool:
    """Whether nothing is to be opened or unwrapped."""
    if isinstance(value, str):
        return (value[:1] not in MAYBE_JSON and not value.startswith(WRITTEN)) or not value
    return not isinstance(value, dict) or not any(key in value for key in wrappings)


def _answer(messages: Sequence[_NormalMessage]) -> str | None:
    if messages[-1].role in ("user", "system"):
        return None
    return _last_words(messages, "assistant")


def _last_words(messages: Sequence[_NormalMessage], role: str) -> str | None:
    for message in reversed(messages):
        if message.role == role:
            text = _words(message.parts)
            if text and not text.isspace():
                return text
    return None


def _words(parts: Sequence[object]) -> str:
    if len(parts) == 1 and isinstance(parts[0], _Text):
        return parts[0].content
    everything: list[str] = []
    since_tool: list[str] = []
    for part in parts:
        if isinstance(part, _Text):
            everything.append(part.content)
            since_tool.append(part.content)
        elif isinstance(part, _Response):
            since_tool = []
    return "\n".join(since_tool or everything)
