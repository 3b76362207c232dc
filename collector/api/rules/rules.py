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
from collector.api.base.json_encoding import json_response
from collector.api.base.pages import PARTED, Part
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.base.versions import GUARDED, TAGGED, TAGGED_NEW, IfMatch, created, seen, shown
from collector.api.documents.rule_documents import (
    comparisons_of,
    problems_of,
    rule_document,
    rules_document,
    trial_document,
)
from collector.api.responses.declaration import response_model
from collector.api.responses.judging import (
    ExplainedTrace,
    ProjectDocument,
    PromptDocument,
    RuleDocument,
    RuleList,
    RuleTrialDocument,
)
from collector.api.rules.body import BODY, RuleBody, rule_body
from collector.evaluation.rule_check import check_evaluator
from collector.evaluation.rule_trial import Parameters, explain_trace, try_rule
from collector.live.rules.active_rules import LoadedRule
from collector.path_names import path_segment
from storage.errors import NotFound
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


def _named(project: str, rule_id: str, context: ContextDep, caller: CallerDep) -> RuleReference:
    find_own(context, caller, project, rule_id)
    return RuleReference(about_of(context, caller, project), rule_id)


@router.get("/projects", responses=PARTED)
@needs(Permission.READ, by_tenant=True)
@response_model(list[ProjectDocument])
def list_projects(context: ContextDep, caller: CallerDep, part: Part) -> Response:
    """List projects by name: those created, and those that traces name."""
    return part.answer(context.store.rulebook.projects(caller.visible_tenant), ProjectDocument.of)


@router.get("/trace-eval-rules", responses=PARTED)
@needs(Permission.READ, by_tenant=True)
@response_model(RuleList)
def list_all(context: ContextDep, caller: CallerDep, part: Part) -> Response:
    """List all rules with their recent results, and problems of rule files."""
    activity = context.store.status.rule_activity(context.now_ns(), caller.visible_tenant)
    ids = context.store.rulebook.project_ids(caller.visible_tenant)
    problems = context.rules.problems if caller.sees_all else ()
    problem_of = problems_of(context, caller)
    comparison_of = comparisons_of(context, caller.visible_tenant)
    rules = rules_document(part.of(_kept(context, caller)), ids, activity, problems, problem_of, comparison_of)
    return part.encoded(rules)


@router.get(RULES, responses=PARTED)
@needs(Permission.READ, by_tenant=True)
@response_model(list[RuleDocument])
def list_rules(project: str, context: ContextDep, caller: CallerDep, part: Part) -> Response:
    """List the rules of a project, oldest first, among them those of all projects."""
    about = {about_of(context, caller, project), None}
    ids = context.store.rulebook.project_ids(caller.visible_tenant)
    kept = [each for each in _kept(context, caller) if each.stored.project in about]
    notes = problems_of(context, caller), comparisons_of(context, caller.visible_tenant)
    return part.answer(kept, lambda each: rule_document(each, ids, *notes))


@router.post(RULES, status_code=HTTPStatus.CREATED, openapi_extra=BODY, responses=TAGGED_NEW)
@needs(Permission.WRITE, by_tenant=True)
@response_model(RuleDocument)
def create(project: str, body: Body, context: ContextDep, caller: CallerDep) -> Response:
    """Create a rule, and its project if this is the project's first rule."""
    kept = context.rules.create(
        about_of(context, caller, project, make=True), body.parsed, body.text, tenant=caller.tenant
    )
    place = f"/api/v1/projects/{path_segment(project)}/trace-eval-rules/{kept.stored.rule_id}"
    return created(_document(context, caller, kept), kept.stored.version, at=place)


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
@response_model(RuleTrialDocument | ExplainedTrace)
def try_out(
    project: str,
    body: Body,
    context: ContextDep,
    caller: CallerDep,
    query: Annotated[TrialQuery, Query()],
) -> Response:
    """Try a rule on stored traces: what it would match, and the cost; or explain the decisions on one trace.

    `prompt` adds what its judge would be sent for the newest example; no model is called.
    """
    rule = context.rules.checked(about_of(context, caller, project, make=True), body.parsed, tenant=caller.tenant)

    settings = context.settings

    def ask(select: str, parameters: Parameters) -> Sequence[Sequence[Any]]:
        return context.store.queries.sql(
            select,
            parameters,
            max_rows=settings.sql_rows,
            timeout_s=settings.sql_seconds,
            terms=QueryOptions(is_ours=True),
        ).rows

    trace = query.trace
    if trace is None:
        window_s = query.window_s if query.newest is None else _window_s(context, caller, query.window_s, query.newest)
        judge, tenant = check_evaluator(body.parsed), caller.tenant or None
        trial = try_rule(rule, judge, window_s, ask, settling=settings.settling, tenant=tenant)
        document = trial_document(trial)
        if query.prompt:
            preview = context.trials.preview(rule, trial.examples[0]).document() if trial.examples else None
            document.prompt = convert(preview, PromptDocument | None)
        return json_response(document)
    explained = explain_trace(rule, trace.strip().lower(), ask, tenant=caller.tenant or None)
    if explained is None:
        raise NotFound(f"no trace {trace} here")
    return JSONResponse(explained)


def _window_s(context: ContextDep, caller: Caller, window_s: float, newest: int) -> float:
    # The window is shorter if more than `newest` spans started in it.
    now_ns = context.now_ns()
    start_ns, _ = context.store.rule_record.start_of_newest(
        now_ns - int(window_s * _NS), newest, tenant=caller.tenant or None
    )
    return window_s if start_ns is None else min(max((now_ns - start_ns) / _NS, _LEAST_S), window_s)


@router.get(f"{RULES}/{{rule_id}}", responses=TAGGED)
@needs(Permission.READ, by_tenant=True)
@response_model(RuleDocument)
def show(project: str, rule_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Return a rule."""
    kept = find(context, caller, project, rule_id)
    return shown(_document(context, caller, kept), kept.stored.version)


@router.put(f"{RULES}/{{rule_id}}", openapi_extra=BODY, responses=TAGGED | GUARDED)
@needs(Permission.WRITE, by_tenant=True)
@response_model(RuleDocument)
def replace(
    one: Annotated[RuleReference, Depends(_named)],
    body: Body,
    context: ContextDep,
    caller: CallerDep,
    if_match: IfMatch = "",
) -> Response:
    """Replace the text of a rule."""
    kept = context.rules.replace(one.project, one.rule_id, body.parsed, body.text, seen=seen(if_match))
    return shown(_document(context, caller, kept), kept.stored.version)


@router.delete(f"{RULES}/{{rule_id}}", status_code=HTTPStatus.NO_CONTENT, responses=GUARDED)
@needs(Permission.WRITE, by_tenant=True)
def delete(one: Annotated[RuleReference, Depends(_named)], context: ContextDep, if_match: IfMatch = "") -> Response:
    """Delete a rule; its results stay."""
    context.rules.delete(one.project, one.rule_id, seen=seen(if_match))
    return Response(status_code=HTTPStatus.NO_CONTENT)


def about_of(context: ContextDep, caller: Caller, key: str, *, make: bool = False) -> str | None:
    """Return the name of a project that the caller sees, from its name or id; None for all projects.

    With `make`, an unknown name is accepted: its first rule creates the project.

    Raises:
        NotFound: the caller sees no such project.
    """
    if key == ALL:
        return None
    row = context.store.rulebook.project(caller.visible_tenant, key)
    if row is None and not make:
        raise NotFound(f"there is no project {key!r}")
    return key if row is None else row.name


def find(context: ContextDep, caller: Caller, project: str, rule_id: str) -> LoadedRule:
    """Return the rule with that id of a project, or of all projects, if the caller sees it.

    Raises:
        NotFound: the caller sees no such rule.
    """
    about = about_of(context, caller, project)
    kept = context.rules.find(about, rule_id)
    if not caller.sees(kept.stored.tenant):
        raise NotFound(f"there is no rule {rule_id}")
    return kept


def find_own(context: ContextDep, caller: Caller, project: str, rule_id: str) -> LoadedRule:
    """Return a rule that the caller may change.

    Raises:
        NotFound: the caller sees no such rule.
        Forbidden: the rule is shared.
    """
    kept = find(context, caller, project, rule_id)
    refuse_shared(caller, kept.stored.tenant, f"the rule {kept.stored.name!r}")
    return kept


def _kept(context: ContextDep, caller: Caller) -> list[LoadedRule]:
    return [kept for kept in context.rules.kept() if caller.sees(kept.stored.tenant)]


def _document(context: ContextDep, caller: Caller, kept: LoadedRule) -> RuleDocument:
    comparison_of = comparisons_of(context, caller.visible_tenant, kept.stored.rule_id)
    return rule_document(kept, context.store.rulebook.project_ids(), problems_of(context, caller), comparison_of)
