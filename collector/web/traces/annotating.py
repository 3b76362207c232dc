"""Annotations of a trace and its spans: shown beside the span, with the form for a vote."""

import json
from collections.abc import Sequence

from fastapi.responses import RedirectResponse, Response
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from collector.access.permission import Permission, needs
from collector.api.access.tenants import tenant_of
from collector.api.base.context import Context
from collector.api.base.routing import CallerDep, ContextDep
from collector.api.review.annotations import AnnotationBody, Withdrawal, own_target, voted, withdraw
from collector.web.visitor import FormDep, by_field, page_router, with_query
from storage.records import TraceSummary
from storage.review.annotations import Annotation, AnnotationCriteria

router = page_router()

_SEE_OTHER = 303
_WITHDRAWN = "none"


def votes_on_trace(context: Context, trace: TraceSummary, span_id: str | None) -> Sequence[Annotation]:
    """Return the annotations of the trace and of one of its spans, latest first."""
    annotations = context.store.annotations.like(AnnotationCriteria(trace_id=trace.trace_id), tenant=trace.tenant)
    return [each for each in annotations if each.span_id in {None, span_id} and each.tenant == trace.tenant]


@router.post("/traces/{trace_id}/annotate")
@needs(Permission.WRITE, by_tenant=True)
def annotate(trace_id: str, context: ContextDep, caller: CallerDep, form: FormDep) -> Response:
    """Vote on a trace or a span of it, or take the vote back."""
    tenant = tenant_of(caller, form.text("tenant") if form.checked("tenant") else None)
    span = form.text("span")
    about = own_target(context, tenant, trace_id, span if form.text("about") == "span" and span else None)
    verdict = form.required("verdict")
    if verdict == _WITHDRAWN:
        withdraw(context, caller, about, Withdrawal())
    else:
        expected = form.text("expected").strip()
        sent = {
            "verdict": verdict,
            "note": form.text("note").strip() or None,
            "overriddenExpectedOutput": _typed(expected) if expected else None,
        }
        try:
            body = AnnotationBody.model_validate(sent)
        except ValidationError as error:
            raise HTTPException(400, "; ".join(f"{name}: {text}" for name, text in by_field(error).items())) from None
        context.store.annotations.add([voted(context, caller, about, body)], now_us=context.now_ns() // 1000)
    place = with_query(f"/traces/{about.trace_id}", span=span or None, tenant=tenant or None)
    return RedirectResponse(f"{place}#votes", _SEE_OTHER)


def _typed(text: str) -> object:
    try:
        return json.loads(text) if text.startswith("{") else text
    except ValueError:
        return text
