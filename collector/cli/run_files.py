"""Runs as files: formats, and a temporary server to write them."""

import asyncio
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import click

from collector.cli.client import download
from collector.escaping import one_line
from collector.path_names import path_segment
from tracejury.file_ending import ending_of

if TYPE_CHECKING:
    from collector.settings import Settings

FORMS: Final[Mapping[str, Sequence[str]]] = {
    "json": ("json",),
    "csv": ("csv",),
    "markdown": ("md", "markdown"),
    "html": ("html", "htm"),
    "junit": ("xml",),
}
"""Formats of a run, and the endings of their files."""

ANY_PORTS: Final = MappingProxyType(dict.fromkeys(("grpc", "otlp_http", "http"), "127.0.0.1:0"))
"""Settings of a server on this machine alone."""


def form_of(file: Path, chosen: str | None = None) -> str:
    """Return the format: the named one, else that of the file's ending.

    Raises:
        UsageError: the ending is unknown.
    """
    ending = ending_of(file)
    form = chosen or next((name for name, endings in FORMS.items() if ending in endings), None)
    if form is None:
        endings = ", ".join(f".{each}" for named in FORMS.values() for each in named)
        raise click.UsageError(f"{one_line(file.name)} has no known file extension: {endings}")
    return form


def write_run(server: str, run_id: str, file: Path, form: str | None = None) -> None:
    """Download a run of a server to a file.

    Raises:
        ClickException: the server refuses or does not respond, or the file cannot be written.
    """
    download(server, f"/api/v1/runs/{path_segment(run_id)}/export", {"format": form_of(file, form)}, file)


@contextmanager
def server_of_command() -> Iterator[str]:
    """Run a server in this process, on free local ports, whose data is deleted at the end; yield its URL."""
    from collector.settings import Settings

    with (
        tempfile.TemporaryDirectory(prefix="tracejury-") as data,
        server_here(Settings.model_validate({"data": data, **ANY_PORTS})) as url,
    ):
        yield url


@contextmanager
def server_here(settings: "Settings") -> Iterator[str]:
    """Run a server in a thread of this process; yield its URL.

    Raises:
        Unusable, BadSettings, OSError: the server cannot be started; as for `running`.
    """
    from collector.app import running

    started: Future[str] = Future()
    loop, stop = asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        try:
            async with running(settings) as server:
                started.set_result(f"http://{server.http}")
                await stop.wait()
        except BaseException as error:  # noqa: BLE001 - the command waits for the start, and raises it
            if started.done():
                raise
            started.set_exception(error)

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), name="server-of-command")
    thread.start()
    try:
        yield started.result()
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
