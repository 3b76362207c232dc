"""Monitors as the JSON documents that the HTTP API and `--json` show."""

from collections.abc import Callable

from collector.api.base.times import time_text
from collector.api.responses.alerting import RateDocument, StandingDocument, StreamDocument
from collector.live.active import ActiveRule
from collector.live.monitors.streams import state_of
from rules.monitoring import AS_USUAL
from rules.statistics.events import StreamRate
from rules.statistics.standing import MonitorStanding, standings
from storage.alerting.monitors import StreamRow


def monitor_document(row: StreamRow, revision: Callable[[int], ActiveRule | None]) -> StreamDocument:
    """Serialize a stream of results with the state of its monitors."""
    state = state_of(row)
    active = revision(state.settings_of)
    monitoring = AS_USUAL if active is None else active.rule.monitoring
    return StreamDocument.of(
        state,
        tenant=row.key.tenant,
        project_name=row.key.project,
        rule_id=row.key.rule_id,
        service_name=row.key.service,
        rule_name=state.rule,
        rule_revision=state.revision,
        fingerprint=row.fingerprint,
        replaced_fingerprint=state.replaced,
        since=time_text(row.since_us * 1_000),
        updated_at=time_text(row.updated_us * 1_000),
        first_result=state.first,
        last_result=state.last,
        results=state.monitor.results,
        scored=state.monitor.scored,
        measure=state.monitor.measure,
        settings=monitoring.document() or {},
        monitors=[_standing_document(each) for each in standings(monitoring.settings, state.monitor)],
        open_alert_id=state.alert_id,
    )


def _standing_document(standing: MonitorStanding) -> StandingDocument:
    return StandingDocument.of(
        standing,
        baseline=_rate(standing.baseline),
        candidate=_rate(standing.candidate),
        evidence_threshold=standing.threshold,
    )


def _rate(rate: StreamRate | None) -> RateDocument | None:
    if rate is None:
        return None
    return RateDocument(rate=rate.mean, low=rate.interval.low, high=rate.interval.high, count=rate.count)
