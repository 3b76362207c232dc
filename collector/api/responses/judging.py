"""Rules and their trials, connections to models, and jobs on the wire."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, UnsetType, field

from collector.api.responses.base import JsonObject
from collector.api.responses.traces import Digest, StartTime
from collector.api.responses.wire import From, PageAnswer, WireDocument, doc, time_of, time_of_us
from collector.connection_text import BudgetText, LimitsText, PriceText
from collector.result_labels import JobState, OutcomeName
from evaluators.chat.wire import Protocol
from evaluators.evaluator import Need
from rules.rule import Target
from storage.records import Origin


class ProjectDocument(WireDocument):
    """A project."""

    id: Annotated[str | None, From("project_id"), doc("Null: only traces name it.")]
    tenant: str
    name: str
    created_at: Annotated[str | None, time_of("created_at_ns")]


class FileProblemDocument(WireDocument):
    """One thing that is wrong with a file of rules."""

    file: str
    line: Annotated[int | None, From(convert=lambda line: line or None), doc("Null: the file as a whole.")]
    key: str
    message: str


Count = Annotated[int, From(convert=int)]


class RuleDocument(WireDocument):
    """A rule: its text, with defaults for omitted keys, and its state."""

    id: Annotated[str, From("rule_id")]
    tenant: str
    project_id: str | None
    project: Annotated[str | None, doc("Null: the rule is about all projects.")]
    name: str
    enabled: bool
    target: Target
    evaluator: str
    connection_id: Annotated[str | None, From("connection")]
    sample_rate: float
    compare_by: str
    judge: Literal["again", "once"]
    settle: Annotated[
        float | None,
        From("settle_s"),
        doc("Seconds without spans after which a session is judged; null: the server's setting."),
    ]
    after: Annotated[JsonObject | None, doc("The condition on the result of another rule.")]
    match_type: str | None
    match_key: str | None
    match_value: str | float | bool | None
    evaluator_name: str | None
    criteria: str | None
    min_score: float | None
    max_score: float | None
    threshold: float | None
    conditions: list[Any] | JsonObject | None
    config: JsonObject | None
    budget: JsonObject | None
    tools: list[JsonObject] | None
    expected: JsonObject | None
    monitor: JsonObject | None
    jury: Annotated[list[str] | None, doc("Further connections whose judges vote too.")]
    clauses: Annotated[list[str], doc("The conditions in words, in the order in which they are checked.")]
    problem: Annotated[
        str | None, doc("The reason why the rule cannot judge, or its judge gives no verdicts, and the remedy.")
    ]
    comparison: Annotated[
        str | None,
        doc("The reason why monitors have no baseline after an edit of the evaluator, and the remedy."),
    ]
    origin: Origin
    file: str | None
    revision: int
    digest: Digest
    version: int
    created_at: Annotated[str, From("created_at_us", time_of_us)]
    updated_at: Annotated[str, From("updated_at_us", time_of_us)]


class DecisionCounts(WireDocument, kw_only=True):
    """Decisions of a rule in the last 24 hours, named as in SQL."""

    filtered: Count = 0
    sampled_out: Count = field(name="sampled_out", default=0)
    matched: Count = 0
    undecided: Count = 0


class EvaluationCounts(WireDocument, kw_only=True):
    """Outcomes of a rule's evaluations in the last 24 hours."""

    passed: Count = 0
    not_passed: Annotated[Count, doc("With a verdict that does not pass.")] = field(name="not_passed", default=0)
    failed: Annotated[Count, doc("With no verdict.")] = 0
    skipped: Count = 0


class SpendingDocument(WireDocument, kw_only=True):
    """The calls, tokens and cost of judges today (UTC), as budgets count them."""

    calls: Annotated[Count, doc("Calls that count towards budgets: the model answered, or charged tokens.")] = 0
    failed_calls: Annotated[
        Count, doc("Failed requests that used no tokens; they cost nothing, and no budget counts them.")
    ] = 0
    tokens: Count = 0
    usd: Annotated[float, doc("Without the cost of `unpricedCalls`, which is unknown: at least this was spent.")]
    unpriced_calls: Annotated[Count, doc("Number of `calls` over connections without a price.")] = 0


class RuleActivity(WireDocument):
    """Counts of the last 24 hours over all revisions of a rule; a target that two revisions judged counts twice."""

    decisions: DecisionCounts
    evaluations: EvaluationCounts
    spent_today: SpendingDocument


class ActiveRuleDocument(RuleDocument):
    """A rule with its recent activity."""

    activity: RuleActivity


class RuleList(WireDocument):
    """Rules, and what is wrong with the files of the folder."""

    content: list[ActiveRuleDocument]
    problems: list[FileProblemDocument]


class DecisionCount(WireDocument):
    """Number of targets with one decision."""

    decision: str
    why: str | None
    count: int


class TrialCost(WireDocument):
    """Estimated cost of judging."""

    evaluations: int
    evaluations_per_day: float
    judge: Need
    judge_calls_at_least: int
    budget: JsonObject | None


class TrialExample(WireDocument):
    """A span, a trace or a session that would be judged."""

    trace_id: Annotated[str, doc("The trace; of a session, the latest.")]
    span_id: str | None
    session_id: str | None
    name: str | None
    service_name: Annotated[str | None, From("service")]
    start_time: StartTime
    settles_at: Annotated[str | None, time_of("settles_at_ns")]
    settled: bool


class PromptMessageDocument(WireDocument):
    """One message of a prompt."""

    role: str
    content: str


class PromptDocument(WireDocument):
    """The prompt that a judge would get, or why it would get none."""

    messages: list[PromptMessageDocument]
    problem: str | None


class RuleTrialDocument(WireDocument, kw_only=True):
    """Stored targets that a rule would match, and the cost of judging them."""

    rule: JsonObject
    revision: str
    window_seconds: Annotated[float, From("window_s")]
    looked_at: int
    decisions: Annotated[list[DecisionCount], From("counts")]
    cost: TrialCost
    examples: list[TrialExample]
    prompt: Annotated[PromptDocument | UnsetType | None, doc("With `prompt=true`; null: there is no example.")] = UNSET


class ExplainedSpan(WireDocument, kw_only=True):
    """Decision on a span, and its reason."""

    span_id: str
    name: str
    decision: str
    clause: str | None
    value: Annotated[Any | UnsetType, doc("The span's value of the field that the clause tests.")] = UNSET


class ExplainedTrace(WireDocument, kw_only=True):
    """Decisions on a trace and its spans, and their reasons."""

    trace_id: str
    decision: Annotated[str | UnsetType | None, doc("Set for rules about traces.")] = UNSET
    clause: Annotated[str | UnsetType | None, doc("Set for rules about traces.")] = UNSET
    spans: list[ExplainedSpan]


class BackfillDocument(WireDocument):
    """A run of a rule over targets that are already stored."""

    id: Annotated[str, From("backfill_id")]
    revision: int
    from_time: Annotated[str, time_of("from_ns")] = field(name="from")
    to_time: Annotated[str, time_of("to_ns")] = field(name="to")
    chosen_traces: Annotated[
        int | None, From("trace_ids", len), doc("Number of traces, if only chosen ones are judged.")
    ]
    occasion: Annotated[str, doc("`backfill`, or `baseline`: its results become the baseline of monitors.")]
    state: str
    looked_at: int
    matched: int
    error: str | None
    created_at: Annotated[str, time_of("created_at_ns")]
    updated_at: Annotated[str, time_of("updated_at_ns")]


class BaselineEstimateDocument(WireDocument):
    """An estimate of what a baseline would judge again; nothing was judged."""

    evaluations_at_most: Annotated[int, From("evaluations"), doc("Results of the edited rule are not repeated.")]
    asks_judge: bool
    averaged_evaluations: Annotated[
        int, From("averaged"), doc("Number of latest evaluations behind `tokens` and `usd`.")
    ]
    tokens: Annotated[float | None, doc("Null if that is not known.")]
    usd: Annotated[float | None, doc("Null if that is not known.")]


class ConnectionDocument(WireDocument):
    """A connection to a model, without its key."""

    id: str
    tenant: str
    origin: Origin
    name: str
    base_url: str
    model: str
    protocol: Protocol
    credential_ref: str | None
    price: PriceText | None
    limits: LimitsText
    budget: BudgetText | None
    max_output_tokens: int | None
    temperature: float | None
    reasoning_effort: str | None
    headers: dict[str, str]
    header_refs: Annotated[dict[str, str], doc("Headers, and the variables of the server that hold their values.")]
    fallback: Annotated[str | None, doc("The connection that is used when this one fails.")]
    shared: bool
    credential: Annotated[str | None, doc("The source of the key; null: no key.")]
    spent_today: SpendingDocument
    problem: Annotated[str | None, doc("The reason why it gives no verdicts; null: it gives them, or was not used.")]
    version: int
    created_at: str
    updated_at: str


class TrialUsage(WireDocument):
    """Usage of a call to a model."""

    calls: int
    model: str | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    latency_ms: float | None


class TrialFailure(WireDocument):
    """Reason why a model could not be called."""

    kind: str
    message: str


class ConnectionTrialDocument(WireDocument):
    """Result of a test call over a connection."""

    ok: bool
    usage: TrialUsage | None
    failure: TrialFailure | None


class JobDocument(WireDocument):
    """A job, done or to be done."""

    id: Annotated[int, From("job_id")]
    state: JobState
    tenant: str
    project: str | None
    rule: str
    rule_id: str
    rule_revision: Annotated[str, doc("The first digits of its digest.")]
    evaluator: str
    trace_id: str
    span_id: str | None
    session_id: Annotated[str | None, doc("The session, if the job is about one; the trace is its latest.")]
    release: str | None
    round: int
    attempts: int
    not_before: Annotated[str | None, time_of("not_before_ns")]
    error_kind: str | None
    error: str | None
    created_at: Annotated[str, time_of("created_ns")]
    finished_at: Annotated[str | None, time_of("finished_ns")]


class JobPage(PageAnswer):
    """A page of jobs."""

    content: list[JobDocument]


class RetriedJob(WireDocument):
    """The number of jobs that run again: one."""

    retried: int


class RetriedJobs(RetriedJob):
    """Number of jobs that are retried, and whether there are more: then repeat the request."""

    more: bool


class HandResultDocument(WireDocument):
    """Result of a manual evaluation, and its usage."""

    outcome: OutcomeName
    score: float | None
    passed: bool | None
    threshold: float | None
    reason: str | None
    error_kind: str | None
    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: Annotated[float | None, doc("Null: no model was called, or it has no price.")]


class JudgedNowDocument(WireDocument):
    """Maximum cost of a manual evaluation, and its result."""

    cost_usd_at_most: Annotated[float | None, doc("Null: no model is called, or it has no price.")]
    model: Annotated[str | None, doc("Null: no model is called.")]
    job_id: Annotated[int | None, doc("The job of the stored result; null: without a score none is stored.")]
    result: Annotated[HandResultDocument | None, doc("Null if only the price was requested.")]
