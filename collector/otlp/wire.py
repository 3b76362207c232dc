"""Message types that are equal to OTLP's on the wire but flat, so that they have an Arrow schema.

`AnyValue` is recursive, which Arrow cannot express. A protobuf message field and a `bytes` field are
the same on the wire, so here nested values, resources and scopes are declared as `bytes`: the nested
values are decoded level by level, resources and scopes once for each distinct text of theirs. These fields are
repeated, because protobuf merges a message that comes twice, as if the bytes of both were one message (`merged`).
The types are derived from the installed opentelemetry-proto, so that new fields of OTLP appear by themselves.

A request of log records differs from one of spans in the innermost messages only: the messages around them have the
same fields, by other names, under the same numbers. So types that leave the innermost as bytes read both signals.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
import ptars
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

log = logging.getLogger(__name__)

_FILES: tuple[FileDescriptor, ...] = (
    common_pb2.DESCRIPTOR,
    resource_pb2.DESCRIPTOR,
    trace_pb2.DESCRIPTOR,
    logs_pb2.DESCRIPTOR,
)
_THEIRS = "opentelemetry.proto"
_Opaque = dict[str, set[str]]

_COLUMNS: _Opaque = {
    "AnyValue": {"array_value", "kvlist_value"},
    "ResourceSpans": {"resource"},
    "ScopeSpans": {"scope"},
}
_ENVELOPE: _Opaque = {"ScopeSpans": {"spans"}}
_ELEMENTS: _Opaque = {"ResourceSpans": {"resource"}, "ScopeSpans": {"scope", "spans"}}
_CUT: _Opaque = {
    "TracesData": {"resource_spans"},
    "ResourceSpans": {"resource", "scope_spans"},
    "ScopeSpans": {"scope", "spans"},
}


def _derive(package: str, opaque: _Opaque) -> descriptor_pool.DescriptorPool:
    """Derive OTLP's types in a package of their own, with the `opaque` message fields as bytes."""
    pool = descriptor_pool.DescriptorPool()
    for original in _FILES:
        file = descriptor_pb2.FileDescriptorProto()
        original.CopyToProto(file)
        file.name = f"{package}/{file.name}"
        file.package = file.package.replace(_THEIRS, package)
        file.dependency[:] = [f"{package}/{name}" for name in file.dependency]
        for message in file.message_type:
            _rewrite(message, package, opaque)
        pool.Add(file)
    return pool


def _rewrite(message: descriptor_pb2.DescriptorProto, package: str, opaque: _Opaque) -> None:
    for field in message.field:
        if field.name in opaque.get(message.name, ()):
            field.type = descriptor_pb2.FieldDescriptorProto.TYPE_BYTES
            field.label = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
            field.ClearField("type_name")
            field.ClearField("oneof_index")
        elif field.type_name:
            field.type_name = field.type_name.replace(_THEIRS, package)
    for nested in message.nested_type:
        _rewrite(nested, package, opaque)


class _Family:
    """All of OTLP's types for traces and logs, with some fields opaque."""

    def __init__(self, package: str, opaque: _Opaque) -> None:
        self._package = package
        self._pool = _derive(package, opaque)
        self.handlers = ptars.HandlerPool([self._pool.FindFileByName(f"{package}/{file.name}") for file in _FILES])

    def type(self, name: str) -> Descriptor:
        return self._pool.FindMessageTypeByName(f"{self._package}.{name}")


_NO_BYTES, _NOTHING = pa.py_buffer(b""), pa.array([], pa.binary())

_columns = _Family("tracejury.columns", _COLUMNS)
_envelope = _Family("tracejury.envelope", _ENVELOPE)
_elements = _Family("tracejury.elements", _ELEMENTS)
_cut = _Family("tracejury.cut", _CUT)


_ENDLESS: Final = b"\xff" * 4
"""Bytes that occur in every length that makes ptars 0.0.25 panic, wherever the length stands.

ptars adds a length to the place where it begins, and checks whether the sum is beyond the end. With a length of almost
2**64 the sum is small again (docs/upstream/ptars-panic.md). Written as protobuf writes numbers, seven bits a byte, a
length that near to 2**64 has these four bytes in it, for any message of less than 2**35 bytes. Legitimate
negative numbers have them, too. So a message with these bytes is not refused, but first parsed by protobuf, which
refuses such lengths, at 1 to 3 µs a span."""

_SHALLOW_BYTES: Final = 16 << 10
"""Size of a message that cannot nest groups so deep that ptars 0.0.25 overflows its stack and ends the process: a group
needs at least a byte, and takes 64 bytes of the stack (docs/upstream/ptars-groups.md). Threads have a stack of 8 MiB,
or of 2 MiB if the system sets no limit. Protobuf takes 100 levels."""

_TYPE_BITS: Final = 7  # of a tag's first byte
_GROUP_TYPE: Final = 3  # the value of these bits if a group begins

_QUIET_S: Final = 60.0  # between two lines of the log about panics


class Panics:
    """Panics of the decoder's Rust: all are counted, and one a minute is logged. Thread-safe."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._lock = threading.Lock()
        self._logged, self._logged_at_s = 0, -_QUIET_S
        self.count = 0

    def add(self, message: str) -> None:
        """Count a panic, and log it unless one was logged within `_QUIET_S`."""
        with self._lock:
            self.count += 1
            if self._now_s() - self._logged_at_s < _QUIET_S:
                return
            more, self._logged, self._logged_at_s = self.count - self._logged, self.count, self._now_s()
        log.error("the columnar decoder panicked (%d times since the last report): %s", more, message)


panics: Final = Panics()


class Columns:
    """Decoder of serialised messages of one type to an Arrow record batch, a row each.

    Raises ValueError if any message cannot be decoded.
    """

    def __init__(self, family: _Family, name: str) -> None:
        self._handler = family.handlers.get_for_message(family.type(name))
        self._message: type[Message] = message_factory.GetMessageClass(family.type(name))

    def decode(self, messages: pa.Array | list[bytes]) -> pa.RecordBatch:
        """Decode messages to one row each; `messages` must hold no null."""
        self._refuse_harmful(messages)
        try:
            if isinstance(messages, list):
                return self._handler.list_to_record_batch(messages)
            return self._handler.array_to_record_batch(messages)
        except BaseException as error:  # raised again, unless it is a panic of the decoder
            if type(error).__name__ != "PanicException":
                raise
            # A panic of the decoder's Rust is not an `Exception` and has no importable type; it ends this call only.
            panics.add(str(error))
            raise ValueError(f"the columnar decoder gave up: {error}") from None

    def _refuse_harmful(self, messages: pa.Array | list[bytes]) -> None:
        """Refuse what would make ptars panic, which writes up to 45 lines to the standard error each time, or crash."""
        data = b"".join(messages) if isinstance(messages, list) else messages.buffers()[2]
        if data is None:
            return
        octets = np.frombuffer(data, dtype=np.uint8)
        may_be_endless, may_be_deep = _may_be_endless(octets), _may_be_deep(octets)
        if not (may_be_endless or may_be_deep):
            return
        try:
            for message in messages if isinstance(messages, list) else messages.to_pylist():
                if (may_be_deep and len(message) > _SHALLOW_BYTES) or (may_be_endless and _ENDLESS in message):
                    self._message.FromString(message)
        except DecodeError as error:
            raise ValueError(str(error)) from error


def _may_be_endless(octets: npt.NDArray[np.uint8]) -> bool:
    places = np.flatnonzero(octets == _ENDLESS[0])
    width = len(_ENDLESS) - 1
    return bool((places[width:] - places[:-width] == width).any())


def _may_be_deep(octets: npt.NDArray[np.uint8]) -> bool:
    return len(octets) > _SHALLOW_BYTES and int(np.count_nonzero(octets & _TYPE_BITS == _GROUP_TYPE)) > _SHALLOW_BYTES


def merged(column: pa.ListArray) -> pa.BinaryArray:
    """Return an opaque message field: the bytes of each row's message, b"" for a row without one; nothing is copied."""
    items, starts = column.values, column.offsets.to_numpy()
    _, ends, data = items.buffers()
    offsets = np.frombuffer(ends, dtype=np.int32)[items.offset :][starts]
    return pa.BinaryArray.from_buffers(pa.binary(), len(column), [None, pa.py_buffer(offsets), data or _NO_BYTES])


def given(column: pa.ListArray) -> tuple[pa.BinaryArray, npt.NDArray[np.bool_]]:
    """Return the messages of the rows that have one, and a mask of these rows."""
    valid: npt.NDArray[np.bool_] = np.diff(column.offsets.to_numpy()) > 0
    return (merged(column).filter(pa.array(valid)) if valid.any() else _NOTHING), valid


TRACES = Columns(_columns, "trace.v1.TracesData")
SPAN = Columns(_columns, "trace.v1.Span")
LOG_RECORD = Columns(_columns, "logs.v1.LogRecord")
RESOURCE = Columns(_columns, "resource.v1.Resource")
SCOPE = Columns(_columns, "common.v1.InstrumentationScope")
ARRAY_VALUE = Columns(_columns, "common.v1.ArrayValue")
MAP_VALUE = Columns(_columns, "common.v1.KeyValueList")

ELEMENTS = Columns(_elements, "trace.v1.TracesData")
"""Requests in which every span or log record is still bytes."""

TRACES_CUT = Columns(_cut, "trace.v1.TracesData")
RESOURCE_SPANS_CUT = Columns(_cut, "trace.v1.ResourceSpans")
SCOPE_SPANS_CUT = Columns(_cut, "trace.v1.ScopeSpans")

Envelope: type[Message] = message_factory.GetMessageClass(_envelope.type("trace.v1.TracesData"))
"""A request in which every span or log record is still bytes, to take a request apart element by element."""
