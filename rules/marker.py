"""How our own spans are told from those of applications, so that judging never leads to more judging."""

from typing import Final

from rules.conditions import Condition, ConditionGroup

MARKER: Final = "tracejury.internal"
"""A span that has this attribute, itself or in its resource, with any value, is ours. No rule matches it."""

NOT_OURS: Final = ConditionGroup(
    mode="all",
    members=tuple(
        Condition(field=f"{where}.{MARKER}", operator="exists", operand=False) for where in ("attributes", "resource")
    ),
)
"""The clause that every rule starts with."""
