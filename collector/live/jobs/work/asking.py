"""The executors of judges and programs: many jobs at a time in one event loop, within the limits of each connection."""

import asyncio
import json
import logging
import threading
import time
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from collector.live.jobs.work.cases import Cases
from collector.live.jobs.work.connection_queue import LEFT_OUT, NOT_THE_JUDGES, Breaker, ConnectionQueue, JobAnswer
from collector.live.jobs.work.examiner import Examined, Examiner
from collector.live.jobs.work.job_context import JobContext, Task, skipped
from collector.live.jobs.work.kept_votes import KeptVotes
from collector.live.jobs.work.ledger import REST_S
from collector.live.jobs.work.outcomes import failure_of, outcome_of, voted
from collector.live.jobs.work.storable import result_of
from collector.live.jobs.work.target import with_judged
from collector.live.judges.judge_health import JudgeSubject
from collector.live.judges.judging import JudgeSource
from evaluators.chat.pace import ANOTHER_MAY_ANSWER, NOT_SERVED, RETRYABLE
from evaluators.errors import BadConfiguration, Stopped
from evaluators.outcome import Failure, Outcome, Verdict
from storage.judging.job_results import JobResult
from storage.judging.jobs import Job

log = logging.getLogger(__name__)

Result = TypeVar("Result")


_COMES_AGAIN: Final = RETRYABLE | {"budget_held"}
"""Kinds of failure after which a job is mostly retried; its duration is then not measured."""


class JudgeExecutor:
    """Executor of jobs whose evaluators wait for I/O. A connection that hangs holds up its own jobs only."""

    def __init__(self, examiner: Examiner, job_context: JobContext, judges: JudgeSource, *, code_judges: int) -> None:
        self._job_context = job_context
        self._judges = judges
        self._rubbish: dict[int, int] = {}  # by job: unusable replies so far
        self._votes = KeptVotes()
        self._lines: dict[str, ConnectionQueue] = {}
        self._cases: Cases[ConnectionQueue] = Cases(examiner, job_context, self._deliver)
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._others: set[asyncio.Task[Any]] = set()
        self._is_cut_off = False
        self._thread = threading.Thread(target=self._run_loop, name="judges", daemon=True)
        self.programs = ConnectionQueue(
            executor=self,
            in_flight=lambda: code_judges,
            breaker=None,
            passing=frozenset({"timeout"}),
            rest_s=REST_S,
        )

    def line_to(self, connection_id: str) -> ConnectionQueue:
        """Return the queue of a connection."""
        line = self._lines.get(connection_id)
        if line is None:  # jobs are claimed in one thread, and juries are called in another
            line = ConnectionQueue(
                executor=self,
                in_flight=lambda: self._judges.in_flight(connection_id),
                breaker=Breaker(wait_s=self._job_context.retry_policy.wait_s),
                passing=frozenset({"bad_reply", "truncated"}),
                connection_id=connection_id,
                fallback=lambda: self._judges.fallback(connection_id),
                rest_s=REST_S,
            )
        return self._lines.setdefault(connection_id, line)

    def start(self) -> None:
        """Start evaluating."""
        self._thread.start()
        self._cases.start()

    def close(self) -> None:
        """Stop; jobs under way are cancelled, and put back as if they had not been claimed."""
        self._cases.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        for line in (self.programs, *self._lines.values()):
            self._job_context.put_back(line.ahead.take(len(line.ahead)))

    def now_s(self) -> float:
        """Return the time of the clock that all jobs use."""
        return self._job_context.clock()

    def tasks(self, jobs: Sequence[Job]) -> list[Task]:
        """Return the tasks of jobs whose rule is active; hand in the other jobs as failed or skipped."""
        tasks = self._job_context.tasks(jobs)
        if len(tasks) < len(jobs):
            self._cases.forget({job.job_id for job in jobs} - {task.job.job_id for task in tasks})
        return tasks

    def begin(self, line: ConnectionQueue, tasks: Sequence[Task]) -> None:
        """Have the test cases made, then evaluate them."""
        self._cases.order(tasks, line)

    def room_to_prepare(self) -> int:
        """Return how many more test cases can be prepared now."""
        return self._cases.room()

    def prepare(self, jobs: Sequence[Job]) -> None:
        """Order the test cases of jobs that will begin soon, or be handed back."""
        self._cases.prepare(self._job_context.tasks_now(jobs))

    def hand_back(self, jobs: Sequence[Job]) -> None:
        """Put jobs back as if they had not been claimed."""
        self._cases.forget(job.job_id for job in jobs)
        self._job_context.put_back(jobs)

    def run(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Run a coroutine in the judges' event loop; it is cancelled when that stops."""

        async def held() -> Result:
            task = asyncio.current_task()
            if self._is_cut_off:
                work.close()
                raise asyncio.CancelledError
            if task is not None:
                self._others.add(task)
                task.add_done_callback(self._others.discard)
            return await work

        return asyncio.run_coroutine_threadsafe(held(), self._loop)

    def resume(self, connection_id: str) -> None:
        """End the pause of a connection that answered, unless the endpoint requested it. For the event loop."""
        line = self._lines.get(connection_id)
        if line is not None and line.breaker is not None:
            line.breaker.answered(self.now_s())

    def cut_off(self) -> None:
        """Cancel the calls that `run` began and those that it will begin."""
        self._is_cut_off = True
        with suppress(RuntimeError):  # the loop was closed meanwhile
            self._loop.call_soon_threadsafe(self._cancel_others)

    def _cancel_others(self) -> None:
        for task in self._others:
            task.cancel()

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

    def _is_in_loop(self) -> bool:
        return threading.current_thread() is self._thread

    def _deliver(self, line: ConnectionQueue, examined: Examined) -> None:
        begin_soon = self._loop.call_soon if self._is_in_loop() else self._loop.call_soon_threadsafe
        begin_soon(self._start_task, line, examined)

    def _start_task(self, line: ConnectionQueue, examined: Examined) -> None:
        if examined.case_text is None:
            self._hand_in(line, examined.task, examined.result())
            line.begin_more()
            return
        task = self._loop.create_task(self._evaluate(line, examined))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _evaluate(self, line: ConnectionQueue, examined: Examined) -> None:
        task = examined.task
        began_s = time.perf_counter()
        try:
            case = json.loads(examined.case_text or "{}")
            answer = await self._answers(line, task, case)
            outcome, model = answer.outcome, answer.model
            document = with_judged(outcome.to_document(), case.get("actualOutputs") or {})
            noted = document if examined.part is None else examined.part.noted_in(document)
            latency_ms = (time.perf_counter() - began_s) * 1000
            result = result_of(task.job.job_id, noted, latency_ms=latency_ms, judge_model=model)
        except asyncio.CancelledError:
            line.end(task)
            self._job_context.hand_back([task])
            raise
        except Exception as error:  # noqa: BLE001 - the top of a task: a bug must not end the evaluation of others
            log.exception("job %d failed", task.job.job_id)
            line.end(task)
            self._job_context.after_error([task], error)
            line.begin_more()
        else:
            self._settle(line, task, answer, result)
            line.begin_more()

    async def _answers(self, line: ConnectionQueue, task: Task, case: Mapping[str, Any]) -> JobAnswer:
        """Evaluate a case with one judge, or by the votes of a jury; no jury is called while a connection is down."""
        rule = task.active.rule
        if not rule.jury or line.breaker is None:
            return await self._answer(line, task, case)
        try:
            jurors = self._judges.jurors(task.active)
        except BadConfiguration as error:
            return JobAnswer(failure_of(rule, error), of_jury=line)
        lines = [line, *(self.line_to(juror.connection_id) for juror in jurors[1:])]
        kept = self._votes.of(task.job.job_id, case)
        missing = [(juror, each) for juror, each in zip(jurors, lines, strict=True) if juror.connection_id not in kept]
        for juror, each in missing:
            if each.is_down():
                down = f"{juror.name}: the connection is down, so the jury is incomplete"
                failure = Failure(name=rule.evaluator, fingerprint=None, kind="unavailable", message=down, usage=None)
                return JobAnswer(failure, of_jury=each)
        gathered = await asyncio.gather(
            *(self._answer(each, task, case, over=juror.connection_id) for juror, each in missing)
        )
        for (_, each), answer in zip(missing, gathered, strict=True):
            each.note(answer)
        votes = {**kept, **{juror.connection_id: answer for (juror, _), answer in zip(missing, gathered, strict=True)}}
        self._votes.keep(task.job.job_id, case, votes)
        answers = [votes[juror.connection_id] for juror in jurors]
        failed = [each for each, answer in zip(lines, answers, strict=True) if isinstance(answer.outcome, Failure)]
        outcome, models = voted(jurors, [(answer.outcome, answer.model) for answer in answers])
        return JobAnswer(outcome, models, of_jury=failed[0] if failed else line)

    async def _answer(
        self, line: ConnectionQueue, task: Task, case: Mapping[str, Any], *, over: str | None = None
    ) -> JobAnswer:
        """Evaluate a case with a judge over a connection, or over the fallback if the connection is unavailable."""
        current = partial(self._job_context.current, task)
        judge_of = partial(self._judges.judge, task.active, task.job, current=current, over=over)
        rule, limit_s = task.active.rule, self._job_context.retry_policy.job_s
        try:
            current()
        except Stopped as stopped:
            return JobAnswer(failure_of(rule, stopped))
        if line.breaker is None:
            return JobAnswer(*await outcome_of(rule, case, None, limit_s=limit_s))
        other = line.fallback()
        missed: Failure | None = None
        if other is None or not line.breaker.is_down(self.now_s()):
            first = JobAnswer(*await outcome_of(rule, case, judge_of, limit_s=limit_s))
            self._note(line.connection_id, task, first.outcome)
            if other is None or not isinstance(first.outcome, Failure) or first.outcome.kind not in ANOTHER_MAY_ANSWER:
                return first
            missed = first.outcome
        instead = partial(judge_of, over=other.connection_id)
        outcome, model = await outcome_of(rule, case, instead, limit_s=limit_s)
        self._note(other.connection_id, task, outcome)
        if isinstance(outcome, Failure) and outcome.kind in {"bad_configuration", NOT_SERVED}:
            return JobAnswer(_without_fallback(outcome, other.name, missed))
        return JobAnswer(_with_fallback(outcome, other.name, missed), model, other, missed)

    def _note(self, connection_id: str | None, task: Task, outcome: Outcome) -> None:
        asker = JudgeSubject("rule", task.active.rule_id)
        self._judges.health.note(JudgeSubject("connection", connection_id or ""), outcome, task.job.job_id, asker)

    def _settle(self, line: ConnectionQueue, task: Task, answer: JobAnswer, result: JobResult) -> None:
        """Hand in the job: done, or for another attempt."""
        outcome, missed = answer.outcome, answer.missed
        line.end(task, has_result=not isinstance(outcome, Failure) or outcome.kind not in _COMES_AGAIN)
        if answer.of_jury is not None:
            self._settle_votes(line, answer.of_jury, task, outcome, result)
            return
        if answer.fallback is not None and line.breaker is not None and isinstance(missed, Failure):
            asks = missed.kind == "rate_limited"
            line.breaker.failed(self.now_s(), requested_s=missed.retry_after_s, asks_for_pause=asks)
        if answer.fallback is not None and not (isinstance(outcome, Failure) and outcome.kind in RETRYABLE):
            self._after_fallback(line, task, outcome, result)
        elif not isinstance(outcome, Failure):
            if line.breaker is not None and outcome.usage is not None:
                line.breaker.answered(self.now_s())
            self._hand_in(line, task, result)
        elif line.breaker is not None and outcome.kind in RETRYABLE:
            self._after_no_answer(line, line.breaker, task, outcome, result)
        else:
            if line.breaker is not None and outcome.kind not in NOT_THE_JUDGES:
                line.breaker.answered(self.now_s())
            self._after_failure(line, task, outcome, result)

    def _settle_votes(
        self, line: ConnectionQueue, failed: ConnectionQueue, task: Task, outcome: Outcome, result: JobResult
    ) -> None:
        """Hand in a job of a jury; the health of its connections is noted already."""
        if not isinstance(outcome, Failure):
            self._hand_in(line, task, result)
        elif failed.breaker is not None and outcome.kind in RETRYABLE:
            self._again_or_done(line, failed.breaker, task, outcome, result)
        else:
            self._after_failure(line, task, outcome, result)

    def _after_fallback(self, line: ConnectionQueue, task: Task, outcome: Outcome, result: JobResult) -> None:
        if isinstance(outcome, Failure):
            self._after_failure(line, task, outcome, result)
        else:
            self._hand_in(line, task, result)

    def _after_no_answer(
        self, line: ConnectionQueue, breaker: Breaker, task: Task, failure: Failure, result: JobResult
    ) -> None:
        breaker.failed(self.now_s(), requested_s=failure.retry_after_s, asks_for_pause=failure.kind == "rate_limited")
        self._again_or_done(line, breaker, task, failure, result)

    def _again_or_done(
        self, line: ConnectionQueue, breaker: Breaker, task: Task, failure: Failure, result: JobResult
    ) -> None:
        retry_policy = self._job_context.retry_policy
        down_s = breaker.down_for_s(self.now_s())
        counts = down_s is None or down_s > retry_policy.outage_s
        if counts and task.job.attempts >= retry_policy.attempts:
            self._hand_in(line, task, result)
        else:
            self._job_context.try_again(task, failure, counts=counts, requested_s=failure.retry_after_s)

    def _after_failure(self, line: ConnectionQueue, task: Task, failure: Failure, result: JobResult) -> None:
        """Handle a failure that a retry would mostly repeat."""
        job, active = task
        if failure.kind in LEFT_OUT:
            self._hand_in(line, task, skipped(job, active, failure.kind, failure.message, failure.usage))
            return
        if failure.kind == "budget_held":
            self._job_context.try_again(task, failure, counts=False, requested_s=failure.retry_after_s)
            return
        rubbish = self._rubbish.get(job.job_id, 0)
        if failure.kind in line.passing and rubbish < self._job_context.retry_policy.more_after_rubbish:
            self._rubbish[job.job_id] = rubbish + 1
            self._job_context.try_again(task, failure)
            return
        self._hand_in(line, task, result)

    def _hand_in(self, line: ConnectionQueue, task: Task, result: JobResult) -> None:
        line.end(task)
        self._rubbish.pop(task.job.job_id, None)
        self._votes.drop(task.job.job_id)
        self._job_context.sink.finish([result])


def _with_fallback(outcome: Outcome, name: str, missed: Outcome | None) -> Outcome:
    """Return the fallback's outcome, plus the cost of the failed attempt; a verdict names the fallback."""
    spent = None if missed is None else missed.usage
    if spent is not None:
        outcome = replace(outcome, usage=spent if outcome.usage is None else spent + outcome.usage)
    if isinstance(outcome, Verdict):
        return replace(outcome, metadata={**outcome.metadata, "fallbackConnection": name})
    return outcome


def _without_fallback(failure: Failure, name: str, missed: Failure | None) -> Failure:
    missing = f"its fallback {name!r} cannot be used: {failure.message}"
    if missed is None:
        return replace(failure, kind="unavailable", message=f"the connection is down, and {missing}")
    return replace(missed, message=f"{missed.message}; {missing}")
