"""Status of the store: stored data, lag, jobs, failures and spending."""

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, fields

import duckdb

from storage import sql
from storage.engine.database import Database
from storage.ingest.state import Totals, read_state

_DAY_US = 86_400_000_000
_NANO = 1_000_000_000
_SPENT = ("calls", "unpriced_calls", "failed_calls", "tokens", "nano_usd")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """Stored spans that are not matched yet, or whose traces have outdated sums."""

    spans: int
    since_ns: int | None  # when the first of these spans was received


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSpending:
    """The calls, tokens and cost of judges, as budgets count them."""

    calls: int
    failed_calls: int  # failed requests that used no tokens; no budget counts them
    tokens: int
    usd: float  # without the cost of unpriced calls, which is unknown
    unpriced_calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """State of the store at one moment."""

    totals: Totals
    matching: Lag
    adding_up: Lag  # of the sums of traces
    older_spans: int  # number of spans whose meaning another edition of the conventions computed
    jobs: Mapping[str, int]  # ready, waiting, held and claimed
    tried_jobs: int  # ready and waiting jobs with a failed attempt
    oldest_job_ns: int | None  # when the oldest ready or waiting job was made
    open_traces: int
    deletions: Mapping[str, int]  # unfinished ones: deleting and erasing
    outcomes: Mapping[str, int]  # results of the last 24 hours that were not replaced: scored, failed and skipped
    spent_today: JudgeSpending  # since midnight UTC


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSize:
    """Size of a project."""

    tenant: str
    project: str | None
    roots: int  # about as many as traces
    spans: int
    first_ns: int
    last_ns: int


class StatusReader:
    """Read-only queries about the state of a store, and the activity of its rules. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def status(self, now_ns: int) -> Status:
        """Return the current state."""
        now_us = now_ns // 1_000
        totals = read_state(self._database).totals
        with self._database.snapshot() as cursor:
            ((matched, added_up),) = cursor.execute(sql.query("cursors")).fetchall()
            ((older,),) = cursor.execute(sql.query("count_older_spans")).fetchall()
            jobs = cursor.execute(sql.query("count_jobs"), {"now_us": now_us}).fetchall()
            ((open_traces,),) = cursor.execute(sql.query("count_open_traces")).fetchall()
            results = cursor.execute(
                sql.query("results_since"), {"since_us": now_us - _DAY_US, "tenant": None}
            ).fetchall()
            deletions = dict(cursor.execute(sql.query("deletions_by_state")).fetchall())
            spent = _spent_by_rule(cursor, now_us, None).values()
            matching, adding_up = (_lag(cursor, seq) for seq in (matched, added_up))
        outcomes = Counter[str]()
        for _, became, amount in results:
            outcomes["scored" if became in {"passed", "not_passed"} else became] += amount
        unclaimed = [(tried, oldest) for state, _, tried, oldest in jobs if state in {"ready", "waiting"}]
        return Status(
            totals=totals,
            matching=matching,
            adding_up=adding_up,
            older_spans=older,
            jobs=dict.fromkeys(("ready", "waiting", "held", "claimed"), 0) | {each[0]: each[1] for each in jobs},
            tried_jobs=sum(tried for tried, _ in unclaimed),
            oldest_job_ns=min((_ns(oldest) for _, oldest in unclaimed), default=None),
            open_traces=open_traces,
            deletions=dict.fromkeys(("deleting", "erasing"), 0) | deletions,
            outcomes={name: outcomes[name] for name in ("scored", "failed", "skipped")},
            spent_today=JudgeSpending(
                calls=sum(each["calls"] for each in spent),
                failed_calls=sum(each["failed_calls"] for each in spent),
                tokens=sum(each["tokens"] for each in spent),
                usd=sum(each["nano_usd"] for each in spent) / _NANO,
                unpriced_calls=sum(each["unpriced_calls"] for each in spent),
            ),
        )

    def arrivals(self, now_ns: int, *, stretches: int, step_s: int) -> list[int]:
        """Return how many spans were received in each of the latest intervals of `step_s`, oldest first."""
        step_us = step_s * 1_000_000
        since_us = now_ns // 1_000 - stretches * step_us
        with self._database.cursor() as cursor:
            rows = cursor.execute(sql.query("spans_by_time"), {"since_us": since_us, "step_us": step_us}).fetchall()
        counts = dict(rows)
        return [counts.get(stretch, 0) for stretch in range(stretches)]

    def projects(self) -> list[ProjectSize]:
        """Return the size of each project of each tenant, by name; spans without a project come last."""
        names = [field.name for field in fields(ProjectSize)]
        with self._database.cursor() as cursor:
            rows = cursor.execute(sql.query("project_sizes")).fetchall()
        return [ProjectSize(**dict(zip(names, row, strict=True))) for row in rows]

    def rule_activity(self, now_ns: int, tenant: str | None = None) -> dict[str, dict[str, float]]:
        """Return by id the activity of each rule in the last 24 hours, and of its judges today.

        With a tenant, return only the activity on its spans.

        The activity counts decisions (filtered, sampled_out, matched, undecided), results that no later result replaced
        (passed, not_passed, failed, skipped), and the usage of judges as budgets count it (calls, unpriced_calls,
        failed_calls, tokens, nano_usd).
        """
        now_us = now_ns // 1_000
        activity: dict[str, dict[str, float]] = {}
        params = {"since_us": now_us - _DAY_US, "tenant": tenant}
        with self._database.cursor() as cursor:
            decisions = cursor.execute(sql.query("decisions_since"), params).fetchall()
            results = cursor.execute(sql.query("results_since"), params).fetchall()
            for rule_id, counted, amount in (*decisions, *results):
                activity.setdefault(rule_id, {})[counted] = amount
            for spent_for, amounts in _spent_by_rule(cursor, now_us, tenant).items():
                if spent_for is not None:
                    activity.setdefault(spent_for, {}).update(amounts)
        return activity


def _lag(cursor: duckdb.DuckDBPyConnection, seq: int) -> Lag:
    ((spans, since_ns),) = cursor.execute(sql.query("spans_behind"), {"seq": seq}).fetchall()
    return Lag(spans=spans, since_ns=since_ns)


def _spent_by_rule(
    cursor: duckdb.DuckDBPyConnection, now_us: int, tenant: str | None
) -> dict[str | None, dict[str, int]]:
    """Return today's spending by rule id, by the statement that budgets use, so that both agree."""
    rows = cursor.execute(sql.query("spent_on_day"), {"day": _day(now_us), "tenant": tenant})
    names = [name for name, *_ in rows.description or ()]
    spent: dict[str | None, dict[str, int]] = defaultdict(lambda: dict.fromkeys(_SPENT, 0))
    for row in rows.fetchall():
        fields_of_row = dict(zip(names, row, strict=True))
        for name in _SPENT:
            spent[fields_of_row["rule_id"]][name] += fields_of_row[name]
    return spent


def _ns(moment: dt.datetime) -> int:
    return (moment.replace(tzinfo=dt.UTC) - _EPOCH) // dt.timedelta(microseconds=1) * 1_000


def _day(now_us: int) -> dt.date:
    return (_EPOCH + dt.timedelta(microseconds=now_us)).date()
