"""Cursors of a database are used again, and nothing is left of who had them before."""

import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from storage.engine.arrow import arrow_reader, arrow_table
from storage.engine.cursors import Cursors
from storage.engine.database import Database, DatabaseOptions
from tests.prepared import prepare
from tests.statements import executed

USE = "USE tracejury"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Yield a database without rows, of which a cursor is idle."""
    prepare(tmp_path)
    database = Database(tmp_path, DatabaseOptions())
    with database.transaction() as cursor:  # which sets the number of threads for the first time
        cursor.execute("UPDATE result_state SET last_number = 0")
    yield database
    database.close()


def test_a_cursor_is_used_again(database: Database) -> None:
    """Questions and transactions share one, and no statement opens it."""
    with executed() as texts:
        with database.cursor() as cursor:
            assert cursor.execute("SELECT last_number FROM result_state").fetchall() == [(0,)]
        with database.transaction() as cursor:
            cursor.execute("UPDATE result_state SET last_number = 5")
        with database.snapshot() as cursor:
            assert arrow_table(cursor, "SELECT last_number FROM result_state").num_rows == 1
    assert USE not in texts


@pytest.mark.parametrize("left", ["SET threads = 2", "CREATE TEMP TABLE mine AS SELECT 1", "PREPARE mine AS SELECT 1"])
def test_nothing_is_left_of_what_a_statement_sets(database: Database, left: str) -> None:
    """A cursor whose statement changed a setting is closed, and not reused."""
    with database.cursor() as cursor:
        cursor.execute(left)
    with executed() as texts, database.cursor() as cursor:
        cursor.execute("SELECT 1").fetchall()
    assert USE in texts


def test_an_answer_that_is_not_read_to_its_end_holds_no_snapshot(database: Database) -> None:
    """The file is checkpointed while such a cursor would be idle, and the next one sees later commits."""
    for _ in range(3):
        with database.cursor() as cursor:
            cursor.execute("FROM range(1000000)")
        with database.cursor() as cursor:
            next(iter(arrow_reader(cursor, 2048, "FROM range(1000000)")))
        with database.transaction() as cursor:
            cursor.execute("UPDATE result_state SET last_number = last_number + 1")
        database.checkpoint_alone()
    with database.cursor() as cursor:
        assert cursor.execute("SELECT last_number FROM result_state").fetchall() == [(3,)]


def test_rows_that_are_left_do_not_keep_others_from_being_read(database: Database) -> None:
    """A query whose first row alone was read is followed by one that is read as Arrow."""
    with database.transaction() as cursor:
        cursor.execute("FROM range(10000)").fetchone()
        assert arrow_table(cursor, "SELECT last_number FROM result_state").num_rows == 1


def test_a_large_table_is_let_go_of(database: Database) -> None:
    """Its memory is freed with the cursor's return; a small table stays until another takes its name."""
    small, large = pa.table({"a": range(10)}), pa.table({"a": range(100_000)})
    with database.cursor() as cursor:
        cursor.register("small", small)
        cursor.register("large", large)
        assert cursor.execute("SELECT count(*) FROM small, large").fetchall() == [(1_000_000,)]
    with database.cursor() as cursor:
        assert cursor.execute("FROM large").fetchall() == []
    freed = weakref.ref(large)
    del large
    assert freed() is None


def test_a_name_is_registered_once(database: Database) -> None:
    """Later tables of the same columns make no view; other columns, and a rollback, need a new one."""
    views = "SELECT view_oid FROM duckdb_views() WHERE view_name = 'rows'"
    with database.cursor() as cursor:
        oids = []
        for table, count in (
            (pa.table({"a": range(3)}), 3),
            (pa.table({"a": range(5)}), 5),
            (pa.table({"b": ["x"]}), 1),
        ):
            cursor.register("rows", table)
            oids += cursor.execute(views).fetchall()
            assert len(cursor.execute("FROM rows").fetchall()) == count
        assert oids[0] == oids[1] != oids[2]
    with database.cursor() as cursor:
        cursor.begin()
        cursor.register("lost", pa.table({"a": [1]}))
        cursor.rollback()
        cursor.register("lost", pa.table({"a": [2]}))
        assert cursor.execute("FROM lost").fetchall() == [(2,)]


def test_a_cursor_whose_statement_failed_is_not_used_again(database: Database) -> None:
    """Nor are idle ones, so that who comes next finds out whether the database is invalid."""
    with suppress(duckdb.CatalogException), database.cursor() as cursor:
        cursor.execute("FROM nothing")
    with executed() as texts, database.cursor() as cursor:
        cursor.execute("SELECT 1").fetchall()
    assert USE in texts


def test_the_file_is_opened_again_although_cursors_are_idle(database: Database, tmp_path: Path) -> None:
    """Nothing holds the file once it is closed."""
    assert database.refresh()
    with database.cursor() as cursor:
        assert cursor.execute("SELECT last_number FROM result_state").fetchall() == [(0,)]
    with database.cursor():
        database.close()
    Database(tmp_path, DatabaseOptions()).close()


def test_clients_see_no_table_of_the_servers_statements(database: Database) -> None:
    """A cursor for a statement of a client is always a new one, since others keep small tables."""
    with ExitStack() as several:
        for _ in range(4):
            several.enter_context(database.cursor()).register("remains", pa.table({"tenant": ["acme"]}))
    with database.cursor(is_own=False) as cursor:
        assert cursor.execute("SELECT 1 FROM duckdb_columns() WHERE database_name = 'temp'").fetchall() == []
    with database.cursor() as cursor:
        assert cursor.execute("SELECT tenant FROM remains").fetchall() == [("acme",)]


def test_a_cursor_is_taken_by_the_next_thread_only_once_it_is_given_back(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that is late in noting that it gave one back does not note that for the next one, too."""
    remove = Cursors.remove

    def remove_late(*arguments: Any, **more: Any) -> None:
        time.sleep(0.001)
        remove(*arguments, **more)

    monkeypatch.setattr(Cursors, "remove", remove_late)

    def select(number: int) -> int:
        with database.cursor() as cursor:
            return int(cursor.execute("SELECT $number", {"number": number}).fetchall()[0][0])

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(select, range(100))) == list(range(100))


def test_no_cursor_of_before_an_error_is_used_again(database: Database) -> None:
    """An error may be the first sign of an invalid database, which a cursor of before would meet a second time."""
    with database.cursor() as before:
        with pytest.raises(duckdb.Error), database.cursor() as failing:
            failing.execute("SELECT error('no')").fetchall()
        before.execute("SELECT 1").fetchall()
    with executed() as texts, database.cursor() as cursor:
        cursor.execute("SELECT 1").fetchall()
    assert USE in texts
    with executed() as texts, database.cursor() as cursor:
        cursor.execute("SELECT 1").fetchall()
    assert USE not in texts
