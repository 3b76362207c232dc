"""Pictures of the span that the form of the playground was filled from: it names them, and they are sent as data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from collector.web.spans.conversation import parts_of, size_text
from evaluators.chat.dialogue import MEDIA
from evaluators.chat.pictures import MOST_SENT_BYTES, Image, image_of
from storage.records import JsonValue, Message

PICTURE: Final = "picture"
"""The type of a part that stands for one: `at` is its message and its part, counted from 0."""

_MOST_DIGITS: Final = 4

Part = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class SentPictures:
    """How many pictures would be sent, and how large they are together."""

    count: int
    nbytes: int

    @property
    def size(self) -> str:
        """That in one unit."""
        return size_text(self.nbytes)


def named(messages: Sequence[Message]) -> tuple[list[Message], int]:
    """Messages with names in place of the pictures that can be sent, without other media, and how many these were.

    A message that had nothing else is left out.
    """
    kept: list[Message] = []
    left_out = 0
    for number, message in enumerate(messages):
        parts = parts_of(message)
        rest = [_named(part, message, f"{number}.{place}") for place, part in enumerate(parts)]
        found = [part for part in rest if part is not None]
        left_out += len(rest) - len(found)
        if found or not parts:
            kept.append({**message, "parts": [*found]} if parts else message)
    return kept, left_out


def _named(part: Part, message: Message, at: str) -> dict[str, JsonValue] | None:
    """A part as the form has it; None where it is left out."""
    if part.get("type") not in MEDIA:
        return dict(part)
    found = image_of(part) if message.get("role") == "user" else None
    if found is None or len(found.content) > MOST_SENT_BYTES:
        return None
    return {"type": PICTURE, "at": at, "told": f"{found.media_type}, {size_text(len(found.content))}"}


def filled(part: Part, messages: Sequence[Message]) -> Part | None:
    """A part as it is sent: of one that names a picture of these messages the picture; None where there is none."""
    if part.get("type") != PICTURE:
        return part
    number, _, place = str(part.get("at", "")).partition(".")
    if not all(each.isdecimal() and len(each) <= _MOST_DIGITS for each in (number, place)):
        return None
    parts = parts_of(messages[int(number)]) if int(number) < len(messages) else []
    found = image_of(parts[int(place)]) if int(place) < len(parts) else None
    return None if found is None else _blob(found)


def _blob(picture: Image) -> Part:
    return {"type": "blob", "modality": "image", "mime_type": picture.media_type, "content": picture.base64}


def counted(messages: Sequence[Message]) -> SentPictures:
    """The pictures of messages that are to be sent."""
    media = (part for message in messages for part in parts_of(message) if part.get("type") in MEDIA)
    sizes = [len(found.content) for part in media if (found := image_of(part)) is not None]
    return SentPictures(count=len(sizes), nbytes=sum(sizes))
