"""The overview beside the list of traces: volume and latency over time, and the counts of the values of facets."""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fastapi import Request
from fastapi.responses import Response
from markupsafe import Markup

from collector.access.permission import Permission, needs
from collector.api.base.routing import CallerDep, ContextDep
from collector.api.base.times import time_text
from collector.api.traces.list_filters import LABELS, NONE, TraceFilter, filter_of
from collector.result_labels import NO_VERDICT
from collector.units import count_text, duration_text
from collector.web.charts.columns import ChartColumn, columns
from collector.web.rendering import page
from collector.web.traces.trace_list import at_list
from collector.web.visitor import page_router
from storage.query.facets import Facet
from storage.query.trace_shape import ShapeStep, TraceShape

router = page_router()

_NS: Final = 1_000_000_000
_MINUTE: Final = 60 * _NS
_DAY: Final = 86_400 * _NS
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_SIZE: Final = (520.0, 54.0)  # of a picture: it leaves room for the list
_FEW, _MANY = 8, 200  # values of a facet
_FACETS: Final = ("status", "verdict", "rule", "project", "service", "model", "release")
_WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "status": {"error": "with errors", "ok": "without errors"},
    "verdict": {"broken": NO_VERDICT, "any": "any result"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FacetLine:
    """A value of a facet: its number of traces, and the address of the list that sets or removes it as a filter."""

    label: str
    traces: int | None  # None: it was not counted
    is_set: bool
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FacetView:
    """The values of one facet, and how many more there are."""

    name: str
    label: str
    lines: Sequence[FacetLine]
    more: int


@router.get("/traces/overview")
@needs(Permission.READ, by_tenant=True)
def show_overview(request: Request, context: ContextDep, caller: CallerDep, values: str = "") -> Response:
    """Show the volume, the latency and the values of the traces that an address lists.

    Of each facet, the `_FEW` most frequent values are counted; with `values=all` the `_MANY` most frequent; with
    `values=none` no values.
    """
    now_ns = context.now_ns()
    chosen = filter_of(request.query_params, now_ns)
    is_whole = values == "all"
    shape = TraceShape()
    if not chosen.problems:
        most = {"all": _MANY, "none": 0}.get(values, _FEW)
        shape = context.store.overview.shapes.of(chosen.like, now_ns=now_ns, tenant=caller.visible_tenant, values=most)
    return page(
        request,
        "traces_overview.html",
        status=400 if chosen.problems else 200,
        problems=chosen.problems,
        shape=shape,
        failed=sum(each.failed for each in shape.steps),
        pictures=_pictures(request, shape, chosen),
        facets=[] if values == "none" else [_facet(request, chosen, name, shape) for name in _FACETS],
        is_whole=is_whole,
        list_address=at_list(request, values=None),
    )


def _facet(request: Request, query: TraceFilter, name: str, shape: TraceShape) -> FacetView:
    """Return the values of one facet; the chosen one is always among them."""
    facet, chosen = shape.facets.get(name, Facet()), query.values[name]
    lines = [
        _line(request, name, each.value or NONE, each.traces, is_set=_is_set(name, each.value, chosen))
        for each in facet.values
    ]
    if chosen and not any(line.is_set for line in lines):
        lines.insert(0, _line(request, name, chosen, None if lines else 0, is_set=True))
    return FacetView(name=name, label=LABELS[name], lines=lines, more=facet.many - len(facet.values))


def _is_set(name: str, value: str, chosen: str) -> bool:
    return value == chosen if name == "verdict" else bool(chosen)


def _line(request: Request, name: str, value: str, traces: int | None, *, is_set: bool) -> FacetLine:
    label = _WORDS.get(name, {}).get(value, value)
    href = at_list(request, values=None, before=None, live=None, **{name: None if is_set else value})
    return FacetLine(label=label, traces=traces, is_set=is_set, href=href)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawn:
    """A chart: `value`, `within` and `bad` are numbers of a step, `describe` and `most` format a step and a value."""

    what: str
    value: Callable[[ShapeStep], float | None]
    within: Callable[[ShapeStep], float]
    bad: Callable[[ShapeStep], float]
    describe: Callable[[ShapeStep], str]
    most: Callable[[float], str]


def _volume_text(step: ShapeStep) -> str:
    return count_text(step.traces, "trace") + (f", {step.failed:,} with errors" if step.failed else "")


def _latency_text(step: ShapeStep) -> str:
    half, most = step.latencies_ms or (0.0, 0.0)
    return f"median {duration_text(half)}, p95 {duration_text(most)}"


_PICTURES: Final = (
    _Drawn(
        what="Traces, and those with errors",
        value=lambda step: step.traces,
        within=lambda _: 0.0,
        bad=lambda step: step.failed,
        describe=_volume_text,
        most=lambda value: count_text(int(value), "trace"),
    ),
    _Drawn(
        what="Latency, median and p95",
        value=lambda step: step.latencies_ms[1] if step.latencies_ms else None,
        within=lambda step: step.latencies_ms[0] if step.latencies_ms else 0.0,
        bad=lambda _: 0.0,
        describe=_latency_text,
        most=duration_text,
    ),
)


def _pictures(request: Request, shape: TraceShape, query: TraceFilter) -> list[tuple[str, str, Markup]]:
    """Draw the traces over time, each with its name and highest value; each column links to the list of its traces."""
    by_step = {each.step: each for each in shape.steps}
    drawn = []
    for picture in _PICTURES:
        data = [_column(request, shape, query, number, by_step.get(number), picture) for number in range(shape.columns)]
        most = max((each.value or 0.0 for each in data), default=0.0)
        if most:
            titles = ("From (UTC)", picture.what)
            chart = columns(data, label=picture.what, most="", titles=titles, size=_SIZE)
            drawn.append((picture.what, picture.most(most), chart))
    return drawn


def _column(
    request: Request, shape: TraceShape, query: TraceFilter, number: int, step: ShapeStep | None, picture: _Drawn
) -> ChartColumn:
    from_ns = shape.from_ns + number * shape.step_ns
    label = _label(from_ns, shape)
    value = None if step is None else picture.value(step)
    if step is None or value is None:
        return ChartColumn(label=label, value=None, text="nothing")
    narrowed = {
        "from": time_text(max(from_ns, query.like.from_ns)),
        "to": time_text(min(from_ns + shape.step_ns, query.like.to_ns)),
    }
    return ChartColumn(
        label=label,
        value=value,
        text=picture.describe(step),
        within=picture.within(step),
        bad=picture.bad(step),
        href=at_list(request, values=None, since=None, before=None, live=None, **narrowed),
    )


def _label(from_ns: int, shape: TraceShape) -> str:
    """Format the start of a step in UTC, as short as possible."""
    began = _EPOCH + dt.timedelta(microseconds=from_ns // 1_000)
    if shape.step_ns >= _DAY:
        return f"{began:%d %b %Y}"
    if shape.step_ns * shape.columns > _DAY:
        return f"{began:%d %b %H:%M}"
    if shape.step_ns >= _MINUTE:
        return f"{began:%H:%M}"
    return f"{began:%H:%M:%S}" if shape.step_ns >= _NS else f"{began:%H:%M:%S.%f}"[:-3]
