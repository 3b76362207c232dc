"""The thread that exports results of evaluations as they are stored."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from collector.exporters.answers import Accepted, Endpoint, Rejected, RetryLater
from collector.exporters.events import events
from collector.follower import FollowerThread, IngestPriority
from storage.backoff import backoff_s
from storage.judging.result_export import ExportedResult, ResultsOut

log = logging.getLogger(__name__)

_MOST_BYTES = 1 << 20
"""Size of one request before compression; a larger one is split in two. A guess below the limit of every receiver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportWaits:
    """Waits of the thread, in seconds. All are guesses; the first doubles up to the longest."""

    look_s: float = 1.0  # between checks for new results
    first_s: float = 1.0  # after a request that failed
    longest_s: float = 60.0
    longest_requested_s: float = 3600.0  # a longer requested pause is cut to this
    pause_s: float = 5.0  # after a bug


class ResultsExporter:
    """Exporter of results, at least once, in the order of storage.

    Progress is stored after the receiver has answered: a result sent again after a crash is the same event. While a
    receiver is down, results wait in their table, and nothing else waits for it.
    """

    def __init__(
        self,
        results: ResultsOut,
        endpoint: Endpoint,
        *,
        most: int,
        ingest_is_behind: Callable[[], bool] = lambda: False,
        waits: ExportWaits | None = None,
    ) -> None:
        """Set up the exporter, with at most `most` results in a request."""
        self._results = results
        self._endpoint = endpoint
        self._most = most
        self._ingest_first = IngestPriority(ingest_is_behind)
        self._waits = waits or ExportWaits()
        self._instance = ""
        self._counts: Counter[str] = Counter()
        self._failing = False
        self._thread = FollowerThread(
            self._tell_on, name="results-out", doing="exporting results", log=log, pause_s=self._waits.pause_s
        )

    @property
    def counts(self) -> Mapping[str, int]:
        """Return the results delivered and refused since the start, and the retried requests."""
        return {kind: self._counts[kind] for kind in ("delivered", "refused", "retried")}

    def start(self) -> None:
        """Continue from where the last process stopped."""
        self._thread.start()

    def close(self) -> None:
        """Stop, and cancel the request under way; the next start continues with the rest."""
        self._thread.close(self._endpoint.cancel)
        self._endpoint.close()

    def _tell_on(self) -> None:
        state = self._results.state()
        number, self._instance = state.number, state.instance
        while not self._thread.stopping.is_set():
            self._ingest_first.wait(self._thread.stopping)
            results, until = self._results.page(number, self._most)
            if until == number:
                self._ingest_first.caught_up()
                self._thread.stopping.wait(self._waits.look_s)
            elif self._tell(results):
                self._results.move(number, until)
                number = until

    def _tell(self, results: Sequence[ExportedResult]) -> bool:
        """Send results until the receiver accepts or rejects each; return False if the thread is stopped before."""
        if not results:
            return True
        body = events(results, self._instance).SerializeToString()
        if len(body) > _MOST_BYTES and len(results) > 1:
            return self._tell_halves(results)
        failures = 0
        while not self._thread.stopping.is_set():
            answer = self._endpoint.post(body)
            match answer:
                case Accepted():
                    self._settle(len(results), answer)
                    return True
                case Rejected():
                    return self._part(results, answer)
                case RetryLater():
                    self._note(answer)
                    failures += 1
                    requested_s = min(answer.after_s, self._waits.longest_requested_s)
                    own_s = backoff_s(failures, first_s=self._waits.first_s, longest_s=self._waits.longest_s)
                    self._thread.stopping.wait(max(requested_s, own_s))
                case _:
                    assert_never(answer)
        return False

    def _tell_halves(self, results: Sequence[ExportedResult]) -> bool:
        middle = len(results) // 2
        return self._tell(results[:middle]) and self._tell(results[middle:])

    def _settle(self, count: int, taken: Accepted) -> None:
        rejected = min(taken.rejected, count)
        self._counts["delivered"] += count - rejected
        self._counts["refused"] += rejected
        if rejected:
            log.warning("the receiver of results rejected %d of %d: %s", rejected, count, taken.why)
        if self._failing:
            log.info("exporting results works again")
            self._failing = False

    def _part(self, results: Sequence[ExportedResult], refused: Rejected) -> bool:
        """Bisect a refused request to the refused result, and skip that result."""
        if len(results) > 1:
            return self._tell_halves(results)
        self._counts["refused"] += 1
        log.warning("the receiver of results refuses result %d: %s", results[0].number, refused.why)
        return True

    def _note(self, later: RetryLater) -> None:
        self._counts["retried"] += 1
        if not self._failing:
            log.warning("cannot export results; they wait: %s", later.why)
            self._failing = True
