"""Rules and projects over HTTP."""

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import Depends, Query, Response
from fastapi.responses import JSONResponse
from msgspec import convert
from pydantic import BaseModel, Field

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.access.tenants import refuse_shared
from collector.api.answers.declared import answers
from collector.api.answers.judging import (
    ExplainedTrace,
    ProjectDocument,
    PromptDocument,
    RuleDocument,
    RuleList,
    RuleTrialDocument,
)
from collector.api.base.pages import PARTED, Part
from collector.api.base.routing import Here, Who, api_router
from collector.api.base.versions import GUARDED, TAGGED, TAGGED_NEW, IfMatch, created, seen, shown
from collector.api.base.written import encoded
from collector.api.documents.rule_documents import (
    comparisons_of,
    problems_of,
    rule_document,
    rules_document,
    trial_document,
)
from collector.api.rules.body import BODY, RuleBody, rule_body
from collector.evaluation.rule_check import check_evaluator
from collector.evaluation.rule_trial import Parameters, explain_trace, try_rule
from collector.live.rules.rules_in_force import KeptRule
from collector.path_names import path_segment
from storage.errors import Missing
from storage.query.query_options import QueryOptions

router = api_router(prefix="/api/v1")

RULES: Final = "/projects/{project:name}/trace-eval-rules"
"""Rules of a project, by its name (which may contain a slash) or its id; `*` names those of all projects."""

ALL: Final = "*"

_LONGEST_S = 3_660 * 86_400
_LEAST_S = 1.0
_MOST_NEWEST = 10_000_000
_NS = 1_000_000_000

Body = Annotated[RuleBody, Depends(rule_body)]


@dataclass(frozen=True, slots=True)
class RuleReference:
    """Path of a rule to change: its project (None: all) and its id."""

    project: str | None
    rule_id: str


def _named(project: str, rule_id: str, here: Here, who: Who) -> RuleReference:
    find_own(here, who, project, rule_id)
    return RuleReference(about_of(here, who, project), rule_id)


@router.get("/projects", responses=PARTED)
@needs(Permission.READ, by_tenant=True)
@answers(list[ProjectDocument])
def list_projects(here: Here, who: Who, part: Part) -> Response:
    """List projects by name: those created, and those that traces name."""
    return part.answer(here.store.rulebook.projects(who.visible_tenant), ProjectDocument.of)


@router.get("/trace-eval-rules", responses=PARTED)
@needs(Permission.READ, by_tenant=True)
@answers(RuleList)
def list_all(here: Here, who: Who, part: Part) -> Response:
    """List all rules with their recent results, and problems of rule files."""
    activity = here.store.status.rule_activity(here.now_ns(), who.visible_tenant)
    ids = here.store.rulebook.project_ids(who.visible_tenant)
    problems = here.rules.problems if who.sees_all else ()
    problem_of = problems_of(here, who)
    comparison_of = comparisons_of(here, who.visible_tenant)
    rules = rules_document(part.of(_kept(here, who)), ids, activity, problems, problem_of, comparison_of)
    return part.encoded(rules)


@router.get(RULES, responses=PARTED)
@needs(Permission.READ, by_tenant=True)
@answers(list[RuleDocument])
def list_rules(project: str, here: Here, who: Who, part: Part) -> Response:
    """List the rules of a project, oldest first, among them those of all projects."""
    about = {about_of(here, who, project), None}
    ids = here.store.rulebook.project_ids(who.visible_tenant)
    kept = [each for each in _kept(here, who) if each.stored.project in about]
    notes = problems_of(here, who), comparisons_of(here, who.visible_tenant)
    return part.answer(kept, lambda each: rule_document(each, ids, *notes))


@router.post(RULES, status_code=HTTPStatus.CREATED, openapi_extra=BODY, responses=TAGGED_NEW)
@needs(Permission.WRITE, by_tenant=True)
@answers(RuleDocument)
def create(project: str, body: Body, here: Here, who: Who) -> Response:
    """Put a rule in force, and make the project if this is its first."""
    kept = here.rules.create(about_of(here, who, project, make=True), body.parsed, body.text, tenant=who.tenant)
    place = f"/api/v1/projects/{path_segment(project)}/trace-eval-rules/{kept.stored.rule_id}"
    return created(_document(here, who, kept), kept.stored.version, at=place)


class TrialQuery(BaseModel):
    """Parameters of a rule trial."""

    window_s: Annotated[float, Field(alias="lastSeconds", gt=0, le=_LONGEST_S)] = 86_400
    newest: Annotated[int, Field(ge=1, le=_MOST_NEWEST)] | None = Field(
        default=None,
        description="The maximum number of spans, the newest; `windowSeconds` is shorter if there are more.",
    )
    trace: str | None = None
    prompt: bool = False


@router.post(f"{RULES}/test", openapi_extra=BODY)
@needs(Permission.WRITE, by_tenant=True)
@answers(RuleTrialDocument | ExplainedTrace)
def try_out(
    project: str,
    body: Body,
    here: Here,
    who: Who,
    query: Annotated[TrialQuery, Query()],
) -> Response:
    """Try a rule on stored traces: what it would match, and the cost; or explain the decisions on one trace.

    `prompt` adds what its judge would be sent for the newest example; no model is called.
    """
    rule = here.rules.checked(about_of(here, who, project, make=True), body.parsed, tenant=who.tenant)

    def ask(select: str, parameters: Parameters) -> Sequence[Sequence[Any]]:
        settings = here.settings
        return here.store.queries.sql(
            select,
            parameters,
            max_rows=settings.sql_rows,
            timeout_s=settings.sql_seconds,
            terms=QueryOptions(is_ours=True),
        ).rows

    trace = query.trace
    if trace is None:
        window_s = query.window_s if query.newest is None else _window_s(here, who, query.window_s, query.newest)
        trial = try_rule(rule, check_evaluator(body.parsed), window_s, ask, tenant=who.tenant or None)
        document = trial_document(trial)
        if query.prompt:
            preview = here.trials.preview(rule, trial.examples[0]).document() if trial.examples else None
            document.prompt = convert(preview, PromptDocument | None)
        return encoded(document)
    explained = explain_trace(rule, trace.strip().lower(), ask, tenant=who.tenant or None)
    if explained is None:
        raise Missing(f"no trace {trace} here")
    return JSONResponse(explained)


def _window_s(here: Here, who: Caller, window_s: float, newest: int) -> float:
    # Shorter if more than `newest` spans started in it.
    now_ns = here.now_ns()
    start_ns, _ = here.store.rule_record.start_of_newest(
        now_ns - int(window_s * _NS), newest, tenant=who.tenant or None
    )
    return window_s if start_ns is None else min(max((now_ns - start_ns) / _NS, _LEAST_S), window_s)


@router.get(f"{RULES}/{{rule_id}}", responses=TAGGED)
@needs(Permission.READ, by_tenant=True)
@answers(RuleDocument)
def show(project: str, rule_id: str, here: Here, who: Who) -> Response:
    """Return a rule."""
    kept = find(here, who, project, rule_id)
    return shown(_document(here, who, kept), kept.stored.version)


@router.put(f"{RULES}/{{rule_id}}", openapi_extra=BODY, responses=TAGGED | GUARDED)
@needs(Permission.WRITE, by_tenant=True)
@answers(RuleDocument)
def replace(
    one: Annotated[RuleReference, Depends(_named)], body: Body, here: Here, who: Who, if_match: IfMatch = ""
) -> Response:
    """Replace the text of a rule."""
    kept = here.rules.replace(one.project, one.rule_id, body.parsed, body.text, seen=seen(if_match))
    return shown(_document(here, who, kept), kept.stored.version)


@router.delete(f"{RULES}/{{rule_id}}", status_code=HTTPStatus.NO_CONTENT, responses=GUARDED)
@needs(Permission.WRITE, by_tenant=True)
def delete(one: Annotated[RuleReference, Depends(_named)], here: Here, if_match: IfMatch = "") -> Response:
    """Delete a rule; its results stay."""
    here.rules.delete(one.project, one.rule_id, seen=seen(if_match))
    return Response(status_code=HTTPStatus.NO_CONTENT)


def about_of(here: Here, who: Caller, key: str, *, make: bool = False) -> str | None:
    """Return the name of a project that the caller sees, from its name or id; None for all projects.

    With `make`, an unknown name is accepted: its first rule creates the project.

    Raises:
        Missing: the caller sees no such project.
    """
    if key == ALL:
        return None
    row = here.store.rulebook.project(who.visible_tenant, key)
    if row is None and not make:
        raise Missing(f"there is no project {key!r}")
    return key if row is None else row.name


def find(here: Here, who: Caller, project: str, rule_id: str) -> KeptRule:
    """Return the rule with that id of a project, or of all projects, if the caller sees it.

    Raises:
        Missing: the caller sees no such rule.
    """
    about = about_of(here, who, project)
    kept = here.rules.find(about, rule_id)
    if not who.sees(kept.stored.tenant):
        raise Missing(f"there is no rule {rule_id}")
    return kept


def find_own(here: Here, who: Caller, project: str, rule_id: str) -> KeptRule:
    """Return a rule that the caller may change.

    Raises:
        Missing: the caller sees no such rule.
        Forbidden: the rule is shared.
    """
    kept = find(here, who, project, rule_id)
    refuse_shared(who, kept.stored.tenant, f"the rule {kept.stored.name!r}")
    return kept


def _kept(here: Here, who: Caller) -> list[KeptRule]:
    return [kept for kept in here.rules.kept() if who.sees(kept.stored.tenant)]


def _document(here: Here, who: Caller, kept: KeptRule) -> RuleDocument:
    comparison_of = comparisons_of(here, who.visible_tenant, kept.stored.rule_id)
    return rule_document(kept, here.store.rulebook.project_ids(), problems_of(here, who), comparison_of)
