"""The requests to judges: on record before they are made, settled after; and what they add up to in a day."""

import logging
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Final

import duckdb
import pyarrow as pa

from storage import sql
from storage.engine.database import Database
from storage.ingest.writer import Writer

log = logging.getLogger(__name__)

NANO: Final = 1_000_000_000

_PAUSE_S = 1.0
"""Before settlements that could not be written are tried again. A guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservedCall:
    """A request that is to be made, and what is set aside for it."""

    call_id: int
    day: date  # UTC
    tenant: str
    project: str | None
    rule_id: str | None
    connection_id: str
    job_id: int | None
    reserved_tokens: int
    reserved_usd: float
    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledCall:
    """What became of it."""

    call_id: int
    input_tokens: int | None
    output_tokens: int | None
    tokens: int  # that count
    usd: float | None  # that count; None where nobody knows what a token costs
    outcome: str  # answered, the kind of failure, or unsent: such a one is no call
    ended_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SpentRow:
    """What one rule spent in one project over one connection on one day."""

    tenant: str
    rule_id: str | None
    project: str | None
    connection_id: str
    calls: int
    tokens: int
    nano_usd: int
    held_calls: int  # besides, of requests that are under way, or were when a process died
    held_tokens: int
    held_nano_usd: int


@dataclass(slots=True)
class _Pending:
    """What waits for the next transaction."""

    reserved: list[tuple[ReservedCall, "Future[None]"]] = field(default_factory=list)
    settled: list[SettledCall] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.reserved) + len(self.settled)


class JudgeCallStore:
    """The judge calls' side of a store. Safe to use from several threads.

    While one transaction is under way, whatever else is to be written gathers for the next one: under full ingest
    a transaction may wait a second for its turn, and a judge asks for many.
    """

    def __init__(self, database: Database, writer: Writer) -> None:
        self._database = database
        self._writer = writer
        self._changed = threading.Condition()
        self._pending = _Pending()
        self._writing = _Pending()
        self._is_writing = False

    def last_call(self) -> int:
        """The number of the last call."""
        with self._database.cursor() as cursor:
            ((number,),) = cursor.execute(sql.query("last_judge_call")).fetchall()
        return int(number)

    def on_day(self, day: date) -> list[SpentRow]:
        """What was spent on a day, as far as it is committed."""
        with self._database.cursor() as cursor:
            rows = cursor.execute(sql.query("spent_on_day"), {"day": day}).fetchall()
        names = tuple(SpentRow.__dataclass_fields__)
        return [SpentRow(**dict(zip(names, row, strict=True))) for row in rows]

    def unsettled(self, last: int) -> list[ReservedCall]:
        """The calls up to a number that are not settled; before the first is reserved, of processes that ended."""
        with self._database.cursor() as cursor:
            rows = cursor.execute(sql.query("unsettled_calls"), {"last": last}).fetchall()
        names = tuple(ReservedCall.__dataclass_fields__)
        return [ReservedCall(**dict(zip(names, row, strict=True))) for row in rows]

    def reserve(self, call: ReservedCall) -> "Future[None]":
        """Put a call on record. The future is done once that is committed; only then may the request leave.

        It fails with what the database says, and is cancelled when the store closes first; `settle` such a call as
        unsent, because the row may be there all the same.
        """
        stored: Future[None] = Future()
        with self._changed:
            self._pending.reserved.append((call, stored))
        self._write_soon()
        return stored

    def settle(self, call: SettledCall) -> None:
        """Note what a call took, soon; until then, and if the process dies before, it counts as reserved."""
        with self._changed:
            self._pending.settled.append(call)
        self._write_soon()

    def flush(self, timeout_s: float) -> bool:
        """Wait until all of it is written; False when that took too long."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending and not self._is_writing, timeout_s)

    def _write_soon(self) -> None:
        with self._changed:
            if self._is_writing or not self._pending:
                return
            self._is_writing = True
        self._writer.ask(self._write, len(self._pending)).add_done_callback(self._written)

    def _write(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Write what has gathered. The writer's thread calls this in a transaction."""
        with self._changed:
            self._writing, self._pending = self._pending, _Pending()
        if self._writing.reserved:
            cursor.register("incoming_calls", _table(_RESERVED, [call for call, _ in self._writing.reserved]))
            cursor.execute(sql.query("insert_judge_calls"))
        if self._writing.settled:
            cursor.register("settled_calls", _table(_SETTLED, self._writing.settled))
            numbers = [call.call_id for call in self._writing.settled]
            cursor.execute(sql.query("settle_judge_calls"), {"first": min(numbers), "last": max(numbers)})

    def _written(self, write: "Future[None]") -> None:
        error = CancelledError() if write.cancelled() else write.exception()
        with self._changed:
            done, self._writing = self._writing, _Pending()
            if write.cancelled():  # the store is closing: nothing will be written any more
                done = _Pending(self._pending.reserved + done.reserved, [])
                self._pending = _Pending()
            elif error is not None:
                self._pending.settled = done.settled + self._pending.settled
            self._is_writing = False
            self._changed.notify_all()
        for _, stored in done.reserved:
            _tell(stored, error)
        if error is None:
            self._write_soon()
        elif not write.cancelled():
            log.warning("calls to judges could not be put on record, so they were not made: %s", error)
            again = threading.Timer(_PAUSE_S, self._write_soon)
            again.daemon = True
            again.start()


def _tell(stored: "Future[None]", error: BaseException | None) -> None:
    if not stored.set_running_or_notify_cancel():  # whoever asked has gone
        return
    if error is None:
        stored.set_result(None)
    else:
        stored.set_exception(error)


def _table(schema: pa.Schema, rows: Sequence[object]) -> pa.Table:
    def column(name: str) -> Iterable[object]:
        return [getattr(row, name) for row in rows]

    return pa.table({name: pa.array(column(name), schema.field(name).type) for name in schema.names}, schema=schema)


_RESERVED = pa.schema(
    {
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
)
_SETTLED = pa.schema(
    {
        "call_id": pa.int64(),
        "input_tokens": pa.int64(),
        "output_tokens": pa.int64(),
        "tokens": pa.int64(),
        "usd": pa.float64(),
        "outcome": pa.string(),
        "ended_at": pa.timestamp("us"),
    }
)
