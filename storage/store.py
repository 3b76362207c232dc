"""The store: one data directory, open. Spans and log records go in durable, come out by `queries`."""

import logging
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from storage.batch import SpanBatch
from storage.database import Database, DatabaseOptions
from storage.errors import Overloaded
from storage.lock import DirectoryLock
from storage.queries import Queries
from storage.readings import Readings
from storage.spool import Position, Spool
from storage.writer import Totals, Writer, WriterOptions, read_state

log = logging.getLogger(__name__)

_KEPT_FREE_BYTES = 16 << 20
"""Room that new spans may not have, on top of what the backlog may need, because only commits give room back: without
it the spool takes whatever is freed on a full disk. A guess: DuckDB's log of 4 MB twice over, and a checkpoint."""

_STOP_S = 1.0
"""For the commits of what a recovery that failed had read; the spool has all of it. A guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """How a store behaves; sizes in bytes."""

    backlog_bytes: int = 48 << 20  # spans durable but not committed, above which new ones are refused
    database: DatabaseOptions = field(default_factory=DatabaseOptions)
    writer: WriterOptions = field(default_factory=WriterOptions)


class Store:
    """An open data directory. Made by `open`, which starts its thread; `close` stops it."""

    def __init__(
        self,
        lock: DirectoryLock,
        database: Database,
        spool: Spool,
        writer: Writer,
        readings: Readings,
        limit: int,
    ) -> None:
        self._lock = lock
        self._database = database
        self._spool = spool
        self._writer = writer
        self._backlog_limit = limit
        self._appending = threading.Lock()
        self.queries = Queries(database)
        self.readings = readings

    @classmethod
    def open(cls, directory: Path, options: StoreOptions | None = None) -> Self:
        """Lock the directory, bring the database up to date, and commit what the spool still holds.

        Raises:
            Unusable: the directory is in use, or its database is foreign or newer.
        """
        options = options or StoreOptions()
        directory.mkdir(parents=True, exist_ok=True)
        with ExitStack() as undo:
            lock = DirectoryLock(directory)
            undo.callback(lock.close)
            database = Database(directory, options.database)
            undo.callback(database.close)
            position = read_state(database).position
            spool = Spool(directory / "spool", after=position)
            undo.callback(spool.close)
            committed = threading.Event()
            writer = Writer(
                database,
                options.writer,
                released=spool.release,
                committed=committed.set,
                set_aside=directory / "set-aside",
            )
            readings = Readings(database, writer, committed)
            store = cls(lock, database, spool, writer, readings, options.backlog_bytes)
            writer.start()
            undo.callback(writer.close, _STOP_S)
            store._recover(position)
            undo.pop_all()
        return store

    @property
    def totals(self) -> Totals:
        """What became of the spans and log records that were committed."""
        return self._writer.totals

    @property
    def backlog_bytes(self) -> int:
        """Bytes of spans that are durable but not committed."""
        return self._writer.backlog_bytes

    @property
    def failing(self) -> str | None:
        """Why commits fail at the moment, or None."""
        return self._writer.failing

    @property
    def overload(self) -> str | None:
        """Why new spans are refused at the moment, or None."""
        if self._disk_is_full:
            return "the disk is full; what room is left is kept for spans that wait for their commit"
        if self._writer.backlog_bytes <= self._backlog_limit:
            return None
        why = self._writer.failing
        reason = f"the database cannot be written ({why})" if why else "the database is behind"
        return f"{reason}: {self._writer.backlog_bytes >> 20} MiB wait for their commit"

    @property
    def _disk_is_full(self) -> bool:
        return self._spool.free_bytes < self._backlog_limit + _KEPT_FREE_BYTES

    def check_room(self) -> None:
        """Refuse early what `append` would refuse.

        Raises:
            Overloaded: too much waits for its commit.
        """
        overload = self.overload
        if overload is not None:
            raise Overloaded(overload, retry_after_s=5 if self._writer.failing or self._disk_is_full else 1)

    def append(self, batches: list[SpanBatch]) -> None:
        """Store batches: durable on return, visible within the commit interval.

        Raises:
            Overloaded: nothing was stored; try again later.
        """
        self.check_room()
        with self._appending:
            self._writer.enqueue(self._spool.append(batches))

    def announce(self, http: str) -> None:
        """Write the server's HTTP address where the command line looks for it."""
        self._lock.describe(http=http)

    def wait_committed(self, timeout_s: float) -> bool:
        """Wait until everything that was appended is committed; False when that took too long."""
        return self._writer.wait_committed(timeout_s)

    def close(self, timeout_s: float = 30) -> None:
        """Commit what is durable, checkpoint, let go of the directory; what the deadline cuts off stays spooled."""
        if self._writer.close(timeout_s):
            try:
                self._database.checkpoint()
            except Exception:  # noqa: BLE001 - DuckDB's log keeps what a checkpoint could not move; closing goes on
                log.warning("the checkpoint at the end failed; the next start repeats it", exc_info=True)
        else:
            log.warning("stopped before all spans were committed; the next start commits the rest from the spool")
        self._spool.close()
        self._database.close()
        self._lock.close()

    def _recover(self, position: Position) -> None:
        recovered = 0
        for group in self._spool.recover(position):
            self._writer.enqueue([group])
            recovered += group.batch.num_rows
        if recovered:
            log.info("recovered %d spans and log records from the spool", recovered)
            self._writer.wait_committed(timeout_s=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
