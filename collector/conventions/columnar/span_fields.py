"""Fields of spans besides their attributes, read by row."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from collector.conventions.columnar.simple import COST, COUNTS, TEXTS, TOOL_TEXTS
from collector.conventions.dialogue import EVENT_ROLES
from collector.conventions.index import event_places
from storage.query.rows import events_of
from storage.records import SpanEvent

ERROR = 2
_MODELS = ("model", "named_model", "asked_model")
_FIELDS = frozenset((*_MODELS, "cached_apart", "usage_apart", *TEXTS, *TOOL_TEXTS, *COUNTS, COST))


class SpanFields:
    """Names, statuses and events of a batch."""

    def __init__(self, spans: pa.Table) -> None:
        self.names: list[str] = spans.column("name").to_pylist()
        self.statuses: list[int] = spans.column("status_code").to_pylist()
        self.messages: list[str] = spans.column("status_message").to_pylist()
        self.dropped: list[int] = spans.column("dropped_attributes_count").to_pylist()
        self.events = _events(spans.column("events"))
        self.has_content = self._rows_with(_holds_content)
        self.has_fields = self._rows_with(_holds_fields)

    def _rows_with(self, holds: Callable[[str], bool]) -> frozenset[int]:
        """Return the rows of spans with a matching event."""
        known: dict[str, bool] = {}
        rows = set()
        for row, events in self.events.items():
            for event in events:
                if event.name not in known:
                    known[event.name] = holds(event.name)
                if known[event.name]:
                    rows.add(row)
        return frozenset(rows)

    def span(self, row: int) -> "BatchSpan":
        """Return one span."""
        return BatchSpan(self, row)


class BatchSpan:
    """One span of a batch."""

    __slots__ = ("_row", "_spans")

    def __init__(self, spans: SpanFields, row: int) -> None:
        self._spans = spans
        self._row = row

    @property
    def name(self) -> str:
        """Return its name."""
        return self._spans.names[self._row]

    @property
    def status_code(self) -> int:
        """OTLP's StatusCode."""
        return self._spans.statuses[self._row]

    @property
    def status_message(self) -> str:
        """Return the sender's message for the status."""
        return self._spans.messages[self._row]

    @property
    def dropped_attributes_count(self) -> int:
        """Return how many attributes the sender dropped."""
        return self._spans.dropped[self._row]

    @property
    def events(self) -> Sequence[SpanEvent]:
        """Return its events, in the order received."""
        return self._spans.events.get(self._row, ())


def _events(column: pa.ChunkedArray) -> dict[int, Sequence[SpanEvent]]:
    """Return the events of the spans that have some, by row."""
    lists = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    rows = np.flatnonzero(np.diff(lists.offsets.to_numpy()))
    if not len(rows):
        return {}
    return dict(zip(rows.tolist(), events_of(lists.take(pa.array(rows))), strict=True))


def _holds_content(name: str) -> bool:
    return name in EVENT_ROLES or bool(event_places(name))


def _holds_fields(name: str) -> bool:
    return any(place.slot in _FIELDS for place in event_places(name))
