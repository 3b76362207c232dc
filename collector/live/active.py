"""A revision of a rule as matching and judging use it."""

import json
from dataclasses import dataclass
from typing import Literal, TypeAlias

from evaluators.errors import Stopped
from rules.conditions import label
from rules.rule import Rule
from storage.judging.rule_change import RuleDraft
from storage.records import Origin

ExecutorKind: TypeAlias = Literal["check", "judge", "code"]
"""Executors: a check needs no model, a judge calls a model over its connection, code is a program of the operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveRule:
    """A revision of a rule. If the rule is active, `rule.enabled` is true."""

    tenant: str  # whose rule it is
    rule_id: str
    revision: int  # its number in the table `rule_revision`
    rule: Rule
    executor_kind: ExecutorKind
    deleted: bool = False

    @property
    def stopped(self) -> Stopped | None:
        """Return why this rule may judge nothing; None while the rule is enabled, even for an earlier revision."""
        if self.deleted:
            return Stopped("rule_deleted", f"not evaluated, because the rule {self.rule.name} was deleted")
        if not self.rule.enabled:
            return Stopped("rule_disabled", f"not evaluated, because the rule {self.rule.name} was switched off")
        return None

    @property
    def judges(self) -> str | None:
        """Return the tenant whose spans it judges; None: a rule of no tenant judges all spans."""
        return self.tenant or None


def draft_of(rule: Rule, *, tenant: str, origin: Origin, file: str | None, text: str) -> RuleDraft:
    """Return the draft to store for a rule; `text` is the rule as written."""
    document = {key: value for key, value in rule.document().items() if key != "enabled"}
    return RuleDraft(
        tenant=tenant,
        project=rule.project,
        name=rule.name,
        origin=origin,
        file=file,
        text=text,
        enabled=rule.enabled,
        digest=rule.revision,
        target=rule.target,
        evaluator=rule.evaluator,
        document=json.dumps(document, ensure_ascii=False),
        clauses=tuple(map(label, rule.clauses)),
    )
