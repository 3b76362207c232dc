"""The executor of checks, which need no model: in batches, in child processes."""

import logging
import threading
import time
from collections.abc import Sequence

import pyarrow as pa

from collector.children.process import ChildFailed
from collector.live.jobs.work.examiner import Examiner, JudgedJobs
from collector.live.jobs.work.inbox import Inbox
from collector.live.jobs.work.job_context import HeldJobs, JobContext, Task
from storage.judging.jobs import Job

log = logging.getLogger(__name__)

_HELD = 16_384
"""Jobs claimed ahead, so that there is work while the ledger waits for its turn. A guess: two seconds' work."""

_TOGETHER = 2048
"""Jobs of a batch; the rows of the next targets are read meanwhile. Few enough that the processes end together, and
enough that they seldom pause between two batches: a guess.
"""

_HELPS_BEYOND = 1024
"""A second process helps if more jobs than this wait, a third if twice as many, and so on. The first does as many in a
quarter of a second; a start takes half a second of processor time, and 120 MB, 65 of them unshared. A guess.
"""

_HAND_IN_S = 0.25
"""Interval at which results of a batch are handed in. A turn of the ledger costs some 15 ms, whatever is in it."""

_SLOW_KINDS = frozenset({"timeout", "killed"})
"""Kinds of failure of an evaluator that is too slow for checks."""


class Checks:
    """Executor of checks in batches, one in each process at a time; processes after the first help if many jobs wait.

    Revisions that were too slow once share a queue of one job at a time.
    """

    def __init__(self, examiners: Sequence[Examiner], job_context: JobContext) -> None:
        self._examiners = examiners
        self._job_context = job_context
        self._slow_revisions: set[int] = set()
        self._inbox: Inbox[Task] = Inbox()
        self._common, self._slow = CheckQueue(self, job_context, _HELD), CheckQueue(self, job_context, 1)
        self._threads = [
            threading.Thread(target=self._run, args=(each, number), name=f"checks-{number}", daemon=True)
            for number, each in enumerate(examiners)
        ]

    def queue_of(self, revision: int) -> "CheckQueue":
        """Return the queue for jobs of a revision."""
        return self._slow if revision in self._slow_revisions else self._common

    def start(self) -> None:
        """Start examining."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop; unfinished jobs are put back as if they had not been claimed."""
        left = self._inbox.close()
        for examiner in self._examiners:
            examiner.kill()
        for thread in self._threads:
            thread.join()
        for examiner in self._examiners:
            examiner.close()
        self._job_context.hand_back(left)

    def add(self, tasks: Sequence[Task]) -> None:
        """Queue tasks."""
        if not self._inbox.put(tasks):
            self._job_context.hand_back(tasks)

    @property
    def pids(self) -> list[int]:
        """Return the ids of the running processes."""
        return [each.pid for each in self._examiners if each.pid is not None]

    def _run(self, examiner: Examiner, number: int) -> None:
        while tasks := self._inbox.take(_TOGETHER, beyond=number * _HELPS_BEYOND):
            left = {task.job.job_id: task for task in tasks}
            try:
                self._examine(examiner, left)
            except ChildFailed:  # closed
                self._job_context.hand_back(list(left.values()))
            except Exception as error:  # noqa: BLE001 - the top of a thread: a bug must not end checking for good
                log.exception("a batch of checks failed")
                self._job_context.after_error(left.values(), error)
            self._let_go(tasks)

    def _examine(self, examiner: Examiner, left: dict[int, Task]) -> None:
        done: list[JudgedJobs] = []
        handed_in_s = time.monotonic()
        try:
            for judged in examiner.judge(list(left.values())):
                done.append(judged)
                if time.monotonic() - handed_in_s > _HAND_IN_S:
                    self._hand_in(done, left)
                    done, handed_in_s = [], time.monotonic()
        finally:
            self._hand_in(done, left)

    def _hand_in(self, done: Sequence[JudgedJobs], left: dict[int, Task]) -> None:
        if not done:
            return
        results = pa.concat_tables([judged.results for judged in done])
        postponed = [left.pop(job_id) for judged in done for job_id in judged.postponed]
        finished = [left.pop(job_id) for job_id in results.column("job_id").to_pylist()]
        kinds = results.column("error_kind")
        if kinds.null_count < len(kinds):
            for task, kind in zip(finished, kinds.to_pylist(), strict=True):
                if kind in _SLOW_KINDS:
                    self._slow_revisions.add(task.job.revision)
        self._let_go([*finished, *postponed])
        self._job_context.sink.finish_rows(results)
        self._job_context.hand_back(postponed)

    def _let_go(self, tasks: Sequence[Task]) -> None:
        for queue in (self._common, self._slow):
            queue.held.let_go(tasks)


class CheckQueue:
    """Queue of jobs for checks, with a limit."""

    def __init__(self, executor: Checks, job_context: JobContext, most: int) -> None:
        self.held = HeldJobs()
        self._executor = executor
        self._job_context = job_context
        self._most = most

    def room(self) -> int:
        """Return how many more jobs it takes now."""
        return self._most - len(self.held)

    def pause_s(self) -> float | None:
        """Return None: only jobs that end make room."""
        return None

    def take(self, jobs: Sequence[Job]) -> None:
        """Queue jobs, and hold them until they end."""
        tasks = self._job_context.tasks(jobs)
        self.held.add(tasks)
        self._executor.add(tasks)
