"""Files of the layout before: their spans are moved into one table with what they mean, while the file is opened.

A piece is one transaction, which moves rows and deletes them where they were: killed at any moment, the next start goes
on with what is left.
"""

import logging
import time
from typing import Final

import duckdb

from storage import sql

log = logging.getLogger(__name__)

FIRST_STEP: Final = 20
"""The step of the schema that makes the tables into which everything is moved."""

BEFORE_STEP: Final = 21
"""The step of the schema before which everything has to be moved."""

_ROWS: Final = 8192  # whole row groups bypass DuckDB's log
_TELL_S: Final = 5.0


def widen(connection: duckdb.DuckDBPyConnection) -> None:
    """Move all spans and log records there are."""
    _move(connection, "span", sql.query("widen_spans"), "seq")
    _move(connection, "log_record", sql.query("widen_logs"), "batch")


def _move(connection: duckdb.DuckDBPyConnection, table: str, statement: str, number: str) -> None:
    """Move the rows of a table in the order in which they lie."""
    rows = _count(connection, table)
    if not rows:
        return
    log.info(
        "the file has the layout of an older version: %d rows of %s are moved; a start that is killed goes on",
        rows,
        table,
    )
    moved, told_s = 0, time.monotonic()
    while moved < rows:
        connection.begin()
        piece = _next_piece(connection, table, number)
        wanted = piece if "$from_number" in statement else {name: piece[name] for name in ("first", "last")}
        connection.execute(statement, wanted)
        ((gone,),) = connection.execute(
            f"DELETE FROM {table} WHERE rowid BETWEEN $first AND $last",  # noqa: S608 - a name of ours
            {name: piece[name] for name in ("first", "last")},
        ).fetchall()
        connection.commit()
        moved += gone
        if time.monotonic() - told_s > _TELL_S:
            told_s = time.monotonic()
            log.info("moved %d of %d rows of %s", moved, rows, table)
    log.info("moved %d rows of %s", moved, table)


def _next_piece(connection: duckdb.DuckDBPyConnection, table: str, number: str) -> dict[str, int]:
    """The places of the next rows, and their least and greatest number."""
    names = ("first", "last", "from_number", "to_number")
    (row,) = connection.execute(
        f"SELECT min(place), max(place), min({number}), max({number}) "  # noqa: S608 - names of ours
        f"FROM (SELECT rowid AS place, {number} FROM {table} LIMIT {_ROWS})"
    ).fetchall()
    return dict(zip(names, row, strict=True))


def _count(connection: duckdb.DuckDBPyConnection, table: str) -> int:
    ((rows,),) = connection.execute(f"SELECT count(*) FROM {table}").fetchall()  # noqa: S608 - a table of ours
    return int(rows)
