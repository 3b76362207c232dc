"""What a server answers with, written into a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click
import httpx

from collector.cli.connecting import NoAnswer, connect, error_of, unreachable
from collector.visible import one_line, some_lines

_CHUNK_BYTES: Final = 1 << 18
_TIMEOUT_S: Final = 3_600


def download(server: str, place: str, parameters: Mapping[str, str], file: Path) -> None:
    """Write an answer into a file, and say how large it is.

    Raises:
        NoAnswer: the server refuses, or cannot be reached.
        ClickException: the file cannot be written.
    """
    fetch(server, place, parameters, file)
    click.echo(f"{one_line(str(file))}: {file.stat().st_size:,} bytes", err=True)


def fetch(server: str, place: str, parameters: Mapping[str, str], file: Path) -> None:
    """Write an answer into a file, which has its name as soon as it is whole.

    Raises:
        NoAnswer: the server refuses, or cannot be reached.
        ClickException: the file cannot be written.
    """
    part = file.with_name(f"{file.name}.part")
    try:
        with connect(server) as client:
            try:
                _write(client, place, parameters, part)
            except httpx.TransportError as error:
                raise unreachable(client, error) from error
        part.rename(file)
    except OSError as error:
        raise click.ClickException(f"{one_line(str(file))} cannot be written: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)


def _write(client: httpx.Client, place: str, parameters: Mapping[str, str], part: Path) -> None:
    with client.stream("GET", place, params=dict(parameters), timeout=_TIMEOUT_S) as response:
        if not response.is_success:
            response.read()
            raise NoAnswer(some_lines(error_of(response) or f"HTTP {response.status_code}"))
        with part.open("wb") as target:
            for chunk in response.iter_bytes(_CHUNK_BYTES):
                target.write(chunk)
