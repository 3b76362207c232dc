"""Lists of traces that match a filter, newest first, a page at a time, in bounded time."""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Final

import duckdb

from storage import sql
from storage.engine.arrow import arrow_table
from storage.engine.read_database import ReadDatabase
from storage.ingest.backlog import SEQ_BITS
from storage.query.alarm import text_alarm
from storage.query.queries import questions_of, summaries_of
from storage.query.trace_criteria import (
    Ranking,
    TraceCriteria,
    asked_of,
    asking,
    extent,
    extent_asked,
    stretch,
    values_of,
)
from storage.records import TraceSummary

_FIRST_PARTS: Final = 4  # parts of traces that the first step searches, per requested trace
_MORE: Final = 4
_MUCH_MORE: Final = 16
"""A step searches at most this many times the parts of the previous step, because the estimate of its duration is based
on that step. A guess."""

_MOST_PARTS: Final = 400_000
"""Maximum number of trace parts that one step searches. It takes a second or less, by which the search may overrun its
deadline. Guesses."""

_FIRST_NEWER_NS: Final = 60 * 10**9  # a guess: a busy server has a newer trace within a minute
_LONGER: Final = 8  # each stretch is this many times as long as the one before, and may take as much longer; a guess
_MOST_NEWER: Final = 20  # rows read first; a row may be a later part of a trace that began before the stretch. A guess
_DEFAULT_S: Final = 1.5
_FIRST_SPANS: Final = 4_096  # whose texts the first step reads, in some 20 ms; a step takes 10 ms however few they are
_MOST_SPANS: Final = 65_536  # whose texts one step reads: 0.2 s of CPU, so that it ends soon on a busy machine, too
_STEP_S: Final = 0.2
"""Approximate longest time of a step that reads texts of spans, so that a page with the first matches is soon there. A
guess: what feels immediate."""

_OVERRUN_S: Final = 10.0
"""A step that reads texts is interrupted this long after the deadline; then the texts are far larger than before, or
the machine is overloaded. A guess."""

_RANKED_SPANS: Final = 200_000  # whose texts a ranked list reads; a second or less, as for `_MOST_PARTS`
_LAST_COMMIT: Final = (1 << 43) - 1
_PREVIEW_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPosition:
    """Position in the list, after this trace."""

    start_ns: int
    trace_id: str = ""
    tenant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A page of traces; `next` is None at the end of the list. `is_full` is False if the time ran out."""

    traces: Sequence[TraceSummary]
    commits: tuple[int, int]  # the first and last commit with spans of these traces
    next: ListPosition | None
    is_full: bool
    ranked_to_ns: int | None = None  # of a ranked list that is based on the traces that started after this

    @property
    def searched_to_ns(self) -> int | None:
        """Return the time down to which all traces were searched if time ran out, else None."""
        return self.ranked_to_ns if self.is_full or self.next is None else self.next.start_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleResults:
    """Results of one rule for a trace and its spans."""

    rule: str
    name: str
    passed: int
    not_passed: int
    broken: int  # failed evaluations
    score: float | None  # mean score


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceDetails:
    """Details of a trace in a list, in addition to its summary."""

    input: str | None = None
    output: str | None = None
    final_response: str | None = None  # only returned by `reading`, not in lists
    finish_reason: str | None = None  # only returned by `reading`
    session_id: str | None = None
    user_id: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    summed_span_count: int | None = None  # the number of its spans that the sums include
    results: Sequence[RuleResults] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpansNamed:
    """Names in the spans of a trace."""

    models: Sequence[str] = ()
    releases: Sequence[str] = ()


class Listing:
    """Lists of a tenant's and shared traces; a tenant of None lists all. Thread-safe.

    A list is searched back in time, in steps. A trace belongs to the step in which it starts. Each step is several
    times as long as the previous one, and long enough for the missing traces if matches stay as rare as before.
    """

    def __init__(self, database: ReadDatabase, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock_s = clock_s

    def traces(
        self,
        criteria: TraceCriteria,
        *,
        after: ListPosition | None = None,
        limit: int,
        tenant: str | None = "",
        within_s: float = _DEFAULT_S,
        enough_s: float | None = None,
    ) -> Listed:
        """Return a page of matching traces after a position; after `within_s`, return those found so far.

        With `enough_s`, return after this time if there are any.

        Raises:
            Overloaded: a part of a search for a text took too long, and was interrupted.
        """
        began_s = self._clock_s()
        deadlines = (began_s + within_s, began_s + min(within_s, within_s if enough_s is None else enough_s))
        page: list[TraceSummary] = []
        commits = (_LAST_COMMIT, 0)
        place = (
            after
            if after is not None and after.start_ns < criteria.to_ns
            else ListPosition(start_ns=criteria.to_ns - 1)
        )
        for from_ns, to_ns in self._database.periods(criteria.from_ns, criteria.to_ns):
            if place.start_ns < from_ns:
                continue
            start = place if place.start_ns < to_ns else ListPosition(start_ns=to_ns - 1)
            with self._database.snapshot() as cursor, self._limited(cursor, criteria, within_s):
                walk = _Walk(cursor, replace(criteria, from_ns=from_ns, to_ns=to_ns), tenant)
                some, following = self._gathered(walk, start, limit - len(page), deadlines)
            page += some
            commits = min(commits[0], walk.commits[0]), max(commits[1], walk.commits[1])
            if len(page) > limit:
                last = page[limit - 1]
                following = ListPosition(start_ns=last.start_ns, trace_id=last.trace_id, tenant=last.tenant)
                return Listed(traces=page[:limit], commits=commits, next=following, is_full=True)
            if following is not None:
                return Listed(traces=page, commits=commits, next=following, is_full=False)
        return Listed(traces=page, commits=commits, next=None, is_full=True)

    def _gathered(
        self, walk: "_Walk", place: ListPosition, limit: int, deadlines: tuple[float, float]
    ) -> tuple[list[TraceSummary], ListPosition | None]:
        """Return up to `limit` + 1 matching traces, and the position at which the time ran out, or None.

        The second deadline holds once there are any.
        """
        pace = _LookAhead()
        page: list[TraceSummary] = []
        first_parts = max(_FIRST_SPANS if walk.reads_texts else 0, _FIRST_PARTS * (limit + 1))
        parts, looked_at = first_parts, 0
        while True:
            began_s = self._clock_s()
            some, following = walk.step(place, parts, limit + 1 - len(page))
            page += some
            if len(page) > limit or following is None:
                return page, None
            ended_s = self._clock_s()
            pace.note(parts, ended_s - began_s)
            left_s = deadlines[bool(page)] - ended_s
            fitting = pace.fitting(min(left_s, _STEP_S) if walk.reads_texts else left_s)
            if fitting < first_parts:
                return page, following
            place = following
            looked_at += parts
            as_before = looked_at * (limit + 1 - len(page)) // max(len(page), 1) * 3 // 2
            parts = min(max(parts * _MORE, as_before), parts * _MUCH_MORE, fitting)
            if walk.reads_texts:
                parts = min(parts, looked_at * _MORE, _MOST_SPANS)

    def newer(
        self,
        criteria: TraceCriteria,
        place: ListPosition,
        *,
        tenant: str | None = "",
        within_s: float = _DEFAULT_S,
    ) -> TraceSummary | None:
        """Return the matching trace before a position, the next newer one; None if there is none, or time ran out.

        Each step searches a longer stretch of time after the position.

        Raises:
            Overloaded: a part of a search for a text took too long, and was interrupted.
        """
        now_s = self._clock_s()
        deadline_s, took_s = now_s + within_s, 0.0
        from_ns, width_ns = max(place.start_ns, criteria.from_ns), _FIRST_NEWER_NS
        while from_ns < criteria.to_ns and now_s + took_s * _LONGER < deadline_s:
            began_s, to_ns = now_s, min(from_ns + width_ns, criteria.to_ns)
            for period in reversed(self._database.periods(from_ns, to_ns)):
                like = replace(criteria, from_ns=period[0], to_ns=period[1])
                with self._database.snapshot() as cursor, self._limited(cursor, criteria, within_s):
                    traces = _Walk(cursor, like, tenant).newer(place, _MOST_NEWER)
                if traces:
                    return traces[0]
            now_s = self._clock_s()
            took_s = now_s - began_s
            from_ns, width_ns = to_ns, width_ns * _LONGER
        return None

    def ranked(self, criteria: TraceCriteria, *, by: Ranking, limit: int, tenant: str | None = "") -> Listed:
        """Return the first matching traces by an amount, greatest first, or by score, least first; without pages.

        All traces within the time range of `criteria` are searched, so the caller should bound it; for a text, only the
        newest that have some `_RANKED_SPANS` spans.
        """
        floor_ns = None
        with self._database.snapshot() as cursor, self._limited(cursor, criteria, _DEFAULT_S):
            if criteria.text is not None:
                seen, oldest_ns = stretch(cursor, criteria, tenant, criteria.to_ns - 1, _RANKED_SPANS)
                if seen >= _RANKED_SPANS:
                    floor_ns, criteria = oldest_ns - 1, replace(criteria, from_ns=oldest_ns)
            walk = _Walk(cursor, criteria, tenant, by)
            traces = walk.all(limit)
        return Listed(traces=traces, commits=walk.commits, next=None, is_full=True, ranked_to_ns=floor_ns)

    def _limited(
        self, cursor: duckdb.DuckDBPyConnection, criteria: TraceCriteria, within_s: float
    ) -> AbstractContextManager[None]:
        return nullcontext() if criteria.text is None else text_alarm(self._database, cursor, within_s + _OVERRUN_S)

    def briefs(
        self, traces: Sequence[TraceSummary], commits: tuple[int, int], *, characters: int = _PREVIEW_CHARACTERS
    ) -> Mapping[tuple[str, str], TraceDetails]:
        """Return the details of traces by tenant and trace id; their spans must be of commits in this range.

        Inputs and outputs are cut to `characters`.

        """
        if not traces:
            return {}
        of: dict[str, object] = {"trace_ids": _ids_of(traces)}
        seqs = {"first_seq": commits[0] << SEQ_BITS, "last_seq": ((commits[1] + 1) << SEQ_BITS) - 1}
        results: dict[tuple[str, str], list[RuleResults]] = defaultdict(list)
        with self._database.snapshot() as cursor:
            readings = _readings(cursor, traces, characters)
            for row in _rows(cursor, sql.query("results_of_listed_traces"), of | seqs):
                results[row.pop("tenant"), row.pop("trace_id")].append(RuleResults(**row))
        keys = [(trace.tenant, trace.trace_id) for trace in traces]
        return {key: TraceDetails(results=results[key], **readings.get(key, {})) for key in keys}

    def reading(self, trace: TraceSummary) -> TraceDetails:
        """Return the stored sums and texts of one trace, uncut, without results of evaluations."""
        of = {"tenant": trace.tenant, "trace_id": trace.trace_id, "start_ns": trace.start_ns}
        with self._database.snapshot() as cursor:
            return TraceDetails(**next(iter(_rows(cursor, sql.query("reading_of_trace"), of)), {}))

    def named_by_spans(
        self, traces: Sequence[TraceSummary], commits: tuple[int, int]
    ) -> Mapping[tuple[str, str], SpansNamed]:
        """Return models and releases in the spans of traces; keys and `commits` are as for `briefs`."""
        if not traces:
            return {}
        of = {
            "trace_ids": _ids_of(traces),
            "from_ns": min(trace.start_ns for trace in traces),
            "first_batch": commits[0],
            "last_batch": commits[1],
        }
        with self._database.snapshot() as cursor:
            rows = _rows(cursor, sql.query("spans_of_listed_traces"), of)
        return {(row.pop("tenant"), row.pop("trace_id")): SpansNamed(**row) for row in rows}

    def questions(self, trace_ids: Sequence[str], *, tenant: str | None, characters: int) -> dict[str, str]:
        """Return by trace id the stored inputs of a tenant's and shared traces, cut to `characters`."""
        with self._database.snapshot() as cursor:
            return questions_of(cursor, tenant, trace_ids, characters)


class _LookAhead:
    """Estimate of how much can be searched in the rest of the time, from the last two steps."""

    def __init__(self) -> None:
        self._before = (0, 0.0)
        self._last = (0, 0.0)

    def note(self, parts: int, took_s: float) -> None:
        """Record the duration of a step over `parts` parts."""
        self._before, self._last = self._last, (parts, took_s)

    def fitting(self, left_s: float) -> int:
        """Return how many parts can be searched in `left_s`. One step alone is too short for an estimate."""
        if left_s <= 0:
            return 0
        (fewer, before_s), (more, last_s) = self._before, self._last
        if fewer == 0:
            return _MOST_PARTS
        grew = more > fewer
        part_s = max(last_s - before_s, 0) / (more - fewer) if grew else last_s / more
        left_s -= max(last_s - part_s * more, 0)
        if left_s <= 0:
            return 0
        return _MOST_PARTS if part_s * _MOST_PARTS <= left_s else int(left_s / part_s)


class _Walk:
    """A walk back through the list."""

    def __init__(
        self, cursor: duckdb.DuckDBPyConnection, criteria: TraceCriteria, tenant: str | None, by: Ranking | None = None
    ) -> None:
        self._cursor = cursor
        self._like = criteria
        self._tenant = tenant
        self._questions = asked_of(criteria, by)
        self.reads_texts = criteria.text is not None
        self.commits = (_LAST_COMMIT, 0)  # the first and last commit with spans of the traces found

    def step(self, place: ListPosition, parts: int, limit: int) -> tuple[list[TraceSummary], ListPosition | None]:
        """Return up to `limit` matching traces of the next `parts` parts, and the next place, or None at the end."""
        bounds: dict[str, object] = {"until_ns": place.start_ns, "tenant": self._tenant}
        seen, oldest_ns = stretch(self._cursor, self._like, self._tenant, place.start_ns, parts)
        is_last = seen < parts
        if not seen:
            return [], None
        floor_ns = oldest_ns - 1 if is_last else oldest_ns
        if not is_last and floor_ns >= place.start_ns:  # all start at one instant, maybe others too
            return self.step(place, parts * _MORE, limit)
        bounds["floor_ns"] = floor_ns
        bounds |= self._extent(floor_ns, place.start_ns)
        rows = self._cursor.execute(*self._question(bounds, place, limit)).fetchall()
        following = None if is_last else ListPosition(start_ns=floor_ns)
        if len(rows) == limit:
            tenant, trace_id, start_ns = rows[-1]
            following = ListPosition(start_ns=start_ns, trace_id=trace_id, tenant=tenant)
        return self._surely(rows, floor_ns), following

    def all(self, limit: int) -> list[TraceSummary]:
        """Return matching traces in all of the requested time, at most `limit`."""
        floor_ns, until_ns = self._like.from_ns - 1, self._like.to_ns - 1
        bounds: dict[str, object] = {"until_ns": until_ns, "tenant": self._tenant, "floor_ns": floor_ns}
        bounds |= self._extent(floor_ns, until_ns)
        rows = self._cursor.execute(*self._question(bounds, ListPosition(start_ns=until_ns), limit)).fetchall()
        return self._surely(rows, floor_ns)

    def newer(self, place: ListPosition, limit: int) -> list[TraceSummary]:
        """Return up to `limit` matching traces that come before a position of the list, the nearest first."""
        floor_ns, until_ns = self._like.from_ns - 1, self._like.to_ns - 1
        bounds: dict[str, object] = {"until_ns": until_ns, "tenant": self._tenant, "floor_ns": floor_ns}
        bounds |= self._extent(floor_ns, until_ns)
        statement, values = self._question(bounds, place, limit, "newer")
        rows = self._cursor.execute(statement, values).fetchall()
        sure = self._surely(rows, floor_ns)
        return sure if sure or len(rows) < limit else self.newer(place, limit * _MUCH_MORE)

    def _extent(self, floor_ns: int, until_ns: int) -> dict[str, int | None]:
        questions = set(self._questions)
        has_bounds = {"spans", "text", "judged"} & questions
        return extent_asked(questions, extent(self._cursor, floor_ns, until_ns)) if has_bounds else {}

    def _question(
        self, bounds: Mapping[str, object], place: ListPosition, limit: int, beyond: str = "cursor"
    ) -> tuple[str, dict[str, object]]:
        questions, values = (
            {*self._questions, "listed"},
            {**values_of(self._questions, self._like), **bounds, "limit": limit},
        )
        if place.trace_id:
            questions.add(beyond)
            values |= {"cursor_ns": place.start_ns, "cursor_trace": place.trace_id, "cursor_tenant": place.tenant}
        return asking(sql.query("traces_like"), questions, len(self._like.attributes)), values

    def _surely(self, rows: Sequence[tuple[Any, ...]], floor_ns: int) -> list[TraceSummary]:
        """Check rows, which may be based on some parts of a trace, against all parts; return those that still match."""
        order = {(tenant, trace_id): number for number, (tenant, trace_id, _) in enumerate(rows)}
        summaries = summaries_of(self._cursor, self._tenant, [trace_id for _, trace_id, _ in rows])
        for _, bounds in summaries:
            first, last = self.commits
            self.commits = (min(first, bounds["first_batch"]), max(last, bounds["last_batch"]))
        sure = [
            trace
            for trace, _ in summaries
            if (trace.tenant, trace.trace_id) in order and trace.start_ns > floor_ns and _is_like(trace, self._like)
        ]
        return sorted(sure, key=lambda trace: order[trace.tenant, trace.trace_id])


def _is_like(trace: TraceSummary, criteria: TraceCriteria) -> bool:
    """Return True if a trace still matches by all of its parts."""
    return (
        (criteria.project is None or trace.project == criteria.project)
        and (criteria.service is None or trace.service_name == criteria.service)
        and (criteria.name is None or criteria.name.lower() in trace.root_name.lower())
        and (criteria.is_error is None or (trace.error_count > 0) == criteria.is_error)
        and (
            criteria.least_ns is None
            or (trace.end_ns is not None and trace.end_ns - trace.start_ns >= criteria.least_ns)
        )
    )


def _readings(
    cursor: duckdb.DuckDBPyConnection, traces: Sequence[TraceSummary], characters: int
) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the cut texts and sums of traces, by tenant and trace id."""
    starts = [trace.start_ns for trace in traces]
    parameters = {
        "trace_ids": _ids_of(traces),
        "from_ns": min(starts),
        "to_ns": max(starts),
        "characters": characters,
    }
    read = _rows(cursor, sql.query("readings_of_listed_traces"), parameters)
    return {(row.pop("tenant"), row.pop("trace_id")): row for row in read}


def _ids_of(traces: Sequence[TraceSummary]) -> str:
    # One text that statements split, because a list parameter costs time for each of its values.
    return ",".join(trace.trace_id for trace in traces)


def _rows(cursor: duckdb.DuckDBPyConnection, select: str, parameters: Mapping[str, object]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = arrow_table(cursor, select, dict(parameters)).to_pylist()
    return rows
