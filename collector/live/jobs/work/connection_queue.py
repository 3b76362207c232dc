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
"""So many open the breaker, since one prompt alone may be what an endpoint is too slow for. A guess."""


@dataclass(slots=True, kw_only=True)
class Breaker:
    """Counts the failures of a connection since it answered last.

    Once it has failed often enough, or said itself that it wants a pause, it is down: nothing is asked until a pause is
    over, then one job at a time, until one is answered. Each pause is longer than the one before.
    """

    wait_s: Callable[[int, float | None], float]  # after so many failures, and what the endpoint asked for
    failures: int = field(default=0, init=False)
    pauses: int = field(default=0, init=False)
    resumes_s: float = field(default=0.0, init=False)
    down_since_s: float | None = field(default=None, init=False)
    asked_until_s: float = field(default=0.0, init=False)  # the end of the pause that the endpoint itself wants

    def room(self, now_s: float, in_flight: int, running: int) -> int:
        """How many more jobs may be begun."""
        if self.down_since_s is not None:
            in_flight = 0 if now_s < self.resumes_s else 1
        return max(in_flight - running, 0)

    def is_down(self, now_s: float) -> bool:
        """Whether nothing is asked at this moment."""
        return self.down_since_s is not None and now_s < self.resumes_s

    def answered(self, now_s: float) -> None:
        """It works; that does not end a pause that it asked for, since what was under way then is answered in it."""
        if now_s < self.asked_until_s:
            return
        self.failures = self.pauses = 0
        self.down_since_s = None

    def failed(self, now_s: float, *, asked_s: float | None, asks_for_pause: bool) -> None:
        """It did not answer."""
        self.failures += 1
        if self.down_since_s is None and not asks_for_pause and self.failures < _FAILURES_IN_A_ROW:
            return
        if self.down_since_s is None:
            self.down_since_s = now_s
        if now_s >= self.resumes_s:  # of several that fail together, the first one makes the pause longer
            self.pauses += 1
            self.resumes_s = now_s + self.wait_s(self.pauses, asked_s)
        elif asked_s is not None:
            self.resumes_s = max(self.resumes_s, now_s + self.wait_s(self.pauses, asked_s))
        if asked_s is not None:
            self.asked_until_s = self.resumes_s

    def down_for_s(self, now_s: float) -> float | None:
        """Since when it is down; None while it is not."""
        return None if self.down_since_s is None else now_s - self.down_since_s


LEFT_OUT: Final = frozenset({"over_budget", "rule_disabled", "rule_deleted"})
"""Failures that are none of the evaluation: it was not made."""

NOT_THE_JUDGES: Final = SAYS_NOTHING | {"evaluator_error"}
"""Failures that say nothing of whether a connection works."""


class Executor(Protocol):
    """Who evaluates the jobs of a queue."""

    def now_s(self) -> float:
        """The time by which pauses are told."""

    def tasks(self, jobs: Sequence[Job]) -> list[Task]:
        """The jobs that are to be done; the others are handed in."""

    def begin(self, line: "ConnectionQueue", tasks: Sequence[Task]) -> None:
        """Evaluate these."""

    def room_to_prepare(self) -> int:
        """How many more jobs can be prepared now."""

    def prepare(self, jobs: Sequence[Job]) -> None:
        """Do for these what can be done before they begin, as they will, or are handed back."""

    def hand_back(self, jobs: Sequence[Job]) -> None:
        """Hand in jobs as if they had not been claimed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConnectionQueue:
    """Jobs of one connection, or of all programs."""

    executor: Executor
    in_flight: Callable[[], int]
    breaker: Breaker | None  # None for programs
    passing: frozenset[str]  # kinds of failure that a few more attempts may not meet, whoever is to blame
    connection_id: str | None = None  # None for programs
    fallback: Callable[[], Fallback | None] = lambda: None  # who is asked where nobody answers here
    rest_s: float = 0.0  # of the ledger between two turns, at most
    held: HeldJobs = field(default_factory=HeldJobs)  # that were begun
    ahead: ClaimedAhead = field(default_factory=ClaimedAhead)  # that wait for one of those to end
    _beginning: threading.Lock = field(default_factory=threading.Lock)
    _looked_s: list[float] = field(default_factory=list)  # when room was looked for, of a turn that is under way

    def room(self) -> int:
        """How many more jobs may be claimed now: those that can be begun, and while it works some ahead."""
        self._looked_s[:] = [self.executor.now_s()]
        free, in_flight = self._free(), self.in_flight()
        if self.breaker is not None and self.breaker.down_since_s is not None and self.fallback() is None:
            return max(free - len(self.ahead), 0)
        return max(in_flight - len(self.held) + self.ahead.room(in_flight), 0)

    def pause_s(self) -> float | None:
        """When the connection is asked again, where it is down."""
        if self.breaker is None or self.breaker.down_since_s is None or self.held:
            return None
        return max(self.breaker.resumes_s - self.executor.now_s(), 0.0)

    def take(self, jobs: Sequence[Job]) -> None:
        """Begin these as soon as they can be."""
        self.ahead.add(jobs)
        for looked_s in self._looked_s:
            self.ahead.note_turn(self.executor.now_s() - looked_s + self.rest_s)
        self.begin_more()

    def begin_more(self) -> None:
        """Begin what can be begun now of what was claimed; while nobody can be asked the rest is claimed by nobody."""
        with self._beginning:
            begun: list[Task] = []
            while (free := self._free() - len(begun)) > 0 and (jobs := self.ahead.take(free)):
                begun += self.executor.tasks(jobs)
            self.held.add(begun, now_s=self.executor.now_s())
            left = self.ahead.take(len(self.ahead)) if self.is_down() else []
            coming = self.ahead.coming(self.executor.room_to_prepare()) if self.ahead else []
            if coming:  # before another thread can begin them, which would leave behind what is prepared
                self.executor.prepare(coming)
        if begun:
            self.executor.begin(self, begun)
        if left:
            self.executor.hand_back(left)

    def end(self, task: Task, *, has_result: bool = False) -> None:
        """Let go of a job; how long one took that has a result decides how many are claimed ahead."""
        for begun_s in self.held.let_go([task]):
            if has_result:
                self.ahead.note_end(self.executor.now_s() - begun_s)

    def is_down(self) -> bool:
        """Whether nobody can be asked at this moment, here or instead."""
        return self.breaker is not None and self.breaker.is_down(self.executor.now_s()) and self.fallback() is None

    def note(self, answer: "JobAnswer") -> None:
        """Note what an answer says of whether the connection works."""
        outcome = answer.outcome if answer.fallback is None else answer.missed
        if self.breaker is None or outcome is None:
            return
        if not isinstance(outcome, Failure):
            if outcome.usage is not None:
                self.breaker.answered(self.executor.now_s())
        elif outcome.kind in RETRYABLE or answer.fallback is not None:
            asks = outcome.kind == "rate_limited"
            self.breaker.failed(self.executor.now_s(), asked_s=outcome.retry_after_s, asks_for_pause=asks)
        elif outcome.kind not in NOT_THE_JUDGES:
            self.breaker.answered(self.executor.now_s())

    def _free(self) -> int:
        """How many more jobs can be begun now."""
        in_flight, running = self.in_flight(), len(self.held)
        if self.breaker is None or (self.breaker.down_since_s is not None and self.fallback() is not None):
            return max(in_flight - running, 0)
        return self.breaker.room(self.executor.now_s(), in_flight, running)


class JobAnswer(NamedTuple):
    """What an evaluator says of a job."""

    outcome: Outcome
    model: str | None = None  # that its judge asks for
    fallback: Fallback | None = None  # over which it was asked instead
    missed: Outcome | None = None  # what came of the connection itself before that; None where it was not asked
    of_jury: ConnectionQueue | None = None  # of several judges: the queue of the one that failed, or else the first
