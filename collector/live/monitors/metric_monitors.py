"""The thread that watches the metrics of operators' monitors."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from collector.follower import FollowerThread
from collector.live.monitors.metric_looks import BudgetShare, MetricLooker, text_of
from collector.live.monitors.streams import log_text
from storage.alerting.metric_monitors import MetricLook, MetricMonitorRow, MetricMonitors

log = logging.getLogger(__name__)

_TICK_S: Final = 1.0


class MetricMonitorThread:
    """Thread that checks metrics when they are due; the results of checks at the same time are stored together."""

    def __init__(
        self,
        monitors: MetricMonitors,
        budget_share: BudgetShare,
        *,
        ingest_is_behind: Callable[[], bool] = lambda: False,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._monitors = monitors
        self._looker = MetricLooker(monitors, budget_share, clock() // 1000)
        self._ingest_is_behind = ingest_is_behind
        self._clock = clock
        self._looking = threading.Lock()
        self._thread = FollowerThread(
            self._look_if_current,
            name="metric-monitors",
            doing="watching metrics",
            log=log,
            pause_s=_TICK_S,
            waits_first=True,
        )

    def start(self) -> None:
        """Begin with all monitors whose check is due, at the first tick."""
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._thread.close()

    def look_now(self, *, all_of_them: bool = True) -> int:
        """Check all monitors, or those that are due; return the number of results.

        Raises:
            Overloaded: it is unknown whether the results were stored.
        """
        with self._looking:
            now_ns = self._clock()
            rows = self._monitors.watched()
            looks = [look for row in rows if all_of_them or _is_due(row, now_ns) if (look := self._look(row, now_ns))]
            if looks:
                self._monitors.store(looks)
        for happened in (each for look in looks for each in look.happened):
            log.info("%s", log_text(happened))
        return len(looks)

    def _look(self, row: MetricMonitorRow, now_ns: int) -> MetricLook | None:
        try:
            return self._looker.look(row, now_ns)
        except Exception:  # noqa: BLE001 - one broken monitor must not hold up the others
            log.exception("checking the metric monitor %r failed", row.name)
            return None

    def _look_if_current(self) -> None:
        if not self._ingest_is_behind():  # data that are not committed yet would count as missing
            self.look_now(all_of_them=False)


def _is_due(row: MetricMonitorRow, now_ns: int) -> bool:
    if row.is_deleted or row.looked_us is None:
        return True
    return not 0 <= now_ns / 1000 - row.looked_us < text_of(row).interval_s * 1e6
