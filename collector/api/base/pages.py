"""Lists over HTTP, a page at a time."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import urlencode

from fastapi import Depends, Query, Request, Response

from collector.api.base.json_encoding import json_response

T = TypeVar("T")

MAX_PAGE = 10_000
MAX_ITEMS: Final = 1_000
"""Maximum page size of a list that is returned as an array. A guess: no real server has more rules or keys."""


class _Page:
    """Number and size of the requested page."""

    def __init__(
        self, page: Annotated[int, Query(ge=0, le=MAX_PAGE)] = 0, size: Annotated[int, Query(ge=1, le=MAX_ITEMS)] = 50
    ) -> None:
        self.page, self.size = page, size


At = Annotated[_Page, Depends()]
"""Dependency of routes that query one page of a list."""


class _Part:
    """The part of a list that a request asks for."""

    def __init__(
        self,
        request: Request,
        response: Response,
        page: Annotated[int, Query(ge=0, le=MAX_PAGE)] = 0,
        size: Annotated[int, Query(ge=1, le=MAX_ITEMS)] = MAX_ITEMS,
    ) -> None:
        self._request, self._response = request, response
        self._page, self._size = page, size

    def of(self, rows: Sequence[T]) -> Sequence[T]:
        """Return the requested page; `Link` in the response names the next one, if there is one (RFC 8288)."""
        begin, end = self._page * self._size, (self._page + 1) * self._size
        if end < len(rows) and self._page < MAX_PAGE:
            others = [pair for pair in self._request.query_params.multi_items() if pair[0] not in {"page", "size"}]
            query = urlencode([*others, ("page", self._page + 1), ("size", self._size)])
            self._response.headers["link"] = f'<?{query}>; rel="next"'
        return rows[begin:end]

    def answer(self, rows: Sequence[T], document: Callable[[T], object]) -> Response:
        """Return a response with the documents of the page."""
        return self.encoded([document(each) for each in self.of(rows)])

    def encoded(self, document: object) -> Response:
        """Return a response with a document that holds the page."""
        return json_response(document, headers=self._response.headers)


Part = Annotated[_Part, Depends(_Part)]
"""Dependency of routes that return a page of a list in memory."""

PARTED: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "headers": {
            "Link": {
                "description": 'The link to the next page: `<?page=1&size=…>; rel="next"`. The last page has none.',
                "schema": {"type": "string"},
            }
        }
    }
}
"""Responses of routes with a `Part`, in the OpenAPI document."""
