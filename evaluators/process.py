"""Execution of a program on one JSON document: bounded in time and output, and without leftovers.

On Linux the program has a parent of its own (`supervisor`), which kills all that descends from it, daemons too, when
the program has ended, is late, prints too much, or its caller is cancelled. Elsewhere its process group is killed,
and a process that left the group goes on. The program has only the environment that it is given, and no shell is
used unless requested.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from evaluators import supervisor
from evaluators.errors import EvaluationError
from storage.limit import Limit

_STDERR_CHARACTERS = 2000  # kept from the end, where a traceback has its message
_SHOWN_CHARACTERS = 100
_LAST_WORDS_S = (
    1.0  # for a killed group to end, and its pipes to drain; a process that left the group may keep the pipes open
)
_MOST_ERROR_BYTES = 1000

_SUPERVISED: Final = sys.platform == "linux"
_SUPERVISOR: Final = (sys.executable, "-I", "-S", str(supervisor.__file__))

_STDIN, _STDOUT, _STDERR = range(3)


class ProgramFailed(EvaluationError):
    """Failure of a program that gave no valid output; `kind` is its error kind."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeProgram:
    """Command of a judge's program, and its bounds."""

    command: Sequence[str] | str  # a text is for the shell
    environment: Mapping[str, str]
    folder: Path | None
    time_limit_s: float
    output_bytes: int


async def run(program: JudgeProgram, document: bytes) -> bytes:
    """Run the program with the document as its input, and return its output.

    Raises:
        ProgramFailed: the program could not start, timed out, printed too much, or ended with another code than 0.

    """
    running = _RunningProcess(program.output_bytes)
    errors, errors_end = os.pipe()
    try:
        transport = await _start(program, running, errors_end)
        try:
            async with asyncio.timeout(program.time_limit_s):
                running.tell(document)
                await running.has_exited.wait()
        except TimeoutError:
            raise ProgramFailed("timeout", f"not finished within {program.time_limit_s:g} s; killed") from None
        finally:
            await running.end()
        os.set_blocking(errors, False)
        with suppress(BlockingIOError):  # a process still holds the write end
            if why := os.read(errors, _MOST_ERROR_BYTES):
                raise _not_started(program, why.decode())
    finally:
        os.close(errors)
    if running.is_too_long:
        limit = Limit(value=program.output_bytes, unit="bytes", remedy="print the answer only")
        raise ProgramFailed("bad_output", f"killed because it printed more than {limit}")
    code = transport.get_returncode()
    if code != 0:
        raise ProgramFailed("judge_error", _how_it_ended(code, running.last_words()))
    return bytes(running.stdout)


async def _start(program: JudgeProgram, running: "_RunningProcess", errors_end: int) -> asyncio.SubprocessTransport:
    """Start the program, and close `errors_end`: the supervisor writes to this pipe why a program cannot start."""
    command = ("/bin/sh", "-c", program.command) if isinstance(program.command, str) else tuple(program.command)
    if _SUPERVISED:
        command = (*_SUPERVISOR, str(errors_end), str(os.getpid()), *command)
    try:
        transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: running,
            *command,
            env=dict(program.environment),
            cwd=program.folder,
            start_new_session=True,
            pass_fds=(errors_end,) if _SUPERVISED else (),
        )
    except (OSError, ValueError) as error:  # not there, not executable, too many processes; a NUL in an argument
        raise _not_started(program, str((isinstance(error, OSError) and error.strerror) or error)) from None
    finally:
        os.close(errors_end)
    return transport


def _not_started(program: JudgeProgram, why: str) -> ProgramFailed:
    shown = program.command if isinstance(program.command, str) else program.command[0]
    return ProgramFailed("not_started", f"{shown[:_SHOWN_CHARACTERS]!r} cannot be started: {why}")


class _RunningProcess(asyncio.SubprocessProtocol):
    """A process and its output.

    It uses the protocol API, not asyncio's streams: those report the exit only once the pipes are closed, which
    children of the process may keep open for ever.
    """

    def __init__(self, output_bytes: int) -> None:
        self._limit = output_bytes
        self._transport: asyncio.SubprocessTransport | None = None
        self._open_outputs = {_STDOUT, _STDERR}
        self._outputs_are_closed = asyncio.Event()
        self._stderr = bytearray()
        self.stdout = bytearray()
        self.has_exited = asyncio.Event()
        self.is_too_long = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.SubprocessTransport)  # noqa: S101 - what asyncio says it gives
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Keep the output up to the limit, and the end of standard error."""
        if fd == _STDERR:
            self._stderr = (self._stderr + data)[-4 * _STDERR_CHARACTERS :]
            return
        self.stdout += data[: self._limit + 1 - len(self.stdout)]
        if len(self.stdout) > self._limit and not self.is_too_long:
            self.is_too_long = True
            self._kill()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Note that an output has ended; or that the program closed its input, which it may."""
        self._open_outputs.discard(fd)
        if not self._open_outputs:
            self._outputs_are_closed.set()

    def process_exited(self) -> None:
        """Note that the program itself has ended; its children may run on."""
        self.has_exited.set()

    def tell(self, document: bytes) -> None:
        """Write the document to its standard input, and close that."""
        stdin = self._transport and self._transport.get_pipe_transport(_STDIN)
        if isinstance(stdin, asyncio.WriteTransport):
            stdin.write(document)
            stdin.write_eof()

    async def end(self) -> None:
        """Kill what is left of the program, read its pipes to the end, and close them."""
        assert self._transport is not None  # noqa: S101 - it was started
        self._kill()
        try:
            async with asyncio.timeout(_LAST_WORDS_S):
                await self.has_exited.wait()
                await self._outputs_are_closed.wait()
        except TimeoutError:
            self._kill_group()  # the supervisor may be suspended; do not wait for what left the group
        finally:
            self._transport.close()

    def last_words(self) -> str:
        """Return the end of its standard error."""
        return self._stderr.decode("utf-8", "replace").strip()[-_STDERR_CHARACTERS:]

    def _kill(self) -> None:
        """Kill the program and its descendants."""
        assert self._transport is not None  # noqa: S101 - it was started
        if not _SUPERVISED:
            self._kill_group()
        elif not self.has_exited.is_set():  # else its supervisor has killed the rest
            with suppress(ProcessLookupError):
                os.kill(self._transport.get_pid(), signal.SIGTERM)

    def _kill_group(self) -> None:
        # Safe after the leader is reaped: a group's id is not reused while it has members, nor soon after.
        assert self._transport is not None  # noqa: S101 - it was started
        with suppress(ProcessLookupError, PermissionError):  # no member is left; macOS then raises PermissionError
            os.killpg(self._transport.get_pid(), signal.SIGKILL)


def _how_it_ended(code: int | None, last_words: str) -> str:
    if code is None:
        how = "did not end"
    elif code > 0:
        how = f"ended with exit code {code}"
    else:
        try:
            how = f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            how = f"was killed by signal {-code}"
    return f"{how}: {last_words}" if last_words else f"{how} and wrote nothing to standard error"
