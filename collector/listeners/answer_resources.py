"""Resources of streamed responses, such as slots of a limit and temporary files, closed whenever a response ends.

A generator that a disconnect leaves suspended is kept alive by cycles of tracebacks: its `finally` may never run.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import ExitStack, asynccontextmanager
from contextvars import ContextVar
from typing import Final, Protocol, TypeAlias

from starlette.concurrency import run_in_threadpool

_LOOK_S: Final = 0.02  # between two attempts to close a generator that another thread runs; a guess


class Closable(Protocol):
    """A generator, a file, or anything else that can be closed more than once."""

    def close(self) -> object:
        """Release it."""


OpenResources: TypeAlias = dict[int, list[Closable]]
"""Resources of each answer that is being made or sent, by the identity of their list."""

_of_answer: Final[ContextVar[list[Closable]]] = ContextVar("resources of the answer that is being made")


def close_with_answer(*resources: Closable) -> None:
    """Register resources to be closed, in reverse order, once the current response has ended.

    Raises:
        LookupError: no answer is being made.
    """
    _of_answer.get().extend(resources)


@asynccontextmanager
async def closing_resources(opened: OpenResources) -> AsyncIterator[None]:
    """Close the resources of the response that the block makes, also if the block is cancelled."""
    resources: list[Closable] = []
    token = _of_answer.set(resources)
    opened[id(resources)] = resources
    try:
        yield
    finally:
        _of_answer.reset(token)
        if resources:
            await asyncio.shield(_close(resources, opened))
        else:
            del opened[id(resources)]


def close(resource: Closable) -> None:
    """Close a resource; a generator that another thread runs is closed once that thread has left it."""
    while True:
        try:
            resource.close()
        except ValueError:  # "generator already executing"
            time.sleep(_LOOK_S)
        else:
            return


async def _close(resources: list[Closable], opened: OpenResources) -> None:
    try:
        await run_in_threadpool(_close_all, resources)
    finally:
        del opened[id(resources)]


def _close_all(resources: Iterable[Closable]) -> None:
    with ExitStack() as stack:
        for each in resources:
            stack.callback(close, each)
