"""A rule's clauses as one SQL expression over the view `spans`, with bound parameters only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias, assert_never

from rules.conditions import Clause, Condition, ConditionGroup
from rules.fields import DOUBLE, EVENTS, NO_NUMBERS, Field
from rules.operators import COMPARISONS, EXISTS, TEXT_TESTS, Scalar, finite_sql, number_sql

Columns: TypeAlias = Mapping[Field, str]
"""Columns that already hold the value of a field, or of a key of a map; other fields are read from the view."""

IN_THE_VIEW: Final[Columns] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicate:
    """An expression over one row of `spans`: the number of the first clause that it does not meet.

    It is NULL if the row meets all clauses, so matching rows are those `WHERE (…) IS NULL`.
    """

    sql: str
    parameters: dict[str, Scalar]  # by name; in the SQL, `$name` stands for the value


def predicate(clauses: Sequence[Clause], columns: Columns = IN_THE_VIEW) -> Predicate:
    """Return the expression for these clauses."""
    parameters: dict[str, Scalar] = {}
    whens = [f"WHEN NOT {_clause(clause, parameters, columns)} THEN {number}" for number, clause in enumerate(clauses)]
    return Predicate(sql=f"CASE {' '.join(whens)} END", parameters=parameters)


def _clause(clause: Clause, parameters: dict[str, Scalar], columns: Columns) -> str:
    """Return an expression that is true or false, and never NULL."""
    match clause:
        case Condition():
            return _condition(clause, parameters, columns)
        case ConditionGroup():
            members = [_clause(member, parameters, columns) for member in clause.members]
            joined = (" AND " if clause.mode == "all" else " OR ").join(members)
            return f"({joined or ('true' if clause.mode == 'all' else 'false')})"
        case _:
            assert_never(clause)


def _condition(condition: Condition, parameters: dict[str, Scalar], columns: Columns) -> str:
    field, operand = condition.of, condition.operand
    value = _value(field, parameters, columns)
    if condition.operator == EXISTS:
        return f"({value} IS {'NOT NULL' if operand else 'NULL'})"
    if isinstance(operand, tuple):
        holds = _among(field, value, operand, parameters)
    elif isinstance(operand, str) and condition.operator in TEXT_TESTS:
        test = TEXT_TESTS[condition.operator]
        holds = test.sql.format(value=value, operand=_bind(test.bound(operand), parameters))
    else:
        holds = _compared(COMPARISONS[condition.operator].sql, field, value, operand, parameters)
    return f"coalesce({value} IS NOT NULL AND ({holds}), false)"


def _compared(template: str, field: Field, value: str, operand: Scalar, parameters: dict[str, Scalar]) -> str:
    return template.format(value=_as_operand(field, value, operand), operand=_bind(operand, parameters))


def _among(field: Field, value: str, operands: Sequence[Scalar], parameters: dict[str, Scalar]) -> str:
    kinds = [[one for one in operands if isinstance(one, str) is text] for text in (True, False)]
    lists = [(_as_operand(field, value, some[0]), [_bind(one, parameters) for one in some]) for some in kinds if some]
    return " OR ".join(f"coalesce({compared} IN ({', '.join(bound)}), false)" for compared, bound in lists)


def _as_operand(field: Field, value: str, operand: Scalar) -> str:
    return number_sql(value) if field.type == "text" and not isinstance(operand, str) else value


def _value(field: Field, parameters: dict[str, Scalar], columns: Columns) -> str:
    name = columns.get(field, field.column)
    if field.key is not None:
        return name if field in columns else value_sql(field, _bind(field.key, parameters))
    return finite_sql(f"{name}::DOUBLE") if field.type == "number" else name


def value_sql(field: Field, key: str) -> str:
    """Return the SQL of a key's value in a map of the view; NULL if it is NaN or infinite.

    For events: the number of events named `key`, or NULL; for a text field, the first value of attribute `key`.
    """
    if field.column == EVENTS and field.type == "number":
        return f"(nullif(len(list_filter({EVENTS}, lambda event: event.name = {key})), 0)::DOUBLE)"
    if field.column == EVENTS:
        values = f"list_transform({EVENTS}, lambda event: event.attributes[{key}])"
        return f"(list_filter({values}, lambda value: value IS NOT NULL)[1])"
    value = f"{field.column}[{key}]"
    if field.types is None:
        return value
    spelled = ", ".join(f"'{each}'" for each in NO_NUMBERS)
    letter = f"{field.types}[list_position(map_keys({field.column}), {key})]"
    return f"(CASE WHEN {value} IN ({spelled}) AND coalesce({letter} = '{DOUBLE}', false) THEN NULL ELSE {value} END)"


def _bind(value: Scalar, parameters: dict[str, Scalar]) -> str:
    name = f"p{len(parameters)}"
    parameters[name] = value
    return f"${name}::{'VARCHAR' if isinstance(value, str) else 'DOUBLE'}"
