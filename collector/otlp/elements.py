"""The common part of decoding spans and log records to columns: their positions in requests, their ids and times."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from collector.otlp import dimensions, wire
from collector.otlp.dimensions import Dimensions
from collector.otlp.values import NotColumnar
from storage.ingest.batch import SpanBatch

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]

TRACE_BYTES, SPAN_BYTES = 16, 8
_NO_TRACE, _NO_SPAN = pa.scalar(bytes(TRACE_BYTES)), pa.scalar(bytes(SPAN_BYTES))
_TRACE_LENGTH, SPAN_LENGTH = (pa.scalar(length, pa.int32()) for length in (TRACE_BYTES, SPAN_BYTES))
_FIRST_NS, _LAST_NS = -(2**63) + 100_000 * 10**9, 2**63 - 2  # in the years 1677 and 2262


@dataclass(frozen=True, slots=True, kw_only=True)
class Bodies:
    """Requests of one signal to decode together: the bytes and the tenant of each."""

    bodies: Sequence[bytes]
    tenants: Sequence[str]
    received_at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Elements:
    """The spans or log records of some requests, and their faults."""

    batch: SpanBatch  # without the invalid ones
    request_of: Rows  # number of the request of each element, also of invalid ones
    faults: Mapping[str, Mask]  # masks of invalid elements, by each reason that occurs
    trace_ids: pa.StringArray  # of each element, also of invalid ones


@dataclass(frozen=True, slots=True)
class ElementTree:
    """The elements of a group of requests, and the index of each one's resource, scope and request."""

    elements: pa.Array
    resources: Dimensions
    scopes: Dimensions
    resource_of: Rows
    scope_of: Rows
    request_of: Rows


def tree_of(columns: wire.Columns, bodies: Sequence[bytes]) -> ElementTree:
    """Take requests apart: lists of resources with lists of scopes with lists of elements.

    All signals share the envelope of traces (`wire.Envelope`), so `columns` name the fields as traces do.

    Raises:
        NotColumnar: the columnar decoder cannot take them.
    """
    try:
        root = columns.decode(list(bodies)).column(0)
    except ValueError as error:
        raise NotColumnar(str(error)) from error
    by_resource = root.values
    scope_lists = by_resource.field("scope_spans")
    by_scope = scope_lists.values
    element_lists = by_scope.field("spans")
    scope_of = parents(element_lists)
    resource_of = parents(scope_lists)[scope_of]
    return ElementTree(
        element_lists.values,
        dimensions.resources_of(wire.merged(by_resource.field("resource")), by_resource.field("schema_url")),
        dimensions.scopes_of(wire.merged(by_scope.field("scope")), by_scope.field("schema_url")),
        resource_of,
        scope_of,
        parents(root)[resource_of],
    )


def parents(lists: pa.ListArray) -> Rows:
    """Return for each item the number of its list."""
    return np.repeat(np.arange(len(lists), dtype=np.int64), np.diff(lists.offsets.to_numpy()))


def id_faults(trace_id: pa.BinaryArray, span_id: pa.BinaryArray) -> dict[str, pa.BooleanArray]:
    """Return a mask of bad ids by reason."""
    return {
        "trace_id must be 16 bytes, not all zero": pc.or_(
            pc.not_equal(pc.binary_length(trace_id), _TRACE_LENGTH), pc.equal(trace_id, _NO_TRACE)
        ),
        "span_id must be 8 bytes, not all zero": pc.or_(
            pc.not_equal(pc.binary_length(span_id), SPAN_LENGTH), pc.equal(span_id, _NO_SPAN)
        ),
    }


def that_occur(checks: Mapping[str, pa.BooleanArray]) -> dict[str, Mask]:
    """Return the masks of the faults that at least one element has."""
    return {
        reason: mask.to_numpy(zero_copy_only=False)
        for reason, mask in checks.items()
        if pc.any(mask, min_count=0).as_py()
    }


def instant(nanoseconds: pa.UInt64Array) -> pa.TimestampArray:
    """Reinterpret unsigned 64-bit nanoseconds as a signed instant, which loses nothing in either direction."""
    return nanoseconds.view(pa.int64()).cast(pa.timestamp("ns"))


def storable_instant(nanoseconds: pa.UInt64Array) -> pa.TimestampArray:
    """Convert like `instant`, clamped to what DuckDB can write; its greatest timestamp means infinity."""
    instants = nanoseconds.view(pa.int64())
    signed = instants.to_numpy()
    if len(signed) and (signed.max() > _LAST_NS or signed.min() < _FIRST_NS):
        instants = pa.array(np.clip(signed, _FIRST_NS, _LAST_NS))
    return instants.cast(pa.timestamp("ns"))
