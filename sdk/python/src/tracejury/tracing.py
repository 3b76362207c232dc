"""OpenTelemetry of an application, sent to the server: `tracejury.init()`."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry import trace

from tracejury.client import KEY_VARIABLE, URL_VARIABLE
from tracejury.marking import ITEM, RUN, item_marked, mark_spans

_PATH: Final = "/api/v1/traces"
_FLUSH_MS: Final = 5_000
_NEEDS: Final = "tracejury.init() needs OpenTelemetry's SDK: pip install 'tracejury-sdk[otel]'"

_TRACER: Final = trace.get_tracer("tracejury")
_lock: Final = threading.Lock()
_connected: Final[set[tuple[int, str]]] = set()  # providers by their identity, with the address that they send to


def init(project: str | None = None, *, url: str | None = None, api_key: str | None = None) -> bool:
    """Send the spans of this process to the server; return False if no server is named.

    A provider that is already set is kept and exports to the server as well; its own resource names the project, and
    `project` is ignored. Otherwise a provider with the service name `project` is set. Without a URL, as an argument or
    in the environment, nothing changes. A repeated call for the same server adds nothing. Spans of simulated traffic
    are marked as such.

    Raises:
        ImportError: OpenTelemetry's SDK or its exporter over HTTP is not installed.
    """
    server = url or os.environ.get(URL_VARIABLE)
    if not server:
        return False
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ImportError(_NEEDS) from error
    key = api_key or os.environ.get(KEY_VARIABLE)
    endpoint = server.rstrip("/") + _PATH
    with _lock:
        provider: Any = trace.get_tracer_provider()
        if not hasattr(provider, "add_span_processor"):
            provider = TracerProvider(resource=Resource.create({"service.name": project} if project else {}))
            trace.set_tracer_provider(provider)
        if (id(provider), endpoint) in _connected:
            return True
        mark_spans()
        headers = {"authorization": f"Bearer {key}"} if key else None
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint, headers=headers)))
        _connected.add((id(provider), endpoint))
    return True


@contextmanager
def item_span(
    experiment: str, *, key: str, trial: int, run_id: str | None
) -> "Iterator[tuple[str | None, str | None]]":
    """Open a span around an item; yield its trace id and span id, each None without tracing.

    Its children in this process have the run and the item's key as attributes, too, so that rules can tell them from
    spans of production.
    """
    attributes: dict[str, str | int] = {ITEM: key, "tracejury.trial": trial}
    attributes |= {} if run_id is None else {RUN: run_id}
    with (
        item_marked(key, run_id),
        _TRACER.start_as_current_span(f"experiment {experiment}", attributes=attributes) as span,
    ):
        context = span.get_span_context()
        yield (f"{context.trace_id:032x}", f"{context.span_id:016x}") if context.is_valid else (None, None)


def flush() -> None:
    """Export the queued spans, so that the server has the traces of a run when it ends.

    `_FLUSH_MS` is not a bound: OpenTelemetry's batch processor ignores the timeout (opentelemetry-python issue 4568)
    and exports batch after batch with the timeout of its exporter.
    """
    force = getattr(trace.get_tracer_provider(), "force_flush", None)
    if force is not None:
        force(_FLUSH_MS)
