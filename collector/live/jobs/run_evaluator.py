"""The thread that has evaluators judge the items of runs, and ends runs that were abandoned.

Checks run in a process of their own. Judges are asked in the event loop of the workers, over the same connections,
within the same limits and budgets as for rules. What an evaluation says is stored group by group under its id, so that
one that is cut off goes on where it was, and no item is scored twice.
"""

import asyncio
import itertools
import json
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from collector.children.process import ChildFailed, ChildProcess
from collector.live.active import ActiveRule
from collector.live.jobs.work.outcomes import outcome_of, outcome_of_judges
from collector.live.jobs.work.retry_policy import RetryPolicy
from collector.live.jobs.work.storable import REASON_CHARACTERS
from collector.live.judges.judges import ConnectedJudges
from collector.live.rules.executor_kinds import executor_kind_of
from evaluators.chat.pace import RETRYABLE
from evaluators.errors import BadConfiguration
from evaluators.outcome import Failure, Outcome
from evaluators.registry import kind_of
from rules.errors import BadRule
from rules.rule import Rule
from rules.rule_text import stored_rule
from storage.errors import Overloaded
from storage.offline.run_evaluations import Evaluation, RunEvaluations, Unscored
from storage.offline.run_items import NewScore, RunItems
from storage.offline.runs import Runs

log = logging.getLogger(__name__)

PROGRAM: Final = "from collector.live.jobs.work.case_child import main; main()"

_LOOK_S: Final = 5.0  # where nobody says that something is new
_KEEP_S: Final = 60.0  # between two looks for runs that were abandoned or have expired
_CHECKED_AT_ONCE: Final = 256
_JUDGED_AT_ONCE: Final = 64
_MOST_BYTES: Final = 16 << 20  # of the cases in one request to the process; it may hold a gigabyte
_ATTEMPTS: Final = 4
"""Guesses. Of an item that no endpoint answers, beside the retries of each request."""

_DAY_US: Final = 86_400_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStore:
    """What is stored of runs."""

    runs: Runs
    items: RunItems
    evaluations: RunEvaluations


@dataclass(frozen=True, slots=True)
class _OfRun:
    """Implements `JobToJudge` for an item of a run."""

    tenant: str
    project: str | None
    job_id: int | None = None


class RunEvaluator:
    """Evaluates runs, one evaluation after the other. `start` begins; `close` stops within seconds."""

    def __init__(
        self,
        store: RunStore,
        judges: ConnectedJudges,
        ask: Callable[[Coroutine[Any, Any, NewScore]], Future[NewScore]],
        *,
        retry_policy: RetryPolicy | None = None,
        retention_days: int | None = None,
    ) -> None:
        """`ask` has something done in the event loop in which judges are asked."""
        self._store = store
        self._judges = judges
        self._ask = ask
        self._retry_policy = retry_policy or RetryPolicy()
        self._retention_days = retention_days
        self._revisions = itertools.count(-1, -1)
        self._changed = threading.Event()
        self._stopping = threading.Event()
        self._kept_s = 0.0
        greeting = {"cpu_s": self._retry_policy.check_cpu_s}
        self._child = ChildProcess(PROGRAM, greeting, timeout_s=self._retry_policy.child_s)
        self._thread = threading.Thread(target=self._run, name="runs", daemon=True)

    def start(self) -> None:
        """Begin, with what was open when the last process ended."""
        self._thread.start()

    def close(self) -> None:
        """Stop; what is under way goes on after the next start."""
        self._stopping.set()
        self._changed.set()
        self._child.kill()
        self._thread.join()
        self._child.close()

    def wake(self) -> None:
        """Say that something is to be evaluated, or that a run has ended."""
        self._changed.set()

    def active(self, tenant: str, evaluation_id: str, rule: Rule) -> ActiveRule:
        """The rule of an evaluation as judges know it."""
        revision = next(self._revisions)
        return ActiveRule(
            tenant=tenant, rule_id=evaluation_id, revision=revision, rule=rule, executor_kind=executor_kind_of(rule)
        )

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._keep()
                for evaluation in self._store.evaluations.open():
                    if self._stopping.is_set():
                        return
                    self._evaluate(evaluation)
            except Overloaded as error:
                log.warning("runs cannot be evaluated now, and wait: %s", error)
            except Exception:  # noqa: BLE001 - the top of a thread: the next look may go well
                log.exception("evaluating runs failed")
            self._changed.wait(_LOOK_S)
            self._changed.clear()

    def _keep(self) -> None:
        """End runs that were abandoned, and delete those that have expired."""
        if time.monotonic() - self._kept_s < _KEEP_S:
            return
        now_us = time.time_ns() // 1000
        self._store.runs.abandon(now_us=now_us)
        if self._retention_days is not None:
            self._store.runs.expire(before_us=now_us - self._retention_days * _DAY_US)
        self._kept_s = time.monotonic()

    def _evaluate(self, evaluation: Evaluation) -> None:
        error = None
        try:
            rule = stored_rule(evaluation.configuration)
            active = self.active(evaluation.tenant, evaluation.evaluation_id, rule)
            self._set(evaluation, "running")
            for items in self._groups(evaluation, active):
                scores = self._scores(evaluation, active, items)
                self._store_scores(evaluation, scores)
        except (BadRule, BadConfiguration) as found:
            error = str(found)
        except (ChildFailed, CancelledError):
            if self._stopping.is_set():
                return
            raise
        if not self._stopping.is_set():
            self._store.runs.sums([evaluation.run_id])  # before it is done: whoever waits for that looks next
            self._set(evaluation, "done" if error is None else "failed", error)

    def _groups(self, evaluation: Evaluation, active: ActiveRule) -> Iterator[Sequence[Unscored]]:
        """The items that are left, until there are no more or somebody cancels it."""
        after, most = 0, _CHECKED_AT_ONCE if active.executor_kind == "check" else _JUDGED_AT_ONCE
        while not self._stopping.is_set():
            items = self._store.evaluations.unscored(evaluation, after=after, most=most)
            there = self._store.evaluations.of_run(evaluation.run_id)
            is_wanted = any(
                each.evaluation_id == evaluation.evaluation_id and each.state == "running" for each in there
            )
            if not items or not is_wanted:
                return
            yield items
            after = items[-1].item_number

    def _scores(
        self, evaluation: Evaluation, active: ActiveRule, items: Sequence[Unscored]
    ) -> list[tuple[int, NewScore]]:
        judged = [item for item in items if not item.has_failed]
        said = (
            self._checked(evaluation, active, judged)
            if active.executor_kind == "check"
            else self._judged(evaluation, active, judged)
        )
        direction = kind_of(active.rule.evaluator).direction
        scores = [
            (item.item_number, replace(score, direction=direction)) for item, score in zip(judged, said, strict=True)
        ]
        reason = "the task failed, so that there is nothing to judge"
        skipped = NewScore(name=evaluation.name, outcome="skipped", error_kind="task_failed", reason=reason)
        return scores + [(item.item_number, skipped) for item in items if item.has_failed]

    def _checked(self, evaluation: Evaluation, active: ActiveRule, items: Sequence[Unscored]) -> list[NewScore]:
        """What a check says; where the process dies of one of several items, of each by itself."""
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

    def _judged(self, evaluation: Evaluation, active: ActiveRule, items: Sequence[Unscored]) -> list[NewScore]:
        """What a judge says, of so many at a time as its connection takes.

        Raises:
            BadConfiguration: there is no such connection.
        """
        at_once = self._judges.in_flight(self._judges.connection_of(active))
        said: list[NewScore] = []
        for start in range(0, len(items), at_once):
            futures = [self._ask(self._score(evaluation, active, item)) for item in items[start : start + at_once]]
            try:
                said += [each.result() for each in futures]
            finally:
                for each in futures:
                    each.cancel()
        return said

    async def _score(self, evaluation: Evaluation, active: ActiveRule, item: Unscored) -> NewScore:
        began_s = time.perf_counter()
        of_run = _OfRun(evaluation.tenant, evaluation.project)
        ask = partial(self._answer, active, of_run, case_document(item))
        outcome, model = await outcome_of_judges(active.rule, partial(self._judges.jurors, active), ask)
        latency_ms = (time.perf_counter() - began_s) * 1000
        return score_of(evaluation.name, outcome.to_document(), latency_ms=latency_ms, judge_model=model)

    async def _answer(
        self, active: ActiveRule, of_run: _OfRun, case: Mapping[str, Any], over: str | None
    ) -> tuple[Outcome, str | None]:
        """What is said with the judge over one connection, which is asked again where it does not answer."""
        judge_of = partial(self._judges.judge, active, of_run, over=over)
        ask = partial(outcome_of, active.rule, case, judge_of, limit_s=self._retry_policy.job_s)
        outcome, model = await ask()
        for attempt in range(1, _ATTEMPTS):
            if not isinstance(outcome, Failure) or outcome.kind not in RETRYABLE:
                break
            await asyncio.sleep(self._retry_policy.wait_s(attempt, outcome.retry_after_s))
            outcome, model = await ask()
        return outcome, model

    def _store_scores(self, evaluation: Evaluation, scores: Sequence[tuple[int, NewScore]]) -> None:
        run = self._store.runs.find(None, evaluation.run_id)
        if run is not None and scores:
            self._store.items.add_scores(run, evaluation.evaluation_id, scores, now_us=time.time_ns() // 1000)

    def _set(self, evaluation: Evaluation, state: Any, error: str | None = None) -> None:  # noqa: ANN401 - a State
        now_us = time.time_ns() // 1000
        self._store.evaluations.set_state(evaluation.evaluation_id, state, error=error, now_us=now_us)


def case_document(item: Unscored) -> dict[str, Any]:
    """The test case that an item is."""
    return {
        "inputs": json.loads(item.inputs),
        "actualOutputs": json.loads(item.actual_outputs),
        "expectedOutputs": json.loads(item.expected_outputs),
        "metadata": json.loads(item.metadata),
    }


_OUTCOMES: Final[Mapping[str, str]] = {"verdict": "scored", "failure": "failed", "skipped": "skipped"}


def score_of(name: str, document: Mapping[str, Any], *, latency_ms: float, judge_model: str | None = None) -> NewScore:
    """The document of an outcome as a score of a run; what no budget was left for is skipped."""
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
    """What the scores of a rule's evaluator are called."""
    return str(rule.configuration.get("name") or kind_of(rule.evaluator).title)


def _size(item: Unscored) -> int:
    return len(item.inputs) + len(item.actual_outputs) + len(item.expected_outputs) + len(item.metadata)


def _killed(evaluation: Evaluation, error: ChildFailed) -> dict[str, Any]:
    message = f"it ended or hung the process that evaluates: {error}"
    return Failure(name=evaluation.name, fingerprint=None, kind="killed", message=message, usage=None).to_document()
