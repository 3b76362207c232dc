"""Evaluations on the spot, of a rule that nobody has put in force; of them only what a judge took is stored."""

import asyncio
import datetime as dt
import itertools
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from collector.children.process import ChildFailed
from collector.conventions.own import OwnKeys
from collector.evaluation.prompt_preview import PromptPreview, preview_prompt
from collector.evaluation.rule_trial import Example
from collector.live.active import ActiveRule
from collector.live.jobs.capped import Capped
from collector.live.jobs.work.asking import outcome_of
from collector.live.jobs.work.desk import Task
from collector.live.jobs.work.examiner import Examined, Examiner, NotExamined, Wants
from collector.live.jobs.work.patience import RetryPolicy
from collector.live.jobs.work.results import result_of
from collector.live.judges.judges import ConnectedJudges, JudgeTerms
from collector.live.rules.lanes import lane_of
from evaluators.chat.toll import ASSUMED_OUTPUT_TOKENS, Estimate, RequestBudget
from evaluators.judging import Judge
from rules.rule import Rule
from storage.errors import Overloaded
from storage.ingest.windows import Windows
from storage.judging.jobs import Job, JobResult

_PATIENCE: Final = RetryPolicy(check_cpu_s=1.0, child_s=30.0)
"""Guesses: a person waits."""

_IDLE_S: Final = 60.0
"""For so long the process is kept for the next evaluation; to start it takes the better part of a second."""

_WAIT_S: Final = 10.0
_NEVER: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - as jobs have it: UTC, without a zone


DRAFTS: Final = "drafts"
"""On whose behalf a judge is asked for a rule that there is not yet, where calls are counted by rule."""

ASKED_S: Final = 60.0
"""What the judge has for an example. A guess: a person waits, and what waits with him mostly gives up after that."""

_ASKED_AT_ONCE: Final = 4
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
    """What a judge said of each example, and what it took in all, as budgets count it."""

    results: Sequence[JobResult]
    calls: int
    taken: Estimate


@dataclass(frozen=True, slots=True)
class _OnTrial:
    """Implements `JobToJudge` for an example."""

    tenant: str
    project: str | None
    job_id: int | None = None


class Trials:
    """Evaluates examples in a process of their own, which is started when it is needed. From any thread, in turns."""

    def __init__(self, windows: Windows, own: OwnKeys, judges: JudgesAtHand) -> None:
        self._windows = windows
        self._own = own
        self._turn = threading.Lock()
        self._judges = judges
        self._asked = threading.BoundedSemaphore(_ASKED_AT_ONCE)
        self._revisions = itertools.count(-1, -1)  # the process knows evaluators by revision, and drafts have none
        self._examiners: dict[Wants, Examiner] = {}
        self._idle: threading.Timer | None = None
        self._closed = False

    def close(self) -> None:
        """Let go of the process; what is under way fails."""
        self._closed = True
        for examiner in list(self._examiners.values()):
            examiner.kill()
        with self._turn:
            self._let_go()

    def evaluate(self, rule: Rule, examples: Sequence[Example]) -> list[JobResult]:
        """What an evaluator that asks nobody says of each example, in their order; nothing where it asks somebody.

        Raises:
            Overloaded: others are at it, or it cannot be found out now.
        """
        lane = lane_of(rule)
        if lane != "check" or not examples:
            return []
        active = ActiveRule(tenant="", rule_id="", revision=next(self._revisions), rule=rule, lane=lane)
        return [each.result() for each in self._examined(active, examples, "outcome")]

    def terms(self, tenant: str, rule_id: str | None, rule: Rule) -> JudgeTerms:
        """Over which connection, and for how much, the judge of a rule of a tenant would be asked.

        Raises:
            BadConfiguration: it cannot be; the message says what to do.
        """
        return self._judges.of.terms_of(self._active(tenant, rule_id, rule))

    def ask(self, tenant: str, rule_id: str | None, rule: Rule, examples: Sequence[Example]) -> TrialAnswers:
        """What the judge of a rule of a tenant says of each example, in their order; also why it could not be asked.

        It is asked over the rule's connection, within its limits, and paid like any judge: by the rule, where it is one
        that there is, the project and the connection. An example takes no more than `most_of` says.

        Raises:
            Overloaded: others are at it, or it cannot be found out now.
        """
        active, tolls = self._active(tenant, rule_id, rule), list[Capped]()
        if not self._asked.acquire(blocking=False):
            raise Overloaded("others ask judges about rules that they write")
        try:
            found = self._examined(active, examples, "case")
            futures = [self._judges.run(self._judged(each, tolls)) for each in found]
            try:
                results = [each.result(timeout=ASKED_S + _WAIT_S) for each in futures]
            finally:
                for each in futures:
                    each.cancel()
        except (CancelledError, TimeoutError) as error:
            raise Overloaded("the judge could not be asked: the server is being stopped, or far too busy") from error
        finally:
            self._asked.release()
        taken = Estimate(
            input_tokens=sum(each.taken.input_tokens for each in tolls),
            output_tokens=sum(each.taken.output_tokens for each in tolls),
        )
        return TrialAnswers(results=results, calls=sum(each.calls for each in tolls), taken=taken)

    def preview(self, rule: Rule, example: Example) -> PromptPreview:
        """What the judge of a rule would be asked about an example first. Nobody is asked.

        Raises:
            Overloaded: others are at it, or it cannot be found out now.
        """
        (examined,) = self._examined(self._active("", None, rule), [example], "case")
        if examined.case is None:
            return PromptPreview(problem=examined.result().reason or "there is no test case")
        return asyncio.run(preview_prompt(rule.evaluator, rule.configuration, examined.case))

    async def _judged(self, examined: Examined, tolls: list[Capped]) -> JobResult:
        if examined.case is None:
            return examined.result()
        job, active = examined.task
        began_s = time.perf_counter()
        judge_of = partial(self._judge, active, job, tolls)
        outcome, model = await outcome_of(active.rule, examined.case, judge_of, limit_s=ASKED_S)
        document = outcome.to_document()
        told = document if examined.part is None else examined.part.told_in(document)
        return result_of(job, told, latency_ms=(time.perf_counter() - began_s) * 1000, judge_model=model)

    def _judge(self, active: ActiveRule, job: Job, tolls: list[Capped]) -> Judge:
        """The judge for one example. Of a rule that there is not yet the budget begins when it is there."""
        most = most_of(self._judges.of.terms_of(active).max_output_tokens)
        pays = replace(active, rule=replace(active.rule, budget=None)) if active.rule_id == DRAFTS else active

        def capped(toll: RequestBudget) -> RequestBudget:
            tolls.append(Capped(toll, most))
            return tolls[-1]

        return self._judges.of.judge(pays, _OnTrial(job.tenant, job.project), through=capped)

    def _active(self, tenant: str, rule_id: str | None, rule: Rule) -> ActiveRule:
        revision = next(self._revisions)
        return ActiveRule(tenant=tenant, rule_id=rule_id or DRAFTS, revision=revision, rule=rule, lane=lane_of(rule))

    def _examined(self, active: ActiveRule, examples: Sequence[Example], wants: Wants) -> list[Examined]:
        tasks = [Task(_job(number, active.revision, each), active) for number, each in enumerate(examples)]
        if not self._turn.acquire(timeout=_WAIT_S):
            raise Overloaded("others try rules out")
        try:
            found = {each.task.job.job_id: each for each in self._ready(wants).examine(tasks)}
        except (ChildFailed, NotExamined) as error:
            raise Overloaded(f"the examples could not be evaluated: {error}") from error
        finally:
            self._rest()
            self._turn.release()
        return [found[task.job.job_id] for task in tasks]

    def _ready(self, wants: Wants) -> Examiner:
        if self._closed:
            raise ChildFailed("closed")
        if self._idle is not None:
            self._idle.cancel()
        if wants not in self._examiners:
            self._examiners[wants] = Examiner(self._windows, self._own, wants, patience=_PATIENCE)
        return self._examiners[wants]

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
        for examiner in self._examiners.values():
            examiner.close()
        self._idle, self._examiners = None, {}


def _job(number: int, revision: int, example: Example) -> Job:
    return Job(
        job_id=number,
        revision=revision,
        seq=example.seq,
        tenant=example.tenant,
        project=example.project,
        trace_id=example.trace_id,
        span_id=example.span_id,
        session_id=example.session_id,
        release=None,
        round=0,
        state="claimed",
        attempts=1,
        not_before=None,
        claimed_until=None,
        error_kind=None,
        error=None,
        created_at=_NEVER,
        occasion="trial",
    )
