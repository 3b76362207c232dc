"""The list of rules, and one rule: its text, its revisions, and its results."""

import difflib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from typing import Annotated, Final

from fastapi import Query, Request
from fastapi.responses import Response

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.base.context import Context
from collector.api.base.routing import CallerDep, ContextDep
from collector.api.documents.rule_documents import baseline_estimate, comparisons_of, judge_problems, problems_of
from collector.live.active import ActiveRule
from collector.live.rules.active_rules import LoadedRule
from collector.units import estimate_text
from collector.web.charts.small import sparkline
from collector.web.navigation import may_use
from collector.web.questions import criteria_of, questions_of
from collector.web.rendering import in_snapshot, page, see_other
from collector.web.rules import rule_access, rule_backfills, rule_editing
from collector.web.visitor import FormDep, page_router
from rules.conditions import label
from rules.rule import Budget
from rules.rule_yaml import yaml_of
from storage.errors import Conflict
from storage.judging.backfills import Backfill
from storage.judging.rule_record import PastRevision
from storage.judging.spending import NANO
from storage.rates import pass_rate

_AROUND: Final = 2
_SIGNS: Final = {"+": "added", "-": "removed", " ": "same"}
MAX_SHOWN: Final = 50
"""Revisions on a page. A guess."""
MAX_COMPARED: Final = 200_000
"""Maximum length of all documents that a page compares, in characters; fifty ordinary revisions have fewer. Comparing
so many characters of YAML lists of numbers took 0.5 s of CPU."""
_MOST_LINES: Final = 300
"""Maximum lines shown of a diff, since rendering them takes longer than comparing. A guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffLine:
    """A line of a diff."""

    kind: str  # added, removed, same or gap
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionChange:
    """A revision, and its diff to the previous one."""

    revision: PastRevision
    lines: Sequence[DiffLine] | None = None  # None: not compared
    is_first: bool = False
    is_too_long: bool = False  # the pair alone exceeds `MAX_COMPARED`

    @property
    def counts(self) -> tuple[int, int]:
        """Return how many lines were added, and how many removed."""
        added, removed = (sum(line.kind == kind for line in self.lines or ()) for kind in ("added", "removed"))
        return added, removed

    @property
    def shown(self) -> Sequence[DiffLine]:
        """Return the first lines."""
        return (self.lines or ())[:_MOST_LINES]


def steps(revisions: Sequence[PastRevision]) -> Iterator[RevisionChange]:
    """Compare each of the latest revisions with its predecessor, up to `MAX_COMPARED` characters in all.

    The last of `revisions` beyond `MAX_SHOWN` serves only as a predecessor.
    """
    left, text_of = MAX_COMPARED, cache(lambda document: yaml_of(json.loads(document)).splitlines())
    for each, before in zip_longest(revisions[:MAX_SHOWN], revisions[1 : MAX_SHOWN + 1]):
        if before is None:
            yield RevisionChange(revision=each, is_first=True)
            continue
        size = len(each.document) + len(before.document)
        left -= size
        if left < 0:
            yield RevisionChange(revision=each, is_too_long=size > MAX_COMPARED)
        else:
            lines = list(_difference(text_of(before.document), text_of(each.document)))
            yield RevisionChange(revision=each, lines=lines)


def _difference(before: Sequence[str], after: Sequence[str]) -> Iterator[DiffLine]:
    compared = list(difflib.unified_diff(before, after, n=_AROUND, lineterm=""))
    for line in compared[2:]:  # it begins with two lines of file names
        if line.startswith("@@"):
            yield DiffLine(kind="gap", text="…")
        else:
            yield DiffLine(kind=_SIGNS[line[:1]], text=line[1:])


router = page_router()

_RESULTS: Final = 30
_DAY_NS: Final = 86_400_000_000_000

_UNSCORED: Final[Mapping[str | None, str]] = {
    None: "nothing to evaluate, for example because content was not captured",
    "over_budget": "a budget was used up",
    "rule_disabled": "the rule was disabled",
    "rule_deleted": "the rule was deleted",
    "target_gone": "the target was deleted before its evaluation",
    "bad_case": "the evaluator's input is missing",
}
"""Reasons why a match has no score; other kinds are shown as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Counts of a rule in the last 24 hours, its waiting evaluations, and the usage of its judges today."""

    decided: int
    matched: int
    passed: int
    not_passed: int
    failed: int
    skipped: int
    waiting: int
    calls: int
    failed_calls: int
    tokens: int
    usd: float
    unpriced_calls: int  # whose cost is unknown
    budget: Budget | None

    @property
    def scored(self) -> int:
        """Return the number of evaluations with a score."""
        return self.passed + self.not_passed

    @property
    def pass_rate(self) -> float | None:
        """Return the share of scored evaluations that passed."""
        return pass_rate(self.passed, self.not_passed)

    @property
    def limits(self) -> list[tuple[str, float, float]]:
        """Return name, use today and limit of each limit of the budget."""
        if self.budget is None:
            return []
        rows = (
            ("calls", self.calls, self.budget.calls_per_day),
            ("tokens", self.tokens, self.budget.tokens_per_day),
            ("USD", self.usd, self.budget.usd_per_day),
        )
        return [(name, gone, limit) for name, gone, limit in rows if limit is not None]


@router.get("/rules")
@needs(Permission.READ, by_tenant=True)
@in_snapshot
def list_rules(request: Request, context: ContextDep, caller: CallerDep, project: str = "") -> Response:
    """List rules by project with their latest activity; with `project`, only its rules and those for all projects."""
    activity, waiting = rule_access.activity(context, caller), context.store.rule_record.waiting(caller.visible_tenant)
    every = rule_access.all_rules(context, caller)
    by_project: dict[str | None, list[tuple[LoadedRule, Counts]]] = defaultdict(list)
    for kept in every:
        if not project or kept.stored.project in {project, None}:
            by_project[kept.stored.project].append((kept, _counts(kept, activity, waiting)))
    return page(
        request,
        "rules.html",
        problem_of=problems_of(context, caller),
        groups=sorted(by_project.items(), key=lambda group: (group[0] is not None, group[0] or "")),
        project=project,
        projects=sorted({kept.stored.project for kept in every if kept.stored.project is not None}),
        problems=context.rules.problems if caller.sees_all else (),
        may_write=may_use(caller, create_rule, "POST"),
        owns=caller.owns,
    )


@router.get("/rules/{rule_id}")
@needs(Permission.READ, by_tenant=True)
@in_snapshot
def show_rule(
    request: Request,
    rule_id: str,
    context: ContextDep,
    caller: CallerDep,
    revision: Annotated[int | None, Query(ge=0, le=2**53)] = None,
) -> Response:
    """Show a rule and its revisions, newest first, beginning with the latest or a chosen one."""
    kept = rule_access.find(context, caller, rule_id)
    now_ns = context.now_ns()
    record, shown_revision = context.store.rule_record, kept.stored.revision
    results = record.results(rule_id, rows=_RESULTS, tenant=caller.visible_tenant)
    scores = [one.score for one in reversed(results) if one.score is not None]
    revisions = record.revisions(rule_id, rows=MAX_SHOWN + 1, newest=revision)
    is_own = caller.owns(kept.stored.tenant)
    may_write = is_own and may_use(caller, create_rule, "POST")
    comparison = comparisons_of(context, caller.visible_tenant, rule_id)(kept.active)
    return page(
        request,
        "rule.html",
        kept=kept,
        connection=_connection_name(context, caller, kept.active.rule.connection),
        problem=context.judging.judges.problem_of(kept.active),
        failing=judge_problems(context, caller).of_rule(kept.active),
        order_problem=context.rules.problem_of(kept.active),
        comparison=comparison,
        estimate=_estimate(context, kept.active) if comparison and may_write else None,
        counts=_counts(
            kept, rule_access.activity(context, caller), context.store.rule_record.waiting(caller.visible_tenant)
        ),
        clauses=[label(clause) for clause in kept.active.rule.conditions],
        decided=record.decided(shown_revision, now_ns) if is_own else [],  # counts of a shared rule cover all tenants
        unscored=record.unscored(shown_revision, now_ns) if is_own else [],
        unscored_words=_UNSCORED,
        results=results,
        questions=questions_of(context, [one.trace_id for one in results], caller.visible_tenant),
        criteria=criteria_of(kept.active.rule),
        scores=sparkline(scores, least=0.0, most=1.0, label="Scores of the latest results, the last at the right"),
        history=list(steps(revisions)),
        chosen=revision,
        older=revisions[MAX_SHOWN].revision if len(revisions) > MAX_SHOWN else None,
        backfills=[_Progress.of(each) for each in rule_access.backfills(context, kept)] if is_own else [],
        lake_jobs=context.store.judgements.lake_jobs(rule_id) if is_own and context.settings.lake else [],
        backfill_from=rule_backfills.as_input(now_ns - _DAY_NS),
        backfill_to=rule_backfills.as_input(now_ns),
        may_write=may_write,
        may_change=may_write and kept.stored.origin != "FILE",
    )


def _estimate(context: Context, active: ActiveRule) -> str | None:
    """Describe the cost of judging the releases again; "" without a judge, None if nothing is left to judge."""
    try:
        estimate = baseline_estimate(context, active)
    except Conflict:
        return None
    if not estimate.asks_judge:
        return ""
    return estimate_text(estimate.evaluations, estimate.averaged, estimate.tokens, estimate.usd)


def _connection_name(context: Context, caller: Caller, named: str | None) -> str | None:
    known = {each.connection_id: each.row.name for each in context.judging.connections.for_rules_of(caller.tenant)}
    return named and known.get(named, named)


@router.post("/rules/{rule_id}/enable")
@needs(Permission.WRITE, by_tenant=True)
def enable_rule(rule_id: str, form: FormDep, context: ContextDep, caller: CallerDep) -> Response:
    """Enable a rule."""
    rule_access.enable(context, rule_access.find_changeable(context, caller, rule_id), enabled=True)
    return _back(rule_id, form.text("back"))


@router.post("/rules/{rule_id}/disable")
@needs(Permission.WRITE, by_tenant=True)
def disable_rule(rule_id: str, form: FormDep, context: ContextDep, caller: CallerDep) -> Response:
    """Disable a rule; its results stay."""
    rule_access.enable(context, rule_access.find_changeable(context, caller, rule_id), enabled=False)
    return _back(rule_id, form.text("back"))


@router.post("/rules/{rule_id}/delete")
@needs(Permission.WRITE, by_tenant=True)
def delete_rule(rule_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Delete a rule; its results stay."""
    rule_access.delete(context, rule_access.find_changeable(context, caller, rule_id))
    return see_other("/rules")


create_rule = rule_editing.create_rule
"""Endpoint for `may_use`: all forms that change rules need its permission."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Progress:
    """A backfill, and its progress as a share of all stored spans."""

    backfill: Backfill
    share: float | None  # None: it has not begun

    @classmethod
    def of(cls, backfill: Backfill) -> "_Progress":
        until = backfill.until_seq
        share = None if until < 0 else 1.0 if not until else min(max(backfill.after_seq / until, 0.0), 1.0)
        return cls(backfill=backfill, share=share)


def _back(rule_id: str, place: str) -> Response:
    return see_other("/rules" if place == "list" else f"/rules/{rule_id}")


def _counts(kept: LoadedRule, activity: Mapping[str, Mapping[str, float]], waiting: Mapping[str, int]) -> Counts:
    did = activity.get(kept.stored.rule_id, {})

    def of(*names: str) -> int:
        return sum(int(did.get(name, 0)) for name in names)

    return Counts(
        decided=of("filtered", "sampled_out", "matched", "undecided"),
        matched=of("matched"),
        passed=of("passed"),
        not_passed=of("not_passed"),
        failed=of("failed"),
        skipped=of("skipped"),
        waiting=waiting.get(kept.stored.rule_id, 0),
        calls=of("calls"),
        failed_calls=of("failed_calls"),
        tokens=of("tokens"),
        usd=did.get("nano_usd", 0.0) / NANO,
        unpriced_calls=of("unpriced_calls"),
        budget=kept.active.rule.budget,
    )
