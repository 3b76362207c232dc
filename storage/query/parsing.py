"""Parsing of a SELECT to a tree of one form, whichever DuckDB is installed; SELECTs with unknown nodes are refused."""

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import duckdb

from storage.engine.opening import IS_DUCKDB_2, open_duckdb
from storage.query.sql_allowlist import nodes_of

_OLDEST: Final = "v0.10.2"
"""The form of trees that the allow-lists read. DuckDB writes a tree in the form of any older version, and refuses to
write statements that the form cannot express, such as a DELETE in WITH or a join by NEAREST (DuckDB 2.0.1)."""
_NEWEST: Final = "latest"

_KINDS: Final = frozenset(
    """
    SELECT_NODE SET_OPERATION_NODE RECURSIVE_CTE_NODE CTE_NODE
    BASE_TABLE EMPTY EXPRESSION_LIST JOIN PIVOT SHOW_REF SUBQUERY TABLE_FUNCTION
    DISTINCT_MODIFIER LIMIT_MODIFIER LIMIT_PERCENT_MODIFIER LEGACY_LIMIT_PERCENT_MODIFIER ORDER_MODIFIER
    ASCENDING DESCENDING ORDER_DEFAULT
    BETWEEN CASE CAST COLLATE COLUMN_REF COMPARISON CONJUNCTION CONSTANT DEFAULT FUNCTION LAMBDA OPERATOR PARAMETER
    POSITIONAL_REFERENCE STAR TYPE WINDOW
    """.split()  # noqa: SIM905 - easier to read
)
"""Kinds of nodes that the allow-lists handle, be it by refusing them."""
_TYPE_INFO: Final = "_TYPE_INFO"  # end of the kinds of nodes that describe a type

_UNCOUNTED: Final = frozenset(
    "COLUMN_REF CONSTANT FUNCTION LIMIT_MODIFIER ORDER_MODIFIER TYPE list_value".split()  # noqa: SIM905
)
"""Nodes of which the newest form may have more than the oldest: there, types are nodes with constants, UNPIVOT has
columns, and a slice without an end has an empty list. Functions are compared by name instead."""


def tree_of(text: str) -> str:
    """Return the tree of one SELECT as JSON; "" for other texts, and for trees that the allow-lists could misread.

    Raises:
        BadQuery: the SELECT is nested too deeply.

    """
    oldest = _serialized(_OLDEST, text)
    if not oldest or not IS_DUCKDB_2:  # DuckDB 1.5 has one form; comparing two doubles the time of a long text
        return oldest
    newest = _serialized(_NEWEST, text)
    return oldest if newest and is_readable(oldest, newest) else ""


def is_readable(oldest: str, newest: str) -> bool:
    """Return True if all kinds of nodes are known, and the oldest form of a tree has all that the newest has."""
    nodes, all_nodes = nodes_of(oldest), nodes_of(newest)
    kinds = [kind for kind in map(_kind, nodes + all_nodes) if kind is not None]
    return (
        all(kind in _KINDS or kind.endswith(_TYPE_INFO) for kind in kinds)
        # If DuckDB left something out of the oldest form, instead of refusing, the allow-lists would not see it.
        and not _contents(all_nodes) - _contents(nodes)
    )


def _serialized(form: str, text: str) -> str:
    with _parser(form).cursor() as cursor:
        ((tree,),) = cursor.execute("SELECT json_serialize_sql($text::VARCHAR)", {"text": text}).fetchall()
    return str(tree) if tree.startswith('{"error":false') else ""


@functools.cache
def _parser(form: str) -> duckdb.DuckDBPyConnection:
    # One instance for each form, because the form is a setting of the whole instance.
    return open_duckdb({"threads": 1, "storage_compatibility_version": form, "enable_external_access": False})


def _kind(node: Mapping[str, Any]) -> str | None:
    kind = node.get("class") or node.get("type")
    return kind if isinstance(kind, str) else None  # a cast's `type` is a dict


def _contents(nodes: Sequence[Mapping[str, Any]]) -> Counter[str]:
    kinds = [str(kind) for kind in map(_kind, nodes) if kind in _KINDS]
    names = [str(node[field]) for node in nodes for field in ("function_name", "table_name") if field in node]
    return Counter(each for each in kinds + names if each not in _UNCOUNTED)
