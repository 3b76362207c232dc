"""Shape of a list of traces, for a chart and filters: counts and outcomes over time, and the most frequent values."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage import sql
from storage.engine.arrow import arrow_table
from storage.engine.read_database import ReadDatabase
from storage.errors import Overloaded
from storage.limit import Limit
from storage.query.alarm import text_alarm
from storage.query.facets import Facet, facet_of_column, facet_of_groups
from storage.query.trace_criteria import (
    LAST_NS,
    TraceCriteria,
    asked_of,
    asking,
    extent,
    extent_asked,
    stretch,
    values_of,
)

COLUMNS: Final = 48
"""Maximum number of time steps. A guess: that many columns can be told apart, and touched, on a small screen."""

_FEW_COLUMNS: Final = 12
"""A shape without a requested time gets empty columns on both sides up to this number, as one column shows nothing."""

_FIRST_PARTS: Final = 10_000
_MOST_PARTS: Final = 400_000
_DEFAULT_S: Final = 0.4
"""The newest `_FIRST_PARTS` trace parts are read first; then as many as the time allows, by the duration of the first
look, up to `_MOST_PARTS`. The bounds are guesses."""

_TEXTS_S: Final = 10.0  # after which the reading of texts of spans is interrupted; a guess

_AT_ONCE: Final = 2
_COUNTING: Final = Limit(value=_AT_ONCE, unit="at a time", remedy="ask again in a moment")
_PATIENCE_S: Final = 5.0
"""At most `_AT_ONCE` shapes are computed concurrently; a request that waits for longer than `_PATIENCE_S` is refused.
Guesses: 400,000 traces take some 60 MB."""

_MS: Final = 1_000_000
_S: Final = 1_000_000_000
_DAY: Final = 86_400 * _S
_STEPS: Final = (
    *(ms * _MS for ms in (1, 10, 100)),
    *(s * _S for s in (1, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 10_800, 21_600, 43_200)),
    *(days * _DAY for days in (1, 2, 7, 14, 30, 91, 182, 365, 3_650)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeStep:
    """The traces that began in one step of time."""

    step: int
    traces: int
    failed: int
    latencies_ms: tuple[float, float] | None  # 50th and 95th percentile; None if no trace has ended


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceShape:
    """Outcomes of traces by time step, and their facets."""

    traces: int = 0
    from_ns: int = 0
    step_ns: int = 1
    steps: Sequence[ShapeStep] = ()  # only steps in which a trace began
    columns: int = 0  # number of all steps, empty ones included
    facets: Mapping[str, Facet] = field(default_factory=dict)
    covers_after_ns: int | None = None  # if set, the time ran out, and only traces that began later are covered


class TraceShapes:
    """Shapes of the lists of a tenant's and shared traces; a tenant of None covers all traces. Thread-safe."""

    def __init__(
        self, database: ReadDatabase, *, within_s: float = _DEFAULT_S, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        """`within_s` is roughly the time that the second, larger look may take."""
        self._database = database
        self._within_s = within_s
        self._clock_s = clock_s
        self._places = threading.Semaphore(_AT_ONCE)

    def of(self, criteria: TraceCriteria, *, now_ns: int, values: int, tenant: str | None = "") -> TraceShape:
        """Return the shape of the matching traces, or only of the newest ones if the time does not suffice for all.

        `values` is the number of values of each facet; with 0, no facets are computed.

        Raises:
            Overloaded: too many other shapes are being computed, or the texts of spans took too long to read.
        """
        with self._place(), self._database.snapshot() as cursor, self._limited(cursor, criteria):
            look = _Look(cursor, criteria, tenant, now_ns, values)
            began_s = self._clock_s()
            shape = look.through(_FIRST_PARTS)
            took_s = max(self._clock_s() - began_s, 1e-6)
            parts = min(_MOST_PARTS, int(_FIRST_PARTS * self._within_s / took_s))
            if shape.covers_after_ns is None or parts < 2 * _FIRST_PARTS:
                return shape
            return look.through(parts)

    def _limited(self, cursor: duckdb.DuckDBPyConnection, criteria: TraceCriteria) -> AbstractContextManager[None]:
        return nullcontext() if criteria.text is None else text_alarm(self._database, cursor, _TEXTS_S)

    @contextmanager
    def _place(self) -> Iterator[None]:
        """Limit concurrent shapes, because each has its traces in memory."""
        if not self._places.acquire(timeout=_PATIENCE_S):
            raise Overloaded(f"too many requests count traces; the limit is {_COUNTING}")
        try:
            yield
        finally:
            self._places.release()


class _Look:
    """One computation of a shape."""

    def __init__(
        self, cursor: duckdb.DuckDBPyConnection, criteria: TraceCriteria, tenant: str | None, now_ns: int, values: int
    ) -> None:
        self._cursor = cursor
        self._like = criteria
        self._tenant = tenant
        self._now_ns = now_ns
        self._values = values
        self._questions = asked_of(criteria)

    def through(self, parts: int) -> TraceShape:
        """Return the shape of the matching traces among the newest `parts` parts."""
        until_ns = self._like.to_ns - 1
        seen, oldest_ns = stretch(self._cursor, self._like, self._tenant, until_ns, parts)
        if not seen:
            return TraceShape()
        is_all = seen < parts
        floor_ns = oldest_ns - 1 if is_all else oldest_ns
        bounds: dict[str, int | None] = {"floor_ns": floor_ns, **extent(self._cursor, floor_ns, until_ns)}
        covers_after_ns = None if is_all else floor_ns
        traces = self._found(bounds, until_ns, parts, has_earlier=not is_all or self._like.from_ns > 0)
        if not traces.num_rows:
            return TraceShape(covers_after_ns=covers_after_ns)
        self._cursor.register("found_traces", traces.append_column("number", pa.array(np.arange(traces.num_rows))))
        from_ns, step_ns, columns = self._steps(traces, is_all=is_all)
        values = {"from_ns": from_ns, "step_ns": step_ns}
        steps: list[dict[str, Any]] = self._table(sql.query("found_traces_by_step"), values).to_pylist()
        return TraceShape(
            traces=traces.num_rows,
            from_ns=from_ns,
            step_ns=step_ns,
            columns=columns,
            steps=[ShapeStep(**row | {"latencies_ms": _pair(row["latencies_ms"])}) for row in steps],
            facets=self._facets(traces, bounds) if self._values else {},
            covers_after_ns=covers_after_ns,
        )

    def _found(self, bounds: Mapping[str, int | None], until_ns: int, parts: int, *, has_earlier: bool) -> pa.Table:
        """Return the traces that begin in a time window."""
        questions = {*self._questions, "summed"} | ({"begun"} if has_earlier else set())
        if self._like.to_ns < LAST_NS and "plain" in questions:  # traces may have later spans
            questions = questions - {"plain"} | {"whole"}
        floor_ns = bounds["floor_ns"] or 0
        values = values_of(self._questions, self._like) | extent_asked(questions, bounds)
        values |= {"floor_ns": floor_ns, "until_ns": until_ns, "tenant": self._tenant}
        if has_earlier:
            values["before_ns"] = floor_ns - _DAY
        select = asking(sql.query("traces_like"), questions, len(self._like.attributes))
        return arrow_table(self._cursor, select, values | {"limit": parts})

    def _steps(self, traces: pa.Table, *, is_all: bool) -> tuple[int, int, int]:
        """Return the start of the steps, their length, and their number, over the requested time."""
        ends: dict[str, int] = pc.min_max(traces["start_ns"]).as_py()
        begin, end = ends["min"], ends["max"]
        if self._like.from_ns and is_all:
            begin, end = min(begin, self._like.from_ns), max(end, min(self._now_ns, self._like.to_ns - 1))
        fitting = (each for each in _STEPS if end // each - begin // each < COLUMNS)
        step_ns = next(fitting, _STEPS[-1]) if end > begin else _S
        from_ns = begin // step_ns * step_ns
        columns = (end - from_ns) // step_ns + 1
        if columns >= _FEW_COLUMNS or self._like.from_ns:
            return from_ns, step_ns, columns
        return from_ns - (_FEW_COLUMNS - columns) // 2 * step_ns, step_ns, _FEW_COLUMNS

    def _facets(self, traces: pa.Table, bounds: Mapping[str, int | None]) -> dict[str, Facet]:
        """Return the facets of the traces in the registered table `found_traces`."""
        attributes = len(self._like.attributes)
        of_spans: dict[str, object] = {"floor_ns": bounds["floor_ns"], **extent_asked({"spans"}, bounds)}
        of_results: dict[str, object] = {**extent_asked({"judged"}, bounds)}
        parameters = values_of(self._questions, self._like)
        for name in list(parameters):
            if name in _OF_SPANS or name.startswith(("key", "value")):
                of_spans[name] = parameters[name]
            elif name in _OF_RESULTS:
                of_results[name] = parameters[name]
        spans = self._table(asking(sql.query("facets_of_found_spans"), set(self._questions), attributes), of_spans)
        results = self._table(asking(sql.query("facets_of_found_results"), set(self._questions), 0), of_results)
        status = pa.chunked_array([pc.if_else(traces["is_failed"].combine_chunks(), "error", "ok")])
        columns = {"status": status, "project": traces["project"], "service": traces["service"]}
        facets = {name: facet_of_column(column, self._values) for name, column in columns.items()}
        for groups, names in ((spans, ("model", "release")), (results, ("rule", "verdict"))):
            for name in names:
                facets[name] = facet_of_groups(groups, name, traces=traces.num_rows, most=self._values)
        return facets

    def _table(self, select: str, values: Mapping[str, object]) -> pa.Table:
        return arrow_table(self._cursor, select, dict(values))


_OF_SPANS: Final = frozenset({"model", "failing", "release"})
_OF_RESULTS: Final = frozenset({"rule", "outcome", "passed"})


def _pair(values: Sequence[float] | None) -> tuple[float, float] | None:
    return None if values is None else (values[0], values[1])
