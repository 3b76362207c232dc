"""Endpoint for OTLP over HTTP: one request, and the outcome of the export from its response."""

import asyncio
import datetime as dt
import gzip
import time
from collections.abc import Mapping
from http import HTTPStatus

import httpx

from collector.delivery.sending import retry_after_s
from collector.exporters.answers import LONGEST_TEXT, TIMEOUT_S, Accepted, Answer, Rejected, RetryLater, taken

_MOST_ANSWER_BYTES = 64 << 10
_REFUSED = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY})
"""Permanent codes. The causes of all others pass, or are mended by an operator: a key, a path, a certificate."""


class HttpEndpoint:
    """Receiver of log records over HTTP.

    For one thread at a time. Another thread may call `cancel`, and then `close`.
    """

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        """Set up the endpoint. `headers` go with each request, and are never logged."""
        own = {"content-type": "application/x-protobuf", "content-encoding": "gzip", "user-agent": "tracejury"}
        self._url = url
        # Asynchronous: only so can a timeout or `cancel` end a whole request, whose response may come byte by byte.
        self._client = httpx.AsyncClient(timeout=None, trust_env=False, headers={**own, **headers})  # noqa: S113 - see above
        self._loop = asyncio.new_event_loop()
        self._is_cancelled = False
        self._posting: asyncio.Task[Answer] | None = None

    def post(self, body: bytes) -> Answer:
        """Send a request and return its outcome; errors are outcomes, too."""
        self._posting = self._loop.create_task(self._post(body))
        if self._is_cancelled:
            self._posting.cancel()
        try:
            return self._loop.run_until_complete(self._posting)
        except asyncio.CancelledError:
            return RetryLater(why="cut off: the server is being stopped")

    def cancel(self) -> None:
        """Cut off the request under way, and those after it."""
        self._is_cancelled = True
        posting = self._posting
        if posting is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(posting.cancel)

    def close(self) -> None:
        """Close the connection."""
        self._loop.run_until_complete(self._client.aclose())
        self._loop.close()

    async def _post(self, body: bytes) -> Answer:
        content = gzip.compress(body, 3, mtime=0)
        try:
            async with asyncio.timeout(TIMEOUT_S), self._client.stream("POST", self._url, content=content) as response:
                return await _answer(response)
        except TimeoutError:
            return RetryLater(why=f"no answer within {TIMEOUT_S:g} s")
        except (httpx.HTTPError, httpx.StreamError, OSError) as error:
            return RetryLater(why=f"{type(error).__name__}: {error}"[:LONGEST_TEXT])


async def _answer(response: httpx.Response) -> Answer:
    if response.is_success:
        return await _taken(response)
    why = f"answered {response.status_code}"
    if response.status_code in _REFUSED:
        return Rejected(why=why)
    now = dt.datetime.fromtimestamp(time.time(), dt.UTC)
    return RetryLater(why=why, after_s=retry_after_s(response.headers.get("retry-after", ""), now) or 0)


async def _taken(response: httpx.Response) -> Accepted:
    """Read a success, which may be partial; one without a readable body counts as complete."""
    body = b""
    async for part in response.aiter_bytes():
        body += part
        if len(body) > _MOST_ANSWER_BYTES:
            return Accepted()
    if not response.headers.get("content-type", "").startswith("application/x-protobuf"):
        return Accepted()
    return taken(body)
