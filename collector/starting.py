"""What the API's address answers while the server starts: that the process lives, and how far the start is."""

import time
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from storage.work import StartStep

_RETRY_AFTER_S = 5


class StartingApplication:
    """An ASGI application that stands in until the data directory is open, which takes minutes after some upgrades."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._step, self._since_s = StartStep(name="starting"), time.monotonic()

    def note(self, step: StartStep) -> None:
        """Report that a step begins. Called from the thread that opens the store."""
        self._step, self._since_s = step, time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer `/health` with 200, `/ready` with the step, and all else with 503."""
        path = scope["path"]
        if path == "/health":
            response = JSONResponse({"status": "ok", "setAside": None, "dropped": None})
        elif path == "/ready":
            response = JSONResponse({"status": "starting", **self._progress()}, status_code=503)
        else:
            response = self._refusal()
        response.headers["retry-after"] = str(_RETRY_AFTER_S)
        response.headers["connection"] = "close"  # the next request is for the application that follows
        await response(scope, receive, send)

    def _progress(self) -> dict[str, Any]:
        step, seconds = self._step, time.monotonic() - self._since_s
        return {"step": step.name, "done": step.done(), "total": step.total, "seconds": round(seconds, 1)}

    def _refusal(self) -> JSONResponse:
        detail = f"the server is starting ({self._step.name}); GET /ready shows the progress"
        document = {
            "type": "about:blank",
            "title": "Service Unavailable",
            "status": 503,
            "detail": detail,
            "error": detail,
        }
        return JSONResponse(document, status_code=503, media_type="application/problem+json")
