"""A text as it is displayed: without escapes, full-width forms and invisible characters."""

import html
import re
from bisect import bisect_right
from typing import Final

_LESS, _MORE = "\u2039\u3008\u27e8\u25c1\ufe64\u276e", "\u203a\u3009\u27e9\u25b7\ufe65\u276f"
_FULL_WIDTH: Final = 0xFEE0
_DISGUISE = re.compile(
    r"[\u00ad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff]+"
    r"|&(?:amp;){0,3}(?P<entity>(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]{2,8});)"
    r"|\\u003[cCeE]|%3[cCeE]|\\[<>]"
    rf"|[\uff01-\uff5e{_LESS}{_MORE}]"
)


class Displayed:
    """The displayed text, and the positions of its characters in the original text."""

    def __init__(self, text: str) -> None:
        self._shown = [0]
        self._origins = [0]
        parts, at, shown = list[str](), 0, 0
        for match in _DISGUISE.finditer(text):
            plain = _plain(match)
            parts += [text[at : match.start()], plain]
            shown += match.start() - at + len(plain)
            at = match.end()
            self._shown.append(shown)
            self._origins.append(at)
        self.text = "".join([*parts, text[at:]])

    def origin(self, place: int) -> int:
        """Return the position in the original text for one in the displayed text."""
        index = bisect_right(self._shown, place) - 1
        return self._origins[index] + place - self._shown[index]


def _plain(disguise: re.Match[str]) -> str:
    if disguise["entity"]:
        return html.unescape(f"&{disguise['entity']}")
    first, last = disguise[0][0], disguise[0][-1]
    if first in "\\%":
        return "<" if last in "cC<" else ">"
    if "\uff01" <= first <= "\uff5e":
        return chr(ord(first) - _FULL_WIDTH)
    return "<" if first in _LESS else ">" if first in _MORE else ""
