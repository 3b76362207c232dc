"""Alerts in one line: the words that messages, digests, lists, pages and the command line share."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from collector.units import metric_text
from storage.alerting.alerts import Alert, AlertFinding

MOST_NAME_CHARACTERS: Final = 200

ENDS: Final[Mapping[str, str]] = {
    "recovered": "the rate recovered significantly: more than half of the drop is regained",
    "withdrawn": "the release has no more results",
    "lasting": "the drop lasted so long that it became the new baseline",
    "evaluator": "its evaluator or threshold was changed",
    "settings": "the settings of the monitor changed",
    "deleted": "its rule, or its monitor, was deleted",
    "resolved": "it was resolved manually",
}
"""Endings of alerts, in words."""


def alert_line(alert: Alert) -> str:
    """Describe in one line what an alert is about, what changed, and how it ended if it is over."""
    return f"{alert_subject(alert.finding)}: {alert_change(alert)}"


def finding_line(finding: AlertFinding) -> str:
    """Describe in one line what a finding is about and what changed."""
    return f"{alert_subject(finding)}: {_finding_change(finding)}"


def alert_subject(finding: AlertFinding) -> str:
    """Name the rule or monitor of an alert, with the project, service and release that tell its alerts apart."""
    return ", ".join((f"{name_text(finding.rule)} in {_project(finding)}", *_places(finding)))


def alert_change(alert: Alert) -> str:
    """Format both rates of an alert; if it is over, preceded by how it ended and by the rate and release at its end."""
    change = _finding_change(alert.finding)
    if alert.state != "recovered":
        return change
    how = end_of(alert)
    ended = "recovered" if how == "recovered" else ENDS.get(how, "over")
    return f"{': '.join(filter(None, (ended, end_rate(alert))))}; the alert: {change}"


def end_of(alert: Alert) -> str:
    """Return how an alert ended, one of `ENDS`; empty if it has not ended, or if it is not known how."""
    how = (alert.recovery or {}).get("how")
    return how if isinstance(how, str) else ""


def end_text(alert: Alert) -> str:
    """Describe how an alert ended; empty if it has not ended, or if it is not known how."""
    how = end_of(alert)
    if how == "recovered" and alert.finding.kind == "limit":  # nothing was tested
        return "the metric is within its limit again"
    return ENDS.get(how, "")


def end_rate(alert: Alert) -> str:
    """Write the rate at which an alert ended, with its release; empty if it ended without one."""
    recovery = alert.recovery or {}
    candidate, release = recovery.get("candidate"), recovery.get("release")
    # An alert that ended because its release was withdrawn or its evaluator replaced has no such rate.
    if end_of(alert) not in {"recovered", "lasting"} or not isinstance(candidate, Mapping):
        return ""
    rate, count = candidate.get("rate"), candidate.get("count")
    if not isinstance(rate, int | float):
        return ""
    place = f" in release {name_text(release)}" if isinstance(release, str) else ""
    return f"{rate_text(alert.finding, rate)} of {count}{place}"


def _finding_change(finding: AlertFinding) -> str:
    before, now = finding.baseline.rate, finding.candidate.rate
    if finding.metric is not None:
        compared = "the limit is" if finding.kind == "limit" else "before it was"
        return f"{finding.metric} is {rate_text(finding, now)}, {compared} {rate_text(finding, before)}"
    what = "passed" if finding.measure == "passed" else "on average"
    difference = now - before
    points = f"{100 * difference:+.1f} points" if finding.measure == "passed" else f"{difference:+.3f}"
    return f"{rate_text(finding, before)} → {rate_text(finding, now)} {what} ({points})"


def service_of(finding: AlertFinding) -> str | None:
    """Return the service whose results an alert is about; None if they have none."""
    service = finding.document.get("service")
    return service if isinstance(service, str) and service else None


def alerts_of_service(alerts: Iterable[Alert], project: str | None, service: str | None) -> list[Alert]:
    """Return the alerts about the results of a service of a project."""
    if service is None:
        return []
    return [each for each in alerts if (each.finding.project, service_of(each.finding)) == (project, service)]


def rate_text(finding: AlertFinding, rate: float) -> str:
    """Write a rate of an alert with its unit."""
    if finding.metric is not None:
        return metric_text(rate, str(finding.document.get("unit")))
    return f"{rate:.1%}".replace("%", " %") if finding.measure == "passed" else f"{rate:.3f}"


def name_text(name: str | None) -> str:
    """Write a name on one line, cut to a bounded length."""
    return single_line(name or "-", MOST_NAME_CHARACTERS)


def single_line(text: str, characters: int) -> str:
    """Write a text on one line, cut to a number of characters."""
    line = " ".join(text.split())
    return line if len(line) <= characters else line[: characters - 1] + "…"


def _project(finding: AlertFinding) -> str:
    if finding.project is not None:
        return name_text(finding.project)
    return "no project" if finding.metric is None else "all projects"


def _places(finding: AlertFinding) -> Iterator[str]:
    if (service := service_of(finding)) is not None:
        yield f"service {name_text(service)}"
    if finding.kind == "release" and finding.candidate.release is not None:
        yield f"release {name_text(finding.candidate.release)}"
    scope = finding.document.get("scope")  # of a monitor of a metric
    for name, value in scope.items() if isinstance(scope, Mapping) else ():
        if name != "project":
            yield f"{name} {name_text(str(value))}"
