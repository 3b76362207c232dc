"""How the server stands, over HTTP: whether it is alive and takes spans, its numbers, and what is behind or failed."""

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from collector.access.permission import Permission, needs
from collector.api.answers.declared import answers
from collector.api.answers.server import StatusDocument
from collector.api.base.context import Here
from collector.api.documents.rule_documents import problems_of
from collector.api.documents.status_documents import condition_document, rule_counts_document, status_document
from collector.conditions import CANNOT_COMMIT
from collector.meters import MEDIA_TYPE, exposition

router = APIRouter()


class Health(BaseModel):
    """That the process answers."""

    status: str
    setAside: int = Field(description="Rows that the database refuses, in files.")


class Readiness(BaseModel):
    """Whether spans are taken."""

    status: str = Field(description="starting, ready, failing or stopping")


@router.get("/health")
@needs(Permission.OPEN)
async def health(here: Here) -> Health:
    """The process answers; and how many spans it could not store, which is a bug that somebody should hear of."""
    return Health(status="ok", setAside=here.set_aside())


@router.get("/ready", responses={200: {"model": Readiness}, 503: {"model": Readiness, "description": "Not now."}})
@needs(Permission.OPEN)
async def ready(here: Here) -> JSONResponse:
    """Spans are taken, if not all of them at once; 503 while starting, stopping, or unable to commit for seconds."""
    status = "failing" if here.state == "ready" and here.conditions.holds(CANNOT_COMMIT) else here.state
    return JSONResponse({"status": status}, status_code=200 if status == "ready" else 503)


@router.get("/api/v1/status")
@answers(StatusDocument)
def status(here: Here) -> JSONResponse:
    """What is stored, what is behind, what is to be judged, what failed of late, what was spent today."""
    now_ns = here.now_ns()
    server: dict[str, object] = {
        "state": here.state,
        "overloaded": here.overloaded(),
        "backlogBytes": here.backlog_bytes(),
        "conditions": [condition_document(each) for each in here.conditions.lasting],
    }
    found = here.status.status(now_ns)
    rules = rule_counts_document(here.rules.kept(), here.rules.problems, problems_of(here))
    return JSONResponse(status_document(found, rules, server=server, now_ns=now_ns))


@router.get(
    "/metrics", responses={200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}}, response_class=Response
)
@needs(Permission.READ)
def metrics(here: Here) -> Response:
    """Spans, bytes, times, jobs and requests in the text format of Prometheus."""
    return Response(exposition(here.meters), media_type=MEDIA_TYPE)
