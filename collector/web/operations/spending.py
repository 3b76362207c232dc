"""The spending of judges today beside their budgets."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from markupsafe import Markup

from collector.api.base.context import Context
from collector.live.budgets.budgets import SpentToday
from collector.live.jobs.trials import DRAFTS
from collector.live.judges.judges import ANY_PROJECT, PLAYGROUND
from collector.web.charts.small import share_bar
from collector.web.formatting import cost, number, usd
from rules.rule import Budget

_Named: TypeAlias = Callable[[str], tuple[str, Budget | None]]
"""Function from the id of a payer to its name and its budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingMeasure:
    """An amount against its limit; `limit` is None if it is unlimited."""

    label: str
    spent: Markup
    limit: Markup | None
    bar: Markup
    failed: int = 0  # failed requests that used no tokens, not in `spent`; they cost nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class PayerSpending:
    """Spending of one payer today."""

    kind: str
    name: str
    tenant: str
    measures: list[SpendingMeasure]


def measures(spent: SpentToday | None, budget: Budget | None) -> list[SpendingMeasure]:
    """List calls, tokens and USD against a budget; if `spent` is None, nothing was spent."""
    limits = budget or Budget()
    calls, failed, tokens = (spent.calls, spent.failed_calls, spent.tokens) if spent else (0, 0, 0)
    spent_usd, unpriced = (spent.usd, spent.unpriced_calls) if spent else (0.0, 0)
    of_calls = _measure("calls", number(calls), calls, limits.calls_per_day, number(limits.calls_per_day))
    return [
        replace(of_calls, failed=failed),
        _measure("tokens", number(tokens), tokens, limits.tokens_per_day, number(limits.tokens_per_day)),
        _measure("USD", cost(spent_usd, unpriced), spent_usd, limits.usd_per_day, usd(limits.usd_per_day)),
    ]


def budget_of_project(context: Context, project: str | None) -> Budget | None:
    """Return the daily budget of a project for judges."""
    budgets = context.project_budgets
    return budgets.get(project or "", budgets.get(ANY_PROJECT))


def payers_today(context: Context) -> list[PayerSpending]:
    """List the payers of today: rules, then projects, then connections."""
    today = context.judging.budgets.today()
    rules = {each.active.rule_id: each.active.rule for each in context.rules.kept()}
    connections = {each.connection_id: each for each in context.judging.connections.all()}

    def rule(identity: str) -> tuple[str, Budget | None]:
        if identity == DRAFTS:
            return "(rule previews)", None
        if identity == PLAYGROUND:
            return "(the playground)", None
        payer = rules.get(identity)
        return (f"{identity} (deleted)", None) if payer is None else (payer.name, payer.budget)

    def connection(identity: str) -> tuple[str, Budget | None]:
        payer = connections.get(identity)
        if payer is None:
            return f"{identity} (deleted)", None
        return payer.row.name, None if payer.text.budget is None else payer.text.budget.budget()

    def project(identity: str) -> tuple[str, Budget | None]:
        return identity or "(no project)", budget_of_project(context, identity)

    return [
        payer
        for kind, named in (("rule", rule), ("project", project), ("connection", connection))
        for payer in _payers(kind, (each for each in today if each.kind == kind), named)
    ]


def _payers(kind: str, spent: Iterable[SpentToday], named: _Named) -> list[PayerSpending]:
    payers = []
    for each in spent:
        name, budget = named(each.identity or "")
        amounts = measures(each, budget)
        payers.append(PayerSpending(kind=kind, name=name, tenant=each.tenant, measures=amounts))
    return payers


def _measure(label: str, spent: Markup, taken: float, limit: float | None, limit_text: Markup) -> SpendingMeasure:
    if limit is None:
        return SpendingMeasure(label=label, spent=spent, limit=None, bar=Markup())
    share = taken / limit if limit else 1.0
    return SpendingMeasure(label=label, spent=spent, limit=limit_text, bar=share_bar(share))
