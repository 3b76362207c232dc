"""Alerts as they are printed."""

from collections.abc import Sequence

from rich.text import Text

from collector.cli.answer_view import AnswerView
from collector.cli.render import list_table, output_console, print_list
from collector.cli.text import crop
from collector.cli.views import InstantNs
from collector.units import instant_text, metric_text
from collector.visible import one_line, some_lines

_MOST_EXAMPLES = 10
_LABEL_CELLS = 12


class RateView(AnswerView):
    """A rate with its interval and count."""

    rate: float
    low: float
    high: float
    count: int


class SideView(RateView):
    """One side of the comparison."""

    release: str | None


class RecoveryView(AnswerView):
    """End of an alert."""

    how: str = ""
    release: str | None = None
    candidate: RateView | None = None


class ExampleView(AnswerView):
    """One of the worst results."""

    trace_id: str = ""
    span_id: str | None = None
    score: float | None = None
    reason: str | None = None


class DetailsView(AnswerView):
    """What a person needs to check the alert."""

    examples: tuple[ExampleView, ...] = ()
    sql: str | None = None
    unit: str = ""


class AlertView(AnswerView):
    """An alert."""

    alert_id: str
    line: str
    project_name: str | None
    service_name: str | None = None
    rule_name: str
    kind: str
    metric: str | None = None
    severity: str = "warning"
    evaluator: str
    fingerprint: str | None
    measure: str
    state: str
    opened_at: InstantNs
    escalations: int = 0
    escalated_at: InstantNs | None = None
    acknowledged_at: InstantNs | None
    acknowledged_by: str | None
    recovered_at: InstantNs | None
    baseline: SideView
    candidate: SideView
    regressed_count: int
    evidence: float
    evidence_threshold: float
    details: DetailsView
    recovery: RecoveryView | None = None


def print_alerts(alerts: Sequence[AlertView]) -> None:
    """A list, newest first as they came."""
    console = output_console()
    if not alerts:
        console.print("no alerts here")
        return
    table = list_table()
    for title in ("ALERT", "OPENED (UTC)", "STATE", "SEVERITY", "WHAT"):
        table.add_column(title, no_wrap=True)
    for alert in alerts:
        names = (alert.state, alert.severity, alert.line)
        table.add_row(
            Text(one_line(alert.alert_id)), instant_text(alert.opened_at), *(Text(one_line(name)) for name in names)
        )
    print_list(console, table)


def print_alert(alert: AlertView) -> None:
    """One alert with all that there is to check it by."""
    console = output_console()
    for name, value in _facts(alert):
        console.print(Text(f"{name:<{_LABEL_CELLS}}", style="dim").append(one_line(value)), soft_wrap=True)
    if alert.details.examples:
        console.print(Text("\nthe worst results", style="bold"))
    for example in alert.details.examples[:_MOST_EXAMPLES]:
        score = "" if example.score is None else f"{example.score:.3f}  "
        reason = crop(example.reason or "", console.width - len(example.trace_id) - len(score) - 2)
        console.print(Text(f"{one_line(example.trace_id)}  {score}{reason}"), soft_wrap=True)
    if alert.details.sql:
        console.print(Text("\nthe numbers, in SQL", style="bold"))
        console.print(Text(some_lines(alert.details.sql)), soft_wrap=True)


def _facts(alert: AlertView) -> list[tuple[str, str]]:
    by = f" by {alert.acknowledged_by}" if alert.acknowledged_by else ""
    since = f"{alert.state}, opened {instant_text(alert.opened_at)}"
    if alert.escalated_at is not None:
        since += f", worse {instant_text(alert.escalated_at)}"
    if alert.acknowledged_at is not None:
        since += f", acknowledged {instant_text(alert.acknowledged_at)}{by}"
    if alert.recovered_at is not None:
        since += f", recovered {instant_text(alert.recovered_at)}"
    return [
        ("alert", alert.alert_id),
        ("what", alert.line),
        ("state", since),
        ("kind", alert.kind),
        ("severity", alert.severity),
        ("project", alert.project_name or "-"),
        *([("service", alert.service_name)] if alert.service_name else []),
        ("monitor" if alert.metric else "rule", alert.rule_name),
        (
            "metric" if alert.metric else "evaluator",
            f"{alert.evaluator} ({alert.fingerprint})" if alert.fingerprint else alert.evaluator,
        ),
        (
            ("limit", _rate(alert, alert.baseline.rate))
            if alert.kind == "limit"
            else ("before", _side(alert, alert.baseline, alert.baseline.release))
        ),
        ("now" if alert.recovered_at is None else "at alert", _side(alert, alert.candidate, alert.candidate.release)),
        *(() if alert.recovery is None else _end(alert, alert.recovery)),
        *(() if alert.kind == "limit" else _evidence(alert)),
    ]


def _evidence(alert: AlertView) -> list[tuple[str, str]]:
    return [
        ("failed", str(alert.regressed_count)),
        ("evidence", f"{alert.evidence:.4g}, needed {alert.evidence_threshold:.4g}"),
    ]


def _end(alert: AlertView, recovery: RecoveryView) -> list[tuple[str, str]]:
    rate = "" if recovery.candidate is None else f", {_side(alert, recovery.candidate, recovery.release)}"
    return [("ended", f"{recovery.how}{rate}")]


def _side(alert: AlertView, side: RateView, release: str | None) -> str:
    of_release = "" if release is None else f"{release}: "
    return (
        f"{of_release}{_rate(alert, side.rate)} of {side.count} ({_rate(alert, side.low)} to {_rate(alert, side.high)})"
    )


def _rate(alert: AlertView, rate: float) -> str:
    if alert.metric:
        return metric_text(rate, alert.details.unit)
    return f"{100 * rate:.1f} %" if alert.measure == "passed" else f"{rate:.3f}"
