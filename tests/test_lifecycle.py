"""The process: how it starts, the data on which it refuses to start, and how it ends."""

import json
import random
import signal
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import duckdb
import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from storage.engine.database import FILE_NAME
from tests import forking
from tests.access import request
from tests.live import ANY_PORTS, PATIENCE_S, TRACEJURY, Live, a_client, a_live_server, environment, until
from tests.serving import a_server, unused_port
from tests.traffic import DOORS, EXPORT_TRACES, Load, a_batch, over_grpc, over_http
from tests.wire import Connection


def refusal(
    *flags: object, env: Mapping[str, object] | None = None, ports: Sequence[str] = ANY_PORTS, code: int = 1
) -> str:
    """Start a server that must not start; return its error: one line, no stack trace."""
    command = [TRACEJURY, "serve", *ports, *(str(flag) for flag in flags)]
    ended = forking.run(command, env=environment(env), timeout=PATIENCE_S)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert "Traceback" not in ended.stderr
    return ended.stderr


@pytest.mark.costly(
    "collector/children",
    "collector/cli/serve.py",
    "collector/listeners",
    "collector/ingest.py",
    "collector/live",
    "collector/quack",
    "storage",
)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopping_under_load_loses_nothing(tmp_path: Path, seed: int, number: signal.Signals) -> None:
    """SIGTERM and Ctrl-C end the server with 0, and all that was acknowledged is in the database file."""
    with a_live_server(tmp_path / "data", forked=False) as server:
        with Load(server, seed, senders=6, spans=50) as load:
            time.sleep(1)
            assert server.stop(number) == 0
            sent = load.stop()
        assert "Traceback" not in server.log
    assert sent.counts["taken"] > 0
    with duckdb.connect(str(tmp_path / "data" / FILE_NAME), read_only=True) as database:
        stored = {span_id for (span_id,) in database.execute("SELECT span_id FROM span").fetchall()}
    assert set(sent.acknowledged) - stored == set()
    assert not (tmp_path / "data" / f"{FILE_NAME}.wal").exists()
    assert (tmp_path / "data" / "lock").read_text() == ""


def test_stopping_does_not_wait_for_stalled_senders(tmp_path: Path) -> None:
    """A sender that does not finish its request is cut off within the deadline, and spans of others are stored."""
    batch = a_batch(random.Random(), 30)
    env = {"TRACEJURY_SHUTDOWN_SECONDS": 3, "TRACEJURY_COMMIT_INTERVAL_MS": 10_000}
    with a_live_server(tmp_path / "data", env=env) as server, ExitStack() as stack:
        stalled = [
            stack.enter_context(Connection(server.ready["otlp_http"])),
            stack.enter_context(Connection(server.ready["http"], path="/api/v1/traces")),
        ]
        for connection in stalled:
            connection.send_part(batch.body, 10)
        stack.enter_context(Connection(server.ready["otlp_http"]))  # idle
        channel = stack.enter_context(grpc.insecure_channel(server.grpc))
        with over_grpc(server) as call, over_http(server) as http:
            assert call(batch.body).kind == http(batch.body).kind == "taken"
        assert server.tally().committed == 0
        let_go = threading.Event()
        stack.callback(let_go.set)
        hanging: grpc.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary(EXPORT_TRACES)
        call_under_way = hanging.future(_nothing_until(let_go), timeout=PATIENCE_S)
        assert server.stop() == 0  # they stall for as long as the test runs
        # A client that was cut off learns, or may guess, that it may retry.
        assert {connection.reply().status for connection in stalled} == {503}
        assert call_under_way.code() in {grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE}
        assert "Traceback" not in server.log
    with a_live_server(tmp_path / "data") as server:
        assert (server.tally().stored, server.tally().already_present) == (30, 30)


def _nothing_until(let_go: threading.Event) -> Iterator[bytes]:
    let_go.wait()
    yield b""


def test_a_stopping_server_takes_no_more(tmp_path: Path) -> None:
    """After its end nothing listens any more, and the port can be used again at once."""
    ports = [f"127.0.0.1:{unused_port()}" for _ in range(3)]
    flags = ["--grpc", ports[0], "--otlp-http", ports[1], "--http", ports[2]]
    for _ in range(2):
        with a_live_server(tmp_path / "data", flags=flags) as server:
            assert [server.ready[name] for name in ("grpc", "otlp_http", "http")] == ports
            batch = a_batch(random.Random(), 5)
            for door in DOORS.values():
                with door(server) as send:
                    assert send(batch.body).kind == "taken"
            assert server.stop() == 0
            for address in ports:
                with pytest.raises(ConnectionRefusedError), Connection(address):
                    pass


def test_a_second_server_is_refused(tmp_path: Path) -> None:
    """A data directory that is in use is refused with a message that names it and the holder, who is not disturbed."""
    with a_live_server(tmp_path / "data") as server:
        error = refusal("--data", tmp_path / "data")
        for fact in (str(tmp_path / "data"), "in use", str(server.process.pid), server.http):
            assert fact in error
        with over_http(server) as send:
            assert send(a_batch(random.Random(), 1).body).kind == "taken"
        server.kill()
    with a_live_server(tmp_path / "data"):  # a lock does not outlive its holder
        pass


def test_of_two_servers_at_the_same_instant_one_wins(tmp_path: Path) -> None:
    """Two servers started together on one data directory: one becomes ready, the other one ends and says why."""
    for number in range(2):
        data = tmp_path / str(number)
        with Live(data, new=True) as one, Live(data, new=True) as other:
            ended = until(lambda: [s for s in (one, other) if s.process.poll() is not None], bool)
            (loser,) = ended
            winner = other if loser is one else one
            assert loser.process.returncode == 1
            assert "in use" in loser.log
            with over_http(winner.wait_ready()) as send:
                assert send(a_batch(random.Random(), 1).body).kind == "taken"


def test_of_two_servers_on_the_same_ports_one_wins(tmp_path: Path) -> None:
    """Two servers started together on the same addresses: one becomes ready, the other one ends and says why."""
    for number in range(2):
        ports = [f"127.0.0.1:{unused_port()}" for _ in range(3)]
        flags = ["--grpc", ports[0], "--otlp-http", ports[1], "--http", ports[2]]
        with Live(tmp_path / f"{number}a", flags=flags) as one, Live(tmp_path / f"{number}b", flags=flags) as other:
            ended = until(lambda: [s for s in (one, other) if s.process.poll() is not None], bool)
            (loser,) = ended
            winner = other if loser is one else one
            assert loser.process.returncode == 1
            assert "127.0.0.1:" in loser.log
            assert "Traceback" not in loser.log
            with over_grpc(winner.wait_ready()) as send:
                assert send(a_batch(random.Random(), 1).body).kind == "taken"


@pytest.mark.parametrize("door", ["--grpc", "--otlp-http", "--http"])
def test_a_port_in_use_is_said(tmp_path: Path, door: str) -> None:
    """An address with another listener is named, and the data directory is let go."""
    with socket.create_server(("127.0.0.1", 0)) as holder:
        taken = f"127.0.0.1:{holder.getsockname()[1]}"
        error = refusal("--data", tmp_path / "data", door, taken)
        assert taken in error
        assert "in use" in error


def test_an_address_that_is_not_ours_is_said(tmp_path: Path) -> None:
    """An address of another machine is named."""
    error = refusal("--data", tmp_path / "data", "--http", "192.0.2.1:8080")
    assert "192.0.2.1:8080" in error


def a_text_file(path: Path) -> None:
    """Not a database at all."""
    path.write_text("hello " * 10_000)


def an_empty_file(path: Path) -> None:
    """Not even a text."""
    path.write_bytes(b"\0" * 5000)


def a_foreign_database(path: Path) -> None:
    """Create a DuckDB file of another program."""
    with duckdb.connect(str(path)) as database:
        database.execute("CREATE TABLE orders (id INTEGER)")


def a_newer_schema(path: Path) -> None:
    """Create a file of ours with a future schema."""
    with a_live_server(path.parent) as server:
        assert server.stop() == 0
    with duckdb.connect(str(path)) as database:
        database.execute("INSERT INTO tracejury_schema VALUES (99, 'from the future', now()::TIMESTAMP)")


def half_a_database(path: Path) -> None:
    """Create a file of ours that lost its end."""
    with a_live_server(path.parent) as server, over_http(server) as send:
        assert send(a_batch(random.Random(), 5000).body).kind == "taken"
        assert server.stop() == 0
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


@pytest.mark.parametrize(
    "make, message",
    [
        (a_text_file, "not a DuckDB database"),
        (an_empty_file, "not a DuckDB database"),
        (a_foreign_database, "something else (tables: orders)"),
        (a_newer_schema, "schema 99"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_database_that_is_not_ours_is_refused(tmp_path: Path, make: object, message: str) -> None:
    """A foreign or newer file is refused with the reason, and is left unchanged."""
    assert callable(make)
    path = tmp_path / "data" / FILE_NAME
    path.parent.mkdir()
    make(path)
    before = path.read_bytes()
    error = refusal("--data", path.parent)
    assert str(path) in error
    assert message in error
    assert path.read_bytes() == before


def test_a_damaged_database_is_refused_with_its_name(tmp_path: Path) -> None:
    """A database file that lost its end is refused with a message that names it."""
    path = tmp_path / "data" / FILE_NAME
    path.parent.mkdir()
    half_a_database(path)
    error = refusal("--data", path.parent)
    assert str(path) in error


def test_a_data_directory_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    """If the data directory cannot be created, the message names it."""
    (tmp_path / "file").write_text("in the way")
    error = refusal(env={"TRACEJURY_DATA": tmp_path / "file" / "data"})
    assert str(tmp_path / "file" / "data") in error


@pytest.mark.parametrize(
    "env, yaml, named",
    [
        ({"TRACEJURY_QUEUE_BYTE": "5"}, "", "TRACEJURY_QUEUE_BYTE"),
        ({"TRACEJURY_GRPC": "4317"}, "", "TRACEJURY_GRPC"),
        ({}, "retention: 3\n", "retention"),
        ({}, "commit_interval_ms: soon\n", "commit_interval_ms"),
        ({}, "- grpc\n", "config.yaml"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, env: dict[str, str], yaml: str, named: str) -> None:
    """An unknown key and an unusable value are refused by their names, wherever they were set."""
    config = tmp_path / "config.yaml"
    config.write_text(yaml)
    error = refusal("--config", config, "--data", tmp_path / "data", env=env, ports=())
    assert named in error
    assert not (tmp_path / "data").exists()


def test_a_wrong_flag_is_named(tmp_path: Path) -> None:
    """A flag with an unusable value is refused by its name, and so is a file of settings that does not exist."""
    assert "--otlp-http" in refusal("--otlp-http", "nowhere", ports=())
    assert "missing.yaml" in refusal("--config", tmp_path / "missing.yaml", ports=(), code=2)


def test_flags_beat_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    """Each setting is taken from the strongest place that has it."""
    config = tmp_path / "config.yaml"
    file, env, flag = (f"127.0.0.1:{unused_port()}" for _ in range(3))
    config.write_text(
        f"data: {tmp_path / 'data'}\ngrpc: {file}\notlp_http: {file}\nhttp: {file}\nretention_days: 5\nsql_rows: 2\n"
    )
    settings = {"TRACEJURY_OTLP_HTTP": env, "TRACEJURY_HTTP": env, "TRACEJURY_SQL_ROWS": 3}
    command = [TRACEJURY, "serve", "--config", str(config), "--http", flag]
    with forking.start(command, env=environment(settings), stdout=forking.PIPE, stderr=forking.PIPE) as server:
        assert server.stdout is not None
        ready = json.loads(server.stdout.readline())
        assert ready == {
            "event": "ready",
            "grpc": file,
            "otlp_http": env,
            "http": flag,
            "data": str(tmp_path / "data"),
        }
        with a_client() as client:
            question = {"sql": "FROM range(9)"}
            assert len(client.post(f"http://{flag}/api/v1/sql", json=question).json()["rows"]) == 3
        server.terminate()
        server.communicate(timeout=PATIENCE_S)
        assert server.returncode == 0


TIMES_NS = {
    "not set": 0,
    "the first": 1,
    "1990": 631_152_000 * 10**9,
    "2200": 7_258_118_400 * 10**9,
    "the last signed": 2**63 - 1,
    "the last but one signed": 2**63 - 2,
    "the first unsigned": 2**63,
    "the second unsigned": 2**63 + 1,
    "the third unsigned": 2**63 + 2,
    "in the middle of the unsigned": 2**63 + 2**62,
    "the last": 2**64 - 1,
}


@pytest.mark.costly("collector/access", "collector/api/traces", "collector/live", "collector/otlp", "storage")
def test_a_clock_gone_wrong_spoils_nothing(tmp_path: Path) -> None:
    """Spans of every time that the wire can carry are stored once, can be shown, and hide no others."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    pairs = [(start, end) for start in TIMES_NS.values() for end in (start, 0, 1, 2**63 - 1, 2**64 - 1)]
    for number, (start, end) in enumerate(pairs, start=1):
        span = spans.add(trace_id=number.to_bytes(16, "big"), span_id=number.to_bytes(8, "big"), name="strange")
        span.start_time_unix_nano, span.end_time_unix_nano = start, end
        span.events.add(name="event", time_unix_nano=start)
    ordinary = a_batch(random.Random(), 10)
    with a_live_server(tmp_path / "data") as server:
        for _ in range(2):
            with over_http(server) as http, over_grpc(server) as call:
                assert http(request.SerializeToString()).kind == call(ordinary.body).kind == "taken"
        tally = server.committed(2 * (len(pairs) + 10))
        assert (tally.stored, tally.already_present) == (len(pairs) + 10, len(pairs) + 10)
        for view in ("spans", "traces"):
            assert server.sql(f"SELECT count(*) FROM (FROM {view})")
            assert server.client.post(f"{server.http}/api/v1/sql", json={"sql": f"FROM {view}"}).status_code == 200
        pages = server.client.get(f"{server.http}/api/v1/traces", params={"size": 200})
        assert pages.status_code == 200
        assert len(pages.json()["content"]) == len(pairs) + 1
        shown = {
            pair: server.client.get(f"{server.http}/api/v1/traces/{number:032x}{suffix}").status_code
            for number, pair in enumerate(pairs, start=1)
            for suffix in ("", "/otlp")
        }
        assert {pair: status for pair, status in shown.items() if status != 200} == {}
        assert server.stop() == 0
    with a_live_server(tmp_path / "data") as server:
        assert server.tally().stored == len(pairs) + 10


def test_a_paused_server_goes_on(tmp_path: Path, seed: int) -> None:
    """A server that did not run for a while, as on a laptop that slept, answers what waited for it."""
    with a_live_server(tmp_path / "data") as server:
        with Load(server, seed, spans=5) as load:
            for _ in range(2):
                time.sleep(0.3)
                with server.paused():
                    time.sleep(0.6)
            time.sleep(0.3)
            sent = load.stop()
        assert sent.counts["taken"] > 0
        assert sent.counts["lost"] == 0
        assert server.committed(sent.counts["taken"]).stored == sent.counts["taken"]


def test_the_ready_line_is_all_that_is_printed(tmp_path: Path) -> None:
    """Standard output is one JSON line with the addresses, also when something went wrong on the way."""
    with a_live_server(tmp_path / "data") as server:
        assert server.ready.keys() == {"event", "grpc", "otlp_http", "http", "data"}
        assert server.client.get(f"{server.http}/health").status_code == 200
        assert server.client.get(f"{server.http}/ready").json() == {"status": "ready"}
        with over_http(server) as send, pytest.raises(AssertionError, match="400"):
            send(b"\xff" * 10)
        assert server.stop() == 0
        assert server.process.stdout is not None
        assert server.process.stdout.read() == b""


def test_an_interrupted_start_ends(tmp_path: Path, seed: int) -> None:
    """SIGTERM at any moment of a start ends the process, and the next start is none the worse for it."""
    source = random.Random(seed)
    for _ in range(2):
        with Live(tmp_path / "data", new=True) as server:
            time.sleep(source.uniform(0.1, 1.5))
            assert server.stop() in {0, -signal.SIGTERM}
    with a_live_server(tmp_path / "data") as server:
        assert server.tally().committed == 0


def test_a_request_that_outlasts_the_stop_is_told_to_come_again(tmp_path: Path) -> None:
    """A request cut off by the shutdown deadline is told to retry, and is not an internal error."""
    with ThreadPoolExecutor(1) as pool:
        with a_server(tmp_path / "data", shutdown_seconds=1) as server:
            server.store._writer.ask(lambda _: time.sleep(4), 0)
            rules = f"http://{server.http}/api/v1/projects/*/trace-eval-rules"
            pending = pool.submit(request, rules, "POST", json={"name": "a", "evaluator": "tool_error"})
            until(lambda: len(server.store._writer._backlog._write_tasks), bool)
        answer = pending.result(30)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert "the server stopped" in answer.json()["error"]
