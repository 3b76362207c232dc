"""One statement of somebody else, looked at before it is run: whether it only reads, and what it may."""

import re
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import duckdb

from storage import sql
from storage.errors import BadQuery
from storage.query.calls import refuse_calls
from storage.query.sql_allowlist import require_views
from storage.query.sql_text import check_text

_READ_ONLY = {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN}

_EXPLAIN = (
    re.compile(r"\s*EXPLAIN(\s+ANALYZE)?\b", re.IGNORECASE),
    re.compile(r"\s*EXPLAIN(\s+ANALYZE)?\s*\([\w\s,]*\)", re.IGNORECASE),  # with options
)

Parameter: TypeAlias = str | float | bool | None
"""What a parameter of a query can be; an int is a float here."""


class Statement(NamedTuple):
    """A statement that may be run, and what its parameters stand for."""

    statement: duckdb.Statement
    parameters: Mapping[str, Parameter]


def checked(
    cursor: duckdb.DuckDBPyConnection, statement: str, parameters: Mapping[str, Parameter], *, views_only: bool
) -> Statement:
    """The one statement, if it reads and has no effects, and reads what it may.

    Raises:
        BadQuery: it may not be asked.
    """
    check_text(statement)
    statements = cursor.extract_statements(statement)
    if len(statements) != 1 or statements[0].type not in _READ_ONLY:
        raise BadQuery("only one SELECT, WITH, FROM, DESCRIBE, SHOW or EXPLAIN statement is allowed here")
    tree = _tree(cursor, statements[0])
    refuse_calls(tree)
    if views_only:
        _require_views(cursor, tree)
    return Statement(statement=statements[0], parameters=parameters)


def _require_views(cursor: duckdb.DuckDBPyConnection, tree: str) -> None:
    """Refuse what reads anything but our views.

    Raises:
        BadQuery: it does.
    """
    names = cursor.execute(sql.query("names_of_relations")).fetchall()
    views = set(sql.documented_views())
    require_views(tree, views, {name for (name,) in names} - views)


def _tree(cursor: duckdb.DuckDBPyConnection, statement: duckdb.Statement) -> str:
    """The parsed SELECT as JSON; of an EXPLAIN the SELECT inside.

    Raises:
        BadQuery: the statement cannot be looked into.
    """
    texts = [statement.query]
    if statement.type == duckdb.StatementType.EXPLAIN:
        matches = [pattern.match(statement.query) for pattern in _EXPLAIN]
        texts = [statement.query[match.end() :] for match in matches if match]
    for text in texts:
        ((tree,),) = cursor.execute("SELECT json_serialize_sql($text::VARCHAR)", {"text": text}).fetchall()
        if tree.startswith('{"error":false'):
            return str(tree)
    msg = "this form of SELECT or EXPLAIN is not allowed here"
    raise BadQuery(msg)
