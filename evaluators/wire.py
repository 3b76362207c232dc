"""Base of all models on the wire: camelCase or snake_case keys, and no unknown keys."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from storage.records import number_in
from tracejury import strict_json

parse_json = strict_json.parse_json
unknown = strict_json.unknown

_VALUE_CHARACTERS = 80
"""The most characters quoted of a refused value. A guess."""


class WireModel(BaseModel):
    """A shape on the wire. A key in both spellings is refused."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        extra="forbid",
        frozen=True,
        arbitrary_types_allowed=True,
    )


def explain(error: ValidationError, shape: type[BaseModel] | None = None, *, root: str = "") -> str:
    """Format all problems on one line: the place below `root`, the error, and what would be right."""
    return in_one_line(explained(error, shape, root=root))


def explained(error: ValidationError, shape: type[BaseModel] | None = None, *, root: str = "") -> list[tuple[str, str]]:
    """Return all problems: the place below `root` ("" for the whole), and the error with what would be right."""
    return [_problem(problem, shape, root) for problem in error.errors(include_url=False)]


def in_one_line(problems: Iterable[tuple[str, str]]) -> str:
    """Join problems, as `explained` returns them, on one line."""
    return "; ".join(f"{place}: {message}" if place else message for place, message in problems)


def _problem(problem: Mapping[str, Any], shape: type[BaseModel] | None, root: str) -> tuple[str, str]:
    place = root
    for step in problem["loc"]:
        place += f"[{step}]" if isinstance(step, int) else f".{step}"
    place = place.removeprefix(".")
    if problem["type"] == "extra_forbidden":
        key = str(problem["loc"][-1])
        at_the_top = all(isinstance(step, int) for step in problem["loc"][:-1])
        known = _known_keys(shape) if shape is not None and at_the_top else ()
        return place, unknown(key, known) if known else "unknown key"
    message = re.sub(r"^(Value error, |Assertion failed, )", "", problem["msg"])
    if not place and problem["type"] != "value_error":
        return "", f"expected an object (got {_brief(problem['input'])})"
    if problem["type"] == "value_error" and isinstance(problem["input"], Mapping):
        return place, message  # a rule over several keys, which it names
    if problem["type"] == "missing":
        return place, "is required"
    return place, f"{message[:1].lower()}{message[1:]} (got {_brief(problem['input'])})"


def number_of(value: object) -> object:
    """Refuse booleans and texts that spell no decimal number, before pydantic reads a number."""
    if isinstance(value, bool) or (isinstance(value, str) and number_in(value) is None):
        raise ValueError("must be a number")  # pydantic reports ValueError
    return value


def _known_keys(shape: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in shape.model_fields.items()]


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _VALUE_CHARACTERS else f"{text[:_VALUE_CHARACTERS]}…"
