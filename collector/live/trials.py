"""Evaluations on the spot, of a rule that nobody has put in force: by checks only, and nothing of them is stored."""

import datetime as dt
import itertools
import threading
from collections.abc import Sequence
from typing import Final

from collector.children.process import ChildFailed
from collector.conventions.own import OwnKeys
from collector.evaluation.rule_trial import Example
from collector.live.active import ActiveRule
from collector.live.lanes import lane_of
from collector.live.work.desk import Task
from collector.live.work.examiner import Examiner, NotExamined
from collector.live.work.patience import Patience
from rules.rule import Rule
from storage.errors import Overloaded
from storage.jobs import Job, Result
from storage.readings import Readings

_PATIENCE: Final = Patience(check_cpu_s=1.0, child_s=30.0)
"""Guesses: a person waits."""

_IDLE_S: Final = 60.0
"""For so long the process is kept for the next evaluation; to start it takes the better part of a second."""

_WAIT_S: Final = 10.0
_NEVER: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - as jobs have it: UTC, without a zone


class Trials:
    """Evaluates examples in a process of their own, which is started when it is needed. From any thread, in turns."""

    def __init__(self, readings: Readings, own: OwnKeys) -> None:
        self._readings = readings
        self._own = own
        self._turn = threading.Lock()
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

    def evaluate(self, rule: Rule, examples: Sequence[Example]) -> list[Result]:
        """What an evaluator that asks nobody says of each example, in their order; nothing where it asks somebody.

        Raises:
            Overloaded: others are at it, or it cannot be found out now.
        """
        lane = lane_of(rule)
        if lane != "check" or not examples:
            return []
        active = ActiveRule(tenant="", rule_id="", revision=next(self._revisions), rule=rule, lane=lane)
        tasks = [Task(_job(number, active.revision, each), active) for number, each in enumerate(examples)]
        if not self._turn.acquire(timeout=_WAIT_S):
            raise Overloaded("others try rules out")
        try:
            found = {each.task.job.job_id: each.result() for each in self._ready().examine(tasks)}
        except (ChildFailed, NotExamined) as error:
            raise Overloaded(f"the examples could not be evaluated: {error}") from error
        finally:
            self._rest()
            self._turn.release()
        return [found[task.job.job_id] for task in tasks]

    def _ready(self) -> Examiner:
        if self._closed:
            raise ChildFailed("closed")
        if self._idle is not None:
            self._idle.cancel()
        if self._examiner is None:
            self._examiner = Examiner(self._readings, self._own, "outcome", patience=_PATIENCE)
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


def _job(number: int, revision: int, example: Example) -> Job:
    return Job(
        job_id=number,
        revision=revision,
        seq=example.seq,
        tenant=example.tenant,
        project=None,
        trace_id=example.trace_id,
        span_id=example.span_id,
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
