"""The jobs of one connection to a judge, or of all programs: how many are claimed, and how many are begun."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from collector.live.jobs.work.ahead import ClaimedAhead
from collector.live.jobs.work.job_context import HeldJobs, Task
from collector.live.judges.judge_health import SAYS_NOTHING
from collector.live.judges.judging import Fallback
from evaluators.chat.pace import RETRYABLE
from evaluators.outcome import Failure, Outcome
from storage.judging.jobs import Job

_FAILURES_IN_A_ROW = 3
"""Failures in a row that open the breaker; a single prompt may be too slow for an endpoint. A guess."""


@dataclass(slots=True, kw_only=True)
class Breaker:
    """Circuit breaker: counts the failures of a connection since its last answer.

    After enough failures, or a pause that the endpoint requested, the connection is down: no requests until the pause
    is over, then one job at a time, until one is answered. The pauses grow up to a limit.
    """

    wait_s: Callable[[int, float | None], float]  # length of a pause, by its number and the endpoint's request
    failures: int = field(default=0, init=False)
    pauses: int = field(default=0, init=False)
    resumes_s: float = field(default=0.0, init=False)
    down_since_s: float | None = field(default=None, init=False)
    pause_until_s: float = field(default=0.0, init=False)  # end of the pause that the endpoint requested

    def room(self, now_s: float, in_flight: int, running: int) -> int:
        """Return how many more jobs may be begun."""
        if self.down_since_s is not None:
            in_flight = 0 if now_s < self.resumes_s else 1
        return max(in_flight - running, 0)

    def is_down(self, now_s: float) -> bool:
        """Return True while no requests are sent."""
        return self.down_since_s is not None and now_s < self.resumes_s

    def answered(self, now_s: float) -> None:
        """Note an answer. A pause that the endpoint requested goes on: the answer may be to an earlier request."""
        if now_s < self.pause_until_s:
            return
        self.failures = self.pauses = 0
        self.down_since_s = None

    def failed(self, now_s: float, *, requested_s: float | None, asks_for_pause: bool) -> None:
        """Note a failure."""
        self.failures += 1
        if self.down_since_s is None and not asks_for_pause and self.failures < _FAILURES_IN_A_ROW:
            return
        if self.down_since_s is None:
            self.down_since_s = now_s
        if now_s >= self.resumes_s:  # of simultaneous failures, only the first extends the pause
            self.pauses += 1
            self.resumes_s = now_s + self.wait_s(self.pauses, requested_s)
        elif requested_s is not None:
            self.resumes_s = max(self.resumes_s, now_s + self.wait_s(self.pauses, requested_s))
        if requested_s is not None:
            self.pause_until_s = self.resumes_s

    def down_for_s(self, now_s: float) -> float | None:
        """Return for how many seconds the connection has been down; None if it is not."""
        return None if self.down_since_s is None else now_s - self.down_since_s


LEFT_OUT: Final = frozenset({"over_budget", "rule_disabled", "rule_deleted"})
"""Failures without an evaluation: their jobs are stored as skipped."""

NOT_THE_JUDGES: Final = SAYS_NOTHING | {"evaluator_error"}
"""Failures that do not show whether a connection works."""


class Executor(Protocol):
    """Executor of the jobs of a queue."""

    def now_s(self) -> float:
        """Return the time of the clock for pauses."""

    def tasks(self, jobs: Sequence[Job]) -> list[Task]:
        """Return the tasks of jobs whose rule is active; hand in the other jobs as failed or skipped."""

    def begin(self, line: "ConnectionQueue", tasks: Sequence[Task]) -> None:
        """Evaluate tasks."""

    def room_to_prepare(self) -> int:
        """Return how many more jobs can be prepared now."""

    def prepare(self, jobs: Sequence[Job]) -> None:
        """Prepare jobs that will begin soon, or be handed back."""

    def hand_back(self, jobs: Sequence[Job]) -> None:
        """Put jobs back as if they had not been claimed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConnectionQueue:
    """Queue of the jobs of one connection, or of all programs."""

    executor: Executor
    in_flight: Callable[[], int]
    breaker: Breaker | None  # None for programs
    passing: frozenset[str]  # kinds of failure that a retry may not meet again
    connection_id: str | None = None  # None for programs
    fallback: Callable[[], Fallback | None] = lambda: None  # used while the connection is unavailable
    rest_s: float = 0.0  # longest pause of the ledger between two turns
    held: HeldJobs = field(default_factory=HeldJobs)  # jobs that were begun
    ahead: ClaimedAhead = field(default_factory=ClaimedAhead)  # claimed jobs that wait for a begun one to end
    _beginning: threading.Lock = field(default_factory=threading.Lock)
    _looked_s: list[float] = field(default_factory=list)  # when `room` was called in this turn

    def room(self) -> int:
        """Return how many more jobs may be claimed: those that can begin, and some ahead while the connection works."""
        self._looked_s[:] = [self.executor.now_s()]
        free, in_flight = self._free(), self.in_flight()
        if self.breaker is not None and self.breaker.down_since_s is not None and self.fallback() is None:
            return max(free - len(self.ahead), 0)
        return max(in_flight - len(self.held) + self.ahead.room(in_flight), 0)

    def pause_s(self) -> float | None:
        """Return in how many seconds a connection that is down is tried again; None otherwise."""
        if self.breaker is None or self.breaker.down_since_s is None or self.held:
            return None
        return max(self.breaker.resumes_s - self.executor.now_s(), 0.0)

    def take(self, jobs: Sequence[Job]) -> None:
        """Begin jobs as soon as there is room for them."""
        self.ahead.add(jobs)
        for looked_s in self._looked_s:
            self.ahead.note_turn(self.executor.now_s() - looked_s + self.rest_s)
        self.begin_more()

    def begin_more(self) -> None:
        """Begin claimed jobs; while neither the connection nor its fallback is available, give the rest back."""
        with self._beginning:
            begun: list[Task] = []
            while (free := self._free() - len(begun)) > 0 and (jobs := self.ahead.take(free)):
                begun += self.executor.tasks(jobs)
            self.held.add(begun, now_s=self.executor.now_s())
            left = self.ahead.take(len(self.ahead)) if self.is_down() else []
            coming = self.ahead.coming(self.executor.room_to_prepare()) if self.ahead else []
            if coming:  # before another thread can begin them, which would leave the prepared cases behind
                self.executor.prepare(coming)
        if begun:
            self.executor.begin(self, begun)
        if left:
            self.executor.hand_back(left)

    def end(self, task: Task, *, has_result: bool = False) -> None:
        """Remove a job that ended; its duration decides how many are claimed ahead."""
        for begun_s in self.held.let_go([task]):
            if has_result:
                self.ahead.note_end(self.executor.now_s() - begun_s)

    def is_down(self) -> bool:
        """Return True while neither the connection nor its fallback can be used."""
        return self.breaker is not None and self.breaker.is_down(self.executor.now_s()) and self.fallback() is None

    def note(self, answer: "JobAnswer") -> None:
        """Note whether an answer shows that the connection works."""
        outcome = answer.outcome if answer.fallback is None else answer.missed
        if self.breaker is None or outcome is None:
            return
        if not isinstance(outcome, Failure):
            if outcome.usage is not None:
                self.breaker.answered(self.executor.now_s())
        elif outcome.kind in RETRYABLE or answer.fallback is not None:
            asks = outcome.kind == "rate_limited"
            self.breaker.failed(self.executor.now_s(), requested_s=outcome.retry_after_s, asks_for_pause=asks)
        elif outcome.kind not in NOT_THE_JUDGES:
            self.breaker.answered(self.executor.now_s())

    def _free(self) -> int:
        in_flight, running = self.in_flight(), len(self.held)
        if self.breaker is None or (self.breaker.down_since_s is not None and self.fallback() is not None):
            return max(in_flight - running, 0)
        return self.breaker.room(self.executor.now_s(), in_flight, running)


class JobAnswer(NamedTuple):
    """Answer of an evaluator to a job."""

    outcome: Outcome
    model: str | None = None  # that the judge requests
    fallback: Fallback | None = None  # the connection that was used instead
    missed: Outcome | None = None  # outcome of the connection itself before that; None if it was not tried
    of_jury: ConnectionQueue | None = None  # of several judges: the queue of the one that failed, or else the first
