"""Checkpoints: when DuckDB moves its log into the file, and how this changes row groups."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import duckdb

from storage.engine.attaching import checkpoint_log
from storage.engine.clearing import clear_buffers
from storage.errors import Busy

log = logging.getLogger(__name__)

PAUSE_S: Final = 0.01
_WAIT_S: Final = 0.2
"""DuckDB refuses to checkpoint until all readers have finished that began before the last update or deletion. The
writer waits for them about as long as it takes to commit a row group."""
_MERGES: Final = 4
"""Merges of row groups in one checkpoint of a table (`max_vacuum_tasks`), during which all readers wait. With 5 million
spans of 1.3 kB a checkpoint took 8 to 10 s with DuckDB's own limit of 100, and 1 to 2.4 s with 8."""
NO_END_BYTES: Final = 1 << 40

_LONGEST: Final = 2
"""DuckDB checkpoints by itself, within a commit, only if the log is this many times as long as it should be. Its own
checkpoints are avoided, because buffers would have to be cleared before every commit, a fifth of the CPU of ingest."""

_TRIES: Final = 8
"""A checkpoint that a reader blocked is tried again each time the log has grown by this fraction of `log_bytes`: an
eighth. A guess."""


class Checkpoints:
    """Checkpoints of one database, in place of those that DuckDB makes by itself."""

    def __init__(
        self,
        connection: Callable[[], duckdb.DuckDBPyConnection],
        *,
        catalog: str,
        has_room: Callable[[], bool],
        lack_of_room: Callable[[], str],
    ) -> None:
        """`has_room` returns True if the disk has room for a checkpoint: a failed one makes the database invalid.

        `lack_of_room` returns a text: the free room, the room needed, and the remedy.
        """
        self._connection = connection  # returns the connection that is open now
        self._catalog = catalog
        self._has_room = has_room
        self._lack_of_room = lack_of_room
        self._is_starved = False  # whether checkpoints are off because the disk has no room for one
        self._holding = threading.Lock()
        self._holds = 0
        self._setting = threading.Lock()
        self._may_merge = False  # whether checkpoints merge small neighbouring row groups
        self._merging = 0  # number of `merging` blocks that run now, which allow merges
        self.log_bytes = NO_END_BYTES  # size of DuckDB's log at which `shorten` checkpoints
        self._tried_bytes = 0  # size of the log at the last attempt of `shorten`
        self.layout = 0
        """Counter of checkpoints and openings. While checkpoints are held back and this is unchanged, row ids stay
        valid. A checkpoint drops empty row groups, and so changes the ids of all rows after them."""

    @property
    def most_merges(self) -> int:
        """Return the maximum number of merges of row groups in a checkpoint of a table."""
        return _MERGES if self._may_merge or self._merging else 0

    @property
    def longest_log_bytes(self) -> int:
        """Return the size of the log at which DuckDB checkpoints by itself, with its next commit."""
        return min(_LONGEST * self.log_bytes, NO_END_BYTES)

    def shorten(self, nbytes: int) -> None:
        """Checkpoint if DuckDB's log of `nbytes` is too long and no reader blocks it."""
        if nbytes < self._tried_bytes:  # it was moved meanwhile
            self._tried_bytes = 0
        if nbytes > self.log_bytes and nbytes > self._tried_bytes + self.log_bytes // _TRIES:
            self._tried_bytes = nbytes
            with suppress(Busy):
                self.make(wait_s=0.0)

    def make(self, *, wait_s: float = _WAIT_S) -> None:
        """Checkpoint: move DuckDB's log into the file. For the writer's thread, or while no writer runs.

        Raises:
            Busy: a reader has held an older snapshot for `wait_s`, or the disk has no room for a checkpoint.

        """
        if not self._has_room():
            raise Busy(f"the disk has no room for a checkpoint: {self._lack_of_room()}", retry_after_s=5)
        until_s = time.monotonic() + wait_s
        with self._connection().cursor() as cursor:
            clear_buffers(cursor)
            while True:
                try:
                    cursor.execute(f"CHECKPOINT {self._catalog}")
                except duckdb.TransactionException as error:
                    if time.monotonic() > until_s:
                        raise Busy("a query still reads an older snapshot; try again") from error
                    time.sleep(PAUSE_S)
                else:
                    self.layout += 1
                    return

    def hold(self) -> None:
        """Checkpoint, and from then on only on request, until `allow`. For the writer's thread.

        Raises:
            Busy: a reader holds an older snapshot, or the disk has no room for a checkpoint.

        """
        self.make()
        with self._holding, self._connection().cursor() as cursor:
            self._holds += 1
            try:
                self.prepare(cursor)
            except duckdb.Error:
                self._holds -= 1  # `allow` will not be called
                raise

    def allow(self) -> None:
        """Undo one `hold`."""
        with self._holding:
            self._holds -= 1
            try:
                with self._connection().cursor() as cursor:
                    self.prepare(cursor)
            except (duckdb.FatalException, duckdb.ConnectionException) as error:  # the next opening prepares it
                log.debug("the database is invalid: %s", error)

    def prepare(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Set how long DuckDB's log may be, and whether it is moved into the file on close."""
        self._is_starved = not self._has_room()
        self.log_bytes = NO_END_BYTES if self._holds or self._is_starved else checkpoint_log(connection)
        connection.execute(f"SET GLOBAL checkpoint_threshold = '{self.longest_log_bytes}B'")
        connection.execute(f"PRAGMA {'disable' if self._is_starved else 'enable'}_checkpoint_on_shutdown")

    def mind_room(self) -> None:
        """Turn DuckDB's own checkpoints off while the disk has no room for one, else on. For the writer's thread."""
        if self._has_room() == self._is_starved:
            with self._holding, self._connection().cursor() as cursor:
                self.prepare(cursor)

    def merge_row_groups(self, *, allowed: bool) -> None:
        """Allow or forbid checkpoints to merge small adjacent row groups; at first it is forbidden.

        After a merge, DuckDB no longer tells in which row groups rows were deleted, which compaction has to know.

        """
        with self._setting:
            self._may_merge = allowed
            self._set_merges()

    @contextmanager
    def merging(self) -> Iterator[None]:
        """Let checkpoints merge row groups during the block, even if `merge_row_groups` forbids it."""
        self._count_merging(1)
        try:
            yield
        finally:
            self._count_merging(-1)

    def _count_merging(self, more: int) -> None:
        with self._setting:
            self._merging += more
            self._set_merges()

    def _set_merges(self) -> None:
        with self._connection().cursor() as cursor:
            cursor.execute(f"SET GLOBAL max_vacuum_tasks = {self.most_merges}")
