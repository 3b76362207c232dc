"""Whether the process is alive, and whether it takes spans."""

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from collector.api.context import Here

router = APIRouter()


@router.get("/health")
async def health() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/ready")
async def ready(here: Here) -> JSONResponse:
    """Spans are taken; 503 while starting or stopping."""
    return JSONResponse({"status": here.state}, status_code=200 if here.state == "ready" else 503)
