"""Deletion and erasure of requested data: first its rows, then the bytes of these rows on the disk.

Each step is one transaction, which also records the position of the deletion (`deletion_steps`). Deleted rows stay in
their row groups until these are rewritten (`compaction`), in one pass for many deletions. After the pass the old blocks
are free, and holes are punched there. An interrupted deletion continues from its recorded position.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final, Protocol, TypeVar

import duckdb
import pyarrow as pa

from storage import sql
from storage.engine.database import Database
from storage.errors import Busy, Overloaded, Unpublished
from storage.ingest.writer import Writer
from storage.upkeep.cascade import TABLES, Left, erase, erase_about, erase_results, remove_from_lake
from storage.upkeep.compaction import Compaction, Progress
from storage.upkeep.deletion_steps import STEP_SPANS, DeletionStep, next_step, stored, together
from storage.upkeep.deletions import BEFORE_ALL, DELETING, ERASING, Deletion, DeletionCriteria, Deletions
from storage.upkeep.leftovers import foreign_copies, forget_answers, forget_records

log = logging.getLogger(__name__)

_ERASED: Final = (*TABLES, "deletion", "lake_removal")
"""Tables that may have content of a deleted trace, or its session or user."""

T = TypeVar("T")


class DeletingLake(Protocol):
    """Interface to a lake, as far as deletions need it."""

    def find(self, criteria: Mapping[str, object], *, until_batch: int = ...) -> pa.Table:
        """Return traces in the lake, of commits up to `until_batch`, that match all criteria."""

    def erase(self) -> None:
        """Remove the traces that were noted for removal from the lake, and all files with their data."""


class Erasure:
    """Execution of deletions, one step after another. Thread-safe."""

    def __init__(
        self,
        database: Database,
        writer: Writer,
        deletions: Deletions,
        rewriting: Compaction,
        *,
        set_aside: Path,
        empty_spool: Callable[[], None],
    ) -> None:
        self._database = database
        self._writer = writer
        self.deletions = deletions
        self._rewriting = rewriting
        self._set_aside = set_aside
        self._empty_spool = empty_spool
        self.lake: DeletingLake | None = None
        self._without_lake: set[str] = set()  # deletions that cannot end while the lake is unreachable
        self._working = threading.Lock()
        self._pass: Iterator[None] | None = None
        self.blocked: str | None = None  # why no deletion can end now
        self.counts = {"traces": 0, "spans": 0, "freed_bytes": 0}  # since the start
        self.deletions.let_merge()

    @property
    def progress(self) -> Progress:
        """Return the progress of the current rewriting of row groups."""
        return self._rewriting.progress

    @property
    def rewritten(self) -> int:
        """Return how many row groups were rewritten since the start."""
        return self._rewriting.rewritten

    def work(self) -> bool:
        """Do one step; return False if there is nothing to do.

        Raises:
            Overloaded: other readers or writers, a copy of the database, or an unreachable lake prevent it now.
        """
        with self._working:
            waiting = self.deletions.open()
            if not waiting and self._pass is None:
                return False
            deleting = [each for each in waiting if each.state == DELETING]
            able = [each for each in deleting if each.deletion_id not in self._without_lake]
            first = self._next_in_turn(able or deleting)
            if first is not None and self._pass is None and self._rewriting.has_room(TABLES):
                self._delete_some(together(deleting, first))
            else:
                self._erase_some([each for each in waiting if each.state == ERASING])
        self.deletions.changed()
        return True

    def close(self) -> None:
        """Abort the pass under way; the next process begins it again."""
        with self._working:
            self._pass = None

    def is_stored(self, criteria: DeletionCriteria) -> bool:
        """Return True if the trace that is selected by id is stored, or may be in a lake that is unreachable."""
        if criteria.trace_id is None:
            return False
        if self._is_here(criteria):
            return True
        try:
            return self.lake is not None and self.lake.find(asdict(criteria)).num_rows > 0
        except Unpublished:
            return True  # then the deletion waits for the lake, and `blocked` has the reason

    def forget_moved(self, traces: pa.Table) -> None:
        """Delete what the database has about traces that leave the lake.

        Raises:
            Overloaded: the database cannot be written now.
        """
        left = [Left(spans=0, places={}, more=True)]
        while left[-1].more:
            self._writer.store(lambda cursor: left.append(erase_about(cursor, traces)), STEP_SPANS, frees=True)
            self._rewriting.note(left[-1].places)
        forget_records(self._unstored(), set(traces.column("trace_id").to_pylist()))

    def forget_results(self, spans: pa.Table) -> None:
        """Delete jobs, decisions and results about spans that leave the lake.

        Raises:
            Overloaded: the database cannot be written now.
        """
        left: list[Left] = []
        self._writer.store(lambda cursor: left.append(erase_results(cursor, spans)), STEP_SPANS, frees=True)
        self._rewriting.note(left[-1].places)

    def _next_in_turn(self, deleting: Sequence[Deletion]) -> Deletion | None:
        """Return the deletion whose step is next.

        All deletions search the commits together, and new ones join at the current position. So a row group is
        rewritten once for all of them, not once for each.

        """
        position = self.deletions.position
        ahead = [each for each in deleting if each.after_batch >= position]
        following = min(ahead or deleting, key=lambda each: each.after_batch, default=None)
        self.deletions.position = BEFORE_ALL if following is None else following.after_batch
        return following

    def _delete_some(self, deletions: Sequence[Deletion]) -> None:
        step = next_step(self._database, deletions)
        if step is None:
            self._turn(deletions[0])
        else:
            self._delete(step)

    def _delete_continued(self, deletion: Deletion, moved: pa.Table) -> None:
        """Delete what the database has of traces that a deletion selects by their rows in the lake."""
        with self._database.cursor() as cursor:
            cursor.register("lake_leaving", moved)
            here = cursor.execute(sql.query("traces_of_lake_here")).fetchall()
        for tenant, trace_id in here:
            criteria = DeletionCriteria(tenant=tenant, trace_id=trace_id)
            one = replace(deletion, criteria=criteria, after_batch=BEFORE_ALL, began_batch=BEFORE_ALL, wrapped=False)
            while self._is_here(criteria) and (step := next_step(self._database, [one])) is not None:
                self._delete(step)

    def _is_here(self, criteria: DeletionCriteria) -> bool:
        with self._database.cursor() as cursor:
            return bool(stored(cursor, criteria.tenant, str(criteria.trace_id)))

    def _delete(self, step: DeletionStep) -> None:
        left: list[Left] = []

        def delete(cursor: duckdb.DuckDBPyConnection) -> None:
            self._writer.deletions += 1
            left.append(erase(cursor, step.leaving, *step.commits, whole=step.is_last))
            is_over = step.is_last and not left[-1].more
            if is_over and step.leaving:
                remove_from_lake(cursor, step.leaving, is_requested=True)
            traces, spans = Counter[str](), Counter[str]()
            for trace in step.leaving:
                deletion_id = step.deletion_ids[trace.trace_id]
                traces[deletion_id] += is_over
                spans[deletion_id] += left[-1].spans_of.get(trace.trace_id, 0)
            for each in step.deletions:
                parameters = {
                    "deletion_id": each.deletion_id,
                    "after_batch": step.after_batch if is_over else each.after_batch,
                    "wrapped": each.wrapped,
                    "traces": traces[each.deletion_id],
                    "spans": spans[each.deletion_id],
                }
                cursor.execute(sql.query("advance_deletion"), parameters)

        self._writer.store(delete, STEP_SPANS, frees=True)
        self._rewriting.note(left[-1].places)
        if step.is_last and not left[-1].more:
            self._count(traces=len(step.leaving))
            forget_records(self._unstored(), {each.trace_id for each in step.leaving})
        self._count(spans=left[-1].spans)

    def _turn(self, deletion: Deletion) -> None:
        """End a deletion at its last commit, or continue with the commits before its first one."""
        if deletion.wrapped or deletion.began_batch == BEFORE_ALL:
            self._end(deletion)
            return
        parameters = {"deletion_id": deletion.deletion_id, "after_batch": BEFORE_ALL, "wrapped": True}
        no_more = {"traces": 0, "spans": 0}
        self._writer.store(
            lambda cursor: cursor.execute(sql.query("advance_deletion"), parameters | no_more), 1, frees=True
        )

    def _end(self, deletion: Deletion) -> None:
        parameters = {"deletion_id": deletion.deletion_id, "now_us": time.time_ns() // 1000}
        lake, criteria = self.lake, asdict(deletion.criteria)
        self._without_lake.add(deletion.deletion_id)
        # Not traces that were stored after the request: their rows in the lake would be missing when they move.
        cold = None if lake is None else self._in_lake(lambda: lake.find(criteria, until_batch=deletion.until_batch))
        self._without_lake.discard(deletion.deletion_id)
        if cold is not None:
            self._delete_continued(deletion, cold)
            self.forget_moved(cold)

        def end(cursor: duckdb.DuckDBPyConnection) -> None:
            if cold is not None and cold.num_rows:
                cursor.register("lake_leaving", cold)
                cursor.execute(sql.query("count_lake_removals"), {"deletion_id": deletion.deletion_id})
                cursor.execute(sql.query("put_lake_removals"), {"all": True})
            cursor.execute(sql.query("end_deletion"), parameters)

        self._writer.store(end, 1, frees=True)
        ended = self.deletions.find(deletion.deletion_id) or deletion
        log.info("deletion %s: deleted the rows of %d traces", deletion.deletion_id, ended.traces)
        self.deletions.let_merge()

    def _erase_some(self, erasing: Sequence[Deletion]) -> None:
        """Do a step of the pass under way, or begin one for these deletions."""
        if self._pass is None:
            self._pass = self._erase(erasing)
        try:
            next(self._pass)
        except StopIteration:
            self._pass = None
            if not erasing and not self._rewriting.has_room(TABLES):
                raise Overloaded(self._rewriting.lack_of_room(), retry_after_s=5) from None
        except BaseException:  # raised again: a pass that failed is over
            self._pass = None
            raise

    def _erase(self, erasing: Sequence[Deletion]) -> Iterator[None]:
        """Erase the data of these deletions from the disk, step by step; without deletions, only rewrite row groups."""
        if not erasing:
            yield from self._rewriting.steps(TABLES)
            return
        began_s = time.time()
        self._check_copies()
        if self.lake is not None:
            self._in_lake(self.lake.erase)
        yield from self._rewriting.steps(_ERASED, is_last=True)
        self._empty_spool()
        forget_answers(self._database.path.parent, began_s)
        freed_bytes = self.trim()
        self._check_copies()
        parameters = {
            "deletion_ids": [each.deletion_id for each in erasing],
            "now_us": time.time_ns() // 1000,
        }
        self._writer.store(lambda cursor: cursor.execute(sql.query("finish_deletions"), parameters), 1, frees=True)
        self._count(freed_bytes=freed_bytes)
        log.info("erased the data of %d deletions from disk; freed %d MiB", len(erasing), freed_bytes >> 20)
        self.deletions.let_merge()

    def _in_lake(self, act: Callable[[], T]) -> T:
        """Call a function that uses the lake; if the lake is unreachable, set `blocked` and raise Overloaded."""
        try:
            result = act()
        except Unpublished as error:
            self.blocked = f"the lake may hold what was deleted: {error}"
            raise Overloaded(self.blocked, retry_after_s=60) from error
        self.blocked = None
        return result

    def _unstored(self) -> list[Path]:
        return [*self._set_aside.glob("*.arrow"), *(self._database.path.parent / "spool").glob("*.unreadable")]

    def _check_copies(self) -> None:
        """Refuse to end a deletion while another database file in the directory may have its data."""
        copies = foreign_copies(self._database.path.parent, self._database.path)
        names = ", ".join(str(path) for path in copies[:3])
        self.blocked = f"{names}: a copy of the database may hold what was deleted; move it away" if copies else None
        if self.blocked is not None:
            raise Overloaded(self.blocked, retry_after_s=60)

    def trim(self) -> int:
        """Return free blocks to the file system; return the bytes freed.

        Raises:
            Busy: queries keep the file open.

        """
        freed: list[int] = []

        def trim() -> None:
            freed_bytes = self._database.trim()
            if freed_bytes is None:
                raise Busy("a query is running; try again")
            freed.append(freed_bytes)

        with self._rewriting.steady:
            self._writer.between(trim)
        return freed[-1]

    def _count(self, **more: int) -> None:
        self.counts = self.counts | {name: self.counts[name] + count for name, count in more.items()}
