"""The server's own requests to judges as spans of the OpenTelemetry SDK, with the marker that excludes them from rules.

The attribute names here are for writing, as in an instrumented application; those for reading are in
`collector.conventions`. Prompts and answers are not sent.
"""

import logging
from collections.abc import Mapping
from contextlib import closing
from urllib.parse import urlsplit

import requests
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.util.types import AttributeValue

from collector.closable_exporter import ClosableExporter, for_a_moment
from collector.live.judges.judges import Call
from rules.marker import MARKER

log = logging.getLogger(__name__)

SERVICE = "tracejury"
_TIMEOUT_S = 5  # of one export. A guess
_CLOSING_S = 2.0  # for a request under way. A guess
_ANSWERED = "answered"


class JudgeTraces:
    """Sender of a span for each request to a judge.

    Requests carry no trace context: the endpoint is not part of a trace.
    """

    def __init__(self, otlp_http: str, key: str) -> None:
        """Set up the sender. `otlp_http` is a listener for OTLP over HTTP, as host:port that accepts `key`."""
        self._session = requests.Session()
        self._session.trust_env = False  # the listener is on this machine: use no proxy
        endpoint = f"http://{otlp_http}/v1/traces"
        headers = {"authorization": f"Bearer {key}"}
        exporter = OTLPSpanExporter(endpoint=endpoint, timeout=_TIMEOUT_S, session=self._session, headers=headers)
        self._exporter = ClosableExporter(exporter)
        resource = Resource({"service.name": SERVICE, MARKER: True})
        self._provider = TracerProvider(sampler=ALWAYS_ON, resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        self._tracer = self._provider.get_tracer("tracejury.judges")

    def record(self, call: Call) -> None:
        """Queue the span of a finished request, but not for a tenant, because all can see these spans."""
        if call.account.tenant:
            return
        span = self._tracer.start_span(
            f"chat {call.connection.model}",
            context=Context(),
            kind=SpanKind.CLIENT,
            attributes=_attributes(call),
            start_time=call.spent.started_ns,
        )
        if call.spent.outcome != _ANSWERED:
            span.set_status(Status(StatusCode.ERROR, call.spent.outcome))
        span.end()

    def flush(self) -> None:
        """Send the waiting spans, while the listener is still open."""
        self._provider.force_flush(_TIMEOUT_S * 1000)

    def close(self) -> None:
        """Close the sender. Unsent spans are dropped."""
        self._exporter.is_closed = True
        with closing(self._session):
            for_a_moment(self._provider.shutdown, _CLOSING_S)


def _attributes(call: Call) -> Mapping[str, AttributeValue]:
    url, spent, account = urlsplit(call.connection.base_url), call.spent, call.account
    attributes: dict[str, AttributeValue | None] = {
        MARKER: True,
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": call.connection.provider,
        "gen_ai.request.model": call.connection.model,
        "gen_ai.request.max_tokens": call.connection.max_output_tokens,
        "gen_ai.response.model": spent.model,
        "gen_ai.usage.input_tokens": spent.input_tokens,
        "gen_ai.usage.output_tokens": spent.output_tokens,
        "server.address": url.hostname,
        "server.port": url.port,
        "error.type": None if spent.outcome == _ANSWERED else spent.outcome,
        "tracejury.connection_id": account.connection_id,
        "tracejury.rule": call.rule,
        "tracejury.rule_id": account.rule_id,
        "tracejury.job_id": account.job_id,
    }
    return {name: value for name, value in attributes.items() if value is not None}
