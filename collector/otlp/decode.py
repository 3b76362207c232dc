"""OTLP trace requests to columns, many requests at once.

The whole group is decoded together, because the cost of a decode is mostly per call, not per span.
What the columnar decoder refuses goes through the ordinary protobuf classes (`strict`), so that a
malformed request fails alone and a malformed span is rejected alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from collector.otlp import dimensions, strict, wire
from collector.otlp.errors import Malformed
from collector.otlp.faults import Fault, explain, merge
from collector.otlp.pieces import PIECE_BYTES, pieces
from collector.otlp.values import Unfit, attribute_columns, hex_text
from storage.batch import EVENT, LINK, RESOURCES, SCOPES, SPANS, SpanBatch, concatenate

_TRACE_BYTES, _SPAN_BYTES = 16, 8
_NO_TRACE, _NO_SPAN, _NO_NAME = pa.scalar(bytes(_TRACE_BYTES)), pa.scalar(bytes(_SPAN_BYTES)), pa.scalar("")
_TRACE_LENGTH, _SPAN_LENGTH, _NO_LENGTH = (pa.scalar(length, pa.int32()) for length in (_TRACE_BYTES, _SPAN_BYTES, 0))
_NO_PARENT = pa.array(["", bytes(_SPAN_BYTES).hex()])
_FIRST_NS, _LAST_NS = -(2**63) + 100_000 * 10**9, 2**63 - 2  # in the years 1677 and 2262
_NO_EVENTS, _NO_LINKS = pa.array([], EVENT), pa.array([], LINK)
_NO_TEXT = pa.scalar(None, pa.string())


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One `ExportTraceServiceRequest`, serialised as protobuf."""

    body: bytes
    tenant: str = ""
    counts_traces: bool = False  # whether the answer tells how many distinct traces were accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What became of the spans of one request: received = accepted + rejected."""

    accepted: int
    rejected: int
    faults: tuple[Fault, ...] = ()  # why spans were rejected
    traces: int = 0  # distinct trace ids among the accepted, if the request asked

    @property
    def message(self) -> str:
        """Why spans were rejected, "" when none was."""
        return explain(self.faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """The accepted spans of a group, and for each request, in order, its receipt or what is wrong with it."""

    batch: SpanBatch
    outcomes: list[Receipt | Exception]


def join(parts: Sequence[Decoded]) -> Decoded:
    """Several groups as one, in order."""
    return Decoded(
        batch=concatenate([part.batch for part in parts]),
        outcomes=[outcome for part in parts for outcome in part.outcomes],
    )


def failed(error: Exception) -> Decoded:
    """A request of which nothing can be stored."""
    nothing = SpanBatch(spans=SPANS.empty_table(), resources=RESOURCES.empty_table(), scopes=SCOPES.empty_table())
    return Decoded(batch=nothing, outcomes=[error])


def decode(requests: Sequence[Request], *, received_at_us: int) -> Decoded:
    """Decode a group of requests.

    Total: whatever the bytes, the answer is spans, rejections or `Malformed` for each request.
    """
    if any(len(request.body) > PIECE_BYTES for request in requests):
        return join([_decode_alone(request, received_at_us) for request in requests])
    try:
        return _decode_columns(requests, received_at_us)
    except Unfit:
        return join([_decode_alone(request, received_at_us) for request in requests])


def _decode_alone(request: Request, received_at_us: int) -> Decoded:
    try:
        if len(request.body) <= PIECE_BYTES:
            return _decode_piece(request, received_at_us)
        decoded = [_decode_piece(replace(request, body=piece), received_at_us) for piece in pieces(request.body)]
    except Malformed as error:
        return failed(error)
    except Unfit as error:
        return failed(Malformed(str(error)))
    whole = join(decoded)
    receipts = [outcome for outcome in whole.outcomes if isinstance(outcome, Receipt)]
    return Decoded(batch=whole.batch, outcomes=[_add_up(receipts, request, whole.batch)])


def _decode_piece(request: Request, received_at_us: int) -> Decoded:
    """Decode one request, span by span where it has to be.

    Raises:
        Malformed, Unfit: it is broken outside its spans.
    """
    try:
        return _decode_columns([request], received_at_us)
    except Unfit:
        sifted = strict.sift(request.body)
    decoded = _decode_columns([replace(request, body=sifted.body)], received_at_us)
    (receipt,) = (outcome for outcome in decoded.outcomes if isinstance(outcome, Receipt))
    later = [replace(fault, first=sifted.kept[fault.first - 1]) for fault in receipt.faults]
    both = replace(receipt, rejected=receipt.rejected + sifted.rejected, faults=(*sifted.faults, *later))
    return Decoded(batch=decoded.batch, outcomes=[both])


def _add_up(receipts: list[Receipt], request: Request, batch: SpanBatch) -> Receipt:
    """The receipt of a request from those of its pieces."""
    faults, before = [], 0
    for receipt in receipts:
        faults += [replace(fault, first=fault.first + before) for fault in receipt.faults]
        before += receipt.accepted + receipt.rejected
    return Receipt(
        accepted=sum(receipt.accepted for receipt in receipts),
        rejected=sum(receipt.rejected for receipt in receipts),
        faults=merge(faults),
        traces=pc.count_distinct(batch.spans.column("trace_id")).as_py() if request.counts_traces else 0,
    )


@dataclass(frozen=True, slots=True)
class _Tree:
    """The nested lists of a group taken apart; each level knows its parent's row."""

    resource_spans: pa.StructArray
    scope_spans: pa.StructArray
    spans: pa.StructArray
    scope_of_span: npt.NDArray[np.int64]
    resource_of_span: npt.NDArray[np.int64]
    request_of_span: npt.NDArray[np.int64]


def _tree(requests: Sequence[Request]) -> _Tree:
    try:
        root = wire.TRACES.decode([request.body for request in requests]).column(0)
    except ValueError as error:
        raise Unfit(str(error)) from error
    resource_spans = root.values
    scope_lists = resource_spans.field("scope_spans")
    scope_spans = scope_lists.values
    span_lists = scope_spans.field("spans")
    scope_of_span = _parents(span_lists)
    resource_of_span = _parents(scope_lists)[scope_of_span]
    return _Tree(
        resource_spans,
        scope_spans,
        span_lists.values,
        scope_of_span,
        resource_of_span,
        _parents(root)[resource_of_span],
    )


def _parents(lists: pa.ListArray) -> npt.NDArray[np.int64]:
    return np.repeat(np.arange(len(lists), dtype=np.int64), np.diff(lists.offsets.to_numpy()))


def _decode_columns(requests: Sequence[Request], received_at_us: int) -> Decoded:
    tree = _tree(requests)
    resources = dimensions.resources_of(
        wire.merged(tree.resource_spans.field("resource")), tree.resource_spans.field("schema_url")
    )
    scopes = dimensions.scopes_of(wire.merged(tree.scope_spans.field("scope")), tree.scope_spans.field("schema_url"))
    owners = {
        "tenant": pa.array([request.tenant for request in requests], pa.string()).take(pa.array(tree.request_of_span)),
        "resource_id": resources.column(
            pa.array([each.id for each in resources.distinct], pa.uint64()), tree.resource_of_span
        ),
        "project": resources.column(
            pa.array([each.project for each in resources.distinct], pa.string()), tree.resource_of_span
        ),
        "service_name": resources.column(
            pa.array([each.service_name for each in resources.distinct], pa.string()), tree.resource_of_span
        ),
        "scope_id": scopes.column(pa.array([each.id for each in scopes.distinct], pa.uint64()), tree.scope_of_span),
        "received_at": pa.array(np.full(len(tree.spans), received_at_us)).cast(pa.timestamp("us")),
    }
    columns = owners | _span_columns(tree.spans)
    spans = pa.table([columns[name] for name in SPANS.names], schema=SPANS)
    faults = _faults(tree.spans)
    if faults:
        spans = spans.filter(pa.array(~np.logical_or.reduce(list(faults.values()))))
    return Decoded(
        batch=SpanBatch(
            spans=spans,
            resources=dimensions.rows(resources.distinct, RESOURCES),
            scopes=dimensions.rows(scopes.distinct, SCOPES),
        ),
        outcomes=_receipts(requests, tree.request_of_span, faults, columns["trace_id"]),
    )


def _span_columns(spans: pa.StructArray) -> dict[str, pa.Array]:
    attributes, types = attribute_columns(spans.field("attributes"))
    status = spans.field("status")
    parent = hex_text(spans.field("parent_span_id"))
    as_is = (
        "trace_state",
        "flags",
        "name",
        "kind",
        "dropped_attributes_count",
        "dropped_events_count",
        "dropped_links_count",
    )
    return {name: spans.field(name) for name in as_is} | {
        "trace_id": hex_text(spans.field("trace_id")),
        "span_id": hex_text(spans.field("span_id")),
        "parent_span_id": pc.if_else(pc.is_in(parent, value_set=_NO_PARENT), _NO_TEXT, parent),
        "start_time": _instant(spans.field("start_time_unix_nano")),
        "end_time": _instant(spans.field("end_time_unix_nano")),
        "attributes": attributes,
        "attribute_types": types,
        "events": _events(spans.field("events")),
        "links": _links(spans.field("links")),
        "status_code": pc.struct_field(status, "code").fill_null(0),
        "status_message": pc.struct_field(status, "message").fill_null(""),
    }


def _instant(nanoseconds: pa.UInt64Array) -> pa.TimestampArray:
    """The same 64 bits as a signed instant, which is exact there and back.

    DuckDB reads the greatest instant as infinity and cannot write those of the first day: these move to the nearest.
    """
    instants = nanoseconds.view(pa.int64())
    signed = instants.to_numpy()
    if len(signed) and (signed.max() > _LAST_NS or signed.min() < _FIRST_NS):
        instants = pa.array(np.clip(signed, _FIRST_NS, _LAST_NS))
    return instants.cast(pa.timestamp("ns"))


def _events(lists: pa.ListArray) -> pa.ListArray:
    events = lists.values
    if not len(events):
        return pa.ListArray.from_arrays(lists.offsets, _NO_EVENTS)
    attributes, types = attribute_columns(events.field("attributes"))
    columns = {"time": _instant(events.field("time_unix_nano")), "attributes": attributes, "attribute_types": types}
    return _relist(lists, events, columns, EVENT)


def _links(lists: pa.ListArray) -> pa.ListArray:
    links = lists.values
    if not len(links):
        return pa.ListArray.from_arrays(lists.offsets, _NO_LINKS)
    attributes, types = attribute_columns(links.field("attributes"))
    columns = {
        "trace_id": hex_text(links.field("trace_id")),
        "span_id": hex_text(links.field("span_id")),
        "attributes": attributes,
        "attribute_types": types,
    }
    return _relist(lists, links, columns, LINK)


def _relist(
    lists: pa.ListArray, items: pa.StructArray, columns: dict[str, pa.Array], kind: pa.StructType
) -> pa.ListArray:
    """The lists again, their items made of `columns` and, for the rest, of what came."""
    fields = [columns[field.name] if field.name in columns else items.field(field.name) for field in kind]
    return pa.ListArray.from_arrays(lists.offsets, pa.StructArray.from_arrays(fields, fields=list(kind)))


def _faults(spans: pa.StructArray) -> dict[str, npt.NDArray[np.bool_]]:
    """Which spans are invalid, for each way of being so that occurs."""
    trace_id, span_id, parent = (spans.field(name) for name in ("trace_id", "span_id", "parent_span_id"))
    parent_length = pc.binary_length(parent)
    checks = {
        "trace_id must be 16 bytes, not all zero": pc.or_(
            pc.not_equal(pc.binary_length(trace_id), _TRACE_LENGTH), pc.equal(trace_id, _NO_TRACE)
        ),
        "span_id must be 8 bytes, not all zero": pc.or_(
            pc.not_equal(pc.binary_length(span_id), _SPAN_LENGTH), pc.equal(span_id, _NO_SPAN)
        ),
        "parent_span_id must be 8 bytes or empty": pc.and_(
            pc.not_equal(parent_length, _SPAN_LENGTH), pc.not_equal(parent_length, _NO_LENGTH)
        ),
        "name must not be empty": pc.equal(pc.utf8_trim_whitespace(spans.field("name")), _NO_NAME),
    }
    return {
        reason: mask.to_numpy(zero_copy_only=False)
        for reason, mask in checks.items()
        if pc.any(mask, min_count=0).as_py()
    }


def _receipts(
    requests: Sequence[Request],
    request_of_span: npt.NDArray[np.int64],
    faults: dict[str, npt.NDArray[np.bool_]],
    trace_ids: pa.StringArray,
) -> list[Receipt | Exception]:
    starts = np.searchsorted(request_of_span, np.arange(len(requests) + 1))
    bad = np.logical_or.reduce(list(faults.values())) if faults else np.zeros(len(request_of_span), dtype=np.bool_)
    receipts: list[Receipt | Exception] = []
    for position, request in enumerate(requests):
        own = slice(int(starts[position]), int(starts[position + 1]))
        received, rejected = own.stop - own.start, int(np.count_nonzero(bad[own]))
        traces = trace_ids[own].filter(pa.array(~bad[own])) if request.counts_traces else None
        receipts.append(
            Receipt(
                accepted=received - rejected,
                rejected=rejected,
                faults=_faults_within(own, faults) if rejected else (),
                traces=0 if traces is None else pc.count_distinct(traces).as_py(),
            )
        )
    return receipts


def _faults_within(own: slice, masks: dict[str, npt.NDArray[np.bool_]]) -> tuple[Fault, ...]:
    """The faults of the spans of one request."""
    places = {reason: np.flatnonzero(mask[own]) for reason, mask in masks.items()}
    return tuple(
        Fault(reason=reason, spans=len(found), first=int(found[0]) + 1)
        for reason, found in places.items()
        if len(found)
    )
