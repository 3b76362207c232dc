"""Text from spans made safe for a terminal: nothing in it moves the cursor, hides or reorders text."""

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size

from collector.escaping import UNSAFE, one_line
from collector.units import cost_text, usd_text

if TYPE_CHECKING:
    from collector.api.responses.annotating import MeasuredDocument
    from collector.api.responses.judging import SpendingDocument

_BLANK = re.compile(r"\s*")
_LONGEST_CELL = 4


def crop(text: str, width: int, ellipsis: str = "…") -> str:
    """Return the text on one line, cut to `width` cells with an ellipsis."""
    line = one_line(text[: width * _LONGEST_CELL])
    return line if cell_len(line) <= width else set_cell_size(line, width - len(ellipsis)) + ellipsis


def cell(text: str, width: int) -> str:
    """Return a text on one line: cut on a terminal, and whole for a program, which takes it as a value."""
    return crop(text, width) if sys.stdout.isatty() else one_line(text)


def json_text(document: object, *, indent: int | None = 2) -> str:
    """Return JSON that is the same for programs and safe on a terminal."""
    return UNSAFE.sub(_json_spell, json.dumps(document, indent=indent, ensure_ascii=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """The first lines of a text, and the number of characters left out."""

    lines: tuple[str, ...]
    omitted_chars: int


def fold(text: str, *, width: int, lines: int) -> Folded:
    """Return the first `lines` lines that are not empty, at `width` cells, wrapped between words if possible."""
    text = text.replace("\r\n", "\n")
    kept: list[str] = []
    consumed = 0
    while consumed < len(text) and len(kept) < lines:
        consumed = _line_start(text, consumed, width)
        end = text.find("\n", consumed, consumed + width * _LONGEST_CELL)
        line, taken = _wrap(text[consumed : end if end >= 0 else consumed + width * _LONGEST_CELL], width)
        consumed += taken
        if line:
            kept.append(line)
    rest = len(text) - consumed
    return Folded(lines=tuple(kept), omitted_chars=rest if text[consumed:].strip() else 0)


def _line_start(text: str, at: int, width: int) -> int:
    # Keep the indentation of the next visible text, unless it alone fills the line.
    blank = _BLANK.match(text, at)
    visible = blank.end() if blank else at
    start = max(text.rfind("\n", at, visible) + 1, at)
    return start if visible - start < width else visible


def widest(texts: Sequence[str]) -> int:
    """Return the width of the widest text in cells."""
    return max((cell_len(text) for text in texts), default=0)


def _wrap(text: str, width: int) -> tuple[str, int]:
    """Return one line of at most `width` cells, and the number of characters consumed."""
    whole = _visible(text)
    if cell_len(whole) <= width:
        return whole, len(text)
    taken = _fitting(text, width)
    space = text.rfind(" ", 0, taken + 1)
    if space > taken // 2:
        taken = space + 1
    return _visible(text[:taken]), taken


def _visible(text: str) -> str:
    return one_line(text.replace("\t", "  ")).rstrip()


def _fitting(text: str, width: int) -> int:
    """Return how many characters fit into `width` cells once made safe; at least one."""
    low, high = 1, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        fits = cell_len(_visible(text[:middle])) <= width
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


def _json_spell(match: re.Match[str]) -> str:
    """Keep line ends between JSON values; those in strings are escaped already."""
    character = match[0]
    if character == "\n":
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def measure_text(measure: "MeasuredDocument") -> str:
    """Format a measure with its interval."""
    if measure.value is None or measure.low is None or measure.high is None:
        return "not defined"
    return f"{measure.value:.2f} ({measure.low:.2f} to {measure.high:.2f})"


def spending_text(spent: "SpendingDocument") -> str:
    """Format the cost of judges, with the part that is unknown."""
    return cost_text(usd_text(spent.usd), spent.usd, spent.unpriced_calls)
