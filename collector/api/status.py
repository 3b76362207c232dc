"""How the server stands, over HTTP."""

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from collector.api.context import Here
from collector.api.status_documents import status_document

router = APIRouter()


@router.get("/api/v1/status")
def status(here: Here) -> JSONResponse:
    """What is stored, what is behind, what is to be judged, what failed of late, what was spent today."""
    now_ns = here.now_ns()
    server: dict[str, object] = {
        "state": here.state,
        "overloaded": here.overloaded(),
        "backlogBytes": here.backlog_bytes(),
    }
    found = here.status.status(now_ns)
    return JSONResponse(status_document(found, here.rules.kept(), here.rules.problems, server=server, now_ns=now_ns))
