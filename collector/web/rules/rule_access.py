"""Operations of the rule pages: reads and changes of active rules, backfills and trials."""

import re
from collections.abc import Sequence
from dataclasses import replace as changed
from typing import Any, Final

from collector.access.caller import Caller
from collector.api.access.tenants import refuse_shared
from collector.api.base.context import Context
from collector.evaluation.rule_check import check_evaluator
from collector.evaluation.rule_trial import Parameters, RuleTrial, try_rule
from collector.live.rules.active_rules import LoadedRule
from rules.errors import BadRule
from rules.rule import Rule
from rules.rule_text import RuleText, parse_rule
from rules.rule_yaml import yaml_of
from storage.errors import BadQuery, Conflict, NotFound
from storage.judging.backfills import Backfill
from storage.query.query_options import QueryOptions

_TRIAL_S: Final = 5.0
"""Time limit of one query of a preview. A guess: longer is too slow for a page."""

_ENABLED: Final = re.compile(r"enabled(\s*):(\s*)\S+?(\s*(?:#.*)?)")


def all_rules(context: Context, caller: Caller) -> Sequence[LoadedRule]:
    """Return the rules that the caller sees, oldest first."""
    return [kept for kept in context.rules.kept() if caller.sees(kept.stored.tenant)]


def find(context: Context, caller: Caller, rule_id: str) -> LoadedRule:
    """Return the rule with this id.

    Raises:
        NotFound: no rule has this id.
    """
    for kept in all_rules(context, caller):
        if kept.stored.rule_id == rule_id:
            return kept
    raise NotFound(f"there is no rule {rule_id}")


def find_own(context: Context, caller: Caller, rule_id: str) -> LoadedRule:
    """Return a rule that belongs to the caller.

    Raises:
        NotFound: no rule has this id.
        Forbidden: the rule is shared by all tenants.
    """
    kept = find(context, caller, rule_id)
    refuse_shared(caller, kept.stored.tenant, f"the rule {kept.stored.name!r}")
    return kept


def find_changeable(context: Context, caller: Caller, rule_id: str) -> LoadedRule:
    """Return a rule that belongs to the caller and can be changed here.

    Raises:
        NotFound, Forbidden: as `find_own`.
        Conflict: the rule comes from a file.
    """
    kept = find_own(context, caller, rule_id)
    if kept.stored.origin == "FILE":
        raise Conflict(f"the rule {kept.stored.name!r} comes from the file {kept.stored.file}; change it there")
    return kept


def projects(context: Context, caller: Caller) -> list[str]:
    """Return names of projects for a menu."""
    return context.store.rulebook.project_names(caller.visible_tenant)


def connections(context: Context, caller: Caller) -> list[str]:
    """Return the names of the connections that judges of the caller's rules may use."""
    return sorted(each.row.name for each in context.judging.connections.for_rules_of(caller.tenant))


def attribute_keys(context: Context, caller: Caller) -> list[str]:
    """Return the attribute names of the latest spans, if they can be shown in a list."""
    return [key for key in context.store.rule_record.attribute_keys(caller.visible_tenant) if key.isprintable()]


def activity(context: Context, caller: Caller) -> dict[str, dict[str, float]]:
    """Return the counts of each rule for the last 24 hours, and the usage of its judges today, by rule id."""
    return context.store.status.rule_activity(context.now_ns(), caller.visible_tenant)


def checked(context: Context, caller: Caller, project: str | None, parsed: RuleText) -> Rule:
    """Return the rule of a text, if it may take effect.

    Raises:
        BadRule: the rule may not take effect.
    """
    return context.rules.checked(project, parsed, tenant=caller.tenant)


def create(context: Context, caller: Caller, parsed: RuleText, text: str) -> LoadedRule:
    """Create a rule from its text.

    Raises:
        BadRule, Conflict, Overloaded: as `ActiveRules.create`.
    """
    return context.rules.create(parsed.rule.project, parsed, text, tenant=caller.tenant)


def replace(context: Context, kept: LoadedRule, parsed: RuleText, text: str, *, seen: int) -> LoadedRule:
    """Replace the text of a rule, if it is still the version that was seen.

    Raises:
        NotFound, Stale, BadRule, Conflict, Overloaded: as `ActiveRules.replace`.
    """
    return context.rules.replace(kept.stored.project, kept.stored.rule_id, parsed, text, seen={seen})


def enable(context: Context, kept: LoadedRule, *, enabled: bool) -> None:
    """Enable or disable a rule.

    Raises:
        NotFound, Stale, BadRule, Conflict, Overloaded: as `ActiveRules.replace`.
    """
    text = _with_enabled(kept, enabled=enabled)
    context.rules.replace(kept.stored.project, kept.stored.rule_id, parse_rule(text), text, seen={kept.stored.version})


def delete(context: Context, kept: LoadedRule) -> None:
    """Delete a rule; its results stay.

    Raises:
        NotFound, Conflict, Overloaded: as `ActiveRules.delete`.
    """
    context.rules.delete(kept.stored.project, kept.stored.rule_id)


def try_out(context: Context, whose: str, parsed: RuleText, rule: Rule, window_s: float) -> RuleTrial:
    """Match a rule against the spans of a tenant, or of all, that started in the last `window_s` seconds.

    Raises:
        BadQuery: the matching took too long.
        Overloaded: the database failed, or was reopened meanwhile.
    """
    settings = context.settings

    def ask(select: str, parameters: Parameters) -> Sequence[Sequence[Any]]:
        seconds = min(settings.sql_seconds, _TRIAL_S)
        terms = QueryOptions(is_ours=True)
        return context.store.queries.sql(
            select, parameters, max_rows=settings.sql_rows, timeout_s=seconds, terms=terms
        ).rows

    return try_rule(rule, check_evaluator(parsed), window_s, ask, settling=settings.settling, tenant=whose or None)


def start_backfill(
    context: Context, kept: LoadedRule, from_ns: int, to_ns: int, *, trace_ids: Sequence[str] | None = None
) -> None:
    """Run a rule over stored data, or over the given traces of it.

    Raises:
        BadQuery: the end does not lie after the beginning.
        Conflict: too many backfills of the rule, or of its tenant, are under way.
        Overloaded: the database cannot be written now.
    """
    if from_ns >= to_ns:
        raise BadQuery("from: must be before to")
    context.backfills.start(kept.active, from_ns, to_ns, trace_ids=trace_ids)


def backfills(context: Context, kept: LoadedRule) -> list[Backfill]:
    """Return the backfills of a rule, newest first."""
    return context.backfills.of_rule(kept.stored.rule_id)


def cancel_backfill(context: Context, kept: LoadedRule, backfill_id: str) -> None:
    """Cancel a backfill.

    Raises:
        NotFound: no backfill has this id.
        Conflict: the backfill has ended.
        Overloaded: the database cannot be written now.
    """
    backfill = next((each for each in backfills(context, kept) if each.backfill_id == backfill_id), None)
    if backfill is None:
        raise NotFound(f"the rule {kept.stored.rule_id} has no backfill {backfill_id}")
    if backfill.state != "running":
        raise Conflict(f"the backfill {backfill_id} is {backfill.state}")
    context.backfills.cancel(backfill_id)


def _with_enabled(kept: LoadedRule, *, enabled: bool) -> str:
    """Return the text of a rule with `enabled` changed; if editing its line fails, generate the text from the rule."""
    text, rule = kept.stored.text, kept.active.rule
    target = changed(rule, enabled=enabled)
    flag = str(enabled).lower()
    lines = text.splitlines()
    set_in_place = [
        _ENABLED.sub(rf"enabled\1:\g<2>{flag}\3", line) if _ENABLED.fullmatch(line) else line for line in lines
    ]
    set_first = [f"enabled: {flag}", *(line for line in lines if not _ENABLED.fullmatch(line))]
    attempts = ("\n".join(each) + "\n" for each in (set_in_place, set_first))
    for attempt in attempts:
        try:
            parsed = parse_rule(attempt).rule
        except BadRule:
            continue
        if changed(parsed, project=rule.project) == target:
            return attempt
    return yaml_of(target.document())
