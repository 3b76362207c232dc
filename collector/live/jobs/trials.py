"""Evaluations on the spot, of a rule that nobody has put in force; of them only what a judge took is stored."""

import asyncio
import itertools
import json
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

from collector.children.process import ChildFailed
from collector.conventions.own import OwnKeys
from collector.evaluation.prompt_preview import PromptPreview, preview_prompt
from collector.evaluation.rule_trial import TargetExample
from collector.live.active import ActiveRule
from collector.live.jobs.capped import Capped
from collector.live.jobs.work.examiner import Examined, Examiner, NotExamined
from collector.live.jobs.work.job_context import Task, failed
from collector.live.jobs.work.outcomes import outcome_of, outcome_of_judges
from collector.live.jobs.work.retry_policy import RetryPolicy
from collector.live.jobs.work.storable import result_of
from collector.live.judges.judges import ConnectedJudges, JudgeTerms
from collector.live.rules.executor_kinds import executor_kind_of
from evaluators.chat.connection import Price
from evaluators.chat.request_budget import ASSUMED_OUTPUT_TOKENS, Estimate, RequestBudget
from evaluators.judging import Judge
from evaluators.outcome import Outcome, Verdict
from rules.rule import Rule
from storage.errors import Overloaded
from storage.ingest.windows import Windows
from storage.judging.job_results import JobResult
from storage.judging.jobs import Job
from storage.limit import Limit

Found = TypeVar("Found")

_RETRY_POLICY: Final = RetryPolicy(check_cpu_s=1.0, child_s=30.0)
"""Guesses: a person waits."""

_IDLE_S: Final = 60.0
"""For so long the process is kept for the next evaluation; to start it takes the better part of a second."""

_WAIT_S: Final = 10.0


DRAFTS: Final = "drafts"
"""On whose behalf a judge is asked for a rule that there is not yet, where calls are counted by rule."""

ASKED_S: Final = 60.0
"""What the judge has for an example. A guess: a person waits, and what waits with him mostly gives up after that."""

_ASKED_AT_ONCE: Final = 4
_ASKED: Final = Limit(value=_ASKED_AT_ONCE, unit="at a time", remedy="try again when they have answers")
_TRIED: Final = Limit(value=1, unit="at a time", remedy="try again in a moment")
_MOST_INPUT: Final = 100_000
_MOST_ANSWERS: Final = 8
"""What an example may take, in tokens, and in answers as long as they may be. Guesses: long conversations and judges
that ask several times fit, a trace of megabytes and a judge that asks about each of dozens of claims do not."""


def most_of(output_tokens: int | None) -> Estimate:
    """What an example takes at most, over a connection whose answers have so many tokens; None: nothing bounds them."""
    return Estimate(input_tokens=_MOST_INPUT, output_tokens=_MOST_ANSWERS * (output_tokens or ASSUMED_OUTPUT_TOKENS))


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgesAtHand:
    """The judges of rules, and how something is done in their event loop."""

    of: ConnectedJudges
    run: Callable[[Coroutine[Any, Any, JobResult]], Future[JobResult]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialAnswers:
    """What a judge, or a jury, said of each example, and what it took in all, as budgets count it."""

    results: Sequence[JobResult]
    calls: int
    taken: Estimate
    usd: float | None  # None: a model that was asked has no price


@dataclass(frozen=True, slots=True)
class _OnTrial:
    """Implements `JobToJudge` for an example."""

    tenant: str
    project: str | None
    job_id: int | None = None


@dataclass(frozen=True, slots=True)
class _Paid:
    """What one judge took for one example."""

    request_budget: Capped
    price: Price | None

    @property
    def usd(self) -> float | None:
        """None: its model has no price."""
        taken = self.request_budget.taken
        return None if self.price is None else self.price.usd(taken.input_tokens, taken.output_tokens)


class Trials:
    """Evaluates examples in a process of their own, which is started when it is needed. From any thread, in turns."""

    def __init__(self, windows: Windows, own: OwnKeys, judges: JudgesAtHand) -> None:
        self._windows = windows
        self._own = own
        self._turn = threading.Lock()
        self._judges = judges
        self._asked = threading.BoundedSemaphore(_ASKED_AT_ONCE)
        self._revisions = itertools.count(-1, -1)  # the process knows evaluators by revision, and drafts have none
        self._examiner: Examiner | None = None
        self._idle: threading.Timer | None = None
        self._closed = False

    def close(self) -> None:
        """Let go of the process; what is under way fails."""
        self._closed = True
        examiner = self._examiner
        if examiner is not None:
            examiner.kill()
        with self._turn:
            self._let_go()

    def evaluate(self, rule: Rule, examples: Sequence[TargetExample]) -> list[JobResult]:
        """What an evaluator that asks nobody says of each example, in their order; nothing where it asks somebody.

        Raises:
            Overloaded: others are at it, or it cannot be found out now.
        """
        executor_kind = executor_kind_of(rule)
        if executor_kind != "check" or not examples:
            return []
        active = ActiveRule(
            tenant="", rule_id="", revision=next(self._revisions), rule=rule, executor_kind=executor_kind
        )
        tasks = _tasks(active, examples)
        found = self._ask_process(lambda examiner: _results(examiner, tasks))
        return [found[task.job.job_id] for task in tasks]

    def terms(self, tenant: str, rule_id: str | None, rule: Rule) -> list[JudgeTerms]:
        """Over which connection, and for how much, each judge of a rule of a tenant would be asked.

        Raises:
            BadConfiguration: it cannot be; the message says what to do.
        """
        return self._judges.of.terms_of(self._active(tenant, rule_id, rule))

    def ask(self, tenant: str, rule_id: str | None, rule: Rule, examples: Sequence[TargetExample]) -> TrialAnswers:
        """What the judge of a rule of a tenant says of each example, in their order; also why it could not be asked.

        It is asked over the rule's connection, within its limits, and paid like any judge: by the rule, where it is one
        that there is, the project and the connection. An example takes no more than `most_of` says. Where the rule has
        a jury, each of its judges is asked so, and their votes count.

        Raises:
            Overloaded: others are at it, or it cannot be found out now.
        """
        active, paid = self._active(tenant, rule_id, rule), list[_Paid]()
        if not self._asked.acquire(blocking=False):
            raise Overloaded(f"others ask judges about rules that they write, and may do so {_ASKED}")
        try:
            found = self._examined(active, examples)
            futures = [self._judges.run(self._judged(each, paid)) for each in found]
            try:
                results = [each.result(timeout=ASKED_S + _WAIT_S) for each in futures]
            finally:
                for each in futures:
                    each.cancel()
        except (CancelledError, TimeoutError) as error:
            raise Overloaded("the judge could not be asked: the server is being stopped, or far too busy") from error
        finally:
            self._asked.release()
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

    def preview(self, rule: Rule, example: TargetExample) -> PromptPreview:
        """What the judge of a rule would be asked about an example first. Nobody is asked.

        Raises:
            Overloaded: others are at it, or it cannot be found out now.
        """
        (examined,) = self._examined(self._active("", None, rule), [example])
        if examined.case_text is None:
            return PromptPreview(problem=examined.result().reason or "there is no test case")
        return asyncio.run(preview_prompt(rule.evaluator, rule.configuration, json.loads(examined.case_text)))

    async def _judged(self, examined: Examined, paid: list[_Paid]) -> JobResult:
        if examined.case_text is None:
            return examined.result()
        job, active = examined.task
        began_s = time.perf_counter()
        case = json.loads(examined.case_text)

        async def ask(over: str | None) -> tuple[Outcome, str | None]:
            judge_of = partial(self._judge, active, job, paid, over)
            outcome, model = await outcome_of(active.rule, case, judge_of, limit_s=ASKED_S)
            if isinstance(outcome, Verdict) and outcome.usage is not None:
                self._judges.of.health.answered(over or self._judges.of.connection_of(active))
            return outcome, model

        outcome, model = await outcome_of_judges(active.rule, partial(self._judges.of.jurors, active), ask)
        document = outcome.to_document()
        told = document if examined.part is None else examined.part.noted_in(document)
        return result_of(job.job_id, told, latency_ms=(time.perf_counter() - began_s) * 1000, judge_model=model)

    def _judge(self, active: ActiveRule, job: Job, paid: list[_Paid], over: str | None) -> Judge:
        """The judge for one example. Of a rule that there is not yet the budget begins when it is there."""
        terms = next(each for each in self._judges.of.terms_of(active) if over in {None, each.connection_id})
        most = most_of(terms.max_output_tokens)
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
        found = self._ask_process(lambda examiner: {each.task.job.job_id: each for each in examiner.cases(tasks)})
        return [found[task.job.job_id] for task in tasks]

    def _ask_process(self, ask: Callable[[Examiner], Found]) -> Found:
        if not self._turn.acquire(timeout=_WAIT_S):
            raise Overloaded(f"others try rules out, which is done {_TRIED}")
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
            if timer is self._idle:  # nobody came meanwhile
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
    """What came of each, by the id of its job."""
    found: dict[int, JobResult] = {}
    for results, postponed in examiner.judge(tasks):
        found |= {row["job_id"]: JobResult(**row) for row in results.to_pylist()}
        found |= {job_id: _postponed(tasks[job_id]) for job_id in postponed}
    return found


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
