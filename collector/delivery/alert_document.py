"""Alerts as the JSON documents that the API shows and receivers get."""

import datetime as dt
import math
from collections.abc import Mapping

from collector.alert_lines import alert_line, service_of
from storage.alerting.alerts import Alert, ComparedSide
from storage.records import JsonValue

Document = dict[str, JsonValue]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def alert_document(alert: Alert) -> Document:
    """Serialize an alert with all that a person needs to check it."""
    finding = alert.finding
    return {
        "alertId": alert.alert_id,
        "tenant": finding.tenant,
        "line": alert_line(alert),
        "projectName": finding.project,
        "serviceName": service_of(finding),
        "ruleId": finding.rule_id,
        "ruleName": finding.rule,
        "ruleRevision": finding.revision,
        "kind": finding.kind,
        "metric": finding.metric,
        "severity": finding.severity,
        "evaluator": finding.evaluator,
        "fingerprint": finding.fingerprint,
        "measure": finding.measure,
        "state": alert.state,
        "openedAt": instant_text(alert.opened_at_ns),
        "escalations": alert.escalations,
        "escalatedAt": instant_text(alert.escalated_at_ns),
        "acknowledgedAt": instant_text(alert.acknowledged_at_ns),
        "acknowledgedBy": alert.acknowledged_by,
        "recoveredAt": instant_text(alert.recovered_at_ns),
        "baseline": _side_document(finding.baseline),
        "candidate": _side_document(finding.candidate),
        "regressedCount": finding.regressed_count,
        "evidence": finite(finding.evidence),
        "evidenceThreshold": finite(finding.evidence_threshold),
        "details": finite(finding.document),
        "recovery": finite(alert.recovery),
    }


def instant_text(time_ns: int | None) -> str | None:
    """Format an instant as RFC 3339 in UTC with nine digits."""
    if time_ns is None:
        return None
    seconds, nanoseconds = divmod(time_ns, 10**9)
    return f"{_EPOCH + dt.timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09}Z"


def _side_document(side: ComparedSide) -> Document:
    rates = {"rate": side.rate, "low": side.low, "high": side.high}
    return {"release": side.release, **{name: finite(rate) for name, rate in rates.items()}, "count": side.count}


def finite(value: object) -> JsonValue:
    """Replace NaN and infinite numbers, which JSON lacks, by the strings of OTLP/JSON; keep all other values."""
    match value:
        case float() if math.isnan(value):
            return "NaN"
        case float() if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            return {str(key): finite(item) for key, item in value.items()}
        case list() | tuple():
            return [finite(item) for item in value]
        case _:
            return str(value)
