"""Pattern that finds a text in stored texts, in linear time."""

from collections.abc import Iterator
from typing import Final

SEARCHED: Final = "names, ids, inputs, outputs, messages, tool arguments and results, errors, events and attributes"
"""The texts of a span that are searched, in words; `spans_with_text.sql` has their columns."""

MOST_CHARACTERS: Final = 4_000
"""Limit of a text in a request. A guess: a stack trace, of which the beginning is searched."""

_MOST_COST: Final = 300
"""Limit of the costs of a pattern's parts. RE2 took 2 to 8 ns for each byte of the worst texts that were tried up to
here, 5 to 10 ns with 400, and 3,000 ns with a pattern without limits, whose automaton does not fit into RE2's memory.
A usual text takes 2 ns."""

_MOST_ESCAPED: Final = 16
"""Number of characters that are also found as JSON escapes such as `\\u00e9`; if a text has more, none are. A guess:
enough for a few names."""

_BLANK: Final = r"(?:\s|\\+[nrt])"
_JOINTS: Final = frozenset('{}[]:,"')  # JSON may have blanks around these
_OFTEN_ESCAPED: Final = frozenset("<>&'")  # some libraries write these as JSON escapes of a code point


def text_pattern(text: str) -> tuple[str, str]:
    """Return a regular expression that matches a text, and the beginning of the text that it covers.

    Upper and lower case are the same. Blanks match any blanks, and beside JSON's punctuation none. Characters match
    however often JSON escaped them, because arguments are often JSON within JSON.
    """
    text = " ".join(text.split())
    may_escape = sum(not each.isascii() or each in _OFTEN_ESCAPED for each in text) <= _MOST_ESCAPED
    parts: list[str] = []
    cost = 0
    for part, part_cost in _parts(text, may_escape=may_escape):
        cost += part_cost
        if cost > _MOST_COST:
            break
        parts.append(part)
    return "(?i)" + "".join(parts), text[: len(parts)]


def _parts(text: str, *, may_escape: bool) -> Iterator[tuple[str, int]]:
    """Yield the pattern of each character, and its cost."""
    for place, each in enumerate(text):
        if each == " ":
            is_joint = not _JOINTS.isdisjoint((text[place - 1 : place], text[place + 1 : place + 2]))
            yield _BLANK + ("*" if is_joint else "+"), 6
        elif each == "\\":  # an escaped quotation mark matches one that is not escaped
            yield ("", 0) if text[place + 1 : place + 2] in {"\\", '"'} else (r"\\+", 2)
        elif each in '"/':
            yield r"\\*" + each, 2
        elif may_escape and (not each.isascii() or each in _OFTEN_ESCAPED):
            yield _escaped(each), 20
        elif not each.isascii():
            yield each, 8
        else:
            yield each if each.isalnum() else f"\\{each}" if each.isprintable() else f"\\x{ord(each):02x}", 1


def _escaped(character: str) -> str:
    forms = sorted({character, *(form for form in (character.lower(), character.upper()) if len(form) == 1)})
    plain = [f"\\{form}" if form.isascii() else form for form in forms]
    units = [memoryview(form.encode("utf-16-le", "replace")).cast("H") for form in forms]
    codes = ["".join(rf"\\+u{unit:04x}" for unit in each) for each in units]
    return f"(?:{'|'.join(plain + codes)})"
