"""Rules mean the same in Python and in SQL, over the real view, whatever spans hold."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.errors import BadPattern, BadRule
from rules.fields import FIELDS
from rules.matching import failing_clause
from rules.operators import COMPARISONS, OPERATORS, TEXT_TESTS
from rules.regex import glob, regex
from tests.ruling import a_rule, a_span, failing_clauses, insert, stored, views_in_memory
from tests.trying import tried

pytestmark = pytest.mark.costly("rules", "storage")

TEXTS = (
    *("", " ", "a", "A", "ab", "abc", "b", "refund", "Refund\n", "a\nb", "\n", "\x00", "a\x00b", "\t\v\f\r", "ß", "ẞ"),
    *(
        "\u017f",
        "K",
        "k",
        "İ",
        "i̇",
        "é",
        "e\u0301",
        "日本",
        "😀",
        "\u2028",
        "\ufffd",
        "\U0010ffff",
        "a.b",
        "a*b?",
        "%",
        "_",
    ),
    *("\\", "\\d", "[a]", "'", '"', "$p0", "true", "false", "null", "nan", "inf", "-inf", "NaN", "Infinity", "1e999"),
    *(
        "5",
        "5.0",
        "05",
        "+5",
        "-5",
        "5.",
        ".5",
        "0.5",
        "5e0",
        "0x5",
        "1_0",
        " 5",
        "5 ",
        "5\n",
        "\u0665",
        "-0",
        "0",
        "1e-400",
    ),
    *("9007199254740991", "9007199254740993", "1" * 400, "4.9e-324", "1e308", "--5", "5e", "e5", ".", "+", "0" * 30),
)
PIECES = (
    *("a", "b", ".", r"\.", "%", "_", " ", "k", "é", "日", "😀", "\u017f", r"\x{1f600}", r"\n", r"\x00"),
    *(r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", "^", "$", r"\b", r"\A", r"\z"),
    *("[a-z]", "[^a]", r"[^\d\s]", r"[\w-]", r"[\]a]", "[\u017f-\u1e9e]"),
)
TIMES = ("*", "+", "?", "{0}", "{2}", "{0,2}", "{1,}", "*?")
NUMBERS = (0, -0.0, 5, 5.0, -5, 0.5, 0.1, 1e-320, 2**53 - 1, -(2**53 - 1), 7.25e3)
KEYS = ("k", "http.status_code", "", "a'b", "日本", "$p1")

texts = st.sampled_from(TEXTS) | st.text(max_size=6)
maybe_texts = st.none() | texts
attributes = st.dictionaries(st.sampled_from(KEYS), maybe_texts, max_size=3)
typed_attributes = st.dictionaries(
    st.sampled_from(KEYS), maybe_texts | st.sampled_from((math.nan, math.inf, -math.inf, 5.0)), max_size=3
)
doubles = st.none() | st.sampled_from((math.nan, math.inf, -math.inf, *map(float, NUMBERS))) | st.floats()
counts = st.none() | st.integers(0, 2**63 - 1) | st.sampled_from((5, 2**53, 2**53 + 1, 2**63 - 1))
moments = st.sampled_from((0, 1, 1_795_255_200_000_000_000, 1_795_255_200_005_000_000, 9 * 10**18))

spans = st.builds(
    a_span,
    name=texts,
    parent_span_id=st.none() | st.just("c" * 16),
    kind=st.integers(-1, 7),
    status_code=st.integers(-1, 4),
    status_message=maybe_texts,
    project=maybe_texts,
    service=texts,
    start_ns=moments,
    end_ns=moments,
    attributes=typed_attributes,
    resource=attributes,
    events=st.lists(st.tuples(st.sampled_from(KEYS), attributes), max_size=3),
    span_type=st.sampled_from((None, "llm", "tool", "other")),
    input=maybe_texts,
    output=maybe_texts,
    tool_name=maybe_texts,
    model=maybe_texts,
    input_tokens=counts,
    cost_usd=doubles,
    error=maybe_texts,
)

expressions = st.recursive(
    st.sampled_from(PIECES),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map("|".join),
        inner.map(lambda text: f"({text})"),
        st.tuples(inner, st.sampled_from(TIMES)).map(lambda both: f"(?:{both[0]}){both[1]}"),
    ),
    max_leaves=8,
)
wholes = expressions.map(lambda text: f"^(?:{text})$")
regexes = st.tuples(st.sampled_from(("", "", "(?i)", "(?s)", "(?is)")), expressions | wholes).map("".join)
globs = st.lists(st.sampled_from((*"ab*?\\[].%_", "**", "日", "\\*", "\n")), max_size=6).map("".join)

fields = st.sampled_from(
    (*FIELDS, *(f"{where}.{key}" for where in ("attributes", "resource", "event", "events") for key in KEYS if key))
)
operands = st.one_of(texts, st.sampled_from(NUMBERS), st.booleans(), st.sampled_from(("OK", "ERROR", "llm", "CLIENT")))


@st.composite
def conditions(draw: st.DrawFn) -> dict[str, Any]:
    """Return a condition that may be one."""
    operator = draw(st.sampled_from(OPERATORS))
    special: dict[str, st.SearchStrategy[Any]] = {
        "in": st.lists(operands, min_size=1, max_size=4),
        "exists": st.booleans(),
        "regex": regexes,
        "glob": globs,
    }
    return {"field": draw(fields), "op": operator, "value": draw(special.get(operator, operands))}


clauses = st.recursive(
    conditions(),
    lambda inner: st.tuples(st.sampled_from(("all", "any")), st.lists(inner, min_size=1, max_size=3)).map(
        lambda both: {both[0]: both[1]}
    ),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield the view `spans` over tables in memory."""
    with views_in_memory() as connection:
        yield connection


@tried(60)
@given(
    made=st.lists(spans, min_size=1, max_size=4),
    candidates=st.lists(st.lists(clauses, min_size=1, max_size=3), min_size=1, max_size=8),
    project=st.none() | st.sampled_from(("a", "ß")),
)
def test_python_and_sql_agree(
    database: duckdb.DuckDBPyConnection,
    made: list[dict[str, Any]],
    candidates: list[list[dict[str, Any]]],
    project: str | None,
) -> None:
    """For any rule and any spans, both name the same first clause that each span fails, or none."""
    insert(database, [span | {"span_id": f"{number:016x}"} for number, span in enumerate(made)])
    rows = stored(database)
    for candidate in candidates:
        try:
            rule = a_rule(conditions=candidate, project=project)
        except BadRule:
            continue
        assert failing_clauses(database, rule) == [failing_clause(rule, row) for row in rows], candidate


@pytest.mark.parametrize(
    "condition, held",
    [
        ({"field": "events.retry", "op": ">=", "value": 2}, [True, False, False]),
        ({"field": "events.retry", "op": "exists"}, [True, True, False]),
        ({"field": "events.retry", "op": "<", "value": 1}, [False, False, False]),
        ({"field": "event.exception.type", "op": "=", "value": "TimeoutError"}, [True, False, False]),
        ({"field": "event.exception.type", "op": "exists", "value": False}, [False, True, True]),
    ],
)
def test_events_are_counted_by_name_and_tell_the_first_value(
    database: duckdb.DuckDBPyConnection, condition: dict[str, Any], held: list[bool]
) -> None:
    """Of several events with an attribute the first counts, and an attribute of no event is missing."""
    first = [
        ("retry", {}),
        ("exception", {"exception.type": "TimeoutError"}),
        ("exception", {"exception.type": "Later"}),
        ("retry", {}),
    ]
    made = [a_span(events=first), a_span(events=[("retry", {"exception.type": None})]), a_span()]
    insert(database, [span | {"span_id": f"{number:016x}"} for number, span in enumerate(made)])
    rule = a_rule(conditions=[condition])
    assert [clause is None for clause in failing_clauses(database, rule)] == held
    assert [failing_clause(rule, row) is None for row in stored(database)] == held


def disagreements(database: duckdb.DuckDBPyConnection, pattern: str, texts: list[str]) -> list[str]:
    """Return the texts in which only one of the two finds the expression."""
    ours = regex(pattern)
    select = "SELECT regexp_matches(text, $re2::VARCHAR) FROM (SELECT unnest($texts::VARCHAR[]) AS text)"
    theirs = database.execute(select, {"texts": texts, "re2": ours.re2}).fetchall()
    return [text for text, (matches,) in zip(texts, theirs, strict=True) if matches is not ours.search(text)]


@tried(150)
@given(pattern=regexes, expected=st.lists(texts | st.text("ab\n é9_-", max_size=8), min_size=1, max_size=8))
def test_regular_expressions_agree(database: duckdb.DuckDBPyConnection, pattern: str, expected: list[str]) -> None:
    """Our search and DuckDB's find the same expressions in the same texts."""
    try:
        regex(pattern)
    except BadPattern:
        return
    assert disagreements(database, pattern, expected) == []


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|a)*b", "(a+a+)+b", "a{1,50}a{1,50}b", "(?i)(.*a){9}b"])
def test_searching_takes_time_in_proportion_to_the_text(pattern: str) -> None:
    """Expressions that a backtracking search would never finish are answered."""
    assert not regex(pattern).search("a" * 20_000)
    assert regex(pattern).search("a" * 20_000 + "b")


@pytest.mark.parametrize("times", ["{0}", "{1}", "{2}", "{0,1}", "{1,2}", "{2,3}", "{1,}", "{0,}", "*", "+", "?"])
@pytest.mark.parametrize("part", ["a", "(?:ab)", r"(?:a\b)", r"(?:\ba)", "(?:a|)", "(?:a?b?)", "(?:(?:a*)b)"])
def test_repetitions_agree_on_all_short_texts(database: duckdb.DuckDBPyConnection, part: str, times: str) -> None:
    """Whole texts of up to five characters match exactly if they match in DuckDB."""
    texts = ["".join(letters) for length in range(6) for letters in itertools.product("ab ", repeat=length)]
    assert disagreements(database, f"^(?:{part}{times})$", texts) == []


EDGES = (
    r"a\bb",
    r"a\b b",
    r"^\b",
    r"\b$",
    r"^\b$",
    r"é\ba",
    r"_\b-",
    "a$",
    "^a",
    "$a",
    "a^",
    "a^b",
    "a$b",
    "^$",
    "$^",
    "(^|a)b",
)


@pytest.mark.parametrize("edge", EDGES)
def test_edges_agree_on_all_short_texts(database: duckdb.DuckDBPyConnection, edge: str) -> None:
    """Edges of texts and of words are where DuckDB has them."""
    texts = ["".join(letters) for length in range(5) for letters in itertools.product("ab é_-\n", repeat=length)]
    assert disagreements(database, edge, texts) == []


@tried(100)
@given(pattern=globs, expected=st.lists(texts | st.text("ab\n.[]%_日", max_size=6), min_size=1, max_size=8))
def test_globs_agree(database: duckdb.DuckDBPyConnection, pattern: str, expected: list[str]) -> None:
    """Our search and DuckDB's find the same globs in the same texts."""
    try:
        ours = glob(pattern)
    except BadPattern:
        return
    for text in expected:
        ((theirs,),) = database.execute(
            "SELECT regexp_matches($text, $re2)", {"text": text, "re2": ours.re2}
        ).fetchall()
        assert theirs is ours.search(text), (text, ours.re2)


@pytest.mark.costly("rules")
@pytest.mark.parametrize("operator", [*COMPARISONS, *TEXT_TESTS])
def test_every_hostile_text_compares_alike(database: duckdb.DuckDBPyConnection, operator: str) -> None:
    """Each text as an attribute compares with each text and each number as Python has it."""
    insert(database, [a_span(span_id=f"{number:016x}", attributes={"k": text}) for number, text in enumerate(TEXTS)])
    rows = stored(database)
    for operand in (*TEXTS, *NUMBERS):
        try:
            rule = a_rule(conditions=[{"field": "attributes.k", "op": operator, "value": operand}])
        except BadRule:
            continue
        assert failing_clauses(database, rule) == [failing_clause(rule, row) for row in rows], operand


def test_an_attribute_that_is_no_number_is_not_there(database: duckdb.DuckDBPyConnection) -> None:
    """NaN and the infinities meet no condition but that they do not exist; a text that spells one is a text."""
    values = (math.nan, math.inf, -math.inf, "nan", "-inf", 5.0)
    insert(database, [a_span(span_id=f"{at:016x}", attributes={"k": value}) for at, value in enumerate(values)])
    for operator, operand, meets in (
        ("exists", True, [False, False, False, True, True, True]),
        ("exists", False, [True, True, True, False, False, False]),
        ("!=", 5, [False, False, False, True, True, False]),
        ("contains", "n", [False, False, False, True, True, False]),
    ):
        rule = a_rule(conditions=[{"field": "attributes.k", "op": operator, "value": operand}])
        assert [clause is None for clause in failing_clauses(database, rule)] == meets
        assert [failing_clause(rule, row) is None for row in stored(database)] == meets


@pytest.mark.parametrize("operator", [*COMPARISONS, "in", "exists"])
def test_every_number_compares_alike(database: duckdb.DuckDBPyConnection, operator: str) -> None:
    """Each number in a column, the infinities and NaN among them, compares with each number as Python has it."""
    costs = (None, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, *map(float, NUMBERS))
    insert(database, [a_span(span_id=f"{at:016x}", span_type="llm", cost_usd=cost) for at, cost in enumerate(costs)])
    rows = stored(database)
    for operand in NUMBERS:
        value = {"in": [operand, 0.5], "exists": operand == 5}.get(operator, operand)
        rule = a_rule(conditions=[{"field": "cost_usd", "op": operator, "value": value}])
        assert failing_clauses(database, rule) == [failing_clause(rule, row) for row in rows], value
