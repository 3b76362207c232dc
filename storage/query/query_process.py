"""Statements that cannot be interrupted reliably, run in child processes that are killed after the time limit."""

import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, cast

import duckdb
import pyarrow as pa

from storage import child_process
from storage.engine.arrow import arrow_reader
from storage.errors import BadQuery
from storage.memory import QueryMemory
from storage.query.query_child import TOO_LARGE
from storage.query.query_limits import late
from storage.query.query_options import CANCELLED, CancelToken
from storage.query.relations import Relation
from storage.query.statements import Parameter
from storage.wire import Header, receive, send

_PROGRAM: Final = "from storage.query.query_child import main; main()"
_GRACE_S: Final = 1.0
"""A process is killed this long after the time limit, at which it interrupts its statement and may still answer. A
guess."""

_START_S: Final = 30.0  # a guess: half a second on an idle machine
_SPARED_S: Final = 3.0
"""Up to this much of a process's start is not counted as time of the statement, so that a statement ends within 5 s of
its limit. A guess."""

_ROWS_AT_ONCE: Final = 2048  # DuckDB's smallest batch, because rows with long texts pass through this process
_MESSAGE_BYTES: Final = 4 << 20  # size of a message of rows, a small part of the child's memory limit; a guess
_IDLE: Final = 2  # processes that are kept for the next statement; a guess


class Column(NamedTuple):
    """A column of an answer, with DuckDB's type."""

    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApartOptions:
    """Directory and memory of the processes."""

    folder: Path
    memory: Callable[[], QueryMemory]
    hides_pandas: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ApartQuestion:
    """A statement with its limits and the form of its answer."""

    query: str
    parameters: Mapping[str, Parameter]
    seconds: float
    max_rows: int | None = None  # the answer ends with the batch that exceeds it
    max_bytes: int | None = None
    has_texts: bool = False  # TIMESTAMP_NS as texts
    is_lossless: bool = False  # use DuckDB's Arrow extension types, which only DuckDB reads


class Apart:
    """Pool of processes. Thread-safe; `close` kills running statements."""

    def __init__(self, options: ApartOptions) -> None:
        self._folder = options.folder
        self._hides_pandas = options.hides_pandas
        self._lock = threading.Lock()
        self._idle: list[_Process] = []
        self._all: set[_Process] = set()
        self._is_closed = False
        self.memory = options.memory

    def begin(self, question: ApartQuestion, stop: CancelToken) -> "ApartAnswer":
        """Take a process for a statement, or start one; `ApartAnswer.load` then sends it the rows.

        Raises:
            BadQuery: the pool is closed, or a process did not start.
        """
        began_s = time.monotonic()
        with self._lock:
            if self._is_closed:
                raise BadQuery(CANCELLED)
            process = self._idle.pop() if self._idle else None
        if process is None:
            process = self._started()
        spared_s = min(time.monotonic() - began_s, _SPARED_S)
        return ApartAnswer(self, process, question, stop, began_s + spared_s + question.seconds)

    def release(self, process: "_Process", *, is_fit: bool) -> None:
        """Keep a process for the next statement, or end it."""
        with self._lock:
            if is_fit and len(self._idle) < _IDLE and not self._is_closed:
                self._idle.append(process)
                return
            self._all.discard(process)
        process.end()

    def close(self) -> None:
        """End all processes, also in the middle of a statement."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
            busy = self._all.difference(idle)
            self._all.difference_update(idle)
        for process in busy:  # the thread that waits for its answer releases it
            process.kill()
        for process in idle:
            process.end()

    def _started(self) -> "_Process":
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        process = _Process(child_process.start_program(_PROGRAM))
        with self._lock:
            self._all.add(process)
            is_closed = self._is_closed
        greeting = {"folder": str(self._folder.absolute()), "memoryBytes": self.memory().share_bytes}
        alarm = threading.Timer(_START_S, process.kill)
        alarm.start()
        try:
            if is_closed:
                raise BrokenPipeError
            process.send({**greeting, "hidesPandas": self._hides_pandas}, [])
            if process.receive() is None:
                raise BrokenPipeError
        except (OSError, EOFError) as error:
            self.release(process, is_fit=False)
            raise BadQuery("the process for this statement did not start; try again") from error
        finally:
            alarm.cancel()
        return process


class ApartAnswer:
    """A statement that runs in a child process, and its answer. It MUST be closed."""

    def __init__(
        self, apart: Apart, process: "_Process", question: ApartQuestion, stop: CancelToken, until_s: float
    ) -> None:
        self._apart = apart
        self._process = process
        self._question = question
        self._stop = stop
        self._until_s = until_s
        self._is_late = self._is_complete = False
        self._alarm = threading.Timer(until_s + _GRACE_S - time.monotonic(), self._end_late)
        self._alarm.daemon = True
        self._alarm.start()

    def _end_late(self) -> None:
        self._is_late = True
        self._process.kill()

    def load(self, cursor: duckdb.DuckDBPyConnection, relations: Sequence[Relation]) -> None:
        """Send the statement, and the rows of its relations as of the cursor's snapshot, to the process.

        Raises:
            BadQuery: the process ended.
        """
        described = [(each, each.columns(_described(cursor, each.name))) for each in relations]
        question = self._question
        header = {
            "query": question.query,
            "parameters": dict(question.parameters),
            "tables": [{"name": each.name, "columns": columns} for each, columns in described],
            "seconds": max(self._until_s - time.monotonic(), 0.01),
            "maxRows": question.max_rows,
            "maxBytes": question.max_bytes,
            "hasTexts": question.has_texts,
            "isLossless": question.is_lossless,
        }
        try:
            with self._stop.armed(self._process.kill):
                self._process.send(header, [])
                for relation, columns in described:
                    for batch in _rows(cursor, relation, columns, question.parameters):
                        for piece in _pieces(batch):
                            self._process.send({"into": relation.name}, [pa.Table.from_batches([piece])])
                self._process.send({}, [])
        except OSError as error:
            raise self._last_words() from error

    def batches(self) -> Iterator[tuple[list[Column], pa.Table]]:
        """Yield the columns and an empty table, and then the rows.

        Raises:
            BadQuery: the statement failed, or the process ended, before or within the answer.

        """
        columns: list[Column] = []
        while True:
            try:
                with self._stop.armed(self._process.kill):
                    message = self._process.receive()
            except (OSError, EOFError, pa.ArrowException, ValueError) as error:
                raise self._failed() from error
            if message is None:
                raise self._failed()
            header, tables = message
            if "error" in header:
                self._is_complete = not header["isBroken"]
                raise self._refused(str(header["error"]), lacks_memory=bool(header.get("lacksMemory")))
            if not header.get("more"):
                self._is_complete = True
                return
            columns = [Column(*each) for each in header.get("columns", columns)]
            yield columns, tables[0]

    def close(self) -> None:
        """Release the process."""
        self._alarm.cancel()
        self._apart.release(self._process, is_fit=self._is_complete and not self._is_late)

    def _last_words(self) -> BadQuery:
        """Return the error with which the process ended, if it sent one."""
        try:
            message = self._process.receive()
        except (OSError, EOFError, pa.ArrowException, ValueError):
            message = None
        if message is None or "error" not in message[0]:
            return self._failed()
        return self._refused(str(message[0]["error"]), lacks_memory=bool(message[0].get("lacksMemory")))

    def _refused(self, message: str, *, lacks_memory: bool) -> BadQuery:
        if lacks_memory:
            return BadQuery(self._apart.memory().advice_for_one())
        if time.monotonic() >= self._until_s:
            return self._late()
        return BadQuery(message)

    def _failed(self) -> BadQuery:
        if self._stop.is_cancelled:
            return BadQuery(CANCELLED)
        if self._is_late or time.monotonic() >= self._until_s:
            return self._late()
        if self._process.exit_code() == TOO_LARGE:
            return self._refused("", lacks_memory=True)
        return BadQuery("this statement ended the process that it ran in: DuckDB does not survive it")

    def _late(self) -> BadQuery:
        return BadQuery(late(self._question.seconds))


class _Process:
    """A process with its pipes."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def send(self, header: Mapping[str, object], tables: Sequence[pa.Table]) -> None:
        send(cast("BinaryIO", self._process.stdin), dict(header), tables)

    def receive(self) -> tuple[Header, list[pa.Table]] | None:
        return receive(cast("BinaryIO", self._process.stdout))

    def kill(self) -> None:
        self._process.kill()

    def exit_code(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(_GRACE_S)
        return None

    def end(self) -> None:
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # unwritten input cannot be delivered
                    pipe.close()
        self._process.wait()


def _described(cursor: duckdb.DuckDBPyConnection, name: str) -> list[tuple[str, str]]:
    return [(row[0], row[1]) for row in cursor.execute(f"DESCRIBE {_quoted(name)}").fetchall()]


def _rows(
    cursor: duckdb.DuckDBPyConnection,
    relation: Relation,
    columns: Sequence[tuple[str, str]],
    parameters: Mapping[str, Parameter],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a relation that the statement may read."""
    ((text,),) = cursor.execute("SELECT json_deserialize_sql($tree::JSON)", {"tree": relation.tree}).fetchall()
    names = ", ".join(_quoted(name) for name, _ in columns)
    select = f"SELECT {names} FROM ({text.rstrip().rstrip(';')})"  # noqa: S608 - it can only read
    (statement,) = cursor.extract_statements(select)
    used = {name: parameters[name] for name in statement.named_parameters if name in parameters}
    yield from arrow_reader(cursor, _ROWS_AT_ONCE, statement, used or None)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows = max(1, batch.num_rows * _MESSAGE_BYTES // max(batch.nbytes, 1))
    return (batch.slice(at, rows) for at in range(0, batch.num_rows, rows))


def _quoted(text: str) -> str:
    escaped = text.replace('"', '""')
    return f'"{escaped}"'
