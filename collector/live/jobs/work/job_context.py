"""Services that all executors share, their jobs with the rules, and the sink for the results."""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import pyarrow as pa

from collector.live.active import ActiveRule
from collector.live.jobs.work.retry_policy import Clock, RetryPolicy, microseconds
from collector.live.jobs.work.storable import count_of, storable_text
from evaluators.outcome import Failure, Usage
from storage.judging.job_results import JobResult, OutcomeName
from storage.judging.jobs import Job, RequeuedJob


def failed(job: Job, active: ActiveRule | None, kind: str, message: str) -> JobResult:
    """Return the result of a job whose evaluator could not be run."""
    return _without_score(job, active, "failed", kind, message)


def skipped(job: Job, active: ActiveRule | None, kind: str, message: str, usage: Usage | None = None) -> JobResult:
    """Return the result of a job that will not be done, with its usage so far."""
    result = _without_score(job, active, "skipped", kind, message)
    if usage is None:
        return result
    return replace(
        result,
        judge_calls=usage.calls,
        input_tokens=count_of(usage.input_tokens),
        output_tokens=count_of(usage.output_tokens),
        cost_usd=usage.cost_usd,
    )


def _without_score(job: Job, active: ActiveRule | None, outcome: OutcomeName, kind: str, message: str) -> JobResult:
    name = "" if active is None else active.rule.configuration.get("name") or active.rule.evaluator
    return JobResult(
        job_id=job.job_id,
        name=storable_text(str(name)),
        outcome=outcome,
        error_kind=kind,
        reason=storable_text(message),
    )


class Task(NamedTuple):
    """A job, and its revision of the rule."""

    job: Job
    active: ActiveRule


class ResultSink(Protocol):
    """Sink of results. Hand in each job exactly once, whatever happens."""

    def finish(self, results: Sequence[JobResult]) -> None:
        """Have results stored."""

    def finish_rows(self, results: pa.Table) -> None:
        """Have results stored that are rows with the columns of `job_results.RESULTS`."""

    def put_back(self, jobs: Sequence[RequeuedJob]) -> None:
        """Have jobs put back for another attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """Services of executors: rules, clock, retry policy, and the sink of their results."""

    sink: ResultSink
    rule_of: Callable[[int], ActiveRule | None]
    clock: Clock
    retry_policy: RetryPolicy

    def tasks(self, jobs: Sequence[Job]) -> list[Task]:
        """Return the tasks of jobs whose rule is active; hand in the other jobs as failed or skipped."""
        tasks: list[Task] = []
        others: list[JobResult] = []
        for job in jobs:
            active = self.rule_of(job.revision)
            if active is None:
                others.append(failed(job, None, "unknown_rule", f"there is no revision {job.revision} of any rule"))
            elif (stopped := active.stopped) is not None:
                others.append(skipped(job, active, stopped.kind, str(stopped)))
            else:
                tasks.append(Task(job, active))
        if others:
            self.sink.finish(others)
        return tasks

    def tasks_now(self, jobs: Sequence[Job]) -> list[Task]:
        """Return the tasks of jobs whose rule is active; ignore the other jobs."""
        revisions = [(job, self.rule_of(job.revision)) for job in jobs]
        return [Task(job, active) for job, active in revisions if active is not None and active.stopped is None]

    def current(self, task: Task) -> ActiveRule:
        """Return the current rule of a task.

        Raises:
            Stopped: the rule was disabled or deleted.
        """
        active = self.rule_of(task.job.revision) or task.active
        if active.stopped is not None:
            raise active.stopped
        return active

    def hand_back(self, tasks: Sequence[Task]) -> None:
        """Put the jobs of tasks back as if they had not been claimed."""
        self.put_back([job for job, _ in tasks])

    def put_back(self, jobs: Sequence[Job]) -> None:
        """Put jobs back as if they had not been claimed, without counting an attempt."""
        if jobs:
            self.sink.put_back([RequeuedJob(job_id=job.job_id, attempts=job.attempts - 1) for job in jobs])

    def try_again(self, task: Task, failure: Failure, *, counts: bool = True, requested_s: float | None = None) -> None:
        """Hand in a job for a later attempt, with the usage of this one; it is a counted attempt only if `counts`."""
        job, usage = task.job, failure.usage
        wait_s = self.retry_policy.wait_s(job.attempts, requested_s)
        again = RequeuedJob(
            job_id=job.job_id,
            attempts=job.attempts - (not counts),
            not_before_us=microseconds(self.clock() + wait_s),
            error_kind=failure.kind,
            error=failure.message,
            judge_calls=None if usage is None else usage.calls,
            input_tokens=None if usage is None else count_of(usage.input_tokens),
            output_tokens=None if usage is None else count_of(usage.output_tokens),
            cost_usd=None if usage is None else usage.cost_usd,
        )
        self.sink.put_back([again])

    def after_error(self, tasks: Iterable[Task], error: Exception) -> None:
        """Hand in jobs after an internal error: for another attempt, or as failed after the last one."""
        message = f"{type(error).__name__}: {error}"
        failure = Failure(name="", fingerprint=None, kind="internal_error", message=message, usage=None)
        for task in tasks:
            if task.job.attempts < self.retry_policy.attempts:
                self.try_again(task, failure)
            else:
                self.sink.finish([failed(task.job, task.active, "internal_error", message)])


class HeldJobs:
    """The jobs that a queue holds. Thread-safe."""

    def __init__(self) -> None:
        self._since_s: dict[int, float] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._since_s)

    def add(self, tasks: Iterable[Task], *, now_s: float = 0.0) -> None:
        """Add the jobs of tasks."""
        with self._lock:
            self._since_s.update((task.job.job_id, now_s) for task in tasks)

    def let_go(self, tasks: Iterable[Task]) -> list[float]:
        """Remove jobs; return the time at which each held one was added."""
        with self._lock:
            return [self._since_s.pop(task.job.job_id) for task in tasks if task.job.job_id in self._since_s]
