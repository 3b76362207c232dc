"""Attribute values as JSON: decoded within bounds, and always encodable as UTF-8."""

import ast
import base64
import json
import math
import re
from collections.abc import Mapping

import msgspec
import numpy as np

from collector.conventions.literals import NotSimpleError, simple_literal
from collector.conventions.python_repr import is_written, written_map
from storage.records import MAX_COUNT, AttributeValue, JsonValue, number_in

MAX_DEPTH = 60  # OTLP's own nesting ends at 47; a guess at what no honest argument exceeds
MAX_LITERAL_CHARS = 32_768  # ast.literal_eval takes 0.65 µs a character, so 21 ms at most
MAX_SIMPLE_CHARS = 262_144  # without the compiler: 55 ms at most; 2 ms for a picture in base64
MAX_ENCODED = 3  # JSON in JSON in JSON: no library was seen to encode more than twice
_MOST_DIGITS = 400  # more than the largest float has
TOO_DEEP = "<nested too deeply>"
AS_PYTHON_WRITES = ("{'", "['", "[{'")
"""Beginnings of texts that may be literals of Python, but not JSON."""

_REDACTED = frozenset({"[redacted]", "<redacted>", "__redacted__", "redacted", "[filtered]"})
"""Marks in place of a redacted value, in upper or lower case: of OpenInference, Sentry, Tracejury and others."""

_SCRUBBED = "[Scrubbed due to "  # Logfire; the word that matched follows
_FIRST_OF_MARKS = frozenset('[<_rR"')
_OBJECT = re.compile(r"<[^\n]+ at 0x[0-9a-f]+>")  # of a class that shows nothing of its content: streams, generators
_MARK_CHARS = 100  # a guess: longer than any mark

_BRACKETS = {"{": "}", "[": "]", '"': '"', "(": ")", "'": "'"}
# What Python's repr() writes: strings with its own escapes only, so that compiling them cannot warn.
_LITERAL_STRING = re.compile(
    r"""b?'(?:[^'\\\n]++|\\(?:[\\'"nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}))*+'"""
    r'''|b?"(?:[^"\\\n]++|\\(?:[\\'"nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}))*+"'''
    r"""|(?P<endless>['"][\s\S]*+)"""  # the whole rest: a search from each quote would cost the square of the length
)
_STRING_WITH_BRACKETS = re.compile(rb'"[^"]*"')
_NO_BRACKETS = bytes(set(range(256)) - set(b'[]{}"'))
_LEVELS = np.zeros(256, dtype=np.int32)
_LEVELS[list(b"[{")], _LEVELS[list(b"]}")] = 1, -1
_LITERAL_REST = re.compile(r"(?:[\s,:\[\](){}]|(?<![\w.+-])-?(?:\d[\w.]*|\.\d+)(?:(?<=e)[+-]\d+)?|True|False|None|S)*")


class NotJson(ValueError):
    """Refusal of a text that is not JSON; the message says where it breaks."""


def encodable(text: str) -> str:
    """Replace lone surrogates, which JSON may contain and UTF-8 cannot encode."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def decode(text: str) -> JsonValue:
    """Decode JSON to a value that encodes to JSON again; raises `NotJson`."""
    try:
        value: JsonValue = msgspec.json.decode(text)
    except (
        msgspec.DecodeError,
        RecursionError,
        UnicodeEncodeError,
    ):  # msgspec is stricter, and ten times as fast: the text may still be readable
        value = _decode_anyhow(text)
    if text.count("[") + text.count("{") > MAX_DEPTH and _is_deep(text):
        raise NotJson(f"is nested more than {MAX_DEPTH} levels deep")
    return clean(value) if "\\ud" in text or "\\uD" in text else value


def _decode_anyhow(text: str) -> JsonValue:
    try:
        value: JsonValue = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        at_end = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        raise NotJson("is cut off" if at_end else f"breaks at character {error.pos}") from None
    except RecursionError:
        raise NotJson(f"is nested more than {MAX_DEPTH} levels deep") from None
    except ValueError as error:  # an integer of thousands of digits
        raise NotJson(str(error)) from None
    return value


def parsed(value: object) -> JsonValue:
    """Parse text as JSON, else as a Python literal, else return it.

    JSON within JSON is parsed, too. Lists and maps are returned as they are: they are clean.
    """
    if not isinstance(value, str):
        return value if isinstance(value, dict | list) else clean(value)
    text = encodable(value)
    for _ in range(MAX_ENCODED):
        if text.startswith(AS_PYTHON_WRITES):
            return _literal(text)
        try:
            inner = decode(text)
        except NotJson:
            return _literal(text)
        if not isinstance(inner, str) or not looks_encoded(inner):
            return inner
        text = inner
    return text


def opened(value: object) -> JsonValue:
    """Parse like `parsed`, but only text that looks like JSON or a literal: numbers stay text."""
    return parsed(value) if not isinstance(value, str) or looks_encoded(value) else encodable(value)


def taken(value: AttributeValue) -> AttributeValue:
    """Return the value of an attribute with lists and maps cleaned, so that they need no second check."""
    return clean(value) if isinstance(value, dict | list) else value  # type: ignore[return-value] # JSON is a part of it


def looks_encoded(text: str) -> bool:
    """Return True if a text begins and ends like a JSON array, object or string, or like a Python literal."""
    stripped = text.strip()
    return len(stripped) > 1 and _BRACKETS.get(stripped[0]) == stripped[-1]


def is_redacted(value: object) -> bool:
    """Return True if a value is only a mark of a redaction, or an object as Python's default repr.

    It may be written as JSON, with quotes.
    """
    if not isinstance(value, str) or len(value) > _MARK_CHARS:
        return False
    text = value.strip()
    if text[:1] not in _FIRST_OF_MARKS:
        return False
    text = text.strip('"')
    if text.lower() in _REDACTED or (text.startswith(_SCRUBBED) and text.endswith("]")):
        return True
    return text[-1:] == ">" and _OBJECT.fullmatch(text) is not None


def why_redacted(value: object) -> str:
    """Return the note about a value that `is_redacted`; it follows the name of the field."""
    is_object = isinstance(value, str) and _OBJECT.fullmatch(value.strip().strip('"')) is not None
    return "is an object as Python shows it, without its content" if is_object else REDACTION


REDACTION = "was redacted before it was sent"


def text_of(value: object) -> str | None:
    """Return any attribute value as text; arrays and maps as JSON."""
    match value:
        case None:
            return None
        case str():
            return encodable(value)
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case _:
            return json.dumps(clean(value), ensure_ascii=False)


def clean(value: object, depth: int = 0) -> JsonValue:
    """Return a value that JSON can carry: bytes as base64, NaN as text, surrogates replaced, depth bounded."""
    match value:
        case str():
            return encodable(value)
        case None | bool() | int():
            return value
        case float():
            return _finite(value)
        case Mapping() | list() | tuple() | set() | frozenset() if depth >= MAX_DEPTH:
            return TOO_DEEP
        case Mapping():
            return {encodable(str(key)): clean(item, depth + 1) for key, item in value.items()}
        case list() | tuple():
            return [clean(item, depth + 1) for item in value]
        case set() | frozenset():
            return [clean(item, depth + 1) for item in sorted(value, key=repr)]
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case _:
            return encodable(str(value))


def canonical(value: JsonValue) -> str:
    """Encode a value as JSON with sorted keys, so that equal values give equal texts."""
    try:
        return msgspec.json.encode(value, order="sorted").decode()
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(value, sort_keys=True)


def whole(value: object) -> int | None:
    """Read a count from 0 to `MAX_COUNT`: a number of any type, or a text of one; None for everything else."""
    if isinstance(value, str) and len(value) <= _MOST_DIGITS and value.strip().isdecimal():
        value = int(value)  # a float would round a number just above the bound down to it
    if type(value) is int:
        return value if 0 <= value <= MAX_COUNT else None
    number = fraction(value)
    return int(number) if number is not None and 0 <= number <= MAX_COUNT else None


def amount(value: object) -> float | None:
    """Read an amount of money, within the bounds of a count; None for everything else."""
    number = fraction(value)
    return abs(number) if number is not None and 0 <= number <= MAX_COUNT else None


def fraction(value: object) -> float | None:
    """Return a finite number, also from text."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return number_in(value)
    try:
        number = float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def at(value: object, path: tuple[str, ...]) -> JsonValue:
    """Return the value at a path of keys, and of numbers in lists, in decoded JSON; None if missing.

    The Python repr of an object counts as a map.
    """
    for key in path:
        if isinstance(value, str) and is_written(value):
            value = written_map(value)
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and key.isdecimal():
            value = next(iter(value[int(key) : int(key) + 1]), None)
        else:
            return None
    return value  # type: ignore[return-value] # a part of what `decode` made


def as_dict(value: object) -> dict[str, JsonValue]:
    """Return a map, or an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: JsonValue) -> list[JsonValue]:
    """Return a list, or a value as a list of one."""
    return value if isinstance(value, list) else [value]


def _finite(value: float) -> float | str:
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


_DECODER = json.JSONDecoder(parse_float=lambda text: _finite(float(text)), parse_constant=str)


def _is_deep(text: str) -> bool:
    bare = text.replace("\\\\", "").replace('\\"', "").encode("utf-8", "replace")
    brackets = bare.translate(None, _NO_BRACKETS).replace(b'""', b"")  # without strings, unless they contain brackets
    levels = np.cumsum(_LEVELS[np.frombuffer(_STRING_WITH_BRACKETS.sub(b"", brackets), dtype=np.uint8)])
    return bool(levels.max(initial=0) > MAX_DEPTH)


def _literal(text: str) -> JsonValue:
    """Parse a Python literal as `repr` writes it; return the text itself if it is not one.

    Only what the patterns know reaches the compiler: no operators, no names, no deep nesting.
    """
    if len(text) > MAX_SIMPLE_CHARS or not looks_encoded(text):
        return text
    try:
        return simple_literal(text)
    except NotSimpleError:
        return compiled_literal(text) if len(text) <= MAX_LITERAL_CHARS else text


def compiled_literal(text: str) -> JsonValue:
    """Parse a literal by the compiler; return the text itself if it is not one."""
    skeleton = _LITERAL_STRING.sub(r"S\g<endless>", text)
    if not _LITERAL_REST.fullmatch(skeleton) or _nesting(skeleton) > MAX_DEPTH:
        return text
    try:
        return clean(ast.literal_eval(text.strip()))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def _nesting(skeleton: str) -> int:
    deepest = depth = 0
    for character in skeleton:
        if character in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")]}":
            depth -= 1
    return deepest
