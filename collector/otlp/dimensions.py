"""Resources and scopes: few distinct ones name many spans, so each is decoded once and remembered."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from collector.conventions import names
from collector.otlp import wire
from collector.otlp.values import Unfit, attribute_columns
from storage.ingest.batch import ENTITY_REF, RESOURCES, SCOPES

_REMEMBERED = 4096
"""Distinct resources (and scopes) kept decoded, some kilobytes each. A guess: more than one server is sent."""

_REMEMBERED_BYTES = 8 << 10
"""Larger ones are decoded each time, so that what is kept is bounded by bytes: some 200 MiB at the very worst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """One distinct resource or scope: its id, its row, and for a resource the names that spans carry along."""

    id: int
    row: pa.Table
    project: str = ""
    service_name: str = ""


@dataclass(frozen=True, slots=True)
class Dimensions:
    """The distinct resources or scopes of a group, and for each element the index of its own."""

    distinct: list[Dimension]
    index: npt.NDArray[np.int64]

    def column(self, values: pa.Array, owner: npt.NDArray[np.int64]) -> pa.Array:
        """A value of each dimension, spread to the rows whose elements are `owner`."""
        return values.take(pa.array(self.index[owner]))

    def of(self, owner: npt.NDArray[np.int64]) -> list[Dimension]:
        """The attributes that the elements `owner` have."""
        return [self.distinct[int(place)] for place in np.unique(self.index[owner])]


_Decode = Callable[[bytes, str], Dimension]


def resources_of(messages: pa.BinaryArray, schema_urls: pa.StringArray) -> Dimensions:
    """The resources of `ResourceSpans` elements."""
    return _distinct(messages, schema_urls, _resource)


def scopes_of(messages: pa.BinaryArray, schema_urls: pa.StringArray) -> Dimensions:
    """The scopes of `ScopeSpans` elements."""
    return _distinct(messages, schema_urls, _scope)


def rows(dimensions: list[Dimension], schema: pa.Schema) -> pa.Table:
    """The rows of all, as one table."""
    tables = [dimension.row for dimension in dimensions]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _distinct(messages: pa.BinaryArray, schema_urls: pa.StringArray, decode: _Decode) -> Dimensions:
    texts, urls = messages.dictionary_encode(), schema_urls.dictionary_encode()
    codes = texts.indices.to_numpy().astype(np.int64) * max(len(urls.dictionary), 1) + urls.indices.to_numpy()
    unique, index = np.unique(codes, return_inverse=True)
    distinct = [
        decode(
            texts.dictionary[int(code) // len(urls.dictionary)].as_py(),
            urls.dictionary[int(code) % len(urls.dictionary)].as_py(),
        )
        for code in unique
    ]
    return Dimensions(distinct, index)


def _identify(message: bytes, schema_url: str) -> int:
    url = schema_url.encode()
    digest = blake2b(len(url).to_bytes(8, "little") + url + message, digest_size=8)
    return int.from_bytes(digest.digest(), "little")


def _remember(decode: _Decode) -> _Decode:
    """A `decode` that decodes what is small once, and remembers what came of it."""
    remembered = functools.lru_cache(maxsize=_REMEMBERED)(decode)

    def once(message: bytes, schema_url: str) -> Dimension:
        small = len(message) + len(schema_url) <= _REMEMBERED_BYTES
        return remembered(message, schema_url) if small else decode(message, schema_url)

    return once


@_remember
def _resource(message: bytes, schema_url: str) -> Dimension:
    decoded = _decode(wire.RESOURCE, message)
    attributes, types = attribute_columns(decoded.column("attributes"))
    identity = _identify(message, schema_url)
    named = dict(attributes[0].as_py())
    row = pa.table(
        [
            pa.array([identity], pa.uint64()),
            attributes,
            types,
            decoded.column("dropped_attributes_count"),
            _entity_refs(decoded),
            pa.array([schema_url]),
        ],
        schema=RESOURCES,
    )
    return Dimension(id=identity, row=row, project=names.project_of(named), service_name=names.service_of(named))


def _entity_refs(decoded: pa.RecordBatch) -> pa.Array:
    if "entity_refs" not in decoded.schema.names:
        return pa.array([[]], pa.list_(ENTITY_REF))
    return decoded.column("entity_refs").cast(pa.list_(ENTITY_REF))


@_remember
def _scope(message: bytes, schema_url: str) -> Dimension:
    decoded = _decode(wire.SCOPE, message)
    attributes, types = attribute_columns(decoded.column("attributes"))
    identity = _identify(message, schema_url)
    row = pa.table(
        [
            pa.array([identity], pa.uint64()),
            decoded.column("name"),
            decoded.column("version"),
            attributes,
            types,
            decoded.column("dropped_attributes_count"),
            pa.array([schema_url]),
        ],
        schema=SCOPES,
    )
    return Dimension(id=identity, row=row)


def _decode(columns: wire.Columns, message: bytes) -> pa.RecordBatch:
    try:
        return columns.decode([message])
    except ValueError as error:
        raise Unfit(str(error)) from error
