"""Conversations as pages show them: who said what, each call with its result, and what is no text by its name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from storage.records import JsonValue, Message

MOST_MESSAGES: Final = 200
"""Shown at once, the last ones. A guess: more than a person reads."""

_SUMMARY_CHARACTERS: Final = 90

Kind = Literal["text", "reasoning", "call", "result", "media", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One part of a message. Of a call, `result` is what came back, if `has_result`."""

    kind: Kind
    title: str
    value: JsonValue
    result: JsonValue = None
    has_result: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMessage:
    """One message."""

    role: str
    pieces: tuple[Piece, ...]


def conversation(messages: Sequence[Message]) -> list[ShownMessage]:
    """Messages in order; a result that a call before it has is shown there and nowhere else."""
    results = {
        call_id: part.get("response")
        for message in messages
        for part in parts_of(message)
        if part.get("type") == "tool_call_response" and isinstance(call_id := part.get("id"), str)
    }
    told: set[str] = set()
    said = []
    for message in messages:
        pieces = tuple(_pieces(message, results, told))
        if pieces or not message.get("parts"):
            said.append(ShownMessage(role=str(message.get("role") or "unknown"), pieces=pieces))
    return said


def _pieces(message: Message, results: Mapping[str, JsonValue], told: set[str]) -> Iterator[Piece]:
    for part in parts_of(message):
        call_id = part.get("id")
        match part.get("type"):
            case "text":
                yield Piece(kind="text", title="", value=part.get("content"))
            case "reasoning":
                yield Piece(kind="reasoning", title="Reasoning", value=part.get("content"))
            case "tool_call":
                known = isinstance(call_id, str) and call_id in results
                if known:
                    told.add(str(call_id))
                yield Piece(
                    kind="call",
                    title=call_title(part.get("name"), part.get("arguments")),
                    value=part.get("arguments"),
                    result=results[str(call_id)] if known else None,
                    has_result=known,
                )
            case "tool_call_response":
                if not (isinstance(call_id, str) and call_id in told):
                    yield Piece(kind="result", title="Result", value=part.get("response"))
            case "uri" | "blob" | "file":
                yield Piece(kind="media", title=_media(part), value=None)
            case kind:
                rest = {key: value for key, value in part.items() if key != "type"}
                yield Piece(kind="other", title=str(kind), value=rest)


def call_title(name: JsonValue, arguments: JsonValue) -> str:
    """A call as it is written: `get_weather(city=Oslo)`."""
    if isinstance(arguments, Mapping):
        inside = ", ".join(f"{key}={value}" for key, value in arguments.items())
    else:
        inside = "" if arguments is None else str(arguments)[: 2 * _SUMMARY_CHARACTERS]
    title = f"{name}({inside})"
    return title if len(title) <= _SUMMARY_CHARACTERS else f"{title[: _SUMMARY_CHARACTERS - 2]}…)"


def _media(part: Mapping[str, JsonValue]) -> str:
    """What a picture or a file is, by its name: nothing of it is loaded."""
    kind = str(part.get("modality") or part.get("mime_type") or part["type"])
    content = part.get("content")
    where = part.get("uri") or part.get("file_id")
    if where:
        return f"{kind}: {where}"
    return f"{kind}, {len(content):,} characters of base64" if isinstance(content, str) else kind


def parts_of(message: Message) -> list[dict[str, JsonValue]]:
    """The parts of a message that are parts."""
    parts = message.get("parts")
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
