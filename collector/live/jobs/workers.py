"""The workers that evaluate jobs: ledger, checks and judges, started and stopped together."""

from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from collector.conventions.own_keys import OwnKeys
from collector.live.active import ActiveRule
from collector.live.jobs.work.asking import JudgeExecutor, Result
from collector.live.jobs.work.checks import Checks
from collector.live.jobs.work.examiner import PROGRAM, Examiner
from collector.live.jobs.work.job_context import JobContext, failed
from collector.live.jobs.work.ledger import Ledger, Queue
from collector.live.jobs.work.retry_policy import RetryPolicy
from collector.live.judges.judge_health import JudgedTarget
from collector.live.judges.judging import JudgeSource
from collector.machine import checking_processes
from evaluators.errors import BadConfiguration
from storage.clock import in_seconds, steady_clock
from storage.ingest.windows import Windows
from storage.judging.jobs import Job, Jobs

_AT_ONCE = 1000
"""Maximum number of jobs claimed at a time if their rule is stopped or their judge cannot be called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Options of workers."""

    own: OwnKeys
    code_judges: int = 2  # programs at the same time
    retry_policy: RetryPolicy = RetryPolicy()  # noqa: RUF009 - it is frozen
    program: str = PROGRAM  # of the examining processes
    checking: int = field(default_factory=checking_processes)  # processes for checks, at most


class Workers:
    """Workers that turn jobs into evaluations: checks in child processes, judges and programs in an event loop.

    Every claimed job is handed in once: with its result, or for another attempt. Results are stored in one transaction
    with the claims of the next jobs.
    """

    def __init__(
        self,
        jobs: Jobs,
        windows: Windows,
        rule_of: Callable[[int], ActiveRule | None],
        judges: JudgeSource,
        options: WorkerOptions,
    ) -> None:
        """Set up the workers. `rule_of` returns any revision that existed, or None. Nothing runs before `start`."""
        retry_policy, clock = options.retry_policy, in_seconds(steady_clock())
        self._rule_of = rule_of
        self._judges = judges
        self._ledger = Ledger(jobs, self._queue_of, self._note, clock=clock, retry_policy=retry_policy)
        job_context = JobContext(sink=self._ledger, rule_of=rule_of, clock=clock, retry_policy=retry_policy)
        *checking, preparing = (
            Examiner(windows, options.own, retry_policy=retry_policy, program=options.program)
            for _ in range(options.checking + 1)
        )
        self._checks = Checks(checking, job_context)
        self._asking = JudgeExecutor(preparing, job_context, judges, code_judges=options.code_judges)
        self._job_context = job_context

    def start(self) -> None:
        """Free what an earlier process had claimed, and begin.

        Raises:
            Overloaded: the database cannot be written.
        """
        self._ledger.start()  # first, since it may fail; executors queue jobs until they start
        self._checks.start()
        self._asking.start()

    def close(self) -> None:
        """Stop within seconds; jobs under way are put back as if they had not been claimed."""
        self._ledger.stop_claiming()
        self._checks.close()
        self._asking.close()
        self._ledger.close()

    def wake(self) -> None:
        """Signal new jobs, or changed rules or connections."""
        self._ledger.wake()

    @property
    def checking_pids(self) -> list[int]:
        """Return the ids of the running processes for checks."""
        return self._checks.pids

    def run(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Run a coroutine in the judges' event loop; it is cancelled when that stops."""
        return self._asking.run(work)

    def resume(self, connection_id: str) -> None:
        """End the pause of a connection that answered, unless the endpoint requested it. Call it from within `run`."""
        self._asking.resume(connection_id)
        self.wake()

    def cut_off(self) -> None:
        """Cancel the calls that `run` began and those that it will begin; jobs go on."""
        self._asking.cut_off()

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until all jobs are done that can be done now; False when that took too long."""
        return self._ledger.wait_idle(timeout_s)

    def _note(self, revision: int, judged: JudgedTarget) -> None:
        if (active := self._rule_of(revision)) is not None:
            self._judges.health.note_of_rule(active.rule_id, judged)

    def _queue_of(self, revision: int) -> Queue:
        active = self._rule_of(revision)
        if active is None or active.stopped is not None:
            return _Unable(self._job_context, None)
        if active.executor_kind == "check":
            return self._checks.queue_of(revision)
        if active.executor_kind == "code":
            return self._asking.programs
        try:
            return self._asking.line_to(self._judges.connection_of(active))
        except BadConfiguration as error:
            return _Unable(self._job_context, error)


@dataclass(frozen=True, slots=True)
class _Unable:
    """Queue of jobs that cannot be done: their rule is stopped, or its judge cannot be called."""

    job_context: JobContext
    why: BadConfiguration | None

    def room(self) -> int:
        return _AT_ONCE

    def pause_s(self) -> float | None:
        return None

    def take(self, jobs: Sequence[Job]) -> None:
        tasks = self.job_context.tasks(jobs)
        if self.why is None:
            self.job_context.hand_back(tasks)  # the rule was enabled again meanwhile
            return
        results = [failed(job, active, self.why.kind, str(self.why)) for job, active in tasks]
        self.job_context.sink.finish(results)
