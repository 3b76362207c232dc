"""The jobs of a connection: how many are claimed ahead of those that are under way, and what becomes of them."""

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from collector.live.active import ActiveRule
from collector.live.jobs.work.connection_queue import Breaker, ConnectionQueue
from collector.live.jobs.work.job_context import Task
from collector.live.judges.judging import Fallback
from storage.judging.jobs import Job
from tests.connecting import an_active_rule

RULE = an_active_rule()
A_JOB = Job(
    job_id=0,
    revision=1,
    seq=0,
    tenant="",
    project=None,
    trace_id="0" * 32,
    span_id=None,
    session_id=None,
    attempts=1,
)


@dataclass
class VirtualExecutor:
    """An executor with fixed durations of jobs, on a clock that jumps to the next event."""

    takes_s: float = 1.0
    rule_of: Callable[[Job], ActiveRule | None] = lambda _: RULE
    clock_s: float = 0.0
    busy_s: float = 0.0
    has_ended: bool = False
    begun: list[int] = field(default_factory=list)
    handed_back: list[int] = field(default_factory=list)
    prepared: list[int] = field(default_factory=list)
    coming: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def now_s(self) -> float:
        """Return the time."""
        return self.clock_s

    def tasks(self, jobs: Sequence[Job]) -> list[Task]:
        """Build tasks for the jobs whose rule exists."""
        ruled = [(job, self.rule_of(job)) for job in jobs]
        return [Task(job, active) for job, active in ruled if active is not None]

    def begin(self, line: ConnectionQueue, tasks: Sequence[Task]) -> None:
        """Let each end when its time is over."""
        for task in tasks:
            self.begun.append(task.job.job_id)
            self.at(self.takes_s, partial(self._end, line, task))

    def room_to_prepare(self) -> int:
        """Return as many as a real executor prepares at a time."""
        return 64

    def prepare(self, jobs: Sequence[Job]) -> None:
        """Record the prepared jobs."""
        self.prepared += [job.job_id for job in jobs]

    def hand_back(self, jobs: Sequence[Job]) -> None:
        """Note which."""
        self.handed_back += [job.job_id for job in jobs]

    def at(self, in_s: float, act: Callable[[], None]) -> None:
        """Do something later."""
        heapq.heappush(self.coming, (self.clock_s + in_s, next(self.numbers), act))

    def step(self) -> None:
        """Go to what happens next."""
        self.clock_s, _, act = heapq.heappop(self.coming)
        act()

    def _end(self, line: ConnectionQueue, task: Task) -> None:
        self.busy_s += self.takes_s
        self.has_ended = True
        line.end(task, has_result=True)
        line.begin_more()


def a_queue(executor: VirtualExecutor, in_flight: int = 1, **more: object) -> ConnectionQueue:
    """Build a queue of an executor."""
    parts: dict[str, object] = {"breaker": None, "passing": frozenset()}
    return ConnectionQueue(executor=executor, in_flight=lambda: in_flight, **(parts | more))  # type: ignore[arg-type]


def jobs(*numbers: int) -> list[Job]:
    """Return jobs of these numbers."""
    return [replace(A_JOB, job_id=number) for number in numbers]


def utilisation(executor: VirtualExecutor, in_flight: int, turn_s: float) -> tuple[float, int]:
    """Return the settled share of time that slots are busy, and the maximum number of jobs claimed ahead.

    There are always jobs to claim. A turn of the ledger follows the other while something ended or can be claimed.
    """
    queue, numbers, most_ahead = a_queue(executor, in_flight), itertools.count(1), 0
    is_under_way = False
    until_s = 100 * max(executor.takes_s, turn_s)

    def look() -> None:
        nonlocal is_under_way
        room = queue.room()
        is_under_way = room > 0 or executor.has_ended
        executor.has_ended = False
        if is_under_way:
            executor.at(turn_s, lambda: stored(room))

    def stored(room: int) -> None:
        if room:
            queue.take(jobs(*itertools.islice(numbers, room)))
        look()

    look()
    began_s = 0.0
    while executor.clock_s < until_s:
        executor.step()
        if executor.has_ended and not is_under_way:
            look()
        if not began_s and executor.clock_s > until_s / 2:
            began_s, executor.busy_s, most_ahead = executor.clock_s, 0.0, 0
        most_ahead = max(most_ahead, len(queue.ahead))
    assert executor.begun == sorted(executor.begun)
    return executor.busy_s / ((executor.clock_s - began_s) * in_flight), most_ahead


@pytest.mark.costly("collector/live/budgets", "collector/live/jobs", "collector/live/judges")
@pytest.mark.parametrize("in_flight", [1, 2, 8, 32])
@pytest.mark.parametrize(
    "takes_s, turn_s", [(0.02, 0.015), (0.02, 1), (0.3, 0.015), (1, 0.3), (1, 2), (10, 0.015), (10, 2)]
)
def test_whoever_is_asked_is_kept_busy(in_flight: int, takes_s: float, turn_s: float) -> None:
    """However long a turn of the ledger takes beside an evaluation, and whatever runs at once, no slot idles."""
    busy, most_ahead = utilisation(VirtualExecutor(takes_s=takes_s), in_flight, turn_s)
    assert busy > 0.95, f"slots are busy {busy:.0%} of the time"
    assert most_ahead <= 3 * in_flight * turn_s / takes_s + 2, "no more than is needed is claimed"


def test_nothing_is_claimed_ahead_before_something_ended() -> None:
    """The first claim is what can be under way, and only results make room for more."""
    executor = VirtualExecutor()
    queue = a_queue(executor, 3)
    assert queue.room() == 3
    queue.take(jobs(1, 2, 3))
    assert (queue.room(), executor.begun) == (0, [1, 2, 3])
    queue.end(Task(jobs(1)[0], RULE))
    queue.begin_more()
    queue.take(jobs(4))
    assert (queue.room(), executor.begun) == (0, [1, 2, 3, 4])


def a_breaker() -> Breaker:
    """Return one whose pauses take ten seconds."""
    return Breaker(wait_s=lambda _failures, _requested_s: 10.0)


@pytest.mark.parametrize("other", [None, Fallback(connection_id="2", name="other")])
def test_what_waits_for_a_connection_that_is_down_is_handed_back(other: Fallback | None) -> None:
    """It is claimed again once the connection works again; with a fallback it goes on."""
    executor, breaker = VirtualExecutor(), a_breaker()
    queue = a_queue(executor, 2, breaker=breaker, fallback=lambda: other)
    queue.take(jobs(1, 2))
    for _ in range(2):
        executor.step()
    queue.take(jobs(3, 4, 5, 6))
    assert (executor.begun, len(queue.ahead)) == ([1, 2, 3, 4], 2)
    breaker.failed(executor.now_s(), requested_s=None, asks_for_pause=True)
    queue.end(Task(jobs(3)[0], RULE))
    queue.begin_more()
    if other is not None:
        assert (executor.handed_back, executor.begun) == ([], [1, 2, 3, 4, 5])
        return
    assert (executor.handed_back, len(queue.ahead), queue.room()) == ([5, 6], 0, 0)
    queue.end(Task(jobs(4)[0], RULE))
    assert queue.pause_s() == pytest.approx(10)
    executor.clock_s += 10
    assert queue.room() == 1, "one alone finds out whether it works again"
    queue.take(jobs(5))
    assert (executor.begun[-1], queue.room()) == (5, 0)


def test_a_rule_that_is_gone_holds_up_nothing() -> None:
    """Jobs that are not to be done any more take no slot of those behind them."""
    executor = VirtualExecutor()
    queue = a_queue(executor, 1)
    queue.take(jobs(1))
    executor.step()
    queue.take(jobs(2, 3, 4))
    executor.rule_of = lambda job: RULE if job.job_id == 4 else None
    executor.step()
    assert executor.begun == [1, 2, 4]


def test_what_is_claimed_ahead_is_prepared_once() -> None:
    """In the order in which it will begin, what begins at once left out."""
    executor = VirtualExecutor()
    queue = a_queue(executor, 1)
    queue.take(jobs(*range(1, 101)))
    assert (executor.begun, executor.prepared) == ([1], [*range(2, 66)])
    for _ in range(40):
        executor.step()
    queue.take(jobs(101))
    assert executor.begun == [*range(1, 42)]
    assert executor.prepared == [*range(2, 102)]
