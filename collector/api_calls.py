"""Parsing of API responses, for synchronous clients (commands) and asynchronous ones (tools for models)."""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import httpx

Value: TypeAlias = str | int | float | bool | None

_PAGE: Final = 100
"""Documents of a list that are requested at a time. A guess."""


class Refused(Exception):
    """Refusal by the API, or a response that another server at its URL sent."""

    status: int | None = None  # of a response of the API
    retry_after_s: float = 1.0


def document_of(response: httpx.Response, address: str) -> Any:  # noqa: ANN401 - any JSON
    """Return the document of a response from the server at an address; None if the response has none.

    Raises:
        Refused: the response is an error, or does not come from the API.
    """
    document = json_of(response)
    if response.is_success and (document is not None or response.status_code == httpx.codes.NO_CONTENT):
        return document
    reason = error_of(response)
    if not reason:
        raise foreign(address)
    error, later = Refused(reason), response.headers.get("retry-after", "")
    error.status, error.retry_after_s = response.status_code, float(later) if later.isdecimal() else 1.0
    raise error


def foreign(address: str) -> Refused:
    """Return the error for a response that is not of the API."""
    return Refused(f"what answers at {address} is not a Tracejury server")


def json_of(response: httpx.Response) -> object:
    """Return the JSON of a response; None if it is not JSON."""
    try:
        document: object = response.json()
    except ValueError:
        return None
    return document


def error_of(response: httpx.Response) -> str | None:
    """Return the sentence of a response that is an error of the API."""
    document = json_of(response)
    reason = document.get("error") if isinstance(document, dict) else None
    return reason if isinstance(reason, str) else None


def texts_of(parameters: Mapping[str, Value]) -> dict[str, str]:
    """Return the parameters that are set, as texts for a URL."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in parameters.items()
        if value is not None
    }


class Listing:
    """The first documents of a list that comes in pages, each an array or a document with `content`.

    A document that moved to the next page meanwhile counts once, by its `key`.
    """

    def __init__(self, limit: int, key: str = "id") -> None:
        self._limit, self._key, self._number, self._size = limit, key, 0, min(limit, _PAGE)
        self._documents: dict[object, Any] = {}
        self.is_whole = limit == 0

    @property
    def page(self) -> dict[str, int]:
        """Return the parameters of the next page."""
        return {"page": self._number, "size": self._size}

    @property
    def documents(self) -> list[Any]:
        """Return the documents so far."""
        return list(self._documents.values())[: self._limit]

    def add(self, page: Any, address: str) -> None:  # noqa: ANN401 - JSON
        """Add a page of the server at an address.

        Raises:
            Refused: the response is not a page of a list.
        """
        content = page.get("content") if isinstance(page, dict) else page
        if not isinstance(content, list):
            raise foreign(address)
        for each in content:
            self._documents[each[self._key] if isinstance(each, dict) and self._key in each else object()] = each
        self._number += 1
        is_last = page.get("last") is not False if isinstance(page, dict) else len(content) < self._size
        self.is_whole = is_last or not content or len(self._documents) >= self._limit
