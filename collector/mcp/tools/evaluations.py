"""Evaluations of runs: of the outputs of an application or a model for a dataset, and of a stored run."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

from pydantic import BaseModel, Field

from collector.access.permission import Permission
from collector.api.responses.offline import RunEvaluationDocument
from collector.mcp.application import Application, ApplicationResult, outputs_of
from collector.mcp.client import Api, part
from collector.mcp.errors import ToolRefused
from collector.mcp.local_files import is_file_name
from collector.mcp.model_answers import AnsweringModel
from collector.mcp.spending import asks_a_model, limited_connection
from collector.mcp.tool import Arguments, Tool, ToolOutput, shows
from collector.mcp.tools.datasets import version_of
from collector.mcp.tools.runs import dataset_of

_MOST_ITEMS: Final = 1_000
_MOST_EVALUATIONS: Final = 10_000
"""How many evaluations of a run are read, oldest first. A guess: nothing else limits them, and runs have a few."""

_MOST_SHOWN: Final = 200
_MOST_NAMED: Final = 20
_LOOK_S: Final = 0.25
_LONGEST_S: Final = 45.0
"""How long an answer waits for an evaluation. A guess: clients give up after a minute."""

_OPEN: Final = frozenset({"WAITING", "RUNNING"})
_REASON: Final = 2_000  # characters
_NOTED: Final = {"model", "temperature", "model_connection", "system_prompt", "prompt", "max_output_tokens"}


class JudgedBy(Arguments):
    """The evaluator."""

    evaluator: str = Field(default="exact_match", description="Any evaluator of the server, such as llm_judge.")
    criteria: str | None = Field(default=None, description="The criteria of llm_judge, in words.")
    config: dict[str, Any] | None = Field(default=None, description="The configuration of the evaluator.")
    connection: str | None = Field(default=None, description="Connection of a judge; it must have a budget.")
    threshold: float = Field(default=0.7, description="The score from which an item passes.")

    def body(self) -> dict[str, Any]:
        """Return the body of the request."""
        body = self.model_dump(include={"evaluator", "criteria", "config", "threshold"}, exclude_none=True)
        if self.criteria is not None and self.evaluator == "llm_judge":
            del body["evaluator"]  # the API infers it from criteria
        return body


class ItemOutput(BaseModel):
    """Output of the application for an item of the dataset."""

    item_id: str = Field(description="Id of the item, from get_dataset.")
    output: Any = Field(default=None, description="The output; an object holds several outputs by name.")
    error: str | None = Field(default=None, description="The error, if there is no output.")
    trace_id: str | None = Field(default=None, description="The id of its trace.")


class RunEvaluation(JudgedBy):
    """The items, and how to evaluate them."""

    dataset_path: str = Field(
        description="A dataset of the server: its name, or NAME@VERSION. Of `tracejury mcp` on your machine also a "
        "file of items below the folder where it was started: .json, .jsonl or .csv."
    )
    outputs: list[ItemOutput] | None = Field(
        default=None,
        max_length=_MOST_ITEMS,
        description="Outputs of your application for the items of get_dataset. Without them a model answers, if "
        "`model_connection`, `system_prompt` or `prompt` is given. Else the application is run, if `tracejury mcp` was "
        "started with --app; without --app, `model` answers.",
    )
    model: str | None = Field(
        default=None,
        description="Without outputs: the model that answers; without it that of `model_connection`. With outputs "
        "or an application: noted with the run.",
    )
    model_connection: str | None = Field(
        default=None, description="The connection over which a model answers; it must have a budget."
    )
    system_prompt: str | None = Field(
        default=None, description="System prompt of the model, with placeholders as in `prompt`."
    )
    prompt: str | None = Field(
        default=None,
        description="The prompt, with {{input}}, {{inputs.NAME}}, {{metadata.NAME}} of the item in it. "
        "Without it: its input.",
    )
    temperature: float | None = Field(
        default=None, ge=0, le=2, description="Temperature of the model; else recorded with the run."
    )
    max_output_tokens: int | None = Field(
        default=None, ge=1, description="Maximum number of output tokens for each answer."
    )
    experiment_name: str = "mcp-evaluation"
    project: str = "default"
    limit: int = Field(default=50, ge=1, le=200, description="Without outputs: over so many items, from the first on.")

    def asks_model(self, *, has_application: bool) -> bool:
        """Return True if a model answers, not the application."""
        is_described = any(each is not None for each in (self.model_connection, self.system_prompt, self.prompt))
        return is_described or (self.outputs is None and self.model is not None and not has_application)


class EvaluateRun(JudgedBy):
    """The run to evaluate."""

    run_id: str = Field(description="A run that is stored; the application is not run again.")


class RunResult(ToolOutput):
    """Summary of a run."""

    run_id: str
    dataset: str | None
    model: str | None
    status: str = Field(
        description="RUNNING: answers are still being made; list_experiments shows its end, cancel_run stops it. "
        "EVALUATING: not done yet; list_run_evaluations tells how far it is."
    )
    total_examples: int
    pass_rate: float | None = Field(description="Share of pass_count in pass_count + fail_count; null: no verdicts.")
    pass_count: int
    fail_count: int
    error_count: int = Field(description="Items to which application or model gave no answer.")
    not_evaluated_count: int = Field(description="Items that the evaluator could not judge.")
    unjudged_count: int
    average_scores: dict[str, float | None]
    failed_evaluations: list[str] = Field(description="Evaluations that gave up.")
    problem: str | None = Field(description="The reason why the evaluation gave up or waits, or the first errors.")


async def run_evaluation(api: Api, arguments: RunEvaluation) -> RunResult:
    """Begin a run, store the answers of the application or the model, and have it evaluated.

    A model or the application runs in the background, since clients do not wait for long, until the client cancels.

    Raises:
        ToolRefused: nothing can answer, an item is not in the dataset, or a connection has no budget.
    """
    until_s = asyncio.get_running_loop().time() + _LONGEST_S
    model = await _model(api, arguments)
    if model is None and arguments.outputs is None and api.application is None:
        raise ToolRefused(
            "give `outputs`: run your application over the items of get_dataset, and give its output for each; or name "
            "a `model` that answers, or its `model_connection`; or have `tracejury mcp` started with --app and "
            "--app-runs, which let it be run from here"
        )
    body = await _checked(api, arguments)
    items, origin = await (
        _of_file(api, arguments) if is_file_name(arguments.dataset_path) else _of_server(api, arguments)
    )
    chosen, answers = _answers(api, arguments, items, model)
    noted = arguments.model_dump(include=_NOTED, exclude_none=True)
    if model is not None:
        noted["model"] = await model.check(api)
    if isinstance(answers, Application):
        answers.take(len(chosen))
    begun = await api.post(
        f"/api/v1/projects/{part(arguments.project)}/runs",
        {"experimentName": arguments.experiment_name, **origin, "metadata": noted | origin.get("metadata", {})},
    )
    run = f"/api/v1/runs/{part(begun['runId'])}"
    try:
        evaluation = await api.post(f"{run}/evaluations", body)
    except ToolRefused as error:
        await _cancelled(api, run, str(error))
        raise
    await _in_background(api, _filled(api, run, chosen, answers), until_s)
    return await _result(api, run, evaluation["id"], until_s)


async def _model(api: Api, arguments: RunEvaluation) -> AnsweringModel | None:
    """Return the model that answers; None if outputs are given or an application is run."""
    if not arguments.asks_model(has_application=api.application is not None):
        return None
    if arguments.outputs is not None:
        raise ToolRefused("give `outputs`, or `model_connection`, `system_prompt` and `prompt`, and not both")
    return AnsweringModel(
        connection=await limited_connection(api, arguments.model_connection, "model_connection", arguments.model),
        model=arguments.model,
        system=arguments.system_prompt,
        prompt=arguments.prompt,
        temperature=arguments.temperature,
        max_output_tokens=arguments.max_output_tokens,
        project=arguments.project,
    )


async def _in_background(api: Api, work: Coroutine[Any, Any, None], until_s: float) -> None:
    """Run work in the background, and wait for it until `until_s`; cancel it if the client cancels."""
    task = api.background.start(work)
    try:
        await asyncio.wait({task}, timeout=until_s - asyncio.get_running_loop().time())
    except asyncio.CancelledError:
        task.cancel()
        raise
    if task.done():
        task.result()


async def _filled(
    api: Api, run: str, items: list[dict[str, Any]], answers: AnsweringModel | Application | Sequence[ApplicationResult]
) -> None:
    """Store the outputs for the items of a run, or have a model or the application answer, and end the run."""

    async def store(item: dict[str, Any], made: ApplicationResult) -> None:
        await api.post(f"{run}/items", {"items": [_reported(item, made)]})

    try:
        if isinstance(answers, AnsweringModel | Application):
            await answers.over(api, items, store)
        else:
            reported = [_reported(*each) for each in zip(items, answers, strict=True)]
            await api.post(f"{run}/items", {"items": reported})
        await api.patch(run, {"status": "SUCCESS"})
    except asyncio.CancelledError:
        api.background.start(_cancelled(api, run, "the client cancelled it, or the program ended"))
        raise
    except ToolRefused as refused:
        await _cancelled(api, run, str(refused))
        raise


async def _cancelled(api: Api, run: str, reason: str) -> None:
    with suppress(ToolRefused):  # the run has ended, or the server has
        await api.patch(run, {"status": "CANCELLED", "reason": reason[:_REASON]})


class CancelRun(Arguments):
    """The run to cancel."""

    run_id: str


class CancelledRun(ToolOutput):
    """The run as it is now."""

    run_id: str
    status: str


async def cancel_run(api: Api, arguments: CancelRun) -> CancelledRun:
    """Cancel a run; its items and scores stay."""
    reason = {"status": "CANCELLED", "reason": "cancelled over MCP"}
    response = await api.patch(f"/api/v1/runs/{part(arguments.run_id)}", reason)
    return CancelledRun(run_id=arguments.run_id, status=response["runStatus"])


async def evaluate_run(api: Api, arguments: EvaluateRun) -> RunResult:
    """Have the items of a run scored; its earlier scores of the same name no longer count."""
    until_s = asyncio.get_running_loop().time() + _LONGEST_S
    run = f"/api/v1/runs/{part(arguments.run_id)}"
    evaluation = await api.post(f"{run}/evaluations", await _checked(api, arguments))
    return await _result(api, run, evaluation["id"], until_s)


class ListRunEvaluations(Arguments):
    """The run."""

    run_id: str


@shows(
    RunEvaluationDocument,
    *("id", "evaluator", "evaluatorName", "connectionId", "status", "lastError", "scoredCount", "failedCount"),
    *("skippedCount", "createdBy", "createdAt", "completedAt"),
)
class RunEvaluationLine(BaseModel):
    """State of one evaluation of a run."""


class ListedRunEvaluations(ToolOutput):
    """The latest evaluations, newest first."""

    evaluations: list[RunEvaluationLine]


async def list_run_evaluations(api: Api, arguments: ListRunEvaluations) -> ListedRunEvaluations:
    """List the latest evaluations of a run, newest first: a response that is too long loses the end of its list."""
    evaluations = await api.listed(f"/api/v1/runs/{part(arguments.run_id)}/evaluations", _MOST_EVALUATIONS)
    return ListedRunEvaluations(evaluations=evaluations[: -_MOST_SHOWN - 1 : -1])


async def _checked(api: Api, arguments: JudgedBy) -> dict[str, Any]:
    body = arguments.body()
    if arguments.connection is not None or asks_a_model({"name": "evaluation", **body}):
        body["connectionId"] = await limited_connection(api, arguments.connection)
    return body


async def _of_server(api: Api, arguments: RunEvaluation) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the items of a dataset, and the run's fields that name the dataset."""
    name, _, number = (
        arguments.dataset_path.rpartition("@") if "@" in arguments.dataset_path else (arguments.dataset_path, "", "")
    )
    if number and not number.isdecimal():
        raise ToolRefused(f"dataset_path: {number!r} is not a version; expected NAME or NAME@VERSION")
    where, version = await version_of(api, name, int(number) if number else None)
    most = arguments.limit if arguments.outputs is None else 10_000
    items = await api.listed(f"{where}/versions/{version}/items", most)
    dataset = {"datasetName": name, "datasetVersion": version}
    described = [
        {name: each[name] for name in ("id", "inputs", "metadata")} | {"told": {"datasetItemId": each["id"]}}
        for each in items
    ]
    return described, dataset


async def _of_file(api: Api, arguments: RunEvaluation) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the items of a file, which the run stores whole, since no dataset has them."""
    if api.files is None:
        raise ToolRefused(
            f"dataset_path: {arguments.dataset_path} is named as a file, and this server reads none of its own or "
            "yours: say the name of a dataset (list_datasets), import the file (`tracejury datasets import`), or use "
            "`tracejury mcp`, which runs on your machine. A dataset of such a name: NAME@VERSION"
        )
    items = await asyncio.to_thread(api.files.items, arguments.dataset_path)
    chosen = [
        {name: each[name] for name in ("id", "inputs", "metadata")}
        | {"told": {"itemKey": each["id"], **each, "id": None}}
        for each in (items if arguments.outputs is not None else items[: arguments.limit])
    ]
    return chosen, {"metadata": {"datasetFile": arguments.dataset_path}}


def _answers(
    api: Api, arguments: RunEvaluation, items: list[dict[str, Any]], model: AnsweringModel | None
) -> tuple[list[dict[str, Any]], AnsweringModel | Application | Sequence[ApplicationResult]]:
    """Return the items of the run, and their outputs or what makes them."""
    if model is not None:
        return items, model
    if arguments.outputs is None:
        assert api.application is not None  # noqa: S101 - checked by the caller
        return items, api.application
    known = {each["id"]: each for each in items}
    unknown = [each.item_id for each in arguments.outputs if each.item_id not in known]
    if unknown:
        known_items = {"items": [each["id"] for each in items[:_MOST_NAMED]]}
        raise ToolRefused(
            f"outputs: {arguments.dataset_path} has no items {', '.join(unknown[:20])}; it begins with", known_items
        )
    made = [
        ApplicationResult(outputs=outputs_of(each.output), error=each.error, trace_id=each.trace_id)
        for each in arguments.outputs
    ]
    return [known[each.item_id] for each in arguments.outputs], made


def _reported(item: dict[str, Any], made: ApplicationResult) -> dict[str, Any]:
    reported = {
        "actualOutputs": made.outputs,
        "error": made.error,
        "errorKind": made.error_kind,
        "traceId": made.trace_id,
    }
    reported = item["told"] | reported | made.measured
    return {name: value for name, value in reported.items() if value is not None}


async def _result(api: Api, run: str, evaluation_id: str, until_s: float) -> RunResult:
    """Return the sums of a run once the evaluation has ended, or at `until_s`."""
    loop = asyncio.get_running_loop()
    while True:
        evaluations = await api.listed(f"{run}/evaluations", _MOST_EVALUATIONS)
        (evaluation,) = (each for each in evaluations if each["id"] == evaluation_id)
        if evaluation["status"] not in _OPEN or loop.time() > until_s:
            break
        await asyncio.sleep(_LOOK_S)
    document = await api.get(run, size=1)
    dataset, model = dataset_of(document), document["config"].get("model")
    return RunResult(
        run_id=document["id"],
        dataset=dataset if document["datasetVersion"] is None else f"{dataset}@{document['datasetVersion']}",
        model=model if isinstance(model, str) else None,
        status=document["status"],
        total_examples=document["totalItems"],
        pass_rate=document["passRate"],
        pass_count=document["passedItems"],
        fail_count=document["notPassedItems"],
        error_count=document["errorItems"],
        not_evaluated_count=document["notEvaluatedItems"],
        unjudged_count=document["unjudgedItems"],
        failed_evaluations=document["failedEvaluations"],
        average_scores={each["evaluatorName"]: each["averageScore"] for each in document["evaluators"]},
        problem=evaluation["lastError"] or await _problem_of(api, run, document),
    )


async def _problem_of(api: Api, run: str, document: dict[str, Any]) -> str | None:
    """Return how often the application failed and how often a judge did, with the first errors; None if never."""
    total, failed, unknown = document["totalItems"], document["errorItems"], document["notEvaluatedItems"]
    problems = []
    if failed:
        (item,) = (await api.get(run, size=1, outcome="error"))["items"]["content"]
        if item["errorKind"] is None:
            problems.append(f"the application failed on {failed} of {total} items; the first: {item['error']}")
        else:
            why = f"{item['errorKind']}: {item['error']}"
            problems.append(f"{failed} of {total} items have no answer; the first: {why}")
    if unknown:
        (item,) = (await api.get(run, size=1, outcome="not_evaluated"))["items"]["content"]
        first = next(each for each in item["evalResults"] if each["outcome"] == "failed")
        why = f"{first['evaluatorName']}: {first['errorKind']}: {first['reason']}"
        problems.append(f"{unknown} of {total} items have no verdict and are not part of the rate; the first: {why}")
    return "; ".join(problems) or None


TOOLS = (
    Tool(
        name="run_evaluation",
        title="Evaluate an application on a dataset",
        description="Keeps what your application made of the items of a dataset as a run, or has a model answer them, "
        "and has an evaluator score it. Models are asked over connections with a budget. Next: get_failing_queries, "
        "compare_runs.",
        arguments=RunEvaluation,
        answer=RunResult,
        run=run_evaluation,
        permission=Permission.WRITE,
        idempotent=False,
    ),
    Tool(
        name="cancel_run",
        title="Cancel a run",
        description="Cancels a run: no more model calls. Its results so far stay.",
        arguments=CancelRun,
        answer=CancelledRun,
        run=cancel_run,
        permission=Permission.WRITE,
        destructive=True,
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
        description="The evaluations of a run, with their progress.",
        arguments=ListRunEvaluations,
        answer=ListedRunEvaluations,
        run=list_run_evaluations,
    ),
)
