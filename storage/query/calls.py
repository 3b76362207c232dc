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
"""Table functions that a query may use. Some others change the process (`enable_logging`, `checkpoint`), some crash it
(`pandas_scan(NULL)`, DuckDB 1.5.5), and some run a text in which such a call is hidden (`query`)."""

_WRITES: Final = frozenset(("nextval", "write_log"))

_INTERNAL: Final = frozenset((LAKE_CATALOG, "alone"))
"""The catalog of the lake and a schema in it. Clients must not name them; the server uses them if rows are cold."""

_FILES: Final = frozenset("csv gz json jsonl ndjson parquet tsv xlsx zst".split())  # noqa: SIM905
"""File extensions: DuckDB reads a table whose name ends with one as a file."""

_SETTINGS: Final = frozenset(("calendar", "max_memory", "memory_limit", "threads", "timezone"))
"""Settings that `current_setting` may return: others hold paths, such as the folders that may be read."""


def refuse_calls(tree: str) -> None:
    """Refuse a SELECT (a tree of `json_serialize_sql`) that does more than read, or reads settings with paths.

    A read-only transaction does not stop these calls.

    Raises:
        BadQuery: the SELECT calls a function that is not allowed, or names a file or a table of the lake.
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
    """Refuse the name of a file, because DuckDB may read files of the lake, and of a table in the lake's catalog."""
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
