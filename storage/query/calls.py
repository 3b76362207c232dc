"""Table functions that a SELECT may use, and settings that it may read."""

from typing import Any, Final

from storage.engine.database import LAKE_CATALOG
from storage.errors import BadQuery
from storage.query.sql_allowlist import nodes_of

_SOURCES: Final = frozenset(
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

_WRITES: Final = frozenset(("nextval", "write_log"))

_INTERNAL: Final = frozenset((LAKE_CATALOG, "alone"))
"""The catalog and a schema of the lake, which the server reads where a statement needs its rows."""

_FILES: Final = frozenset("csv gz json jsonl ndjson parquet tsv xlsx zst".split())  # noqa: SIM905
"""Ends of names that DuckDB takes as those of files."""

_SETTINGS: Final = frozenset(("calendar", "max_memory", "memory_limit", "threads", "timezone"))
"""Settings that `current_setting` may return: others hold paths, such as the folders that may be read."""


def refuse_calls(tree: str) -> None:
    """Refuse a SELECT (a tree of `json_serialize_sql`) that does more than read, or reads settings with paths.

    A read-only transaction does not stop these calls.

    Raises:
        BadQuery: the SELECT calls such a function, or names a table of the lake.
    """
    for node in nodes_of(tree):
        if (writes := str(node.get("function_name")).lower()) in _WRITES:
            raise BadQuery(f"the function {writes} is not allowed here: it writes")
        if node.get("type") == "TABLE_FUNCTION":
            name = node["function"]["function_name"].lower()
            if name not in _SOURCES:
                raise BadQuery(f"the function {name} is not allowed here")
        if node.get("type") == "BASE_TABLE":
            _refuse_places(node)
        if str(node.get("function_name")).lower() == "current_setting" and not _tells_no_path(node):
            raise BadQuery(f"current_setting tells {', '.join(sorted(_SETTINGS))} here, by their names as constants")


def _refuse_places(node: dict[str, Any]) -> None:
    """Refuse a table that is a file, which DuckDB may read where the lake is, or a table of the lake's own."""
    *before, table = (str(node.get(part) or "").lower() for part in ("catalog_name", "schema_name", "table_name"))
    is_file = any(mark in part for part in (*before, table) for mark in "./\\")
    if is_file or (any(before) and table in _FILES):  # "/lake/part".parquet is a file too
        raise BadQuery(f"{table} is not a table; files cannot be read here")
    if _INTERNAL & {*before}:
        raise BadQuery("name tables without a catalog: rows in the lake are read with those of the database")


def _tells_no_path(node: dict[str, Any]) -> bool:
    (argument, *more) = node["children"] or [{}]
    is_text = argument.get("class") == "CONSTANT" and not argument["value"]["is_null"]
    return is_text and not more and str(argument["value"].get("value")).lower() in _SETTINGS
