"""Escaping of text from spans: no character may move a cursor, or hide or reorder text."""

import json
import re
from pathlib import Path
from typing import Any, Final

_MOVING: Final = (
    "\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ue000-\uf8ff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f\U000f0000-\U0010ffff"
)
# Fillers and variation selectors: invisible, but a hidden message to a model can be encoded in them.
_EMPTY: Final = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\U000e0080-\U000e0fff"

# Control and format characters, line and paragraph separators, private use and lone surrogates; the
# zero-width joiners stay, because scripts and emoji need them.
UNSAFE: Final = re.compile(f"[{_MOVING}]")
_LAYOUT: Final = "\n\t"
_HIDING: Final = re.compile(f"[{_MOVING}{_EMPTY}]")


def one_line(text: str) -> str:
    """Escape the characters of a text that move, reorder or hide text, line ends included; fillers stay."""
    return text if text.isascii() and text.isprintable() else UNSAFE.sub(_spell, text)


def harmless(text: str) -> str:
    """Return the text for a terminal: control characters are escaped, except line ends and tabs; fillers stay."""
    return UNSAFE.sub(lambda match: match[0] if match[0] in _LAYOUT else _spell(match), text)


def nothing_hidden(text: str) -> str:
    """Return one line for a model, with all invisible characters escaped."""
    return _HIDING.sub(_spell, text)


def some_lines(text: str) -> str:
    """Escape the characters of a text that move, reorder or hide text, except line ends; fillers stay."""
    return "\n".join(one_line(line) for line in text.splitlines())


def file_problem(error: OSError, path: Path) -> str:
    """Return one line with the problem of an error and its file, or `path` if the error names none."""
    return one_line(f"{error.filename or path}: {error.strerror or error}")


def as_json(value: Any) -> str:  # noqa: ANN401 - any JSON
    """Encode a value as JSON in one line with all invisible characters escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if text.isascii() and text.isprintable() else _HIDING.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1]


def _spell(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
