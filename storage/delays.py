"""Stored ends of delays, which move along if the clock of the machine is set."""

import logging
import threading
from typing import Final

import duckdb

from storage import sql
from storage.clock import ClockShift
from storage.errors import Overloaded
from storage.ingest.writer import Writer

log = logging.getLogger(__name__)

_LEAST_NS: Final = 10**9
"""A smaller shift is left for later: NTP adjusts a clock by such shifts. A guess."""


class StoredDelays:
    """Delays whose duration does not change when the clock of the machine is set. Thread-safe.

    The end of a delay is stored as a time of the machine's clock, for people to read. It is wrong once the clock was
    set. Until stored ends are shifted as well, `now_ns` returns the time as if the clock had not been set.
    """

    def __init__(self, writer: Writer, shift: ClockShift | None = None) -> None:
        self._writer = writer
        self._shift = shift or ClockShift()
        self._lock = threading.Lock()
        self._moved_ns = 0  # how far stored times have been shifted

    def now_ns(self) -> int:
        """Return the time to compare stored ends with; if the clock was set, shift the stored ends first."""
        with self._lock:
            left_ns = self._shift.forward_ns - self._moved_ns
            if abs(left_ns) >= _LEAST_NS:
                self._move(left_ns)
            return self._shift.now_ns - (self._shift.forward_ns - self._moved_ns)

    def _move(self, by_ns: int) -> None:
        by_us = by_ns // 1000
        # If the clock was set forward, times that were stored since then are right, and must not be shifted: they are
        # later than `before_us`, the time that the old clock would show.
        before_us = self._shift.now_ns // 1000 - by_us

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            cursor.execute(sql.query("move_deliveries"), {"by_us": by_us, "before_us": before_us})
            cursor.execute(sql.query("move_runs"), {"by_us": by_us, "before_us": before_us})
            cursor.execute(sql.query("move_review_leases"), {"by_us": by_us})
            cursor.execute(sql.query("move_metric_monitors"), {"by_us": by_us})

        try:
            self._writer.store(write, 1, frees=True)  # a few rows; otherwise delays would last too long
        except Overloaded as error:
            log.warning("the clock was set by %.1f s; stored times cannot be shifted yet: %s", by_ns / 1e9, error)
        else:
            log.warning("the clock was set by %.1f s; stored times were shifted accordingly", by_ns / 1e9)
            self._moved_ns += by_ns
