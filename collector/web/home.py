"""The first page: the last hour, day or week of a project, and how it differs from the previous period."""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, NamedTuple
from urllib.parse import urlencode

from fastapi import Query, Request
from fastapi.responses import Response
from markupsafe import Markup
from pydantic import BaseModel, ConfigDict

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.access.tenants import connections_seen
from collector.api.base.context import Context
from collector.api.base.routing import CallerDep, ContextDep
from collector.api.base.times import time_text
from collector.api.documents.rule_documents import judge_problems, problems_of
from collector.conditions import RECORDED_TWICE
from collector.units import count_text, duration_text, usd_text
from collector.web.agent_table import AgentLine, agent_lines
from collector.web.changes import Change, point_change, share_change
from collector.web.charts.columns import ChartColumn, columns
from collector.web.rendering import in_snapshot, page, see_other
from collector.web.visitor import page_router, with_parameters
from collector.web.visits import Visit, news_of, remember, visit_of
from storage.alerting.alerts import Alert, AlertFilter
from storage.offline.run_sums import RunSums
from storage.offline.runs import Run
from storage.query.agents import AgentsAt
from storage.query.overview import Glance, GlanceAt, RuleSums, StepSums

router = page_router()

_NS: Final = 1_000_000_000
_MOST_ALERTS: Final = 20
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_P95: Final = 1
_LATEST_RUNS: Final = 100  # searched for those of the chosen project
_SHOWN_RUNS: Final = 5
_MOST_AGENTS: Final = 30  # of the table; a guess: more than one looks through
_LEAST_LIMIT, _MOST_LIMIT = 0.05, 0.95  # of errors, in a suggested monitor; a guess


class _Period(NamedTuple):
    """A period to show, and its steps, in seconds."""

    label: str
    before: str
    length_s: int
    step_s: int
    days: int  # the parameter `days` of the quality page that covers the period


PERIODS: Final[Mapping[str, _Period]] = {
    "hour": _Period("Last hour", "the hour before", 3_600, 300, 1),
    "day": _Period("Last 24 hours", "the day before", 86_400, 3_600, 1),
    "week": _Period("Last 7 days", "the week before", 604_800, 21_600, 7),
}


class HomeQuery(BaseModel):
    """Query parameters of the first page: period and project."""

    model_config = ConfigDict(extra="ignore")

    period: Literal["hour", "day", "week"] = "day"
    project: str = ""
    seen: bool = False  # the visitor has seen what changed


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleLine:
    """Results of a rule in a project: those of the rule's latest evaluator, compared with the previous period."""

    sums: RuleSums
    other_results: int  # scores of other evaluators, which the rate leaves out
    other_failures: int
    change: Change | None
    href: str
    failed_href: str


@router.get("/")
@needs(Permission.READ, by_tenant=True)
@in_snapshot
def show_home(
    request: Request, context: ContextDep, caller: CallerDep, query: Annotated[HomeQuery, Query()]
) -> Response:
    """Show agents, traces, errors, latency, cost, pass rates, alerts, and what changed since the last visit."""
    now_ns = context.now_ns()
    visit = visit_of(request, now_ns)
    if query.seen:
        answer: Response = see_other(with_parameters(request, seen=None))
        remember(request, answer, Visit(since_s=visit.now_s, now_s=visit.now_s))
        return answer
    answer = _home(request, context, caller, query, visit, now_ns)
    remember(request, answer, visit)
    return answer


def _home(request: Request, context: Context, caller: Caller, query: HomeQuery, visit: Visit, now_ns: int) -> Response:
    period, project = PERIODS[query.period], query.project or None
    at = _time_of(now_ns, period, project, caller)
    glance = context.store.overview.glance(at, step_ns=period.step_s * _NS)
    alerts = _alerts(context, caller, project)
    return page(
        request,
        "home.html",
        period=period,
        chosen=query.period,
        periods=PERIODS,
        project=query.project,
        projects=_projects(context, caller, query.project),
        glance=glance,
        changes=_changes(glance),
        pictures=_pictures(glance, at, period),
        rules=rule_lines(glance.rules, period),
        alerts=alerts,
        news=news_of(context.store, visit, project=project, tenant=caller.visible_tenant),
        of_news=lambda since_ns, **more: _traces_href(at, since_ns, now_ns, **more),
        **_agents(context, at, period, now_ns, alerts),
        most_alerts=_MOST_ALERTS,
        silent_rules=_silent_rules(context, caller),
        silent_connections=_silent_connections(context, caller),
        doubled=_doubled(context, caller),
        traces=_traces_href(at, at.from_ns, at.until_ns),
        errors=_traces_href(at, at.from_ns, at.until_ns, status="error"),
        monitor_of_errors=_monitor_href(glance, project),
        dearest=_traces_href(at, at.from_ns, at.until_ns, sort="cost"),
        slowest=_traces_href(at, at.from_ns, at.until_ns, sort="duration"),
        of_model=lambda model: _traces_href(at, at.from_ns, at.until_ns, model=model),
        of_failure=lambda name: _traces_href(at, at.from_ns, at.until_ns, failing=name),
        is_empty=not glance.now.traces and not glance.before.traces,
        runs=_latest_runs(context, caller, project),
    )


def _time_of(now_ns: int, period: _Period, project: str | None, caller: Caller) -> GlanceAt:
    """Return the period up to the end of the current step, so that steps begin at round instants."""
    step_ns = period.step_s * _NS
    until_ns = (now_ns // step_ns + 1) * step_ns
    from_ns = until_ns - period.length_s * _NS
    before_ns = from_ns - period.length_s * _NS
    return GlanceAt(
        before_ns=before_ns, from_ns=from_ns, until_ns=until_ns, project=project, tenant=caller.visible_tenant
    )


def _agents(context: Context, at: GlanceAt, period: _Period, now_ns: int, alerts: Sequence[Alert]) -> dict[str, Any]:
    """Return what the page shows of agents."""
    # The windows end now, not at the end of the step: the earlier ones are as long as this one.
    window = AgentsAt.between(at.from_ns, now_ns, step_ns=period.step_s * _NS, project=at.project, tenant=at.tenant)
    listed = context.store.agents.find(window)
    shown: list[AgentLine] = agent_lines(
        listed.agents[:_MOST_AGENTS],
        window,
        alerts=alerts,
        href=lambda **filters: _traces_href(at, at.from_ns, at.until_ns, **filters),
    )
    return {
        "agents": sorted(shown, key=lambda line: not line.alerts),
        "more_agents": len(listed.agents) - len(shown),
        "are_named": listed.are_named,
        "has_day": window.has_day,
    }


def _latest_runs(context: Context, caller: Caller, project: str | None) -> list[tuple[Run, RunSums]]:
    latest = context.store.runs.latest(caller.visible_tenant, most=_LATEST_RUNS)
    runs = [run for run in latest if project in {None, run.project}][:_SHOWN_RUNS]
    sums = context.store.runs.sums([run.run_id for run in runs])
    return [(run, sums[run.run_id]) for run in runs]


def _projects(context: Context, caller: Caller, chosen: str) -> list[str]:
    known = context.store.rulebook.project_names("" if caller.sees_all else caller.tenant)
    return sorted({*known, chosen} - {""})


def _alerts(context: Context, caller: Caller, project: str | None) -> Sequence[Alert]:
    """Return open alerts, then acknowledged ones, newest first; of each state up to one more than the page shows."""
    return [
        alert
        for state in ("open", "acknowledged")
        for alert in context.store.alerts.newest(
            AlertFilter(state=state, project=project), tenant=caller.visible_tenant, offset=0, limit=_MOST_ALERTS + 1
        )
    ]


def _silent_rules(context: Context, caller: Caller) -> list[tuple[str, str, str]]:
    """Return the enabled rules that the caller sees and that judge nothing: address, name, reason."""
    problem_of = problems_of(context, caller)
    return [
        (f"/rules/{each.stored.rule_id}", each.stored.name, problem)
        for each in context.rules.kept()
        if each.stored.enabled and caller.sees(each.stored.tenant) and (problem := problem_of(each.active)) is not None
    ]


def _silent_connections(context: Context, caller: Caller) -> list[tuple[str, str, str]]:
    """Return the connections that the caller sees and that give no verdicts: address, name, why."""
    failing = judge_problems(context, caller)
    return [
        (f"/connections/{each.connection_id}", each.row.name, problem)
        for each in connections_seen(context, caller)
        if (problem := failing.of_connection(each.connection_id)) is not None
    ]


def _doubled(context: Context, caller: Caller) -> list[str]:
    lasting = [each for each in context.conditions.lasting if each.name == RECORDED_TWICE]
    return [
        each.message
        for each in lasting
        if caller.sees_all or (each.about and caller.sees(each.about.partition("/")[0]))
    ]


def _traces_href(at: GlanceAt, from_ns: int, to_ns: int, **more: str) -> str:
    params = {"from": time_text(from_ns) or "", "to": time_text(to_ns) or "", "project": at.project or "", **more}
    return f"/traces?{urlencode({name: value for name, value in params.items() if value})}"


def _monitor_href(glance: Glance, project: str | None) -> str:
    # The limit is twice the share of the period before: a page that is bad now alerts at once.
    above = min(max(round(2 * (glance.before.error_rate or 0.0), 2), _LEAST_LIMIT), _MOST_LIMIT)
    named = {"project": project} if project else {}
    return f"/metric-monitors?{urlencode({'metric': 'traces_with_errors', **named, 'above': above})}"


def _changes(glance: Glance) -> dict[str, Change | None]:
    """Compare the numbers of a period with those of the previous one."""
    now, before = glance.now, glance.before
    return {
        "traces": share_change(now.traces, before.traces, more_is_worse=None),
        "errors": point_change(now.error_rate, before.error_rate, more_is_worse=True),
        "latency": share_change(_latency(now), _latency(before), more_is_worse=True),
        "cost": share_change(now.cost_usd, before.cost_usd, more_is_worse=True),
        "tokens": share_change(now.tokens, before.tokens, more_is_worse=None),
    }


def _latency(sums: StepSums) -> float | None:
    return None if sums.latencies_ms is None else sums.latencies_ms[_P95]


def rule_lines(rules: Sequence[RuleSums], period: _Period) -> list[RuleLine]:
    """Return a line for each rule and project, with the pass rate of the latest evaluator that has one."""
    groups: dict[tuple[str, str | None], list[RuleSums]] = {}
    for each in rules:
        groups.setdefault((each.rule_id, each.project), []).append(each)
    return [_rule_line(evaluators, period) for evaluators in groups.values()]


def _rule_line(evaluators: Sequence[RuleSums], period: _Period) -> RuleLine:
    latest = max(evaluators, key=lambda each: (each.rate is not None, each.last_us))
    others = [each for each in evaluators if each is not latest]
    return RuleLine(
        sums=latest,
        other_results=sum(each.passed + each.not_passed for each in others),
        other_failures=sum(each.not_passed for each in others),
        change=point_change(latest.rate, latest.rate_before, more_is_worse=False),
        href=_quality_href("/quality", latest, period),
        failed_href=_quality_href("/quality/results", latest, period, verdict="failed"),
    )


def _quality_href(path: str, each: RuleSums, period: _Period, **more: str) -> str:
    params = {"rule": each.rule_id, "project": each.project or "", "days": str(period.days), **more}
    return f"{path}?{urlencode(params)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """A number to chart over time; `of` computes it from the sums of a step."""

    what: str
    of: Callable[[StepSums], float | None]
    in_words: Callable[[float], str]
    sort: str  # the order in which its traces are listed


_MEASURES: Final = (
    _Measured(
        what="Traces, and those with errors",
        of=lambda sums: sums.traces,
        in_words=lambda value: count_text(int(value), "trace"),
        sort="",
    ),
    _Measured(what="Latency, 95th percentile", of=_latency, in_words=duration_text, sort="duration"),
    _Measured(what="Cost", of=lambda sums: sums.cost_usd, in_words=usd_text, sort="cost"),
)


def _pictures(glance: Glance, at: GlanceAt, period: _Period) -> list[tuple[str, Markup]]:
    """Draw traces and failed ones, their durations and their cost, by step."""
    by_step = {each.step: each for each in glance.steps}
    steps = [(number, by_step.get(number)) for number in range(period.length_s // period.step_s)]
    drawn = []
    for measured in _MEASURES:
        data = [_column(number, sums, measured, at, period) for number, sums in steps]
        most = max((each.value or 0.0 for each in data), default=0.0)
        if most:
            titles = ("From (UTC)", measured.what)
            picture = columns(data, label=measured.what, most=measured.in_words(most), titles=titles)
            drawn.append((measured.what, picture))
    return drawn


def _column(number: int, sums: StepSums | None, measured: _Measured, at: GlanceAt, period: _Period) -> ChartColumn:
    from_ns = at.from_ns + number * period.step_s * _NS
    began = _EPOCH + dt.timedelta(seconds=from_ns // _NS)
    label = f"{began:%d %b %H:%M}" if period.days > 1 else f"{began:%H:%M}"
    value = None if sums is None else measured.of(sums)
    if sums is None or value is None:
        return ChartColumn(label=label, value=None, text="nothing")
    is_count = not measured.sort
    text = measured.in_words(value) + (f", {sums.failed:,} with errors" if is_count and sums.failed else "")
    href = _traces_href(at, from_ns, from_ns + period.step_s * _NS, sort=measured.sort)
    return ChartColumn(label=label, value=value, text=text, bad=float(sums.failed if is_count else 0), href=href)
