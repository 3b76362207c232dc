"""Options of a statement: limits, caller, and cancellation."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from storage.errors import BadQuery

CANCELLED: Final = "the request was cancelled"


class CancelToken:
    """Token by which another thread cancels a query, once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._interrupt: Callable[[], None] | None = None
        self.is_cancelled = False

    def ask(self) -> None:
        """Cancel the query that is running, or that `armed` is about to run."""
        with self._lock:
            self.is_cancelled = True
            if self._interrupt is not None:
                self._interrupt()

    @contextmanager
    def armed(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Call `interrupt` if the token is cancelled while the block runs.

        Raises:
            BadQuery: the token was cancelled before the block.

        """
        with self._lock:
            if self.is_cancelled:
                raise BadQuery(CANCELLED)
            self._interrupt = interrupt
        try:
            yield
        finally:
            with self._lock:
                self._interrupt = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOptions:
    """Options of a statement: whether it may read only the documented views, its caller, and its cancellation."""

    views_only: bool = False
    client_id: str = ""  # the caller, by which repeated offences are counted
    is_ours: bool = False  # the server made the text, such as a rule's condition; a client made only its parameters
    stop: CancelToken = field(default_factory=CancelToken)
