"""Active rules compiled to SQL conditions over columns that are read from the store once for all rules."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from collector.live.active import ActiveRule
from rules.conditions import fields_of
from rules.fields import TOTALS, Field, field_of
from rules.matching import bound, sampled_sql
from rules.predicate import predicate, value_sql
from storage.engine.rule_matcher_db import Expression, ReleaseExpression, RuleQuery

SAMPLED: Final = sampled_sql("trace_id", "sampled_below")
"""SQL condition that a trace is sampled, over the columns of its id and of the bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleQueries:
    """Conditions of the active rules."""

    columns: Mapping[str, Expression]  # over the view `spans`, by their names in conditions
    spans: tuple[RuleQuery, ...]
    traces: tuple[RuleQuery, ...]
    sessions: Mapping[float | None, tuple[RuleQuery, ...]]  # by idle time of a settled session; None: the default
    releases: tuple[ReleaseExpression, ...]
    totals: Mapping[str, str]  # columns with sums of a whole trace, alike for its spans, by names in conditions

    @property
    def count(self) -> int:
        """Return the number of rules."""
        return len(self.spans) + len(self.traces) + sum(map(len, self.sessions.values()))

    @property
    def tenants_of_traces(self) -> tuple[str, ...] | None:
        """Return the tenants of rules about traces or sessions; None for all tenants."""
        return _tenants((*self.traces, *self.about_sessions))

    @property
    def tenants_of_sessions(self) -> tuple[str, ...] | None:
        """Return the tenants of rules about sessions; None for all tenants."""
        return _tenants(self.about_sessions)

    @property
    def about_sessions(self) -> tuple[RuleQuery, ...]:
        """Return the conditions of all rules about sessions, whatever their idle time."""
        return tuple(question for questions in self.sessions.values() for question in questions)


def questions_of(rules: Iterable[ActiveRule]) -> RuleQueries:
    """Compile the conditions of rules."""
    listed = list(rules)
    keys = sorted({active.rule.compare_by for active in listed})
    fields_of_key = {key: [_attribute(f"{where}.{key}") for where in ("attributes", "resource")] for key in keys}
    read_fields = [field for active in listed for field in fields_of(active.rule.clauses)]
    read_fields += [field for fields in fields_of_key.values() for field in fields]
    names = {field: f"f{number}" for number, field in enumerate(dict.fromkeys(read_fields))}
    return RuleQueries(
        columns={name: _column(field, name) for field, name in names.items() if field not in _SUMS},
        totals={name: field.column for field, name in names.items() if field in _SUMS},
        spans=tuple(_question(active, names) for active in listed if active.rule.target == "SPAN"),
        traces=tuple(_question(active, names) for active in listed if active.rule.target == "TRACE"),
        sessions={
            settle_s: tuple(
                _question(active, names)
                for active in listed
                if active.rule.target == "SESSION" and active.rule.settle_s == settle_s
            )
            for settle_s in {active.rule.settle_s: None for active in listed if active.rule.target == "SESSION"}
        },
        releases=tuple(
            ReleaseExpression(
                sql=f"coalesce({', '.join(names[field] for field in fields_of_key[key])})",
                revisions=tuple(active.revision for active in listed if active.rule.compare_by == key),
            )
            for key in keys
        ),
    )


_SUMS: Final = frozenset(TOTALS.values())


def _tenants(questions: Iterable[RuleQuery]) -> tuple[str, ...] | None:
    tenants = {question.tenant for question in questions}
    return None if None in tenants else tuple(sorted(tenant for tenant in tenants if tenant is not None))


def _question(active: ActiveRule, names: Mapping[Field, str]) -> RuleQuery:
    compiled = predicate(active.rule.clauses, names)
    return RuleQuery(
        revision=active.revision,
        tenant=active.judges,
        clause=Expression(sql=compiled.sql, parameters=compiled.parameters),
        sampled_below=None if active.rule.sample_rate >= 1 else bound(active.rule.sample_rate),
        judges_once=active.rule.judge == "once",
    )


def _column(field: Field, name: str) -> Expression:
    if field.key is None:
        return Expression(sql=field.column, parameters={})
    return Expression(sql=value_sql(field, f"$key_{name}::VARCHAR"), parameters={f"key_{name}": field.key})


def _attribute(name: str) -> Field:
    field = field_of(name)
    if field is None:
        raise ValueError(f"{name} is not an attribute")
    return field
