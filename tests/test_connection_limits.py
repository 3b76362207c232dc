"""Clients that open many connections, send without end, or are too slow: others are served all the while."""

import asyncio
import re
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.access.proxies import TrustedProxies
from collector.app import Running
from collector.listeners.client_calls import ClientCalls
from collector.listeners.closed_connections import ClosedConnections, Reason
from collector.listeners.connection_calls import ConnectionCalls
from collector.listeners.connection_limits import ConnectionLimits
from collector.listeners.otlp_grpc import OtlpGrpc
from collector.listeners.refused_addresses import RefusedAddresses
from collector.listeners.socket_filter import refuse
from collector.listeners.socket_guard import SocketGuard, guarded
from collector.machine import raise_open_files
from tests.access import OPERATOR_KEY, TRACE_EXPORT, call, request
from tests.http2 import PREFACE, headers, reset
from tests.live import PATIENCE_S, Live, a_live_server, until
from tests.quack_client import a_client
from tests.serving import PROTOBUF, a_server, unused_port
from tests.source_tree import ROOT

pytestmark = pytest.mark.costly(
    "collector/access", "collector/listeners", "collector/machine.py", "collector/quack", "storage/query"
)

IDLE = 1300
OPEN_FILES = ("prlimit", "--nofile=1024:1024")
LOG_BYTES = 10_000

ENOUGH = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
POST = b"POST /v1/traces HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-protobuf\r\n"
SQL = b"POST /api/v1/sql HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


def address(listener: str) -> tuple[str, int]:
    """Split the address of a listener."""
    host, _, port = listener.rpartition(":")
    return host, int(port)


def crowd(stack: ExitStack, listener: str, count: int, *, source: str = "127.0.0.2") -> list[socket.socket]:
    """Open connections from one address, which send nothing."""
    raise_open_files()  # those of the test are twice as many
    opened = []
    for _ in range(count):
        client = stack.enter_context(socket.socket())
        client.settimeout(PATIENCE_S)
        client.bind((source, 0))
        client.connect(address(listener))
        opened.append(client)
    return opened


def answer_to(client: socket.socket, *pieces: bytes) -> bytes:
    """Send pieces and return all that is answered until the server closes; a connection it resets ends with `reset`."""
    received = bytearray()
    try:
        for piece in pieces:
            client.sendall(piece)
        while data := client.recv(1 << 16):
            received += data
    except (BrokenPipeError, ConnectionResetError):
        received += b"reset"
    return bytes(received)


def answers(server: Live, listener: str) -> bool:
    """Ask a listener as a client does that knows nothing of the others."""
    if listener == "grpc":
        return call(server.grpc) is grpc.StatusCode.OK
    if listener == "otlp_http":
        headers = {"content-type": PROTOBUF}
        return request(f"{server.otlp_http}/v1/traces", "POST", content=b"", headers=headers).is_success
    return request(f"{server.http}/health").is_success


def cut_by(server: Live | Running, listener: str, reason: str) -> int:
    """Return how many connections a listener cut, as the metrics say."""
    headers = {"authorization": f"Bearer {OPERATOR_KEY}"}
    page = request(f"http://{server.http.removeprefix('http://')}/metrics", headers=headers).text
    name = f'tracejury_closed_connections_total{{listener="{listener}",reason="{reason}"}}'
    return next(int(float(line.split()[-1])) for line in page.splitlines() if line.startswith(name))


@pytest.mark.parametrize("listener", ["http", "otlp_http"])
def test_idle_connections_stop_nobody_else(tmp_path: Path, listener: str) -> None:
    """With 1,024 open files and 1,300 idle connections, all listeners answer others, and the log stays small."""
    with ExitStack() as stack, a_live_server(tmp_path / "data", before=OPEN_FILES) as server:
        before = len(server.log)
        crowd(stack, server.ready[listener], IDLE)
        for each in ("http", "otlp_http", "grpc"):
            assert answers(server, each)
        crowd(stack, server.ready[listener], IDLE, source="127.0.0.1")  # from the address of the others, too
        for each in ("http", "otlp_http", "grpc"):
            assert answers(server, each)
        assert len(server.log) - before < LOG_BYTES
        assert "the latest from 127.0.0.2: address_limit" in server.log
        until(lambda: server.log, lambda text: "connections_refused" in text)


@pytest.mark.parametrize("first_frame", [b"", PREFACE])
def test_idle_connections_leave_room_for_grpc(tmp_path: Path, first_frame: bytes) -> None:
    """With 1,024 open files and 1,300 idle connections, gRPC answers others, and the log stays small."""
    with ExitStack() as stack, a_live_server(tmp_path / "data", before=OPEN_FILES) as server:
        before = len(server.log)
        for source in ("127.0.0.2", "127.0.0.1"):
            for client in crowd(stack, server.grpc, IDLE, source=source):
                with suppress(OSError):  # of those that were closed at once
                    client.sendall(first_frame)
            until(lambda: call(server.grpc), lambda code: code is grpc.StatusCode.OK, within_s=10)
            for each in ("http", "otlp_http", "grpc"):
                assert answers(server, each)
        assert len(server.log) - before < LOG_BYTES


def test_idle_and_dripping_connections_leave_room_for_quack(tmp_path: Path) -> None:
    """With more idle connections than Quack has threads DuckDB attaches and reads; requests that drip are cut."""
    quack = f"127.0.0.1:{unused_port()}"
    with ExitStack() as stack, impatient(tmp_path / "data", api_key=OPERATOR_KEY, quack=quack) as server:
        crowd(stack, quack, 200)

        def has_rows() -> bool:
            with a_client(quack, OPERATOR_KEY) as client:
                return client.ask("SELECT count(*) FROM tj.spans").get("rows") == [[0]]

        assert until(has_rows, bool)
        assert until(lambda: cut_by(server, "quack", "address_limit"), bool)
        dripping = crowd(stack, quack, 20)

        def late() -> int:
            for client in dripping:
                with suppress(OSError):  # of those that were cut
                    client.sendall(b"POST /quack HTTP/1.1\r\nx: ")
            return cut_by(server, "quack", "header_timeout")

        assert until(late, bool)


def test_grpc_goes_on_after_descriptors_ran_out(tmp_path: Path) -> None:
    """Without a descriptor for a connection gRPC refuses, which is counted and a condition; with one, it serves."""
    with ExitStack() as stack, a_live_server(tmp_path / "data") as server:
        process, before = server.process.pid, len(server.log)
        limits = resource.prlimit(process, resource.RLIMIT_NOFILE)
        lines = "/ready", "/metrics"
        assert all(server.client.get(server.http + path).is_success for path in lines)  # on a connection that stays
        has = max(int(each.name) for each in Path(f"/proc/{process}/fd").iterdir()) + 1
        resource.prlimit(process, resource.RLIMIT_NOFILE, (has, limits[1]))
        crowd(stack, server.grpc, 40)
        until(lambda: "connections_refused" in server.log, bool)
        resource.prlimit(process, resource.RLIMIT_NOFILE, limits)
        until(lambda: call(server.grpc), lambda code: code is grpc.StatusCode.OK)
        assert cut_by(server, "grpc", "no_descriptor") > 0
        assert len(server.log) - before < LOG_BYTES


def test_a_guard_closes_the_longest_silent_connections_of_its_port_only() -> None:
    """Of the connections of a port, those above the limits that were silent longest end; all other sockets stay."""
    with ExitStack() as stack:
        listening, other = (stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2))
        clients, served = [], []
        for place in (listening, other):
            for _ in range(6):
                clients.append(stack.enter_context(socket.create_connection(place.getsockname())))
                served.append(stack.enter_context(place.accept()[0]))
                time.sleep(0.01)
        clients[0].sendall(b"first")
        closed = ClosedConnections()
        guard = SocketGuard(
            listening.getsockname()[1],
            ConnectionLimits(per_address=4),
            TrustedProxies(),
            closed.of("grpc", ConnectionLimits()),
        )
        stack.callback(guard.close)
        before = set(Path("/proc/self/fd").iterdir())
        guard.close_excess()
        guard.close_excess()
        assert set(Path("/proc/self/fd").iterdir()) == before
        for client in clients:
            client.settimeout(0.05)
        ended = [number for number, client in enumerate(clients) if is_ended(client)]
        assert ended == [1, 2]
        assert closed.counts["grpc", Reason.ADDRESS_LIMIT] == 2


def test_a_guard_asks_clients_with_calls_to_leave() -> None:
    """A connection that had calls gets GOAWAY and a second to leave, one with a call under way stays, others end."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        calls, clients = ConnectionCalls(), []
        for _ in range(5):
            clients.append(stack.enter_context(socket.create_connection(listening.getsockname())))
            clients[-1].settimeout(0.05)
            stack.enter_context(listening.accept()[0])
            time.sleep(0.01)
        idle, busy = clients[:2]
        for client in (idle, busy):
            with calls.under_way(client.getsockname()):
                pass
        stack.enter_context(calls.under_way(busy.getsockname()))
        limits, port = ConnectionLimits(per_address=2), listening.getsockname()[1]
        guard = SocketGuard(port, limits, TrustedProxies(), ClosedConnections().of("grpc", limits), calls, goaway=True)
        stack.callback(guard.close)
        guard.close_excess()
        assert idle.recv(100) == bytes.fromhex("0000080700000000007fffffff00000000")  # GOAWAY, NO_ERROR
        assert [is_ended(client) for client in clients] == [False, False, True, True, False]

        def has_left() -> bool:
            guard.close_excess()
            return is_ended(idle)

        assert until(has_left, bool)
        assert not is_ended(busy)


def test_calls_go_on_beside_a_crowd_of_their_address(tmp_path: Path) -> None:
    """Clients of gRPC that share their address with very many connections get their answers without a retry."""
    with ExitStack() as stack, a_server(tmp_path / "data", max_connections_per_address=6) as server:
        exports: list[grpc.UnaryUnaryMultiCallable[bytes, bytes]] = []
        for _ in range(4):
            own = [("grpc.use_local_subchannel_pool", 1)]  # else they share one connection
            channel = stack.enter_context(grpc.insecure_channel(server.grpc, options=own))
            exports.append(channel.unary_unary(TRACE_EXPORT))
        for _ in range(6):
            for export in exports:
                assert export(b"", timeout=PATIENCE_S) == b""
            crowd(stack, server.grpc, 4, source="127.0.0.1")
            time.sleep(0.1)  # for the next check by the guard
        assert cut_by(server, "grpc", "address_limit")


@pytest.mark.parametrize("method", [TRACE_EXPORT, "/unknown/Method"])
def test_refused_calls_wait_and_others_do_not(tmp_path: Path, method: str) -> None:
    """Of 1,500 calls without a valid key most wait for their refusal, while a call with one is answered."""
    with ExitStack() as stack, a_server(tmp_path / "data", api_key=OPERATOR_KEY) as server:
        own = [("grpc.use_local_subchannel_pool", 1)]  # else they share one connection
        channels = [stack.enter_context(grpc.insecure_channel(server.grpc, options=own)) for _ in range(31)]
        refused: list[grpc.Future[bytes]] = []
        for channel in channels[1:]:
            wrong: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
            refused += [wrong.future(b"", metadata=(("authorization", "Bearer wrong"),)) for _ in range(50)]
        good: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channels[0].unary_unary(TRACE_EXPORT)
        assert good(b"", metadata=(("authorization", f"Bearer {OPERATOR_KEY}"),), timeout=PATIENCE_S) == b""
        expected = {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNIMPLEMENTED}
        answered = [each.code() for each in refused if each.done()]  # type: ignore[attr-defined] # a call is one, too
        assert set(answered) <= expected
        assert len(answered) < len(refused)


@pytest.mark.parametrize("key", [OPERATOR_KEY, "wrong"])
def test_an_address_that_leaves_its_calls_is_refused(tmp_path: Path, key: str) -> None:
    """An address that begins and leaves 500 calls loses its connections and gets no new one; others are answered."""
    with ExitStack() as stack, a_server(tmp_path / "data", api_key=OPERATOR_KEY) as server:
        both = crowd(stack, server.grpc, 2)
        calls = b"".join(headers(stream, key=key) + reset(stream) for stream in range(1, 1001, 2))
        assert answer_to(both[0], PREFACE + calls)  # until the server closes
        answer_to(both[1])
        assert until(lambda: cut_by(server, "grpc", "wasted_calls"), lambda count: count == 2)
        with socket.socket() as again:
            again.bind(("127.0.0.2", 0))
            again.settimeout(0.3)
            with pytest.raises(TimeoutError):
                again.connect(address(server.grpc))
        assert call(server.grpc, key=OPERATOR_KEY) is grpc.StatusCode.OK


def test_calls_past_their_deadline_refuse_no_empty_address(tmp_path: Path) -> None:
    """Of 1,000 calls with a deadline of 1 ns gRPC knows no address of some, and those are wasted by none."""
    with a_server(tmp_path / "data") as server:

        async def refused() -> list[str]:
            context = server.context
            door = OtlpGrpc(
                context.reader.ingest,
                context.authenticator,
                TrustedProxies(),
                ConnectionLimits(),
                lambda *_: None,
                max_message_bytes=1 << 20,
            )
            port = await door.start("127.0.0.1:0")
            with socket.create_connection(("127.0.0.1", port)) as client:
                calls = b"".join(headers(stream, key="", timeout="1n") for stream in range(1, 2001, 2))
                client.sendall(PREFACE + calls)
                for _ in range(20):
                    await asyncio.sleep(0.02)
            await door.stop(0)
            return list(door.calls.refused.now())

        assert set(asyncio.run(refused())) <= {"127.0.0.1"}


def test_limits_hold_after_a_fault_of_the_guard(caplog: pytest.LogCaptureFixture) -> None:
    """A text that is not an address among those refused is logged once, and connections above the limit are closed."""
    limits = ConnectionLimits(total=100, per_address=2)
    calls, port = ConnectionCalls(), unused_port()
    for _ in range(200):
        calls.refused.waste("no address")
    with ExitStack() as stack, socket.create_server(("127.0.0.1", port), backlog=50) as listening:
        with guarded(port, limits, TrustedProxies(), lambda *_: None, calls):
            clients = crowd(stack, f"127.0.0.1:{port}", 5)
            accepted = [listening.accept()[0] for _ in clients]
            ended = until(lambda: sum(_is_over(client) for client in clients), lambda count: count == 3)
        for one in accepted:
            one.close()
    assert ended == 3
    assert caplog.text.count("limits of connections do not hold") == 1


def _is_over(client: socket.socket) -> bool:
    client.settimeout(0.01)
    return is_ended(client)


def test_a_filter_of_the_kernel_knows_addresses_of_both_kinds() -> None:
    """A listening socket for both kinds gets no connection from an address that is refused, and all others."""
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listening:
        port = listening.getsockname()[1]

        def connects(source: str) -> bool:
            family = socket.AF_INET6 if ":" in source else socket.AF_INET
            with socket.socket(family) as client:
                client.bind((source, 0))
                client.settimeout(0.1)
                with suppress(TimeoutError):
                    client.connect(("::1" if ":" in source else "127.0.0.1", port))
                    return True
            return False

        many = [f"10.0.{number}.1" for number in range(100)]
        for refused in ([], ["127.0.0.2"], ["::1"], [*many, "127.0.0.2", "::2", "::1"], []):
            refuse(listening, refused)
            served = [source for source in ("127.0.0.1", "127.0.0.2", "::1") if connects(source)]
            assert served == [source for source in ("127.0.0.1", "127.0.0.2", "::1") if source not in refused]


def test_an_address_is_refused_for_its_waste_in_a_second() -> None:
    """Of two addresses the one with 101 wasted calls is refused, the one with 100 is not."""
    refused = RefusedAddresses()
    for _ in range(100):
        refused.waste("10.0.0.1")
        refused.waste("10.0.0.2")
    assert not refused.now()
    refused.waste("10.0.0.1")
    assert list(refused.now()) == ["10.0.0.1"]
    assert (refused.is_refused("10.0.0.1"), refused.is_refused("10.0.0.2")) == (True, False)


def test_an_address_is_refused_soon_after_the_host_has_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first refusal lasts ten seconds, whatever the clock says, and the next one twice as long."""
    clock_s = [5.0]
    monkeypatch.setattr("collector.listeners.refused_addresses.time", SimpleNamespace(monotonic=lambda: clock_s[0]))
    refused = RefusedAddresses()
    for lasts_s in (10, 20):
        for _ in range(101):
            refused.waste("10.0.0.1")
        for later_s, addresses in ((lasts_s - 1, ["10.0.0.1"]), (2, [])):
            clock_s[0] += later_s
            assert list(refused.now()) == addresses


def test_calls_of_one_key_leave_room_for_another(tmp_path: Path) -> None:
    """Beside 2,000 calls of a key whose messages do not come, one of another key is answered, and none is refused."""
    with ExitStack() as stack, a_server(tmp_path / "data", api_key=OPERATOR_KEY) as server:
        other = an_ingest_key(server)
        waiting = crowd(stack, server.grpc, 10)
        for client in waiting:
            client.sendall(PREFACE + b"".join(headers(stream, key=other) for stream in range(1, 401, 2)))
        for _ in range(3):
            assert call(server.grpc, key=OPERATOR_KEY) is grpc.StatusCode.OK
        assert not cut_by(server, "grpc", "wasted_calls")


def test_a_client_has_32_calls_at_a_time() -> None:
    """Of 33 calls of a client one waits until another has ended, while one of another client begins."""

    async def begun() -> list[str]:
        calls, order = ClientCalls(), []
        async with calls.turn("other"), AsyncExitStack() as held, asyncio.TaskGroup() as tasks:

            async def one(client: str) -> None:
                async with calls.turn(client):
                    order.append(client)

            for _ in range(31):
                await held.enter_async_context(calls.turn("many"))
            async with calls.turn("many"):
                tasks.create_task(one("many"))
                await tasks.create_task(one("few"))
                order.append("one ends")
        return order

    assert asyncio.run(begun()) == ["few", "one ends", "many"]


def an_ingest_key(server: Running) -> str:
    """Make a key that may send."""
    body = {"name": "other", "role": "INGEST"}
    made = request(f"http://{server.http}/api/v1/api-keys", "POST", json=body, key=OPERATOR_KEY)
    return str(made.raise_for_status().json()["key"])


def is_ended(client: socket.socket) -> bool:
    """Return whether the other side ended a connection that it sends nothing over."""
    try:
        return client.recv(1) == b""
    except TimeoutError:
        return False


@contextmanager
def impatient(data: Path, **settings: object) -> Iterator[Running]:
    """Start a server that waits for its clients for a second or two."""
    patience = {"first_byte_seconds": 1, "header_seconds": 2, "idle_seconds": 2}
    with a_server(data, **patience, **settings) as server:
        yield server


def test_a_header_without_end_is_refused(tmp_path: Path) -> None:
    """A header above the limit gets 431 or a closed connection, wherever in it the bytes are."""
    chunked = POST + b"transfer-encoding: chunked\r\n\r\n"
    growing = {
        "value": b"GET / HTTP/1.1\r\nx: " + b"a" * 10_000_000,
        "name": b"GET / HTTP/1.1\r\n" + b"a" * 10_000_000,
        "many": b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 1_000_000,
        "url": b"GET /" + b"a" * 10_000_000,
        "trailer": chunked + b"1\r\na\r\n0\r\nx: " + b"a" * 10_000_000,
        "extension": chunked + b"1;" + b"a" * 10_000_000,
    }
    with ExitStack() as stack, a_server(tmp_path / "data") as server:
        for what, sent in growing.items():
            (client,) = crowd(stack, server.otlp_http, 1)
            answer = answer_to(client, sent)
            assert answer.startswith((b"HTTP/1.1 431", b"reset")), (what, answer)
        assert cut_by(server, "otlp_http", "header_too_large") == len(growing)
        (client,) = crowd(stack, server.http, 1)
        just_enough = ENOUGH[:-2] + b"x: " + b"a" * 60_000 + b"\r\nconnection: close\r\n\r\n"
        assert b"200 OK" in answer_to(client, just_enough)


def test_a_header_above_the_limit_is_refused_with_the_limit(tmp_path: Path) -> None:
    """The answer names the limit, which is a setting, over gRPC too."""
    with ExitStack() as stack, a_server(tmp_path / "data", max_header_bytes=4096) as server:
        (client,) = crowd(stack, server.http, 1)
        assert b"larger than 4,096 bytes (setting max_header_bytes): send fewer" in answer_to(
            client, ENOUGH[:-2] + b"x: " + b"a" * 5000 + b"\r\n\r\n"
        )
        channel = stack.enter_context(grpc.insecure_channel(server.grpc))
        export: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(TRACE_EXPORT)
        with pytest.raises(grpc.RpcError, match=r"larger than 4,096 bytes \(setting max_header_bytes\)") as refused:
            export(b"", metadata=(("x", "a" * 5000),), timeout=PATIENCE_S)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert cut_by(server, "grpc", "header_too_large") == 1


SLOW = [
    ("http", b"", b"", "first_byte_timeout", b""),
    ("http", b"", b"\r\n", "first_byte_timeout", b""),
    ("http", ENOUGH[:-2], b"a: b\r\n", "header_timeout", b""),
    ("http", ENOUGH[:10], b"a", "header_timeout", b""),
    ("otlp_http", POST + b"content-length: 1000\r\n\r\n", b"a", "body_timeout", b"HTTP/1.1 408"),
    ("otlp_http", POST + b"transfer-encoding: chunked\r\n\r\n", b"1\r\na\r\n", "body_timeout", b"HTTP/1.1 408"),
    ("http", SQL + b"content-length: 1000\r\n\r\n", b" ", "body_timeout", b"HTTP/1.1 408"),
    (
        "http",
        SQL.replace(b"/api/v1/sql", b"/none") + b"content-length: 1000\r\n\r\n",
        b" ",
        "body_timeout",
        b"HTTP/1.1 404",
    ),
]


def test_clients_that_are_too_slow_are_cut(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Silence, a header that drips and a body that drips end the connection, counted and logged by their reason."""
    caplog.set_level("INFO")
    with ExitStack() as stack, impatient(tmp_path / "data") as server:
        clients = [crowd(stack, getattr(server, listener), 1)[0] for listener, *_ in SLOW]
        for client, (_, beginning, *_) in zip(clients, SLOW, strict=True):
            client.sendall(beginning)
            client.settimeout(0.02)
        received = [b""] * len(SLOW)
        open_ones = set(range(len(SLOW)))

        def all_are_cut() -> bool:
            for number in list(open_ones):
                try:
                    clients[number].sendall(SLOW[number][2])
                    while part := clients[number].recv(1 << 16):
                        received[number] += part
                    open_ones.remove(number)
                except TimeoutError:
                    continue
                except OSError:
                    open_ones.remove(number)
            return not open_ones

        assert until(all_are_cut, bool)
        for got, (_, beginning, _, _, answer) in zip(received, SLOW, strict=True):
            assert got.startswith(answer), beginning
        for listener, reason in {(listener, reason) for listener, _, _, reason, _ in SLOW}:
            expected = sum(each[0] == listener and each[3] == reason for each in SLOW)
            assert cut_by(server, listener, reason) == expected, (listener, reason)
            lines = [text for text in caplog.messages if f"the listener {listener} cut" in text and reason in text]
            assert len(lines) == 1, lines


def test_a_client_that_does_not_read_is_left(tmp_path: Path) -> None:
    """An answer that is not read holds its connection only as long as one may idle."""
    with ExitStack() as stack, impatient(tmp_path / "data") as server:
        client = stack.enter_context(socket.socket())
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(address(server.http))
        client.sendall(b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * 12)

        def is_left() -> bool:
            try:
                client.sendall(b"\r\n")
            except OSError:
                return True
            return False

        assert until(is_left, bool)
        assert cut_by(server, "http", "unread_answer") == 1


def test_pipelined_requests_are_bounded(tmp_path: Path) -> None:
    """Thousands of requests in one packet end the connection, and some get their answers in order."""
    with ExitStack() as stack, a_server(tmp_path / "data") as server:
        few, many, wrong = crowd(stack, server.http, 3)
        few.sendall(ENOUGH * 3 + ENOUGH.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
        assert answer_to(few).count(b"200 OK") == 4
        assert answer_to(many, ENOUGH * 10_000).count(b"200 OK") < 100
        assert answer_to(wrong, b"NONSENSE\r\n\r\n").startswith(b"HTTP/1.1 400")
        assert [cut_by(server, "http", reason) for reason in ("pipelined", "malformed")] == [1, 1]


def test_more_connections_close_the_oldest_idle_one(tmp_path: Path) -> None:
    """The longest idle connection of an address makes room; a busy one stays, as do those of other addresses."""
    with ExitStack() as stack, a_server(tmp_path / "data", max_connections_per_address=4) as server:
        (other,) = crowd(stack, server.http, 1, source="127.0.0.3")
        (busy,) = crowd(stack, server.http, 1)
        busy.sendall(b"POST /api/v1/sql HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n{")
        served = crowd(stack, server.http, 1)[0]
        served.sendall(ENOUGH)
        assert b"200 OK" in served.recv(1 << 16)
        silent = crowd(stack, server.http, 8)
        for client in silent[:6]:
            assert answer_to(client) in {b"", b"reset"}
        for client in (other, served, silent[-1]):
            client.sendall(ENOUGH)
            status = client.recv(1 << 16)
            assert b"200 OK" in status or b"200 OK" in client.recv(1 << 16)  # after the rest of an earlier answer
        busy.sendall(b'"sql": 1 }')
        assert busy.recv(1 << 16).startswith(b"HTTP/1.1 4")


def test_near_a_limit_connections_end_with_their_answer(tmp_path: Path) -> None:
    """An answer says that its connection closes while its address has nearly as many as it may; others keep theirs."""
    with ExitStack() as stack, a_server(tmp_path / "data", max_connections_per_address=8) as server:
        (other,) = crowd(stack, server.http, 1, source="127.0.0.3")
        few, *_ = crowd(stack, server.http, 7)
        few.sendall(ENOUGH)
        assert b"connection: close" not in few.recv(1 << 16)
        (last,) = crowd(stack, server.http, 1)
        assert b"connection: close" in answer_to(last, ENOUGH)
        other.sendall(ENOUGH)
        assert b"connection: close" not in other.recv(1 << 16)
        assert not cut_by(server, "http", "address_limit")


def test_a_trusted_proxy_may_have_more_connections(tmp_path: Path) -> None:
    """The limit of an address does not count for a trusted proxy, the limit of all does."""
    limits = {"max_connections_per_address": 4, "max_connections": 16, "trusted_proxies": ["127.0.0.2"]}
    with ExitStack() as stack, a_server(tmp_path / "data", **limits) as server:
        clients = crowd(stack, server.http, 20)
        for client in clients[:4]:
            assert answer_to(client) in {b"", b"reset"}
        for client in clients[4:]:
            client.sendall(ENOUGH)
            assert b"200 OK" in client.recv(1 << 16)


def test_the_documentation_lists_the_reasons() -> None:
    """The table of limits names each reason for which a connection is cut."""
    table = (ROOT / "docs" / "doors.md").read_text(encoding="utf-8").partition("| reason |")[2].partition("\n\n")[0]
    reasons = re.findall(r"\| `(\w+)` \|$", table, re.MULTILINE)
    assert sorted(reasons) == sorted(Reason)


def test_limits_follow_the_open_files() -> None:
    """With few descriptors all listeners together leave some, and no address gets all connections of a listener."""
    few = ConnectionLimits().within(1024)
    assert 3 * few.total < 1024 - 256
    assert few.per_address < few.total
    assert ConnectionLimits().within(1 << 20) == ConnectionLimits()
    assert ConnectionLimits().within(10).per_address >= 4


@given(st.integers(16, 100_000), st.integers(4, 100_000), st.integers(0, 1 << 20))
def test_limits_within_open_files_are_those_of_the_settings_or_lower(total: int, one: int, open_files: int) -> None:
    """Both are lowered together, to what the files allow and no less than sixteen, and neither is ever raised."""
    within = ConnectionLimits(total=total, per_address=one).within(open_files)
    assert within.total == min(total, max((open_files - 256) // 4, 16))
    assert within.per_address == min(one, within.total * 3 // 4)


def test_the_limit_of_open_files_is_raised(tmp_path: Path) -> None:
    """A server that is started with a low soft limit raises it as far as it may."""
    before = ("prlimit", "--nofile=512:4096")
    with a_live_server(tmp_path / "data", before=before) as server:
        assert resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE) == (4096, 4096)
