"""What all models of answers have in common."""

from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

JsonObject: TypeAlias = dict[str, Any]
"""An object whose names are not ours to choose."""

JsonNumber: TypeAlias = float | Literal["NaN", "Infinity", "-Infinity"]
"""A number that came from outside; those that JSON cannot spell are written as OTLP/JSON writes them."""


class ApiAnswer(BaseModel):
    """An answer of the API, or a part of one.

    Routes build their answers as dictionaries: building models of a page of traces would cost more than reading it.
    The tests hold every answer that they get against its model, so the two cannot part.
    """

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, validate_by_alias=True)


class PageAnswer(ApiAnswer):
    """What every page tells about itself."""

    number: int
    size: int
    number_of_elements: int
    first: bool
    last: bool
