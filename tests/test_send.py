"""`tracejury send` against the real server and servers that are not ours."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from collector.app import Running
from collector.cli import send
from tests.serving import PROTOBUF, Answers, a_scripted_server, a_server, an_export, run


def as_json(request: ExportTraceServiceRequest) -> dict[str, object]:
    """Return the request in OTLP/JSON, with what these tests use."""
    spans = [
        {
            "traceId": span.trace_id.hex(),
            "spanId": span.span_id.hex(),
            "parentSpanId": span.parent_span_id.hex(),
            "name": span.name,
            "startTimeUnixNano": str(span.start_time_unix_nano),
            "endTimeUnixNano": str(span.end_time_unix_nano),
        }
        for span in request.resource_spans[0].scope_spans[0].spans
    ]
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": spans}]}]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Yield the real server, empty."""
    with a_server(tmp_path_factory.mktemp("server") / "data") as server:
        yield server


@pytest.fixture
def other() -> Iterator[str]:
    """Yield the URL of a server that is scripted by `Answers`."""
    with a_scripted_server() as url:
        yield url


def test_files_of_every_form_are_sent(server: Running, tmp_path: Path) -> None:
    """A JSON document on one or many lines, JSON lines, and protobuf are all stored unchanged."""
    requests = [an_export(f"{number:032x}", "sent", "too", at_s=-600) for number in range(0xD00, 0xD05)]
    documents = [as_json(request) for request in requests]
    files = {
        "one.json": json.dumps(documents[0]),
        "pretty.json": json.dumps(documents[1], indent=2),
        "lines.jsonl": f"\n{json.dumps(documents[2])}\r\n\n{json.dumps(documents[3])}",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "protobuf.bin").write_bytes(requests[4].SerializeToString())
    names = [*files, "protobuf.bin"]
    sent = run("send", *(tmp_path / name for name in names), "--server", server.otlp_http)
    assert (sent.exit_code, sent.stderr) == (0, "")
    assert sent.stdout.count("2 spans in 1 request\n") == 3
    assert "lines.jsonl: 4 spans in 2 requests\n" in sent.stdout
    assert server.store.wait_committed(10)
    question = "SELECT count(*) FROM spans WHERE name IN ('sent', 'too')"
    assert run("sql", question, "--csv", "--server", server.http).stdout.split() == ["count_star()", "10"]


def test_rejected_spans_are_counted_with_their_reason(server: Running, tmp_path: Path) -> None:
    """Spans that the server rejects fail the command, and the reason is shown, for JSON and for protobuf."""
    request = an_export("e" * 32, "good", "bad", at_s=-600)
    request.resource_spans[0].scope_spans[0].spans[1].trace_id = b"short"
    (tmp_path / "a.json").write_text(json.dumps(as_json(request)))
    (tmp_path / "a.pb").write_bytes(request.SerializeToString())
    for file, door in itertools.product(
        (tmp_path / "a.json", tmp_path / "a.pb"), (server.otlp_http, f"{server.http}/api/v1/traces")
    ):
        result = run("send", file, "--server", door)
        assert result.exit_code == 1
        assert result.stdout == f"{file}: 2 spans in 1 request\n"
        assert f"{file}: 1 of them rejected: " in result.stderr
        assert "trace_id" in result.stderr


def test_a_file_that_is_no_otlp_is_refused_with_the_servers_reason(server: Running, tmp_path: Path) -> None:
    """The server's own sentence is shown, whether it came as JSON or as protobuf."""
    (tmp_path / "bad.json").write_text('{"resourceSpans": 5}')
    (tmp_path / "bad.pb").write_bytes(b"\xff" * 20)
    for name, reason in (("bad.json", "resourceSpans"), ("bad.pb", "protobuf")):
        result = run("send", tmp_path / name, "--server", server.otlp_http)
        assert result.exit_code == 1
        assert "the server refused it (400): " in result.stderr
        assert reason in result.stderr


def test_sending_waits_for_a_server_that_is_behind(other: str, tmp_path: Path) -> None:
    """An answer that says "later" is waited for as long as it asks, and the same bytes are sent again."""
    file = tmp_path / "a.pb"
    file.write_bytes(an_export("f" * 32, "x").SerializeToString())
    accepted = ExportTraceServiceResponse().SerializeToString()
    Answers.queue.append(
        (503, {"retry-after": "0", "content-type": PROTOBUF}, Status(message="wait").SerializeToString())
    )
    Answers.queue.append((429, {"retry-after": "0", "content-type": PROTOBUF}, b""))
    Answers.queue.append((200, {"content-type": PROTOBUF}, accepted))
    result = run("send", file, "--server", f"{other}/v1/traces/")
    assert (result.exit_code, result.stdout) == (0, f"{file}: 1 span in 1 request\n")
    assert Answers.requests == [("/v1/traces", PROTOBUF, file.read_bytes())] * 3


def test_sending_gives_up_in_the_end(other: str, tmp_path: Path) -> None:
    """A server that never catches up is an error with its reason."""
    file = tmp_path / "a.pb"
    file.write_bytes(an_export("f" * 32, "x").SerializeToString())
    Answers.queue.append(
        (503, {"retry-after": "0", "content-type": PROTOBUF}, Status(message="behind").SerializeToString())
    )
    result = run("send", file, "--server", other)
    assert result.exit_code == 1
    assert "the server refused it (503): behind" in result.stderr
    assert len(Answers.requests) == send.ATTEMPTS


def test_what_is_sent_to_is_checked(other: str, tmp_path: Path) -> None:
    """A server that says 200 to anything is not taken for one that stored the spans."""
    file = tmp_path / "a.pb"
    file.write_bytes(an_export("f" * 32, "x").SerializeToString())
    Answers.queue.append((200, {"content-type": "text/html"}, b"<html>\xff</html>"))
    result = run("send", file, "--server", other)
    assert result.exit_code == 1
    assert "does not speak OTLP/HTTP" in result.stderr
