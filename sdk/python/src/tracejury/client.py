"""A Tracejury server over HTTP: what it is asked, and when it is asked again."""

import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import httpx

from tracejury.connecting import backoff_s

URL_VARIABLE: Final = "TRACEJURY_URL"
KEY_VARIABLE: Final = "TRACEJURY_API_KEY"

_ATTEMPTS: Final = 3
_FIRST_WAIT_S: Final = 0.1
_LONGEST_WAIT_S: Final = 60.0  # that a server may ask for
_TIMEOUT: Final = httpx.Timeout(30, connect=10)
_CONFLICT: Final = 409  # with `Retry-After`: the same request is being worked on
_AGAIN: Final = frozenset({429, 500, 502, 503, 504})


class Unreachable(Exception):
    """The server did not answer, or says that it cannot now."""


class Refused(Exception):
    """The server says that the request is wrong; `status` is the code."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Client:
    """One server. Safe to use from several threads; `close` lets go of its connections."""

    def __init__(self, url: str, api_key: str | None = None, *, sleep: Callable[[float], None] = time.sleep) -> None:
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self.url = url.rstrip("/")
        self._sleep = sleep
        self._client = httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=_TIMEOUT)

    @classmethod
    def from_environment(cls) -> "Client | None":
        """The server that the environment names; None where it names none."""
        url = os.environ.get(URL_VARIABLE)
        return cls(url, os.environ.get(KEY_VARIABLE)) if url else None

    def close(self) -> None:
        """Let go of its connections."""
        self._client.close()

    def get(self, path: str, **parameters: Any) -> Any:
        """The document at a path.

        Raises:
            Unreachable: there is no answer.
            Refused: the answer is that the request is wrong.
        """
        return self._ask("GET", path, params=parameters)

    def send(self, method: str, path: str, body: Mapping[str, Any], *, key: str | None = None) -> Any:
        """What came of a request; with a key, one that is repeated is done once.

        Raises:
            Unreachable: it does not answer.
            Refused: it answers with an error.
        """
        headers = {} if key is None else {"idempotency-key": key}
        return self._ask(method, path, json=body, headers=headers)

    def text(self, path: str, **parameters: Any) -> str:
        """The text at a path.

        Raises:
            Unreachable: the server does not answer.
            Refused: it answers with an error.
        """
        return self._answer("GET", path, params=parameters).text

    def _ask(self, method: str, path: str, **content: Any) -> Any:
        response = self._answer(method, path, **content)
        return response.json() if response.content else None

    def _answer(self, method: str, path: str, **content: Any) -> httpx.Response:
        why = ""
        for attempt in range(_ATTEMPTS):
            try:
                response = self._client.request(method, path, **content)
            except httpx.TransportError as error:
                why, wait_s = str(error) or type(error).__name__, None
            else:
                is_under_way = response.status_code == _CONFLICT and "retry-after" in response.headers
                if response.status_code not in _AGAIN and not is_under_way:
                    return _checked(response)
                why, wait_s = f"HTTP {response.status_code}: {_reason(response)}", _asked_s(response)
            if attempt + 1 < _ATTEMPTS:
                self._sleep(backoff_s(attempt + 1, first_s=_FIRST_WAIT_S) if wait_s is None else wait_s)
        raise Unreachable(f"{self.url} does not answer: {why}")


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
    asked = response.headers.get("retry-after", "")
    return min(float(asked), _LONGEST_WAIT_S) if asked.isdecimal() else None
