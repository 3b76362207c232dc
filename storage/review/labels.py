"""Labels of results: a rule's results joined with people's votes on the same spans and traces."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from storage import sql
from storage.engine.read_database import ReadDatabase
from storage.review.review_queues import Reason
from storage.sql import dict_rows

_MOST_LABELS: Final = 50_000
_MOST_EVALUATORS: Final = 50
_MOST_RULES: Final = 1_000
"""Guesses: people label some thousands, and a prompt is changed some dozens of times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedByRule:
    """Selection of a rule's results to compare with votes, in a tenant, in one project or all, since a time.

    `name` is the question that the votes answer. Only votes of these `sources` are used.

    """

    tenant: str
    rule_id: str
    project: str | None
    from_us: int | None
    name: str
    sources: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCount:
    """Numbers of results of one evaluator that passed and failed."""

    fingerprint: str
    name: str
    passed: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedFor:
    """Reason of an entry in a queue.

    `whole`: the queue draws at random from all results of the rule. `is_own`: a result of this rule, not of another
    one, caused the entry.
    """

    queue_id: str
    reason: Reason
    is_own: bool
    whole: bool
    probability: float | None

    @property
    def is_chosen(self) -> bool:
        """Return True if the judge's uncertainty, a disagreement, or a failure by another rule selected it."""
        return self.reason in {"uncertainty", "disagreement"} or (self.reason == "failing" and not self.is_own)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledResult:
    """A result with votes. `decided` is the adjudicator's verdict."""

    fingerprint: str
    trace_id: str
    span_id: str | None
    session_id: str | None  # set for a result about a session; then `trace_id` is the session's latest trace
    service: str | None
    release: str | None
    project: str | None
    seq: int
    cost_usd: float | None
    is_example: bool  # the judge's prompt had it as an example, with its label
    created_us: int
    entries: Sequence[QueuedFor] | None
    judged: bool
    score: float | None
    reason: str | None
    decided: bool | None
    votes: Sequence[bool] | None
    unsure: int

    @property
    def label(self) -> bool | None:
        """Return the label by the adjudicator, else by majority; None if votes are even or unsure."""
        if self.decided is not None or not self.votes:
            return self.decided
        passes = sum(self.votes)
        return None if 2 * passes == len(self.votes) else 2 * passes > len(self.votes)

    @property
    def is_chosen(self) -> bool:
        """Return True if the result was selected for labelling only by the judge's own output.

        Also True for examples in the judge's prompt, because they cannot measure the judge.

        """
        return self.is_example or (bool(self.entries) and all(each.is_chosen for each in self.entries or ()))

    def chance_in(self, queue_id: str) -> float | None:
        """Return the probability with which a queue over all results drew this result, or None if unknown."""
        chances = (each.probability for each in self.entries or () if each.queue_id == queue_id and each.whole)
        return next(chances, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class VotesOf:
    """Selection of people's votes on a question in a tenant, of one queue or all, since a time."""

    tenant: str
    name: str
    queue_id: str | None
    from_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonVote:
    """Last vote of a person on a target."""

    target: str
    trace_id: str | None
    span_id: str | None
    run_id: str | None
    item_number: int | None
    author: str
    label: str | None
    score: float | None
    at_us: int

    @property
    def target_key(self) -> str:
        """Return the key of the target."""
        return f"{self.target}/{self.trace_id}/{self.span_id}/{self.run_id}/{self.item_number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledRun:
    """Results of an evaluator on a run's items, and people's labels; `passed_failed`: people passed, it failed."""

    run_id: str
    name: str
    fingerprint: str
    passed: int
    failed: int
    passed_passed: int
    passed_failed: int
    failed_passed: int
    failed_failed: int


class Labels:
    """Read-only queries about votes and results. Thread-safe."""

    def __init__(self, database: ReadDatabase) -> None:
        self._database = database

    def judged(self, criteria: JudgedByRule) -> list[JudgedCount]:
        """Return the counts of each evaluator of the rule, newest first."""
        parameters = {
            "tenant": criteria.tenant,
            "rule_id": criteria.rule_id,
            "project": criteria.project,
            "from_us": criteria.from_us,
            "evaluators": _MOST_EVALUATORS,
        }
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("judged_counts"), parameters)
            return [JudgedCount(**row) for row in dict_rows(cursor)]

    def votes(self, criteria: VotesOf) -> list[PersonVote]:
        """Return the votes of people, newest first, without unsure ones."""
        parameters = asdict(criteria) | {"rows": _MOST_LABELS}
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("votes_of_question"), parameters)
            return [PersonVote(**row) for row in dict_rows(cursor)]

    def of_runs(self, tenant: str, name: str, experiment_id: str, *, runs: Sequence[str]) -> list[LabelledRun]:
        """Return the labelled results of these runs, and of all other runs of the experiment that have votes."""
        parameters = {"tenant": tenant, "name": name, "experiment_id": experiment_id, "runs": list(runs)}
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("labelled_run_scores"), parameters)
            return [LabelledRun(**row) for row in dict_rows(cursor)]

    def voted_rules(self, tenant: str, name: str, sources: Sequence[str]) -> set[tuple[str, str | None]]:
        """Return the rules that have results with votes, each with its project."""
        parameters = {"tenant": tenant, "name": name, "sources": list(sources), "rows": _MOST_RULES}
        with self._database.cursor() as cursor:
            return {(row[0], row[1]) for row in cursor.execute(sql.query("voted_rules"), parameters).fetchall()}

    def results(self, criteria: JudgedByRule) -> list[LabelledResult]:
        """Return the results that have votes, newest first."""
        parameters = {
            "tenant": criteria.tenant,
            "rule_id": criteria.rule_id,
            "project": criteria.project,
            "from_us": criteria.from_us,
            "name": criteria.name,
            "sources": list(criteria.sources),
            "rows": _MOST_LABELS,
        }
        statement = sql.query("labelled_results").replace("$annotations", sql.select_of("annotations"))
        with self._database.snapshot() as cursor:
            question = {"tenant": criteria.tenant, "name": criteria.name}
            if not cursor.execute(sql.query("has_votes"), question).fetchall():
                return []
            cursor.execute(statement, parameters)
            return [LabelledResult(**row | {"entries": _queued(row)}) for row in dict_rows(cursor)]


def _queued(row: Mapping[str, Any]) -> list[QueuedFor] | None:
    return None if row["entries"] is None else [QueuedFor(**each) for each in row["entries"]]
