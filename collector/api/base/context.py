"""Components of the server that the API uses. Made at startup, so nothing here imports FastAPI."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from collector.access.authenticator import Authenticator
from collector.access.caller import Caller
from collector.api.base.fair_scheduler import QueryScheduler
from collector.api.base.request_turns import RouteSchedulers
from collector.conditions import ServerConditions
from collector.connection_text import parse_project_budgets
from collector.conventions.own_keys import OwnKeys
from collector.delivery.receivers import Receivers
from collector.experiments.kept import LruCache
from collector.ingest import ByteBudget
from collector.listeners.otlp_http import OtlpReader
from collector.listeners.response_buffer import ResponseBufferLimit
from collector.live.jobs.run_evaluator import RunEvaluator
from collector.live.jobs.trials import Trials
from collector.live.judges.connection_trial import ConnectionTrials
from collector.live.judges.failing_judges import RuleProblems
from collector.live.judges.judge_services import JudgeServices
from collector.live.judges.playground import Playground
from collector.live.matching.backfill import Backfills
from collector.live.rules.active_rules import ActiveRules
from collector.live.upkeep.eraser import Eraser
from collector.live.upkeep.lake_publisher import LakePublisher
from collector.live.upkeep.sweeper import Sweeper
from collector.meters import Meter
from collector.self_tracing import Watch
from collector.settings import Settings
from rules.rule import Budget
from storage.limit import Limit
from storage.store import Store

if TYPE_CHECKING:
    from collector.experiments.comparing import ComparedRuns


_BODIES: Final = Limit(value=64 << 20, unit="bytes", remedy="send again later, or less at once")
"""Memory for request bodies other than spans, shared by all clients. A guess: eight of the largest."""


NO_SERVER: Final = "not running"
"""State of a context over a data directory without a server."""


@dataclass(slots=True, kw_only=True)
class Context:
    """Components of the server that the API uses. `state` is "starting", "ready", "stopping" or `NO_SERVER`."""

    settings: Settings
    own_keys: OwnKeys = field(init=False)
    project_budgets: Mapping[str, Budget] = field(init=False)  # `*`: a budget for each project that is not listed
    store: Store
    authenticator: Authenticator
    reader: OtlpReader
    turns: QueryScheduler
    bodies: ByteBudget = field(default_factory=partial(ByteBudget, _BODIES))
    answers: ResponseBufferLimit = field(default_factory=ResponseBufferLimit)
    route_turns: RouteSchedulers = field(default_factory=RouteSchedulers)
    rules: ActiveRules
    jobs_changed: Callable[[], None]
    judging: JudgeServices
    connection_trials: ConnectionTrials
    playground: Playground
    trials: Trials
    backfills: Backfills
    now_ns: Callable[[], int] = time.time_ns
    receivers: Receivers
    eraser: Eraser
    kept_comparisons: "LruCache[ComparedRuns]" = field(default_factory=LruCache)
    run_evaluator: RunEvaluator
    rule_problems: RuleProblems
    redact: Callable[[Any], Any] | None = None  # removes values from JSON that must not be stored
    sweeper: Sweeper
    meters: Sequence[Meter]
    conditions: ServerConditions
    watch: Watch | None = None
    lake: LakePublisher | None = None
    state: str = "starting"

    def __post_init__(self) -> None:
        self.own_keys = self.settings.own_keys
        self.project_budgets = parse_project_budgets(self.settings.project_budgets)

    def redacted(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        """Return JSON of a request with secrets redacted, for storage."""
        return value if self.redact is None or value is None else self.redact(value)

    def project_named(self, caller: Caller, project: str) -> str:
        """Return the name of a project, from its name or its id."""
        row = self.store.rulebook.project(caller.visible_tenant, project)
        return project if row is None else row.name
