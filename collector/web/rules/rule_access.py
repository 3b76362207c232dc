"""What the pages of rules ask and change: all their calls of the rules in force, of backfills and of trials."""

import re
from collections.abc import Sequence
from dataclasses import replace as changed
from typing import Any, Final

from collector.access.caller import Caller
from collector.api.access.tenants import refuse_shared
from collector.api.base.context import Context
from collector.evaluation.rule_check import check_evaluator
from collector.evaluation.rule_trial import Parameters, RuleTrial, try_rule
from collector.live.rules.rules_in_force import KeptRule
from rules.errors import BadRule
from rules.rule import Rule
from rules.rule_text import RuleText, parse_rule
from rules.rule_yaml import yaml_of
from storage.errors import BadQuery, Conflict, Missing
from storage.judging.backfills import Backfill
from storage.query.query_options import QueryOptions

_TRIAL_S: Final = 5.0
"""What one question of a preview may take. A guess: longer, and nobody looks at it any more."""

_ENABLED: Final = re.compile(r"enabled(\s*):(\s*)\S+?(\s*(?:#.*)?)")


def all_rules(here: Context, who: Caller) -> Sequence[KeptRule]:
    """The rules that somebody sees, oldest first."""
    return [kept for kept in here.rules.kept() if who.sees(kept.stored.tenant)]


def find(here: Context, who: Caller, rule_id: str) -> KeptRule:
    """The rule with this id.

    Raises:
        Missing: there is none.
    """
    for kept in all_rules(here, who):
        if kept.stored.rule_id == rule_id:
            return kept
    raise Missing(f"there is no rule {rule_id}")


def find_own(here: Context, who: Caller, rule_id: str) -> KeptRule:
    """One that is the caller's.

    Raises:
        Missing: there is none.
        Forbidden: it is shared.
    """
    kept = find(here, who, rule_id)
    refuse_shared(who, kept.stored.tenant, f"the rule {kept.stored.name!r}")
    return kept


def find_changeable(here: Context, who: Caller, rule_id: str) -> KeptRule:
    """One that is the caller's, and can be changed here.

    Raises:
        Missing, Forbidden: as `find_own`.
        Conflict: it comes from a file.
    """
    kept = find_own(here, who, rule_id)
    if kept.stored.origin == "FILE":
        raise Conflict(f"the rule {kept.stored.name!r} comes from the file {kept.stored.file}; change it there")
    return kept


def projects(here: Context, who: Caller) -> list[str]:
    """Return names of projects for a menu."""
    return here.rulebook.project_names(who.visible_tenant)


def connections(here: Context, who: Caller) -> list[str]:
    """The names of the connections that judges of the caller's rules may use."""
    return sorted(each.row.name for each in here.judging.connections.for_rules_of(who.tenant))


def attribute_keys(here: Context, who: Caller) -> list[str]:
    """The names of attributes of the latest spans, as far as they can be read in a list."""
    return [key for key in here.rule_record.attribute_keys(who.visible_tenant) if key.isprintable()]


def activity(here: Context, who: Caller) -> dict[str, dict[str, float]]:
    """By the id of each rule, what it did in the last 24 hours, and what its judges took today."""
    return here.status.rule_activity(here.now_ns(), who.visible_tenant)


def checked(here: Context, who: Caller, project: str | None, parsed: RuleText) -> Rule:
    """The rule that a text says, if it may be put in force.

    Raises:
        BadRule: it may not.
    """
    return here.rules.checked(project, parsed, tenant=who.tenant)


def create(here: Context, who: Caller, parsed: RuleText, text: str) -> KeptRule:
    """Put a rule in force.

    Raises:
        BadRule, Conflict, Overloaded: as `RulesInForce.create`.
    """
    return here.rules.create(parsed.rule.project, parsed, text, tenant=who.tenant)


def replace(here: Context, kept: KeptRule, parsed: RuleText, text: str, *, seen: int) -> KeptRule:
    """Let a rule of which this version was seen say something else.

    Raises:
        Stale, BadRule, Conflict, Overloaded: as `RulesInForce.replace`.
    """
    return here.rules.replace(kept.stored.project, kept.stored.rule_id, parsed, text, seen={seen})


def enable(here: Context, kept: KeptRule, *, enabled: bool) -> None:
    """Let a rule judge, or not.

    Raises:
        Stale, Conflict, Overloaded: as `RulesInForce.replace`.
    """
    text = _with_enabled(kept, enabled=enabled)
    here.rules.replace(kept.stored.project, kept.stored.rule_id, parse_rule(text), text, seen={kept.stored.version})


def delete(here: Context, kept: KeptRule) -> None:
    """Take a rule out of force; what came of it stays.

    Raises:
        Conflict, Overloaded: as `RulesInForce.delete`.
    """
    here.rules.delete(kept.stored.project, kept.stored.rule_id)


def try_out(here: Context, whose: str, parsed: RuleText, rule: Rule, window_s: float) -> RuleTrial:
    """What a rule of a tenant would match of what started in the window before this moment; of none, of all.

    Raises:
        BadQuery: that took too long.
    """
    limits = here.sql_limits

    def ask(select: str, parameters: Parameters) -> Sequence[Sequence[Any]]:
        seconds = min(limits.seconds, _TRIAL_S)
        terms = QueryOptions(is_ours=True)
        return here.queries.sql(select, parameters, max_rows=limits.rows, timeout_s=seconds, terms=terms).rows

    return try_rule(rule, check_evaluator(parsed), window_s, ask, tenant=whose or None)


def start_backfill(
    here: Context, kept: KeptRule, from_ns: int, to_ns: int, *, trace_ids: Sequence[str] | None = None
) -> None:
    """Run a rule over what is stored, or over some traces of it.

    Raises:
        BadQuery: the instants are not in order.
        Overloaded: it cannot be stored now.
    """
    if from_ns >= to_ns:
        raise BadQuery("from: must be before to")
    here.backfills.start(kept.active, from_ns, to_ns, trace_ids=trace_ids)


def backfills(here: Context, kept: KeptRule) -> list[Backfill]:
    """The runs of a rule, newest first."""
    return here.backfills.of_rule(kept.stored.rule_id)


def cancel_backfill(here: Context, kept: KeptRule, backfill_id: str) -> None:
    """Let a run go no further.

    Raises:
        Missing: there is none.
        Conflict: it has ended.
    """
    found = next((each for each in backfills(here, kept) if each.backfill_id == backfill_id), None)
    if found is None:
        raise Missing(f"the rule {kept.stored.rule_id} has no backfill {backfill_id}")
    if found.state != "running":
        raise Conflict(f"the backfill {backfill_id} is {found.state}")
    here.backfills.cancel(backfill_id)


def _with_enabled(kept: KeptRule, *, enabled: bool) -> str:
    """The text of a rule, in which only that is otherwise; written anew where that cannot be done."""
    text, rule = kept.stored.text, kept.active.rule
    wanted = changed(rule, enabled=enabled)
    told = str(enabled).lower()
    lines = text.splitlines()
    set_there = [
        _ENABLED.sub(rf"enabled\1:\g<2>{told}\3", line) if _ENABLED.fullmatch(line) else line for line in lines
    ]
    set_first = [f"enabled: {told}", *(line for line in lines if not _ENABLED.fullmatch(line))]
    attempts = ("\n".join(each) + "\n" for each in (set_there, set_first))
    for attempt in attempts:
        try:
            found = parse_rule(attempt).rule
        except BadRule:
            continue
        if changed(found, project=rule.project) == wanted:
            return attempt
    return yaml_of(wanted.document())
