"""Server side of DuckDB's remote protocol (Quack): an empty DuckDB that fetches answers from the server.

Clients see the views as tables. The answer to each query is written to a file, and the client's query is replaced by a
statement that reads only this file. Queries of the catalog run in a second DuckDB, which has the views as empty tables,
so that a hostile statement can break only that.
"""

import itertools
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Final, Protocol

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from duckdb.func import FunctionNullHandling

from storage import sql
from storage.engine.arrow import arrow_reader
from storage.engine.cursors import is_bug
from storage.engine.opening import extension, open_duckdb
from storage.errors import BadQuery, Unusable
from storage.limit import Limit
from storage.query.calls import refuse_calls
from storage.query.parsing import tree_of
from storage.query.plain import is_plain
from storage.query.sql_allowlist import nodes_of, reads_catalog_only, reads_one_file
from storage.query.sql_text import check_text

log = logging.getLogger(__name__)

_EXTENSIONS: Final = ("httpfs", "quack")  # the second needs the cryptography of the first
_MEMORY: Final = "256MB"
"""Memory limit of each of the two DuckDB instances. A guess: 24 vectors of each answer are held while it is sent."""

MAX_SESSIONS: Final = 1_000
"""Sessions after which the process is replaced. Quack keeps the session of a killed client for ever. A guess."""

_CATALOG_S: Final = 5.0  # timeout of a query of the catalog alone, which has a few hundred rows; a guess
_CATALOG_ROWS: Final = 2048  # in a batch
_KEPT_S: Final = 600.0
"""Age at which the file of an answer is deleted. A client that still reads it has it open, and is not affected. A
guess."""

_CALLBACKS: Final = ("tracejury_admit", "tracejury_answer")


class QuackRefused(Exception):
    """A statement is refused, always for this key or only now; the message is for the client."""


class QuackServer(Protocol):
    """Interface to the server that has the data. Thread-safe."""

    def admit(self, token: str) -> bool:
        """Return True if the key is known."""

    def batches(self, token: str, statement: str) -> Iterator[pa.RecordBatch]:
        """Stream an answer in batches; the first one is empty, and its schema has DuckDB's types.

        Raises:
            QuackRefused, BadQuery: the statement may not run, or fails.

        """


@dataclass(frozen=True, slots=True, kw_only=True)
class QuackOptions:
    """Settings: address, views, and the folder of answers with its limits."""

    address: str
    views: Mapping[str, Sequence[tuple[str, str]]]  # name, and names and types of columns in their order
    answers: Path
    answer_bytes: int  # a client that reads more gets an error
    all_bytes: int  # maximum size on disk of the answers of all clients


@dataclass(slots=True, kw_only=True)
class _QuackSession:
    token: str
    files: list[Path] = field(default_factory=list)


def require_extensions() -> None:
    """Check that the extensions for this DuckDB are installed.

    Raises:
        Unusable: an extension is not installed.
    """
    for name in _EXTENSIONS:
        extension(name, "quack")


class Quack:
    """Listener for Quack clients, from the call of `serve` to the end of the process."""

    def __init__(self, options: QuackOptions, server: QuackServer) -> None:
        self._options = options
        self._desk = server
        self._sessions: dict[str, _QuackSession] = {}
        self._new: set[str] = set()  # sessions that Quack may not list yet
        self._lock = threading.Lock()
        self._asking = 0
        self._connection = self._connect()
        self._catalog = _catalog_of(options.views)

    @property
    def is_worn_out(self) -> bool:
        """Return True if no session is left and no query runs: time for a new process."""
        return len(self._sessions) >= MAX_SESSIONS and not self._asking

    def serve(self) -> None:
        """Begin to accept clients; threads of DuckDB serve them.

        Raises:
            Unusable: the address cannot be bound.
        """
        start = "CALL quack_serve($uri, token := $token, allow_other_hostname := true)"
        try:
            self._connection.execute(start, {"uri": f"quack:{self._options.address}", "token": token_hex(32)})
        except duckdb.Error as error:
            raise Unusable(f"Quack cannot listen on {self._options.address}: {error}") from error

    def _connect(self) -> duckdb.DuckDBPyConnection:
        connection = open_duckdb(
            {
                "threads": 1,
                "memory_limit": _MEMORY,
                "python_enable_replacements": False,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            }
        )
        for name in _EXTENSIONS:
            connection.execute(f"LOAD '{_literal(str(extension(name, 'quack')))}'")
        admit, answer = _CALLBACKS
        how = partial(connection.create_function, null_handling=FunctionNullHandling.SPECIAL, side_effects=True)
        how(admit, self._admit, ["VARCHAR"] * 3, "BOOLEAN")
        how(answer, self._answer, ["VARCHAR"] * 2, "VARCHAR")
        for setting, value in (
            ("quack_authentication_function", admit),
            ("quack_authorization_function", answer),
            ("allowed_directories", [f"{self._options.answers}/"]),
            ("temp_directory", ""),
            ("TimeZone", "UTC"),
            ("enable_external_access", False),
            ("lock_configuration", True),
        ):
            connection.execute(f"SET GLOBAL {setting} = {_value(value)}")
        return connection

    def _admit(self, session_id: str | None, token: str | None, _ours: str | None) -> bool:
        """Return True if a client may open a session; called by Quack."""
        if not session_id or not token or len(self._sessions) >= MAX_SESSIONS:
            return False
        if not self._desk.admit(token):
            return False
        self._new.add(session_id)
        self._sessions[session_id] = _QuackSession(token=token)
        return True

    def tidy(self) -> None:
        """Delete the answers of closed sessions, and answers older than `_KEPT_S`."""
        before_s = time.time() - _KEPT_S
        for path in self._options.answers.iterdir():
            with suppress(FileNotFoundError):  # other threads, and the server's erasure, delete files here too
                if path.stat().st_mtime < before_s:
                    path.unlink()
        known = set(self._sessions)
        with self._connection.cursor() as cursor:
            alive = cursor.execute("SELECT connection_id FROM quack_active_connections()").fetchall()
        for session_id in known - {name for (name,) in alive} - self._new:
            _discard(self._sessions.pop(session_id).files)
        self._new.clear()

    def _answer(self, session_id: str | None, statement: str | None) -> str | None:
        """Return the statement that replaces a client's, or None to refuse it. Quack calls this before each one."""
        session = self._sessions.get(session_id or "")
        if session is None or statement is None:
            return None
        with self._lock:
            self._asking += 1
        try:
            return self._instead(session, statement)
        except (QuackRefused, BadQuery, duckdb.Error, pa.ArrowException, OSError) as error:
            if is_bug(error):
                self._mend_catalog(str(error))
            return f"SELECT error('{_literal(str(error))}')"
        except Exception:  # noqa: BLE001 - DuckDB would swallow it, and no log would have it
            log.exception("checking a statement failed")
            return None
        finally:
            with self._lock:
                self._asking -= 1

    def _instead(self, session: _QuackSession, statement: str) -> str | None:
        _discard(session.files)
        check_text(statement)
        with self._catalog.cursor() as cursor:
            kinds = [one.type for one in cursor.extract_statements(statement)]
            match kinds:
                case [duckdb.StatementType.SELECT | duckdb.StatementType.EXPLAIN]:
                    tree = tree_of(statement)
                case [duckdb.StatementType.TRANSACTION]:
                    return "SELECT true AS done"  # no effect: each answer has its own snapshot
                case [duckdb.StatementType.INSERT]:
                    return None  # Quack sends rows apart from the statement, so refuse it
                case _:
                    raise QuackRefused("this is read-only: one SELECT is allowed here, and nothing that writes or sets")
            if tree and reads_catalog_only(tree) and is_plain(nodes_of(tree), {}):
                refuse_calls(tree)
                with self._of_catalog(statement) as batches:
                    select = self._written(session, batches)
            else:
                select = self._written(session, self._desk.batches(session.token, statement))
            tree = tree_of(select)
            if not tree or not reads_one_file(tree):  # names of columns and types may hold injected SQL
                raise QuackRefused("the columns of this answer have names or types that cannot be handed on")
            return select

    def _mend_catalog(self, why: str) -> None:
        log.error("a statement caused an internal error of DuckDB: %s", why.partition("\n")[0])
        with self._lock:
            self._catalog = _catalog_of(self._options.views)

    @contextmanager
    def _of_catalog(self, statement: str) -> Iterator[Iterator[pa.RecordBatch]]:
        with self._catalog.cursor() as cursor:
            alarm = threading.Timer(_CATALOG_S, cursor.interrupt)
            alarm.start()
            try:
                reader = arrow_reader(cursor, _CATALOG_ROWS, statement)
                yield itertools.chain([pa.RecordBatch.from_pylist([], schema=reader.schema)], reader)
            finally:
                alarm.cancel()

    def _written(self, session: _QuackSession, batches: Iterator[pa.RecordBatch]) -> str:
        """Write an answer into a file; return the SELECT that reads it."""
        if _nbytes(self._options.answers) > self._options.all_bytes:
            limit = Limit(
                value=self._options.all_bytes, unit="bytes", remedy="read or close answers, or try again later"
            )
            raise QuackRefused(f"the answers of all clients together take more than {limit}")
        path = self._options.answers / f"{token_hex(16)}.parquet"
        session.files.append(path)
        writer, rows, nbytes, is_whole = None, 0, 0, True
        schema = pa.schema([])
        try:
            for batch in batches:
                if writer is None:
                    schema = batch.schema
                    writer = pq.ParquetWriter(path, _numbered(schema), compression="none", use_dictionary=False)
                if nbytes > self._options.answer_bytes:
                    is_whole = False
                    break
                writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=_numbered(schema)))
                rows, nbytes = rows + batch.num_rows, nbytes + batch.nbytes
        finally:
            _close(batches)
            if writer is not None:
                writer.close()
        return _reading(path, schema, rows if is_whole else rows - 1, is_whole=is_whole, limit=self._options)


def _catalog_of(views: Mapping[str, Sequence[tuple[str, str]]]) -> duckdb.DuckDBPyConnection:
    """Open a DuckDB with the views as empty tables, for queries of the catalog and for parsing statements."""
    connection = open_duckdb(
        {
            "threads": 1,
            "memory_limit": _MEMORY,
            "temp_directory": "",
            "python_enable_replacements": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
    )
    for name, columns in views.items():
        described = ", ".join(f"{_name(column)} {kind}" for column, kind in columns)
        connection.execute(f"CREATE TABLE {_name(name)} ({described})")
    for setting, value in (("TimeZone", "UTC"), ("enable_external_access", False), ("lock_configuration", True)):
        connection.execute(f"SET GLOBAL {setting} = {_value(value)}")
    return connection


def _answer_limit(nbytes: int) -> Limit:
    remedy = (
        "filters on an attached table are not sent there, so ask FROM tj.query('SELECT … WHERE …') instead, with tj as"
        " what you called it"
    )
    return Limit(value=nbytes, unit="bytes", remedy=remedy)


def _reading(path: Path, schema: pa.Schema, rows: int, *, is_whole: bool, limit: QuackOptions) -> str:
    """Return the SELECT that reads an answer in DuckDB's types; its last row raises an error if the answer was cut."""
    types = json.loads((schema.metadata or {}).get(b"duckdb", b"[]"))
    too_much = f"this needs more of the server's rows than {_answer_limit(limit.answer_bytes)}"
    columns = []
    for number, column in enumerate(schema):
        value = f"c{number}::{types[number]}" if types else f"c{number}"
        if not is_whole:
            value = f"CASE WHEN file_row_number < {rows} THEN {value} ELSE error('{_literal(too_much)}') END"
        columns.append(f"{value} AS {_name(column.name)}")
    select = sql.query("read_answer").replace("/* file */", _literal(str(path)))
    return select.replace("/* columns */", ", ".join(columns))


def _numbered(schema: pa.Schema) -> pa.Schema:
    return pa.schema([column.with_name(f"c{number}") for number, column in enumerate(schema)])


def _nbytes(folder: Path) -> int:
    nbytes = 0
    for file in folder.iterdir():
        with suppress(FileNotFoundError):
            nbytes += file.stat().st_size
    return nbytes


def _discard(files: list[Path]) -> None:
    while files:
        files.pop().unlink(missing_ok=True)


def _close(batches: Iterator[pa.RecordBatch]) -> None:
    close: Callable[[], None] | None = getattr(batches, "close", None)
    if close is not None:
        close()


def _literal(text: str) -> str:
    return text.replace("'", "''")


def _name(text: str) -> str:
    quoted = text.replace('"', '""')
    return f'"{quoted}"'


def _value(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case list():
            return f"[{', '.join(_value(each) for each in value)}]"
        case _:
            return f"'{_literal(str(value))}'"
