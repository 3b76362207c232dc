"""Migration of the file to the schema of this version, step by step."""

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import duckdb

from storage import sql
from storage.engine.cursors import roll_back
from storage.errors import ForeignFile, NewerFile, OlderFile, ReadOnly
from storage.work import Report, StartStep, logged, no_report

log = logging.getLogger(__name__)

MARK: Final = "tracejury_schema"
"""The table of the schema steps that the file has."""

FIRST_STEP: Final = 49
"""Number of the step that makes all tables of v0.1.0. Files that v0.1.0 wrote also have records of the 34 steps that it
replaced."""

_REPLACED_STEPS: Final = 34
_MIGRATES_OLDER: Final = "a233b285c6dd3bbcc2332ca1532d70a8b00e6370"
"""The last commit of Tracejury that still has the replaced steps."""

Step: TypeAlias = tuple[int, str, str]
"""The number of a schema step, its name and its statements."""

_VIEWS: Final = "SELECT view_name, comment FROM duckdb_views() WHERE database_name = $catalog AND NOT internal"
_TABLES: Final = "SELECT table_name FROM duckdb_tables() WHERE database_name = $catalog AND NOT internal"


def migrate(connection: duckdb.DuckDBPyConnection, path: Path, *, catalog: str, report: Report = no_report) -> None:
    """Apply and record the schema steps that the file does not have yet, and make the views.

    In an existing file each step is reported, and has its own transaction. In a new file all steps and the views share
    one transaction.

    Raises:
        ForeignFile: the tables are not ours.
        NewerFile: a newer version made them.
        OlderFile: a version before v0.1.0 made them.
    """
    seen = seen_steps(connection, path, catalog)
    missing = [step for step in sql.migrations() if step[0] not in seen]  # steps may come in any order
    if seen:
        _one_by_one(connection, missing, report)
        if not missing and not _has_log(path) and _has_views(connection, catalog):
            return
    else:
        columns = "version INTEGER NOT NULL, name VARCHAR, applied_at TIMESTAMP"
        connection.execute(f"CREATE TABLE IF NOT EXISTS {MARK} ({columns})")
    report(StartStep(name="making the views" if seen else "making the tables"))
    with _transaction(connection):  # a commit waits for the disk: one for all views, and for all steps of a new file
        if not seen:
            _apply(connection, missing)
        _make_views(connection)


def require_migrated(connection: duckdb.DuckDBPyConnection, path: Path, *, catalog: str) -> None:
    """Refuse a file that cannot be written unless it has the steps and views of this version, and write nothing.

    Raises:
        ReadOnly: another version wrote it.
        ForeignFile, NewerFile, OlderFile: as for `migrate`.
    """
    seen = seen_steps(connection, path, catalog)
    if any(step[0] not in seen for step in sql.migrations()) or not _has_views(connection, catalog):
        raise ReadOnly(path.parent, "another version of Tracejury or DuckDB wrote it, so that it has to be upgraded")


def seen_steps(connection: duckdb.DuckDBPyConnection, path: Path, catalog: str) -> set[int]:
    """Return the steps that the file has seen: none if it is new.

    Raises:
        ForeignFile: the tables are not ours.
        NewerFile: a newer version made them.
        OlderFile: a version before v0.1.0 made them.
    """
    newest_step = sql.migrations()[-1][0]
    tables = {name for (name,) in connection.execute(_TABLES, {"catalog": catalog}).fetchall()}
    if tables and MARK not in tables:
        msg = f"{path} is a DuckDB database of something else (tables: {', '.join(sorted(tables)[:5])})"
        raise ForeignFile(msg)
    if not tables:
        return set()
    seen = {version for (version,) in connection.execute(f"FROM {catalog}.{MARK} SELECT version").fetchall()}
    newest = max(seen, default=0)
    if newest > newest_step:
        msg = f"{path} has schema {newest}, this Tracejury knows {newest_step}: use the newer Tracejury that wrote it"
        raise NewerFile(msg)
    if seen:
        _refuse_older(seen, path)
    return seen


def _refuse_older(seen: set[int], path: Path) -> None:
    """Refuse a file whose tables are not at least those of v0.1.0."""
    replaced = {step for step in seen if step < FIRST_STEP}
    if FIRST_STEP not in seen or len(replaced) not in (0, _REPLACED_STEPS):
        msg = (
            f"{path} has the layout of a version before 0.1.0 (schema {max(seen)}): copy it, open it once with commit"
            f" {_MIGRATES_OLDER} (`tracejury serve`, then stop it), and start this version again"
        )
        raise OlderFile(msg)


def _has_log(path: Path) -> bool:
    # Make the views if an earlier process left a log: their commit makes DuckDB checkpoint a long one.
    return path.with_name(f"{path.name}.wal").exists()


def _has_views(connection: duckdb.DuckDBPyConnection, catalog: str) -> bool:
    # Making the views takes 40 ms and a commit, checking their marks 1 ms. A version that knows no marks removes them
    # when it makes a view anew, since the mark is the comment of the view.
    marks = dict(connection.execute(_VIEWS, {"catalog": catalog}).fetchall())
    return all(marks.get(name) == mark for name, mark in _view_marks().items())


def _make_views(connection: duckdb.DuckDBPyConnection) -> None:
    marks = _view_marks()
    for name, text in sql.views():
        connection.execute(text)
        connection.execute(f"COMMENT ON VIEW {name} IS '{marks[name]}'")


def _view_marks() -> dict[str, str]:
    texts = "\n".join([duckdb.__version__, *(text for _, text in sql.views())])
    mark = hashlib.sha256(texts.encode()).hexdigest()
    return {name: mark for name, _ in sql.views()}


def _one_by_one(connection: duckdb.DuckDBPyConnection, steps: list[Step], report: Report) -> None:
    """Migrate a file with spans; if killed at any moment, the next start continues with the remaining steps."""
    for done, step in enumerate(steps):
        name = f"schema step {step[0]} ({step[1]})"
        report(StartStep(name=name, done=partial(int, done), total=len(steps)))
        with logged(log, name), _transaction(connection):
            _apply(connection, [step])


@contextmanager
def _transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Commit all that is executed within, or nothing of it."""
    try:
        connection.begin()
        yield
        connection.commit()
    finally:
        roll_back(connection)


def _apply(connection: duckdb.DuckDBPyConnection, steps: list[Step]) -> None:
    for number, name, text in steps:
        connection.execute(text)
        connection.execute("INSERT INTO tracejury_schema VALUES (?, ?, now()::TIMESTAMP)", [number, name])
