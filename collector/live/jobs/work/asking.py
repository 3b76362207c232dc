"""The lanes of judges and programs: many jobs at a time in one event loop, within the limits of each connection."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from collector.live.jobs.work.breaker import Breaker
from collector.live.jobs.work.cases import Cases
from collector.live.jobs.work.desk import HeldJobs, JobContext, Task
from collector.live.jobs.work.examiner import Examined, Examiner
from collector.live.jobs.work.results import result_of, skipped
from collector.live.judges.judging import Fallback, JudgeSource
from evaluators.case import parse_case
from evaluators.chat.retry import RETRYABLE
from evaluators.errors import Broken, Stopped
from evaluators.evaluator import run
from evaluators.judging import Judge
from evaluators.outcome import Failure, Outcome, Verdict
from evaluators.registry import build
from rules.rule import Rule
from storage.judging.jobs import Job, JobResult

log = logging.getLogger(__name__)

Found = TypeVar("Found")

_LEFT_OUT: Final = frozenset({"over_budget", "rule_disabled", "rule_deleted"})
"""Failures that are none of the evaluation: it was not made."""

_NOT_THE_JUDGES: Final = _LEFT_OUT | {"budget_held", "bad_case", "bad_configuration", "evaluator_error"}
"""Failures that say nothing of whether a connection works."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConnectionQueue:
    """Jobs of one connection, or of all programs."""

    lane: "JudgeExecutor"
    in_flight: Callable[[], int]
    breaker: Breaker | None  # None for programs
    passing: frozenset[str]  # kinds of failure that a few more attempts may not meet, whoever is to blame
    fallback: Callable[[], Fallback | None] = lambda: None  # who is asked where nobody answers here
    held: HeldJobs = field(default_factory=HeldJobs)

    def room(self) -> int:
        """How many more jobs may be begun now."""
        in_flight, running = self.in_flight(), len(self.held)
        if self.breaker is None:
            return max(in_flight - running, 0)
        if self.breaker.down_since_s is not None and self.fallback() is not None:
            return max(in_flight - running, 0)
        return self.breaker.room(self.lane.now_s(), in_flight, running)

    def pause_s(self) -> float | None:
        """When the connection is asked again, where it is down."""
        if self.breaker is None or self.breaker.down_since_s is None or self.held:
            return None
        return max(self.breaker.resumes_s - self.lane.now_s(), 0.0)

    def take(self, jobs: Sequence[Job]) -> None:
        """Begin these."""
        self.lane.begin(self, jobs)


class JobAnswer(NamedTuple):
    """What an evaluator says of a job."""

    outcome: Outcome
    model: str | None = None  # that its judge asks for
    fallback: Fallback | None = None  # over which it was asked instead
    missed: Outcome | None = None  # what came of the connection itself before that; None where it was not asked


class JudgeExecutor:
    """Evaluates jobs whose evaluators wait for others. A connection that hangs has its own jobs hang and no others."""

    def __init__(self, examiner: Examiner, desk: JobContext, judges: JudgeSource, *, code_judges: int) -> None:
        self._desk = desk
        self._judges = judges
        self._rubbish: dict[int, int] = {}  # by job: unusable replies so far
        self._lines: dict[str, ConnectionQueue] = {}
        self._cases: Cases[ConnectionQueue] = Cases(examiner, desk, self._deliver)
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._others: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(target=self._run_loop, name="judges", daemon=True)
        self.programs = ConnectionQueue(
            lane=self, in_flight=lambda: code_judges, breaker=None, passing=frozenset({"timeout"})
        )

    def line_to(self, connection_id: str) -> ConnectionQueue:
        """The line of a connection."""
        line = self._lines.get(connection_id)
        if line is None:
            line = self._lines[connection_id] = ConnectionQueue(
                lane=self,
                in_flight=lambda: self._judges.in_flight(connection_id),
                breaker=Breaker(wait_s=self._desk.patience.wait_s),
                passing=frozenset({"bad_reply"}),
                fallback=lambda: self._judges.fallback(connection_id),
            )
        return line

    def start(self) -> None:
        """Start evaluating."""
        self._thread.start()
        self._cases.start()

    def close(self) -> None:
        """Stop; what is under way is cut off, and handed in as if it had not been claimed."""
        self._cases.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def now_s(self) -> float:
        """The time of the desk's clock."""
        return self._desk.clock()

    def begin(self, line: ConnectionQueue, jobs: Sequence[Job]) -> None:
        """Have the test cases made, then evaluate them."""
        tasks = self._desk.tasks(jobs)
        line.held.add(tasks)
        self._cases.order(tasks, line)

    def run(self, work: Coroutine[Any, Any, Found]) -> Future[Found]:
        """Have something done in the event loop in which judges are asked; it is cut off when that stops."""

        async def held() -> Found:
            task = asyncio.current_task()
            if task is not None:
                self._others.add(task)
                task.add_done_callback(self._others.discard)
            return await work

        return asyncio.run_coroutine_threadsafe(held(), self._loop)

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            under_way = [*self._tasks, *self._others]
            for task in under_way:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*under_way, return_exceptions=True))
            self._loop.run_until_complete(self._judges.close())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    def _deliver(self, line: ConnectionQueue, examined: Examined) -> None:
        if examined.case is None:
            self._hand_in(line, examined.task, examined.result())
        else:
            self._loop.call_soon_threadsafe(self._start_task, line, examined)

    def _start_task(self, line: ConnectionQueue, examined: Examined) -> None:
        task = self._loop.create_task(self._evaluate(line, examined))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _evaluate(self, line: ConnectionQueue, examined: Examined) -> None:
        task = examined.task
        began_s = time.perf_counter()
        try:
            answer = await self._answer(line, task, examined.case or {})
            outcome, model = answer.outcome, answer.model
            document = outcome.to_document()
            told = document if examined.part is None else examined.part.told_in(document)
            latency_ms = (time.perf_counter() - began_s) * 1000
            result = result_of(task.job, told, latency_ms=latency_ms, judge_model=model)
        except asyncio.CancelledError:
            line.held.let_go([task])
            self._desk.hand_back([task])
            raise
        except Exception as error:  # noqa: BLE001 - the top of a task: a bug must not end the evaluation of others
            log.exception("job %d failed", task.job.job_id)
            line.held.let_go([task])
            self._desk.after_error([task], error)
        else:
            self._settle(line, task, answer, result)

    async def _answer(self, line: ConnectionQueue, task: Task, case: Mapping[str, Any]) -> JobAnswer:
        """What the evaluator says, with a judge over the rule's connection or, where nobody answers, its fallback."""
        current = partial(self._desk.current, task)
        judge_of = partial(self._judges.judge, task.active, task.job, current=current)
        rule, limit_s = task.active.rule, self._desk.patience.job_s
        try:
            current()
        except Stopped as stopped:
            return JobAnswer(_failed(rule, stopped))
        if line.breaker is None:
            return JobAnswer(*await outcome_of(rule, case, None, limit_s=limit_s))
        other = line.fallback()
        missed: Failure | None = None
        if other is None or not line.breaker.is_down(self.now_s()):
            first = JobAnswer(*await outcome_of(rule, case, judge_of, limit_s=limit_s))
            if other is None or not isinstance(first.outcome, Failure) or first.outcome.kind not in RETRYABLE:
                return first
            missed = first.outcome
        over = partial(judge_of, over=other.connection_id)
        outcome, model = await outcome_of(rule, case, over, limit_s=limit_s)
        if isinstance(outcome, Failure) and outcome.kind == "bad_configuration":
            return JobAnswer(_without_fallback(outcome, other.name, missed))
        return JobAnswer(_told_of_fallback(outcome, other.name, missed), model, other, missed)

    def _settle(self, line: ConnectionQueue, task: Task, answer: JobAnswer, result: JobResult) -> None:
        """Hand in the job: done, or for another attempt."""
        line.held.let_go([task])
        outcome, missed = answer.outcome, answer.missed
        if answer.fallback is not None and line.breaker is not None and isinstance(missed, Failure):
            asks = missed.kind == "rate_limited"
            line.breaker.failed(self.now_s(), asked_s=missed.retry_after_s, asks_for_pause=asks)
        if answer.fallback is not None and not (isinstance(outcome, Failure) and outcome.kind in RETRYABLE):
            self._after_fallback(line, task, outcome, result)
        elif not isinstance(outcome, Failure):
            if line.breaker is not None and outcome.usage is not None:
                line.breaker.answered(self.now_s())
            self._hand_in(line, task, result)
        elif line.breaker is not None and outcome.kind in RETRYABLE:
            self._after_no_answer(line, line.breaker, task, outcome, result)
        else:
            if line.breaker is not None and outcome.kind not in _NOT_THE_JUDGES:
                line.breaker.answered(self.now_s())
            self._after_failure(line, task, outcome, result)

    def _after_fallback(self, line: ConnectionQueue, task: Task, outcome: Outcome, result: JobResult) -> None:
        """What the fallback says counts, and tells nothing of the connection that it stands in for."""
        if isinstance(outcome, Failure):
            self._after_failure(line, task, outcome, result)
        else:
            self._hand_in(line, task, result)

    def _after_no_answer(
        self, line: ConnectionQueue, breaker: Breaker, task: Task, failure: Failure, result: JobResult
    ) -> None:
        """The connection failed. While it is down that is not the job's fault, and is not counted against it."""
        now_s, patience = self.now_s(), self._desk.patience
        breaker.failed(now_s, asked_s=failure.retry_after_s, asks_for_pause=failure.kind == "rate_limited")
        down_s = breaker.down_for_s(now_s)
        counts = down_s is None or down_s > patience.outage_s
        if counts and task.job.attempts >= patience.attempts:
            self._hand_in(line, task, result)
        else:
            self._desk.try_again(task, failure, counts=counts, asked_s=failure.retry_after_s)

    def _after_failure(self, line: ConnectionQueue, task: Task, failure: Failure, result: JobResult) -> None:
        """Something else failed, which another attempt mostly meets again."""
        job, active = task
        if failure.kind in _LEFT_OUT:
            self._hand_in(line, task, skipped(job, active, failure.kind, failure.message, failure.usage))
            return
        if failure.kind == "budget_held":
            self._desk.try_again(task, failure, counts=False, asked_s=failure.retry_after_s)
            return
        rubbish = self._rubbish.get(job.job_id, 0)
        if failure.kind in line.passing and rubbish < self._desk.patience.more_after_rubbish:
            self._rubbish[job.job_id] = rubbish + 1
            self._desk.try_again(task, failure)
            return
        self._hand_in(line, task, result)

    def _hand_in(self, line: ConnectionQueue, task: Task, result: JobResult) -> None:
        line.held.let_go([task])
        self._rubbish.pop(task.job.job_id, None)
        self._desk.outlet.finish([result])


def _told_of_fallback(outcome: Outcome, name: str, missed: Outcome | None) -> Outcome:
    """The outcome over the fallback: with what it took to find out that it was needed, and a verdict with its name."""
    spent = None if missed is None else missed.usage
    if spent is not None:
        outcome = replace(outcome, usage=spent if outcome.usage is None else spent + outcome.usage)
    if isinstance(outcome, Verdict):
        return replace(outcome, metadata={**outcome.metadata, "fallbackConnection": name})
    return outcome


def _without_fallback(failure: Failure, name: str, missed: Failure | None) -> Failure:
    """A fallback that cannot be used is none: the job waits for the connection, and tells why."""
    told = f"its fallback {name!r} cannot be asked: {failure.message}"
    if missed is None:
        return replace(failure, kind="unavailable", message=f"the connection is down, and {told}")
    return replace(missed, message=f"{missed.message}; {told}")


async def outcome_of(
    rule: Rule, case: Mapping[str, Any], judge_of: Callable[[], Judge] | None, *, limit_s: float
) -> tuple[Outcome, str | None]:
    """What the evaluator of a rule says of a test case, and the model that its judge asks for; in this time."""
    judge = None
    try:
        judge = None if judge_of is None else judge_of()
        evaluator = build(rule.evaluator, rule.configuration, judge)
        async with asyncio.timeout(limit_s):
            outcome = await run(evaluator, parse_case(case))
    except TimeoutError:
        message = f"not finished within {limit_s:g} s"
        outcome = Failure(name=rule.evaluator, fingerprint=None, kind="timeout", message=message, usage=None)
    except Broken as broken:
        outcome = _failed(rule, broken)
    return outcome, None if judge is None else judge.model


def _failed(rule: Rule, broken: Broken) -> Failure:
    return Failure(name=rule.evaluator, fingerprint=None, kind=broken.kind, message=str(broken), usage=None)
