"""Requests in which every field of OTLP's trace messages is set."""

import itertools
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from tests.storing import START_NS

# Indexes into a table that only profiles have; on a trace they are to be ignored (opentelemetry-proto, common.proto).
NOT_KEPT = {
    "opentelemetry.proto.common.v1.AnyValue.string_value_strindex",
    "opentelemetry.proto.common.v1.KeyValue.key_strindex",
}
ID_BYTES = {"trace_id": 16, "span_id": 8, "parent_span_id": 8}


class Filler:
    """A message whose fields each have a value that occurs nowhere else."""

    def __init__(self) -> None:
        self._numbers = itertools.count(3)
        self.seen: set[str] = set()

    def fill(self, message: Any, depth: int = 0) -> None:
        """Set all fields, those of inner messages included."""
        for field in message.DESCRIPTOR.fields:
            if field.full_name in NOT_KEPT:
                continue
            self.seen.add(field.full_name)
            if field.message_type is KeyValue.DESCRIPTOR:
                self._fill_pairs(getattr(message, field.name), depth)
            elif field.message_type is not None and field.is_repeated:
                for _ in range(2):
                    self.fill(getattr(message, field.name).add(), depth)
            elif field.message_type is not None:
                getattr(message, field.name).SetInParent()
                self.fill(getattr(message, field.name), depth)
            elif field.is_repeated:
                getattr(message, field.name).extend([self._scalar(field), self._scalar(field)])
            else:
                setattr(message, field.name, self._scalar(field))

    def _fill_pairs(self, pairs: Any, depth: int) -> None:
        self.seen |= {field.full_name for field in KeyValue.DESCRIPTOR.fields}
        for kind in AnyValue.DESCRIPTOR.fields:
            if kind.full_name not in NOT_KEPT:
                self._fill_value(pairs.add(key=f"{kind.name} {next(self._numbers)}").value, kind, depth)

    def _fill_value(self, value: Any, kind: FieldDescriptor, depth: int) -> None:
        self.seen.add(kind.full_name)
        if kind.message_type is None:
            setattr(value, kind.name, self._scalar(kind))
            return
        inner = getattr(value, kind.name)
        inner.SetInParent()
        (values,) = kind.message_type.fields
        self.seen.add(values.full_name)
        if depth < 2:
            if values.message_type is KeyValue.DESCRIPTOR:
                self._fill_pairs(inner.values, depth + 1)
            else:
                for each in AnyValue.DESCRIPTOR.fields:
                    if each.full_name not in NOT_KEPT:
                        self._fill_value(inner.values.add(), each, depth + 1)

    def _scalar(self, field: FieldDescriptor) -> object:
        number = next(self._numbers)
        match field.type:
            case FieldDescriptor.TYPE_STRING:
                return f"{field.name} {number}"
            case FieldDescriptor.TYPE_BYTES:
                return number.to_bytes(ID_BYTES.get(field.name, 3), "big")
            case FieldDescriptor.TYPE_BOOL:
                return True
            case FieldDescriptor.TYPE_DOUBLE:
                return number + 0.5
            case FieldDescriptor.TYPE_ENUM:
                return max(field.enum_type.values_by_number) if field.enum_type else 0
            case FieldDescriptor.TYPE_UINT32 | FieldDescriptor.TYPE_FIXED32:
                return 2**32 - number
            case FieldDescriptor.TYPE_FIXED64:
                return START_NS + number
            case FieldDescriptor.TYPE_INT64:
                return -(2**63) + number
            case _:
                pytest.fail(f"{field.full_name} is of a type that no OTLP trace field had when this test was written")


def fields_of(descriptor: Descriptor, seen: set[str]) -> set[str]:
    """Return the full names of all fields of a message type and of those inside it."""
    for field in descriptor.fields:
        if field.full_name not in seen:
            seen.add(field.full_name)
            if field.message_type is not None:
                fields_of(field.message_type, seen)
    return seen
