"""The thread that gets test cases from a child process for judges and programs, which run in the server."""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Generic, TypeVar

from collector.children.process import ChildFailed
from collector.live.jobs.work.examiner import Examined, Examiner
from collector.live.jobs.work.inbox import Inbox
from collector.live.jobs.work.job_context import JobContext, Task

log = logging.getLogger(__name__)

_TOGETHER: Final = 64
"""Test cases to request together. The database takes 5 ms to fetch one span, and 6 ms for 64."""

_KEPT: Final = 256
_KEPT_CHARACTERS: Final = 8_000_000
"""Limits of prepared test cases, and of their texts. Guesses: the need of fast judges in a second."""

For = TypeVar("For")


@dataclass(slots=True)
class _Prepared(Generic[For]):
    """A test case by job, ready or in progress, and the waiter for it, if any."""

    by: dict[int, tuple[For, Task] | None] = field(default_factory=dict)  # being made; None until the case is ordered
    made: dict[int, Examined] = field(default_factory=dict)
    characters: int = 0  # in all texts of `made`

    def take(self, job_id: int) -> Examined | None:
        examined = self.made.pop(job_id, None)
        if examined is not None:
            self.characters -= len(examined.case_text or "")
        return examined

    def keep(self, job_id: int, examined: Examined) -> None:
        self.made[job_id] = examined
        self.characters += len(examined.case_text or "")


class Cases(Generic[For]):
    """Cache of the test cases of jobs, which another process makes.

    Cases of jobs that will begin soon are made before they are ordered, many at a time.
    """

    def __init__(self, examiner: Examiner, job_context: JobContext, deliver: Callable[[For, Examined], None]) -> None:
        self._examiner = examiner
        self._job_context = job_context
        self._deliver = deliver
        self._inbox: Inbox[Task] = Inbox()
        self._prepared: _Prepared[For] = _Prepared()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="cases", daemon=True)

    def start(self) -> None:
        """Start delivering."""
        self._thread.start()

    def close(self) -> None:
        """Stop; jobs without delivered cases are put back as if they had not been claimed."""
        self._hand_back(self._inbox.close())
        self._examiner.kill()
        self._thread.join()
        self._examiner.close()

    def order(self, tasks: Sequence[Task], by: For) -> None:
        """Have the cases of tasks delivered, at once if they are made already."""
        made: list[Examined] = []
        new: list[Task] = []
        with self._lock:
            for task in tasks:
                job_id = task.job.job_id
                examined = self._prepared.take(job_id)
                if examined is not None:
                    made.append(replace(examined, task=task))
                    continue
                if job_id not in self._prepared.by:
                    new.append(task)
                self._prepared.by[job_id] = (by, task)
        for examined in made:
            self._deliver(by, examined)
        self._put(new)

    def room(self) -> int:
        """Return how many more cases may be prepared now."""
        prepared = self._prepared
        if prepared.characters > _KEPT_CHARACTERS or len(prepared.by) >= _TOGETHER:
            return 0
        room = _KEPT - len(prepared.made) - len(prepared.by)
        return min(room, _TOGETHER) if room >= _TOGETHER // 2 else 0

    def prepare(self, tasks: Sequence[Task]) -> None:
        """Have the cases of tasks made that will be ordered soon, or forgotten."""
        with self._lock:
            new = [
                task
                for task in tasks
                if task.job.job_id not in self._prepared.by and task.job.job_id not in self._prepared.made
            ]
            self._prepared.by.update((task.job.job_id, None) for task in new)
        self._put(new)

    def forget(self, job_ids: Iterable[int]) -> None:
        """Drop the cases prepared for these jobs, which will not be ordered."""
        with self._lock:
            for job_id in job_ids:
                self._prepared.take(job_id)
                self._prepared.by.pop(job_id, None)

    def _put(self, tasks: Sequence[Task]) -> None:
        if tasks and not self._inbox.put(tasks):
            self._hand_back(tasks)

    def _run(self) -> None:
        while tasks := self._inbox.take(_TOGETHER):
            left = {task.job.job_id: task for task in tasks}
            try:
                for examined in self._examiner.cases(list(left.values())):
                    del left[examined.task.job.job_id]
                    self._made(examined)
            except ChildFailed:  # closed
                self._hand_back(list(left.values()))
            except Exception as error:  # noqa: BLE001 - the top of a thread: a bug must not end evaluation for good
                log.exception("building test cases failed")
                self._job_context.after_error(self._ordered(left.values()), error)

    def _made(self, examined: Examined) -> None:
        job_id = examined.task.job.job_id
        with self._lock:
            if job_id not in self._prepared.by:  # it was forgotten meanwhile
                return
            ordered = self._prepared.by.pop(job_id)
            if ordered is None:
                self._prepared.keep(job_id, examined)
        if ordered is not None:
            by, task = ordered
            self._deliver(by, replace(examined, task=task))

    def _hand_back(self, tasks: Sequence[Task]) -> None:
        self._job_context.hand_back(self._ordered(tasks))

    def _ordered(self, tasks: Iterable[Task]) -> list[Task]:
        with self._lock:
            return [task for task in tasks if self._prepared.by.pop(task.job.job_id, None) is not None]
