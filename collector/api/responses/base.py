"""Values and models that all responses share."""

import base64
import datetime as dt
import decimal
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

JsonObject: TypeAlias = dict[str, Any]
"""An object whose keys the client chooses."""

JsonNumber: TypeAlias = float | Literal["NaN", "Infinity", "-Infinity"]
"""A number that a client or application sent; NaN and the infinities are written as in OTLP/JSON."""


def json_value(value: object) -> object:
    """Convert an attribute's value, or one of DuckDB, to JSON: bytes are base64, NaN is a string.

    Decimals become numbers if a double holds them exactly as written, else strings.
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return _number(value)
        case decimal.Decimal():
            return _number(float(value)) if decimal.Decimal(repr(float(value))) == value else str(value)
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode("ascii")
        case Mapping():
            return {_key(key): json_value(item) for key, item in value.items()}
        case dt.datetime():
            return _datetime(value)
        case dt.date() | dt.time():
            return value.isoformat()
        case Sequence() | set() | frozenset():
            return [json_value(item) for item in value]
        case _:
            return str(value)


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _datetime(value: dt.datetime) -> str:
    # DuckDB's TIMESTAMP has no zone and means UTC here.
    utc = value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)
    return f"{utc:%Y-%m-%dT%H:%M:%S}.{utc.microsecond:06}000Z"


def _key(key: object) -> str:
    return key if isinstance(key, str) else str(json_value(key))


class ApiAnswer(BaseModel):
    """A Pydantic model of a response, or of a part of one, with camelCase names.

    Most are derived from a `WireDocument`, for the OpenAPI document and for the tests. Routes do not build these
    models, because building them for a page of traces would take longer than the query. The tests validate each
    response against its model.
    """

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, validate_by_alias=True)
