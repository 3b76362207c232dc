"""Components of the server that the API uses. Made at startup, so nothing here imports FastAPI."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from collector.access.authenticator import Authenticator
from collector.access.caller import Caller
from collector.api.base.request_turns import RouteTurns
from collector.api.base.turns import QueryTurns
from collector.conditions import ServerConditions
from collector.conventions.own import OwnKeys
from collector.delivery.receivers import Receivers
from collector.doors.held_answer import AnswerRoom
from collector.doors.otlp_http import OtlpReader
from collector.experiments.kept import Kept
from collector.ingest import ByteBudget
from collector.live.jobs.run_evaluator import RunEvaluator
from collector.live.jobs.trials import Trials
from collector.live.judges.connection_trial import ConnectionTrials
from collector.live.judges.failing_judges import RuleProblems
from collector.live.judges.judging_hub import JudgeServices
from collector.live.judges.playground import Playground
from collector.live.matching.backfill import Backfills
from collector.live.rules.rules_in_force import RulesInForce
from collector.live.upkeep.eraser import Eraser
from collector.live.upkeep.sweeper import Sweeper
from collector.meters import Meter
from collector.observing import Watch
from rules.rule import Budget
from storage.alerting.alert_mutes import AlertMutes
from storage.alerting.alerts import Alerts
from storage.alerting.metric_monitors import MetricMonitors
from storage.alerting.monitors import Monitors
from storage.alerting.outbox import Outbox
from storage.alerting.quality import Quality
from storage.judging.jobs import Jobs
from storage.judging.judgements import Judgements
from storage.judging.rule_record import RuleRecord
from storage.judging.rulebook import Rulebook
from storage.limit import Limit
from storage.offline.datasets import Datasets
from storage.offline.run_evaluations import RunEvaluations
from storage.offline.run_items import RunItems
from storage.offline.runs import Runs
from storage.operation.access import Access
from storage.operation.saved_views import SavedViews
from storage.operation.status import StatusReader
from storage.query.exports import Exports
from storage.query.listing import Listing
from storage.query.outline import Outlines
from storage.query.overview import Overview
from storage.query.queries import Queries
from storage.query.search import Search
from storage.query.sessions import SessionQueries
from storage.review.annotations import Annotations
from storage.review.labels import Labels
from storage.review.review_feeding import ReviewFeeding
from storage.review.review_queues import ReviewQueues
from storage.review.review_turns import ReviewTurns
from storage.upkeep.retention import Retention

if TYPE_CHECKING:
    from collector.experiments.comparing import ComparedRuns


_BODIES: Final = Limit(value=64 << 20, unit="bytes", remedy="send again later, or less at once")
"""Memory for request bodies other than spans, shared by all clients. A guess: eight of the largest."""


NO_SERVER: Final = "not running"
"""State of a context over a data directory without a server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviews:
    """Review queues, and how long an entry is leased to a reviewer."""

    queues: ReviewQueues
    turns: ReviewTurns
    feeding: ReviewFeeding
    lease_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlLimits:
    """Limits of one SQL query."""

    rows: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSettings:
    """Settings of projects: retention, size of the database, and budgets."""

    retention_days: int
    project_retention_days: Mapping[str, int]
    max_bytes: int | None  # of the database
    project_budgets: Mapping[str, Budget]  # `*`: of every other project, each its own


@dataclass(slots=True, kw_only=True)
class Context:
    """Components of the server that the API uses. `state` tells whether it is starting, running or stopping."""

    queries: Queries
    access: Access
    authenticator: Authenticator
    reader: OtlpReader
    sql_limits: SqlLimits
    turns: QueryTurns
    bodies: ByteBudget = field(default_factory=partial(ByteBudget, _BODIES))
    answers: AnswerRoom = field(default_factory=AnswerRoom)
    route_turns: RouteTurns = field(default_factory=RouteTurns)
    overloaded: Callable[[], bool]
    set_aside: Callable[[], int]
    own_keys: OwnKeys
    rules: RulesInForce
    jobs: Jobs
    jobs_changed: Callable[[], None]
    judging: JudgeServices
    connection_trials: ConnectionTrials
    playground: Playground
    rulebook: Rulebook
    rule_record: RuleRecord
    trials: Trials
    backfills: Backfills
    judgements: Judgements
    status: StatusReader
    backlog_bytes: Callable[[], int]
    now_ns: Callable[[], int] = time.time_ns
    alerts: Alerts
    alert_mutes: AlertMutes
    annotations: Annotations
    labels: Labels
    reviews: Reviews
    outbox: Outbox
    receivers: Receivers
    monitors: Monitors
    metric_monitors: MetricMonitors
    quality: Quality
    retention: Retention
    eraser: Eraser
    search: Search
    listing: Listing
    saved_views: SavedViews
    overview: Overview
    sessions: SessionQueries
    session_idle_ns: int
    outlines: Outlines
    exports: Exports
    datasets: Datasets
    runs: Runs
    run_items: RunItems
    kept_comparisons: "Kept[ComparedRuns]" = field(default_factory=Kept)
    run_evaluations: RunEvaluations
    run_evaluator: RunEvaluator
    rule_problems: RuleProblems
    redact: Callable[[Any], Any] | None = None  # takes out of JSON what must not be stored
    data: Path
    backup: Callable[[], IO[bytes]]
    sweeper: Sweeper
    meters: Sequence[Meter]
    conditions: ServerConditions
    configured: ProjectSettings
    watch: Watch | None = None
    state: str = "starting"

    def redacted(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        """Return JSON of a request with secrets redacted, for storage."""
        return value if self.redact is None or value is None else self.redact(value)

    def project_named(self, who: Caller, project: str) -> str:
        """Return the name of a project, from its name or its id."""
        row = self.rulebook.project(who.visible_tenant, project)
        return project if row is None else row.name
