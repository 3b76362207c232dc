"""The path under which a proxy offers the server, as in `https://example.org/tools/tracejury/`."""

import re
from typing import Final
from urllib.parse import unquote

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_IN_LINK: Final = re.compile(r"<(?=/(?!/))")
_IN_PAGE: Final = re.compile(
    r'(\s(?:href|action|formaction|src|data-copy|data-live|data-tree|data-beside|data-preview)=")(?=/(?!/))'
)
"""Quotation marks of foreign text are escaped in pages, so a match is an attribute of our own."""


class PathPrefix:
    """ASGI application that removes a path prefix from requests to an inner application, which does not know it.

    Requests lack the prefix if the proxy removes it. Responses carry it in `Location` and `Link`, and in pages, whose
    links `page_under` changes.
    """

    def __init__(self, application: ASGIApp, prefix: str) -> None:
        self._application = application
        self._prefix = prefix
        self._parts = prefix.split("/")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take the prefix off a request, and put it into the answer."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        parts = scope["raw_path"].decode("latin-1").split("/")
        count = len(self._parts)
        if [unquote(part) for part in parts[:count]] == self._parts:
            raw = "/" + "/".join(parts[count:])
            scope["raw_path"], scope["path"] = raw.encode("latin-1"), unquote(raw)
        scope["root_path"] = self._prefix
        here = f"{scope['scheme']}://{Headers(scope=scope).get('host', '')}"

        async def send_under(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                place = headers.get("location", "")
                if place.startswith("/"):
                    headers["location"] = self._prefix + place
                elif place.startswith(f"{here}/"):
                    headers["location"] = here + self._prefix + place.removeprefix(here)
                if "link" in headers:
                    headers["link"] = _IN_LINK.sub(f"<{self._prefix}", headers["link"])
            await send(message)

        await self._application(scope, receive, send_under)


def page_under(prefix: str, page: str) -> str:
    """Return a page of HTML whose links to this server begin with a prefix."""
    return _IN_PAGE.sub(rf"\g<1>{prefix}", page) if prefix else page
