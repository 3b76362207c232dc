"""Questions to the store; each runs on a cursor of its own and never waits for the writer."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

import duckdb
import pyarrow as pa

from storage import sql
from storage.alarm import Alarm
from storage.database import Database, one_moment
from storage.errors import BadQuery
from storage.named import require_views
from storage.nanoseconds import with_texts
from storage.narrow import narrow_view
from storage.records import Column, Judging, Table, Trace, TraceSummary
from storage.rows import logs_of, resources_of, scopes_of, spans_of
from storage.terms import NOBODY, Terms

MAX_SPANS = 10_000
"""Spans of one trace that are read at once, some 50 MB of records. A guess: more than a person looks at."""

MAX_LOGS = 10_000
"""Log records of one trace that are read at once. A guess, as many as spans: each tells one message or one call."""

_MAX_ANSWER_BYTES, _ROWS_AT_ONCE = 64 << 20, 64
"""A guess: more than anybody reads, little enough for several at the same time."""

_ROWS_OF_ARROW = 2048  # DuckDB's own measure

_TRACE_ID, _KEY_DIGITS = re.compile("[0-9a-f]{32}"), 16
"""The last half of an id is its key: some senders leave the first half zero, or put the time there."""

_READ_ONLY = {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN}

_SOURCES = frozenset(
    """
    duckdb_columns duckdb_constraints duckdb_databases duckdb_dependencies duckdb_functions duckdb_indexes
    duckdb_keywords duckdb_memory duckdb_optimizers duckdb_schemas duckdb_settings duckdb_tables
    duckdb_temporary_files duckdb_types duckdb_views generate_series histogram histogram_values json_each json_tree
    pg_timezone_names pragma_database_size pragma_show pragma_storage_info pragma_table_info pragma_version
    query_table range repeat repeat_row unnest
    """.split()  # noqa: SIM905 - easier to read and to keep sorted
)
"""Functions that a query may read FROM. Of all others some change the process (`enable_logging`, `checkpoint`), some
crash it (`pandas_scan(NULL)`, DuckDB 1.5.5), and some run a text that hides such a call (`query`)."""

_SOURCE = re.compile(r'"type":"TABLE_FUNCTION".*?"function_name":"([^"]*)"')
TYPES: Final = b"duckdb"
"""In the metadata of a schema: DuckDB's types of its columns, as JSON; none where DuckDB does not tell."""

_EXPLAIN = (
    re.compile(r"\s*EXPLAIN(\s+ANALYZE)?\b", re.IGNORECASE),
    re.compile(r"\s*EXPLAIN(\s+ANALYZE)?\s*\([\w\s,]*\)", re.IGNORECASE),  # with options
)
_EFFECT = re.compile(r'"function_name":"(write_log)"')


Parameter: TypeAlias = str | float | bool | None
"""What a parameter of a query can be; an int is a float here."""

_NO_PARAMETERS: Final[Mapping[str, Parameter]] = MappingProxyType({})


class Queries:
    """Read-only questions. Safe to ask from any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def newest_traces(
        self, *, tenant: str | None = "", project: str | None = None, offset: int = 0, limit: int = 50
    ) -> list[TraceSummary]:
        """Traces by start time, newest first: those of a tenant and the shared ones, or with None those of all."""
        if limit <= 0:
            return []
        parts = 4 * (offset + limit)
        with self._database.snapshot() as cursor:
            while True:
                summaries, exhausted = self._newest(cursor, tenant, project, parts)
                if exhausted or len(summaries) >= offset + limit:
                    return summaries[offset : offset + limit]
                parts *= 4

    def judged_traces(
        self, wanted: Judging, *, tenant: str | None = "", project: str | None = None, offset: int = 0, limit: int = 50
    ) -> list[TraceSummary]:
        """Traces of which such an evaluation counts, by start time, newest first; of tenants as in `newest_traces`."""
        bounds = {"tenant": tenant, "project": project, "offset": offset, "limit": limit}
        with self._database.snapshot() as cursor:
            found = cursor.execute(sql.query("judged_traces"), asdict(wanted) | bounds).fetchall()
            order = {key: place for place, key in enumerate(found)}
            summaries = [summary for summary, _ in summaries_of(cursor, tenant, [trace_id for _, trace_id in order])]
        judged = [summary for summary in summaries if (summary.tenant, summary.trace_id) in order]
        return sorted(judged, key=lambda summary: order[summary.tenant, summary.trace_id])

    def trace(self, trace_id: str, *, tenant: str | None = "", max_spans: int = MAX_SPANS) -> Trace | None:
        """A trace with its first `max_spans` spans and its first log records; None when no span of it is stored.

        Of traces with the same id, a tenant is shown its own before the shared one, and None the shared one first.
        """
        with self._database.snapshot() as cursor:
            found = summaries_of(cursor, tenant, [trace_id])
            if not found:
                return None
            summary, bounds = min(found, key=lambda each: (each[0].tenant != (tenant or ""), each[0].tenant))
            key = {"tenant": summary.tenant, "trace_id": trace_id, "spans": max_spans}
            rows = _arrow(cursor, sql.query("spans_of_trace"), key | bounds)
            resources, scopes = dimensions_of(cursor, rows)
            wanted = {"tenant": summary.tenant, "trace_id": trace_id, "logs": MAX_LOGS}
            logs = logs_of(_arrow(cursor, sql.query("logs_of_trace"), wanted))
        spans = spans_of(rows, resources_of(resources), scopes_of(scopes))
        return Trace(summary=summary, spans=tuple(spans), logs=tuple(logs))

    def sql(
        self,
        statement: str,
        parameters: Mapping[str, Parameter] = _NO_PARAMETERS,
        *,
        max_rows: int,
        timeout_s: float,
        terms: Terms | None = None,
    ) -> Table:
        """The answer to one SELECT (or EXPLAIN) with these values for its `$name`s; nothing can be written.

        Raises:
            BadQuery: the text is not one such statement, fails, runs longer than `timeout_s`, or has other parameters.
        """
        with self._asking(statement, parameters, timeout_s, terms or Terms()) as (cursor, question):
            return _answer(cursor, question, max_rows)

    def arrow(
        self,
        statement: str,
        parameters: Mapping[str, Parameter] = _NO_PARAMETERS,
        *,
        max_rows: int,
        timeout_s: float,
        terms: Terms | None = None,
    ) -> tuple[pa.Table, bool]:
        """The same as Arrow, and whether there were more rows.

        Raises:
            BadQuery: likewise.
        """
        with self._asking(statement, parameters, timeout_s, terms or Terms()) as (cursor, question):
            return _arrow_answer(cursor, question, max_rows)

    def batches(self, statement: str, *, timeout_s: float, terms: Terms | None = None) -> Iterator[pa.RecordBatch]:
        """The same bit by bit, after an empty batch whose schema tells DuckDB's types (`TYPES`).

        Until it is closed it holds a cursor, also beyond `timeout_s`.

        Raises:
            BadQuery: likewise.
        """
        with self._asking(statement, _NO_PARAMETERS, timeout_s, terms or Terms()) as (cursor, question):
            types = [column.type for column in _columns(cursor, question)]
            reader = cursor.execute(question.statement).to_arrow_reader(_ROWS_OF_ARROW)
            yield pa.RecordBatch.from_pylist([], schema=reader.schema.with_metadata({TYPES: json.dumps(types)}))
            yield from reader

    def columns_of_views(self) -> dict[str, list[tuple[str, str]]]:
        """Names and types of the columns of each documented view."""
        with self._database.cursor() as cursor:
            return {
                view: [(row[0], row[1]) for row in cursor.execute(f"DESCRIBE {view}").fetchall()]
                for view in sql.documented_views()
            }

    @contextmanager
    def _asking(
        self, statement: str, parameters: Mapping[str, Parameter], timeout_s: float, terms: Terms
    ) -> "Iterator[tuple[duckdb.DuckDBPyConnection, _Question]]":
        """A cursor for one statement that reads, which ends when the time is over or somebody asks it to."""
        with self._database.cursor() as cursor:
            alarm = Alarm(self._database, cursor.interrupt, timeout_s)
            try:
                question = _checked(cursor, statement, parameters, views_only=terms.views_only)
                with one_moment(cursor), alarm, terms.stop.armed(cursor.interrupt):
                    yield cursor, question
            except (duckdb.Error, RuntimeError, pa.ArrowException, OSError) as error:
                raise BadQuery(NOBODY if terms.stop.asked else alarm.why or str(error)) from error

    @staticmethod
    def _newest(
        cursor: duckdb.DuckDBPyConnection, tenant: str | None, project: str | None, parts: int
    ) -> tuple[list[TraceSummary], bool]:
        """The newest traces as far as the newest `parts` parts tell surely, and whether those were all parts.

        A trace starts with its earliest part, so all parts of a trace that starts at or after the oldest
        part seen are among those seen.
        """
        bounds = {"tenant": tenant, "project": project, "parts": parts}
        seen = cursor.execute(sql.query("newest_parts"), bounds).fetchall()
        exhausted = len(seen) < parts
        floor = None if exhausted else seen[-1][1]
        summaries = summaries_of(cursor, tenant, list({trace_id for trace_id, _ in seen}))
        surely = [
            summary
            for summary, _ in summaries
            if (floor is None or summary.start_ns > floor) and (project is None or summary.project == project)
        ]
        return sorted(surely, key=lambda summary: (-summary.start_ns, summary.trace_id, summary.tenant)), exhausted


def _checked(
    cursor: duckdb.DuckDBPyConnection, statement: str, parameters: Mapping[str, Parameter], *, views_only: bool
) -> "_Question":
    """The one statement, if it reads and has no effects, and reads what it may.

    Raises:
        BadQuery: it may not be asked.
    """
    statements = cursor.extract_statements(statement)
    if len(statements) != 1 or statements[0].type not in _READ_ONLY:
        raise BadQuery("only one SELECT, WITH, FROM, DESCRIBE, SHOW or EXPLAIN statement is allowed here")
    tree = _tree(cursor, statements[0])
    _refuse_effects(tree)
    if views_only:
        _require_views(cursor, tree)
    narrow = narrow_view(tree)
    if narrow is not None:
        cursor.execute(narrow)
    return _Question(statement=statements[0], parameters=parameters)


def bounds_of(cursor: duckdb.DuckDBPyConnection, tenant: str, trace_id: str) -> dict[str, int] | None:
    """Between which instants the spans of a trace start, and with which commits they came; None if there are none."""
    found = [bounds for summary, bounds in summaries_of(cursor, tenant, [trace_id]) if summary.tenant == tenant]
    return dict(found[0]) if found else None


def dimensions_of(cursor: duckdb.DuckDBPyConnection, spans: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows of the resources and of the scopes that rows of spans name."""
    resources = _arrow(cursor, sql.query("resources_by_id"), {"ids": spans.column("resource_id").unique().to_pylist()})
    scopes = _arrow(cursor, sql.query("scopes_by_id"), {"ids": spans.column("scope_id").unique().to_pylist()})
    return resources, scopes


def _arrow(cursor: duckdb.DuckDBPyConnection, select: str, parameters: dict[str, object]) -> pa.Table:
    return cursor.execute(select, parameters).to_arrow_table()


Bounds: TypeAlias = dict[str, int]
"""What bounds the look-up of a trace's spans, by the names that statements have for it."""


def summaries_of(
    cursor: duckdb.DuckDBPyConnection, tenant: str | None, trace_ids: list[str]
) -> list[tuple[TraceSummary, Bounds]]:
    """Traces by their ids, in any order, each with what bounds the look-up of its spans."""
    ids = [trace_id for trace_id in trace_ids if _TRACE_ID.fullmatch(trace_id)]
    if not ids:
        return []
    keys = {f"key{number}": int(trace_id[_KEY_DIGITS:], 16) for number, trace_id in enumerate(ids)}
    marks = ", ".join(f"${name}::UBIGINT" for name in keys)
    select = sql.query("traces_by_id").replace("$keys", marks).replace("$roll_up", sql.select_of("trace_roll_up"))
    return [
        (
            TraceSummary(
                trace_id=row[0],
                tenant=row[1],
                project=row[2],
                service_name=row[3],
                root_name=row[4],
                start_ns=row[5],
                end_ns=row[6],
                span_count=row[7],
                error_count=row[8],
                expires_at_ns=row[9],
            ),
            {"from_ns": row[5], "to_ns": row[10], "first_batch": row[11], "last_batch": row[12]},
        )
        for row in cursor.execute(select, {**keys, "tenant": tenant, "ids": ids}).fetchall()
    ]


def _require_views(cursor: duckdb.DuckDBPyConnection, tree: str) -> None:
    """Refuse what reads anything but our views.

    Raises:
        BadQuery: it does.
    """
    names = cursor.execute(sql.query("names_of_relations")).fetchall()
    views = set(sql.documented_views())
    require_views(tree, views, {name for (name,) in names} - views)


def _refuse_effects(tree: str) -> None:
    """Refuse calls of functions that do more than read; a transaction that cannot write does not stop them.

    Raises:
        BadQuery: there is such a call.
    """
    called = [name for name in _SOURCE.findall(tree) if name not in _SOURCES] + _EFFECT.findall(tree)
    if called:
        msg = f"the function {called[0]} is not allowed here"
        raise BadQuery(msg)


def _tree(cursor: duckdb.DuckDBPyConnection, statement: duckdb.Statement) -> str:
    """The parsed SELECT as JSON; of an EXPLAIN the SELECT inside.

    Raises:
        BadQuery: the statement cannot be looked into.
    """
    texts = [statement.query]
    if statement.type == duckdb.StatementType.EXPLAIN:
        matches = [pattern.match(statement.query) for pattern in _EXPLAIN]
        texts = [statement.query[match.end() :] for match in matches if match]
    for text in texts:
        ((tree,),) = cursor.execute("SELECT json_serialize_sql($text::VARCHAR)", {"text": text}).fetchall()
        if tree.startswith('{"error":false'):
            return str(tree)
    msg = "this form of SELECT or EXPLAIN is not allowed here"
    raise BadQuery(msg)


class _Question(NamedTuple):
    statement: duckdb.Statement
    parameters: Mapping[str, Parameter]


def _answer(cursor: duckdb.DuckDBPyConnection, question: _Question, max_rows: int) -> Table:
    statement, parameters = question
    columns = _columns(cursor, question)
    types = [column.type for column in columns]
    cursor.execute(with_texts(statement.query, types) if columns else statement, parameters or None)
    columns = columns or [Column(name=column[0], type=str(column[1])) for column in cursor.description or []]
    rows = _fetch(cursor, max_rows + 1)
    return Table(
        columns=tuple(columns), rows=tuple(tuple(row) for row in rows[:max_rows]), truncated=len(rows) > max_rows
    )


def _arrow_answer(cursor: duckdb.DuckDBPyConnection, question: _Question, max_rows: int) -> tuple[pa.Table, bool]:
    reader = cursor.execute(question.statement, question.parameters or None).to_arrow_reader(_ROWS_OF_ARROW)
    batches, rows, nbytes = [], 0, 0
    for batch in reader:
        batches.append(batch)
        rows, nbytes = rows + batch.num_rows, nbytes + batch.nbytes
        if nbytes > _MAX_ANSWER_BYTES:
            raise _too_large()
        if rows > max_rows:
            break
    return pa.Table.from_batches(batches, schema=reader.schema).slice(0, max_rows), rows > max_rows


def _too_large() -> BadQuery:
    return BadQuery(f"the answer is larger than {_MAX_ANSWER_BYTES >> 20} MiB; ask for fewer rows or columns")


def _fetch(cursor: duckdb.DuckDBPyConnection, max_rows: int) -> list[tuple[object, ...]]:
    """At most so many rows.

    Raises:
        BadQuery: they are larger than an answer may be.
    """
    rows: list[tuple[object, ...]] = []
    nbytes = 0
    while len(rows) < max_rows and (some := cursor.fetchmany(min(_ROWS_AT_ONCE, max_rows - len(rows)))):
        rows += some
        nbytes += sum(len(value) for row in some for value in row if isinstance(value, str | bytes))
        if nbytes > _MAX_ANSWER_BYTES:
            raise _too_large()
    return rows


def _columns(cursor: duckdb.DuckDBPyConnection, question: _Question) -> list[Column]:
    """Names and types of what a SELECT answers with; nothing for DESCRIBE, SHOW and EXPLAIN, which have none."""
    try:
        described = cursor.execute(f"DESCRIBE {question.statement.query}", question.parameters or None).fetchall()
    except duckdb.Error:  # if the statement itself is wrong, running it says so in its own words
        return []
    return [Column(name=row[0], type=row[1]) for row in described]
