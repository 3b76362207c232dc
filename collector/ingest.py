"""From request bytes to a durable answer.

    offer -> queue (bounded by bytes) -> decode thread -> spool thread -> answer

The decode thread takes all that waits, up to a limit, and decodes it as one group, because most of a
small decode's cost is per group. While one group is being synced the next one is decoded and the one
after that gathers. Alone, a request is answered at once; where several were under way together, small
ones wait a moment for each other, and share a decode, a sync and a place in a commit.

One client cannot hold up the others: a request waits longer the larger it is, and a long one is decoded in
pieces with a group of shorter ones after each. A long request whose client has left is dropped before its next piece.
"""

import asyncio
import logging
import queue
import threading
import time
from bisect import insort
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Final

from collector.dropped_scopes import DroppedScope, ScopeFilter
from collector.otlp.decode import Decoded, Receipt, Request, decode, decode_pieces, failed, is_long, join, whole
from collector.otlp.faults import Malformed
from collector.otlp.pieces import PIECE_BYTES
from collector.otlp.signals import LOGS, TRACES
from collector.redaction.columns import Redactor
from collector.self_tracing import FinishedWork, Watch, is_ours
from storage.errors import Overloaded
from storage.ingest.shares import Shares
from storage.limit import Limit
from storage.store import Store

log = logging.getLogger(__name__)

_GROUP_BYTES = 2 << 20
"""Bytes of requests that are decoded together, some 1,700 agent spans. Larger groups cost the same CPU a span; this
also bounds what a group of nothing but tiny elements takes in memory (`collector.otlp.pieces`)."""

_GATHERED_BYTES: Final = 256 << 10
"""Bytes from which a group waits for no more requests: the cost per group is then small beside that of its spans."""

_GATHER_S: Final = 0.02
"""Longest wait of a request for others. A guess: small beside the time that a batch waits in its application."""

_GROUPS_AT_ONCE = 2
"""One group is written while another is decoded. More groups would be smaller, and cost more CPU per span."""


_WAIT_S_OF_A_BYTE: Final = 2e-6
"""Delay per byte of a request; requests that arrive within it pass the request. At least the time to decode a byte."""

_LONGEST_WAIT_S: Final = 5.0
"""Longest such delay of a request, however large. A guess: exporters time out after 10 s."""

_OUTCOMES: Final = ("accepted", "rejected", "refused", "failed", "dropped")


@dataclass(frozen=True, slots=True)
class _Offer:
    request: Request
    answer: "asyncio.Future[Receipt]"
    at_s: float

    @property
    def due_s(self) -> float:
        """Return the time that decides the request's position in the queue."""
        return self.at_s + min(len(self.request.body) * _WAIT_S_OF_A_BYTE, _LONGEST_WAIT_S)


class SpansRefused(Overloaded):
    """Refusal of decoded spans, which may be sent again later. They are counted, so the request must not be."""


class SpansFailed(Exception):
    """Failure to store decoded spans because of a bug. They are counted already, as above."""


class ByteBudget:
    """Memory limit in bytes, shared by senders; a request that does not fit is refused at once."""

    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self._shares = Shares(int(limit.value))
        self._lock = threading.Lock()

    @property
    def held(self) -> int:
        """Return the held bytes."""
        return self._shares.total

    def held_by(self, sender: str) -> int:
        """Return the held bytes of a sender."""
        return self._shares.of(sender)

    def take(self, nbytes: int, *, own: int = 0, sender: str = "") -> None:
        """Hold bytes for a request that holds `own` already. A sender's only request may be larger than its share.

        Raises:
            Overloaded: the bytes held for requests are at their limit.
        """
        with self._lock:
            held = self._shares.of(sender)
            has_room_alone = held == own and self._shares.has_room_for_only(sender, nbytes)
            if not has_room_alone and not self._shares.has_room(sender, nbytes):
                raise Overloaded(
                    f"{held >> 20} MiB of requests of this client, and {self._shares.total >> 20} MiB in all, are being"
                    f" worked on; the limit of all, of which one client leaves a quarter to others, is {self._limit}"
                )
            self._shares.take(sender, nbytes)

    def give_back(self, nbytes: int, *, sender: str = "") -> None:
        """Release bytes of a sender."""
        with self._lock:
            self._shares.take(sender, -nbytes)


class Ingest:
    """The ingest path of every request, for all listeners."""

    def __init__(
        self,
        store: Store,
        *,
        queue_bytes: int,
        redactor: Redactor | None = None,
        scopes: ScopeFilter | None = None,
        watch: Watch | None = None,
    ) -> None:
        """Set up the ingest. `watch` is called with each answered group; spans of `scopes` are accepted and dropped."""
        self._store = store
        self._watch = watch
        self.redactor = redactor
        self._scopes = scopes if scopes is not None and scopes.entries else None
        self._dropped = Counter(dict.fromkeys(scopes.entries, 0) if scopes is not None else {})
        limit = Limit(
            value=queue_bytes, unit="bytes", setting="queue_bytes", remedy="send again later, or less at once"
        )
        self.budget = ByteBudget(limit)
        self._waiting: list[_Offer] = []  # sorted by `due_s`
        self._arrived = threading.Condition()
        self._unanswered = 0
        self._most_unanswered = 0  # maximum of `_unanswered` since a group was taken last
        self._decoded: queue.SimpleQueue[tuple[Decoded, list[_Offer], int] | None] = queue.SimpleQueue()
        self._room = threading.Semaphore(_GROUPS_AT_ONCE)
        self._closed = False
        self._counts = Counter({(outcome, signal.noun): 0 for outcome in _OUTCOMES for signal in (TRACES, LOGS)})
        self._threads = [
            threading.Thread(target=self._decode_groups, name="otlp-decode", daemon=True),
            threading.Thread(target=self._store_groups, name="otlp-spool", daemon=True),
        ]

    @property
    def outcomes(self) -> dict[tuple[str, str], int]:
        """Return the counts of decoded elements since the start, by outcome and kind."""
        return dict(self._counts)

    @property
    def dropped(self) -> dict[DroppedScope, int]:
        """Return how many spans were dropped since the start, by entry of the setting."""
        return dict(self._dropped)

    def start(self) -> None:
        """Start working on offered requests. Call this on the event loop that will call `offer`."""
        self._loop = asyncio.get_running_loop()
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Answer everything that was offered, then stop."""
        with self._arrived:
            self._closed = True
            self._arrived.notify()
        for thread in self._threads:
            thread.join()

    def offer(self, request: Request) -> "asyncio.Future[Receipt]":
        """Queue a request; on the event loop only. The future completes when the accepted data is durable.

        It fails with `Malformed` if the request is not valid, with `Overloaded` if the server is behind, and with
        `SpansFailed` after a bug.

        Raises:
            Overloaded: the server is behind already, or shutting down.
        """
        others = self.budget.held_by(request.sender) - len(request.body)  # bytes of this sender that are not stored yet
        self._store.check_room(request.sender, max(others, 0))
        offer = _Offer(request, self._loop.create_future(), time.monotonic())
        with self._arrived:
            if self._closed:
                msg = "shutting down"
                raise Overloaded(msg)
            insort(self._waiting, offer, key=attrgetter("due_s"))
            self._unanswered += 1
            self._most_unanswered = max(self._most_unanswered, self._unanswered)
            self._arrived.notify()
        offer.answer.add_done_callback(partial(self._withdraw, offer))
        return offer.answer

    def _withdraw(self, offer: _Offer, answer: "asyncio.Future[Receipt]") -> None:
        """Remove a request from the queue if its sender hung up."""
        if answer.cancelled():
            with self._arrived:
                others = [each for each in self._waiting if each is not offer]
                self._unanswered -= len(self._waiting) - len(others)
                self._waiting = others

    def _groups(self) -> Iterator[list[_Offer]]:
        while True:
            self._room.acquire()
            with self._arrived:
                self._arrived.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                self._gather()
                group = self._take(longest=None)
            if group:
                yield group
            else:
                self._room.release()

    def _take(self, *, longest: int | None) -> list[_Offer]:
        """Take a group of requests out of the queue, none with more than `longest` bytes. The caller holds the lock."""
        group: list[_Offer] = []
        nbytes = 0
        for offer in self._waiting:
            size = len(offer.request.body)
            if longest is not None and size > longest:
                continue
            if group and (nbytes + size > _GROUP_BYTES or is_long(offer.request) or is_long(group[0].request)):
                break
            group.append(offer)
            nbytes += size
        taken = set(map(id, group))
        self._waiting = [offer for offer in self._waiting if id(offer) not in taken]
        self._most_unanswered = self._unanswered
        # A sender that hung up while its request waited gets no answer, so nothing needs to be stored.
        present = [offer for offer in group if not offer.answer.cancelled()]
        self._unanswered -= len(group) - len(present)
        return present

    def _gather(self) -> None:
        """Wait a moment for as many requests as were lately under way together. One that is alone does not wait."""
        until_s = min(offer.at_s for offer in self._waiting) + _GATHER_S
        while len(self._waiting) < self._most_unanswered and not self._closed:
            left_s = until_s - time.monotonic()
            if left_s <= 0 or sum(len(offer.request.body) for offer in self._waiting) >= _GATHERED_BYTES:
                return
            self._arrived.wait(left_s)

    def _forget(self, requests: int) -> None:
        with self._arrived:
            self._unanswered -= requests

    def _decode_groups(self) -> None:
        for group in self._groups():
            began_ns = time.time_ns()
            decoded = self._decode_long(group[0]) if is_long(group[0].request) else self._decode(group)
            if decoded is None:
                self._forget(len(group))
                self._room.release()
            else:
                self._decoded.put((decoded, group, began_ns))
            del group, decoded  # free the memory while it waits for the next group
        self._decoded.put(None)

    def _decode_long(self, offer: _Offer) -> Decoded | None:
        """Decode a long request, with a group of shorter ones after each piece; None once its sender has hung up."""
        parts: list[Decoded] = []
        try:
            for part in decode_pieces(offer.request, received_at_us=time.time_ns() // 1000):
                parts.append(self._kept(part))
                if offer.answer.cancelled():
                    return None
                self._decode_shorter()
            return whole(offer.request, parts)
        except Malformed as error:
            return failed(error.with_traceback(None))  # a traceback would keep the request, in a cycle with its answer
        except Exception as error:  # noqa: BLE001 - the top of a thread: a bug met by one request must not fail the others
            log.exception("decoding a long request failed")
            return failed(error.with_traceback(None))

    def _decode_shorter(self) -> None:
        """Decode a group of requests that are not long, if any wait."""
        with self._arrived:
            group = self._take(longest=PIECE_BYTES)
        if group:
            began_ns = time.time_ns()
            self._room.acquire()
            self._decoded.put((self._decode(group), group, began_ns))

    def _decode(self, group: list[_Offer]) -> Decoded:
        requests = [offer.request for offer in group]
        received_at_us = time.time_ns() // 1000
        try:
            return self._kept(decode(requests, received_at_us=received_at_us))
        except Exception:  # noqa: BLE001 - the top of a thread: a bug met by one request must not fail the others
            log.exception("decoding failed; retrying each request of the group alone")
        return join([self._decode_alone(request, received_at_us) for request in requests])

    def _decode_alone(self, request: Request, received_at_us: int) -> Decoded:
        try:
            return self._kept(decode([request], received_at_us=received_at_us))
        except Exception as error:  # noqa: BLE001 - as above: this request is the one that met the bug
            return failed(error)

    def _kept(self, decoded: Decoded) -> Decoded:
        """Drop scopes and redact values, by the settings; a failure fails the requests."""
        if self._scopes is not None:
            batch, dropped = self._scopes.drop(decoded.batch)
            decoded = replace(decoded, batch=batch, dropped=dropped)
        if self.redactor is None or not decoded.batch.num_rows:
            return decoded
        return replace(decoded, batch=self.redactor.redact(decoded.batch))

    def _store_groups(self) -> None:
        while (item := self._decoded.get()) is not None:
            decoded, offers, began_ns = item
            failed = self._store_group(decoded, offers)
            if self._watch is not None and not is_ours(decoded.batch):
                self._watch(_done(decoded, offers, began_ns, failed))
            del item, decoded, offers
            self._room.release()

    def _store_group(self, decoded: Decoded, offers: list[_Offer]) -> str | None:
        """Store a group and answer its requests; return the reason of a failure, else None."""
        outcomes: list[Receipt | Exception] = list(decoded.outcomes)
        failed = None
        try:
            if decoded.batch.num_rows:
                weights: Counter[str] = Counter()
                for offer in offers:
                    weights[offer.request.sender] += len(offer.request.body)
                self._store.append([decoded.batch], weights)
        except Overloaded as error:
            refusal = SpansRefused(str(error), retry_after_s=error.retry_after_s)
            outcomes, failed = self._not_stored(decoded, offers, refusal), "overloaded"
        except Exception as error:  # noqa: BLE001 - the top of a thread: the senders need an answer
            log.exception("storing failed")
            outcomes, failed = self._not_stored(decoded, offers, SpansFailed(str(error))), "internal error"
        if failed is None:
            self._dropped.update(decoded.dropped)
            self._counts["dropped", TRACES.noun] += decoded.dropped.total()
            self._counts["accepted", TRACES.noun] -= decoded.dropped.total()
        for offer, outcome in zip(offers, outcomes, strict=True):
            if isinstance(outcome, Receipt):
                self._counts["accepted", offer.request.signal.noun] += outcome.accepted
                self._counts["rejected", offer.request.signal.noun] += outcome.rejected
        self._forget(len(offers))
        self._loop.call_soon_threadsafe(_answer, offers, outcomes)
        return failed

    def _not_stored(
        self, decoded: Decoded, offers: list[_Offer], why: SpansRefused | SpansFailed
    ) -> list[Receipt | Exception]:
        """Return the outcomes of a group that was not stored; requests that could not be decoded keep their errors."""
        outcome = "refused" if isinstance(why, SpansRefused) else "failed"
        for offer, receipt in zip(offers, decoded.outcomes, strict=True):
            if isinstance(receipt, Receipt):
                self._counts[outcome, offer.request.signal.noun] += receipt.accepted + receipt.rejected
        return [why if isinstance(each, Receipt) else each for each in decoded.outcomes]


def _done(decoded: Decoded, offers: list[_Offer], began_ns: int, failed: str | None) -> FinishedWork:
    """Return an answered group as finished work, for the server's own traces."""
    attributes = {
        "tracejury.requests": len(offers),
        "tracejury.bytes": sum(len(offer.request.body) for offer in offers),
        "tracejury.spans": decoded.batch.spans.num_rows,
        "tracejury.log_records": decoded.batch.logs.num_rows,
    }
    return FinishedWork(name="ingest group", began_ns=began_ns, failed=failed, attributes=attributes)


def _answer(offers: list[_Offer], outcomes: list[Receipt | Exception]) -> None:
    """Complete the futures, all in one turn of the event loop."""
    for offer, outcome in zip(offers, outcomes, strict=True):
        if offer.answer.done():  # the sender hung up
            continue
        if isinstance(outcome, Exception):
            outcome.__cause__ = outcome.__context__ = None  # their frames hold requests
            offer.answer.set_exception(outcome.with_traceback(None))
        else:
            offer.answer.set_result(outcome)
