"""Resources and scopes as columns: the distinct ones of a group are decoded together."""

import functools
import secrets
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from collector.conventions import names
from collector.otlp import wire
from collector.otlp.values import NotColumnar, attribute_columns
from storage.ingest.batch import ENTITY_REF, RESOURCES, SCOPES

_REMEMBERED = 256
"""Sets of resources (and of scopes) kept decoded. A guess: the groups of a few processes name the same ones again."""

_REMEMBERED_BYTES = 8 << 10
"""Larger sets are decoded each time, so that the cache is bounded in bytes: some 20 MiB at worst. A decode takes 0.2 ms
for a few, and 1 µs for each of many."""

_NO_PLACE = -1
_NO_TEXT = pa.scalar(None, pa.string())


@dataclass(frozen=True, slots=True)
class Dimensions:
    """The distinct resources or scopes of a group, and for each element the index of its own."""

    rows: pa.Table  # of `RESOURCES` or `SCOPES`
    names: pa.Table  # of each resource, the names that its spans get as columns
    index: npt.NDArray[np.int64]

    def column(self, name: str, owner: npt.NDArray[np.int64]) -> pa.ChunkedArray:
        """Return a column with the value for each element in `owner`, of its resource or scope."""
        table = self.names if name in self.names.column_names else self.rows
        return table.column(name).take(pa.array(self.index[owner]))

    def rows_of(self, owner: npt.NDArray[np.int64]) -> pa.Table:
        """Return the distinct resources or scopes of the elements in `owner`."""
        used = np.unique(self.index[owner])
        return self.rows if len(used) == self.rows.num_rows else self.rows.take(pa.array(used))


_Decoded = tuple[pa.Table, pa.Table]
_Decode = Callable[[pa.BinaryArray, pa.StringArray], _Decoded]


def resources_of(messages: pa.BinaryArray, schema_urls: pa.StringArray) -> Dimensions:
    """Decode the resources of `ResourceSpans` elements.

    Raises:
        NotColumnar: a resource cannot be decoded as columns.
    """
    return _distinct(messages, schema_urls, _resources)


def scopes_of(messages: pa.BinaryArray, schema_urls: pa.StringArray) -> Dimensions:
    """Decode the scopes of `ScopeSpans` elements.

    Raises:
        NotColumnar: a scope cannot be decoded as columns.
    """
    return _distinct(messages, schema_urls, _scopes)


def _distinct(messages: pa.BinaryArray, schema_urls: pa.StringArray, decode: _Decode) -> Dimensions:
    texts, urls = messages.dictionary_encode(), schema_urls.dictionary_encode()
    width = max(len(urls.dictionary), 1)
    codes = texts.indices.to_numpy().astype(np.int64) * width + urls.indices.to_numpy()
    unique, index = np.unique(codes, return_inverse=True)
    distinct = texts.dictionary.take(pa.array(unique // width)), urls.dictionary.take(pa.array(unique % width))
    return Dimensions(*decode(*distinct), index)


def _remember(decode: _Decode) -> _Decode:
    """Wrap a `decode` so that small sets are decoded once."""

    @functools.lru_cache(maxsize=_REMEMBERED)
    def remembered(messages: tuple[bytes, ...], schema_urls: tuple[str, ...]) -> _Decoded:
        return decode(pa.array(messages, pa.binary()), pa.array(schema_urls, pa.string()))

    def once(messages: pa.BinaryArray, schema_urls: pa.StringArray) -> _Decoded:
        if messages.nbytes + schema_urls.nbytes > _REMEMBERED_BYTES:
            return decode(messages, schema_urls)
        return remembered(tuple(messages.to_pylist()), tuple(schema_urls.to_pylist()))

    return once


@_remember
def _resources(messages: pa.BinaryArray, schema_urls: pa.StringArray) -> _Decoded:
    decoded = _decode(wire.RESOURCE, messages)
    attributes, types = attribute_columns(decoded.column("attributes"))
    columns = {
        "resource_id": _identities(len(messages)),
        "attributes": attributes,
        "attribute_types": types,
        "dropped_attributes_count": decoded.column("dropped_attributes_count"),
        "entity_refs": _entity_refs(decoded),
        "schema_url": schema_urls,
    }
    rows = pa.table([columns[name] for name in RESOURCES.names], schema=RESOURCES)
    projects = [_named(attributes, key) for key in names.PROJECT_KEYS]
    carried = {"project": pc.coalesce(*projects, ""), "service_name": _named(attributes, names.SERVICE_NAME)}
    return rows, pa.table(carried | {"service_name": carried["service_name"].fill_null("")})


@_remember
def _scopes(messages: pa.BinaryArray, schema_urls: pa.StringArray) -> _Decoded:
    decoded = _decode(wire.SCOPE, messages)
    attributes, types = attribute_columns(decoded.column("attributes"))
    columns = {
        "scope_id": _identities(len(messages)),
        "name": decoded.column("name"),
        "version": decoded.column("version"),
        "attributes": attributes,
        "attribute_types": types,
        "dropped_attributes_count": decoded.column("dropped_attributes_count"),
        "schema_url": schema_urls,
    }
    return pa.table([columns[name] for name in SCOPES.names], schema=SCOPES), pa.table({})


def _identities(count: int) -> pa.UInt64Array:
    first = np.uint64(secrets.randbits(64))
    return pa.array(first + np.arange(count, dtype=np.uint64))


def _named(attributes: pa.MapArray, key: str) -> pa.StringArray:
    """Return each resource's text under a key; null if it is missing or blank."""
    pairs = np.flatnonzero(pc.equal(attributes.keys, key).to_numpy(zero_copy_only=False))
    place = np.full(len(attributes), _NO_PLACE, dtype=np.int64)
    owner = np.searchsorted(attributes.offsets.to_numpy(), pairs, side="right") - 1
    place[owner] = pairs
    texts = attributes.items.take(pa.array(place, mask=place == _NO_PLACE))
    blank = pc.or_(pc.equal(texts, ""), pc.utf8_is_space(texts))
    return pc.if_else(blank, _NO_TEXT, texts)


def _entity_refs(decoded: pa.RecordBatch) -> pa.Array:
    if "entity_refs" not in decoded.schema.names:
        return pa.array([[]] * decoded.num_rows, pa.list_(ENTITY_REF))
    return decoded.column("entity_refs").cast(pa.list_(ENTITY_REF))


def _decode(columns: wire.Columns, messages: pa.BinaryArray) -> pa.RecordBatch:
    try:
        return columns.decode(messages)
    except ValueError as error:
        raise NotColumnar(str(error)) from error
