"""Experiments: a task run over a dataset, scored, and reported item by item while it goes on."""

import asyncio
import contextvars
import hashlib
import inspect
import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Final

from opentelemetry import trace

from tracejury.client import Client, Refused, Unreachable
from tracejury.dataset import Dataset, Example
from tracejury.reporter import OnLost, Reporter
from tracejury.score import Score, named, scores_of

_TRACER: Final = trace.get_tracer("tracejury")

Task = Callable[[Example], Any]
Evaluate = Callable[..., Any]


class LostItems(Exception):
    """Some items could not be delivered, and that was to be an error."""


@dataclass(frozen=True)
class Measured:
    """The outputs of a task, and what it took."""

    outputs: Any
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: float | None = None
    latency_ms: float | None = None


@dataclass(frozen=True)
class ItemResult:
    """What came of an example in one trial."""

    example: Example
    key: str
    trial: int
    outputs: Mapping[str, Any]
    scores: Sequence[Score]
    error: str | None = None
    error_kind: str | None = None
    measured: Measured | None = None
    latency_ms: float | None = None
    trace_id: str | None = None
    span_id: str | None = None

    @property
    def passed(self) -> bool:
        """Whether the task ran, and all that was scored passed, and anything was."""
        said = [score.success for score in self.scores if score.success is not None]
        broken = any(score.error is not None for score in self.scores)
        return self.error is None and not broken and bool(said) and all(said)


@dataclass(frozen=True)
class Result:
    """What came of an experiment, in the order of the dataset, each trial of an example after the other."""

    name: str
    items: Sequence[ItemResult]
    run_id: str | None = None
    lost_items: int = 0
    skipped: int = 0  # items that the run had already

    @property
    def pass_rate(self) -> float | None:
        """The share of the items that passed; None without items."""
        return round(sum(item.passed for item in self.items) / len(self.items), 6) if self.items else None

    def scores(self, evaluator: str) -> list[float]:
        """What an evaluator scored."""
        found = [score.value for item in self.items for score in item.scores if score.name == evaluator]
        return [value for value in found if value is not None]

    def average_score(self, evaluator: str) -> float | None:
        """The mean of them; None without any."""
        found = self.scores(evaluator)
        return fmean(found) if found else None

    def score_std_dev(self, evaluator: str) -> float | None:
        """The sample standard deviation of the means of the trials; None with fewer than two."""
        means = []
        for trial in sorted({item.trial for item in self.items}):
            part = Result(self.name, [item for item in self.items if item.trial == trial])
            mean = part.average_score(evaluator)
            means += [] if mean is None else [mean]
        return stdev(means) if len(means) > 1 else None


@dataclass
class Experiment:
    """A task that is run over a dataset. `run` runs it, and `run_async` inside of an event loop.

    Without a client, that of the environment reports; without one there, nothing is sent.
    """

    name: str
    dataset: Dataset
    task: Task
    evaluators: Sequence[Evaluate]
    project: str = "default"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    trials: int = 1
    parallelism: int = 1
    timeout_s: float | None = None
    run_key: str | None = None
    git_sha: str | None = None
    git_branch: str | None = None
    client: Client | None = None
    spool: Path | None = None
    on_lost: OnLost | None = None
    fail_on_lost: bool = False
    progress: Callable[[int, int], None] = lambda _done, _all: None

    def __post_init__(self) -> None:
        if not len(self.dataset):
            raise ValueError("the dataset is empty")
        if not self.evaluators:
            raise ValueError("an experiment needs an evaluator")
        if self.trials < 1 or self.parallelism < 1:
            raise ValueError("trials and parallelism are 1 or more")

    def run(self) -> Result:
        """Run it, and wait.

        Raises:
            LostItems: some could not be delivered, and `fail_on_lost`.
        """
        return asyncio.run(self.run_async())

    async def run_async(self) -> Result:
        """The same, for whoever has an event loop."""
        client = self.client or Client.from_environment()
        run = await asyncio.to_thread(_Reported.begin, self, client)
        keys = keys_of(self.dataset)
        wanted = [(trial, key) for trial in range(1, self.trials + 1) for key in keys]
        left = [(trial, key) for trial, key in wanted if (key, trial) not in run.known]
        turns, done = asyncio.Semaphore(self.parallelism), 0
        with ThreadPoolExecutor(max_workers=self.parallelism, thread_name_prefix="tracejury-task") as pool:

            async def one(trial: int, key: str) -> ItemResult:
                nonlocal done
                async with turns:
                    found = await _Running(self, pool, run.run_id).item(keys[key], key, trial)
                run.report(found)
                done += 1
                self.progress(done, len(left))
                return found

            try:
                items = await asyncio.gather(*(one(trial, key) for trial, key in left))
            except BaseException:
                await asyncio.to_thread(run.end, "CANCELLED")
                raise
        lost = await asyncio.to_thread(run.end, "SUCCESS")
        if lost and self.fail_on_lost:
            raise LostItems(f"{lost} items of the run {run.run_id or '(none)'} could not be delivered")
        return Result(self.name, items, run.run_id, lost, len(wanted) - len(left))


def keys_of(dataset: Dataset) -> dict[str, Example]:
    """The examples by their keys: the id, else a digest of the inputs; those that are alike are numbered."""
    found: dict[str, Example] = {}
    for example in dataset:
        text = json.dumps(example.inputs, sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=str)
        name = example.id or f"item-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        key, number = name, 1
        while key in found:
            number += 1
            key = f"{name}-{number}"
        found[key] = example
    return found


@dataclass
class _Reported:
    """A run on the server; without one, nothing is reported."""

    experiment: Experiment
    client: Client | None = None
    run_id: str | None = None
    reporter: Reporter | None = None
    known: frozenset[tuple[str, int]] = frozenset()

    @classmethod
    def begin(cls, experiment: Experiment, client: Client | None) -> "_Reported":
        if client is None:
            return cls(experiment)
        body = {
            "experimentName": experiment.name,
            "metadata": dict(experiment.metadata),
            "trials": experiment.trials,
            "runKey": experiment.run_key,
            "gitSha": experiment.git_sha,
            "gitBranch": experiment.git_branch,
        }
        if experiment.dataset.version is not None:
            body |= {"datasetName": experiment.dataset.name, "datasetVersion": experiment.dataset.version}
        told = {name: value for name, value in body.items() if value is not None}
        try:
            run_id = client.send("POST", f"/projects/{experiment.project}/runs", told)["runId"]
            known = frozenset(_known(client, run_id)) if experiment.run_key is not None else frozenset()
        except Unreachable:
            if experiment.fail_on_lost:
                raise
            return cls(experiment)
        return cls(
            experiment, client, run_id, Reporter(client, spool=experiment.spool, on_lost=experiment.on_lost), known
        )

    def report(self, item: ItemResult) -> None:
        if self.reporter is not None and self.run_id is not None:
            self.reporter.report(self.run_id, document_of(item, self.experiment.dataset))

    def end(self, status: str) -> int:
        """Deliver what there is, and say how the run ended; how many items are lost."""
        if self.client is None or self.reporter is None:
            return 0
        self.reporter.flush()
        self.reporter.close()
        try:
            self.client.send("PATCH", f"/runs/{self.run_id}", {"status": status})
        except (Unreachable, Refused):
            if self.experiment.fail_on_lost:
                raise
        return self.reporter.lost_items


def _known(client: Client, run_id: str) -> set[tuple[str, int]]:
    """The keys and trials that a run has."""
    found: set[tuple[str, int]] = set()
    after: int | None = 0
    while after is not None:
        page = client.get(f"/runs/{run_id}/keys", after=after)
        found |= {(each["itemKey"], each["trial"]) for each in page["content"]}
        after = page["next"]
    return found


@dataclass
class _Running:
    """One item on its way through the task and the evaluators."""

    experiment: Experiment
    pool: ThreadPoolExecutor
    run_id: str | None

    async def item(self, example: Example, key: str, trial: int) -> ItemResult:
        began_s = time.perf_counter()
        attributes: dict[str, str | int] = {"tracejury.item.key": key, "tracejury.trial": trial}
        attributes |= {} if self.run_id is None else {"tracejury.run.id": self.run_id}
        with _TRACER.start_as_current_span(f"experiment {self.experiment.name}", attributes=attributes) as span:
            context = span.get_span_context()
            ids = (f"{context.trace_id:032x}", f"{context.span_id:016x}") if context.is_valid else (None, None)
            try:
                measured = _measured(await self._called(self.experiment.task, example))
            except asyncio.TimeoutError:
                error, kind = f"not finished within {self.experiment.timeout_s:g} s", "timeout"
            except Exception as raised:  # noqa: BLE001 - a task that raises costs no other result
                error, kind = f"{type(raised).__name__}: {raised}", "task"
            else:
                latency_ms = (time.perf_counter() - began_s) * 1000
                scores = await self._scores(example, measured.outputs)
                return ItemResult(example, key, trial, measured.outputs, scores, None, None, measured, latency_ms, *ids)
        return ItemResult(example, key, trial, {}, (), error, kind, None, None, *ids)

    async def _scores(self, example: Example, outputs: Mapping[str, Any]) -> list[Score]:
        scores: list[Score] = []
        for each in self.experiment.evaluators:
            of = named(each)
            try:
                scores += scores_of(await self._called(each, example, outputs), of)
            except Exception as raised:  # noqa: BLE001 - an evaluator that raises costs no other result
                scores.append(Score(name=of.name, error=f"{type(raised).__name__}: {raised}"))
        return scores

    async def _called(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What a function or a coroutine function returns, in time."""
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
            return await asyncio.wait_for(function(*arguments), self.experiment.timeout_s)
        loop, context = asyncio.get_running_loop(), _context()
        called = loop.run_in_executor(self.pool, partial(context, function, *arguments))
        found = await asyncio.wait_for(called, self.experiment.timeout_s)
        return await asyncio.wait_for(found, self.experiment.timeout_s) if inspect.isawaitable(found) else found


def _context() -> Callable[..., Any]:
    """What runs a function where the span of the item is the current one."""
    return contextvars.copy_context().run


def _measured(found: Any) -> Measured:
    told = found if isinstance(found, Measured) else Measured(found)
    if told.outputs is None:
        raise TypeError("the task returned None; return the outputs")
    outputs = dict(told.outputs) if isinstance(told.outputs, Mapping) else {"output": told.outputs}
    return Measured(outputs, told.tokens_in, told.tokens_out, told.cost_usd, told.latency_ms)


def document_of(item: ItemResult, dataset: Dataset) -> dict[str, Any]:
    """An item as the server takes it."""
    measured = item.measured or Measured(None)
    document = {
        "itemKey": item.key,
        "datasetItemId": item.example.id if dataset.version is not None else None,
        "trial": item.trial,
        "inputs": dict(item.example.inputs),
        "expectedOutputs": dict(item.example.expected_outputs),
        "actualOutputs": dict(item.outputs),
        "metadata": dict(item.example.metadata),
        "error": item.error,
        "errorKind": item.error_kind,
        "tokensIn": measured.tokens_in,
        "tokensOut": measured.tokens_out,
        "costUsd": measured.cost_usd,
        "latencyMs": item.latency_ms if measured.latency_ms is None else measured.latency_ms,
        "traceId": item.trace_id,
        "spanId": item.span_id,
        "evalResults": [_score(score) for score in item.scores],
    }
    return {name: value for name, value in document.items() if value is not None}


def _score(score: Score) -> dict[str, Any]:
    document = {
        "name": score.name,
        "score": score.value,
        "label": score.label,
        "threshold": score.threshold,
        "direction": score.direction,
        "success": score.success,
        "reason": score.reason,
        "metadata": None if score.metadata is None else dict(score.metadata),
        "error": score.error,
    }
    return {name: value for name, value in document.items() if value is not None}
