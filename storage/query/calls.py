"""Calls in a parsed SELECT that do more than read, that break DuckDB, or that nobody can stop.

Most functions are harmless. What stands here was found by `tests/test_nasty_calls.py`, which calls every function with
arguments that nobody means well with; DuckDB 1.5.5 is what it was found in.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from storage.errors import BadQuery
from storage.query.sql_allowlist import nodes_of

_Node: TypeAlias = dict[str, Any]
_Fits: TypeAlias = Callable[[Sequence[_Node]], bool]

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

MOST: Final = 1_000_000
"""How much one call may make of nothing: elements of a list, or characters. A guess: 8 MB of numbers."""

_LONG: Final = re.compile(r"\d{7}|%[^a-zA-Z%]*\*|\{[^{}]*:[^{}]*\{")
"""A width in a format that is longer than MOST, or that is computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Guard:
    fits: _Fits  # whether a call with such arguments may be made
    why: str  # it may not


def _never(_: Sequence[_Node]) -> bool:
    return False


def _is_constant(node: _Node) -> bool:
    """Whether a value stands there as it is, and is none of NULL; or a parameter, which has no type of its own."""
    if node.get("class") == "FUNCTION" and node.get("function_name") == "list_value":
        return all(map(_is_constant, node["children"])) and bool(node["children"])
    if node.get("class") == "CAST" and not node["try_cast"]:
        node = node["child"] if node["child"].get("class") == "CONSTANT" else {}
    is_value = node.get("class") == "CONSTANT" and not node["value"]["is_null"]
    return is_value or node.get("class") == "PARAMETER"


def _constant(place: int) -> _Fits:
    """The argument at this place is a constant, or there is none."""
    return lambda arguments: all(map(_is_constant, arguments[place : place + 1]))


def _is_small(node: _Node) -> bool:
    value = node["value"]["value"] if node.get("class") == "CONSTANT" and not node["value"]["is_null"] else None
    return isinstance(value, int) and -MOST <= value <= MOST


def _small(first: int, last: int | None = None) -> _Fits:
    """The arguments from one place to another are whole numbers that are written out, and none is large."""
    return lambda arguments: all(map(_is_small, arguments[first:last]))


def _written(place: int, unwanted: re.Pattern[str]) -> _Fits:
    """The argument at this place is a text that is written out, in which this does not occur, or there is none."""
    return lambda arguments: all(
        node.get("class") == "CONSTANT" and not unwanted.search(str(node["value"].get("value")))
        for node in arguments[place : place + 1]
    )


_SERIES: Final = _Guard(
    fits=_small(0),
    why=f"makes a list in one step that nothing stops: write out whole numbers up to {MOST:,}, or read FROM it instead",
)
_QUANTILE: Final = _Guard(fits=_constant(1), why="breaks DuckDB where its fractions are NULL: write them as constants")
_PART: Final = _Guard(fits=_constant(0), why="breaks DuckDB where the part is computed: write it as a constant")
_LONG_TEXT: Final = _Guard(
    fits=_small(1, 2), why=f"makes a text or list in one step that nothing stops: write its length out, up to {MOST:,}"
)
_OFFSET: Final = _Guard(
    fits=_small(1, 2), why=f"kills the process at some offsets: write the offset out, between -{MOST:,} and {MOST:,}"
)
_FORMAT: Final = _Guard(
    fits=_written(0, _LONG),
    why="makes a text of any length in one step: write out a format with widths of six digits at most",
)
_DISTANCE: Final = _Guard(
    fits=_never, why="takes hours for two long texts, and nothing stops it; ask jaccard, which takes no time"
)
_ARRAY: Final = _Guard(fits=_never, why="breaks DuckDB where one of the numbers is NULL: ask its namesake of lists")
_OF_ARRAYS: Final = (
    *("array_cosine_distance", "array_cosine_similarity", "array_cross_product", "array_distance", "array_dot_product"),
    *("array_inner_product", "array_negative_dot_product", "array_negative_inner_product"),
)
_VARIANT: Final = _Guard(fits=_never, why="makes a VARIANT, at which DuckDB breaks: use JSON instead")

_RULES: Final = {
    "reservoir_quantile": _Guard(fits=_never, why="breaks DuckDB where a fraction is missing: use quantile_cont"),
    "quantile": _QUANTILE,
    "quantile_cont": _QUANTILE,
    "quantile_disc": _QUANTILE,
    "approx_quantile": _QUANTILE,
    **dict.fromkeys(_OF_ARRAYS, _ARRAY),
    "datepart": _PART,
    "date_part": _PART,
    "regexp_extract": _Guard(fits=_constant(2), why="breaks DuckDB where its names are NULL: write them as constants"),
    "is_histogram_other_bin": _Guard(fits=_never, why="breaks DuckDB with some types: compare the bins"),
    "switch": _Guard(fits=_never, why="breaks DuckDB with some types: use CASE"),
    "lag": _OFFSET,
    "lead": _OFFSET,
    "range": _SERIES,
    "generate_series": _SERIES,
    "repeat": _LONG_TEXT,
    "lpad": _LONG_TEXT,
    "rpad": _LONG_TEXT,
    "list_resize": _LONG_TEXT,
    "array_resize": _LONG_TEXT,
    "bitstring": _LONG_TEXT,
    "format": _FORMAT,
    "printf": _FORMAT,
    "levenshtein": _DISTANCE,
    "editdist3": _DISTANCE,
    "damerau_levenshtein": _DISTANCE,
    "variant_bytes_to_variant": _VARIANT,
    "write_log": _Guard(fits=_never, why="writes"),
}
"""By the function. Each is a call that the tests found, and the arguments with which it is none."""

_NO_VARIANT: Final = _Guard(
    fits=_written(1, re.compile("variant", re.IGNORECASE)),
    why="takes its structure as a constant here, and makes no VARIANT, at which DuckDB breaks",
)
_STRUCTURED: Final = ("from_json", "from_json_strict", "json_transform", "json_transform_strict")


def refuse_calls(tree: str) -> None:
    """Refuse a SELECT, as `json_serialize_sql` tells it, that calls what has effects, or what DuckDB does not survive.

    A transaction that cannot write stops neither.

    Raises:
        BadQuery: there is such a call.
    """
    nodes = nodes_of(tree)
    sources = [node["function"] for node in nodes if node.get("type") == "TABLE_FUNCTION"]
    for source in sources:
        name = source["function_name"].lower()
        if name not in _SOURCES:
            raise BadQuery(f"the function {name} is not allowed here")
    read = set(map(id, sources))
    for name, arguments in _calls([node for node in nodes if id(node) not in read]):
        rule = _NO_VARIANT if name in _STRUCTURED else _RULES.get(name)
        if rule is not None and not rule.fits(arguments):
            raise BadQuery(f"the function {name} is not allowed here like this: it {rule.why}")
    if any(node.get("id") == "VARIANT" for node in nodes):
        raise BadQuery("the type VARIANT is not allowed here: it breaks DuckDB in some questions; use JSON instead")


def _calls(nodes: Sequence[_Node]) -> Iterator[tuple[str, Sequence[_Node]]]:
    for node in nodes:
        if "function_name" in node:
            name = node["function_name"].lower()
            arguments = [*(node.get("children") or ()), *filter(None, [node.get("offset_expr")])]
            is_ordered = name.startswith("quantile") and len(arguments) == 1  # WITHIN GROUP, where the fraction is all
            yield name, [{}, *arguments] if is_ordered else arguments
