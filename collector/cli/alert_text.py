"""Alerts as printed text."""

from collections.abc import Sequence

from rich.text import Text

from collector.api.base.times import instant_ns
from collector.api.responses.alerting import AlertDocument, AlertSide, RateDocument
from collector.api.responses.base import JsonNumber, JsonObject
from collector.cli.render import list_table, output_console, print_list
from collector.cli.responses import parse_response
from collector.cli.text import crop
from collector.escaping import one_line, some_lines
from collector.units import instant_text, metric_text

_MOST_EXAMPLES = 10
_LABEL_CELLS = 12


def print_alerts(alerts: Sequence[AlertDocument]) -> None:
    """Print a list of alerts, newest first."""
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
            Text(one_line(alert.alert_id)),
            instant_text(instant_ns(alert.opened_at)),
            *(Text(one_line(name)) for name in names),
        )
    print_list(console, table)


def print_alert(alert: AlertDocument) -> None:
    """Print an alert with its evidence."""
    console = output_console()
    for name, value in _facts(alert):
        console.print(Text(f"{name:<{_LABEL_CELLS}}", style="dim").append(one_line(value)), soft_wrap=True)
    examples, sql = alert.details.get("examples"), alert.details.get("sql")
    if examples:
        console.print(Text("\nthe worst results", style="bold"))
    for example in (examples or [])[:_MOST_EXAMPLES]:
        trace_id, number = str(example.get("traceId", "")), example.get("score")
        score = "" if number is None else f"{float(number):.3f}  "
        reason = crop(example.get("reason") or "", console.width - len(trace_id) - len(score) - 2)
        console.print(Text(f"{one_line(trace_id)}  {score}{reason}"), soft_wrap=True)
    if sql:
        console.print(Text("\nthe numbers, in SQL", style="bold"))
        console.print(Text(some_lines(sql)), soft_wrap=True)


def _facts(alert: AlertDocument) -> list[tuple[str, str]]:
    by = f" by {alert.acknowledged_by}" if alert.acknowledged_by else ""
    since = f"{alert.state}, opened {instant_text(instant_ns(alert.opened_at))}"
    if alert.escalated_at is not None:
        since += f", worse {instant_text(instant_ns(alert.escalated_at))}"
    if alert.acknowledged_at is not None:
        since += f", acknowledged {instant_text(instant_ns(alert.acknowledged_at))}{by}"
    if alert.recovered_at is not None:
        since += f", recovered {instant_text(instant_ns(alert.recovered_at))}"
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


def _evidence(alert: AlertDocument) -> list[tuple[str, str]]:
    return [
        ("failed", str(alert.regressed_count)),
        ("evidence", f"{float(alert.evidence):.4g}, needed {float(alert.evidence_threshold):.4g}"),
    ]


def _end(alert: AlertDocument, recovery: JsonObject) -> list[tuple[str, str]]:
    candidate = recovery.get("candidate")
    side = candidate and _side(alert, parse_response(RateDocument, candidate), recovery.get("release"))
    return [("ended", f"{recovery.get('how', '')}{f', {side}' if side else ''}")]


def _side(alert: AlertDocument, side: AlertSide | RateDocument, release: str | None) -> str:
    of_release = "" if release is None else f"{release}: "
    return (
        f"{of_release}{_rate(alert, side.rate)} of {side.count} ({_rate(alert, side.low)} to {_rate(alert, side.high)})"
    )


def _rate(alert: AlertDocument, value: JsonNumber) -> str:
    rate = float(value)
    if alert.metric:
        return metric_text(rate, str(alert.details.get("unit", "")))
    return f"{100 * rate:.1f} %" if alert.measure == "passed" else f"{rate:.3f}"
