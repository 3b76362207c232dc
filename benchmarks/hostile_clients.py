"""Hostile clients of a soak, one of each kind, and the well-behaved clients beside them."""

from __future__ import annotations

import itertools
import json
import random
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import grpc
import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from benchmarks.senders import METHOD
from benchmarks.soak_clients import Client
from tests import quack_client
from tests.http2 import PREFACE, headers, reset

PROTOBUF: Final = {"content-type": "application/x-protobuf"}
REPEATED: Final = 20_000
CONNECTIONS: Final = 1_300  # more than the usual limit of open files
HOLD_S: Final = 20.0  # how long connections without a request stay open
HEADER_BYTES: Final = 10 << 20
LEAVING: Final = 30  # connections with 1,000 calls that are left at once
STOP_S: Final = 30.0  # a drip that is not ended by then is given up
HOSTILE: Final = "127.0.0.2"  # where floods of connections come from: what an address may open is a limit of each
MAX_INT: Final = 2**63 - 1

Request = Callable[[httpx.Client], httpx.Response | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Addresses of a server, and the keys of its clients."""

    api: str  # a URL
    otlp_http: str  # host:port, as the others
    grpc: str
    quack: str
    keys: Mapping[str, str]  # by role, those of the hostile clients under "hostile ROLE"

    def bearer(self, role: str) -> dict[str, str]:
        """Return the header that opens the server for a role."""
        return {"authorization": f"Bearer {self.keys[role]}"}

    @property
    def export_url(self) -> str:
        """Return the URL of OTLP over HTTP."""
        return f"http://{self.otlp_http}/v1/traces"


def well_behaved(target: Target) -> list[Client]:
    """List the clients that must not notice the others."""
    viewer, ingest = target.bearer("viewer"), target.bearer("ingest")
    sql = "SELECT name, count(*) FROM spans WHERE start_time > now()::TIMESTAMP - INTERVAL 1 HOUR GROUP BY name"
    call = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    return [
        Client("exporter, HTTP", 0.2, (_export(target, ingest, small_export(10)) for _ in itertools.count())),
        Client("exporter, gRPC", 0.5, _over_grpc(target, "ingest", lambda: small_export(64))),
        Client("exporter, new connection", 1.0, (_alone(_export(target, ingest, small_export(1))) for _ in _ever())),
        Client("ready, new connection", 1.0, (_alone(_get("/ready", {})) for _ in _ever())),
        Client("pages", 1.0, (_get(path, viewer) for path in itertools.cycle(("/", "/traces", "/sessions", "/rules")))),
        Client("dashboard", 2.0, (_post("/api/v1/sql", viewer, {"sql": sql}) for _ in _ever())),
        Client("traces over the API", 2.0, (_get("/api/v1/traces?size=20", viewer) for _ in _ever())),
        Client("MCP", 5.0, (_post("/mcp", viewer, call) for _ in _ever())),
    ]


def hostile(target: Target) -> list[Client]:
    """List the hostile clients. Each waits for its response before it goes on, as one client does."""
    ingest, viewer, editor = (target.bearer(f"hostile {role}") for role in ("ingest", "viewer", "editor"))
    return [
        Client("many resources", 5.0, (_export(target, ingest, body) for body in itertools.cycle(repeated()))),
        Client("many resources, gRPC", 5.0, _over_grpc(target, "hostile ingest", itertools.cycle(repeated()).__next__)),
        Client("extreme numbers", 5.0, (_export(target, ingest, extreme()) for _ in _ever())),
        Client("half a body", 2.0, (_raw(target.otlp_http, _half_body(target)) for _ in _ever())),
        Client("SQL that grows", 5.0, (_post("/api/v1/sql", viewer, {"sql": text}) for text in itertools.cycle(SQL))),
        Client("SQL text", 20.0, (_post("/api/v1/sql", viewer, {"sql": text}) for text in itertools.cycle(TEXTS))),
        Client("SQL over Quack", 5.0, _attached(target)),
        Client("idle connections, API", 60.0, (_idle(target.api.removeprefix("http://")) for _ in _ever())),
        Client("idle connections, OTLP", 60.0, (_idle(target.otlp_http) for _ in _ever())),
        Client("idle connections, gRPC", 60.0, (_idle(target.grpc) for _ in _ever())),
        Client("calls left at once, gRPC", 60.0, (_left_calls(target) for _ in _ever())),
        Client("long header", 20.0, (_raw(address, _long_header()) for address in itertools.cycle(_both(target)))),
        Client("dripped header", 5.0, (_drip(address) for address in itertools.cycle(_both(target)))),
        Client("wrong keys", 0.5, (_wrong_key() for _ in _ever())),
        Client("paused judge", 60.0, (_paused_run(editor, connection) for connection in itertools.cycle(JUDGES))),
        Client(
            "playground", 20.0, (_post("/api/v1/playground", editor, _asks(each)) for each in itertools.cycle(JUDGES))
        ),
        Client("patterns", 10.0, (_export(target, ingest, backtracking()) for _ in _ever())),
        Client("MCP, odd ids", 5.0, (_post("/mcp", viewer, body) for body in itertools.cycle(MCP))),
        Client("odd queries", 2.0, (_get(path, viewer) for path in itertools.cycle(QUERIES))),
        Client(
            "gone at once", 1.0, (_gone(target, viewer, path) for path in itertools.cycle(("/", "/traces", "/quality")))
        ),
    ]


JUDGES: Final = ("pausing", "dripping", "hanging", "large")
"""Connections of the server, each to a model that misbehaves in its own way."""
SQL: Final = (
    "SELECT length(replace(repeat('a', 1000000), 'a', repeat('b', 1000000)))",
    "SELECT length(repeat(repeat('abcdefgh', 100000), 10000))",
    "SELECT length(array_to_string(list_transform(range(1000000), x -> repeat('a', 10000)), ''))",
    "SELECT list_sum(list_transform(range(1000000), x -> list_sum(list_transform(range(1000000), y -> y * x))))",
    "SELECT length(regexp_replace(repeat('a', 1000000), '(a*)*b', repeat('c', 100000), 'g'))",
    (
        "WITH RECURSIVE t(s, n) AS (SELECT 'aaaaaaaa', 0 UNION ALL SELECT s || s, n + 1 FROM t WHERE n < 40) "
        "SELECT max(length(s)) FROM t"
    ),
    "SELECT string_agg(repeat('a', 1000), '') FROM range(100000000)",
    "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range * b.range = 7",
    "SELECT levenshtein(repeat('a', 100000), repeat('b', 100000))",
)
TEXTS: Final = ("/*" * 100_000, "SELECT " + "(" * 100_000, "SELECT " + "-" * 200_000, "'" * 200_001)
MCP: Final[tuple[object, ...]] = (
    {"jsonrpc": "2.0", "id": 1.5, "method": "ping"},
    {"jsonrpc": "2.0", "id": None, "method": "ping"},
    [{}] * 10_000,
)
QUERIES: Final = (
    f"/traces?limit={MAX_INT}",
    "/api/v1/traces?size=99999999999&page=99999999999",
    "/api/v1/quality?from=0001-01-01T00:00:00Z&to=9999-12-31T23:59:59Z",
    f"/jaeger/api/traces?service=x&limit={MAX_INT}&start=-{MAX_INT}&end={MAX_INT}",
    "/traces?q=" + "%25" * 2_000,
)


def _ever() -> Iterator[int]:
    return itertools.count()


def _both(target: Target) -> tuple[str, str]:
    return target.otlp_http, target.api.removeprefix("http://")


def _get(path: str, headers: Mapping[str, str]) -> Request:
    return lambda client: client.get(path, headers=dict(headers), follow_redirects=True)


def _post(path: str, headers: Mapping[str, str], body: object) -> Request:
    content = json.dumps(body)  # which escapes half a surrogate pair; httpx cannot encode it
    return lambda client: client.post(path, headers={"content-type": "application/json", **headers}, content=content)


def _export(target: Target, headers: Mapping[str, str], body: bytes) -> Request:
    return lambda client: client.post(target.export_url, headers={**PROTOBUF, **headers}, content=body)


def _alone(request: Request) -> Request:
    """Send a request on a connection of its own."""

    def send(client: httpx.Client) -> httpx.Response | None:
        with httpx.Client(base_url=client.base_url, timeout=client.timeout, trust_env=False) as fresh:
            return request(fresh)

    return send


def _over_grpc(target: Target, role: str, body: Callable[[], bytes]) -> Iterator[Request]:
    metadata = (("authorization", f"Bearer {target.keys[role]}"),)
    channel = grpc.insecure_channel(target.grpc, options=[("grpc.use_local_subchannel_pool", 1)])
    export: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)

    def send(_: httpx.Client) -> httpx.Response:
        try:
            export(body(), metadata=metadata, timeout=60)
        except grpc.RpcError as error:
            return httpx.Response(503, text=str(error), request=httpx.Request("POST", f"grpc://{target.grpc}"))
        return httpx.Response(200)

    while True:
        yield send


# Bodies of export requests


def _value(value: object) -> AnyValue:
    match value:
        case float():
            return AnyValue(double_value=value)
        case int():
            return AnyValue(int_value=value)
        case _:
            return AnyValue(string_value=str(value))


def small_export(spans: int, *, service: str = "behaved", **attributes: object) -> bytes:
    """Serialize a request with one trace of that many spans, which start now."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.append(KeyValue(key="service.name", value=_value(service)))
    scope, trace_id, start_ns = resource.scope_spans.add(), secrets.token_bytes(16), time.time_ns()
    for number in range(spans):
        span = scope.spans.add(trace_id=trace_id, span_id=secrets.token_bytes(8), name=f"step {number % 8}")
        span.start_time_unix_nano, span.end_time_unix_nano = start_ns, start_ns + 1_000_000
        span.attributes.extend(KeyValue(key=key, value=_value(value)) for key, value in attributes.items())
    return request.SerializeToString()


def repeated() -> list[bytes]:
    """Serialize requests that repeat one field each."""
    resources, scopes, keys = (ExportTraceServiceRequest() for _ in range(3))
    spans = scopes.resource_spans.add()
    for number in range(REPEATED):
        resource = resources.resource_spans.add()
        resource.resource.attributes.append(KeyValue(key="service.name", value=_value(f"service {number}")))
        spans.scope_spans.add().scope.name = f"scope {number}"
    keys.ParseFromString(small_export(1, service="keys", **{f"key {number}": number for number in range(REPEATED)}))
    empty = b"\x0a\x00" * REPEATED  # resource_spans without content
    shapes = ExportTraceServiceRequest()
    shapes.ParseFromString(small_export(REPEATED // 20, service="shapes"))
    for number, span in enumerate(shapes.resource_spans[0].scope_spans[0].spans):
        span.attributes.append(KeyValue(key=f"key {number}", value=_value(number)))
    return [*(each.SerializeToString() for each in (resources, scopes, keys, shapes)), empty]


def extreme() -> bytes:
    """Serialize a span with numbers and times at their extremes."""
    tokens = random.choice((MAX_INT, -MAX_INT - 1, 2**53 + 1, 1e308, float("nan"), float("inf")))
    keys = ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "llm.token_count.total", "gen_ai.usage.cost")
    request = ExportTraceServiceRequest()
    request.ParseFromString(
        small_export(2, service="extreme", **dict.fromkeys(keys, tokens), **{"session.id": "extreme"})
    )
    for span in request.resource_spans[0].scope_spans[0].spans:
        span.start_time_unix_nano, span.end_time_unix_nano = random.choice(
            ((2**64 - 1, 0), (0, 2**64 - 1), (time.time_ns(), 1), (2**63, 2**63 + 1))
        )
    return request.SerializeToString()


def backtracking() -> bytes:
    """Serialize a call of a tool with a pattern that takes an engine with backtracking exponential time."""
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    definitions = [{"type": "function", "name": "look", "parameters": schema}]
    return small_export(
        1,
        service="patterns",
        **{
            "gen_ai.operation.name": "execute_tool",
            "openinference.span.kind": "TOOL",
            "gen_ai.tool.name": "look",
            "gen_ai.tool.call.arguments": json.dumps({"a": "a" * 40 + "!"}),
            "gen_ai.tool.definitions": json.dumps(definitions),
        },
    )


# Connections


def _connected(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), STOP_S, (HOSTILE, 0))


def _raw(address: str, head: bytes) -> Request:
    """Send bytes, and leave."""

    def send(_: httpx.Client) -> None:
        try:
            with _connected(address) as connection:
                connection.sendall(head)
                connection.settimeout(1.0)
                connection.recv(1024)
        except OSError:
            pass

    return send


def _half_body(target: Target) -> bytes:
    head = f"POST /v1/traces HTTP/1.1\r\nhost: {target.otlp_http}\r\ncontent-type: application/x-protobuf\r\n"
    key = f"authorization: {target.bearer('hostile ingest')['authorization']}\r\ncontent-length: 1000000\r\n\r\n"
    return (head + key).encode() + bytes(500_000)


def _long_header() -> bytes:
    return b"GET /health HTTP/1.1\r\nhost: x\r\nx-long: " + b"a" * HEADER_BYTES


def _drip(address: str) -> Request:
    """Send a header byte by byte, until the server closes or for so long."""

    def send(_: httpx.Client) -> None:
        until_s = time.monotonic() + STOP_S
        try:
            with _connected(address) as connection:
                connection.sendall(b"GET /health HTTP/1.1\r\n")
                while time.monotonic() < until_s:
                    connection.sendall(b"x-a: b\r\n")
                    time.sleep(0.2)
        except OSError:
            pass

    return send


def _idle(address: str) -> Request:
    """Open connections, send nothing, and hold them."""

    def send(_: httpx.Client) -> None:
        connections: list[socket.socket] = []
        try:
            while len(connections) < CONNECTIONS:
                connections.append(_connected(address))
        except OSError:
            pass
        time.sleep(HOLD_S)
        for connection in connections:
            connection.close()

    return send


def _left_calls(target: Target) -> Request:
    """Begin calls over gRPC and leave them, over connections from another address, until they are closed."""
    calls = b"".join(headers(stream, key=target.keys["hostile ingest"]) + reset(stream) for stream in range(1, 2001, 2))
    host, _, port = target.grpc.rpartition(":")

    def send(_: httpx.Client) -> None:
        for _connection in range(LEAVING):
            try:
                with socket.create_connection((host, int(port)), 1.0, ("127.0.0.3", 0)) as connection:
                    connection.sendall(PREFACE + calls)
            except OSError:
                pass

    return send


def _gone(target: Target, headers: Mapping[str, str], path: str) -> Request:
    """Ask for a page, and leave before it comes."""
    head = f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: {headers['authorization']}\r\n\r\n".encode()

    def send(_: httpx.Client) -> None:
        with _connected(target.api.removeprefix("http://")) as connection:
            connection.sendall(head)

    return send


def _wrong_key() -> Request:
    forged = f"10.{random.randrange(256)}.{random.randrange(256)}.1"
    headers = {"authorization": f"Bearer tj_{secrets.token_hex(32)}", "x-forwarded-for": forged}
    return _get("/api/v1/traces", headers)


def _attached(target: Target) -> Iterator[Request]:
    """Run statements on the server from a DuckDB that attaches, in a process of its own."""
    duck: quack_client.Client | None = None
    for sql in itertools.cycle(SQL):
        text = sql.replace("'", "''")

        def send(_: httpx.Client, text: str = text) -> None:
            nonlocal duck
            if duck is None or duck.process.poll() is not None:
                duck = quack_client.Client(target.quack, target.keys["hostile viewer"])
            duck.ask(f"FROM tj.query('{text}')")

        yield send


# Models


def _asks(connection: str) -> dict[str, object]:
    return {
        "messages": [{"role": "user", "content": "half a pair: \ud800"}, {"role": "user", "content": "Hello"}],
        "answers": [{"connectionId": connection}],
    }


def _paused_run(headers: Mapping[str, str], connection: str) -> Request:
    """Have a run judged by a model that misbehaves."""

    def send(client: httpx.Client) -> httpx.Response:
        def call(method: str, path: str, body: object) -> httpx.Response:
            return client.request(method, f"/api/v1/{path}", headers=dict(headers), json=body)

        made = call("POST", "projects/hostile/runs", {"experimentName": "hostile"})
        if not made.is_success:
            return made
        run = made.json()["runId"]
        item = {"itemKey": "a", "inputs": {"input": "x"}, "actualOutputs": {"output": "y"}}
        call("POST", f"runs/{run}/items", {"items": [item]})
        call("PATCH", f"runs/{run}", {"status": "SUCCESS"})
        judged = {"connectionId": connection, "evaluatorName": "Quality", "criteria": "Is it right?"}
        return call("POST", f"runs/{run}/judge-jobs", judged)

    return send
