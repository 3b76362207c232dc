"""Experiments: runs, the failures of a run, and the comparison of two runs."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from collector.mcp.client import Api, part
from collector.mcp.tool import Arguments, Tool, ToolOutput

_MOST_CASES = 50
_MOST_ITEMS = 200


class ListExperiments(Arguments):
    """Filters of the runs."""

    limit: int = Field(default=20, ge=1, le=200)
    dataset_name: str | None = Field(default=None, description="Only runs on this dataset, or on a file of this name.")


class RunLine(BaseModel):
    """A run of a list."""

    run_id: str
    timestamp: str
    experiment_name: str
    name: str | None
    description: str
    project: str
    dataset: str | None
    status: str
    status_reason: str | None = Field(description="The reason of the status, or what an evaluation waits for.")
    total_examples: int
    pass_rate: float | None = Field(description="The share of the examples with a verdict that passed.")
    error_count: int
    not_evaluated_count: int
    unjudged_count: int
    failed_evaluations: list[str]
    average_scores: dict[str, float | None]


class ListedRuns(ToolOutput):
    """Runs, the newest first."""

    count: int
    runs: list[RunLine]


async def list_experiments(api: Api, arguments: ListExperiments) -> ListedRuns:
    """List runs, the newest first."""
    runs = await api.get("/api/v1/runs", datasetName=arguments.dataset_name, size=arguments.limit)
    return ListedRuns(count=len(runs), runs=[_line(run, run["itemCount"]) for run in runs])


async def _line_of(api: Api, run_id: str) -> RunLine:
    run = await api.get(f"/api/v1/runs/{part(run_id)}", size=1)
    return _line(run, run["totalItems"])


def _line(run: Mapping[str, Any], items: int) -> RunLine:
    return RunLine(
        run_id=run["id"],
        timestamp=run["startedAt"],
        experiment_name=run["experimentName"],
        name=run["name"],
        description=run["description"],
        project=run["projectName"],
        dataset=dataset_of(run),
        status=run["status"],
        status_reason=run["statusReason"],
        total_examples=items,
        pass_rate=run["passRate"],
        error_count=run["errorItems"],
        not_evaluated_count=run["notEvaluatedItems"],
        unjudged_count=run["unjudgedItems"],
        failed_evaluations=run["failedEvaluations"],
        average_scores={each["evaluatorName"]: each["averageScore"] for each in run["evaluators"]},
    )


def dataset_of(run: Mapping[str, Any]) -> str | None:
    """Return the dataset of a run, or the file that its metadata names."""
    file = run["config"].get("datasetFile")
    return run["datasetName"] or (file if isinstance(file, str) else None)


class CompareRuns(Arguments):
    """The two runs."""

    run_id_a: str = Field(description="The baseline.")
    run_id_b: str = Field(description="The candidate, a run of the same experiment.")


class ComparedPassRate(BaseModel):
    """The pass rates of both runs."""

    run_a: float | None
    run_b: float | None
    delta: float | None
    status: str = Field(description="improved, regressed, unchanged; unknown if no item was judged in both.")
    significant: bool | None
    p_value: float | None
    method: str | None


class RunChanges(BaseModel):
    """Changes from the baseline to the candidate."""

    pass_rate: ComparedPassRate
    verdict: str | None = Field(description="regressed, not_worse or inconclusive, over all evaluators.")
    evaluators: list[dict[str, Any]] = Field(description="Means, difference, interval and p-value of each.")
    regressions: list[str] = Field(description="The evaluators that are worse.")
    has_regressions: bool
    summary_counts: dict[str, int]
    composition_changed: bool
    composition_note: str | None
    warnings: list[str]
    cases: list[dict[str, Any]] = Field(description="Items that changed, the worst first.")
    cases_truncated: bool
    changed_case_count: int


class RunComparison(ToolOutput):
    """Two runs side by side."""

    run_a: RunLine
    run_b: RunLine
    comparison: RunChanges


async def compare_runs(api: Api, arguments: CompareRuns) -> RunComparison:
    """Compare two runs, as the gate does."""
    run_a, run_b = await _line_of(api, arguments.run_id_a), await _line_of(api, arguments.run_id_b)
    experiment = (await api.get(f"/api/v1/runs/{part(arguments.run_id_b)}", size=1))["experimentId"]
    where = f"/api/v1/experiments/{part(experiment)}"
    gate = await api.post(f"{where}/gate", {"candidateRunId": arguments.run_id_b, "baselineRunId": arguments.run_id_a})
    diff = await api.get(
        f"{where}/runs/{part(arguments.run_id_b)}/diff", baselineRunId=arguments.run_id_a, size=_MOST_CASES
    )
    return RunComparison(run_a=run_a, run_b=run_b, comparison=_comparison(gate, diff))


def _comparison(gate: dict[str, Any], diff: dict[str, Any]) -> RunChanges:
    summary, cases = diff["summary"], diff["cases"]
    changed = summary["regressedCount"] + summary["improvedCount"]
    moved = summary["addedCount"] + summary["removedCount"]
    counts = ("regressedCount", "improvedCount", "unchangedCount", "unscoredCount", "addedCount", "removedCount")
    return RunChanges(
        pass_rate=_pass_rate(gate, summary),
        verdict=gate["verdict"],
        evaluators=gate["evaluators"],
        regressions=[each["evaluator"] for each in gate["regressedEvaluators"]],
        has_regressions=not gate["passed"],
        summary_counts={name.removesuffix("Count"): summary[name] for name in counts},
        composition_changed=moved > 0,
        composition_note=f"{moved} items are in one run alone; they are in no comparison" if moved else None,
        warnings=[*gate["failures"], *gate["warnings"]],
        cases=cases["content"],
        cases_truncated=not cases["last"],
        changed_case_count=changed,
    )


def _status_of(delta: float | None) -> str:
    if delta is None:
        return "unknown"
    return "improved" if delta > 0 else "regressed" if delta < 0 else "unchanged"


def _pass_rate(gate: dict[str, Any], summary: dict[str, Any]) -> ComparedPassRate:
    passes = [each for each in gate["evaluators"] if each["method"] in {"mcnemar_exact", "mcnemar_mid_p", "mcnemar"}]
    tested = passes[0] if len(passes) == 1 else None
    delta = summary["passRateDelta"]
    return ComparedPassRate(
        run_a=summary["baselinePassRate"],
        run_b=summary["candidatePassRate"],
        delta=delta,
        status=_status_of(delta),
        significant=gate["significant"],
        p_value=tested["pValue"] if tested else None,
        method=tested["method"] if tested else None,
    )


class GetFailingQueries(Arguments):
    """The run."""

    run_id: str
    threshold: float | None = Field(
        default=None, ge=0, le=1, description="Also items with any score below this; without it the stored verdict."
    )
    limit: int = Field(default=50, ge=1, le=_MOST_ITEMS)


class FailingQuery(BaseModel):
    """An item that did not pass."""

    item_id: str = Field(description="Id for promote_to_dataset.")
    dataset_item_id: str | None = Field(description="Id in the dataset; `item_id` in `outputs` of run_evaluation.")
    trial: int
    trace_id: str | None
    input: Any
    expected_output: Any
    actual_output: Any
    success: bool
    outcome: str
    error: str | None
    error_kind: str | None
    evaluations: list[dict[str, Any]]


class FailingQueries(ToolOutput):
    """The items of a run that did not pass."""

    run_id: str
    failing_count: int = Field(description="Number of failing items among those that were searched.")
    looked_at: int
    failing_queries: list[FailingQuery]


async def get_failing_queries(api: Api, arguments: GetFailingQueries) -> FailingQueries:
    """List the items of a run that did not pass, of its first 10,000."""
    looked_at, failing, page = 0, [], 0
    while page < _MOST_CASES:
        items_page = (await api.get(f"/api/v1/runs/{part(arguments.run_id)}", page=page, size=_MOST_ITEMS))["items"]
        looked_at += len(items_page["content"])
        failing += [item for item in items_page["content"] if _fails(item, arguments.threshold)]
        page += 1
        if items_page["last"] or not items_page["content"]:
            break
    return FailingQueries(
        run_id=arguments.run_id,
        failing_count=len(failing),
        looked_at=looked_at,
        failing_queries=[_failing(item) for item in failing[: arguments.limit]],
    )


def _fails(item: dict[str, Any], threshold: float | None) -> bool:
    if not item["success"]:
        return True
    scores = [each["score"] for each in item["evalResults"]]
    return threshold is not None and any(score is not None and score < threshold for score in scores)


def _failing(item: dict[str, Any]) -> FailingQuery:
    return FailingQuery(
        item_id=item["id"],
        dataset_item_id=item["datasetItemId"] or item["itemKey"],  # an item of a file has a key only
        trial=item["trial"],
        trace_id=item["traceId"],
        input=item["input"],
        expected_output=item["expectedOutput"],
        actual_output=item["actualOutput"],
        success=item["success"],
        outcome=item["outcome"],
        error=item["error"],
        error_kind=item["errorKind"],
        evaluations=item["evalResults"],
    )


TOOLS = (
    Tool(
        name="list_experiments",
        title="List runs of experiments",
        description="Runs of experiments, the newest first, with pass rate and the mean of each evaluator.",
        arguments=ListExperiments,
        answer=ListedRuns,
        run=list_experiments,
    ),
    Tool(
        name="compare_runs",
        title="Compare two runs",
        description="Test whether a candidate run is worse than its baseline, and list the items that differ.",
        arguments=CompareRuns,
        answer=RunComparison,
        run=compare_runs,
    ),
    Tool(
        name="get_failing_queries",
        title="Failing items of a run",
        description="The items of a run that did not pass, with input, expected and actual output, scores and reasons.",
        arguments=GetFailingQueries,
        answer=FailingQueries,
        run=get_failing_queries,
    ),
)
