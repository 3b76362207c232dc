"""Actions on traces chosen from a list: add them to a dataset or a queue, judge or delete them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from fastapi import Query, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.access.tenants import tenant_of, visible_tenant_of
from collector.api.base.context import Context
from collector.api.base.routing import CallerDep, ContextDep
from collector.api.review.dataset_promotion import Promoted, Promotion, promoted
from collector.live.upkeep.sweeper import wall_clock_us
from collector.units import count_text
from collector.web.confirming import Confirmation, ask
from collector.web.navigation import may_use
from collector.web.offline.promoting import chosen_dataset, own_datasets
from collector.web.offline.review_queue_form import ask_which_queue
from collector.web.rendering import page
from collector.web.rules import rule_access
from collector.web.visitor import FormDep, by_field, page_router, return_address
from storage.errors import BadQuery, Conflict, NotFound
from storage.ingest.known_times import within_known_times
from storage.query.outline import Outline
from storage.records import TraceSummary
from storage.upkeep.deletions import DeletionCriteria

router = page_router()

MOST_CHOSEN: Final = 100
"""Maximum number of selected traces; a page of the list has fewer, and a form accepts twice as many fields."""

_SEE_OTHER: Final = 303
_CHOSEN: Final = re.compile(r"([0-9a-fA-F]{32})(?:\.(.{0,100}))?")
_LIST: Final = "/traces"
_OF_DATASET: Final = "chosen_dataset.html"
_OF_RULE: Final = "chosen_rule.html"
Named = Annotated[Sequence[str], Query(alias="trace", max_length=MOST_CHOSEN)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenTrace:
    """A selected trace; with a blank tenant, the trace of this id that the caller sees."""

    trace_id: str
    tenant: str

    @property
    def text(self) -> str:
        """Format the trace for a form field."""
        return f"{self.trace_id}.{self.tenant}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An action on selected traces, and its page."""

    path: str
    label: str
    is_final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChosenFormState:
    """State of a form about selected traces."""

    template: str
    values: Mapping[str, str]
    problems: Mapping[str, str] = field(default_factory=dict)


def actions_for(caller: Caller) -> list[Action]:
    """Return the actions on selected traces that the caller may use."""
    every = (
        (promote_chosen, "POST", Action(path="/traces/chosen/dataset", label="Add to a dataset")),
        (evaluate_chosen, "POST", Action(path="/traces/chosen/evaluate", label="Evaluate")),
        (ask_which_queue, "GET", Action(path="/review/add", label="Add to a review queue")),
        (delete_chosen, "POST", Action(path="/traces/chosen/delete", label="Delete", is_final=True)),
    )
    return [action for endpoint, method, action in every if may_use(caller, endpoint, method)]


@router.get("/traces/chosen/dataset")
@needs(Permission.WRITE, by_tenant=True)
def ask_for_dataset(request: Request, context: ContextDep, caller: CallerDep, named: Named = ()) -> Response:
    """Ask for the dataset of the traces, and for the expectation of its new items."""
    if not named:
        return _nothing(request)
    own = own_datasets(context, caller)
    values = {"dataset": own[0].dataset_id if len(own) == 1 else "", "name": "", "expectation": "none"}
    return _form(request, context, caller, _chosen(named), _ChosenFormState(template=_OF_DATASET, values=values))


@router.post("/traces/chosen/dataset")
@needs(Permission.WRITE, by_tenant=True)
def promote_chosen(request: Request, context: ContextDep, caller: CallerDep, form: FormDep) -> Response:
    """Add the traces in one new version of the dataset, all or none."""
    chosen = _chosen(form.texts("trace"))
    values = {name: form.text(name).strip() for name in ("dataset", "name", "expectation")}
    use_output = values["expectation"] == "output"
    try:
        items = [Promoted(traceId=each.trace_id, useOutput=use_output) for each in chosen]
        dataset = chosen_dataset(context, caller, values["dataset"], values["name"])
        dataset, (version, _) = promoted(context, caller, dataset, Promotion(datasetName=dataset.name, items=items))
    except (ValidationError, BadQuery, Conflict, NotFound) as error:
        problems = by_field(error) if isinstance(error, ValidationError) else {"": str(error)}
        shown = _ChosenFormState(template=_OF_DATASET, values=values, problems=problems)
        return _form(request, context, caller, chosen, shown)
    return RedirectResponse(f"/datasets/{dataset.dataset_id}/versions/{version.version}", _SEE_OTHER)


@router.get("/traces/chosen/evaluate")
@needs(Permission.WRITE, by_tenant=True)
def ask_for_rule(request: Request, context: ContextDep, caller: CallerDep, named: Named = ()) -> Response:
    """Ask which rule is to evaluate the traces."""
    if not named:
        return _nothing(request)
    return _form(request, context, caller, _chosen(named), _ChosenFormState(template=_OF_RULE, values={"rule": ""}))


@router.post("/traces/chosen/evaluate")
@needs(Permission.WRITE, by_tenant=True)
def evaluate_chosen(request: Request, context: ContextDep, caller: CallerDep, form: FormDep) -> Response:
    """Start a backfill of a rule over the traces that it matches; the page of the rule shows its progress."""
    chosen, rule_id = _chosen(form.texts("trace")), form.text("rule")
    if not rule_id:
        shown = _ChosenFormState(template=_OF_RULE, values={"rule": ""}, problems={"rule": "choose a rule"})
        return _form(request, context, caller, chosen, shown)
    kept = rule_access.find_own(context, caller, rule_id)
    outlines = _outlines(context, caller, chosen)
    if not outlines:
        raise NotFound("none of these traces exist; they may have expired")
    from_ns = min(outline.bounds["from_ns"] for outline in outlines)
    to_ns = within_known_times(max(outline.bounds["to_ns"] for outline in outlines) + 1)
    ids = [outline.summary.trace_id for outline in outlines]
    rule_access.start_backfill(context, kept, from_ns, to_ns, trace_ids=ids)
    return RedirectResponse(f"/rules/{rule_id}#backfills", _SEE_OTHER)


@router.get("/traces/chosen/delete")
@needs(Permission.ADMINISTER, by_tenant=True)
def ask_to_delete_chosen(request: Request, context: ContextDep, caller: CallerDep, named: Named = ()) -> Response:
    """Ask for confirmation."""
    if not named:
        return _nothing(request)
    chosen = _chosen(named)
    summaries = [
        outline.summary for outline in _outlines(context, caller, chosen) if caller.owns(outline.summary.tenant)
    ]
    traces = count_text(len(summaries), "trace")
    spans = count_text(sum(summary.span_count for summary in summaries), "span")
    question = Confirmation(
        title=f"Delete {traces}",
        message=f"This deletes {traces} with {spans}, and all of their results.",
        action="/traces/chosen/delete",
        button="Delete them",
        back=return_address(request, _LIST),
        hidden=[("trace", each.text) for each in chosen],
    )
    return ask(request, question)


@router.post("/traces/chosen/delete")
@needs(Permission.ADMINISTER, by_tenant=True)
def delete_chosen(context: ContextDep, caller: CallerDep, form: FormDep) -> Response:
    """Delete the traces from every table, and wait for the last deletion; traces that no longer exist are skipped."""
    criteria = [
        DeletionCriteria(tenant=tenant_of(caller, each.tenant or None), trace_id=each.trace_id)
        for each in _chosen(form.texts("trace"))
    ]
    stored = [each for each in criteria if context.eraser.erasure.is_stored(each)]
    for each in stored[:-1]:
        context.eraser.deletions.request(each, now_us=wall_clock_us(), created_by=caller.key_name)
    for each in stored[-1:]:  # wait for the last one only
        context.eraser.delete(each, now_us=wall_clock_us(), created_by=caller.key_name)
    return RedirectResponse(_LIST, _SEE_OTHER)


def _nothing(request: Request) -> Response:
    return page(request, "chosen_none.html")


def _chosen(named: Sequence[str]) -> list[ChosenTrace]:
    matches = [_CHOSEN.fullmatch(each) for each in dict.fromkeys(named)]
    if not matches or len(matches) > MOST_CHOSEN or not all(matches):
        raise HTTPException(400, f"select between 1 and {MOST_CHOSEN} traces")
    return [ChosenTrace(trace_id=each[1].lower(), tenant=each[2] or "") for each in matches if each]


def _outlines(context: Context, caller: Caller, chosen: Sequence[ChosenTrace]) -> list[Outline]:
    """Return the outlines of the traces that exist."""
    outlines = [
        context.store.outlines.of_trace(
            each.trace_id, tenant=visible_tenant_of(caller, each.tenant or None), max_spans=1
        )
        for each in chosen
    ]
    return [outline for outline in outlines if outline is not None]


def _form(
    request: Request, context: Context, caller: Caller, chosen: Sequence[ChosenTrace], shown: _ChosenFormState
) -> Response:
    traces: list[TraceSummary] = [outline.summary for outline in _outlines(context, caller, chosen)]
    offered: dict[str, Any] = (
        {"datasets": own_datasets(context, caller)}
        if shown.template == _OF_DATASET
        else {"rules": [kept for kept in rule_access.all_rules(context, caller) if caller.owns(kept.stored.tenant)]}
    )
    return page(
        request,
        shown.template,
        status=400 if shown.problems else 200,
        chosen=chosen,
        traces=traces,
        values=shown.values,
        problems=shown.problems,
        back=return_address(request, _LIST),
        **offered,
    )
