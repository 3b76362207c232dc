"""The thread that evaluates items of runs, and ends abandoned runs.

Checks run in a process of their own. Judges are called in the event loop of the workers, over the same connections,
within the same limits and budgets as for rules. Scores are stored group by group under the id of the evaluation, so
that an evaluation that is cut off continues, and no item is scored twice.
"""

import asyncio
import itertools
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from collector.children.process import ChildFailed, ChildProcess
from collector.evaluation.item_case import case_document
from collector.follower import WaitLog
from collector.live.active import ActiveRule
from collector.live.jobs.item_traces import CompletedItem, ItemTraces, TraceAwaited
from collector.live.jobs.work.outcomes import outcome_of, outcome_of_judges
from collector.live.jobs.work.retry_policy import MICROSECONDS, RetryPolicy, microseconds
from collector.live.jobs.work.storable import REASON_CHARACTERS
from collector.live.judges.failing_judges import WaitingOfRun
from collector.live.judges.judge_health import JudgeSubject
from collector.live.judges.judges import ConnectedJudges
from collector.live.rules.executor_kinds import executor_kind_of
from collector.units import count_text
from evaluators.chat.pace import RETRYABLE
from evaluators.errors import BadCase, BadConfiguration, InTrace
from evaluators.outcome import Failure, Outcome
from evaluators.registry import kind_of
from rules.errors import BadRule
from rules.rule import Rule
from rules.rule_text import stored_rule
from storage.clock import in_seconds, steady_clock
from storage.errors import Overloaded
from storage.offline.run_evaluations import Evaluation, RunEvaluations, Unscored
from storage.offline.run_items import NewScore, RunItems
from storage.offline.runs import Runs

log = logging.getLogger(__name__)

PROGRAM: Final = "from collector.live.jobs.work.case_child import main; main()"

_LOOK_S: Final = 5.0  # between checks, without a notification
_KEEP_S: Final = 60.0  # between checks for runs that were abandoned or have expired
_CHECKED_AT_ONCE: Final = 256
_CHECKED_FIRST: Final = 16
_CHECKED_FOR_S: Final = 0.5  # a guess: after that it is the turn of another run
_JUDGED_AT_ONCE: Final = 64
_MOST_BYTES: Final = 16 << 20  # of the cases in one request to the process, which may take a gigabyte
_ATTEMPTS: Final = 4
"""Guesses. The last: attempts for an item whose judge does not answer, besides the retries of each request."""

_DAY_US: Final = 86_400_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStore:
    """The stores of runs, their items and their evaluations."""

    runs: Runs
    items: RunItems
    evaluations: RunEvaluations


@dataclass(frozen=True, slots=True)
class _OfRun:
    """Implementation of `JobToJudge` for an item of a run."""

    tenant: str
    project: str | None
    job_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _ItemScore:
    """The score of an item. `is_passing`: its failure is transient, so an attempt after `retry_after_s` may differ."""

    score: NewScore
    is_passing: bool = False
    retry_after_s: float | None = None
    awaits_trace: bool = False  # no judge was called, so it is not an attempt


@dataclass(slots=True, kw_only=True)
class _Progress:
    """State of an evaluation: its progress, and the group of items at its judge."""

    evaluation: Evaluation
    active: ActiveRule
    resumes_s: float = 0.0  # by the steady clock
    turn: int = 0
    after: int = 0  # items up to this number need no further evaluation
    group_size: int
    attempts: Counter[int] = field(default_factory=Counter)  # failed attempts by item number
    connection_id: str | None = None  # connection of the calls for the group
    votes: dict[tuple[int, str | None], tuple[Outcome, str | None]] = field(default_factory=dict)  # kept for retries
    items: Sequence[Unscored] = ()
    futures: list[Future[_ItemScore]] = field(default_factory=list)

    @property
    def is_asking(self) -> bool:
        """Return True until all judges of the group have answered."""
        return not all(each.done() for each in self.futures)

    def cancel(self) -> None:
        """Cancel the calls of the group."""
        for each in self.futures:
            each.cancel()


class RunEvaluator:
    """Thread that evaluates runs, a group of items of each in turn. `start` begins; `close` stops within seconds.

    The thread does not wait for judges: it collects their answers, and serves other evaluations meanwhile. Over one
    connection, one evaluation of a tenant is active at a time. If an endpoint requests a pause, the evaluation stores
    when it continues, and a restart keeps that.
    """

    def __init__(
        self,
        store: RunStore,
        judges: ConnectedJudges,
        ask: Callable[[Coroutine[Any, Any, _ItemScore]], Future[_ItemScore]],
        traces: ItemTraces,
        *,
        retry_policy: RetryPolicy | None = None,
        retention_days: int | None = None,
    ) -> None:
        """Set up the evaluator. `ask` runs a coroutine in the event loop of the judges."""
        self._store = store
        self._judges = judges
        self._ask = ask
        self._traces = traces
        self._retry_policy = retry_policy or RetryPolicy()
        self._retention_days = retention_days
        self._clock = in_seconds(steady_clock())
        self._revisions = itertools.count(-1, -1)
        self._turns = itertools.count(1)
        self._changed = threading.Event()
        self._stopping = threading.Event()
        self._kept_s = 0.0
        self._progress: dict[str, _Progress] = {}  # of open evaluations, by id
        greeting = {"cpu_s": self._retry_policy.check_cpu_s}
        self._child = ChildProcess(PROGRAM, greeting, timeout_s=self._retry_policy.child_s)
        self._thread = threading.Thread(target=self._run, name="runs", daemon=True)

    def start(self) -> None:
        """Start, beginning with the evaluations that were open when the last process ended."""
        self._thread.start()

    def close(self) -> None:
        """Stop; runs under way go on after the next start."""
        self._stopping.set()
        self._changed.set()
        self._child.kill()
        self._thread.join()
        for progress in self._progress.values():
            progress.cancel()
        self._child.close()

    def wake(self) -> None:
        """Signal a new evaluation, the end of a run, or the answer of a judge."""
        self._changed.set()

    def active(self, tenant: str, evaluation_id: str, rule: Rule) -> ActiveRule:
        """Return the rule of an evaluation for judges."""
        revision = next(self._revisions)
        return ActiveRule(
            tenant=tenant, rule_id=evaluation_id, revision=revision, rule=rule, executor_kind=executor_kind_of(rule)
        )

    def _run(self) -> None:
        waits = WaitLog(log, "runs cannot be evaluated now, and wait: %s")
        while not self._stopping.is_set():
            self._changed.clear()
            pause_s = _LOOK_S
            try:
                self._keep()
                pause_s = self._look()
                waits.end()
            except Overloaded as error:
                waits.note(error)
            except Exception:  # noqa: BLE001 - the top of a thread: the next check may succeed
                if not self._stopping.is_set():
                    log.exception("evaluating runs failed")
            self._changed.wait(pause_s)

    def _keep(self) -> None:
        """End runs that were abandoned, and delete those that have expired."""
        if time.monotonic() - self._kept_s < _KEEP_S:
            return
        now_us = time.time_ns() // 1000
        self._store.runs.abandon(now_us=now_us)
        if self._retention_days is not None:
            self._store.runs.expire(before_us=now_us - self._retention_days * _DAY_US)
        self._kept_s = time.monotonic()

    def _look(self) -> float:
        """Store what judges answered, and begin the next group of each evaluation; return the seconds to wait."""
        for progress in self._progress.values():
            if progress.items and not progress.is_asking:
                self._collect(progress)
        is_open = {each.evaluation_id: each for each in self._store.evaluations.open()}
        for evaluation_id in self._progress.keys() - is_open.keys():
            self._progress.pop(evaluation_id).cancel()
            self._judges.health.forget(JudgeSubject("evaluation", evaluation_id))
        for evaluation in is_open.values():
            if evaluation.run_state == "CANCELLED":  # its items are incomplete, so no judge is paid
                self._cancel(evaluation)
            elif evaluation.evaluation_id not in self._progress:
                self._take_up(evaluation)
        due = [each for each in self._progress.values() if not each.items and each.resumes_s <= self._clock()]
        for progress in sorted(due, key=lambda each: each.turn):
            if self._stopping.is_set():
                break
            self._go_on(progress)
        waiting = [each.resumes_s - self._clock() for each in self._progress.values() if not each.items]
        return max(min([_LOOK_S, *(each for each in waiting if each > 0)]), 0.0)

    def _take_up(self, evaluation: Evaluation) -> None:
        """Begin an evaluation, or continue one of the last process at the stored time, at most one pause from now."""
        try:
            rule = stored_rule(evaluation.configuration)
        except (BadRule, BadConfiguration) as error:
            self._end(evaluation, str(error))
            return
        now_s = self._clock()
        resumes_s = min(
            (evaluation.continues_at_us or 0) / MICROSECONDS, now_s + self._retry_policy.longest_requested_s
        )
        active = self.active(evaluation.tenant, evaluation.evaluation_id, rule)
        group_size = _CHECKED_FIRST if active.executor_kind == "check" else _JUDGED_AT_ONCE
        progress = _Progress(evaluation=evaluation, active=active, resumes_s=resumes_s, group_size=group_size)
        if evaluation.state == "waiting":
            self._set(evaluation, "running")
        self._progress[evaluation.evaluation_id] = progress

    def _go_on(self, progress: _Progress) -> None:
        """Begin the next group of an evaluation, or end it if nothing is left."""
        evaluation, active = progress.evaluation, progress.active
        progress.turn = next(self._turns)
        try:
            if active.executor_kind != "check":
                progress.connection_id = self._judges.connection_of(active)
                if self._is_busy(progress):
                    return
                progress.group_size = min(_JUDGED_AT_ONCE, self._judges.in_flight(progress.connection_id))
            items = self._store.evaluations.unscored(evaluation, after=progress.after, most=progress.group_size)
            if not items:
                self._store.runs.sums([evaluation.run_id])  # before it is done: waiting clients then read the sums
                self._end(evaluation, self._store.evaluations.problem_of(evaluation))
                return
            progress.items = items
            judged = [item for item in items if not item.has_failed]
            if active.executor_kind == "check":
                self._check(progress, judged)
                return
            progress.futures = [self._ask(self._score(progress, item)) for item in judged]
        except BadConfiguration as error:
            self._end(evaluation, str(error))
            return
        except ChildFailed:
            progress.items = ()
            if self._stopping.is_set():
                return
            raise
        for each in progress.futures:
            each.add_done_callback(lambda _: self.wake())
        if not progress.futures:
            self.wake()

    def _is_busy(self, progress: _Progress) -> bool:
        """Return True while another evaluation of the tenant waits for responses over the same connection."""
        return any(
            each.futures
            and each.evaluation.tenant == progress.evaluation.tenant
            and each.connection_id == progress.connection_id
            for each in self._progress.values()
        )

    def _check(self, progress: _Progress, items: Sequence[Unscored]) -> None:
        """Check a group; the next one is larger, as long as that does not keep others waiting."""
        began_s = time.monotonic()
        scores = self._checked(progress.evaluation, progress.active, items)
        progress.futures = [
            _done(
                self._checked_by_trace(progress, item) if score.error_kind == InTrace.kind else _ItemScore(score=score)
            )
            for item, score in zip(items, scores, strict=True)
        ]
        is_quick = time.monotonic() - began_s < _CHECKED_FOR_S
        size = progress.group_size * 2 if is_quick else progress.group_size // 2
        progress.group_size = max(1, min(size, _CHECKED_AT_ONCE))
        self._collect(progress)
        self.wake()

    def _checked_by_trace(self, progress: _Progress, item: Unscored) -> _ItemScore:
        """Check an item together with its trace; each by itself, since traces are long."""
        completed = self._completed(progress.evaluation, item)
        if isinstance(completed, TraceAwaited):
            return _awaiting(progress.evaluation, completed)
        (score,) = self._checked(progress.evaluation, progress.active, [completed.item])
        return _ItemScore(score=_excused(score, completed))

    def _completed(self, evaluation: Evaluation, item: Unscored) -> CompletedItem | TraceAwaited:
        run = self._store.runs.find(None, evaluation.run_id)
        return CompletedItem(item=replace(item, trace_id=None)) if run is None else self._traces.complete(run, item)

    def _collect(self, progress: _Progress) -> None:
        """Store the answers of a group. Items whose judge may answer later wait, and with them their evaluation."""
        if any(each.cancelled() for each in progress.futures):  # the event loop of the judges ends
            progress.items, progress.futures = (), []
            return
        bug = next((error for each in progress.futures if (error := each.exception())), None)
        if bug is not None:
            log.error("evaluating items of run %s failed", progress.evaluation.run_id, exc_info=bug)
            progress.items, progress.futures, progress.resumes_s = (), [], self._clock() + _LOOK_S
            return
        judged = [item.item_number for item in progress.items if not item.has_failed]
        answers = dict(zip(judged, (each.result() for each in progress.futures), strict=True))
        direction = kind_of(progress.active.rule.evaluator).direction
        scores: list[tuple[int, NewScore]] = []
        waiting: dict[int, _ItemScore] = {}
        for item in progress.items:
            number, answer = item.item_number, answers.get(item.item_number)
            if answer is None:
                scores.append((number, _skipped(progress.evaluation)))
            elif answer.awaits_trace or (answer.is_passing and progress.attempts[number] + 1 < _ATTEMPTS):
                waiting[number] = answer
            else:
                scores.append((number, replace(answer.score, direction=direction)))
        self._store_scores(progress.evaluation, scores)
        progress.after = min(waiting, default=progress.items[-1].item_number + 1) - 1
        progress.items, progress.futures = (), []
        progress.votes = {key: vote for key, vote in progress.votes.items() if key[0] in waiting}
        progress.attempts.update(number for number, answer in waiting.items() if not answer.awaits_trace)
        if waiting:
            self._pause(progress, waiting)

    def _pause(self, progress: _Progress, waiting: Mapping[int, _ItemScore]) -> None:
        """Pause an evaluation: for the backoff, for the pause that its judge requested, or for traces to settle."""
        pause_s = max(
            (answer.retry_after_s or 0.0)
            if answer.awaits_trace
            else self._retry_policy.wait_s(progress.attempts[number], answer.retry_after_s)
            for number, answer in waiting.items()
        )
        progress.resumes_s = self._clock() + pause_s
        failed = next((answer for answer in waiting.values() if not answer.awaits_trace), None)
        if failed is None:
            first = next(iter(waiting.values())).score.reason
            of = count_text(len(waiting), "item")
            reason = f"it needs the traces of {of}, and looks again in {pause_s:.0f} s: {first}"
        else:
            reason = f"its judge is unavailable, and the next attempt is in {pause_s:.0f} s: {failed.score.reason}"
        self._store.evaluations.pause(
            progress.evaluation.evaluation_id, until_us=microseconds(progress.resumes_s), reason=reason
        )

    def waiting(self) -> list[WaitingOfRun]:
        """Return the open evaluations that call a judge, with the number of items to score."""
        return [
            WaitingOfRun(
                evaluation_id=each.evaluation.evaluation_id,
                name=each.evaluation.name,
                connection_id=each.connection_id,
                items=self._store.evaluations.count_unscored(each.evaluation),
            )
            for each in list(self._progress.values())
            if each.connection_id is not None
        ]

    def _end(self, evaluation: Evaluation, error: str | None) -> None:
        self._judges.health.forget(JudgeSubject("evaluation", evaluation.evaluation_id))
        self._set(evaluation, "done" if error is None else "failed", error)
        self._progress.pop(evaluation.evaluation_id, None)

    def _cancel(self, evaluation: Evaluation) -> None:
        self._set(evaluation, "cancelled")
        progress = self._progress.pop(evaluation.evaluation_id, None)
        if progress is not None:
            progress.cancel()

    def _checked(self, evaluation: Evaluation, active: ActiveRule, items: Sequence[Unscored]) -> list[NewScore]:
        """Evaluate items by a check. If the process dies, evaluate each of the items by itself."""
        if not items:
            return []
        if len(items) > 1 and sum(map(_size, items)) > _MOST_BYTES:
            half = len(items) // 2
            return [score for part in (items[:half], items[half:]) for score in self._checked(evaluation, active, part)]
        header = {
            "evaluator": active.rule.evaluator,
            "config": dict(active.rule.configuration),
            "cases": [case_document(item) for item in items],
        }
        began_s = time.perf_counter()
        try:
            documents = [each for answer, _ in self._child.ask(header, []) for each in answer["outcomes"]]
        except ChildFailed as error:
            if self._child.closed:
                raise
            if len(items) > 1:
                return [score for item in items for score in self._checked(evaluation, active, [item])]
            documents = [_killed(evaluation, error)]
        each_ms = (time.perf_counter() - began_s) * 1000 / len(items)
        return [score_of(evaluation.name, document, latency_ms=each_ms) for document in documents]

    async def _score(self, progress: _Progress, item: Unscored) -> _ItemScore:
        """Judge an item; if it lacks values that the evaluator requires, judge it completed from its trace."""
        answer = await self._judged(progress, item)
        if answer.score.error_kind != InTrace.kind:
            return answer
        completed = await asyncio.to_thread(self._completed, progress.evaluation, item)
        if isinstance(completed, TraceAwaited):
            return _awaiting(progress.evaluation, completed)
        answer = await self._judged(progress, completed.item)
        return replace(answer, score=_excused(answer.score, completed))

    async def _judged(self, progress: _Progress, item: Unscored) -> _ItemScore:
        """Call the judge for an item, or each judge of a jury; the caller repeats attempts that failed."""
        began_s = time.perf_counter()
        evaluation, active, health = progress.evaluation, progress.active, self._judges.health
        of_run = _OfRun(evaluation.tenant, evaluation.project)
        target, connection_id = (evaluation.run_id, item.item_number), progress.connection_id
        client_id = JudgeSubject("evaluation", evaluation.evaluation_id)

        async def ask(over: str | None) -> tuple[Outcome, str | None]:
            if (vote := progress.votes.get((item.item_number, over))) is not None:
                return vote  # of an earlier attempt, in which another judge of the jury failed
            judge_of = partial(self._judges.judge, active, of_run, over=over)
            answer = await outcome_of(active.rule, case_document(item), judge_of, limit_s=self._retry_policy.job_s)
            health.note(JudgeSubject("connection", over or connection_id or ""), answer[0], target, client_id)
            if not isinstance(answer[0], Failure):
                progress.votes[item.item_number, over] = answer
            return answer

        outcome, model = await outcome_of_judges(active.rule, partial(self._judges.jurors, active), ask)
        health.note(client_id, outcome, target)
        latency_ms = (time.perf_counter() - began_s) * 1000
        score = score_of(evaluation.name, outcome.to_document(), latency_ms=latency_ms, judge_model=model)
        if isinstance(outcome, Failure) and outcome.kind in RETRYABLE:
            return _ItemScore(score=score, is_passing=True, retry_after_s=outcome.retry_after_s)
        return _ItemScore(score=score)

    def _store_scores(self, evaluation: Evaluation, scores: Sequence[tuple[int, NewScore]]) -> None:
        run = self._store.runs.find(None, evaluation.run_id)
        if run is not None and scores:
            self._store.items.add_scores(run, evaluation.evaluation_id, scores, now_us=time.time_ns() // 1000)

    def _set(self, evaluation: Evaluation, state: Any, error: str | None = None) -> None:  # noqa: ANN401 - a State
        now_us = time.time_ns() // 1000
        self._store.evaluations.set_state(evaluation.evaluation_id, state, error=error, now_us=now_us)


def _done(score: _ItemScore) -> Future[_ItemScore]:
    future: Future[_ItemScore] = Future()
    future.set_result(score)
    return future


def _skipped(evaluation: Evaluation) -> NewScore:
    reason = "the task failed, so that there is nothing to judge"
    return NewScore(name=evaluation.name, outcome="skipped", error_kind="task_failed", reason=reason)


def _awaiting(evaluation: Evaluation, trace: TraceAwaited) -> _ItemScore:
    score = NewScore(name=evaluation.name, outcome="failed", error_kind=InTrace.kind, reason=trace.reason)
    return _ItemScore(score=score, is_passing=True, retry_after_s=trace.wait_s, awaits_trace=True)


def _excused(score: NewScore, completed: CompletedItem) -> NewScore:
    if completed.absence is None or score.error_kind != BadCase.kind:
        return score
    reason = f"{completed.absence}; {score.reason}"[:REASON_CHARACTERS]
    return replace(score, outcome="skipped", error_kind="no_trace", reason=reason)


_OUTCOMES: Final[Mapping[str, str]] = {"verdict": "scored", "failure": "failed", "skipped": "skipped"}


def score_of(name: str, document: Mapping[str, Any], *, latency_ms: float, judge_model: str | None = None) -> NewScore:
    """Convert the document of an outcome to a score of a run; over a budget, it is skipped."""
    usage, failure = document["usage"] or {}, document["failure"] or {}
    kind = failure.get("kind")
    reason = document["reason"]
    return NewScore(
        name=name,
        outcome="skipped" if kind == "over_budget" else _OUTCOMES[document["outcome"]],
        score=document["score"],
        passed=document["success"],
        threshold=document["threshold"],
        reason=None if reason is None else str(reason).encode("utf-8", "replace").decode()[:REASON_CHARACTERS],
        error_kind=kind,
        fingerprint=document["fingerprint"],
        metadata=json.dumps(document["metadata"]) if document["metadata"] else None,
        judge_model=usage.get("model") or judge_model,
        judge_calls=usage.get("calls"),
        input_tokens=usage.get("inputTokens"),
        output_tokens=usage.get("outputTokens"),
        cost_usd=usage.get("costUsd"),
        latency_ms=latency_ms,
    )


def name_of(rule: Rule) -> str:
    """Return the score name of a rule's evaluator."""
    return str(rule.configuration.get("name") or kind_of(rule.evaluator).title)


def _size(item: Unscored) -> int:
    return len(item.inputs) + len(item.actual_outputs) + len(item.expected_outputs) + len(item.metadata)


def _killed(evaluation: Evaluation, error: ChildFailed) -> dict[str, Any]:
    message = f"it ended or hung the process that evaluates: {error}"
    return Failure(name=evaluation.name, fingerprint=None, kind="killed", message=message, usage=None).to_document()
