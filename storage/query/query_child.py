"""The child process for statements that cannot be interrupted reliably in the server; it can be killed at any time.

It has none of the server's files open: the server sends the rows that a statement reads. The kernel limits its memory,
so that a statement that needs more fails, even if DuckDB does not count all that it uses.
"""

import os
import resource
import sys
import threading
import time
from typing import Any, BinaryIO, Final

import duckdb
import pyarrow as pa

from storage import child_process
from storage.engine.arrow import rows_of
from storage.engine.cursors import is_bug
from storage.engine.opening import FEW_THREADS
from storage.engine.pandas_import import hide_pandas
from storage.errors import BadQuery
from storage.memory import LackOfMemory
from storage.query.nanoseconds import with_texts
from storage.query.query_limits import too_large
from storage.wire import Header, receive, send

TOO_LARGE: Final = 77
"""Exit code of a process that exceeds its memory limit."""

_SLACK_BYTES: Final = 96 << 20
"""Added to the kernel's limit, which also counts memory that is allocated and never touched. A row of `spans` as one
value allocates 100 MB and touches 2 MB."""
_POLL_INTERVAL_S: Final = 0.02  # seconds between two checks of the memory in use; a guess
_COUNTED: Final = 5 / 8  # DuckDB's limit as a share of ours, since DuckDB does not count some values; a guess
_SCRATCH_SIZE: Final = "4GB"  # the server's limit
_ROWS: Final = 2048


def main() -> None:
    """Answer until the input ends."""
    child_process.run(serve)


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer one statement after the other; the first message has the limits."""
    first = receive(requests)
    if first is None:
        return
    greeting = first[0]
    if greeting["hidesPandas"]:
        hide_pandas()
    os.chdir(greeting["folder"])  # so that no setting of DuckDB has a path in it
    _limit_memory(greeting["memoryBytes"] + _SLACK_BYTES)
    threading.Thread(target=_watch, args=(_resident_bytes() + greeting["memoryBytes"],), daemon=True).start()
    send(answers, {}, [])
    while (message := receive(requests)) is not None:
        _answer(message[0], requests, answers, int(greeting["memoryBytes"]))


def _answer(request: Header, requests: BinaryIO, answers: BinaryIO, memory_bytes: int) -> None:
    try:
        with _connect(memory_bytes) as connection:
            _load_tables(connection, request, requests)
            _run(connection, request, answers)
    except (duckdb.Error, pa.ArrowException, RuntimeError, ValueError, MemoryError, BadQuery) as error:
        lacks = isinstance(error, LackOfMemory | MemoryError | pa.ArrowMemoryError)
        is_broken = lacks or is_bug(error)
        send(answers, {"error": _message(error), "lacksMemory": lacks, "isBroken": is_broken}, [])
        if is_broken:
            os._exit(0)  # DuckDB may be in any state, so the next statement gets a new process


def _message(error: Exception) -> str:
    # DuckDB's messages about bugs contain addresses in this process.
    if is_bug(error):
        return f"this statement makes DuckDB fail: {str(error).partition(chr(10))[0]}"
    return str(error) or type(error).__name__


def _limit_memory(nbytes: int) -> None:
    """Limit the memory that this process may allocate from now on."""
    if sys.platform != "linux":
        return
    with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123 - no file
        (kib,) = [int(line.split()[1]) for line in status if line.startswith("VmData:")]
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    limit = (kib << 10) + nbytes
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _watch(limit_bytes: int) -> None:
    while _resident_bytes() <= limit_bytes:
        time.sleep(_POLL_INTERVAL_S)
    os._exit(TOO_LARGE)


def _resident_bytes() -> int:
    if sys.platform != "linux":
        return 0
    with open("/proc/self/statm", encoding="ascii") as pages:  # noqa: PTH123 - no file
        return int(pages.read().split()[1]) * resource.getpagesize()


def _connect(memory_bytes: int) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(
        ":memory:",
        config={
            **FEW_THREADS,
            "threads": 1,
            "memory_limit": f"{int(memory_bytes * _COUNTED) >> 10}KiB",
            "temp_directory": f"statement-{os.getpid()}",
            "max_temp_directory_size": _SCRATCH_SIZE,
            "python_enable_replacements": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        },
    )
    # Each column of a table takes at least one block: with the default of 256 KiB, one row of `spans` took 40 MB.
    connection.execute("ATTACH ':memory:' AS tracejury (BLOCK_SIZE 16384)")
    connection.execute("USE tracejury")
    # No checkpoints: one of an in-memory database needs memory for a whole row group, and invalidates the database if
    # there is too little. Without checkpoints, DuckDB moves rows to scratch files.
    connection.execute("SET GLOBAL checkpoint_threshold = '1TB'")
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    return connection


def _load_tables(connection: duckdb.DuckDBPyConnection, request: Header, requests: BinaryIO) -> None:
    """Create the tables and insert the rows that follow as messages; all messages are read, even after a failure."""
    problem: duckdb.Error | None = None
    try:
        for table in request["tables"]:
            columns = ", ".join(f"{_name(name)} {kind}" for name, kind in table["columns"])
            connection.execute(f"CREATE TABLE {_name(table['name'])} ({columns})")
    except duckdb.Error as error:
        problem = error
    while True:
        message = receive(requests)
        if message is None:
            raise EOFError("the server ended")
        header, tables = message
        if "into" not in header:
            break
        if problem is None:
            try:
                connection.register("incoming", tables[0])
                connection.execute(f"INSERT INTO {_name(header['into'])} FROM incoming")
                connection.unregister("incoming")
            except duckdb.Error as error:
                problem = error
    if problem is not None:
        raise problem
    connection.execute(f"SET arrow_lossless_conversion = {str(request['isLossless']).lower()}")
    connection.execute("SET GLOBAL enable_external_access = false")
    connection.execute("SET GLOBAL lock_configuration = true")


def _run(connection: duckdb.DuckDBPyConnection, request: Header, answers: BinaryIO) -> None:
    """Send names and types of the columns, and then the rows in batches."""
    query: str = request["query"]
    parameters: dict[str, Any] | None = request["parameters"] or None
    alarm = threading.Timer(request["seconds"], connection.interrupt)
    alarm.daemon = True
    alarm.start()
    try:
        columns = _described(connection, query, parameters)
        is_texts = columns is not None and request["hasTexts"]
        query = with_texts(query, [kind for _, kind in columns or ()]) if is_texts else query
        rows_read = rows_of(connection, query, parameters)
        if columns is None:
            columns = [(each[0], str(each[1])) for each in rows_read.description or ()]
        reader = rows_read.to_arrow_reader(_ROWS)
        send(answers, {"columns": columns, "more": True}, [reader.schema.empty_table()])
        rows = nbytes = 0
        for batch in reader:
            rows, nbytes = rows + batch.num_rows, nbytes + batch.nbytes
            if request["maxBytes"] and nbytes > request["maxBytes"]:
                raise BadQuery(too_large(request["maxBytes"]))
            send(answers, {"more": True}, [pa.Table.from_batches([batch])])
            if request["maxRows"] is not None and rows > request["maxRows"]:
                break
    finally:
        alarm.cancel()
    send(answers, {}, [])


def _described(
    connection: duckdb.DuckDBPyConnection, query: str, parameters: dict[str, Any] | None
) -> list[tuple[str, str]] | None:
    try:
        return [(row[0], row[1]) for row in connection.execute(f"DESCRIBE {query}", parameters).fetchall()]
    except (duckdb.InternalException, duckdb.FatalException):
        raise
    except duckdb.Error:  # EXPLAIN has no columns; if the statement is wrong, running it says so in its own words
        return None


def _name(text: str) -> str:
    quoted = text.replace('"', '""')
    return f'"{quoted}"'
