"""The table of agents on Home: the numbers of each, how they changed, its worst traces and its open alerts."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from markupsafe import Markup

from collector.alert_lines import alerts_of_service
from collector.escaping import one_line
from collector.units import count_text, duration_text
from collector.web import formatting
from collector.web.changes import Change, point_change, share_change
from collector.web.charts.small import sparkline
from storage.alerting.alerts import Alert
from storage.query.agents import AgentNumbers, AgentsAt, AgentSums, WorstTrace

Href = Callable[..., str]
"""Function that returns the address of a list of traces, by the names and values of its filters."""

_OTHER_EVALUATORS: Final = Change(text="other evaluators", is_worse=None)
_NOTABLE: Final = 0.1  # change of an amount that is coloured; a guess
_Z_95: Final = 1.96


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A number of an agent with its changes, each with the time that it is compared with; `href` is of its traces."""

    name: str
    value: Markup
    changes: Sequence[tuple[str, Change]]
    href: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLine:
    """A row of the table. `of` names the service and the project, where the name does not."""

    name: str
    of: str
    href: str | None
    cells: Sequence[Cell]
    trend: Markup
    worst: Sequence[tuple[WorstTrace, str]]  # each with what is wrong with it
    alerts: Sequence[Alert]


def agent_lines(agents: Sequence[AgentSums], at: AgentsAt, *, alerts: Sequence[Alert], href: Href) -> list[AgentLine]:
    """Return the rows of the table; `alerts` are those that are not over."""
    services = Counter((each.key.project, each.key.service) for each in agents)
    roots = Counter((each.key.project, each.key.service, each.root_name) for each in agents)
    lines = []
    for each in agents:
        project, service, _ = each.key
        is_alone = services[project, service] == 1
        has_own_root = each.root_name is not None and roots[project, service, each.root_name] == 1
        is_exact = bool(service) and (is_alone or has_own_root)
        # Agents of one service are told apart by the names of their roots, if at all.
        of_it = {"service": service or "", "name": "" if is_alone else each.root_name or ""}
        of_it |= {} if at.project else {"project": project or ""}
        of_agent = alerts_of_service(alerts, project, service)
        lines.append(_line(each, at, of_agent, partial(href, **of_it) if is_exact else None))
    return lines


def _line(agent: AgentSums, at: AgentsAt, alerts: Sequence[Alert], href: Href | None) -> AgentLine:
    project, service, name = agent.key
    title = name or service or "no service"
    places = [service if name and service != name else None, None if at.project else project]
    return AgentLine(
        name=title,
        of=", ".join(dict.fromkeys(place for place in places if place and place != title)),
        href=href() if href else None,
        cells=list(_cells(agent, at, href)),
        trend=_trend(agent, at, title),
        worst=[(trace, _fault(trace)) for trace in agent.worst],
        alerts=alerts,
    )


def _cells(agent: AgentSums, at: AgentsAt, href: Href | None) -> Iterator[Cell]:
    def changes(of: Callable[[AgentNumbers, AgentNumbers], Change | None]) -> list[tuple[str, Change]]:
        earlier = [("1 d", agent.day)] if at.has_day else []
        compared = [(label, of(agent.now, before)) for label, before in (*earlier, ("7 d", agent.week))]
        return [(label, change) for label, change in compared if change is not None]

    now = agent.now
    failed = href(status="error") if href and now.failed else None
    yield Cell(
        name="Traces",
        value=formatting.number(now.traces),
        changes=changes(lambda own, before: share_change(own.traces, before.traces, more_is_worse=None)),
        href=href() if href else None,
    )
    yield Cell(
        name="With errors",
        value=formatting.percent(now.error_rate),
        changes=changes(_failed),
        href=failed,
    )
    yield Cell(
        name="Latency p95",
        value=formatting.duration(now.p95_ms),
        changes=changes(lambda own, before: _amount(own.p95_ms, before.p95_ms)),
        href=href(sort="duration") if href and now.p95_ms is not None else None,
    )
    yield Cell(
        name="Cost",
        value=formatting.usd(now.cost_usd),
        changes=changes(lambda own, before: _amount(own.cost_usd, before.cost_usd)),
        href=href(sort="cost") if href and now.cost_usd is not None else None,
    )
    yield Cell(name="Passed", value=formatting.percent(now.pass_rate), changes=changes(_passed))
    yield Cell(
        name="Tokens",
        value=formatting.short_count(now.tokens),
        changes=changes(lambda own, before: share_change(own.tokens, before.tokens, more_is_worse=None)),
    )


def _amount(own: float | None, before: float | None) -> Change | None:
    change = share_change(own, before, more_is_worse=True)
    is_notable = own is not None and before is not None and abs(own - before) >= _NOTABLE * before
    return change if change is None or is_notable else replace(change, is_worse=None)


def _failed(own: AgentNumbers, before: AgentNumbers) -> Change | None:
    change = point_change(own.error_rate, before.error_rate, more_is_worse=True)
    return _beyond_chance(change, (own.failed, own.traces), (before.failed, before.traces))


def _passed(own: AgentNumbers, before: AgentNumbers) -> Change | None:
    if own.judged and before.judged and own.evaluators != before.evaluators:
        return _OTHER_EVALUATORS
    change = point_change(own.pass_rate, before.pass_rate, more_is_worse=False)
    return _beyond_chance(change, (own.passed, own.judged), (before.passed, before.judged))


def _beyond_chance(change: Change | None, own: tuple[int, int], before: tuple[int, int]) -> Change | None:
    """Return a change of a share, not called worse or better if the usual test of two shares finds nothing."""
    if change is None or change.is_worse is None:
        return change
    pooled = (own[0] + before[0]) / (own[1] + before[1])
    deviation = math.sqrt(pooled * (1 - pooled) * (1 / own[1] + 1 / before[1]))
    is_chance = abs(own[0] / own[1] - before[0] / before[1]) < _Z_95 * deviation
    return replace(change, is_worse=None) if is_chance else change


def _trend(agent: AgentSums, at: AgentsAt, title: str) -> Markup:
    count = -(-(at.until_ns - at.from_ns) // at.step_ns)
    values = [agent.steps.get(step, 0) for step in range(count)]
    label = f"Traces of {one_line(title)} over time: {min(values)} to {max(values)} in a step, {values[-1]} in the last"
    return sparkline(values, label=label, least=0)


def _fault(trace: WorstTrace) -> str:
    faults = [
        count_text(count, one)
        for count, one in ((trace.errors, "error"), (trace.failed_verdicts, "failed verdict"))
        if count
    ]
    return ", ".join(faults) or f"took {duration_text(trace.duration_ms)}"
