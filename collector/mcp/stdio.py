"""The protocol over standard input and output, for a client that starts a program: everything is asked of a server."""

from contextlib import suppress
from pathlib import Path

import httpx
from mcp.server.stdio import stdio_server

from collector.mcp.application import Application
from collector.mcp.asking import Api
from collector.mcp.local_files import LocalFiles
from collector.mcp.server import make_server


async def serve_stdio(client: httpx.AsyncClient, application: Application | None = None) -> None:
    """Answer until the input ends. The application may be run over items of datasets and of files here."""
    api = Api(client, application, LocalFiles(Path.cwd()))
    server = make_server(lambda _: api)
    async with client, stdio_server() as (incoming, outgoing):
        with suppress(BrokenPipeError):
            await server.run(incoming, outgoing, server.create_initialization_options())
