"""Next step of deletions: the traces, and their rows that one transaction deletes.

Rows are searched commit by commit, so that one step never covers more than some row groups of spans. Deletions that are
at the same commit share a search, since most of the cost of finding rows is the same for all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import duckdb
import pyarrow as pa

from storage import sql
from storage.engine.database import Database
from storage.upkeep.cascade import TraceName, TraceToDelete, leaving_among
from storage.upkeep.deletions import Deletion

STEP_SPANS: Final = 32_768
_STEP_PARTS, _STEP_COMMITS = 16_384, 4_096
"""What one step looks through, and deletes at most: four row groups of spans. With what else there is about these, some
25 row groups get holes, of the 61 that may have some at the least default memory."""

_EMPTY_STEPS = 16
"""So many steps without a row to delete are searched at once: each takes 50 ms with 5 million spans."""


class Commits(NamedTuple):
    """The numbers of some commits that follow each other."""

    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionStep:
    """The next step of some deletions: traces, and the commits whose rows they lose."""

    deletions: Sequence[Deletion]
    deletion_ids: Mapping[str, str]  # by the id of a trace: the deletion that it counts for
    leaving: Sequence[TraceToDelete]
    commits: Commits
    is_last: bool  # of these traces: all that is about them goes
    after_batch: int  # commits up to this one are looked through after it


class _Wanted(NamedTuple):
    name: TraceName
    deletion_id: str


def together(deletions: Sequence[Deletion], first: Deletion) -> list[Deletion]:
    """Return the deletions whose next step is that of the first one."""
    if first.criteria.trace_id is not None:
        return [first]
    return [
        each
        for each in deletions
        if each.criteria.trace_id is None
        and each.criteria.tenant == first.criteria.tenant
        and each.after_batch == first.after_batch
        and each.last_batch > each.after_batch
    ] or [first]


def next_step(database: Database, deletions: Sequence[Deletion]) -> DeletionStep | None:
    """Return the next step of deletions that go together; None if they are at their last commit, or turn back there."""
    begun = after = deletions[0].after_batch
    until = min(each.last_batch for each in deletions)
    for _ in range(_EMPTY_STEPS):
        with database.snapshot() as cursor:
            commits = _next_commits(cursor, deletions[0], after, until)
            if commits is None:
                break
            named = named_traces(cursor, deletions, commits)
            leaving = leaving_among(cursor, [each.name for each in named], in_any_case=True)
            if leaving:
                is_named = deletions[0].criteria.trace_id is not None
                piece, is_last = _next_piece(cursor, leaving, commits, is_named=is_named)
                return DeletionStep(
                    deletions=deletions,
                    deletion_ids={each.name.trace_id: each.deletion_id for each in named},
                    leaving=leaving,
                    commits=piece,
                    is_last=is_last,
                    after_batch=commits.last,
                )
        after = commits.last
    if after == begun:
        return None
    return DeletionStep(
        deletions=deletions, deletion_ids={}, leaving=[], commits=Commits(after, after), is_last=True, after_batch=after
    )


def named_traces(cursor: duckdb.DuckDBPyConnection, deletions: Sequence[Deletion], commits: Commits) -> list[_Wanted]:
    """Return the traces to delete among those with data in these commits; one that is named by id in any case."""
    first = deletions[0]
    if first.criteria.trace_id is not None:
        return [
            _Wanted(name, first.deletion_id) for name in stored(cursor, first.criteria.tenant, first.criteria.trace_id)
        ]
    cursor.register(
        "wanted_deletions",
        pa.table(
            {
                "number": pa.array(range(len(deletions)), pa.int64()),
                "project": pa.array([each.criteria.project for each in deletions], pa.string()),
                "session_id": pa.array([each.criteria.session_id for each in deletions], pa.string()),
                "user_id": pa.array([each.criteria.user_id for each in deletions], pa.string()),
                "before_ns": pa.array([each.criteria.before_ns for each in deletions], pa.int64()),
            }
        ),
    )
    bounds = {"tenant": first.criteria.tenant, "first_batch": commits.first, "last_batch": commits.last}
    rows = cursor.execute(sql.query("traces_to_delete"), bounds).fetchall()
    return [_Wanted(TraceName(*row), deletions[number].deletion_id) for *row, number in rows]


def stored(cursor: duckdb.DuckDBPyConnection, tenant: str, trace_id: str) -> list[TraceName]:
    """Return the trace of this id, if it is there."""
    named = {"tenant": tenant, "trace_id": trace_id}
    return [TraceName(*row) for row in cursor.execute(sql.query("key_of_trace"), named).fetchall()]


def _next_commits(cursor: duckdb.DuckDBPyConnection, first: Deletion, after: int, until: int) -> Commits | None:
    """Return the next commits to look through; of one trace all of them."""
    if after >= until:
        return None
    if first.criteria.trace_id is not None:
        return Commits(after + 1, until)
    bounds = {"first_batch": after + 1, "last_batch": until, "commits": _STEP_COMMITS}
    rows = cursor.execute(sql.query("sizes_of_commits"), bounds).fetchall()
    spans = parts = 0
    last = after
    for batch, more_spans, more_parts in rows:
        spans, parts = spans + more_spans, parts + more_parts
        if last > after and (spans > STEP_SPANS or parts > _STEP_PARTS):
            return Commits(after + 1, last)
        last = batch
    return Commits(after + 1, until if len(rows) < _STEP_COMMITS else last)


def _next_piece(
    cursor: duckdb.DuckDBPyConnection, leaving: Sequence[TraceToDelete], commits: Commits, *, is_named: bool
) -> tuple[Commits, bool]:
    """Return the commits of a part of these traces that one transaction can delete, and True if it is the last part.

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
        if spans > STEP_SPANS:
            break
        last = batch
    return Commits(first, max(first, last)), is_named and batches[-1] <= last
