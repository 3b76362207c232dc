"""The server's side of the reading process: started when needed, killed when it hangs."""

import subprocess
import sys
import threading
from typing import BinaryIO, Literal, TypeAlias

import pyarrow as pa

from collector.conventions.own import OwnKeys
from collector.reading.wire import Header, receive, send
from storage.reading_batch import ReadingBatch
from storage.readings import Window

Which: TypeAlias = Literal["all", "logged"]
"""Of which spans readings are wanted: of all, or of those that log records belong to."""

TIMEOUT_S = 60.0
"""Guess: a full window takes half a second on an idle machine; reading has the lowest priority on a busy one."""

PROGRAM = "from collector.reading.child import main; main()"


class ReadingFailed(Exception):
    """The process died or hung over a request."""


class ReadingProcess:
    """Reads windows of spans, one at a time. `kill` ends the process, and so does the end of this one."""

    def __init__(self, own: OwnKeys, *, program: str = PROGRAM, timeout_s: float = TIMEOUT_S) -> None:
        self._own = own
        self._program = program
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def read(self, window: Window, which: Which) -> ReadingBatch:
        """Read spans of the window, and add up those of its traces that are whole.

        Raises:
            ReadingFailed: this window kills the process, or takes it longer than the time limit.
        """
        process = self._process or self._start()
        alarm = threading.Timer(self._timeout_s, process.kill)
        alarm.start()
        try:
            header: Header = {"whole": [list(key) for key in window.whole], "which": which}
            answer = _ask(process, header, [window.spans, window.resources, window.scopes, window.logs])
        except (OSError, EOFError, pa.ArrowException) as error:
            code = self._end()
            raise ReadingFailed(f"the reading process failed ({error}; exit code {code})") from error
        finally:
            alarm.cancel()
        readings, tool_calls, traces = answer
        return ReadingBatch(readings=readings, tool_calls=tool_calls, traces=traces)

    def kill(self) -> None:
        """End the process for good, also in the middle of a request; safe to call from another thread."""
        self._closed = True
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """Let go of the process, once nobody reads."""
        self._closed = True
        self._end()

    def _start(self) -> "subprocess.Popen[bytes]":
        if self._closed:
            raise ReadingFailed("closed")
        # -P: the folder that the server was started in is no place to import from.
        self._process = process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-P", "-c", self._program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            send(_pipe(process.stdin), {"own": self._own.projects}, [])
        except OSError as error:
            raise ReadingFailed(f"the reading process did not start (exit code {self._end()})") from error
        return process

    def _end(self) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # what was left to be written cannot be
                    continue
        return process.wait()


def _ask(process: "subprocess.Popen[bytes]", header: Header, tables: list[pa.Table]) -> list[pa.Table]:
    send(_pipe(process.stdin), header, tables)
    answer = receive(_pipe(process.stdout))
    if answer is None:
        raise EOFError("it ended")
    return answer[1]


def _pipe(file: object) -> BinaryIO:
    if file is None:
        raise EOFError("it has no pipes")
    return file  # type: ignore[return-value] # Popen was asked for pipes
