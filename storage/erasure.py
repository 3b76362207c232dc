"""What was asked to be deleted, deleted and erased: first its rows, then the bytes of these rows on the disk.

Rows are looked for commit by commit, so that one step never has more before it than some row groups of spans, and
each step is one transaction, which also records how far it is. Deleted rows stay in their row groups until these are
rewritten (`storage.rewriting`), of which many deletions share one pass; after it the blocks that held them are free,
and become holes. A deletion that was cut off goes on where it was.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import duckdb
import pyarrow as pa

from storage import sql
from storage.database import Database
from storage.deletions import BEFORE_ALL, DELETING, ERASING, Deletion, DeletionCriteria, Deletions
from storage.errors import Busy, Overloaded
from storage.leaving import TABLES, Leaving, Left, TraceName, erase, leaving_among
from storage.rewriting import Progress, Rewriting
from storage.writer import Writer

log = logging.getLogger(__name__)

_STEP_SPANS, _STEP_PARTS, _STEP_COMMITS = 32_768, 16_384, 4_096
"""What one step looks through, and deletes at most: four row groups of spans. With what else there is about these, some
25 row groups get holes, of the 61 that may have some at the default memory."""

_EMPTY_STEPS = 16
"""So many stretches without a row to delete are looked through at once: each takes 30 ms with 5 million spans."""

_ERASED: Final = (*TABLES, "deletion")
"""Tables that hold words of a deleted trace, or whom it was about."""


class _Commits(NamedTuple):
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """The next step of a deletion: these traces lose what came with these commits."""

    leaving: Sequence[Leaving]
    commits: _Commits
    is_last: bool  # of these traces: all that is about them goes
    after_batch: int  # commits up to this one are looked through after it


class Erasure:
    """Does what the deletions ask for, one step after another. Safe to use from several threads."""

    def __init__(
        self,
        database: Database,
        writer: Writer,
        deletions: Deletions,
        rewriting: Rewriting,
        *,
        set_aside: Path,
        empty_spool: Callable[[], None],
    ) -> None:
        self._database = database
        self._writer = writer
        self._deletions = deletions
        self._rewriting = rewriting
        self._set_aside = set_aside
        self._empty_spool = empty_spool
        self._working = threading.Lock()
        self._pass: Iterator[None] | None = None
        self.counts = {"traces": 0, "spans": 0, "freed_bytes": 0}  # since the start
        self._let_merge()

    @property
    def progress(self) -> Progress:
        """How far the pass over the disk is."""
        return self._rewriting.progress

    @property
    def rewritten(self) -> int:
        """Row groups that were rewritten since the start."""
        return self._rewriting.rewritten

    def work(self) -> bool:
        """Do one step; False where there is nothing to do.

        Raises:
            Overloaded: not now, because of what others read or write.
        """
        with self._working:
            waiting = self._deletions.open()
            if not waiting and self._pass is None:
                return False
            deleting = self._next_in_turn([each for each in waiting if each.state == DELETING])
            if deleting is not None and self._pass is None and self._rewriting.has_room(TABLES):
                self._delete_some(deleting)
            else:
                self._erase_some([each for each in waiting if each.state == ERASING])
        self._deletions.changed()
        return True

    def close(self) -> None:
        """Give up the pass under way; the next process begins it again."""
        with self._working:
            self._pass = None

    def is_stored(self, wanted: DeletionCriteria) -> bool:
        """Whether the trace that is wanted by its id is there."""
        with self._database.cursor() as cursor:
            return bool(_keys(cursor, wanted, _Commits(0, 0)))

    def _next_in_turn(self, deleting: Sequence[Deletion]) -> Deletion | None:
        """Whose step is next. They go through the file together, like passengers of a lift: who comes gets in where it is.

        So their rows are in row groups that are written anew once for all of them, not once for each.
        """
        position = self._deletions.position
        ahead = [each for each in deleting if each.after_batch >= position]
        found = min(ahead or deleting, key=lambda each: each.after_batch, default=None)
        self._deletions.position = BEFORE_ALL if found is None else found.after_batch
        return found

    def _delete_some(self, deletion: Deletion) -> None:
        task = self._next_task(deletion)
        if task is None:
            if deletion.wrapped or deletion.began_batch == BEFORE_ALL:
                self._end(deletion)
            else:
                self._turn_back(deletion)
            return
        left: list[Left] = []

        def delete(cursor: duckdb.DuckDBPyConnection) -> None:
            self._writer.deletions += 1
            left.append(erase(cursor, task.leaving, *task.commits, whole=task.is_last))
            is_over = task.is_last and not left[-1].more
            parameters = {
                "deletion_id": deletion.deletion_id,
                "after_batch": task.after_batch if is_over else deletion.after_batch,
                "wrapped": deletion.wrapped,
                "traces": len(task.leaving) if is_over else 0,
                "spans": left[-1].spans,
            }
            cursor.execute(sql.query("advance_deletion"), parameters)

        self._writer.store(delete, _STEP_SPANS)
        self._rewriting.note(left[-1].places)
        if task.is_last and not left[-1].more:
            self._count(traces=len(task.leaving))
            _forget_set_aside(self._set_aside, {each.trace_id for each in task.leaving})
        self._count(spans=left[-1].spans)

    def _next_task(self, deletion: Deletion) -> _Task | None:
        """The next step of a deletion, None where all was looked through."""
        after = deletion.after_batch
        for _ in range(_EMPTY_STEPS):
            with self._database.snapshot() as cursor:
                commits = _next_commits(cursor, deletion, after)
                if commits is None:
                    break
                leaving = leaving_among(cursor, _keys(cursor, deletion.wanted, commits), in_any_case=True)
                if leaving:
                    is_named = deletion.wanted.trace_id is not None
                    piece, is_last = _next_piece(cursor, leaving, commits, is_named=is_named)
                    return _Task(leaving=leaving, commits=piece, is_last=is_last, after_batch=commits.last)
            after = commits.last
        if after == deletion.after_batch:
            return None
        return _Task(leaving=[], commits=_Commits(after, after), is_last=True, after_batch=after)

    def _turn_back(self, deletion: Deletion) -> None:
        """Go on with the commits before the one that it began with."""
        parameters = {"deletion_id": deletion.deletion_id, "after_batch": BEFORE_ALL, "wrapped": True}
        no_more = {"traces": 0, "spans": 0}
        self._writer.store(lambda cursor: cursor.execute(sql.query("advance_deletion"), parameters | no_more), 1)

    def _end(self, deletion: Deletion) -> None:
        parameters = {"deletion_id": deletion.deletion_id, "now_us": time.time_ns() // 1000}
        self._writer.store(lambda cursor: cursor.execute(sql.query("end_deletion"), parameters), 1)
        log.info("deletion %s: the rows of %d traces are gone", deletion.deletion_id, deletion.traces)
        self._let_merge()

    def _erase_some(self, erasing: Sequence[Deletion]) -> None:
        """Do a step of the pass under way, or begin one for these deletions."""
        if self._pass is None:
            self._pass = self._erase(erasing)
        try:
            next(self._pass)
        except StopIteration:
            self._pass = None
            if not erasing and not self._rewriting.has_room(TABLES):
                raise Overloaded("too many row groups have deleted rows in them", retry_after_s=5) from None
        except BaseException:
            self._pass = None
            raise

    def _erase(self, erasing: Sequence[Deletion]) -> Iterator[None]:
        """One pass over the disk, after which nothing is left of these deletions."""
        if not erasing:
            yield from self._rewriting.steps(TABLES)
            return
        yield from self._rewriting.steps(_ERASED, small_too=True)
        self._empty_spool()
        freed_bytes = self.trim()
        parameters = {
            "deletion_ids": [each.deletion_id for each in erasing],
            "now_us": time.time_ns() // 1000,
        }
        self._writer.store(lambda cursor: cursor.execute(sql.query("finish_deletions"), parameters), 1)
        self._count(freed_bytes=freed_bytes)
        log.info("erased what %d deletions left on the disk; freed: %d MiB", len(erasing), freed_bytes >> 20)
        self._let_merge()

    def trim(self) -> int:
        """Give free blocks back to the file system: how many bytes.

        Raises:
            Busy: somebody reads all the time.
        """
        freed: list[int] = []

        def trim() -> None:
            freed_bytes = self._database.trim()
            if freed_bytes is None:
                raise Busy("somebody reads; try again")
            freed.append(freed_bytes)

        with self._rewriting.steady:
            self._writer.between(trim)
        return freed[-1]

    def _let_merge(self) -> None:
        """Let DuckDB merge row groups while nothing has to be found in them."""
        self._database.checkpoints.merge_row_groups(allowed=not self._deletions.open())

    def _count(self, **more: int) -> None:
        self.counts = self.counts | {name: self.counts[name] + count for name, count in more.items()}


def _next_commits(cursor: duckdb.DuckDBPyConnection, deletion: Deletion, after: int) -> _Commits | None:
    """The next commits to look through; of one trace all of them."""
    if after >= deletion.last_batch:
        return None
    if deletion.wanted.trace_id is not None:
        return _Commits(after + 1, deletion.last_batch)
    bounds = {"first_batch": after + 1, "last_batch": deletion.last_batch, "commits": _STEP_COMMITS}
    rows = cursor.execute(sql.query("sizes_of_commits"), bounds).fetchall()
    spans = parts = 0
    last = after
    for batch, more_spans, more_parts in rows:
        spans, parts = spans + more_spans, parts + more_parts
        if last > after and (spans > _STEP_SPANS or parts > _STEP_PARTS):
            return _Commits(after + 1, last)
        last = batch
    return _Commits(after + 1, deletion.last_batch if len(rows) < _STEP_COMMITS else last)


def _keys(cursor: duckdb.DuckDBPyConnection, wanted: DeletionCriteria, commits: _Commits) -> list[TraceName]:
    """The wanted traces of which something came with these commits; one that is wanted by its id in any case."""
    if wanted.trace_id is not None:
        named = {"tenant": wanted.tenant, "trace_id": wanted.trace_id}
        return [TraceName(*row) for row in cursor.execute(sql.query("key_of_trace"), named).fetchall()]
    bounds = {"first_batch": commits.first, "last_batch": commits.last}
    parameters = {
        "tenant": wanted.tenant,
        "project": wanted.project,
        "session_id": wanted.session_id,
        "user_id": wanted.user_id,
        "before_ns": wanted.before_ns,
        **bounds,
    }
    return [TraceName(*row) for row in cursor.execute(sql.query("traces_to_delete"), parameters).fetchall()]


def _next_piece(
    cursor: duckdb.DuckDBPyConnection, leaving: Sequence[Leaving], commits: _Commits, *, is_named: bool
) -> tuple[_Commits, bool]:
    """With which commits a part of these traces came that one transaction can delete, and whether it is the last one.

    The commits that were looked through come last, unless the trace is named by its id: what cuts off a deletion
    between two pieces then leaves enough of each trace for it to be found again.
    """
    batches = [batch for (batch,) in cursor.execute(sql.query("commits_of_traces")).fetchall()]
    others = batches if is_named else [batch for batch in batches if not commits.first <= batch <= commits.last]
    if not others:
        return commits, True
    first, end = others[0], max(each.last_batch for each in leaving)
    if not is_named and first < commits.first:
        end = commits.first - 1
    bounds = {"first_batch": first, "last_batch": end, "commits": _STEP_COMMITS}
    spans, last = 0, first
    for batch, more, _ in cursor.execute(sql.query("sizes_of_commits"), bounds).fetchall():
        spans += more
        if spans > _STEP_SPANS:
            break
        last = batch
    return _Commits(first, max(first, last)), is_named and batches[-1] <= last


def _forget_set_aside(directory: Path, trace_ids: set[str]) -> None:
    """Delete rows of these traces that DuckDB could not take."""
    for path in directory.glob("*.arrow") if directory.is_dir() else ():
        with pa.OSFile(str(path)) as file:
            rows = pa.ipc.open_stream(file).read_all()
        if trace_ids.intersection(rows.column("trace_id").to_pylist()):
            path.unlink()
            log.info("deleted %s, because its trace was", path)
