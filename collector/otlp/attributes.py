"""Attributes of what the server itself sends."""

from collections.abc import Mapping
from typing import TypeAlias

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

Attribute: TypeAlias = str | float | int | bool | None


def key_values(told: Mapping[str, Attribute]) -> list[KeyValue]:
    """Attributes as they are sent, without those that are None."""
    return [KeyValue(key=key, value=_any_value(value)) for key, value in told.items() if value is not None]


def _any_value(value: str | float | bool) -> AnyValue:  # noqa: FBT001 - a value is what it is
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case str():
            return AnyValue(string_value=value)
