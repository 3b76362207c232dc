"""The user's application, which may run over items of a dataset if the command line allows it."""

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
_STDERR_CHARACTERS: Final = 2_000
_STDERR_BYTES: Final = 4 * _STDERR_CHARACTERS
_PIECE_BYTES: Final = 1 << 16
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

    def __init__(self, command: Sequence[str], *, runs: int) -> None:
        self._command = tuple(command)
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
                request = json.dumps({"id": item["id"], "inputs": item["inputs"]}).encode()
                out, err = await asyncio.wait_for(_communicate(process, request), _TIME.value)
            except TimeoutError:
                return _failed(f"it took longer than {_TIME}")
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
        if len(out) > _OUTPUT.value:
            return _failed(f"it printed more than {_OUTPUT}")
        if process.returncode:
            complaint = err.decode("utf-8", "replace").strip()[-_STDERR_CHARACTERS:]
            return _failed(f"it ended with {process.returncode}: {complaint or 'without a message'}")
        return ApplicationResult(outputs=outputs_of(_read(out.decode("utf-8", "replace").strip())))


async def _communicate(process: asyncio.subprocess.Process, request: bytes) -> tuple[bytes, bytes]:
    """Return the output of a process, and the end of its standard error; kill it once the output exceeds the limit."""
    stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
    if stdin is None or stdout is None or stderr is None:
        raise AssertionError  # it was started with pipes

    async def write() -> None:
        with suppress(ConnectionError):  # it need not read
            stdin.write(request)
            await stdin.drain()
        stdin.close()

    async def beginning() -> bytes:
        printed = b""
        while piece := await stdout.read(_PIECE_BYTES):
            printed += piece
            if len(printed) > _OUTPUT.value:
                process.kill()
                break
        return printed

    async def end() -> bytes:
        messages = b""
        while piece := await stderr.read(_PIECE_BYTES):
            messages = (messages + piece)[-_STDERR_BYTES:]
        return messages

    _, out, err = await asyncio.gather(write(), beginning(), end())
    await process.wait()
    return out, err


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


def _failed(why: str) -> ApplicationResult:
    return ApplicationResult(outputs={}, error=why)
