"""The answers at the API's address while the server starts, and until the first request that needs the API itself."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from storage.work import StartStep

_RETRY_AFTER_S = 5


class StartingApplication:
    """ASGI application that responds until the data directory is open, which takes minutes after some upgrades."""

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


PROBES: Final = frozenset({"/health", "/ready", "/metrics"})


class DeferredApplication:
    """ASGI application that loads at the first request; until then, a smaller one answers probes. For one event loop.

    The modules of the API and the pages are 40 % of the CPU of a start, and 55 MiB. A server that only takes spans
    never needs them, though monitoring systems probe it.
    """

    def __init__(self, load: Callable[[], ASGIApp], load_probes: Callable[[], ASGIApp]) -> None:
        self._whole, self._probes = _Loading(load), _Loading(load_probes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on: a probe to the small application until the whole one is loaded."""
        is_probe = scope["type"] == "http" and scope["path"] in PROBES
        loading = self._probes if is_probe and not self._whole.is_loaded else self._whole
        application = await loading.result()
        await application(scope, receive, send)


class _Loading:
    """Application that a thread loads on first use; after a failure it is loaded again."""

    def __init__(self, load: Callable[[], ASGIApp]) -> None:
        self._load = load
        self._task: asyncio.Task[ASGIApp] | None = None

    @property
    def is_loaded(self) -> bool:
        return self._task is not None and self._task.done()

    async def result(self) -> ASGIApp:
        task = self._task = self._task or asyncio.create_task(asyncio.to_thread(self._load))
        try:
            return await asyncio.shield(task)  # a cancelled request does not cancel it for others
        except Exception:
            self._task = None
            raise
