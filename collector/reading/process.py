"""The reading process, as the server asks it."""

from typing import Literal, TypeAlias

from collector.children.process import ChildFailed, ChildProcess
from collector.children.wire import Header
from collector.conventions.own import OwnKeys
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
        self._child = ChildProcess(program, {"own": own.projects}, timeout_s=timeout_s)

    @property
    def pid(self) -> int | None:
        """The number of the process; None while there is none."""
        return self._child.pid

    def read(self, window: Window, which: Which) -> ReadingBatch:
        """Read spans of the window, and add up those of its traces that are whole.

        Raises:
            ReadingFailed: this window kills the process, or takes it longer than the time limit.
        """
        header: Header = {"whole": [list(key) for key in window.whole], "which": which}
        tables = [window.spans, window.resources, window.scopes, window.logs]
        try:
            ((_, answer),) = self._child.ask(header, tables)
        except ChildFailed as error:
            raise ReadingFailed(f"reading: {error}") from error
        readings, tool_calls, traces = answer
        return ReadingBatch(readings=readings, tool_calls=tool_calls, traces=traces)

    def kill(self) -> None:
        """End the process for good, also in the middle of a request; safe to call from another thread."""
        self._child.kill()

    def close(self) -> None:
        """Let go of the process, once nobody reads."""
        self._child.close()
