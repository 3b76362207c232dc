"""SELECTs that run in the server's own process: every part is known to be bounded between two interrupts.

DuckDB checks for interrupts and its memory limit between vectors of 2,048 rows. Expressions that need much time or
memory for small inputs (texts, lists, lambdas, searches with two variable sides) can escape both checks within one
vector. A SELECT with anything that is not listed here runs in a process that can be killed (`query_process`). So a
function that a newer DuckDB adds is not a danger.
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
"""Parts of a statement that are not expressions."""

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
    DATE TIME TIMESTAMP TIMESTAMP_S TIMESTAMP_MS TIMESTAMP_NS INTERVAL UUID
    """.split()  # noqa: SIM905 - easier to read
) | {"TIMESTAMP WITH TIME ZONE"}
"""Types that a value may be cast to. Literals may be cast to a text or JSON as well."""

_SOURCES: Final = frozenset(
    """
    duckdb_columns duckdb_functions duckdb_keywords duckdb_schemas duckdb_tables duckdb_types duckdb_views
    generate_series pragma_show pragma_table_info pragma_version range unnest
    """.split()  # noqa: SIM905 - easier to read
)
"""Functions that may be read FROM. The rest of the catalog reveals paths."""

_NUMBERS: Final = """
    + - * / // % ** ^ & | << >> @ abs acos asin atan atan2 bit_count cbrt ceil ceiling cos cot degrees even exp
    floor fmod gamma gcd greatest_common_divisor isfinite isinf isnan lcm ln log log10 log2 mod nextafter
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
    array_extract array_length cardinality current_database current_schema element_at error ifnull list_extract
    map_extract map_extract_value map_keys map_values strlen struct_extract typeof unnest version
"""
_AGGREGATES: Final = """
    any_value approx_count_distinct arbitrary avg bit_and bit_or bit_xor bool_and bool_or corr count count_if count_star
    countif covar_pop covar_samp favg first fsum kahan_sum kurtosis last max mean min product regr_avgx regr_avgy
    regr_count regr_intercept regr_r2 regr_slope skewness stddev stddev_pop stddev_samp sum sumkahan sum_no_overflow
    var_pop var_samp variance arg_max arg_min argmax argmin max_by min_by approx_quantile
"""
_FREE: Final = frozenset((_NUMBERS + _TIMES + _LOOKS + _AGGREGATES).split())
"""Functions that are bounded with any arguments: their result is of a fixed size, or a part of their input."""

_FEW_ARGUMENTS: Final = {
    "max": 1,
    "min": 1,
    **dict.fromkeys(("arg_max", "arg_min", "argmax", "argmin", "max_by", "min_by"), 2),
}
"""Functions that return a list if they have one argument more than this number."""

_SCANS: Final = frozenset(
    """
    array_contains array_has ascii hash len length list_contains list_has map_contains md5
    left right substr substring contains ends_with prefix starts_with suffix ~~ !~~ ~~* !~~*
    """.split()  # noqa: SIM905 - easier to read
)
"""Functions that read whole texts. All texts in one vector of a table fit into DuckDB's memory. But a join can repeat a
text of 4 MB in each of the 2,048 rows of a vector, and 8 GB are then read without a check."""
_UNREPEATED: Final = frozenset(("spans", "logs", "tool_calls", "traces", "sessions", "annotations"))
"""Views without a join that repeats texts: each text belongs to one row."""
_REPEATING: Final = frozenset(("JOIN", "TABLE_FUNCTION", "WINDOW", "SUBQUERY_EXPRESSION", "unnest", "OTHER_TABLE"))
_NEEDS_ALL_PAIRS: Final = frozenset(("COMPARE_NOTEQUAL", "COMPARE_DISTINCT_FROM", "COMPARE_NOT_DISTINCT_FROM"))
"""Between two vectors a join by one of these compares 4 million pairs: 48 s with texts of 100 kB that are the same."""

_PARTS: Final = frozenset(("left", "right", "substr", "substring"))
_MAX_PART: Final = 1_000  # characters, which are 8 MB of a vector
_MAX_PARTS: Final = 8
_FROM: Final = 2  # arguments that substr has without a length

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
"""Position of the argument that must be a literal or a parameter. With a computed one DuckDB fails, or needs time in
proportion to the product of both lengths."""
_MAX_CONSTANT: Final = 200  # characters
_MAX_ILIKE: Final = 12
"""ILIKE compares all of its pattern at each place: 27 s for 200 MB and 150 characters that nearly fit."""

_LIKE: Final = frozenset(("~~", "!~~", "~~*", "!~~*"))
_MAX_WILDCARDS: Final = 2
"""Each further `%` multiplies the time by the length of the text."""

_MAX_NODES: Final = 5_000  # nodes of the tree: some 600 expressions; a guess
_MAX_TABLES: Final = 32  # a guess: the planner tries orders of joins
_MAX_COPIES: Final = 16  # copies of a part of a plan; a guess


def is_plain(nodes: Sequence[_Node], parameters: _Values) -> bool:
    """Return True if the work of a SELECT, given as its nodes, is bounded between any two interrupts."""
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
    repeats = any(made[each] for each in _REPEATING) or made["BASE_TABLE"] > 1
    return (
        not (repeats and (any(made[name] for name in _SCANS) or made["all pairs"]))
        and sum(made[name] for name in _PARTS) <= _MAX_PARTS
        and made["BASE_TABLE"] <= _MAX_TABLES
        and _copies(nodes) <= _MAX_COPIES
    )


def _copies(nodes: Sequence[_Node]) -> int:
    defined = {each["key"].lower() for node in nodes for each in node.get("cte_map", {}).get("map", [])}
    read = Counter(node["table_name"].lower() for node in nodes if node.get("type") == "BASE_TABLE")
    return math.prod(max(1, read[name]) for name in defined)


def _is_form(node: _Node, made: Counter[str]) -> bool:
    """Return True if a node that is not an expression is on the list; types are checked with their nodes."""
    kind = node.get("type")
    if isinstance(kind, str) and kind not in _FORMS:
        return kind.endswith("_TYPE_INFO")  # of a cast or a constant
    made[str(kind)] += 1
    made["OTHER_TABLE"] += kind == "BASE_TABLE" and node["table_name"].lower() not in _UNREPEATED
    return node.get("sample") is None and len(node.get("group_sets") or ()) <= _MAX_COPIES


def _is_expression(node: _Node, values: _Values, made: Counter[str]) -> bool:
    match node["class"]:
        case "SUBQUERY":
            made["SUBQUERY_EXPRESSION"] += 1
            return True
        case "COMPARISON":
            sides = (_constant(node[side], values) for side in ("left", "right"))
            made["all pairs"] += node["type"] in _NEEDS_ALL_PAIRS and all(side is None for side in sides)
            return True
        case "OPERATOR":
            return node["type"] in _OPERATORS
        case "CAST":
            return node["cast_type"]["id"] in _TYPES or node["child"].get("class") in {"CONSTANT", "PARAMETER"}
        case "FUNCTION":
            return _is_call(node, values, made)
        case "WINDOW":
            made["WINDOW"] += 1
            return _is_window(node)
        case "STAR":
            return not node.get("expr")  # COLUMNS with a lambda or a pattern
        case name:
            return name in _CLASSES


def _is_call(node: _Node, values: _Values, made: Counter[str]) -> bool:
    name, arguments = node["function_name"].lower(), node["children"]
    made[name] += 1
    if _is_qualified(node) or node["order_bys"]["orders"]:
        return False
    if name in _LIKE:
        pattern = _constant(arguments[1], values)
        return isinstance(pattern, str) and _is_fast(pattern, ignores_case=name.endswith("*"))
    if name in _PARTS:
        length = _constant(arguments[-1], values)
        return (
            isinstance(length, int | float) and abs(length) <= _MAX_PART and (name[0] in "lr" or len(arguments) > _FROM)
        )
    if name in _CONSTANT:
        value = _constant(arguments[_CONSTANT[name]], values) if len(arguments) > _CONSTANT[name] else None
        return value is not None and len(str(value)) <= _MAX_CONSTANT
    if len(arguments) > _FEW_ARGUMENTS.get(name, len(arguments)):
        return False
    return name in _FREE or name in _SCANS


def _is_fast(pattern: str, *, ignores_case: bool) -> bool:
    most = _MAX_ILIKE if ignores_case else _MAX_CONSTANT
    return "_" not in pattern and pattern.count("%") <= _MAX_WILDCARDS and len(pattern) <= most


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
    """Return the value of a literal or a parameter, or None."""
    if node.get("class") == "CAST" and not node["try_cast"]:
        node = node["child"]
    if node.get("class") == "PARAMETER":
        return values.get(node["identifier"])
    if node.get("class") == "CONSTANT" and not node["value"]["is_null"]:
        return node["value"].get("value")
    return None
