"""What commands read of the answers of the API."""

import re
from importlib.metadata import version
from typing import Any, Final, TypeVar, get_args, get_type_hints

import click
import msgspec
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

View = TypeVar("View", bound=BaseModel)
Document = TypeVar("Document")

_LACKING: Final = re.compile(r"missing required field `(\w+)`")


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

    Of an older server it may lack fields: those that may be null are read as null.

    Raises:
        click.ClickException: it is not an answer of our API, or lacks a field that is needed.
    """
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError:
        try:
            return msgspec.convert(_with_nulls(kind, answer), kind)
        except msgspec.ValidationError as error:
            raise click.ClickException(_misfit_text(str(error))) from error


def _with_nulls(kind: Any, value: object) -> object:  # noqa: ANN401 - a type
    """Return a value with null for each field of its documents that is not there and may be null."""
    kinds = [kind, *get_args(kind)]
    if isinstance(value, list):
        return [_with_nulls(kinds[-1], each) for each in value]
    struct = next((each for each in kinds if isinstance(each, type) and issubclass(each, msgspec.Struct)), None)
    if struct is None or not isinstance(value, dict):
        return value
    hints, names = get_type_hints(struct), zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True)
    fields = {encoded: hints[name] for name, encoded in names}
    nulls = {name: None for name, hint in fields.items() if type(None) in get_args(hint)}
    return {**nulls, **{name: _with_nulls(fields.get(name), each) for name, each in value.items()}}


def _misfit_text(problem: str) -> str:
    lacking = _LACKING.search(problem)
    if lacking is None:
        return f"the answer is not one of a Tracejury server: {problem}"
    own = version("tracejury")
    return (
        f"the server answers without {lacking[1]}, which tracejury {own} needs; use the tracejury of the server's "
        "version, which /openapi.json names in info.version"
    )
