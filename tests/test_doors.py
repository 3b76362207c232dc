"""Responses of the OTLP listeners: opentelemetry-proto's `docs/specification.md`, row by row, over gRPC and HTTP."""

import json
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from google.protobuf import json_format
from google.protobuf.message import Message
from google.rpc import code_pb2
from google.rpc.error_details_pb2 import BadRequest, RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.live import PATIENCE_S, Live, a_live_server, until
from tests.serving import PROTOBUF, an_export
from tests.traffic import DOORS, EXPORT, EXPORT_TRACES, Batch, a_batch, detail, export_on, status_of
from tests.wire import JSON, Connection, as_json, post

pytestmark = pytest.mark.costly(
    "collector/access",
    "collector/api",
    "collector/listeners",
    "collector/ingest.py",
    "collector/memory.py",
    "collector/otlp",
    "storage/ingest",
)

BROKEN = {
    "bytes that are not protobuf": b"\xff" * 40,
    "a field that is cut off": b"\x0a\x7f\x0a",
    "text": b"hello",
    "a field of the wrong kind": b"\x08\x01\x0a\x05hello",
}
BROKEN_JSON = {
    "no JSON": b"hello",
    "nothing": b"",
    "half of it": b'{"resourceSpans": [{',
    "an array": b"[]",
    "a string": b'"resourceSpans"',
    "a number for an array": b'{"resourceSpans": 5}',
    "a name of a scope that is a number": b'{"resourceSpans": [{"scopeSpans": [{"scope": {"name": 5}}]}]}',
    "attributes of a resource that are an object": b'{"resourceSpans": [{"resource": {"attributes": {}}}]}',
    "no UTF-8": b'{"resourceSpans": "\xff"}',
    "nested without end": b'{"resourceSpans": ' + b"[" * 100_000,
}
WRONG_SPANS: dict[str, Any] = {
    'an object, got "a"': "a",
    "name: expected a string, got 5": {"name": 5},
    "startTimeUnixNano: expected an integer": {"startTimeUnixNano": "18446744073709551616"},
    "endTimeUnixNano: expected an integer": {"endTimeUnixNano": "yesterday"},
    "attributes: expected an array": {"attributes": {"k": "v"}},
    "events[0].attributes[0].value.intValue: expected": {"events": [{"attributes": [{"value": {"intValue": "x"}}]}]},
}
FAULTS: dict[str, dict[str, Any]] = {
    "a short trace id": {"trace_id": b"\x01" * 15},
    "a long trace id": {"trace_id": b"\x01" * 17},
    "no trace id": {"trace_id": b""},
    "a trace id of zeros": {"trace_id": bytes(16)},
    "a short span id": {"span_id": b"\x01" * 7},
    "a long span id": {"span_id": b"\x01" * 16},
    "no span id": {"span_id": b""},
    "a span id of zeros": {"span_id": bytes(8)},
    "a bad parent": {"parent_span_id": b"\x01" * 3},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Yield a server that all tests here send to."""
    with a_live_server(tmp_path_factory.mktemp("doors") / "data", env={"TRACEJURY_COMMIT_INTERVAL_MS": 10}) as server:
        yield server


@pytest.fixture
def source() -> random.Random:
    """Return ids of this test."""
    return random.Random()


def stored(server: Live, *trace_ids: str, spans: int) -> None:
    """Wait until exactly `spans` spans of the traces are stored."""
    names = ", ".join(f"'{trace_id}'" for trace_id in trace_ids)
    question = f"SELECT count(*) FROM spans WHERE trace_id IN ({names})"
    until(lambda: server.sql(question), lambda rows: rows == [[spans]])


def error_of(reply: httpx.Response, kind: str) -> Status:
    """Return the error in the body, which has to be in the request's encoding."""
    assert reply.headers["content-type"] == kind
    if kind == JSON:
        return json_format.Parse(reply.content, Status())
    return Status.FromString(reply.content)


def call(server: Live, body: bytes, method: str = EXPORT_TRACES, **options: Any) -> bytes:
    """Make a gRPC call."""
    with grpc.insecure_channel(server.grpc) as channel:
        reply: bytes = export_on(channel, method)(body, timeout=PATIENCE_S, **options)
        return reply


def failed_call(server: Live, body: bytes, method: str = EXPORT_TRACES, **options: Any) -> grpc.RpcError:
    """Make a gRPC call that fails; return the error."""
    with pytest.raises(grpc.RpcError) as failure:
        call(server, body, method, **options)
    return failure.value


def test_success_says_nothing(server: Live, source: random.Random) -> None:
    """Full success is 200 or OK, with an empty message in the encoding of the request."""
    batches = [a_batch(source, 2) for _ in range(3)]
    reply = post(server, batches[0].body)
    assert (reply.status_code, reply.content, reply.headers["content-type"]) == (200, b"", PROTOBUF)
    reply = post(server, as_json(batches[1].body), kind=JSON)
    assert (reply.status_code, reply.json(), reply.headers["content-type"]) == (200, {}, JSON)
    assert call(server, batches[2].body) == b""
    stored(server, *(batch.trace_id for batch in batches), spans=6)


@pytest.mark.parametrize(
    "kind", ["application/x-protobuf; charset=utf-8", "Application/X-Protobuf", "application/protobuf"]
)
def test_content_types_may_be_spelt_freely(server: Live, source: random.Random, kind: str) -> None:
    """Parameters and letter case of a content type do not matter."""
    reply = post(server, a_batch(source, 1).body, kind=kind)
    assert (reply.status_code, reply.headers["content-type"]) == (200, PROTOBUF)


@pytest.mark.parametrize("body", [b"", b"\x0a\x00", b"\x0a\x02\x12\x00"], ids=["nothing", "a resource", "a scope"])
def test_empty_requests_succeed(server: Live, body: bytes) -> None:
    """A request without spans is a success over every door."""
    assert (post(server, body).status_code, post(server, body).content) == (200, b"")
    assert call(server, body) == b""
    assert post(server, as_json(body), kind=JSON).json() == {}
    reply = server.client.post(f"{server.http}/api/v1/traces", content=body, headers={"content-type": PROTOBUF})
    assert reply.json() == {"acceptedSpans": 0, "rejectedSpans": 0, "traces": 0}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
def test_broken_protobuf_is_the_senders_fault(server: Live, body: bytes) -> None:
    """Bytes that are not a request are 400 or INVALID_ARGUMENT with a BadRequest detail, and never to be sent again."""
    reply = post(server, body)
    assert (reply.status_code, "retry-after" in reply.headers) == (400, False)
    over_http, over_grpc = error_of(reply, PROTOBUF), failed_call(server, body)
    assert over_grpc.code() is grpc.StatusCode.INVALID_ARGUMENT
    for status in (over_http, status_of(over_grpc)):
        assert status is not None
        assert status.code == code_pb2.INVALID_ARGUMENT
        assert "protobuf" in status.message
        assert detail(status, BadRequest()).field_violations[0].description == status.message


@pytest.mark.parametrize("body", BROKEN_JSON.values(), ids=BROKEN_JSON)
def test_broken_json_is_the_senders_fault(server: Live, body: bytes) -> None:
    """A body that is not OTLP/JSON is 400 with a `google.rpc.Status` in JSON, and no stack trace in the log."""
    reply = post(server, body, kind=JSON)
    assert reply.status_code == 400
    assert error_of(reply, JSON).message
    seeds = server.client.post(f"{server.http}/api/v1/traces", content=body, headers={"content-type": JSON})
    assert (seeds.status_code, seeds.json()["error"]) == (400, error_of(reply, JSON).message)
    assert "Traceback" not in server.log


@pytest.mark.parametrize("fault, wrong", WRONG_SPANS.items(), ids=WRONG_SPANS)
def test_a_span_with_a_value_of_the_wrong_kind_is_rejected_alone(
    server: Live, source: random.Random, fault: str, wrong: object
) -> None:
    """Over JSON too: the others are stored, and the answer counts it with why; those after it keep their numbers."""
    batch = a_batch(source, 3)
    document = json.loads(as_json(batch.body))
    spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans.insert(1, wrong | spans[0] | wrong if isinstance(wrong, dict) else wrong)
    spans.append({"name": "without ids"})
    body = json.dumps(document).encode()
    partial = post(server, body, kind=JSON).json()["partialSuccess"]
    assert partial["rejectedSpans"] == "2"
    assert fault in partial["errorMessage"]
    assert "(span number 2 of the request)" in partial["errorMessage"]
    assert "(span number 5 of the request)" in partial["errorMessage"]
    stored(server, batch.trace_id, spans=3)
    reply = server.client.post(f"{server.http}/api/v1/traces", content=body, headers={"content-type": JSON}).json()
    assert (reply["acceptedSpans"], reply["rejectedSpans"], reply["traces"]) == (3, 2, 1)
    alone = {"resourceSpans": [{"scopeSpans": [{"spans": [wrong] * 3}]}]}
    partial = post(server, json.dumps(alone).encode(), kind=JSON).json()["partialSuccess"]
    assert (partial["rejectedSpans"], "3 spans, the first is number 1" in partial["errorMessage"]) == ("3", True)


def test_a_log_record_with_a_value_of_the_wrong_kind_is_rejected_alone(server: Live) -> None:
    """The records beside it are looked at as ever."""
    records = [{"timeUnixNano": "soon"}, {"traceId": "ab"}]
    body = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}).encode()
    partial = post(server, body, kind=JSON, path="/v1/logs").json()["partialSuccess"]
    assert partial["rejectedLogRecords"] == "2"
    assert "timeUnixNano: expected an integer" in partial["errorMessage"]


@pytest.mark.parametrize("kind", ["", "text/plain", "application/octet-stream", "application/x-protobuf-text", "json"])
def test_other_content_types_are_refused(server: Live, source: random.Random, kind: str) -> None:
    """A content type that is not OTLP's, or none, is 415, and the message names those that are."""
    reply = post(server, a_batch(source, 1).body, kind=kind)
    assert reply.status_code == 415
    message = error_of(reply, JSON).message
    assert PROTOBUF in message
    assert JSON in message


def test_an_unknown_content_encoding_is_refused(server: Live, source: random.Random) -> None:
    """An unsupported compression is 415, and the message names those that are known."""
    for encoding in ("br", "snappy", "gzip, gzip"):
        reply = post(server, a_batch(source, 1).body, encoding=encoding)
        assert reply.status_code == 415
        assert "gzip" in error_of(reply, PROTOBUF).message


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
def test_other_methods_are_refused(server: Live, method: str) -> None:
    """Only POST sends, and the answer says so."""
    reply = server.client.request(method, f"{server.otlp_http}/v1/traces", headers={"content-type": PROTOBUF})
    assert (reply.status_code, reply.headers["allow"]) == (405, "POST")
    assert reply.headers["content-type"] == PROTOBUF


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/trace", "/v1/traces/more", "/v2/traces", "/api/v1/traces"])
def test_other_paths_do_not_exist(server: Live, path: str) -> None:
    """A wrong path is 404, and the answer names the right one."""
    for kind in (PROTOBUF, JSON):
        reply = post(server, b"{}", kind=kind, path=path)
        assert reply.status_code == 404
        assert "/v1/traces" in error_of(reply, kind).message


@pytest.mark.parametrize(
    "method", ["/opentelemetry.proto.collector.trace.v1.TraceService/Import", "/grpc.health.v1.Health/Check", "/x"]
)
def test_other_calls_do_not_exist(server: Live, method: str) -> None:
    """An unknown gRPC method is UNIMPLEMENTED."""
    assert failed_call(server, b"", method).code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.costly("collector/listeners", "collector/otlp")
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_a_bad_span_is_rejected_alone(
    server: Live, source: random.Random, door: Callable[[Live], Any], fault: dict[str, Any]
) -> None:
    """Partial success counts the spans that cannot be stored and gives the reason; the others are stored."""
    batch = a_batch(source, 5)
    request = ExportTraceServiceRequest.FromString(batch.body)
    bad = request.resource_spans[0].scope_spans[0].spans[3]
    for name, value in fault.items():
        setattr(bad, name, value)
    with door(server) as send:
        answer = send(request.SerializeToString())
    assert (answer.kind, answer.rejected) == ("taken", 1)
    (name,) = fault
    assert name in answer.message
    assert "number 4 " in answer.message
    stored(server, batch.trace_id, spans=4)


def test_partial_success_in_json_is_otlp_json(server: Live, source: random.Random) -> None:
    """The rejected spans are counted in a decimal string, as OTLP/JSON has 64-bit integers; ids of any form count."""
    batch = a_batch(source, 4)
    document = json_format.MessageToDict(ExportTraceServiceRequest.FromString(batch.body))
    for span, trace_id in zip(
        document["resourceSpans"][0]["scopeSpans"][0]["spans"],
        (batch.trace_id, batch.trace_id.upper(), batch.trace_id[:-2], "not hex"),
        strict=True,
    ):
        span["traceId"] = trace_id
        span.pop("parentSpanId", None)
        span["kind"] = 2
    reply = server.client.post(f"{server.otlp_http}/v1/traces", json=document)
    assert reply.status_code == 200
    partial = reply.json()["partialSuccess"]
    assert partial["rejectedSpans"] == "2"
    assert "trace_id" in partial["errorMessage"]
    stored(server, batch.trace_id, spans=2)


def test_answers_stay_small_whatever_is_wrong(server: Live) -> None:
    """Tens of thousands of bad spans do not make a large answer."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number in range(20_000):
        spans.add(trace_id=b"x" * (number % 40), span_id=b"y" * (number % 17), name="n" * (number % 2))
    for reply in (post(server, request.SerializeToString()).content, call(server, request.SerializeToString())):
        assert len(reply) < 4096
        assert ExportTraceServiceResponse.FromString(reply).partial_success.rejected_spans > 19_000


def test_fields_from_the_future_are_ignored(server: Live, source: random.Random) -> None:
    """A field that this version does not know changes nothing, in protobuf and in JSON."""
    batches = [a_batch(source, 1) for _ in range(3)]
    unknown = b"\xfa\x3f\x05hello" + b"\xf8\x3f\x01"  # fields 1023 (bytes) and 1023 (varint)
    assert post(server, batches[0].body + unknown).status_code == 200
    assert call(server, unknown + batches[1].body) == b""
    document = json_format.MessageToDict(ExportTraceServiceRequest.FromString(batches[2].body))
    (span,) = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    span |= {"traceId": batches[2].trace_id, "spanId": batches[2].span_ids[0], "newField": {"a": [1, None]}}
    document |= {"another": None}
    assert server.client.post(f"{server.otlp_http}/v1/traces", json=document).json() == {}
    stored(server, *(batch.trace_id for batch in batches), spans=3)


METRICS = ExportMetricsServiceRequest()
METRICS.resource_metrics.add().scope_metrics.add().metrics.add(name="m").gauge.data_points.add(as_int=1)
LOGS = ExportLogsServiceRequest()
LOGS.resource_logs.add().scope_logs.add().log_records.add().body.string_value = "hello"
ADVICE = {"metrics": "does not read metrics", "logs": "keeps log records with trace_id and span_id"}


@pytest.mark.parametrize(
    "path, service, request_, response, field",
    [
        ("metrics", "MetricsService", METRICS, ExportMetricsServiceResponse(), None),
        ("logs", "LogsService", LOGS, ExportLogsServiceResponse(), "rejected_log_records"),
    ],
    ids=["metrics", "logs"],
)
def test_what_is_not_kept_gets_a_polite_answer(
    server: Live, path: str, service: str, request_: Message, response: Any, field: str | None
) -> None:
    """Metrics and other logs are dropped for good with the reason, empty ones succeed, broken ones are refused."""
    method = EXPORT.format(signal=path, service=service)
    body = request_.SerializeToString()
    as_text = json_format.MessageToJson(request_).encode()
    replies = [
        response.FromString(call(server, body, method)),
        response.FromString(post(server, body, path=f"/v1/{path}").content),
        json_format.Parse(post(server, as_text, kind=JSON, path=f"/v1/{path}").content, type(response)()),
    ]
    for reply in replies:
        assert field is None or getattr(reply.partial_success, field) == 1
        assert ADVICE[path] in reply.partial_success.error_message
    assert call(server, b"", method) == post(server, b"", path=f"/v1/{path}").content == b""
    assert post(server, b"\xff" * 9, path=f"/v1/{path}").status_code == 400
    assert post(server, b"[", kind=JSON, path=f"/v1/{path}").status_code == 400
    assert failed_call(server, b"\xff" * 9, method).code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("signal, field", [("traces", "Spans"), ("logs", "Logs"), ("metrics", "Metrics")])
def test_json_is_read_in_the_same_encodings_for_all_signals(
    server: Live, signal: str, field: str, encoding: str
) -> None:
    """JSON in UTF-8, UTF-16 or UTF-32, with a byte order mark or without, is an export request to each path."""
    for body in (f'{{"resource{field}": []}}', "{ }"):
        assert post(server, body.encode(encoding), kind=JSON, path=f"/v1/{signal}").is_success


def test_metrics_of_any_number_cost_no_more_than_their_bytes(server: Live) -> None:
    """Millions of resources, and texts that only begin as JSON, are answered without being parsed."""
    resources = b"\x0a\x00" * 4_000_000
    assert b"does not read metrics" in post(server, resources, path="/v1/metrics").content
    assert b"does not read metrics" in post(server, b'{"resourceMetrics":5}', kind=JSON, path="/v1/metrics").content
    assert post(server, b" {} ", kind=JSON, path="/v1/metrics").json() == {}


def test_a_connection_is_kept_open(server: Live, source: random.Random) -> None:
    """Answers, also errors, do not end a connection, and requests that were sent ahead are answered in order."""
    batch = a_batch(source, 3)
    with Connection(server.ready["otlp_http"]) as connection:
        for body, status in ((batch.body, 200), (b"\xff", 400), (b"", 200)):
            connection.request(body)
            assert connection.reply().status == status
        for body in (batch.body, b"\xff", batch.body):  # pipelined
            connection.request(body)
        assert [connection.reply().status for _ in range(3)] == [200, 400, 200]
    stored(server, batch.trace_id, spans=3)


def test_calls_need_not_wait_for_each_other(server: Live, source: random.Random) -> None:
    """Many calls under way on one gRPC connection, and on many HTTP connections, are all answered."""
    batches = [a_batch(source, 3) for _ in range(120)]
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda batch=batch: answers.append(post(server, batch.body).status_code))
        for batch in batches[:40]
    ]
    with grpc.insecure_channel(server.grpc) as channel:
        export = export_on(channel)
        futures = [export.future(batch.body, timeout=PATIENCE_S) for batch in batches[40:]]
        for thread in threads:
            thread.start()
        assert [future.result() for future in futures] == [b""] * 80
    for thread in threads:
        thread.join()
    assert answers == [200] * 40
    stored(server, *(batch.trace_id for batch in batches), spans=360)


def test_a_full_queue_says_when_to_come_back(tmp_path: Path, source: random.Random) -> None:
    """While requests hold all allowed bytes, others are refused with a delay, in the form of each transport."""
    with (
        a_live_server(tmp_path / "data", env={"TRACEJURY_QUEUE_BYTES": 1024}) as server,
        Connection(server.ready["otlp_http"]) as slow,
    ):
        batch = a_batch(source, 10)
        slow.send_part(batch.body, len(batch.body) - 1)
        until(lambda: post(server, batch.body).status_code, lambda status: status == 503)
        check_refusals(server, batch)
        slow.send(batch.body[-1:])
        assert slow.reply().status == 200
        with DOORS["gRPC"](server) as send:
            assert send(batch.body).kind == "taken"
        stored(server, batch.trace_id, spans=10)


def test_a_database_that_is_behind_says_when_to_come_back(tmp_path: Path, source: random.Random) -> None:
    """While too much waits for its commit, the server refuses new spans, and is still ready for other requests."""
    env = {"TRACEJURY_BACKLOG_BYTES": 1024, "TRACEJURY_COMMIT_INTERVAL_MS": 10_000}
    with a_live_server(tmp_path / "data", env=env) as server:
        assert post(server, a_batch(source, 20).body).status_code == 200
        check_refusals(server, a_batch(source, 20))
        ready = server.client.get(f"{server.http}/ready")
        assert (ready.status_code, ready.json()) == (200, {"status": "ready"})
        assert server.stop() == 0


def check_refusals(server: Live, batch: Batch) -> None:
    """Check that every listener refuses the batch for now."""
    for kind, body in ((PROTOBUF, batch.body), (JSON, as_json(batch.body))):
        reply = post(server, body, kind=kind)
        assert (reply.status_code, int(reply.headers["retry-after"]) > 0) == (503, True)
        status = error_of(reply, kind)
        assert status.code == code_pb2.UNAVAILABLE
        assert detail(status, RetryInfo()).retry_delay.seconds == int(reply.headers["retry-after"])
    seeds = server.client.post(f"{server.http}/api/v1/traces", content=batch.body, headers={"content-type": PROTOBUF})
    assert (seeds.status_code, int(seeds.headers["retry-after"]) > 0) == (503, True)
    error = failed_call(server, batch.body)
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    refused_with = status_of(error)
    assert refused_with is not None
    assert detail(refused_with, RetryInfo()).retry_delay.seconds > 0


def test_the_seeds_path_counts_this_request(server: Live, source: random.Random) -> None:
    """`POST /api/v1/traces` returns the number of spans and traces in each request, also if they were stored before."""
    first, second, bad = a_batch(source, 3), a_batch(source, 2), an_export("a" * 32, "x", "y")
    for span in bad.resource_spans[0].scope_spans[0].spans:
        span.trace_id = b"short"

    def count(body: bytes, kind: str = PROTOBUF) -> dict[str, Any]:
        reply = server.client.post(f"{server.http}/api/v1/traces", content=body, headers={"content-type": kind})
        assert reply.status_code == 200
        counts: dict[str, Any] = reply.json()
        return counts

    assert count(first.body) == {"acceptedSpans": 3, "rejectedSpans": 0, "traces": 1}
    assert count(first.body) == {"acceptedSpans": 3, "rejectedSpans": 0, "traces": 1}
    assert count(first.body + second.body) == {"acceptedSpans": 5, "rejectedSpans": 0, "traces": 2}
    assert count(as_json(second.body), JSON) == {"acceptedSpans": 2, "rejectedSpans": 0, "traces": 1}
    mixed = count(first.body + bad.SerializeToString())
    assert mixed.pop("errorMessage")
    assert mixed == {"acceptedSpans": 3, "rejectedSpans": 2, "traces": 1}
    later = a_batch(source, 1)
    more_of_first = ExportTraceServiceRequest.FromString(later.body)
    more_of_first.resource_spans[0].scope_spans[0].spans[0].trace_id = bytes.fromhex(first.trace_id)
    assert count(more_of_first.SerializeToString()) == {"acceptedSpans": 1, "rejectedSpans": 0, "traces": 1}
    stored(server, first.trace_id, second.trace_id, spans=6)


@pytest.mark.parametrize(
    "body, kind, status",
    [(b"\xff", PROTOBUF, 400), (b"{", JSON, 400), (b"{}", "text/plain", 415)],
    ids=["protobuf", "JSON", "type"],
)
def test_the_seeds_path_refuses_like_the_others(server: Live, body: bytes, kind: str, status: int) -> None:
    """`POST /api/v1/traces` returns errors in its own form, with the same status codes."""
    reply = server.client.post(f"{server.http}/api/v1/traces", content=body, headers={"content-type": kind})
    assert (reply.status_code, list(reply.json())) == (status, ["type", "title", "status", "detail", "error"])


def preflight(server: Live, url: str, origin: str) -> httpx.Response:
    """Send the preflight request of a browser."""
    headers = {"origin": origin, "access-control-request-method": "POST"}
    return server.client.options(url, headers=headers | {"access-control-request-headers": "content-type"})


def test_browsers_are_kept_out_unless_their_origin_is_set(server: Live, tmp_path: Path, source: random.Random) -> None:
    """CORS is off by default, and lets in exactly the origins that the settings name."""
    batch, ours = a_batch(source, 1), "https://app.example"
    headers = {"content-type": PROTOBUF, "origin": ours}
    paths = {"otlp_http": "/v1/traces", "http": "/api/v1/traces"}
    for address, path in paths.items():
        url = f"http://{server.ready[address]}{path}"
        sent = server.client.post(url, content=batch.body, headers=headers)
        for reply in (preflight(server, url, ours), sent):
            assert not [name for name in reply.headers if name.startswith("access-control")]
    env = {"TRACEJURY_CORS_ORIGINS": f"{ours}, https://other.example"}
    with a_live_server(tmp_path / "data", env=env) as other:
        for address, path in paths.items():
            url = f"http://{other.ready[address]}{path}"
            response = preflight(other, url, ours)
            assert (response.status_code, response.headers["access-control-allow-origin"]) == (200, ours)
            assert "content-type" in response.headers["access-control-allow-headers"]
            sent = other.client.post(url, content=batch.body, headers=headers)
            assert (sent.status_code, sent.headers["access-control-allow-origin"]) == (200, ours)
            exposed = set(sent.headers.get("access-control-expose-headers", "").lower().split(", "))
            assert ({"etag", "link", "location", "retry-after"} <= exposed) == (address == "http")
            strange = preflight(other, url, "https://evil.example")
            assert (strange.status_code, "access-control-allow-origin" in strange.headers) == (400, False)
