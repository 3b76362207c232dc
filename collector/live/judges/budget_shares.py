"""The share of a daily budget that is spent or reserved."""

from collections.abc import Callable, Mapping

from collector.live.budgets.budgets import Budgets, SpentToday
from collector.live.judges.connections import LlmConnections
from collector.live.judges.judges import ANY_PROJECT
from collector.live.rules.active_rules import LoadedRule
from collector.metric_monitor_text import MetricMonitorText
from rules.rule import Budget


class BudgetShares:
    """Spent or reserved shares of the daily budgets of rules, projects and connections."""

    def __init__(
        self,
        budgets: Budgets,
        rules: Callable[[], tuple[LoadedRule, ...]],
        connections: LlmConnections,
        of_projects: Mapping[str, Budget],
    ) -> None:
        self._budgets = budgets
        self._rules = rules
        self._connections = connections
        self._of_projects = of_projects

    def share(self, text: MetricMonitorText, tenant: str) -> float | None:
        """Return the largest share, over the limits of the budgets that `text` is about; None if they have no limit.

        A limit of 0 counts as fully spent.
        """
        if text.rule is not None:
            shares = [
                (each.active.rule_id, each.active.rule.budget)
                for each in self._rules()
                if text.rule in {each.active.rule_id, each.active.rule.name} and each.stored.tenant in {tenant, ""}
            ]
            return self._largest("rule", "", dict(shares))
        if text.connection is not None:
            known = [
                (each.connection_id, None if each.text.budget is None else each.text.budget.budget())
                for each in self._connections.for_rules_of(tenant)
                if text.connection in {each.connection_id, each.row.name}
            ]
            return self._largest("connection", "", dict(known))
        budget = self._of_projects.get(text.project or "", self._of_projects.get(ANY_PROJECT))
        return self._largest("project", tenant, {text.project or "": budget})

    def _largest(self, kind: str, tenant: str, budgets: Mapping[str, Budget | None]) -> float | None:
        spent = {
            each.identity or "": each for each in self._budgets.today() if (each.kind, each.tenant) == (kind, tenant)
        }
        shares = [share for identity, budget in budgets.items() for share in _shares(budget, spent.get(identity))]
        return max(shares, default=None)


def _shares(budget: Budget | None, spent: SpentToday | None) -> list[float]:
    if budget is None:
        return []
    if spent is None:
        taken: tuple[float, ...] = (0, 0, 0)
    else:
        taken = (spent.calls + spent.held_calls, spent.tokens + spent.held_tokens, spent.usd + spent.held_usd)
    limits = (budget.calls_per_day, budget.tokens_per_day, budget.usd_per_day)
    return [
        taken_so_far / limit if limit else 1.0
        for taken_so_far, limit in zip(taken, limits, strict=True)
        if limit is not None
    ]
