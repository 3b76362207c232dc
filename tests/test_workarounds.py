"""Workarounds: what DuckDB, Quack and Python still do not do by themselves, and that each can be turned off.

When the first test of a pair fails, what is named in its docstring can be deleted, with its setting.
"""

import contextlib
import socket
import subprocess
import sys
import time
from pathlib import Path

import duckdb

from collector.quack.clients import connections
from collector.settings import Settings
from storage.engine.database import FILE_NAME, Database, DatabaseOptions
from storage.engine.free_space import punch_free
from storage.engine.opening import IS_DUCKDB_2
from storage.engine.workarounds import Workarounds
from storage.ingest.writer import WriterOptions
from storage.store import Store, StoreOptions
from storage.upkeep.deletions import DONE, DeletionCriteria
from tests.access import Closed, a_closed_server
from tests.live import PATIENCE_S, held_cursors, until
from tests.quack_client import a_client
from tests.serving import ANY_PORT
from tests.source_tree import ROOT
from tests.storing import RECEIVED_AT_US, a_batch, an_export, commit, rows, trace_id

_WATCHED_S = 1.5  # in which a client that is watched is known to be gone
ENDLESS = "SELECT count(*) FROM range(1000000000000) AS a, range(1000000) AS b WHERE a.range * b.range = 17"

SEARCHED = """
import sys, duckdb
class Searching:
    found = []
    @classmethod
    def find_spec(cls, name, *_):
        cls.found.append(name)
sys.meta_path.insert(0, Searching)
connection = duckdb.connect()
for _ in range(3):
    connection.execute("SELECT $a", {"a": 1})
print(Searching.found.count("pandas"))
"""

HIDDEN = """
import sys
from pathlib import Path
from storage.engine.database import Database, DatabaseOptions
from storage.engine.workarounds import Workarounds
Database(Path(sys.argv[1]), DatabaseOptions(workarounds=Workarounds(hide_pandas=sys.argv[2] == "on"))).close()
print(sum(getattr(each, "__name__", "") == "_NoPandas" for each in sys.meta_path))
"""


def printed(program: str, *arguments: str) -> str:
    """Run a program; return its output."""
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def a_file(path: Path) -> duckdb.DuckDBPyConnection:
    """Build a file of two row groups in one table, opened by DuckDB alone."""
    connection = duckdb.connect()
    connection.execute(f"ATTACH '{path}' AS file (ROW_GROUP_SIZE 8192)")
    connection.execute("CREATE TABLE file.t AS SELECT i, md5(i::VARCHAR) AS x FROM range(16384) AS r(i)")
    connection.execute("CHECKPOINT file")
    return connection


def test_duckdb_still_keeps_the_room_of_free_blocks(tmp_path: Path) -> None:
    """Until it gives them back, `storage/engine/free_space.py` does."""
    path = tmp_path / "a.duckdb"
    with contextlib.closing(a_file(path)) as connection:
        connection.execute("CREATE TABLE file.behind AS SELECT md5(range::VARCHAR) AS x FROM range(50000)")
        connection.execute("CHECKPOINT file")
        connection.execute("DROP TABLE file.t")
        connection.execute("CHECKPOINT file")
    with contextlib.closing(duckdb.connect()) as connection:
        connection.execute(f"ATTACH '{path}' AS file")
        connection.execute("CHECKPOINT file")
        size = "SELECT block_size, total_blocks, free_blocks FROM pragma_database_size() WHERE database_name = $name"
        ((block_bytes, blocks, free),) = connection.execute(size, {"name": "file"}).fetchall()
        assert free > 0
        room = path.stat().st_blocks * 512
        assert room >= blocks * block_bytes  # free blocks included
        assert punch_free(path, block_bytes=block_bytes, blocks=blocks, free=free) > 0  # it finds the free blocks
        assert path.stat().st_blocks * 512 < room
        count = "SELECT count(*), count(DISTINCT x) FROM file.behind"
        assert connection.execute(count).fetchall() == [(50_000, 50_000)]


def test_no_holes_are_punched_where_that_is_turned_off(tmp_path: Path) -> None:
    """Free blocks keep their room, and the file is not opened again for them."""
    options = DatabaseOptions(workarounds=Workarounds(punch_holes=False))
    with contextlib.closing(Database(tmp_path, options)) as database:
        with database.transaction() as cursor:
            cursor.execute("CREATE TABLE t AS SELECT md5(range::VARCHAR) AS x FROM range(100000)")
        database.checkpoints.make()
        with database.transaction() as cursor:
            cursor.execute("DROP TABLE t")
        database.checkpoints.make()
        assert database.size().free > 0
        before = (tmp_path / FILE_NAME).stat().st_blocks
        assert database.trim() == 0
        assert (tmp_path / FILE_NAME).stat().st_blocks == before


def test_duckdb_still_keeps_deleted_rows_in_their_row_group(tmp_path: Path) -> None:
    """Until a checkpoint writes such a row group anew, `storage/upkeep/compaction.py` does."""
    path = tmp_path / "a.duckdb"
    with contextlib.closing(a_file(path)) as connection:
        connection.execute("DELETE FROM file.t WHERE i = 0")
        connection.execute("CHECKPOINT file")
        places = connection.execute("SELECT min(rowid), max(rowid) FROM file.t").fetchall()
    assert places == [(1, 16_383)]  # those behind it have not moved up


def test_no_row_group_is_rewritten_where_that_is_turned_off(tmp_path: Path) -> None:
    """A deletion ends with its rows gone, but their bytes are still in the file."""
    database = DatabaseOptions(workarounds=Workarounds(rewrite_row_groups=False))
    options = StoreOptions(database=database, writer=WriterOptions(commit_interval_s=0.001))
    with Store.open(tmp_path, options) as store:
        commit(store, a_batch(an_export(8192, trace=1)), a_batch(an_export(1, trace=2, first=8192)))
        criteria = DeletionCriteria(tenant="", trace_id=trace_id(2))
        deletion = store.deletions.request(criteria, now_us=RECEIVED_AT_US)
        while store.erasure.work():
            pass
        stored = store.deletions.find(deletion.deletion_id)
        assert stored is not None
        assert stored.state == DONE
        assert rows(store, "SELECT count(*) FROM span") == [(8192,)]
        assert store.erasure.rewritten == 0


def test_duckdb_still_looks_for_pandas_at_each_parameter() -> None:
    """Until it looks once, `storage/engine/pandas_import.py` answers it; DuckDB 2 does not look."""
    assert int(printed(SEARCHED)) == 0 if IS_DUCKDB_2 else int(printed(SEARCHED)) >= 3


def test_pandas_is_not_hidden_where_that_is_turned_off(tmp_path: Path) -> None:
    """A process that opens a database has the hook, or not, according to the setting."""
    for shown, hooks in (("on", "1"), ("off", "0")):
        (tmp_path / shown).mkdir()
        assert printed(HIDDEN, str(tmp_path / shown), shown) == hooks


def test_the_kernel_still_tells_what_was_sent_where_it_is_looked_for() -> None:
    """By the number of packets `collector/quack/clients.py` knows a connection over which a question was answered."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            connection, _ = server.accept()
            with connection:
                (before,) = connections(port).values()
                connection.sendall(b"an answer")
                assert client.recv(100) == b"an answer"
                (after,) = connections(port).values()
                assert after.sent == before.sent + 1


def test_quack_still_goes_on_for_clients_that_are_gone(tmp_path: Path) -> None:
    """Until Quack stops their queries, `collector/quack/clients.py` does; if that is off, only the time limit does."""
    off = {"watch_quack_clients": False}
    with a_closed_server(tmp_path, quack=ANY_PORT, sql_seconds=5, workarounds=off) as closed:
        assert_goes_on(closed)


def assert_goes_on(closed: Closed) -> None:
    """Check that the query of a killed client runs on, and ends when its time is over."""
    database = closed.running.store._database
    assert closed.running.quack is not None
    with a_client(closed.running.quack, closed.keys["viewer"]) as one:
        one.begin(f"FROM tj.query('{ENDLESS}')")
        until(lambda: held_cursors(database), lambda cursors: cursors == 1)
        one.process.kill()
        one.process.wait(PATIENCE_S)
        time.sleep(_WATCHED_S)
        assert held_cursors(database) == 1
        until(lambda: len(database._cursors), lambda cursors: cursors == 0)


def test_all_workarounds_are_on_unless_a_setting_says_otherwise() -> None:
    """The defaults of the settings and of the store agree."""
    settings = Settings().workarounds.model_dump()
    assert set(settings.values()) == {True}
    assert {name: settings[name] for name in Workarounds.__dataclass_fields__} == {
        name: getattr(Workarounds(), name) for name in Workarounds.__dataclass_fields__
    }
