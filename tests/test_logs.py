"""Log records over the real doors: from the SDK's exporters and byte by byte, under load, and through crashes."""

import gzip
import json
import random
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from pathlib import Path
from typing import Any

import grpc
import pytest
import zstandard
from opentelemetry._logs import SeverityNumber
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import (
    BatchLogRecordProcessor,
    LogRecordExporter,
    SimpleLogRecordProcessor,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import format_span_id, format_trace_id

from collector.otlp import json_request
from collector.otlp.decode import Receipt
from storage.records import Trace
from tests.corpus.record import otlp_json
from tests.live import Live, a_live_server, until
from tests.log_requests import a_log, a_log_export, decoded_logs, flat_logs, logs_as_json, some_logs
from tests.plain_otlp import exact, plain, plain_attributes
from tests.recorded import recorded
from tests.serving import PROTOBUF
from tests.storing import a_batch as spans_of
from tests.storing import a_store, commit
from tests.traffic import EXPORT_LOGS, LOG_DOORS, Batch, Load, a_batch, a_log_batch, export_on, joined
from tests.wire import JSON, post

pytestmark = pytest.mark.costly(
    "collector/conventions",
    "collector/listeners",
    "collector/ingest.py",
    "collector/otlp",
    "collector/reading",
    "storage",
)

CORPUS = Path(__file__).parent / "corpus"
SCENARIOS = sorted(path.parent for path in CORPUS.glob("*/*/logs.json"))
LATER = {"TRACEJURY_COMMIT_INTERVAL_MS": 10_000}
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda body: body,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstandard.compress,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Yield a server that the tests here share; each sends traces of its own."""
    with a_live_server(tmp_path_factory.mktemp("logs") / "data", env={"TRACEJURY_MAX_BODY_BYTES": 1 << 20}) as server:
        yield server


def bodies(server: Live, trace_id: str) -> list[object]:
    """Return the bodies of a trace's stored log records, by time."""
    return [body for (body,) in server.sql(f"SELECT body FROM logs WHERE trace_id = '{trace_id}' ORDER BY time")]


def visible(server: Live, batch: Batch) -> None:
    """Wait until the log records of a batch are all that is stored of its trace."""
    until(lambda: bodies(server, batch.trace_id), lambda stored: stored == list(batch.span_ids))


def log_tally(server: Live) -> tuple[int, int]:
    """Count stored log records and duplicates."""
    ((stored, present),) = server.sql("SELECT logs_stored, logs_already_present FROM ingest_state")
    assert isinstance(stored, int)
    assert isinstance(present, int)
    return stored, present


def over_grpc(server: Live, compression: str) -> LogRecordExporter:
    """Return the exporter for gRPC."""
    kinds = {"none": grpc.Compression.NoCompression, "gzip": grpc.Compression.Gzip}
    return GrpcLogExporter(endpoint=server.grpc, insecure=True, compression=kinds[compression])


def over_http(server: Live, compression: str) -> LogRecordExporter:
    """Return the exporter for HTTP."""
    kinds = {"none": Compression.NoCompression, "gzip": Compression.Gzip}
    return HttpLogExporter(endpoint=f"{server.otlp_http}/v1/logs", compression=kinds[compression])


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("processor", [BatchLogRecordProcessor, SimpleLogRecordProcessor])
@pytest.mark.parametrize("exporter", [over_grpc, over_http])
def test_what_the_sdk_logs_within_a_span_is_read_with_it(
    server: Live,
    exporter: Callable[[Live, str], LogRecordExporter],
    processor: Callable[[LogRecordExporter], Any],
    compression: str,
) -> None:
    """Events of GenAI that are emitted in a span are stored with its ids, and the application's other logs are not."""
    resource = Resource({"service.name": "chatbot"})
    traces, logs = TracerProvider(resource=resource), LoggerProvider(resource=resource)
    traces.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=f"{server.otlp_http}/v1/traces")))
    logs.add_log_record_processor(processor(exporter(server, compression)))
    logger = logs.get_logger("instrumentation")
    with traces.get_tracer("an application").start_as_current_span("chat") as span:
        message: dict[str, Any] = {"role": "user", "content": "Hello?", "numbers": [1, 2.5, True]}
        logger.emit(event_name="gen_ai.user.message", body=message, severity_number=SeverityNumber.INFO)
        logger.emit(event_name="app.started", body="not to be kept")
        logger.emit(body="neither is this")
        logger.emit(event_name="gen_ai.choice", attributes={"gen_ai.system": "openai"}, severity_text="info")
    logs.shutdown()
    traces.shutdown()
    trace_id, span_id = (
        format_trace_id(span.get_span_context().trace_id),
        format_span_id(span.get_span_context().span_id),
    )
    question = f"""
        SELECT span_id, event_name, body, attributes, severity_text, resource_attributes['service.name'], scope_name
        FROM logs WHERE trace_id = '{trace_id}' ORDER BY time
    """
    question_row, answered = until(lambda: server.sql(question), lambda rows: len(rows) == 2)
    assert json.loads(str(question_row.pop(2))) == message
    assert question_row == [span_id, "gen_ai.user.message", {}, "", "chatbot", "instrumentation"]
    assert answered == [
        span_id, "gen_ai.choice", None, {"gen_ai.system": "openai"}, "info", "chatbot", "instrumentation",
    ]  # fmt: skip


@pytest.mark.parametrize("encoding", COMPRESS)
@pytest.mark.parametrize("kind", [PROTOBUF, JSON])
def test_every_encoding_is_read(server: Live, kind: str, encoding: str) -> None:
    """Protobuf and JSON are taken in each compression, and success says nothing."""
    batch = a_log_batch(random.Random(), 20)
    body = batch.body if kind == PROTOBUF else logs_as_json(ExportLogsServiceRequest.FromString(batch.body))
    reply = post(server, COMPRESS[encoding](body), kind=kind, encoding=encoding, path="/v1/logs")
    assert (reply.status_code, reply.headers["content-type"]) == (200, kind)
    assert reply.content == (b"" if kind == PROTOBUF else b"{}")
    visible(server, batch)


STOCK, LOST = "12 units in Graz", "Shell command failed"
ENDS_OF_CALLS: dict[str, list[tuple[str, dict[str, str], str, str | None]]] = {
    "programs/claude-code-plain": [
        ("toolu_850_0", {"command": "echo 12 units in Graz", "description": "Look up the stock"}, STOCK, None),
        ("toolu_850_1", {"command": "echo lost at sea >&2; exit 3", "description": "Track the order"}, LOST, LOST),
    ],
    "programs-2026-11/codex-cli.stock-order.0844": [
        ("call_1", {"cmd": "echo 12 units in Graz"}, STOCK, None),
        ("call_2", {"cmd": "echo 3 units in Linz"}, "3 units in Linz", None),
        ("call_3", {"cmd": "echo lost at sea >&2; exit 3"}, "lost at sea", None),
    ],
}
"""Of each call of a recording its id, arguments, the last line of its result, and its error."""


@pytest.mark.costly("collector/conventions", "collector/otlp", "collector/reading", "storage/ingest")
@pytest.mark.parametrize("recording", ENDS_OF_CALLS)
@pytest.mark.parametrize("order", ["before", "together", "after"])
def test_a_tools_own_span_has_what_log_records_tell_of_its_call(server: Live, order: str, recording: str) -> None:
    """Arguments, results and errors in records of another span of the trace are on the tool's, whenever they come."""
    trace_id = random.randbytes(16).hex()
    spans, logs = (recorded(f"{recording}{end}.json", trace_id) for end in ("", ".logs"))
    if order == "before":
        assert post(server, logs, kind=JSON, path="/v1/logs").status_code == 200
        until(lambda: bodies(server, trace_id), bool)
    assert post(server, spans, kind=JSON).status_code == 200
    if order == "after":
        until(lambda: server.sql(f"SELECT span_id FROM spans WHERE trace_id = '{trace_id}'"), bool)
    if order != "before":
        assert post(server, logs, kind=JSON, path="/v1/logs").status_code == 200
    question = f"""
        SELECT tool_call_id, tool_arguments, tool_result, error FROM spans
        WHERE trace_id = '{trace_id}' AND span_type = 'tool' ORDER BY tool_call_id
    """
    until(lambda: [_end(*row) for row in server.sql(question)], lambda rows: rows == ENDS_OF_CALLS[recording])
    document = server.client.get(f"{server.http}/api/v1/traces/{trace_id}").json()
    fields = ("toolCallId", "toolArguments", "toolResult", "error")
    shown = [_end(*(span[name] for name in fields)) for span in document["spans"] if span["spanType"] == "tool"]
    assert sorted(shown, key=itemgetter(0)) == ENDS_OF_CALLS[recording]


def _end(call_id: Any, arguments: Any, result: Any, error: Any) -> tuple[Any, ...]:
    arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    return call_id, arguments, str(result).splitlines()[-1], error


def test_grpc_takes_log_records(server: Live) -> None:
    """LogsService/Export takes them plain and compressed, and success says nothing."""
    for compression in (grpc.Compression.NoCompression, grpc.Compression.Gzip):
        batch = a_log_batch(random.Random(), 20)
        with grpc.insecure_channel(server.grpc) as channel:
            assert export_on(channel, EXPORT_LOGS)(batch.body, compression=compression, timeout=30) == b""
        visible(server, batch)


def test_what_is_not_kept_is_told_to_the_sender(server: Live) -> None:
    """Records without a span and of other events are counted as rejected, with what would be kept, over each door."""
    request = a_log_export(a_log(1, trace=77), a_log(2, event_name="app.started"), a_log(3, trace=77, span_id=b""))
    with grpc.insecure_channel(server.grpc) as channel:
        called = export_on(channel, EXPORT_LOGS)(request.SerializeToString(), timeout=30)
    posted = post(server, request.SerializeToString(), path="/v1/logs")
    assert posted.status_code == 200
    for reply in (called, posted.content):
        partial = ExportLogsServiceResponse.FromString(reply).partial_success
        assert partial.rejected_log_records == 2
        assert partial.error_message == (
            "Tracejury keeps log records with trace_id and span_id whose event name starts with gen_ai.,"
            " and some of Claude Code and Codex: "
            "the event name must start with gen_ai., or be one that is kept of Claude Code or Codex"
            " (log record number 2 of the request); "
            "span_id must be 8 bytes, not all zero (log record number 3 of the request)"
        )
    as_text = post(server, logs_as_json(some_logs(5, event_name="")), kind=JSON, path="/v1/logs")
    assert as_text.status_code == 200
    assert as_text.json()["partialSuccess"]["rejectedLogRecords"] == "5"
    until(lambda: bodies(server, f"{78:032x}"), lambda stored: stored == ["message 1"])


@pytest.mark.parametrize(
    "body, kind, status",
    [
        (b"\xff" * 40, PROTOBUF, 400),
        (b"\x0a\x7f\x0a", PROTOBUF, 400),
        (b"hello", JSON, 400),
        (b'{"resourceLogs": 5}', JSON, 400),
        (b'{"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": "a"}]}]}]}', JSON, 200),
        (b"", PROTOBUF, 200),
        (b"{}", JSON, 200),
        (b"\0" * ((1 << 20) + 1), PROTOBUF, 413),
        (b"hello", "text/plain", 415),
    ],
    ids=["no protobuf", "cut off", "no JSON", "no array", "no record", "nothing", "empty", "too large", "text"],
)
def test_bad_requests_are_answered_by_the_table(server: Live, body: bytes, kind: str, status: int) -> None:
    """Log requests get the statuses that trace requests get."""
    assert post(server, body, kind=kind, path="/v1/logs").status_code == status


def test_a_log_request_over_the_limit_is_refused_by_grpc(server: Live) -> None:
    """A message that is larger than the limit is refused for good."""
    with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError) as refusal:
        export_on(channel, EXPORT_LOGS)(b"\0" * ((1 << 20) + 1), timeout=30)
    assert refusal.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.costly("collector/conventions", "collector/otlp", "collector/reading", "storage/ingest")
@pytest.mark.parametrize("folder", SCENARIOS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_recorded_log_records_are_read_as_they_were_sent(tmp_path: Path, folder: Path) -> None:
    """Of what real libraries send in logs, every kept body and attribute comes back with its trace, types included."""
    sent = (folder / "logs.json").read_bytes()
    logs = otlp_json.loads(sent, ExportLogsServiceRequest)
    spans = otlp_json.loads((folder / "traces.json").read_bytes(), ExportTraceServiceRequest)
    decoded = decoded_logs(json_request.to_protobuf(sent, ExportLogsServiceRequest))
    assert decoded.outcomes == [Receipt(accepted=len(flat_logs(logs)), rejected=0)]
    ids = {record.trace_id.hex() for _, _, record in flat_logs(logs)}
    with a_store(tmp_path) as store:
        commit(store, decoded.batch, spans_of(spans))
        records = [log for trace_id in sorted(ids) for log in the_trace(store.queries.trace(trace_id)).logs]
    expected = sorted(
        (
            record.trace_id.hex(),
            record.time_unix_nano or record.observed_time_unix_nano,
            record.span_id.hex(),
            record.event_name,
            exact(plain(record.body)),
            exact(plain_attributes(record.attributes)),
        )
        for _, _, record in flat_logs(logs)
    )
    assert expected == sorted(
        (log.trace_id, log.time_ns, log.span_id, log.event_name, exact(log.body), exact(log.attributes))
        for log in records
    )
    assert len(expected) > 0


def the_trace(trace: Trace | None) -> Trace:
    """Return the trace, which is there."""
    assert trace is not None
    return trace


def check_exactly_once(server: Live, acknowledged: list[str]) -> None:
    """Check that every acknowledged log record is stored once."""
    stored = str(server.sql("SELECT string_agg(body, '|') FROM logs")[0][0] or "").split("|")
    stored = [body for body in stored if body]
    assert len(stored) == len(set(stored))
    assert set(acknowledged) - set(stored) == set()
    assert log_tally(server)[0] == len(stored)


@pytest.mark.timeout(600)
@pytest.mark.kill("collector/listeners", "collector/ingest.py", "collector/otlp", "storage/ingest")
def test_what_was_acknowledged_survives_every_kill(tmp_path: Path, seed: int, kills: int) -> None:
    """A server killed under a load of spans and log records loses and doubles no acknowledged one of either."""
    source = random.Random(seed)
    logs: list[str] = []
    spans: list[str] = []
    for _ in range(kills):
        env = {"TRACEJURY_COMMIT_INTERVAL_MS": source.choice([1, 20, 300])}
        with (
            a_live_server(tmp_path / "data", env=env) as server,
            Load(server, source.randrange(1 << 32), senders=2, spans=source.choice([1, 10, 100])) as span_load,
            Load(server, source.randrange(1 << 32), spans=source.choice([1, 10, 100]), logs=True) as log_load,
        ):
            time.sleep(source.uniform(0.1, 0.8))
            server.kill()
            sent = log_load.stop()
            logs += sent.acknowledged
            spans += span_load.stop().acknowledged
            assert sent.counts["rejected"] == sent.counts["later"] == 0
    with a_live_server(tmp_path / "data") as server:
        check_exactly_once(server, logs)
        stored = set(str(server.sql("SELECT string_agg(span_id, ' ') FROM spans")[0][0]).split())
        assert set(spans) - stored == set()
        assert server.stop() == 0
    assert logs
    assert spans


def test_log_records_that_were_in_the_spool_only_are_there_after_a_crash(tmp_path: Path) -> None:
    """Log records acknowledged but not committed when the server died join their span, which comes after a restart."""
    source = random.Random()
    spans = a_batch(source, 1)
    request = some_logs(4)
    for _, _, record in flat_logs(request):
        record.trace_id, record.span_id = bytes.fromhex(spans.trace_id), bytes.fromhex(spans.span_ids[0])
    with a_live_server(tmp_path / "data", env=LATER) as server:
        assert post(server, request.SerializeToString(), path="/v1/logs").content == b""
        assert log_tally(server) == (0, 0)
        server.kill()
    with a_live_server(tmp_path / "data") as server:
        assert log_tally(server) == (4, 0)
        assert server.client.get(f"{server.http}/api/v1/traces/{spans.trace_id}").status_code == 404
        assert post(server, spans.body).content == b""
        server.committed(1)
        assert server.stop() == 0
    with a_store(tmp_path / "data") as store:
        trace = the_trace(store.queries.trace(spans.trace_id))
        assert [log.body for log in trace.logs] == [f"message {number}" for number in range(4)]
        assert {log.span_id for log in trace.logs} == {trace.spans[0].span_id}


def test_every_log_record_of_concurrent_clients_is_accounted_for(tmp_path: Path, seed: int) -> None:
    """With copies within and across requests and records that are not kept, both sides count the same."""
    source = random.Random(seed)
    batches = [a_log_batch(source, source.choice([1, 3, 20])) for _ in range(30)]
    others = a_log_export(a_log(1, event_name="app.started"), a_log(2, span_id=b"short")).SerializeToString()

    def work(number: int) -> Counter[str]:
        own, counts = random.Random(f"{seed}/{number}"), Counter[str]()
        with list(LOG_DOORS.values())[number % len(LOG_DOORS)](live) as send:
            for _ in range(40):
                chosen, bad = own.choices(batches, k=own.randint(1, 3)), own.randint(0, 1)
                answer = send(joined(*chosen) + others * bad)
                assert (answer.kind, answer.rejected) == ("taken", 2 * bad), answer
                counts["received"] += sum(len(batch.span_ids) for batch in chosen) + 2 * bad
                counts["rejected"] += answer.rejected
        return counts

    with a_live_server(tmp_path / "data") as live, ThreadPoolExecutor(6) as pool:
        totals = sum(pool.map(work, range(6)), Counter[str]())
        with LOG_DOORS["HTTP"](live) as send:  # whatever was not chosen by then
            assert send(joined(*batches)).kind == "taken"
        distinct = [body for batch in batches for body in batch.span_ids]
        totals["received"] += len(distinct)
        accepted = totals["received"] - totals["rejected"]
        stored, present = until(lambda: log_tally(live), lambda tally: sum(tally) >= accepted)
        assert totals["received"] == stored + present + totals["rejected"]
        assert stored == len(distinct)
        check_exactly_once(live, distinct)


def test_a_refused_log_request_leaves_nothing_behind(tmp_path: Path, seed: int) -> None:
    """When too much waits for its commit, log requests are refused with a delay, and are stored whole or not."""
    with a_live_server(tmp_path / "data", env={"TRACEJURY_BACKLOG_BYTES": 60_000}) as server:
        with Load(server, seed, senders=12, spans=40, logs=True) as load:
            time.sleep(2)
            sent = load.stop()
        assert sent.counts["later"] > 0
        assert sent.counts["lost"] == sent.counts["rejected"] == sent.without_delay == 0
        tally = until(lambda: log_tally(server), lambda tally: sum(tally) >= sent.counts["taken"])
        assert tally == (sent.counts["taken"], 0)
        check_exactly_once(server, sent.acknowledged)
