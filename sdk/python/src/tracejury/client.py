"""Client of a Tracejury server over HTTP, which retries through a restart of the server."""

import logging
import math
import os
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

import httpx

from tracejury.connecting import backoff_s

URL_VARIABLE: Final = "TRACEJURY_URL"
KEY_VARIABLE: Final = "TRACEJURY_API_KEY"
PROJECT_VARIABLE: Final = "TRACEJURY_PROJECT"
PATIENCE_VARIABLE: Final = "TRACEJURY_PATIENCE_S"
PATIENCE_S: Final = 60.0  # a guess: an upgrade restarts a server in 3 to 11 s

_ATTEMPTS: Final = 3  # for status 500: the server is reachable, so waiting helps less
_FIRST_WAIT_S: Final = 0.1
_LONGEST_WAIT_S: Final = 2.0  # a server that is back is seen this soon
_TIMEOUT: Final = httpx.Timeout(30, connect=10)
_CONFLICT: Final = 409  # with `Retry-After`: the same request is in progress
_FAULT: Final = 500
_AGAIN: Final = frozenset({429, _FAULT, 502, 503, 504})

_log: Final = logging.getLogger(__name__)


class Unreachable(Exception):
    """The server did not answer, or is unavailable."""


class Refused(Exception):
    """The server rejects the request; `status` is the code."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


def project_of(project: str | None) -> str:
    """Return the project that is named, else that of the environment, else `default`."""
    return project or os.environ.get(PROJECT_VARIABLE) or "default"


class Client:
    """A client of one server. Thread-safe; `close` closes its connections.

    Requests are repeated for `patience_s` from the beginning of an outage. In a longer outage, each request is
    tried once, so that many requests together wait no longer than one.
    """

    def __init__(self, url: str, api_key: str | None = None, *, patience_s: float = PATIENCE_S) -> None:
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self.url = url.rstrip("/")
        self.patience_s = patience_s
        self._away_since_s: float | None = None
        self._waiting = threading.Event()
        self._client = httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=_TIMEOUT)

    @classmethod
    def from_environment(cls) -> "Client | None":
        """Return a client of the server that the environment names; None if it names none.

        Raises:
            ValueError: the patience is not a number.

        """
        url = os.environ.get(URL_VARIABLE)
        if not url:
            return None
        patience_s = float(os.environ.get(PATIENCE_VARIABLE) or PATIENCE_S)
        return cls(url, os.environ.get(KEY_VARIABLE), patience_s=patience_s)

    @property
    def is_away(self) -> bool:
        """Return whether an outage goes on, begun by a missing response, a status such as 503, or `stop_waiting`."""
        return self._away_since_s is not None

    def stop_waiting(self) -> None:
        """Fail requests that wait for the server, and try later ones once, until it answers again."""
        self._away_since_s = -math.inf
        self._waiting.set()
        self._waiting = threading.Event()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def get(self, path: str, **parameters: Any) -> Any:
        """Return the document at a path.

        Raises:
            Unreachable: the server does not answer.
            Refused: the server answers with an error.

        """
        return self._ask("GET", path, params=parameters)

    def send(self, method: str, path: str, body: Mapping[str, Any], *, key: str | None = None) -> Any:
        """Send a request and return its answer; with a key, a repeated request takes effect once.

        Raises:
            Unreachable: the server does not answer.
            Refused: the server answers with an error.

        """
        headers = {} if key is None else {"idempotency-key": key}
        return self._ask(method, path, json=body, headers=headers)

    def text(self, path: str, *, patience_s: float | None = None, **parameters: Any) -> str:
        """Return the text at a path; `patience_s` counts instead of the client's.

        Raises:
            Unreachable: the server does not answer.
            Refused: the server answers with an error.

        """
        return self._answer("GET", path, patience_s=patience_s, params=parameters).text

    def _ask(self, method: str, path: str, **content: Any) -> Any:
        response = self._answer(method, path, is_json=True, **content)
        return response.json() if response.content else None

    def _answer(
        self, method: str, path: str, *, patience_s: float | None = None, is_json: bool = False, **content: Any
    ) -> httpx.Response:
        patience_s = self.patience_s if patience_s is None else patience_s
        failures = 0
        while True:
            is_fault, requested_s, waiting = False, None, self._waiting
            try:
                response = self._client.request(method, path, **content)
            except httpx.RequestError as error:
                why = str(error) or type(error).__name__
            else:
                unusable = _unusable(response, is_json=is_json)
                if unusable is None:
                    self._away_since_s = None
                    return _checked(response)
                is_fault, why, requested_s = response.status_code == _FAULT, unusable, _asked_s(response)
            failures += 1
            left_s = float(failures < _ATTEMPTS) if is_fault else self._left_s(patience_s, why)
            if left_s <= 0:
                raise Unreachable(f"{self.url} does not answer: {why}")
            own_s = min(backoff_s(failures, first_s=_FIRST_WAIT_S), _LONGEST_WAIT_S)
            waiting.wait(min(own_s if requested_s is None else requested_s, left_s))

    def _left_s(self, patience_s: float, why: str) -> float:
        """Return the seconds left to wait in this outage."""
        now_s = time.monotonic()
        if self._away_since_s is None:
            self._away_since_s = now_s
            if patience_s > 0:
                _log.warning("%s does not answer, and is tried again for %g s: %s", self.url, patience_s, why)
        return self._away_since_s + patience_s - now_s


def _unusable(response: httpx.Response, *, is_json: bool) -> str | None:
    """Return why a response calls for a retry, such as the page of a proxy; None if it is final."""
    is_under_way = response.status_code == _CONFLICT and "retry-after" in response.headers
    if response.status_code in _AGAIN or is_under_way:
        return f"HTTP {response.status_code}: {_reason(response)}"
    if is_json and response.is_success and response.content:
        try:
            response.json()
        except (ValueError, RecursionError):
            return "the response is not that of a Tracejury server: it is not JSON"
    return None


def _checked(response: httpx.Response) -> httpx.Response:
    if response.is_success:
        return response
    raise Refused(response.status_code, _reason(response))


def _reason(response: httpx.Response) -> str:
    try:
        document = response.json()
    except ValueError:
        return response.reason_phrase
    return str(document.get("error", response.reason_phrase)) if isinstance(document, dict) else response.reason_phrase


def _asked_s(response: httpx.Response) -> float | None:
    retry_after = response.headers.get("retry-after", "")
    return float(retry_after) if retry_after.isdecimal() else None
