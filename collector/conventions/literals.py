"""Python literals, converted to JSON: only outside of strings, `None`, `True` and `False` are replaced, then decoded.

Compiling takes three times as long: 59 against 19 µs of CPU a literal of 250 characters, on a busy machine. Literals
that this does not know are left to the compiler.
"""

import re
from typing import Final

import msgspec

from storage.records import JsonValue

_WHOLE: Final = re.compile(
    r"""'(?:[^'\\\n]++|\\(?:[\\'"nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}))*+'"""
    r'''|"(?:[^"\\\n]++|\\(?:[\\'"nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}))*+"'''
)
"""A string as `repr` writes it."""

_STRING: Final = re.compile(rf"""{_WHOLE.pattern}|['"][\s\S]*+""")
"""A string; one that does not end takes the rest of the text, since a search for the end from each quote would cost the
square of the length, 22 s for 32 kB."""

_ASIDE: Final = "\1"
_ODD_NUMBER: Final = re.compile(r"\d(?:E|\d{16})|-0")
_WORDS: Final = {"None": "null", "True": "true", "False": "false"}
_NOT_OUTSIDE_STRINGS: Final = (*_WORDS.values(), "'", '"', "\\")
_BY_ESCAPES: Final = ("\\\\", "\\x", "\\u", "\\U")
_MOST_BRACKETS: Final = 60
"""With more of them a text may be deeper than is read."""


class NotSimpleError(ValueError):
    """Refusal of a literal with unsupported parts."""


def simple_literal(text: str) -> JsonValue:
    """Parse a literal of maps, lists, strings, numbers and words; raises `NotSimpleError` for any other."""
    if text.count("{") + text.count("[") > _MOST_BRACKETS or _ASIDE in text:
        raise NotSimpleError
    strings = _STRING.findall(text)
    if strings and not _WHOLE.fullmatch(strings[-1]):
        raise NotSimpleError
    rest = _STRING.sub(_ASIDE, text)
    if _ODD_NUMBER.search(rest) or any(word in rest for word in _NOT_OUTSIDE_STRINGS):
        raise NotSimpleError
    for word, json_word in _WORDS.items():
        rest = rest.replace(word, json_word)
    pieces = rest.split(_ASIDE)
    whole = [""] * (2 * len(pieces) - 1)
    whole[::2] = pieces
    whole[1::2] = map(_as_json, strings)
    try:
        value: JsonValue = msgspec.json.decode("".join(whole))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        raise NotSimpleError from None
    return value


def _as_json(string: str) -> str:
    inner = string[1:-1]
    if "\\" in inner:
        if any(escape in inner for escape in _BY_ESCAPES):
            raise NotSimpleError
        inner = inner.replace("\\'", "'").replace('\\"', '"')
    return '"' + inner.replace('"', '\\"') + '"'
