"""Work of tools that goes on after they have answered."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from collector.mcp.errors import ToolRefused

log = logging.getLogger(__name__)


class Background:
    """Tasks that run until they are done, or until the program ends."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def close(self) -> None:
        """Cancel the running tasks, and wait for their end and for the tasks that they start meanwhile."""
        for task in self._tasks:
            task.cancel()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, ToolRefused):  # the run has the refusal as its reason
            log.error("a background task of a tool failed", exc_info=error)
