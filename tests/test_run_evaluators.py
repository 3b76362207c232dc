"""Evaluators of a run as a whole: tool steps and execution metrics."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from evaluators.errors import BadConfiguration
from evaluators.registry import build
from tests.evaluating import call, called, failure, verdict

SUMMARY = {
    "eventCount": 5,
    "toolNames": ["fetch", "search"],
    "toolCallsByName": {"search": 3, "fetch": 2},
    "errorCount": 0,
    "llmCallCount": 2,
    "tokenUsage": {"input": 1000, "output": 500, "cached": 300},
    "costUsd": 0.0015,
    "durationMs": 3500,
}


def steps(mode: str, *expected: object, **configuration: object) -> dict[str, Any]:
    """Return a configuration that expects steps; a name is a step without arguments."""
    listed = [{"tool": step} if isinstance(step, str) else step for step in expected]
    return {"mode": mode, "expected": listed, **configuration}


@pytest.mark.parametrize(
    "minimums, calls, score, success",
    [
        ({"search": 1, "fetch": 1}, ["fetch", "search", "search"], 1.0, True),
        ({"search": 2, "fetch": 1}, ["search", "fetch"], 1 / 2, False),
        ({"a": 1, "b": 1, "c": 1, "d": 1, "e": 2}, ["a", "b", "c", "d", "e"], 4 / 5, True),
        ({"search": 0}, [], 1.0, True),
    ],
)
def test_any_order_counts_tools(
    minimums: Mapping[str, int],
    calls: Sequence[str],
    score: float,
    success: bool,  # noqa: FBT001 - a parameter
) -> None:
    """Each tool is called at least as often as its minimum; from four in five on the run passes."""
    result = verdict("tool_steps", {"mode": "any_order", "minimums": minimums}, called(*calls))
    assert result.score == score
    assert result.success is success


@pytest.mark.parametrize("summary", [{}, {"traceSummary": {"toolCallsByName": {"search": 9}}}])
@pytest.mark.parametrize("calls, score", [(["search"], 1.0), ([], 0.0)])
def test_any_order_counts_the_calls_under_the_configured_key(
    calls: Sequence[str], score: float, summary: Mapping[str, Any]
) -> None:
    """Calls under the usual key and those of a summary are others, if the key is another one."""
    configuration = {"mode": "any_order", "minimums": {"search": 1}, "toolCallsKey": "calls"}
    outputs = {"calls": [{"name": each} for each in calls], "toolCalls": [{"name": "search"}] * (1 - len(calls))}
    result = verdict("tool_steps", configuration, {"actualOutputs": outputs, "metadata": summary})
    assert result.score == score


def test_any_order_reads_a_summary_where_there_are_no_calls() -> None:
    """The counts of a trace summary serve as well."""
    configuration = {"mode": "any_order", "minimums": {"search": 3, "fetch": 3}}
    result = verdict("tool_steps", configuration, {"metadata": {"trace_summary": SUMMARY}})
    assert result.score == 1 / 2
    assert result.reason == "1 of 2 hold: fetch was called 2 times, at least 3 expected."


@pytest.mark.parametrize(
    "configuration, calls, score",
    [
        (steps("in_order", "a", "b"), ["a", "x", "b"], 1.0),
        (steps("in_order", "a", "b"), ["b", "a"], 1 / 2),
        (steps("in_order", "search", "analyze", "report"), ["search", "report"], 1 / 3),
        (steps("in_order", "search", "analyze", "report", alignment="LONGEST"), ["search", "report"], 2 / 3),
        (steps("in_order", {"tool": "a", "args": {"x": 1}}), [call("a", {"x": 2}), call("a", {"x": 1})], 0.0),
        (
            steps("in_order", {"tool": "a", "args": {"x": 1}}, alignment="LONGEST"),
            [call("a", {"x": 2}), call("a", {"x": 1})],
            1.0,
        ),
        (steps("in_order", "a"), [], 0.0),
        (steps("in_order"), ["a"], 1.0),
        (steps("exact", "a", "b"), ["a", "b"], 1.0),
        (steps("exact", "a", "b"), ["b", "a"], 0.0),
        (steps("exact", "a", "b"), ["a"], 1 / 2),
        (steps("exact", "a", "b"), ["a", "b", "c"], 1.0),
        (steps("exact", "a", "b", extraCalls="COUNT"), ["a", "b", "c"], 2 / 3),
        (steps("exact", "a", "b", extraCalls="COUNT"), ["a"], 1 / 2),
    ],
)
def test_steps_in_order_and_in_place(configuration: Mapping[str, Any], calls: Sequence[Any], score: float) -> None:
    """Steps are found by the cursor, by the longest alignment or by position, as configured."""
    assert verdict("tool_steps", configuration, called(*calls)).score == pytest.approx(score)


def test_extra_calls_of_exact_are_told() -> None:
    """A pass in spite of further calls says that it did not count them."""
    result = verdict("tool_steps", steps("exact", "a"), called("a", "b", "c"))
    assert result.reason == "1 of 1 hold; calls beyond the expected ones: 2, which extraCalls FREE does not count."


@pytest.mark.parametrize(
    "args, match, actual, fits",
    [
        (None, None, {"x": 1}, True),
        ("any", None, {"x": 1}, True),
        ({"x": 1}, None, {"x": 1, "y": 2}, True),
        ({"x": 1}, None, {"x": "1"}, False),
        ({"x": [1, 2]}, None, {"x": [2, 1]}, False),
        ({"x": 1}, "exact", {"x": 1, "y": 2}, False),
        ({"x": 1, "y": 2}, "subset", {"x": 1}, True),
        ({"x": 1}, "subset", {"x": 1, "y": 2}, False),
        ({"x": 1}, "ignore", {"x": 2}, True),
    ],
)
def test_arguments_of_steps(
    args: object,
    match: str | None,
    actual: object,
    fits: bool,  # noqa: FBT001 - a parameter
) -> None:
    """The listed arguments have to be there, unless the step or the evaluator says otherwise."""
    own = {"tool": "t", "args": args, "args_match": match}
    assert verdict("tool_steps", steps("exact", own), called(call("t", actual))).score == float(fits)
    if match:
        configuration = steps("in_order", {"tool": "t", "args": args}, argsMatch=match)
        assert verdict("tool_steps", configuration, called(call("t", actual))).score == float(fits)


@pytest.mark.parametrize(
    "calls, score",
    [
        ([call("a", durationMs=90), call("b", durationMs=300)], 3 / 4),
        ([call("a", duration_ms=100), call("b", durationMs=1)], 1.0),
        ([call("a"), call("b", durationMs=1)], 1.0),
        ([call("a"), call("b")], 1.0),
        ([call("a", durationMs=90)], 2 / 4),
    ],
)
def test_durations_of_steps(calls: Sequence[Any], score: float) -> None:
    """A limit is a check of its own: neutral if no duration is known, failed if the step is missing."""
    timed = [{"tool": tool, "max_duration_ms": 100} for tool in "ab"]
    assert verdict("tool_steps", steps("exact", *timed), called(*calls)).score == score
    in_order = [{"tool": tool, "maxDurationMs": 100} for tool in "ab"]
    assert verdict("tool_steps", steps("in_order", *in_order), called(*calls)).score == score


def test_no_expected_step_says_so() -> None:
    """If no step is expected any run passes, vacuously."""
    assert verdict("tool_steps", steps("exact"), called("a")).reason == "No step is expected."
    assert not verdict("tool_steps", steps("exact", whenVacuous="FAIL"), called("a")).success


@pytest.mark.parametrize(
    "configuration, message",
    [
        ({"mode": "any_order"}, "mode any_order needs minimums"),
        ({"mode": "exact"}, "mode exact needs expected"),
        ({"mode": "exact", "expected": [], "minimums": {}}, "mode exact does not use minimums"),
        ({}, "tool_steps: mode: is required"),
        ({"mode": "some"}, "mode: input should be 'any_order', 'in_order' or 'exact' (got 'some')"),
        ({"mode": "exact", "expected": [{"tool": "a", "input": {}}]}, "expected[0].input: unknown key"),
        ({"mode": "any_order", "minimums": {"a": -1}}, "minimums.a: input should be greater than or equal to 0"),
    ],
)
def test_steps_that_cannot_be_checked_are_refused(configuration: Mapping[str, Any], message: str) -> None:
    """A configuration that would check nothing, or something else than it says, is refused."""
    with pytest.raises(BadConfiguration) as refused:
        build("tool_steps", configuration)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "limits, score",
    [
        ({"maxToolCalls": 5, "maxLlmCalls": 2, "maxTokens": 1500, "maxCostUsd": 0.0015, "maxDurationMs": 3500}, 1.0),
        ({"max_tool_calls": 4, "max_llm_calls": 1, "max_tokens": 1499, "max_cost_usd": 0.001}, 0.0),
        ({"maxToolCalls": 4, "maxTokens": 1500}, 1 / 2),
        ({"targetExplorationRatio": 0.8}, 1.0),
        ({"targetExplorationRatio": 0.85, "explorationTolerance": 0.2}, 0.0),
        ({"targetExplorationRatio": 1, "explorationTools": ["search", "fetch"]}, 1.0),
    ],
)
def test_execution_metrics(limits: Mapping[str, Any], score: float) -> None:
    """Each limit is one check, reached is kept, and cached tokens do not count."""
    assert verdict("execution_metrics", limits, {"metadata": {"traceSummary": SUMMARY}}).score == score


def test_metrics_that_are_not_known_are_left_out() -> None:
    """Calls are counted from the run itself; a number that is not known keeps and breaks no limit."""
    result = verdict("execution_metrics", {"maxToolCalls": 1, "maxCostUsd": 1}, called("a", "b"))
    assert result.score == 0
    assert result.reason == "0 of 1 limits are kept: maxToolCalls is 1, and it is 2. Not known: maxCostUsd."


def test_metrics_of_nothing_are_a_failure() -> None:
    """Without a summary and without calls there is nothing to measure."""
    assert failure("execution_metrics", {"maxTokens": 1}, {}).startswith("bad_case: both metadata.traceSummary and")
    error = failure("execution_metrics", {"maxTokens": 1}, {"metadata": {"traceSummary": {"tokens": 1}}})
    assert error.startswith("bad_case: metadata.traceSummary.tokens: unknown key; did you mean tokenUsage? there are: ")


def test_metrics_need_a_limit() -> None:
    """Without any limit there would be nothing to check."""
    with pytest.raises(BadConfiguration, match="needs at least one limit of maxToolCalls, maxLlmCalls"):
        build("execution_metrics", {})
