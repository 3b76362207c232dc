"""An endpoint that takes OTLP over HTTP: one request, and what follows from its answer."""

import datetime as dt
import gzip
import time
from collections.abc import Mapping
from http import HTTPStatus

import httpx

from collector.delivery.sending import retry_after_s
from collector.exporting.answers import LONGEST_TEXT, TIMEOUT_S, Accepted, Answer, Rejected, RetryLater, taken

_MOST_ANSWER_BYTES = 64 << 10
_REFUSED = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY})
"""What was refused so cannot succeed later. All else passes, or is mended by somebody: a key, a path, a certificate."""


class HttpEndpoint:
    """Where log records are sent. For one thread at a time; `close` ends it."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        """`headers` go with each request, and are told nowhere."""
        told = {"content-type": "application/x-protobuf", "content-encoding": "gzip", "user-agent": "tracejury"}
        self._url = url
        self._client = httpx.Client(timeout=TIMEOUT_S, trust_env=False, headers={**told, **headers})

    def post(self, body: bytes) -> Answer:
        """Send a request and say what follows; whatever goes wrong is an answer too."""
        try:
            with self._client.stream("POST", self._url, content=gzip.compress(body, 3, mtime=0)) as response:
                return _answer(response)
        except (httpx.HTTPError, httpx.StreamError, OSError) as error:
            return RetryLater(why=f"{type(error).__name__}: {error}"[:LONGEST_TEXT])

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()


def _answer(response: httpx.Response) -> Answer:
    if response.is_success:
        return _taken(response)
    why = f"answered {response.status_code}"
    if response.status_code in _REFUSED:
        return Rejected(why=why)
    now = dt.datetime.fromtimestamp(time.time(), dt.UTC)
    return RetryLater(why=why, after_s=retry_after_s(response.headers.get("retry-after", ""), now) or 0)


def _taken(response: httpx.Response) -> Accepted:
    """Its success, which may be partial; one that cannot be read is whole, as is that of a server that says nothing."""
    body = b""
    for part in response.iter_bytes():
        body += part
        if len(body) > _MOST_ANSWER_BYTES:
            return Accepted()
    if not response.headers.get("content-type", "").startswith("application/x-protobuf"):
        return Accepted()
    return taken(body)
