"""Receivers of OTLP log records, over HTTP and gRPC, that record their requests and answer by a script."""

import gzip
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2_grpc
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

Attributes = dict[str, str | float | int | bool]


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; over HTTP status 0 hangs up instead. Over gRPC there is a code, with a RetryInfo or without."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    rejected: int = 0
    code: grpc.StatusCode = grpc.StatusCode.OK
    retry_s: float | None = None

    @property
    def is_success(self) -> bool:
        """Return whether the records were accepted."""
        return self.status == HTTPStatus.OK and self.code is grpc.StatusCode.OK


@dataclass(slots=True)
class Receiver:
    """The requests received so far. `answer` chooses the response to the records of a request."""

    answer: Callable[[Sequence[LogRecord]], Reply]
    url: str = ""
    requests: list[tuple[Reply, dict[str, str], ExportLogsServiceRequest]] = field(default_factory=list)

    @property
    def records(self) -> list[LogRecord]:
        """Return the records of all requests that were answered with success, in order."""
        return [each for reply, _, export in self.requests if reply.is_success for each in records_of(export)]

    @property
    def numbers(self) -> list[int]:
        """List the numbers of the results that were received."""
        return [int(attributes_of(record)["tracejury.number"]) for record in self.records]


def records_of(export: ExportLogsServiceRequest) -> list[LogRecord]:
    """Return the log records of a request."""
    return [
        record
        for resource_logs in export.resource_logs
        for scope_logs in resource_logs.scope_logs
        for record in scope_logs.log_records
    ]


def attributes_of(record: LogRecord) -> Attributes:
    """Return the attributes as plain values."""
    return {pair.key: _plain(pair.value) for pair in record.attributes}


def _plain(value: AnyValue) -> str | float | int | bool:
    kind = value.WhichOneof("value")
    assert kind in {"string_value", "double_value", "int_value", "bool_value"}
    plain: str | float | int | bool = getattr(value, kind)
    return plain


def in_turn(*replies: Reply) -> Callable[[Sequence[LogRecord]], Reply]:
    """Give one answer after the other; the last one stays."""
    left = list(replies)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


@contextmanager
def a_receiver(answer: Callable[[Sequence[LogRecord]], Reply]) -> Iterator[Receiver]:
    """Start a receiver that listens on this machine."""
    receiver = Receiver(answer)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = gzip.decompress(self.rfile.read(int(self.headers["content-length"])))
            export = ExportLogsServiceRequest.FromString(body)
            reply = receiver.answer(records_of(export))
            headers = {name.lower(): value for name, value in self.headers.items()} | {"path": self.path}
            receiver.requests.append((reply, headers, export))
            if not reply.status:
                self.close_connection = True
                return
            response = ExportLogsServiceResponse()
            response.partial_success.rejected_log_records = reply.rejected
            content = response.SerializeToString()
            self.send_response(reply.status)
            own = {"content-type": "application/x-protobuf", "content-length": str(len(content))}
            for name, value in {**own, **reply.headers}.items():
                self.send_header(name, value)
            with suppress(ConnectionError):  # the client may have been killed
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that the base class gave it
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        receiver.url = f"http://127.0.0.1:{server.server_port}/v1/logs"
        try:
            yield receiver
        finally:
            server.shutdown()


@contextmanager
def a_grpc_receiver(
    answer: Callable[[Sequence[LogRecord]], Reply], *, pair: tuple[bytes, bytes] | None = None
) -> Iterator[Receiver]:
    """Start a receiver over gRPC; with a key and its certificate, over TLS."""
    receiver = Receiver(answer)

    class Service(logs_service_pb2_grpc.LogsServiceServicer):
        def Export(  # noqa: N802 - the name that the base class gave it
            self, request: ExportLogsServiceRequest, context: grpc.ServicerContext
        ) -> ExportLogsServiceResponse:
            reply = receiver.answer(records_of(request))
            headers = {name: str(value) for name, value in context.invocation_metadata()}
            receiver.requests.append((reply, headers, request))
            if not reply.is_success:
                context.set_trailing_metadata((("grpc-status-details-bin", _status(reply).SerializeToString()),))
                context.abort(reply.code, "as the script says")
            response = ExportLogsServiceResponse()
            response.partial_success.rejected_log_records = reply.rejected
            return response

    server = grpc.server(ThreadPoolExecutor(4))
    logs_service_pb2_grpc.add_LogsServiceServicer_to_server(Service(), server)  # type: ignore[no-untyped-call] # generated
    if pair is None:
        receiver.url = f"grpc://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    else:
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
        receiver.url = f"grpcs://127.0.0.1:{port}"
    server.start()
    try:
        yield receiver
    finally:
        server.stop(None).wait()


def _status(reply: Reply) -> Status:
    status = Status(code=reply.code.value[0], message="as the script says")
    if reply.retry_s is not None:
        delay = Duration()
        delay.FromNanoseconds(round(reply.retry_s * 1e9))
        status.details.add().Pack(RetryInfo(retry_delay=delay))
    return status
