"""Checks of a client's SQL text before DuckDB parses it.

Costly syntax is checked even before DuckDB's lexer runs, because the lexer holds the GIL: a text for which it takes
quadratic time stops the whole process.
"""

import re
from typing import Final

import duckdb

from storage.errors import BadQuery
from storage.limit import Limit

MAX_BYTES: Final = 64 << 10

MAX_COMMENTS: Final = 100
"""Each comment costs the lexer time in proportion to the text. With 64 KiB, DuckDB 1.5.5 took 24 s for 16,384
comments."""

MAX_NESTING: Final = 100
"""Maximum depth of brackets and CASEs. A guess: DuckDB allows 1,000, but its planner and our checks are recursive."""

MAX_SET_OPERATIONS: Final = 200  # a guess: a union of all 17 views has 16

_MAX_OPERATOR: Final = 64
"""DuckDB's own limit for an operator; it reads a longer run of `+` and `-` again for each of its characters."""

_SIZE: Final = Limit(value=MAX_BYTES, unit="bytes", remedy="send long values as parameters")
_COMMENTS: Final = Limit(value=MAX_COMMENTS, unit="comments", remedy="use -- instead")
_NESTING: Final = Limit(value=MAX_NESTING, unit="levels", remedy="define parts of it in WITH")
_UNIONS: Final = Limit(value=MAX_SET_OPERATIONS, unit="set operations", remedy="make several statements of it")
_OPERATOR: Final = Limit(value=_MAX_OPERATOR, unit="characters", remedy="write spaces between them")

_OPERATORS: Final = re.compile(rf"[-+*/<>=~!@#%^&|`?]{{{_MAX_OPERATOR + 1},}}")
_RULED: Final = (frozenset("-"), frozenset("="), frozenset("#"), frozenset("*/"))
"""Characters of divider lines in comments, such as `-----`. DuckDB reads such a line as a comment, or refuses it as an
operator that is too long."""

_OPENING, _CLOSING = frozenset((b"(", b"[", b"{")), frozenset((b")", b"]", b"}"))
_WORD: Final = re.compile(rb"\w+")
_SET_OPERATIONS: Final = frozenset((b"UNION", b"INTERSECT", b"EXCEPT"))


def check_text(statement: str) -> None:
    """Refuse a text for which DuckDB's lexer or parser takes far more than linear time; the check itself is linear.

    Raises:
        BadQuery: the text is too long, or has too much of the costly syntax.
    """
    try:
        size = len(statement.encode())
    except UnicodeEncodeError as error:
        raise BadQuery("the SQL text holds half a surrogate pair, which is not a character") from error
    if size > MAX_BYTES:
        raise BadQuery(f"the SQL text has {size:,} bytes, which is more than {_SIZE}")
    comments = statement.count("/*")
    if comments > MAX_COMMENTS:
        raise BadQuery(f"the SQL text has /* {comments:,} times, which is more than {_COMMENTS}")
    for run in _OPERATORS.finditer(statement):
        if not any(ruled >= set(run[0]) for ruled in _RULED):
            raise BadQuery(f"the SQL text has {len(run[0]):,} operator characters in a row, more than {_OPERATOR}")
    _check_tokens(statement)


def _check_tokens(statement: str) -> None:
    """Check nesting and set operations by DuckDB's own tokens, which leave out comments."""
    try:
        tokens = duckdb.tokenize(statement)
    except (duckdb.Error, RuntimeError) as error:
        raise BadQuery(str(error)) from error
    text = statement.encode()
    depth = set_operations = 0
    for place, kind in tokens:
        first = text[place : place + 1]
        if kind == duckdb.token_type.keyword:
            word = _WORD.match(text, place)
            name = word[0].upper() if word else b""
            depth += (name == b"CASE") - (name == b"END")
            set_operations += name in _SET_OPERATIONS
        elif kind == duckdb.token_type.operator:
            depth += (first in _OPENING) - (first in _CLOSING)
        if depth > MAX_NESTING:
            raise BadQuery(f"the SQL text is nested deeper than {_NESTING}")
    if set_operations > MAX_SET_OPERATIONS:
        raise BadQuery(f"the SQL text has {set_operations} set operations, which is more than {_UNIONS}")
