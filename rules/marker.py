"""Marks that distinguish our own spans, simulated traffic and trials from spans of applications in use.

Trials are experiments, and requests of the playground.
"""

from collections.abc import Iterable
from typing import Final

from rules.conditions import Clause, Condition, ConditionGroup, fields_of

MARKER: Final = "tracejury.internal"
"""A span that has this attribute, itself or in its resource, with any value, is ours. No rule matches it."""

SIMULATED: Final = "tracejury.simulated"
"""A span that has this attribute, itself or in its resource, with any value, is of a simulated user."""

RUN: Final = "tracejury.run.id"
"""A span that has this attribute, itself or in its resource, is of an item of that run of an experiment."""

ITEM: Final = "tracejury.item.key"
"""A span that has this attribute is of an item of an experiment, with a run on a server or without one."""

PLAYGROUND_MARK: Final = "tracejury.playground"
"""A span whose resource has this attribute is a request of the playground."""

_PLACES: Final = ("attributes", "resource")
_OF_RUNS: Final = ("run_id", "item_key", f"resource.{RUN}")


def _lacks_all(fields: Iterable[str]) -> ConditionGroup:
    return ConditionGroup(
        mode="all", members=tuple(Condition(field=name, operator="exists", operand=False) for name in fields)
    )


def _lacks(marker: str) -> ConditionGroup:
    return _lacks_all(f"{where}.{marker}" for where in _PLACES)


NOT_OURS: Final = _lacks(MARKER)
"""The clause that every rule starts with, so that judging never leads to more judging."""

NOT_SIMULATED: Final = _lacks(SIMULATED)
"""The clause that a rule ends with unless it names the mark, so that simulated traffic is not taken for production."""

NOT_OF_RUN: Final = _lacks_all(_OF_RUNS)
"""The clause that a rule ends with unless it names a run or an item, so that no experiment is taken for production."""


NOT_OF_PLAYGROUND: Final = _lacks_all((f"resource.{PLAYGROUND_MARK}",))
"""The clause that a rule ends with unless it names the mark, so that trials are not judged."""


def names_simulated(clauses: Iterable[Clause]) -> bool:
    """Return True if any condition, at any depth, is about the mark of simulated traffic."""
    return any(field.key == SIMULATED for field in fields_of(clauses))


def names_run(clauses: Iterable[Clause]) -> bool:
    """Return True if any condition is about runs of experiments or their items."""
    return any(field.column in {"run_id", "item_key"} or field.key in {RUN, ITEM} for field in fields_of(clauses))


def names_playground(clauses: Iterable[Clause]) -> bool:
    """Return True if any condition, at any depth, is about the mark of the playground."""
    return any(field.key == PLAYGROUND_MARK for field in fields_of(clauses))
