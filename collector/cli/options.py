"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click
from pydantic import BaseModel, ValidationError

from collector.cli.source import DEFAULT_SERVER, Document

Command = TypeVar("Command", bound=Callable[..., object])
View = TypeVar("View", bound=BaseModel)


def source_options(command: Command) -> Command:
    """`--server` and `--data`: where to read from."""
    data = click.option(
        "--data",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="A data directory: its server is asked, or the files are read when none runs.",
    )
    server = click.option("--server", metavar="URL", help=f"A running server. [default: {DEFAULT_SERVER}]")
    return server(data(command))


def one_source(server: str | None, data: Path | None) -> None:
    """Refuse both at once.

    Raises:
        click.UsageError: both were given.
    """
    if server is not None and data is not None:
        raise click.UsageError("--server and --data exclude each other")


def read_view(view: type[View], document: Document) -> View:
    """The part of an answer that is printed.

    Raises:
        click.ClickException: it is not an answer of our API.
    """
    try:
        return view.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise click.ClickException(f"the answer is not one of a Tracejury server: {place}: {first['msg']}") from error
