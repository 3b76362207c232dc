"""Open traces, which may still get spans, and the storage of decisions once a trace has settled.

A trace has settled when it was quiet for long enough (`SettleWaits`). It opens again if more spans arrive.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage import sql
from storage.engine.arrow import arrow_table
from storage.engine.database import Database
from storage.errors import WriteConflict
from storage.ingest.writer import Writer
from storage.judging.held_jobs import targets_of, tell_held
from storage.judging.span_window import SpanSelection, asked_for, fetch, last_job_of

_FAR_ROWS: Final = 4096
"""Spans with more rows than this between them are read by separate statements. A guess: at 2.2 µs a span, it takes 9 ms
to skip this many, more than another statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleWaits:
    """Times to wait for more spans of a trace: after a span if the root has ended, if it has not, and the maximum."""

    after_root_us: int
    quiet_us: int
    longest_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DueTraces:
    """Traces that have settled, or may have, and when the next open one may settle."""

    traces: pa.Table
    next_us: int | None  # None if no other trace is open


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Some traces that have settled, and their spans up to the cursor of matching, each by its number."""

    until: int
    traces: pa.Table  # trace, tenant, trace_id, session_trace, seq (of the last span), was_settled, …
    spans: pa.Table  # trace, seq, place


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """Result of settling, stored in one transaction."""

    settled: Settled
    decisions: pa.Table  # revision, seq, outcome, clause, trace
    jobs: pa.Table
    revisions: tuple[int, ...]  # the revisions that decided
    once: tuple[int, ...] = ()  # revisions that judge once: a decision stays as soon as its evaluation has begun
    opened: pa.Table | None = None  # traces whose sessions are open from now on; None if no rule is about sessions
    now_us: int


class OpenTraces:
    """Storage of open traces. For the matcher's thread."""

    def __init__(self, database: Database, writer: Writer) -> None:
        self._database = database
        self._writer = writer

    def turn_back(self, now_us: int) -> None:
        """Cap arrival times at now, after the clock was set back."""
        self._writer.store(lambda cursor: _turn_back(cursor, now_us), 1)

    def writes(self) -> int:
        """Return a number that grows whenever traces are opened or closed."""
        return self._database.writes.count(("trace_open",))

    def due(self, waits: SettleWaits, *, now_us: int, looked_us: int, most: int) -> DueTraces:
        """Find up to `most` traces that have settled, or would have if their root has ended, which `settled` checks."""
        parameters = {
            "after_root_us": waits.after_root_us,
            "quiet_us": waits.quiet_us,
            "longest_us": waits.longest_us,
            "now_us": now_us,
            "looked_us": looked_us,
            "traces": most,
        }
        with self._database.cursor() as cursor:
            table = arrow_table(cursor, sql.query("open_traces"), parameters)
        traces = table.filter(table["trace_id"].is_valid()).drop_columns("next_us")
        traces = traces.add_column(0, "trace", pa.array(np.arange(traces.num_rows)))
        return DueTraces(traces=traces, next_us=table["next_us"][0].as_py())

    def settled(self, due: pa.Table, *, until: int) -> Settled:
        """Return the traces in `due` that have settled, with all their spans up to number `until`."""
        with self._database.snapshot() as cursor:
            cursor.register("wanted_traces", due)
            spans = numbers_of(cursor, until)
        whole = spans.group_by("trace").aggregate([("seq", "max"), ("seq", "count"), ("is_ended_root", "any")])
        traces = due.join(whole, "trace").rename_columns(
            {"seq_max": "seq", "seq_count": "all_spans", "is_ended_root_any": "has_root"}
        )
        traces = traces.filter(pc.or_kleene(traces["has_settled"], traces["has_root"]))
        was_settled = pc.greater(pc.coalesce(traces["all_spans"], traces["span_count"]), traces["span_count"])
        traces = traces.append_column("was_settled", was_settled)
        traces = traces.append_column("session_trace", pa.nulls(traces.num_rows, pa.string()))
        return Settled(
            until=until,
            traces=traces.join(_sessions(spans), "trace"),
            spans=spans.filter(pc.is_in(spans["trace"], traces["trace"])).select(["trace", "seq", "place"]),
        )

    def added_up(self, settled: Settled) -> tuple[Settled, bool]:
        """Return the traces whose sums include all their spans, with these sums; True if no trace was left out."""
        with self._database.snapshot() as cursor:
            cursor.register("wanted_traces", settled.traces.select(["trace", "tenant", "trace_id", "trace_key"]))
            totals = arrow_table(cursor, sql.query("totals_of_traces"))
        late = totals["trace"].filter(pc.invert(totals["is_added_up"])).combine_chunks()
        traces, spans = (
            table.filter(pc.invert(pc.is_in(table["trace"], late))) for table in (settled.traces, settled.spans)
        )
        traces = traces.join(totals.drop_columns(["is_added_up"]), "trace")
        return replace(settled, traces=traces, spans=spans), not len(late)

    def parts(self, spans: pa.Table, selection: SpanSelection) -> Iterator[pa.Table]:
        """Yield the spans with the selected columns, in parts of limited size."""
        with self._database.snapshot() as cursor:
            for near in _near(spans, selection.limits.rows):
                yield from _fitting(cursor, near, selection)

    def store(self, settlement: Settlement) -> None:
        """Store decisions in place of earlier ones, and close the traces.

        Raises:
            Overloaded: the decisions may or may not be stored; check the traces before a retry.
            WriteConflict: nothing was stored, because the traces have changed.
        """
        rows = settlement.decisions.num_rows // 8 + settlement.jobs.num_rows
        self._writer.store(lambda cursor: _store(cursor, settlement), rows)


def numbers_of(cursor: duckdb.DuckDBPyConnection, until: int) -> pa.Table:
    """Return the spans of the registered `wanted_traces`, up to a number."""
    from_ns, to_ns, first_batch, last_batch = cursor.execute(sql.query("extent_of_wanted_traces")).fetchall()[0]
    bounds = {
        "from_ns": from_ns or 0,
        "to_ns": to_ns or 0,
        "first_batch": first_batch or 0,
        "last_batch": -1 if last_batch is None else last_batch,
        "until": until,
    }
    return arrow_table(cursor, sql.query("numbers_of_traces"), bounds)


def extent_of(spans: pa.Table) -> tuple[int, int]:
    """Return the least and the greatest number of spans; 0 and -1 without any."""
    numbers = pc.min_max(spans["seq"])
    return (numbers["min"].as_py(), numbers["max"].as_py()) if spans.num_rows else (0, -1)


def _sessions(spans: pa.Table) -> pa.Table:
    named = spans.filter(spans["session_id"].is_valid())
    named = named.sort_by([("trace", "ascending"), ("is_child", "ascending"), ("start_time", "ascending")])
    first = named.group_by("trace", use_threads=False).aggregate([("session_id", "first")])
    return first.rename_columns({"session_id_first": "session_id"})


def opened_sessions(traces: pa.Table, tenants: Sequence[str] | None) -> pa.Table:
    """Return the traces that belong to a session, of some tenants; None means all tenants."""
    mask = traces["session_id"].is_valid()
    if tenants is not None:
        mask = pc.and_(mask, pc.is_in(traces["tenant"], pa.array(tenants, pa.string())))
    return traces.filter(mask).select(["tenant", "session_id", "trace_id", "last_us", "seq", "was_settled"])


def _near(spans: pa.Table, most: int) -> Iterator[pa.Table]:
    """Yield the spans in order, in groups of at most `most` whose rows lie close together in the table."""
    places = spans["place"].to_numpy()
    starts = [0, *(np.flatnonzero(np.abs(np.diff(places)) > _FAR_ROWS) + 1), spans.num_rows]
    for start, stop in itertools.pairwise(starts):
        for first in range(start, stop, most):
            yield spans.slice(first, min(most, stop - first))


def _fitting(cursor: duckdb.DuckDBPyConnection, spans: pa.Table, selection: SpanSelection) -> Iterator[pa.Table]:
    """Yield the spans with the selected columns, in one table, or bisected until each table fits the byte limit."""
    cursor.register("wanted_spans", spans)
    text, parameters = asked_for(sql.query("spans_of_traces_to_match"), selection.columns)
    bounds = {"first": spans["seq"][0].as_py(), "last": spans["seq"][-1].as_py()}
    table, nbytes = fetch(cursor, text, parameters | bounds, selection.limits.nbytes)
    if nbytes <= selection.limits.nbytes or spans.num_rows == 1:
        yield table
        return
    half = spans.num_rows // 2
    del table
    for part in (spans.slice(0, half), spans.slice(half)):
        yield from _fitting(cursor, part, selection)


def _turn_back(cursor: duckdb.DuckDBPyConnection, now_us: int) -> None:
    cursor.execute(sql.query("turn_back_open_traces"), {"now_us": now_us})


def _store(cursor: duckdb.DuckDBPyConnection, settlement: Settlement) -> None:
    """Store one settlement. The writer's thread calls this in a transaction."""
    last_job = last_job_of(cursor, settlement.settled.until)
    _close(cursor, settlement.settled.traces)
    if settlement.opened is not None and settlement.opened.num_rows:
        cursor.register("opened_sessions", settlement.opened)
        cursor.execute(sql.query("insert_open_sessions"))
    store_decisions(cursor, settlement, last_job)


def store_decisions(cursor: duckdb.DuckDBPyConnection, settlement: Settlement, last_job: int) -> None:
    """Store decisions and their jobs, in place of earlier ones about the targets."""
    now = {"now_us": settlement.now_us}
    settlement = decide_again(cursor, settlement)
    cursor.register("incoming_decisions", settlement.decisions)
    cursor.execute(sql.query("insert_decisions"), now)
    cursor.register("incoming_jobs", settlement.jobs)
    made = cursor.execute(sql.query("insert_jobs_again"), now | {"last_job": last_job}).fetchall()[0][0]
    state = {"seq": settlement.settled.until, "last_job": last_job + made}
    cursor.execute(sql.query("update_matching_state"), state)
    decided = targets_of(settlement.settled.traces["tenant"], settlement.settled.traces["trace_id"])
    first, last = extent_of(settlement.settled.spans)
    tell_held(cursor, decided, first=first, last=last, now_us=settlement.now_us)


def _close(cursor: duckdb.DuckDBPyConnection, traces: pa.Table) -> None:
    cursor.register("settled_traces", traces)
    bounds = {"first": pc.min(traces["first_part"]).as_py(), "last": pc.max(traces["last_part"]).as_py()}
    ((deleted,),) = cursor.execute(sql.query("delete_open_traces"), bounds).fetchall()
    expected = pc.sum(traces["parts"]).as_py()
    if deleted != expected:
        raise WriteConflict(f"{deleted} parts of traces have settled instead of {expected}")


def decide_again(cursor: duckdb.DuckDBPyConnection, settlement: Settlement) -> Settlement:
    """Revoke earlier decisions about the same traces, with their jobs.

    The returned settlement lacks decisions of rules that judge once about traces whose evaluation has begun.
    """
    again = settlement.settled.traces.filter(settlement.settled.traces["was_settled"])
    if not again.num_rows:
        cursor.register("earlier_jobs", _NO_JOBS)
        return settlement
    spans = settlement.settled.spans
    spans = spans.filter(pc.is_in(spans["trace"], again["trace"]))
    numbers = pc.min_max(spans["seq"])
    bounds = {"first": numbers["min"].as_py(), "last": numbers["max"].as_py()}
    decided = settlement.decisions.join(again.select(["trace", "tenant", "trace_id"]), "trace", join_type="inner")
    cursor.register("decided_again", decided)
    earlier = arrow_table(cursor, sql.query("earlier_jobs"), bounds)
    final = _final(earlier, settlement.once)
    if final.num_rows:
        settlement, earlier = _without(settlement, final), earlier.join(final, _TARGET, join_type="left anti")
    cursor.register("earlier_jobs", earlier)
    cursor.register("earlier_spans", spans)
    cursor.register("final_decisions", final.join(again.select(["trace", "tenant", "trace_id"]), _TARGET[1:]))
    cursor.execute(sql.query("delete_decisions"), bounds | {"revisions": list(settlement.revisions)})
    cursor.execute(sql.query("supersede_earlier_jobs"), {"now_us": settlement.now_us})
    cursor.execute(sql.query("delete_earlier_jobs"))
    cursor.register("incoming_jobs", settlement.jobs)
    cursor.execute(sql.query("update_jobs"))
    return settlement


_TARGET: Final = ["revision", "tenant", "trace_id"]


def _final(earlier: pa.Table, once: tuple[int, ...]) -> pa.Table:
    begun = pc.and_(pc.invert(earlier["is_ready"]), pc.invert(earlier["is_superseded"]))
    of_once = pc.is_in(earlier["revision"], pa.array(once, pa.int32()))
    return earlier.filter(pc.and_(begun, of_once)).select(_TARGET).group_by(_TARGET).aggregate([])


def _without(settlement: Settlement, final: pa.Table) -> Settlement:
    """Return the settlement without the decisions and jobs that `final` names by revision and trace."""
    traces = settlement.settled.traces.select(["trace", "tenant", "trace_id"])
    by_number = final.join(traces, _TARGET[1:]).select(["revision", "trace"])
    return replace(
        settlement,
        decisions=settlement.decisions.join(by_number, ["revision", "trace"], join_type="left anti"),
        jobs=settlement.jobs.join(final, _TARGET, join_type="left anti"),
    )


_NO_JOBS: Final = pa.schema(
    [
        ("revision", pa.int32()),
        ("tenant", pa.string()),
        ("trace_id", pa.string()),
        ("outcome", pa.uint8()),
        ("job_id", pa.int64()),
        ("round", pa.int32()),
        ("is_ready", pa.bool_()),
        ("is_superseded", pa.bool_()),
        ("occasion", pa.string()),
        ("counted", pa.bool_()),
    ]
).empty_table()
