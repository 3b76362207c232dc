"""Alerts, monitors, and who is told of them."""

from typing import Annotated, Literal

from msgspec import Meta
from pydantic import Field

from collector.api.answers.annotating import MeasuredDocument
from collector.api.answers.base import ApiAnswer, JsonNumber, JsonObject
from collector.api.answers.wire import PageAnswer, WireDocument
from collector.live.monitors.metric_looks import Standing
from collector.live.monitors.streams import Began
from collector.metric_monitor_text import MetricMonitorText
from rules.statistics.standing import WaitsFor
from storage.alerting.alerts import AlertKind, AlertState, Measure
from storage.alerting.outbox import DeliveryState, EventType, Severity
from storage.alerting.quality import Grouping
from storage.alerting.webhooks import Origin


class AlertSide(ApiAnswer):
    """One of the two rates that an alert compares, with its confidence interval."""

    release: str | None
    rate: JsonNumber
    low: JsonNumber
    high: JsonNumber
    count: int


class AlertDocument(ApiAnswer):
    """An alert with all that a person needs to check it."""

    alert_id: str
    tenant: str
    line: str = Field(description="What it is about, what changed and how it ended, in the words of messages.")
    project_name: str | None = Field(description="Null where a monitor of a metric watches all projects.")
    service_name: str | None = Field(description="The service whose results it is about; null if they have none.")
    rule_id: str
    rule_name: str
    rule_revision: int
    kind: AlertKind
    evaluator: str
    fingerprint: str | None = Field(description="Of the evaluator; null where a metric is watched.")
    measure: Measure
    metric: str | None
    severity: Severity
    state: AlertState
    opened_at: str
    escalations: int = Field(description="How often it was told that it is much worse than was told before.")
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
    recovery: JsonObject | None = Field(description="What showed that it was over.")


class CorrectedDifferenceDocument(ApiAnswer):
    """Two pass rates as people would find them, at 95 %; `basis`: by labels of each side, or of all results."""

    baseline: MeasuredDocument
    candidate: MeasuredDocument
    difference: MeasuredDocument
    basis: Literal["own_labels", "shared_labels"]
    survives: bool
    in_words: str


class AlertDetail(AlertDocument):
    """One alert, with what is left of it once the judge's errors are taken out; null while too little is known."""

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
    project_name: str
    rule_id: str
    service_name: str | None
    rule_name: str
    rule_revision: int
    evaluator: str
    fingerprint: str
    replaced_fingerprint: str | None
    began: Began
    since: str
    updated_at: str
    first_result: int
    last_result: int
    results: Annotated[int, Meta(description="Since `since`; 0 once another evaluator took its place.")]
    scored: int
    measure: Measure | None
    settings: JsonObject
    monitors: list[StandingDocument]
    open_alert_id: str | None


class StreamPage(PageAnswer):
    """A page of streams of results."""

    content: list[StreamDocument]


class QualityLineDocument(ApiAnswer):
    """Results that agree in their day, release or project, and in their evaluator; Wilson's interval of 95 %."""

    group: str | None
    service_name: str | None = Field(description="Of a release: those of two services are not compared.")
    fingerprint: str | None
    passed: int
    results: int
    rate: float | None
    low: float
    high: float
    scored: int
    failed: int
    skipped: int
    mean_score: JsonNumber | None
    cost_usd: JsonNumber = Field(description="A lower bound if there are `unpricedCalls`.")
    unpriced_calls: int = Field(description="Calls of judges whose cost is unknown.")
    corrected: MeasuredDocument | None = Field(description="What people would find, by the errors of the judge.")


class QualityDocument(ApiAnswer):
    """How many results of a rule passed."""

    rule: str
    by: Grouping
    time: Literal["trace", "judged"]
    lines: list[QualityLineDocument]
    truncated: bool


class MuteDocument(WireDocument):
    """Alerts that receivers are not told of for a while."""

    id: str
    tenant: str
    project_name: str | None
    rule: str | None
    until: str
    by: str | None
    created_at: str


class MetricMonitorDocument(MetricMonitorText):
    """What a monitor of a metric watches, and what its last look found."""

    id: str
    tenant: str
    unit: str
    version: int
    standing: Standing
    value: float | None
    count: int
    failed: int
    open_alert_id: str | None
    looked_at: str | None
    created_at: str
    updated_at: str


class WebhookDocument(ApiAnswer):
    """A receiver of alerts, without its secret."""

    id: str
    tenant: str
    project_name: str = Field(description="`*`: of every project.")
    origin: Origin
    url: str
    has_secret: bool
    previous_secret_until: str | None
    enabled: bool
    events: list[EventType]
    rules: list[str] | None = Field(description="Of which alerts it is told; null: of those of all rules.")
    severities: list[Severity] | None
    digest_minutes: int | None = Field(description="How often it is told; null: of each event at once.")
    template: str
    disabled_at: str | None
    disabled_reason: str | None
    failing_since: str | None
    failed_deliveries: int
    last_success_at: str | None
    version: int
    created_at: str
    updated_at: str


class DeliveryDocument(ApiAnswer):
    """An event for one receiver, and how far telling it has come."""

    id: str
    event_id: str
    webhook_id: str
    type: EventType
    alert_id: str | None
    state: DeliveryState
    attempts: int
    replays: int
    last_status: int | None
    last_error: str | None
    next_attempt_at: str | None
    last_attempt_at: str | None
    created_at: str
    finished_at: str | None


class DeliveryPage(PageAnswer):
    """A page of deliveries."""

    content: list[DeliveryDocument]
