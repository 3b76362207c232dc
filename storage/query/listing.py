"""Lists of traces: those of which something is true, newest first, a page at a time, in bounded time."""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import duckdb

from storage import sql
from storage.engine.database import Database
from storage.ingest.backlog import SEQ_BITS
from storage.query.queries import summaries_of
from storage.records import TraceSummary

_FIRST_PARTS: Final = 4  # times what is asked for
_MORE: Final = 4
_MOST_PARTS: Final = 400_000
"""A stretch of time that is looked through at once has so many parts of traces at most: a second or less, so that the
time that is over is noticed. Guesses."""

_DEFAULT_S: Final = 1.5
_LAST_COMMIT: Final = (1 << 43) - 1
LAST_NS: Final = (1 << 63) - 2
_PREVIEW_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class TracesLike:
    """What is asked of a trace; None: it does not matter. It is that of its root, or of any of its spans."""

    project: str | None = None
    service: str | None = None
    name: str | None = None  # the name of the root holds it, in any case of letters
    is_error: bool | None = None  # whether any span failed
    from_ns: int = 0  # it starts then or later
    to_ns: int = LAST_NS  # and before
    session: str | None = None
    text: str | None = None  # its input or its output holds it, in any case of letters
    model: str | None = None  # of any span
    attributes: Mapping[str, str] = field(default_factory=dict)  # of one span, or of its resource
    rule: str | None = None  # that judged it, or a span of it; name or id
    outcome: str | None = None  # scored, failed or skipped
    passed: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPosition:
    """A place in the list: after this trace."""

    start_ns: int
    trace_id: str = ""
    tenant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A page; `next` is None at the end of the list. It may have fewer traces where the time was over before."""

    traces: Sequence[TraceSummary]
    commits: tuple[int, int]  # the first and the last that brought spans of these
    next: ListPosition | None
    is_full: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleResults:
    """What came of one rule's evaluations of a trace and its spans."""

    rule: str
    name: str
    passed: int
    not_passed: int
    broken: int
    score: float | None  # the mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """What a row of a list tells of a trace beside its summary."""

    input: str | None = None
    output: str | None = None
    session_id: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    results: Sequence[RuleResults] = ()


class Listing:
    """Looks among the traces of a tenant and the shared ones, or with None those of all. Safe to ask from any thread.

    It walks back in time, a stretch at a time. A trace belongs to the stretch in which it starts. Each stretch is some
    times longer than the one before, and as long as would hold what is missing, were it as rare there as before.
    """

    def __init__(self, database: Database, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock_s = clock_s

    def traces(
        self,
        like: TracesLike,
        *,
        after: ListPosition | None = None,
        limit: int,
        tenant: str | None = "",
        within_s: float = _DEFAULT_S,
    ) -> Listed:
        """Such traces after that place; after about `within_s` it answers with what it has, and where it was."""
        deadline_s = self._clock_s() + within_s
        found: list[TraceSummary] = []
        place = after if after is not None and after.start_ns < like.to_ns else ListPosition(start_ns=like.to_ns - 1)
        parts, looked_at = _FIRST_PARTS * (limit + 1), 0
        with self._database.snapshot() as cursor:
            walk = _Walk(cursor, like, tenant)
            while True:
                some, following = walk.step(place, parts, limit + 1 - len(found))
                found += some
                if len(found) > limit:
                    last = found[limit - 1]
                    next_place = ListPosition(start_ns=last.start_ns, trace_id=last.trace_id, tenant=last.tenant)
                    return Listed(traces=found[:limit], commits=walk.commits, next=next_place, is_full=True)
                if following is None:
                    return Listed(traces=found, commits=walk.commits, next=None, is_full=True)
                if self._clock_s() >= deadline_s:
                    return Listed(traces=found, commits=walk.commits, next=following, is_full=False)
                place = following
                looked_at += parts
                as_before = looked_at * (limit + 1 - len(found)) // max(len(found), 1) * 3 // 2
                parts = min(max(parts * _MORE, as_before), _MOST_PARTS)

    def briefs(self, traces: Sequence[TraceSummary], commits: tuple[int, int]) -> Mapping[tuple[str, str], Brief]:
        """What rows tell of traces, whose spans came with the commits from one to another, by tenant and trace id."""
        if not traces:
            return {}
        starts = [trace.start_ns for trace in traces]
        bounds = {"from_ns": min(starts), "to_ns": max(starts)}
        of: dict[str, object] = {"trace_ids": [trace.trace_id for trace in traces]}
        seqs = {"first_seq": commits[0] << SEQ_BITS, "last_seq": ((commits[1] + 1) << SEQ_BITS) - 1}
        results: dict[tuple[str, str], list[RuleResults]] = defaultdict(list)
        with self._database.snapshot() as cursor:
            short = {"characters": _PREVIEW_CHARACTERS}
            read = _rows(cursor, sql.query("readings_of_listed_traces"), of | bounds | short)
            for row in _rows(cursor, sql.query("results_of_listed_traces"), of | seqs):
                results[row.pop("tenant"), row.pop("trace_id")].append(RuleResults(**row))
        told = {(row.pop("tenant"), row.pop("trace_id")): row for row in read}
        keys = [(trace.tenant, trace.trace_id) for trace in traces]
        return {key: Brief(results=results[key], **told.get(key, {})) for key in keys}


class _Walk:
    """One way back through the list."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, like: TracesLike, tenant: str | None) -> None:
        self._cursor = cursor
        self._like = like
        self._tenant = tenant
        self._asked = _asked(like)
        self.commits = (_LAST_COMMIT, 0)  # the first and the last that brought spans of what was found

    def step(self, place: ListPosition, parts: int, limit: int) -> tuple[list[TraceSummary], ListPosition | None]:
        """Such traces among so many parts, at most `limit`, and the place after them; None at the end of the list."""
        bounds: dict[str, object] = {"until_ns": place.start_ns, "tenant": self._tenant}
        stretch = {**bounds, "from_ns": self._like.from_ns, "parts": parts}
        (seen, oldest_ns) = self._cursor.execute(sql.query("stretch_of_traces"), stretch).fetchall()[0]
        is_last = seen < parts
        floor_ns = self._like.from_ns - 1 if is_last else oldest_ns
        if not is_last and floor_ns >= place.start_ns:  # all of them start at one instant, and more may
            return self.step(place, parts * _MORE, limit)
        bounds["floor_ns"] = floor_ns
        if "spans" in self._asked:
            latest = {"floor_ns": floor_ns, "until_ns": place.start_ns}
            ((bounds["latest_ns"],),) = self._cursor.execute(sql.query("latest_span_of_stretch"), latest).fetchall()
        rows = self._cursor.execute(*self._question(bounds, place, limit)).fetchall()
        following = None if is_last else ListPosition(start_ns=floor_ns)
        if len(rows) == limit:
            tenant, trace_id, start_ns = rows[-1]
            following = ListPosition(start_ns=start_ns, trace_id=trace_id, tenant=tenant)
        return self._surely(rows, floor_ns), following

    def _question(self, bounds: Mapping[str, object], place: ListPosition, limit: int) -> tuple[str, dict[str, object]]:
        asked, values = set(self._asked), {**self._asked_values(), **bounds, "limit": limit}
        if place.trace_id:
            asked.add("cursor")
            values |= {"cursor_ns": place.start_ns, "cursor_trace": place.trace_id, "cursor_tenant": place.tenant}
        return _select(asked, len(self._like.attributes)), values

    def _asked_values(self) -> dict[str, object]:
        named: dict[str, object] = {name: self._asked[name] for name in _VALUES if name in self._asked}
        for number, (key, value) in enumerate(self._like.attributes.items()):
            named |= {f"key{number}": key, f"value{number}": value}
        return named

    def _surely(self, rows: Sequence[tuple[Any, ...]], floor_ns: int) -> list[TraceSummary]:
        """The traces that do start in the stretch, by all of their parts."""
        order = {(tenant, trace_id): number for number, (tenant, trace_id, _) in enumerate(rows)}
        found = summaries_of(self._cursor, self._tenant, [trace_id for _, trace_id, _ in rows])
        for _, bounds in found:
            first, last = self.commits
            self.commits = (min(first, bounds["first_batch"]), max(last, bounds["last_batch"]))
        sure = [
            trace
            for trace, _ in found
            if (trace.tenant, trace.trace_id) in order and trace.start_ns > floor_ns and _is_like(trace, self._like)
        ]
        return sorted(sure, key=lambda trace: order[trace.tenant, trace.trace_id])


_VALUES: Final = ("project", "service", "name", "session", "text", "model", "rule", "outcome", "passed")


_OF_PARTS: Final = frozenset({"project", "service", "name", "is_error", "is_ok"})


def _asked(like: TracesLike) -> dict[str, object]:
    """The questions that are asked, by their names in `traces_like.sql`, and the values of those that have one."""
    asked: dict[str, object] = {name: getattr(like, name) for name in _VALUES if getattr(like, name) is not None}
    for name in ("name", "text"):
        if name in asked:
            asked[name] = str(asked[name]).lower()
    if like.is_error is not None:
        asked["is_error" if like.is_error else "is_ok"] = True
    for whole, members in (
        ("read", {"session", "text"}),
        ("judged", {"rule", "outcome", "passed"}),
        ("spans", {"model"}),
    ):
        if members & set(asked):
            asked[whole] = True
    asked["whole" if _OF_PARTS & set(asked) else "plain"] = True
    if like.attributes:
        asked |= {"spans": True, "attribute": True}
    return asked


def _select(asked: set[str], attributes: int) -> str:
    lines = []
    for line in sql.query("traces_like").splitlines():
        text, mark, name = line.rpartition(" -- ")
        if not mark or not name.isidentifier():
            lines.append(line)
        elif name in asked:
            many = range(attributes) if "$key" in text else range(1)
            lines += [text.replace("$key", f"$key{n}").replace("$value", f"$value{n}") for n in many]
    return "\n".join(lines)


def _is_like(trace: TraceSummary, like: TracesLike) -> bool:
    """Whether what all parts of a trace tell together is still what is asked for."""
    return (
        (like.project is None or trace.project == like.project)
        and (like.service is None or trace.service_name == like.service)
        and (like.name is None or like.name.lower() in trace.root_name.lower())
        and (like.is_error is None or (trace.error_count > 0) == like.is_error)
    )


def _rows(cursor: duckdb.DuckDBPyConnection, select: str, parameters: Mapping[str, object]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = cursor.execute(select, dict(parameters)).to_arrow_table().to_pylist()
    return rows
