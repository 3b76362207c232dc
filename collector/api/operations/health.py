"""Probes: liveness, and readiness to receive spans."""

from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from collector.access.permission import Permission, needs
from collector.api.base.routing import ContextDep, api_router
from collector.conditions import CANNOT_COMMIT, DAMAGED

router = api_router()


class Health(BaseModel):
    """Liveness of the process."""

    status: str
    setAside: int | None = Field(description="Rows that the database refuses, in files; null while the server starts.")
    dropped: int | None = Field(
        description="Spans that `drop_scopes` dropped since the start; null while the server starts."
    )


class Readiness(BaseModel):
    """Readiness to receive spans."""

    status: str = Field(description="starting, ready, damaged, failing or stopping")
    step: str | None = Field(default=None, description="While starting: the step of opening the data directory.")
    done: int | None = Field(default=None, description="The amount of the step that is done.")
    total: int | None = Field(default=None, description="The amount of the whole step; null if unknown.")
    seconds: float | None = Field(default=None, description="For how long the step has been under way.")


@router.get("/health")
@needs(Permission.OPEN)
async def health(context: ContextDep) -> Health:
    """Return liveness, and the numbers of rows that could not be stored (report any as a bug) and of dropped spans."""
    return Health(
        status="ok", setAside=context.store.totals.set_aside, dropped=sum(context.reader.ingest.dropped.values())
    )


@router.get("/ready", responses={200: {"model": Readiness}, 503: {"model": Readiness, "description": "Not ready."}})
@needs(Permission.OPEN)
async def ready(context: ContextDep) -> JSONResponse:
    """Return readiness to receive spans; 503 while starting, stopping, or unable to commit for seconds.

    A server with damaged data still receives spans: 200, with the status `damaged`.
    """
    status = context.state
    if status == "ready" and context.conditions.holds(CANNOT_COMMIT):
        status = "failing"
    elif status == "ready" and context.conditions.holds(DAMAGED):
        status = "damaged"
    return JSONResponse({"status": status}, status_code=200 if status in {"ready", "damaged"} else 503)
