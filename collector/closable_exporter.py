"""A span exporter that can be closed while it sends."""

import threading
from collections.abc import Callable, Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult


class ClosableExporter(SpanExporter):
    """Exporter that drops spans once `is_closed` is set, so that the shutdown does not wait for them to be sent."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.is_closed = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans; fail once the exporter is closed."""
        return SpanExportResult.FAILURE if self.is_closed else self._exporter.export(spans)

    def shutdown(self) -> None:
        """Close the connection."""
        self._exporter.shutdown()


def for_a_moment(act: Callable[[], object], seconds: float) -> None:
    """Call `act` in a thread, and wait for at most `seconds`, because an export may wait for ever for its response."""
    acting = threading.Thread(target=act, name="last-spans", daemon=True)
    acting.start()
    acting.join(seconds)
