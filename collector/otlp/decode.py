"""OTLP requests to columns, many requests at once.

The whole group is decoded together, because the cost of a decode is mostly per call, not per span.
What the columnar decoder refuses goes through the ordinary protobuf classes (`strict`), so that a
malformed request fails alone and a malformed span or log record is rejected alone.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from collector.dropped_scopes import DroppedScope
from collector.otlp import strict
from collector.otlp.elements import Bodies, Elements, Mask
from collector.otlp.faults import Fault, Malformed, explain, merge
from collector.otlp.pieces import PIECE_BYTES, pieces
from collector.otlp.signals import TRACES, Signal
from collector.otlp.values import NotColumnar
from storage.ingest.batch import SpanBatch, concatenate


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One export request, serialised as protobuf."""

    body: bytes
    signal: Signal = TRACES
    tenant: str = ""
    sender: str = ""
    counts_traces: bool = False  # the answer has the number of distinct accepted traces


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Result of one request: received = accepted + rejected spans or log records."""

    accepted: int
    rejected: int
    faults: tuple[Fault, ...] = ()  # why some were rejected
    traces: int = 0  # distinct trace ids among the accepted, if the request wants them

    @property
    def message(self) -> str:
        """Return why some were rejected, "" if none was."""
        return explain(self.faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """Accepted content of a group, and for each request, in order, its receipt or its error."""

    batch: SpanBatch
    outcomes: list[Receipt | Exception]
    dropped: Counter[DroppedScope] = field(default_factory=Counter)  # accepted, and not in the batch by configuration


def join(parts: Sequence[Decoded]) -> Decoded:
    """Join several groups, in order."""
    return Decoded(
        batch=concatenate([part.batch for part in parts]),
        outcomes=[outcome for part in parts for outcome in part.outcomes],
        dropped=sum((part.dropped for part in parts), Counter()),
    )


def failed(error: Exception) -> Decoded:
    """Return the result of a request of which nothing can be stored."""
    return Decoded(batch=concatenate([]), outcomes=[error])


def decode(requests: Sequence[Request], *, received_at_us: int) -> Decoded:
    """Decode a group of requests.

    Never raises: whatever the bytes, each request gets a receipt or an error, such as `Malformed`.
    """
    signals = {request.signal for request in requests}
    if len(signals) > 1:
        return _decode_mixed(requests, signals, received_at_us)
    if any(len(request.body) > PIECE_BYTES for request in requests):
        return join([_decode_alone(request, received_at_us) for request in requests])
    try:
        return _decode_columns(requests, received_at_us)
    except NotColumnar:
        return join([_decode_alone(request, received_at_us) for request in requests])


def _decode_mixed(requests: Sequence[Request], signals: set[Signal], received_at_us: int) -> Decoded:
    decoded = {
        signal: decode([request for request in requests if request.signal is signal], received_at_us=received_at_us)
        for signal in signals
    }
    outcomes = {signal: iter(part.outcomes) for signal, part in decoded.items()}
    return Decoded(
        batch=concatenate([part.batch for part in decoded.values()]),
        outcomes=[next(outcomes[request.signal]) for request in requests],
    )


def _decode_alone(request: Request, received_at_us: int) -> Decoded:
    try:
        if not is_long(request):
            return _decode_piece(request, received_at_us)
        return whole(request, list(decode_pieces(request, received_at_us=received_at_us)))
    except Malformed as error:
        return failed(error)
    except NotColumnar as error:
        return failed(Malformed(str(error)))


def is_long(request: Request) -> bool:
    """Return whether a request is decoded in pieces."""
    return len(request.body) > PIECE_BYTES


def decode_pieces(request: Request, *, received_at_us: int) -> Iterator[Decoded]:
    """Decode a long request step by step, so that the caller can do something else between two of them.

    Raises:
        Malformed: the request is broken outside its spans or log records, and nothing of it may be stored.
    """
    try:
        for piece in pieces(request.body, request.signal):
            yield _decode_piece(replace(request, body=piece), received_at_us)
    except NotColumnar as error:
        raise Malformed(str(error)) from error


def whole(request: Request, parts: Sequence[Decoded]) -> Decoded:
    """Put the pieces of a long request together."""
    joined = join(parts)
    receipts = [outcome for outcome in joined.outcomes if isinstance(outcome, Receipt)]
    return replace(joined, outcomes=[_add_up(receipts, request, joined.batch)])


def _decode_piece(request: Request, received_at_us: int) -> Decoded:
    """Decode one request, element by element if necessary."""
    try:
        return _decode_columns([request], received_at_us)
    except NotColumnar:
        sifted = strict.sift(request.body, request.signal)
    decoded = _decode_columns([replace(request, body=sifted.body)], received_at_us)
    (receipt,) = (outcome for outcome in decoded.outcomes if isinstance(outcome, Receipt))
    return Decoded(batch=decoded.batch, outcomes=[receipt_with(sifted, receipt)])


def receipt_with(sifted: strict.Sifted, receipt: Receipt) -> Receipt:
    """Return the receipt of a sifted request, including the spans or log records that were sifted out."""
    if not sifted.rejected:
        return receipt
    later = [replace(fault, first=sifted.kept[fault.first - 1]) for fault in receipt.faults]
    return replace(receipt, rejected=receipt.rejected + sifted.rejected, faults=(*sifted.faults, *later))


def _add_up(receipts: list[Receipt], request: Request, batch: SpanBatch) -> Receipt:
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


def _decode_columns(requests: Sequence[Request], received_at_us: int) -> Decoded:
    bodies = Bodies(
        bodies=[request.body for request in requests],
        tenants=[request.tenant for request in requests],
        received_at_us=received_at_us,
    )
    signal = requests[0].signal if requests else TRACES
    elements = signal.decode(bodies)
    return Decoded(batch=elements.batch, outcomes=_receipts(requests, elements, signal.noun))


def _receipts(requests: Sequence[Request], elements: Elements, noun: str) -> list[Receipt | Exception]:
    faults = elements.faults
    starts = np.searchsorted(elements.request_of, np.arange(len(requests) + 1))
    bad = np.logical_or.reduce(list(faults.values())) if faults else np.zeros(len(elements.request_of), dtype=np.bool_)
    receipts: list[Receipt | Exception] = []
    for position, request in enumerate(requests):
        own = slice(int(starts[position]), int(starts[position + 1]))
        received, rejected = own.stop - own.start, int(np.count_nonzero(bad[own]))
        traces = elements.trace_ids[own].filter(pa.array(~bad[own])) if request.counts_traces else None
        receipts.append(
            Receipt(
                accepted=received - rejected,
                rejected=rejected,
                faults=_faults_within(own, faults, noun) if rejected else (),
                traces=0 if traces is None else pc.count_distinct(traces).as_py(),
            )
        )
    return receipts


def _faults_within(own: slice, masks: Mapping[str, Mask], noun: str) -> tuple[Fault, ...]:
    """Return the faults of the spans or log records of one request."""
    places = {reason: np.flatnonzero(mask[own]) for reason, mask in masks.items()}
    return tuple(
        Fault(reason=reason, noun=noun, count=len(rows), first=int(rows[0]) + 1)
        for reason, rows in places.items()
        if len(rows)
    )
