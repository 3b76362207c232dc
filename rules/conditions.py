"""Conditions: their types, their test of a span, and their text."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from rules.fields import Field, Row, field_of
from rules.operators import COMPARISONS, EXISTS, IN, TEXT_TESTS, Scalar, compare
from storage.records import JsonValue

Operand: TypeAlias = "Scalar | bool | tuple[Scalar, ...]"

_LABEL_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A field, an operator, and the operand: several values for `in`, a boolean for `exists`."""

    field: str
    operator: str
    operand: Operand

    @property
    def of(self) -> Field:
        """Return the field of the condition."""
        field = field_of(self.field)
        if field is None:
            raise ValueError(f"there is no field {self.field!r}")
        return field

    def holds(self, row: Row) -> bool:
        """Return True if a span meets the condition."""
        value = self.of.value(row)
        if isinstance(value, float) and value - value != 0:  # NaN and the infinities are not numbers to compare with
            value = None
        if self.operator == EXISTS:
            return (value is not None) is self.operand
        return value is not None and self._compares(value)

    def _compares(self, value: Scalar) -> bool:
        operand = self.operand
        if isinstance(operand, tuple):
            return any(compare(COMPARISONS["="], value, one) for one in operand)
        if isinstance(operand, str) and isinstance(value, str) and self.operator in TEXT_TESTS:
            return TEXT_TESTS[self.operator].holds(value, operand)
        return compare(COMPARISONS[self.operator], value, operand)

    def document(self) -> dict[str, JsonValue]:
        """Return the condition as a JSON or YAML document."""
        operand: JsonValue = [*self.operand] if isinstance(self.operand, tuple) else self.operand
        return {"field": self.field, "op": self.operator, "value": operand}

    def __str__(self) -> str:
        if self.operator == EXISTS:
            return f"{self.field} {'exists' if self.operand else 'does not exist'}"
        operand = self.operand
        listed = [_spelled(one) for one in operand] if isinstance(operand, tuple) else [_spelled(operand)]
        shown = f"[{', '.join(listed)}]" if self.operator == IN else listed[0]
        return f"{self.field} {self.operator} {shown}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionGroup:
    """A group of conditions of which all or any must hold. An empty `all` holds, an empty `any` does not."""

    mode: Literal["all", "any"]
    members: tuple["Condition | ConditionGroup", ...]

    def holds(self, row: Row) -> bool:
        """Return True if a span meets the group."""
        held = (member.holds(row) for member in self.members)
        return all(held) if self.mode == "all" else any(held)

    def document(self) -> dict[str, JsonValue]:
        """Return the group as a JSON or YAML document."""
        return {self.mode: [member.document() for member in self.members]}

    def __str__(self) -> str:
        return f"{self.mode} of ({'; '.join(map(str, self.members))})"


Clause: TypeAlias = Condition | ConditionGroup


def fields_of(clauses: Iterable[Clause]) -> Iterator[Field]:
    """Yield the field of each condition, with repetitions."""
    for clause in clauses:
        if isinstance(clause, Condition):
            yield clause.of
        else:
            yield from fields_of(clause.members)


def label(clause: Clause) -> str:
    """Return a clause on one line, truncated to 200 characters."""
    text = str(clause)
    return text if len(text) <= _LABEL_CHARACTERS else f"{text[:_LABEL_CHARACTERS]}…"


def _spelled(value: Scalar) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else f"{value:.17g}"
