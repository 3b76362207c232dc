"""Record of one rule: its revisions, its latest results, its decisions by clause, and its waiting jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from storage import sql
from storage.engine.arrow import arrow_table
from storage.engine.database import Database

_DAY_US: Final = 86_400_000_000
_AVERAGED: Final = 200
"""Number of the latest evaluations whose cost is averaged. A guess: enough for a steady average of recent ones."""

_MOST_KINDS: Final = 20
"""Maximum number of reasons for missing scores that are listed. A guess: more than occur."""

_NAMED_SPANS: Final = 500
_MOST_KEYS: Final = 200
"""Number of the latest spans whose attribute keys are listed, and maximum number of keys. Guesses: these spans include
all kinds of an application's spans, and a list of this length can still be searched by eye."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRevision:
    """A revision of a rule, and when it was created."""

    revision: int
    digest: str
    rule: str  # the rule's name in that revision
    project: str | None
    document: str  # the parsed rule, as JSON
    created_at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PastResult:
    """Result of one evaluation. None means unknown or absent."""

    revision: int
    trace_id: str
    span_id: str | None  # None: of the trace, or the session
    session_id: str | None  # set for a result about a session; then `trace_id` is the session's latest trace
    outcome: str  # scored, failed or skipped
    passed: bool | None
    score: float | None
    reason: str | None
    error_kind: str | None
    cost_usd: float | None
    latency_ms: float | None
    release: str | None
    occasion: str
    created_at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedBy:
    """Number of targets with a decision; filtered targets are counted by the clause that they failed."""

    decision: str  # filtered, sampled_out, matched or undecided
    clause: str | None
    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnscoredBy:
    """Number of matched targets without a score, by reason."""

    outcome: str  # skipped or failed
    kind: str | None  # None if skipped for lack of content to judge, such as content that was not captured
    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCost:
    """Average cost of one evaluation. None means unknown."""

    evaluations: int  # number of evaluations in the average
    tokens: float | None
    usd: float | None


class RuleRecord:
    """Read-only queries about single rules. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def revisions(self, rule_id: str, *, rows: int, newest: int | None = None) -> list[PastRevision]:
        """List revisions of the rule up to a number, the latest first; None: up to the latest."""
        bounds = {"rule_id": rule_id, "newest": newest, "rows": rows}
        return [PastRevision(**row) for row in self._rows(sql.query("revisions_of_rule"), bounds)]

    def results(self, rule_id: str, *, rows: int, tenant: str | None = None) -> list[PastResult]:
        """Return the latest results of a rule, newest first; with a tenant, about its spans and spans without one."""
        parameters = {"rule_id": rule_id, "rows": rows, "tenant": tenant}
        return [PastResult(**row) for row in self._rows(sql.query("results_of_rule"), parameters)]

    def decided(self, revision: int, now_ns: int) -> list[DecidedBy]:
        """Return a revision's decisions in the last 24 hours."""
        bounds = {"revision": revision, "since_us": now_ns // 1_000 - _DAY_US}
        return [DecidedBy(**row) for row in self._rows(sql.query("clauses_of_revision"), bounds)]

    def unscored(self, revision: int, now_ns: int) -> list[UnscoredBy]:
        """List why targets that a revision matched got no score in the last 24 hours."""
        bounds = {"revision": revision, "since_us": now_ns // 1_000 - _DAY_US, "rows": _MOST_KINDS}
        return [UnscoredBy(**row) for row in self._rows(sql.query("unscored_of_revision"), bounds)]

    def waiting(self, tenant: str | None = None) -> dict[str, int]:
        """Return the number of pending evaluations of a tenant and of no tenant (None: of all) by rule id."""
        counts: dict[str, int] = {}
        for row in self._rows(sql.query("waiting_by_rule"), {"tenant": tenant}):
            counts[row["rule_id"]] = counts.get(row["rule_id"], 0) + row["amount"]
        return counts

    def cost(self, evaluator: str, *, tenant: str | None = None) -> PastCost:
        """Return the average cost of an evaluator's latest judgements, of a tenant and of no tenant (None: of all)."""
        with self._database.cursor() as cursor:
            bounds = {"evaluator": evaluator, "rows": _AVERAGED, "tenant": tenant}
            ((count, tokens, usd),) = cursor.execute(sql.query("cost_of_evaluations"), bounds).fetchall()
        return PastCost(evaluations=count, tokens=tokens, usd=usd)

    def start_of_newest(self, since_ns: int, rows: int, *, tenant: str | None = None) -> tuple[int | None, int]:
        """Return the start of the oldest of the newest `rows` spans, and the number of all spans since an instant.

        The start is None if there are no more than `rows`. With a tenant, only its spans count.

        """
        with self._database.cursor() as cursor:
            bounds = {"since_ns": since_ns, "rows": rows, "tenant": tenant}
            ((start_ns, count),) = cursor.execute(sql.query("start_of_newest"), bounds).fetchall()
        return (int(start_ns) if count > rows else None), int(count)

    def attribute_keys(self, tenant: str | None = None) -> list[str]:
        """Return attribute names of latest spans of a tenant and of no tenant (None: of all), most frequent first."""
        parameters = {"spans": _NAMED_SPANS, "keys": _MOST_KEYS, "tenant": tenant}
        return [row["key"] for row in self._rows(sql.query("attribute_keys"), parameters)]

    def _rows(self, select: str, parameters: Mapping[str, object]) -> Sequence[dict[str, Any]]:
        with self._database.cursor() as cursor:
            rows: list[dict[str, Any]] = arrow_table(cursor, select, parameters).to_pylist()
        return rows
