"""Check of a stored database: all of it is read, so that any damage is reported.

DuckDB has a checksum of each block, and compares it when it reads the block. So every column of every table is read: a
query that returns no rows, or reads only some columns, would not find damage in other blocks.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import duckdb

from storage.engine.database import FILE_NAME
from storage.engine.log_end import log_files, lost_commits
from storage.engine.migration import seen_steps
from storage.engine.opening import open_duckdb
from storage.errors import ForeignFile, NewerFile, OlderFile, Unusable
from storage.ingest.spool import Position

_CATALOG: Final = "checked"
_TABLES: Final = "SELECT table_name FROM duckdb_tables() WHERE database_name = $catalog ORDER BY table_name"
_COLUMNS: Final = """
    SELECT column_name FROM duckdb_columns()
    WHERE database_name = $catalog AND table_name = $name ORDER BY column_index
"""
_POSITION: Final = "SELECT spool_sequence, spool_rows FROM checked.ingest_state"
_SECRETS: Final = """
    SELECT
        (SELECT count(secret) FROM checked.llm_connection WHERE deleted_at IS NULL)
        + (SELECT count(sealed) FROM checked.alert_webhook WHERE deleted_at IS NULL)
"""
_NAMED: Final = 3  # columns that the report of one error lists
_MEMORY: Final = "256MB"
"""Memory limit of the check. If it does not suffice, the check is repeated with DuckDB's default, as one vector of a
column with values of megabytes needs more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """A table that was read."""

    name: str
    rows: int | None  # None: could not be counted
    damage: tuple[str, ...]  # DuckDB's messages, each with the columns that cannot be read because of it


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseReport:
    """A database file that was read."""

    path: Path
    problem: str | None  # why it could not be opened
    refusal: str | None = None  # why Tracejury would not open it, even undamaged, such as a newer version
    lost: str | None = None  # commits in its log that DuckDB would drop without an error (see `log_end`)
    unread: Sequence[Path] = ()  # files of its log that were not read: DuckDB merges them only if it may write
    position: Position | None = None  # how far the spool is committed; None: it cannot be read
    tables: tuple[TableReport, ...] = ()

    @property
    def damage(self) -> str | None:
        """Return one sentence that lists all that cannot be read, or None."""
        damaged = [f"table {table.name}: {'; '.join(table.damage)}" for table in self.tables if table.damage]
        return self.problem or "; ".join(damaged) or None


def descriptor_path(file: IO[bytes]) -> Path:
    """Return the path of a file without a name, within this process."""
    return Path(f"/dev/fd/{file.fileno()}")


def check_database(path: Path) -> DatabaseReport:
    """Read every value of every table. The file is opened read-only, and its log, if it has one, is replayed in memory.

    Raises:
        Unusable: the check needs more memory than this machine has.
    """
    try:
        return _check(path, {"memory_limit": _MEMORY})
    except duckdb.OutOfMemoryException:
        pass
    try:
        return _check(path, {})
    except duckdb.OutOfMemoryException as error:
        raise Unusable(f"{path} cannot be checked, there is too little memory: {_first_line(error)}") from error


def count_secrets(path: Path) -> int:
    """Return how many encrypted secrets an undamaged database has."""
    with _attached(path, {}) as cursor:
        ((count,),) = cursor.execute(_SECRETS).fetchall()
    return int(count)


def opening_problem(path: Path) -> str | None:
    """Return why DuckDB cannot open a database, or None. Its tables are not read."""
    try:
        with _attached(path, {}):
            return None
    except duckdb.Error as error:
        return _first_line(error)


def remedies(directory: Path, problem: str | None) -> Sequence[str]:
    """Return the commands that help with a damaged data directory or backup, each with its possible losses.

    `problem` says why its database cannot be opened; None if it can.
    """
    quoted = shlex.quote(str(directory))
    restore = (
        "`tracejury restore BACKUP --data NEW` makes a data directory of a backup, for `tracejury serve --data NEW`"
    )
    if (directory / "lock").exists() or (directory / "spool").exists():
        commands = [f"{restore}: what came after the backup is lost"]
    else:
        commands = [
            "`tracejury backup OTHER` makes another backup of the server, if that is not damaged, too: nothing is lost",
            f"{restore}, if `tracejury check BACKUP` finds no damage in another backup: what came after it is lost",
        ]
    if problem is None:
        commands.append(
            f"`tracejury export OUT --from YYYY-MM-DD --data {quoted}` writes the spans that can be read to files, "
            "from that day on: other spans, rules, keys, results and annotations are lost"
        )
    elif "WAL" in problem and (log := log_files(directory / FILE_NAME)):
        aside = shlex.quote(f"{directory}.log")
        files = " ".join(shlex.quote(str(path)) for path in log)
        commands.append(
            f"`mkdir {aside} && mv {files} {aside}` takes the damaged log (WAL) away, and a start succeeds: "
            "rules, keys, results, annotations and deletions since the last checkpoint are lost, and so are spans "
            "since then that the spool does not hold any more"
        )
    return commands


def _check(path: Path, settings: Mapping[str, str]) -> DatabaseReport:
    try:
        with _attached(path, settings) as connection:
            names = [name for (name,) in connection.execute(_TABLES, {"catalog": _CATALOG}).fetchall()]
            tables = tuple(_table(connection, name) for name in names)
            return DatabaseReport(
                path=path,
                problem=None,
                refusal=_refusal(connection, path),
                lost=lost_commits(path),
                unread=[each for each in log_files(path) if each.suffix != ".wal"],
                position=_position(connection),
                tables=tables,
            )
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error as error:
        return DatabaseReport(path=path, problem=_first_line(error))


@contextmanager
def _attached(path: Path, settings: Mapping[str, str]) -> Iterator[duckdb.DuckDBPyConnection]:
    literal = str(path).replace("'", "''")
    with open_duckdb({"threads": 1, **settings}) as connection:
        connection.execute(f"ATTACH '{literal}' AS {_CATALOG} (TYPE duckdb, READ_ONLY)")
        yield connection


def _refusal(connection: duckdb.DuckDBPyConnection, path: Path) -> str | None:
    with suppress(duckdb.Error):  # damage of the table of schema steps is reported by `_table`
        try:
            seen_steps(connection, path, _CATALOG)
        except (ForeignFile, NewerFile, OlderFile) as error:
            return str(error)
    return None


def _position(connection: duckdb.DuckDBPyConnection) -> Position | None:
    with suppress(duckdb.Error):
        row = connection.execute(_POSITION).fetchone()
        return None if row is None else Position(*row)
    return None


def _table(connection: duckdb.DuckDBPyConnection, name: str) -> TableReport:
    columns = [column for (column,) in connection.execute(_COLUMNS, {"catalog": _CATALOG, "name": name}).fetchall()]
    with suppress(duckdb.Error):
        return TableReport(name=name, rows=_read(connection, name, columns), damage=())
    rows: int | None = None
    damage: dict[str, list[str]] = {}
    for column in columns:  # one by one: finds the damaged columns, and needs less memory
        try:
            rows = _read(connection, name, [column])
        except duckdb.OutOfMemoryException:
            raise
        except duckdb.Error as error:
            damage.setdefault(_first_line(error), []).append(column)
    reports = tuple(f"{message} ({_some(columns)})" for message, columns in damage.items())
    return TableReport(name=name, rows=rows, damage=reports)


def _read(connection: duckdb.DuckDBPyConnection, table: str, columns: list[str]) -> int:
    hashes = ", ".join(f"bit_xor(hash({_quoted(column)}))" for column in columns)
    select = f"SELECT count(*), {hashes} FROM {_CATALOG}.{_quoted(table)}"  # noqa: S608 - all names are quoted
    ((rows, *_),) = connection.execute(select).fetchall()
    return int(rows)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{'column' if len(names) == 1 else 'columns'} {', '.join(names[:_NAMED])}{more}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
