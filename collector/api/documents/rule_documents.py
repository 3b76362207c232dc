"""JSON documents of the HTTP API: rules, projects, and the problems of rule files."""

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from msgspec import structs
from pydantic.alias_generators import to_camel

from collector.access.caller import Caller
from collector.api.base.context import Context
from collector.api.responses.judging import (
    ActiveRuleDocument,
    DecisionCounts,
    EvaluationCounts,
    FileProblemDocument,
    RuleActivity,
    RuleDocument,
    RuleList,
    RuleTrialDocument,
    SpendingDocument,
    TrialCost,
)
from collector.api.responses.traces import DIGEST_DIGITS
from collector.evaluation.rule_trial import RuleTrial
from collector.live.active import ActiveRule
from collector.live.judges.failing_judges import ProblemsOfJudges
from collector.live.monitors.compared import judges_alike, standings
from collector.live.monitors.streams import results_to_compare_with
from collector.live.rules.active_rules import LoadedRule
from collector.live.rules.rule_folder import FileProblem
from rules.conditions import label
from rules.rule_text import written_keys
from storage.alerting.monitors import StreamKey, StreamRow
from storage.errors import Conflict
from storage.judging.baselines import ComparedStream
from storage.judging.spending import NANO

_MOST_PLACES: Final = 3
"""Maximum number of streams that a message names; others are counted."""

READ_ONLY: Final = frozenset(
    {
        "id",
        "tenant",
        "projectId",
        "origin",
        "file",
        "revision",
        "digest",
        "clauses",
        "problem",
        "comparison",
        "version",
        "createdAt",
        "updatedAt",
    }
)
"""Read-only keys of a rule's document, which the server ignores in a request."""

_AS_WRITTEN: Final = (
    "match_type",
    "match_key",
    "match_value",
    "evaluator_name",
    "criteria",
    "min_score",
    "max_score",
    "threshold",
    "conditions",
    "config",
    "budget",
    "tools",
    "expected",
    "monitor",
    "after",
    "jury",
)

_written = functools.lru_cache(maxsize=1024)(written_keys)


ProblemOf: TypeAlias = Callable[[ActiveRule], str | None]
"""Function that returns why a rule cannot judge and what to do, or None."""


def no_problem(_: ActiveRule) -> None:
    """Return None: without a server, no problem with the judge of a rule is known."""


def rule_document(
    kept: LoadedRule,
    project_ids: Mapping[tuple[str, str], str],
    problem_of: ProblemOf = no_problem,
    comparison_of: ProblemOf = no_problem,
) -> RuleDocument:
    """Describe a rule: its text with defaults, and its state.

    A PUT of the unchanged document changes nothing.
    """
    stored, rule = kept.stored, kept.active.rule
    written = _written(stored.text)
    return RuleDocument.of(
        stored,
        rule,
        project_id=None if stored.project is None else project_ids.get((stored.tenant, stored.project)),
        clauses=[label(clause) for clause in rule.clauses],
        problem=problem_of(kept.active),
        comparison=comparison_of(kept.active),
        digest=rule.revision[:DIGEST_DIGITS],
        **{name: written.get(to_camel(name)) for name in _AS_WRITTEN},
    )


def rules_document(
    kept: Iterable[LoadedRule],
    project_ids: Mapping[tuple[str, str], str],
    activity: Mapping[str, Mapping[str, float]],
    problems: Iterable[FileProblem],
    problem_of: ProblemOf = no_problem,
    comparison_of: ProblemOf = no_problem,
) -> RuleList:
    """Describe rules with their latest results, and the problems of files."""
    return RuleList(
        content=[
            ActiveRuleDocument(
                **structs.asdict(rule_document(each, project_ids, problem_of, comparison_of)),
                activity=_activity(activity.get(each.stored.rule_id, {})),
            )
            for each in kept
        ],
        problems=[FileProblemDocument.of(problem) for problem in problems],
    )


def _activity(counts: Mapping[str, float]) -> RuleActivity:
    return RuleActivity(
        decisions=DecisionCounts.of(counts),
        evaluations=EvaluationCounts.of(counts),
        spent_today=SpendingDocument.of(counts, usd=counts.get("nano_usd", 0.0) / NANO),
    )


def trial_document(trial: RuleTrial) -> RuleTrialDocument:
    """Describe the number of targets by decision, the cost, and examples of targets that would be judged."""
    budget = trial.rule.budget
    return RuleTrialDocument.of(
        trial,
        rule=trial.rule.document(),
        revision=trial.rule.revision,
        cost=TrialCost.of(
            trial,
            judge_calls_at_least=trial.evaluations if trial.judge == "always" else 0,
            budget=None if budget is None else budget.document(),
        ),
    )


def comparisons_of(context: Context, tenant: str | None, rule_id: str | None = None) -> ProblemOf:
    """Return a function that explains why a rule's monitors have no baseline, and what to do."""
    latest: dict[str, list[StreamRow]] = defaultdict(list)
    for row in context.store.monitors.latest(rule_id=rule_id, tenant=tenant):
        latest[row.key.rule_id].append(row)

    def comparison_of(active: ActiveRule) -> str | None:
        needed = active.rule.monitoring.settings.minimum
        suspects = [row for row in latest.get(active.rule_id, ()) if _may_lack(context, active, row, needed)]
        services = standings(context.store.monitors, context.rules.revision, active, suspects) if suspects else []
        lacking = [(count, each.key) for each in services if (count := each.results) is not None and count < needed]
        if not lacking:
            return None
        lacking.sort(key=lambda each: each[0])
        places = ", ".join(_place(key) for _, key in lacking[:_MOST_PLACES])
        more = f" and {len(lacking) - _MOST_PLACES:,} more" if len(lacking) > _MOST_PLACES else ""
        return (
            f"its evaluator or threshold was changed, so the comparison restarted: monitors have {lacking[0][0]:,} of "
            f"the {needed:,} required results of the previous release in {places}{more}. "
            f"{_remedy(context, active, is_one=rule_id is not None)}"
        )

    return comparison_of


def _place(key: StreamKey) -> str:
    project = "no project" if key.project is None else f"project {key.project!r}"
    return project if key.service is None else f"{project} (service {key.service!r})"


def _may_lack(context: Context, active: ActiveRule, row: StreamRow, needed: int) -> bool:
    count = results_to_compare_with(row, needed) if judges_alike(row, context.rules.revision, active) else 0
    return count is not None and count < needed


def _remedy(context: Context, active: ActiveRule, *, is_one: bool) -> str:
    """Return the remedy; another baseline judges only the targets that the previous one could not judge."""
    command = f"`tracejury rules baseline {active.rule_id}`, or the page of the rule,"
    made = [each for each in context.backfills.of_rule(active.rule_id) if each.occasion == "baseline"]
    was_judged = any(each.revision == active.revision and each.state in {"running", "done"} for each in made)
    # For a list, the results of rules without a baseline are not searched: after an upgrade that may be all rules.
    if (was_judged or is_one) and not _is_anything_left(context, active):
        return (
            "Nothing is left to evaluate again: all stored targets of these releases were evaluated. This ends at the "
            "next release, if the previous ones have enough results by then"
        )
    if not was_judged:
        return f"{command} evaluates the compared releases again. Until then, results of a backfill do not count"
    return (
        "A baseline was built but is incomplete: its evaluations may be running or may have failed. "
        f"{command} evaluates what is missing"
    )


def _is_anything_left(context: Context, active: ActiveRule) -> bool:
    """Return True if a baseline that runs, or that could be started, has targets left to judge."""
    try:
        baseline_estimate(context, active)
    except Conflict:
        return False
    return True


def start_baseline(context: Context, active: ActiveRule) -> str:
    """Judge again the targets that the monitors of a rule lack for a comparison; return the id of the backfill.

    Raises:
        Conflict: nothing is left to judge again, or too many backfills are running.
        Overloaded: the database cannot be written now.
    """
    backfill_id = context.backfills.start_baseline(active, _streams_compared(context, active))
    context.jobs_changed()  # wakes the workers: jobs that run again may be due now
    return backfill_id


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineEstimate:
    """Maximum number of evaluations of a baseline, and their cost, extrapolated from the latest ones."""

    evaluations: int
    asks_judge: bool
    averaged: int  # the number of the latest evaluations behind the estimate
    tokens: float | None  # None: unknown
    usd: float | None


def baseline_estimate(context: Context, active: ActiveRule) -> BaselineEstimate:
    """Estimate the evaluations of a baseline; none if one is already running.

    Raises:
        Conflict: nothing is left to judge again.
    """
    count = 0
    if not any(
        each.occasion == "baseline" and each.state == "running" and each.revision == active.revision
        for each in context.backfills.of_rule(active.rule_id)
    ):  # a running baseline continues
        count = context.backfills.targets_of_baseline(active, _streams_compared(context, active)).count
    asks_judge = active.executor_kind == "judge"
    each = context.store.rule_record.cost(active.rule.evaluator, tenant=active.tenant or None) if asks_judge else None
    return BaselineEstimate(
        evaluations=count,
        asks_judge=asks_judge,
        averaged=0 if each is None else each.evaluations,
        tokens=None if each is None or each.tokens is None else each.tokens * count,
        usd=None if each is None or each.usd is None else each.usd * count,
    )


def _streams_compared(context: Context, active: ActiveRule) -> list[ComparedStream]:
    latest = context.store.monitors.latest(rule_id=active.rule_id)
    return [each.compared for each in standings(context.store.monitors, context.rules.revision, active, latest)]


def judge_problems(context: Context, caller: Caller) -> ProblemsOfJudges:
    """Return the judges that currently give no verdicts, as far as the caller sees them."""
    return context.rule_problems.of_judges(context.now_ns(), caller.visible_tenant)


def problems_of(context: Context, caller: Caller) -> ProblemOf:
    """Return a function that explains why a rule currently judges nothing, as far as the caller may see it."""
    return context.rule_problems.at(context.now_ns(), caller.visible_tenant)
