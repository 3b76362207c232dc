"""Sessions: conversations of several traces, which tell one session id."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import duckdb
import pyarrow as pa

from storage import sql
from storage.engine.database import Database
from storage.ingest.windows import Limits, TraceKey, Windows
from storage.query.listing import LAST_NS
from storage.query.queries import summaries_of
from storage.query.rows import logs_of, spans_of
from storage.records import LogRecord, Span, Trace

_OfTrace = TypeVar("_OfTrace", Span, LogRecord)

_PREVIEW_CHARACTERS: Final = 200

_LIMITS: Final = Limits(rows=10_000, nbytes=32 << 20)
"""Spans of a session that are read at once, as many as of one trace. A guess: more than a person looks at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsLike:
    """What is asked of a session; None: it does not matter. One of its traces has all of it."""

    project: str | None = None
    user: str | None = None
    text: str | None = None  # the trace's input or output holds it, in any case of letters
    from_ns: int = 0  # the trace starts then or later
    to_ns: int = LAST_NS  # and before


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPosition:
    """A place in the list of sessions: after this one."""

    latest_ns: int  # the start of its latest trace
    session_id: str = ""
    tenant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """A session, added up. None: no trace of it tells that."""

    tenant: str
    session_id: str
    projects: Sequence[str]
    user_id: str | None  # of the first trace
    first_input: str | None  # of the first trace, in short
    start_ns: int
    last_ns: int  # when the last of its spans started or ended
    trace_count: int
    error_trace_count: int  # in which any span failed
    span_count: int
    error_count: int
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    tool_call_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPage:
    """A page of sessions; `next` is None at the end of the list."""

    sessions: Sequence[SessionSummary]
    next: SessionPosition | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePosition:
    """A place among the traces of a session: before this one."""

    start_ns: int
    trace_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTraces:
    """The latest traces of a session before a place, in order of time, with their spans."""

    summary: SessionSummary
    traces: Sequence[Trace]
    context: Trace | None  # the trace before the first of them, which tells what is history in it
    first_number: int  # of the first of them among all traces of the session, from 1
    cost_before_usd: float | None  # of the traces before the first of them; None: no trace tells it
    earlier: TracePosition | None  # the place before the first of them; None: there are no earlier ones
    is_cut: bool  # not all of their spans are here


class SessionQueries:
    """Looks among the sessions of a tenant and the shared ones, or with None those of all. Safe to ask from any thread.

    A trace belongs to its session once it is added up.
    """

    def __init__(self, database: Database, windows: Windows) -> None:
        self._database = database
        self._windows = windows

    def page(
        self, like: SessionsLike, *, after: SessionPosition | None = None, limit: int, tenant: str | None = ""
    ) -> SessionPage:
        """Such sessions after that place, by the start of their latest trace, newest first."""
        bounds = {
            "tenant": tenant,
            "project": like.project,
            "user": like.user,
            "text": None if like.text is None else like.text.lower(),
            "from_ns": like.from_ns,
            "to_ns": like.to_ns - 1,
            "place_ns": None if after is None else after.latest_ns,
            "place_session": None if after is None else after.session_id,
            "place_tenant": None if after is None else after.tenant,
            "limit": limit + 1,
        }
        with self._database.snapshot() as cursor:
            found = cursor.execute(sql.query("sessions_page"), bounds).fetchall()
            summaries = _summaries(cursor, [(owner, session_id) for owner, session_id, _ in found[:limit]])
        order = {(owner, session_id): place for place, (owner, session_id, _) in enumerate(found)}
        last = found[limit - 1] if len(found) > limit else None
        return SessionPage(
            sessions=sorted(summaries, key=lambda each: order[each.tenant, each.session_id]),
            next=None if last is None else SessionPosition(latest_ns=last[2], session_id=last[1], tenant=last[0]),
        )

    def traces(
        self, session_id: str, *, before: TracePosition | None = None, limit: int, tenant: str | None = ""
    ) -> SessionTraces | None:
        """The latest traces of a session before a place; None where there is no such session.

        Of sessions with one id, a tenant is shown its own before the shared one, and None the shared one first.
        """
        with self._database.snapshot() as cursor:
            asked = {"session_id": session_id, "tenant": tenant}
            owners = [owner for (owner,) in cursor.execute(sql.query("tenants_of_session"), asked).fetchall()]
            if not owners:
                return None
            owner = min(owners, key=lambda each: (each != (tenant or ""), each))
            place = {
                "place_ns": None if before is None else before.start_ns,
                "place_trace": None if before is None else before.trace_id,
                "limit": limit + 1,
            }
            bounds = {"tenant": owner, "session_id": session_id} | place
            found = cursor.execute(sql.query("traces_of_session"), bounds).fetchall()
            (summary,) = _summaries(cursor, [(owner, session_id)])
            listed = summaries_of(cursor, owner, [trace_id for trace_id, *_ in found])
        own = [each for each, _ in listed if each.tenant == owner]
        keys = [TraceKey(owner, each.trace_id) for each in own]
        window = self._windows.traces(keys, until=LAST_NS, limits=_LIMITS) if keys else None
        spans = {} if window is None else _by_trace(spans_of(window.spans))
        logs = {} if window is None else _by_trace(logs_of(window.logs))
        traces = [
            Trace(summary=each, spans=tuple(spans.get(each.trace_id, ())), logs=tuple(logs.get(each.trace_id, ())))
            for each in sorted(own, key=lambda each: (each.start_ns, each.trace_id))
        ]
        has_earlier = len(found) > limit
        trace_id, start_ns, number, _ = found[:limit][-1] if found else ("", 0, 1, None)
        return SessionTraces(
            summary=summary,
            traces=traces[1:] if has_earlier else traces,
            context=traces[0] if has_earlier else None,
            first_number=number,
            cost_before_usd=found[limit][-1] if has_earlier else None,
            earlier=TracePosition(start_ns=start_ns, trace_id=trace_id) if has_earlier else None,
            is_cut=window is not None and window.is_cut,
        )


def _by_trace(rows: Iterable[_OfTrace]) -> dict[str, list[_OfTrace]]:
    """Spans or log records by the id of their trace."""
    found: dict[str, list[_OfTrace]] = {}
    for row in rows:
        found.setdefault(row.trace_id, []).append(row)
    return found


def _summaries(cursor: duckdb.DuckDBPyConnection, keys: Sequence[tuple[str, str]]) -> list[SessionSummary]:
    """The sessions with these tenants and ids, in any order."""
    if not keys:
        return []
    tenants, ids = zip(*keys, strict=True)
    wanted = pa.table({"tenant": pa.array(tenants, pa.string()), "session_id": pa.array(ids, pa.string())})
    cursor.register("wanted_sessions", wanted)
    rows = cursor.execute(sql.query("sums_of_sessions"), {"characters": _PREVIEW_CHARACTERS}).to_arrow_table()
    return [SessionSummary(**row) for row in rows.to_pylist()]
