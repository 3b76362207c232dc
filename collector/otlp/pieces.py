"""Large requests in small pieces, so that what a decode holds in memory is bounded.

A message of two bytes becomes a row of some hundred: a request of many empty spans or attributes would grow
a hundredfold when it is decoded whole. So a large request is cut between its spans, the pieces are decoded
one after the other, and a single span that is large itself has its parts counted first.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import Descriptor

from collector.otlp import wire
from collector.otlp.faults import Malformed
from collector.otlp.signals import Signal
from collector.otlp.values import NotColumnar
from storage.limit import Limit

PIECE_BYTES = 1 << 20
"""A piece of nothing but empty spans takes some 100 MiB to decode, a piece of ordinary spans 5 MiB."""

MAX_PARTS = 100_000
"""Maximum number of children of one message in a request larger than a piece, if they are too small to be spans."""

MAX_FIELDS = 400_000
"""Maximum number of fields at any depth of one span larger than a piece; an attribute is four. SDKs stop at 128
attributes by default."""

_MAX_DEPTH = 100  # messages inside each other: protobuf's parsers refuse more

_LEAST_BYTES = 16
"""A valid span takes 31 bytes at least; a request of much smaller ones is not worth the memory that it would take."""

_FRAME_BYTES = 6  # a tag and a length, at most
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types of protobuf
_MORE = 0x80  # the bit of a varint for a following byte
_EMPTY = pa.scalar(b"", pa.binary())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Level:
    """A message whose children can be split over several copies of it."""

    columns: wire.Columns
    children: str
    tag: bytes  # of the children
    others: tuple[tuple[str, bytes], ...]  # its own length-delimited fields, with their tags


def _tag(number: int) -> bytes:
    return bytes([number << 3 | _BYTES])


_LEVELS = (
    _Level(columns=wire.TRACES_CUT, children="resource_spans", tag=_tag(1), others=()),
    _Level(
        columns=wire.RESOURCE_SPANS_CUT,
        children="scope_spans",
        tag=_tag(2),
        others=(("resource", _tag(1)), ("schema_url", _tag(3))),
    ),
    _Level(
        columns=wire.SCOPE_SPANS_CUT,
        children="spans",
        tag=_tag(2),
        others=(("scope", _tag(1)), ("schema_url", _tag(3))),
    ),
)


def pieces(body: bytes, signal: Signal) -> Iterator[bytes]:
    """Split `body` into requests, none much larger than a piece unless it is of one element.

    Raises:
        Malformed: the parts are too many in too few bytes to be real spans; or one element has too many fields.
        NotColumnar: the columnar decoder cannot take the request apart.
    """
    return _cut(pa.array([body], pa.binary()), 0, signal)


def _cut(message: pa.BinaryArray, depth: int, signal: Signal) -> Iterator[bytes]:
    """Cut the one message in the array, without copying its children before they are put into a piece."""
    level = _LEVELS[depth]
    try:
        row = level.columns.decode(message)
    except ValueError as error:
        raise NotColumnar(str(error)) from error
    children = row.column(level.children).values
    sizes = pc.binary_length(children).to_numpy()
    if len(sizes) > MAX_PARTS and sizes.sum() < len(sizes) * _LEAST_BYTES:
        raise Malformed(f"{len(sizes)} {signal.lists[depth]} in {sizes.sum()} bytes: too small to be any")
    head = b"".join(_field(tag, _as_bytes(row.column(name)[0])) for name, tag in level.others)
    for start, stop in _runs(sizes):
        run = children.slice(start, stop - start)
        if stop - start == 1 and sizes[start] > PIECE_BYTES and depth + 1 < len(_LEVELS):
            yield from (head + _field(level.tag, part) for part in _cut(run, depth + 1, signal))
        else:
            if stop - start == 1 and sizes[start] > PIECE_BYTES:
                refuse_crowded(run[0].as_py(), signal)
            yield head + _framed(run, sizes[start:stop], level.tag)


def _runs(sizes: npt.NDArray[np.int32]) -> Iterator[tuple[int, int]]:
    """Yield runs of neighbours that fill half a piece, which leaves room for the head repeated before each run."""
    ends = np.cumsum(sizes + _FRAME_BYTES, dtype=np.int64)
    start = 0
    while start < len(sizes):
        before = ends[start - 1] if start else 0
        stop = max(int(np.searchsorted(ends, before + PIECE_BYTES // 2, side="right")), start + 1)
        yield start, stop
        start = stop


def _framed(children: pa.BinaryArray, sizes: npt.NDArray[np.int32], tag: bytes) -> bytes:
    """Encode the children for their parent, each after its tag and length."""
    distinct, index = np.unique(sizes, return_inverse=True)
    prefixes = pa.array([tag + _varint(int(size)) for size in distinct], pa.binary())
    joined = pc.binary_join_element_wise(prefixes.take(pa.array(index)), children, _EMPTY)
    end = int(np.frombuffer(joined.buffers()[1], dtype=np.int32)[len(joined)])
    data = joined.buffers()[2]
    return b"" if data is None else data.slice(0, end).to_pybytes()


def _as_bytes(value: pa.Scalar) -> bytes:
    content = value.as_py()
    if isinstance(content, list):
        return b"".join(content)
    return content.encode() if isinstance(content, str) else bytes(content)


def _field(tag: bytes, content: bytes) -> bytes:
    return tag + _varint(len(content)) + content if content else b""


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number >= _MORE:
        encoded.append(number & 0x7F | _MORE)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def refuse_crowded(message: bytes, signal: Signal) -> None:
    """Refuse a serialised span or log record that has too many parts to be decoded as columns.

    Raises:
        Malformed: there are more than `MAX_FIELDS`, or the bytes cannot be decoded.
    """
    fields = _count(memoryview(message), cast("Descriptor", signal.element.DESCRIPTOR), 0, 0)
    if fields > MAX_FIELDS:
        limit = Limit(value=MAX_FIELDS, unit="attributes, values and other fields", remedy="record less of it")
        raise Malformed(f"one {signal.noun} has more than {limit}")


def _count(view: memoryview, descriptor: Descriptor, counted: int, depth: int) -> int:
    """Count the fields at any depth that protobuf's parsers take, up to a little over the limit."""
    position = 0
    try:
        while position < len(view) and counted <= MAX_FIELDS:
            counted += 1
            key, position = _read_varint(view, position)
            size = {_FIXED64: 8, _FIXED32: 4}.get(key & 7)
            if key & 7 == _VARINT:
                _, position = _read_varint(view, position)
            elif size is not None:
                position += size
            elif key & 7 == _BYTES:
                length, position = _read_varint(view, position)
                field = descriptor.fields_by_number.get(key >> 3)
                if field is not None and field.message_type is not None and depth < _MAX_DEPTH:
                    inner = view[position : position + length]
                    counted = _count(inner, field.message_type, counted, depth + 1)
                position += length
            else:
                raise Malformed("one cannot be decoded: wire format was corrupt")
    except IndexError:
        raise Malformed("one cannot be decoded: wire format was corrupt") from None
    return counted


def _read_varint(view: memoryview, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = view[position]
        position += 1
        number |= (byte & ~_MORE) << shift
        if byte < _MORE:
            return number, position
        shift += 7
