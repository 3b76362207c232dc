"""Status of the server, and results of a sweep, on the wire."""

from typing import Annotated

from msgspec import Meta, field

from collector.api.responses.judging import FileProblemDocument, SpendingDocument
from collector.api.responses.wire import From, WireDocument, doc


class ConditionDocument(WireDocument):
    """A condition of the server that holds now."""

    name: str
    message: str
    since: str


class DroppedScopeDocument(WireDocument):
    """An entry of the setting `drop_scopes`."""

    project: str
    scope: str
    spans: Annotated[int, doc("Dropped since the start.")]


class LakeState(WireDocument, kw_only=True):
    """State of the lake."""

    lag_seconds: Annotated[float, doc("Commits older than this are all in the lake.")]
    rows: Annotated[int, doc("Published since the start.")]
    waiting: Annotated[str | None, doc("The reason why rows are not published, or traces are not moved, now.")]
    moved_before: Annotated[str | None, doc("Traces whose last span came before this day have moved, unless kept.")]
    files: Annotated[int | None, doc("In all tables, after the latest maintenance.")]
    size_bytes: int | None
    maintained_at: Annotated[str | None, doc("Null if it was not since the start.")]


class RunningServer(WireDocument, kw_only=True):
    """State of a running server."""

    state: str
    overloaded: bool
    backlog_bytes: int
    dropped: Annotated[list[DroppedScopeDocument], doc("Spans dropped because of `drop_scopes`.")] = field(
        default_factory=list
    )
    conditions: list[ConditionDocument]
    lake: LakeState | None


class StoredSpans(WireDocument):
    """Counts of spans."""

    stored: int
    already_present: int
    set_aside: int


class StoredLogs(WireDocument):
    """Counts of log records."""

    stored: int
    already_present: int


class LagDocument(WireDocument):
    """Work that is not done yet."""

    spans_behind: int
    seconds_behind: float


class UnableRule(WireDocument):
    """An active rule that judges nothing, or whose monitors start a new comparison, with the reason."""

    id: str
    name: str
    project: str | None
    message: str


class RuleCounts(WireDocument, kw_only=True):
    """The number of rules, and their problems."""

    in_force: int
    disabled: int
    unable: Annotated[
        list[UnableRule], doc("Active rules that judge nothing: they cannot, or their judge gives no verdicts.")
    ]
    comparing_anew: Annotated[list[UnableRule], doc("Their evaluator changed, and lacks results to compare with.")] = (
        field(default_factory=list)
    )
    problems: list[FileProblemDocument]


class JobCounts(WireDocument, kw_only=True):
    """Counts of jobs, and the age of the oldest unclaimed one."""

    ready: int
    waiting: int
    held: Annotated[int, doc("Held until the result of another rule decides whether they run.")]
    claimed: int
    tried: Annotated[int, doc("Ready and waiting jobs that have a failed attempt.")] = 0
    oldest_at: str | None
    oldest_seconds: float | None


class DeletionCounts(WireDocument):
    """Deletions that are not done."""

    deleting: int
    erasing: int


class OutcomeCounts(WireDocument):
    """The results that count: those that no later evaluation of the same target replaced."""

    scored: int
    failed: Annotated[int, doc("With no verdict.")]
    skipped: int


class SettlingDocument(WireDocument):
    """Settings that decide when a trace or a session counts as complete."""

    after_root_seconds: Annotated[float, From("after_root_s")]
    quiet_seconds: Annotated[float, From("quiet_s")]
    longest_seconds: Annotated[float, From("longest_s")]
    session_seconds: Annotated[float, From("session_s")]


class StatusDocument(WireDocument):
    """The status of a server."""

    time: str
    # Null over a data directory without a server, which no client of a server meets.
    server: Annotated[RunningServer | None, Meta(extra={"described": RunningServer})]
    spans: StoredSpans
    logs: StoredLogs
    traces: LagDocument
    older_spans: Annotated[int, doc("Spans that an earlier edition of the conventions read.")]
    matching: LagDocument
    rules: RuleCounts
    jobs: JobCounts
    open_traces: int
    deletions: DeletionCounts
    last24h: OutcomeCounts
    spent_today: SpendingDocument
    settling: SettlingDocument | None = None


class SweepForecastDocument(WireDocument):
    """The forecast of a sweep."""

    spans: int
    expired_traces: int
    expired_spans: int
    over_spans: int
    used_bytes: int
    free_bytes: int
    held: Annotated[str | None, doc("The reason why expired traces stay, and the remedy; null: they are deleted.")]


class SweptDocument(WireDocument):
    """The result of a sweep."""

    traces: int
    spans: int
    freed_bytes: Annotated[int | None, doc("Null: not freed yet, because of queries under way.")]
    held: Annotated[str | None, doc("The reason why expired traces stayed, and the remedy; null: they were deleted.")]
