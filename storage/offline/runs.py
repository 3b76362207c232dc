"""Experiments and their runs: beginning, end, and sums over items."""

import os
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Literal, TypeAlias

import duckdb
import pyarrow as pa

from storage import sql
from storage.aging import Aging
from storage.delays import StoredDelays
from storage.engine.database import Database
from storage.errors import Conflict, NotFound
from storage.ingest.writer import Writer
from storage.offline.run_sums import KeptSums, RunSums
from storage.sql import dict_rows
from storage.versioned import write_rows

Status: TypeAlias = Literal["RUNNING", "EVALUATING", "SUCCESS", "FAILED", "CANCELLED"]
Ending: TypeAlias = Literal["SUCCESS", "FAILED", "CANCELLED"]

_ROWS_AT_ONCE: Final = 8_192
"""Maximum number of rows that one transaction deletes."""

_EXPIRED_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """Parameters of a new run."""

    tenant: str
    project: str
    experiment: str
    run_key: str | None = None
    name: str | None = None
    description: str = ""
    metadata: str = "{}"  # JSON
    git_sha: str | None = None
    git_branch: str | None = None
    triggered_by: str | None = None
    dataset_id: str | None = None
    dataset: str | None = None
    dataset_version: int | None = None
    trials: int = 1
    idle_s: int
    created_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run of an experiment."""

    tenant: str
    run_id: str
    experiment_id: str
    project: str
    experiment: str
    run_key: str | None
    name: str | None
    description: str
    metadata: str
    git_sha: str | None
    git_branch: str | None
    triggered_by: str | None
    dataset_id: str | None
    dataset: str | None
    dataset_version: int | None
    trials: int
    status: Status
    state_reason: str | None
    failed_evaluations: Sequence[str]  # names of evaluations of the server whose latest attempt failed
    verdict: str | None
    idle_s: int
    created_by: str | None
    is_pinned: bool  # True: the run does not expire
    started_at_ns: int
    reported_at_ns: int
    completed_at_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """An experiment, to which runs belong."""

    tenant: str
    experiment_id: str
    project: str
    name: str
    created_at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetRun:
    """A run in the list of its dataset."""

    run_id: str
    experiment_id: str
    project: str
    experiment: str
    dataset_version: int
    state: str
    started_at_ns: int


class Runs:
    """The experiments and runs of a store. Thread-safe."""

    def __init__(self, database: Database, writer: Writer, aging: Aging, delays: StoredDelays) -> None:
        self._database = database
        self._writer = writer
        self._aging = aging
        self._delays = delays
        self._sums = KeptSums(database)

    def begin(self, new: NewRun, *, now_us: int) -> tuple[Run, bool]:
        """Begin a run, and add its project and experiment if needed; return it, and whether it is new.

        A known key returns its run.

        Raises:
            NotFound: another request deleted the run before it was read back.
            Overloaded: the database cannot be written now.
        """
        values = asdict(new) | {"run_id": _run_id(), "now_us": now_us}
        project = _project(new.tenant, new.project, now_us)
        experiment = {name: values[name] for name in ("tenant", "project", "experiment", "now_us")}
        experiment |= {"experiment_id": uuid.uuid4().hex}
        key = {name: values[name] for name in ("tenant", "project", "experiment", "run_id", "run_key")}
        run_ids: list[str] = []

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            cursor.register("new_projects", project)
            cursor.execute(sql.query("insert_projects"))
            cursor.execute(sql.query("insert_experiment"), experiment)
            cursor.execute(sql.query("insert_run"), values)
            run_ids.extend(run_id for (run_id,) in cursor.execute(sql.query("run_by_key"), key).fetchall())

        self._writer.store(write, 1)
        run = self.find(None, run_ids[0])
        if run is None:
            raise NotFound("the run was deleted at once")
        return run, run.run_id == values["run_id"]

    def find(self, tenant: str | None, run_id: str) -> Run | None:
        """Return a run of a tenant, or a shared one. If `tenant` is None, it may be of any tenant."""
        return next(iter(self._runs(tenant=tenant, run_id=run_id)), None)

    def of_experiment(self, experiment_id: str, *, skip: int = 0, most: int = 1) -> list[Run]:
        """Return the runs of an experiment, newest first."""
        return self._runs(experiment_id=experiment_id, runs=most, skip=skip)

    def latest(self, tenant: str | None, *, dataset: str | None = None, skip: int = 0, most: int = 1) -> list[Run]:
        """Return runs of all experiments of a tenant plus shared ones (None: all), newest first."""
        return self._runs(tenant=tenant, dataset=dataset, runs=most, skip=skip)

    def on_dataset(self, tenant: str | None, dataset_id: str, *, most: int) -> list[DatasetRun]:
        """Return the latest runs of a tenant plus shared ones (None: all) on versions of a dataset, newest first."""
        parameters = {"tenant": tenant, "dataset_id": dataset_id, "runs": most}
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("runs_on_dataset"), parameters)
            return [DatasetRun(**row) for row in dict_rows(cursor)]

    def experiments(
        self, tenant: str | None, *, project: str | None = None, experiment_id: str | None = None
    ) -> list[Experiment]:
        """Return experiments of a tenant plus shared ones (None: all) by name."""
        parameters = {"tenant": tenant, "project": project, "experiment_id": experiment_id}
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("experiments"), parameters)
            return [Experiment(**row) for row in dict_rows(cursor)]

    def sums(self, run_ids: Sequence[str]) -> Mapping[str, RunSums]:
        """Return the sums of some runs, by run."""
        return self._sums.of(run_ids)

    def end(self, run: Run, state: Ending, *, reason: str | None = None, now_us: int) -> Run:
        """End a run, unless it has ended in this state already; compute its sums, so that the next read finds them.

        Raises:
            Conflict: the run has ended in another state.
            NotFound: the run was deleted.
            Overloaded: the database cannot be written now.
        """
        values = {"run_id": run.run_id, "state": state, "reason": reason, "now_us": now_us}
        ended = write_rows(self._writer, sql.query("end_run"), values)
        ended_run = self._again(run)
        if not ended:
            with self._database.cursor() as cursor:  # the status of a run with open evaluations is EVALUATING
                rows = cursor.execute(sql.query("state_of_run"), {"run_id": run.run_id}).fetchall()
            if rows and rows[0] != (state,):
                raise Conflict(f"the run has already ended as {rows[0][0]}")
        self.sums([run.run_id])
        return ended_run

    def touch(self, run: Run, *, now_us: int) -> None:
        """Note that a run is alive.

        Raises:
            Overloaded: the database cannot be written now.
        """
        write_rows(self._writer, sql.query("touch_run"), {"run_id": run.run_id, "now_us": now_us})

    def set_verdict(self, run: Run, verdict: str) -> Run:
        """Store the verdict of a gate on a run.

        Raises:
            NotFound: the run was deleted.
            Overloaded: the database cannot be written now.
        """
        write_rows(self._writer, sql.query("set_run_verdict"), {"run_id": run.run_id, "verdict": verdict})
        return self._again(run)

    def pin(self, run: Run, *, keep: bool, now_us: int) -> Run:
        """Pin a run, so that it does not expire, or unpin it.

        Raises:
            NotFound: the run was deleted.
            Overloaded: the database cannot be written now.
        """
        write_rows(self._writer, sql.query("pin_run"), {"run_id": run.run_id, "keep": keep, "now_us": now_us})
        return self._again(run)

    def delete(self, run_id: str) -> None:
        """Delete a run with its items, scores, evaluations, annotations and review entries.

        Raises:
            Overloaded: the run may be deleted in part or completely; a repeated deletion removes the rest.
        """
        of_it = {"run_id": run_id}

        def forget(cursor: duckdb.DuckDBPyConnection) -> None:
            cursor.execute(sql.query("delete_run"), of_it)
            cursor.execute(sql.query("delete_run_evaluations"), of_it)
            cursor.execute(sql.query("delete_superseded_scores"), of_it)
            cursor.execute(sql.query("delete_run_annotations"), of_it)
            cursor.execute(sql.query("delete_run_review_turns"), of_it)
            cursor.execute(sql.query("delete_run_review_entries"), of_it)

        for statement in (sql.query("delete_run_scores"), sql.query("delete_run_items")):
            while self._deleted(statement, run_id):
                pass
        self._writer.store(forget, 1)

    def abandon(self, *, now_us: int) -> int:
        """End runs that got no report for longer than their `idle_s`, unless the clock is in doubt; return how many.

        Raises:
            Overloaded: the database cannot be written now.
        """
        if self._aging.doubt() is not None:
            return 0
        self._delays.now_ns()  # shifts stored times if the clock was set
        return len(write_rows(self._writer, sql.query("abandon_runs"), {"now_us": now_us}))

    def expire(self, *, before_us: int) -> int:
        """Delete unpinned runs that ended before an instant, unless `Aging` refuses; return how many.

        Raises:
            Overloaded: some runs were deleted, one of them perhaps in part; a repeated call removes the rest.
        """
        with self._database.cursor() as cursor:
            ((stored, old),) = cursor.execute(sql.query("ages_of_runs"), {"before_us": before_us}).fetchall()
        if self._aging.refusal("runs", old, stored) is not None:
            return 0
        expired = 0
        while run_ids := self._expired(before_us):
            for run_id in run_ids:
                self.delete(run_id)
            expired += len(run_ids)
        return expired

    def _expired(self, before_us: int) -> list[str]:
        parameters = {"before_us": before_us, "runs": _EXPIRED_AT_ONCE}
        with self._database.cursor() as cursor:
            return [run_id for (run_id,) in cursor.execute(sql.query("expired_runs"), parameters).fetchall()]

    def _again(self, run: Run) -> Run:
        current = self.find(None, run.run_id)
        if current is None:
            raise NotFound(f"there is no run {run.run_id} any more")
        return current

    def _runs(self, **filters: object) -> list[Run]:
        everything = {"tenant": None, "run_id": None, "experiment_id": None, "dataset": None, "runs": 1, "skip": 0}
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("runs"), everything | filters)
            return [Run(**row) for row in dict_rows(cursor)]

    def _deleted(self, statement: str, run_id: str) -> int:
        values: dict[str, object] = {"run_id": run_id, "rows": _ROWS_AT_ONCE}
        ((rows,),) = write_rows(self._writer, statement, values)
        return int(rows)


def _run_id() -> str:
    """Make a UUID of version 7: its leading time keeps the rows of a run together in the database."""
    milliseconds = time.time_ns() // 1_000_000
    number = (milliseconds << 80) | int.from_bytes(os.urandom(10), "big")
    number = number & ~(0xF << 76) | 0x7 << 76
    number = number & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=number))


def _project(tenant: str, name: str, now_us: int) -> pa.Table:
    columns = {"tenant": tenant, "name": name, "project_id": uuid.uuid4().hex}
    table = {key: pa.array([value], pa.string()) for key, value in columns.items()}
    return pa.table(table | {"created_at_us": pa.array([now_us], pa.int64())})
