"""From request bytes to a durable answer.

    offer -> queue (bounded by bytes) -> decode thread -> spool thread -> answer

The decode thread takes all that waits, up to a limit, and decodes it as one group, because most of a
decode's cost is per group. While one group is being synced the next one gathers, so no timer delays
an answer: alone, a request is answered at once; under load, many share one sync.
"""

import logging
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field

from collector.otlp.decode import Decoded, Receipt, Request, decode
from collector.otlp.errors import Malformed
from storage.errors import Overloaded
from storage.store import Store

log = logging.getLogger(__name__)

_GROUP_BYTES = 4 << 20
"""Bytes of requests that are decoded together, some 3,500 agent spans: a guess between cost per group and delay."""

_GROUPS_AHEAD = 2
"""Decoded groups that wait for the disk: one being synced and one to follow it."""


@dataclass(frozen=True, slots=True)
class _Offer:
    request: Request
    answer: "Future[Receipt]" = field(default_factory=Future)


class ByteBudget:
    """A number of bytes that may be held at the same time; what does not fit is refused, never waited for."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._lock = threading.Lock()

    @property
    def held(self) -> int:
        """Bytes held now."""
        return self._held

    def take(self, nbytes: int) -> None:
        """Hold bytes. One holder alone may always have all it asks for.

        Raises:
            Overloaded: there is no room now.
        """
        with self._lock:
            if self._held and self._held + nbytes > self._limit:
                msg = f"{self._held >> 20} MiB of requests are being worked on, which is the limit"
                raise Overloaded(msg)
            self._held += nbytes

    def give_back(self, nbytes: int) -> None:
        """Hold bytes no longer."""
        with self._lock:
            self._held -= nbytes


class Ingest:
    """The way that every request takes, whatever door it came through."""

    def __init__(self, store: Store, *, queue_bytes: int) -> None:
        self._store = store
        self.budget = ByteBudget(queue_bytes)
        self._waiting: deque[_Offer] = deque()
        self._arrived = threading.Condition()
        self._decoded: queue.Queue[tuple[Decoded, list[_Offer]] | None] = queue.Queue(_GROUPS_AHEAD)
        self._closed = False
        self._counts: Counter[str] = Counter()
        self._threads = [
            threading.Thread(target=self._decode_groups, name="otlp-decode", daemon=True),
            threading.Thread(target=self._store_groups, name="otlp-spool", daemon=True),
        ]

    @property
    def counts(self) -> dict[str, int]:
        """Spans since the start: accepted, rejected, refused (refused only where the decoder saw them)."""
        return dict(self._counts)

    def start(self) -> None:
        """Start working on what is offered."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Answer everything that was offered, then stop."""
        with self._arrived:
            self._closed = True
            self._arrived.notify()
        for thread in self._threads:
            thread.join()

    def offer(self, request: Request) -> "Future[Receipt]":
        """Queue a request. The future completes when its accepted spans are durable.

        It fails with `Malformed` where the request is wrong and with `Overloaded` where we are behind.

        Raises:
            Overloaded: we are behind already, or shutting down.
        """
        self._store.check_room()
        offer = _Offer(request)
        with self._arrived:
            if self._closed:
                msg = "shutting down"
                raise Overloaded(msg)
            self._waiting.append(offer)
            self._arrived.notify()
        return offer.answer

    def _groups(self) -> Iterator[list[_Offer]]:
        while True:
            with self._arrived:
                self._arrived.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                group = [self._waiting.popleft()]
                nbytes = len(group[0].request.body)
                while self._waiting and nbytes + len(self._waiting[0].request.body) <= _GROUP_BYTES:
                    group.append(self._waiting.popleft())
                    nbytes += len(group[-1].request.body)
            # A sender that hung up while its request waited gets no answer, so nothing needs to be stored.
            present = [offer for offer in group if offer.answer.set_running_or_notify_cancel()]
            if present:
                yield present

    def _decode_groups(self) -> None:
        for group in self._groups():
            self._decode(group)
        self._decoded.put(None)

    def _decode(self, group: list[_Offer]) -> None:
        try:
            decoded = decode([offer.request for offer in group], received_at_us=time.time_ns() // 1000)
        except Exception as error:  # noqa: BLE001 - the top of a thread: a bug met by one request must not fail the others
            if len(group) == 1:
                log.exception("the decoder failed")
                _fail(group, error)
            else:
                for offer in group:
                    self._decode([offer])
        else:
            self._decoded.put((decoded, group))

    def _store_groups(self) -> None:
        while (first := self._decoded.get()) is not None:
            groups = [first]
            ended = False
            while not self._decoded.empty():
                following = self._decoded.get()
                if following is None:
                    ended = True
                    break
                groups.append(following)
            self._store_together(groups)
            if ended:
                return

    def _store_together(self, groups: list[tuple[Decoded, list[_Offer]]]) -> None:
        batches = [decoded.batch for decoded, _ in groups if decoded.batch.spans.num_rows]
        try:
            if batches:
                self._store.append(batches)
        except Overloaded as error:
            self._counts["refused"] += sum(batch.spans.num_rows for batch in batches)
            for _, offers in groups:
                _fail(offers, error)
        except Exception as error:  # noqa: BLE001 - the top of a thread: nobody else could answer the senders
            log.exception("storing failed")
            for _, offers in groups:
                _fail(offers, error)
        else:
            for decoded, offers in groups:
                self._answer(decoded, offers)

    def _answer(self, decoded: Decoded, offers: list[_Offer]) -> None:
        for offer, outcome in zip(offers, decoded.outcomes, strict=True):
            if isinstance(outcome, Malformed):
                offer.answer.set_exception(outcome)
            else:
                self._counts["accepted"] += outcome.accepted
                self._counts["rejected"] += outcome.rejected
                offer.answer.set_result(outcome)


def _fail(offers: list[_Offer], error: Exception) -> None:
    for offer in offers:
        offer.answer.set_exception(error)
