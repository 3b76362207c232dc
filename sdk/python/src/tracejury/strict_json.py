"""Strict parsing of JSON, as in RFC 8259."""

import difflib
import json
import math
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from typing import Any


def parse_json(text: str, *, decimals: bool = False) -> Any:
    """Parse JSON as in RFC 8259: no NaN, no Infinity, no duplicate name in an object, nothing after the value.

    With `decimals`, numbers with a fraction or an exponent are returned as `Decimal`.

    Raises:
        ValueError: the text is not JSON, is nested too deeply, or has too large a number; the message says what.
    """
    try:
        return json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=Decimal if decimals else _finite,
            object_pairs_hook=_unique,
        )
    except RecursionError:
        raise ValueError("nested too deeply to be read: nest it less") from None


def unknown(key: str, known: Iterable[str]) -> str:
    """Return the message for an unknown key."""
    names = sorted(known)
    close = difflib.get_close_matches(key, names, n=1)
    meant = f"did you mean {close[0]}? " if close else ""
    return f"unknown key; {meant}there are: {', '.join(names)}"


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text} is too large")
    return number


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise ValueError(f"the name {twice!r} occurs twice in one object")
    return members
