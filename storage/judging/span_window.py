"""Windows of spans for rules: consecutive spans with the columns that rules read, within limits of rows and bytes."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from storage import sql
from storage.engine.arrow import arrow_reader, arrow_table
from storage.engine.rule_matcher_db import Expression
from storage.errors import WriteConflict

_ROWS_AT_ONCE = 2048  # size of DuckDB's vectors, the smallest batch that it returns

NOTHING_MORE: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowLimits:
    """Limits of one window."""

    rows: int
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanSelection:
    """Columns that rules read, over the view `spans`, by the names in the rules' statements."""

    columns: Mapping[str, Expression]
    limits: WindowLimits


def window(
    cursor: duckdb.DuckDBPyConnection,
    statements: tuple[str, str],
    bounds: Mapping[str, Any],
    selection: SpanSelection,
    more: Mapping[str, Any] = NOTHING_MORE,
) -> tuple[pa.Table, int] | None:
    """Return the next spans in order, and the number up to which they are complete; None if there are none.

    The first statement returns the numbers of the next `$rows` spans after number `$after`. The second returns the
    spans themselves, up to the last of these numbers (`$until`); `more` are further parameters of the second.

    """
    rows, limits = selection.limits.rows, selection.limits
    text, parameters = asked_for(statements[1], selection.columns)
    while True:
        numbers = arrow_table(cursor, statements[0], {**bounds, "rows": rows}).column("seq")
        if not len(numbers):
            return None
        is_last = len(numbers) < rows
        last = bounds["until"] if is_last else int(pc.max(numbers).as_py())
        spans, nbytes = fetch(cursor, text, {**parameters, **more, **bounds, "until": last}, limits.nbytes)
        if nbytes <= limits.nbytes or len(numbers) == 1:
            return spans.sort_by("seq"), last
        rows = max(min(spans.num_rows * limits.nbytes // nbytes, len(numbers)) // 2, 1)


def small_window(
    cursor: duckdb.DuckDBPyConnection, statement: str, bounds: Mapping[str, Any], selection: SpanSelection
) -> tuple[pa.Table, int] | None:
    """Return all spans in a short range of numbers, in one statement; None if they have too many bytes."""
    text, parameters = asked_for(statement, selection.columns)
    spans, nbytes = fetch(cursor, text, {**parameters, **bounds}, selection.limits.nbytes)
    return (spans.sort_by("seq"), bounds["until"]) if nbytes <= selection.limits.nbytes else None


def asked_for(text: str, columns: Mapping[str, Expression]) -> tuple[str, dict[str, Any]]:
    """Return a statement with further columns, and the values of their parameters."""
    extra = "".join(f",\n    {one.sql} AS {column}" for column, one in columns.items())
    parameters = {key: value for one in columns.values() for key, value in one.parameters.items()}
    return text.replace("/* asked */", extra), parameters


def fetch(
    cursor: duckdb.DuckDBPyConnection, text: str, parameters: Mapping[str, Any], most_bytes: int
) -> tuple[pa.Table, int]:
    """Return the rows in any order, and their size in bytes; if that exceeds the limit, rows are missing."""
    reader = arrow_reader(cursor, _ROWS_AT_ONCE, text, dict(parameters))
    batches, nbytes = [], 0
    for batch in reader:
        batches.append(batch)
        nbytes += batch.nbytes
        if nbytes > most_bytes:
            break
    return pa.Table.from_batches(batches, schema=reader.schema), nbytes


def last_job_of(cursor: duckdb.DuckDBPyConnection, expected_seq: int) -> int:
    """Return the number of the last job.

    Raises:
        WriteConflict: spans are not matched up to `expected_seq`.

    """
    seq, last_job = cursor_of(cursor)
    if seq != expected_seq:
        raise WriteConflict(f"matching is at {seq} instead of {expected_seq}")
    return last_job


def move_cursor(cursor: duckdb.DuckDBPyConnection, *, after: int, until: int, jobs: int) -> int:
    """Store the number up to which spans are matched, and the number of new jobs; return the last job before these.

    Raises:
        WriteConflict: the cursor is not at `after`.
    """
    moved = cursor.execute(sql.query("move_matching"), {"after": after, "until": until, "jobs": jobs}).fetchall()
    if not moved:
        raise WriteConflict(f"matching is not at {after}")
    return int(moved[0][0]) - jobs


def cursor_of(cursor: duckdb.DuckDBPyConnection) -> tuple[int, int]:
    """Return the number up to which spans are matched, and that of the last job, within the transaction."""
    ((seq, last_job),) = cursor.execute(sql.query("matching_cursor")).fetchall()
    return int(seq), int(last_job)
