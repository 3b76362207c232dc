"""No function breaks the server, kills it, fills its memory or cannot be stopped, whatever a client calls it with.

`pytest tests/test_nasty_calls.py --fuzz-seconds 3600 --timeout 0` goes on for an hour, with a seed of its own.
"""

import math
from collections.abc import Iterator
from itertools import islice

import duckdb
import pytest

from storage.query import calls as refused_calls
from tests.nasty_calls import VALUES, Asker, Outcomes, amplified, calls, functions, try_out

pytestmark = pytest.mark.costly("collector/quack", "storage/query", "storage/views")

_CALLS, _SEED = 80, 1
"""Most calls need a process, and are the same each time: a number of calls, since a busy machine made few in a time."""

BREAKS = [
    "SELECT reservoir_quantile(-0.0, [])",
    "SELECT quantile_cont(x, NULL::VARCHAR[] ORDER BY x) FROM (VALUES (1)) AS t(x)",
    "SELECT quantile_disc(x, NULL::VARCHAR[] ORDER BY x) FROM (VALUES (1)) AS t(x)",
    "SELECT date_part(part, now()) FROM (VALUES ('epoch')) AS t(part)",
    "SELECT datepart(part, now()) FROM (VALUES ('epoch')) AS t(part)",
    "SELECT regexp_extract('a', '(a)', NULL::VARCHAR[])",
    "SELECT array_cross_product([NULL, NULL, NULL]::DOUBLE[3], [1, 2, 3]::DOUBLE[3])",
    "SELECT is_histogram_other_bin(x) FROM (SELECT NULL::BLOB FROM range(3)) AS t(x)",
    "SELECT switch('[]'::JSON, MAP {1: NULL}, [true, false, NULL])",
    "SELECT x - 1.5 FROM (VALUES ([1]::VARIANT)) AS t(x)",
    "SELECT x - 1.5 FROM (SELECT from_json('[1]', '\"VARIANT\"') AS x)",
]
KILLS = [
    """
    SELECT c0, arg_max(MAP {'a': 1}::VARIANT, TIMESTAMP_NS 'infinity')
    FROM (SELECT MAP {'a': 1}::VARIANT, TIMESTAMP_NS 'infinity' FROM range(3)) AS t(c0, c1)
    GROUP BY GROUPING SETS ((c0), ())
    """,
    "SELECT lead(x, -9223372036854775808) OVER () FROM range(3) AS t(x)",
    "SELECT lag(x, -9223372036854775808) OVER () FROM range(3) AS t(x)",
]
HANGS = [
    "SELECT len(range(1000000000))",
    "SELECT generate_series(TIMESTAMP '1992-01-01', TIMESTAMP '2992-01-01', INTERVAL 1 MICROSECOND)",
    "SELECT [x FOR x IN range(5, 1000000000)]",
    "SELECT length(repeat('x', 1000000000))",
    "SELECT length(lpad('x', 1000000000, 'y'))",
    "SELECT length(rpad('x', n, 'y')) FROM (VALUES (1000000000)) AS t(n)",
    "SELECT len(list_resize([1], 1000000000))",
    "SELECT bit_length(bitstring('1', 1000000000))",
    "SELECT length(printf('%1000000000d', 1))",
    "SELECT length(format('{:>1000000000}', 'x'))",
    "SELECT length(format('{:>{}}', 'x', 1000000000))",
    "SELECT length(printf('%*d', 1000000000, 1))",
    "SELECT printf($width, 1), from_json('1', $width)",
    "SELECT levenshtein(repeat('ab', 500000), repeat('cd', 500000))",
]


@pytest.fixture(scope="module")
def client_id() -> Iterator[Asker]:
    """Yield a process with a store."""
    with Asker() as one:
        yield one


def tried(statements: Iterator[str], seconds: float | None) -> Outcomes:
    """Try statements for `seconds`, or `_CALLS` of them without a time."""
    return try_out(statements, seconds) if seconds else try_out(islice(statements, _CALLS), math.inf)


@pytest.mark.timeout(900)
def test_no_call_of_any_function_is_more_than_an_error(request: pytest.FixtureRequest, seed: int) -> None:
    """Every function is called with values at the borders of its types and of others, by turns as often as is asked."""
    seconds: float | None = request.config.getoption("--fuzz-seconds")
    rows = duckdb.execute(
        "SELECT DISTINCT function_name, function_type, parameters, parameter_types, varargs"
        " FROM duckdb_functions() ORDER BY ALL"
    ).fetchall()
    outcomes = tried(calls(functions(rows), seed if seconds else _SEED), seconds)
    print(dict(outcomes.ended))  # noqa: T201 - pytest shows it with a failure
    assert outcomes.bad == []
    assert outcomes.ended["answered"] > 20


def test_the_calls_are_the_same_for_the_same_seed() -> None:
    """The same seed gives the same calls, so that a finding can be reproduced."""
    known = functions([("f", "scalar", None, ["ANY", "VARCHAR"], None), ("g", "aggregate", None, ["T[]"], "ANY")])
    first, again, other = (
        [next(each) for _ in range(200)] for each in (calls(known, 1), calls(known, 1), calls(known, 2))
    )
    assert first == again != other
    assert any("g" in each for each in first)


@pytest.mark.timeout(900)
def test_no_call_with_large_arguments_takes_the_server_along(request: pytest.FixtureRequest, seed: int) -> None:
    """Every function is called with long texts, lists, numbers and columns, under a deadline and a limit of memory."""
    seconds: float | None = request.config.getoption("--fuzz-seconds")
    rows = duckdb.execute(
        "SELECT DISTINCT function_name, function_type, parameters, parameter_types, varargs"
        " FROM duckdb_functions() ORDER BY ALL"
    ).fetchall()
    outcomes = tried(amplified(functions(rows), seed if seconds else _SEED), seconds)
    print(dict(outcomes.ended))  # noqa: T201 - pytest shows it with a failure
    assert outcomes.bad == []
    assert sum(outcomes.ended.values()) > 10


@pytest.mark.parametrize("statement", [*BREAKS, *KILLS, *HANGS])
def test_what_was_found_harms_only_itself(client_id: Asker, statement: str) -> None:
    """Each call that was found ends as an error, or as an answer, of a server that goes on."""
    assert client_id.ask(statement) in {"refused", "answered"}


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT quantile_cont(x, 0.5), quantile_cont(x, [0.1, 0.9]), quantile_disc(x, 0.5::DOUBLE) FROM range(9) t(x)",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x), approx_quantile(x, 0.5), median(x) FROM range(9) t(x)",
        "SELECT quantile_cont(x, 0.5) OVER w, lag(x) OVER w, lead(x, -2) OVER w FROM range(9) t(x) WINDOW w AS ()",
        "SELECT extract(epoch FROM now()), date_part('year', now()), date_part(['year', 'month'], now())",
        "SELECT regexp_extract('ab', '(a)(b)', 1), regexp_extract('ab', '(?P<x>a)', ['x'])",
        "SELECT unnest(range(5)), unnest(generate_series(-3, 3, 2)), [x * 2 FOR x IN range(3)]",
        "SELECT lpad('7', 3, '0'), rpad('x', 9, ' '), repeat('-', 20), list_resize([1], 3), bitstring('1', 8)",
        "SELECT printf('%5.2f of %s', 1.5, 'x'), format('{:>10} {{}} {}', 'x', 1)",
        'SELECT from_json(\'{"a": 1}\', \'{"a": "INTEGER"}\')',
        "FROM range(3), generate_series(TIMESTAMP '2026-01-01', TIMESTAMP '2026-01-02', INTERVAL 1 HOUR)",
        "SELECT list_cosine_similarity([1.0, 2.0], [2.0, 1.0]), unnest([1, 2]), 'range(x)', 'SELECT 1::VARIANT'",
    ],
)
def test_what_people_ask_is_answered(client_id: Asker, statement: str) -> None:
    """The same functions with the arguments that they have in dashboards."""
    assert client_id.ask(statement) == "answered"


def test_every_source_is_a_function() -> None:
    """What may be read FROM is a function of DuckDB."""
    known = {name for (name,) in duckdb.execute("SELECT function_name FROM duckdb_functions()").fetchall()}
    assert set(refused_calls._SOURCES) - known == set()


def test_the_values_are_values() -> None:
    """DuckDB takes each of them: a misspelled one would try nothing."""
    connection = duckdb.connect()
    for kind in sorted(VALUES.keys() - {"lambdas"}):
        for value in VALUES[kind]:
            connection.execute(f"SELECT typeof({value})")
