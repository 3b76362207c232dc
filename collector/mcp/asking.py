"""What tools ask of the server: its HTTP API, with the key of whoever asks, so that his rights are those of the key."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

from collector.access.permission import Permission
from collector.mcp.application import Application
from collector.mcp.background import Background
from collector.mcp.errors import NoServer, ServerBusy, ToolRefused
from collector.mcp.local_files import LocalFiles
from collector.path_names import path_segment
from collector.unanswered import no_answer_text

Value = str | int | float | bool | None

_MOST_PAGES: Final = 50
_BUSY: Final = frozenset({429, 503})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What a key may do."""

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
        """`application` may be run and `files` be read on the caller's machine, which is this one."""
        self._client = client
        self.background = background
        self.application = application
        self.files = files

    async def rights(self) -> Rights:
        """What the caller may do.

        Raises:
            ToolRefused: the key opens nothing, or nobody answers.
        """
        told = await self.get("/api/v1/caller")
        return Rights(permissions=frozenset(map(Permission, told["permissions"])), sees_all=told["seesAll"])

    async def get(self, path: str, **parameters: Value) -> Any:  # noqa: ANN401 - JSON, of which each tool knows its own
        """What is there, as JSON.

        Raises:
            ToolRefused: nothing is, it may not be seen, or nobody answers.
        """
        return await self._ask("GET", path, params={name: _text(v) for name, v in parameters.items() if v is not None})

    async def post(
        self, path: str, body: Mapping[str, Any], *, patience_s: float | None = None, **parameters: Value
    ) -> Any:  # noqa: ANN401 - JSON, of which each tool knows its own
        """Return the response as JSON; `patience_s` is the time that it may take, if that is longer than for others.

        Raises:
            ToolRefused: it may not be asked, or nobody answers.
        """
        params = {name: _text(value) for name, value in parameters.items() if value is not None}
        patience = {} if patience_s is None else {"timeout": patience_s}
        return await self._ask("POST", path, json=dict(body), params=params, **patience)

    async def put(self, path: str, body: Mapping[str, Any], **parameters: Value) -> Any:  # noqa: ANN401 - JSON, of which each tool knows its own
        """What it is from now on, as JSON.

        Raises:
            ToolRefused: it may not be asked, or nobody answers.
        """
        params = {name: _text(value) for name, value in parameters.items() if value is not None}
        return await self._ask("PUT", path, json=dict(body), params=params)

    async def patch(self, path: str, body: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON, of which each tool knows its own
        """What came of a change, as JSON.

        Raises:
            ToolRefused: it may not be asked, or nobody answers.
        """
        return await self._ask("PATCH", path, json=dict(body))

    async def listed(self, path: str, most: int, **parameters: Value) -> list[Any]:
        """The first so many of a list that comes in pages, each an array or a document with `content`.

        Raises:
            ToolRefused: it may not be asked, or nobody answers.
        """
        found: list[Any] = []
        for page in range(_MOST_PAGES):
            told = await self.get(path, page=page, size=min(most, 200), **parameters)
            content = told["content"] if isinstance(told, dict) else told
            found += content
            if len(found) >= most or len(content) < min(most, 200):
                break
        return found[:most]

    async def _ask(self, method: str, path: str, **content: Any) -> Any:  # noqa: ANN401 - JSON, of which each tool knows its own
        try:
            answer = await self._client.request(method, path, **content)
        except httpx.InvalidURL as error:
            raise ToolRefused(f"the arguments make no address, pass shorter ones: {error}") from error
        except httpx.TransportError as error:
            raise NoServer(no_answer_text(str(self._client.base_url).rstrip("/"), error)) from error
        task = asyncio.current_task()
        if task is not None and task.cancelling():  # which the API beside us answers with 503, as when it stops
            raise asyncio.CancelledError
        try:
            document = answer.json()
        except ValueError as error:
            raise ToolRefused(f"what answers at {self._client.base_url} is not a Tracejury server") from error
        if not answer.is_success:
            told = document.get("error") if isinstance(document, dict) else None
            message = str(told or f"the server answers {answer.status_code}")
            if answer.status_code in _BUSY:
                raise ServerBusy(message, _seconds(answer.headers.get("retry-after", "")))
            raise ToolRefused(message)
        return document


def part(text: str) -> str:
    """One part of a path, whatever is in it."""
    return path_segment(text)


def _seconds(retry_after: str) -> float:
    return float(retry_after) if retry_after.isdecimal() else 1.0


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
