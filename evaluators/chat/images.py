"""Pictures in messages: their type by their bytes, and those that may be displayed, or sent to a model.

The type is detected from the bytes, never taken from the sender. Only raster images are accepted, up to `MOST_BYTES`
and `MOST_PIXELS`, because a small file may need much memory once it is unpacked. Nothing is fetched.
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from storage.limit import Limit
from storage.records import JsonValue

MOST_BYTES: Final = 8 << 20
MOST_PIXELS: Final = 50_000_000
"""Maximum number of pixels of an accepted picture. A guess: a photo from a phone fits, and takes 200 MB once a browser
unpacks it."""

MOST_SENT: Final = 10
MOST_SENT_BYTES: Final = 3_750_000
MOST_SENT_BYTES_IN_ALL: Final = 8 << 20
"""Limits of a conversation that is sent: the number of pictures, the bytes of each, and those of all. In base64, the
largest picture has the 5 MB that Anthropic accepts; the others are guesses."""

PICTURES: Final = Limit(value=MOST_SENT, unit="pictures", remedy="take some out")
PICTURE: Final = Limit(value=MOST_SENT_BYTES, unit="bytes", remedy="take it out")
ALL_PICTURES: Final = Limit(value=MOST_SENT_BYTES_IN_ALL, unit="bytes", remedy="take some out")

TOKENS_OF_PICTURE: Final = 50_000
"""Tokens reserved for each, since its bytes do not tell how many it takes: OpenAI's `gpt-4o-mini` counts 2,833
and 5,667 for each of eight tiles at most, which is 48,169; others count far fewer."""

HEAD: Final = 96  # characters of base64 that suffice for `kind_of`
_DATA: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,", re.IGNORECASE)
_STANDARD: Final = str.maketrans("-_", "+/", " \t\r\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A picture that may be shown."""

    media_type: str
    content: bytes

    @property
    def base64(self) -> str:
        """Return the content in base64."""
        return base64.b64encode(self.content).decode("ascii")


def image_of(part: Mapping[str, JsonValue]) -> Image | None:
    """Return the picture in a part of a message, or None if there is none or it is too large to show."""
    _, content = type_and_data(part)
    if content is None or len(content) * 3 // 4 > MOST_BYTES:
        return None
    data = decoded(content)
    kind = None if data is None else kind_of(data)
    if data is None or kind is None or not 0 < (_PIXELS[kind](data) or 0) <= MOST_PIXELS:
        return None
    return Image(media_type=kind, content=data)


def type_and_data(part: Mapping[str, JsonValue]) -> tuple[str, str | None]:
    """Return the media type of a part, and its base64 data if it has any."""
    media_type = part.get("mime_type") or part.get("modality") or part.get("type")
    content, uri = part.get("content"), part.get("uri")
    text = content if isinstance(content, str) else uri if isinstance(uri, str) else ""
    data_url = _DATA.match(text[:200])
    if data_url is not None:
        return str(data_url[1] or media_type), text[data_url.end() :]
    return str(media_type), content if isinstance(content, str) else None


def decoded(content: str) -> bytes | None:
    """Decode base64 of either alphabet, with blanks, and with or without padding; None if it is invalid."""
    text = content.translate(_STANDARD).rstrip("=")
    try:
        return base64.b64decode(text[: len(text) // 4 * 4] + _padded(text[len(text) // 4 * 4 :]), validate=True)
    except (binascii.Error, ValueError):
        return None


def _padded(rest: str) -> str:
    return rest + "=" * (-len(rest) % 4) if len(rest) > 1 else ""


def kind_of(content: bytes) -> str | None:
    """Return the media type by the first bytes, or None if it is not a supported picture."""
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return None


def _png_pixels(content: bytes) -> int | None:
    if content[12:16] != b"IHDR" or len(content) < 24:  # noqa: PLR2004 - up to the height
        return None
    return int.from_bytes(content[16:20]) * int.from_bytes(content[20:24])


def _gif_pixels(content: bytes) -> int | None:
    return int.from_bytes(content[6:8], "little") * int.from_bytes(content[8:10], "little")


def _jpeg_pixels(content: bytes) -> int | None:
    """Return the number of pixels from the first frame header."""
    at = 2
    while at + 9 < len(content) and content[at] == 0xFF:  # noqa: PLR2004 - as markers begin
        marker, length = content[at + 1], int.from_bytes(content[at + 2 : at + 4])
        if marker in _FRAMES:
            return int.from_bytes(content[at + 5 : at + 7]) * int.from_bytes(content[at + 7 : at + 9])
        at += 1 if marker == 0xFF else 2 + length  # noqa: PLR2004 - a byte that only fills
    return None


_FRAMES: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})


def _webp_pixels(content: bytes) -> int | None:
    """Return the pixels of a simple, a lossless or an extended file."""
    match content[12:16]:
        case b"VP8 ":
            wide, high = (int.from_bytes(content[at : at + 2], "little") & 0x3FFF for at in (26, 28))
            return wide * high
        case b"VP8L":
            bits = int.from_bytes(content[21:25], "little")
            return ((bits & 0x3FFF) + 1) * ((bits >> 14 & 0x3FFF) + 1)
        case b"VP8X":
            wide, high = (int.from_bytes(content[at : at + 3], "little") + 1 for at in (24, 27))
            return wide * high
        case _:
            return None


_PIXELS: Final[Mapping[str, Callable[[bytes], int | None]]] = {
    "image/png": _png_pixels,
    "image/jpeg": _jpeg_pixels,
    "image/gif": _gif_pixels,
    "image/webp": _webp_pixels,
}
