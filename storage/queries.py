"""Questions to the store; each runs on a cursor of its own and never waits for the writer."""

import re
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

import duckdb
import pyarrow as pa

from storage import sql
from storage.database import Database
from storage.errors import BadQuery
from storage.logs import logs_of_trace
from storage.nanoseconds import with_texts
from storage.records import Column, Resource, Scope, Table, Trace, TraceSummary
from storage.rows import resources_of, scopes_of, spans_of

MAX_SPANS = 10_000
"""Spans of one trace that are read at once, some 50 MB of records. A guess: more than a person looks at."""

_MAX_ANSWER_BYTES, _ROWS_AT_ONCE = 64 << 20, 64
"""A guess: more than anybody reads, little enough for several at the same time."""

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
        self, *, tenant: str = "", project: str | None = None, offset: int = 0, limit: int = 50
    ) -> list[TraceSummary]:
        """Traces by start time, newest first."""
        if limit <= 0:
            return []
        parts = 4 * (offset + limit)
        with self._database.cursor() as cursor:
            while True:
                summaries, exhausted = self._newest(cursor, tenant, project, parts)
                if exhausted or len(summaries) >= offset + limit:
                    return summaries[offset : offset + limit]
                parts *= 4

    def trace(self, trace_id: str, *, tenant: str = "", max_spans: int = MAX_SPANS) -> Trace | None:
        """A trace with its first `max_spans` spans and its first log records; None when no span of it is stored."""
        with self._database.cursor() as cursor:
            found = _summaries(cursor, tenant, [trace_id])
            if not found:
                return None
            summary, bounds = found[0]
            key = {"tenant": tenant, "trace_id": trace_id, "spans": max_spans}
            rows = _arrow(cursor, sql.query("spans_of_trace"), key | bounds)
            spans = tuple(spans_of(rows, *dimensions_of(cursor, rows)))
            logs = logs_of_trace(cursor, tenant, trace_id)
        return Trace(summary=summary, spans=spans, logs=logs)

    def sql(
        self, statement: str, parameters: Mapping[str, Parameter] = _NO_PARAMETERS, *, max_rows: int, timeout_s: float
    ) -> Table:
        """The answer to one SELECT (or EXPLAIN) with these values for its `$name`s; nothing can be written.

        Raises:
            BadQuery: the text is not one such statement, fails, runs longer than `timeout_s`, or has other parameters.
        """
        with self._database.cursor() as cursor:
            try:
                statements = cursor.extract_statements(statement)
                if len(statements) != 1 or statements[0].type not in _READ_ONLY:
                    msg = "only one SELECT, WITH, FROM, DESCRIBE, SHOW or EXPLAIN statement is allowed here"
                    raise BadQuery(msg)
                _refuse_effects(cursor, statements[0])
                cursor.execute("BEGIN TRANSACTION READ ONLY")
                question = _Question(statement=statements[0], parameters=parameters)
                return _answer(cursor, question, max_rows, timeout_s)
            except duckdb.InterruptException as error:
                msg = f"the query ran longer than {timeout_s:g} s and was stopped"
                raise BadQuery(msg) from error
            except (duckdb.Error, RuntimeError) as error:
                raise BadQuery(str(error)) from error

    @staticmethod
    def _newest(
        cursor: duckdb.DuckDBPyConnection, tenant: str, project: str | None, parts: int
    ) -> tuple[list[TraceSummary], bool]:
        """The newest traces as far as the newest `parts` parts tell surely, and whether those were all parts.

        A trace starts with its earliest part, so all parts of a trace that starts at or after the oldest
        part seen are among those seen.
        """
        bounds = {"tenant": tenant, "project": project, "parts": parts}
        seen = cursor.execute(sql.query("newest_parts"), bounds).fetchall()
        exhausted = len(seen) < parts
        floor = None if exhausted else seen[-1][1]
        summaries = _summaries(cursor, tenant, list({trace_id for trace_id, _ in seen}))
        surely = [
            summary
            for summary, _ in summaries
            if (floor is None or summary.start_ns > floor) and (project is None or summary.project == project)
        ]
        return sorted(surely, key=lambda summary: (-summary.start_ns, summary.trace_id)), exhausted


def dimensions_of(cursor: duckdb.DuckDBPyConnection, spans: pa.Table) -> tuple[dict[int, Resource], dict[int, Scope]]:
    """The resources and scopes that rows of spans name."""
    resources = _arrow(cursor, sql.query("resources_by_id"), {"ids": spans.column("resource_id").unique().to_pylist()})
    scopes = _arrow(cursor, sql.query("scopes_by_id"), {"ids": spans.column("scope_id").unique().to_pylist()})
    return resources_of(resources), scopes_of(scopes)


def _arrow(cursor: duckdb.DuckDBPyConnection, select: str, parameters: dict[str, object]) -> pa.Table:
    return cursor.execute(select, parameters).to_arrow_table()


_Bounds = dict[str, int]


def _summaries(
    cursor: duckdb.DuckDBPyConnection, tenant: str, trace_ids: list[str]
) -> list[tuple[TraceSummary, _Bounds]]:
    """The traces, each with what bounds the look-up of its spans."""
    ids = [trace_id for trace_id in trace_ids if _TRACE_ID.fullmatch(trace_id)]
    if not ids:
        return []
    select = sql.query("traces_by_id")
    for name, mark in (("$keys", "?::UBIGINT"), ("$ids", "?")):
        select = select.replace(f"({name})", f"({', '.join([mark] * len(ids))})")
    keys = [int(trace_id[_KEY_DIGITS:], 16) for trace_id in ids]
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
        for row in cursor.execute(select, [*keys, tenant, *ids]).fetchall()
    ]


def _refuse_effects(cursor: duckdb.DuckDBPyConnection, statement: duckdb.Statement) -> None:
    """Refuse calls of functions that do more than read; a transaction that cannot write does not stop them.

    Raises:
        BadQuery: there is such a call, or the statement cannot be looked into.
    """
    tree = _tree(cursor, statement)
    called = [name for name in _SOURCE.findall(tree) if name not in _SOURCES] + _EFFECT.findall(tree)
    if called:
        msg = f"the function {called[0]} is not allowed here"
        raise BadQuery(msg)


def _tree(cursor: duckdb.DuckDBPyConnection, statement: duckdb.Statement) -> str:
    """The parsed SELECT as JSON; of an EXPLAIN the SELECT inside."""
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


def _answer(cursor: duckdb.DuckDBPyConnection, question: _Question, max_rows: int, timeout_s: float) -> Table:
    statement, parameters = question
    alarm = threading.Timer(timeout_s, cursor.interrupt)
    alarm.start()
    try:
        columns = _columns(cursor, question)
        types = [column.type for column in columns]
        cursor.execute(with_texts(statement.query, types) if columns else statement, parameters or None)
        columns = columns or [Column(name=column[0], type=str(column[1])) for column in cursor.description or []]
        rows = _fetch(cursor, max_rows + 1)
    finally:
        alarm.cancel()
    return Table(
        columns=tuple(columns), rows=tuple(tuple(row) for row in rows[:max_rows]), truncated=len(rows) > max_rows
    )


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
            raise BadQuery(f"the answer is larger than {_MAX_ANSWER_BYTES >> 20} MiB; ask for fewer rows or columns")
    return rows


def _columns(cursor: duckdb.DuckDBPyConnection, question: _Question) -> list[Column]:
    """Names and types of what a SELECT answers with; nothing for DESCRIBE, SHOW and EXPLAIN, which have none."""
    try:
        described = cursor.execute(f"DESCRIBE {question.statement.query}", question.parameters or None).fetchall()
    except duckdb.Error:  # if the statement itself is wrong, running it says so in its own words
        return []
    return [Column(name=row[0], type=row[1]) for row in described]
