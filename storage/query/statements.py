"""Checks of a client's statement before it runs: it only reads, and only data that it may read."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import duckdb

from storage import sql
from storage.errors import BadQuery
from storage.query.calls import refuse_calls
from storage.query.parsing import tree_of
from storage.query.plain import is_plain
from storage.query.relations import Relation, relations_of
from storage.query.sql_allowlist import nodes_of, require_views
from storage.query.sql_text import check_text

_READ_ONLY = {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN}

_EXPLAIN = (
    re.compile(r"\s*EXPLAIN(\s+ANALYZE)?\b", re.IGNORECASE),
    re.compile(r"\s*EXPLAIN(\s+ANALYZE)?\s*\([\w\s,]*\)", re.IGNORECASE),  # with options
)

Parameter: TypeAlias = str | float | bool | None
"""Type of a query's parameter; `float` includes `int`."""


class Statement(NamedTuple):
    """A statement that may be run, with the values of its parameters."""

    statement: duckdb.Statement
    parameters: Mapping[str, Parameter]
    apart: Sequence[Relation] | None = None  # relations it reads, if it runs in a child process; else None


def checked(
    cursor: duckdb.DuckDBPyConnection,
    statement: str,
    parameters: Mapping[str, Parameter],
    *,
    views_only: bool,
    is_ours: bool = False,
) -> Statement:
    """Check that a text is a single statement that only reads, and only relations that the caller may read.

    Raises:
        BadQuery: the text is not one allowed statement.

    """
    if not is_ours:
        check_text(statement)
    statements = cursor.extract_statements(statement)
    if len(statements) != 1 or statements[0].type not in _READ_ONLY:
        raise BadQuery("only one SELECT, WITH, FROM, DESCRIBE, SHOW or EXPLAIN statement is allowed here")
    if is_ours:
        return Statement(statement=statements[0], parameters=parameters)
    tree = _tree(statements[0])
    refuse_calls(tree)
    views = set(sql.documented_views())
    if views_only:
        require_views(tree, views, _names(cursor) - views)
    if is_plain(nodes_of(tree), parameters):
        return Statement(statement=statements[0], parameters=parameters)
    relations = relations_of(tree, _names(cursor), lambda nodes: is_plain(nodes, parameters))
    return Statement(statement=statements[0], parameters=parameters, apart=relations)


def _names(cursor: duckdb.DuckDBPyConnection) -> set[str]:
    return {name for (name,) in cursor.execute(sql.query("names_of_relations")).fetchall()}


def _tree(statement: duckdb.Statement) -> str:
    """Return the tree of a SELECT, or of the SELECT that an EXPLAIN contains, as JSON."""
    texts = [statement.query]
    if statement.type == duckdb.StatementType.EXPLAIN:
        matches = [pattern.match(statement.query) for pattern in _EXPLAIN]
        texts = [statement.query[match.end() :] for match in matches if match]
    for text in texts:
        if tree := tree_of(text):
            return tree
    msg = "this form of SELECT or EXPLAIN is not allowed here"
    raise BadQuery(msg)
