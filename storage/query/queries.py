"""Queries of the store, which never wait for the writer. Each has its own cursor, except within `in_snapshot`."""

import itertools
import json
import logging
import time
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar

import duckdb
import pyarrow as pa

from storage import sql
from storage.engine.arrow import arrow_reader
from storage.engine.cursors import begin_reading, is_bug, one_moment, roll_back
from storage.engine.read_database import ReadDatabase
from storage.errors import FILE_IS_GONE, BadQuery, Reopened
from storage.ingest.windows import TRACE_ID
from storage.memory import LackOfMemory, advice
from storage.query.alarm import QueryAlarm
from storage.query.nanoseconds import with_texts
from storage.query.quarantine import Offences
from storage.query.query_limits import too_large
from storage.query.query_options import CANCELLED, QueryOptions
from storage.query.query_process import Apart, ApartAnswer, ApartOptions, ApartQuestion, Column
from storage.query.rows import logs_of, spans_of
from storage.query.statements import Parameter, Statement, checked
from storage.query.trace_criteria import LAST_NS, asked_for
from storage.records import Judging, QueryColumn, Table, Trace, TraceSummary

log = logging.getLogger(__name__)

MAX_SPANS = 10_000
"""Maximum number of spans of a trace in one answer, some 50 MB of records. A guess: more than a person reads."""

MAX_LOGS = 10_000
"""Maximum number of log records of a trace in one answer. A guess: as many as spans, as each has a message or call."""

MAX_TRACE_BYTES: Final = 32 << 20
"""Maximum size of the spans of a trace that one call returns, and of its log records. As JSON they take up to twelve
times as much."""

_LIST_SECONDS: Final = 10.0
"""Time limit for reading the traces of a list. Without it, 200 traces of 160 kB took 96 s, since each is searched among
large rows. A guess."""
_MAX_ANSWER_BYTES, _ROWS_AT_ONCE = 64 << 20, 64
"""Maximum size of an answer to SQL. A guess: more than a person reads, and little enough for several at a time."""

_ROWS_OF_ARROW = 2048  # size of DuckDB's vectors

_KEY_DIGITS = 16
"""The last half of an id is its key: some senders leave the first half zero, or put the time there."""

_Result = TypeVar("_Result")


TYPES: Final = b"duckdb"
"""Key in the metadata of a schema. Its value is a JSON list of the columns' DuckDB types, empty if none are known."""

_NO_PARAMETERS: Final[Mapping[str, Parameter]] = MappingProxyType({})


class Queries:
    """Read-only queries. Thread-safe."""

    def __init__(self, database: ReadDatabase) -> None:
        self._database = database
        self.offences = Offences()
        self._apart = Apart(
            ApartOptions(
                folder=database.scratch,
                memory=lambda: database.query_memory,
                hides_pandas=database.hides_pandas,
            )
        )

    def close(self) -> None:
        """Kill the child processes with their statements."""
        self._apart.close()

    def in_snapshot(self) -> AbstractContextManager[None]:
        """Run all queries of this thread in the block on one snapshot, also those of other objects of the store."""
        return self._database.in_snapshot()

    def newest_traces(
        self, *, tenant: str | None = "", project: str | None = None, offset: int = 0, limit: int = 50
    ) -> list[TraceSummary]:
        """Return traces of a tenant plus shared ones (None: all) by start time, newest first."""
        if limit <= 0:
            return []
        parts = 4 * (offset + limit)
        ((from_ns, _), *_) = self._database.periods(0, LAST_NS)
        with self._database.snapshot() as cursor:
            while True:
                summaries, exhausted = self._newest(cursor, tenant, project, parts, from_ns)
                if (exhausted and not from_ns) or len(summaries) >= offset + limit:
                    return summaries[offset : offset + limit]
                if exhausted:
                    from_ns = 0
                else:
                    parts *= 4

    def judged_traces(
        self, judging: Judging, *, tenant: str | None = "", project: str | None = None, offset: int = 0, limit: int = 50
    ) -> list[TraceSummary]:
        """Return traces with a matching evaluation, by start time, newest first; `tenant` as in `newest_traces`."""
        bounds = {"tenant": tenant, "project": project, "offset": offset, "limit": limit}
        with self._database.snapshot() as cursor:
            keys = cursor.execute(sql.query("judged_traces"), asdict(judging) | bounds).fetchall()
            order = {key: place for place, key in enumerate(keys)}
            summaries = [summary for summary, _ in summaries_of(cursor, tenant, [trace_id for _, trace_id in order])]
        judged = [summary for summary in summaries if (summary.tenant, summary.trace_id) in order]
        return sorted(judged, key=lambda summary: order[summary.tenant, summary.trace_id])

    def trace(self, trace_id: str, *, tenant: str | None = "", max_spans: int = MAX_SPANS) -> Trace | None:
        """Return a trace with its first spans and log records; None if no span of it is stored.

        It has at most `max_spans` spans, and only as many as fit into `MAX_TRACE_BYTES`, but at least one.

        If several traces have the id, return the tenant's own before the shared one; with None, the shared one first.

        """
        read = _twice(lambda: self._trace(trace_id, tenant, max_spans))
        return None if read is None else read[0]

    def traces(self, trace_ids: Iterable[str], *, tenant: str | None, max_spans: int) -> Iterator[Trace]:
        """Yield traces as `trace` returns them, until they exceed `MAX_TRACE_BYTES` or 10 s, but at least one."""
        nbytes, began_s = 0, time.monotonic()
        for trace_id in trace_ids:
            read = self._trace(trace_id, tenant, max_spans)
            if read is not None:
                nbytes += read[1]
                yield read[0]
            if nbytes >= MAX_TRACE_BYTES or time.monotonic() - began_s > _LIST_SECONDS:
                return

    def _trace(self, trace_id: str, tenant: str | None, max_spans: int) -> tuple[Trace, int] | None:
        """Return a trace with the bytes of its rows."""
        with self._database.snapshot() as cursor:
            summaries = summaries_of(cursor, tenant, [trace_id])
            if not summaries:
                return None
            summary, bounds = min(summaries, key=lambda each: (each[0].tenant != (tenant or ""), each[0].tenant))
            key = {"tenant": summary.tenant, "trace_id": trace_id, "spans": max_spans}
            rows = _first_rows(cursor, sql.query("spans_of_trace"), key | bounds)
            log_bounds = {"tenant": summary.tenant, "trace_id": trace_id, "logs": MAX_LOGS}
            log_rows = _first_rows(cursor, sql.query("logs_of_trace"), log_bounds)
        trace = Trace(summary=summary, spans=tuple(spans_of(rows)), logs=tuple(logs_of(log_rows)))
        return trace, rows.nbytes + log_rows.nbytes

    def sql(
        self,
        statement: str,
        parameters: Mapping[str, Parameter] = _NO_PARAMETERS,
        *,
        max_rows: int,
        timeout_s: float,
        terms: QueryOptions | None = None,
    ) -> Table:
        """Run one SELECT (or EXPLAIN) with values for its parameters (`$name`); it cannot write anything.

        Raises:
            BadQuery: the text is not one such statement, fails, runs longer than `timeout_s`, or has other parameters.
            Barred: this caller's statements made the database fail too often.
            Reopened: the database was opened again during the statement, and again during its repetition.

        """
        options = terms or QueryOptions()

        def ask() -> Table:
            how = _How(seconds=timeout_s, max_rows=max_rows, max_bytes=_MAX_ANSWER_BYTES, is_lossless=True)
            with ExitStack() as stack:
                with self._asking(statement, parameters, timeout_s, options) as (cursor, question):
                    if question.apart is None:
                        return _answer(cursor, question, max_rows)
                    answer = self._handed_over(cursor, question, how, options, stack)
                return self._table(answer, max_rows)

        return _twice(ask)

    def arrow(
        self,
        statement: str,
        parameters: Mapping[str, Parameter] = _NO_PARAMETERS,
        *,
        max_rows: int,
        timeout_s: float,
        terms: QueryOptions | None = None,
    ) -> tuple[pa.Table, bool]:
        """Run an SQL query; return the answer as Arrow, and True if there were more rows.

        Raises:
            BadQuery: the query cannot be answered; the message says why.
            Barred, Reopened: as for `sql`.

        """
        options = terms or QueryOptions()

        def ask() -> tuple[pa.Table, bool]:
            how = _How(seconds=timeout_s, max_rows=max_rows, max_bytes=_MAX_ANSWER_BYTES)
            with ExitStack() as stack:
                with self._asking(statement, parameters, timeout_s, options) as (cursor, question):
                    if question.apart is None:
                        return _arrow_answer(cursor, question, max_rows)
                    answer = self._handed_over(cursor, question, how, options, stack)
                table = pa.concat_tables([rows for _, rows in answer.batches()])
                return table.slice(0, max_rows), table.num_rows > max_rows

        return _twice(ask)

    def batches(
        self, statement: str, *, timeout_s: float, terms: QueryOptions | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Stream the answer to an SQL query, after an empty batch whose schema has DuckDB's types (`TYPES`).

        Until the stream is closed it holds a cursor or a child process, even after `timeout_s`. The exceptions below
        are raised by the iteration.

        Raises:
            BadQuery: the query cannot be answered; the message says why.
            Barred, Reopened: as for `sql`, without a second attempt.
        """
        return self._database.stream(self._batches(statement, timeout_s, terms or QueryOptions()))

    def _batches(self, statement: str, timeout_s: float, terms: QueryOptions) -> Generator[pa.RecordBatch, None, None]:
        with ExitStack() as stack:
            with self._asking(statement, _NO_PARAMETERS, timeout_s, terms) as (cursor, question):
                if question.apart is None:
                    types = [column.type for column in _columns(cursor, question)]
                    reader = arrow_reader(cursor, _ROWS_OF_ARROW, question.statement)
                    yield _typed(reader.schema, types)
                    yield from reader
                    return
                answer = self._handed_over(cursor, question, _How(seconds=timeout_s), terms, stack)
            for number, (columns, rows) in enumerate(answer.batches()):
                if not number:
                    yield _typed(rows.schema, [column.type for column in columns])
                yield from rows.to_batches()

    def _handed_over(
        self,
        cursor: duckdb.DuckDBPyConnection,
        question: Statement,
        how: "_How",
        terms: QueryOptions,
        stack: ExitStack,
    ) -> ApartAnswer:
        """Start a statement in a child process and send it the rows that it reads; closing the stack ends it."""
        apart = ApartQuestion(
            query=question.statement.query,
            parameters=question.parameters,
            seconds=how.seconds,
            max_rows=how.max_rows,
            max_bytes=how.max_bytes,
            has_texts=how.is_lossless,
            is_lossless=how.is_lossless,
        )
        answer = self._apart.begin(apart, terms.stop)
        stack.callback(answer.close)
        answer.load(cursor, question.apart or ())
        return answer

    def _table(self, answer: ApartAnswer, max_rows: int) -> Table:
        """Return the rows of an answer as DuckDB converts them to Python."""
        tables = []
        columns: list[Column] = []
        for columns, rows in answer.batches():  # noqa: B007 - they are the same each time
            tables.append(rows)
        answered = pa.concat_tables(tables)
        with self._database.cursor(may_share=False) as cursor:
            cursor.register("rows_of_answer", answered.rename_columns(list(map(str, range(answered.num_columns)))))
            try:
                cursor.execute("FROM rows_of_answer")
                values = _fetch(cursor, max_rows + 1)
            except _FAILURES as error:  # a value that Python cannot represent
                raise BadQuery(str(error)) from error
        return Table(
            columns=tuple(QueryColumn(name=column.name, type=column.type) for column in columns),
            rows=tuple(values[:max_rows]),
            truncated=len(values) > max_rows,
        )

    def columns_of_views(self) -> dict[str, list[tuple[str, str]]]:
        """Return names and types of the columns of each documented view."""
        with self._database.cursor() as cursor:
            return {
                view: [(row[0], row[1]) for row in cursor.execute(f"DESCRIBE {view}").fetchall()]
                for view in sql.documented_views()
            }

    @contextmanager
    def _asking(
        self, statement: str, parameters: Mapping[str, Parameter], timeout_s: float, terms: QueryOptions
    ) -> Iterator[tuple[duckdb.DuckDBPyConnection, Statement]]:
        """Open a cursor and check a statement; it is interrupted at its limits, or if the caller cancels it."""
        self.offences.check(terms.client_id, statement)
        why = None
        try:
            with self._database.cursor(may_share=False, is_own=False) as cursor:
                alarm = QueryAlarm(self._database, cursor.interrupt, timeout_s)
                try:
                    question = checked(
                        cursor, statement, parameters, views_only=terms.views_only, is_ours=terms.is_ours
                    )
                    stopping = nullcontext() if question.apart is not None else terms.stop.armed(cursor.interrupt)
                    with one_moment(cursor), alarm, stopping:
                        if question.apart is None:  # otherwise `load` reads each relation separately
                            self._database.route(cursor, question.statement.query, parameters)
                        yield cursor, question
                finally:
                    why = CANCELLED if terms.stop.is_cancelled else alarm.why
        except _FAILURES as error:
            if is_bug(error):
                raise self._broke(statement, terms.client_id, str(error).partition("\n")[0]) from error
            if why is None and self._database.forget_cold(error):
                raise Reopened(FILE_IS_GONE) from error
            raise BadQuery(why or (advice(error) if isinstance(error, LackOfMemory) else str(error))) from error

    def _broke(self, statement: str, client_id: str, message: str) -> BadQuery:
        self.offences.add(client_id, statement)
        log.error("a statement of key %s caused an internal error of DuckDB: %s", client_id or "(none)", message)
        self._database.reopen()
        return BadQuery(f"this statement makes the database fail, and is refused for now: {message}")

    @staticmethod
    def _newest(
        cursor: duckdb.DuckDBPyConnection, tenant: str | None, project: str | None, parts: int, from_ns: int
    ) -> tuple[list[TraceSummary], bool]:
        """Read the newest `parts` trace parts; return the traces that are surely the newest, and True if all were read.

        A trace starts with its earliest part. So if a trace starts after the oldest part that was read, all its parts
        were read, and no trace that was not read is newer.

        """
        bounds: dict[str, object] = {"tenant": tenant, "project": project, "parts": parts}
        since = {"from_ns": from_ns} if from_ns else {}
        seen = cursor.execute(asked_for(sql.query("newest_parts"), {*since}), bounds | since).fetchall()
        exhausted = len(seen) < parts
        floor = (from_ns - 1 if from_ns else None) if exhausted else seen[-1][1]
        summaries = summaries_of(cursor, tenant, list({trace_id for trace_id, _ in seen}))
        surely = [
            summary
            for summary, _ in summaries
            if (floor is None or summary.start_ns > floor) and (project is None or summary.project == project)
        ]
        return sorted(surely, key=lambda summary: (-summary.start_ns, summary.trace_id, summary.tenant)), exhausted


@dataclass(frozen=True, slots=True, kw_only=True)
class _How:
    """Limits of a statement that runs in a child process."""

    seconds: float
    max_rows: int | None = None
    max_bytes: int | None = None
    is_lossless: bool = False


def _typed(schema: pa.Schema, types: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema.with_metadata({TYPES: json.dumps(types)}))


_FAILURES: Final = (duckdb.Error, RuntimeError, OverflowError, UnicodeError, pa.ArrowException, OSError)
"""Exceptions that a statement may cause in DuckDB or pyarrow, or in Python if a value does not fit Python's types."""


def _twice(ask: Callable[[], _Result]) -> _Result:
    try:
        return ask()
    except Reopened:
        return ask()


def _first_rows(cursor: duckdb.DuckDBPyConnection, select: str, parameters: dict[str, object]) -> pa.Table:
    """Return as many rows as fit into `MAX_TRACE_BYTES`, at least one."""
    reader = arrow_reader(cursor, _ROWS_OF_ARROW, select, parameters)
    batches: list[pa.RecordBatch] = []
    left = MAX_TRACE_BYTES
    for batch in reader:
        rows = batch.num_rows
        if batch.nbytes > left:
            sizes = itertools.accumulate(batch.slice(row, 1).nbytes for row in range(rows))
            rows = max(bisect_right(list(sizes), left), not batches)
        batches.append(batch.slice(0, rows))
        if rows < batch.num_rows:
            break
        left -= batch.nbytes
    return pa.Table.from_batches(batches, schema=reader.schema)


Bounds: TypeAlias = dict[str, int]
"""Bounds for finding a trace's spans, by the names of statements' parameters."""


def summaries_of(
    cursor: duckdb.DuckDBPyConnection, tenant: str | None, trace_ids: list[str]
) -> list[tuple[TraceSummary, Bounds]]:
    """Return traces by their ids, in any order, each with the bounds for finding its spans."""
    ids = [trace_id for trace_id in trace_ids if TRACE_ID.fullmatch(trace_id)]
    if not ids:
        return []
    select = sql.query("traces_by_id").replace("$roll_up", sql.select_of("trace_roll_up"))
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
        for row in cursor.execute(select, {**_texts_of(ids), "tenant": tenant}).fetchall()
    ]


def questions_of(
    cursor: duckdb.DuckDBPyConnection, tenant: str | None, trace_ids: Sequence[str], characters: int
) -> dict[str, str]:
    """Return the inputs of traces by id, cut to `characters`; a tenant's own trace wins over a shared one."""
    ids = [trace_id for trace_id in dict.fromkeys(trace_ids) if TRACE_ID.fullmatch(trace_id)]
    if not ids:
        return {}
    parameters = {**_texts_of(ids), "tenant": tenant, "characters": characters}
    rows = cursor.execute(sql.query("questions_of_traces"), parameters).fetchall()
    return {trace_id: question for _, trace_id, question in rows}


def _texts_of(trace_ids: Sequence[str]) -> dict[str, str]:
    # One text for all ids: for each value of a list parameter, DuckDB tries to import two modules.
    keys = (str(int(trace_id[_KEY_DIGITS:], 16)) for trace_id in trace_ids)
    return {"ids": ",".join(trace_ids), "keys": ",".join(keys)}


def _answer(cursor: duckdb.DuckDBPyConnection, question: Statement, max_rows: int) -> Table:
    statement, parameters, _ = question
    columns = _columns(cursor, question)
    types = [column.type for column in columns]
    cursor.execute(with_texts(statement.query, types) if columns else statement, parameters or None)
    columns = columns or [QueryColumn(name=column[0], type=str(column[1])) for column in cursor.description or []]
    rows = _fetch(cursor, max_rows + 1)
    return Table(
        columns=tuple(columns), rows=tuple(tuple(row) for row in rows[:max_rows]), truncated=len(rows) > max_rows
    )


def _arrow_answer(cursor: duckdb.DuckDBPyConnection, question: Statement, max_rows: int) -> tuple[pa.Table, bool]:
    reader = arrow_reader(cursor, _ROWS_OF_ARROW, question.statement, question.parameters or None)
    batches, rows, nbytes = [], 0, 0
    for batch in reader:
        batches.append(batch)
        rows, nbytes = rows + batch.num_rows, nbytes + batch.nbytes
        if nbytes > _MAX_ANSWER_BYTES:
            raise BadQuery(too_large(_MAX_ANSWER_BYTES))
        if rows > max_rows:
            break
    return pa.Table.from_batches(batches, schema=reader.schema).slice(0, max_rows), rows > max_rows


def _fetch(cursor: duckdb.DuckDBPyConnection, max_rows: int) -> list[tuple[object, ...]]:
    """Fetch at most `max_rows` rows, in small batches, as DuckDB holds the GIL while it converts rows to Python."""
    rows: list[tuple[object, ...]] = []
    nbytes = 0
    while len(rows) < max_rows and (some := cursor.fetchmany(min(_ROWS_AT_ONCE, max_rows - len(rows)))):
        rows += some
        nbytes += sum(len(value) for row in some for value in row if isinstance(value, str | bytes))
        if nbytes > _MAX_ANSWER_BYTES:
            raise BadQuery(too_large(_MAX_ANSWER_BYTES))
    return rows


def _columns(cursor: duckdb.DuckDBPyConnection, question: Statement) -> list[QueryColumn]:
    """Return names and types of a SELECT's columns; none for DESCRIBE, SHOW and EXPLAIN."""
    try:
        described = cursor.execute(f"DESCRIBE {question.statement.query}", question.parameters or None).fetchall()
    except (duckdb.InternalException, duckdb.FatalException):
        raise
    except duckdb.Error:  # if the statement itself is wrong, running it says so in its own words
        roll_back(cursor)  # DuckDB 2 refuses all further statements of the transaction, which has read nothing
        begin_reading(cursor)
        return []
    return [QueryColumn(name=row[0], type=row[1]) for row in described]
