"""A file attached to a DuckDB of its own, whatever DuckDB's log of it holds."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import duckdb

from storage.errors import ForeignFile, NewerFile, Unusable
from storage.opening import open_duckdb

log = logging.getLogger(__name__)

Settings = Mapping[str, str | int | bool]

_LIMIT: Final = "memory_limit"


class _NoMemory(Exception):
    """DuckDB's log of the file asks for more memory than there may be."""


def open_file(path: Path, *, catalog: str, how: str, settings: Settings) -> duckdb.DuckDBPyConnection:
    """A DuckDB with the file as its default catalogue, made if it is not there.

    What was written within the memory limit can be read within it, but DuckDB replays its log as a whole. Where that
    takes more, it gets more, for as long as it takes.

    Raises:
        ForeignFile: the file is not a database.
        NewerFile: a newer DuckDB wrote it.
        Unusable: it cannot be opened.
    """
    try:
        return _attached(path, catalog, how, settings)
    except _NoMemory as error:
        log.warning("recovery takes more memory than %s, and gets it: %s", settings[_LIMIT], error)
    try:
        # In a DuckDB of its own: to reset the limit of a running one changes nothing in 1.5.5 but what it says. Its own
        # limit is four fifths of the machine's memory.
        connection = _attached(path, catalog, how, {name: each for name, each in settings.items() if name != _LIMIT})
        with connection:
            connection.execute(f"CHECKPOINT {catalog}")
        log.warning("recovered; DuckDB may hold %s again", settings[_LIMIT])
        return _attached(path, catalog, how, settings)
    except (_NoMemory, duckdb.Error) as error:
        raise Unusable(f"{path} cannot be opened: {error}") from error


def _attached(path: Path, catalog: str, how: str, settings: Settings) -> duckdb.DuckDBPyConnection:
    connection = open_duckdb(settings)
    literal = str(path).replace("'", "''")
    try:
        connection.execute(f"ATTACH '{literal}' AS {catalog} (TYPE duckdb, {how})")
        connection.execute(f"USE {catalog}")
    except duckdb.Error as error:
        connection.close()
        raise _named(path, error) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _named(path: Path, error: duckdb.Error) -> Exception:
    """What went wrong, by what is to be done about it."""
    text = str(error)
    if isinstance(error, duckdb.OutOfMemoryException) or any(words in text for words in _SAYS_NO_MEMORY):
        return _NoMemory(text.partition("\n")[0])
    if "not a valid DuckDB" in text:
        return ForeignFile(f"{path} is not a DuckDB database; move it away, or choose another data directory")
    if "newer version" in text or "version number" in text:
        return NewerFile(f"{path} was written by a newer DuckDB: {text}")
    return Unusable(f"{path} cannot be opened: {text}")


_SAYS_NO_MEMORY: Final = ("Out of Memory", "could not allocate", "failed to allocate", "failed to pin block")
"""As when the checkpoint after the replay fails, which is an error of another class."""
