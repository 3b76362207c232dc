"""The page Costs: what each model cost on each day, and which users cost most."""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Final, Literal
from urllib.parse import urlencode

from fastapi import Query, Request
from fastapi.responses import Response
from markupsafe import Markup
from pydantic import BaseModel, ConfigDict

from collector.access.permission import Permission, needs
from collector.api.base.routing import CallerDep, ContextDep
from collector.api.base.times import time_text
from collector.units import usd_text
from collector.web.charts.columns import ChartColumn, columns
from collector.web.rendering import in_snapshot, page
from collector.web.visitor import page_router
from storage.query.costs import CallSums, CostsAt

router = page_router()

PERIODS: Final[Mapping[str, int]] = {"7 days": 7, "30 days": 30}
_DAY_NS: Final = 86_400 * 10**9
_EPOCH: Final = dt.date(1970, 1, 1)


class CostsQuery(BaseModel):
    """Query parameters of the page."""

    model_config = ConfigDict(extra="ignore")

    days: Literal["7", "30"] = "7"
    project: str = ""


@router.get("/costs")
@needs(Permission.READ, by_tenant=True)
@in_snapshot
def show_costs(
    request: Request, context: ContextDep, caller: CallerDep, query: Annotated[CostsQuery, Query()]
) -> Response:
    """Show the cost by model and day, and the users with the highest cost, of the last days in UTC."""
    days = int(query.days)
    until_ns = (context.now_ns() // _DAY_NS + 1) * _DAY_NS
    from_ns = until_ns - days * _DAY_NS
    at = CostsAt(from_ns=from_ns, until_ns=until_ns, project=query.project or None, tenant=caller.visible_tenant)
    costs = context.store.costs.of(at)

    def traces(day: int | None = None, **filters: str) -> str:
        first, end = (0, days) if day is None else (day, day + 1)
        times = {"from": time_text(from_ns + first * _DAY_NS), "to": time_text(from_ns + end * _DAY_NS)}
        named = {"project": query.project} if query.project else {}
        return f"/traces?{urlencode(times | named | {'sort': 'cost'} | filters)}"

    known = context.store.rulebook.project_names("" if caller.sees_all else caller.tenant)
    return page(
        request,
        "costs.html",
        periods=PERIODS,
        days=days,
        project=query.project,
        projects=sorted({*known, query.project} - {""}),
        costs=costs,
        dates=(dates := [_EPOCH + dt.timedelta(days=from_ns // _DAY_NS + day) for day in range(days)]),
        total=_total,
        traces=traces,
        picture=_picture(costs.all, dates, traces),
    )


def _total(by_day: Mapping[int, CallSums]) -> CallSums:
    costs = [each.cost_usd for each in by_day.values() if each.cost_usd is not None]
    return CallSums(
        calls=sum(each.calls for each in by_day.values()),
        tokens=sum(each.tokens for each in by_day.values()),
        cost_usd=sum(costs) if costs else None,
    )


def _picture(by_day: Mapping[int, CallSums], dates: Sequence[dt.date], href: Callable[[int], str]) -> Markup | None:
    """Draw the cost of all models by day; None if no cost is known."""
    costs = [by_day[day].cost_usd if day in by_day else None for day in range(len(dates))]
    most = max((cost for cost in costs if cost is not None), default=0.0)
    data = [
        ChartColumn(
            label=f"{date:%d %b}", value=cost, text="nothing" if cost is None else usd_text(cost), href=href(day)
        )
        for day, (date, cost) in enumerate(zip(dates, costs, strict=True))
    ]
    return columns(data, label="Cost", most=usd_text(most), titles=("Day (UTC)", "Cost")) if most else None
