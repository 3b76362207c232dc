"""The user's application, which may run over items of a dataset if the command line allows it."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from collector.mcp.errors import ToolRefused
from evaluators.process import JudgeProgram, ProgramFailed, run

_AT_ONCE: Final = 2
_TIME_S: Final = 120.0
_OUTPUT_BYTES: Final = 1 << 20
"""Guesses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationResult:
    """Output of the application for an item, or why there is none."""

    outputs: Mapping[str, Any]
    error: str | None = None
    error_kind: str | None = None
    trace_id: str | None = None
    measured: Mapping[str, float] = field(default_factory=dict)  # tokens, cost and latency, named as in a run's item


Item: TypeAlias = dict[str, Any]
Store: TypeAlias = Callable[[Item, ApplicationResult], Awaitable[None]]


class Application:
    """A command that reads an item as JSON from its standard input and prints its answer.

    It runs without a shell, a limited number of times in all.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], *, runs: int) -> None:
        self._program = JudgeProgram(
            command=command,
            environment=environment,
            folder=None,
            time_limit_s=_TIME_S,
            output_bytes=_OUTPUT_BYTES,
        )
        self._left = runs
        self._turn = asyncio.Semaphore(_AT_ONCE)

    def take(self, count: int) -> None:
        """Count runs as used, before the first of them.

        Raises:
            ToolRefused: fewer runs are left; none is counted.
        """
        if count > self._left:
            raise ToolRefused(
                f"the application may be run {self._left} times more, and {count} were requested: request fewer "
                "with `limit`, or have `tracejury mcp` started with a larger --app-runs"
            )
        self._left -= count

    async def over(self, _api: object, items: Sequence[Item], store: Store) -> None:
        """Run the application on each item, and store each result when it is there.

        Raises:
            ToolRefused: a result is not stored; the application is not run again.
        """
        await answered(items, self._one, store, at_once=_AT_ONCE)

    async def _one(self, item: Item) -> ApplicationResult:
        request = json.dumps({"id": item["id"], "inputs": item["inputs"]}).encode()
        async with self._turn:
            try:
                printed = await run(self._program, request)
            except ProgramFailed as error:
                return ApplicationResult(outputs={}, error=str(error))
        return ApplicationResult(outputs=outputs_of(_read(printed.decode("utf-8", "replace").strip())))


async def answered(
    items: Sequence[Item], answer: Callable[[Item], Awaitable[ApplicationResult]], store: Store, *, at_once: int
) -> None:
    """Answer each item, some at a time, and store each answer when it is there.

    Raises:
        ToolRefused: an answer is not stored; no more are made.
    """
    left = iter(items)

    async def work() -> None:
        for item in left:
            await store(item, await answer(item))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(work())
    except* ToolRefused as refused:
        raise _first(refused) from refused


def outputs_of(answer: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """Return an answer as the outputs of an item: anything but an object becomes its `output`."""
    return answer if isinstance(answer, dict) else {"output": answer}


def _read(printed: str) -> Any:  # noqa: ANN401 - any JSON
    """Parse a printed object; any other output is a text, such as 4."""
    try:
        value = json.loads(printed)
    except ValueError:
        return printed
    return value if isinstance(value, dict) else printed


def _first(refused: BaseExceptionGroup[ToolRefused]) -> ToolRefused:
    first = refused.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
