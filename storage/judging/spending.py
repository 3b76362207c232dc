"""Requests to judge models: each is recorded before it is sent, settled with its usage after, and summed by day."""

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from storage import sql
from storage.engine.database import Database
from storage.errors import Overloaded
from storage.ingest.writer import Writer
from storage.judging.call_journal import CallJournal, JournalRecord, ReservedCall, SettledCall

log = logging.getLogger(__name__)

NANO: Final = 1_000_000_000

_GATHER_S: Final = 0.5
"""How long recorded calls are gathered before one transaction writes them to the database. A guess."""

_PAUSE_S: Final = 1.0
"""Pause before calls that could not be written to the database are written again. A guess."""

_MOST_UNWRITTEN: Final = 10_000
"""If the database cannot be written and lacks more calls than this, new calls are refused. A guess: about a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpentRow:
    """Spending of one rule in one project over one connection on one day."""

    tenant: str
    rule_id: str | None
    project: str | None
    connection_id: str
    calls: int
    unpriced_calls: int  # calls whose connection has no price, so that they are missing in `nano_usd`
    failed_calls: int  # failed requests that used no tokens; they cost nothing
    tokens: int
    nano_usd: int
    held_calls: int  # unsettled calls, not in the counts above: under way, or cut off by the end of a process
    held_tokens: int
    held_nano_usd: int


@dataclass(slots=True)
class _Gathered:
    """Calls to write to the database. If `is_again`, an earlier write may have stored some of them already."""

    reserved: dict[int, ReservedCall] = field(default_factory=dict)
    settled: dict[int, SettledCall] = field(default_factory=dict)
    is_again: bool = False

    def __len__(self) -> int:
        return len(self.reserved) + len(self.settled)

    def add(self, reserved: Sequence[ReservedCall], settled: Sequence[SettledCall]) -> None:
        self.reserved.update((call.call_id, call) for call in reserved)
        self.settled.update((call.call_id, call) for call in settled)

    def under(self, later: "_Gathered") -> "_Gathered":
        """Return these calls and the later ones, to be written again."""
        return _Gathered(self.reserved | later.reserved, self.settled | later.settled, is_again=True)


class JudgeCallStore:
    """Storage of judge calls. Thread-safe.

    A call is on record as soon as the journal has it; one sync of the disk covers all calls reserved meanwhile. The
    database gets it later, because under full load a transaction may wait a second for its turn.
    """

    def __init__(self, database: Database, writer: Writer, journal: Path) -> None:
        self._database = database
        self._writer = writer
        self._journal = CallJournal(journal)
        self._changed = threading.Condition()
        self._reserving: list[tuple[ReservedCall, Future[None]]] = []
        self._settling: list[SettledCall] = []
        self._last_call = 0
        self._noted = self._on_record = self._stored = 0  # counts of calls reported, in the journal, in the database
        self._gathered = _Gathered()
        self._write_at_s = 0.0
        self._written: list[Path] = []  # files of the journal that the database has
        self._is_writing = self._is_flushing = self._is_closed = False
        self._failing: str | None = None
        self._thread = threading.Thread(target=self._run, name="judge-calls", daemon=True)

    def open(self) -> None:
        """Write the calls of a process that has ended to the database, and begin.

        Raises:
            Overloaded: the database cannot be written.
        """
        gathered = _Gathered(is_again=True)
        for record in self._journal.recover():
            gathered.add(record.reserved, record.settled)
        if gathered:
            self._writer.store(lambda cursor: _write(cursor, gathered), len(gathered))
        self._journal.release(self._journal.full)
        self._thread.start()

    def is_all_written(self) -> bool:
        """Return True if the database has all calls of processes that have ended; before `open`."""
        return not any(self._journal.recover())

    def close(self, timeout_s: float) -> None:
        """Write the rest to the database, and stop; calls that it does not take stay on record for the next start."""
        self.flush(timeout_s)
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join(timeout_s)

    def last_call(self) -> int:
        """Return the number of the last call."""
        with self._database.cursor() as cursor:
            ((number,),) = cursor.execute(sql.query("last_judge_call")).fetchall()
        return max(int(number), self._last_call)

    def on_day(self, day: date) -> list[SpentRow]:
        """Return the spending on a day, as far as the database has it."""
        with self._database.cursor() as cursor:
            rows = cursor.execute(sql.query("spent_on_day"), {"day": day, "tenant": None}).fetchall()
        names = tuple(SpentRow.__dataclass_fields__)
        return [SpentRow(**dict(zip(names, row, strict=True))) for row in rows]

    def unsettled(self, last: int) -> list[ReservedCall]:
        """Return the unsettled calls up to a number. At a start, they are calls of a process that ended."""
        with self._database.cursor() as cursor:
            rows = cursor.execute(sql.query("unsettled_calls"), {"last": last}).fetchall()
        names = tuple(ReservedCall.__dataclass_fields__)
        return [ReservedCall(**dict(zip(names, row, strict=True))) for row in rows]

    def reserve(self, call: ReservedCall) -> "Future[None]":
        """Record a call. The future is done once the record survives a crash; only then may the request leave.

        The future fails if the disk cannot be written, and is cancelled if the store closes first. The caller MUST then
        `settle` the call as unsent, because the journal may have it nevertheless.

        Raises:
            ReadOnly: the data directory is read-only.
        """
        self._database.require_writable()
        stored: Future[None] = Future()
        with self._changed:
            if self._is_closed:
                stored.cancel()
                return stored
            if self._failing is not None and len(self._gathered) > _MOST_UNWRITTEN:
                stored.set_exception(Overloaded(self._failing, retry_after_s=5))
                return stored
            self._last_call = max(self._last_call, call.call_id)
            self._noted += 1
            self._reserving.append((call, stored))
            self._changed.notify_all()
        return stored

    def settle(self, call: SettledCall) -> None:
        """Settle a call, without waiting. Until that is on record, the call counts as reserved, even after a crash."""
        with self._changed:
            self._noted += 1
            self._settling.append(call)
            self._changed.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Wait until the database has all that was reported so far; return False if that takes too long."""
        with self._changed:
            noted, self._is_flushing = self._noted, True
            self._changed.notify_all()
            try:
                return self._changed.wait_for(lambda: self._stored >= noted or not self._is_anything_left(), timeout_s)
            finally:
                self._is_flushing = False

    def _is_anything_left(self) -> bool:
        return bool(self._on_record < self._noted or self._gathered or self._is_writing)

    def _run(self) -> None:
        while not self._is_closed or self._reserving or self._settling:
            with self._changed:
                while not self._is_any_work():
                    self._changed.wait(self._wait_s())
                reserving, self._reserving = self._reserving, []
                settled, self._settling = self._settling, []
                written, self._written = self._written, []
            try:
                self._journal.release(written)
                self._put_on_record(reserving, settled)
                self._write_if_due()
                if self._is_over():
                    self._start_anew()
            except Exception as error:  # noqa: BLE001 - the top of a thread: a bug must not end judging for good
                log.exception("cannot write judge calls to their journal")
                for _, stored in reserving:
                    if not stored.done():
                        _tell(stored, error)
        if self._is_anything_left():
            self._journal.rotate()
        else:
            self._start_anew()

    def _start_anew(self) -> None:
        self._journal.rotate()
        self._journal.release(self._journal.full)

    def _wait_s(self) -> float | None:
        if self._is_writing:
            return None
        return self._write_at_s - time.monotonic() if self._gathered else self._journal.due_in_s

    def _is_over(self) -> bool:
        return self._journal.due_in_s == 0 and not self._is_anything_left()

    def _is_any_work(self) -> bool:
        return bool(
            self._reserving or self._settling or self._written or self._is_closed or self._is_due() or self._is_over()
        )

    def _is_due(self) -> bool:
        if not self._gathered or self._is_writing:
            return False
        return time.monotonic() >= self._write_at_s or (self._is_flushing and self._failing is None)

    def _put_on_record(
        self, reserving: Sequence[tuple[ReservedCall, "Future[None]"]], settled: Sequence[SettledCall]
    ) -> None:
        if not reserving and not settled:
            return
        reserved = [call for call, _ in reserving]
        error: Overloaded | None = None
        try:
            self._journal.append(JournalRecord(reserved=reserved, settled=settled))
        except Overloaded as overloaded:
            log.warning("%s; those that were to be made are not", overloaded)
            error, reserved = overloaded, []
        with self._changed:
            if not self._gathered:
                self._write_at_s = max(self._write_at_s, time.monotonic() + _GATHER_S)
            self._gathered.add(reserved, settled)
            self._on_record += len(reserving) + len(settled)
            self._changed.notify_all()
        for _, stored in reserving:
            _tell(stored, error)

    def _write_if_due(self) -> None:
        with self._changed:
            if not self._is_due():
                return
            writing, self._gathered = self._gathered, _Gathered()
            self._is_writing, covers = True, self._on_record
        if self._journal.due_in_s == 0:
            self._journal.rotate()
        full = self._journal.full  # closed files have no newer calls than `writing`, so the write releases them
        write = self._writer.ask(lambda cursor: _write(cursor, writing), len(writing))
        write.add_done_callback(partial(self._note_written, writing, covers, full))

    def _note_written(self, writing: _Gathered, covers: int, full: Sequence[Path], write: "Future[None]") -> None:
        error = CancelledError() if write.cancelled() else write.exception()
        with self._changed:
            self._is_writing = False
            if error is None:
                self._failing = None
                self._stored = covers
                self._written += full
                self._write_at_s = time.monotonic() + _GATHER_S
            else:
                if self._failing is None:
                    log.warning("judge calls are in their journal, but not in the database yet: %s", error)
                self._failing = f"calls to judges cannot be written: {error}"
                self._gathered = writing.under(self._gathered)
                self._write_at_s = time.monotonic() + _PAUSE_S
            self._changed.notify_all()


def _tell(stored: "Future[None]", error: Exception | None) -> None:
    if not stored.set_running_or_notify_cancel():  # the caller has gone
        return
    if error is None:
        stored.set_result(None)
    else:
        stored.set_exception(error)


def _write(cursor: duckdb.DuckDBPyConnection, gathered: _Gathered) -> None:
    """Insert the reserved calls, with their settlement if there is one, and settle calls that the database has."""
    reserved, settled = gathered.reserved, gathered.settled
    if reserved:
        cursor.register("incoming_calls", _table({**_RESERVED, **_SETTLED}, [reserved, settled]))
        cursor.execute(sql.query("insert_judge_calls"), {"first": min(reserved), "last": max(reserved)})
    others = settled if gathered.is_again else {number: settled[number] for number in settled.keys() - reserved.keys()}
    if others:
        cursor.register("settled_calls", _table(_SETTLED, [others]))
        cursor.execute(sql.query("settle_judge_calls"), {"first": min(others), "last": max(others)})


def _table(columns: Mapping[str, pa.DataType], maps: Sequence[Mapping[int, ReservedCall | SettledCall]]) -> pa.Table:
    """Build the table of the calls in the first map; each value comes from the first map whose record has the field."""
    calls = [[each.get(number) for each in maps] for number in maps[0]]
    arrays = {
        name: pa.array([next((getattr(each, name) for each in of if hasattr(each, name)), None) for of in calls], kind)
        for name, kind in columns.items()
    }
    return pa.table(arrays)


_RESERVED: Final[Mapping[str, pa.DataType]] = {
    "call_id": pa.int64(),
    "day": pa.date32(),
    "tenant": pa.string(),
    "project": pa.string(),
    "rule_id": pa.string(),
    "connection_id": pa.string(),
    "job_id": pa.int64(),
    "reserved_tokens": pa.int64(),
    "reserved_usd": pa.float64(),
    "started_at": pa.timestamp("us"),
}
_SETTLED: Final[Mapping[str, pa.DataType]] = {
    "call_id": pa.int64(),
    "input_tokens": pa.int64(),
    "output_tokens": pa.int64(),
    "tokens": pa.int64(),
    "usd": pa.float64(),
    "outcome": pa.string(),
    "ended_at": pa.timestamp("us"),
}
