"""Experiments: a task run over a dataset, scored, and reported item by item during the run."""

import asyncio
import contextvars
import hashlib
import inspect
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

from tracejury.agent_trace import outputs_of
from tracejury.builtin import Builtin, Document
from tracejury.client import Client, project_of
from tracejury.dataset import Dataset, Example
from tracejury.plain import Stopped, error_text, text
from tracejury.reported import Place, ServerRun, with_scores
from tracejury.reporter import OnLost, Reporter
from tracejury.results import ItemResult, Measured, Result, TaskFailed
from tracejury.score import Score, named, scores_of
from tracejury.tracing import flush, item_span

current_item: Final[contextvars.ContextVar[tuple[str, int] | None]] = contextvars.ContextVar("item", default=None)
"""The key and the trial of the item that a task is run for."""

Task = Callable[[Example], Any]
Evaluate = Callable[..., Any]


class LostItems(Exception):
    """Some items could not be delivered. `result` has all items."""

    def __init__(self, result: Result) -> None:
        kept = f", and {result.spooled_items} of them are in the spool" if result.spooled_items else ""
        run = result.run_id or "(not begun)"
        super().__init__(f"{result.lost_items} items of the run {run} could not be delivered{kept}")
        self.result = result


class _Late(Exception):
    """A call is not finished in time."""


def progress_bar(done: int, of: int) -> None:
    """Show the progress of a run on a terminal."""
    if sys.stderr.isatty():
        width = 30 * done // of
        end = "\n" if done == of else ""
        sys.stderr.write(f"\r{'█' * width}{'░' * (30 - width)} {done}/{of}{end}")
        sys.stderr.flush()


@dataclass
class Experiment:
    """A task that is run over a dataset. `run` runs it, and `run_async` inside of an event loop.

    Without `client`, items are reported to the server that the environment names; if it names none, nothing is sent.
    By default, `LostItems` is raised if an item is neither on the server nor in the spool at the end; with
    `fail_on_lost=True`, if an item is not on the server; with False, never.
    """

    name: str
    dataset: Dataset
    task: Task
    evaluators: Sequence[Evaluate | Builtin]
    project: str | None = None  # else TRACEJURY_PROJECT, else "default"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    trials: int = 1
    parallelism: int = 1
    timeout_s: float | None = None
    run_key: str | None = None
    git_sha: str | None = None
    git_branch: str | None = None
    client: Client | None = None
    spool: str | Path | bool | None = True  # True: in the home directory
    on_lost: OnLost | None = None
    fail_on_lost: bool | None = None
    evaluation_s: float = 3_600.0  # timeout for the server's evaluators
    progress: Callable[[int, int], None] = progress_bar
    description: str = ""  # of what the run is about, in its reports and on its page

    def __post_init__(self) -> None:
        if not len(self.dataset):
            raise ValueError("the dataset is empty")
        if not self.evaluators:
            raise ValueError("an experiment needs an evaluator")
        if self.trials < 1 or self.parallelism < 1:
            raise ValueError("trials and parallelism are 1 or more")

    def run(self) -> Result:
        """Run the experiment, and wait for its end.

        Raises:
            LostItems: items could not be delivered; see `fail_on_lost`.
            RunEnded: the run of this key has ended without success.
            TimeoutError: the server's evaluators took too long.
            Unreachable: the run has to begin on a server, and none is named or answers.
            Refused: the server rejects the run.
        """
        results: list[Result] = []

        async def run() -> None:  # returns nothing: asyncio.run takes the repr of the return value, which may raise
            results.append(await self.run_async())

        asyncio.run(run())
        return results[0]

    async def run_async(self) -> Result:
        """Run the experiment within an event loop.

        An interrupted run is CANCELLED; one with a key is left open instead, so that it can be resumed.

        """
        client = self.client or Client.from_environment()
        try:
            return await self._run(client)
        finally:
            if client is not None and client is not self.client:
                client.close()

    async def _run(self, client: Client | None) -> Result:
        keys = keys_of(self.dataset)
        places = [(key, trial) for trial in range(1, self.trials + 1) for key in keys]
        try:
            run = await asyncio.to_thread(self._begin, client)
        except asyncio.CancelledError:  # raised again: an interrupted program does not wait for the server
            if client is not None:
                client.stop_waiting()
            raise
        left = [place for place in places if place not in run.known]
        try:
            await asyncio.to_thread(self._ask, run, left)
            results = dict(zip(left, await self._items(run, keys, left), strict=True))
        except BaseException:  # raised again: the run ends, also if it is interrupted
            if run.client is not None:
                run.client.stop_waiting()
            await asyncio.to_thread(run.stop, "CANCELLED" if self.run_key is None else None)
            raise
        await asyncio.to_thread(flush)
        lost, spooled = await asyncio.to_thread(run.stop, "SUCCESS")
        items, skipped = [*results.values()], len(places) - len(left)
        result = Result(self.name, items, run.run_id, lost, spooled, skipped, self.description)
        if lost if self.fail_on_lost else lost > spooled and self.fail_on_lost is None:
            raise LostItems(result)
        judged = await asyncio.to_thread(run.judged, self.evaluation_s)
        results |= await asyncio.to_thread(run.restored, keys)
        items = [with_scores(results[place], judged.get(place, ())) for place in places if place in results]
        return replace(result, items=items)

    def _begin(self, client: Client | None) -> ServerRun:
        if client is None:
            return ServerRun()
        body = {
            "experimentName": self.name,
            "description": self.description or None,
            "metadata": dict(self.metadata),
            "trials": self.trials,
            "runKey": self.run_key,
            "gitSha": self.git_sha,
            "gitBranch": self.git_branch,
        }
        if self.dataset.version is not None:
            body |= {"datasetName": self.dataset.name, "datasetVersion": self.dataset.version}
        reporter = Reporter(client, spool=self.spool, on_lost=self.on_lost)
        must_begin = bool(self.fail_on_lost) or any(_is_on_server(each) for each in self.evaluators)
        return ServerRun.begin(client, project_of(self.project), body, reporter=reporter, must_begin=must_begin)

    def _ask(self, run: ServerRun, left: Sequence[Place]) -> None:
        evaluators = [each for each in self.evaluators if isinstance(each, Builtin) and _is_on_server(each)]
        run.ask(evaluators, is_whole=not left)

    async def _items(self, run: ServerRun, keys: Mapping[str, Example], left: Sequence[Place]) -> Sequence[ItemResult]:
        turns, done = asyncio.Semaphore(self.parallelism), 0
        running = _RunningItem(self, _Threads(), run.run_id)

        async def one(key: str, trial: int) -> ItemResult:
            nonlocal done
            async with turns:
                result = await running.item(keys[key], key, trial)
            run.report(result, self.dataset)
            done += 1
            self.progress(done, len(left))
            return result

        try:
            return await asyncio.gather(*(one(key, trial) for key, trial in left))
        finally:
            running.threads.close()


def keys_of(dataset: Dataset) -> dict[str, Example]:
    """Return the examples by their keys: the id, else a digest of the inputs; equal keys are numbered."""
    examples: dict[str, Example] = {}
    for example in dataset:
        text = json.dumps(example.inputs, sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=str)
        name = example.id or f"item-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        key, number = name, 1
        while key in examples:
            number += 1
            key = f"{name}-{number}"
        examples[key] = example
    return examples


_Call = tuple[Callable[[], Any], "Future[Any]"]


class _Threads:
    """Threads that call functions: as many as there are calls at a time, each used again.

    Nothing waits for a call that is late, neither later calls nor the end of the process.
    """

    def __init__(self) -> None:
        self._idle: list[SimpleQueue[_Call | None]] = []
        self._is_closed = False

    def call(self, function: Callable[[], Any]) -> "Future[Any]":
        """Call a function in a thread."""
        result: Future[Any] = Future()
        if self._idle:
            calls = self._idle.pop()
        else:
            calls = SimpleQueue()
            threading.Thread(target=self._run, args=(calls,), name="tracejury-task", daemon=True).start()
        calls.put((function, result))
        return result

    def close(self) -> None:
        """End the threads, each once it is idle."""
        self._is_closed = True
        with suppress(IndexError):
            while True:
                self._idle.pop().put(None)

    def _run(self, calls: "SimpleQueue[_Call | None]") -> None:
        while (call := calls.get()) is not None:
            function, result = call
            settle = _outcome(function, result) if result.set_running_or_notify_cancel() else None
            self._idle.append(calls)  # before the result is there, so that the next call finds it idle
            if settle is not None:
                settle()
            if self._is_closed:
                self.close()


def _outcome(function: Callable[[], Any], result: "Future[Any]") -> Callable[[], None]:
    try:
        return partial(result.set_result, function())
    except BaseException as raised:  # noqa: BLE001 - raised again where the result is awaited
        return partial(result.set_exception, raised)


@dataclass
class _RunningItem:
    """One item on its way through the task and the evaluators."""

    experiment: Experiment
    threads: _Threads
    run_id: str | None

    async def item(self, example: Example, key: str, trial: int) -> ItemResult:
        began_s = time.perf_counter()
        current_item.set((key, trial))
        outputs: Mapping[str, Any] = {}
        with item_span(self.experiment.name, key=key, trial=trial, run_id=self.run_id) as ids:
            try:
                measured = _measured(await self._called(self.experiment.task, example))
            except _Late as late:
                error, kind = str(late), "timeout"
            except TaskFailed as failed:
                error, kind, outputs = text(failed), text(failed.kind), outputs_of(failed.outputs)
            except Exception as raised:  # noqa: BLE001 - a task that raises costs no other result
                error, kind = error_text(raised), "task"
            else:
                latency_ms = (time.perf_counter() - began_s) * 1000
                scores = await self._scores(example, measured.outputs)
                return ItemResult(example, key, trial, measured.outputs, scores, None, None, measured, latency_ms, *ids)
        return ItemResult(example, key, trial, outputs, (), error, kind, None, None, *ids)

    async def _scores(self, example: Example, outputs: Mapping[str, Any]) -> list[Score]:
        """Score outputs; the program's evaluators run while functions do."""
        scores: list[Score] = []
        local = [each for each in self.experiment.evaluators if not _is_on_server(each)]
        answers = [self._ask(each, example, outputs) if isinstance(each, Builtin) else None for each in local]
        for each, answer in zip(local, answers, strict=True):
            of = named(each)
            try:
                if answer is not None and isinstance(each, Builtin):
                    scores.append(each.score(await asyncio.wait_for(answer, self.experiment.timeout_s)))
                else:
                    scores += scores_of(await self._called(each, example, outputs), of)
            except Exception as raised:  # noqa: BLE001 - an evaluator that raises costs no other result
                scores.append(Score(name=of.name, error=error_text(raised), error_kind="evaluator", version=of.version))
        return scores

    def _ask(self, builtin: Builtin, example: Example, outputs: Mapping[str, Any]) -> "asyncio.Future[Document]":
        """Send outputs to the program; the future holds its answer, or the reason why it could not be sent."""
        try:
            return asyncio.wrap_future(builtin.ask(example, outputs))
        except Exception as raised:  # noqa: BLE001 - what cannot be asked costs no other result
            failed: asyncio.Future[Document] = asyncio.get_running_loop().create_future()
            failed.set_exception(raised)
            return failed

    async def _called(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of a function or coroutine function, within the timeout.

        The function runs in its own task, so that a cancellation of the calling task is known to come from outside.
        """
        called = asyncio.ensure_future(self._returned(function, *arguments))
        try:
            await asyncio.wait({called}, timeout=self.experiment.timeout_s)
        finally:
            is_late = not called.done()
            called.cancel()
        if is_late:
            await asyncio.wait({called})
            raise _Late(f"not finished within {self.experiment.timeout_s:g} s")
        if called.cancelled():
            raise Stopped("CancelledError")
        return called.result()

    async def _returned(self, function: Callable[..., Any], *arguments: Any) -> Any:
        with _contained():
            if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
                return await function(*arguments)
            in_context = contextvars.copy_context().run  # where the span of the item is the current one
            called = partial(in_context, _call, function, *arguments)
            returned = await asyncio.wrap_future(self.threads.call(called))
            return await returned if inspect.isawaitable(returned) else returned


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    with _contained():
        return function(*arguments)


@contextmanager
def _contained() -> Iterator[None]:
    """Raise an ordinary error instead of one that would end the event loop, or that a future cannot hold."""
    try:
        yield
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise
    except BaseException as raised:
        if isinstance(raised, Exception) and not isinstance(raised, StopIteration):
            raise
        raise Stopped(error_text(raised)) from raised


def _is_on_server(evaluator: "Evaluate | Builtin") -> bool:
    return isinstance(evaluator, Builtin) and evaluator.is_on_server


def _measured(returned: Any) -> Measured:
    measured = returned if isinstance(returned, Measured) else Measured(returned)
    if measured.outputs is None:
        raise TypeError("the task returned None; return the outputs")
    return replace(measured.checked(), outputs=outputs_of(measured.outputs))
