"""The parts of the API's responses that commands read."""

import re
from importlib.metadata import version
from typing import Final, TypeVar

import click
import msgspec

from collector.api.responses.wire import read_type

Document = TypeVar("Document")

_LACKING: Final = re.compile(r"missing required field `(\w+)`")


def parse_response(kind: type[Document], answer: object) -> Document:
    """Parse a response into the type of document that the server encodes.

    An older server may lack fields: nullable ones are read as null. A newer one may have values unknown to a `Literal`.

    Raises:
        click.ClickException: the response is not that of a Tracejury server, or lacks a required field.
    """
    try:
        document: Document = msgspec.convert(answer, read_type(kind))  # type: ignore[arg-type] # types can be hashed
    except msgspec.ValidationError as error:
        raise click.ClickException(_misfit_text(str(error))) from error
    return document


def _misfit_text(problem: str) -> str:
    lacking = _LACKING.search(problem)
    if lacking is None:
        return f"the answer is not one of a Tracejury server: {problem}"
    own = version("tracejury")
    return (
        f"the answer has no {lacking[1]}, which tracejury {own} needs: the server is not Tracejury, or has another "
        "version (info.version in its /openapi.json); use the tracejury of that version"
    )
