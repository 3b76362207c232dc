"""Cursors that read hot and cold rows together.

For each statement, files of the lake are chosen by its conditions. If no file can have a row, only the database is
read.
"""

import datetime as dt
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import duckdb
import pyarrow as pa

from storage import sql
from storage.engine.cursors import begin_reading, roll_back
from storage.engine.database import CATALOG, LAKE_CATALOG, Database
from storage.engine.row_cache import RowCache
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
_LOCATES: Final = "AS first_start_ns"
"""Column of statements that return traces by id, with their start. They ask the database first: if it has all of the
traces, and they began after the boundary, neither these statements nor later ones about these traces ask the lake."""
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
        self._boundaries: RowCache | None = None
        self._limits: tuple[Sequence[object], Limits | None] = ((), None)
        self.files = ColdFiles(uri)

    def watch(self, database: Database) -> None:
        """Follow the boundaries of the database whose cursors read the lake."""
        self._boundaries = RowCache(database, sql.query("boundaries_to_read"))
        self.files.required = RowCache(database, sql.query("rows_in_lake")).rows

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

    def periods(self, from_ns: int, to_ns: int) -> list[tuple[int, int]]:
        """Split a range of time, latest first: the time after all moved traces, the day before, then longer parts."""
        limits = self.limits()
        latest_ns = LEAST if limits is None else self.files.newest_start_ns(limits) + 2
        if not from_ns < latest_ns:
            return [(from_ns, to_ns)]
        edges, days = [to_ns, *([latest_ns] if latest_ns < to_ns else [])], 1
        while edges[-1] > from_ns:
            edges.append(max(edges[-1] - days * DAY_NS, from_ns))
            days *= _LONGER
        return [(first_ns, end_ns) for end_ns, first_ns in itertools.pairwise(edges)]

    def limits(self) -> Limits | None:
        """Return the limits of what has moved by now; None if nothing has."""
        boundaries = () if self._boundaries is None else self._boundaries.rows()
        known, limits = self._limits
        if boundaries is not known:
            limits = _limits_of(boundaries) if boundaries else None
            self._limits = boundaries, limits
        return limits

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


def _limits_of(boundaries: Sequence[tuple[Any, ...]]) -> Limits:
    _, days, batches, seqs = zip(*boundaries, strict=True)
    day_ns = (max(days) - _EPOCH).days * DAY_NS
    return Limits(batch=max(batches), seq=max(seqs), day_ns=day_ns, names=frozenset(boundaries))


class _Rows(NamedTuple):
    rows: list[tuple[Any, ...]]

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self.rows


class ColdCursor:
    """A cursor whose statements read the lake too if their rows may be there. Everything else goes to the cursor.

    Most statements need no file, which is decided without another statement: by their parameters, and by the latest
    boundary. Traces that moved between this and the beginning of the cursor's snapshot are noticed afterwards.
    """

    def __init__(self, cursor: duckdb.DuckDBPyConnection, reader: LakeReader, *, begins: bool, is_own: bool) -> None:
        """`is_own`: the statements are the server's, so parameter names show which traces and times they read."""
        self._cursor, self._reader, self._begins, self._is_own = cursor, reader, begins, is_own
        self._has_begun = self._is_cold = self._is_routed = self._has_files = self._is_settled = False
        self._boundary: Limits | None = None  # of the snapshot or, until `_is_settled`, the latest one
        self._near: Bounds = {}  # bounds for the search of trace parts, from the times of the server's statements
        self._hot: frozenset[str] = frozenset()  # ids of traces without cold rows
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
        while True:
            result = self._run_at_boundary(text, query, parameters, run)
            if self._is_settled or self._boundary == self._reader.limits():
                self._is_settled = True
                return result
            self._hot = frozenset()

    def _run_at_boundary(self, text: str, query: _Query, parameters: _Values, run: Any) -> Any:  # noqa: ANN401
        try:
            return self._routed(text, query, parameters, run)
        except _GONE as error:
            if not (self._is_own and self._has_files and self._reader.forget(error)):
                raise
            if not self._begins:  # the error has ended the caller's transaction
                raise Reopened(FILE_IS_GONE) from error
        self.leave()
        self._has_begun = self._is_settled = False
        try:
            return self._routed(text, query, parameters, run)
        except _GONE as error:
            raise Reopened(FILE_IS_GONE) from error

    def _routed(self, text: str, query: _Query, parameters: _Values, run: Any) -> Any:  # noqa: ANN401
        self._begin()
        ids = self._ids(text, parameters) if self._is_own else None
        if self._boundary is not None and ids is not None and _LOCATES in text and not ids <= self._hot:
            self._use(is_cold=False)
            result = run(query)
            columns = [name for name, *_ in result.description]
            rows = result.fetchall()
            self._note_hot(*([row[columns.index(name)] for row in rows] for name in (_TRACE, "first_start_ns")))
            if ids <= self._hot:
                return _Rows(rows)
        self._route(text, parameters, ids)
        return run(self._suited(text, query))

    def _suited(self, text: str, query: _Query) -> _Query:
        # Views have no row ids, so numbers replace them. A statement that returns ids which a later statement uses
        # (`AS place`) always returns numbers once rows have moved, because the later statement may read the lake.
        if not self._is_own or not (self._is_cold or (self._boundary is not None and _PLACE in text)):
            return query
        number = "number" if "FROM evaluation AS e" in text else "write_number"
        return _ROW_ID.sub(number, text.replace(f"{CATALOG}.trace_part", "trace_part"))

    def route(self, statement: str, parameters: _Values = None) -> None:
        """Decide where rows are read, for a client's statement and for all later ones until `leave`."""
        self._begin()
        self._cursor.execute(sql.query("lake_boundaries"))  # begins the snapshot, before the boundary is read
        self._boundary, self._is_settled = self._reader.limits(), True
        self._route(statement, parameters, None)
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

    def _begin(self) -> None:
        if self._begins and not self._has_begun:
            begin_reading(self._cursor)
            self._has_begun = True
        if not self._is_settled:
            self._boundary = self._reader.limits()

    def _route(self, text: str, parameters: _Values, ids: frozenset[str] | None) -> None:
        boundary = self._boundary
        chosen: Mapping[str, list[str]] = {}
        if boundary is not None and not (self._is_own and _is_later(text, parameters, boundary)):
            chosen = self._chosen(text, parameters, ids, boundary)
        if boundary is not None and any(chosen.values()):
            self._choose(boundary, chosen)
            self._use(is_cold=True)
        else:
            self._use(is_cold=False)

    def _choose(self, boundary: Limits, files: Mapping[str, list[str]]) -> None:
        self._has_files = True
        self._cursor.execute(sql.query("choose_files"), self._reader.parameters(boundary, files))

    def _chosen(
        self, text: str, parameters: _Values, ids: frozenset[str] | None, boundary: Limits
    ) -> Mapping[str, list[str]]:
        files = self._reader.files
        starts = _starts(parameters) if self._is_own and "created_at" not in text else []
        if starts and min(starts) > files.newest_start_ns(boundary):
            return {}
        if starts and isinstance(until_ns := (parameters or {}).get("until_ns"), int):
            self._near = {
                "start_time": (max(min(starts), LEAST + DAY_NS) - DAY_NS, min(until_ns, MOST - DAY_NS) + DAY_NS)
            }
        if ids is not None and ids <= self._hot:
            return {}
        schemas = {name: table.schema for name, table in self._registered.items() if name in text}
        scans = scans_of(text, parameters, schemas)
        if ids is not None:
            scans = [scan if _PLACED & scan.bounds.keys() else replace(scan, trace_ids=ids) for scan in scans]
        bounds: dict[str, list[Bounds]] = {}
        for scan in scans:
            of_traces = {} if scan.trace_ids is None else self._placed(scan.trace_ids, boundary)
            if of_traces is not None:
                bounds.setdefault(scan.table, []).append({**scan.bounds, **of_traces.get(scan.table, {})})
        return files.choose(boundary, bounds)

    def _ids(self, text: str, parameters: _Values) -> frozenset[str] | None:
        """Return the ids of the traces that a statement of the server reads; None if unknown, or too many."""
        values = [(parameters or {}).get(name) for name in ("ids", "trace_ids", _TRACE)]
        ids = [value.split(",") if isinstance(value, str) else value for value in values if value]
        for name, table in self._registered.items():
            if _TRACE in table.column_names and name in text:
                ids.append(table.column(_TRACE).to_pylist())
                if "start_time" in table.column_names:  # as another statement has read them, here and in the lake
                    self._note_hot(ids[-1], table.column("start_time").cast(pa.int64()).to_pylist())
        distinct = frozenset(itertools.chain(*ids))
        return distinct if ids and len(distinct) <= _MOST_IDS else None

    def _note_hot(self, trace_ids: Sequence[str], starts_ns: Sequence[int]) -> None:
        # A trace of which any tenant's starts before the boundary may have rows in the lake.
        if self._boundary is not None:
            day_ns = self._boundary.day_ns
            earlier = {trace_id for trace_id, ns in zip(trace_ids, starts_ns, strict=True) if ns < day_ns}
            self._hot |= frozenset(trace_ids) - earlier

    def _placed(self, trace_ids: frozenset[str], boundary: Limits) -> Mapping[str, Bounds] | None:
        if trace_ids <= self._hot:
            return None
        key = trace_ids, boundary
        if key not in self._places:
            self._places[key] = self._bounds_of(trace_ids, boundary, self._reader.files)
        if self._places[key] is None:
            self._hot |= trace_ids
        return self._places[key]

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
    # What a statement of the server reads of later commits or spans has not moved.
    values = parameters or {}
    firsts = (values.get("first_batch"), boundary.batch), (values.get("first_seq"), boundary.seq)
    return "trace_part" not in text and any(isinstance(first, int) and first >= least for first, least in firsts)


def _starts(parameters: _Values) -> list[int]:
    values = [(parameters or {}).get(name) for name in _STARTS]
    return [value for value in values if isinstance(value, int)]
