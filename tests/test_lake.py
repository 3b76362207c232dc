"""The lake: each committed row exactly once, whatever is killed, and never a row that is silently left out."""

import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import duckdb
import httpx
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from pydantic import ValidationError

from collector.settings import Settings
from storage.errors import Unpublished
from storage.lake.tables import LAKE_TABLES, PARTITION, LakeTable, delta_rows, delta_schema
from tests.lake import BUCKET, CREDENTIALS, Place, a_place, compare, lake_status, publish_all
from tests.live import a_live_server, until
from tests.log_requests import MESSAGE, a_log, a_log_batch, a_log_export
from tests.matching import adding_up
from tests.serving import a_server, post, run, unused_port
from tests.statements import executed
from tests.storing import WAIT_S, a_batch, a_store, an_export, commit
from tests.traffic import Load

pytestmark = pytest.mark.costly("storage/lake", "storage/ingest", "storage/queries/lake", "collector/live/upkeep")

RULE = """
name: judged
conditions:
  - {field: name, op: contains, value: step}
evaluator: regex
config: {pattern: x}
"""
SECRET = "the-secret-of-the-lake"
SPAN = LAKE_TABLES[0]


@pytest.fixture(params=["file", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Yield a lake in a directory, and one in an object store."""
    with a_place(request.param, tmp_path / "place") as made:
        yield made


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Place]:
    """Yield a lake in a directory."""
    with a_place("file", tmp_path / "place") as made:
        yield made


def settings(place: Place, rules: Path) -> dict[str, object]:
    """Return the variables of a server that publishes."""
    lake = {"TRACEJURY_LAKE": place.uri, "TRACEJURY_LAKE_INTERVAL_SECONDS": 0.1, "TRACEJURY_RULES": rules}
    return place.env | lake


@pytest.mark.timeout(900)
@pytest.mark.kill("storage/lake", "collector/live/upkeep", "storage/ingest")
def test_kills_leave_each_row_in_the_lake_once(place: Place, tmp_path: Path, seed: int, kills: int) -> None:
    """After kill -9 of servers that publish, and of the store, the lake has the rows of the database, none twice."""
    source = random.Random(seed)
    (rules := tmp_path / "rules").mkdir()
    (rules / "judged.yaml").write_text(RULE, encoding="utf-8")
    for kill in range(kills):
        loses_store = place.store is not None and kill % 3 == 1
        with (
            a_live_server(tmp_path / "data", env=settings(place, rules)) as server,
            Load(server, source.randrange(1 << 32), spans=source.choice([1, 10, 100])) as load,
            Load(server, source.randrange(1 << 32), senders=1, logs=True) as logs,
        ):
            time.sleep(source.uniform(0.2, 2.0))
            if loses_store:
                place.kill_store()
                time.sleep(source.uniform(0.1, 1.0))
            server.kill()
            load.stop()
            logs.stop()
        if loses_store:
            place.start_store()
    with a_live_server(tmp_path / "data", env=settings(place, rules)) as server:
        until(lambda: server.sql("SELECT count(*) > 0 FROM evaluations"), lambda rows: rows == [[True]])
        assert server.stop() == 0
    with a_store(tmp_path / "data") as store:
        publish_all(store.lake(place.uri))
        counts = compare(store, place)
    assert (
        min(counts[name] for name in ("span", "log_record", "trace_part", "trace_reading", "decision", "evaluation"))
        > 0
    )


def test_what_changes_later_is_published_again(folder: Place, tmp_path: Path) -> None:
    """A log record that comes after its span was published changes the span in the lake, and the sums of its trace."""
    record = a_log(0, event_name=MESSAGE, body=AnyValue(string_value="hello"))
    with a_store(tmp_path / "data") as store, adding_up(store) as traces:
        lake = store.lake(folder.uri)
        commit(store, a_batch(an_export(20)))
        assert traces.wait_idle(WAIT_S)
        publish_all(lake)
        assert compare(store, folder)["span"] == folder.rows("span").num_rows == 20
        commit(store, a_log_batch(a_log_export(record)))
        assert traces.wait_idle(WAIT_S)
        publish_all(lake)
        assert compare(store, folder)["span"] == 20
        assert (folder.rows("span").num_rows, folder.rows("log_record").num_rows) == (21, 1)
        assert folder.rows("trace_reading").num_rows == 2


def test_an_older_state_of_a_directory_refuses_and_a_restored_one_has_its_own_name(
    folder: Place, tmp_path: Path
) -> None:
    """A database that was put back publishes nothing and says so; `restore` makes one that publishes all of it."""
    data = tmp_path / "data"
    with a_store(data) as store:
        commit(store, a_batch(an_export(10)))
        publish_all(store.lake(folder.uri))
    shutil.copytree(data, tmp_path / "older")
    assert run("backup", tmp_path / "backup", "--data", data).exit_code == 0
    with a_store(data) as store:
        commit(store, a_batch(an_export(10, trace=1, first=10)))
        publish_all(store.lake(folder.uri))
    with a_store(tmp_path / "older") as store:
        commit(store, a_batch(an_export(50, trace=2, first=100)))  # so that it has greater numbers than the lake
        with pytest.raises(Unpublished, match="older state of it"):
            store.lake(folder.uri).publish(SPAN)
    assert folder.rows("span").num_rows == 20
    assert run("restore", tmp_path / "backup", "--data", tmp_path / "new").exit_code == 0
    with a_store(tmp_path / "new") as store:
        publish_all(store.lake(folder.uri))
    published = folder.rows("span")
    assert (published.num_rows, len(published.column("directory_id").unique())) == (30, 2)


def test_of_two_directories_with_one_name_one_publishes(place: Place, tmp_path: Path) -> None:
    """Copies that publish at the same time from the same position: one commit succeeds, the other copy refuses."""
    with a_store(tmp_path / "one") as store:
        commit(store, a_batch(an_export(10)))
        publish_all(store.lake(place.uri))
        commit(store, a_batch(an_export(10, trace=1, first=10)))
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    with a_store(tmp_path / "one") as one, a_store(tmp_path / "two") as two:
        commit(two, a_batch(an_export(5, trace=2, first=100)))  # so that their next numbers differ
        barrier = threading.Barrier(2)

        def publish(lake: object) -> str:
            barrier.wait()
            try:
                lake.publish(SPAN)  # type: ignore[attr-defined]
            except Unpublished as error:
                return str(error)
            return ""

        lakes = [store.lake(place.uri) for store in (one, two)]
        with ThreadPoolExecutor(2) as pool:
            outcomes = list(pool.map(publish, lakes))
        assert sorted(map(bool, outcomes)) == [False, True]
        for _ in range(2):
            with pytest.raises(Unpublished, match="a copy of the directory publishes too"):
                lakes[outcomes.index(max(outcomes))].publish(SPAN)
    numbers = place.rows("span").column("write_number").to_pylist()
    assert len(numbers) == len(set(numbers))
    assert len(numbers) in {20, 25}


def test_a_server_goes_on_while_the_store_is_away(tmp_path: Path) -> None:
    """Without its store a server starts, stores and stops; its log and its metrics say that rows wait."""
    env = CREDENTIALS | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{unused_port()}", "AWS_ALLOW_HTTP": "true"}
    place = Place(uri=f"s3://{BUCKET}/away", env=env)
    (rules := tmp_path / "rules").mkdir()
    with a_live_server(tmp_path / "data", env=settings(place, rules)) as server:
        with Load(server, 1, senders=1, spans=10) as load:
            until(lambda: server.log, lambda log: "rows wait for the lake: s3://lake/away cannot be written now" in log)
            sent = load.stop()
        server.committed(len(sent.acknowledged))
        metrics = server.client.get(f"{server.http}/metrics").text
        assert "tracejury_lake_lag_seconds " in metrics
        assert "tracejury_lake_failures_total 0" not in metrics
        assert server.stop() == 0


def test_a_running_server_publishes(folder: Place, tmp_path: Path) -> None:
    """Rows are in the lake soon after their commit; metrics, API, page and command report its lag and size."""
    (rules := tmp_path / "rules").mkdir()
    with a_live_server(tmp_path / "data", env=settings(folder, rules)) as server:
        with Load(server, 1, senders=1, spans=10) as load:
            time.sleep(0.5)
            spans = len(load.stop().acknowledged)
        until(lambda: server.client.get(f"{server.http}/metrics").text, lambda text: _rows_text(spans) in text)
        lake = until(lambda: lake_status(server), lambda lake: lake["maintainedAt"] is not None)
        assert lake["rows"] >= spans
        assert (lake["waiting"], lake["movedBefore"], lake["lagSeconds"] < WAIT_S) == (None, None, True)
        page = server.client.get(f"{server.http}/status").text
        assert "nothing moved" in page.lower()
        assert "nothing moved" in run("status", "--server", server.http).output
        metrics = server.client.get(f"{server.http}/metrics").text
        assert f"tracejury_lake_files {lake['files']}.0" in metrics
        assert server.stop() == 0
    assert folder.rows("span").num_rows == spans


def test_an_idle_publisher_executes_nothing(folder: Place, tmp_path: Path) -> None:
    """At most one statement a second, in all threads, once all rows are published, and no further commit."""
    seconds = 2
    with a_server(tmp_path / "data", lake=folder.uri, lake_interval_seconds=0.1) as server:
        post(f"http://{server.otlp_http}/v1/traces", an_export(3).SerializeToString())
        assert server.store.wait_committed(WAIT_S)
        assert server.traces.wait_idle(WAIT_S)
        assert server.pipeline.matcher.wait_matched(WAIT_S)
        for attempt in range(10):  # some begin to look seconds after the start
            with executed() as texts:
                time.sleep(seconds)
            if len(texts) <= seconds:
                break
            assert attempt < 9, texts
        versions = [folder.table(table.name).version() for table in LAKE_TABLES]
        time.sleep(1)
        assert versions == [folder.table(table.name).version() for table in LAKE_TABLES]
    assert folder.rows("span").num_rows == 3


def _rows_text(spans: int) -> str:
    return f'tracejury_lake_rows_total{{table="span"}} {spans}.0'


def test_no_text_is_in_the_log_of_a_table(folder: Place, tmp_path: Path) -> None:
    """Delta's log holds bounds of numbers only, so that erasing the rows of a text erases the text."""
    with a_store(tmp_path / "data") as store:
        commit(store, a_batch(an_export(3, project=SECRET)))
        publish_all(store.lake(folder.uri))
    folder.table("span").create_checkpoint()
    logs = [file.read_bytes() for file in Path(folder.uri).glob("*/_delta_log/*") if file.is_file()]
    assert len(logs) > len(LAKE_TABLES)
    assert all(SECRET.encode() not in log for log in logs)
    assert any(b"minValues" in log and b"write_number" in log for log in logs)


def test_values_come_back_from_the_types_of_delta() -> None:
    """Greatest and least values of each type, nested ones too, are in the lake so that they can be restored."""
    columns = """
        18446744073709551615::UBIGINT AS ubig, 4294967295::UINTEGER AS uint, 65535::USMALLINT AS usmall,
        255::UTINYINT AS utiny, make_timestamp_ns(9223372036854775806) AS ns, make_timestamp_ns(1) AS first_ns,
        TIMESTAMP '2026-01-02 03:04:05.678901' AS received_at, MAP {'k': NULL, 'l': 'ß'} AS map,
        [{'time': make_timestamp_ns(7), 'count': 4294967295::UINTEGER, 'map': MAP {'a': 'b'}}] AS events,
        NULL::VARCHAR AS nothing, 1.5::DOUBLE AS number, true AS is_it, 1::BIGINT AS write_number
    """
    restored = """
        (ubig + if(ubig < 0, 18446744073709551616::HUGEINT, 0))::UBIGINT AS ubig, uint::UINTEGER AS uint,
        usmall::USMALLINT AS usmall, utiny::UTINYINT AS utiny, make_timestamp_ns(ns) AS ns,
        make_timestamp_ns(first_ns) AS first_ns, received_at::TIMESTAMP AS received_at, map,
        [{'time': make_timestamp_ns(e.time), 'count': e.count::UINTEGER, 'map': e.map} FOR e IN events] AS events,
        nothing, number, is_it, write_number
    """
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        stored = connection.execute(f"SELECT {columns}").to_arrow_table()
        table = LakeTable(name="span", time="received_at")
        rows = delta_rows(table, stored, directory_id="d", today=None)  # type: ignore[arg-type] # of no use here
        assert not any(pa.types.is_unsigned_integer(each.type) for each in rows.schema)
        assert str(rows.column(PARTITION)[0]) == "2026-01-02"
        connection.register("lake", rows)
        expected = connection.execute(f"SELECT {columns}").fetchall()
        assert connection.execute(f"SELECT {restored} FROM lake").fetchall() == expected


def test_a_table_of_an_older_version_gets_the_new_columns(folder: Place, tmp_path: Path) -> None:
    """Rows of a table in the lake that lacks a column have it from the next publication on."""
    with a_store(tmp_path / "data") as store:
        with store._database.cursor() as cursor:
            columns = delta_schema(cursor.execute("FROM span LIMIT 0").to_arrow_table().schema)
        older = columns.remove(columns.get_field_index("finish_reason"))
        DeltaTable.create(f"{folder.uri}/span", schema=older, partition_by=[PARTITION])
        commit(store, a_batch(an_export(3)))
        publish_all(store.lake(folder.uri))
        assert compare(store, folder)["span"] == 3


def test_a_store_whose_conditional_put_is_not_atomic_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that ignores If-None-Match is refused with the reason, before any row is published to it."""
    with a_place("s3", tmp_path / "place") as place, a_store(tmp_path / "data") as store:
        with a_proxy(place.env["AWS_ENDPOINT_URL"], drops_conditions=True) as (url, _):
            monkeypatch.setenv("AWS_ENDPOINT_URL", url)
            with pytest.raises(Unpublished, match=r"of 8 writers of the same log entry \d succeeded"):
                store.lake(place.uri).check()
        monkeypatch.setenv("AWS_ENDPOINT_URL", place.env["AWS_ENDPOINT_URL"])
        store.lake(place.uri).check()


def test_a_lost_response_to_a_commit_doubles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the response to the PUT of a log entry is lost, the position says that its rows are published."""
    commits = 6
    with (
        a_place("s3", tmp_path / "place") as place,
        a_store(tmp_path / "data") as store,
        a_proxy(place.env["AWS_ENDPOINT_URL"]) as (url, proxy),
    ):
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        lake = store.lake(place.uri)
        publish_all(lake)
        for trace in range(commits):
            commit(store, a_batch(an_export(10, trace=trace, first=10 * trace)))
            proxy.lost_responses = 1
            with suppress(Unpublished):
                lake.publish(SPAN)
            assert proxy.lost_responses == 0
        publish_all(lake)
        monkeypatch.setenv("AWS_ENDPOINT_URL", place.env["AWS_ENDPOINT_URL"])
        assert compare(store, place)["span"] == place.rows("span").num_rows == 10 * commits


@pytest.mark.parametrize("lake", ["http://bucket/prefix", "s3://", "lake", "s3://user@bucket/x"])
def test_a_lake_that_is_no_place_is_refused(lake: str) -> None:
    """A lake that is neither an absolute path nor a bucket is refused by the settings."""
    with pytest.raises(ValidationError, match=r"s3://BUCKET/PREFIX"):
        Settings(lake=lake)


def test_without_a_lake_its_package_is_not_loaded() -> None:
    """The server imports neither deltalake nor the publication."""
    check = (
        "import sys, collector.app; sys.exit('deltalake' in sys.modules or 'storage.lake.publishing' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


class _Proxy(BaseHTTPRequestHandler):
    """Passes requests on, with the faults of its server."""

    protocol_version = "HTTP/1.1"
    target = ""
    drops_conditions = False
    lost_responses = 0  # to PUT requests of log entries, from now on

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        dropped = {"host", "content-length", "connection"} | ({"if-none-match"} if self.drops_conditions else set())
        headers = {name: value for name, value in self.headers.items() if name.lower() not in dropped}
        answer = httpx.request(self.command, self.target + self.path, headers=headers, content=body, trust_env=False)
        if self.command == "PUT" and "_delta_log/" in self.path and self._loses_response(answer):
            self.close_connection = True
            return
        self.send_response(answer.status_code)
        for name in ("etag", "content-type", "content-range", "last-modified"):
            if name in answer.headers:
                self.send_header(name, answer.headers[name])
        self.send_header("content-length", str(len(answer.content) or answer.headers.get("content-length", 0)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.content)

    def _loses_response(self, answer: httpx.Response) -> bool:
        kind = type(self)
        if not answer.is_success or not kind.lost_responses:
            return False
        kind.lost_responses -= 1
        return True

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _pass_on  # noqa: N815 - the names are Python's

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def a_proxy(target: str, **faults: object) -> Iterator[tuple[str, type[_Proxy]]]:
    """Run a proxy in front of an object store; yield its URL, and its class, which has the faults."""
    handler = type("Handler", (_Proxy,), {"target": target, **faults})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", handler
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
