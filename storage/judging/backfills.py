"""Backfills: spans older than a rule that the rule has yet to check, and the progress."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage import sql
from storage.engine.arrow import arrow_table
from storage.engine.database import Database
from storage.errors import WriteConflict
from storage.ingest.writer import Writer
from storage.judging.baselines import BaselineRequest, BaselineTargets, judge_again, take_results, targets_of_baseline
from storage.judging.held_jobs import targets_of_jobs, tell_held
from storage.judging.open_sessions import settled_sessions, traces_of
from storage.judging.open_traces import Settled, numbers_of
from storage.judging.span_window import SpanSelection, cursor_of, window


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """A run of a rule over spans that started between two instants, and its progress.

    It decides spans up to number `until_seq`, and has decided those up to `after_seq`. Both are -1 until it begins.
    """

    backfill_id: str
    revision: int
    from_ns: int
    to_ns: int
    after_seq: int
    until_seq: int
    looked_at: int  # number of targets it decided; targets that the revision had decided before are skipped
    matched: int
    state: str  # running, done, cancelled or failed
    error: str | None
    created_at_ns: int
    updated_at_ns: int
    trace_ids: Sequence[str] | None = None  # restricts it to these traces; emptied once it has ended
    occasion: str = "backfill"  # backfill or baseline; monitors compare with the results of a baseline


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillStep:
    """Result of one step, stored in one transaction if the backfill is running and has not moved."""

    backfill: Backfill
    after: int  # the new position of the backfill
    until: int
    decisions: pa.Table
    jobs: pa.Table
    now_us: int
    first: int  # lowest number among the spans of the decided targets

    @property
    def is_last(self) -> bool:
        """Return True if nothing is left."""
        return self.after >= self.until


class BackfillTable:
    """Storage of backfills. Steps are made by the matcher's thread, all else by any."""

    def __init__(self, database: Database, writer: Writer) -> None:
        self._database = database
        self._writer = writer

    def running(self) -> list[Backfill]:
        """Return the backfills that have not ended, oldest first."""
        return self._found(sql.query("running_backfills"))

    def of_rule(self, rule_id: str) -> list[Backfill]:
        """Return the backfills of a rule's revisions, newest first."""
        return self._found(sql.query("backfills_of_rule"), rule_id=rule_id)

    def targets_of_baseline(self, request: BaselineRequest) -> BaselineTargets | None:
        """Return the targets that lack results of a revision, which monitors need for a comparison; None if none do."""
        with self._database.cursor() as cursor:
            return targets_of_baseline(cursor, request)

    def _found(self, select: str, **parameters: str) -> list[Backfill]:
        with self._database.cursor() as cursor:
            table = arrow_table(cursor, select, parameters)
            return [Backfill(**row) for row in table.to_pylist()]

    def add(self, parameters: Mapping[str, Any], again: Sequence[int] = ()) -> None:
        """Store a new backfill; for a baseline, queue the jobs `again` for another evaluation.

        Raises:
            Overloaded: the database cannot be written now.
        """
        self._writer.store(lambda cursor: _add(cursor, parameters, again), 1 + len(again))

    def end(self, backfill_id: str, state: str, error: str | None, *, now_us: int) -> bool:
        """End a backfill; return False if it is not running.

        Raises:
            Overloaded: the database cannot be written now.
        """
        ended: list[int] = []
        parameters = {"backfill_id": backfill_id, "state": state, "error": error, "now_us": now_us}
        self._writer.store(lambda cursor: ended.append(_execute(cursor, "end", parameters)), 1)
        return ended[-1] > 0

    def spans(self, backfill: Backfill, tenant: str | None, selection: SpanSelection) -> tuple[pa.Table, int] | None:
        """Return the next undecided spans, and the number up to which they are complete; None at the end."""
        statements = sql.query("numbers_to_backfill"), sql.query("spans_to_backfill")
        with self._database.snapshot() as cursor:
            return window(cursor, statements, _bounds(backfill, tenant), selection, {"revision": backfill.revision})

    def traces(self, backfill: Backfill, tenant: str | None, *, until: int, rows: int) -> tuple[Settled, int] | None:
        """Return settled, undecided traces of the next spans, and the number of the last span; None at the end."""
        with self._database.snapshot() as cursor:
            bounds = _bounds(backfill, tenant)
            numbers = arrow_table(cursor, sql.query("numbers_to_backfill"), bounds | {"rows": rows})
            if not numbers.num_rows:
                return None
            last = pc.max(numbers["seq"]).as_py()
            traces = arrow_table(cursor, sql.query("traces_to_backfill"), bounds | {"until": last})
            cursor.register("wanted_traces", traces)
            spans = numbers_of(cursor, until)
            return _undecided(cursor, backfill.revision, traces, spans, until), last

    def sessions(self, backfill: Backfill, tenant: str | None, *, until: int, rows: int) -> tuple[Settled, int] | None:
        """Return the settled, undecided sessions of the next spans, and the last span's number; None at the end."""
        with self._database.snapshot() as cursor:
            bounds = _bounds(backfill, tenant)
            numbers = arrow_table(cursor, sql.query("numbers_to_backfill"), bounds | {"rows": rows})
            if not numbers.num_rows:
                return None
            last = pc.max(numbers["seq"]).as_py()
            sessions = arrow_table(cursor, sql.query("sessions_to_backfill"), bounds | {"until": last})
            traces = traces_of(cursor, sessions)
            open_ones = traces.filter(traces["is_open"])["trace"].combine_chunks()
            sessions = sessions.filter(pc.invert(pc.is_in(sessions["trace"], open_ones)))
            spans = numbers_of(cursor, until)
            spans = spans.filter(pc.is_in(spans["trace"], sessions["trace"].combine_chunks()))
            left = sessions.filter(_is_undecided(cursor, backfill.revision, sessions, spans))
            left = left.append_column("was_settled", pa.array(np.zeros(left.num_rows, bool)))
            spans = spans.filter(pc.is_in(spans["trace"], left["trace"].combine_chunks()))
            return settled_sessions(left, traces, spans, until), last

    def store(self, step: BackfillStep) -> None:
        """Store the result of a step, and the progress of the backfill.

        Raises:
            Overloaded: the step may or may not be stored; check the position before a retry.
            WriteConflict: nothing was stored, because the backfill was cancelled, or its position has changed.
        """
        self._writer.store(lambda cursor: _store(cursor, step), step.decisions.num_rows // 8 + step.jobs.num_rows)


def _bounds(backfill: Backfill, tenant: str | None) -> dict[str, Any]:
    return {
        "after": backfill.after_seq,
        "until": backfill.until_seq,
        "tenant": tenant,
        "from_ns": backfill.from_ns,
        "to_ns": backfill.to_ns,
        "trace_ids": backfill.trace_ids,
    }


def _undecided(
    cursor: duckdb.DuckDBPyConnection, revision: int, traces: pa.Table, spans: pa.Table, until: int
) -> Settled:
    """Return the traces that a revision has not decided about."""
    last = spans.group_by("trace").aggregate([("seq", "max")]).rename_columns({"seq_max": "seq"})
    left = traces.join(last, "trace", join_type="inner")
    left = left.filter(_is_undecided(cursor, revision, left, spans))
    left = left.append_column("was_settled", pa.array(np.zeros(left.num_rows, bool)))
    return Settled(
        until=until,
        traces=left.append_column("session_trace", pa.nulls(left.num_rows, pa.string())),
        spans=spans.filter(pc.is_in(spans["trace"], left["trace"])).select(["trace", "seq", "place"]),
    )


def _is_undecided(
    cursor: duckdb.DuckDBPyConnection, revision: int, targets: pa.Table, spans: pa.Table
) -> pa.ChunkedArray:
    """Return a mask of the traces or sessions for which the revision has no decision."""
    decided = pa.array([], pa.int64())
    if spans.num_rows:
        cursor.register("wanted_spans", spans)
        numbers = pc.min_max(spans["seq"])
        bounds = {"revision": revision, "first": numbers["min"].as_py(), "last": numbers["max"].as_py()}
        decided = arrow_table(cursor, sql.query("decided_traces"), bounds)["trace"]
    return pc.invert(pc.is_in(targets["trace"], pa.array(decided.to_pylist(), pa.int64())))


def _store(cursor: duckdb.DuckDBPyConnection, step: BackfillStep) -> None:
    """Store one step. The writer's thread calls this in a transaction.

    After the last step of a baseline, all its traces are decided. From then on monitors also count results for these
    traces that the revision got elsewhere, live or from another backfill (`take_results`).
    """
    of_baseline = step.is_last and step.backfill.occasion == "baseline"
    taken = (
        take_results(cursor, step.backfill.revision, step.backfill.trace_ids or (), step.now_us) if of_baseline else 0
    )
    matched = pc.sum(pc.equal(step.decisions["outcome"], 2)).as_py() or 0
    progress = {
        "backfill_id": step.backfill.backfill_id,
        "was_after": step.backfill.after_seq,
        "after_seq": step.after,
        "until_seq": step.until,
        "looked_at": step.decisions.num_rows + taken,
        "matched": matched + taken,
        "state": "done" if step.is_last else "running",
        "error": None,
        "now_us": step.now_us,
    }
    if not _execute(cursor, "update", progress):
        raise WriteConflict(f"the backfill {step.backfill.backfill_id} is not running, or not where it was")
    seq, last_job = cursor_of(cursor)
    cursor.register("incoming_decisions", step.decisions)
    if step.decisions.num_rows:
        numbers = pc.min_max(step.decisions["seq"])
        bounds = {"first": numbers["min"].as_py(), "last": numbers["max"].as_py()}
        cursor.execute(sql.query("delete_undecided"), bounds | {"revision": step.backfill.revision})
    cursor.execute(sql.query("insert_decisions"), {"now_us": step.now_us})
    cursor.register("incoming_jobs", step.jobs)
    jobs = {"now_us": step.now_us, "last_job": last_job, "occasion": step.backfill.occasion}
    cursor.execute(sql.query("insert_jobs"), jobs)
    if step.jobs.num_rows:
        last = pc.max(step.jobs["seq"]).as_py()
        tell_held(cursor, targets_of_jobs(step.jobs), first=step.first, last=last, now_us=step.now_us)
    cursor.execute(sql.query("update_matching_state"), {"seq": seq, "last_job": last_job + step.jobs.num_rows})


def _add(cursor: duckdb.DuckDBPyConnection, parameters: Mapping[str, Any], again: Sequence[int]) -> None:
    repeated = judge_again(cursor, again, parameters["now_us"])
    _execute(cursor, "insert", {**parameters, "again": repeated})


def _execute(cursor: duckdb.DuckDBPyConnection, what: str, parameters: Mapping[str, Any]) -> int:
    """Insert, update or end a backfill; return how many rows changed."""
    statements = {
        "insert": sql.query("insert_backfill"),
        "update": sql.query("update_backfill"),
        "end": sql.query("end_backfill"),
    }
    ((changed,),) = cursor.execute(statements[what], dict(parameters)).fetchall()
    return int(changed)
