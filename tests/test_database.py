"""The database file: migrated to the schema of this version, or refused with the reason."""

import contextlib
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest

from storage import sql
from storage.engine import clearing
from storage.engine.database import FILE_NAME, Database, DatabaseOptions
from storage.engine.lock import read_holder
from storage.engine.migration import FIRST_STEP
from storage.errors import ForeignFile, NewerFile, OlderFile, Reopened, Unusable
from storage.store import Store
from tests import forking
from tests.source_tree import ROOT
from tests.storing import a_batch, a_store, an_export, commit, rows

pytestmark = pytest.mark.costly("storage")

Step = tuple[int, str, str]


def run(directory: Path, *statements: str) -> None:
    """Change the file behind our back, as another DuckDB would."""
    # A new file of DuckDB 2 has a storage version of its own otherwise, and is refused.
    with duckdb.connect(str(directory / FILE_NAME), config={"storage_compatibility_version": "v1.4.0"}) as connection:
        for statement in statements:
            connection.execute(statement)


def versions(store: Store) -> list[tuple[object, ...]]:
    """Return the schema steps that the file has seen."""
    return rows(store, "SELECT version, name FROM tracejury_schema ORDER BY version")


def test_every_supported_duckdb_can_open_the_file(tmp_path: Path) -> None:
    """Whichever writes it, the file is of the storage version of DuckDB 1.4, so that an older one can have it back."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(2)))
        tags = "SELECT tags['storage_version'] FROM duckdb_databases() WHERE database_name = 'tracejury'"
        with store._database.cursor() as cursor:
            assert cursor.execute(tags).fetchall() == [("v1.4.0+",)]


def test_the_schema_steps_are_numbered() -> None:
    """No two steps have the same number, so that the numbers say which ones a file has seen."""
    numbers = [number for number, _, _ in sql.migrations()]
    assert numbers == sorted(set(numbers))
    assert numbers[0] == FIRST_STEP


def test_a_new_file_sees_every_step_once(tmp_path: Path) -> None:
    """Opening again applies nothing a second time."""
    expected = [(number, name) for number, name, _ in sql.migrations()]
    for _ in range(2):
        with a_store(tmp_path) as store:
            assert versions(store) == expected


@pytest.mark.costly("storage")
@pytest.mark.parametrize("behind", range(len(sql.migrations()) + 1))
def test_an_older_file_is_brought_up_to_date(tmp_path: Path, behind: int) -> None:
    """A file with only the first migrations gets the others, keeps its spans if it has any, and accepts new ones."""
    a_file_that_saw(tmp_path, sql.migrations()[: len(sql.migrations()) - behind])
    check_up_to_date(tmp_path)


@pytest.mark.costly("storage")
@pytest.mark.parametrize("step", sql.migrations()[1:], ids=lambda step: step[1])
def test_a_step_that_was_left_out_is_made_up_for(tmp_path: Path, step: Step) -> None:
    """A file that saw later steps but not this one, as of a version between them, gets it too."""
    a_file_that_saw(tmp_path, [other for other in sql.migrations() if other not in {step, *building_on(step)}])
    check_up_to_date(tmp_path)


def building_on(step: Step) -> set[Step]:
    """Return the later steps that no file can have seen without this one.

    They change a table that it makes, or renames, or read a column that it adds.
    """
    steps_needed: set[Step] = set()
    made = made_by(step)
    for other in sql.migrations():
        if other > step and (made & changed_by(other) or reads_added(other, {step, *steps_needed})):
            steps_needed.add(other)
            made |= made_by(other)
    return steps_needed


def reads_added(other: Step, steps: set[Step]) -> bool:
    """Return whether a step names a column that one of these adds to a table that it names too."""
    added = [pair for _, _, text in steps for pair in re.findall(r"ALTER TABLE (\w+) ADD COLUMN (\w+)", text)]
    words = set(re.findall(r"\w+", other[2]))
    return any({table, column} <= words for table, column in added)


def made_by(step: Step) -> set[str]:
    """Return the tables and sequences that there are under their names since a step."""
    return set(re.findall(r"(?:CREATE TABLE|CREATE SEQUENCE|RENAME TO) (\w+)", step[2]))


def changed_by(step: Step) -> set[str]:
    """Return the tables that a step changes, and the sequences that it draws from."""
    return set(re.findall(r"(?:ALTER TABLE |UPDATE |DROP TABLE |nextval\(')(\w+)", step[2]))


def a_file_that_saw(directory: Path, steps: list[Step]) -> None:
    """Create an empty file of another version."""
    run(
        directory,
        "CREATE TABLE tracejury_schema (version INTEGER NOT NULL, name VARCHAR, applied_at TIMESTAMP)",
        *(text for _, _, text in steps),
        *(f"INSERT INTO tracejury_schema VALUES ({number}, '{name}', now()::TIMESTAMP)" for number, name, _ in steps),
    )


def check_up_to_date(directory: Path) -> None:
    """Check that the file opens with all steps, and takes spans."""
    with a_store(directory) as store:
        assert versions(store) == [(number, name) for number, name, _ in sql.migrations()]
        commit(store, a_batch(an_export(2)))
        assert rows(store, "SELECT count(*) FROM spans") == [(2,)]


@pytest.mark.parametrize("seen", [[1], range(1, 49), [*range(1, 13), 49]], ids=["first", "last but one", "left out"])
def test_a_file_from_before_the_first_release_is_refused_untouched(tmp_path: Path, seen: list[int]) -> None:
    """A file without all steps of v0.1.0 is refused with the commit that can migrate it, and left as it is."""
    a_file_that_saw(tmp_path, [(number, "old", "SELECT 1") for number in seen])
    before = (tmp_path / FILE_NAME).read_bytes()
    with pytest.raises(
        OlderFile, match=r"layout of a version before 0\.1\.0 .* open it once with commit [0-9a-f]{40} "
    ):
        Store.open(tmp_path)
    assert (tmp_path / FILE_NAME).read_bytes() == before
    assert read_holder(tmp_path) is None


def test_a_new_file_that_is_not_finished_is_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Making the tables of a new file fails half-way: none is left of them, and the next start makes them all."""
    steps = sql.migrations()
    with monkeypatch.context() as patched:
        patched.setattr(sql, "migrations", lambda: [*steps, (4711, "broken", "SELECT error('no room')")])
        with pytest.raises(Exception, match="no room"):
            Store.open(tmp_path)
    with duckdb.connect(tmp_path / FILE_NAME) as connection:
        assert connection.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [("tracejury_schema",)]
    with a_store(tmp_path) as store:
        assert versions(store) == [(number, name) for number, name, _ in steps]


def test_views_of_another_version_are_made_again(tmp_path: Path) -> None:
    """A file that an older version was at gets the views of this one, and its spans show in them."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(2)))
    run(tmp_path, "CREATE OR REPLACE VIEW spans AS SELECT 1 AS old", "DROP VIEW traces")
    with a_store(tmp_path) as store:
        assert rows(store, "SELECT count(*) FROM spans WHERE name LIKE 'span %'") == [(2,)]
        assert rows(store, "SELECT span_count FROM traces") == [(2,)]


def test_a_start_makes_the_views_where_one_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version with another text of one view shows that one, and the version before shows its own again."""
    views = dict(sql.views())
    other = views | {"spans": views["spans"].replace("SELECT", "SELECT 7 AS lucky,", 1)}
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(2)))
    with monkeypatch.context() as patched:
        patched.setattr(sql, "views", lambda: list(other.items()))
        with a_store(tmp_path) as store:
            assert rows(store, "SELECT lucky FROM spans") == [(7,), (7,)]
    with a_store(tmp_path) as store:
        assert "lucky" not in dict(store.queries.columns_of_views()["spans"])


def test_a_start_that_finds_its_own_views_writes_nothing(tmp_path: Path) -> None:
    """The file of a version that was at it before stays as it is, and has no log."""
    Database(tmp_path, DatabaseOptions()).close()
    before = (tmp_path / FILE_NAME).read_bytes()
    database = Database(tmp_path, DatabaseOptions())
    assert not (tmp_path / f"{FILE_NAME}.wal").exists()
    database.close()
    assert (tmp_path / FILE_NAME).read_bytes() == before


def test_a_newer_file_is_refused_untouched(tmp_path: Path) -> None:
    """A file with a schema step that this version does not know is refused with both numbers and left as it is."""
    with a_store(tmp_path):
        pass
    run(tmp_path, "INSERT INTO tracejury_schema VALUES (4711, 'future', now()::TIMESTAMP)", "DROP VIEW traces")
    before = (tmp_path / FILE_NAME).read_bytes()
    with pytest.raises(NewerFile, match=f"schema 4711, this Tracejury knows {sql.migrations()[-1][0]}"):
        Store.open(tmp_path)
    assert (tmp_path / FILE_NAME).read_bytes() == before
    assert read_holder(tmp_path) is None


def test_the_database_of_something_else_is_refused_untouched(tmp_path: Path) -> None:
    """A DuckDB file with tables that are not ours is refused by their names and left as it is."""
    run(tmp_path, "CREATE TABLE orders (id INTEGER)", "CREATE TABLE customers (id INTEGER)")
    before = (tmp_path / FILE_NAME).read_bytes()
    with pytest.raises(ForeignFile, match=r"something else \(tables: customers, orders\)"):
        Store.open(tmp_path)
    assert (tmp_path / FILE_NAME).read_bytes() == before


@pytest.mark.parametrize("content", [b"SQLite format 3\0" + bytes(5000), b"not a database at all", bytes(20_000)])
def test_a_file_that_is_no_database_is_refused_untouched(tmp_path: Path, content: bytes) -> None:
    """A file of another kind is refused with what to do about it and left as it is."""
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(ForeignFile, match="move it away, or choose another data directory"):
        Store.open(tmp_path)
    assert (tmp_path / FILE_NAME).read_bytes() == content


def test_a_damaged_database_is_refused(tmp_path: Path) -> None:
    """A file of ours with a damaged header is refused as unusable, and the directory is let go."""
    with a_store(tmp_path):
        pass
    with (tmp_path / FILE_NAME).open("r+b") as file:
        file.seek(0)
        file.write(b"\xff" * 4096 * 3)
    with pytest.raises(Unusable):
        Store.open(tmp_path)
    assert read_holder(tmp_path) is None


def test_a_failed_open_can_be_repeated(tmp_path: Path) -> None:
    """After a refusal the directory is free: once the obstacle is gone, the same process opens it."""
    (tmp_path / FILE_NAME).write_bytes(b"x" * 5000)
    for _ in range(2):
        with pytest.raises(ForeignFile):
            Store.open(tmp_path)
    (tmp_path / FILE_NAME).unlink()
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export()))


def test_a_path_with_a_quote_in_it_is_a_path(tmp_path: Path) -> None:
    """The data directory may have any name."""
    with a_store(tmp_path / "it's; DROP TABLE span --") as store:
        commit(store, a_batch(an_export()))
    assert (tmp_path / "it's; DROP TABLE span --" / FILE_NAME).exists()


def test_a_transaction_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """An exception inside of a transaction rolls it back."""
    database = Database(tmp_path, DatabaseOptions())
    with contextlib.suppress(ZeroDivisionError), database.transaction() as cursor:
        cursor.execute("UPDATE ingest_state SET batch = 5")
        raise ZeroDivisionError
    with database.cursor() as cursor:
        assert cursor.execute("SELECT batch FROM ingest_state").fetchall() == [(0,)]
    database.close()


def test_a_thread_asks_several_questions_as_of_one_moment(tmp_path: Path) -> None:
    """In the block all come over one cursor and see no later commit; others do, and so does the thread after it."""
    batch = "SELECT batch FROM ingest_state"
    with contextlib.closing(Database(tmp_path, DatabaseOptions())) as database:

        def ask() -> int:
            with database.snapshot() as cursor:
                ((answer,),) = cursor.execute(batch).fetchall()
            return int(answer)

        def change() -> int:
            with database.transaction() as cursor:
                cursor.execute("UPDATE ingest_state SET batch = 5")
            return ask()

        with contextlib.suppress(ZeroDivisionError), database.in_snapshot():
            with database.cursor() as first, database.snapshot() as second:
                assert first is second
            with database.cursor(may_share=False) as third:
                assert third is not first
            assert ask() == 0
            with ThreadPoolExecutor(1) as other:
                assert other.submit(change).result() == 5
            with database.in_snapshot():
                assert ask() == 0
            assert ask() == 0
            raise ZeroDivisionError
        assert ask() == 5


@pytest.mark.parametrize("memory, log", [("128MB", 8.0), ("1GiB", 16.0), ("8GiB", 64.0)])
def test_the_log_grows_with_the_memory(tmp_path: Path, memory: str, log: float) -> None:
    """DuckDB's log is a 128th of its memory, within bounds, or twice that, also after checkpoints were held."""
    with contextlib.closing(Database(tmp_path, DatabaseOptions(memory_limit=memory))) as database:
        for _ in range(2):
            with database.cursor() as cursor:
                ((text,),) = cursor.execute("SELECT current_setting('checkpoint_threshold')").fetchall()
            number, unit = text.split()
            assert unit == "MiB"
            assert float(number) == pytest.approx(log, rel=0.06)  # 4 MB are 3.8 MiB
            database.checkpoints.hold()
            database.checkpoints.allow()


def insert_a_megabyte(database: Database, times: int) -> None:
    """Commit rows that are as large in DuckDB's log."""
    for _ in range(times):
        with database.transaction() as cursor:
            cursor.execute("INSERT INTO more SELECT repeat(md5(range::VARCHAR), 8) FROM range(4000)")


def test_the_log_is_shortened_between_transactions(tmp_path: Path) -> None:
    """A log that is long is moved into the file, one that is short or held back is not."""
    with contextlib.closing(Database(tmp_path, DatabaseOptions(memory_limit="128MB"))) as database:
        database.checkpoints.make()
        layout = database.checkpoints.layout
        with database.transaction() as cursor:
            cursor.execute("CREATE TABLE more AS SELECT 'a' AS text")
        insert_a_megabyte(database, 3)
        database.shorten_log()
        assert database.checkpoints.layout == layout
        insert_a_megabyte(database, 2)
        database.shorten_log()
        assert database.checkpoints.layout == layout + 1
        assert not (tmp_path / f"{FILE_NAME}.wal").exists()
        database.checkpoints.hold()
        layout = database.checkpoints.layout
        insert_a_megabyte(database, 6)
        database.shorten_log()
        assert database.checkpoints.layout == layout
        assert not database.log_is_too_long()


def test_a_checkpoint_lets_go_of_cached_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB keeps a share of its memory of the file's blocks, unless there is a reader at that moment."""
    monkeypatch.setattr(clearing, "_LEAST_CACHED_BYTES", 1 << 20)

    def cached_bytes() -> int:
        with database.cursor() as cursor:
            ((_, nbytes),) = cursor.execute(sql.query("memory_cached")).fetchall()
        return int(nbytes)

    def fill() -> None:
        for _ in range(40):
            with database.transaction() as cursor:
                cursor.execute(
                    f"INSERT INTO more SELECT {' || '.join(['md5(random()::VARCHAR)'] * 8)} FROM range(2000)"
                )
        database.shorten_log()

    with contextlib.closing(Database(tmp_path, DatabaseOptions(memory_limit="128MB"))) as database:
        with database.transaction() as cursor:
            cursor.execute("CREATE TABLE more AS SELECT 'a' AS text")
        with database.cursor():
            fill()
            before_bytes = cached_bytes()
        fill()
        assert cached_bytes() < 9_000_000 < before_bytes
        with database.cursor() as cursor:
            assert cursor.execute("SELECT count(DISTINCT text) > 150_000 FROM more").fetchall() == [(True,)]
            assert cursor.execute("SELECT current_setting('memory_limit')").fetchall() == [("122.0 MiB",)]


def test_a_log_that_cannot_be_shortened_is_told_before_duckdb_moves_it(tmp_path: Path) -> None:
    """While a reader holds an older state, the log grows; the next commit clears DuckDB's buffers."""
    with contextlib.closing(Database(tmp_path, DatabaseOptions(memory_limit="128MB"))) as database:
        with database.transaction() as cursor:
            cursor.execute("CREATE TABLE more AS SELECT 'a' AS text")
        layout = database.checkpoints.layout
        with database.snapshot() as reader:
            reader.execute("FROM more").fetchall()
            with database.transaction() as cursor:
                cursor.execute("UPDATE more SET text = 'b'")
            insert_a_megabyte(database, 5)
            database.shorten_log()
            assert database.checkpoints.layout == layout
            assert not database.log_is_too_long()
            insert_a_megabyte(database, 2)
            assert database.log_is_too_long()
        insert_a_megabyte(database, 1)
        database.shorten_log()
        assert database.checkpoints.layout == layout + 1
        assert not database.log_is_too_long()


def test_readers_outlive_a_database_that_is_declared_invalid(tmp_path: Path) -> None:
    """A reader of the moment in which a checkpoint fails gets an error, and the next one opens the file again."""
    with contextlib.closing(Database(tmp_path, DatabaseOptions())) as database:
        with database.snapshot() as reader, database.cursor() as writer:
            assert reader.execute("SELECT count(*) FROM span").fetchall() == [(0,)]
            writer.execute("SET GLOBAL debug_checkpoint_abort = 'before_header'")
            writer.execute("SET GLOBAL checkpoint_threshold = '0B'")
            with pytest.raises(duckdb.Error, match="checkpoint"):
                writer.execute("CREATE TABLE more AS SELECT 1 AS number")
            with pytest.raises(duckdb.Error, match="invalidated"):
                reader.execute("SELECT count(*) FROM span")
            with pytest.raises(Reopened), database.cursor(mends=False):
                pass
        with database.snapshot() as reader:
            assert reader.execute("FROM more").fetchall() == [(1,)]


_INTERRUPTED = """
import contextlib, sys, threading
from pathlib import Path
import duckdb
from storage.engine.database import Database, DatabaseOptions
from storage.errors import Reopened
database = Database(Path(sys.argv[1]), DatabaseOptions())
readers = [contextlib.ExitStack() for _ in range(60)]
cursors = [each.enter_context(database.snapshot()) for each in readers]
for each in cursors:
    each.execute("SELECT count(*) FROM span").fetchall()
with database.cursor() as writer:
    writer.execute("SET GLOBAL debug_checkpoint_abort = 'before_header'")
    writer.execute("SET GLOBAL checkpoint_threshold = '0B'")
    with contextlib.suppress(duckdb.Error):
        writer.execute("CREATE TABLE more AS SELECT 1 AS number")
closing, closed = cursors[:], threading.Event()
def interrupt():
    while not closed.wait(2e-5):
        closing[0].interrupt()
threading.Thread(target=interrupt, daemon=True).start()
for each in readers:
    with contextlib.suppress(duckdb.Error, Reopened):
        each.close()
    closing.append(closing.pop(0))
closed.set()
database.reopen()
with database.snapshot() as reader:
    print(reader.execute("FROM more").fetchall())
database.close()
"""


def test_interrupted_readers_of_an_invalid_database_end_their_transactions(tmp_path: Path) -> None:
    """An interruption during the rollback leaves no transaction to a destructor of DuckDB, which ends the process."""
    run = forking.run([sys.executable, "-c", _INTERRUPTED, str(tmp_path)], cwd=ROOT, timeout=120)
    assert (run.returncode, run.stdout) == (0, "[(1,)]\n"), run.stderr


def test_parameters_are_bound_without_a_search_for_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB wants pandas at each parameter; a process that opened a database does not search its path for it."""
    searched: list[str] = []

    class Searching:
        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            searched.append(name)

    database = Database(tmp_path, DatabaseOptions())
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Searching])
    with database.cursor() as cursor:
        assert cursor.execute("SELECT $a, $b", {"a": "text", "b": [1, 2]}).fetchall() == [("text", [1, 2])]
    database.close()
    assert searched == []


def test_others_do_without_pandas_as_before() -> None:
    """Arrow makes an array for the first time in a process that hides pandas."""
    program = "from storage.engine.pandas_import import hide_pandas; hide_pandas(); import pyarrow; pyarrow.array([1])"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=60)
