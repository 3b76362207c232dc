"""Writes to tables are noticed, and rows are read again only after one."""

from contextlib import suppress
from pathlib import Path

import duckdb
import pytest

from storage import sql
from storage.engine.database import Database, DatabaseOptions
from storage.engine.row_cache import RowCache
from storage.engine.table_writes import tables_read, tables_written
from tests.prepared import prepare
from tests.source_tree import ROOT
from tests.statements import executed

QUERIES = sorted(ROOT.glob("storage/queries/*/*.sql"))


# The lake's views are created in a catalog in memory.
_WRITES_NOTHING = {duckdb.StatementType.SELECT, duckdb.StatementType.SET, duckdb.StatementType.CREATE}


def test_each_statement_that_writes_names_its_tables() -> None:
    """Of all our statements those that neither read, set a variable nor create a view write tables of the schema."""
    with duckdb.connect() as connection:
        for _, _, step in sql.migrations():
            connection.execute(step)
        tables = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    for path in QUERIES:
        text = path.read_text(encoding="utf-8").replace("$table", "span")
        written = tables_written(text)
        assert written <= tables, path
        try:
            kinds = {each.type for each in duckdb.extract_statements(text)}
        except duckdb.ParserException:  # another statement is put into it
            continue
        assert bool(written) is bool(kinds - _WRITES_NOTHING), path


def test_tables_of_views_are_read_too() -> None:
    """A question about a view reads the tables of the view, and of those that it reads."""
    assert {"span", "resource"} & tables_read("SELECT count(*) FROM spans")
    assert "job" not in tables_read("-- Not of the table job.\nSELECT 1")


@pytest.fixture
def database(tmp_path: Path) -> Database:
    """Return an empty database."""
    prepare(tmp_path)
    return Database(tmp_path, DatabaseOptions())


def test_kept_rows_are_read_again_once_a_table_was_written(database: Database) -> None:
    """Only then, also if the transaction failed, and at once."""
    kept = RowCache(database, sql.query("last_result"))
    with executed() as texts:
        assert [kept.rows(), kept.rows()] == [[(0,)], [(0,)]]
    assert texts.count(sql.query("last_result")) == 1
    with database.transaction() as cursor:
        cursor.execute("UPDATE result_state SET last_number = 5")
        assert kept.rows() == [(0,)]
    assert kept.rows() == [(5,)]
    with suppress(ZeroDivisionError), database.transaction() as cursor:
        cursor.execute("UPDATE result_state SET last_number = 6")
        raise ZeroDivisionError
    with executed() as texts:
        assert kept.rows() == [(5,)]
    assert sql.query("last_result") in texts
    with database.transaction() as cursor:
        cursor.execute("UPDATE monitor_cursor SET number = 1")
    with executed() as texts:
        assert kept.rows() == [(5,)]
    assert not texts


def test_kept_rows_grow_old(database: Database) -> None:
    """After a minute, by whichever clock, they are read again, and if they changed with the time."""
    kept = RowCache(database, sql.query("last_result"))
    kept.rows(now_us=0)
    with executed() as texts:
        kept.rows(now_us=59_000_000)
        assert not texts
        kept.rows(now_us=61_000_000)
        assert sql.query("last_result") in texts
        texts.clear()
        kept.rows(now_us=0)  # the clock was set back
        assert sql.query("last_result") in texts
        texts.clear()
        kept.rows(now_us=0, is_over=lambda rows: rows == [(0,)])
        assert sql.query("last_result") in texts
