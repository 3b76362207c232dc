"""Datasets, experiments, runs, and evaluators that judge runs."""

from typing import Annotated, Any, Literal

from msgspec import field

from collector.api.answers.base import JsonObject
from collector.api.answers.wire import PageAnswer, WireDocument, about


class DatasetDocument(WireDocument):
    """A dataset."""

    id: str
    tenant: str
    name: str
    description: str
    tags: list[str]
    input_schema: JsonObject | None
    expected_output_schema: JsonObject | None
    latest_version: int | None
    latest_item_count: int | None
    version: int
    created_at: str
    updated_at: str


class VersionDocument(WireDocument):
    """A version of a dataset, and how it differs from the one before it."""

    id: str
    tenant: str
    dataset_name: str
    version: int
    description: str
    item_count: int
    added: int
    removed: int
    changed: int
    created_at: str
    created_by: str | None


class ImportedVersion(VersionDocument):
    """A version made of the items in a file."""

    left_out: int
    """Rows of the file in which no cell holds a value."""

    left_out_places: list[str]
    """The first 100 of them."""


class DatasetDetail(DatasetDocument):
    """A dataset with its versions, newest first."""

    versions: list[VersionDocument]


class ItemDocument(WireDocument):
    """An item of a version."""

    id: str
    ordinal: int
    inputs: JsonObject
    expected_outputs: JsonObject
    metadata: JsonObject
    source: JsonObject | None
    digest: str


class ItemPage(PageAnswer):
    """A page of items."""

    content: list[ItemDocument]
    total_elements: int


class ItemSide(WireDocument):
    """An item as one version has it."""

    inputs: JsonObject
    expected_outputs: JsonObject | None
    metadata: JsonObject | None


class ChangedItem(WireDocument):
    """An item that differs between two versions."""

    status: Literal["ADDED", "REMOVED", "CHANGED"]
    id: str
    before: ItemSide | None
    after: ItemSide | None


class ChangedItemPage(PageAnswer):
    """A page of the items that differ."""

    content: list[ChangedItem]
    base: int
    version: int
    total_elements: int


class _RunRate(WireDocument):
    pass_rate: Annotated[float | None, about("The share that passed of the items with a verdict; null without any.")]
    not_passed_items: int
    error_items: Annotated[int, about("Items whose task failed.")]
    not_evaluated_items: Annotated[int, about("Items without a verdict, because an evaluator could not judge.")]
    unjudged_items: Annotated[int, about("Items of which no evaluator gave a verdict, such as skipped ones.")]
    failed_evaluations: Annotated[list[str], about("Evaluations of the server that gave up, by name.")]


class LatestRun(_RunRate):
    """The latest run of an experiment."""

    run_id: str
    status: str
    started_at: str


class ExperimentDocument(WireDocument):
    """An experiment and its latest run."""

    id: str
    tenant: str
    project_name: str
    name: str
    description: Annotated[str, about("That of its latest run.")]
    created_at: str
    latest_run: LatestRun | None


class BegunRun(WireDocument):
    """A run that has begun, or had already."""

    run_id: str
    experiment_id: str
    tenant: str
    status: str


class _RunHead(_RunRate):
    id: str
    tenant: str
    project_name: str
    experiment_id: str
    experiment_name: str
    name: str | None
    description: str
    run_key: str | None
    status: str
    status_reason: Annotated[str | None, about("Why it ended so, or what an evaluation waits for.")]
    verdict: str | None
    config: JsonObject
    git_sha: str | None
    git_branch: str | None
    triggered_by: str | None
    dataset_name: str | None
    dataset_version_id: str | None
    dataset_version: int | None
    trials: int
    created_by: str | None
    pinned: Annotated[bool, about("Whether it is kept beyond its expiry.")]
    started_at: str
    completed_at: str | None
    tokens_in: int | None
    tokens_out: int | None
    cost_usd: float | None
    latency_ms: float | None


class RunDocument(_RunHead):
    """A run as a list tells it."""

    item_count: int
    passed_count: int


class EvaluatorSummary(WireDocument):
    """What one evaluator said in a run. What differs within the run is null."""

    evaluator_name: str
    scored_count: int
    failed_count: int
    skipped_count: int
    passed_count: int
    pass_rate: float | None
    average_score: float | None
    score_std_dev: float | None
    lowest_score: float | None
    highest_score: float | None
    threshold: float | None
    direction: str | None
    fingerprint: str | None
    version: str | None
    cost_usd: float | None


class RunWithEvaluators(RunDocument):
    """A run as the list of all experiments tells it."""

    evaluators: list[EvaluatorSummary]


class RunScore(WireDocument):
    """What one evaluator said of an item."""

    evaluator_name: str
    outcome: str
    score: float | None
    label: str | None
    threshold: float | None
    direction: str | None
    success: bool | None
    reason: str | None
    error_kind: str | None
    fingerprint: str | None
    version: str | None
    metadata: Any
    evaluation_id: str | None
    judge_model: str | None
    cost_usd: float | None
    latency_ms: float | None


class RunItemDocument(WireDocument):
    """What came of an item in one trial, with the scores that count."""

    id: str
    dataset_item_id: str | None
    item_key: str | None
    trial: int
    input: JsonObject
    expected_output: JsonObject
    actual_output: JsonObject
    metadata: JsonObject
    outcome: str
    success: bool
    error: str | None
    error_kind: str | None
    stop_reason: str | None
    cached: bool | None
    retries: int | None
    tokens_in: int | None
    tokens_out: int | None
    cached_tokens: int | None
    reasoning_tokens: int | None
    cost_usd: float | None
    latency_ms: float | None
    trace_id: str | None
    span_id: str | None
    created_at: str
    eval_results: list[RunScore]


class RunItemPage(PageAnswer):
    """A page of the items of a run."""

    content: list[RunItemDocument]


class UndecidedItem(RunItemDocument):
    """An item of a run about which no person has decided."""

    run_id: str
    project_name: str
    experiment_id: str
    experiment_name: str


class UndecidedItemPage(PageAnswer):
    """A page of them."""

    content: list[UndecidedItem]


class RunDetail(_RunHead):
    """A run, what its items sum up to, and a page of these."""

    total_items: int
    case_count: int
    passed_items: int
    priced_item_count: int
    tokenized_item_count: int
    latency_p95_ms: float | None = field(name="latencyP95Ms")
    evaluators: list[EvaluatorSummary]
    items: RunItemPage


class TrendRun(_RunRate):
    """The pass rate of a run."""

    run_id: str
    started_at: str
    total_items: int
    passed_items: int


class TrendDocument(WireDocument):
    """The pass rates of an experiment's latest runs, oldest first."""

    experiment_name: str
    project_name: str
    runs: list[TrendRun]


class ReportedKey(WireDocument):
    """An item that was reported."""

    item_key: str
    trial: int


class ReportedKeys(WireDocument):
    """Which items were reported."""

    content: list[ReportedKey]
    next: Annotated[int | None, about("What `after` has to be for those that follow.")]


class ItemsReceipt(WireDocument):
    """What became of the items that were reported."""

    status: Literal["ok"]
    stored: int
    already_present: int
    conflicting: Annotated[list[str], about("Keys that were reported already, with something else.")]


class RunChangeReceipt(WireDocument):
    """How a run stands after a change."""

    status: Literal["updated"]
    run_status: str
    verdict: str | None


class PinnedRun(WireDocument):
    """Whether a run is kept beyond its expiry."""

    run_id: str
    pinned: bool


class RunEvaluationDocument(WireDocument):
    """An evaluator that is asked about the items of a run, and how far that is."""

    id: str
    tenant: str
    run_id: str
    evaluator: str
    evaluator_name: str
    config: JsonObject
    connection_id: str | None
    status: Annotated[
        Literal["WAITING", "RUNNING", "DONE", "FAILED", "CANCELLED"],
        about("FAILED: it ended without a single verdict, or could not begin; lastError says why."),
    ]
    last_error: str | None
    scored_count: Annotated[int, about("Items that it scored so far.")]
    failed_count: Annotated[int, about("Items that it could not judge.")]
    skipped_count: int
    created_by: str | None
    created_at: str
    completed_at: str | None


class ExportedRun(WireDocument):
    """A run as a file, which the gate reads: its items folded over their trials."""

    version: Literal[1]
    experiment_name: str
    timestamp: str
    description: str
    metadata: JsonObject
    config: JsonObject
    summary: JsonObject
    items: list[JsonObject]
    run: JsonObject
