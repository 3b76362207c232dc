"""Messages in the normal form, or nearly so: one typed parse checks them; they are stored as sent, or repaired."""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from collector.conventions.items_as_text import may_hide_blocks
from collector.conventions.parts import may_hide_thoughts
from collector.conventions.unwrap import WRITTEN
from collector.conventions.values import MAX_DEPTH, NotJson, decode, is_redacted
from storage.records import JsonValue


class _Text(msgspec.Struct, tag_field="type", tag="text"):
    content: str


class _TextAlone(msgspec.Struct, tag_field="type", tag="text", forbid_unknown_fields=True):
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
    response: _Json | msgspec.UnsetType = msgspec.UNSET
    name: str | msgspec.UnsetType = msgspec.UNSET
    result: _Json | msgspec.UnsetType = msgspec.UNSET  # what some call the response


class _NormalMessage(msgspec.Struct, forbid_unknown_fields=True):
    role: Literal["user", "assistant", "system", "tool"]
    parts: list[_Text | _Reasoning | _Call | _Response]
    name: str | msgspec.UnsetType = msgspec.UNSET
    finish_reason: str | msgspec.UnsetType = msgspec.UNSET


class _NearlyNormal(msgspec.Struct, forbid_unknown_fields=True):
    role: Literal["user", "assistant", "system", "tool"]
    parts: list[_TextAlone | _Reasoning | _Call | _Response]
    name: str | msgspec.UnsetType = msgspec.UNSET
    finish_reason: str | msgspec.UnsetType = msgspec.UNSET


_Messages: TypeAlias = Sequence[_NormalMessage | _NearlyNormal]
_DECODER: Final = msgspec.json.Decoder(list[_NormalMessage])
_STRICT: Final = msgspec.json.Decoder(list[_NearlyNormal])

MAYBE_JSON: Final = frozenset("{[\"'(-.0123456789tfnNIb \t\r\n")
"""First characters of texts that may be JSON or a literal, which would be parsed."""

_WRAPPED: Final = ("kwargs", "input_str")
_LAYERS: Final = frozenset({"toolResult", "lc", "type", "output", "content", "blocks", "response"})
"""Keys of what frameworks wrap around arguments and results."""


class NormalMessages(NamedTuple):
    """Messages in the normal form: the last text of the user, that of the answer, and whether tools are called."""

    prompt: str | None
    answered: str | None
    has_calls: bool
    finish_reason: str | None  # of the last message that has one, as it was sent
    mended: str | None  # the messages as JSON, if they were not quite in the normal form


def normal_messages(text: str) -> NormalMessages | None:
    """Parse a text of messages in the normal form; None if it needs the slow path."""
    if text.count("[") + text.count("{") > MAX_DEPTH or "\\ud" in text:
        return None
    try:
        messages = _DECODER.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return None
    has_calls = _have_calls(messages)
    if has_calls is not None:
        return _with_words(messages, has_calls, None)
    return _mended(text)


def _with_words(messages: _Messages, has_calls: bool, mended: str | None) -> NormalMessages | None:  # noqa: FBT001 - a field
    if not any(message.parts for message in messages) or _ends_in_thoughts(messages):
        return None
    return NormalMessages(_last_words(messages, "user"), _answer(messages), has_calls, _finish(messages), mended)


def _mended(text: str) -> NormalMessages | None:
    """Parse messages whose arguments and results are JSON in JSON, and the like; None for all others."""
    try:
        messages = _STRICT.decode(text)
    except msgspec.MsgspecError:
        return None
    if not all(map(_mend, messages)):
        return None
    has_calls = _have_calls(messages)
    return None if has_calls is None else _with_words(messages, has_calls, msgspec.json.encode(messages).decode())


class Halves(NamedTuple):
    """A conversation split after the user's last text: the last text of each half, and each half as JSON."""

    words: str
    answer: str | None
    finish_reason: str | None  # of the last message that has one, as it was sent
    prompt: str
    answered: str


def halved(text: str) -> Halves | None:
    """Split a conversation that is nearly in the normal form; None if it needs the slow path."""
    if text.count("[") + text.count("{") > MAX_DEPTH or "\\ud" in text:
        return None
    try:
        messages = _STRICT.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return None
    if not all(map(_mend, messages)) or _have_calls(messages) is None:
        return None
    last = next((at for at in reversed(range(len(messages))) if _asks(messages[at])), len(messages))
    sent, answered = messages[: last + 1], messages[last + 1 :]
    words = _last_words(sent, "user")
    if words is None or not any(message.parts for message in answered) or _ends_in_thoughts(answered):
        return None
    encoded = (msgspec.json.encode(half).decode() for half in (sent, answered))
    return Halves(words, _answer(answered), _finish(answered), *encoded)


def _finish(messages: _Messages) -> str | None:
    reasons = [message.finish_reason for message in messages if message.finish_reason is not msgspec.UNSET]
    return reasons[-1] if reasons else None


def _asks(message: _NearlyNormal) -> bool:
    return message.role == "user" and bool(_words(message.parts))


def _mend(message: _NearlyNormal) -> bool:
    """Convert a message to the normal form in place; return False if that needs the slow path."""
    parts = [part for part in message.parts if not isinstance(part, _TextAlone) or part.content]
    if message.parts and not parts:
        return False  # only blank texts were recorded: the slow path keeps them
    for part in parts:
        if isinstance(part, _Call):
            part.arguments = _opened(part.arguments)
        elif isinstance(part, _Response):
            if part.response is msgspec.UNSET:
                part.response, part.result = part.result, msgspec.UNSET
            if part.response is msgspec.UNSET or part.result is not msgspec.UNSET:
                return False
            part.response = _opened(part.response)
    message.parts = parts
    if parts and all(isinstance(part, _Response) for part in parts):
        message.role = "tool"
    return True


def _opened(value: _Json) -> _Json:
    """Decode an object that is JSON text; return anything else as is."""
    if not isinstance(value, str) or value[:1] != "{":
        return value
    try:
        inner = decode(value)
    except NotJson:
        return value
    return inner if isinstance(inner, dict) else value  # type: ignore[return-value] # of JSON instead of texts of it


def bare_arguments(text: str) -> JsonValue:
    """Decode arguments that are the JSON of an object, not wrapped; None for all others."""
    value = _opened(text)
    return value if isinstance(value, dict) and _is_bare(value, _WRAPPED) else None  # type: ignore[return-value] # of JSON


def bare_response(text: str) -> JsonValue:
    """Return a result that is text, or the JSON of an object, not wrapped; None for all others."""
    value = _opened(text)
    return value if _is_bare(value, _LAYERS) else None  # type: ignore[return-value] # of JSON


def _have_calls(messages: _Messages) -> bool | None:
    """Return whether messages involve tools; None if they are not quite in the normal form."""
    has_calls = was_calling = False
    for message in messages:
        calls = _check(message)
        is_calling = bool(calls) and message.role == "assistant"
        if calls is None or (is_calling and was_calling):
            return None
        was_calling = is_calling
        has_calls = has_calls or calls
    return has_calls


def _check(message: _NormalMessage | _NearlyNormal) -> bool | None:
    """Return whether a message involves tools; None if it is not quite in the normal form."""
    if message.name == "" or message.finish_reason == "":
        return None
    calls = responses = 0
    for part in message.parts:
        if isinstance(part, _Text | _TextAlone):
            if not part.content.strip() or may_hide_blocks(part.content) or is_redacted(part.content):
                return None
        elif isinstance(part, _Call):
            calls += 1
            if part.arguments is None or not _is_bare(part.arguments, _WRAPPED):
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
    """Return True if thoughts or a result need no unwrapping."""
    if isinstance(part, _Reasoning):
        return not (may_hide_blocks(part.content) or may_hide_thoughts(part.content))
    is_named = bool(part.id) and part.name != "" and part.result is msgspec.UNSET
    if not is_named or isinstance(part.response, list | msgspec.UnsetType):
        return False
    return _is_bare(part.response, _LAYERS)


def _is_bare(value: _Json, wrappings: Sequence[str] | frozenset[str]) -> bool:
    if isinstance(value, str):
        return (value[:1] not in MAYBE_JSON and not value.startswith(WRITTEN) and not is_redacted(value)) or not value
    return not isinstance(value, dict) or not any(key in value for key in wrappings)


def _ends_in_thoughts(messages: _Messages) -> bool:
    return all(isinstance(part, _Reasoning) for part in messages[-1].parts)


def _answer(messages: _Messages) -> str | None:
    if messages[-1].role in ("user", "system"):
        return None
    return _last_words(messages, "assistant")


def _last_words(messages: _Messages, role: str) -> str | None:
    for message in reversed(messages):
        if message.role == role:
            text = _words(message.parts)
            if text and not text.isspace():
                return text
    return None


def _words(parts: Sequence[object]) -> str:
    if len(parts) == 1 and isinstance(parts[0], _Text | _TextAlone):
        return parts[0].content
    everything: list[str] = []
    since_tool: list[str] = []
    for part in parts:
        if isinstance(part, _Text | _TextAlone):
            everything.append(part.content)
            since_tool.append(part.content)
        elif isinstance(part, _Response):
            since_tool = []
    return "\n".join(since_tool or everything)
