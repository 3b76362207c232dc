"""Jobs over HTTP: list evaluations, and retry failed ones."""

import time
from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import Path, Query
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from collector.access.permission import Permission, needs
from collector.api.base.json_encoding import json_response
from collector.api.base.problems import problem
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.documents.judgement_documents import refusal
from collector.api.responses.declaration import response_model
from collector.api.responses.judging import JobDocument, JobPage, RetriedJob, RetriedJobs
from storage.judging.jobs import JobFilter
from storage.judging.repeating import MOST_RETRIED

router = api_router(prefix="/api/v1/jobs")

_MAX_PAGE = 10_000
_LAST_ID = 2**63 - 1

State = Literal["waiting", "held", "ready", "claimed", "scored", "failed", "skipped", "superseded"]
Text = Annotated[str, Field(min_length=1, max_length=1000)]


class JobQuery(BaseModel):
    """Filter and page of the job list. `rule` is an id or a name."""

    model_config = ConfigDict(extra="forbid")

    state: State | None = None
    rule: Text | None = None
    trace: Text | None = None
    page: int = Field(default=0, ge=0, le=_MAX_PAGE)
    size: int = Field(default=50, ge=1, le=200)


class Failed(BaseModel):
    """Filter of failed evaluations: by rule (name or id) and kind of error; without either, all.

    `over_budget` and `rule_disabled` select those that were skipped for that reason.
    """

    model_config = ConfigDict(extra="forbid")

    rule: Text | None = None
    error_kind: Text | None = Field(default=None, alias="errorKind")


@router.get("")
@needs(Permission.READ, by_tenant=True)
@response_model(JobPage)
def list_jobs(context: ContextDep, caller: CallerDep, query: Annotated[JobQuery, Query()]) -> Response:
    """List jobs, newest first."""
    filters = JobFilter(
        state=query.state,
        rule=query.rule,
        trace_id=None if query.trace is None else query.trace.lower(),
        tenant=caller.visible_tenant,
    )
    rows = context.store.jobs.page(filters, limit=query.size + 1, skipped=query.page * query.size)
    return json_response(JobPage.page([JobDocument.of(row) for row in rows], query.page, query.size))


@router.post("/{job_id}/retry")
@needs(Permission.WRITE, by_tenant=True)
@response_model(RetriedJob)
def retry_job(job_id: Annotated[int, Path(ge=0, le=_LAST_ID)], context: ContextDep, caller: CallerDep) -> Response:
    """Retry a failed job as a new one; a job that waits for its next attempt runs now."""
    repeated = context.store.jobs.retry([job_id], now_us=_now_us(), tenant=caller.visible_tenant)
    context.jobs_changed()
    if job_id not in repeated.refused:
        return json_response(RetriedJob(retried=repeated.jobs))
    state = repeated.refused[job_id]
    status = HTTPStatus.NOT_FOUND if state is None else HTTPStatus.CONFLICT
    return problem(status, f"job {job_id}: {refusal(state)}")


@router.post("/retry")
@needs(Permission.WRITE, by_tenant=True)
@response_model(RetriedJobs)
def retry_failed(failed: Failed, context: ContextDep, caller: CallerDep) -> Response:
    """Retry failed jobs, the oldest first."""
    repeated = context.store.jobs.retry_failed(
        rule=failed.rule, error_kind=failed.error_kind, now_us=_now_us(), tenant=caller.visible_tenant
    )
    context.jobs_changed()
    return json_response(RetriedJobs(retried=repeated.jobs, more=repeated.jobs == MOST_RETRIED))


def _now_us() -> int:
    return time.time_ns() // 1000
