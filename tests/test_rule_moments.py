"""The sampling of traces, and the moment when a trace has settled."""

import math
from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.matching import bound, decide, is_sampled, sampled_sql
from rules.settling import Arrivals, Settling, settles_at_ns
from tests.ruling import a_rule, a_span, views_in_memory

rates = st.floats(0, 1) | st.sampled_from((0.0, 1.0, 5e-324, 1 - 2**-53, 0.1))
trace_ids = st.binary(min_size=16, max_size=16).map(bytes.hex)
TRACES = [f"{number:032x}" for number in range(20_000)]  # as senders that count would name them

moments = st.integers(0, 2**62)
waits = st.floats(0, 86_400)


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a database in memory."""
    with views_in_memory() as connection:
        yield connection


@given(trace_ids, rates, rates)
def test_a_raised_rate_keeps_those_that_are_in(trace_id: str, one: float, other: float) -> None:
    """A trace that is sampled at a rate is sampled at every greater one; at 1 all are, at 0 none."""
    low, high = sorted((one, other))
    assert is_sampled(trace_id, high) or not is_sampled(trace_id, low)
    assert is_sampled(trace_id, 1)
    assert not is_sampled(trace_id, 0)


@pytest.mark.parametrize("rate", [0.001, 0.01, 0.1, 0.25, 0.5, 0.9, 0.999])
def test_the_share_of_traces_is_the_rate(rate: float) -> None:
    """Of 20,000 traces, numbered one after the other, as many are sampled as chance allows: within five deviations."""
    sampled = sum(is_sampled(trace_id, rate) for trace_id in TRACES)
    deviation = math.sqrt(len(TRACES) * rate * (1 - rate))
    assert abs(sampled - len(TRACES) * rate) <= 5 * deviation


@pytest.mark.parametrize("rate", [0.0, 5e-324, 0.1, 1 / 3, 1 - 2**-53, 1.0])
def test_sql_samples_the_same_traces(database: duckdb.DuckDBPyConnection, rate: float) -> None:
    """The expression in SQL and the function in Python choose alike."""
    select = f"SELECT {sampled_sql('unnest($ids::VARCHAR[])', '$bound')}"
    rows = database.execute(select, {"ids": TRACES[:2000], "bound": bound(rate)}).fetchall()
    assert [sampled for (sampled,) in rows] == [is_sampled(trace_id, rate) for trace_id in TRACES[:2000]]


@given(trace_ids, rates)
def test_all_rules_sample_the_same_traces(trace_id: str, rate: float) -> None:
    """Of two rules with one rate, both take a trace or neither does."""
    rules = (a_rule(name="one", sampleRate=rate), a_rule(name="other", target="TRACE", sampleRate=rate))
    row = a_span(trace_id=trace_id) | {"resource_attributes": {}, "run_id": None, "item_key": None}
    first, second = (decide(rule, [row]) for rule in rules)
    assert first == second


def test_a_trace_is_filtered_where_its_best_span_stopped() -> None:
    """One span that meets all is enough; else the clause is the one that the span stopped at that came furthest."""
    named = {"field": "name", "op": "=", "value": "a"}
    failed = {"field": "status_message", "op": "exists"}
    rule = a_rule(target="TRACE", conditions=[named, failed])
    base = a_span() | {"resource_attributes": {}, "run_id": None, "item_key": None}
    other, stopped, matching = base | {"name": "b"}, base | {"name": "a"}, base | {"name": "a", "status_message": ""}
    assert decide(rule, [other]).clause == 1
    assert decide(rule, [stopped, other]).clause == 2
    assert decide(rule, [other, matching, stopped]).outcome == "matched"


@st.composite
def arrivals(draw: st.DrawFn) -> Arrivals:
    """Draw a possible state of a trace."""
    first, last = sorted((draw(moments), draw(moments)))
    return Arrivals(root_ended=draw(st.booleans()), first_ns=first, last_ns=last)


settlings = st.builds(Settling, after_root_s=waits, quiet_s=waits, longest_s=waits)


@given(arrivals(), settlings, moments)
def test_another_span_never_settles_a_trace_sooner(trace: Arrivals, settling: Settling, later: int) -> None:
    """Another span defers settling, or changes nothing if the longest wait is over."""
    grown = Arrivals(root_ended=trace.root_ended, first_ns=trace.first_ns, last_ns=max(trace.last_ns, later))
    assert settles_at_ns(grown, settling) >= settles_at_ns(trace, settling)


@given(arrivals(), settlings)
def test_no_trace_waits_longer_than_the_longest(trace: Arrivals, settling: Settling) -> None:
    """Nor does the end of its root make it wait longer."""
    at = settles_at_ns(trace, settling)
    assert at <= trace.first_ns + round(settling.longest_s * 1e9)
    ended = Arrivals(root_ended=True, first_ns=trace.first_ns, last_ns=trace.last_ns)
    assert settles_at_ns(ended, settling) <= at


@pytest.mark.parametrize(
    "root_ended, first_s, last_s, expected_s", [(True, 100, 103, 113), (False, 100, 103, 283), (False, 100, 3690, 3700)]
)
def test_the_waits_are_those_that_are_documented(
    *, root_ended: bool, first_s: int, last_s: int, expected_s: int
) -> None:
    """Ten seconds after the root, three minutes of quiet without it, an hour at most."""
    trace = Arrivals(root_ended=root_ended, first_ns=first_s * 10**9, last_ns=last_s * 10**9)
    assert settles_at_ns(trace, Settling()) == expected_s * 10**9
