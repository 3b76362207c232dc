"""Choice of the next step of deletions: which rows of which traces the next transaction deletes.

Rows are searched commit by commit, so that one step never covers more than some row groups of spans. Deletions that
have reached the same commit share a search, since most of its cost is the same for one deletion and for many.
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
"""Limits of the spans, parts and commits that one step searches and deletes: four row groups of spans. With the rows of
other tables, some 25 row groups then have deleted rows, of 61 that may have some at the smallest default memory."""

_EMPTY_STEPS = 16
"""Maximum number of empty steps (nothing to delete) that one call searches; each takes 50 ms with 5 million spans."""


class Commits(NamedTuple):
    """A range of commits, inclusive."""

    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionStep:
    """The next step of some deletions: the traces, and the commits whose rows of these traces are deleted."""

    deletions: Sequence[Deletion]
    deletion_ids: Mapping[str, str]  # by trace id: the deletion whose counts include the trace
    leaving: Sequence[TraceToDelete]
    commits: Commits
    is_last: bool  # True: the last step of these traces, which also deletes rows about whole traces
    after_batch: int  # after the last step of these traces, commits up to this one are done


class _Wanted(NamedTuple):
    name: TraceName
    deletion_id: str


def together(deletions: Sequence[Deletion], first: Deletion) -> list[Deletion]:
    """Return the deletions that can share the next step of `first`."""
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
    """Return the next step of deletions from `together`; None if they have reached `last_batch`."""
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
    """Return the traces to delete that have data in these commits; a trace selected by id is always returned."""
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
    """Return the stored trace with this id as a list of one, or an empty list."""
    named = {"tenant": tenant, "trace_id": trace_id}
    return [TraceName(*row) for row in cursor.execute(sql.query("key_of_trace"), named).fetchall()]


def _next_commits(cursor: duckdb.DuckDBPyConnection, first: Deletion, after: int, until: int) -> Commits | None:
    """Return the next commits to search, or all of them if the deletion selects a trace by id."""
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
    """Return a range of the traces' commits whose rows one transaction can delete, and True if it is the last one.

    Unless the trace is selected by id, the searched `commits` come last. So if a deletion is interrupted between two
    transactions, its search finds the traces again.
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
