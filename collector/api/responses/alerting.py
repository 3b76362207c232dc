"""Alerts, monitors and webhooks on the wire."""

from typing import Annotated, Literal

from collector.api.responses.annotating import MeasuredDocument
from collector.api.responses.base import JsonNumber, JsonObject
from collector.api.responses.traces import Number
from collector.api.responses.wire import From, PageAnswer, WireDocument, computed, doc, document_with, time_of
from collector.metric_monitor_text import MetricMonitorText
from rules.statistics.standing import WaitsFor
from storage.alerting.webhook_options import WebhookOptions
from storage.records import (
    AlertKind,
    AlertState,
    DeliveryState,
    EventType,
    Grouping,
    Measure,
    MetricStanding,
    Origin,
    Severity,
    StreamStart,
)

CreatedAt = Annotated[str, time_of("created_at_ns")]


class AlertSide(WireDocument):
    """One of the two rates that an alert compares, with its confidence interval."""

    release: str | None
    rate: JsonNumber
    low: JsonNumber
    high: JsonNumber
    count: int


class AlertDocument(WireDocument, kw_only=True):
    """An alert with all that a person needs to check it."""

    alert_id: str
    tenant: str
    line: Annotated[str, doc("Subject, change and end of the alert, as in messages.")] = ""
    project_name: Annotated[str | None, doc("Null: no project, or all projects for a monitor of a metric.")]
    service_name: Annotated[str | None, doc("The service whose results it is about; null if they have none.")]
    rule_id: str
    rule_name: str
    rule_revision: int
    kind: AlertKind
    evaluator: str
    fingerprint: Annotated[str | None, doc("The fingerprint of the evaluator; null for the alert of a metric.")]
    measure: Measure
    metric: str | None
    severity: Severity
    state: AlertState
    opened_at: str
    escalations: Annotated[int, doc("Number of messages saying that the alert became much worse than last reported.")]
    escalated_at: str | None
    acknowledged_at: str | None
    acknowledged_by: str | None
    recovered_at: str | None
    baseline: AlertSide
    candidate: AlertSide
    regressed_count: int
    evidence: JsonNumber
    evidence_threshold: JsonNumber
    details: JsonObject
    recovery: Annotated[JsonObject | None, doc("The evidence of the recovery.")]


class CorrectedDifferenceDocument(WireDocument):
    """Two pass rates with 95 % intervals, corrected by people's labels: of each side, or of all results (`basis`)."""

    baseline: MeasuredDocument
    candidate: MeasuredDocument
    difference: Annotated[
        MeasuredDocument, computed(lambda corrected: MeasuredDocument.of(corrected, value=corrected.difference))
    ]
    basis: Literal["own_labels", "shared_labels"]
    survives: bool
    in_words: str


class AlertDetail(AlertDocument, kw_only=True):
    """An alert with the difference corrected for the judge's errors; null while too little is known."""

    corrected: CorrectedDifferenceDocument | None


class AlertPage(PageAnswer):
    """A page of alerts."""

    content: list[AlertDocument]


class RateDocument(WireDocument):
    """A rate with its confidence interval."""

    rate: float
    low: float
    high: float
    count: int


class StandingDocument(WireDocument):
    """The comparison of one monitor, and its evidence so far."""

    kind: AlertKind
    waits_for: WaitsFor
    release: str | None
    against: list[str]
    baseline: RateDocument | None
    candidate: RateDocument | None
    evidence: float | None
    evidence_threshold: float


class StreamDocument(WireDocument):
    """A stream of results, and how its monitors stand."""

    tenant: str
    project_name: str | None
    rule_id: str
    service_name: str | None
    rule_name: str
    rule_revision: int
    evaluator: str
    fingerprint: str
    replaced_fingerprint: str | None
    began: StreamStart
    since: str
    updated_at: str
    first_result: int
    last_result: int
    results: Annotated[int, doc("Number of results since `since`; 0 once another evaluator replaced this one.")]
    scored: int
    measure: Measure | None
    settings: JsonObject
    monitors: list[StandingDocument]
    open_alert_id: str | None


class StreamPage(PageAnswer):
    """A page of streams of results."""

    content: list[StreamDocument]


class QualityLineDocument(WireDocument, kw_only=True):
    """Results that agree in their day, release or project, and in their evaluator; Wilson's interval of 95 %."""

    group: str | None
    service_name: Annotated[
        str | None, From("service"), doc("The service of a release; releases of two services are not compared.")
    ]
    fingerprint: Annotated[str | None, doc("Of the evaluator: compare results only where it is the same.")]
    passed: int
    results: int
    rate: float | None
    low: float
    high: float
    scored: int
    failed: Annotated[int, doc("Could not be judged.")]
    skipped: int
    mean_score: Number
    cost_usd: Annotated[JsonNumber, doc("A lower bound if there are `unpricedCalls`.")]
    unpriced_calls: Annotated[int, doc("Calls of judges whose cost is unknown.")] = 0
    corrected: Annotated[MeasuredDocument | None, doc("The pass rate corrected for the judge's errors.")]


class QualityDocument(WireDocument):
    """Counts of passed results of a rule."""

    rule: str
    by: Grouping
    time: Literal["trace", "judged"]
    lines: list[QualityLineDocument]
    truncated: bool


class MuteDocument(WireDocument):
    """Alerts that are not delivered for some time."""

    id: Annotated[str, From("mute_id")]
    tenant: str
    project_name: Annotated[str | None, From("project")]
    rule: str | None
    until: Annotated[str, time_of("until_ns")]
    by: Annotated[str | None, From("muted_by")]
    created_at: CreatedAt


class MetricMonitorDocument(MetricMonitorText):
    """A monitor of a metric: its definition, and the result of its last check."""

    id: str
    tenant: str
    unit: str
    version: int
    standing: MetricStanding
    value: float | None
    count: int
    failed: int
    open_alert_id: str | None
    looked_at: str | None
    created_at: str
    updated_at: str


class _WebhookHead(WireDocument):
    id: Annotated[str, From("webhook_id")]
    tenant: str
    project_name: Annotated[str, computed(lambda webhook: webhook.project or "*"), doc("`*`: of every project.")]
    origin: Origin
    url: str
    has_secret: bool
    previous_secret_until: Annotated[str | None, time_of("previous_until_ns")]
    events: list[EventType]


class WebhookDocument(document_with(WebhookOptions, _WebhookHead)):  # type: ignore[misc] # a base made at run time
    """A receiver of alerts, without its secret."""

    disabled_at: Annotated[str | None, time_of("disabled_at_ns")]
    disabled_reason: str | None
    failing_since: Annotated[str | None, time_of("failing_since_ns")]
    failed_deliveries: Annotated[int, From("failures")]
    last_success_at: Annotated[str | None, time_of("last_success_at_ns")]
    version: int
    created_at: CreatedAt
    updated_at: Annotated[str, time_of("updated_at_ns")]


class DeliveryDocument(WireDocument):
    """An event for one receiver, with the state of its delivery."""

    id: Annotated[str, From("delivery_id")]
    event_id: str
    webhook_id: str
    type: EventType
    alert_id: str | None
    state: DeliveryState
    attempts: int
    replays: int
    last_status: int | None
    last_error: str | None
    next_attempt_at: Annotated[str | None, time_of("next_attempt_at_ns")]
    last_attempt_at: Annotated[str | None, time_of("last_attempt_at_ns")]
    created_at: CreatedAt
    finished_at: Annotated[str | None, time_of("finished_at_ns")]


class DeliveryPage(PageAnswer):
    """A page of deliveries."""

    content: list[DeliveryDocument]
