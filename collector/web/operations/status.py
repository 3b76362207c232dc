"""The status of the server: incoming data, waiting work, failures, spending, and disk usage."""

from typing import Final

from fastapi import Request
from fastapi.responses import Response
from markupsafe import Markup

from collector.access.permission import Permission, needs
from collector.api.base.context import Context
from collector.api.base.routing import CallerDep, ContextDep
from collector.api.documents.rule_documents import comparisons_of, problems_of
from collector.api.documents.status_documents import lake_document, rule_counts
from collector.machine import versions
from collector.units import instant_text
from collector.web.charts.columns import ChartColumn, columns
from collector.web.operations.spending import payers_today
from collector.web.rendering import page
from collector.web.visitor import page_router

router = page_router()

_STEP_S: Final = 20
_STRETCHES: Final = 30
"""The last ten minutes. A guess: long enough to see a change, short enough to see it at once."""

_RECENT: Final = 3
_US: Final = 1_000_000_000
_SIZE: Final = (520.0, 84.0)  # of the picture
_TIME: Final = slice(11, 19)  # of an instant: the time of day


@router.get("/status")
@needs(Permission.READ)
def show_status(request: Request, context: ContextDep, caller: CallerDep) -> Response:
    """Show the state of the server now."""
    now_ns = context.now_ns()
    counts = context.store.status.arrivals(now_ns, stretches=_STRETCHES, step_s=_STEP_S)
    rules = rule_counts(context.rules.kept(), (), problems_of(context, caller), comparisons_of(context, None))
    return page(
        request,
        "status.html",
        state=context.state,
        is_overloaded=context.store.overload is not None,
        standing=context.store.status.status(now_ns),
        rate=sum(counts[-_RECENT:]) / (_RECENT * _STEP_S),
        arrivals=_picture(counts, now_ns),
        stretch_min=_STRETCHES * _STEP_S // 60,
        meters=numbers_of(context),
        received=_received(context),
        payers_today=payers_today(context),
        problems=context.rules.problems,
        rules=rules,
        conditions=context.conditions.lasting,
        lake=lake_document(context.lake),
        set_aside=context.store.totals.set_aside,
        versions=versions(),
    )


def _picture(counts: list[int], now_ns: int) -> Markup:
    """Draw spans per second over time."""
    rates = [count / _STEP_S for count in counts]
    begins = [now_ns - (_STRETCHES - place) * _STEP_S * _US for place in range(_STRETCHES)]
    data = [
        ChartColumn(label=instant_text(begin)[_TIME], value=rate, text=f"{rate:,.2f}")
        for begin, rate in zip(begins, rates, strict=True)
    ]
    most = f"{max(rates):,.1f} spans a second"
    label = f"Spans a second over the last {_STRETCHES * _STEP_S // 60} minutes, at most {max(rates):,.1f}"
    return columns(data, label=label, most=most, titles=("From (UTC)", "Spans a second"), size=_SIZE)


def numbers_of(context: Context) -> dict[str, float]:
    """Return the metrics of `_SHOWN`, by name without the product's prefix."""
    readings = {meter.name.removeprefix("tracejury_"): meter.read() for meter in context.meters if meter.name in _SHOWN}
    return {name: value for name, value in readings.items() if isinstance(value, int | float)}


_SHOWN: Final = {f"tracejury_{name}" for name in ("queue_bytes", "backlog_bytes", "database_bytes", "disk_free_bytes")}


def _received(context: Context) -> list[tuple[str, int]]:
    """Return the counts of received spans since the start, by outcome."""
    meter = next((each for each in context.meters if each.name == "tracejury_received_total"), None)
    counts = {} if meter is None else meter.read()
    if not isinstance(counts, dict):
        return []
    return [
        (dict(labels)["outcome"], int(count))
        for labels, count in sorted(counts.items())
        if dict(labels)["kind"] == "span"
    ]
