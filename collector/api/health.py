"""Whether the process is alive, and whether it takes spans."""

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from collector.api.context import Here

router = APIRouter()


@router.get("/health")
async def health(here: Here) -> dict[str, object]:
    """The process answers; and how many spans it could not store, which is a bug that somebody should hear of."""
    return {"status": "ok", "setAside": here.set_aside()}


@router.get("/ready")
async def ready(here: Here) -> JSONResponse:
    """Spans are taken; 503 while starting, stopping, or so far behind that new ones are refused."""
    status = "overloaded" if here.state == "ready" and here.overloaded() else here.state
    return JSONResponse({"status": status}, status_code=200 if status == "ready" else 503)
