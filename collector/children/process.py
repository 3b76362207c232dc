"""The server's side of a child process: started when needed, killed when it hangs."""

import subprocess
import threading
from collections.abc import Iterator, Sequence
from typing import BinaryIO, TypeAlias

import pyarrow as pa

from storage import child_process
from storage.wire import Header, receive, send

Message: TypeAlias = tuple[Header, list[pa.Table]]

MORE = "more"
"""Key in the header of an answer; true if a further answer to the same request follows."""


class ChildFailed(Exception):
    """Failure of a process that died or hung over a request."""


class ChildProcess:
    """A child process that answers requests, one at a time. `kill` ends it, and so does the end of this process."""

    def __init__(self, program: str, greeting: Header, *, timeout_s: float) -> None:
        """Set up; the first request starts `program`, which is Python source, and sends `greeting` first."""
        self._program = program
        self._greeting = greeting
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    @property
    def pid(self) -> int | None:
        """Return the id of the process; None while there is none."""
        return self._process.pid if self._process else None

    @property
    def closed(self) -> bool:
        """Return True once it was ended for good."""
        return self._closed

    def ask(self, header: Header, tables: Sequence[pa.Table]) -> Iterator[Message]:
        """Send a request and yield its answers. If the caller stops before the last answer, the process is killed.

        Raises:
            ChildFailed: the process died or did not start, there was no answer in time, or it was ended for good.
        """
        process = self._process or self._start()
        complete = False
        try:
            with _Alarm(self._timeout_s, process):
                send(_pipe(process.stdin), header, tables)
            while not complete:
                with _Alarm(self._timeout_s, process):
                    answer = _receive(process)
                complete = not answer[0].get(MORE)
                yield answer
        except (OSError, EOFError, pa.ArrowException) as error:
            complete = True
            raise ChildFailed(f"the process failed ({error}; exit code {self._end()})") from error
        finally:
            if not complete:
                self._end()

    def kill(self) -> None:
        """End the process for good, also in the middle of a request; safe to call from another thread."""
        self._closed = True
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """End the process for good. Call it while no request runs."""
        self._closed = True
        self._end()

    def _start(self) -> "subprocess.Popen[bytes]":
        if self._closed:
            raise ChildFailed("closed")
        self._process = process = child_process.start_program(self._program)
        try:
            send(_pipe(process.stdin), self._greeting, [])
        except OSError as error:
            raise ChildFailed(f"the process did not start (exit code {self._end()})") from error
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
                except OSError:  # the unwritten rest of the buffer is lost
                    continue
        return process.wait()


def _receive(process: "subprocess.Popen[bytes]") -> Message:
    answer = receive(_pipe(process.stdout))
    if answer is None:
        raise EOFError("it ended")
    return answer


class _Alarm:
    """Watchdog that kills a process if the block takes too long."""

    def __init__(self, timeout_s: float, process: "subprocess.Popen[bytes]") -> None:
        self._timer = threading.Timer(timeout_s, process.kill)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()


def _pipe(file: object) -> BinaryIO:
    if file is None:
        raise EOFError("it has no pipes")
    return file  # type: ignore[return-value] # Popen has pipes here
