"""Attribute values, columnar: OTLP's `AnyValue` to text plus one letter for its type.

The letters are `storage.ingest.batch.TYPE_LETTERS`. Everything here works on whole columns: nested arrays
and maps are decoded one level of nesting at a time, so the cost is per level, not per value. Only what is both large
and deep is read value by value, because each level copies the text of all levels below it.
"""

import json
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1 import common_pb2

from collector.otlp import wire
from storage.limit import Limit

MAX_DEPTH = 49
"""Most levels of nesting: as many as protobuf's parsers take in a single span, whose limit is 100 messages. So no value
that they take is refused here, and no span with one has to be searched for."""

_TOO_DEEP = f"a value is nested deeper than {Limit(value=MAX_DEPTH, unit='levels', remedy='send it as JSON text')}"

_DEEP, _LARGE_BYTES = 4, 1 << 20
"""Level and size from which values are read one by one: a text of 60 MiB 47 levels deep took 37 s with the columns and
takes 3 s one by one. Smaller values stay in the columns, which are ten times faster with many of them."""

_MOST_PARTS = 1_000_000
"""Most parts of a value read one by one. A span of its size has less than half as many (`pieces.MAX_FIELDS`)."""

_NONE_LARGE = np.zeros(0, dtype=np.bool_)

_SCALARS = {"string_value": "s", "bool_value": "b", "int_value": "i", "double_value": "d", "bytes_value": "x"}
_HEX_PAIRS = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), dtype=np.uint16)
_NO_TEXT = pa.scalar(None, pa.string())  # scalars are made once: making one costs as much as a small column
_NULL, _QUOTE, _COMMA, _COLON, _POINT, _ZERO, _NOTHING = (
    pa.scalar(text) for text in ("null", '"', ",", ":", ".", "0", "")
)
_BRACKETS = {"array_value": (pa.scalar("["), pa.scalar("]")), "kvlist_value": (pa.scalar("{"), pa.scalar("}"))}
_TWO_KINDS = "a value is of two kinds at once"  # twice on the wire: protobuf takes the last, Arrow shows both
_RARE_CONTROL = "[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f]"


class NotColumnar(Exception):
    """Bytes that the columnar decoder cannot take; the ordinary protobuf classes decide."""


def attribute_columns(attributes: pa.ListArray) -> tuple[pa.MapArray, pa.StringArray]:
    """Convert lists of `KeyValue` to maps of text and, for each list, the letters of its values' types.

    Of keys that occur twice in one list the last wins, as in most receivers (OTLP leaves it open).

    Raises:
        NotColumnar: a nested value is malformed or too deep.
    """
    offsets = _offsets(attributes)
    pairs = attributes.values
    keys, (text, letters) = pairs.field("key"), _text(pairs.field("value"))
    keep = _last_of_each_key(offsets, keys)
    if keep is not None:
        kept_before = np.concatenate([[0], np.cumsum(keep)])
        offsets = kept_before[offsets]
        mask = pa.array(keep)
        keys, text, letters = keys.filter(mask), text.filter(mask), letters[keep]
    starts = pa.array(offsets, pa.int32())
    types = pa.StringArray.from_buffers(len(attributes), starts.buffers()[1], pa.py_buffer(letters.tobytes()))
    return pa.MapArray.from_arrays(starts, keys, text), types


def value_columns(values: pa.StructArray) -> tuple[pa.StringArray, pa.StringArray]:
    """Convert single values, such as the bodies of log records, to text and the letters of their types.

    Raises:
        NotColumnar: a nested value is malformed or too deep.
    """
    text, letters = _text(values)
    starts = np.arange(len(values) + 1, dtype=np.int32)
    return text, pa.StringArray.from_buffers(len(values), pa.py_buffer(starts), pa.py_buffer(letters.tobytes()))


def hex_text(values: pa.BinaryArray) -> pa.StringArray:
    """Encode bytes as lower-case hex; null stays null."""
    starts = np.frombuffer(values.buffers()[1], dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    data = values.buffers()[2]
    raw = np.frombuffer(data, dtype=np.uint8)[starts[0] : starts[-1]] if data is not None and len(starts) else None
    text = _HEX_PAIRS[raw].tobytes() if raw is not None else b""
    doubled = ((starts - starts[0]) * 2).astype(np.int32) if len(starts) else np.zeros(1, np.int32)
    plain = pa.StringArray.from_buffers(len(values), pa.py_buffer(doubled), pa.py_buffer(text))
    return pc.if_else(values.is_valid(), plain, _NO_TEXT) if values.null_count else plain


def _offsets(lists: pa.ListArray) -> npt.NDArray[np.int32]:
    offsets: npt.NDArray[np.int32] = lists.offsets.to_numpy()
    return offsets


def _last_of_each_key(offsets: npt.NDArray[np.int32], keys: pa.StringArray) -> npt.NDArray[np.bool_] | None:
    """Return a mask of the pairs to keep; None if no list repeats a key."""
    names = keys.dictionary_encode()
    owner = np.repeat(np.arange(len(offsets) - 1, dtype=np.int64), np.diff(offsets))
    codes = owner * max(len(names.dictionary), 1) + names.indices.to_numpy()
    if pc.count_distinct(pa.array(codes)).as_py() == len(codes):
        return None
    _, first_from_the_end = np.unique(codes[::-1], return_index=True)
    keep = np.zeros(len(codes), dtype=np.bool_)
    keep[len(codes) - 1 - first_from_the_end] = True
    return keep


def _text(values: pa.StructArray) -> tuple[pa.StringArray, npt.NDArray[np.uint8]]:
    """Return each value as text, and its letter."""
    letters = np.full(len(values), ord("n"), dtype=np.uint8)
    columns, present = [], 0
    for field, letter in _SCALARS.items():
        column = values.field(field)
        if column.null_count < len(column):
            letters[_valid(column)] = ord(letter)
            columns.append(hex_text(column) if letter == "x" else column.cast(pa.string()))
            present += len(column) - column.null_count
    for field, letter in (("array_value", "a"), ("kvlist_value", "m")):
        dense, valid = wire.given(values.field(field))
        if len(dense):
            text, exact = _nested(dense, field)
            letters[valid] = ord(letter)
            if not exact.all():
                letters[np.flatnonzero(valid)[~exact]] = ord("v")
            columns.append(_spread(text, valid))
            present += len(dense)
    if not columns:
        return pa.nulls(len(values), pa.string()), letters
    if present > np.count_nonzero(letters != ord("n")) or (_references(values) & (letters != ord("n"))).any():
        raise NotColumnar(_TWO_KINDS)
    return (columns[0] if len(columns) == 1 else pc.coalesce(*columns)), letters


def _valid(column: pa.Array) -> npt.NDArray[np.bool_]:
    valid: npt.NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _references(values: pa.StructArray) -> npt.NDArray[np.bool_]:
    return _valid(values.field("string_value_strindex"))


def _spread(dense: pa.StringArray, valid: npt.NDArray[np.bool_]) -> pa.StringArray:
    positions = np.cumsum(valid) - 1
    return dense.take(pa.array(positions, pa.int64(), mask=~valid))


def _nested(dense: pa.BinaryArray, field: str) -> tuple[pa.StringArray, npt.NDArray[np.bool_]]:
    """Encode nested values as JSON text, else as OTLP/JSON; return a mask of those that JSON carries exactly."""
    text, exact = _json_lists(dense, field, 1)
    if exact.all():
        return text, exact
    otlp = [_otlp_json(dense[int(row)].as_py(), field) for row in np.flatnonzero(~exact)]
    return pc.replace_with_mask(text, pa.array(~exact), pa.array(otlp, pa.string())), exact


def _otlp_json(data: bytes, field: str) -> str:
    value = common_pb2.AnyValue()
    try:
        getattr(value, field).MergeFromString(data)
    except DecodeError as error:
        raise NotColumnar(str(error)) from error
    return json_format.MessageToJson(value, indent=None)


def _json_lists(dense: pa.BinaryArray, field: str, depth: int) -> tuple[pa.StringArray, npt.NDArray[np.bool_]]:
    """Encode arrays or maps, given as bytes, as JSON; return a mask of those that JSON carries exactly."""
    if depth > MAX_DEPTH:
        raise NotColumnar(_TOO_DEEP)
    large = pc.binary_length(dense).to_numpy() > _LARGE_BYTES if depth >= _DEEP else _NONE_LARGE
    if not large.any():
        return _json_columns(dense, field, depth)
    texts = [_json_by_value(dense[int(row)].as_py(), field, depth) for row in np.flatnonzero(large)]
    text, exact = _json_columns(dense.filter(pa.array(~large)), field, depth)
    whole = pc.replace_with_mask(
        _spread(text, ~large), pa.array(large), pa.array([each for each, _ in texts], pa.string())
    )
    all_exact = np.empty(len(dense), dtype=np.bool_)
    all_exact[large], all_exact[~large] = [each for _, each in texts], exact
    return whole, all_exact


def _json_by_value(data: bytes, field: str, depth: int) -> tuple[str, bool]:
    value = common_pb2.AnyValue()
    try:
        getattr(value, field).MergeFromString(data)
    except DecodeError as error:
        raise NotColumnar(str(error)) from error
    text = _DeepText()
    text.add(value, depth - 1)
    return text.whole(), text.exact


class _DeepText:
    """A nested value as JSON, joined once from its parts."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._doubles: list[tuple[int, float]] = []  # written all at once, as the columns write them
        self.exact = True

    def whole(self) -> str:
        """Return the text that was added."""
        places, numbers = zip(*self._doubles, strict=True) if self._doubles else ((), ())
        for place, text in zip(places, _json_double(pa.array(numbers, pa.float64())).to_pylist(), strict=True):
            self._parts[place] = text
        return "".join(self._parts)

    def add(self, value: common_pb2.AnyValue, depth: int) -> None:
        """Add a value that is nested `depth` levels deep."""
        if len(self._parts) > _MOST_PARTS:
            msg = "a value has too many parts"
            raise NotColumnar(msg)
        kind = value.WhichOneof("value")
        if kind == "array_value":
            self._add_all("[]", [("", item) for item in value.array_value.values], depth)
        elif kind == "kvlist_value":
            pairs = [(f"{_literal(pair.key)}:", pair.value) for pair in value.kvlist_value.values]
            self._add_all("{}", pairs, depth)
        else:
            self.exact &= kind != "bytes_value" and not (
                kind == "double_value" and not math.isfinite(value.double_value)
            )
            if kind == "double_value":
                self._doubles.append((len(self._parts), value.double_value))
            self._parts.append(_SCALAR_TEXT[kind](value) if kind in _SCALAR_TEXT else "null")

    def _add_all(self, brackets: str, items: list[tuple[str, common_pb2.AnyValue]], depth: int) -> None:
        if depth >= MAX_DEPTH:
            raise NotColumnar(_TOO_DEEP)
        separator = brackets[0]
        for before, item in items:
            self._parts.append(separator + before)
            self.add(item, depth + 1)
            separator = ","
        self._parts.append(brackets[1] if items else brackets)


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


_SCALAR_TEXT: dict[str, Callable[[common_pb2.AnyValue], str]] = {
    "string_value": lambda value: _literal(value.string_value),
    "bool_value": lambda value: "true" if value.bool_value else "false",
    "int_value": lambda value: str(value.int_value),
}


def _json_columns(dense: pa.BinaryArray, field: str, depth: int) -> tuple[pa.StringArray, npt.NDArray[np.bool_]]:
    decoder = wire.ARRAY_VALUE if field == "array_value" else wire.MAP_VALUE
    try:
        lists = decoder.decode(dense).column(0)
    except ValueError as error:
        raise NotColumnar(str(error)) from error
    children = lists.values
    if field == "array_value":
        text, exact = _json(children, depth)
    else:
        text, exact = _json(children.field("value"), depth)
        text = pc.binary_join_element_wise(_json_string(children.field("key")), text, _COLON)
    offsets = _offsets(lists)
    joined = pc.binary_join(pa.ListArray.from_arrays(lists.offsets, text), _COMMA)
    opening, closing = _BRACKETS[field]
    whole = pc.binary_join_element_wise(opening, joined, closing, _NOTHING)
    inexact_before = np.concatenate([[0], np.cumsum(~exact)])
    return whole, inexact_before[offsets[1:]] == inexact_before[offsets[:-1]]


def _json(values: pa.StructArray, depth: int) -> tuple[pa.StringArray, npt.NDArray[np.bool_]]:
    """Encode values inside an array or a map as JSON; return a mask of those that JSON carries exactly."""
    exact = np.ones(len(values), dtype=np.bool_)
    columns = []
    for field in ("string_value", "bool_value", "int_value", "double_value", "bytes_value"):
        column = values.field(field)
        if column.null_count == len(column):
            continue
        if field == "string_value":
            columns.append(_json_string(column))
        elif field == "double_value":
            columns.append(_json_double(column))
            exact &= ~_valid(column) | pc.is_finite(column).fill_null(fill_value=True).to_numpy(zero_copy_only=False)
        elif field == "bytes_value":
            columns.append(_json_string(hex_text(column)))
            exact &= ~_valid(column)
        else:
            columns.append(column.cast(pa.string()))
    for field in ("array_value", "kvlist_value"):
        dense, valid = wire.given(values.field(field))
        if len(dense):
            text, dense_exact = _json_lists(dense, field, depth + 1)
            columns.append(_spread(text, valid))
            exact[np.flatnonzero(valid)[~dense_exact]] = False
    if not columns:
        return _constant("null", len(values)), exact
    text = pc.coalesce(*columns)
    present = sum(len(column) - column.null_count for column in columns)
    if present > len(text) - text.null_count or (_references(values) & _valid(text)).any():
        raise NotColumnar(_TWO_KINDS)
    return text.fill_null(_NULL), exact


def _constant(text: str, length: int) -> pa.StringArray:
    return pa.array([text], pa.string()).take(pa.array(np.zeros(length, dtype=np.int64)))


def _json_double(column: pa.DoubleArray) -> pa.StringArray:
    text = column.cast(pa.string())
    return pc.if_else(pc.match_substring_regex(text, "[.eni]"), text, pc.binary_join_element_wise(text, _ZERO, _POINT))


def _json_string(column: pa.StringArray) -> pa.StringArray:
    """Encode JSON string literals; null stays null."""
    text = pc.replace_substring(pc.replace_substring(column, "\\", "\\\\"), '"', '\\"')
    for raw, escaped in (("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        text = pc.replace_substring(text, raw, escaped)
    rare = pc.match_substring_regex(column, _RARE_CONTROL).fill_null(fill_value=False)
    if rare.true_count:
        literals = [json.dumps(value, ensure_ascii=False)[1:-1] for value in column.filter(rare).to_pylist()]
        text = pc.replace_with_mask(text, rare, pa.array(literals, pa.string()))
    return pc.binary_join_element_wise(_QUOTE, text, _QUOTE, _NOTHING)
