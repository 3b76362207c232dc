"""One check of a metric: its value now, and whether to open an alert."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple, TypeAlias

from pydantic import TypeAdapter

from collector.metric_monitor_text import SCOPES, MetricMonitorText
from rules.metric_limit import LimitState, look_at
from rules.statistics.events import EpisodeEvent, StreamRate
from rules.statistics.formulas.rates import wilson
from rules.statistics.monitor import Monitor, MonitoredResult, MonitorState
from storage.alerting.alerts import AlertFinding, ComparedSide, Escalation, alert_id_of
from storage.alerting.metric_monitors import (
    MetricLook,
    MetricMonitorRow,
    MetricMonitors,
    MetricNumbers,
    metric_statement,
)
from storage.alerting.monitors import Happening, Recovery
from storage.records import JsonValue, MetricStanding

BudgetShare: TypeAlias = Callable[[MetricMonitorText, str], float | None]
"""Function that returns the share of a tenant's budget that is spent today."""


MOST_OUTCOMES: Final = 1_000
"""Limit of the spans or judgements in one check for a change; each costs 10 to 20 µs."""

_COMMIT_US: Final = 2_000_000
"""Time from the end of a window to now, so that spans acknowledged before that end are committed, unless the server is
behind."""

_LONGEST_AGO_US: Final = 3_600_000_000
"""Time back to which spans or judgements are checked for a change, so that a check after a long stop is bounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricState:
    """Result of the last check, and the state that the next one needs."""

    version: int  # of the monitor
    standing: MetricStanding = "waiting"
    value: float | None = None
    count: int = 0
    failed: int = 0
    limit: LimitState = field(default_factory=LimitState)
    after: int = -1  # the number of the last span or judgement that a change was looked for in
    monitor: MonitorState | None = None


_STATE: Final = TypeAdapter(MetricState)


def metric_state_of(row: MetricMonitorRow) -> MetricState:
    """Return the stored state of a monitor; a new one if the monitor was changed since."""
    if row.state is None:
        return MetricState(version=row.version)
    state = _STATE.validate_json(row.state)
    return state if state.version == row.version else MetricState(version=row.version)


def text_of(row: MetricMonitorRow) -> MetricMonitorText:
    """Parse the text of a monitor."""
    return MetricMonitorText.model_validate_json(row.document)


class MetricLooker:
    """Check of metrics. `since_us` is the start of ingest: low counts of windows that begin before are not reported."""

    def __init__(self, monitors: MetricMonitors, budget_share: BudgetShare, since_us: int) -> None:
        self._monitors = monitors
        self._budget_share = budget_share
        self._since_us = since_us

    def look(self, row: MetricMonitorRow, now_ns: int) -> MetricLook:
        """Check a monitor now, and return the result to store."""
        text, state = text_of(row), metric_state_of(row)
        alert_id, happened = row.alert_id, list[Happening]()
        if alert_id is not None and (row.is_deleted or not text.enabled or _is_changed(row)):
            how = "deleted" if row.is_deleted else "settings"
            happened.append(Recovery(tenant=row.tenant, alert_id=alert_id, document={"how": how}))
            alert_id = None
        if row.is_deleted or not text.enabled:
            state = MetricState(version=row.version, standing="off")
        else:
            window = _LookWindow(row=row, text=text, now_us=now_ns // 1000)
            following = self._change if text.change else self._limit
            for each, event in following(window, state):
                state = each
                match event:
                    case AlertFinding():
                        happened.append(event)
                        alert_id = alert_id_of(row.tenant, event.episode)
                    case _Worse() if alert_id is not None:
                        happened.append(Escalation(tenant=row.tenant, alert_id=alert_id, finding=event.finding))
                    case Mapping() if alert_id is not None:
                        happened.append(Recovery(tenant=row.tenant, alert_id=alert_id, document=event))
                        alert_id = None
        return MetricLook(
            row=row, state=_STATE.dump_json(state).decode(), alert_id=alert_id, happened=happened, at_ns=now_ns
        )

    def _limit(self, window: "_LookWindow", state: MetricState) -> Iterator["_Step"]:
        text = window.text
        numbers = self._numbers(window)
        value = None if numbers is None else _value(text, numbers)
        if numbers is None or value is None:
            standing: MetricStanding = "alert" if state.limit.is_open else "waiting"
            counts = (0, 0) if numbers is None else (numbers.count, numbers.failed)
            yield replace(state, standing=standing, value=None, count=counts[0], failed=counts[1]), None
            return
        limit, crossing = look_at(text.limit, state.limit, value)
        changed = replace(
            state,
            standing="alert" if limit.is_open else "fine",
            value=value,
            count=numbers.count,
            failed=numbers.failed,
            limit=limit,
        )
        now = _side_of(text, value, numbers)
        if crossing in {"opened", "escalated"}:
            evidence = (value, text.limit.number if crossing == "opened" else text.escalate_at or 0.0)
            finding = self._finding(window, "limit", (_limit_side(text), now), evidence)
            yield changed, finding if crossing == "opened" else _Worse(finding)
        elif crossing == "recovered":
            yield changed, {"how": "recovered", "candidate": _side_document(now), "value": value}
        else:
            yield changed, None

    def _numbers(self, window: "_LookWindow") -> MetricNumbers | None:
        """Return the numbers of the metric; None if they are unknown."""
        text = window.text
        metric = text.of
        if metric.numbers is None:
            share = self._budget_share(text, window.row.tenant)
            return None if share is None else MetricNumbers(count=1, failed=0, amount=share)
        if metric.counts and text.below is not None and window.from_us < max(self._since_us, window.row.updated_us):
            return None
        return self._monitors.numbers(metric.numbers, window.values)

    def _change(self, window: "_LookWindow", state: MetricState) -> Iterator["_Step"]:
        """Compare new outcomes with earlier ones, one span or judgement after the other."""
        text = window.text
        if text.change is None or text.of.outcomes is None:
            return
        params = window.values | {
            "after": state.after,
            "from_us": window.until_us - _LONGEST_AGO_US,
            "most": MOST_OUTCOMES,
        }
        outcomes = self._monitors.outcomes(text.of.outcomes, params)
        monitor = Monitor(text.change.settings, state.monitor)
        after = max((each.last for each in outcomes), default=state.after)
        is_open = state.standing == "alert"
        for each in outcomes:
            event = monitor.add(MonitoredResult(each.release, each.passed, None), each.number)
            if event is None:
                continue
            is_open = event.change in {"opened", "escalated"}
            sides = (_rate_side(event, "baseline"), _rate_side(event, "candidate"))
            if is_open:
                evidence = (event.evidence, event.threshold)
                finding = self._finding(window, event.kind, sides, evidence, number=each.number)
                yield state, finding if event.change == "opened" else _Worse(finding)
            else:
                yield (
                    state,
                    {"how": event.change, "baseline": _side_document(sides[0]), "candidate": _side_document(sides[1])},
                )
        failed = sum(not each.passed for each in outcomes)
        changed = replace(state, after=after, monitor=monitor.state, standing="alert" if is_open else "fine")
        if outcomes:
            changed = replace(changed, value=failed / len(outcomes), count=len(outcomes), failed=failed)
        elif monitor.results == 0:
            changed = replace(changed, standing="waiting")
        yield changed, None

    def _finding(
        self,
        window: "_LookWindow",
        kind: Literal["release", "drift", "limit"],
        sides: tuple[ComparedSide, ComparedSide],
        evidence: tuple[float, float],
        *,
        number: int | None = None,
    ) -> AlertFinding:
        """Return the alert, with the evidence to check it."""
        row, text = window.row, window.text
        baseline, candidate = sides
        document: dict[str, JsonValue] = {
            "unit": text.of.unit,
            "windowSeconds": text.window_seconds,
            "scope": {scope: value for scope in SCOPES if (value := getattr(text, scope)) is not None},
            "examples": [],
        }
        if text.change is not None:
            document |= {"alpha": text.change.alpha, "margin": text.change.margin}
        if text.of.numbers is not None:
            document["sql"] = metric_statement(text.of.numbers, window.values)
        if text.of.numbers in {"metric_of_spans", "metric_of_failed_traces"} and not text.of.counts:
            document["examples"] = list[JsonValue](self._monitors.worst(window.values))
        seen = window.until_us if number is None else number
        return AlertFinding(
            tenant=row.tenant,
            episode=json.dumps([row.tenant, row.monitor_id, row.version, kind, seen]),
            project=text.project,
            rule_id=row.monitor_id,
            rule=text.name,
            revision=row.version,
            kind=kind,
            evaluator=text.metric,
            fingerprint=None,
            measure="share" if text.of.unit == "share" else "amount",
            baseline=baseline,
            candidate=candidate,
            regressed_count=round(candidate.rate * candidate.count) if text.of.outcomes else 0,
            evidence=evidence[0],
            evidence_threshold=evidence[1],
            document=document,
            metric=text.metric,
            severity=text.severity,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _LookWindow:
    """The monitor and the time of a check."""

    row: MetricMonitorRow
    text: MetricMonitorText
    now_us: int

    @property
    def until_us(self) -> int:
        return self.now_us - _COMMIT_US

    @property
    def from_us(self) -> int:
        return self.until_us - self.text.window_seconds * 1_000_000

    @property
    def values(self) -> dict[str, object]:
        """Return the parameters of the statements about metrics."""
        text = self.text
        params: dict[str, object] = {scope: getattr(text, scope) for scope in SCOPES}
        return params | {
            "tenant": self.row.tenant,
            "from_us": self.from_us,
            "until_us": self.until_us,
            "roots": text.of.is_of_roots,
            "percentile": text.percentile,
            "of_cost": text.metric == "trace_cost",
            "slowest": text.of.unit == "ms",
            "one_a_trace": text.metric == "traces_with_errors",
            "experiments": text.experiments,
        }


class _Worse(NamedTuple):
    """A worse value than that of the open alert."""

    finding: AlertFinding


_Step: TypeAlias = tuple[MetricState, AlertFinding | _Worse | Mapping[str, JsonValue] | None]
"""The state to keep, and the event: an alert, its worsening, the evidence that it is over, or None."""


def _is_changed(row: MetricMonitorRow) -> bool:
    return row.state is not None and _STATE.validate_json(row.state).version != row.version


def _value(text: MetricMonitorText, numbers: MetricNumbers) -> float | None:
    """Return the metric as one number; None if there are too few values."""
    if text.metric == "budget_used":
        return numbers.amount
    if text.of.counts:
        return float(numbers.count)
    if numbers.count < text.min_count:
        return None
    return numbers.failed / numbers.count if text.of.unit == "share" else numbers.amount


def _limit_side(text: MetricMonitorText) -> ComparedSide:
    number = text.limit.number
    return ComparedSide(release=None, rate=number, low=number, high=number, count=0)


def _side_of(text: MetricMonitorText, value: float, numbers: MetricNumbers) -> ComparedSide:
    if text.of.outcomes is None:
        return ComparedSide(release=text.release, rate=value, low=value, high=value, count=numbers.count)
    between = wilson(numbers.failed, numbers.count)
    return ComparedSide(release=text.release, rate=value, low=between.low, high=between.high, count=numbers.count)


def _rate_side(event: EpisodeEvent, name: Literal["baseline", "candidate"]) -> ComparedSide:
    """Return a side of a change: the share that failed; the monitors know the share that did not."""
    rate: StreamRate = getattr(event, name)
    release = None
    if event.kind == "release":
        release = event.release if name == "candidate" else ", ".join(event.against) or None
    return ComparedSide(
        release=release,
        rate=1 - rate.mean,
        low=1 - rate.interval.high,
        high=1 - rate.interval.low,
        count=rate.count,
    )


def _side_document(side: ComparedSide) -> dict[str, JsonValue]:
    return {"rate": side.rate, "low": side.low, "high": side.high, "count": side.count}
