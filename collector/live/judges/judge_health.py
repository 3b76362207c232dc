"""Failures of judges and checks since the last verdict, for each connection, rule and evaluation of a run."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from evaluators.chat.pace import ANOTHER_MAY_ANSWER, RETRYABLE
from evaluators.outcome import Failure, Outcome, Skipped
from storage.judging.job_results import OutcomeName

SubjectKind: TypeAlias = Literal["connection", "rule", "evaluation"]

SAYS_NOTHING: Final = frozenset(
    {"over_budget", "rule_disabled", "rule_deleted", "budget_held", "bad_case", "in_trace", "bad_configuration"}
)
"""Failures that do not show whether a judge works: no request was made, or the test case is to blame.

A rule whose test cases are all to blame counts as failing nevertheless (`_CASES`).
"""

_TARGETS: Final = 3
"""Number of different targets without a verdict that makes a failure: one may be impossible to judge. A guess."""

_CASES: Final = 20
"""The same for targets that lack values that a rule reads: the rule then matches the wrong targets. A guess."""

_SILENT_S: Final = 60.0
"""Age of a streak from which a retryable failure suffices, even with fewer than `_TARGETS` targets. A guess."""


class JudgeSubject(NamedTuple):
    """A connection, a rule, or an evaluation of a run."""

    kind: SubjectKind
    identity: str


class JudgedTarget(NamedTuple):
    """Outcome of an evaluation, as far as it shows whether a judge works."""

    target: Hashable
    outcome: OutcomeName
    kind: str | None = None  # of a failure, or why nothing was judged
    message: str = ""
    was_called: bool = False  # a judge answered, or may have
    has_ended: bool = False  # of a job: no other attempt follows


def _judged(outcome: Outcome, target: Hashable) -> JudgedTarget:
    was_called = outcome.usage is not None
    if isinstance(outcome, Failure):
        return JudgedTarget(target, "failed", outcome.kind, outcome.message, was_called)
    return JudgedTarget(target, "skipped" if isinstance(outcome, Skipped) else "scored", was_called=was_called)


@dataclass(slots=True, kw_only=True)
class Streak:
    """The failures of a subject since its last verdict."""

    since_ns: int
    last_ns: int
    may_be_silent: bool  # `_SILENT_S` applies; not to rules, where one large target may fail
    kind: str = ""  # of the latest failure
    kinds: dict[str, None] = field(default_factory=dict)  # of all failures, in the order of the first of each
    message: str = ""
    failures: int = 0
    targets: set[Hashable] = field(default_factory=set)  # the first that failed, except for bad cases
    case_message: str = ""  # of the latest failure of the kind `bad_case`
    ended: Counter[str] = field(default_factory=Counter)  # of a rule: evaluations that ended without a verdict, by kind
    bad_cases: set[Hashable] = field(default_factory=set)  # of a rule: the first targets that lack values it reads
    askers: set[JudgeSubject] = field(default_factory=set)  # of a connection: rules and evaluations that met failures

    def add(self, judged: JudgedTarget, kind: str, now_ns: int) -> None:
        """Count a failure."""
        self.last_ns, self.kind, self.message = now_ns, kind, judged.message
        self.failures += 1
        self.kinds[kind] = None
        if kind == "bad_case":
            self.case_message = judged.message
        elif judged.has_ended:
            self.ended[kind] += 1
        targets, most = (self.bad_cases, _CASES) if kind == "bad_case" else (self.targets, _TARGETS)
        if len(targets) < most:
            targets.add(judged.target)

    def forget_judges(self) -> bool:
        """Forget the failures of judges; return True if failures of test cases are left."""
        self.targets.clear()
        self.ended.clear()
        self.kind, self.message, self.kinds = "bad_case", self.case_message, {"bad_case": None}
        return bool(self.bad_cases)

    @property
    def earlier(self) -> tuple[str, ...]:
        """Return the other kinds of failure since the last verdict."""
        return tuple(kind for kind in tuple(self.kinds) if kind != self.kind)

    def is_failing(self, now_ns: int) -> bool:
        """Return True if there are enough failures to conclude that no verdicts come."""
        is_silent = self.may_be_silent and self.kind in RETRYABLE and now_ns - self.since_ns >= _SILENT_S * 1e9
        return is_silent or len(self.targets) >= _TARGETS or len(self.bad_cases) >= _CASES


class JudgeHealth:
    """Streaks by subject. Thread-safe.

    A connection is to blame if no rule or evaluation gets verdicts over it. A failure that the request may have caused
    belongs to the rule alone if others got verdicts over the connection since the rule began to fail.
    """

    def __init__(self, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._clock_ns = clock_ns
        self._lock = threading.Lock()
        self._streaks: dict[JudgeSubject, Streak] = {}
        self._verdict_ns: dict[JudgeSubject, int] = {}  # of connections: the latest verdict
        self._failing_since_ns: dict[tuple[JudgeSubject, JudgeSubject], int] = {}  # by connection and asker
        self._followers: list[Callable[[str], None]] = []

    @property
    def streaks(self) -> dict[JudgeSubject, Streak]:
        """Return the subjects that failed since their last verdict."""
        with self._lock:
            return dict(self._streaks)

    def note(
        self, subject: JudgeSubject, outcome: Outcome, target: Hashable, asker: JudgeSubject | None = None
    ) -> None:
        """Count an outcome: a failure continues the streak of the subject, a verdict ends it.

        A skipped target without a call does not count, nor do failures that say nothing about the judge. `asker` is the
        rule or evaluation that used a connection.
        """
        self._note(subject, _judged(outcome, target), asker)

    def note_of_rule(self, rule_id: str, judged: JudgedTarget) -> None:
        """Count the outcome of a rule's job."""
        self._note(JudgeSubject("rule", rule_id), judged, None)

    def _note(self, subject: JudgeSubject, judged: JudgedTarget, asker: JudgeSubject | None) -> None:
        kind = judged.kind
        if judged.outcome == "skipped" and (kind is not None or not judged.was_called):
            return
        if kind is None:
            if judged.was_called or subject.kind != "connection":  # else no judge was called
                self._end(subject, asker)
            return
        is_ours = subject.kind == "connection" and kind == "evaluator_error"
        is_bad_case = subject.kind == "rule" and kind == "bad_case"
        if is_ours or (kind in SAYS_NOTHING and not is_bad_case):
            return
        now_ns = self._clock_ns()
        with self._lock:
            if asker is not None and self._is_askers_own(subject, asker, kind, now_ns):
                return
            streak = self._streaks.get(subject)
            if streak is None:
                streak = Streak(since_ns=now_ns, last_ns=now_ns, may_be_silent=subject.kind != "rule")
                self._streaks[subject] = streak
            streak.add(judged, kind, now_ns)
            if asker is not None:
                streak.askers.add(asker)

    def follow(self, works: Callable[[str], None]) -> None:
        """Call `works` with the id of each connection that answered a manual request, in the judges' thread."""
        self._followers.append(works)

    def answered(self, connection_id: str, *, is_verdict: bool = True) -> None:
        """End the streak of a connection that answered a test, a trial of a rule, or the playground.

        Without `is_verdict`, this ends a streak only if its latest failure is of a kind in `ANOTHER_MAY_ANSWER`.
        """
        subject = JudgeSubject("connection", connection_id)
        streak = self.streaks.get(subject)
        if streak is not None and not is_verdict and streak.kind not in ANOTHER_MAY_ANSWER:
            return
        self._end(subject, None)
        for each in self._followers:
            each(connection_id)

    def forget(self, subject: JudgeSubject) -> None:
        """Forget a subject that was changed, or is no more."""
        with self._lock:
            self._streaks.pop(subject, None)
            self._verdict_ns.pop(subject, None)
            for pair in [each for each in self._failing_since_ns if subject in each]:
                del self._failing_since_ns[pair]

    def _end(self, subject: JudgeSubject, asker: JudgeSubject | None) -> None:
        """End the streak of a subject that gave a verdict; of a connection, also forget the failures of its askers."""
        if subject.kind != "connection" and subject not in self._streaks:
            return  # nearly always, and checks give thousands of verdicts a second
        with self._lock:
            streak = self._streaks.pop(subject, None)
            if subject.kind != "connection":
                return
            self._verdict_ns[subject] = self._clock_ns()
            if asker is not None:
                self._failing_since_ns.pop((subject, asker), None)
            for each in () if streak is None else streak.askers:
                if (other := self._streaks.get(each)) is not None and not other.forget_judges():
                    del self._streaks[each]

    def _is_askers_own(self, connection: JudgeSubject, asker: JudgeSubject, kind: str, now_ns: int) -> bool:
        since_ns = self._failing_since_ns.setdefault((connection, asker), now_ns)
        return kind not in ANOTHER_MAY_ANSWER and self._verdict_ns.get(connection, since_ns) > since_ns
