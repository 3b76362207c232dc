"""Resources and scopes that nothing names any more, deleted."""

import duckdb

from storage import sql
from storage.database import Database
from storage.writer import Writer

TABLES = ("resource", "scope")


def sweep_unused(database: Database, writer: Writer) -> None:
    """Delete resources and scopes that no span and no log record names.

    Raises:
        Overloaded: the database cannot be written now.
    """
    _sweep(database, writer, sql.query("unused_resources"), sql.query("sweep_resource"))
    _sweep(database, writer, sql.query("unused_scopes"), sql.query("sweep_scope"))


def _sweep(database: Database, writer: Writer, select: str, statement: str) -> None:
    """Delete those that a reader found in a long look, if nothing that came since names them."""
    with database.snapshot() as cursor:
        ((batch, *_),) = cursor.execute(sql.query("ingest_state")).fetchall()
        unused = cursor.execute(select).to_arrow_table()

    def delete(cursor: duckdb.DuckDBPyConnection) -> None:
        writer.forget_dimensions()
        cursor.register("unused", unused)
        cursor.execute(statement, {"batch": batch})

    if unused.num_rows:
        writer.store(delete, 0)
