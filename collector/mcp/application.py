"""The user's application, which may run over items of a dataset if the command line allows it."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

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

    async def over(self, items: Sequence[Mapping[str, Any]]) -> list[ApplicationResult]:
        """Run the application on each item; return the outputs in their order.

        Raises:
            ToolRefused: there are more items than runs left; nothing was run.
        """
        if len(items) > self._left:
            raise ToolRefused(
                f"the application may be run {self._left} times more, and {len(items)} were requested: request fewer "
                "with `limit`, or have `tracejury mcp` started with a larger --app-runs"
            )
        self._left -= len(items)
        return list(await asyncio.gather(*map(self._one, items)))

    async def _one(self, item: Mapping[str, Any]) -> ApplicationResult:
        request = json.dumps({"id": item["id"], "inputs": item["inputs"]}).encode()
        async with self._turn:
            try:
                printed = await run(self._program, request)
            except ProgramFailed as error:
                return ApplicationResult(outputs={}, error=str(error))
        return ApplicationResult(outputs=outputs_of(_read(printed.decode("utf-8", "replace").strip())))


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
