"""Trial evaluations of drafts of rules; only the usage of judges is stored."""

import asyncio
import itertools
import json
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

from collector.children.process import ChildFailed
from collector.conventions.own_keys import OwnKeys
from collector.evaluation.prompt_preview import PromptPreview, preview_prompt
from collector.evaluation.rule_trial import TargetExample
from collector.live.active import ActiveRule
from collector.live.jobs.capped import Capped
from collector.live.jobs.work.examiner import Examined, Examiner, NotExamined
from collector.live.jobs.work.job_context import Task, failed
from collector.live.jobs.work.outcomes import outcome_of, outcome_of_judges
from collector.live.jobs.work.retry_policy import RetryPolicy
from collector.live.jobs.work.storable import result_of
from collector.live.jobs.work.target import ExaminedPart
from collector.live.judges.judges import ConnectedJudges, JudgeTerms
from collector.live.rules.executor_kinds import executor_kind_of
from evaluators.chat.connection import Price
from evaluators.chat.request_budget import ASSUMED_OUTPUT_TOKENS, Estimate, RequestBudget
from evaluators.judge_interface import Judge
from evaluators.outcome import Outcome, Verdict
from rules.rule import Rule
from storage.errors import Overloaded
from storage.ingest.windows import Windows
from storage.judging.job_results import JobResult
from storage.judging.jobs import Job
from storage.limit import Limit

Result = TypeVar("Result")

_RETRY_POLICY: Final = RetryPolicy(check_cpu_s=1.0, child_s=30.0)
"""Guesses: short, because a user waits for the results."""

_IDLE_S: Final = 60.0
"""Time for which the idle process is kept for the next evaluation; starting it takes almost a second."""

_WAIT_S: Final = 10.0


DRAFTS: Final = "drafts"
"""Rule id under which calls for draft rules are counted."""

CALLS_TIMEOUT_S: Final = 60.0
"""Time that a judge may take for one example. A guess: HTTP clients and proxies mostly time out after a minute."""

_TRIALS_AT_ONCE: Final = 4
_TRIALS: Final = Limit(value=_TRIALS_AT_ONCE, unit="at a time", remedy="try again when they have answers")
_TRIED: Final = Limit(value=1, unit="at a time", remedy="try again in a moment")
_MOST_INPUT: Final = 100_000
_MOST_ANSWERS: Final = 8
"""Limits of one example: input tokens, and answers of maximal length. Guesses: long conversations and judges that call
several times fit, a trace of megabytes and a judge with a call for each of dozens of claims do not.
"""


def most_of(output_tokens: int | None) -> Estimate:
    """Return the tokens that an example may take over a connection with this output limit; None: it has no limit."""
    return Estimate(input_tokens=_MOST_INPUT, output_tokens=_MOST_ANSWERS * (output_tokens or ASSUMED_OUTPUT_TOKENS))


_ANY: Final = Estimate(input_tokens=sys.maxsize, output_tokens=sys.maxsize)


def _limit_s(*, is_capped: bool) -> float:
    return CALLS_TIMEOUT_S if is_capped else RetryPolicy().job_s


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgesAtHand:
    """The judges of rules, and access to their event loop."""

    of: ConnectedJudges
    run: Callable[[Coroutine[Any, Any, JobResult]], Future[JobResult]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialAnswers:
    """Results of a judge or a jury for the examples, and their usage, as budgets count it."""

    results: Sequence[JobResult]
    calls: int
    taken: Estimate
    usd: float | None  # None: a model has no price


@dataclass(frozen=True, slots=True)
class _OnTrial:
    """Implementation of `JobToJudge` for an example."""

    tenant: str
    project: str | None
    job_id: int | None = None


@dataclass(frozen=True, slots=True)
class _Paid:
    """Usage of one judge for one example."""

    request_budget: Capped
    price: Price | None

    @property
    def usd(self) -> float | None:
        """Return the cost in USD; None if the model has no price."""
        taken = self.request_budget.taken
        return None if self.price is None else self.price.usd(taken.input_tokens, taken.output_tokens)


class Trials:
    """Evaluation of examples in a separate process, which starts on demand. Thread-safe; trials take turns."""

    def __init__(self, windows: Windows, own: OwnKeys, judges: JudgesAtHand) -> None:
        self._windows = windows
        self._own = own
        self._turn = threading.Lock()
        self._judges = judges
        self._slots = threading.BoundedSemaphore(_TRIALS_AT_ONCE)
        self._revisions = itertools.count(-1, -1)  # the process knows evaluators by revision, and drafts have none
        self._examiner: Examiner | None = None
        self._idle: threading.Timer | None = None
        self._closed = False

    def close(self) -> None:
        """Release the process; evaluations under way fail."""
        self._closed = True
        examiner = self._examiner
        if examiner is not None:
            examiner.kill()
        with self._turn:
            self._let_go()

    def evaluate(self, rule: Rule, examples: Sequence[TargetExample]) -> list[JobResult]:
        """Evaluate examples by a check, in their order; return [] for a rule that calls a judge or a program.

        Raises:
            Overloaded: other trials are running, or the examples cannot be evaluated now.
        """
        executor_kind = executor_kind_of(rule)
        if executor_kind != "check" or not examples:
            return []
        active = ActiveRule(
            tenant="", rule_id="", revision=next(self._revisions), rule=rule, executor_kind=executor_kind
        )
        tasks = _tasks(active, examples)
        results = self._ask_process(lambda examiner: _results(examiner, tasks))
        return [results[task.job.job_id] for task in tasks]

    def terms(self, tenant: str, rule_id: str | None, rule: Rule) -> list[JudgeTerms]:
        """Return the connection and the price of each judge of a tenant's rule.

        Raises:
            BadConfiguration: no judge can be called; the message says what to do.
        """
        return self._judges.of.terms_of(self._active(tenant, rule_id, rule))

    def ask(self, tenant: str, rule_id: str | None, rule: Rule, examples: Sequence[TargetExample]) -> TrialAnswers:
        """Call the judge of a tenant's rule for each example, in their order; a failed call is a result too.

        Calls go over the rule's connection, within its limits, and count against the budgets of the rule, if stored, of
        the project and of the connection. A judge takes no more for an example than `most_of` returns. With a jury,
        each of its judges is called, and their votes count.

        Raises:
            Overloaded: other trials are running, or the examples cannot be evaluated now.
        """
        active = self._active(tenant, rule_id, rule)
        return self._ask(lambda: self._examined(active, examples))

    def ask_about(self, kept: ActiveRule, example: TargetExample, case: str, part: ExaminedPart | None) -> TrialAnswers:
        """Call the judge of a stored rule for a test case that was made elsewhere, within the limits of a job.

        Raises:
            Overloaded: as `ask`.
        """
        (task,) = _tasks(self._active(kept.tenant, kept.rule_id, kept.rule), [example])
        return self._ask(lambda: [Examined(task=task, document={"case": case}, part=part)], is_capped=False)

    def _ask(self, examine: Callable[[], Sequence[Examined]], *, is_capped: bool = True) -> TrialAnswers:
        paid = list[_Paid]()
        if not self._slots.acquire(blocking=False):
            raise Overloaded(f"too many trials of rules with judges are running; the limit is {_TRIALS}")
        try:
            futures = [self._judges.run(self._judged(each, paid, is_capped=is_capped)) for each in examine()]
            try:
                results = [each.result(timeout=_limit_s(is_capped=is_capped) + _WAIT_S) for each in futures]
            finally:
                for each in futures:
                    each.cancel()
        except (CancelledError, TimeoutError) as error:
            raise Overloaded("the judge could not be called: the server is being stopped, or overloaded") from error
        finally:
            self._slots.release()
        costs = [each.usd for each in paid]
        return TrialAnswers(
            results=results,
            calls=sum(each.request_budget.calls for each in paid),
            taken=Estimate(
                input_tokens=sum(each.request_budget.taken.input_tokens for each in paid),
                output_tokens=sum(each.request_budget.taken.output_tokens for each in paid),
            ),
            usd=None if None in costs else sum(each for each in costs if each is not None),
        )

    def cases(self, rule: Rule, examples: Sequence[TargetExample]) -> list[Mapping[str, Any] | None]:
        """Return the test case of each example, as the rule's evaluator gets it; None if it cannot be made.

        Raises:
            Overloaded: other trials are running, or the examples cannot be read now.
        """
        texts = (each.case_text for each in self._examined(self._active("", None, rule), examples))
        return [None if text is None else json.loads(text) for text in texts]

    def preview(self, rule: Rule, example: TargetExample) -> PromptPreview:
        """Render the prompt of a rule's judge for an example, without a call.

        Raises:
            Overloaded: other trials are running, or the example cannot be read now.
        """
        (examined,) = self._examined(self._active("", None, rule), [example])
        if examined.case_text is None:
            return PromptPreview(problem=examined.result().reason or "there is no test case")
        return asyncio.run(preview_prompt(rule.evaluator, rule.configuration, json.loads(examined.case_text)))

    async def _judged(self, examined: Examined, paid: list[_Paid], *, is_capped: bool) -> JobResult:
        if examined.case_text is None:
            return examined.result()
        job, active = examined.task
        began_s = time.perf_counter()
        case = json.loads(examined.case_text)

        async def ask(over: str | None) -> tuple[Outcome, str | None]:
            judge_of = partial(self._judge, active, job, paid, over, is_capped=is_capped)
            outcome, model = await outcome_of(active.rule, case, judge_of, limit_s=_limit_s(is_capped=is_capped))
            if isinstance(outcome, Verdict) and outcome.usage is not None:
                self._judges.of.health.answered(over or self._judges.of.connection_of(active))
            return outcome, model

        outcome, model = await outcome_of_judges(active.rule, partial(self._judges.of.jurors, active), ask)
        document = outcome.to_document()
        noted = document if examined.part is None else examined.part.noted_in(document)
        return result_of(job.job_id, noted, latency_ms=(time.perf_counter() - began_s) * 1000, judge_model=model)

    def _judge(self, active: ActiveRule, job: Job, paid: list[_Paid], over: str | None, *, is_capped: bool) -> Judge:
        """Return the judge for one example. A draft's own budget does not count before the rule is stored."""
        terms = next(each for each in self._judges.of.terms_of(active) if over in {None, each.connection_id})
        most = most_of(terms.max_output_tokens) if is_capped else _ANY
        pays = replace(active, rule=replace(active.rule, budget=None)) if active.rule_id == DRAFTS else active

        def capped(request_budget: RequestBudget) -> RequestBudget:
            paid.append(_Paid(Capped(request_budget, most), terms.price))
            return paid[-1].request_budget

        return self._judges.of.judge(pays, _OnTrial(job.tenant, job.project), over=over, through=capped)

    def _active(self, tenant: str, rule_id: str | None, rule: Rule) -> ActiveRule:
        revision = next(self._revisions)
        return ActiveRule(
            tenant=tenant, rule_id=rule_id or DRAFTS, revision=revision, rule=rule, executor_kind=executor_kind_of(rule)
        )

    def _examined(self, active: ActiveRule, examples: Sequence[TargetExample]) -> list[Examined]:
        tasks = _tasks(active, examples)
        examined = self._ask_process(lambda examiner: {each.task.job.job_id: each for each in examiner.cases(tasks)})
        return [examined[task.job.job_id] for task in tasks]

    def _ask_process(self, ask: Callable[[Examiner], Result]) -> Result:
        if not self._turn.acquire(timeout=_WAIT_S):
            raise Overloaded(f"another trial of a rule is running; the limit is {_TRIED}")
        try:
            return ask(self._ready())
        except (ChildFailed, NotExamined) as error:
            raise Overloaded(f"the examples could not be evaluated: {error}") from error
        finally:
            self._rest()
            self._turn.release()

    def _ready(self) -> Examiner:
        if self._closed:
            raise ChildFailed("closed")
        if self._idle is not None:
            self._idle.cancel()
        if self._examiner is None:
            self._examiner = Examiner(self._windows, self._own, retry_policy=_RETRY_POLICY)
        return self._examiner

    def _rest(self) -> None:
        if self._closed:
            return
        self._idle = threading.Timer(_IDLE_S, self._rested)
        self._idle.daemon = True
        self._idle.start()

    def _rested(self) -> None:
        timer = threading.current_thread()
        with self._turn:
            if timer is self._idle:  # no trial began meanwhile
                self._let_go()

    def _let_go(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        if self._examiner is not None:
            self._examiner.close()
        self._idle = self._examiner = None


def _tasks(active: ActiveRule, examples: Sequence[TargetExample]) -> list[Task]:
    return [Task(_job(number, active.revision, each), active) for number, each in enumerate(examples)]


def _results(examiner: Examiner, tasks: Sequence[Task]) -> dict[int, JobResult]:
    by_job: dict[int, JobResult] = {}
    for results, postponed in examiner.judge(tasks):
        by_job |= {row["job_id"]: JobResult(**row) for row in results.to_pylist()}
        by_job |= {job_id: _postponed(tasks[job_id]) for job_id in postponed}
    return by_job


def _postponed(task: Task) -> JobResult:
    return failed(*task, "timeout", "not evaluated, because the evaluator took too long just before")


def _job(number: int, revision: int, example: TargetExample) -> Job:
    return Job(
        job_id=number,
        revision=revision,
        seq=example.seq,
        tenant=example.tenant,
        project=example.project,
        trace_id=example.trace_id,
        span_id=example.span_id,
        session_id=example.session_id,
        attempts=1,
    )
