"""The tree of a trace: the span it opens on, steps through errors, search results, and all of it for scripts."""

import json
from collections import Counter
from dataclasses import replace

from collector.web.traces.trace_tree import ROWS, SpanTree
from storage.judging.judgements import StoredEvaluation
from storage.query.outline import OutlineSpan

_SPAN = OutlineSpan(
    span_id="",
    parent_span_id=None,
    name="step",
    start_ns=1_000_000,
    end_ns=5_000_000,
    is_error=False,
    span_type="tool",
    is_read=True,
    model=None,
    tool_name=None,
    input_tokens=None,
    output_tokens=None,
    cost_usd=None,
)


def a_line(span_id: str, parent: str | None = None, **more: object) -> OutlineSpan:
    """Build a span of a tree; they begin in the order of their ids."""
    return replace(_SPAN, span_id=span_id, parent_span_id=parent, **more)  # type: ignore[arg-type] # as the test says


def a_verdict(span_id: str | None, *, passed: bool | None, outcome: str = "scored") -> StoredEvaluation:
    """Build the result of one evaluation."""
    texts = dict.fromkeys(("fingerprint", "reason", "error_kind", "metadata", "judge_model", "release"))
    numbers = dict.fromkeys(("score", "threshold", "judge_calls", "input_tokens", "output_tokens"))
    return StoredEvaluation(
        job_id=1,
        rule_id="r",
        rule="rule",
        revision=1,
        digest="",
        evaluator="length",
        span_id=span_id,
        name="length",
        outcome=outcome,
        passed=passed,
        cost_usd=None,
        latency_ms=None,
        attempts=1,
        round=0,
        created_at_ns=0,
        superseded=False,
        **texts,
        **numbers,
    )


FAILING = (
    a_line("a", is_error=True),
    a_line("b", "a", is_error=True),
    a_line("c", "b", name="search", is_error=True),
    a_line("d", "a", name="book", is_error=True),
    a_line("e", "a", model="gpt-4o"),
)


def test_a_trace_opens_on_the_error_that_others_pass_on() -> None:
    """The first failed span below which none failed is chosen, not the root that failed because of it."""
    assert SpanTree(FAILING, ()).view(chosen=None, begin=None).chosen == "c"
    assert SpanTree(FAILING, ()).view(chosen="e", begin=None).chosen == "e"


def test_a_trace_opens_on_the_failed_call_and_not_on_its_request() -> None:
    """The tool or model whose HTTP request failed is chosen, before failed steps without a call."""
    request = a_line("d", "c", name="POST", span_type="other", is_error=True)
    for kind in ("tool", "llm", "retriever"):
        spans = (
            a_line("a", span_type="agent", is_error=True),
            a_line("b", "a", name="plan", span_type="chain", is_error=True),
            a_line("c", "a", name="lookup", span_type=kind, is_error=True),
            request,
        )
        assert SpanTree(spans, ()).first == "c"
    caught = (a_line("a", span_type="agent"), a_line("c", "a", span_type="tool"), request)
    assert SpanTree(caught, ()).first == "d"


def test_deep_trees_are_indented_in_smaller_steps() -> None:
    """At any depth the indent grows with the level, and never beyond the most that a tree is indented."""
    spans = [a_line(f"{level:02}", f"{level - 1:02}" if level else None) for level in range(61)]
    depths = [row.depth for row in SpanTree(spans, ()).view(chosen=None, begin=0).rows]
    assert (depths, depths[0], depths[-1]) == (sorted(depths), 0, 12)
    assert max(Counter(depths).values()) <= 6
    flat = [row.depth for row in SpanTree(spans[:4], ()).view(chosen=None, begin=0).rows]
    assert flat == [0, 1, 2, 3]


def test_without_errors_a_trace_opens_on_what_a_judge_failed() -> None:
    """If no span failed, a failed verdict decides; without one the trace opens on its root."""
    spans = [replace(span, is_error=False) for span in FAILING]
    broken = a_verdict("b", passed=None, outcome="failed")
    assert SpanTree(spans, [a_verdict("d", passed=False), broken]).first == "d"
    assert SpanTree(spans, [a_verdict("d", passed=True), broken]).first == "a"
    assert SpanTree((), ()).first is None


def test_errors_are_walked_through_in_the_order_of_the_tree() -> None:
    """Each error leads to the next and back, the last to the first, also from a span that is none of them."""
    tree = SpanTree(FAILING, ())
    seen, chosen = [], "a"
    for _ in range(4):
        walk = tree.view(chosen=chosen, begin=None).errors
        assert walk.next is not None
        assert walk.at is not None
        seen.append((walk.at, chosen))
        chosen = walk.next
    assert seen == [(0, "a"), (1, "b"), (2, "c"), (3, "d")]
    assert chosen == "a"
    walk = tree.view(chosen="e", begin=None).errors
    assert (walk.at, walk.previous, walk.next) == (None, "d", "a")


def test_what_is_found_stands_below_what_is_above_it() -> None:
    """A text is looked for in names, models, types and ids, and the spans above what holds it stay."""
    tree = SpanTree(FAILING, ())
    for text, expected, chosen in (("SEARCH", ["a", "b", "c"], "c"), ("gpt", ["a", "e"], "e"), ("nothing", [], "c")):
        view = tree.view(chosen=None, begin=None, find=text)
        assert ([row.node.span.span_id for row in view.rows], view.chosen) == (expected, chosen)


def test_spans_that_are_their_own_parents_are_opened_too() -> None:
    """Whatever parents say, a failed span is found, and nothing runs for ever."""
    spans = (a_line("a", "b", is_error=True), a_line("b", "a", is_error=True), a_line("c", "c", is_error=True))
    assert SpanTree(spans, ()).first in {"a", "b", "c"}


def test_scripts_get_every_span_once() -> None:
    """The document has a line for each span, in the order of the tree, with invisible characters escaped."""
    spans = [a_line(f"{number:05}", "00000" if number else None, name="x\u202ey") for number in range(2 * ROWS)]
    document = json.loads(SpanTree(spans, [a_verdict("00001", passed=False)]).document())
    assert [line[0] for line in document["spans"]] == [span.span_id for span in spans]
    assert document["spans"][0][1:4] == [0, True, "x\\u202ey"]
    assert document["spans"][1][11:15] == [False, 0, 1, 0]
    assert document["lengthMs"] == 4.0
