"""Text from spans with everything in it visible: nothing can move a cursor, hide, or reorder what is shown."""

import re
from typing import Final

# Control and format characters, line and paragraph separators, private use and halves of surrogate pairs; the
# zero-width joiners stay, because scripts and emoji need them.
UNSAFE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ue000-\uf8ff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f\U000f0000-\U0010ffff]"
)


def one_line(text: str) -> str:
    """The text with everything that is not plainly visible spelled out, line ends too."""
    return text if text.isascii() and text.isprintable() else UNSAFE.sub(_spell, text)


def some_lines(text: str) -> str:
    """The text with its line ends, and everything else that is not plainly visible spelled out."""
    return "\n".join(one_line(line) for line in text.splitlines())


def _spell(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
