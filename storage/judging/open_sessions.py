"""Open sessions, which may still get spans, and the storage of decisions once a session was quiet for long enough.

Rules decide a session like a trace, over the spans of all its traces. So both use the same tables. For sessions,
`trace` numbers the session, `trace_id` is the session's id, and `session_trace` the id of its latest trace.
"""

from collections.abc import Collection
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage import sql
from storage.engine.arrow import arrow_table
from storage.engine.database import Database
from storage.errors import WriteConflict
from storage.ingest.writer import Writer
from storage.judging.open_traces import Settled, Settlement, numbers_of, store_decisions
from storage.judging.span_window import last_job_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RestedSessions:
    """Sessions that have been quiet for `settle_us`, to be decided by the rules that wait for that long."""

    settled: Settled
    sessions: pa.Table  # tenant, session_id, parts, first_part, …; also sessions whose spans are all deleted
    settle_us: int
    is_last: bool  # True if no rule waits longer


class OpenSessions:
    """Storage of open sessions. For the matcher's thread."""

    def __init__(self, database: Database, writer: Writer) -> None:
        self._database = database
        self._writer = writer

    def turn_back(self, now_us: int) -> None:
        """Cap arrival times at now, after the clock was set back."""
        statement = sql.query("turn_back_open_sessions")
        self._writer.store(lambda cursor: cursor.execute(statement, {"now_us": now_us}), 1)

    def forget(self, longest_us: int) -> None:
        """Delete open sessions that all rules have decided, because no rule waits longer than `longest_us` any more."""
        statement = sql.query("forget_open_sessions")
        self._writer.store(lambda cursor: cursor.execute(statement, {"longest_us": longest_us}), 1)

    def rested(self, waits_us: Collection[int], settle_us: int, *, now_us: int, most: int) -> RestedSessions | None:
        """Return undecided sessions that have been quiet for `settle_us`, one of `waits_us`, or None.

        Sessions with an open trace are left out, because the settlement of the trace opens the session again.
        """
        parameters = {"settle_us": settle_us, "now_us": now_us, "sessions": most}
        with self._database.snapshot() as cursor:
            due = arrow_table(cursor, sql.query("open_sessions"), parameters)
            if not due.num_rows:
                return None
            due = due.add_column(0, "trace", pa.array(np.arange(due.num_rows)))
            ((until, _),) = cursor.execute(sql.query("matching_state")).fetchall()
            traces = traces_of(cursor, due)
            waiting = traces.filter(traces["is_open"])["trace"]
            due = due.filter(pc.invert(pc.is_in(due["trace"], waiting.combine_chunks())))
            traces = traces.filter(pc.is_in(traces["trace"], due["trace"].combine_chunks()))
            spans = numbers_of(cursor, until)
        if not due.num_rows:
            return None
        spans = spans.filter(pc.is_in(spans["trace"], due["trace"].combine_chunks()))
        counts = traces.group_by("trace").aggregate([([], "count_all")])
        known = due.join(counts, "trace", join_type="inner")
        again = pc.or_(known["was_decided"], pc.greater(known["count_all"], known["new_traces"]))
        settled = settled_sessions(known.append_column("was_settled", again), traces, spans, until)
        is_last = settle_us >= max(waits_us)
        return RestedSessions(settled=settled, sessions=due, settle_us=settle_us, is_last=is_last)

    def store(self, rested: RestedSessions, settlement: Settlement) -> None:
        """Store decisions in place of earlier ones, and close the sessions, or note up to which wait they are decided.

        Raises:
            Overloaded: the decisions may or may not be stored; check the sessions before a retry.
            WriteConflict: nothing was stored, because the sessions have changed.
        """
        rows = settlement.decisions.num_rows // 8 + settlement.jobs.num_rows
        self._writer.store(lambda cursor: _store(cursor, rested, settlement), rows)


def traces_of(cursor: duckdb.DuckDBPyConnection, sessions: pa.Table) -> pa.Table:
    """Return the traces of sessions, and register them as `wanted_traces`."""
    cursor.register("wanted_sessions", sessions.select(["trace", "tenant", "session_id"]))
    traces = arrow_table(cursor, sql.query("traces_of_sessions"))
    cursor.register("wanted_traces", traces)
    return traces


def settled_sessions(sessions: pa.Table, traces: pa.Table, spans: pa.Table, until: int) -> Settled:
    """Return the sessions that have stored spans, each with its latest trace.

    `sessions` has `trace`, `tenant`, `session_id` and `was_settled`.

    """
    last = spans.group_by("trace").aggregate([("seq", "max")]).rename_columns({"seq_max": "seq"})
    latest = traces.sort_by([("trace", "ascending"), ("start_ns", "ascending"), ("trace_id", "ascending")])
    latest = latest.group_by("trace", use_threads=False).aggregate([("trace_id", "last")])
    latest = latest.rename_columns({"trace_id_last": "session_trace"})
    columns = sessions.select(["trace", "tenant", "session_id", "was_settled"]).rename_columns(
        {"session_id": "trace_id"}
    )
    return Settled(
        until=until,
        traces=columns.join(last, "trace", join_type="inner").join(latest, "trace", join_type="inner"),
        spans=spans.select(["trace", "seq", "place"]),
    )


def _store(cursor: duckdb.DuckDBPyConnection, rested: RestedSessions, settlement: Settlement) -> None:
    """Store one settlement. The writer's thread calls this in a transaction."""
    last_job = last_job_of(cursor, settlement.settled.until)
    sessions = rested.sessions
    cursor.register("rested_sessions", sessions.select(["tenant", "session_id"]))
    bounds = {"first": pc.min(sessions["first_part"]).as_py(), "last": pc.max(sessions["last_part"]).as_py()}
    if rested.is_last:
        result = cursor.execute(sql.query("delete_open_sessions"), bounds)
    else:
        result = cursor.execute(sql.query("rest_open_sessions"), bounds | {"settle_us": rested.settle_us})
    ((changed,),) = result.fetchall()
    expected = pc.sum(sessions["parts"]).as_py()
    if changed != expected:
        raise WriteConflict(f"{changed} traces of sessions have come to rest instead of {expected}")
    store_decisions(cursor, settlement, last_job)
