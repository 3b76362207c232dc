"""Budgets in USD without effect, because no model whose calls they limit has a price."""

from collections.abc import Mapping, Sequence

from collector.live.active import ActiveRule
from collector.live.judges.connections import LlmConnections
from collector.live.judges.judges import ANY_PROJECT, ConnectedJudges
from evaluators.errors import BadConfiguration
from rules.rule import Budget


def unbound_budgets(
    rules: Sequence[ActiveRule],
    judges: ConnectedJudges,
    connections: LlmConnections,
    project_budgets: Mapping[str, Budget],
) -> dict[str, str]:
    """Return the USD limits without effect, by payer: why they limit nothing, and what to do."""
    budgets: dict[tuple[str, str], Budget | None] = {}
    names: dict[tuple[str, str], str] = {}
    priced: set[tuple[str, str]] = set()  # payers with a model whose calls their limit counts
    known = {each.connection_id: each for each in connections.all()}
    for active in rules:
        if active.executor_kind != "judge":
            continue
        try:
            terms = judges.terms_of(active)
        except BadConfiguration:
            continue  # reported elsewhere, as a judge that cannot be called
        projects = _projects(active, project_budgets)
        for each in terms:
            text = known[each.connection_id].text.budget if each.connection_id in known else None
            payers = {
                ("rule", active.rule_id): (active.rule.name, active.rule.budget),
                ("connection", each.connection_id): (each.connection, None if text is None else text.budget()),
                **{("project", name): (name, project_budgets[name]) for name in projects},
            }
            for key, (name, budget) in payers.items():
                names[key], budgets[key] = name, budget
                if each.price is not None:
                    priced.add(key)
    return {
        f"{key[0]} {key[1]}": (
            f"usdPerDay of {key[0]} {names[key]!r} limits nothing, because no model that is paid from it has a price: "
            "give its connection a price (0 if it is free), or limit callsPerDay or tokensPerDay instead"
        )
        for key, budget in budgets.items()
        if key not in priced and budget is not None and budget.usd_per_day is not None
    }


def _projects(active: ActiveRule, project_budgets: Mapping[str, Budget]) -> Sequence[str]:
    named = active.rule.project
    if named is None:
        return tuple(project_budgets)
    return [each for each in (named, ANY_PROJECT) if each in project_budgets][:1]
