"""`tracejury send`: OTLP files to a server."""

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import click
import httpx
from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as otlp

from collector.cli.connecting import connect, unreachable
from collector.escaping import one_line
from collector.units import count_text

DEFAULT_SERVER = "http://127.0.0.1:4318"
ATTEMPTS = 5
LONGEST_WAIT_S = 30

_PATH = "/v1/traces"
_JSON, _PROTOBUF = "application/json", "application/x-protobuf"
_RETRYABLE = {429, 502, 503, 504}  # as OTLP/HTTP says


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFile:
    """An export request in a file."""

    content_type: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """Numbers of requests and spans that were sent from a file, and of spans that the server rejected."""

    requests: int = 0
    spans: int = 0
    rejected_spans: int = 0
    reason: str = ""  # of the first rejection


@click.command()
@click.argument(
    "files", nargs=-1, required=True, metavar="FILE…", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--server", default=DEFAULT_SERVER, show_default=True, metavar="URL", help="Its OTLP/HTTP address.")
def send(*, files: tuple[Path, ...], server: str) -> None:
    """Send OTLP files to a server: JSON, JSON lines or protobuf, one export request each."""
    rejected = 0
    with connect(server.rstrip("/").removesuffix(_PATH)) as client:
        for file in files:
            sent = _send_file(client, file)
            rejected += sent.rejected_spans
            counts = f"{count_text(sent.spans, 'span')} in {count_text(sent.requests, 'request')}"
            click.echo(f"{one_line(str(file))}: {counts}")
            if sent.rejected_spans:
                reason = one_line(sent.reason)
                click.echo(f"{one_line(str(file))}: {sent.rejected_spans:,} of them rejected: {reason}", err=True)
    if rejected:
        raise click.ClickException(f"{count_text(rejected, 'span was', 'spans were')} rejected")


def requests_in(file: BinaryIO) -> Iterator[ExportFile]:
    """Yield the requests of a file: a JSON document, JSON lines, or protobuf, detected by content."""
    first = next((line for line in file if line.strip()), b"")
    if _is_json(first):
        lines = (line.strip() for line in chain([first], file))
        yield from (ExportFile(content_type=_JSON, body=line) for line in lines if line)
        return
    file.seek(0)
    body = file.read()
    yield ExportFile(content_type=_JSON if _is_json(body) else _PROTOBUF, body=body)


def _send_file(client: httpx.Client, file: Path) -> Sent:
    with file.open("rb") as opened:
        return _total(_send_request(client, request, file) for request in requests_in(opened))


def _total(parts: Iterable[Sent]) -> Sent:
    total = Sent()
    for part in parts:
        total = Sent(
            requests=total.requests + part.requests,
            spans=total.spans + part.spans,
            rejected_spans=total.rejected_spans + part.rejected_spans,
            reason=total.reason or part.reason,
        )
    return total


def _send_request(client: httpx.Client, request: ExportFile, file: Path) -> Sent:
    response = _post(client, request)
    if not response.is_success:
        reason = _reason(response)
        raise click.ClickException(f"{one_line(str(file))}: the server refused it ({response.status_code}): {reason}")
    rejected, reason = _partial_success(response)
    return Sent(requests=1, spans=_span_count(request), rejected_spans=rejected, reason=reason)


def _post(client: httpx.Client, request: ExportFile) -> httpx.Response:
    """Send a request, with retries on a retryable status; return the last response."""
    for attempt in range(1, ATTEMPTS):
        response = _post_once(client, request)
        if response.status_code not in _RETRYABLE:
            return response
        time.sleep(_wait_s(response, attempt))
    return _post_once(client, request)


def _post_once(client: httpx.Client, request: ExportFile) -> httpx.Response:
    try:
        return client.post(_PATH, content=request.body, headers={"content-type": request.content_type})
    except httpx.RequestError as error:
        raise unreachable(client, error) from error


def _wait_s(response: httpx.Response, attempt: int) -> int:
    header = response.headers.get("retry-after", "")
    return min(int(header) if header.isdecimal() else 2**attempt, LONGEST_WAIT_S)


def _partial_success(response: httpx.Response) -> tuple[int, str]:
    """Return the number of rejected spans, and the reason."""
    try:
        if response.headers.get("content-type", "").startswith(_JSON):
            answer = response.json()
            partial = answer.get("partialSuccess") or answer  # the reply of /api/v1/traces has the counts at its top
            return int(partial.get("rejectedSpans", 0)), str(partial.get("errorMessage", ""))
        partial_success = otlp.ExportTraceServiceResponse.FromString(response.content).partial_success
    except (ValueError, AttributeError, TypeError, DecodeError) as error:
        raise click.ClickException(f"what answers at {response.url} does not speak OTLP/HTTP") from error
    return partial_success.rejected_spans, partial_success.error_message


def _reason(response: httpx.Response) -> str:
    """Return the message of the Status in an error response, or the beginning of another body."""
    try:
        if response.headers.get("content-type", "").startswith(_PROTOBUF):
            return one_line(Status.FromString(response.content).message)
        return one_line(str(response.json()["message"]))
    except (ValueError, LookupError, TypeError, DecodeError):
        return one_line(response.text[:200]) or response.reason_phrase


def _span_count(request: ExportFile) -> int:
    """Count the spans of a request."""
    if request.content_type == _PROTOBUF:
        message = otlp.ExportTraceServiceRequest.FromString(request.body)
        return sum(len(scope.spans) for resource in message.resource_spans for scope in resource.scope_spans)
    document = json.loads(request.body)
    return sum(
        len(scope.get("spans") or ())
        for resource in document.get("resourceSpans") or ()
        for scope in resource.get("scopeSpans") or ()
    )


def _is_json(text: bytes) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
