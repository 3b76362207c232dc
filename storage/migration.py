"""The file brought to the schema of this version, step by step."""

import logging
from contextlib import nullcontext
from pathlib import Path
from typing import Final

import duckdb

from storage import sql, widening
from storage.errors import ForeignFile, NewerFile
from storage.work import told

log = logging.getLogger(__name__)

MARK: Final = "tracejury_schema"
"""The table that says which steps the file has seen."""

_TABLES: Final = "SELECT table_name FROM duckdb_tables() WHERE database_name = $catalog AND NOT internal"


def migrate(connection: duckdb.DuckDBPyConnection, path: Path, *, catalog: str) -> None:
    """Apply the schema steps that the file has not seen, each in a transaction with its record.

    Raises:
        ForeignFile: the tables are not ours.
        NewerFile: a newer version made them.
    """
    steps = sql.migrations()
    tables = {name for (name,) in connection.execute(_TABLES, {"catalog": catalog}).fetchall()}
    if tables and MARK not in tables:
        msg = f"{path} is a DuckDB database of something else (tables: {', '.join(sorted(tables)[:5])})"
        raise ForeignFile(msg)
    if not tables:
        connection.execute(f"CREATE TABLE {MARK} (version INTEGER NOT NULL, name VARCHAR, applied_at TIMESTAMP)")
    seen = {version for (version,) in connection.execute("SELECT version FROM tracejury_schema").fetchall()}
    newest = max(seen, default=0)
    if newest > steps[-1][0]:
        msg = f"{path} has schema {newest}, this Tracejury knows {steps[-1][0]}: use the newer Tracejury that wrote it"
        raise NewerFile(msg)
    for number, name, text in steps:
        if number not in seen:  # also one below the newest: steps are written side by side and may come in any order
            with told(log, f"schema step {number} ({name})") if seen else nullcontext():
                if number == widening.BEFORE_STEP:
                    widening.widen(connection)
                connection.begin()
                connection.execute(text)
                connection.execute("INSERT INTO tracejury_schema VALUES (?, ?, now()::TIMESTAMP)", [number, name])
                connection.commit()
    for _, text in sql.views():
        connection.execute(text)
