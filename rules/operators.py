"""Meaning of the operators, in Python and in SQL side by side.

Only `exists` can hold for a missing value. Texts are compared case-sensitively, and ordered by code point. If the
operand is a number, a text counts as the number that it spells.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rules.regex import glob, regex

Scalar: TypeAlias = "str | float"

_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def number_of(value: Scalar) -> float | None:
    """Return a number, or the one that a text spells in decimal; None if there is none, or it is not finite."""
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def number_sql(value: str) -> str:
    """Return the SQL of `number_of`; NULL if it is not a number, or not finite."""
    spelled = f"CASE WHEN regexp_full_match({value}, '{_NUMBER.pattern}') THEN TRY_CAST({value} AS DOUBLE) END"
    return finite_sql(f"({spelled})")


def finite_sql(value: str) -> str:
    """Return the SQL of a number; NULL if it is not finite."""
    return f"CASE WHEN isfinite({value}) THEN {value} END"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """An operator between two values of one type."""

    holds: Callable[[Any, Any], bool]
    sql: str  # of {value} and {operand}
    orders: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTest:
    """An operator between two texts; `bound` makes the parameter of the SQL from the operand."""

    holds: Callable[[str, str], bool]
    sql: str  # template that must contain {value} and {operand}
    bound: Callable[[str], str] = str


COMPARISONS: Final[Mapping[str, Operator]] = {
    "=": Operator(holds=operator.eq, sql="{value} = {operand}"),
    "!=": Operator(holds=operator.ne, sql="NOT coalesce({value} = {operand}, false)"),
    "<": Operator(holds=operator.lt, sql="{value} < {operand}", orders=True),
    "<=": Operator(holds=operator.le, sql="{value} <= {operand}", orders=True),
    ">": Operator(holds=operator.gt, sql="{value} > {operand}", orders=True),
    ">=": Operator(holds=operator.ge, sql="{value} >= {operand}", orders=True),
}

TEXT_TESTS: Final[Mapping[str, TextTest]] = {
    "contains": TextTest(holds=operator.contains, sql="contains({value}, {operand})"),
    "startsWith": TextTest(holds=str.startswith, sql="starts_with({value}, {operand})"),
    "endsWith": TextTest(holds=str.endswith, sql="ends_with({value}, {operand})"),
    "glob": TextTest(
        holds=lambda value, pattern: glob(pattern).search(value),
        sql="regexp_matches({value}, {operand})",
        bound=lambda pattern: glob(pattern).re2,
    ),
    "regex": TextTest(
        holds=lambda value, pattern: regex(pattern).search(value),
        sql="regexp_matches({value}, {operand})",
        bound=lambda pattern: regex(pattern).re2,
    ),
}

IN: Final = "in"
EXISTS: Final = "exists"
OPERATORS: Final = (*COMPARISONS, IN, *TEXT_TESTS, EXISTS)
"""Every operator as rules spell it."""


def compare(comparison: Operator, value: Scalar, operand: Scalar) -> bool:
    """Compare a value of a span with the operand of a condition."""
    if isinstance(operand, str):
        return comparison.holds(value, operand)
    number = number_of(value)
    if number is None:
        return not comparison.orders and comparison.holds(None, operand)
    return comparison.holds(number, operand)
