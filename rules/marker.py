"""How our own spans and simulated ones are told from those of applications that people use."""

from collections.abc import Iterable
from typing import Final

from rules.conditions import Clause, Condition, ConditionGroup, fields_of

MARKER: Final = "tracejury.internal"
"""A span that has this attribute, itself or in its resource, with any value, is ours. No rule matches it."""

SIMULATED: Final = "tracejury.simulated"
"""A span that has this attribute, itself or in its resource, with any value, is of a simulated user."""

_PLACES: Final = ("attributes", "resource")


def _lacks(marker: str) -> ConditionGroup:
    return ConditionGroup(
        mode="all",
        members=tuple(Condition(field=f"{where}.{marker}", operator="exists", operand=False) for where in _PLACES),
    )


NOT_OURS: Final = _lacks(MARKER)
"""The clause that every rule starts with, so that judging never leads to more judging."""

NOT_SIMULATED: Final = _lacks(SIMULATED)
"""The clause that a rule ends with unless it names the mark, so that simulated traffic is not taken for production."""


def names_simulated(clauses: Iterable[Clause]) -> bool:
    """Whether conditions are about the mark of simulated traffic, wherever it stands."""
    return any(field.key == SIMULATED for field in fields_of(clauses))
