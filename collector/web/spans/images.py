"""Pictures and other media that messages carry, as pages tell of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from evaluators.chat.pictures import HEAD, MOST_BYTES, decoded, kind_of, told_of
from storage.records import JsonValue

_KIBI: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMedia:
    """What stands in place of a medium."""

    title: str
    is_image: bool  # it can probably be shown: its bytes begin like a picture, and are not too many


def media_of(part: Mapping[str, JsonValue]) -> ShownMedia:
    """A medium by its type and size, or by where it is; nothing of it is loaded, and little of it is looked at."""
    told, content = told_of(part)
    if content is None:
        where = part.get("uri") or part.get("file_id") or part.get("filename")
        return ShownMedia(title=f"{told}: {where}" if where else told, is_image=False)
    nbytes = len(content.rstrip("=")) * 3 // 4
    kind = kind_of(decoded(content[:HEAD]) or b"")
    title = f"{kind or told}, {size_text(nbytes)}"
    return ShownMedia(title=title, is_image=kind is not None and nbytes <= MOST_BYTES)


def size_text(nbytes: int) -> str:
    """An amount of bytes in one unit."""
    for unit, size in (("MiB", _KIBI * _KIBI), ("KiB", _KIBI)):
        if nbytes >= size:
            return f"{nbytes / size:.1f} {unit}"
    return f"{nbytes} bytes"
