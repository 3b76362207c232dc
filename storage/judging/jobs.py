"""The ledger: the queue of evaluation jobs, with leases, and the storage of their results."""

import datetime as dt
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import duckdb
import pyarrow as pa

from storage import sql
from storage.engine.arrow import arrow_table
from storage.engine.database import Database
from storage.engine.read_database import ReadDatabase
from storage.engine.row_cache import RowCache
from storage.ingest.writer import Writer
from storage.judging.held_jobs import finished, tell_held_by_results
from storage.judging.job_results import JobResult, results_table, table_of
from storage.judging.repeating import Repeating, ids_table

SUPERSEDED = "superseded"
"""The error kind of a job that was skipped because its target will be evaluated again anyway."""

_RETURNS = pa.schema(
    [
        ("job_id", pa.int64()),
        ("attempts", pa.int32()),
        ("not_before_us", pa.int64()),
        ("error_kind", pa.string()),
        ("error", pa.string()),
        ("judge_calls", pa.int32()),
        ("input_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
        ("cost_usd", pa.float64()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A claimed job: the columns of its row that its worker needs."""

    job_id: int
    revision: int
    seq: int  # of its decision: the number of the span, or of the trace's last span at the decision
    tenant: str
    project: str | None
    trace_id: str
    span_id: str | None  # None: the trace, or the session
    session_id: str | None  # set for a job about a session; then `trace_id` is the session's latest trace
    attempts: int  # includes the attempt that this claim is for


@dataclass(frozen=True, slots=True, kw_only=True)
class RequeuedJob:
    """A claimed job that returns to the queue, for an attempt at `not_before_us` or later.

    `attempts` is the number of attempts that count against the limit.
    """

    job_id: int
    attempts: int
    not_before_us: int | None = None
    error_kind: str | None = None
    error: str | None = None
    judge_calls: int | None = None  # of this attempt, with their usage below; None if no judge was called
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedByHand:
    """A manual evaluation and its result."""

    revision: int
    seq: int  # the span's, or that of the trace's last span
    tenant: str
    project: str | None
    trace_id: str
    span_id: str | None  # None: the trace
    release: str | None
    result: JobResult  # its job does not exist yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Request to claim up to `jobs` due jobs of some revisions, the longest due first."""

    revisions: Sequence[int]
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerTurn:
    """Changes of one transaction: results, returned jobs, renewed leases, and claims."""

    now_us: int
    until_us: int  # end of the leases that this turn grants or renews
    finished: Sequence[JobResult] = ()
    results: Sequence[pa.Table] = ()  # more results, as tables of `job_results.RESULTS`
    put_back: Sequence[RequeuedJob] = ()
    held: Sequence[int] = ()  # jobs whose leases are renewed
    sweeps: bool = False  # after the renewals, free jobs whose lease has expired
    claims: Sequence[Claim] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Filter of jobs; None matches all. `rule` is a name or an id, with a tenant of its rules and shared ones."""

    state: str | None = None
    rule: str | None = None
    trace_id: str | None = None
    tenant: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Number of a revision's due jobs, and when the next of its other jobs is due, if there are any."""

    revision: int
    due: int
    next_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """Number of jobs in a state, and when the oldest of them was made (UTC)."""

    state: str
    jobs: int
    tried: int  # those with at least one failed attempt
    oldest: dt.datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Failed evaluations of one rule with one kind of error."""

    rule_id: str
    rule: str
    error_kind: str | None
    jobs: int
    last_ns: int
    error: str | None  # the latest, or its beginning


class Jobs(Repeating):
    """The jobs of a store. Safe to use from any thread but the writer's.

    The transaction that stores a job's evaluation deletes the job's row. So a job has one evaluation, even if a call is
    repeated, and no job is lost.
    """

    def __init__(self, database: Database, writer: Writer, read_db: ReadDatabase) -> None:
        super().__init__(writer)
        self._database, self._read_db = database, read_db
        self._waiting = RowCache(database, sql.query("waiting_jobs"))
        self._claimed = RowCache(database, sql.query("first_claimed_job"))
        self.stored = threading.Event()  # set whenever results were stored; wakes the monitors

    def release_all(self, *, now_us: int, longest_wait_us: int) -> None:
        """Release all claimed jobs: the process that claimed them has ended. For the start, before the first claim.

        Jobs that wait for longer than `longest_wait_us` from now are due then, because a wrong clock may have set them.

        Raises:
            Overloaded: nothing was stored, because the database cannot be written now, or is being closed.
        """

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            cursor.execute(sql.query("release_jobs"), {"latest_us": now_us + longest_wait_us})

        self._writer.store(write, 0)

    def take_turn(self, turn: LedgerTurn) -> list[list[Job]]:
        """Apply the turn; return the jobs of each of its claims.

        A repeated turn does no harm: no result is stored twice.

        Raises:
            Overloaded: the turn may not be stored, because the database cannot be written now, or is being closed.
        """
        tables: list[pa.Table] = []
        results = pa.concat_tables([results_table(turn.finished), *turn.results])
        returns = table_of(_RETURNS, turn.put_back)

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            tables.clear()
            _finish(cursor, results, turn.now_us)
            _put_back(cursor, returns, turn.now_us)
            _renew(cursor, turn)
            tables.extend(_claim(cursor, claim, turn) for claim in turn.claims)

        self._writer.store(write, results.num_rows)
        if results.num_rows or returns.num_rows:
            self.stored.set()
        return [_jobs(table) for table in tables]

    def store_by_hand(self, judged: JudgedByHand, *, now_us: int) -> int:
        """Store a manual evaluation, in place of the revision's earlier result; return the id of its job.

        Monitors do not count it, because the user chose the target. If a job for the same target is in the queue, this
        manual result is stored as superseded by it.

        Raises:
            Overloaded: the result may not be stored, because the database cannot be written now, or is being closed.

        """
        stored: list[int] = []

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            stored[:] = [_store_by_hand(cursor, judged, now_us)]

        self._writer.store(write, 1)
        self.stored.set()
        return stored[0]

    def waiting(self, now_us: int) -> list[Waiting]:
        """Return the jobs that can be claimed now or later, by revision."""
        rows = self._waiting.rows(
            {"now_us": now_us},
            now_us=now_us,
            is_over=lambda rows: any(next_us is not None and next_us <= now_us for *_, next_us in rows),
        )
        return [Waiting(revision=revision, due=due, next_us=next_us) for revision, due, next_us in rows]

    def are_claimed(self) -> bool:
        """Return whether any job is leased."""
        return bool(self._claimed.rows())

    def left(self, until: int | None = None) -> tuple[int, int]:
        """Count the unfinished jobs, all or those up to number `until`; return also the number of the last job.

        Held jobs are not counted.

        """
        with self._database.cursor() as cursor:
            ((left, last_job),) = cursor.execute(sql.query("jobs_left"), {"until": until}).fetchall()
        return int(left), int(last_job)

    def counts(self, now_us: int) -> list[Depth]:
        """Count the jobs that are not done, by state: waiting, ready, held, claimed."""
        with self._database.cursor() as cursor:
            rows = cursor.execute(sql.query("count_jobs"), {"now_us": now_us}).fetchall()
        return [Depth(state=state, jobs=jobs, tried=tried, oldest=oldest) for state, jobs, tried, oldest in rows]

    def page(self, criteria: JobFilter, *, limit: int, skipped: int = 0) -> list[dict[str, Any]]:
        """Return jobs as rows of the view `jobs`, newest first. Times are in nanoseconds."""
        values = asdict(criteria) | {"jobs": limit, "skipped": skipped}
        with self._read_db.cursor() as cursor:
            rows: list[dict[str, Any]] = arrow_table(cursor, sql.query("page_of_jobs"), values).to_pylist()
        return rows

    def failures_by_kind(self, *, limit: int, tenant: str | None = None) -> list[Failures]:
        """Return current failures by rule and kind of error, the most frequent first.

        With a tenant, count only its jobs: those that `retry_failed` would evaluate again.

        """
        names = [each.name for each in fields(Failures)]
        with self._database.cursor() as cursor:
            rows = cursor.execute(sql.query("failures"), {"kinds": limit, "tenant": tenant}).fetchall()
        return [Failures(**dict(zip(names, row, strict=True))) for row in rows]


def _finish(cursor: duckdb.DuckDBPyConnection, results: pa.Table, now_us: int) -> None:
    if results.num_rows:
        cursor.register("incoming_results", results)
        ((stored,),) = cursor.execute(sql.query("store_evaluations"), {"now_us": now_us}).fetchall()
        cursor.execute(sql.query("raise_last_result"), {"results": stored})
        targets = finished(cursor)
        cursor.execute(sql.query("delete_jobs"))
        tell_held_by_results(cursor, targets, now_us=now_us)


def _store_by_hand(cursor: duckdb.DuckDBPyConnection, judged: JudgedByHand, now_us: int) -> int:
    key = {name: getattr(judged, name) for name in ("revision", "tenant", "trace_id", "span_id")}
    earlier = cursor.execute(sql.query("jobs_of_target"), key).fetchall()
    ((last_job,),) = cursor.execute(sql.query("last_job")).fetchall()
    job_id = int(last_job) + 1
    values = {name: getattr(judged, name) for name in ("seq", "project", "release")}
    round_ = max((each_round + 1 for _, each_round, _, _ in earlier), default=0)
    cursor.execute(
        sql.query("insert_job_by_hand"), key | values | {"job_id": job_id, "round": round_, "now_us": now_us}
    )
    cursor.execute(sql.query("raise_last_job"), {"jobs": 1})
    is_waited_for = any(not is_done and not is_superseded for _, _, is_done, is_superseded in earlier)
    over = [each for each, _, is_done, is_superseded in earlier if is_done and not is_superseded]
    superseded = [job_id] if is_waited_for else over
    if superseded:
        cursor.register("repeated_jobs", ids_table(superseded))
        cursor.execute(sql.query("supersede_jobs"), {"now_us": now_us})
    _finish(cursor, results_table([replace(judged.result, job_id=job_id)]), now_us)
    return job_id


def _put_back(cursor: duckdb.DuckDBPyConnection, returns: pa.Table, now_us: int) -> None:
    """Return jobs to the queue, except those whose target has another job by now."""
    if not returns.num_rows:
        return
    cursor.register("incoming_jobs", returns)
    cursor.execute(sql.query("put_jobs_back"))
    late = [job_id for (job_id,) in cursor.execute(sql.query("superseded_among")).fetchall()]
    why = "not evaluated, because the same is to be evaluated again anyway"
    results = (
        JobResult(job_id=job_id, name=SUPERSEDED, outcome="skipped", reason=why, error_kind=SUPERSEDED)
        for job_id in late
    )
    _finish(cursor, results_table(results), now_us)


def _renew(cursor: duckdb.DuckDBPyConnection, turn: LedgerTurn) -> None:
    if turn.held:
        cursor.register("held_jobs", ids_table(turn.held))
        cursor.execute(sql.query("renew_jobs"), {"until_us": turn.until_us})
    if turn.sweeps:
        cursor.execute(sql.query("free_jobs"), {"now_us": turn.now_us})


def _claim(cursor: duckdb.DuckDBPyConnection, claim: Claim, turn: LedgerTurn) -> pa.Table:
    parameters = {"now_us": turn.now_us, "revisions": list(claim.revisions), "jobs": claim.jobs}
    jobs = arrow_table(cursor, sql.query("due_jobs"), parameters)
    if jobs.num_rows:
        cursor.register("claimed_jobs", jobs.select(["job_id"]))
        cursor.execute(sql.query("claim_jobs"), {"until_us": turn.until_us})
    return jobs


def _jobs(claimed: pa.Table) -> list[Job]:
    columns = {name: claimed.column(name).to_pylist() for name in claimed.column_names}
    columns["attempts"] = [attempts + 1 for attempts in columns["attempts"]]
    return [Job(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]
