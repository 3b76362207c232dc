"""The protocol over standard input and output, for clients that start a program; all data is on a server."""

import io
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import anyio
import httpx
from mcp import types
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from collector.mcp.application import Application
from collector.mcp.background import Background
from collector.mcp.client import Api
from collector.mcp.local_files import LocalFiles
from collector.mcp.request_ids import INVALID_REQUEST, WRONG_ID, envelope_of
from collector.mcp.server import make_server


async def serve_stdio(
    client: httpx.AsyncClient, application: Application | None = None, folder: Path | None = None
) -> None:
    """Answer until the input ends. The application may be run over items of datasets, and of files below the folder.

    Without a folder, the working directory is used.
    """
    background = Background()
    api = Api(client, background, application, LocalFiles(folder or Path.cwd()))
    server = make_server(lambda _: api)
    requests = _Requests()
    async with client, stdio_server(stdin=requests.lines) as (incoming, outgoing):
        requests.refuse = outgoing.send
        try:
            with suppress(BrokenPipeError):
                await server.run(incoming, outgoing, server.create_initialization_options())
        finally:
            await background.close()


class _Requests:
    """Messages of standard input; requests with an invalid id are refused."""

    refuse: Callable[[SessionMessage], Awaitable[None]]

    def __init__(self) -> None:
        # The descriptor stays open: a thread may still read from it when the server has ended.
        raw = open(sys.stdin.fileno(), "rb", closefd=False)  # noqa: SIM115 - a descriptor has no path
        self._text = anyio.wrap_file(io.TextIOWrapper(raw, encoding="utf-8", errors="replace"))

    @property
    def lines(self) -> anyio.AsyncFile[str]:
        """Return the lines to serve, which is all that the SDK reads of a file."""
        return self  # type: ignore[return-value] # it iterates over lines, and no more

    async def __aiter__(self) -> AsyncIterator[str]:
        async for line in self._text:
            if envelope_of(line).has_wrong_id:
                error = types.ErrorData(code=INVALID_REQUEST, message=WRONG_ID)
                await self.refuse(SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=None, error=error)))
            else:
                yield line
