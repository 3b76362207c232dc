"""Message types that are equal to OTLP's on the wire but flat, so that they have an Arrow schema.

`AnyValue` is recursive, which Arrow cannot express. A protobuf message field and a `bytes` field are
the same on the wire, so here nested values, resources and scopes are declared as `bytes`: the nested
values are decoded level by level, resources and scopes once for each distinct text of theirs.
The types are derived from the installed opentelemetry-proto, so that new fields of OTLP appear by themselves.
"""

import ptars
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.message import Message
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

_FILES: tuple[FileDescriptor, ...] = (common_pb2.DESCRIPTOR, resource_pb2.DESCRIPTOR, trace_pb2.DESCRIPTOR)
_THEIRS = "opentelemetry.proto"
_Opaque = dict[str, set[str]]

_COLUMNS: _Opaque = {
    "AnyValue": {"array_value", "kvlist_value"},
    "ResourceSpans": {"resource"},
    "ScopeSpans": {"scope"},
}
_ENVELOPE: _Opaque = {"ScopeSpans": {"spans"}}


def _derive(package: str, opaque: _Opaque) -> descriptor_pool.DescriptorPool:
    """OTLP's trace types in a package of their own, with the `opaque` message fields as bytes."""
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
            field.ClearField("type_name")
        elif field.type_name:
            field.type_name = field.type_name.replace(_THEIRS, package)
    for nested in message.nested_type:
        _rewrite(nested, package, opaque)


_columns_pool = _derive("tracejury.columns", _COLUMNS)
_envelope_pool = _derive("tracejury.envelope", _ENVELOPE)
_handlers = ptars.HandlerPool([_columns_pool.FindFileByName(f"tracejury.columns/{_FILES[-1].name}")])


def _columns(name: str) -> Descriptor:
    return _columns_pool.FindMessageTypeByName(f"tracejury.columns.{name}")


class Columns:
    """Serialised messages of one type to an Arrow record batch, a row each.

    Raises ValueError where any of them cannot be decoded.
    """

    def __init__(self, name: str) -> None:
        self._handler = _handlers.get_for_message(_columns(name))

    def decode(self, messages: pa.Array | list[bytes]) -> pa.RecordBatch:
        """One row for each message; `messages` must hold no null."""
        if isinstance(messages, list):
            return self._handler.list_to_record_batch(messages)
        return self._handler.array_to_record_batch(messages)


TRACES = Columns("trace.v1.TracesData")
SPAN = Columns("trace.v1.Span")
RESOURCE = Columns("resource.v1.Resource")
SCOPE = Columns("common.v1.InstrumentationScope")
ARRAY_VALUE = Columns("common.v1.ArrayValue")
MAP_VALUE = Columns("common.v1.KeyValueList")

Envelope: type[Message] = message_factory.GetMessageClass(
    _envelope_pool.FindMessageTypeByName("tracejury.envelope.trace.v1.TracesData")
)
"""A request in which every span is still bytes, for taking one apart span by span."""
