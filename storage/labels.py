"""What people said of what a judge judged: the results of a rule beside the votes on the same spans and traces."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from storage import sql
from storage.database import Database
from storage.outbox import named

_MOST_LABELS: Final = 50_000
_MOST_EVALUATORS: Final = 50
"""Guesses: people label some thousands, and a prompt is changed some dozens of times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedByRule:
    """Which results are compared with people: those of a rule in a tenant, perhaps about one project, since a moment.

    `name` is the question that the votes answer, and `sources` are those whose votes count.
    """

    tenant: str
    rule_id: str
    project: str | None
    from_us: int | None
    name: str
    sources: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCount:
    """How many results of one evaluator passed and did not."""

    fingerprint: str
    name: str
    passed: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledResult:
    """A result that was voted on. `decided` is what an adjudicator said."""

    fingerprint: str
    trace_id: str
    span_id: str | None
    session_id: str | None  # of a result about a session, whose latest trace it is
    judged: bool
    score: float | None
    reason: str | None
    decided: bool | None
    votes: Sequence[bool] | None
    unsure: int

    @property
    def label(self) -> bool | None:
        """What people say: the adjudicator, else most of them; None where they are even or unsure."""
        if self.decided is not None or not self.votes:
            return self.decided
        passes = sum(self.votes)
        return None if 2 * passes == len(self.votes) else 2 * passes > len(self.votes)


class Labels:
    """Read-only questions about votes and results. Safe to ask from any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def judged(self, wanted: JudgedByRule) -> list[JudgedCount]:
        """What each evaluator of the rule said, the latest first."""
        asked = {
            "tenant": wanted.tenant,
            "rule_id": wanted.rule_id,
            "project": wanted.project,
            "from_us": wanted.from_us,
            "evaluators": _MOST_EVALUATORS,
        }
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("judged_counts"), asked)
            return [JudgedCount(**row) for row in named(cursor)]

    def results(self, wanted: JudgedByRule) -> list[LabelledResult]:
        """The results that were voted on, the latest first."""
        asked = {
            "tenant": wanted.tenant,
            "rule_id": wanted.rule_id,
            "project": wanted.project,
            "from_us": wanted.from_us,
            "name": wanted.name,
            "sources": list(wanted.sources),
            "rows": _MOST_LABELS,
        }
        statement = sql.query("labelled_results").replace("$annotations", sql.select_of("annotations"))
        with self._database.cursor() as cursor:
            cursor.execute(statement, asked)
            return [LabelledResult(**row) for row in named(cursor)]
