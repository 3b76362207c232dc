"""Monitors as the JSON documents that the HTTP API and `--json` show."""

from collections.abc import Callable

from collector.api.base.times import time_text
from collector.api.documents.reading_documents import Document
from collector.live.active import ActiveRule
from collector.live.monitors.streams import rate_document, state_of
from rules.monitoring import AS_USUAL
from rules.statistics.events import StreamRate
from rules.statistics.standing import MonitorStanding, standings
from storage.alerting.monitors import StreamRow
from storage.records import JsonValue


def monitor_document(row: StreamRow, revision: Callable[[int], ActiveRule | None]) -> Document:
    """What is remembered of a stream of results, and how its monitors stand."""
    state = state_of(row)
    active = revision(state.settings_of)
    monitoring = AS_USUAL if active is None else active.rule.monitoring
    return {
        "tenant": row.key.tenant,
        "projectName": row.key.project,
        "ruleId": row.key.rule_id,
        "serviceName": row.key.service,
        "ruleName": state.rule,
        "ruleRevision": state.revision,
        "evaluator": state.evaluator,
        "fingerprint": row.fingerprint,
        "replacedFingerprint": state.replaced,
        "began": state.began,
        "since": time_text(row.since_us * 1_000),
        "updatedAt": time_text(row.updated_us * 1_000),
        "firstResult": state.first,
        "lastResult": state.last,
        "results": state.monitor.results,
        "scored": state.monitor.scored,
        "measure": state.monitor.measure,
        "settings": monitoring.document() or {},
        "monitors": [_standing_document(each) for each in standings(monitoring.settings, state.monitor)],
        "openAlertId": state.alert_id,
    }


def _standing_document(standing: MonitorStanding) -> JsonValue:
    return {
        "kind": standing.kind,
        "waitsFor": standing.waits_for,
        "release": standing.release,
        "against": list(standing.against),
        "baseline": _rate(standing.baseline),
        "candidate": _rate(standing.candidate),
        "evidence": standing.evidence,
        "evidenceThreshold": standing.threshold,
    }


def _rate(rate: StreamRate | None) -> JsonValue:
    return None if rate is None else rate_document(rate)
