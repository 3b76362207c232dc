"""Pages of evaluation jobs: pending and failed ones, the causes of failures, and retries."""

from typing import Annotated, Any, Final, get_args
from urllib.parse import urlencode

from fastapi import Path, Query, Request
from fastapi.responses import Response
from markupsafe import Markup
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.base.context import Context
from collector.api.base.pages import MAX_PAGE
from collector.api.base.routing import CallerDep, ContextDep
from collector.api.documents.judgement_documents import refusal
from collector.api.rules.jobs import State
from collector.live.upkeep.sweeper import wall_clock_us
from collector.result_labels import job_word
from collector.units import count_text
from collector.web.confirming import Confirmation, ask
from collector.web.navigation import may_use
from collector.web.operations.signing_in import own_path
from collector.web.rendering import page, see_other
from collector.web.text import one_line
from collector.web.visitor import FormDep, page_router
from storage.errors import Conflict, NotFound
from storage.judging.jobs import Failures, JobFilter
from storage.judging.repeating import MOST_RETRIED

router = page_router()

_PAGE_ROWS: Final = 50
_MOST_KINDS: Final = 50
_LAST_ID: Final = 2**63 - 1
_STATES: Final[tuple[State, ...]] = get_args(State)

Text = Annotated[str, Query(max_length=1000)]


class JobListing(BaseModel):
    """Query parameters of the list of jobs. By default it lists failed jobs."""

    state: str = "failed"
    rule: str = Field(default="", max_length=1000)
    trace: str = Field(default="", max_length=1000)
    page: int = Field(default=0, ge=0, le=MAX_PAGE)


@router.get("/jobs")
@needs(Permission.READ, by_tenant=True)
def list_jobs(
    request: Request, context: ContextDep, caller: CallerDep, query: Annotated[JobListing, Query()]
) -> Response:
    """Show failures by rule and error, and the jobs of a state, newest first."""
    if query.state not in {"", *_STATES}:
        raise HTTPException(400, f"state: there is no {query.state!r}")
    rows = _rows(context, caller, query)
    return page(
        request,
        "jobs.html",
        failures=_failures(context, caller),
        jobs=rows[:_PAGE_ROWS],
        is_last=len(rows) <= _PAGE_ROWS,
        query=query,
        pairs=[(each, job_word(each)) for each in _STATES],
        may_retry=may_use(caller, retry_job, "POST"),
    )


@router.get("/jobs/retry")
@needs(Permission.WRITE, by_tenant=True)
def ask_to_retry(
    request: Request, context: ContextDep, caller: CallerDep, rule: Text = "", kind: Text = ""
) -> Response:
    """Ask for confirmation before jobs that failed alike are retried, which may cost money."""
    alike = [each for each in _failures(context, caller) if _is_alike(each.rule_id, rule)]
    count = sum(each.jobs for each in alike if not kind or each.error_kind == kind)
    of_rule = Markup(" of the rule {}").format(one_line(alike[0].rule)) if rule and alike else Markup()
    with_kind = Markup(" with the error {}").format(one_line(kind)) if kind else Markup()
    message = Markup("{}{}{} will be retried. Model calls are paid again.").format(
        count_text(count, "failed evaluation"), of_rule, with_kind
    )
    hidden = (("rule", rule), ("kind", kind))
    question = Confirmation(
        title="Retry failed jobs",
        message=message,
        action="/jobs/retry",
        button="Retry",
        back="/jobs",
        hidden=hidden,
        is_final=False,
    )
    return ask(request, question)


@router.post("/jobs/retry")
@needs(Permission.WRITE, by_tenant=True)
def retry_failed(context: ContextDep, caller: CallerDep, form: FormDep) -> Response:
    """Retry failed jobs, the oldest first."""
    rule, kind = form.text("rule") or None, form.text("kind") or None
    repeated = context.store.jobs.retry_failed(
        rule=rule, error_kind=kind, now_us=wall_clock_us(), tenant=caller.visible_tenant
    )
    context.jobs_changed()
    more = repeated.jobs == MOST_RETRIED
    return see_other("/jobs?" + urlencode({"state": "failed" if more else ""}))


@router.post("/jobs/{job_id}/retry")
@needs(Permission.WRITE, by_tenant=True)
def retry_job(
    job_id: Annotated[int, Path(ge=0, le=_LAST_ID)], context: ContextDep, caller: CallerDep, form: FormDep
) -> Response:
    """Run a failed job again, or the pending retry of a waiting job at once."""
    repeated = context.store.jobs.retry([job_id], now_us=wall_clock_us(), tenant=caller.visible_tenant)
    context.jobs_changed()
    if job_id in repeated.refused:
        state = repeated.refused[job_id]
        message = f"job {job_id}: {refusal(state)}"
        raise NotFound(message) if state is None else Conflict(message)
    return see_other(own_path(form.text("next", "/jobs")))


def _failures(context: Context, caller: Caller) -> list[Failures]:
    return context.store.jobs.failures_by_kind(limit=_MOST_KINDS, tenant=caller.visible_tenant)


def _rows(context: Context, caller: Caller, query: JobListing) -> list[dict[str, Any]]:
    """Return the jobs of a page, and one more if there is a next page."""
    filters = JobFilter(
        state=query.state or None,
        rule=query.rule.strip() or None,
        trace_id=query.trace.strip().lower() or None,
        tenant=caller.visible_tenant,
    )
    return context.store.jobs.page(filters, limit=_PAGE_ROWS + 1, skipped=query.page * _PAGE_ROWS)


def _is_alike(rule_id: str, expected: str) -> bool:
    return not expected or rule_id == expected
