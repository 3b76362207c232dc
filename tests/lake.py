"""A lake in a directory or in an object store of its own, and the comparison of its rows with those of the database."""

import datetime as dt
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import duckdb
import httpx
import pyarrow as pa
from deltalake import DeltaTable

from storage.errors import Unpublished
from storage.lake.publishing import Lake
from storage.lake.store_check import STORE_OPTIONS
from storage.lake.tables import DIRECTORY, LAKE_TABLES, PARTITION, LakeTable, delta_rows
from storage.store import Store
from tests.live import Live, until
from tests.serving import unused_port

BUCKET = "lake"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
_PARTS = ("master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc")
_OFF = ("s3.iam", "iam", "webdav", "master.telemetry")


class ObjectStore:
    """SeaweedFS as a process, which may be killed and started again."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.port = unused_port()
        ports = {part: unused_port() for part in (*_PARTS, "s3.port.grpc")} | {"s3.port": self.port}
        self._options = [
            *(f"-{name}={port}" for name, port in ports.items()),
            *(f"-{name}=false" for name in _OFF),
            *("-s3", "-filer", "-s3.port.iceberg=0", "-s3.port.lance=0", "-master.volumeSizeLimitMB=64"),
            *("-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={directory}"),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._env = dict(os.environ)  # with credentials in it, the store would take no other

    @property
    def url(self) -> str:
        """Return its address."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start it, and wait until it takes objects."""
        weed = Path(sysconfig.get_path("scripts"), "weed")
        with Path(self._directory, "log").open("ab") as log:
            command = [str(weed), "-logtostderr=true", "server", *self._options]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._directory, env=self._env)
        until(self._takes_objects, bool)
        return self

    def _takes_objects(self) -> bool:
        try:
            httpx.put(f"{self.url}/{BUCKET}", trust_env=False)
            return httpx.put(f"{self.url}/{BUCKET}/ready", content=b"x", trust_env=False).is_success
        except httpx.HTTPError:
            time.sleep(0.1)
            return False

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Keep it from running for the time of the block; connections stay open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A lake: its URI, and the variables with which it is reached."""

    uri: str
    env: dict[str, str]
    store: ObjectStore | None = None

    def table(self, name: str) -> DeltaTable:
        """Open a table as of now."""
        return DeltaTable(f"{self.uri}/{name}", storage_options=STORE_OPTIONS)

    def kill_store(self) -> None:
        """Kill the object store."""
        assert self.store is not None
        self.store.kill()

    def start_store(self) -> None:
        """Start the object store again."""
        assert self.store is not None
        self.store.start()

    def rows(self, name: str) -> pa.Table:
        """Read all rows of a table."""
        return self.table(name).to_pyarrow_table()


@contextmanager
def a_place(kind: str, directory: Path) -> Iterator[Place]:
    """Make a lake in a directory, or in an object store: `file` or `s3`."""
    directory.mkdir()
    if kind == "file":
        yield Place(uri=str(directory / "lake"), env={})
        return
    store = ObjectStore(directory)
    env = CREDENTIALS | {"AWS_ENDPOINT_URL": store.url, "AWS_ALLOW_HTTP": "true"}
    before = dict(os.environ)
    try:
        store.start()
        os.environ.update(env)
        yield Place(uri=f"s3://{BUCKET}/tracejury", env=env, store=store)
    finally:
        os.environ.clear()
        os.environ.update(before)
        store.kill()
        sys.stderr.write(Path(directory, "log").read_text()[-5_000:])  # pytest shows it with a failure
        shutil.rmtree(directory)


def lake_status(server: Live) -> dict[str, Any]:
    """Return what a server reports about its lake."""
    status = server.client.get(f"{server.http}/api/v1/status").json()
    lake: dict[str, Any] = status["server"]["lake"]
    return lake


def publish_all(lake: Lake) -> None:
    """Publish all rows that are there."""
    for table in LAKE_TABLES:
        while lake.publish(table):
            pass


def publish_in_the_end(store: Store, uri: str) -> None:
    """Publish all rows that are there beside other writers, because of whom a commit may be refused."""
    for _ in range(50):
        with suppress(Unpublished):
            publish_all(store.lake(uri))  # which reads its position anew: the server of the store may publish too
            return
        time.sleep(0.1)
    raise AssertionError


def erase_all(store: Store) -> None:
    """Work all deletions off."""
    while store.erasure.work():
        pass
    assert not store.deletions.open()


def compare(store: Store, place: Place, *, directory_ids: int = 1) -> dict[str, int]:
    """Check that the lake has each row of the database exactly once, with its values; return the rows by table.

    Earlier versions of rows that were written again are in the lake too, with smaller numbers.
    """
    counts = {}
    for table in LAKE_TABLES:
        with store._database.cursor() as cursor:
            stored = cursor.execute(f"FROM {table.name} ORDER BY {table.number}").to_arrow_table()
        lake = place.rows(table.name)
        assert len(set(lake.column(DIRECTORY).to_pylist())) in {0, directory_ids}
        check_numbers(table, stored, lake)
        counts[table.name] = stored.num_rows
    return counts


def check_numbers(table: LakeTable, stored: pa.Table, lake: pa.Table) -> None:
    """Check the rows of one table: none twice, none missing, none that is newer, and equal values."""
    expected = delta_rows(table, stored, directory_id="", today=dt.date.min).drop_columns([DIRECTORY, PARTITION])
    with duckdb.connect() as connection:
        connection.register("expected", expected)
        connection.register("lake", lake)
        counts = f"""
            SELECT
                (SELECT count(*) - count(DISTINCT {table.number}) FROM lake) AS doubles,
                (SELECT count(*) FROM expected ANTI JOIN lake USING ({table.number})) AS missing,
                (SELECT count(*) FROM lake WHERE {table.number} > (SELECT max({table.number}) FROM expected)) AS newer
        """
        assert connection.execute(counts).fetchall() == [(0, 0, 0)], table.name
        columns = ", ".join(f'"{name}"' for name in expected.column_names)
        same = f"SELECT {columns} FROM lake SEMI JOIN expected USING ({table.number}) ORDER BY {table.number}"
        connection.execute("SET TimeZone = 'UTC'")
        assert connection.execute(same).fetchall() == connection.execute("FROM expected").fetchall(), table.name


def rows_as_one(store: Store, place: Place) -> dict[str, pa.Table]:
    """Return the rows of each table from which traces move, by number: those here and those in the lake alone.

    This is what readers see; it says the same before, while and after traces move.
    """
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for table in MOVED:
            with store._database.cursor() as cursor:
                hot = cursor.execute(f"FROM {table.name}").to_arrow_table()
            expected = delta_rows(table, hot, directory_id="", today=dt.date.min).drop_columns([DIRECTORY, PARTITION])
            connection.register(f"hot_{table.name}", expected)
            connection.register(f"all_{table.name}", place.rows(table.name))
        with store._database.cursor() as cursor:
            connection.register("boundary", cursor.execute("FROM lake_boundary").to_arrow_table())
            connection.register("removal", cursor.execute("FROM lake_removal").to_arrow_table())
        connection.execute(_VISIBLE)
        whole = {}
        for table in MOVED:
            columns = ", ".join(f'"{name}"' for name in connection.table(f"hot_{table.name}").columns)
            union = f"FROM hot_{table.name} UNION ALL SELECT {columns} FROM cold_{table.name}"
            whole[table.name] = connection.execute(f"FROM ({union}) ORDER BY {table.number}").to_arrow_table()
            numbers = whole[table.name].column(table.number)
            assert len(numbers.unique()) == len(numbers), table.name
        return whole


MOVED = tuple(table for table in LAKE_TABLES if table.moves)
_VISIBLE = (
    "".join(
        f"""
    CREATE VIEW lake_{table.name} AS
    SELECT l.* FROM all_{table.name} AS l ANTI JOIN removal AS r ON r.tenant = l.tenant AND r.trace_id = l.trace_id;
    """
        for table in MOVED
        if table.name not in {"decision", "superseded"}
    )
    + """
    CREATE VIEW lake_superseded AS FROM all_superseded;
    CREATE VIEW lake_decision AS
    SELECT d.* FROM all_decision AS d
    ANTI JOIN (SELECT seq FROM all_span SEMI JOIN removal USING (tenant, trace_id)) AS s ON s.seq = d.seq;
    """
    + "".join(
        f"""
    CREATE VIEW cold_{table} AS
    SELECT l.* FROM lake_{table} AS l JOIN boundary AS b USING (directory_id)
    ANTI JOIN (SELECT {key} AS key FROM hot_{table} WHERE batch < (SELECT max(first_batch) FROM boundary)) AS h
        ON h.key = l.{key}
    WHERE l.batch < b.first_batch;
    """
        for table, key in (("log_record", "write_number"), ("trace_part", "write_number"), ("span", "seq"))
    )
    + "".join(
        f"""
    CREATE VIEW cold_{table} AS
    SELECT l.* FROM lake_{table} AS l JOIN boundary AS b USING (directory_id)
    ANTI JOIN (SELECT seq FROM hot_span WHERE batch < (SELECT max(first_batch) FROM boundary)) AS s ON s.seq = l.seq
    ANTI JOIN (SELECT {number} AS number FROM hot_{table}) AS h ON h.number = l.{number}
    WHERE l.seq < b.first_seq;
    """
        for table, number in (("decision", "write_number"), ("evaluation", "number"))
    )
    + """
    CREATE VIEW cold_superseded AS
    SELECT l.* FROM lake_superseded AS l
    SEMI JOIN cold_evaluation AS e ON e.job_id = l.job_id AND e.directory_id = l.directory_id
    ANTI JOIN hot_superseded AS h ON h.write_number = l.write_number;
    """
    + "".join(
        f"""
    CREATE VIEW cold_{table} AS
    SELECT l.* FROM lake_{table} AS l
    SEMI JOIN cold_trace_part AS p
        ON p.directory_id = l.directory_id AND p.tenant = l.tenant AND p.trace_id = l.trace_id
    ANTI JOIN hot_trace_part AS h
        ON h.tenant = l.tenant AND h.trace_id = l.trace_id AND h.write_number < l.write_number;
    """
        for table in ("trace_reading", "tool_call")
    )
)
