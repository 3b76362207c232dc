"""Datasets, experiments, runs, and evaluations of runs on the wire."""

import json
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import field

from collector.api.responses.base import JsonObject
from collector.api.responses.wire import From, PageAnswer, WireDocument, computed, doc, time_of

if TYPE_CHECKING:  # a command needs no database
    from storage.offline.datasets import VersionChange
    from storage.offline.runs import Run

Created = Annotated[str, time_of("created_at_ns")]
Started = Annotated[str, time_of("started_at_ns")]


ParsedObject = Annotated[JsonObject, From(convert=json.loads)]


class DatasetDocument(WireDocument):
    """A dataset."""

    id: Annotated[str, From("dataset_id")]
    tenant: str
    name: str
    description: str
    tags: list[str]
    input_schema: Annotated[JsonObject | None, From(convert=json.loads)]
    expected_output_schema: Annotated[JsonObject | None, From("expected_schema", json.loads)]
    latest_version: Annotated[int | None, From(convert=lambda number: number or None)]
    latest_item_count: int | None
    version: int
    created_at: Created
    updated_at: Annotated[str, time_of("updated_at_ns")]


class VersionDocument(WireDocument):
    """A version of a dataset, and how it differs from the one before it."""

    id: str
    tenant: str
    dataset_name: Annotated[str, From("name")]
    version: int
    description: str
    item_count: int
    added: int
    removed: int
    changed: int
    created_at: Created
    created_by: str | None


class ImportedVersion(VersionDocument):
    """A version made of the items in a file."""

    left_out: int
    """Rows of the file in which no cell holds a value."""

    left_out_places: list[str]
    """Places in the file of the first 100 of these rows."""


class DatasetDetail(DatasetDocument):
    """A dataset with its versions, newest first."""

    versions: list[VersionDocument]


class ItemDocument(WireDocument):
    """An item of a version."""

    id: Annotated[str, From("item_id")]
    ordinal: int
    inputs: ParsedObject
    expected_outputs: ParsedObject
    metadata: ParsedObject
    source: Annotated[JsonObject | None, From(convert=json.loads)]
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


def _side_of(when: str) -> From:
    """Return the source of an item in one version, from columns such as `inputs_before`."""

    def side(change: "VersionChange") -> ItemSide | None:
        texts = [getattr(change, f"{name}_{when}") for name in ("inputs", "expected", "metadata")]
        inputs, expected, metadata = (None if text is None else json.loads(text) for text in texts)
        return None if inputs is None else ItemSide(inputs=inputs, expected_outputs=expected, metadata=metadata)

    return computed(side)


class ChangedItem(WireDocument):
    """An item that differs between two versions."""

    status: Literal["ADDED", "REMOVED", "CHANGED"]
    id: Annotated[str, From("item_id")]
    before: Annotated[ItemSide | None, _side_of("before")]
    after: Annotated[ItemSide | None, _side_of("after")]


class ChangedItemPage(PageAnswer):
    """A page of the items that differ."""

    content: list[ChangedItem]
    base: int
    version: int
    total_elements: int


def _version_id(run: "Run") -> str | None:
    return None if run.dataset_id is None else f"{run.dataset_id}@{run.dataset_version}"


class _RunRate(WireDocument, kw_only=True):
    pass_rate: Annotated[float | None, doc("The share that passed of the items with a verdict; null without any.")]
    not_passed_items: Annotated[int, From("not_passed")] = 0
    error_items: Annotated[int, From("errors"), doc("Items whose task failed.")] = 0
    not_evaluated_items: Annotated[
        int, From("not_evaluated"), doc("Items without a verdict, because an evaluator could not judge.")
    ] = 0
    unjudged_items: Annotated[
        int, From("unjudged"), doc("Items of which no evaluator gave a verdict, such as skipped ones.")
    ] = 0
    failed_evaluations: Annotated[list[str], doc("Evaluations of the server that gave up, by name.")] = field(
        default_factory=list
    )


class LatestRun(_RunRate, kw_only=True):
    """The latest run of an experiment."""

    run_id: str
    status: str
    started_at: Started


class ExperimentDocument(WireDocument, kw_only=True):
    """An experiment and its latest run."""

    id: Annotated[str, From("experiment_id")]
    tenant: str
    project_name: Annotated[str, From("project")]
    name: str
    description: Annotated[str, doc("The description of its latest run.")] = ""
    created_at: Created
    latest_run: LatestRun | None


class BegunRun(WireDocument):
    """A run, new or begun earlier."""

    run_id: str
    experiment_id: str
    tenant: str
    status: str


class _RunHead(_RunRate, kw_only=True):
    id: Annotated[str, From("run_id")]
    tenant: str
    project_name: Annotated[str, From("project")]
    experiment_id: str
    experiment_name: Annotated[str, From("experiment")]
    name: str | None
    description: str = ""
    run_key: str | None
    status: str
    status_reason: Annotated[
        str | None, From("state_reason"), doc("The reason of the status, or what an evaluation waits for.")
    ]
    verdict: str | None
    config: Annotated[JsonObject, From("metadata", json.loads)]
    git_sha: str | None
    git_branch: str | None
    triggered_by: str | None
    dataset_name: Annotated[str | None, From("dataset")]
    dataset_version_id: Annotated[str | None, computed(_version_id)]
    dataset_version: int | None
    trials: int
    created_by: str | None
    pinned: Annotated[bool, From("is_pinned"), doc("True if it is kept beyond its expiry.")]
    started_at: Started
    completed_at: Annotated[str | None, time_of("completed_at_ns")]
    tokens_in: int | None
    tokens_out: int | None
    cost_usd: float | None
    latency_ms: float | None


class RunDocument(_RunHead, kw_only=True):
    """A run in the list of an experiment's runs."""

    item_count: Annotated[int, From("items")]
    passed_count: Annotated[int, From("passed")]


class EvaluatorSummary(WireDocument):
    """Results of one evaluator in a run. Values that differ within the run are null."""

    evaluator_name: Annotated[str, From("name")]
    scored_count: Annotated[int, From("scored")]
    failed_count: Annotated[int, From("failed")]
    skipped_count: Annotated[int, From("skipped")]
    passed_count: Annotated[int, From("passed")]
    pass_rate: float | None
    average_score: Annotated[float | None, From("mean")]
    score_std_dev: Annotated[float | None, From("deviation")]
    lowest_score: Annotated[float | None, From("lowest")]
    highest_score: Annotated[float | None, From("highest")]
    threshold: float | None
    direction: str | None
    fingerprint: str | None
    version: str | None
    cost_usd: float | None


class RunWithEvaluators(RunDocument, kw_only=True):
    """A run in the list over all experiments, with its results by evaluator."""

    evaluators: list[EvaluatorSummary]


class RunScore(WireDocument):
    """Score of an item by one evaluator."""

    evaluator_name: Annotated[str, From("name")]
    outcome: str
    score: float | None
    label: str | None
    threshold: float | None
    direction: str | None
    success: Annotated[bool | None, From("passed")]
    reason: str | None
    error_kind: str | None
    fingerprint: str | None
    version: Annotated[str | None, From("evaluator_version")]
    metadata: Annotated[Any, From(convert=json.loads)]
    evaluation_id: str | None
    judge_model: str | None
    cost_usd: float | None
    latency_ms: float | None


class RunItemDocument(WireDocument):
    """Result of an item in one trial, with the scores that count."""

    id: Annotated[str, From("item_number", str)]
    dataset_item_id: str | None
    item_key: Annotated[str | None, computed(lambda item: item["item_key"] if item["is_keyed"] else None)]
    trial: int
    input: Annotated[JsonObject, From("inputs", json.loads)]
    expected_output: Annotated[JsonObject, From("expected_outputs", json.loads)]
    actual_output: Annotated[JsonObject, From("actual_outputs", json.loads)]
    metadata: Annotated[JsonObject, From(convert=json.loads)]
    outcome: str
    success: Annotated[bool, computed(lambda item: item["outcome"] == "passed")]
    error: str | None
    error_kind: str | None
    stop_reason: str | None
    cached: bool | None
    retries: int | None
    tokens_in: int | None
    tokens_out: int | None
    cached_tokens: Annotated[int | None, From("tokens_cached")]
    reasoning_tokens: Annotated[int | None, From("tokens_reasoning")]
    cost_usd: float | None
    latency_ms: float | None
    trace_id: str | None
    span_id: str | None
    created_at: Created
    eval_results: Annotated[list[RunScore], From("scores")]


class RunItemPage(PageAnswer):
    """A page of the items of a run."""

    content: list[RunItemDocument]


class UndecidedItem(RunItemDocument):
    """An item of a run about which no person has decided."""

    run_id: str
    project_name: Annotated[str, From("project")]
    experiment_id: str
    experiment_name: Annotated[str, From("experiment")]


class UndecidedItemPage(PageAnswer):
    """A page of undecided items."""

    content: list[UndecidedItem]


class RunDetail(_RunHead, kw_only=True):
    """A run with totals over its items, and a page of the items."""

    total_items: Annotated[int, From("items")]
    case_count: Annotated[int, From("cases")]
    passed_items: Annotated[int, From("passed")]
    priced_item_count: Annotated[int, From("priced")]
    tokenized_item_count: Annotated[int, From("tokenized")]
    latency_p95_ms: float | None = field(name="latencyP95Ms")
    evaluators: list[EvaluatorSummary]
    items: RunItemPage


class TrendRun(_RunRate, kw_only=True):
    """The pass rate of a run."""

    run_id: str
    started_at: Started
    total_items: Annotated[int, From("items")]
    passed_items: Annotated[int, From("passed")]


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
    """Items that were reported."""

    content: list[ReportedKey]
    next: Annotated[int | None, doc("The value of `after` for the next page.")]


class ItemsReceipt(WireDocument):
    """Numbers of items stored and already present, and the keys of conflicting ones."""

    status: Literal["ok"]
    stored: int
    already_present: int
    conflicting: Annotated[list[str], doc("Keys that were already reported with different content.")]


class RunChangeReceipt(WireDocument):
    """State of a run after a change."""

    status: Literal["updated"]
    run_status: str
    verdict: str | None


class PinnedRun(WireDocument):
    """State of a run's pin, which keeps it beyond its expiry."""

    run_id: str
    pinned: Annotated[bool, From("is_pinned")]


class RunEvaluationDocument(WireDocument, kw_only=True):
    """An evaluation of the items of a run, with its progress."""

    id: Annotated[str, From("evaluation_id")]
    tenant: str
    run_id: str
    evaluator: str
    evaluator_name: Annotated[str, From("name")]
    config: Annotated[JsonObject, From("configuration", lambda rule: json.loads(rule).get("config", {}))]
    connection_id: Annotated[str | None, From("connection")]
    status: Annotated[
        Literal["WAITING", "RUNNING", "DONE", "FAILED", "CANCELLED"],
        From("state", str.upper),
        doc("FAILED: it ended without a single verdict, or could not begin; lastError says why."),
    ]
    last_error: Annotated[str | None, From("error")]
    scored_count: Annotated[int, From("scored"), doc("Items that it scored so far.")] = 0
    failed_count: Annotated[int, From("failed"), doc("Items that it could not judge.")] = 0
    skipped_count: Annotated[int, From("skipped")] = 0
    created_by: str | None
    created_at: Created
    completed_at: Annotated[str | None, time_of("ended_at_ns")]


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
