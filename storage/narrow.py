"""Questions about spans that ask nothing of what the spans mean, and how these are spared the join with it.

The view `spans` joins each span with its reading. DuckDB does that join whoever asks for what, and it takes memory for
each span that is stored: to count ten million, more than questions may have. So a question that surely needs no
reading is asked of a temporary view of the same name without the join.
"""

import functools
import json
import re
from typing import Any, Final, NamedTuple

from storage import sql
from storage.named import nodes_of

_VIEW: Final = "spans"
_FIRST_READ, _LAST = "    m.span_type,\n", "    s.seq\n"
_JOIN: Final = "LEFT JOIN reading AS m ON m.seq = s.seq AND m.seq >= 0"
_COLUMN: Final = re.compile(r"^    (?:\S.*? AS (\w+)|\w\.(\w+)),?$", re.MULTILINE)
_OF_ALL: Final = frozenset({"STAR", "POSITIONAL_REFERENCE"})
"""Expressions that name columns without their names."""


class _View(NamedTuple):
    statement: str
    columns: frozenset[str]
    others: frozenset[str]  # that it lacks


def narrow_view(tree: str) -> str | None:
    """The statement that makes the view for a SELECT, as `json_serialize_sql` tells it; None where it may need more."""
    if f'"{_VIEW}"' not in tree.lower():
        return None
    return _view().statement if _is_narrow(list(nodes_of(json.loads(tree)))) else None


@functools.cache
def _view() -> _View:
    came, first, rest = sql.select_of(_VIEW).partition(_FIRST_READ)
    read, last, source = (first + rest).rpartition(_LAST)
    statement = f"CREATE TEMP VIEW {_VIEW} AS\n{came}{last}{source.replace(_JOIN, '')}"
    return _View(statement, _columns(came + last), _columns(read))


def _columns(select: str) -> frozenset[str]:
    return frozenset(named or plain for named, plain in _COLUMN.findall(select))


def _is_narrow(nodes: list[dict[str, Any]]) -> bool:
    """Whether every column is surely one of the span alone, or one that the SELECT itself gives its name."""
    expressions = [node for node in nodes if "class" in node]
    others = [node for node in nodes if "class" not in node]
    if any(node["class"] in _OF_ALL for node in expressions):
        return False
    if any(node.get("type") in ("PIVOT", "SHOW_REF") or node.get("ref_type") == "NATURAL" for node in others):
        return False
    relations = {str(node.get(key) or "").lower() for node in others for key in ("alias", "table_name")}
    named = {str(node.get("alias") or "").lower() for node in expressions} - _view().others
    asked = {name.lower() for node in others for name in node.get("using_columns") or ()} | {
        node["column_names"][-1].lower() for node in expressions if node["class"] == "COLUMN_REF"
    }
    return asked <= (_view().columns | named) - relations
