"""The parts of the API's responses that commands read."""

import re
from importlib.metadata import version
from typing import Final, TypeVar

import click
import msgspec
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from collector.api.answers.wire import read_type

View = TypeVar("View", bound=BaseModel)
Document = TypeVar("Document")

_LACKING: Final = re.compile(r"missing required field `(\w+)`")


class AnswerView(BaseModel):
    """The part of a response that is printed. A response may hold more, also from newer servers."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


def read_view(view: type[View], document: object) -> View:
    """Parse a response to the part of it that is printed.

    Raises:
        click.ClickException: the response is not that of a Tracejury server.
    """
    try:
        return view.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise click.ClickException(f"the answer is not one of a Tracejury server: {place}: {first['msg']}") from error


def read_answer(kind: type[Document], answer: object) -> Document:
    """Parse a response to the documents that the server built it from.

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
        f"the answer has no {lacking[1]}, which tracejury {own} needs: it is not one of a Tracejury server, or one of "
        "another version, which /openapi.json names in info.version; use the tracejury of that version"
    )
