"""Deletion of traces that have expired or that were requested, and return of their disk space.

A sweep is a sequence of steps of a bounded number of spans, each in one transaction between two commits of spans. So a
killed sweep leaves no step half done, and a step delays ingest no longer than a commit does.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import duckdb

from storage import sql
from storage.aging import Aging
from storage.engine.database import Database
from storage.errors import Overloaded
from storage.ingest.writer import Writer
from storage.upkeep.cascade import (
    STEP_SPANS,
    TABLES,
    Places,
    TraceName,
    erase,
    leaving_among,
    next_window,
    remove_from_lake,
)
from storage.upkeep.compaction import Compaction
from storage.upkeep.deletions import DELETING, DeletionCriteria
from storage.upkeep.erasure import Erasure

_ROUNDS = 5
"""Maximum number of rounds of a sweep by size. The size is checked again after each round, because bytes per span are
an estimate."""

_TRIM_TRIES, _TRIM_PAUSE_S = 40, 0.25
"""Free blocks can only be returned without readers. A sweep tries this often, with this pause; each attempt waits up to
a second for readers to end. If none succeeds, the next sweep tries again. A guess."""

_FINISH_S = 60.0
"""Maximum time for which a sweep executes requested deletions. The eraser continues a large one, which must not delay
the next sweep. A guess."""

_LEDGER_US = 90 * 86_400_000_000
"""How long judge calls and ended backfills are kept. For a quarter, the cost of judges can be explained call by call,
after that by daily sums. A guess."""

BY_HAND = "hand"


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """Result of a sweep: deleted traces and spans, and the bytes freed (None if readers prevented it).

    `held` is the reason why expired data was not deleted, or None.

    """

    traces: int
    spans: int
    freed_bytes: int | None
    held: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepForecast:
    """Forecast of a sweep, without pinned traces: `expired_*` by age, `over_*` beyond the limit of size.

    `over_*` is an estimate. `expired_*` includes expired parts of traces that got later spans, which a sweep keeps.
    """

    spans: int
    expired_traces: int
    expired_spans: int
    over_spans: int
    used_bytes: int
    free_bytes: int
    held: str | None = None  # why expired data stays


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A reason for which a trace is kept."""

    tenant: str
    trace_id: str
    why: str
    at_ns: int


class Retention:
    """Deletion of traces by age, by size of the file and on request. Thread-safe; one thread at a time sweeps."""

    def __init__(
        self, database: Database, writer: Writer, rewriting: Compaction, erasure: Erasure, aging: Aging
    ) -> None:
        self._database = database
        self._writer = writer
        self._rewriting = rewriting
        self._deletions = erasure.deletions
        self._erasure = erasure
        self.aging = aging
        self._has_room = True  # that may not have been given back yet, such as by the process before
        self.note_size: Callable[[bool], None] | None = None
        """With a lake, called in each sweep with True if the file is too large. Traces move there then, and no sweep
        deletes them for their size: what was accepted is kept, and the limit is the disk."""

    def due(self, *, now_us: int, max_bytes: int | None) -> SweepForecast:
        """Forecast a sweep at this time; nothing changes."""
        with self._database.cursor() as cursor:
            row = cursor.execute(sql.query("span_counts"), {"cutoff_us": now_us}).fetchone() or (0, 0, 0)
        size = self._database.size()
        spans, expired_spans, expired_traces = row[:3]
        held = self.aging.refusal("spans", expired_spans, spans)
        return SweepForecast(
            spans=spans,
            expired_traces=expired_traces,
            expired_spans=expired_spans,
            over_spans=0 if self.note_size else max(0, _over(spans, size.used_bytes, max_bytes) - expired_spans),
            used_bytes=size.used_bytes,
            free_bytes=size.free * size.block_bytes,
            held=held,
        )

    def sweep(self, *, now_us: int, max_bytes: int | None = None, stopped: Callable[[], bool] = lambda: False) -> Swept:
        """Delete expired data unless the clock is in doubt; then, if the file is still too large, the oldest data.

        Raises:
            Overloaded: the database cannot be written now; whole steps were done.
        """
        held = self.aging.doubt()
        if held is not None:
            return self.relieve(max_bytes=max_bytes, stopped=stopped, held=held)
        traces, spans = self._expire(now_us, stopped)
        self._sweep_ledgers(now_us - _LEDGER_US, stopped)
        swept = self.relieve(max_bytes=max_bytes, stopped=stopped, has_deleted=spans > 0)
        return replace(swept, traces=swept.traces + traces, spans=swept.spans + spans)

    def relieve(
        self,
        *,
        max_bytes: int | None,
        stopped: Callable[[], bool],
        held: str | None = None,
        has_deleted: bool = False,
    ) -> Swept:
        """Do the part of a sweep that is independent of time: size limit, deletions, free space.

        Raises:
            Overloaded: the database cannot be written now; whole steps were done.
        """
        traces = spans = 0
        if self.note_size is not None:
            self.note_size(self.over_spans(max_bytes) > 0)
        for _ in range(_ROUNDS):
            cutoff_us = None if self.note_size else self._size_cutoff(max_bytes)
            if cutoff_us is None or stopped():
                break
            more_traces, more_spans = self._expire(cutoff_us, stopped)
            traces, spans = traces + more_traces, spans + more_spans
        if spans or has_deleted:
            self._has_room = True
        self._finish_deletions(stopped)
        with self._rewriting.steady:
            freed_bytes = self.trim() if self._has_room and not stopped() else 0
        return Swept(traces=traces, spans=spans, freed_bytes=freed_bytes, held=held)

    def delete(self, criteria: DeletionCriteria, *, now_us: int) -> int:
        """Delete traces, pinned or not, and return how many, once their rows are gone; the next sweep erases them.

        Raises:
            Overloaded: the database cannot be written now; the deletion goes on later.
        """
        deletion = self._deletions.request(criteria, now_us=now_us)
        while deletion.state == DELETING:
            self._erasure.work()
            deletion = self._deletions.find(deletion.deletion_id) or deletion
        return deletion.traces

    def trim(self) -> int | None:
        """Return free blocks to the file system, and the bytes freed; None if there were readers all the time."""
        freed: list[int | None] = []
        for _ in range(_TRIM_TRIES):
            self._writer.between(lambda: freed.append(self._database.trim()))
            if freed[-1] is not None:
                self._has_room = False
                break
            time.sleep(_TRIM_PAUSE_S)
        return freed[-1]

    def note_freed(self) -> None:
        """Note that rows were deleted elsewhere, so that the next sweep returns their space."""
        self._has_room = True

    def pin(self, trace_id: str, *, now_us: int, tenant: str = "", why: str = BY_HAND) -> None:
        """Keep a trace until it is unpinned for the same reason."""
        parameters = {"tenant": tenant, "trace_id": trace_id, "why": why, "now_us": now_us}
        self._writer.store(lambda cursor: cursor.execute(sql.query("pin_trace"), parameters), 1)

    def unpin(self, trace_id: str, *, tenant: str = "", why: str = BY_HAND) -> None:
        """Stop keeping a trace for this reason."""
        parameters = {"tenant": tenant, "trace_id": trace_id, "why": why}
        self._writer.store(lambda cursor: cursor.execute(sql.query("unpin_trace"), parameters), 1)

    def pins(self, trace_id: str, *, tenant: str = "") -> list[str]:
        """Return the reasons for which a trace is kept."""
        with self._database.cursor() as cursor:
            rows = cursor.execute(sql.query("pins_of_trace"), {"tenant": tenant, "trace_id": trace_id}).fetchall()
        return [why for (why,) in rows]

    def pinned(self, *, limit: int) -> list[Pin]:
        """Return the latest `limit` pins, the latest first; a trace has one for each reason."""
        with self._database.cursor() as cursor:
            rows = cursor.execute(sql.query("pinned_traces"), {"pins": limit}).fetchall()
        return [Pin(tenant=tenant, trace_id=trace_id, why=why, at_ns=at_ns) for tenant, trace_id, why, at_ns in rows]

    def _finish_deletions(self, stopped: Callable[[], bool]) -> None:
        """Erase the deletions that were pending at the beginning, within a time limit."""
        until_s = time.monotonic() + _FINISH_S
        waiting = {each.deletion_id for each in self._deletions.open()}
        while waiting and not stopped() and time.monotonic() < until_s:
            try:
                self._erasure.work()
            except Overloaded:
                if self._erasure.blocked is None:
                    raise
                return  # deletions may be blocked for long, and the sweep must end nevertheless
            waiting &= {each.deletion_id for each in self._deletions.open()}
            self._has_room = True

    def _expire(self, cutoff_us: int, stopped: Callable[[], bool]) -> tuple[int, int]:
        """Delete the traces that expire before an instant, in the order of their commits; return traces and spans."""
        after, gone, spans = -1, 0, 0
        while not stopped():
            with self._database.cursor() as cursor:
                bounds = {"cutoff_us": cutoff_us, "after": after}
                until, keys = next_window(cursor, sql.query("expired_parts"), bounds)
            if until is None:
                break
            step = _SweepStep(keys, cutoff_us, after + 1, until)
            while step.more:
                self._rewriting.make_room(TABLES, stopped)
                self._writer.store(step.run, STEP_SPANS, frees=True)
                self._rewriting.note(step.places)
            gone, spans, after = gone + step.traces, spans + step.spans, until
        return gone, spans

    def over_spans(self, max_bytes: int | None) -> int:
        """Return how many spans have to leave so that the file gets small enough: an estimate.

        Raises:
            Overloaded: the database cannot be written now, or there are readers all the time.
        """
        if max_bytes is None:
            return 0
        self._rewriting.drop()  # the space of deleted rows is free after it
        used_bytes = self._database.size().used_bytes
        with self._database.cursor() as cursor:
            ((spans, *_),) = cursor.execute(sql.query("span_counts"), {"cutoff_us": 0}).fetchall()
        return min(_over(spans, used_bytes, max_bytes), int(spans))

    def _size_cutoff(self, max_bytes: int | None) -> int | None:
        """Return until when traces have to expire so that the file gets small enough; None if it is."""
        if not (over := self.over_spans(max_bytes)):
            return None
        with self._database.cursor() as cursor:
            ((cutoff_us,),) = cursor.execute(sql.query("size_cutoff"), {"spans": over}).fetchall()
        return int(cutoff_us) if cutoff_us is not None else None

    def _sweep_ledgers(self, before_us: int, stopped: Callable[[], bool]) -> None:
        """Delete rows by age alone: judge calls, ended backfills and deletions, annotations of unknown traces."""
        deleted = [STEP_SPANS]
        bounds = {"before_us": before_us}

        def delete(cursor: duckdb.DuckDBPyConnection) -> None:
            cursor.execute(sql.query("sweep_backfill"), bounds)
            cursor.execute(sql.query("sweep_deletion"), bounds)
            cursor.execute(sql.query("sweep_annotation"), bounds)
            calls = cursor.execute(sql.query("sweep_judge_call"), bounds | {"rows": STEP_SPANS}).fetchall()
            deleted.append(calls[0][0])

        while deleted[-1] == STEP_SPANS and not stopped():
            self._writer.store(delete, 1, frees=True)


class _SweepStep:
    """One transaction of a sweep, which deletes rows of expired traces that a range of commits stored."""

    def __init__(self, keys: Sequence[TraceName], cutoff_us: int, first_batch: int, last_batch: int) -> None:
        self._keys = keys
        self._cutoff_us = cutoff_us
        self._first_batch, self._last_batch = first_batch, last_batch
        self.traces = 0
        self.spans = 0
        self.places: Places = {}
        self.more = True  # True while rows are left for another transaction

    def run(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Find the expired traces again, as new spans may keep some, and delete. The writer's thread calls this."""
        leaving = leaving_among(cursor, self._keys, cutoff_us=self._cutoff_us, in_any_case=False)
        left = erase(cursor, leaving, self._first_batch, self._last_batch, whole=True)
        if leaving:
            remove_from_lake(cursor, leaving, is_requested=False)
        self.traces = sum(each.last_batch <= self._last_batch for each in leaving)  # the rest counts in a later step
        self.spans, self.places, self.more = left.spans, left.places, left.more


def _over(spans: int, used_bytes: int, max_bytes: int | None) -> int:
    if max_bytes is None or used_bytes <= max_bytes:
        return 0
    return -(-spans * (used_bytes - max_bytes) // used_bytes)
