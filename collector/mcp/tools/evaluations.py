"""Evaluators over the items of runs: over what an application made of a dataset, and over a run that is stored."""

import asyncio
from typing import Any, Final

from pydantic import BaseModel, Field

from collector.access.permission import Permission
from collector.mcp.application import Produced, outputs_of
from collector.mcp.asking import Api, part
from collector.mcp.errors import ToolRefused
from collector.mcp.local_files import is_file_name
from collector.mcp.spending import asks_a_model, limited_connection
from collector.mcp.tool import Answer, Arguments, Tool
from collector.mcp.tools.datasets import version_of
from collector.mcp.tools.runs import dataset_of

_MOST_ITEMS: Final = 1_000
_MOST_EVALUATIONS: Final = 200
_MOST_NAMED: Final = 20
_LOOK_S: Final = 0.25
_LONGEST_S: Final = 45.0
"""How long an answer waits for an evaluation. A guess: clients give up after a minute."""

_OPEN: Final = frozenset({"WAITING", "RUNNING"})


class JudgedBy(Arguments):
    """By what."""

    evaluator: str = Field(default="exact_match", description="Any evaluator of the server, such as llm_judge.")
    criteria: str | None = Field(default=None, description="What llm_judge looks for.")
    config: dict[str, Any] | None = Field(default=None, description="The configuration of the evaluator.")
    connection: str | None = Field(default=None, description="Of a judge; it must have a budget.")
    threshold: float = Field(default=0.7, description="The score from which an item passes.")

    def asked(self) -> dict[str, Any]:
        """What the server is asked for."""
        told = self.model_dump(include={"evaluator", "criteria", "config", "threshold"}, exclude_none=True)
        if self.criteria is not None and self.evaluator == "llm_judge":
            del told["evaluator"]  # which criteria mean
        return told


class ItemOutput(BaseModel):
    """What the application made of an item of the dataset."""

    item_id: str = Field(description="As get_dataset tells it.")
    output: Any = Field(default=None, description="What came out; an object holds several outputs by name.")
    error: str | None = Field(default=None, description="Why nothing came out.")
    trace_id: str | None = Field(default=None, description="The trace of it.")


class RunEvaluation(JudgedBy):
    """Over which items."""

    dataset_path: str = Field(
        description="A dataset of the server: its name, or NAME@VERSION. Of `tracejury mcp` on your machine also a "
        "file of items below the folder where it was started: .json, .jsonl or .csv."
    )
    outputs: list[ItemOutput] | None = Field(
        default=None,
        max_length=_MOST_ITEMS,
        description="What your application made of the items of get_dataset. Without them it is run, "
        "if `tracejury mcp` was started with --app.",
    )
    model: str | None = Field(default=None, description="Noted with the run: what the application asks.")
    temperature: float | None = Field(default=None, description="Noted with the run.")
    experiment_name: str = "mcp-evaluation"
    project: str = "default"
    limit: int = Field(default=50, ge=1, le=200, description="Without outputs: over so many items, from the first on.")


class EvaluateRun(JudgedBy):
    """Which run."""

    run_id: str = Field(description="A run that is stored; the application is not run again.")


class RunResult(Answer):
    """What a run sums up to."""

    run_id: str
    dataset: str | None
    model: str | None
    status: str = Field(description="EVALUATING: not done yet; list_run_evaluations tells how far it is.")
    total_examples: int
    pass_rate: float | None = Field(description="Of pass_count + fail_count; null: nothing has a verdict.")
    pass_count: int
    fail_count: int
    error_count: int = Field(description="Items that the application failed on.")
    not_evaluated_count: int = Field(description="Items that the evaluator could not judge.")
    unjudged_count: int
    average_scores: dict[str, float | None]
    failed_evaluations: list[str] = Field(description="Evaluations that gave up.")
    problem: str | None = Field(description="Why the evaluation gave up, or waits; or first errors.")


async def run_evaluation(api: Api, asked: RunEvaluation) -> RunResult:
    """Begin a run, report what the application made, and have it evaluated.

    Raises:
        ToolRefused: there are neither outputs nor an application, an item is not in the dataset, or no budget is left.
    """
    if asked.outputs is None and api.application is None:
        raise ToolRefused(
            "give `outputs`: run your application over the items of get_dataset, and say what it made of each; or have "
            "`tracejury mcp` started with --app and --app-runs, which let it be run from here"
        )
    body = await _checked(api, asked)
    items, told = await (_of_file(api, asked) if is_file_name(asked.dataset_path) else _of_server(api, asked))
    chosen, made = await _made(api, asked, items)
    noted = asked.model_dump(include={"model", "temperature"}, exclude_none=True)
    begun = await api.post(
        f"/api/v1/projects/{part(asked.project)}/runs",
        {"experimentName": asked.experiment_name, **told, "metadata": noted | told.get("metadata", {})},
    )
    run = f"/api/v1/runs/{part(begun['runId'])}"
    try:
        evaluation = await api.post(f"{run}/evaluations", body)
        await api.post(f"{run}/items", {"items": [_reported(*each) for each in zip(chosen, made, strict=True)]})
    except ToolRefused as error:
        await api.patch(run, {"status": "CANCELLED", "reason": str(error)[:2_000]})
        raise
    await api.patch(run, {"status": "SUCCESS"})
    return await _result(api, run, evaluation["id"])


async def evaluate_run(api: Api, asked: EvaluateRun) -> RunResult:
    """Have its items scored; scores of that name which it has count no more."""
    run = f"/api/v1/runs/{part(asked.run_id)}"
    evaluation = await api.post(f"{run}/evaluations", await _checked(api, asked))
    return await _result(api, run, evaluation["id"])


class ListRunEvaluations(Arguments):
    """Of which run."""

    run_id: str


class RunEvaluationLine(BaseModel):
    """What was asked about a run, and how far it is."""

    id: str
    evaluator: str
    evaluatorName: str
    connectionId: str | None
    status: str = Field(description="WAITING, RUNNING, DONE, FAILED or CANCELLED.")
    lastError: str | None
    scoredCount: int
    failedCount: int
    skippedCount: int
    createdBy: str | None
    createdAt: str
    completedAt: str | None


class ListedRunEvaluations(Answer):
    """Evaluations, in the order in which they were asked for."""

    evaluations: list[RunEvaluationLine]


async def list_run_evaluations(api: Api, asked: ListRunEvaluations) -> ListedRunEvaluations:
    """List them."""
    found = await api.listed(f"/api/v1/runs/{part(asked.run_id)}/evaluations", _MOST_EVALUATIONS)
    lines = [RunEvaluationLine(**{name: each[name] for name in RunEvaluationLine.model_fields}) for each in found]
    return ListedRunEvaluations(evaluations=lines)


async def _checked(api: Api, asked: JudgedBy) -> dict[str, Any]:
    """What the server is asked for, with a connection that has a budget if it asks a model."""
    body = asked.asked()
    if asked.connection is not None or asks_a_model({"name": "evaluation", **body}):
        body["connectionId"] = await limited_connection(api, asked.connection)
    return body


async def _of_server(api: Api, asked: RunEvaluation) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The items of a dataset, and what a run over them is told to be over."""
    name, _, number = asked.dataset_path.rpartition("@") if "@" in asked.dataset_path else (asked.dataset_path, "", "")
    if number and not number.isdecimal():
        raise ToolRefused(f"dataset_path: {number!r} is no version; say NAME or NAME@VERSION")
    where, version = await version_of(api, name, int(number) if number else None)
    most = asked.limit if asked.outputs is None else 10_000
    items = await api.listed(f"{where}/versions/{version}/items", most)
    told = {"datasetName": name, "datasetVersion": version}
    return [{"id": each["id"], "inputs": each["inputs"], "told": {"datasetItemId": each["id"]}} for each in items], told


async def _of_file(api: Api, asked: RunEvaluation) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The items of a file, which the run keeps whole, since no dataset does."""
    if api.files is None:
        raise ToolRefused(
            f"dataset_path: {asked.dataset_path} is named as a file, and this server reads none of its own or yours: "
            "say the name of a dataset (list_datasets), import the file (`tracejury datasets import`), or use "
            "`tracejury mcp`, which runs on your machine. A dataset of such a name: NAME@VERSION"
        )
    items = await asyncio.to_thread(api.files.items, asked.dataset_path)
    found = [
        {"id": each["id"], "inputs": each["inputs"], "told": {"itemKey": each["id"], **each, "id": None}}
        for each in (items if asked.outputs is not None else items[: asked.limit])
    ]
    return found, {"metadata": {"datasetFile": asked.dataset_path}}


async def _made(
    api: Api, asked: RunEvaluation, items: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[Produced]]:
    """The items of the run, and what the application made of each."""
    if asked.outputs is None:
        assert api.application is not None  # noqa: S101 - as was looked at before
        return items, await api.application.over(items)
    known = {each["id"]: each for each in items}
    unknown = [each.item_id for each in asked.outputs if each.item_id not in known]
    if unknown:
        there = {"items": [each["id"] for each in items[:_MOST_NAMED]]}
        raise ToolRefused(
            f"outputs: {asked.dataset_path} has no items {', '.join(unknown[:20])}; it begins with", there
        )
    made = [Produced(outputs=outputs_of(each.output), error=each.error) for each in asked.outputs]
    return [known[each.item_id] | {"trace_id": each.trace_id} for each in asked.outputs], made


def _reported(item: dict[str, Any], made: Produced) -> dict[str, Any]:
    told = item["told"] | {"actualOutputs": made.outputs, "error": made.error, "traceId": item.get("trace_id")}
    return {name: value for name, value in told.items() if value is not None}


async def _result(api: Api, run: str, evaluation_id: str) -> RunResult:
    """What the run sums up to, once the evaluation is done or has taken long."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + _LONGEST_S
    while True:
        found = await api.listed(f"{run}/evaluations", _MOST_EVALUATIONS)
        (evaluation,) = (each for each in found if each["id"] == evaluation_id)
        if evaluation["status"] not in _OPEN or loop.time() > until_s:
            break
        await asyncio.sleep(_LOOK_S)
    told = await api.get(run, size=1)
    dataset, model = dataset_of(told), told["config"].get("model")
    return RunResult(
        run_id=told["id"],
        dataset=dataset if told["datasetVersion"] is None else f"{dataset}@{told['datasetVersion']}",
        model=model if isinstance(model, str) else None,
        status=told["status"],
        total_examples=told["totalItems"],
        pass_rate=told["passRate"],
        pass_count=told["passedItems"],
        fail_count=told["notPassedItems"],
        error_count=told["errorItems"],
        not_evaluated_count=told["notEvaluatedItems"],
        unjudged_count=told["unjudgedItems"],
        failed_evaluations=told["failedEvaluations"],
        average_scores={each["evaluatorName"]: each["averageScore"] for each in told["evaluators"]},
        problem=evaluation["lastError"] or await _problem_of(api, run, told),
    )


async def _problem_of(api: Api, run: str, told: dict[str, Any]) -> str | None:
    """Return how often the application failed and how often a judge did, with the first errors; None if never."""
    total, failed, unknown = told["totalItems"], told["errorItems"], told["notEvaluatedItems"]
    problems = []
    if failed:
        (item,) = (await api.get(run, size=1, outcome="error"))["items"]["content"]
        problems.append(f"the application failed on {failed} of {total} items; the first: {item['error']}")
    if unknown:
        (item,) = (await api.get(run, size=1, outcome="not_evaluated"))["items"]["content"]
        first = next(each for each in item["evalResults"] if each["outcome"] == "failed")
        why = f"{first['evaluatorName']}: {first['errorKind']}: {first['reason']}"
        problems.append(f"{unknown} of {total} items have no verdict and are no part of the rate; the first: {why}")
    return "; ".join(problems) or None


TOOLS = (
    Tool(
        name="run_evaluation",
        title="Evaluate an application on a dataset",
        description="Keeps what your application made of the items of a dataset as a run, and has an evaluator score "
        "it. A judge is asked over a connection with a budget. Next: get_failing_queries, compare_runs.",
        arguments=RunEvaluation,
        answer=RunResult,
        run=run_evaluation,
        permission=Permission.WRITE,
        idempotent=False,
    ),
    Tool(
        name="evaluate_run",
        title="Evaluate a stored run",
        description="Has the items of a run scored by one more evaluator, without running the application again.",
        arguments=EvaluateRun,
        answer=RunResult,
        run=evaluate_run,
        permission=Permission.WRITE,
        idempotent=False,
    ),
    Tool(
        name="list_run_evaluations",
        title="Evaluations of a run",
        description="What evaluators were asked about a run, and how far each is.",
        arguments=ListRunEvaluations,
        answer=ListedRunEvaluations,
        run=list_run_evaluations,
    ),
)
