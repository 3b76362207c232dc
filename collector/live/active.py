"""A revision of a rule as matching and judging use it."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from evaluators.errors import Stopped
from rules.rule import Rule

ExecutorKind: TypeAlias = Literal["check", "judge", "code"]
"""Who evaluates: a check asks nobody, a judge asks a model over its connection, code is a program of the operator's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveRule:
    """One revision of a rule. Of a rule in force, `rule.enabled` holds."""

    tenant: str  # whose rule it is
    rule_id: str
    revision: int  # its number in the table `rule_revision`
    rule: Rule
    executor_kind: ExecutorKind
    deleted: bool = False

    @property
    def stopped(self) -> Stopped | None:
        """Why nothing may be judged by it any more; None where it is in force, or was before an edit of its rule."""
        if self.deleted:
            return Stopped("rule_deleted", f"not evaluated, because the rule {self.rule.name} was deleted")
        if not self.rule.enabled:
            return Stopped("rule_disabled", f"not evaluated, because the rule {self.rule.name} was switched off")
        return None

    @property
    def judges(self) -> str | None:
        """The tenant whose spans it judges; None: a rule of no tenant judges those of all."""
        return self.tenant or None
