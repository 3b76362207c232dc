"""The judges that give no verdicts: why, since when, and how many evaluations wait for them."""

import datetime as dt
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from collector.live.active import ActiveRule
from collector.live.budgets.budgets import Budgets
from collector.live.judges.connections import LlmConnections
from collector.live.judges.judge_health import JudgeSubject, Streak
from collector.live.judges.judges import ConnectedJudges
from collector.live.rules.active_rules import ActiveRules, LoadedRule
from collector.units import count_text, instant_text
from evaluators.chat.pace import ANOTHER_MAY_ANSWER
from evaluators.errors import BadConfiguration
from storage.errors import NotFound

_SHOWN_CHARACTERS: Final = 300

FailingKind: TypeAlias = Literal["connection", "rule", "evaluation", "budget"]


class WaitingOfRun(NamedTuple):
    """An open evaluation of a run, its connection, and its number of waiting items."""

    evaluation_id: str
    name: str
    connection_id: str | None
    items: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The waiting jobs of each rule, and the open evaluations of runs."""

    of_rules: Callable[[], Mapping[str, int]]
    of_runs: Callable[[], Sequence[WaitingOfRun]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingJudge:
    """A connection, rule, evaluation of a run, or budget because of which evaluations get no verdicts."""

    kind: FailingKind
    identity: str  # its id; of a budget the kind and id of its payer
    subject: str  # kind and name, for messages
    name: str
    tenant: str
    cause: str  # the kind of the latest failure
    earlier: tuple[str, ...] = ()  # the other kinds since the last verdict
    message: str
    since_ns: int
    last_ns: int
    failures: int
    waiting: int
    ended: Mapping[str, int] = field(default_factory=dict)  # evaluations of rules that ended without a verdict, by kind
    rule_of_ended: str | None = None  # name of the rule of `ended`, if all are of one rule
    rules: frozenset[str] = frozenset()  # of a budget: the rules that it stops
    fallback: str | None = None  # of a connection: the name of the one that is used instead, if that works
    is_doubtful: bool = False  # of a connection: only one rule or evaluation uses it, whose prompt may be the cause

    @property
    def about(self) -> str:
        """Return the key of the server's condition about this judge."""
        return f"{self.kind} {self.identity}"

    @property
    def reason(self) -> str:
        """Return the reason for missing verdicts, without numbers."""
        more = "" if self.fallback is None else f"; its fallback {self.fallback!r} is used"
        more += f"; before that: {', '.join(self.earlier)}" if self.earlier else ""
        more += "; only one rule or evaluation used it, so the cause may be there" if self.is_doubtful else ""
        return f"{self.subject} gives no verdicts: {self.cause}: {self.message[:_SHOWN_CHARACTERS]}{more}"

    @property
    def text(self) -> str:
        """Return the reason, and the number of affected evaluations."""
        failures, waiting = count_text(self.failures, "failed attempt"), count_text(self.waiting, "evaluation")
        waits = "waits" if self.waiting == 1 else "wait"
        latest = f"the latest at {_time(self.last_ns)}"
        return f"{self.reason}; {failures} since the last verdict, {latest}; {waiting} {waits}{self._ended_text}"

    @property
    def _ended_text(self) -> str:
        if not self.ended:
            return ""
        rule = "" if self.rule_of_ended is None else f" --rule {shlex.quote(self.rule_of_ended)}"
        commands = " and ".join(f"`tracejury jobs retry{rule} --error {kind}`" for kind in sorted(self.ended))
        return f"; {sum(self.ended.values()):,} ended without a verdict: {commands} has them judged again"

    def text_for(self, tenant: str | None) -> str:
        """Return the text for a caller: a tenant sees the numbers only of its own judges, `tenant` None all of them."""
        text = self.text if tenant in {None, self.tenant} else self.reason
        return f"{text}; since {instant_text(self.since_ns)} UTC"


class FailingJudges:
    """Finder of the judges that fail now. Thread-safe."""

    def __init__(
        self,
        judges: ConnectedJudges,
        budgets: Budgets,
        connections: LlmConnections,
        rules: Callable[[], Sequence[LoadedRule]],
        waiting: Waiting,
    ) -> None:
        self._judges = judges
        self._budgets = budgets
        self._connections = connections
        self._rules = rules
        self._waiting = waiting

    def find(self, now_ns: int) -> list[FailingJudge]:
        """Return the failing judges: those of failing connections first, then those that fail for other reasons."""
        streaks, refusals = self._judges.health.streaks, self._budgets.too_small
        if not streaks and not refusals:
            return []
        rules = {each.stored.rule_id: each for each in self._rules() if each.stored.enabled}
        failing = {subject: each for subject, each in streaks.items() if self._still_counts(subject, each, rules)}
        failing = {subject: each for subject, each in failing.items() if each.is_failing(now_ns)}
        if not failing and not refusals:
            return []
        view = _View(self._judges, rules, self._waiting.of_rules(), self._waiting.of_runs())
        problems = [
            self._connection(each, streak, view) for each, streak in failing.items() if each.kind == "connection"
        ]
        silent = {
            each.identity: failing[JudgeSubject("connection", each.identity)]
            for each in problems
            if each.fallback is None
        }
        problems += view.others(failing, silent)
        problems += self._too_small(rules)
        return problems

    def _still_counts(self, subject: JudgeSubject, streak: Streak, rules: Mapping[str, LoadedRule]) -> bool:
        """Return True if a subject is unchanged since it first failed, and a rule still uses it; else forget it."""
        changed_ns = self._changed_ns(subject, rules)
        is_idle = bool(streak.askers) and all(
            each.kind == "rule" and each.identity not in rules for each in streak.askers
        )  # the rules that met the failures were deleted or disabled
        if changed_ns is None or changed_ns > streak.since_ns or is_idle:
            self._judges.health.forget(subject)
            return False
        return True

    def _changed_ns(self, subject: JudgeSubject, rules: Mapping[str, LoadedRule]) -> int | None:
        """Return when a subject was changed last; None if it does not exist any more."""
        if subject.kind == "connection":
            try:
                return _ns(self._connections.get(subject.identity).row.updated_at)
            except NotFound:
                return None
        if subject.kind == "rule":
            kept = rules.get(subject.identity)
            return None if kept is None else kept.stored.updated_at_us * 1000
        return 0  # an evaluation of a run never changes

    def _connection(self, subject: JudgeSubject, streak: Streak, view: "_View") -> FailingJudge:
        row = self._connections.get(subject.identity).row
        ended, rule_of_ended = _ended_of(streak.askers, self._judges.health.streaks, view.rules)
        other = self._judges.fallback(subject.identity)
        works = other is not None and JudgeSubject("connection", other.connection_id) not in self._judges.health.streaks
        is_used = works and streak.kind in ANOTHER_MAY_ANSWER
        return FailingJudge(
            kind="connection",
            identity=subject.identity,
            subject=f"the connection {row.name!r}",
            name=row.name,
            tenant=row.tenant,
            cause=streak.kind,
            earlier=streak.earlier,
            message=streak.message,
            since_ns=streak.since_ns,
            last_ns=streak.last_ns,
            failures=streak.failures,
            waiting=view.waiting_over(subject.identity),
            ended=ended,
            rule_of_ended=rule_of_ended,
            fallback=other.name if other is not None and is_used else None,
            is_doubtful=len(streak.askers) == 1 and streak.kind not in ANOTHER_MAY_ANSWER,
        )

    def _too_small(self, rules: Mapping[str, LoadedRule]) -> Iterator[FailingJudge]:
        """Yield budgets that are too small for a single request, if unchanged since they refused it."""
        for each in self._budgets.too_small:
            payer = each.payer
            if payer.kind == "rule":
                kept = rules.get(payer.identity or "")
                budget = None if kept is None else kept.active.rule.budget
            elif payer.kind == "connection":
                known = {one.connection_id: one.text.budget for one in self._connections.all()}
                text = known.get(payer.identity or "")
                budget = None if text is None else text.budget()
            else:
                budget = payer.budget
            if budget == payer.budget:
                yield FailingJudge(
                    kind="budget",
                    identity=f"{payer.kind} {payer.identity or ''}".strip(),
                    subject=f"the budget of {payer.kind} {payer.name!r}",
                    name=payer.name,
                    tenant=each.tenant,
                    cause="over_budget",
                    message=each.message,
                    since_ns=each.since_ns,
                    last_ns=each.last_ns,
                    failures=each.refusals,
                    waiting=0,
                    rules=frozenset(each.rules),
                )


class ProblemsOfJudges:
    """The judges that fail at one moment, for the pages and answers about rules and connections."""

    def __init__(self, failing: Sequence[FailingJudge], judges: ConnectedJudges, tenant: str | None) -> None:
        self._failing = failing
        self._judges = judges
        self._tenant = tenant

    def of_rule(self, active: ActiveRule) -> str | None:
        """Return why a rule gets no verdicts; None if it does."""
        if not self._failing:
            return None
        asks = _connections_of(self._judges, active)
        own = [each for each in self._failing if each.kind == "rule" and each.identity == active.rule_id]
        for each in (*own, *self._failing):
            is_used = each.kind == "connection" and each.fallback is None and each.identity in asks
            if each in own or is_used or active.rule_id in each.rules:
                return each.text_for(self._tenant)
        return None

    def of_connection(self, connection_id: str) -> str | None:
        """Return why a connection gives no verdicts; None if it does."""
        for each in self._failing:
            is_its_budget = each.kind == "budget" and each.identity == f"connection {connection_id}"
            if is_its_budget or (each.kind == "connection" and each.identity == connection_id):
                return each.text_for(self._tenant)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleProblems:
    """Reasons why rules judge nothing: their configuration, or a judge without verdicts."""

    judges: ConnectedJudges
    rules: ActiveRules
    failing: Callable[[int], Sequence[FailingJudge]]  # at an instant in ns

    def unable(self, active: ActiveRule) -> str | None:
        """Return why a rule cannot judge as it is configured, and what to do; None if it can."""
        return self.judges.problem_of(active) or self.rules.problem_of(active)

    def of_judges(self, now_ns: int, tenant: str | None) -> ProblemsOfJudges:
        """Return the judges that give no verdicts at an instant, as a tenant may see them; None: it sees all."""
        return ProblemsOfJudges(self.failing(now_ns), self.judges, tenant)

    def at(self, now_ns: int, tenant: str | None) -> Callable[[ActiveRule], str | None]:
        """Return a function from a rule to the reason why it judges nothing at an instant, or None."""
        failing = self.of_judges(now_ns, tenant)
        return lambda active: self.unable(active) or failing.of_rule(active)

    def count(self, now_ns: int) -> Mapping[str, int]:
        """Count the rules that judge, the enabled ones that judge nothing, and the disabled ones."""
        problem_of = self.at(now_ns, None)
        counts = {"judging": 0, "judging_nothing": 0, "disabled": 0}
        for kept in self.rules.kept():
            if not kept.stored.enabled:
                counts["disabled"] += 1
            else:
                counts["judging_nothing" if problem_of(kept.active) else "judging"] += 1
        return counts


@dataclass(frozen=True, slots=True)
class _View:
    """The rules and the waiting evaluations at one moment."""

    judges: ConnectedJudges
    rules: Mapping[str, LoadedRule]
    waiting: Mapping[str, int]
    runs: Sequence[WaitingOfRun]

    def waiting_over(self, connection_id: str) -> int:
        """Count the evaluations that wait for a connection."""
        of_rules = sum(
            self.waiting.get(rule_id, 0)
            for rule_id, kept in self.rules.items()
            if self.waiting.get(rule_id) and connection_id in _connections_of(self.judges, kept.active)
        )
        return of_rules + sum(each.items for each in self.runs if each.connection_id == connection_id)

    def others(self, failing: Mapping[JudgeSubject, Streak], silent: Mapping[str, Streak]) -> Iterator[FailingJudge]:
        """Yield failing rules and evaluations of runs, without those of a connection that is listed already.

        `silent` are the streaks of those connections by id.
        """
        runs = {each.evaluation_id: each for each in self.runs}
        for subject, streak in failing.items():
            if subject.kind == "rule":
                kept = self.rules[subject.identity]
                connections = _connections_of(self.judges, kept.active)
                if not _is_explained(subject, streak, connections, silent):
                    name, waiting = kept.stored.name, self.waiting.get(subject.identity, 0)
                    yield _other(subject, streak, f"the rule {name!r}", name, kept.stored.tenant, waiting)
            elif subject.kind == "evaluation":
                run = runs.get(subject.identity)
                if run is not None and not _is_explained(subject, streak, {run.connection_id}, silent):
                    words = f"the evaluation of a run by {run.name!r}"
                    yield _other(subject, streak, words, run.name, "", run.items)


def _is_explained(
    subject: JudgeSubject, streak: Streak, connections: Collection[str | None], silent: Mapping[str, Streak]
) -> bool:
    return any(
        subject in each.askers or (connection_id in connections and each.kind == streak.kind)
        for connection_id, each in silent.items()
    )


def _other(subject: JudgeSubject, streak: Streak, words: str, name: str, tenant: str, waiting: int) -> FailingJudge:
    return FailingJudge(
        kind=subject.kind,
        identity=subject.identity,
        subject=words,
        name=name,
        tenant=tenant,
        cause=streak.kind,
        earlier=streak.earlier,
        message=streak.message,
        since_ns=streak.since_ns,
        last_ns=streak.last_ns,
        failures=streak.failures,
        waiting=waiting,
        ended=dict(streak.ended),
        rule_of_ended=name,
    )


def _ended_of(
    askers: Collection[JudgeSubject], streaks: Mapping[JudgeSubject, Streak], rules: Mapping[str, LoadedRule]
) -> tuple[Mapping[str, int], str | None]:
    """Count the evaluations of rules that ended without a verdict, by kind; name the rule if all are of one."""
    ended, names = Counter[str](), set[str]()
    for each in tuple(askers):
        if each.kind == "rule" and each.identity in rules and each in streaks and streaks[each].ended:
            ended.update(streaks[each].ended)
            names.add(rules[each.identity].stored.name)
    return ended, names.pop() if len(names) == 1 else None


def _connections_of(judges: ConnectedJudges, active: ActiveRule) -> set[str]:
    """Return the connections of a rule's judges; none if no judge can be called."""
    if active.executor_kind != "judge":
        return set()
    try:
        return {judges.connection_of(active), *(each.connection_id for each in judges.jurors(active))}
    except BadConfiguration:
        return set()


def _ns(moment: dt.datetime) -> int:
    return int(moment.replace(tzinfo=dt.UTC).timestamp() * 1_000_000) * 1_000


def _time(at_ns: int) -> str:
    return f"{dt.datetime.fromtimestamp(at_ns / 1e9, dt.UTC):%H:%M:%S} UTC"
