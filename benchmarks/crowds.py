"""Requests with one field many times: each field of OTLP, in each place where it may occur, repeated at will."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from collector.otlp.signals import LOGS, TRACES, Signal

_MARK: Final = b"#######"
"""A placeholder for a number in the repeated field, so that no two are alike."""

_UNKNOWN: Final = b"\xc0\x3e\x01"  # field 1000, which OTLP does not have
_NESTED: Final = 2  # AnyValues inside each other
_LENGTH_DELIMITED: Final = 2
_WIRE: Final = {
    FieldDescriptor.TYPE_FIXED64: (1, bytes(8)),
    FieldDescriptor.TYPE_DOUBLE: (1, bytes(8)),
    FieldDescriptor.TYPE_SFIXED64: (1, bytes(8)),
    FieldDescriptor.TYPE_FIXED32: (5, bytes(4)),
}

Path = tuple[FieldDescriptor, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """One kind of request: a path through OTLP, and which field of it is repeated."""

    name: str
    signal: Signal
    path: Path
    repeated: int  # the place in the path
    form: str  # "empty", "filled", "alike" or "unknown"

    @property
    def is_nested(self) -> bool:
        """Return True if it repeats a value within a value."""
        return sum(_is_value(each) for each in self.path) > 1

    def body(self, count: int) -> bytes:
        """Return such a request with the field repeated `count` times."""
        body = _content(_request(self.signal), self, 0, count)
        return body.replace(_MARK, b"0" * len(_MARK))


def crowds() -> Iterator[Crowd]:
    """Yield all kinds of requests."""
    for signal in (TRACES, LOGS):
        for path in _paths(_request(signal), ()):
            name = ".".join(field.name for field in path)
            last = len(path) - 1
            is_message = path[last].message_type is not None
            for form in ("empty", "filled", "alike") if is_message else ("filled",):
                yield Crowd(name=f"{name} x n, {form}", signal=signal, path=path, repeated=last, form=form)
            if not is_message:
                continue
            yield Crowd(name=f"{name}.(unknown) x n", signal=signal, path=path, repeated=last + 1, form="unknown")
            for place in range(last):
                if path[place].is_repeated:
                    spread = ".".join(each.name for each in path[: place + 1])
                    spread_name = f"({spread}) x n.{path[last].name}"
                    yield Crowd(name=spread_name, signal=signal, path=path, repeated=place, form="filled")


def field(number: int, content: bytes) -> bytes:
    """Return a length-delimited field as protobuf writes it."""
    return varint(number << 3 | _LENGTH_DELIMITED) + varint(len(content)) + content


def varint(number: int) -> bytes:
    """Return a number as protobuf writes it."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def _request(signal: Signal) -> Descriptor:
    return cast("Descriptor", signal.request.DESCRIPTOR)


def _paths(message: Descriptor, before: Path) -> Iterator[Path]:
    for each in message.fields:
        path = (*before, each)
        if sum(_is_value(field) for field in path) > _NESTED:
            continue
        yield path
        if each.message_type is not None:
            yield from _paths(each.message_type, path)


def _is_value(each: FieldDescriptor) -> bool:
    return each.message_type is not None and each.message_type.name == "AnyValue"


def _content(message: Descriptor, crowd: Crowd, place: int, count: int) -> bytes:
    """Build the content of the message at one step of the path."""
    if place == len(crowd.path):
        return _UNKNOWN * count if crowd.form == "unknown" else _siblings(message, None)
    each = crowd.path[place]
    is_crowd = place == crowd.repeated
    if is_crowd and crowd.form == "empty":
        one = field(each.number, b"")
    elif each.message_type is not None:
        one = field(each.number, _content(each.message_type, crowd, place + 1, count))
    else:
        one = _scalar(each)
    if is_crowd:
        one = one * count if crowd.form != "filled" else b"".join(_numbered(one, count))
    return _siblings(message, each) + one


def _numbered(one: bytes, count: int) -> Iterator[bytes]:
    return (one.replace(_MARK, b"%07d" % number) for number in range(count))


def _scalar(each: FieldDescriptor) -> bytes:
    if each.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
        return field(each.number, _ids().get(each.name, _MARK))
    kind, content = _WIRE.get(each.type, (0, b"\x01"))
    return varint(each.number << 3 | kind) + content


def _ids() -> dict[str, bytes]:
    return {"trace_id": _MARK + b"t" * 9, "span_id": _MARK + b"s", "parent_span_id": _MARK + b"p"}


def _siblings(message: Descriptor, taken: FieldDescriptor | None) -> bytes:
    """Build the fields that a message needs beside one of them to be worth storing, each with a mark in it."""
    needed: Sequence[str] = _NEEDED.get(message.name, ())
    parts = []
    for each in (message.fields_by_name[name] for name in needed):
        if taken is not None and (each.number == taken.number or _same_oneof(each, taken)):
            continue
        if each.name == "resource":
            parts.append(field(each.number, field(1, field(1, b"service.name") + field(2, field(1, _MARK)))))
        elif each.name == "event_name":
            parts.append(field(each.number, b"gen_ai." + _MARK))
        elif each.message_type is not None:
            parts.append(field(each.number, _siblings(each.message_type, None)))
        else:
            parts.append(_scalar(each))
    return b"".join(parts)


def _same_oneof(one: FieldDescriptor, other: FieldDescriptor) -> bool:
    return one.containing_oneof is not None and one.containing_oneof is other.containing_oneof


_NEEDED: Final = {
    "ResourceSpans": ("resource",),
    "ResourceLogs": ("resource",),
    "ScopeSpans": ("scope",),
    "ScopeLogs": ("scope",),
    "InstrumentationScope": ("name",),
    "EntityRef": ("type",),
    "Span": ("trace_id", "span_id"),
    "LogRecord": ("trace_id", "span_id", "event_name"),
    "Event": ("name",),
    "Link": ("trace_id", "span_id"),
    "KeyValue": ("key", "value"),
    "AnyValue": ("string_value",),
}
