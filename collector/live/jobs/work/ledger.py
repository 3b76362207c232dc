"""The ledger thread: claims, results and returned jobs of all workers share its transactions."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import pyarrow as pa

from collector.follower import CatchUpBarrier, WaitLog
from collector.live.jobs.work.retry_policy import (
    MICROSECONDS,
    Clock,
    RetryPolicy,
    day_that_began,
    microseconds,
    start_of,
)
from collector.live.judges.judge_health import JudgedTarget
from storage.errors import Overloaded
from storage.judging.job_results import JobResult
from storage.judging.jobs import Claim, Job, Jobs, LedgerTurn, RequeuedJob

_EVERY_S: Final = 10.0
"""A guess: an operator who waits for a restart reads the log."""


class LeftOver:
    """Log of the evaluations that waited at the start: their number, then the rest every ten seconds, and the end."""

    def __init__(self, jobs: Jobs, clock: Clock) -> None:
        self._jobs = jobs
        self._clock = clock
        self._began_s = self._next_s = 0.0
        self._until: int | None = None  # the number of the last job that waited; None: nothing left to log
        self._count = 0

    def begin(self) -> None:
        """Count the waiting evaluations."""
        self._count, last_job = self._jobs.left()
        self._began_s = self._clock()
        self._next_s = self._began_s + _EVERY_S
        if self._count:
            self._until = last_job
            log.info("resuming %d evaluations from before this start", self._count)

    def tell(self, *, is_idle: bool) -> None:
        """Log how many of the evaluations are left, at intervals, and once none is left."""
        is_time = self._clock() >= self._next_s
        if self._until is None or not (is_idle or is_time):
            return
        left, _ = self._jobs.left(self._until)
        took_s = self._clock() - self._began_s
        if not left:
            log.info("all %d resumed evaluations are done after %.1f s", self._count, took_s)
            self._until = None
        elif is_time:
            log.info("%d of %d resumed evaluations are left after %.0f s", left, self._count, took_s)
            self._next_s = self._clock() + _EVERY_S


log = logging.getLogger(__name__)

_DAYS_TAKEN_UP = 7
"""Days for which evaluations that were skipped over budget are retried. A guess."""

_PAUSE_S = 1.0
"""Pause after a turn that could not be stored. A guess."""


REST_S: Final = 0.2
"""Longest pause after a turn with work: results handed in meanwhile share the next one. A turn takes 5 to 15 ms of
processor time whatever is in it, and without a pause one followed the other while judges answered."""

_RESTS: Final = 3
"""Pause before the next turn, in multiples of the duration of the last one; `REST_S` at most."""


GATHER_S: Final = 0.5
"""Time for which results wait to be stored together, unless jobs are to be claimed or a caller waits: a turn takes six
statements whatever its size, and monitors read what it stored. A guess.
"""


class Queue(Protocol):
    """Queue of the jobs of one executor."""

    def room(self) -> int:
        """Return how many more jobs it takes now."""

    def pause_s(self) -> float | None:
        """Return in how many seconds it may have room without an ended job; None if only that makes room."""

    def take(self, jobs: Sequence[Job]) -> None:
        """Evaluate jobs; hand in the result of each. Does not block."""


_JUDGED: Final = ("job_id", "outcome", "error_kind", "reason", "judge_calls")
"""Columns of results that show whether a judge or check works."""


@dataclass(slots=True)
class _HandedIn:
    finished: list[JobResult] = field(default_factory=list)
    rows: list[pa.Table] = field(default_factory=list)  # of results
    put_back: list[RequeuedJob] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.finished or self.rows or self.put_back)

    def add(self, more: "_HandedIn") -> None:
        """Append what was handed in later."""
        self.finished += more.finished
        self.rows += more.rows
        self.put_back += more.put_back

    def judged(self) -> Iterator[tuple[int, JudgedTarget]]:
        """Yield the outcomes of evaluated jobs, by number."""
        for each in self.finished:
            was_called = each.judge_calls is not None
            kind, reason = each.error_kind, each.reason or ""
            yield each.job_id, JudgedTarget(each.job_id, each.outcome, kind, reason, was_called, has_ended=True)
        for table in self.rows:
            for row in zip(*(table.column(name).to_pylist() for name in _JUDGED), strict=True):
                job_id, outcome, kind, reason, calls = row
                yield job_id, JudgedTarget(job_id, outcome, kind, reason or "", calls is not None, has_ended=True)
        for job in self.put_back:
            if job.error_kind is not None:
                yield job.job_id, JudgedTarget(job.job_id, "failed", job.error_kind, job.error or "")

    @property
    def job_ids(self) -> set[int]:
        alone = {result.job_id for result in self.finished} | {job.job_id for job in self.put_back}
        return alone.union(*(table.column("job_id").to_pylist() for table in self.rows))


class Ledger:
    """Claimer of jobs for queues with room, which stores their results in the same transactions.

    During a transaction, which takes a second under full ingest, results and claims for the next one gather. A failed
    turn is repeated: results that it stored nonetheless are not stored twice, and jobs that it claimed are free again
    when the lease ends.
    """

    def __init__(
        self,
        jobs: Jobs,
        route: Callable[[int], Queue],
        note: Callable[[int, JudgedTarget], None],
        *,
        clock: Clock,
        retry_policy: RetryPolicy,
    ) -> None:
        """Set up the ledger. `route` returns the queue of a revision; `note` gets each outcome and failure."""
        self._jobs = jobs
        self._route = route
        self._note = note
        self._clock = clock
        self._retry_policy = retry_policy
        self._held: dict[int, int] = {}  # revisions by job
        self._handed_in = _HandedIn()
        self._handed_in_s = 0.0  # when the first of `_handed_in` arrived
        self._changed = threading.Condition()
        self._woken = False
        self._stopping = threading.Event()
        self._caught_up = CatchUpBarrier()
        self._renew_at_s = 0.0
        self._day: int | None = None  # last day for which `_begin_day` retried
        self._left_over = LeftOver(jobs, clock)
        self._thread = threading.Thread(target=self._run, name="jobs", daemon=True)

    def start(self) -> None:
        """Free what an earlier process had claimed, and begin.

        Raises:
            Overloaded: the database cannot be written.
        """
        longest_wait_us = microseconds(max(self._retry_policy.longest_wait_s, self._retry_policy.longest_requested_s))
        self._jobs.release_all(now_us=microseconds(self._clock()), longest_wait_us=longest_wait_us)
        self._left_over.begin()
        self._thread.start()

    def stop_claiming(self) -> None:
        """Claim no more jobs."""
        self._stopping.set()
        self.wake()

    def close(self) -> None:
        """Store the results handed in so far, and end. Call it once the queues have stopped, after `stop_claiming`."""
        self.stop_claiming()
        self._thread.join()
        left = self._take_handed_in()
        if left:
            log.warning(
                "the results of %d jobs could not be stored; the jobs will be evaluated again", len(left.job_ids)
            )

    def wake(self) -> None:
        """Signal new jobs, or room for them."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def finish(self, results: Sequence[JobResult]) -> None:
        """Have results stored."""
        self._hand_in(_HandedIn(finished=list(results)))

    def finish_rows(self, results: pa.Table) -> None:
        """Have results stored that are rows with the columns of `job_results.RESULTS`."""
        if results.num_rows:
            self._hand_in(_HandedIn(rows=[results]))

    def put_back(self, jobs: Sequence[RequeuedJob]) -> None:
        """Have jobs put back for another attempt."""
        self._hand_in(_HandedIn(put_back=list(jobs)))

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until all jobs are done that can be done now; False when that took too long."""
        return self._caught_up.wait(timeout_s, self.wake)

    def _hand_in(self, more: _HandedIn) -> None:
        for job_id, judged in more.judged():
            revision = self._held.get(job_id)
            if revision is not None:
                self._note(revision, judged)
        with self._changed:
            if not self._handed_in:
                self._handed_in_s = time.monotonic()  # real time, also if a test sets `clock`
            self._handed_in.add(more)
            self._woken = True
            self._changed.notify_all()

    def _run(self) -> None:
        stop_at_s: float | None = None
        waits = WaitLog(log, "jobs wait: %s")
        while True:
            if self._stopping.is_set():
                stop_at_s = stop_at_s or self._clock() + self._retry_policy.stop_s
                if not self._held or self._clock() >= stop_at_s:
                    return
            began_s, rest_s = self._clock(), 0.0
            try:
                pause_s = self._step()
                waits.end()
                if not pause_s:
                    rest_s = min(_RESTS * (self._clock() - began_s), REST_S)
            except Overloaded as error:
                waits.note(error)
                pause_s = _PAUSE_S
            except Exception:  # noqa: BLE001 - the top of a thread: a bug must not end evaluation for good
                log.exception("the job ledger failed; will retry")
                pause_s = _PAUSE_S
            self._stopping.wait(rest_s)
            with self._changed:
                self._changed.wait_for(lambda: self._woken, pause_s)

    def _step(self) -> float:
        """Check once, and do one turn if there is work; return in how many seconds to check again."""
        with self._changed:
            requested, self._woken = self._caught_up.requested, False
        now_s = self._clock()
        claims, next_s = ([], None) if self._stopping.is_set() else self._claims(now_s)
        if not claims and (left_s := self._gather_s()) > 0:
            return left_s if next_s is None else min(left_s, max(next_s, 0.001))
        handed_in = self._take_handed_in()
        is_time = now_s >= self._renew_at_s
        renews = is_time and (bool(self._held) or self._jobs.are_claimed())
        self._left_over.tell(is_idle=not (self._held or claims or handed_in))
        if handed_in or claims or renews:
            self._take_turn(now_s, handed_in, claims, renews=renews)
        if is_time:
            self._begin_day(now_s)
            self._renew_at_s = now_s + self._retry_policy.lease_s / 3
        if claims or handed_in:
            return 0.0
        if not self._held:
            with self._changed:
                if not self._woken:
                    self._caught_up.tell(requested)
        return min(self._retry_policy.look_s, self._retry_policy.look_s if next_s is None else max(next_s, 0.001))

    def _gather_s(self) -> float:
        with self._changed:
            if not self._handed_in or self._stopping.is_set() or self._caught_up.is_awaited:
                return 0.0
            return self._handed_in_s + GATHER_S - time.monotonic()

    def _claims(self, now_s: float) -> tuple[list[tuple[Queue, Claim]], float | None]:
        """Return the claim for each queue, and in how many seconds to check again."""
        revisions: dict[Queue, list[int]] = {}
        later: list[float] = []
        for waiting in self._jobs.waiting(microseconds(now_s)):
            if waiting.due:
                revisions.setdefault(self._route(waiting.revision), []).append(waiting.revision)
            if waiting.next_us is not None:
                later.append(waiting.next_us / MICROSECONDS - now_s)
        claims = []
        for queue, of_queue in revisions.items():
            room = queue.room()
            if room > 0:
                claims.append((queue, Claim(revisions=of_queue, jobs=room)))
            elif (pause_s := queue.pause_s()) is not None:
                later.append(pause_s)
        return claims, min(later, default=None)

    def _take_turn(
        self, now_s: float, handed_in: _HandedIn, claims: Sequence[tuple[Queue, Claim]], *, renews: bool
    ) -> None:
        done = handed_in.job_ids
        turn = LedgerTurn(
            now_us=microseconds(now_s),
            until_us=microseconds(now_s + self._retry_policy.lease_s),
            finished=handed_in.finished,
            results=handed_in.rows,
            put_back=handed_in.put_back,
            held=sorted(self._held.keys() - done) if renews else (),
            sweeps=renews,
            claims=[claim for _, claim in claims],
        )
        try:
            claimed = self._jobs.take_turn(turn)
        except BaseException:  # raised again: the results that were handed in are kept for the next turn
            with self._changed:
                handed_in.add(self._handed_in)
                self._handed_in = handed_in
            raise
        for job_id in done:
            self._held.pop(job_id, None)
        for (queue, _), jobs in zip(claims, claimed, strict=True):
            self._held.update((job.job_id, job.revision) for job in jobs)
            if jobs:
                queue.take(jobs)

    def _begin_day(self, now_s: float) -> None:
        """Retry, once a day, the evaluations that budgets left out on earlier days, if the policy allows it."""
        day = day_that_began(now_s)
        if day == self._day or not self._retry_policy.retries_over_budget:
            return
        jobs = self._jobs.retry_over_budget(
            after_us=start_of(day - _DAYS_TAKEN_UP), before_us=start_of(day), now_us=microseconds(now_s)
        )
        self._day = day
        if jobs:
            log.info("retrying %d evaluations of earlier days that were over budget", jobs)
            self.wake()

    def _take_handed_in(self) -> _HandedIn:
        with self._changed:
            taken, self._handed_in = self._handed_in, _HandedIn()
        return taken
