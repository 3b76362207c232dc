"""Evaluators over items of runs: of what an application or a model made of a dataset, and of a run that is stored."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

from pydantic import BaseModel, Field

from collector.access.permission import Permission
from collector.mcp.application import Produced, outputs_of
from collector.mcp.asking import Api, part
from collector.mcp.errors import ToolRefused
from collector.mcp.local_files import is_file_name
from collector.mcp.model_answers import AnsweringModel
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
_REASON: Final = 2_000  # characters
_NOTED: Final = {"model", "temperature", "model_connection", "system_prompt", "prompt", "max_output_tokens"}


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
        description="What your application made of the items of get_dataset. Without them a model answers, if `model` "
        "or one of its parameters is given, or the application is run, if `tracejury mcp` was started with --app.",
    )
    model: str | None = Field(
        default=None,
        description="Without outputs: the model that answers; without it that of `model_connection`. With outputs "
        "or an application: noted with the run.",
    )
    model_connection: str | None = Field(
        default=None, description="The connection over which a model answers; it must have a budget."
    )
    system_prompt: str | None = Field(default=None, description="For the model, with places as in `prompt`.")
    prompt: str | None = Field(
        default=None,
        description="What the model is asked, with {{input}}, {{inputs.NAME}}, {{metadata.NAME}} of the item in it. "
        "Without it: its input.",
    )
    temperature: float | None = Field(default=None, ge=0, le=2, description="Of the model; else noted with the run.")
    max_output_tokens: int | None = Field(default=None, ge=1, description="Of the model, for each answer.")
    experiment_name: str = "mcp-evaluation"
    project: str = "default"
    limit: int = Field(default=50, ge=1, le=200, description="Without outputs: over so many items, from the first on.")

    def asks_model(self, *, has_application: bool) -> bool:
        """Tell whether a model answers, and not the application."""
        is_described = any(each is not None for each in (self.model_connection, self.system_prompt, self.prompt))
        return is_described or (self.outputs is None and self.model is not None and not has_application)


class EvaluateRun(JudgedBy):
    """The run to evaluate."""

    run_id: str = Field(description="A run that is stored; the application is not run again.")


class RunResult(Answer):
    """What a run sums up to."""

    run_id: str
    dataset: str | None
    model: str | None
    status: str = Field(
        description="RUNNING: the model is still asked; list_experiments tells of its end, and cancel_run stops it. "
        "EVALUATING: not done yet; list_run_evaluations tells how far it is."
    )
    total_examples: int
    pass_rate: float | None = Field(description="Of pass_count + fail_count; null: nothing has a verdict.")
    pass_count: int
    fail_count: int
    error_count: int = Field(description="Items to which application or model gave no answer.")
    not_evaluated_count: int = Field(description="Items that the evaluator could not judge.")
    unjudged_count: int
    average_scores: dict[str, float | None]
    failed_evaluations: list[str] = Field(description="Evaluations that gave up.")
    problem: str | None = Field(description="Why the evaluation gave up, or waits; or first errors.")


async def run_evaluation(api: Api, asked: RunEvaluation) -> RunResult:
    """Begin a run, store what application or model made of the items, and have it evaluated.

    A model is asked in the background, since clients do not wait for long; it is asked no more once the client cancels.

    Raises:
        ToolRefused: nothing is there to answer, an item is not in the dataset, or no budget is left.
    """
    until_s = asyncio.get_running_loop().time() + _LONGEST_S
    model = await _model(api, asked)
    if model is None and asked.outputs is None and api.application is None:
        raise ToolRefused(
            "give `outputs`: run your application over the items of get_dataset, and say what it made of each; or name "
            "a `model` that answers, or its `model_connection`; or have `tracejury mcp` started with --app and "
            "--app-runs, which let it be run from here"
        )
    body = await _checked(api, asked)
    items, told = await (_of_file(api, asked) if is_file_name(asked.dataset_path) else _of_server(api, asked))
    chosen, made = (items, ()) if model is not None else await _made(api, asked, items)
    noted = asked.model_dump(include=_NOTED, exclude_none=True)
    if model is not None:
        noted["model"] = await model.check(api)
    begun = await api.post(
        f"/api/v1/projects/{part(asked.project)}/runs",
        {"experimentName": asked.experiment_name, **told, "metadata": noted | told.get("metadata", {})},
    )
    run = f"/api/v1/runs/{part(begun['runId'])}"
    try:
        evaluation = await api.post(f"{run}/evaluations", body)
    except ToolRefused as error:
        await _cancelled(api, run, str(error))
        raise
    await _in_background(api, _filled(api, run, chosen, model or made), until_s)
    return await _result(api, run, evaluation["id"], until_s)


async def _model(api: Api, asked: RunEvaluation) -> AnsweringModel | None:
    """The model that answers; None if outputs are given or an application is run."""
    if not asked.asks_model(has_application=api.application is not None):
        return None
    if asked.outputs is not None:
        raise ToolRefused("give `outputs`, or `model_connection`, `system_prompt` and `prompt`, and not both")
    return AnsweringModel(
        connection=await limited_connection(api, asked.model_connection, "model_connection", asked.model),
        model=asked.model,
        system=asked.system_prompt,
        prompt=asked.prompt,
        temperature=asked.temperature,
        max_output_tokens=asked.max_output_tokens,
        project=asked.project,
    )


async def _in_background(api: Api, work: Coroutine[Any, Any, None], until_s: float) -> None:
    """Wait until the work is done or has taken long, in which case it goes on; it ends if the client cancels."""
    task = api.background.start(work)
    try:
        await asyncio.wait({task}, timeout=until_s - asyncio.get_running_loop().time())
    except asyncio.CancelledError:
        task.cancel()
        raise
    if task.done():
        task.result()


async def _filled(
    api: Api, run: str, items: list[dict[str, Any]], answers: AnsweringModel | Sequence[Produced]
) -> None:
    """Store what was made of the items of a run, or have a model answer them, and let the run have ended."""

    async def store(item: dict[str, Any], made: Produced) -> None:
        await api.post(f"{run}/items", {"items": [_reported(item, made)]})

    try:
        if isinstance(answers, AnsweringModel):
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
    with suppress(ToolRefused):  # it has ended, or the server has
        await api.patch(run, {"status": "CANCELLED", "reason": reason[:_REASON]})


class CancelRun(Arguments):
    """The run to cancel."""

    run_id: str


class CancelledRun(Answer):
    """The run as it is now."""

    run_id: str
    status: str


async def cancel_run(api: Api, asked: CancelRun) -> CancelledRun:
    """End a run before its end; what it has stays."""
    reason = {"status": "CANCELLED", "reason": "cancelled over MCP"}
    response = await api.patch(f"/api/v1/runs/{part(asked.run_id)}", reason)
    return CancelledRun(run_id=asked.run_id, status=response["runStatus"])


async def evaluate_run(api: Api, asked: EvaluateRun) -> RunResult:
    """Have its items scored; scores of that name which it has count no more."""
    until_s = asyncio.get_running_loop().time() + _LONGEST_S
    run = f"/api/v1/runs/{part(asked.run_id)}"
    evaluation = await api.post(f"{run}/evaluations", await _checked(api, asked))
    return await _result(api, run, evaluation["id"], until_s)


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
    """The items of a dataset, and what a run over them names as its dataset."""
    name, _, number = asked.dataset_path.rpartition("@") if "@" in asked.dataset_path else (asked.dataset_path, "", "")
    if number and not number.isdecimal():
        raise ToolRefused(f"dataset_path: {number!r} is no version; say NAME or NAME@VERSION")
    where, version = await version_of(api, name, int(number) if number else None)
    most = asked.limit if asked.outputs is None else 10_000
    items = await api.listed(f"{where}/versions/{version}/items", most)
    dataset = {"datasetName": name, "datasetVersion": version}
    described = [
        {name: each[name] for name in ("id", "inputs", "metadata")} | {"told": {"datasetItemId": each["id"]}}
        for each in items
    ]
    return described, dataset


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
        {name: each[name] for name in ("id", "inputs", "metadata")}
        | {"told": {"itemKey": each["id"], **each, "id": None}}
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
    made = [
        Produced(outputs=outputs_of(each.output), error=each.error, trace_id=each.trace_id) for each in asked.outputs
    ]
    return [known[each.item_id] for each in asked.outputs], made


def _reported(item: dict[str, Any], made: Produced) -> dict[str, Any]:
    reported = {
        "actualOutputs": made.outputs,
        "error": made.error,
        "errorKind": made.error_kind,
        "traceId": made.trace_id,
    }
    reported = item["told"] | reported | made.measured
    return {name: value for name, value in reported.items() if value is not None}


async def _result(api: Api, run: str, evaluation_id: str, until_s: float) -> RunResult:
    """Return the sums of a run once the evaluation has ended or has taken long."""
    loop = asyncio.get_running_loop()
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
        if item["errorKind"] is None:
            problems.append(f"the application failed on {failed} of {total} items; the first: {item['error']}")
        else:
            why = f"{item['errorKind']}: {item['error']}"
            problems.append(f"{failed} of {total} items have no answer; the first: {why}")
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
        description="Ends a run that is under way: no model is asked about it any more. What it has stays.",
        arguments=CancelRun,
        answer=CancelledRun,
        run=cancel_run,
        permission=Permission.WRITE,
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
