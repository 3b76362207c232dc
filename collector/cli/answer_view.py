"""What commands read of the answers of the API."""

from typing import TypeVar

import click
import msgspec
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

View = TypeVar("View", bound=BaseModel)
Document = TypeVar("Document")


class AnswerView(BaseModel):
    """The part of an answer that is printed; the answer may hold more, also of servers to come."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


def read_view(view: type[View], document: object) -> View:
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


def read_answer(kind: type[Document], answer: object) -> Document:
    """Read an answer as the documents that the server made it of.

    Raises:
        click.ClickException: it is not an answer of our API.
    """
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise click.ClickException(f"the answer is not one of a Tracejury server: {error}") from error
