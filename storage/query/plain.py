"""Which SELECTs run in the server's own process: those whose every part is known to be bounded between two interrupts.

DuckDB looks at interrupts and at its memory limit between vectors of 2,048 rows. What makes much of little within one
vector (texts, lists, lambdas, searches with two variable sides) escapes both. All that is not listed here runs in a
process that can be killed (`apart.py`), so a function of a newer DuckDB is no danger.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

_Node: TypeAlias = dict[str, Any]
_Values: TypeAlias = Mapping[str, object]

_FORMS: Final = frozenset(
    """
    SELECT_NODE SET_OPERATION_NODE BASE_TABLE TABLE_FUNCTION JOIN SUBQUERY EMPTY EXPRESSION_LIST SHOW_REF
    ORDER_MODIFIER LIMIT_MODIFIER DISTINCT_MODIFIER
    ASCENDING DESCENDING ORDER_DEFAULT
    """.split()  # noqa: SIM905 - easier to read
)
"""Parts of a statement that are no expressions."""

_CLASSES: Final = frozenset(
    """
    BETWEEN CASE CAST COLUMN_REF COMPARISON CONJUNCTION CONSTANT FUNCTION OPERATOR PARAMETER POSITIONAL_REFERENCE STAR
    SUBQUERY WINDOW
    """.split()  # noqa: SIM905 - easier to read
)
_OPERATORS: Final = frozenset(
    """
    ARRAY_EXTRACT STRUCT_EXTRACT COMPARE_IN COMPARE_NOT_IN OPERATOR_COALESCE OPERATOR_IS_NULL OPERATOR_IS_NOT_NULL
    OPERATOR_NOT OPERATOR_NULLIF GROUPING_FUNCTION
    """.split()  # noqa: SIM905 - easier to read
)
_WINDOWS: Final = frozenset(
    """
    WINDOW_AGGREGATE WINDOW_RANK WINDOW_RANK_DENSE WINDOW_PERCENT_RANK WINDOW_CUME_DIST WINDOW_ROW_NUMBER
    WINDOW_FIRST_VALUE WINDOW_LAST_VALUE
    """.split()  # noqa: SIM905 - easier to read
)
_OVER_FRAMES: Final = frozenset(("avg", "count", "count_star", "max", "min", "sum"))

_TYPES: Final = frozenset(
    """
    BOOLEAN TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT UHUGEINT FLOAT DOUBLE DECIMAL
    DATE TIME TIMESTAMP TIMESTAMP_S TIMESTAMP_MS TIMESTAMP_NS INTERVAL VARCHAR JSON UUID
    """.split()  # noqa: SIM905 - easier to read
) | {"TIMESTAMP WITH TIME ZONE"}
"""That a value may be cast to: none of them is much longer than what it is made of."""

_SOURCES: Final = frozenset(
    """
    duckdb_columns duckdb_functions duckdb_keywords duckdb_schemas duckdb_tables duckdb_types duckdb_views
    generate_series json_each pragma_show pragma_table_info pragma_version range unnest
    """.split()  # noqa: SIM905 - easier to read
)
"""Functions that may be read FROM. The rest of the catalog tells paths."""

_NUMBERS: Final = """
    + - * / // % ** ^ & | << >> @ abs acos asin atan atan2 bit_count cbrt ceil ceiling cos cot degrees even exp
    floor fmod gamma gcd greatest greatest_common_divisor isfinite isinf isnan lcm least ln log log10 log2 mod nextafter
    pi pow power radians random round sign signbit sin sqrt tan trunc xor
    add subtract multiply divide
"""
_TIMES: Final = """
    age century current_date current_timestamp date_add date_diff date_sub date_trunc datediff datesub datetrunc day
    dayname dayofmonth dayofweek dayofyear decade epoch epoch_ms epoch_ns epoch_us era get_current_timestamp hour isodow
    isoyear julian last_day make_date make_timestamp make_timestamp_ms make_timestamp_ns microsecond millennium
    millisecond minute month monthname now quarter second strftime time_bucket timezone to_centuries to_days to_decades
    to_hours to_microseconds to_milliseconds to_minutes to_months to_quarters to_seconds to_timestamp to_weeks to_years
    today transaction_timestamp week weekday weekofyear year yearweek
"""
_LOOKS: Final = """
    ascii array_contains array_extract array_has array_length cardinality current_database current_schema element_at
    error hash ifnull json_array_length json_exists json_type json_valid len length list_contains list_extract list_has
    map_contains map_extract map_extract_value map_keys map_values md5 strlen struct_extract typeof unnest version
"""
_AGGREGATES: Final = """
    any_value approx_count_distinct arbitrary avg bit_and bit_or bit_xor bool_and bool_or corr count count_if count_star
    countif covar_pop covar_samp favg first fsum kahan_sum kurtosis last max mean min product regr_avgx regr_avgy
    regr_count regr_intercept regr_r2 regr_slope skewness stddev stddev_pop stddev_samp sum sumkahan sum_no_overflow
    var_pop var_samp variance arg_max arg_min argmax argmin max_by min_by approx_quantile
"""
_FREE: Final = frozenset((_NUMBERS + _TIMES + _LOOKS + _AGGREGATES).split())
"""With any arguments: what comes out is of a fixed size, or a part of what goes in."""

_FEW_ARGUMENTS: Final = {
    "max": 1,
    "min": 1,
    **dict.fromkeys(("arg_max", "arg_min", "argmax", "argmin", "max_by", "min_by"), 2),
}
"""With one more they make a list of so many."""

_MAKES_TEXT: Final = frozenset(
    """
    ->> || json_extract json_extract_path_text json_extract_string lcase left lower ltrim right rtrim substr
    substring trim ucase upper
    """.split()  # noqa: SIM905 - easier to read
)
_MAX_TEXTS: Final = 8
"""Texts of a vector that DuckDB's limit does not count may be alive at one time: 3 MB each with texts of 1.5 kB."""
_MAX_JOINED: Final = 3
"""Each `||` may double what the one before made, so these make eight times as much."""

_CONSTANT: Final = {
    "approx_quantile": 1,
    "date_part": 0,
    "datepart": 0,
    "strftime": 1,
    "contains": 1,
    "ends_with": 1,
    "prefix": 1,
    "starts_with": 1,
    "suffix": 1,
}
"""Which argument has to be written out: DuckDB breaks with a computed one, or needs the product of both lengths."""
_MAX_CONSTANT: Final = 200  # characters

_LIKE: Final = frozenset(("~~", "!~~", "~~*", "!~~*"))
_MAX_WILDCARDS: Final = 2
"""Each further `%` multiplies the time by the length of the text."""

_MAX_NODES: Final = 5_000  # of the tree, which is some 600 expressions; a guess
_MAX_TABLES: Final = 32  # a guess: the planner tries orders of joins
_MAX_COPIES: Final = 16  # of a part of a plan; a guess


def is_plain(nodes: Sequence[_Node], parameters: _Values) -> bool:
    """Whether a SELECT, as the nodes of its tree, is bounded between any two interrupts."""
    if len(nodes) > _MAX_NODES:
        return False
    sources = {id(node["function"]) for node in nodes if node.get("type") == "TABLE_FUNCTION"}
    made: Counter[str] = Counter()
    for node in nodes:
        if id(node) in sources:
            if node["function_name"].lower() not in _SOURCES or _is_qualified(node):
                return False
        elif not (_is_expression(node, parameters, made) if "class" in node else _is_form(node, made)):
            return False
    texts = sum(made[name] for name in _MAKES_TEXT)
    return (
        texts <= _MAX_TEXTS
        and made["||"] <= _MAX_JOINED
        and made["BASE_TABLE"] <= _MAX_TABLES
        and _copies(nodes) <= _MAX_COPIES
    )


def _copies(nodes: Sequence[_Node]) -> int:
    """Bound the copies in the plan of a part that WITH defines, if each part reads the others as often as it can."""
    defined = {each["key"].lower() for node in nodes for each in node.get("cte_map", {}).get("map", [])}
    read = Counter(node["table_name"].lower() for node in nodes if node.get("type") == "BASE_TABLE")
    return math.prod(max(1, read[name]) for name in defined)


def _is_form(node: _Node, made: Counter[str]) -> bool:
    """Whether a part that is no expression is known. A type, and what has none, belongs to a part that is checked."""
    kind = node.get("type")
    if isinstance(kind, str) and kind not in _FORMS:
        return kind.endswith("_TYPE_INFO")  # of a cast or a constant
    made[str(kind)] += 1
    return node.get("sample") is None and len(node.get("group_sets") or ()) <= _MAX_COPIES


def _is_expression(node: _Node, values: _Values, made: Counter[str]) -> bool:
    match node["class"]:
        case "OPERATOR":
            return node["type"] in _OPERATORS
        case "CAST":
            return _is_short(node["cast_type"])
        case "FUNCTION":
            return _is_call(node, values, made)
        case "WINDOW":
            return _is_window(node)
        case "STAR":
            return not node.get("expr")  # COLUMNS with a lambda or a pattern
        case name:
            return name in _CLASSES


def _is_short(kind: _Node) -> bool:
    """Whether values of a type are not much longer than what they are made of."""
    info = kind["type_info"] or {}
    is_json = kind["id"] == "UNBOUND" and info.get("name", "").upper() == "JSON" and not _is_qualified(info)
    return kind["id"] in _TYPES or is_json


def _is_call(node: _Node, values: _Values, made: Counter[str]) -> bool:
    name, arguments = node["function_name"].lower(), node["children"]
    made[name] += 1
    if _is_qualified(node) or node["order_bys"]["orders"]:
        return False
    if name in _LIKE:
        pattern = _constant(arguments[1], values)
        return isinstance(pattern, str) and "_" not in pattern and pattern.count("%") <= _MAX_WILDCARDS
    if name in _CONSTANT:
        value = _constant(arguments[_CONSTANT[name]], values) if len(arguments) > _CONSTANT[name] else None
        return value is not None and len(str(value)) <= _MAX_CONSTANT
    if len(arguments) > _FEW_ARGUMENTS.get(name, len(arguments)):
        return False
    return name in _FREE or name in _MAKES_TEXT


def _is_window(node: _Node) -> bool:
    is_known = node["type"] in _WINDOWS and (
        node["type"] != "WINDOW_AGGREGATE" or node["function_name"].lower() in _OVER_FRAMES
    )
    return (
        is_known
        and not _is_qualified(node)
        and not node.get("distinct")
        and not node.get("arg_orders")
        and node.get("exclude_clause", "NO_OTHER") == "NO_OTHER"
    )


def _is_qualified(node: _Node) -> bool:
    return bool(node.get("schema") or node.get("catalog"))


def _constant(node: _Node, values: _Values) -> object:
    """A value that is written out, or the value of a parameter; None if there is none."""
    if node.get("class") == "CAST" and not node["try_cast"]:
        node = node["child"]
    if node.get("class") == "PARAMETER":
        return values.get(node["identifier"])
    if node.get("class") == "CONSTANT" and not node["value"]["is_null"]:
        return node["value"].get("value")
    return None
