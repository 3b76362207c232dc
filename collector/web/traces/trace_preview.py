"""The preview of a trace beside the list of traces."""

from typing import Final

from fastapi import Request
from fastapi.responses import Response

from collector.access.permission import Permission, needs
from collector.api.access.tenants import visible_tenant_of
from collector.api.base.routing import CallerDep, ContextDep
from collector.web.rendering import in_snapshot, page
from collector.web.visitor import page_router, with_query
from storage.errors import NotFound

router = page_router()

_MOST_SPANS: Final = 2_000
"""Limit of the spans that are searched for errors and models; the preview of a longer trace says so. A guess."""

_SHOWN_SPANS: Final = 12
_SHOWN_ERRORS: Final = 5
_CHARACTERS: Final = 3_000


@router.get("/traces/{trace_id}/preview")
@needs(Permission.READ, by_tenant=True)
@in_snapshot
def show_preview(request: Request, trace_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Show a trace in short: input, output, verdicts, errors and its first spans."""
    tenant = request.query_params.get("tenant")
    outline = context.store.outlines.of_trace(
        trace_id.lower(), tenant=visible_tenant_of(caller, tenant), max_spans=_MOST_SPANS
    )
    if outline is None:
        raise NotFound(f"no trace {trace_id[:64]} here; it may have expired")
    trace, spans = outline.summary, outline.spans
    briefs = context.store.listing.briefs([trace], outline.commits, characters=_CHARACTERS)
    errors = [span for span in spans if span.is_error]
    whose = trace.tenant if trace.tenant and caller.sees_all else None
    return page(
        request,
        "trace_preview.html",
        trace=trace,
        brief=briefs[trace.tenant, trace.trace_id],
        duration_ms=(trace.end_ns - trace.start_ns) / 1e6 if trace.end_ns and trace.start_ns else None,
        models=sorted({span.model for span in spans if span.model}),
        errors=errors[:_SHOWN_ERRORS],
        errors_left_out=trace.error_count - len(errors[:_SHOWN_ERRORS]),
        searched_spans=len(spans),
        spans=spans[:_SHOWN_SPANS],
        spans_left_out=trace.span_count - len(spans[:_SHOWN_SPANS]),
        place=with_query(f"/traces/{trace.trace_id}", tenant=whose),
        of_span=lambda span_id: with_query(f"/traces/{trace.trace_id}", span=span_id, tenant=whose),
        characters=_CHARACTERS,
    )
