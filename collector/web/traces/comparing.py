"""Two traces side by side: their spans as one tree, with content, duration and cost."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from fastapi import Query, Request
from fastapi.responses import Response
from markupsafe import Markup
from pydantic import BaseModel, Field

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.access.keys import TENANT_PATTERN
from collector.api.access.tenants import visible_tenant_of
from collector.api.base.context import Context
from collector.api.base.routing import CallerDep, ContextDep
from collector.beginning import json_beginning
from collector.web.offline.marked import marked
from collector.web.rendering import page
from collector.web.spans.conversation import parts_of
from collector.web.spans.span_view import Detail, detail_of
from collector.web.text import WRITTEN_CHARACTERS, value_block, value_text
from collector.web.traces.alignment import AlignedSpan, TraceSide, align, differing
from collector.web.visitor import page_router, with_query
from storage.errors import NotFound
from storage.query.listing import TraceDetails
from storage.query.outline import Outline
from storage.query.trace_criteria import TraceCriteria
from storage.records import Message, TraceSummary

router = page_router()

_MOST_SPANS: Final = 10_000
_PAGE_ROWS: Final = 300
_OFFERED: Final = 12
"""Number of traces offered to compare with. A guess."""

_MOST_PAGE: Final = 10_000


class TraceQuery(BaseModel):
    """Query parameters: the other trace, and the rows and the pair of spans to show."""

    other: str = Field(default="", alias="with", max_length=400)
    tenant: str = Field(default="", pattern=f"^$|{TENANT_PATTERN}")
    show: Literal["", "all"] = ""
    pair: int | None = Field(default=None, ge=0, le=2 * _MOST_SPANS)
    page: int = Field(default=0, ge=0, le=_MOST_PAGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """An amount to compare."""

    label: str
    form: str  # the template filter that renders it
    before: float | None
    after: float | None

    @property
    def change(self) -> str:
        """Return the change from `before` to `after` in percent; "new" from 0, and "" if unchanged or unknown."""
        if self.before is None or self.after is None or self.before == self.after:
            return ""
        if not self.before:
            return "new"
        return f"{100 * (self.after - self.before) / self.before:+,.0f} %"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedTexts:
    """The texts of two spans with their differences marked; None if a span has no such text."""

    label: str
    before: Markup | None
    after: Markup | None


@router.get("/traces/{trace_id}/compare")
@needs(Permission.READ, by_tenant=True)
def compare_traces(
    request: Request, trace_id: str, context: ContextDep, caller: CallerDep, query: Annotated[TraceQuery, Query()]
) -> Response:
    """Compare two traces, or offer traces to compare with."""
    visible_tenant = visible_tenant_of(caller, query.tenant or None)
    before = _outline(context, trace_id, visible_tenant)
    other, problem = _trace_id(query.other), ""
    after = None
    if other is not None:
        after = context.store.outlines.of_trace(other, tenant=visible_tenant, max_spans=_MOST_SPANS)
    if query.other and after is None:
        problem = f"Trace {query.other[:64]} does not exist; it may have expired."
    shown: dict[str, Any] = {"one": before.summary, "query": query, "problem": problem, "has_other": after is not None}
    if after is None:
        return page(
            request, "trace_compare.html", status=404 if problem else 200, **shown, **_offered(context, caller, before)
        )
    return page(request, "trace_compare.html", other=after.summary, **shown, **_compared(context, before, after, query))


def _offered(context: Context, caller: Caller, outline: Outline) -> dict[str, Any]:
    """Return the latest other traces with the same project, service and root span name."""
    one = outline.summary
    like = TraceCriteria(project=one.project, service=one.service_name, name=one.root_name)
    listed = context.store.listing.traces(like, after=None, limit=_OFFERED + 1, tenant=caller.visible_tenant)
    others = [each for each in listed.traces if (each.trace_id, each.tenant) != (one.trace_id, one.tenant)]
    return {
        "others": others[:_OFFERED],
        "briefs": context.store.listing.briefs(others, listed.commits) if others else {},
    }


def _compared(context: Context, before: Outline, after: Outline, query: TraceQuery) -> dict[str, Any]:
    sides = [TraceSide(spans=each.spans, digests=context.store.outlines.digests(each)) for each in (before, after)]
    rows = align(*sides)
    changed = differing(rows)
    listed = list(range(len(rows))) if query.show == "all" else changed
    first = query.page * _PAGE_ROWS
    chosen = query.pair if query.pair is not None and query.pair < len(rows) else _first(rows)
    return {
        "amounts": _amounts(context, before, after),
        "counts": Counter(row.state for row in rows),
        "rows": [(place, rows[place]) for place in listed[first : first + _PAGE_ROWS]],
        "total": len(listed),
        "last": first + _PAGE_ROWS >= len(listed),
        "page_rows": _PAGE_ROWS,
        "chosen": chosen,
        "pair": None if chosen is None else rows[chosen],
        "texts": () if chosen is None else _texts(context, before, after, rows[chosen]),
        "is_cut": any(len(each.spans) < each.summary.span_count for each in (before, after)),
    }


def _first(rows: Sequence[AlignedSpan]) -> int | None:
    """Choose the row to show: a new failure, else the first difference that has no difference as a child.

    Without differences, choose the first row.
    """
    for place, row in enumerate(rows):
        if row.after is not None and row.after.is_error and (row.before is None or "error" in row.changes):
            return place
    above = {row.above for row in rows if row.state != "same"}
    for place, row in enumerate(rows):
        if row.state != "same" and place not in above:
            return place
    return 0 if rows else None


def _amounts(context: Context, before: Outline, after: Outline) -> list[Amount]:
    one, other = (_amounts_of(context, each) for each in (before, after))
    named = (
        ("Duration", "duration"),
        ("Spans", "number"),
        ("Errors", "number"),
        ("Tokens in", "number"),
        ("Tokens out", "number"),
        ("Cost", "usd"),
    )
    return [
        Amount(label=label, form=form, before=one[label], after=other[label])
        for label, form in named
        if one[label] is not None or other[label] is not None
    ]


def _amounts_of(context: Context, outline: Outline) -> Mapping[str, float | None]:
    summary = outline.summary
    brief = context.store.listing.briefs([summary], outline.commits).get(
        (summary.tenant, summary.trace_id), TraceDetails()
    )
    return {
        "Duration": _duration_ms(summary),
        "Spans": summary.span_count,
        "Errors": summary.error_count,
        "Tokens in": brief.input_tokens,
        "Tokens out": brief.output_tokens,
        "Cost": brief.cost_usd,
    }


def _duration_ms(summary: TraceSummary) -> float | None:
    return (summary.end_ns - summary.start_ns) / 1e6 if summary.end_ns and summary.start_ns else None


def _texts(context: Context, before: Outline, after: Outline, row: AlignedSpan) -> list[ComparedTexts]:
    """Return the inputs and outputs of a span in both traces."""
    details = [
        _detail(context, outline, None if span is None else span.span_id)
        for outline, span in ((before, row.before), (after, row.after))
    ]
    compared = []
    for label, of in (("Input", "input"), ("Output", "output")):
        texts = [None if detail is None else _text(detail, of) for detail in details]
        wholes = [_whole(outline, detail, of) for outline, detail in zip((before, after), details, strict=True)]
        compared.append(_beside(label, texts, wholes))
    return [each for each in compared if each.before is not None or each.after is not None]


def _beside(label: str, texts: Sequence[str | None], wholes: Sequence[str]) -> ComparedTexts:
    one, other = texts
    if one is not None and other is not None:
        before, after = marked(one, other, (wholes[0], wholes[1]))
        return ComparedTexts(label=label, before=before, after=after)
    return ComparedTexts(
        label=label,
        before=None if one is None else value_block(one, wholes[0]),
        after=None if other is None else value_block(other, wholes[1]),
    )


def _text(detail: Detail, of: str) -> str | None:
    """Return the input or output text of a span: arguments or result of a tool call, else messages, else plain text."""
    reading = detail.reading
    tool, messages, text = (
        (reading.tool_arguments, reading.input_messages, reading.input)
        if of == "input"
        else (reading.tool_result, reading.output_messages, reading.output)
    )
    if tool is not None:
        return value_text(tool)
    if messages:
        return "\n\n".join(map(_message_text, messages))
    return None if text is None else value_text(text)


def _message_text(message: Message) -> str:
    pieces = [
        str(part.get("content") or "")
        if part.get("type") in {"text", "reasoning"}
        else json_beginning({key: value for key, value in part.items() if key != "id"}, WRITTEN_CHARACTERS)
        for part in parts_of(message)
    ]
    return f"{message.get('role') or 'unknown'}: " + "\n".join(pieces)


def _whole(outline: Outline, detail: Detail | None, of: str) -> str:
    if detail is None:
        return ""
    reading, summary = detail.reading, outline.summary
    choices = (
        {"input": ("tool_arguments", "input_messages"), "output": ("tool_result", "output_messages")}[of],
        of,
    )
    named = next((name for name in choices[0] if getattr(reading, name)), choices[1])
    place = f"/traces/{summary.trace_id}/spans/{detail.span.span_id}/text"
    return with_query(place, of=named, tenant=summary.tenant or None)


def _detail(context: Context, outline: Outline, span_id: str | None) -> Detail | None:
    whole = None if span_id is None else context.store.outlines.span(outline, span_id)
    return None if whole is None else detail_of(whole, context.own_keys, outline.summary.start_ns)


def _outline(context: Context, trace_id: str, tenant: str | None) -> Outline:
    outline = context.store.outlines.of_trace(trace_id.lower(), tenant=tenant, max_spans=_MOST_SPANS)
    if outline is None:
        raise NotFound(f"no trace {trace_id[:64]} here; it may have expired")
    return outline


def _trace_id(typed: str) -> str | None:
    words = typed.strip().lower().partition("?")[0].rstrip("/").rpartition("/")[2]
    return words if len(words) == 32 and all(each in "0123456789abcdef" for each in words) else None  # noqa: PLR2004 - digits of an id
