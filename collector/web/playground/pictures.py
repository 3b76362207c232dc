"""Pictures in a playground conversation from a span: the form holds references, the model request the data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from collector.web.spans.conversation import parts_of, size_text
from evaluators.chat.dialogue import MEDIA
from evaluators.chat.images import MOST_SENT_BYTES, Image, image_of
from storage.records import JsonValue, Message

PICTURE: Final = "picture"
"""Type of a part that refers to a picture of the span; its `at` is “MESSAGE.PART”, both indexes from 0."""

_MOST_DIGITS: Final = 4

Part = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class SentPictures:
    """The number of pictures to send, and their size together."""

    count: int
    nbytes: int

    @property
    def size(self) -> str:
        """Return the size as text."""
        return size_text(self.nbytes)


def named(messages: Sequence[Message]) -> tuple[list[Message], int]:
    """Replace pictures by references, drop media that cannot be sent, and return how many were dropped.

    Only pictures of users, up to `MOST_SENT_BYTES`, can be sent. A message of dropped media only is dropped, too.
    """
    kept: list[Message] = []
    left_out = 0
    for number, message in enumerate(messages):
        parts = parts_of(message)
        rest = [_named(part, message, f"{number}.{place}") for place, part in enumerate(parts)]
        shown = [part for part in rest if part is not None]
        left_out += len(rest) - len(shown)
        if shown or not parts:
            kept.append({**message, "parts": [*shown]} if parts else message)
    return kept, left_out


def _named(part: Part, message: Message, at: str) -> dict[str, JsonValue] | None:
    """Return a part for the form; None if it is left out."""
    if part.get("type") not in MEDIA:
        return dict(part)
    image = image_of(part) if message.get("role") == "user" else None
    if image is None or len(image.content) > MOST_SENT_BYTES:
        return None
    return {"type": PICTURE, "at": at, "description": f"{image.media_type}, {size_text(len(image.content))}"}


def filled(part: Part, messages: Sequence[Message]) -> Part | None:
    """Return a part for the request: the picture of a reference, other parts as they are; None if it is missing."""
    if part.get("type") != PICTURE:
        return part
    number, _, place = str(part.get("at", "")).partition(".")
    if not all(each.isdecimal() and len(each) <= _MOST_DIGITS for each in (number, place)):
        return None
    parts = parts_of(messages[int(number)]) if int(number) < len(messages) else []
    image = image_of(parts[int(place)]) if int(place) < len(parts) else None
    return None if image is None else _blob(image)


def _blob(picture: Image) -> Part:
    return {"type": "blob", "modality": "image", "mime_type": picture.media_type, "content": picture.base64}


def counted(messages: Sequence[Message]) -> SentPictures:
    """Count the pictures of messages that are to be sent."""
    media = (part for message in messages for part in parts_of(message) if part.get("type") in MEDIA)
    sizes = [len(image.content) for part in media if (image := image_of(part)) is not None]
    return SentPictures(count=len(sizes), nbytes=sum(sizes))
