"""Message texts of events about one alert."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from collector.alert_lines import (
    MOST_NAME_CHARACTERS,
    alert_change,
    alert_line,
    alert_subject,
    end_of,
    name_text,
    rate_text,
    service_of,
    single_line,
)
from storage.alerting.alerts import Alert, AlertFinding, ComparedSide
from storage.records import EventType, JsonValue

_MOST_EXAMPLES = 3
_MOST_REASON_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The lines of a message."""

    title: str
    summary: str
    facts: Sequence[tuple[str, str]]
    examples: Sequence[str]
    closing: str


_ENDINGS: Final[Mapping[str, str]] = {
    "withdrawn": "The release is gone",
    "lasting": "The drop lasts and is the new baseline",
    "evaluator": "The evaluator or its threshold was changed",
    "settings": "The monitors restarted with other settings",
    "deleted": "The rule was deleted",
    "resolved": "Resolved manually",
}
"""Titles of alerts that ended without a recovery of quality, by the reason for their end."""

_TITLES: Final[Mapping[EventType, str]] = {
    "alert.opened": "Quality dropped",
    "alert.escalated": "Quality dropped further",
    "alert.acknowledged": "Alert acknowledged",
    "alert.recovered": "Quality recovered",
    "alert.digest": "Digest",
    "RUN_REGRESSION": "Experiment run regressed",
    "webhook.test": "Test",
}
_TITLES_OF_METRICS: Final[Mapping[EventType, str]] = {
    "alert.opened": "Metric out of bounds",
    "alert.recovered": "Metric back to normal",
}


def words_of(event: EventType, alert: Alert | None, project: str | None) -> Words:
    """Return the lines about an alert; without one, those of a test."""
    if alert is None:
        closing = f"project {name_text(project)}" if project else "all projects"
        return Words(
            title="A test of this webhook", summary="Alerts will come here.", facts=(), examples=(), closing=closing
        )
    finding = alert.finding
    return Words(
        title=f"{_title(event, alert)}: {alert_subject(finding)}",
        summary=alert_change(alert),
        facts=_facts(alert),
        examples=_examples(finding),
        closing=f"tracejury alerts show {alert.alert_id}",
    )


def line_of(alert: Alert) -> str:
    """Return an alert in one line, for a digest."""
    finding = alert.finding
    state = f"{alert.state}, worse than first reported" if alert.escalations else alert.state
    return f"{alert_line(alert)}; {finding.severity}, {state}"


def _title(event: EventType, alert: Alert) -> str:
    titles = {**_TITLES, **_TITLES_OF_METRICS} if alert.finding.metric else _TITLES
    return _ENDINGS.get(end_of(alert), titles[event])


def _facts(alert: Alert) -> Sequence[tuple[str, str]]:
    finding = alert.finding
    named = _facts_of_metric(alert) if finding.metric is not None else _facts_of_results(alert)
    if alert.escalations:
        named.append(("Reported before", ", ".join(_earlier_rates(finding))))
    return [*named, ("By", name_text(alert.acknowledged_by))] if alert.acknowledged_by else named


def _earlier_rates(finding: AlertFinding) -> list[str]:
    reported = finding.document.get("told")
    rated = [each for each in reported if isinstance(each, Mapping)] if isinstance(reported, list) else []
    rates = [rate for each in rated if isinstance(rate := each.get("rate"), int | float)]
    return [rate_text(finding, rate) for rate in rates[-_MOST_EXAMPLES:]]


def _facts_of_metric(alert: Alert) -> list[tuple[str, str]]:
    finding = alert.finding
    named = [*_place(finding), ("Severity", finding.severity)]
    if finding.kind == "limit":
        limit, now = rate_text(finding, finding.baseline.rate), rate_text(finding, finding.candidate.rate)
        return [*named, ("Limit", limit), (_now(alert), f"{now} of {finding.candidate.count}")]
    return [
        *named,
        ("Before", _side(finding, finding.baseline)),
        (_now(alert), _side(finding, finding.candidate)),
        ("Evidence", f"{finding.evidence:.4g}, needed {finding.evidence_threshold:.4g}"),
    ]


def _place(finding: AlertFinding) -> list[tuple[str, str]]:
    service = service_of(finding)
    project = ("Project", name_text(finding.project))
    return [project] if service is None else [project, ("Service", name_text(service))]


def _facts_of_results(alert: Alert) -> list[tuple[str, str]]:
    finding = alert.finding
    return [
        *_place(finding),
        ("Evaluator", name_text(finding.evaluator)),
        ("Before", _side(finding, finding.baseline)),
        (_now(alert), _side(finding, finding.candidate)),
        ("Evidence", f"{finding.evidence:.4g}, needed {finding.evidence_threshold:.4g}"),
        ("Failed", str(finding.regressed_count)),
    ]


def _now(alert: Alert) -> str:
    return "At the alert" if alert.state == "recovered" else "Now"


def _side(finding: AlertFinding, side: ComparedSide) -> str:
    release = f"{name_text(side.release)}: " if side.release is not None else ""
    interval = f"{rate_text(finding, side.low)} to {rate_text(finding, side.high)}"
    return f"{release}{rate_text(finding, side.rate)} of {side.count} ({interval})"


def _examples(finding: AlertFinding) -> Sequence[str]:
    listed = finding.document.get("examples")
    maps = [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
    return [_example(each) for each in maps[:_MOST_EXAMPLES]]


def _example(example: Mapping[str, JsonValue]) -> str:
    reason = example.get("reason")
    suffix = f": {single_line(str(reason), _MOST_REASON_CHARACTERS)}" if reason else ""
    return f"trace {single_line(str(example.get('traceId')), MOST_NAME_CHARACTERS)}{suffix}"
