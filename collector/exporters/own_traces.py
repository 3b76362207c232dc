"""The server's own traces: its work as spans of the OpenTelemetry SDK, with the marker that excludes them from rules.

Each span is a trace of its own. Spans beyond the queue of the exporter are dropped, and nothing waits for them.
"""

from collections.abc import Mapping
from contextlib import closing
from typing import Final

import requests
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import SpanKind, Status, StatusCode

from collector.closable_exporter import ClosableExporter, for_a_moment
from collector.self_tracing import INTERNAL_HEADER, FinishedWork
from rules.marker import MARKER

_TIMEOUT_S: Final = 5  # of one export. A guess
_FLUSH_S: Final = 2.0  # for the remaining spans at the end. A guess
_KINDS: Final = {"server": SpanKind.SERVER, "client": SpanKind.CLIENT, "internal": SpanKind.INTERNAL}


class OwnTraces:
    """Exporter of a span for each finished piece of work, until `close`."""

    def __init__(self, endpoint: str, headers: Mapping[str, str], *, instance: str) -> None:
        """Set up the sender. `endpoint` takes spans in OTLP over HTTP; `headers` go with each request."""
        self._session = requests.Session()
        self._session.trust_env = False
        sent = {**headers, INTERNAL_HEADER: "1"}
        self._exporter = ClosableExporter(
            OTLPSpanExporter(endpoint=endpoint, timeout=_TIMEOUT_S, session=self._session, headers=sent)
        )
        resource = Resource({"service.name": "tracejury", "service.instance.id": instance, MARKER: True})
        self._provider = TracerProvider(sampler=ALWAYS_ON, resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        self._tracer = self._provider.get_tracer("tracejury")

    def watch(self, done: FinishedWork) -> None:
        """Queue a span of finished work to be sent soon. From any thread; it neither waits nor raises."""
        attributes = {name: value for name, value in done.attributes.items() if value is not None}
        span = self._tracer.start_span(
            done.name,
            context=Context(),
            kind=_KINDS[done.kind],
            attributes={MARKER: True, **attributes},
            start_time=done.began_ns,
        )
        if done.failed is not None:
            span.set_status(Status(StatusCode.ERROR, done.failed))
        span.end()

    def flush(self) -> None:
        """Send the waiting spans."""
        self._provider.force_flush(_TIMEOUT_S * 1000)

    def close(self) -> None:
        """Send queued spans for `_FLUSH_S` at most, and close; the rest is dropped."""
        for_a_moment(self.flush, _FLUSH_S)
        self._exporter.is_closed = True
        with closing(self._session):
            for_a_moment(self._provider.shutdown, _FLUSH_S)
