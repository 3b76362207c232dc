"""Evaluations of traces without content: what was not captured is skipped, what was recorded counts."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from collector.evaluation.trace_case import case_of_trace
from collector.live.jobs.work.target import case_for_rule
from evaluators.case import parse_case
from evaluators.evaluator import run
from evaluators.model import Case
from evaluators.outcome import Failure, Outcome, Skipped, Verdict
from evaluators.registry import KINDS, build
from tests.conventions.making import a_span, read_all
from tests.evaluating import ScriptedJudge, call, called, verdict

TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay"}
RESULT, ARGUMENTS = "gen_ai.tool.call.result", "gen_ai.tool.call.arguments"
MODEL = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}

BY_NAMES_AND_NUMBERS = {
    "tool_call_count", "tool_call_order", "tool_correctness", "tool_policy", "execution_metrics", "efficiency",
}  # fmt: skip
"""Evaluators that, as configured here, go by names of calls and by numbers, which every trace has."""

NOTHING_OF_THE_TRACE = {
    "code_judge": "a program that is handed the whole case, with `notCaptured` in it",
    "tool_name_reliability": "the rule names the tools",
    "tool_description_reliability": "the rule names the tools",
}

CONFIGURATIONS: Mapping[str, Mapping[str, Any]] = {
    "regex": {"pattern": "paid"},
    "length": {"maximumOutputLength": 9},
    "tool_correctness": {"matchMode": "NAMES_ONLY"},
    "tool_call_count": {"toolCallsCount": {"pay": ["=", 1]}},
    "tool_call_order": {"toolCallsOrder": ["pay"]},
    "tool_call_args": {"toolCalls": [{"name": "pay", "args": {"n": 1}}]},
    "tool_call_output": {"toolOutputs": [{"name": "pay", "output": "paid"}]},
    "tool_steps": {"mode": "in_order", "expected": [{"tool": "pay", "args": {"n": 1}}]},
    "execution_metrics": {"maxToolCalls": 3},
    "tool_policy": {"required": ["pay"], "scope": "RUN"},
    "efficiency": {"best": {"toolCalls": 1}},
    "llm_judge": {"criteria": "Is it polite?", "evaluationParams": ["ACTUAL_OUTPUT"]},
    "conversation_trajectory": {"criteria": [{"name": "polite", "description": "It is polite."}]},
    "precision": {"retrievedKey": "context", "expectedKey": "context"},
    "recall": {"retrievedKey": "context", "expectedKey": "context"},
}
EXPECTED = {"output": "1", "context": ["a"], "toolCalls": [{"name": "pay", "arguments": {"n": 1}}]}
ADDED = {"tasks": ["pay"]}


def case_of(*tools: Mapping[str, Any], root: Mapping[str, Any] | None = None, model: bool = True) -> Case:
    """The case of a trace of an agent that calls a model and these tools."""
    spans = [a_span({"gen_ai.operation.name": "invoke_agent", **(root or {})}, span_id="a" * 16)]
    if model:
        spans.append(a_span(MODEL, span_id="b" * 16, parent_span_id="a" * 16, start_ns=2, end_ns=3))
    for number, attributes in enumerate(tools):
        more = dict(attributes)
        status = more.pop("status", 0)
        spans.append(
            a_span(
                {**TOOL, **more},
                span_id=f"{number + 1:016x}",
                parent_span_id="a" * 16,
                start_ns=10 + number,
                end_ns=20 + number,
                status_code=status,
                status_message="timeout" * (status == 2),
            )
        )
    return case_of_trace(read_all(*spans), spans)


def outcome_of(name: str, case: Case, configuration: Mapping[str, Any] | None = None) -> Outcome:
    """The outcome of an evaluator whose judge is never to be asked."""
    kind, settings = KINDS[name], configuration or CONFIGURATIONS.get(name, {})
    judge = None if kind.judge(kind.settings(settings)) == "never" else ScriptedJudge()
    return asyncio.run(run(build(name, settings, judge), case))


@pytest.mark.parametrize("name", sorted(KINDS.keys() - NOTHING_OF_THE_TRACE.keys()))
def test_content_that_was_not_captured_is_skipped(name: str) -> None:
    """Every evaluator that reads content skips a trace without any, and says that it was not captured."""
    rule = {"tools": [{"name": "pay"}], "expected": EXPECTED}
    case = case_for_rule(case_of({}), rule, asks_for_input=False)
    case = case.model_copy(update={"metadata": {**case.metadata, **ADDED}})
    outcome = outcome_of(name, case)
    if name in BY_NAMES_AND_NUMBERS:
        assert isinstance(outcome, Verdict), outcome
        assert outcome.success, outcome
    else:
        assert isinstance(outcome, Skipped), outcome
        assert outcome.reason.startswith("not captured: ")


@pytest.mark.parametrize(
    "attributes, score",
    [
        ({RESULT: "paid"}, 1.0),
        ({RESULT: "null"}, 1.0),
        ({RESULT: "{}"}, 1.0),
        ({RESULT: ""}, 0.0),
        ({RESULT: " \n"}, 0.0),
        ({"status": 2}, 0.0),
        ({}, None),
        ({ARGUMENTS: '{"n": 1}'}, None),
    ],
)
def test_results_of_live_calls(attributes: Mapping[str, Any], score: float | None) -> None:
    """A recorded null is a result, a recorded blank is a failure, and no recorded result says nothing."""
    outcome = outcome_of("tool_error", case_of(attributes))
    assert (outcome.score if isinstance(outcome, Verdict) else None) == score
    assert not isinstance(outcome, Failure)


def test_blank_results_can_be_allowed() -> None:
    """`treatBlankAsError: false` lets a recorded blank pass."""
    outcome = outcome_of("tool_error", case_of({RESULT: ""}), {"treatBlankAsError": False})
    assert isinstance(outcome, Verdict)
    assert outcome.score == 1


def test_absent_results_of_test_cases_are_failures() -> None:
    """A test case says what happened: no result in it is none."""
    assert verdict("tool_error", {}, called(call("a"), call("b", result="x"))).score == 0.5


def test_only_calls_that_are_known_count() -> None:
    """Calls without a recorded result do not count, and the reason says how many there are."""
    found = outcome_of("tool_error", case_of({RESULT: "paid"}, {}, {"status": 2}))
    assert isinstance(found, Verdict)
    assert (found.score, found.metadata["notCaptured"]) == (0.5, 1)
    assert found.reason.endswith("Of 1 more the result was not captured.")


def test_verdicts_without_content_are_compared_apart() -> None:
    """With capture off only failed calls are judged, so that such verdicts have a fingerprint of their own."""
    whole = outcome_of("tool_error", case_of({RESULT: "paid", ARGUMENTS: "{}"}))
    failed = outcome_of("tool_error", case_of({"status": 2, ARGUMENTS: "{}"}))
    blind = outcome_of("tool_error", case_of({"status": 2}))
    assert whole.fingerprint == failed.fingerprint != blind.fingerprint


@pytest.mark.parametrize(
    "tools, score",
    [
        ([{}], None),
        ([{ARGUMENTS: '{"n": 1}'}], 1.0),
        ([{ARGUMENTS: "{}"}], 0.0),
        ([{ARGUMENTS: ""}], 0.0),
        ([{ARGUMENTS: "null"}], 0.0),
        ([{ARGUMENTS: '{"n": 1}'}, {}], 0.5),
        ([{"gen_ai.tool.name": "steal"}], 0.0),
    ],
)
def test_arguments_of_live_calls(tools: list[Mapping[str, Any]], score: float | None) -> None:
    """Arguments are unknown if no call of the trace has any recorded; else a call without them was made without."""
    case = case_for_rule(
        case_of(*tools), {"tools": [{"name": "pay", "inputSchema": {"required": ["n"]}}], "expected": None},
        asks_for_input=False,
    )  # fmt: skip
    outcome = outcome_of("tool_call_validity", case)
    assert (outcome.score if isinstance(outcome, Verdict) else None) == score
    assert not isinstance(outcome, Failure)


def test_calls_are_unknown_without_spans_of_tools_and_without_answers() -> None:
    """If models tell no content and no tool has a span, it is not known which tools were called."""
    assert isinstance(outcome_of("tool_policy", case_of()), Skipped)
    assert isinstance(outcome_of("tool_policy", case_of(model=False)), Verdict)


def test_what_is_absent_beside_other_content_is_no_matter_of_capture() -> None:
    """A trace that recorded its input and told no output is not one without capture."""
    outcome = outcome_of("regex", case_of(root={"input.value": "hello", "openinference.span.kind": "AGENT"}))
    assert isinstance(outcome, Failure)
    assert outcome.kind == "bad_case"


def test_what_was_not_captured_survives_a_document() -> None:
    """A case that is handed on as JSON still says what was not captured."""
    document = case_of({}).model_dump(mode="json", by_alias=True, exclude_none=True)
    assert isinstance(outcome_of("tool_error", parse_case(document)), Skipped)
