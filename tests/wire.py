"""HTTP and protobuf byte by byte, for what no client library would send."""

import base64
import json
import socket
from dataclasses import dataclass
from http.client import HTTPMessage, parse_headers
from typing import Self

import httpx
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.live import PATIENCE_S, Live, a_client
from tests.serving import PROTOBUF

JSON = "application/json"


def as_json(body: bytes) -> bytes:
    """Return a protobuf request in OTLP/JSON, with the ids in hex."""
    document = json_format.MessageToDict(ExportTraceServiceRequest.FromString(body), use_integers_for_enums=True)
    for resource_spans in document.get("resourceSpans", []):
        for scope_spans in resource_spans.get("scopeSpans", []):
            for span in scope_spans.get("spans", []):
                for name in {"traceId", "spanId", "parentSpanId"} & span.keys():
                    span[name] = base64.b64decode(span[name]).hex()
    return json.dumps(document).encode()


def post(
    server: Live, body: bytes, *, kind: str = PROTOBUF, encoding: str = "", path: str = "/v1/traces"
) -> httpx.Response:
    """Post to the OTLP listener, on a connection of its own."""
    headers = {name: value for name, value in (("content-type", kind), ("content-encoding", encoding)) if value}
    with a_client() as client:
        return client.post(f"{server.otlp_http}{path}", content=body, headers=headers)


def varint(number: int) -> bytes:
    """Return a number as protobuf writes it."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def in_field(number: int, content: bytes) -> bytes:
    """Return a length-delimited field as protobuf writes it."""
    return in_field_of(number, len(content)) + content


def in_field_of(number: int, length: int) -> bytes:
    """Encode the tag and length of such a field."""
    return varint(number << 3 | 2) + varint(length)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer."""

    status: int
    headers: HTTPMessage
    body: bytes


class Connection:
    """One TCP connection to an HTTP address; closed at the end of the `with` block."""

    def __init__(self, address: str, *, path: str = "/v1/traces") -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self._answers = self._socket.makefile("rb")
        self._head = f"POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: {PROTOBUF}\r\n"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._answers.close()
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send these bytes."""
        self._socket.sendall(data)

    def begin(self, header: str) -> None:
        """Send the head of a request with one more header."""
        self.send(f"{self._head}{header}\r\n\r\n".encode())

    def request(self, body: bytes) -> None:
        """Send a whole request."""
        self.begin(f"content-length: {len(body)}")
        self.send(body)

    def send_part(self, body: bytes, size: int) -> None:
        """Send a request as far as `size` bytes of its body."""
        self.begin(f"content-length: {len(body)}")
        self.send(body[:size])

    def reply(self) -> Reply:
        """Read the next answer."""
        status_line = self._answers.readline()
        assert status_line, "the server closed the connection"
        headers = parse_headers(self._answers)
        size = int(headers["content-length"])
        return Reply(status=int(status_line.split()[1]), headers=headers, body=self._answers.read(size))

    def at_end(self) -> bool:
        """Wait for the next byte; return whether the server has closed the connection."""
        try:
            return not self._answers.read(1)
        except ConnectionResetError:
            return True
