"""Conversations for pages: each message with its role, each call with its result, and media by name."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Final, Literal

from collector.beginning import json_beginning
from evaluators.chat.images import HEAD, MOST_BYTES, decoded, kind_of, type_and_data
from storage.records import JsonValue, Message, TraceToolCall

_KIBI: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMedia:
    """Placeholder for a medium."""

    title: str
    is_image: bool  # probably displayable: it has the signature of an image, and at most `MOST_BYTES`


def media_of(part: Mapping[str, JsonValue]) -> ShownMedia:
    """Describe a medium by type and size, or by its URL, file id or name; only its beginning is decoded."""
    media_type, content = type_and_data(part)
    if content is None:
        where = part.get("uri") or part.get("file_id") or part.get("filename")
        return ShownMedia(title=f"{media_type}: {where}" if where else media_type, is_image=False)
    nbytes = len(content.rstrip("=")) * 3 // 4
    kind = kind_of(decoded(content[:HEAD]) or b"")
    title = f"{kind or media_type}, {size_text(nbytes)}"
    return ShownMedia(title=title, is_image=kind is not None and nbytes <= MOST_BYTES)


def size_text(nbytes: int) -> str:
    """Format a size in one unit."""
    for unit, size in (("MiB", _KIBI * _KIBI), ("KiB", _KIBI)):
        if nbytes >= size:
            return f"{nbytes / size:.1f} {unit}"
    return f"{nbytes} bytes"


MOST_MESSAGES: Final = 200
"""Maximum number of messages on a page, the last ones. A guess: more than a person reads."""

_MOST_PARTS: Final = 2_000
"""Maximum number of parts on a page over all messages; long messages are cut first. A guess: 200 messages of ten."""

_SUMMARY_CHARACTERS: Final = 90

Kind = Literal["text", "reasoning", "call", "result", "media", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One part of a message. For a call with `has_result`, `result` is its result."""

    kind: Kind
    title: str
    value: JsonValue
    result: JsonValue = None
    has_result: bool = False
    error: str | None = None  # of a call that failed; may be empty
    is_image: bool = False  # of a medium that a page may show
    part: int = 0  # index of the part in its message


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMessage:
    """One message."""

    role: str
    pieces: tuple[Piece, ...]
    hidden: int = 0  # pieces that are not shown
    place: int = 0  # index among the messages of its span
    is_folded: bool = False  # all of it is shown elsewhere


def conversation(
    messages: Sequence[Message],
    *,
    failed: Mapping[str, str] = MappingProxyType({}),
    keeps_empty: bool = False,
    first: int = 0,
) -> list[ShownMessage]:
    """Return messages in order; the result of an earlier call is shown at that call only.

    `failed` has the errors of failed calls by their ids, `first` is the index of the first message. A message whose
    parts are all shown elsewhere is left out, unless `keeps_empty`; a message without parts stays.
    """
    results = {
        call_id: part.get("response")
        for message in messages
        for part in parts_of(message)
        if part.get("type") == "tool_call_response" and isinstance(call_id := part.get("id"), str)
    }
    shown_calls: set[str] = set()
    most = _most_of_each([len(parts_of(message)) for message in messages])
    messages_shown = []
    for place, message in enumerate(messages, start=first):
        pieces = tuple(_pieces(message, results, shown_calls, failed))
        is_folded = not pieces and bool(message.get("parts"))
        if keeps_empty or not is_folded:
            role = str(message.get("role") or "unknown")
            hidden = max(len(pieces) - most, 0)
            shown = ShownMessage(role=role, pieces=pieces[:most], hidden=hidden, place=place, is_folded=is_folded)
            messages_shown.append(shown)
    return messages_shown


def _most_of_each(parts: Sequence[int]) -> int:
    most = _MOST_PARTS
    while most > 1 and sum(min(each, most) for each in parts) > _MOST_PARTS:
        most //= 2
    return most


def failed_calls(calls: Sequence[TraceToolCall]) -> dict[str, str]:
    """Return the errors of failed calls by their ids; of a call with several executions, the last one counts."""
    last = {(call.call_id, call.name, json.dumps(call.arguments)): call for call in calls}
    return {call.call_id: call.error or "" for call in last.values() if call.is_error and call.call_id is not None}


def calls_beside(messages: Sequence[Message], calls: Sequence[TraceToolCall]) -> list[TraceToolCall]:
    """Return the executed calls that `messages` do not show: of a call with several executions, they show the last."""
    parts = (part for message in messages for part in parts_of(message) if part.get("type") == "tool_call")
    left = Counter(str(part.get("id")) for part in parts)
    beside: list[TraceToolCall] = []
    for call in reversed(calls):
        is_shown = call.call_id is not None and left[call.call_id] > 0
        left[str(call.call_id)] -= is_shown
        if not is_shown:
            beside.append(call)
    return beside[::-1]


def _pieces(
    message: Message, results: Mapping[str, JsonValue], shown_calls: set[str], failed: Mapping[str, str]
) -> Iterator[Piece]:
    for number, part in enumerate(parts_of(message)):
        call_id = part.get("id")
        match part.get("type"):
            case "text":
                yield Piece(kind="text", title="", value=part.get("content"))
            case "reasoning":
                yield Piece(kind="reasoning", title="Reasoning", value=part.get("content"))
            case "tool_call":
                known = isinstance(call_id, str) and call_id in results
                if known:
                    shown_calls.add(str(call_id))
                yield Piece(
                    kind="call",
                    title=call_title(part.get("name"), part.get("arguments")),
                    value=part.get("arguments"),
                    result=results[str(call_id)] if known else None,
                    has_result=known,
                    error=failed.get(call_id) if isinstance(call_id, str) else None,
                )
            case "tool_call_response":
                if not (isinstance(call_id, str) and call_id in shown_calls):
                    yield Piece(kind="result", title="Result", value=part.get("response"))
            case "uri" | "blob" | "file":
                media = media_of(part)
                yield Piece(kind="media", title=media.title, value=None, is_image=media.is_image, part=number)
            case kind:
                rest = {key: value for key, value in part.items() if key != "type"}
                yield Piece(kind="other", title=str(kind), value=rest)


def call_title(name: JsonValue, arguments: JsonValue) -> str:
    """Format a call: `get_weather(city=Oslo)`."""
    if isinstance(arguments, Mapping):
        shown = islice(arguments.items(), _SUMMARY_CHARACTERS)
        inside = ", ".join(f"{key}={_written(value)}" for key, value in shown)
    else:
        inside = "" if arguments is None else str(arguments)[: 2 * _SUMMARY_CHARACTERS]
    title = f"{name}({inside})"
    return title if len(title) <= _SUMMARY_CHARACTERS else f"{title[: _SUMMARY_CHARACTERS - 2]}…)"


def _written(value: JsonValue) -> str:
    return value if isinstance(value, str) else json_beginning(value, _SUMMARY_CHARACTERS)


def parts_of(message: Message) -> list[dict[str, JsonValue]]:
    """Return the valid parts of a message."""
    parts = message.get("parts")
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
