"""Conditions as they are written: `{field, op, value}`, `{all: […]}` and `{any: […]}`."""

import difflib
from collections.abc import Mapping
from typing import Final, Literal

from rules.conditions import Clause, Condition, ConditionGroup, Operand
from rules.errors import BadPattern, Problem
from rules.fields import FIELDS, MAPS, TOTALS, Field, field_of
from rules.members import Members, shown
from rules.operators import COMPARISONS, EXISTS, IN, OPERATORS, TEXT_TESTS, Scalar, number_of
from rules.regex import glob, regex
from rules.tree import ValueNode

MAX_CONDITIONS: Final = 100
MAX_OPERANDS: Final = 100  # of `in`
MAX_TEXT: Final = 1_000
MAX_KEY: Final = 256
MAX_GROUPS: Final = 8  # nesting depth
MAX_NUMBER: Final = 2**53 - 1
"""Up to this, a double represents each whole number exactly, so two different numbers never compare as equal."""

_GROUPS: Final[tuple[Literal["all", "any"], ...]] = ("all", "any")


class ConditionReader:
    """Reader of the conditions of one rule."""

    def __init__(self, problems: list[Problem], *, count: int = 0) -> None:
        """`count` is the number of conditions that the rule has already."""
        self._problems = problems
        self._count = count

    def read(self, node: ValueNode, place: str) -> tuple[Clause, ...]:
        """Return the clauses: the members of a list or of an `all`, else the one condition or group."""
        if isinstance(node.value, tuple):
            return self._clauses(node, place, 0) if node.value else ()
        clause = self._clause(node, place, 0)
        return (
            clause.members
            if isinstance(clause, ConditionGroup) and clause.mode == "all"
            else (clause,)
            if clause
            else ()
        )

    def _clauses(self, node: ValueNode, place: str, depth: int) -> tuple[Clause, ...]:
        if not isinstance(node.value, tuple) or not node.value:
            self._wrong(node, place, f"must be a list with a condition in it (got {shown(node)})")
            return ()
        read = [self._clause(item, f"{place}[{number}]", depth) for number, item in enumerate(node.value)]
        return tuple(clause for clause in read if clause is not None)

    def _clause(self, node: ValueNode, place: str, depth: int) -> Clause | None:
        if not isinstance(node.value, Mapping):
            self._wrong(node, place, f"must be {{field, op, value}}, {{all: […]}} or {{any: […]}} (got {shown(node)})")
            return None
        modes = [mode for mode in _GROUPS if mode in node.value]
        return self._group(node, place, depth, modes[0]) if modes else self._condition(node, place)

    def _group(self, node: ValueNode, place: str, depth: int, mode: Literal["all", "any"]) -> ConditionGroup | None:
        members = Members(node, place, self._problems)
        inner = members.take(mode)
        members.unknown()
        if depth >= MAX_GROUPS:
            self._wrong(node, place, f"groups may be nested {MAX_GROUPS} deep")
            return None
        if inner is None:
            members.wrong(mode, "must be a list with a condition in it (got nothing)")
            return None
        return ConditionGroup(mode=mode, members=self._clauses(inner, f"{place}.{mode}", depth + 1))

    def _condition(self, node: ValueNode, place: str) -> Condition | None:
        self._count += 1
        if self._count == MAX_CONDITIONS + 1:
            self._wrong(node, place, f"a rule has at most {MAX_CONDITIONS} conditions")
        if self._count > MAX_CONDITIONS:
            return None
        members = Members(node, place, self._problems)
        name, operator = members.text("field", most=MAX_KEY), members.choice("op", OPERATORS)
        value = members.take("value")
        written = node.value if isinstance(node.value, Mapping) else {}
        for key in ("field", "op"):
            if key not in written:
                members.wrong(key, "is required")
        members.unknown()
        if name is None or operator is None:
            return None
        field = field_of(name)
        if field is None:
            members.wrong("field", _no_field(name))
            return None
        try:
            return Condition(field=name, operator=operator, operand=_Operands(field, operator).read(value))
        except _BadValue as wrong:
            members.wrong("value", wrong.message, wrong.node)
            return None

    def _wrong(self, node: ValueNode, place: str, message: str) -> None:
        self._problems.append(Problem(line=node.line, key=place, message=message))


class _BadValue(Exception):
    """A value that does not fit the field and operator."""

    def __init__(self, message: str, node: ValueNode | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.node = node


class _Operands:
    """Reader of the operands of conditions, which depend on field and operator."""

    def __init__(self, field: Field, operator: str) -> None:
        self._field = field
        self._operator = operator

    def read(self, node: ValueNode | None) -> Operand:
        """Return the operand of a condition.

        Raises:
            _BadValue: the value does not fit.

        """
        if self._operator == EXISTS:
            return True if node is None else self._existence(node)
        if node is None:
            raise _BadValue(f"is required with {self._operator}")
        if self._operator == IN:
            return self._several(node)
        return self._text(node) if self._operator in TEXT_TESTS else self._scalar(node)

    def _existence(self, node: ValueNode) -> bool:
        if isinstance(node.value, bool):
            return node.value
        raise _BadValue(f"must be true, or false for a field that is not there (got {shown(node)})", node)

    def _several(self, node: ValueNode) -> tuple[Scalar, ...]:
        if not isinstance(node.value, tuple) or not 1 <= len(node.value) <= MAX_OPERANDS:
            raise _BadValue(f"must be a list of 1 to {MAX_OPERANDS} values with {IN} (got {shown(node)})", node)
        return tuple(self._scalar(item) for item in node.value)

    def _text(self, node: ValueNode) -> str:
        if self._field.type == "number":
            raise _BadValue(f"{self._operator} is for texts, and this field is a number; there are {_COMPARING}", node)
        if not isinstance(node.value, str) or not node.value or len(node.value) > MAX_TEXT:
            raise _BadValue(
                f"must be a text of 1 to {MAX_TEXT} characters with {self._operator}, in quotes (got {shown(node)})",
                node,
            )
        try:
            _PATTERNS.get(self._operator, str)(node.value)
        except BadPattern as error:
            raise _BadValue(f"{error} (got {shown(node)})", node) from None
        return node.value

    def _scalar(self, node: ValueNode) -> Scalar:
        value = node.value
        if isinstance(value, bool) and self._field.type == "text":
            value = "true" if value else "false"
        if isinstance(value, int | float) and not isinstance(value, bool):
            return self._number(float(value) if abs(value) <= MAX_NUMBER else None, node)
        if not isinstance(value, str):
            raise _BadValue(f"must be a text or a number (got {shown(node)})", node)
        return self._whole_text(value, node)

    def _number(self, number: float | None, node: ValueNode) -> float:
        if self._field.choices:
            raise _BadValue(f"must be one of {', '.join(self._field.choices)} (got {shown(node)})", node)
        if number is None:
            raise _BadValue(
                f"is beyond {MAX_NUMBER}, where not every number can be told from the next; in quotes it is compared "
                f"as a text (got {shown(node)})",
                node,
            )
        return number

    def _whole_text(self, text: str, node: ValueNode) -> str:
        field, operator = self._field, self._operator
        if field.type == "number":
            raise _BadValue(f"must be a number, without quotes (got {shown(node)})", node)
        if len(text) > MAX_TEXT:
            raise _BadValue(f"must have at most {MAX_TEXT} characters", node)
        if field.choices and text not in field.choices:
            raise _BadValue(f"must be one of {', '.join(field.choices)} (got {shown(node)})", node)
        if operator in COMPARISONS and COMPARISONS[operator].orders and number_of(text) is not None:
            raise _BadValue(
                f"is a text, which {operator} would order by its characters; write {text} without quotes", node
            )
        return text


_COMPARING: Final = ", ".join((*COMPARISONS, IN, EXISTS))
_PATTERNS: Final = {"regex": regex, "glob": glob}


def _no_field(name: str) -> str:
    known = [*FIELDS, *TOTALS, *(f"{prefix}KEY" for prefix in MAPS)]
    close = difflib.get_close_matches(name, [*FIELDS, *TOTALS], n=1)
    meant = f"did you mean {close[0]}? " if close else ""
    return f"there is no field {name[:MAX_KEY]!r}; {meant}there are: {', '.join(known)}"
