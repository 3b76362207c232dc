"""Parallel execution of a task on the cases of an experiment; evaluators judge its outputs."""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from collector.experiment_runner.answers import ApplicationAnswer, NoTaskAnswer, case_for_task
from collector.experiment_runner.tasks import ConversationPlace, Task
from evaluators.case import parse_case
from evaluators.errors import EvaluationError
from evaluators.evaluator import Evaluator, run
from evaluators.outcome import Failure, Outcome, Skipped, Verdict
from tracejury.dataset_text import ItemText

_WAITING_ITEMS: Final = 1_000
"""Finished items that wait to be sent; beyond it, no case is begun. A guess."""

_REASON_CHARACTERS: Final = 100_000  # limit of the API for a reason or an error

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conductor:
    """Runner of an experiment's cases."""

    task: Task
    evaluators: Sequence[Evaluator]
    parallelism: int
    link_traces: bool  # the task continues the trace that it gets
    is_stored: bool  # the server has the text of the cases

    async def items(self, trials: Iterable[tuple[ItemText, int]], run_id: str) -> AsyncGenerator[Document, None]:
        """Run cases and trials; yield their documents for the API in the order in which they end.

        The task gets the id of its run, so that its spans can name it.
        """
        done: asyncio.Queue[Document | None] = asyncio.Queue(_WAITING_ITEMS)
        left = iter(trials)

        async def work() -> None:
            for item, trial in left:
                await done.put(await self._item(item, trial, run_id))

        async def work_all() -> None:
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(self.parallelism):
                        group.create_task(work())
            finally:
                # A consumer that has stopped never makes room in a full queue.
                if not working.cancelling():
                    await done.put(None)

        working = asyncio.create_task(work_all())
        try:
            while (item := await done.get()) is not None:
                yield item
            await working
        finally:
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working

    async def _item(self, item: ItemText, trial: int, run_id: str) -> Document:
        trace_id, span_id = secrets.token_hex(16), secrets.token_hex(8)
        document: dict[str, Any] = {"itemKey": item.item_id, "trial": trial, **self._case_document(item)}
        if self.link_traces:
            document |= {"traceId": trace_id, "spanId": span_id}
        began_s = time.perf_counter()
        try:
            answer = await self.task(
                case_for_task(item, trial), ConversationPlace(trace_id=trace_id, span_id=span_id, run_id=run_id)
            )
        except NoTaskAnswer as failed:
            had = {} if failed.outputs is None else {"actualOutputs": failed.outputs}
            return document | had | {"error": str(failed)[:_REASON_CHARACTERS], "errorKind": failed.kind}
        document["latencyMs"] = (time.perf_counter() - began_s) * 1_000
        usage = {"tokensIn": answer.tokens_in, "tokensOut": answer.tokens_out, "costUsd": answer.cost_usd}
        document |= {name: value for name, value in usage.items() if value is not None}
        return document | {"actualOutputs": answer.outputs, "evalResults": await self._scores(item, answer)}

    def _case_document(self, item: ItemText) -> Document:
        if self.is_stored:
            return {"datasetItemId": item.item_id}
        return {"inputs": item.inputs, "expectedOutputs": item.expected_outputs, "metadata": item.metadata}

    async def _scores(self, item: ItemText, answer: ApplicationAnswer) -> list[Document]:
        try:
            case = parse_case(
                {
                    "inputs": item.inputs,
                    "actualOutputs": answer.outputs,
                    "expectedOutputs": item.expected_outputs,
                    "metadata": item.metadata,
                }
            )
        except EvaluationError as broken:
            return [score_of(_failure(each, broken)) for each in self.evaluators]
        return [score_of(await run(each, case)) for each in self.evaluators]


def _failure(evaluator: Evaluator, broken: EvaluationError) -> Failure:
    return Failure(
        name=evaluator.name, fingerprint=evaluator.fingerprint, kind=broken.kind, message=str(broken), usage=None
    )


def score_of(outcome: Outcome) -> Document:
    """Serialize an outcome for the API."""
    usage = outcome.usage
    document: dict[str, Any] = {"name": outcome.name, "fingerprint": outcome.fingerprint}
    if usage is not None:
        document |= {"judgeModel": usage.model, "costUsd": usage.cost_usd, "latencyMs": usage.latency_ms}
    match outcome:
        case Verdict():
            document |= {
                "score": outcome.score,
                "threshold": outcome.threshold,
                "direction": outcome.direction,
                "success": outcome.success,
                "reason": outcome.reason[:_REASON_CHARACTERS],
                "metadata": dict(outcome.metadata) or None,
            }
        case Failure():
            document |= {"error": outcome.message[:_REASON_CHARACTERS], "errorKind": outcome.kind}
        case Skipped():
            document |= {"outcome": "skipped", "reason": outcome.reason[:_REASON_CHARACTERS]}
    return {name: value for name, value in document.items() if value is not None}
