"""Traces leave: those that have expired, and those that somebody wants gone. What they took on the disk is given back.

Everything is done in steps of a bounded number of spans, each one transaction of the writer between two commits, so
that a sweep that is killed has done whole steps, and holds up ingest by no more than a commit does.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from storage import sql
from storage.database import Database
from storage.erasure import Erasure
from storage.writer import Writer

log = logging.getLogger(__name__)

_STEP_SPANS, _STEP_PARTS = 16_384, 16_384
"""Of one transaction: two row groups of spans. Four of them, with three decisions each, took 50 ms at the median and
164 at most on an idle machine, 300 and 564 on a busy one; a commit of one row group takes 110 on an idle one."""

_NEAR_BATCHES = 16
"""Commits that one look at the spans of several traces may reach over. A guess: a few row groups."""

_ROUNDS = 5
"""So often a sweep by size looks again whether what is left is small enough: bytes a span are an estimate."""

_TRIM_TRIES, _TRIM_PAUSE_S = 40, 0.25
"""Ten seconds for a moment in which nobody reads; after that the next sweep tries. A guess."""

_LEDGER_US = 90 * 86_400_000_000
"""So long requests to judges and backfills that have ended stay on record: what judges took in a quarter can be
explained call by call, after that by the sums of each day. A guess."""

_FOR_EVER_US = 4_102_444_800_000_000  # the year 2100

BY_HAND = "hand"


class _Key(NamedTuple):
    tenant: str
    trace_id: str
    trace_key: int


class _Leaving(NamedTuple):
    tenant: str
    trace_id: str
    trace_key: int
    first_batch: int
    last_batch: int
    first_start_ns: int
    last_start_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What left, and how many bytes less the file takes on the disk (None: not now, because somebody read)."""

    traces: int
    spans: int
    freed_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """What a sweep would find: `expired_*` by age, `over_*` beyond the limit of size, the latter as an estimate."""

    spans: int
    expired_traces: int
    expired_spans: int
    over_spans: int
    used_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which traces somebody wants gone; None where it does not matter, and not all may be None."""

    tenant: str = ""
    trace_id: str | None = None
    project: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    before_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A reason for which a trace is kept."""

    tenant: str
    trace_id: str
    why: str
    at_ns: int


class Retention:
    """Deletes traces. Safe to use from several threads; one of them sweeps."""

    def __init__(self, database: Database, writer: Writer, erasure: Erasure, empty_spool: Callable[[], None]) -> None:
        self._database = database
        self._writer = writer
        self._erasure = erasure
        self._empty_spool = empty_spool
        self._has_room = True  # that may not have been given back yet, such as by the process before
        self.steady = threading.Lock()  # for whoever needs the file without checkpoints; those made on purpose take it

    def due(self, *, now_us: int, max_bytes: int | None) -> Due:
        """What a sweep would find now; it changes nothing."""
        with self._database.cursor() as cursor:
            row = cursor.execute(sql.query("span_counts"), {"cutoff_us": now_us}).fetchone() or (0, 0, 0)
        size = self._database.size()
        spans, expired_spans, expired_traces = row[:3]
        return Due(
            spans=spans,
            expired_traces=expired_traces,
            expired_spans=expired_spans,
            over_spans=max(0, _over(spans, size.used_bytes, max_bytes) - expired_spans),
            used_bytes=size.used_bytes,
            free_bytes=size.free * size.block_bytes,
        )

    def sweep(self, *, now_us: int, max_bytes: int | None = None, stopped: Callable[[], bool] = lambda: False) -> Swept:
        """Delete what has expired, then, where the file is still too large, what would expire soonest.

        Raises:
            Overloaded: the database cannot be written now; whole steps were done.
        """
        traces, spans = self._expire(now_us, stopped)
        for _ in range(_ROUNDS):
            cutoff_us = self._size_cutoff(max_bytes)
            if cutoff_us is None or stopped():
                break
            more_traces, more_spans = self._expire(cutoff_us, stopped)
            traces, spans = traces + more_traces, spans + more_spans
        self._sweep_ledgers(now_us - _LEDGER_US, stopped)
        if spans:
            self._sweep_unused(sql.query("unused_resources"), sql.query("sweep_resource"))
            self._sweep_unused(sql.query("unused_scopes"), sql.query("sweep_scope"))
            self._has_room = True
        with self.steady:
            if self._erasure.finish():
                self._empty_spool()
                self._has_room = True
            freed_bytes = self.trim() if self._has_room and not stopped() else 0
        return Swept(traces=traces, spans=spans, freed_bytes=freed_bytes)

    def delete(self, wanted: Wanted, *, most: int = 10_000) -> int:
        """Delete traces, kept or not, and say how many; repeat it while that is `most`.

        Raises:
            Overloaded: the database cannot be written now; some may be gone.
        """
        with self._database.cursor() as cursor:
            parameters = {
                "tenant": wanted.tenant,
                "trace_id": wanted.trace_id,
                "project": wanted.project,
                "session_id": wanted.session_id,
                "user_id": wanted.user_id,
                "before_ns": wanted.before_ns,
                "traces": most,
            }
            keys = [_Key(*row) for row in cursor.execute(sql.query("traces_to_delete"), parameters).fetchall()]
            leaving = _leaving(cursor, keys, _FOR_EVER_US, in_any_case=True)
        if leaving:
            with self.steady, self._erasure.erasing(_table(leaving)):
                for some in _near(leaving):
                    self._erase_all(some)
        return len(leaving)

    def trim(self) -> int | None:
        """Give free blocks back to the file system, as soon as nobody reads; None when somebody always did."""
        freed: list[int | None] = []
        for _ in range(_TRIM_TRIES):
            self._writer.between(lambda: freed.append(self._database.trim()))
            if freed[-1] is not None:
                self._has_room = False
                break
            time.sleep(_TRIM_PAUSE_S)
        return freed[-1]

    def pin(self, trace_id: str, *, now_us: int, tenant: str = "", why: str = BY_HAND) -> None:
        """Keep a trace until it is unpinned for the same reason."""
        parameters = {"tenant": tenant, "trace_id": trace_id, "why": why, "now_us": now_us}
        self._writer.store(lambda cursor: cursor.execute(sql.query("pin_trace"), parameters), 1)

    def unpin(self, trace_id: str, *, tenant: str = "", why: str = BY_HAND) -> None:
        """Keep it for this reason no longer."""
        parameters = {"tenant": tenant, "trace_id": trace_id, "why": why}
        self._writer.store(lambda cursor: cursor.execute(sql.query("unpin_trace"), parameters), 1)

    def pins(self, trace_id: str, *, tenant: str = "") -> list[str]:
        """Why a trace is kept."""
        with self._database.cursor() as cursor:
            rows = cursor.execute(sql.query("pins_of_trace"), {"tenant": tenant, "trace_id": trace_id}).fetchall()
        return [why for (why,) in rows]

    def pinned(self, *, limit: int) -> list[Pin]:
        """The traces that are kept, those first that were last kept; of each every reason."""
        with self._database.cursor() as cursor:
            rows = cursor.execute(sql.query("pinned_traces"), {"pins": limit}).fetchall()
        return [Pin(tenant=tenant, trace_id=trace_id, why=why, at_ns=at_ns) for tenant, trace_id, why, at_ns in rows]

    def _erase_all(self, some: Sequence[_Leaving]) -> None:
        """Delete these traces, of which one may have come with many commits."""
        last = max(each.last_batch for each in some)
        for start in range(some[0].first_batch, last + 1, _NEAR_BATCHES):
            until = start + _NEAR_BATCHES - 1
            step = partial(_erase, leaving=some, first_batch=start, last_batch=until)
            self._writer.store(step, len(some))

    def _expire(self, cutoff_us: int, stopped: Callable[[], bool]) -> tuple[int, int]:
        """Delete the traces that expire before a moment, those that came first foremost."""
        after, gone, spans = -1, 0, 0
        while not stopped():
            with self._database.cursor() as cursor:
                until, keys = _next_window(cursor, cutoff_us, after)
            if until is None:
                break
            step = _Step(keys, cutoff_us, after + 1, until)
            self._writer.store(step.run, _STEP_SPANS)
            gone, spans, after = gone + step.traces, spans + step.spans, until
        return gone, spans

    def _size_cutoff(self, max_bytes: int | None) -> int | None:
        """Up to when traces have to expire so that the file gets small enough; None when it is."""
        if max_bytes is None:
            return None
        with self.steady:
            self._writer.between(self._database.checkpoint)  # what was deleted is free after it
        with self._database.cursor() as cursor:
            ((spans, *_),) = cursor.execute(sql.query("span_counts"), {"cutoff_us": 0}).fetchall()
            over = _over(spans, self._database.size().used_bytes, max_bytes)
            if not over:
                return None
            ((cutoff_us,),) = cursor.execute(sql.query("size_cutoff"), {"spans": min(over, spans)}).fetchall()
        return int(cutoff_us) if cutoff_us is not None else None

    def _sweep_ledgers(self, before_us: int, stopped: Callable[[], bool]) -> None:
        """Delete what goes by age alone: requests to judges, and backfills that have ended."""
        deleted = [_STEP_SPANS]
        bounds = {"before_us": before_us}

        def delete(cursor: duckdb.DuckDBPyConnection) -> None:
            cursor.execute(sql.query("sweep_backfill"), bounds)
            calls = cursor.execute(sql.query("sweep_judge_call"), bounds | {"rows": _STEP_SPANS}).fetchall()
            deleted.append(calls[0][0])

        while deleted[-1] == _STEP_SPANS and not stopped():
            self._writer.store(delete, 1)

    def _sweep_unused(self, select: str, statement: str) -> None:
        """Delete resources or scopes that nothing names: the long look is a reader's."""
        with self._database.snapshot() as cursor:
            ((batch, *_),) = cursor.execute(sql.query("ingest_state")).fetchall()
            unused = cursor.execute(select).to_arrow_table()

        def delete(cursor: duckdb.DuckDBPyConnection) -> None:
            self._writer.forget_dimensions()
            cursor.register("unused", unused)
            cursor.execute(statement, {"batch": batch})

        if unused.num_rows:
            self._writer.store(delete, 0)


class _Step:
    """One transaction of a sweep: what has expired of some traces and came with some commits."""

    def __init__(self, keys: Sequence[_Key], cutoff_us: int, first_batch: int, last_batch: int) -> None:
        self._keys = keys
        self._cutoff_us = cutoff_us
        self._first_batch, self._last_batch = first_batch, last_batch
        self.traces = 0
        self.spans = 0

    def run(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Look again, because spans may have come since, and delete. The writer's thread calls this."""
        leaving = _leaving(cursor, self._keys, self._cutoff_us, in_any_case=False)
        self.traces = sum(each.last_batch <= self._last_batch for each in leaving)  # the others go on elsewhere
        self.spans = _erase(cursor, leaving, self._first_batch, self._last_batch)


def _over(spans: int, used_bytes: int, max_bytes: int | None) -> int:
    """How many spans are too many, if all take the same room."""
    if max_bytes is None or used_bytes <= max_bytes:
        return 0
    return -(-spans * (used_bytes - max_bytes) // used_bytes)


def _next_window(cursor: duckdb.DuckDBPyConnection, cutoff_us: int, after: int) -> tuple[int | None, list[_Key]]:
    """The traces of the next expired parts, and the commit up to which these were looked at; whole commits."""
    parameters = {"cutoff_us": cutoff_us, "after": after, "parts": _STEP_PARTS}
    rows = cursor.execute(sql.query("expired_parts"), parameters).fetchall()
    if not rows:
        return None, []
    if len(rows) == _STEP_PARTS and rows[0][-1] != rows[-1][-1]:
        rows = [row for row in rows if row[-1] != rows[-1][-1]]  # the last commit may have more parts
    keys: dict[_Key, None] = {}
    spans, until = 0, rows[0][-1]
    for tenant, trace_id, trace_key, span_count, batch in rows:
        if batch != until and spans >= _STEP_SPANS:
            break
        keys[_Key(tenant, trace_id, trace_key)] = None
        spans, until = spans + span_count, batch
    return until, list(keys)


def _leaving(
    cursor: duckdb.DuckDBPyConnection, keys: Sequence[_Key], cutoff_us: int, *, in_any_case: bool
) -> list[_Leaving]:
    if not keys:
        return []
    cursor.register("wanted_traces", _table(keys))
    parameters = {"cutoff_us": cutoff_us, "in_any_case": in_any_case}
    return [_Leaving(*row) for row in cursor.execute(sql.query("leaving_traces"), parameters).fetchall()]


def _near(leaving: Iterable[_Leaving]) -> Iterator[list[_Leaving]]:
    """Traces that came with about the same commits together, so that no look reaches far."""
    some: list[_Leaving] = []
    for each in leaving:
        if some and each.last_batch - some[0].first_batch >= _NEAR_BATCHES:
            yield some
            some = []
        some.append(each)
    if some:
        yield some


def _erase(cursor: duckdb.DuckDBPyConnection, leaving: Sequence[_Leaving], first_batch: int, last_batch: int) -> int:
    """Delete everything about the traces that came with the commits between two numbers; how many spans."""
    if not leaving:
        return 0
    cursor.register("leaving_traces", _table(leaving))
    batches = {"first_batch": first_batch, "last_batch": last_batch}
    spans = cursor.execute(sql.query("leaving_spans"), batches).to_arrow_table()
    if spans.num_rows:
        cursor.register("leaving_spans", spans)
        bounds = pc.min_max(spans.column("seq")).as_py()
        numbers = {"first_seq": bounds["min"], "last_seq": bounds["max"]}
        cursor.execute(sql.query("sweep_span"), batches | numbers)
        for statement in _of_spans():
            cursor.execute(statement, numbers)
    started = {
        "from_ns": min(each.first_start_ns for each in leaving),
        "to_ns": max(each.last_start_ns for each in leaving),
    }
    cursor.execute(sql.query("sweep_tool_call"), started)
    cursor.execute(sql.query("sweep_trace_reading"), started)
    cursor.execute(sql.query("sweep_trace_part"), batches)
    for statement in _of_traces():
        cursor.execute(statement)
    return int(spans.num_rows)


def _of_spans() -> Iterator[str]:
    """Statements about what goes by the numbers of spans, those first that look at what others delete."""
    yield sql.query("sum_evaluations").replace("$by_day", sql.select_of("evaluation_by_day"))
    yield sql.query("sweep_superseded")
    yield sql.query("sweep_evaluation")
    yield sql.query("sweep_job")
    yield sql.query("sweep_decision")
    yield sql.query("sweep_reading")


def _of_traces() -> Iterator[str]:
    yield sql.query("sweep_log_record")
    yield sql.query("sweep_trace_due")
    yield sql.query("sweep_trace_open")
    yield sql.query("sweep_trace_pin")


def _table(keys: Sequence[_Key] | Sequence[_Leaving]) -> pa.Table:
    return pa.table(
        {
            "tenant": pa.array([key.tenant for key in keys], pa.string()),
            "trace_id": pa.array([key.trace_id for key in keys], pa.string()),
            "trace_key": pa.array([key.trace_key for key in keys], pa.uint64()),
        }
    )
