"""DuckDB attaches over its own protocol: visible views, refused statements, and clients that disconnect."""

import asyncio
import os
import re
import signal
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pyarrow as pa
import pytest

from collector.app import running
from collector.quack.clients import ClientConnection, Clients, connections, left
from collector.settings import Settings
from storage import sql
from storage.engine.opening import extension
from storage.errors import Unusable
from storage.query.quack import Quack, QuackOptions, _QuackSession
from tests.access import OPERATOR_KEY, Closed, a_closed_server
from tests.attacks import ATTACKS, HIDDEN, LETHAL
from tests.live import ANY_PORTS, PATIENCE_S, Live, a_live_server, held_cursors, until
from tests.quack_client import Client, a_client
from tests.serving import ANY_PORT, PROTOBUF, a_server, an_export, unused_port
from tests.source_tree import ROOT
from tests.storing import trace_id

pytestmark = pytest.mark.costly(
    "collector/access", "collector/children", "collector/listeners", "collector/quack", "storage"
)

ENDLESS = "SELECT count(*) FROM range(1000000000000) AS a, range(1000000) AS b WHERE a.range * b.range = 17"


def send(url: str, number: int) -> None:
    """Store a trace of two spans."""
    headers = {"content-type": PROTOBUF, "authorization": f"Bearer {OPERATOR_KEY}"}
    body = an_export(trace_id(number), "root", "step").SerializeToString()
    httpx.post(f"{url}/v1/traces", content=body, headers=headers, trust_env=False).raise_for_status()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    """Yield a server with keys and a trace."""
    with a_closed_server(Path(tmp_path_factory.mktemp("quack")), quack=ANY_PORT, sql_seconds=5) as closed:
        send(f"http://{closed.running.otlp_http}", 1)
        assert closed.running.store.wait_committed(PATIENCE_S)
        assert closed.running.traces.wait_idle(PATIENCE_S)
        yield closed


def attached(server: Closed, key: str) -> Any:
    """Return a client that shows a key of the server."""
    assert server.running.quack is not None
    return a_client(server.running.quack, server.keys.get(key, key))


@pytest.fixture(scope="module")
def client(server: Closed) -> Iterator[Client]:
    """Yield a DuckDB that has attached the server, with the key of a viewer."""
    with attached(server, "viewer") as one:
        assert "error" not in one.attached
        yield one


@pytest.mark.parametrize("view", sql.documented_views())
def test_views_are_the_same_over_every_door(server: Closed, client: Client, view: str) -> None:
    """An attached view has the columns, types and rows that SQL over HTTP has."""
    shown = server.ask("POST", "/api/v1/sql", key=server.keys["viewer"], json={"sql": f"FROM {view}"}).json()
    described = client.rows(f"DESCRIBE tj.{view}")
    assert [row[:2] for row in described] == [[column["name"], column["type"]] for column in shown["columns"]]
    assert len(client.rows(f"FROM tj.{view}")) == len(shown["rows"])
    reply = client.remotely(f"FROM {view}")
    assert (reply["types"], len(reply["rows"])) == ([column["type"] for column in shown["columns"]], len(shown["rows"]))


def test_a_client_computes_and_so_does_the_server(client: Client) -> None:
    """Attached views are joined with the client's own tables; a query passed as text runs on the server."""
    assert client.rows("SELECT name, attributes['input.value'] FROM tj.spans WHERE parent_span_id IS NULL") == [
        ["root", "asked root"]
    ]
    client.ask("CREATE TEMP TABLE wanted AS SELECT 'step' AS name")
    assert client.rows("SELECT count(*) FROM tj.spans JOIN wanted USING (name)") == [[1]]
    joined = "SELECT s.name, count(*) FROM traces AS t JOIN spans AS s USING (tenant, trace_id) GROUP BY ALL ORDER BY 1"
    assert client.remotely(joined)["rows"] == [["root", 1], ["step", 1]]
    odd = 'SELECT 1::HUGEINT AS "a""b", 2 AS "a""b", \'x\'\'y\' AS c, {\'x y\': [1.5]} AS d, NULL AS e'
    assert client.remotely(odd)["rows"] == [[1, 2, "x'y", {"x y": ["1.5"]}, None]]
    assert client.remotely("EXPLAIN SELECT 1")["rows"]


def test_what_is_stored_is_seen_at_once(server: Closed, client: Client) -> None:
    """A client sees spans committed after it attached, also within a transaction of its own."""
    ((before,),) = client.rows("SELECT count(*) FROM tj.spans")
    client.ask("BEGIN")
    client.ask("SELECT count(*) FROM tj.spans")
    send(f"http://{server.running.otlp_http}", 2)
    assert server.running.store.wait_committed(PATIENCE_S)
    assert client.rows("SELECT count(*) FROM tj.spans") == [[before + 2]]
    client.ask("COMMIT")


VIEWS = sorted(sql.documented_views())
DASHBOARDS = (ROOT / "docs" / "dashboards.md").read_text(encoding="utf-8")
AS_VIEWS = re.findall(r"^CREATE VIEW .*;$", DASHBOARDS, re.MULTILINE)
"""The statements in the docs for programs that list tables first."""


def test_the_server_tells_what_there_is(client: Client) -> None:
    """Asked there, the catalog lists the views, each with its columns, in every way that DuckDB has for it."""
    assert [row[0] for row in client.remotely("SHOW TABLES")["rows"]] == VIEWS
    shown = {row[2]: row[3] for row in client.remotely("SHOW ALL TABLES")["rows"]}
    assert sorted(shown) == VIEWS
    tables = "SELECT table_name FROM information_schema.tables ORDER BY 1"
    assert [row[0] for row in client.remotely(tables)["rows"]] == VIEWS
    columns = "SELECT table_name, column_name FROM information_schema.columns ORDER BY table_name, ordinal_position"
    listed = client.remotely(columns)["rows"]
    for view in VIEWS:
        described = [row[0] for row in client.remotely(f"DESCRIBE {view}")["rows"]]
        assert described == shown[view] == [column for table, column in listed if table == view]


def test_programs_that_look_for_tables_find_the_views(server: Closed) -> None:
    """With the statements of the docs the client's own catalog lists the views, as drivers ask it."""
    jdbc_tables = """
        SELECT table_name FROM (
            SELECT database_name AS table_catalog, table_name, 'TABLE' AS table_type FROM duckdb_tables()
            UNION ALL
            SELECT database_name, view_name, CASE WHEN internal THEN 'SYSTEM VIEW' ELSE 'VIEW' END FROM duckdb_views()
        ) WHERE table_name LIKE '%' ESCAPE '\\' AND table_type IN ('TABLE', 'VIEW') ORDER BY ALL
    """
    jdbc_columns = "SELECT table_name, column_name, data_type FROM duckdb_columns() AS c WHERE NOT internal"
    sqlalchemy = "SELECT table_name FROM information_schema.tables WHERE table_type = 'VIEW' ORDER BY ALL"
    with attached(server, "viewer") as one:
        for statement in AS_VIEWS:
            assert "error" not in one.ask(statement)
        for query in ("SELECT name FROM (SHOW ALL TABLES) ORDER BY ALL", jdbc_tables, sqlalchemy):
            assert [row[0] for row in one.rows(query)] == VIEWS
        described = {(view, *row[:2]) for view in VIEWS for row in one.rows(f"DESCRIBE tj.{view}")}
        assert {tuple(row) for row in one.rows(jdbc_columns)} == described
        standard = "SELECT table_name, column_name, data_type FROM information_schema.columns"
        assert {tuple(row) for row in one.rows(standard)} == described
        assert one.rows("SELECT DISTINCT name FROM spans WHERE parent_span_id IS NULL") == [["root"]]
        assert one.remotely("SELECT version()")["rows"] == [[f"v{duckdb.__version__}"]]


def test_the_client_lists_no_attached_tables_by_itself(client: Client) -> None:
    """DuckDB's extension does not list them; if this fails, it has begun to, and the docs need no statements."""
    assert client.rows("FROM (SHOW ALL TABLES) WHERE database = 'tj'") == []
    assert client.rows("SELECT * FROM information_schema.tables WHERE table_catalog = 'tj'") == []


HARMLESS = {
    *("BEGIN", "COMMIT", "ROLLBACK"),
    *("FROM duckdb_tables()", "FROM duckdb_views", "SHOW TABLES", "SHOW ALL TABLES"),
}
"""Of the attacks those that are answered: there is no transaction here, and no table but those that stand for views."""


def test_no_attack_comes_through_any_door(server: Closed, client: Client) -> None:
    """Nothing that writes, touches files, settings or secrets, has effects or is hidden is answered over any door."""
    before = client.rows("SELECT count(*), max(received_at) FROM tj.spans")
    over_quack = {text: client.remotely(text) for text in [*ATTACKS, *LETHAL, *HIDDEN]}
    assert {text for text, answer in over_quack.items() if "error" not in answer} == HARMLESS
    assert "api_key" not in str([over_quack[text] for text in HARMLESS])
    over_http = {
        text: server.ask("POST", "/api/v1/sql", key=server.keys["viewer"], json={"sql": text}).status_code
        for text in [*ATTACKS, *LETHAL]
    }
    assert {text: status for text, status in over_http.items() if status != 400} == {}
    assert client.rows("SELECT count(*), max(received_at) FROM tj.spans") == before


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO tj.spans (name) VALUES ('x')",
        "INSERT INTO tj.spans FROM tj.spans",
        "CREATE TABLE tj.x AS SELECT 1",
        "CREATE TABLE tj.x (i INTEGER)",
        "CREATE VIEW tj.x AS SELECT 1",
        "CREATE SCHEMA tj.x",
        "DROP TABLE tj.spans",
        "ALTER TABLE tj.spans ADD COLUMN x INTEGER",
        "DELETE FROM tj.spans",
        "UPDATE tj.spans SET name = 'x'",
        "FROM tj.query('FROM quack_stop(''quack:127.0.0.1:9494'')')",
        "FROM tj.query('FROM quack_active_connections()')",
        "FROM tj.query('SELECT tracejury_admit(''a'', ''b'', ''c'') FROM duckdb_tables()')",
        "FROM tj.query('SELECT tracejury_answer(''a'', ''b'') FROM duckdb_tables()')",
        "FROM tj.query('SELECT write_log(''x'') FROM duckdb_tables()')",
        "FROM tj.query('FROM duckdb_tables(), read_parquet(''*'')')",
        "FROM tj.query('SET quack_authorization_function = ''quack_nop_authorization''')",
    ],
)
def test_attached_views_cannot_be_changed(client: Client, statement: str) -> None:
    """Changes to the attached database are refused, and so are changes to the process that serves it."""
    assert "error" in client.ask(statement)
    assert "rows" in client.ask("SELECT count(*) FROM tj.spans")


@pytest.mark.parametrize("role", ["operator", "viewer", "editor", "admin"])
def test_keys_that_read_attach(server: Closed, role: str) -> None:
    """A key that may read everything sees the views, and an administrator's no more than these."""
    with attached(server, role) as one:
        assert "rows" in one.ask("SELECT count(*) FROM tj.traces")
        assert "documented views" in one.remotely("FROM api_key")["error"]


@pytest.mark.parametrize(
    "key, message",
    [
        ("ingest", "a key with the role INGEST may not do this"),
        ("viewer of acme", "this is not for keys with a tenant"),
        ("admin of acme", "this is not for keys with a tenant"),
        ("no-key-of-this-server", "Authentication failed"),
        ("k\u00fc\n", "Authentication failed"),
    ],
)
def test_other_keys_are_told_why_not(server: Closed, key: str, message: str) -> None:
    """A key that may not read, or not everything, sees nothing, and learns the reason if there is such a key."""
    with attached(server, key) as one:
        assert message in (one.ask("FROM tj.traces") if "error" not in one.attached else one.attached)["error"]


def test_a_key_that_is_gone_reads_nothing(server: Closed) -> None:
    """A client that is attached already is refused from the moment on that its key is disabled."""
    made = server.ask("POST", "/api/v1/api-keys", key=OPERATOR_KEY, json={"name": "q", "role": "VIEWER"}).json()
    with attached(server, made["key"]) as one:
        assert "rows" in one.ask("SELECT count(*) FROM tj.spans")
        server.ask("POST", f"/api/v1/api-keys/{made['id']}/disable", key=OPERATOR_KEY)
        assert "Invalid or missing API key" in one.ask("SELECT count(*) FROM tj.spans")["error"]


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Closed]:
    """Yield a server that lets a query take longer than any test waits, and runs two of one key at the same time."""
    with a_closed_server(tmp_path, quack=ANY_PORT, sql_seconds=3600, sql_at_once=3) as closed:
        yield closed


def test_the_query_of_a_client_that_is_killed_ends(patient: Closed) -> None:
    """Long before its time is over, the query stops and gives its turn to others."""
    database = patient.running.store._database
    with attached(patient, "viewer") as one, attached(patient, "viewer") as two, attached(patient, "viewer") as other:
        for client in (one, two):
            client.begin(f"FROM tj.query('{ENDLESS}')")
        until(lambda: held_cursors(database), lambda cursors: cursors == 2)
        one.process.kill()
        two.process.kill()
        assert other.remotely("SELECT count(*) FROM spans")["rows"] == [[0]]
        until(lambda: len(database._cursors), lambda cursors: cursors == 0)


def test_who_leaves_while_waiting_waits_no_longer(patient: Closed) -> None:
    """Over both doors: the place in the queue is free as soon as the client is gone, and not when its turn comes."""
    turns = patient.running.context.turns
    with attached(patient, "viewer") as one, attached(patient, "viewer") as two, attached(patient, "viewer") as third:
        for client in (one, two):
            client.begin(f"FROM tj.query('{ENDLESS}')")
        until(lambda: held_cursors(patient.running.store._database), lambda cursors: cursors == 2)
        third.begin("FROM tj.query('SELECT 1')")
        until(lambda: len(turns._waiting), lambda waiting: waiting == 1)
        url, headers = (
            f"http://{patient.running.http}/api/v1/sql",
            {"authorization": f"Bearer {patient.keys['viewer']}"},
        )
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(url, json={"sql": "SELECT 1"}, headers=headers, timeout=1, trust_env=False)
        until(lambda: len(turns._waiting), lambda waiting: waiting == 1)
        third.process.kill()
        until(lambda: len(turns._waiting), lambda waiting: waiting == 0)
        until(lambda: held_cursors(patient.running.store._database), lambda cursors: cursors == 2)


def test_the_query_of_another_client_goes_on(patient: Closed) -> None:
    """If one of two clients that query at the same time is killed, the other still gets its answer."""
    database = patient.running.store._database
    with attached(patient, "viewer") as one, attached(patient, "viewer") as other:
        pairs = "SELECT count(*) FROM range(24000) AS a, range(24000) AS b WHERE a.range < b.range"
        other.begin(f"FROM tj.query('{pairs}')")
        until(lambda: held_cursors(database), lambda cursors: cursors == 1)
        one.begin(f"FROM tj.query('{ENDLESS}')")
        until(lambda: held_cursors(database), lambda cursors: cursors == 2)
        one.process.kill()
        assert other.answer() == {"types": ["BIGINT"], "rows": [[23_999 * 24_000 // 2]]}
        until(lambda: len(database._cursors), lambda cursors: cursors == 0)


@pytest.mark.parametrize("address, linger_s", [("127.0.0.1", None), ("::1", None), ("127.0.0.1", 0)])
def test_a_connection_that_is_closed_in_any_way_is_seen(address: str, linger_s: int | None) -> None:
    """Over both versions of IP, ended as usual or, by a client that lingers for no time, reset."""
    gone = threading.Event()
    try:
        listening = socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
    except OSError as error:
        pytest.skip(f"this machine has no {address}: {error}")
    with listening as server:
        port = server.getsockname()[1]
        client = socket.create_connection((address, port))
        connection, _ = server.accept()
        with connection, Clients(port).watched(gone.set):
            assert [one.is_closed for one in connections(port).values()] == [False]
            if linger_s is not None:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, linger_s))
            client.close()
            assert gone.wait(PATIENCE_S)
    assert connections(port) == {}


def test_who_left_is_told_only_when_it_is_sure() -> None:
    """A query is abandoned once every connection that may be its own is closed, whatever other connections do."""
    open_, closed = ClientConnection(sent=0, is_closed=False), ClientConnection(sent=0, is_closed=True)
    assert left([{1: 0}, {2: 0}], {1: closed, 2: open_}) == [0]
    assert left([{1: 0, 2: 0}, {1: 0, 2: 0}], {1: closed, 2: open_}) == []  # either may be the one
    assert left([{1: 0, 2: 0}, {1: 0, 2: 0}], {1: closed, 2: closed}) == [0, 1]
    assert left([{1: 0, 2: 0, 3: 0}, {1: 0}, {1: 0, 2: 0}], {1: open_, 2: open_, 3: closed}) == [0]
    assert left([{1: 0, 2: 0}, {1: 0, 2: 0}, {1: 0, 2: 0, 3: 0}], {1: open_, 2: open_, 3: closed}) == [2]
    assert left([{1: 0, 2: 0}], {1: closed}) == [0]  # the second was answered, and let go
    assert left([{1: 0, 2: 7}], {1: closed, 2: ClientConnection(sent=8, is_closed=False)}) == [0]  # or it was answered
    assert left([{1: 0, 2: 7}], {1: closed, 2: ClientConnection(sent=7, is_closed=False)}) == []
    assert left([{}, {9: 0}], {1: closed}) == []
    assert left([{}, {1: 0, 2: 0}, {1: 0, 2: 0, 3: 0}], {1: open_, 2: open_, 3: closed}) == []
    possible = {1: 0, 2: 0}
    left([possible, {1: 0}], {1: open_, 2: open_})
    assert possible == {2: 0}


def test_a_query_ends_when_its_time_is_over(client: Client) -> None:
    """A client gets an error that its query took too long, and its next query is answered."""
    assert "it ran longer than 5.0 s (setting sql_seconds)" in client.remotely(ENDLESS)["error"]
    assert client.remotely("SELECT 7")["rows"] == [[7]]


def test_it_is_there_again_after_a_restart(tmp_path: Path) -> None:
    """A client attaches again after the server was started again, and after its process for Quack was killed."""
    address = f"127.0.0.1:{unused_port()}"
    env = {"TRACEJURY_API_KEY": OPERATOR_KEY, "TRACEJURY_QUACK": address}
    with a_live_server(tmp_path, flags=ANY_PORTS, env=env) as first:
        assert first.ready["quack"] == address
        send(first.otlp_http, 1)
        assert first.stop() == 0
    with (
        a_live_server(tmp_path, flags=ANY_PORTS, env=env, forked=False) as second,
        a_client(address, OPERATOR_KEY) as client,
    ):
        assert client.rows("SELECT count(*) FROM tj.spans") == [[2]]
        _kill_quack(second)
        until(lambda: _attaches(address), lambda works: works)
        assert "restarting it" in second.log


def test_it_is_there_again_once_its_folder_can_be_made(tmp_path: Path) -> None:
    """A start that the disk refuses is tried again, until it works."""
    address = f"127.0.0.1:{unused_port()}"
    env = {"TRACEJURY_API_KEY": OPERATOR_KEY, "TRACEJURY_QUACK": address}
    with a_live_server(tmp_path, flags=ANY_PORTS, env=env, forked=False) as server:
        folder = server.data / "quack"
        folder.rename(server.data / "moved")
        folder.touch()
        _kill_quack(server)
        until(lambda: server.log, lambda log: "Quack is not served: " in log)
        folder.unlink()
        until(lambda: _attaches(address), lambda works: works)


def _kill_quack(server: Live) -> None:
    tasks = Path(f"/proc/{server.process.pid}/task")
    pids = set[str]()
    for task in tasks.iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended meanwhile
            pids.update((task / "children").read_text().split())
    (quack,) = [pid for pid in pids if "collector.quack" in Path(f"/proc/{pid}/cmdline").read_text()]
    os.kill(int(quack), signal.SIGKILL)


def _attaches(address: str) -> bool:
    with a_client(address, OPERATOR_KEY) as client:
        return "error" not in client.attached


def test_without_any_key_nobody_attaches(tmp_path: Path) -> None:
    """A server that asks for no key cannot tell a page in a browser from a client, and answers neither."""
    with a_server(tmp_path, quack=ANY_PORT) as running:
        assert running.quack is not None
        with a_client(running.quack, "whatever") as client:
            assert "this server has none" in client.ask("FROM tj.traces")["error"]


def test_an_address_that_is_taken_is_named(server: Closed, tmp_path: Path) -> None:
    """A second server at the same address does not start, since the two would share the connections."""
    assert server.running.quack is not None
    addresses = {"grpc": ANY_PORT, "otlp_http": ANY_PORT, "http": ANY_PORT, "quack": server.running.quack}

    async def start() -> None:
        async with running(Settings.model_validate({"data": tmp_path, **addresses})):
            pass

    with pytest.raises(OSError, match=f"cannot listen on {server.running.quack}"):
        asyncio.run(start())


def test_a_missing_extension_is_named() -> None:
    """Without the wheel the server says which one to install."""
    with pytest.raises(Unusable, match=f"pip install duckdb-extension-nowhere=={duckdb.__version__}"):
        extension("nowhere", "quack")


class _Desk:
    """A handler that answers everything with many numbers."""

    def admit(self, _token: str) -> bool:
        """Everybody."""
        return True

    def batches(self, _token: str, _statement: str) -> Iterator[pa.RecordBatch]:
        """Ten thousand batches of numbers."""
        for number in range(10_000):
            yield pa.RecordBatch.from_pydict({"n": list(range(number * 100, number * 100 + 100))})


@pytest.fixture
def quack(tmp_path: Path) -> Quack:
    """Return one that does not listen and takes 64 KiB of an answer."""
    return Quack(
        QuackOptions(address=ANY_PORT, views={}, answers=tmp_path, answer_bytes=64 << 10, all_bytes=64 << 10), _Desk()
    )


def test_too_much_is_an_error_and_never_a_wrong_sum(quack: Quack) -> None:
    """Of an answer that is cut the beginning can be read, and reading on is an error."""
    quack._sessions["s"] = _QuackSession(token="t")
    select = quack._answer("s", "SELECT n FROM numbers")
    assert select is not None
    answer = select.rstrip().rstrip(";")
    assert quack._connection.execute(f"FROM ({answer}) LIMIT 3").fetchall() == [(0,), (1,), (2,)]
    with pytest.raises(duckdb.InvalidInputException, match=r"ask FROM tj\.query"):
        quack._connection.execute(f"SELECT sum(n) FROM ({answer})").fetchall()


def test_answers_are_bounded_on_the_disk_and_removed(quack: Quack, tmp_path: Path) -> None:
    """A session has one answer at a time, all answers together are bounded, and leftover files are removed."""
    quack._sessions |= {name: _QuackSession(token="t") for name in ("a", "b")}
    for _ in range(3):
        quack._answer("a", "SELECT 1")
        assert len(list(tmp_path.iterdir())) == 1
    assert "together take more than" in str(quack._answer("b", "SELECT 1"))
    quack.tidy()  # neither session is one of a client that is connected
    assert list(tmp_path.iterdir()) == []
    assert quack._answer("a", "SELECT 1") is None
