"""Marks on the spans of simulated traffic and of items of experiments.

Spans that start while a simulated user waits for an answer, or while an item is run, have the attributes below. In
other processes spans have them if the baggage of a request is extracted and `tracejury.init()` was called, or if the
resource has the mark. The key of an item, which may be about a person, stays in the process.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from opentelemetry import baggage, context, trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

SIMULATED: Final = "tracejury.simulated"
"""A span that has this attribute, itself or in its resource, is simulated. Rules pass it over unless they name it."""

SESSION: Final = "session.id"

RUN: Final = "tracejury.run.id"
"""A span that has this attribute is of an item of this run. Rules pass it over unless they name it."""

ITEM: Final = "tracejury.item.key"
_CARRIED: Final = (SIMULATED, SESSION, RUN)
_KEY: Final = context.create_key("tracejury-item")
_TRACER: Final = trace.get_tracer("tracejury")
_lock: Final = threading.Lock()
_marking: Final[set[int]] = set()  # the providers that mark, by their identity


@dataclass
class Turning:
    """The turn that is being answered."""

    session_id: str
    number: int
    trace_ids: list[str] = field(default_factory=list)


_turning: ContextVar[Turning | None] = ContextVar("tracejury_turn", default=None)


def current_session() -> str | None:
    """Return the id of the simulated session that waits for an answer; None outside of a simulated turn."""
    turning = _turning.get()
    return None if turning is None else turning.session_id


def mark_spans() -> None:
    """Make this process's tracer provider mark spans; nothing happens with the API alone."""
    provider: Any = trace.get_tracer_provider()
    if not hasattr(provider, "add_span_processor"):
        return
    from opentelemetry.sdk.trace import SpanProcessor

    class Marking(SpanProcessor):
        """Copies the marks of a simulation or a run from baggage, and the key of the item, to each span."""

        def on_start(self, span: Any, parent_context: Any = None) -> None:
            for name in _CARRIED:
                value = baggage.get_baggage(name, parent_context)
                if value is not None:
                    span.set_attribute(name, str(value))
            key = context.get_value(_KEY, parent_context)
            if key is not None:
                span.set_attribute(ITEM, str(key))

    with _lock:
        if id(provider) not in _marking:
            provider.add_span_processor(Marking())
            _marking.add(id(provider))


@contextmanager
def item_marked(key: str, run_id: str | None) -> Iterator[None]:
    """Mark spans that start during the block with the item's key and its run; in other processes, only with the run."""
    of_item = context.set_value(_KEY, key)
    token = context.attach(of_item if run_id is None else baggage.set_baggage(RUN, run_id, of_item))
    try:
        yield
    finally:
        context.detach(token)


@contextmanager
def turn_span(turning: Turning, text: str, attributes: Mapping[str, Any]) -> Iterator[Any]:
    """Open a span around the answer to a turn, in a trace of its own; all spans below it are marked."""
    outer = trace.get_current_span().get_span_context()
    links = [trace.Link(outer)] if outer.is_valid else []
    marked = baggage.set_baggage(SIMULATED, "true", context.Context())
    token = context.attach(baggage.set_baggage(SESSION, turning.session_id, marked))
    turn = _turning.set(turning)
    marks = {**attributes, SIMULATED: "true", SESSION: turning.session_id, "tracejury.turn": turning.number}
    marks["input.value"] = text
    try:
        with _TRACER.start_as_current_span("simulated turn", attributes=marks, links=links) as span:
            if span.get_span_context().is_valid:
                turning.trace_ids.append(f"{span.get_span_context().trace_id:032x}")
            yield span
    finally:
        _turning.reset(turn)
        context.detach(token)


def carried() -> dict[str, str]:
    """Return the headers that tie a request to the turn: `traceparent` if there is a trace, and `baggage`."""
    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    W3CBaggagePropagator().inject(headers)
    return headers
