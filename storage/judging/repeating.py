"""Repeated evaluations: new jobs for the same targets, in place of earlier ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa

from storage import sql
from storage.ingest.writer import Writer

MOST_RETRIED = 200_000
"""Maximum number of evaluations that one call repeats."""

_LEFT_OUT = frozenset({"over_budget", "rule_disabled"})
"""Error kinds of skipped evaluations that a user may repeat, such as after raising the budget. The server does not."""

_REPEATABLE = _LEFT_OUT | {"failed"}
"""States of jobs that a user may evaluate again: failed, and skipped for one of the reasons above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """Result of a request to evaluate again: the number of new jobs, and the state of each job that got none."""

    jobs: int
    refused: Mapping[int, str | None] = field(default_factory=dict)  # job id: its state; None if the job does not exist


class Repeating:
    """Requests to evaluate finished jobs again. Safe to use from any thread but the writer's."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def retry(self, job_ids: Sequence[int], *, now_us: int, tenant: str | None = None) -> Repeated:
        """Evaluate again jobs that failed, or were skipped for a reason in `_LEFT_OUT`; make waiting jobs due at once.

        With a tenant, jobs of other tenants count as missing.

        Raises:
            Overloaded: nothing was stored, because the database cannot be written now, or is being closed.
        """
        fates: dict[int, str | None] = {}

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            fates.clear()
            fates.update((job_id, _fate(cursor, job_id, tenant)) for job_id in job_ids)
            repeat_jobs(cursor, [job_id for job_id, fate in fates.items() if fate in _REPEATABLE], now_us)
            for job_id in [job_id for job_id, fate in fates.items() if fate == "ready"]:
                cursor.execute(sql.query("retry_job"), {"job_id": job_id})

        self._writer.store(write, len(job_ids))
        refused = {job_id: fate for job_id, fate in fates.items() if fate not in {*_REPEATABLE, "ready"}}
        return Repeated(jobs=len(fates) - len(refused), refused=refused)

    def retry_failed(
        self, *, rule: str | None, error_kind: str | None, now_us: int, tenant: str | None = None
    ) -> Repeated:
        """Evaluate failed jobs again: of one rule, by name or id, and with one kind of error, if given.

        With the kind `over_budget` or `rule_disabled`, evaluate the jobs that were skipped for that reason. With a
        tenant, only its jobs. If there are more than `MOST_RETRIED`, the oldest.

        Raises:
            Overloaded: nothing was stored, because the database cannot be written now, or is being closed.
        """
        job_ids: list[int] = []

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            parameters = {"rule": rule, "error_kind": error_kind, "jobs": MOST_RETRIED, "tenant": tenant}
            job_ids[:] = [job_id for (job_id,) in cursor.execute(sql.query("failed_jobs"), parameters).fetchall()]
            repeat_jobs(cursor, job_ids, now_us)

        self._writer.store(write, 1)
        return Repeated(jobs=len(job_ids))

    def retry_over_budget(self, *, after_us: int, before_us: int, now_us: int) -> int:
        """Evaluate again the jobs skipped for lack of budget between two instants; return how many.

        If there are more than `MOST_RETRIED`, the oldest.

        Raises:
            Overloaded: nothing was stored, because the database cannot be written now, or is being closed.
        """
        job_ids: list[int] = []

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            parameters = {"after_us": after_us, "before_us": before_us, "jobs": MOST_RETRIED}
            job_ids[:] = [job_id for (job_id,) in cursor.execute(sql.query("jobs_over_budget"), parameters).fetchall()]
            repeat_jobs(cursor, job_ids, now_us)

        self._writer.store(write, 1)
        return len(job_ids)


def _fate(cursor: duckdb.DuckDBPyConnection, job_id: int, tenant: str | None) -> str | None:
    rows = cursor.execute(sql.query("fate_of_job"), {"job_id": job_id, "tenant": tenant}).fetchall()
    if not rows:
        return None
    state, error_kind = rows[0]
    return str(error_kind if state == "skipped" and error_kind in _LEFT_OUT else state)


def repeat_jobs(
    cursor: duckdb.DuckDBPyConnection, job_ids: Sequence[int], now_us: int, occasion: str | None = None
) -> None:
    """Queue new jobs in place of finished ones. The writer's thread calls this, so that no number is used twice."""
    if not job_ids:
        return
    cursor.register("repeated_jobs", ids_table(job_ids))
    ((last_job,),) = cursor.execute(sql.query("last_job")).fetchall()
    cursor.execute(sql.query("repeat_jobs"), {"now_us": now_us, "last_job": last_job, "occasion": occasion})
    cursor.execute(sql.query("supersede_jobs"), {"now_us": now_us})
    cursor.execute(sql.query("raise_last_job"), {"jobs": len(job_ids)})


def ids_table(job_ids: Sequence[int]) -> pa.Table:
    """Return the ids as a table for statements about many jobs."""
    return pa.table({"job_id": pa.array(list(job_ids), pa.int64())})
