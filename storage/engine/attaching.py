"""Opening of the database file in a DuckDB instance, with more memory if the replay of its log needs it."""

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import duckdb

from storage.engine.opening import open_duckdb
from storage.errors import ForeignFile, NewerFile, Unusable

log = logging.getLogger(__name__)

Settings = Mapping[str, str | int | bool]

READ_ONLY: Final = "READ_ONLY"
_LIMIT: Final = "memory_limit"
_RAISE: Final = 4
"""Each further attempt has this many times the memory of the previous one, up to DuckDB's default limit: four fifths of
the machine's memory. A guess: an attempt that fails takes seconds, so there must not be many."""
LEAST_LOG_BYTES: Final = 4 << 20
_MOST_LOG_BYTES: Final = 32 << 20
_LOG_DIVISOR: Final = 128
"""DuckDB's log may grow to the memory limit divided by this, within the two bounds. A longer log saves CPU, since each
checkpoint rewrites the last row group of each table. It costs memory, which holds the rows of small commits until then.
With commits of 2,048 spans, a log of 4 MB took 113 µs of CPU a span and 91 MB of memory; one of 32 MB took 72 µs and
140 MB. With commits of 1,024 spans, 4 MB took 134 µs and 92 MB, and 16 MB took 87 µs and 99 MB. With a divisor of 64, a
machine of 2 GiB had a log of 8 MB, and up to 138 MB in memory."""
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")  # DuckDB's units of sizes


class _NoMemory(Exception):
    """Opening the file takes more memory than DuckDB's limit."""


class FileOpener:
    """Opener of one file, which raises the configured memory limit if the file cannot be opened otherwise.

    DuckDB replays its whole log at once, and a checkpoint rewrites the last row group. Both may take more memory than
    the transactions that wrote the log. A database that was opened with more memory returns to the configured limit
    after one checkpoint. If the configured limit is too low a second time, the higher limit stays, since otherwise
    each commit would fail in the same way. This happens, for example, with spans of 150 kB and a limit of 256 MB.
    """

    def __init__(
        self, path: Path, *, catalog: str, how: str, prepare: Callable[[duckdb.DuckDBPyConnection], None]
    ) -> None:
        """`how` has the options of `ATTACH`; `prepare` is called with each connection before it is used."""
        self._path = path
        self._catalog = catalog
        self._how = how
        self._prepare = prepare
        self._recoveries = 0  # openings that took more memory than configured
        self.raised_bytes: int | None = None  # the memory limit that replaces the configured one

    def open(self, settings: Settings, *, because: str | None = None) -> duckdb.DuckDBPyConnection:
        """Open a DuckDB with the file as its default catalogue; a missing file is created.

        `because` is DuckDB's message when it declared the file invalid. If that was a lack of memory, the first attempt
        has more memory: opening the file without a checkpoint takes little, so the configured limit might suffice for
        that, but the next commit would fail in the same way.

        Raises:
            ForeignFile: the file is not a database of ours.
            NewerFile: a newer DuckDB, or a newer version of us, wrote it.
            OlderFile: a version before v0.1.0 wrote it.
            Unusable: DuckDB cannot open the file.

        """
        if self.raised_bytes is not None:
            settings = {**settings, _LIMIT: _text(self.raised_bytes)}
        try:
            if because is not None and _says_no_memory(because):
                raise _NoMemory(because)  # noqa: TRY301 - treated as a lack of memory now
            return self._attached(settings)
        except _NoMemory as error:
            problem = error
        for nbytes in _larger(settings):
            log.warning(
                "opening %s takes more memory than the limit; retrying with %s: %s",
                self._path,
                _text(nbytes),
                problem,
            )
            try:
                return self._recovered(settings, nbytes)
            except _NoMemory as error:
                problem = error
        raise Unusable(f"{self._path} cannot be opened, there is too little memory: {problem}") from problem

    def _recovered(self, settings: Settings, nbytes: int) -> duckdb.DuckDBPyConnection:
        """Open the file with more memory and checkpoint its log; the first time, reopen it with the usual limit."""
        # In a new instance: DuckDB 1.5.5 reports a raised limit of a running one, but does not apply it.
        connection = self._attached({**settings, _LIMIT: _text(nbytes)})
        if self._how == READ_ONLY:
            return connection
        try:
            connection.execute(f"CHECKPOINT {self._catalog}")
        except duckdb.Error as error:
            connection.close()
            raise self._named(error) from error
        self._recoveries += 1
        if self._recoveries > 1:
            self.raised_bytes = nbytes
            log.warning(
                (
                    "DuckDB's memory limit is %s until the next start, because %s was not enough twice; set "
                    "duckdb_memory: %s"
                ),
                _text(nbytes),
                settings[_LIMIT],
                _text(nbytes),
            )
            return connection
        connection.close()
        log.warning("%s is recovered; DuckDB's memory limit is %s again", self._path, settings[_LIMIT])
        return self._attached(settings)

    def _attached(self, settings: Settings) -> duckdb.DuckDBPyConnection:
        connection = open_duckdb(settings)
        literal = str(self._path).replace("'", "''")
        try:
            connection.execute(f"ATTACH '{literal}' AS {self._catalog} (TYPE duckdb, {self._how})")
            connection.execute(f"USE {self._catalog}")
            self._prepare(connection)
        except duckdb.Error as error:
            connection.close()
            raise self._named(error) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def _named(self, error: duckdb.Error) -> Exception:
        """Return the exception that tells the caller what to do about an error."""
        text = str(error)
        if isinstance(error, duckdb.OutOfMemoryException) or _says_no_memory(text):
            return _NoMemory(text.partition("\n")[0])
        if "not a valid DuckDB" in text:
            return ForeignFile(f"{self._path} is not a DuckDB database; move it away, or choose another data directory")
        if "newer version" in text or "version number" in text:
            return NewerFile(f"{self._path} was written by a newer DuckDB: {text}")
        return Unusable(f"{self._path} cannot be opened: {text}")


def memory_bytes(connection: duckdb.DuckDBPyConnection) -> int:
    """Return DuckDB's memory limit in bytes."""
    ((text,),) = connection.execute("SELECT current_setting('memory_limit')").fetchall()
    number, unit = text.split()
    return int(float(number) * 1024 ** _UNITS.index(unit))


def checkpoint_log(connection: duckdb.DuckDBPyConnection) -> int:
    """Return the size in bytes at which DuckDB's log is moved into the file; it depends on the memory limit."""
    return max(min(memory_bytes(connection) // _LOG_DIVISOR, _MOST_LOG_BYTES), LEAST_LOG_BYTES)


_SAYS_NO_MEMORY: Final = ("Out of Memory", "could not allocate", "failed to allocate", "failed to pin block")
"""Texts of DuckDB's errors about memory. The exception's class is not enough: if the checkpoint after the replay
fails, DuckDB raises another class than `OutOfMemoryException`."""


def _says_no_memory(text: str) -> bool:
    return any(words in text for words in _SAYS_NO_MEMORY)


def _larger(settings: Settings) -> Iterator[int]:
    """Yield ever larger memory limits."""
    with open_duckdb({_LIMIT: settings[_LIMIT]}) as configured, open_duckdb({}) as machine:
        nbytes, most = memory_bytes(configured), memory_bytes(machine)
    while nbytes * _RAISE < most:
        nbytes *= _RAISE
        yield nbytes
    if nbytes < most:
        yield most


def _text(nbytes: int) -> str:
    return f"{nbytes >> 20}MiB"
