"""Backlog of the writer: spooled spans and log records, taken in chunks of one commit, and write tasks between them."""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Final, NamedTuple

import duckdb

from storage.engine.database import ROW_GROUP_ROWS
from storage.errors import BadQuery, Overloaded, Unusable
from storage.ingest.batch import SpanBatch, concatenate
from storage.ingest.shares import Shares
from storage.ingest.spool import Position, SpoolGroup

MAX_COMMIT_ROWS = ROW_GROUP_ROWS
"""Larger commits cost the same CPU a span and more disk (8,192 rows: 349 bytes a span, 32,768 rows: 464)."""

SEQ_BITS = 20
"""Low bits of a span's number that hold its position in its commit; no commit has as many as 2^20 rows."""

VALUE_ERRORS: Final = (duckdb.DataError, duckdb.InvalidInputException, duckdb.ConstraintException)
"""DuckDB's errors for a value that its column cannot hold: no retry helps."""

_MOST_CHARACTERS: Final = 300  # of DuckDB's message that an error shows, since it repeats the value; a guess

_COMING_ON, _WITHIN_INTERVALS = 4, 6
"""Groups count as many that keep coming if the fourth-last one arrived less than six intervals ago. A guess: gathering
gains nothing for a client that sends at most once a second, and must not delay one that sends a single request and
polls for its spans."""

_GATHERED_INTERVALS = 3
"""Intervals for which a commit gathers spans while groups keep coming: more spans then share the fixed cost of a
commit, and of the matching and the sums that follow it. With 20 rules, 50 spans/s took 0.34 of a processor with one
interval of 0.3 s and 0.27 with three, 1,000 spans/s 0.93 and 0.64."""

_WRITE_TASK_PATIENCE_S = 1.0
"""How long a write task waits for commits of spans before it goes first. A guess: a commit of a whole row group takes a
tenth of it, so that write tasks delay spans little and do not starve."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows that are committed together, and the position of the spool after them."""

    batch: SpanBatch
    after: Position
    groups_done: int


@dataclass(frozen=True, slots=True)
class WriteTask:
    """A function that the writer's thread runs between commits of spans, such as another transaction."""

    run: Callable[[], None]
    rows: int
    written: "Future[None]"
    since_s: float


class _WaitingGroup(NamedTuple):
    """A group with its time of arrival (monotonic); `is_one_of_many` is True if groups keep coming."""

    since_s: float
    is_one_of_many: bool
    group: SpoolGroup


class Backlog:
    """Durable groups that are not committed yet, oldest first, counted in bytes."""

    def __init__(
        self,
        position: Position,
        interval_s: float,
        *,
        gathered_bytes: int,
        shares: Shares,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`gathered_bytes` bounds the backlog that may wait for three intervals, not one, while groups keep coming."""
        self._groups: deque[_WaitingGroup] = deque()
        self._arrivals_s: deque[float] = deque(maxlen=_COMING_ON)  # the latest groups
        self._write_tasks: deque[WriteTask] = deque()
        self._changed = threading.Condition()
        self._position = position
        self._interval_s = interval_s
        self._gathered_bytes = gathered_bytes
        self._clock = clock
        self._spans = 0
        self._closed = False
        self._shares = shares

    def add(self, groups: list[SpoolGroup]) -> None:
        """Append groups."""
        now, span_s = self._clock(), _WITHIN_INTERVALS * self._interval_s
        with self._changed:
            for group in groups:
                is_one_of_many = len(self._arrivals_s) == _COMING_ON and now - self._arrivals_s[0] < span_s
                self._groups.append(_WaitingGroup(now, is_one_of_many, group))
                self._arrivals_s.append(now)
                self._spans += group.batch.spans.num_rows - self._committed_of(group)
                self._hold(group, 1)
            self._changed.notify_all()

    def ask(self, run: Callable[[], None], rows: int) -> "Future[None]":
        """Queue a write task of `rows` rows; the future is cancelled if the writer stops first."""
        write_task = WriteTask(run, rows, Future(), self._clock())
        with self._changed:
            if self._closed:
                write_task.written.cancel()
            else:
                self._write_tasks.append(write_task)
                self._changed.notify_all()
        return write_task.written

    def refuse_write_tasks(self, error: Exception) -> None:
        """Fail all waiting write tasks."""
        with self._changed:
            while self._write_tasks:
                self._write_tasks.popleft().written.set_exception(error)

    def close(self) -> None:
        """Stop waiting for more: all rows are due at once, and write tasks are refused."""
        with self._changed:
            self._closed = True
            while self._write_tasks:
                self._write_tasks.popleft().written.cancel()
            self._changed.notify_all()

    def wait_empty(self, timeout_s: float) -> bool:
        """Wait until the backlog is empty; return False if that takes too long."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._groups, timeout_s)

    def next_work(self, most_rows: int = 2 * MAX_COMMIT_ROWS) -> Chunk | WriteTask | None:
        """Wait for the next work and return it; None once the backlog is closed and empty.

        A chunk is returned as soon as there is a full row group, or once the oldest group has waited long enough; then
        it may have fewer rows. A chunk has at most `most_rows` spans and log records. Until a chunk is `done`, the next
        one begins at the same row.

        A write task is returned if no commit is due, and before a due commit if the task has waited long.
        """
        with self._changed:
            while True:
                now_s = self._clock()
                if self._write_tasks and now_s - self._write_tasks[0].since_s > _WRITE_TASK_PATIENCE_S:
                    return self._write_tasks.popleft()
                due_in_s = self._due_s() - now_s if self._groups else None
                if self._spans >= min(most_rows, MAX_COMMIT_ROWS) or (
                    due_in_s is not None and (due_in_s <= 0 or self._closed)
                ):
                    return self._take(most_rows)
                if self._write_tasks:
                    return self._write_tasks.popleft()
                if self._closed and not self._groups:
                    return None
                self._changed.wait(due_in_s)

    def done(self, chunk: Chunk) -> None:
        """Remove committed groups."""
        with self._changed:
            for _ in range(chunk.groups_done):
                self._hold(self._groups.popleft().group, -1)
            self._spans -= chunk.batch.spans.num_rows
            self._position = chunk.after
            self._changed.notify_all()

    def _hold(self, group: SpoolGroup, sign: int) -> None:
        for sender, nbytes in (group.parts or {"": group.nbytes}).items():
            self._shares.take(sender, sign * nbytes)

    def _due_s(self) -> float:
        oldest = self._groups[0]
        gathers = oldest.is_one_of_many and self._shares.total < self._gathered_bytes
        return oldest.since_s + self._interval_s * (_GATHERED_INTERVALS if gathers else 1)

    def _committed_of(self, group: SpoolGroup) -> int:
        rows = self._position.rows if group.sequence == self._position.sequence + 1 else 0
        return min(rows, int(group.batch.spans.num_rows))

    def _take(self, most_rows: int) -> Chunk:
        """Take full row groups of spans, or all there are, with the log records received among them."""
        most = min(self._spans, MAX_COMMIT_ROWS)
        spans_left = most - most % ROW_GROUP_ROWS or most
        logs_left, rows_left = MAX_COMMIT_ROWS, most_rows
        batches: list[SpanBatch] = []
        done = 0
        sequence, skip = self._position.sequence, self._position.rows
        for group in (each.group for each in self._groups):
            if batches and not (spans_left if group.batch.spans.num_rows else rows_left):
                break
            if group.sequence != sequence + 1:  # the group that was committed in part is lost; this is another one
                skip = 0
            part = group.batch.slice(skip, min(_fitting(group.batch, skip, spans_left, logs_left), rows_left))
            batches.append(part)
            spans_left -= part.spans.num_rows
            logs_left -= part.logs.num_rows
            rows_left -= part.num_rows
            skip += part.num_rows
            if skip < group.batch.num_rows:
                break
            sequence, skip, done = group.sequence, 0, done + 1
        return Chunk(concatenate(batches), Position(sequence, skip), done)


def _fitting(batch: SpanBatch, skip: int, spans_left: int, logs_left: int) -> int:
    spans = max(batch.spans.num_rows - skip, 0)
    return spans_left if spans > spans_left else min(batch.num_rows - skip, spans + logs_left)


def wait_for(write_task: "Future[None]") -> None:
    """Wait until a write task is done.

    Raises:
        BadQuery: a value cannot be stored.
        Overloaded: the write failed or was cancelled.
    """
    try:
        write_task.result()
    except CancelledError:
        raise Overloaded("the store is closing") from None
    except VALUE_ERRORS as error:
        why = str(error).partition("\n")[0][:_MOST_CHARACTERS]
        raise BadQuery(f"a value cannot be stored ({why}): send one that fits") from error
    except (duckdb.Error, Unusable) as error:
        raise Overloaded(f"the database cannot be written ({error})", retry_after_s=5) from error
