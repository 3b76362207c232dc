"""Sessions: conversations of several traces that share a session id."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from storage import sql
from storage.engine.arrow import arrow_table
from storage.engine.read_database import ReadDatabase
from storage.ingest.windows import Extent, Limits, TraceKey, spans_within
from storage.query.queries import summaries_of
from storage.query.rows import logs_of, spans_of
from storage.query.trace_criteria import LAST_NS, asked_for
from storage.records import LogRecord, Span, Trace

_OfTrace = TypeVar("_OfTrace", Span, LogRecord)

_PREVIEW_CHARACTERS: Final = 200

_NEWEST_TRACES: Final = 1_000
"""Number of the newest traces that are searched first for a project's sessions. A guess: enough for most pages."""

_LIMITS: Final = Limits(rows=10_000, nbytes=32 << 20)
"""Maximum of spans of a session that one call returns, the same as for a trace. A guess: more than a person reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCriteria:
    """Filter of sessions; None matches all. One single trace of the session must match all conditions."""

    project: str | None = None
    user: str | None = None
    text: str | None = None  # the trace's input or output contains this text, in upper or lower case
    from_ns: int = 0  # the trace starts at this time or later
    to_ns: int = LAST_NS  # the trace starts before this time
    newest: int | None = None  # the number of newest traces that are searched for a text; None: all traces


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPosition:
    """Position in the list of sessions, after this session."""

    latest_ns: int  # the start of its latest trace
    session_id: str = ""
    tenant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """Sums over a session. None means that none of its traces has the value."""

    tenant: str
    session_id: str
    projects: Sequence[str]
    user_id: str | None  # of the first trace
    first_input: str | None  # of the first trace, cut
    start_ns: int
    last_ns: int  # the latest start or end of a span
    trace_count: int
    error_trace_count: int  # traces with a failed span
    span_count: int
    error_count: int
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    tool_call_count: int
    summed_span_count: int  # number of spans that are included in tokens, cost and calls


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPage:
    """A page of sessions; `next` is None at the end of the list."""

    sessions: Sequence[SessionSummary]
    next: SessionPosition | None
    searched_to_ns: int | None  # if set, only texts of traces that start at this time or later were searched


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePosition:
    """Position among the traces of a session, before this trace."""

    start_ns: int
    trace_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTraces:
    """The latest traces of a session before a position, in order of time, with their spans."""

    summary: SessionSummary
    traces: Sequence[Trace]
    extents: Mapping[TraceKey, Extent]  # of `traces`
    context: Trace | None  # the trace before `traces`, by which repeated history in the first of them is recognized
    first_number: int  # number of the first of `traces` among all traces of the session, from 1
    cost_before_usd: float | None  # sum of all traces before `traces`; None if none of them has a cost
    earlier: TracePosition | None  # position of the next page; None if there are no earlier traces
    is_cut: bool  # True if spans are missing because of the limits


class SessionQueries:
    """Lists of a tenant's and shared sessions; a tenant of None lists all. Thread-safe.

    A trace is listed in its session as soon as the sums of the trace are stored.
    """

    def __init__(self, database: ReadDatabase) -> None:
        self._database = database

    def page(
        self, criteria: SessionCriteria, *, after: SessionPosition | None = None, limit: int, tenant: str | None = ""
    ) -> SessionPage:
        """Return a page of matching sessions after a position, by the start of their latest trace, newest first."""
        ((recent_ns, _), *_) = self._database.periods(0, LAST_NS)
        with self._database.snapshot() as cursor:
            searched_to_ns = _floor(cursor, criteria, tenant)
            if searched_to_ns is not None:
                criteria = replace(criteria, from_ns=searched_to_ns)
            keys = _found(cursor, criteria, after, {"tenant": tenant, "limit": limit + 1}, recent_ns)
            rows = _rows_of(cursor, [(owner, session_id) for owner, session_id, _ in keys[:limit]])
            summaries = _summaries(cursor, rows)
        order = {(owner, session_id): place for place, (owner, session_id, _) in enumerate(keys)}
        last = keys[limit - 1] if len(keys) > limit else None
        return SessionPage(
            sessions=sorted(summaries, key=lambda each: order[each.tenant, each.session_id]),
            next=None if last is None else SessionPosition(latest_ns=last[2], session_id=last[1], tenant=last[0]),
            searched_to_ns=searched_to_ns,
        )

    def traces(
        self, session_id: str, *, before: TracePosition | None = None, limit: int, tenant: str | None = ""
    ) -> SessionTraces | None:
        """Return the latest traces of a session before a position; None if there is no such session.

        If several sessions have the id, return the tenant's own before the shared one; with None, the shared one first.

        """
        with self._database.snapshot() as cursor:
            parameters = {"session_id": session_id, "tenant": tenant}
            rows = arrow_table(cursor, asked_for(sql.query("rows_of_sessions"), {"one"}), parameters)
            if not rows.num_rows:
                return None
            owners = pc.unique(rows.column("tenant")).to_pylist()
            owner = min(owners, key=lambda each: (each != (tenant or ""), each))
            (summary,) = _summaries(cursor, rows.filter(pc.equal(rows.column("tenant"), owner)))
            place = {
                "place_ns": None if before is None else before.start_ns,
                "place_trace": None if before is None else before.trace_id,
                "limit": limit + 1,
            }
            trace_rows = cursor.execute(sql.query("traces_of_session"), place).fetchall()
            listed = summaries_of(cursor, owner, [trace_id for trace_id, *_ in trace_rows])
            own = [(each, bounds) for each, bounds in listed if each.tenant == owner]
            own.sort(key=lambda pair: (pair[0].start_ns, pair[0].trace_id))
            extents = {
                TraceKey(owner, each.trace_id): Extent(
                    spans=each.span_count,
                    first_start_ns=bounds["from_ns"],
                    last_start_ns=bounds["to_ns"],
                    first_batch=bounds["first_batch"],
                    last_batch=bounds["last_batch"],
                )
                for each, bounds in own
            }
            window = spans_within(cursor, extents, _LIMITS)
        spans = {} if window is None else _by_trace(spans_of(window.spans))
        logs = {} if window is None else _by_trace(logs_of(window.logs))
        traces = [
            Trace(summary=each, spans=tuple(spans.get(each.trace_id, ())), logs=tuple(logs.get(each.trace_id, ())))
            for each, _ in own
        ]
        has_earlier = len(trace_rows) > limit
        trace_id, start_ns, number, _ = trace_rows[:limit][-1] if trace_rows else ("", 0, 1, None)
        here = traces[1:] if has_earlier else traces
        return SessionTraces(
            summary=summary,
            traces=here,
            extents={key: extents[key] for key in (TraceKey(owner, each.summary.trace_id) for each in here)},
            context=traces[0] if has_earlier else None,
            first_number=number,
            cost_before_usd=trace_rows[limit][-1] if has_earlier else None,
            earlier=TracePosition(start_ns=start_ns, trace_id=trace_id) if has_earlier else None,
            is_cut=window is not None and window.is_cut,
        )


def _by_trace(rows: Iterable[_OfTrace]) -> dict[str, list[_OfTrace]]:
    by_trace: dict[str, list[_OfTrace]] = {}
    for row in rows:
        by_trace.setdefault(row.trace_id, []).append(row)
    return by_trace


def _floor(cursor: duckdb.DuckDBPyConnection, criteria: SessionCriteria, tenant: str | None) -> int | None:
    """Return the time from which on texts are searched, or None if it is not later than `criteria.from_ns`."""
    if criteria.text is None or criteria.newest is None:
        return None
    bounds = {"from_ns": criteria.from_ns, "to_ns": criteria.to_ns - 1, "tenant": tenant, "newest": criteria.newest}
    ((count, oldest_ns),) = cursor.execute(sql.query("newest_of_sessions"), bounds).fetchall()
    return oldest_ns if count == criteria.newest else None


def _found(
    cursor: duckdb.DuckDBPyConnection,
    criteria: SessionCriteria,
    after: SessionPosition | None,
    more: dict[str, object],
    recent_ns: int,
) -> list[tuple[str, str, int]]:
    """Return the tenants and ids of matching sessions, and when their latest traces start.

    Without conditions, the traces since `recent_ns` are searched first, which are all in the database.

    If one project has most of the traces, checking the project of every trace takes most of the time. So the newest
    traces are searched first, and all others only if they do not fill the page.

    """
    questions = _conditions_in_use(criteria, after)
    values = {
        name: value for name, (question, value) in _values(criteria, after).items() if question in questions
    } | more
    if criteria.project is not None and criteria.text is None and criteria.user is None:
        select = asked_for(sql.query("newest_sessions_page"), questions)
        newest = cursor.execute(select, values | {"newest": _NEWEST_TRACES}).fetchall()
        if len(newest) == more["limit"]:
            return newest
    if recent_ns and "alike" not in questions:
        select = asked_for(sql.query("sessions_page"), {*questions, "recent"})
        recent = cursor.execute(select, values | {"floor_ns": recent_ns - 1}).fetchall()
        if len(recent) == more["limit"]:
            return recent
    return cursor.execute(asked_for(sql.query("sessions_page"), questions), values).fetchall()


def _conditions_in_use(criteria: SessionCriteria, after: SessionPosition | None) -> set[str]:
    questions = {name for name in ("project", "user", "text") if getattr(criteria, name) is not None}
    if questions or (criteria.from_ns, criteria.to_ns) != (0, LAST_NS):
        questions.add("alike")
    return questions if after is None else questions | {"after"}


def _values(criteria: SessionCriteria, after: SessionPosition | None) -> dict[str, tuple[str, object]]:
    """Return the parameters of `sessions_page.sql`, each with the name of the condition that uses it."""
    place = after or SessionPosition(latest_ns=0)
    return {
        "project": ("project", criteria.project),
        "user": ("user", criteria.user),
        "text": ("text", None if criteria.text is None else criteria.text.lower()),
        "from_ns": ("alike", criteria.from_ns),
        "to_ns": ("alike", criteria.to_ns - 1),
        "place_ns": ("after", place.latest_ns),
        "place_session": ("after", place.session_id),
        "place_tenant": ("after", place.tenant),
    }


def _rows_of(cursor: duckdb.DuckDBPyConnection, keys: Sequence[tuple[str, str]]) -> pa.Table | None:
    """Return the sums of the traces of these sessions, or None for no session."""
    if not keys:
        return None
    tenants, ids = zip(*keys, strict=True)
    session_rows = pa.table({"tenant": pa.array(tenants, pa.string()), "session_id": pa.array(ids, pa.string())})
    cursor.register("wanted_sessions", session_rows)
    return arrow_table(cursor, asked_for(sql.query("rows_of_sessions"), {"wanted"}))


def _summaries(cursor: duckdb.DuckDBPyConnection, rows: pa.Table | None) -> list[SessionSummary]:
    """Summarize the sessions of these rows, in any order. Registers the rows with the cursor as `session_rows`."""
    if rows is None:
        return []
    cursor.register("session_rows", rows)
    sums = arrow_table(cursor, sql.query("sums_of_sessions"), {"characters": _PREVIEW_CHARACTERS})
    return [SessionSummary(**row) for row in sums.to_pylist()]
