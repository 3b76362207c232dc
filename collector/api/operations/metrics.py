"""Metrics of the server itself."""

from fastapi.responses import Response

from collector.access.permission import Permission, needs
from collector.api.base.routing import ContextDep, api_router
from collector.meters import MEDIA_TYPE, exposition

router = api_router()


@router.get(
    "/metrics", responses={200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}}, response_class=Response
)
@needs(Permission.READ)
def metrics(context: ContextDep) -> Response:
    """Return metrics of spans, bytes, times, jobs and requests in the text format of Prometheus."""
    return Response(exposition(context.meters), media_type=MEDIA_TYPE)
