"""Client of the server's HTTP API for tools, with the caller's key, so that its rights apply."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

from collector.access.permission import Permission
from collector.api_calls import Listing, Refused, Value, document_of, texts_of
from collector.mcp.application import Application
from collector.mcp.background import Background
from collector.mcp.errors import NoServer, ServerBusy, ToolRefused
from collector.mcp.local_files import LocalFiles
from collector.path_names import path_segment
from collector.unanswered import no_answer_text

_BUSY: Final = frozenset({429, 503})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """Rights of a key."""

    permissions: frozenset[Permission]
    sees_all: bool  # not only what belongs to one tenant


class Api:
    """The HTTP API of a server, for one caller."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        background: Background,
        application: Application | None = None,
        files: LocalFiles | None = None,
    ) -> None:
        """Set up the API. Pass `application` and `files` only if this machine is the caller's."""
        self._client, self._address = client, str(client.base_url).rstrip("/")
        self.background = background
        self.application = application
        self.files = files

    async def rights(self) -> Rights:
        """Return the rights of the caller.

        Raises:
            ToolRefused: the key is not valid, or the server does not respond.
        """
        caller = await self.get("/api/v1/caller")
        return Rights(permissions=frozenset(map(Permission, caller["permissions"])), sees_all=caller["seesAll"])

    async def get(self, path: str, **parameters: Value) -> Any:  # noqa: ANN401 - any JSON
        """Return the document at a path.

        Raises:
            ToolRefused: the API refuses, or does not answer; the other methods raise it, too.
        """
        return await self._call("GET", path, params=texts_of(parameters))

    async def post(
        self, path: str, body: Mapping[str, Any], *, patience_s: float | None = None, **parameters: Value
    ) -> Any:  # noqa: ANN401 - any JSON
        """Return the response. `patience_s` replaces the timeout of the other requests."""
        patience = {} if patience_s is None else {"timeout": patience_s}
        return await self._call("POST", path, json=dict(body), params=texts_of(parameters), **patience)

    async def put(self, path: str, body: Mapping[str, Any], **parameters: Value) -> Any:  # noqa: ANN401 - any JSON
        """Return the document as it is stored now."""
        return await self._call("PUT", path, json=dict(body), params=texts_of(parameters))

    async def patch(self, path: str, body: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON
        """Return the response to a change."""
        return await self._call("PATCH", path, json=dict(body))

    async def listed(self, path: str, most: int, **parameters: Value) -> list[Any]:
        """Return the first documents of a paged list."""
        listing = Listing(most)
        try:
            while not listing.is_whole:
                listing.add(await self.get(path, **parameters, **listing.page), self._address)
        except Refused as error:
            raise ToolRefused(str(error)) from error
        return listing.documents

    async def _call(self, method: str, path: str, **content: Any) -> Any:  # noqa: ANN401 - any JSON
        try:
            response = await self._client.request(method, path, **content)
        except httpx.InvalidURL as error:
            raise ToolRefused(f"the arguments make no address, pass shorter ones: {error}") from error
        except httpx.RequestError as error:
            raise NoServer(no_answer_text(self._address, error)) from error
        task = asyncio.current_task()
        if task is not None and task.cancelling():  # the API in this process then answers 503
            raise asyncio.CancelledError
        try:
            return document_of(response, self._address)
        except Refused as error:
            if error.status in _BUSY:
                raise ServerBusy(str(error), error.retry_after_s) from error
            raise ToolRefused(str(error)) from error


def part(text: str) -> str:
    """Quote one part of a path."""
    return path_segment(text)
