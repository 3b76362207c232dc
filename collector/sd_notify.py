"""Notifications of a service manager: ready, alive, and stopping (the protocol of sd_notify)."""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from collector.settings_loading import environment_variable

log = logging.getLogger(__name__)

_US: Final = 1_000_000
_FEEDS: Final = 3
"""Watchdog messages per timeout of the service manager, so that a late message does no harm."""


class ServiceManager:
    """The service manager that started the server, if there is one."""

    def __init__(self) -> None:
        self._address = environment_variable("NOTIFY_SOCKET")
        self._watchdog_s = _watchdog_s()

    def tell(self, state: str) -> None:
        """Send one state, such as `READY=1`; log and continue if the socket is gone."""
        if not self._address:
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.sendto(state.encode(), address)
        except OSError as error:
            log.warning("cannot notify the service manager of %s: %s", state, error)

    @asynccontextmanager
    async def watched(self, lives: Callable[[], bool]) -> AsyncIterator[None]:
        """Send watchdog messages from the event loop during the block, while `lives` returns True.

        Without messages, the service manager kills the process and starts another one.
        """
        if self._watchdog_s is None:
            yield
            return
        task = asyncio.create_task(self._feed(self._watchdog_s / _FEEDS, lives))
        try:
            yield
        finally:
            task.cancel()

    async def _feed(self, pause_s: float, lives: Callable[[], bool]) -> None:
        while True:
            if lives():
                self.tell("WATCHDOG=1")
            await asyncio.sleep(pause_s)


def _watchdog_s() -> float | None:
    text, process = environment_variable("WATCHDOG_USEC"), environment_variable("WATCHDOG_PID")
    if not text or not text.isdecimal() or process not in {None, str(os.getpid())}:
        return None
    return int(text) / _US
