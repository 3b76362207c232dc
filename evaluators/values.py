"""Equality of JSON values: two are the same if their keys are equal.

Numbers count by their decimal value, however they are written: 5 is 5.0, and 0.1 is 1e-1. A number is never text and
never a boolean. Arrays have an order, objects have none.
"""

import math
from collections.abc import Callable, Hashable, Mapping
from decimal import Decimal
from typing import Any, TypeAlias

Key: TypeAlias = Hashable
"""Stand-in for a value: equal, and of equal hash, for values that are the same."""

_EXACT_BELOW = 2**53
"""Below this, an integral double is the integer that its shortest decimal form writes."""


def key_of(value: object, fold: Callable[[str], str] | None = None) -> Key:
    """Return the key of a value; `fold` normalizes texts."""
    kind = type(value)  # the common types first, by identity: this is the hottest function of all evaluators
    if kind is str:
        return value if fold is None else fold(str(value))
    if kind is int or value is None:
        return value
    if kind is bool:
        return (bool, value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, dict) or (kind is not list and isinstance(value, Mapping)):
        return (dict, frozenset([(name, key_of(item, fold)) for name, item in value.items()]))
    if isinstance(value, list | tuple):
        return (list, *[key_of(item, fold) for item in value])
    return _number(value) if isinstance(value, Decimal) else (kind, repr(value))


def member_keys(value: Mapping[str, Any], fold: Callable[[str], str] | None = None) -> dict[str, Key]:
    """Return the key of each member of an object."""
    return {name: key_of(item, fold) for name, item in value.items()}


def same(one: object, other: object) -> bool:
    """Return True if two values are the same."""
    return key_of(one) == key_of(other)


def _number(value: float | Decimal) -> Key:
    if isinstance(value, Decimal):
        return value
    if value.is_integer() and abs(value) < _EXACT_BELOW:
        return int(value)
    if math.isnan(value):
        return (float, "nan")  # NaN does not equal itself, this key does
    return Decimal(repr(value))
