"""OTLP/JSON requests to protobuf.

OTLP's JSON mapping differs from protobuf's own (`json_format`): ids are hex, enums are numbers. As the
OpenTelemetry Collector does, this also accepts snake_case keys, enum names, and 64-bit integers as numbers
or strings; and ids in base64 of the right length, which circulate. Unknown keys are ignored.
Source: opentelemetry-proto `docs/specification.md`, "JSON Protobuf Encoding".
"""

import base64
import functools
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from collector.beginning import json_beginning
from collector.otlp.faults import Fault, Malformed
from collector.otlp.signals import Signal
from collector.otlp.strict import Sifted
from storage.limit import Limit

_LEVELS = Limit(value=154, unit="levels", remedy="send deeper values as JSON text")
"""Messages inside each other: seven around an attribute of an event, and three for each of the 49 maps that the decoder
takes inside each other, so that whatever is stored can be exported and sent again. Protobuf's own parsers take 101."""

_Set = Callable[[Any, Any, int], None]

_HEX = re.compile(r"[0-9a-fA-F]*")
_LATIN = re.compile(rb"[\x00-\xc3]*")  # characters that Python keeps in a byte each
_ID_BYTES = {"trace_id": 16, "span_id": 8, "parent_span_id": 8}
_BAD_ID = b"\0"  # not the length of any id, so the decoder rejects the span or log record that has it
_SHOWN = 40


class _WrongType(Exception):
    """A value of the wrong kind; the path is completed on the way out."""

    def __init__(self, expected: str, value: object) -> None:
        shown = json_beginning(value, _SHOWN + 1, is_ascii=True)
        super().__init__(expected, shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…")
        self.path = ""

    def __str__(self) -> str:
        expected, shown = self.args
        return f"{self.path.lstrip('.') or 'the body'}: expected {expected}, got {shown}"

    def inside(self, step: str) -> "_WrongType":
        """Return the fault with the path from one level further out."""
        self.path = step + self.path
        return self


_BYTES_EACH = {b"{": 165, b"[": 165, b"null": 165, b",": 90, b":": 90}
"""Memory that a value takes as JSON and as protobuf, counted at what surrounds it. Measured with bodies of 8 MB of 26
kinds: an empty span took 254 bytes, an attribute with an integer 257, a key with a number 168; agent spans 4.9 times
less than what is counted."""

_TEXT_TIMES, _WIDE_TEXT_TIMES = 5, 11
"""Memory for the text: it exists as received, decoded, as values, in messages, and serialised. A single character
beyond the basic plane makes Python take four bytes for each character of a text, that of the body included."""


def memory_needed(body: bytes) -> int:
    """Estimate the peak memory to read this body as JSON, the body included, in bytes; most bodies need less."""
    values = sum(body.count(mark) * nbytes for mark, nbytes in _BYTES_EACH.items())
    wide = b"\\u" in body or not (body.isascii() or _LATIN.fullmatch(body))
    return values + len(body) * (_WIDE_TEXT_TIMES if wide else _TEXT_TIMES)


def to_protobuf(body: bytes, kind: type[Message] = ExportTraceServiceRequest) -> bytes:
    """Convert a JSON request of this kind to protobuf bytes.

    Ids that are neither hex nor base64 of the right length are kept as invalid, so that their spans or log records are
    rejected alone. An invalid id of a link becomes empty.

    Raises:
        Malformed: not JSON, or a value of the wrong kind; the message names the path.
    """
    with _as_malformed():
        return _written(json.loads(body), kind)


def sift(body: bytes, signal: Signal) -> Sifted:
    """Convert a JSON request to protobuf, without the spans or log records that hold a value of the wrong kind.

    Once such an element is found, all are checked one by one, which takes as long as reading them once more.

    Raises:
        Malformed: not JSON, or a value of the wrong kind outside of spans or log records; the message names the path.
    """
    with _as_malformed():
        document = json.loads(body)
        try:
            return Sifted(body=_written(document, signal.request))
        except _WrongType:
            sieve = _Sieve(signal)
            sieve.sort_out(document, signal.lists)
            return sieve.sifted(_written(document, signal.request))


@contextmanager
def _as_malformed() -> Iterator[None]:
    """Convert all errors of a body to `Malformed`."""
    try:
        yield
    except _WrongType as wrong:
        raise Malformed(str(wrong)) from None
    except RecursionError:
        msg = f"the body is nested deeper than {_LEVELS}"
        raise Malformed(msg) from None
    except ValueError as error:  # of json, of UTF-8 decoding, of integers with thousands of digits
        msg = f"not JSON: {error}"
        raise Malformed(msg) from error


def _written(document: object, kind: type[Message]) -> bytes:
    message = kind()
    _fill(message, document, 0)
    return message.SerializeToString()


class _Sieve:
    """Filter of the innermost lists of a request that counts elements it cannot read, with the reason for the first."""

    def __init__(self, signal: Signal) -> None:
        self._signal = signal
        self._kept: list[int] = []
        self._refused = 0
        self._first: dict[int, str] = {}

    def sort_out(self, value: object, lists: Sequence[str]) -> None:
        """Remove from a document the elements that cannot be read."""
        if not isinstance(value, dict):
            return
        outer, *inner = lists
        for key, elements in value.items():
            if key not in {outer, _camel(outer)} or not isinstance(elements, list):
                continue
            if not inner:
                value[key] = [each for each in elements if self._is_fit(each)]
            for each in elements if inner else ():
                self.sort_out(each, inner)

    def _is_fit(self, value: object) -> bool:
        number = len(self._kept) + self._refused + 1
        try:
            _fill(self._signal.element(), {} if value is None else value, len(self._signal.lists))
        except _WrongType as wrong:
            self._refused += 1
            if not self._first:
                self._first[number] = f"it cannot be decoded: {wrong}"
            return False
        self._kept.append(number)
        return True

    def sifted(self, body: bytes) -> Sifted:
        """Return the readable elements, and one fault for all others, so that a response stays short."""
        noun = self._signal.noun
        faults = [Fault(reason=why, noun=noun, count=self._refused, first=at) for at, why in self._first.items()]
        return Sifted(body=body, rejected=self._refused, faults=tuple(faults), kept=self._kept)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _fill(message: Message, value: object, depth: int) -> None:
    if not isinstance(value, dict):
        expected = "an object"
        raise _WrongType(expected, value)
    if depth >= _LEVELS.value:
        expected = f"no more levels of messages than {_LEVELS}"
        raise _WrongType(expected, "…")
    setters = _setters(message.DESCRIPTOR)
    for key, content in value.items():
        setter = setters.get(key)
        if setter is not None and content is not None:
            try:
                setter(message, content, depth)
            except _WrongType as wrong:
                raise wrong.inside(f".{key}") from None


@functools.cache
def _setters(descriptor: Descriptor) -> dict[str, _Set]:
    """Return the setters of a message's fields, by JSON name and by proto name."""
    setters: dict[str, _Set] = {}
    for field in descriptor.fields:
        setter = _setter(field)
        setters[field.name] = setter
        setters[field.json_name] = setter
    return setters


def _setter(field: FieldDescriptor) -> _Set:
    name = field.name
    if field.message_type is KeyValue.DESCRIPTOR and field.is_repeated:
        return _key_values(name)
    if field.message_type is not None:
        return _repeated_messages(name) if field.is_repeated else _one_message(name)
    convert = _scalar(field)
    if field.is_repeated:
        return _repeated_scalars(name, convert)

    def set_one(message: Any, content: Any, _depth: int) -> None:  # noqa: ANN401 - JSON in, protobuf out
        setattr(message, name, convert(content))

    return set_one


def _one_message(name: str) -> _Set:
    def set_message(message: Any, content: Any, depth: int) -> None:  # noqa: ANN401 - JSON in, protobuf out
        child = getattr(message, name)
        child.SetInParent()
        _fill(child, content, depth + 1)

    return set_message


def _key_values(name: str) -> _Set:
    """Return the setter of attributes: like `_repeated_messages`, but fast for plain values, the usual ones."""

    def set_key_values(message: Any, content: Any, depth: int) -> None:  # noqa: ANN401 - JSON in, protobuf out
        children = getattr(message, name)
        for position, item in enumerate(_list(content)):
            plain = _plain(item)
            if plain is not None:
                children.append(plain)
                continue
            try:
                _fill(children.add(), {} if item is None else item, depth + 1)
            except _WrongType as wrong:
                raise wrong.inside(f"[{position}]") from None

    return set_key_values


def _plain(pair: Any) -> KeyValue | None:  # noqa: ANN401 - whatever JSON holds
    """Return a pair with a plain value of a common type as a message; None if `_fill` has to convert it."""
    try:
        ((kind, content),) = pair["value"].items()
        if kind == "stringValue" and isinstance(content, str):
            return KeyValue(key=pair["key"], value=AnyValue(string_value=content))
        if kind == "intValue" and (isinstance(content, str) or type(content) is int):
            return KeyValue(key=pair["key"], value=AnyValue(int_value=int(content)))
        if kind == "doubleValue" and isinstance(content, float):
            return KeyValue(key=pair["key"], value=AnyValue(double_value=content))
    except (TypeError, KeyError, ValueError, AttributeError):
        pass
    return None


def _repeated_messages(name: str) -> _Set:
    def set_messages(message: Any, content: Any, depth: int) -> None:  # noqa: ANN401 - JSON in, protobuf out
        children = getattr(message, name)
        for position, item in enumerate(_list(content)):
            try:
                _fill(children.add(), {} if item is None else item, depth + 1)
            except _WrongType as wrong:
                raise wrong.inside(f"[{position}]") from None

    return set_messages


def _repeated_scalars(name: str, convert: Callable[[Any], Any]) -> _Set:
    def set_scalars(message: Any, content: Any, _depth: int) -> None:  # noqa: ANN401 - JSON in, protobuf out
        getattr(message, name).extend([convert(item) for item in _list(content)])

    return set_scalars


def _list(content: object) -> list[Any]:
    if not isinstance(content, list):
        expected = "an array"
        raise _WrongType(expected, content)
    return content


def _scalar(field: FieldDescriptor) -> Callable[[Any], Any]:
    if field.name in _ID_BYTES:
        bad = b"" if field.full_name.endswith(f".Link.{field.name}") else _BAD_ID  # a link rejects no span
        return functools.partial(_id, length=_ID_BYTES[field.name], bad=bad)
    if field.enum_type is not None:
        return functools.partial(_enum, names=field.enum_type)
    match field.type:
        case FieldDescriptor.TYPE_STRING:
            return _string
        case FieldDescriptor.TYPE_BYTES:
            return _bytes
        case FieldDescriptor.TYPE_BOOL:
            return _bool
        case FieldDescriptor.TYPE_DOUBLE | FieldDescriptor.TYPE_FLOAT:
            return _double
        case FieldDescriptor.TYPE_INT32 | FieldDescriptor.TYPE_SINT32 | FieldDescriptor.TYPE_SFIXED32:
            return functools.partial(_integer, low=-(2**31), high=2**31 - 1)
        case FieldDescriptor.TYPE_UINT32 | FieldDescriptor.TYPE_FIXED32:
            return functools.partial(_integer, low=0, high=2**32 - 1)
        case FieldDescriptor.TYPE_UINT64 | FieldDescriptor.TYPE_FIXED64:
            return functools.partial(_integer, low=0, high=2**64 - 1)
        case _:
            return functools.partial(_integer, low=-(2**63), high=2**63 - 1)


def _string(content: object) -> str:
    if not isinstance(content, str):
        expected = "a string"
        raise _WrongType(expected, content)
    if content.isascii():
        return content
    # Half of a surrogate pair, as JavaScript sends it when it cuts a string inside an emoji, is not Unicode.
    return content.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _bool(content: object) -> bool:
    if not isinstance(content, bool):
        expected = "true or false"
        raise _WrongType(expected, content)
    return content


def _integer(content: object, *, low: int, high: int) -> int:
    number: object = content
    if isinstance(content, str):
        try:
            number = int(content)
        except ValueError:
            number = _float_or_none(content)
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
        expected = f"an integer from {low} to {high}"
        raise _WrongType(expected, content)
    return number


def _double(content: object) -> float:
    number = _float_or_none(content) if isinstance(content, str) else content
    if isinstance(number, bool) or not isinstance(number, int | float):
        expected = "a number"
        raise _WrongType(expected, content)
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _float_or_none(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _enum(content: object, *, names: EnumDescriptor) -> int:
    if isinstance(content, str) and content in names.values_by_name:
        return int(names.values_by_name[content].number)
    return _integer(content, low=-(2**31), high=2**31 - 1)


def _bytes(content: object) -> bytes:
    text = _string(content).replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:  # of base64, or of characters that are not ASCII
        expected = "base64"
        raise _WrongType(expected, content) from None


def _id(content: object, *, length: int, bad: bytes) -> bytes:
    text = _string(content)
    if len(text) % 2 == 0 and _HEX.fullmatch(text):
        return bytes.fromhex(text)
    try:
        decoded = base64.b64decode(text, validate=True)
    except ValueError:
        return bad
    return decoded if len(decoded) == length else bad
