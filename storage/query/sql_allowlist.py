"""Tables and views that a parsed SELECT names, for callers that may read views only."""

import json
from collections.abc import Collection
from typing import Any, Final

from storage.errors import BadQuery

_HARMLESS: Final = frozenset({"generate_series", "json_each", "json_tree", "range", "repeat", "repeat_row", "unnest"})
"""Table functions that read only their arguments; `query_table` or `duckdb_tables`, for example, read other tables."""


_CATALOG: Final = frozenset({"duckdb_columns", "duckdb_databases", "duckdb_schemas", "duckdb_tables", "duckdb_views"})
"""Catalog functions and views that a client of DuckDB's remote protocol uses to list tables."""

_OURS: Final = ("tracejury_", "quack_", "write_log")
"""Prefixes of functions with side effects in the DuckDB instance that answers queries of the catalog."""


def require_views(tree: str, views: Collection[str], others: Collection[str]) -> None:
    """Refuse a SELECT (a tree of `json_serialize_sql`) that reads anything but `views` and its own WITH queries.

    `others` are the names of all other tables and views. A WITH query must not have such a name, because outside of its
    scope the name would mean the table.

    Raises:
        BadQuery: the SELECT reads another relation or calls a table function.
    """
    nodes = nodes_of(tree)
    defined = {each["key"].lower() for node in nodes for each in node.get("cte_map", {}).get("map", [])}
    taken = sorted(defined & set(others))
    if taken:
        raise BadQuery(f"{taken[0]} is the name of a table; call what you define otherwise")
    for node in nodes:
        if "table_name" not in node and node.get("type") != "TABLE_FUNCTION":
            continue
        match node.get("type"):
            case "TABLE_FUNCTION":
                _require(node["function"]["function_name"].lower() in _HARMLESS, node["function"]["function_name"])
            case "BASE_TABLE":
                is_plain = not node.get("catalog_name") and node.get("schema_name", "").lower() in {"", "main"}
                _require(is_plain and node["table_name"].lower() in {*views, *defined}, node["table_name"])
            case "SHOW_REF":
                _require(not node["table_name"], node["table_name"])
            case _:  # a column that is qualified by its table
                pass


def reads_catalog_only(tree: str) -> bool:
    """Return True if a SELECT reads only the catalog, as SHOW TABLES does."""
    nodes = nodes_of(tree)
    shows = any(node.get("type") == "SHOW_REF" and node["query"] is None for node in nodes)
    called = [node["function_name"].lower() for node in nodes if node.get("class") == "FUNCTION"]
    read = _relations(nodes)
    return bool(
        (read or shows)
        and all(schema == "information_schema" or name in _CATALOG for schema, name in read)
        and not any(name.startswith(_OURS) for name in called if name not in _CATALOG)
    )


def reads_one_file(tree: str) -> bool:
    """Return True if a SELECT reads one Parquet file, once, and nothing else."""
    return _relations(nodes_of(tree)) == [("", "read_parquet")]


def _relations(nodes: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return schema and name of each table and function that is read from, in lower case."""
    return [
        (node.get("schema_name", "").lower(), (node.get("table_name") or node["function"]["function_name"]).lower())
        for node in nodes
        if node.get("type") in ("BASE_TABLE", "TABLE_FUNCTION")  # a cast's `type` is a dict
    ]


def _require(is_allowed: bool, name: str) -> None:  # noqa: FBT001 - a condition, as in an assertion
    if not is_allowed:
        raise BadQuery(f"only the documented views may be read here, by their plain names; {name} is not one of them")


def nodes_of(tree: str) -> list[dict[str, Any]]:
    """Return every object in the JSON of a SELECT, parents before children.

    Raises:
        BadQuery: the SELECT is nested too deeply.

    """
    try:
        pending = [json.loads(tree)]
    except RecursionError as error:
        raise BadQuery("this statement is nested too deeply: define parts of it in WITH") from error
    nodes: list[dict[str, Any]] = []
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            nodes.append(value)
            pending += reversed(value.values())
        elif isinstance(value, list):
            pending += reversed(value)
    return nodes
