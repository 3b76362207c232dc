"""The lane of checks: evaluators that ask nobody, in batches, in a process of their own."""

import logging
import threading
import time
from collections.abc import Sequence

from collector.children.process import ChildFailed
from collector.live.jobs.work.desk import HeldJobs, JobContext, Task
from collector.live.jobs.work.examiner import Examined, Examiner
from collector.live.jobs.work.inbox import Inbox
from storage.judging.jobs import Job, JobResult

log = logging.getLogger(__name__)

_HELD = 4096
"""Jobs claimed ahead, so that there is work while the ledger waits for its turn. A guess: two seconds' work."""

_TOGETHER = 1024
_HAND_IN_S = 1.0
"""What is done of a batch is handed in so often at least. A turn of the ledger costs some 15 ms, whatever is in it."""

_SLOW_KINDS = frozenset({"timeout", "killed"})
"""What an evaluator that is too slow for checks fails with."""


class Checks:
    """Examines jobs one batch after the other. A revision that was too slow once gets no more than a job in each."""

    def __init__(self, examiner: Examiner, desk: JobContext) -> None:
        self._examiner = examiner
        self._desk = desk
        self._slow_revisions: set[int] = set()
        self._inbox: Inbox[Task] = Inbox()
        self._common, self._slow = CheckQueue(self, desk, _HELD), CheckQueue(self, desk, 1)
        self._thread = threading.Thread(target=self._run, name="checks", daemon=True)

    def queue_of(self, revision: int) -> "CheckQueue":
        """The queue for jobs of a revision."""
        return self._slow if revision in self._slow_revisions else self._common

    def start(self) -> None:
        """Start examining."""
        self._thread.start()

    def close(self) -> None:
        """Stop; what is not done is handed in as if it had not been claimed."""
        left = self._inbox.close()
        self._examiner.kill()
        self._thread.join()
        self._examiner.close()
        self._desk.hand_back(left)

    def add(self, tasks: Sequence[Task]) -> None:
        """Examine these too."""
        if not self._inbox.put(tasks):
            self._desk.hand_back(tasks)

    def _run(self) -> None:
        while tasks := self._inbox.take(_TOGETHER):
            left = {task.job.job_id: task for task in tasks}
            try:
                self._examine(left)
            except ChildFailed:  # closed
                self._desk.hand_back(list(left.values()))
            except Exception as error:  # noqa: BLE001 - the top of a thread: a bug must not end checking for good
                log.exception("a batch of checks failed")
                self._desk.after_error(left.values(), error)
            self._let_go(tasks)

    def _examine(self, left: dict[int, Task]) -> None:
        done: list[Examined] = []
        handed_in_s = time.monotonic()
        try:
            for examined in self._examiner.examine(list(left.values())):
                done.append(examined)
                if time.monotonic() - handed_in_s > _HAND_IN_S:
                    self._hand_in(done, left)
                    done, handed_in_s = [], time.monotonic()
        finally:
            self._hand_in(done, left)

    def _hand_in(self, done: Sequence[Examined], left: dict[int, Task]) -> None:
        results = [self._result(examined) for examined in done if not examined.postponed]
        for examined in done:
            del left[examined.task.job.job_id]
        self._let_go([examined.task for examined in done])
        self._desk.outlet.finish(results)
        self._desk.hand_back([examined.task for examined in done if examined.postponed])

    def _let_go(self, tasks: Sequence[Task]) -> None:
        for queue in (self._common, self._slow):
            queue.held.let_go(tasks)

    def _result(self, examined: Examined) -> JobResult:
        result = examined.result()
        if result.error_kind in _SLOW_KINDS:
            self._slow_revisions.add(examined.task.job.revision)
        return result


class CheckQueue:
    """Jobs of checks, at most so many at a time."""

    def __init__(self, lane: Checks, desk: JobContext, most: int) -> None:
        self.held = HeldJobs()
        self._lane = lane
        self._desk = desk
        self._most = most

    def room(self) -> int:
        """How many more it takes now."""
        return self._most - len(self.held)

    def pause_s(self) -> float | None:
        """Only jobs that end make room."""
        return None

    def take(self, jobs: Sequence[Job]) -> None:
        """Examine these."""
        tasks = self._desk.tasks(jobs)
        self.held.add(tasks)
        self._lane.add(tasks)
