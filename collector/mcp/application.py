"""The user's application, which may be run over items of a dataset where he said so on the command line."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from collector.mcp.errors import ToolRefused
from storage.limit import Limit

_AT_ONCE: Final = 2
_TIME: Final = Limit(value=120.0, unit="s", remedy="make the application answer sooner")
_OUTPUT: Final = Limit(value=1 << 20, unit="bytes", remedy="print the answer only")
_TOLD: Final = 2_000
"""Guesses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Produced:
    """What the application made of an item, or why it made nothing."""

    outputs: Mapping[str, Any]
    error: str | None = None
    error_kind: str | None = None
    trace_id: str | None = None
    measured: Mapping[str, float] = field(default_factory=dict)  # as an item of a run has it


class Application:
    """A command that reads an item as JSON from its standard input and prints what it answers.

    It is run without a shell, and as often as was allowed in all.
    """

    def __init__(self, command: Sequence[str], *, runs: int) -> None:
        self._command = tuple(command)
        self._left = runs
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def over(self, items: Sequence[Mapping[str, Any]]) -> list[Produced]:
        """What it makes of each item, in their order.

        Raises:
            ToolRefused: that are more runs than are left; it was not run.
        """
        if len(items) > self._left:
            raise ToolRefused(
                f"the application may be run {self._left} times more, and {len(items)} are asked for: ask for fewer "
                "with `limit`, or have `tracejury mcp` started with a larger --app-runs"
            )
        self._left -= len(items)
        return list(await asyncio.gather(*map(self._one, items)))

    async def _one(self, item: Mapping[str, Any]) -> Produced:
        async with self._turn:
            try:
                process = await asyncio.create_subprocess_exec(
                    *self._command,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                )
            except OSError as error:
                return _failed(f"{self._command[0]} cannot be run: {error}")
            try:
                asked = json.dumps({"id": item["id"], "inputs": item["inputs"]}).encode()
                out, err = await asyncio.wait_for(process.communicate(asked), _TIME.value)
            except TimeoutError:
                return _failed(f"it took longer than {_TIME}")
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
        if process.returncode:
            said = err.decode("utf-8", "replace").strip()[-_TOLD:]
            return _failed(f"it ended with {process.returncode}: {said or 'it said nothing'}")
        if len(out) > _OUTPUT.value:
            return _failed(f"it printed more than {_OUTPUT}")
        return Produced(outputs=outputs_of(_read(out.decode("utf-8", "replace").strip())))


def outputs_of(answer: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """An answer as an item of a run has it: what is no object is its `output`."""
    return answer if isinstance(answer, dict) else {"output": answer}


def _read(printed: str) -> Any:  # noqa: ANN401 - any JSON
    """An object as it is; all else that it prints is a text, such as 4."""
    try:
        found = json.loads(printed)
    except ValueError:
        return printed
    return found if isinstance(found, dict) else printed


def _failed(why: str) -> Produced:
    return Produced(outputs={}, error=why)
