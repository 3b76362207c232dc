"""Traces over HTTP: in by the seeds' path, out as documents."""

import logging
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from collector.api.context import Here
from collector.api.documents import summary_document, trace_document
from collector.conventions.trace import read_trace
from collector.doors.body import Disconnected
from collector.doors.status import failure_of
from collector.otlp import encode

log = logging.getLogger(__name__)
router = APIRouter(prefix="/api/v1/traces")

_MAX_PAGE = 10_000


@router.post("")
async def ingest(request: Request, here: Here) -> Response:
    """Take an OTLP `ExportTraceServiceRequest`, protobuf or JSON; the counts are those of this request."""
    try:
        receipt = await here.reader.read(request.scope, request.receive, counts_traces=True)
    except Disconnected:
        return Response(status_code=400)
    except Exception as error:  # noqa: BLE001 - the border of the door: every request gets an answer from the table
        failure = failure_of(error)
        if failure.http_status == HTTPStatus.INTERNAL_SERVER_ERROR:
            log.exception("an ingest request failed")
        headers = {} if failure.retry_after_s is None else {"retry-after": str(failure.retry_after_s)}
        return JSONResponse({"error": failure.message}, status_code=failure.http_status, headers=headers)
    reply: dict[str, object] = {
        "acceptedSpans": receipt.accepted,
        "rejectedSpans": receipt.rejected,
        "traces": receipt.traces,
    }
    return JSONResponse(reply | ({"errorMessage": receipt.message} if receipt.message else {}))


@router.get("")
def list_traces(
    here: Here,
    project: str | None = None,
    page: Annotated[int, Query(ge=0, le=_MAX_PAGE)] = 0,
    size: Annotated[int, Query(ge=1, le=200)] = 50,
) -> dict[str, object]:
    """Traces by start time, newest first."""
    summaries = here.queries.newest_traces(project=project, offset=page * size, limit=size + 1)
    content = [summary_document(summary) for summary in summaries[:size]]
    return {
        "content": content,
        "number": page,
        "size": size,
        "numberOfElements": len(content),
        "first": page == 0,
        "last": len(summaries) <= size,
    }


@router.get("/{trace_id}")
def show_trace(trace_id: str, here: Here) -> JSONResponse:
    """One trace with all its spans, by start time, and what they mean."""
    trace = here.queries.trace(trace_id.lower())
    if trace is None:
        return _not_found(trace_id)
    return JSONResponse(trace_document(trace, read_trace(trace.spans, trace.logs, here.own_keys)))


@router.get("/{trace_id}/otlp")
def export_trace(trace_id: str, here: Here) -> JSONResponse:
    """One trace as the OTLP/JSON request that would send it."""
    trace = here.queries.trace(trace_id.lower())
    if trace is None:
        return _not_found(trace_id)
    if len(trace.spans) < trace.summary.span_count:
        told = f"trace {trace_id} has {trace.summary.span_count} spans, which is more than one answer holds; use SQL"
        return JSONResponse({"error": told}, status_code=422)
    return JSONResponse(encode.json_request(trace))


def _not_found(trace_id: str) -> JSONResponse:
    return JSONResponse({"error": f"no trace {trace_id} here"}, status_code=404)
