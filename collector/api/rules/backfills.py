"""Backfills over HTTP: rules run on stored traces."""

from http import HTTPStatus
from typing import Annotated, Final

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from collector.access.permission import Permission, needs
from collector.api.access.keys import Instant
from collector.api.answers.declared import answers
from collector.api.answers.judging import BackfillDocument, BaselineEstimateDocument
from collector.api.base.exact_json import HexTrace
from collector.api.base.pages import PARTED, Part
from collector.api.base.problems import problem
from collector.api.base.routing import Here, Who, api_router
from collector.api.base.times import moment_ns
from collector.api.base.written import encoded
from collector.api.documents.rule_documents import baseline_estimate
from collector.api.documents.rule_documents import start_baseline as start_baseline_of
from collector.api.rules.rules import RULES, find_own
from collector.path_names import path_segment
from storage.errors import Conflict, Missing
from storage.judging.backfills import Backfill

router = api_router(prefix="/api/v1")

_PATH: Final = f"{RULES}/{{rule_id}}/backfills"

MOST_CHOSEN: Final = 200
"""Most `traceIds` of one backfill; a guess."""


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
@answers(BackfillDocument)
def start(project: str, rule_id: str, bounds: Bounds, here: Here, who: Who) -> Response:
    """Run a rule over what is stored."""
    kept = find_own(here, who, project, rule_id)
    from_ns = moment_ns(bounds.from_time)
    to_ns = here.now_ns() if bounds.to_time is None else moment_ns(bounds.to_time)
    if from_ns >= to_ns:
        return problem(HTTPStatus.BAD_REQUEST, "from: must be before to")
    chosen = None if bounds.trace_ids is None else [each.lower() for each in bounds.trace_ids]
    return _started(here, project, rule_id, here.backfills.start(kept.active, from_ns, to_ns, trace_ids=chosen))


def _started(here: Here, project: str, rule_id: str, backfill_id: str) -> Response:
    place = f"/api/v1/projects/{path_segment(project)}/trace-eval-rules/{rule_id}/backfills/{backfill_id}"
    document = BackfillDocument.of(_find(here, rule_id, backfill_id))
    return encoded(document, status=HTTPStatus.CREATED, headers={"location": place})


@router.get(f"{RULES}/{{rule_id}}/baseline")
@needs(Permission.READ, by_tenant=True)
@answers(BaselineEstimateDocument)
def estimate_baseline(project: str, rule_id: str, here: Here, who: Who) -> Response:
    """Estimate the evaluations of a baseline, and their cost from that of the latest evaluations. Judge nothing."""
    estimate = baseline_estimate(here, find_own(here, who, project, rule_id).active)
    return encoded(BaselineEstimateDocument.of(estimate))


@router.post(f"{RULES}/{{rule_id}}/baseline", status_code=HTTPStatus.CREATED)
@needs(Permission.WRITE, by_tenant=True)
@answers(BackfillDocument)
def start_baseline(project: str, rule_id: str, here: Here, who: Who) -> Response:
    """Judge the releases that monitors compare, where the rule's present evaluator has not judged them."""
    kept = find_own(here, who, project, rule_id)
    return _started(here, project, rule_id, start_baseline_of(here, kept.active))


@router.get(_PATH, responses=PARTED)
@needs(Permission.READ, by_tenant=True)
@answers(list[BackfillDocument])
def list_backfills(project: str, rule_id: str, here: Here, who: Who, part: Part) -> Response:
    """List backfills, newest first. No tenant sees those of a shared rule: they concern spans of all tenants."""
    find_own(here, who, project, rule_id)
    return part.answer(here.backfills.of_rule(rule_id), BackfillDocument.of)


@router.get(f"{_PATH}/{{backfill_id}}")
@needs(Permission.READ, by_tenant=True)
@answers(BackfillDocument)
def show(project: str, rule_id: str, backfill_id: str, here: Here, who: Who) -> Response:
    """Return a backfill."""
    find_own(here, who, project, rule_id)
    return encoded(BackfillDocument.of(_find(here, rule_id, backfill_id)))


@router.delete(f"{_PATH}/{{backfill_id}}", status_code=HTTPStatus.NO_CONTENT)
@needs(Permission.WRITE, by_tenant=True)
def cancel(project: str, rule_id: str, backfill_id: str, here: Here, who: Who) -> Response:
    """Cancel a backfill; its results stay."""
    find_own(here, who, project, rule_id)
    backfill = _find(here, rule_id, backfill_id)
    if backfill.state != "running":
        raise Conflict(f"the backfill {backfill_id} is {backfill.state}")
    here.backfills.cancel(backfill_id)
    return Response(status_code=HTTPStatus.NO_CONTENT)


def _find(here: Here, rule_id: str, backfill_id: str) -> Backfill:
    for each in here.backfills.of_rule(rule_id):
        if each.backfill_id == backfill_id:
            return each
    raise Missing(f"the rule {rule_id} has no backfill {backfill_id}")
