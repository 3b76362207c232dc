"""The DuckDB file: opening, migration to the schema of this version, and closing."""

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar, cast

import duckdb

from storage import sql
from storage.engine.attaching import LEAST_LOG_BYTES, READ_ONLY, FileOpener, memory_bytes
from storage.engine.checkpointing import NO_END_BYTES, PAUSE_S, Checkpoints
from storage.engine.clearing import clear_buffers, drop_cached
from storage.engine.cursor_pool import KeptCursor, KeptCursors
from storage.engine.cursors import Cursors, RowStream, is_aftermath, is_bug, one_moment, roll_back
from storage.engine.damage import LOST_COMMITS, Damage, is_damage_text
from storage.engine.free_space import punch_free
from storage.engine.log_end import log_files, lost_commits
from storage.engine.migration import MARK, migrate, require_migrated
from storage.engine.pandas_import import hide_pandas
from storage.engine.room import DiskRoom, checkpoint_bytes
from storage.engine.table_writes import TableWrites
from storage.engine.threads import Threads
from storage.engine.workarounds import Workarounds
from storage.errors import Busy, Damaged, ReadOnly, Reopened, Unusable
from storage.memory import QueryMemory
from storage.timing import QUICK_S, Stopwatch
from storage.work import Report, StartStep, no_report

log = logging.getLogger(__name__)

FILE_NAME = "tracejury.duckdb"
CATALOG = "tracejury"
LAKE_CATALOG = "lake"  # with the setting of that name; its schemas are `main` and `alone`
ROW_GROUP_ROWS = 8192
"""Commits that fill whole row groups bypass DuckDB's log. Measured, µs of CPU a span and bytes on disk: commits of
4,096 rows through the log 20 and 338; as whole groups of 4,096 rows 14 and 361, of 8,192 rows 13 and 349."""
_STORAGE_VERSION = "v1.4.0"
"""The oldest DuckDB that can open the file. With the default, which is far older, an insert costs 15 % more CPU and a
read of an attribute 35 % more, because newer compression is not used."""
_ALONE_WAIT_S = 1.0
"""How long work that must run without readers waits for readers to end, while new ones wait for it; after that it gives
up and is tried again later. A guess: a page takes some tenths of a second on a busy machine."""
_SCRATCH_SIZE = "4GB"
"""A guess: more than a query can fill in half a minute. DuckDB's default is nine tenths of the disk."""
_END_S = 5.0
"""How long a reopening waits for interrupted readers to end, because the file cannot be opened again while a reader has
it open. Most end within milliseconds. A guess at how long a statement takes that cannot be interrupted."""

_Piece = TypeVar("_Piece")


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseOptions:
    """Limits of DuckDB."""

    memory_limit: str = "256MB"
    query_bytes: int | None = None  # memory that all queries of clients may take together; None: no bound
    queries_at_once: int = 2  # queries of clients that share `query_bytes`
    machine_bytes: int | None = None  # memory of the machine, the most that errors advise; None: unknown
    threads: int = 1  # measured: an insert costs 14 µs of CPU a span with one thread, 22 to 28 with two
    workarounds: Workarounds = field(default_factory=Workarounds)
    attach: Callable[[duckdb.DuckDBPyConnection, Path], None] | None = None  # adds catalogs; gets the scratch folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The blocks of a database file; free ones are used again before the file grows."""

    block_bytes: int
    blocks: int
    free: int

    @property
    def used_bytes(self) -> int:
        """Return the bytes in use."""
        return (self.blocks - self.free) * self.block_bytes


class Database:
    """One open DuckDB file. Cursors may be used from different threads, each by one thread at a time."""

    def __init__(
        self, directory: Path, options: DatabaseOptions, *, report: Report = no_report, is_read_only: bool = False
    ) -> None:
        """Open or create the file in `directory` and bring it to this version's schema; `report` receives each step.

        A read-only file has to exist, and nothing is written to its directory.

        Raises:
            ForeignFile: the file is not one of ours.
            NewerFile: a newer version wrote it.
            OlderFile: a version before v0.1.0 wrote it.
            ReadOnly: the file is opened read-only, but another version wrote it, or its last server was killed.
            Unusable: DuckDB cannot open the file.
        """
        if options.workarounds.hide_pandas:
            hide_pandas()
        self._path = directory / FILE_NAME
        self._log_path = self._path.with_name(f"{FILE_NAME}.wal")
        self.is_read_only = is_read_only
        self._elsewhere = TemporaryDirectory(prefix="tracejury-") if is_read_only else None
        self._scratch = directory / "tmp" if self._elsewhere is None else Path(self._elsewhere.name)
        self._options, self._report = options, report
        self._opening = threading.Lock()  # held while the file is opened again, or readers are locked out
        self._attempts = 0  # to open it again
        self._cursors, self._idle = Cursors(), KeptCursors()
        self.writes = TableWrites()
        self.damage = Damage()
        self._own = threading.local()  # `cursor`: that of a thread within `in_snapshot`
        self.room = DiskRoom(directory)
        self.checkpoints = Checkpoints(
            lambda: self._connection, catalog=CATALOG, has_room=self.has_room, lack_of_room=self.lack_of_room
        )
        self._closed_since: tuple[float, str] | None = None
        self.commits = Stopwatch(QUICK_S)
        how = f"ROW_GROUP_SIZE {ROW_GROUP_ROWS}, STORAGE_VERSION '{_STORAGE_VERSION}'"
        how = READ_ONLY if is_read_only else how
        self._limit_bytes = 0  # as of the last opening
        self._is_current = False  # whether the file has the schema and the views of this version
        self._opener = FileOpener(self._path, catalog=CATALOG, how=how, prepare=self._prepare)
        self.threads = Threads(lambda: self.cursor(mends=False, may_end=False, may_share=False))
        report(StartStep(name=f"opening the database, with {self.log_bytes() >> 20} MiB in its log"))
        try:
            self._connection = self._connect()
        except BaseException:
            self._remove_scratch()
            raise
        self.threads.start()

    @property
    def query_bytes(self) -> int | None:
        """Return the memory that queries may use together in bytes, or None if it is not bounded."""
        return self._options.query_bytes

    @property
    def query_memory(self) -> QueryMemory:
        """Return the memory that DuckDB and the statements of clients may hold now."""
        return QueryMemory(
            duckdb_bytes=self._limit_bytes,
            at_once=self._options.queries_at_once,
            all_bytes=self.query_bytes,
            machine_bytes=self._options.machine_bytes,
        )

    @property
    def scratch(self) -> Path:
        """Return the folder of DuckDB's temporary files."""
        return self._scratch

    @property
    def path(self) -> Path:
        """Return the database file."""
        return self._path

    @property
    def workarounds(self) -> Workarounds:
        """Return the active workarounds for DuckDB."""
        return self._options.workarounds

    @contextmanager
    def cursor(
        self, *, mends: bool = True, may_end: bool = True, may_share: bool = True, is_own: bool = True
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open a cursor of its own for the block; within `in_snapshot`, return the cursor that the thread has.

        A caller that continues after a failed statement needs `may_share=False`, as a failure ends the snapshot.

        If the database is invalid, it is opened again, or another thread's reopening is awaited, unless `mends` is
        false. A reopening interrupts all cursors, except those with `may_end=False`, for which it waits: a caller that
        holds such a cursor MUST NOT wait for another one.

        `is_own` is false for statements of clients, which may make DuckDB fail without any damage.

        Raises:
            Reopened: this cursor had to end, or the database cannot be opened again now.
            Damaged: the data that was read differs from the data that was written.
        """
        shared: duckdb.DuckDBPyConnection | None = getattr(self._own, "cursor", None)
        if shared is not None and may_end and may_share:
            yield shared
            return
        kept = self._open_cursor(mends=mends, may_end=may_end, is_own=is_own)
        cursor, is_done, is_kept = kept.cursor, False, False
        try:
            yield cast("duckdb.DuckDBPyConnection", kept)
            is_done = is_own and not self._cursors.was_ended(cursor)
        except (duckdb.Error, OSError, RuntimeError) as error:  # pyarrow raises DuckDB's errors as these
            self._idle.close()  # the database may be invalid: `USE` of the next new cursor tells
            if is_aftermath(error) or (self._cursors.was_ended(cursor) and not is_bug(error)):
                raise Reopened from error
            if self.damage.note_error(error, own=is_own) and not is_bug(error):
                raise Damaged(str(error).partition("\n")[0]) from error
            raise
        finally:
            try:
                is_kept = is_done and kept.clear()
                if not is_kept:
                    cursor.close()
            finally:
                self._cursors.remove(cursor, keep=partial(self._idle.keep, kept) if is_kept else None)

    def _open_cursor(self, *, mends: bool, may_end: bool, is_own: bool) -> KeptCursor:
        try:
            return self._usable_cursor(may_end=may_end, waits=mends, is_own=is_own)
        except duckdb.Error as error:
            if not _is_of_invalid(error):
                raise
            if not mends:
                raise Reopened from error
            self.reopen()
        try:
            return self._usable_cursor(may_end=may_end, waits=True, is_own=is_own)
        except duckdb.Error as error:
            if not _is_of_invalid(error):
                raise
            raise Reopened from error

    def _usable_cursor(self, *, may_end: bool, waits: bool, is_own: bool) -> KeptCursor:
        if not self._opening.acquire(blocking=waits):
            raise Reopened
        try:
            # Not for clients: a kept cursor has small tables of the server's last statements, which they could name.
            kept = self._idle.take() if is_own else None
            cursor = self._connection.cursor() if kept is None else kept.cursor
            self._cursors.add(cursor, may_end=may_end)
        finally:
            self._opening.release()
        if kept is not None:
            return kept
        try:
            cursor.execute(f"USE {CATALOG}")
        except BaseException as error:
            cursor.close()
            self._cursors.remove(cursor)
            if isinstance(error, duckdb.InterruptException):  # by a thread that reopens the file
                raise Reopened from error
            raise
        self._idle.trust()
        return KeptCursor(cursor)

    def stream(self, pieces: Generator[_Piece, None, None]) -> RowStream[_Piece]:
        """Stream an answer that holds a cursor until it is read, and ends if the file is opened again."""
        return self._cursors.stream(pieces)

    @contextmanager
    def snapshot(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open a cursor whose queries all read one snapshot, whatever is committed or deleted meanwhile."""
        if self.is_at_one_moment:
            with self.cursor() as cursor:
                yield cursor
            return
        with self.cursor() as cursor, one_moment(cursor):
            yield cursor

    @property
    def is_at_one_moment(self) -> bool:
        """Return True if this thread's queries run on one snapshot."""
        return hasattr(self._own, "cursor")

    @contextmanager
    def in_snapshot(self) -> Iterator[None]:
        """Run all queries of this thread in the block on one snapshot, over one cursor. The block MUST NOT write."""
        if hasattr(self._own, "cursor"):
            yield
            return
        with self.snapshot() as cursor:
            self._own.cursor = cursor
            try:
                yield
            finally:
                del self._own.cursor

    def require_writable(self) -> None:
        """Refuse to write to a read-only file.

        Raises:
            ReadOnly: the file is read-only.
        """
        if self.is_read_only:
            raise ReadOnly(self._path.parent, "this writes to it")

    @contextmanager
    def transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open a cursor in a transaction that commits at the end of the block; an exception rolls it back.

        Raises:
            ReadOnly: the file is read-only.
        """
        self.require_writable()
        self.threads.rest()
        self._mind_room()
        with self.cursor(may_end=False) as cursor:
            began_s, kept = time.perf_counter(), cast("KeptCursor", cursor)
            try:
                cursor.begin()
                yield cursor
                cursor.commit()
                self.commits.add(time.perf_counter() - began_s)
            except BaseException:
                roll_back(cursor)
                raise
            finally:  # a commit that fails may be stored all the same
                self.writes.note(kept.tables)

    def clear_buffers(self) -> None:
        """Make sure that the next write contains no old buffers. For the writer's thread."""
        with self.cursor() as cursor:
            clear_buffers(cursor)

    def log_is_too_long(self) -> bool:
        """Return True if the next commit may make DuckDB checkpoint by itself, because `shorten_log` could not."""
        return self.log_bytes() > (self.checkpoints.log_bytes + self.checkpoints.longest_log_bytes) // 2

    def shorten_log(self) -> None:
        """Checkpoint if DuckDB's log is long and no reader blocks it. For the writer's thread.

        Unlike DuckDB's own checkpoints, it runs between two transactions, after the buffers were cleared. If it fails,
        the database is invalid, and its next user reopens it. No committed data is lost, because the log has it.

        """
        layout = self.checkpoints.layout
        try:
            self.checkpoints.shorten(self.log_bytes())
            if self.checkpoints.layout != layout:
                self._drop_cached()
        except duckdb.Error as error:
            self._idle.close()
            self.damage.note_error(error, own=True)
            log.warning("the checkpoint of the database failed: %s", error)

    def _drop_cached(self) -> None:
        """Evict cached blocks beyond their share, unless a cursor is open."""
        if not self._opening.acquire(blocking=False):
            return
        try:
            if not len(self._cursors):
                with self._connection.cursor() as cursor:
                    drop_cached(cursor)
        finally:
            self._opening.release()

    def lack_of_room(self) -> str:
        """Return the message that a checkpoint lacks space: needed, free, and the remedy."""
        need_bytes, free_bytes = checkpoint_bytes(self.log_bytes()), self.room.free_bytes
        lack_bytes = max(need_bytes - free_bytes, 1)
        return (
            f"it needs {need_bytes >> 20} MiB, and {free_bytes >> 20} MiB are left on the disk of {self.path.parent};"
            f" free {(lack_bytes >> 20) + 1} MiB there, but remove nothing of the data directory"
        )

    def has_room(self) -> bool:
        """Return True if the disk has room for a checkpoint."""
        return self.room.allows_checkpoint(self.log_bytes())

    def _mind_room(self) -> None:
        self.room.keep_reserve()
        with suppress(duckdb.Error):  # if the database is invalid, its reopening calls `prepare`
            self.checkpoints.mind_room()

    def log_bytes(self) -> int:
        """Return how long DuckDB's log of the file is."""
        try:
            return self._log_path.stat().st_size
        except FileNotFoundError:  # after a checkpoint there is none
            return 0

    def reopen(self) -> None:
        """Open the file again if DuckDB declared it invalid, as after a failed write to disk or a bug of DuckDB.

        Other callers wait meanwhile, and share the outcome.

        Raises:
            Reopened: the file cannot be opened again now; try again.
        """
        attempts = self._attempts
        with self._opening:
            because = self._invalidity()
            if because is None:
                return
            if self._attempts > attempts:  # another thread was faster
                raise Reopened
            self._attempts += 1
            self._note_invalidity(because)
            began_s = time.monotonic()
            if not self._cursors.end(_END_S):
                log.error("the database is invalid and cannot be reopened: %d cursors are open", len(self._cursors))
                raise Reopened
            try:
                self._open_again(because)
            except (duckdb.Error, Unusable) as error:
                raise Reopened from error
            log.warning("the database was invalid; reopened it in %.2f s", time.monotonic() - began_s)

    def _invalidity(self) -> str | None:
        """Return why DuckDB refuses the file, or None."""
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(f"FROM {CATALOG}.{MARK} LIMIT 0")
        except duckdb.Error as error:
            return str(error)
        return None

    def _note_invalidity(self, because: str) -> None:
        if is_damage_text(because):
            self.damage.note("database", because.partition("\n")[0])

    def refresh(self) -> bool:
        """Open the file again to free memory that DuckDB holds for it; return False at once if a cursor is open.

        New cursors wait meanwhile. A refresh that fails leaves the database closed: repeat it.

        """
        with self._opening:
            if len(self._cursors):
                return False
            self._open_again()
            return True

    def trim(self) -> int | None:
        """Return free blocks of the file to the file system; return the bytes freed.

        The file is opened again for this. If readers do not end within a second, nothing is done: return None.
        """
        if not self.workarounds.punch_holes:
            return 0
        with self._opening:
            if not self._is_alone():
                return None
            self._open_again()
            self.checkpoints.make()  # so that the list of free blocks in the file is that of this moment
            size = _size(self._connection)
            return punch_free(self._path, block_bytes=size.block_bytes, blocks=size.blocks, free=size.free)

    def _is_alone(self) -> bool:
        """Wait a moment for all cursors to close; return False if one stays open. The caller holds `_opening`."""
        until_s = time.monotonic() + _ALONE_WAIT_S
        while len(self._cursors):
            if time.monotonic() > until_s:
                return False
            time.sleep(PAUSE_S)
        return True

    @property
    def memory_bytes(self) -> int:
        """Return DuckDB's memory limit in bytes."""
        return self._limit_bytes

    @property
    def raised_bytes(self) -> int | None:
        """Return DuckDB's memory limit in bytes if it had to be raised, else None."""
        return self._opener.raised_bytes

    def size(self) -> Size:
        """Return the size of the file, as DuckDB counts it."""
        with self.cursor() as cursor:
            return _size(cursor)

    def _open_again(self, because: str | None = None) -> None:
        self._mind_room()
        self._idle.close()
        self._connection.close()
        self.checkpoints.layout += 1
        try:
            self._connection = self._connect(because)
        except (duckdb.Error, Unusable) as error:
            self.damage.note_error(error, own=True)
            if self._closed_since is None:
                log.error("cannot reopen the database; will retry: %s", error)  # noqa: TRY400 - as on a full disk
                self._closed_since = time.monotonic(), str(error)
            raise
        self.threads.opened()
        if self._closed_since is not None:
            log.warning("the database is open again after %.1f s", time.monotonic() - self._closed_since[0])
            self._closed_since = None

    @property
    def closed_s(self) -> float | None:
        """Return for how many seconds the file could not be opened again; None if it is open."""
        return None if self._closed_since is None else time.monotonic() - self._closed_since[0]

    @property
    def problem(self) -> str | None:
        """Return why the database could not be opened, or None."""
        return None if self._closed_since is None else self._closed_since[1]

    def checkpoint_alone(self) -> None:
        """Checkpoint without readers, so that DuckDB drops empty row groups. For the writer's thread.

        Raises:
            Busy: a reader does not end, or the disk has no room for a checkpoint.

        """
        with self._opening:
            if not self._is_alone():
                raise Busy("a query is running; try again")
            self.checkpoints.make()

    def close(self) -> None:
        """Close the file; cursors that are still open see no more of it."""
        self._idle.close(for_good=True)
        self._connection.close()
        self._remove_scratch()

    def _remove_scratch(self) -> None:
        if self._elsewhere is not None:
            self._elsewhere.cleanup()

    def _connect(self, because: str | None = None) -> duckdb.DuckDBPyConnection:
        if (lost := lost_commits(self._path)) is not None:  # DuckDB drops and overwrites them silently
            self.damage.note("log", lost, LOST_COMMITS)
            log.error("%s; %s", lost, LOST_COMMITS)
        return self._opener.open(
            because=because,
            settings={
                "threads": self._options.threads,
                "memory_limit": self._options.memory_limit,
                "checkpoint_threshold": f"{LEAST_LOG_BYTES if self.has_room() else NO_END_BYTES}B",
                "max_vacuum_tasks": self.checkpoints.most_merges,
                "temp_directory": str(self._scratch),
                "max_temp_directory_size": _SCRATCH_SIZE,
                "python_enable_replacements": False,
                "autoinstall_known_extensions": False,
            },
        )

    def _prepare(self, connection: duckdb.DuckDBPyConnection) -> None:
        connection.execute("SET TimeZone = 'UTC'")
        self._limit_bytes = memory_bytes(connection)
        self.checkpoints.prepare(connection)
        if self.is_read_only:
            if any(path != self._log_path for path in log_files(self._path)):
                raise ReadOnly(self._path.parent, "its last server was killed while it wrote to the database")
            try:
                require_migrated(connection, self._path, catalog=CATALOG)
            except duckdb.Error as error:  # undamaged data can still be read
                if not self.damage.note_error(error, own=True):
                    raise
        elif not self._is_current:  # not at a reopening: this writes, and the disk may be full
            migrate(connection, self._path, catalog=CATALOG, report=self._report)
            self._is_current = True
        if self._options.attach is not None:
            self._options.attach(connection, self._scratch)
        connection.execute("SET enable_external_access = false")


def _is_of_invalid(error: duckdb.Error) -> bool:
    return isinstance(error, duckdb.FatalException | duckdb.ConnectionException) or is_aftermath(error)


def _size(cursor: duckdb.DuckDBPyConnection) -> Size:
    ((block_bytes, blocks, free),) = cursor.execute(sql.query("database_blocks"), {"catalog": CATALOG}).fetchall()
    return Size(block_bytes=block_bytes, blocks=blocks, free=free)
