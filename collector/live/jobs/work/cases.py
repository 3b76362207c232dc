"""The thread that has test cases made for those who evaluate in the server itself."""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from collector.children.process import ChildFailed
from collector.live.jobs.work.examiner import Examined, Examiner
from collector.live.jobs.work.inbox import Inbox
from collector.live.jobs.work.job_context import JobContext, Task

log = logging.getLogger(__name__)

_TOGETHER = 64

For = TypeVar("For")


class _Order(NamedTuple, Generic[For]):
    task: Task
    by: For


class Cases(Generic[For]):
    """Has the test cases of jobs made, in a process of their own, and delivers each to whoever ordered it."""

    def __init__(self, examiner: Examiner, job_context: JobContext, deliver: Callable[[For, Examined], None]) -> None:
        self._examiner = examiner
        self._job_context = job_context
        self._deliver = deliver
        self._orders: Inbox[_Order[For]] = Inbox()
        self._thread = threading.Thread(target=self._run, name="cases", daemon=True)

    def start(self) -> None:
        """Start delivering."""
        self._thread.start()

    def close(self) -> None:
        """Stop; what is not delivered is handed in as if it had not been claimed."""
        left = self._orders.close()
        self._examiner.kill()
        self._thread.join()
        self._examiner.close()
        self._job_context.hand_back([order.task for order in left])

    def order(self, tasks: Sequence[Task], by: For) -> None:
        """Have the cases of these made."""
        if not self._orders.put([_Order(task, by) for task in tasks]):
            self._job_context.hand_back(tasks)

    def _run(self) -> None:
        while orders := self._orders.take(_TOGETHER):
            left = {order.task.job.job_id: order for order in orders}
            try:
                for examined in self._examiner.cases([order.task for order in orders]):
                    self._deliver(left.pop(examined.task.job.job_id).by, examined)
            except ChildFailed:  # closed
                self._job_context.hand_back([order.task for order in left.values()])
            except Exception as error:  # noqa: BLE001 - the top of a thread: a bug must not end evaluation for good
                log.exception("test cases could not be made")
                self._job_context.after_error([order.task for order in left.values()], error)
