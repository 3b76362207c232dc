"""Rules that are asked in one statement decide as each of them does alone."""

from dataclasses import replace

import pyarrow as pa
import pytest

from rules.matching import bound, is_sampled, sampled_sql
from storage.engine.rule_matcher_db import UNDECIDED, Expression, RuleMatcherDb, RuleQuery

SAMPLED = sampled_sql("trace_id", "sampled_below")
TRACES = [f"{number:032x}" for number in range(40)]
SPANS = pa.table(
    {
        "tenant": ["a", "b"] * 20,
        "seq": pa.array(range(40), pa.int64()),
        "trace_id": TRACES,
        "f0": [None if number % 5 == 0 else f"$p0 {number}" for number in range(40)],
    }
)


def a_question(revision: int, ending: str, *, tenant: str | None = None, rate: float = 1.0) -> RuleQuery:
    """Build a rule whose one clause is that a text ends as it says; all of them call their parameters alike."""
    clause = "CASE WHEN NOT coalesce(ends_with(f0, $p0::VARCHAR), false) THEN 0 END"
    return RuleQuery(
        revision=revision,
        tenant=tenant,
        clause=Expression(sql=clause, parameters={"p0": ending}),
        sampled_below=None if rate == 1 else bound(rate),
    )


def expected(question: RuleQuery, ending: str, rate: float) -> list[dict[str, int | None]]:
    """Return the decisions of such a rule, worked out in Python."""
    decisions = []
    for span in SPANS.to_pylist():
        if question.tenant in (None, span["tenant"]):
            is_met = span["f0"] is not None and span["f0"].endswith(ending)
            outcome = 0 if not is_met else 2 if is_sampled(span["trace_id"], rate) else 1
            clause = None if is_met else 0
            decisions.append({"revision": question.revision, "seq": span["seq"], "outcome": outcome, "clause": clause})
    return decisions


def test_many_rules_decide_as_each_alone() -> None:
    """Whatever the tenants and the shares of traces of rules, decisions come in the order of the rules and spans."""
    spans = [(str(n % 10), (None, "a", "b", "c")[n % 4], (1.0, 0.5, 0.0)[n % 3]) for n in range(150)]
    questions = [a_question(n, end, tenant=tenant, rate=rate) for n, (end, tenant, rate) in enumerate(spans)]
    matcher_db = RuleMatcherDb(SAMPLED)
    decisions = matcher_db.decide_spans(SPANS, questions).to_pylist()
    matcher_db.close()
    expected_one_by_one = [
        row for question, (end, _, rate) in zip(questions, spans, strict=True) for row in expected(question, end, rate)
    ]
    assert decisions == expected_one_by_one
    assert {row["outcome"] for row in decisions} == {0, 1, 2}


@pytest.mark.parametrize("broken", [{0}, {7}, {3, 4, 9}])
def test_a_rule_that_breaks_the_statement_is_found(broken: set[int]) -> None:
    """Those that cannot be asked are undecided, in every window, and all others decide as if they were not there."""
    fails = Expression(sql="error('as the test wants')::INTEGER", parameters={})
    questions = [a_question(n, str(n)) for n in range(10)]
    changed = [replace(one, clause=fails) if one.revision in broken else one for one in questions]
    matcher_db = RuleMatcherDb(SAMPLED)
    for spans in (SPANS, SPANS.slice(0, 20)):
        decisions = matcher_db.decide_spans(spans, changed)
        for one in questions:
            of_rule = [row for row in decisions.to_pylist() if row["revision"] == one.revision]
            if one.revision in broken:
                assert [(row["outcome"], row["clause"]) for row in of_rule] == [(UNDECIDED, None)] * spans.num_rows
            else:
                assert of_rule == expected(one, str(one.revision), 1.0)[: spans.num_rows]
    assert matcher_db.problems.keys() == broken
    matcher_db.close()
