"""The API's JSON documents as the values that are printed; whatever does not fit them is not our server's answer."""

import datetime as dt
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def _instant_ns(text: object) -> object:
    """RFC 3339 with any number of digits as nanoseconds since the Unix epoch; anything but text as it is."""
    if not isinstance(text, str):
        return text
    seconds, _, fraction = text.removesuffix("Z").partition(".")
    whole = dt.datetime.fromisoformat(f"{seconds}+00:00") - _EPOCH
    return (whole.days * 86_400 + whole.seconds) * 1_000_000_000 + int(f"{fraction:0<9}"[:9])


InstantNs = Annotated[int, BeforeValidator(_instant_ns)]


class _View(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


class EventView(_View):
    """Something that happened at one moment of a span."""

    time_ns: InstantNs | None = Field(alias="time")
    name: str
    attributes: dict[str, object]


class LinkView(_View):
    """A span elsewhere that this one names as related."""

    trace_id: str
    span_id: str


class ToolCallView(_View):
    """One call of a tool."""

    name: str
    call_id: str | None
    arguments: object
    result: object
    is_error: bool
    error: str | None
    duration_ms: float | None


class MessageView(_View):
    """A message in the normal form."""

    role: str = ""
    parts: tuple[object, ...] = ()


class SpanView(_View):
    """One span as `traces show` prints it."""

    span_id: str
    parent_span_id: str | None
    name: str
    kind: str
    start_ns: InstantNs | None = Field(alias="startTime")
    duration_ms: float | None
    status_code: str
    status_message: str
    span_type: str = "other"
    input: str | None
    output: str | None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    events: tuple[EventView, ...]
    links: tuple[LinkView, ...]


class SummaryView(_View):
    """One line of `traces list`."""

    trace_id: str
    project: str
    service_name: str
    root_span_name: str
    start_ns: InstantNs | None = Field(alias="startTime")
    duration_ms: float | None
    span_count: int
    error_count: int


class TraceView(SummaryView):
    """A trace with what it means and its spans."""

    session_id: str | None = None
    user_id: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    tool_calls: tuple[ToolCallView, ...] = ()
    conversation: tuple[MessageView, ...] = ()
    spans: tuple[SpanView, ...]


class ColumnView(_View):
    """One column of an SQL answer."""

    name: str
    type: str


class TableView(_View):
    """An SQL answer."""

    columns: tuple[ColumnView, ...]
    rows: tuple[tuple[object, ...], ...]
    truncated: bool
