"""TIMESTAMP_NS as text in results of SQL, at any depth, because Python's times would lose the last three digits."""

import itertools
from collections.abc import Iterator

import duckdb
from duckdb.sqltypes import DuckDBPyType

_TIMESTAMP_NS = "TIMESTAMP_NS"


def with_texts(select: str, types: list[str]) -> str:
    """Return the SELECT with TIMESTAMP_NS values as RFC 3339, also inside arrays, structs and maps.

    Values inside a UNION stay as they are.

    """
    if not any(_TIMESTAMP_NS in each for each in types):
        return select
    names = (f"nested_{number}" for number in itertools.count())
    columns = [
        _text(f"#{position}", duckdb.sqltype(each), names) if _TIMESTAMP_NS in each else f"#{position}"
        for position, each in enumerate(types, 1)
    ]
    return f"SELECT {', '.join(columns)} FROM (\n{_without_end(select)}\n)"  # noqa: S608 - it can only read


def _without_end(select: str) -> str:
    """Return the text without final semicolons and comments after them, which a subquery does not allow.

    DuckDB's function `query(…)` accepts such a text, but not with parameters.

    """
    text = select.encode()
    end = len(text)
    for position, kind in reversed(duckdb.tokenize(select)):  # in bytes
        if kind == duckdb.token_type.comment:  # DuckDB 1.5 has no tokens of comments
            continue
        if text[position : position + 1] != b";":
            break
        end = position
    return text[:end].decode()


def _text(value: str, kind: DuckDBPyType, names: Iterator[str]) -> str:
    """Return an expression for the value with each TIMESTAMP_NS in it as text."""
    if str(kind) == _TIMESTAMP_NS:
        return f"replace({value}::VARCHAR, ' ', 'T') || 'Z'"
    if _TIMESTAMP_NS not in str(kind):
        return value
    children = [
        (name, child) for name, child in kind.children if isinstance(child, DuckDBPyType)
    ]  # not an array's size
    match kind.id:
        case "list" | "array":
            item = next(names)
            return f"list_transform({value}, lambda {item}: {_text(item, children[0][1], names)})"
        case "struct":
            fields = [
                f"{_name(name)} := {_text(f'struct_extract({value}, {_literal(name)})', child, names)}"
                for name, child in children
            ]
            return f"CASE WHEN {value} IS NOT NULL THEN struct_pack({', '.join(fields)}) END"
        case "map":
            pair = next(names)
            key, content = (_text(f"{pair}.{name}", child, names) for name, child in children)
            entry = f"lambda {pair}: struct_pack(key := {key}, value := {content})"
            return f"map_from_entries(list_transform(map_entries({value}), {entry}))"
        case _:
            return value


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
