"""How the server stands, and what a sweep did."""

from pydantic import Field

from collector.api.answers.base import ApiAnswer
from collector.api.answers.judging import FileProblemDocument, SpendingDocument


class ConditionDocument(ApiAnswer):
    """Something that holds for now."""

    name: str
    message: str
    since: str


class DroppedScopeDocument(ApiAnswer):
    """An entry of the setting `drop_scopes`."""

    project: str
    scope: str
    spans: int = Field(description="Dropped since the start.")


class RunningServer(ApiAnswer):
    """What only a running server knows."""

    state: str
    overloaded: bool
    backlog_bytes: int
    dropped: list[DroppedScopeDocument] = Field(description="What `drop_scopes` names, and drops.")
    conditions: list[ConditionDocument]


class StoredSpans(ApiAnswer):
    """How many spans there were."""

    stored: int
    already_present: int
    set_aside: int


class StoredLogs(ApiAnswer):
    """How many log records there were."""

    stored: int
    already_present: int


class LagDocument(ApiAnswer):
    """What was not looked at yet."""

    spans_behind: int
    seconds_behind: float


class UnableRule(ApiAnswer):
    """A rule in force that judges nothing, or whose monitors compare anew, and why."""

    id: str
    name: str
    project: str | None
    message: str


class RuleCounts(ApiAnswer):
    """How many rules there are, and what is wrong with them."""

    in_force: int
    disabled: int
    unable: list[UnableRule] = Field(
        description="Those in force that judge nothing: they cannot, or their judge gives no verdicts."
    )
    comparing_anew: list[UnableRule] = Field(description="Their evaluator changed, and lacks results to compare with.")
    problems: list[FileProblemDocument]


class JobCounts(ApiAnswer):
    """How many jobs there are, and since when the oldest waits that nobody has claimed."""

    ready: int
    waiting: int
    held: int = Field(description="Until another rule's result says whether they are made.")
    claimed: int
    tried: int = Field(description="Those ready and waiting of which an attempt has failed.")
    oldest_at: str | None
    oldest_seconds: float | None


class DeletionCounts(ApiAnswer):
    """Deletions that are not done."""

    deleting: int
    erasing: int


class OutcomeCounts(ApiAnswer):
    """The results that count: those that no later evaluation of the same target replaced."""

    scored: int
    failed: int = Field(description="With no verdict.")
    skipped: int


class StatusDocument(ApiAnswer):
    """How a server stands."""

    time: str
    server: RunningServer
    spans: StoredSpans
    logs: StoredLogs
    traces: LagDocument
    older_spans: int = Field(description="Spans that an earlier edition of the conventions read.")
    matching: LagDocument
    rules: RuleCounts
    jobs: JobCounts
    open_traces: int
    deletions: DeletionCounts
    last24h: OutcomeCounts = Field(alias="last24h")
    spent_today: SpendingDocument


class SweepForecastDocument(ApiAnswer):
    """What a sweep would find."""

    spans: int
    expired_traces: int
    expired_spans: int
    over_spans: int
    used_bytes: int
    free_bytes: int
    held: str | None = Field(description="Why what has expired stays, and what to do about it; null: it leaves.")


class SweptDocument(ApiAnswer):
    """What a sweep did."""

    traces: int
    spans: int
    freed_bytes: int | None = Field(description="Null: not now, because somebody read.")
    held: str | None = Field(description="Why what has expired stays, and what to do about it; null: it left.")
