"""Cursors that read hot and cold rows together.

For each statement, files of the lake are chosen by its conditions. If no file can have a row, only the database is
read.
"""

import datetime as dt
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import duckdb
import pyarrow as pa

from storage import sql
from storage.engine.cursors import begin_reading, roll_back
from storage.engine.database import CATALOG, LAKE_CATALOG
from storage.errors import FILE_IS_GONE, Reopened
from storage.ingest.windows import TRACE_ID
from storage.lake.catalog import COLD_TABLES, attach
from storage.lake.cold_files import DAY_NS, LEAST, MOST, Bounds, ColdFiles, Limits, of_commits
from storage.lake.scans import names_cold, scans_of
from storage.lake.tables import PARTITION

_FOLDER: Final = "lake"
_EPOCH: Final = dt.date(1970, 1, 1)
_KEY_DIGITS: Final = 16
_BITS: Final = 1 << 64
_STARTS: Final = ("from_ns", "floor_ns", "before_ns", "first_ns")
"""Parameters of the server's statements that are lower bounds for the start of the traces that the statement reads."""
_BATCHES: Final = ("span", "trace_part")
_SEQS: Final = ("evaluation", "decision")
_SUMS: Final = "evaluation_day"
"""Table with the sums of results that moved. A statement of the server that reads it adds hot results only."""
_PLACE: Final = " AS place"
_ROW_ID: Final = re.compile(r"\browid\b")
_LONGER: Final = 4
"""A list reads its range of time in parts, latest first; each part is this many times as long as the one before. A
guess."""
_PLACED: Final = frozenset({"batch", "seq", "start_time"})
"""Columns whose bounds already select few files, so that a look-up of the traces is not needed."""
_TRACE: Final = "trace_id"
_MOST_IDS: Final = 2_000
"""Maximum number of traces whose files are looked up; for more, all files are read. A guess."""
_GONE: Final = (duckdb.IOException, duckdb.HTTPException)

_Query = str | duckdb.Statement
_Values = Mapping[str, Any] | None


class LakeReader:
    """Source of cursors that read the lake with the database. Thread-safe."""

    def __init__(self, uri: str, endpoint: str | None = None) -> None:
        """`endpoint` is the URL of an object store whose provider has no default endpoint."""
        self._uri, self._endpoint = uri, endpoint
        self._folder = Path()
        self.files = ColdFiles(uri)

    def attach(self, connection: duckdb.DuckDBPyConnection, scratch: Path) -> None:
        """Prepare a connection before its access to files is closed."""
        self._folder = (scratch / _FOLDER).absolute()
        attach(connection, self._uri, self._folder, self._endpoint)

    @contextmanager
    def reading(
        self, cursor: duckdb.DuckDBPyConnection, *, begins: bool, is_own: bool
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """Return a cursor that reads hot and cold rows; `begins`: it is in no transaction, and may begin one."""
        reading = ColdCursor(cursor, self, begins=begins, is_own=is_own)
        try:
            yield cast("duckdb.DuckDBPyConnection", reading)
        finally:
            reading.leave()

    def route(self, cursor: duckdb.DuckDBPyConnection, statement: str, parameters: _Values) -> None:
        """Decide where rows are read, for a statement of a client and for all later ones on this cursor."""
        cast("ColdCursor", cursor).route(statement, parameters)

    def periods(self, cursor: duckdb.DuckDBPyConnection, from_ns: int, to_ns: int) -> list[tuple[int, int]]:
        """Split a range of time, latest first: the time after all moved traces, the day before, then longer parts."""
        boundary = self.boundary(cursor)
        latest_ns = LEAST if boundary is None else self.files.newest_start_ns(boundary) + 2
        if not from_ns < latest_ns:
            return [(from_ns, to_ns)]
        edges, days = [to_ns, *([latest_ns] if latest_ns < to_ns else [])], 1
        while edges[-1] > from_ns:
            edges.append(max(edges[-1] - days * DAY_NS, from_ns))
            days *= _LONGER
        return [(first_ns, end_ns) for end_ns, first_ns in itertools.pairwise(edges)]

    def boundary(self, cursor: duckdb.DuckDBPyConnection) -> Limits | None:
        """Return the limits of what has moved, in the cursor's snapshot; None if nothing has."""
        boundaries = cursor.execute(sql.query("lake_boundaries")).fetchall()
        rows = [row for row in boundaries if row[2] > 0]  # under a name of before a restore, nothing may have moved
        if not rows:
            return None
        _, days, batches, seqs = zip(*rows, strict=True)
        day_ns = (max(days) - _EPOCH).days * DAY_NS
        due = lambda: cursor.execute(sql.query("rows_in_lake")).fetchall()  # noqa: E731 - called while it is read
        return Limits(batch=max(batches), seq=max(seqs), day_ns=day_ns, names=frozenset(rows), rows=due)

    def forget(self, error: Exception) -> bool:
        """Return True if a statement that failed with this error may succeed when repeated, because files changed."""
        if isinstance(error, _GONE):
            self.files.forget()
        return isinstance(error, _GONE)

    def parameters(self, boundary: Limits, chosen: Mapping[str, list[str]]) -> dict[str, Any]:
        """Return the parameters of the statement `choose_files`."""
        empty = {table: [str(self._folder / f"{table}.parquet")] for table in COLD_TABLES}
        lists = {table: "\n".join(empty[table] + chosen.get(table, [])) for table in COLD_TABLES}
        until = max(self.files.newest_start_ns(boundary), 0)
        return {**lists, "batch": boundary.batch, "seq": boundary.seq, "until": until}


class ColdCursor:
    """A cursor whose statements read the lake too if their rows may be there. Everything else goes to the cursor."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, reader: LakeReader, *, begins: bool, is_own: bool) -> None:
        """`is_own`: the statements are the server's, so parameter names show which traces and times they read."""
        self._cursor, self._reader, self._begins, self._is_own = cursor, reader, begins, is_own
        self._has_begun = self._is_cold = self._is_routed = self._has_files = False
        self._boundary: Limits | None = None
        self._knows_boundary = False
        self._near: Bounds = {}  # bounds for the search of trace parts, from the times of the server's statements
        self._places: dict[tuple[frozenset[str], Limits], Mapping[str, Bounds] | None] = {}  # cached `_bounds_of`
        self._registered: dict[str, pa.Table] = {}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as that of the cursor
        return getattr(self._cursor, name)

    def execute(self, query: _Query, parameters: _Values = None) -> Any:  # noqa: ANN401 - as that of the cursor
        """Execute a statement over the database, or over the database and the lake if the lake may have its rows."""
        return self._run(query, parameters, lambda text: self._cursor.execute(text, parameters))

    def sql(self, query: _Query, *, params: _Values = None) -> Any:  # noqa: ANN401 - as that of the cursor
        """Delegate to the cursor as `execute`."""
        return self._run(query, params, lambda text: self._cursor.sql(text, params=params))

    def register(self, name: str, table: pa.Table) -> None:
        """Delegate to the cursor; a statement that names the table is assumed to read only the table's traces."""
        self._registered[name] = table
        self._cursor.register(name, table)

    def _run(self, query: _Query, parameters: _Values, run: Any) -> Any:  # noqa: ANN401
        text = query if isinstance(query, str) else query.query
        if self._is_routed:
            return run(query)
        if not names_cold(text) or (self._is_own and _SUMS in text):
            self._use(is_cold=False)
            return run(query)
        try:
            self._route(text, parameters)
            return run(self._suited(text, query))
        except _GONE as error:
            if not (self._is_own and self._has_files and self._reader.forget(error)):
                raise
            if not self._begins:  # the error has ended the caller's transaction
                raise Reopened(FILE_IS_GONE) from error
        self.leave()
        self._has_begun = self._knows_boundary = False
        try:
            self._route(text, parameters)
            return run(self._suited(text, query))
        except _GONE as error:
            raise Reopened(FILE_IS_GONE) from error

    def _suited(self, text: str, query: _Query) -> _Query:
        # Views have no row ids, so numbers replace them. A statement that returns ids which a later statement uses
        # (`AS place`) always returns numbers once rows have moved, because the later statement may read the lake.
        if not self._is_own or not (self._is_cold or (self._boundary is not None and _PLACE in text)):
            return query
        number = "number" if "FROM evaluation AS e" in text else "write_number"
        return _ROW_ID.sub(number, text.replace(f"{CATALOG}.trace_part", "trace_part"))

    def route(self, statement: str, parameters: _Values = None) -> None:
        """Decide where rows are read, for a client's statement and for all later ones until `leave`."""
        self._route(statement, parameters)
        self._is_routed = True

    def leave(self) -> None:
        """Read the database alone again."""
        with suppress(duckdb.Error):  # of a statement that failed before; such a cursor is not used again
            self._use(is_cold=False)
        if self._has_begun:
            roll_back(self._cursor)

    def _use(self, *, is_cold: bool) -> None:
        if is_cold != self._is_cold:
            self._cursor.execute(f"USE {LAKE_CATALOG if is_cold else CATALOG}")
            self._is_cold = is_cold

    def _route(self, text: str, parameters: _Values) -> None:
        if self._begins and not self._has_begun:
            begin_reading(self._cursor)
            self._has_begun = True
        if not self._knows_boundary:  # read once, because all statements of a cursor read one snapshot
            self._boundary, self._knows_boundary = self._reader.boundary(self._cursor), True
        boundary = self._boundary
        chosen: Mapping[str, list[str]] = {}
        if boundary is not None and not (self._is_own and _is_later(text, parameters, boundary)):
            chosen = self._chosen(text, parameters, boundary, self._reader.files)
        if boundary is not None and any(chosen.values()):
            self._choose(boundary, chosen)
            self._use(is_cold=True)
        else:
            self._use(is_cold=False)

    def _choose(self, boundary: Limits, files: Mapping[str, list[str]]) -> None:
        self._has_files = True
        self._cursor.execute(sql.query("choose_files"), self._reader.parameters(boundary, files))

    def _chosen(self, text: str, parameters: _Values, boundary: Limits, files: ColdFiles) -> Mapping[str, list[str]]:
        named = {name: table for name, table in self._registered.items() if name in text}
        starts = _starts(parameters) if self._is_own and "created_at" not in text else []
        if starts and min(starts) > files.newest_start_ns(boundary):
            return {}
        if starts and isinstance(until_ns := (parameters or {}).get("until_ns"), int):
            self._near = {
                "start_time": (max(min(starts), LEAST + DAY_NS) - DAY_NS, min(until_ns, MOST - DAY_NS) + DAY_NS)
            }
        ids = _ids(parameters, named.values()) if self._is_own else None
        scans = scans_of(text, parameters, {name: table.schema for name, table in named.items()})
        if ids is not None:
            scans = [scan if _PLACED & scan.bounds.keys() else replace(scan, trace_ids=ids) for scan in scans]
        bounds: dict[str, list[Bounds]] = {}
        for scan in scans:
            if scan.trace_ids is None:
                bounds.setdefault(scan.table, []).append(scan.bounds)
                continue
            key = scan.trace_ids, boundary
            if key not in self._places:
                self._places[key] = self._bounds_of(scan.trace_ids, boundary, files)
            of_traces = self._places[key]
            if of_traces is not None:
                bounds.setdefault(scan.table, []).append({**scan.bounds, **of_traces.get(scan.table, {})})
        return files.choose(boundary, bounds)

    def _bounds_of(self, trace_ids: frozenset[str], boundary: Limits, files: ColdFiles) -> Mapping[str, Bounds] | None:
        """Return by table the bounds of the cold rows of traces, or None if these traces have no cold rows."""
        keys = {int(trace_id[_KEY_DIGITS:], 16) for trace_id in trace_ids if TRACE_ID.fullmatch(trace_id)}
        texts = {"keys": ",".join(map(str, keys)), "day_ns": boundary.day_ns}
        hot = self._cursor.execute(sql.query("traces_that_are_hot"), texts).fetchall() if keys else []
        keys -= {key for (key,) in hot}
        parts = files.choose(boundary, {"trace_part": [self._near]}) if keys else {}
        if not parts.get("trace_part"):
            return None
        self._choose(boundary, parts)
        signed = ",".join(str(key if key <= MOST else key - _BITS) for key in keys)
        ((first, last, start_ns, end_ns),) = self._cursor.execute(
            sql.query("extent_of_cold_traces"), {"keys": signed}
        ).fetchall()
        if first is None:
            return None
        commits: Bounds = {"batch": (first, last)}
        first_day = files.first_day_of("span", commits)
        numbers: Bounds = {"seq": of_commits(first, last)}
        return {
            **dict.fromkeys(_BATCHES, commits),
            **dict.fromkeys(_SEQS, numbers),
            "log_record": {PARTITION: (first_day - 1, MOST)},  # a log record may arrive long after its span
            "trace_reading": {"start_time": (start_ns, end_ns)},
            "tool_call": {"start_time": (start_ns - DAY_NS, end_ns + DAY_NS)},
        }


def _is_later(text: str, parameters: _Values, boundary: Limits) -> bool:
    """Return True if a statement of the server reads only commits that have not moved."""
    return (
        parameters is not None
        and "trace_part" not in text
        and (parameters.get("first_batch") or LEAST) >= boundary.batch
    )


def _starts(parameters: _Values) -> list[int]:
    values = [(parameters or {}).get(name) for name in _STARTS]
    return [value for value in values if isinstance(value, int)]


def _ids(parameters: _Values, registered: Iterable[pa.Table]) -> frozenset[str] | None:
    """Return the ids of the traces that a statement of the server reads; None if unknown, or too many."""
    named = parameters or {}
    texts = [named.get(name) for name in ("ids", "trace_ids", "trace_id")]
    ids = [text.split(",") for text in texts if isinstance(text, str)]
    ids += [table.column(_TRACE).to_pylist() for table in registered if _TRACE in table.column_names]
    distinct = frozenset(itertools.chain(*ids))
    return distinct if ids and len(distinct) <= _MOST_IDS else None
