"""Monitors of metrics: what is watched, what it is now, and its limit."""

from fastapi import APIRouter, Request
from fastapi.responses import Response

from collector.access.permission import Permission, needs
from collector.api.base.context import Here, Who
from collector.live.monitors.metric_looks import metric_state_of, text_of
from collector.metric_monitor_text import SCOPES, MetricMonitorText
from collector.units import metric_text
from collector.web.rendering import page

router = APIRouter()


@router.get("/metric-monitors")
@needs(Permission.READ, by_tenant=True)
def list_metric_monitors(request: Request, here: Here, who: Who) -> Response:
    """All of them by name, and how they stand."""
    rows = here.metric_monitors.all(tenant=who.sight)
    monitors = [(row, text := text_of(row), metric_state_of(row), _scope(text), _limit(text)) for row in rows]
    return page(request, "metric_monitors.html", monitors=monitors)


def _scope(text: MetricMonitorText) -> str:
    """What it is narrowed down to."""
    told = [f"{scope} {value}" for scope in SCOPES if (value := getattr(text, scope)) is not None]
    return ", ".join(told) or "everything"


def _limit(text: MetricMonitorText) -> str:
    if text.change is not None:
        return "a change"
    side = "above" if text.above is not None else "below"
    return f"{side} {metric_text(text.limit.number, text.of.unit)}"
