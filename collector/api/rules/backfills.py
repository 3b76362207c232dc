"""Backfills over HTTP: rules run on stored traces."""

from http import HTTPStatus
from typing import Annotated, Final

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from collector.access.permission import Permission, needs
from collector.api.access.keys import Instant
from collector.api.base.exact_json import HexTrace
from collector.api.base.json_encoding import json_response
from collector.api.base.pages import PARTED, Part
from collector.api.base.problems import problem
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.base.times import moment_ns
from collector.api.documents.rule_documents import baseline_estimate
from collector.api.documents.rule_documents import start_baseline as start_baseline_of
from collector.api.responses.declaration import response_model
from collector.api.responses.judging import BackfillDocument, BaselineEstimateDocument
from collector.api.rules.rules import RULES, find_own
from collector.path_names import path_segment
from storage.errors import Conflict, NotFound
from storage.judging.backfills import Backfill

router = api_router(prefix="/api/v1")

_PATH: Final = f"{RULES}/{{rule_id}}/backfills"

MOST_CHOSEN: Final = 200
"""Maximum number of `traceIds` of one backfill. A guess."""


class Bounds(BaseModel):
    """Interval in which the spans to judge started; `to` is now by default.

    With `traceIds`, only spans of these traces.
    """

    model_config = ConfigDict(extra="forbid")

    from_time: Annotated[Instant, Field(alias="from")]
    to_time: Annotated[Instant | None, Field(alias="to")] = None
    trace_ids: Annotated[list[HexTrace] | None, Field(alias="traceIds", min_length=1, max_length=MOST_CHOSEN)] = None


@router.post(_PATH, status_code=HTTPStatus.CREATED)
@needs(Permission.WRITE, by_tenant=True)
@response_model(BackfillDocument)
def start(project: str, rule_id: str, bounds: Bounds, context: ContextDep, caller: CallerDep) -> Response:
    """Run a rule over what is stored."""
    kept = find_own(context, caller, project, rule_id)
    from_ns = moment_ns(bounds.from_time)
    to_ns = context.now_ns() if bounds.to_time is None else moment_ns(bounds.to_time)
    if from_ns >= to_ns:
        return problem(HTTPStatus.BAD_REQUEST, "from: must be before to")
    chosen = None if bounds.trace_ids is None else [each.lower() for each in bounds.trace_ids]
    return _started(context, project, rule_id, context.backfills.start(kept.active, from_ns, to_ns, trace_ids=chosen))


def _started(context: ContextDep, project: str, rule_id: str, backfill_id: str) -> Response:
    place = f"/api/v1/projects/{path_segment(project)}/trace-eval-rules/{rule_id}/backfills/{backfill_id}"
    document = BackfillDocument.of(_find(context, rule_id, backfill_id))
    return json_response(document, status=HTTPStatus.CREATED, headers={"location": place})


@router.get(f"{RULES}/{{rule_id}}/baseline")
@needs(Permission.READ, by_tenant=True)
@response_model(BaselineEstimateDocument)
def estimate_baseline(project: str, rule_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Estimate the evaluations of a baseline, and their cost from that of the latest evaluations. Judge nothing."""
    estimate = baseline_estimate(context, find_own(context, caller, project, rule_id).active)
    return json_response(BaselineEstimateDocument.of(estimate))


@router.post(f"{RULES}/{{rule_id}}/baseline", status_code=HTTPStatus.CREATED)
@needs(Permission.WRITE, by_tenant=True)
@response_model(BackfillDocument)
def start_baseline(project: str, rule_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Judge the releases that monitors compare, where the rule's present evaluator has not judged them."""
    kept = find_own(context, caller, project, rule_id)
    return _started(context, project, rule_id, start_baseline_of(context, kept.active))


@router.get(_PATH, responses=PARTED)
@needs(Permission.READ, by_tenant=True)
@response_model(list[BackfillDocument])
def list_backfills(project: str, rule_id: str, context: ContextDep, caller: CallerDep, part: Part) -> Response:
    """List backfills, newest first. No tenant sees those of a shared rule: they concern spans of all tenants."""
    find_own(context, caller, project, rule_id)
    return part.answer(context.backfills.of_rule(rule_id), BackfillDocument.of)


@router.get(f"{_PATH}/{{backfill_id}}")
@needs(Permission.READ, by_tenant=True)
@response_model(BackfillDocument)
def show(project: str, rule_id: str, backfill_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Return a backfill."""
    find_own(context, caller, project, rule_id)
    return json_response(BackfillDocument.of(_find(context, rule_id, backfill_id)))


@router.delete(f"{_PATH}/{{backfill_id}}", status_code=HTTPStatus.NO_CONTENT)
@needs(Permission.WRITE, by_tenant=True)
def cancel(project: str, rule_id: str, backfill_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Cancel a backfill; its results stay."""
    find_own(context, caller, project, rule_id)
    backfill = _find(context, rule_id, backfill_id)
    if backfill.state != "running":
        raise Conflict(f"the backfill {backfill_id} is {backfill.state}")
    context.backfills.cancel(backfill_id)
    return Response(status_code=HTTPStatus.NO_CONTENT)


def _find(context: ContextDep, rule_id: str, backfill_id: str) -> Backfill:
    for each in context.backfills.of_rule(rule_id):
        if each.backfill_id == backfill_id:
            return each
    raise NotFound(f"the rule {rule_id} has no backfill {backfill_id}")
