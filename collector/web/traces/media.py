"""Pictures in the messages of a span, served on request."""

from typing import Final

from fastapi import Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from collector.access.permission import Permission, needs
from collector.api.access.tenants import visible_tenant_of
from collector.api.base.routing import CallerDep, ContextDep
from collector.web.rendering import TEXT_HEADERS
from collector.web.spans.span_view import picture_of
from collector.web.visitor import page_router

router = page_router()

_HEADERS: Final = {
    **TEXT_HEADERS,
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",  # browsers style lone pictures
    "cache-control": "private, no-store",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}


@router.get("/traces/{trace_id}/spans/{span_id}/media")
@needs(Permission.READ, by_tenant=True)
def show_media(request: Request, trace_id: str, span_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Serve a picture of a message if its bytes are a raster image; anything else is refused.

    The query parameters `of` and `at` name the message and the part: see `picture_of`.
    """
    params = request.query_params
    visible_tenant = visible_tenant_of(caller, params.get("tenant") or None)
    outline = context.store.outlines.of_trace(trace_id.lower(), tenant=visible_tenant, max_spans=1)
    span = None if outline is None else context.store.outlines.span(outline, span_id.lower())
    of, at = params.get("of", ""), params.get("at", "")
    image = None if span is None else picture_of(span, of, at, context.own_keys)
    if image is None:
        raise HTTPException(404, "no image to show here; supported: PNG, JPEG, GIF, WebP up to 8 MiB and 50 megapixels")
    name = f"image.{image.media_type.rpartition('/')[2]}"
    return Response(
        image.content,
        media_type=image.media_type,
        headers={**_HEADERS, "content-disposition": f'inline; filename="{name}"'},
    )
