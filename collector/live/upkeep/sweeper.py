"""The thread that deletes expired traces."""

import logging
import threading
import time
from collections.abc import Callable

from storage.errors import Overloaded
from storage.upkeep.retention import Retention, SweepForecast, Swept

log = logging.getLogger(__name__)

_FIRST_AFTER_S = 60.0
"""Longest delay of the first sweep, so that a server that is often restarted still sweeps, after its start. A guess."""


def wall_clock_us() -> int:
    """Return microseconds since the Unix epoch."""
    return time.time_ns() // 1000


class Sweeper:
    """Thread that sweeps every `interval_s`, and on request; one sweep at a time."""

    def __init__(
        self,
        retention: Retention,
        *,
        interval_s: float,
        max_bytes: int | None,
        now_us: Callable[[], int] = wall_clock_us,
    ) -> None:
        self._retention = retention
        self._interval_s = interval_s
        self._max_bytes = max_bytes
        self._now_us = now_us
        self.counts = {"sweeps": 0, "failures": 0, "traces": 0, "spans": 0, "freed_bytes": 0}  # since the start
        self.seconds = 0.0  # that sweeps took
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sweeper", daemon=True)

    def start(self) -> None:
        """Start the thread; the first sweep follows after `interval_s`, or after a minute if that is sooner."""
        self._thread.start()

    def close(self) -> None:
        """Stop after the step under way."""
        self._stopping.set()
        self._thread.join()

    def due(self) -> SweepForecast:
        """Return what a sweep would delete now."""
        return self._retention.due(now_us=self._now_us(), max_bytes=self._max_bytes)

    def sweep(self, *, is_confirmed: bool = False) -> Swept:
        """Sweep now; keep expired data if the clock is in doubt, or too much would go at once, unless confirmed.

        Raises:
            Overloaded: the database cannot be written now; finished steps of the sweep stay done.
        """
        start_s = time.monotonic()
        if is_confirmed:
            self._retention.aging.confirm()
        held = self.due().held
        stopped = self._stopping.is_set
        if held is None:
            swept = self._retention.sweep(now_us=self._now_us(), max_bytes=self._max_bytes, stopped=stopped)
        else:
            swept = self._retention.relieve(max_bytes=self._max_bytes, stopped=stopped, held=held)
        self._retention.aging.note()
        took_s = time.monotonic() - start_s
        done = {"sweeps": 1, "traces": swept.traces, "spans": swept.spans, "freed_bytes": swept.freed_bytes or 0}
        self.counts = {name: count + done.get(name, 0) for name, count in self.counts.items()}
        self.seconds += took_s
        if swept.spans or swept.freed_bytes:
            freed = "not now" if swept.freed_bytes is None else f"{swept.freed_bytes >> 20} MiB"
            log.info("swept %d traces, %d spans in %.1f s; freed: %s", swept.traces, swept.spans, took_s, freed)
        return swept

    def _run(self) -> None:
        wait_s = min(self._interval_s, _FIRST_AFTER_S)
        while not self._stopping.wait(wait_s):
            wait_s = self._interval_s
            try:
                self.sweep()
            except Overloaded as error:
                self._fail()
                log.warning("the sweep was aborted; will retry: %s", error)
            except Exception:  # noqa: BLE001 - a sweep that fails must not be the last one
                self._fail()
                log.exception("a sweep failed")

    def _fail(self) -> None:
        self.counts = self.counts | {"failures": self.counts["failures"] + 1}
