"""Evaluations of traces without content: evaluators of content that was not captured skip, the others judge."""

import asyncio
import itertools
import json
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

import pytest

from collector.conventions.own_keys import NO_KEYS
from collector.conventions.span import read_span
from collector.evaluation.session_case import case_of_session
from collector.evaluation.trace_case import case_of_trace
from collector.live.jobs.work.target import case_for_rule
from evaluators.case import parse_case
from evaluators.evaluator import run
from evaluators.model import Case
from evaluators.outcome import Failure, Outcome, Skipped, Verdict
from evaluators.registry import KINDS, build
from storage.records import AttributeValue
from tests.conventions.making import a_log, a_span, read_all
from tests.conventions.test_columnar import a_batch, a_request, assert_alike
from tests.evaluating import ScriptedJudge, call, called, verdict

TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay"}
RESULT, ARGUMENTS = "gen_ai.tool.call.result", "gen_ai.tool.call.arguments"
MODEL = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}

BY_NAMES_AND_NUMBERS = {
    "tool_call_count", "tool_call_order", "tool_correctness", "tool_policy", "execution_metrics", "efficiency",
}  # fmt: skip
"""Evaluators that, as configured here, use only names of calls and numbers, which every trace has."""

NOTHING_OF_THE_TRACE = {
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
    "code_judge": {"script": ["printf", '{"score": 1}']},
    "precision": {"retrievedKey": "context", "expectedKey": "context"},
    "recall": {"retrievedKey": "context", "expectedKey": "context"},
}
EXPECTED = {"output": "1", "context": ["a"], "toolCalls": [{"name": "pay", "arguments": {"n": 1}}]}
ADDED = {"tasks": ["pay"]}


def case_of(*tools: Mapping[str, Any], root: Mapping[str, Any] | None = None, model: bool = True) -> Case:
    """Return the case of a trace of an agent that calls a model and these tools."""
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
    """Return the outcome of an evaluator whose judge is never to be asked."""
    kind, settings = KINDS[name], configuration or CONFIGURATIONS.get(name, {})
    judge = None if kind.judge(kind.settings(settings)) == "never" else ScriptedJudge()
    return asyncio.run(run(build(name, settings, judge), case))


@pytest.mark.parametrize("name", sorted(KINDS.keys() - NOTHING_OF_THE_TRACE.keys()))
def test_content_that_was_not_captured_is_skipped(name: str) -> None:
    """Every evaluator that reads content skips a trace without any, and says that it was not captured."""
    rule = {"additions": {"tools": [{"name": "pay"}], "expected": EXPECTED}}
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
        ({RESULT: '{"error": null}'}, 1.0),
        ({RESULT: '{"error": ""}'}, 1.0),
        ({RESULT: '{"error": false, "paid": 3}'}, 1.0),
        ({RESULT: '{"error": 0}'}, 1.0),
        ({RESULT: '{"error": []}'}, 1.0),
        ({RESULT: '{"error": " "}'}, 1.0),
        ({RESULT: '{"error": "declined", "order": 3}'}, 0.0),
        ({RESULT: '{"error": true, "order": 3}'}, 0.0),
        ({RESULT: '{"error": {"code": 1}, "order": 3}'}, 0.0),
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
    outcome = outcome_of("tool_error", case_of({RESULT: "paid"}, {}, {"status": 2}))
    assert isinstance(outcome, Verdict)
    assert (outcome.score, outcome.metadata["notCaptured"]) == (0.5, 1)
    assert outcome.reason.endswith("Of 1 more the result was not captured.")


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
        ([{ARGUMENTS: '{"n": 1}'}, {}], 1.0),
        ([{}, {ARGUMENTS: "{}"}], 0.0),
        ([{"gen_ai.tool.name": "steal"}], 0.0),
    ],
)
def test_arguments_of_live_calls(tools: list[Mapping[str, Any]], score: float | None) -> None:
    """Calls whose arguments were recorded are judged, and the others are left out."""
    case = case_for_rule(
        case_of(*tools),
        {"additions": {"tools": [{"name": "pay", "inputSchema": {"required": ["n"]}}]}},
        asks_for_input=False,
    )
    outcome = outcome_of("tool_call_validity", case)
    assert (outcome.score if isinstance(outcome, Verdict) else None) == score
    assert not isinstance(outcome, Failure)


@pytest.mark.parametrize("has_model", [True, False])
def test_calls_are_unknown_without_spans_of_tools_and_without_answers(has_model: bool) -> None:  # noqa: FBT001 - pytest's
    """If neither a tool has a span nor an answer was recorded, it is not known which tools were called."""
    for name in ("tool_policy", "tool_error", "execution_metrics"):
        assert isinstance(outcome_of(name, case_of(model=has_model)), Skipped)


@pytest.mark.parametrize(
    "reads, outcome",
    [(["output"], "verdict"), (["output", "toolCalls"], "verdict"), (["result"], "skipped"), ([], "verdict")],
)
def test_code_judges_see_calls_of_tool_spans_and_name_what_they_read(reads: list[str], outcome: str) -> None:
    """A program gets calls missing from messages and the list of uncaptured content; one that reads such is skipped."""
    script = (
        "import json,sys; case = json.load(sys.stdin); (call,) = case['output_messages'][-1]['tool_calls'];"
        "print(json.dumps({'score': 1, 'details': {'case': case['not_captured'], **call}}))"
    )
    spoken = [{"role": role, "parts": [{"type": "text", "content": "1"}]} for role in ("user", "assistant")]
    messages = {"gen_ai.input.messages": json.dumps(spoken[:1]), "gen_ai.output.messages": json.dumps(spoken[1:])}
    settings = {"script": ["python3", "-c", script], "reads": reads}
    result = outcome_of("code_judge", case_of({ARGUMENTS: '{"n": 1}'}, root=messages), settings)
    assert result.to_document()["outcome"] == outcome, result
    if isinstance(result, Verdict):
        details = result.metadata["details"]
        assert (details["tool"], details["input"], details["not_captured"]) == ("pay", {"n": 1}, ["result"])
        assert "context" in details["case"]


@pytest.mark.parametrize("template", [None, "version: 1\n[system]\nBe kind.\n[user]\n{{input}}\n{{actual_output}}"])
def test_judges_are_not_told_that_an_unrecorded_input_is_blank(template: str | None) -> None:
    """A rule with criteria alone judges the output of a trace without an input, says so, and is compared apart."""
    shown = ["INPUT", "ACTUAL_OUTPUT"]
    settings = {"criteria": "Is it polite?", "evaluationParams": shown} | ({"template": template} if template else {})
    judged_cases = []
    for attributes in ({}, {"input.value": "hello"}, {"input.value": ""}):
        root = {"openinference.span.kind": "AGENT", "output.value": "1", **attributes}
        rule: dict[str, Any] = {"additions": {}}
        case = case_for_rule(case_of(root=root, model=False), rule, asks_for_input=True)
        judge = ScriptedJudge({"reason": "ok", "score": 1})
        judged_cases.append((asyncio.run(run(build("llm_judge", settings, judge), case)), judge.questions[0]))
    (blind, blind_requests), (seen, seen_requests), _ = judged_cases
    assert isinstance(blind, Verdict)
    assert isinstance(seen, Verdict)
    assert blind.metadata["notCaptured"] == ["input"]
    assert blind.fingerprint != seen.fingerprint
    assert "notCaptured" not in seen.metadata
    assert ('name="input"' in blind_requests, "(not captured)" in blind_requests) == 2 * (template is not None,)
    assert 'name="input"' in seen_requests


CONTENT: Final = ("input", "output", "context", "arguments", "result")
READ: Final = {
    "output": ("exact_match", "regex", "length", "structural_match", "llm_judge"),
    "input output": ("code_judge", "pairwise", "task_completion", "conversation_trajectory", "plan_quality"),
    "input output context": ("faithfulness", "hallucination"),
    "context": ("precision", "recall"),
    "input context": ("contextual_relevance",),
    "result": ("tool_error", "tool_call_output"),
    "arguments": ("tool_call_validity", "tool_efficiency", "tool_call_args", "tool_steps", "tool_trajectory"),
    "output arguments": ("plan_adherence",),
    "input arguments result": ("tool_argument_hallucination",),
}
READS: Final = {name: set(content.split()) for content, names in READ.items() for name in names}
"""The content that evaluators read, as configured here; `BY_NAMES_AND_NUMBERS` read none."""


def partial_case(captured: AbstractSet[str], expected: Mapping[str, Any]) -> Case:
    """Return the case of an agent's trace that recorded this content, with what a rule expects."""
    messages = [{"role": "user", "parts": [{"type": "text", "content": "pay 1"}]}]
    thought = {"type": "reasoning", "content": "I pay."}
    answered = [{"role": "assistant", "parts": [thought, {"type": "text", "content": "1"}], "finish_reason": "stop"}]
    content = {
        "input": {"gen_ai.input.messages": json.dumps(messages)},
        "output": {"gen_ai.output.messages": json.dumps(answered)},
        "context": {"output.value": '["a"]'},
        "arguments": {ARGUMENTS: '{"n": 1}'},
        "result": {RESULT: "paid"},
    }

    def attributes_of(*names: str) -> dict[str, Any]:
        return {key: value for name in names if name in captured for key, value in content[name].items()}

    each = [
        {"gen_ai.operation.name": "invoke_agent", **attributes_of("input", "output")},
        {**MODEL, **attributes_of("input", "output")},
        {"openinference.span.kind": "RETRIEVER", **attributes_of("context")},
        {**TOOL, **attributes_of("arguments", "result")},
    ]
    spans = [
        a_span(one, span_id=f"{at:016x}", parent_span_id=f"{1:016x}" if at > 1 else None, start_ns=at, end_ns=99)
        for at, one in enumerate(each, 1)
    ]
    rule = {"additions": {"tools": [{"name": "pay"}], "expected": expected}}
    case = case_for_rule(case_of_trace(read_all(*spans), spans), rule, asks_for_input=False)
    return case.model_copy(update={"metadata": {**case.metadata, **ADDED}})


def test_no_evaluator_judges_content_that_was_not_captured() -> None:
    """Whichever content is recorded, each evaluator skips exactly the traces that lack the content it reads."""
    assert READS.keys() | BY_NAMES_AND_NUMBERS | NOTHING_OF_THE_TRACE.keys() == KINDS.keys()
    subsets = [set(one) for size in range(len(CONTENT) + 1) for one in itertools.combinations(CONTENT, size)]
    for captured, expected in itertools.product(subsets, (EXPECTED, {})):
        case = partial_case(captured, expected)
        for name in sorted(KINDS.keys() - NOTHING_OF_THE_TRACE.keys()):
            outcome = outcome_of(name, case)
            is_skipped = isinstance(outcome, Skipped) and outcome.reason.startswith("not captured: ")
            lacks = not READS.get(name, set()) <= captured
            is_without_criteria = isinstance(outcome, Failure) and "expectedOutputs." in outcome.message
            assert is_skipped == lacks or (is_without_criteria and not expected), (name, captured, expected, outcome)


def _json(*messages: Mapping[str, Any]) -> str:
    return json.dumps(messages)


CALL: Final = {"type": "tool_call", "id": "c1", "name": "pay"}
HOLLOW_CALL: Final = {"role": "assistant", "parts": [CALL], "finish_reason": "tool_call"}
HOLLOW_RESULT: Final = {"role": "user", "parts": [{"type": "tool_call_response", "id": "c1", "name": "pay"}]}
HOLLOW_TEXT: Final = {"role": "user", "parts": [{"type": "text"}]}
HOLLOW_ANSWER: Final = {"role": "assistant", "parts": [{"type": "text"}], "finish_reason": "stop"}
MARK: Final = "__REDACTED__"
WITH_CAPTURE_OFF: Final[Mapping[str, list[Mapping[str, Any]]]] = {
    "pydantic-ai": [
        {
            "gen_ai.operation.name": "invoke_agent",
            "pydantic_ai.all_messages": _json(HOLLOW_TEXT, HOLLOW_CALL, HOLLOW_RESULT, HOLLOW_ANSWER),
        },
        {**MODEL, "gen_ai.input.messages": _json(HOLLOW_TEXT), "gen_ai.output.messages": _json(HOLLOW_CALL)},
        {**TOOL, "gen_ai.tool.call.id": "c1"},
        {
            **MODEL,
            "gen_ai.input.messages": _json(HOLLOW_TEXT, HOLLOW_CALL, HOLLOW_RESULT),
            "gen_ai.output.messages": _json(HOLLOW_ANSWER),
        },
    ],
    "openinference": [
        {"openinference.span.kind": "AGENT", "input.value": MARK, "output.value": MARK},
        {
            "openinference.span.kind": "LLM", "llm.model_name": "m", "input.value": MARK, "output.value": MARK,
            "llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": MARK,
            "llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": MARK,
        },
        {"openinference.span.kind": "TOOL", "tool.name": "pay", "input.value": MARK, "output.value": MARK},
    ],
    "marks within messages": [
        {"gen_ai.operation.name": "invoke_agent"},
        {
            **MODEL,
            "gen_ai.input.messages": _json({"role": "user", "parts": [{"type": "text", "content": "<REDACTED>"}]}),
            "gen_ai.output.messages": _json({"role": "assistant", "parts": [{**CALL, "arguments": "[redacted]"}]}),
        },
        {**TOOL, "gen_ai.tool.call.id": "c1", RESULT: "[Scrubbed due to 'password']"},
    ],
    "traceloop": [
        {"traceloop.span.kind": "workflow", "traceloop.entity.name": "w"},
        {
            "llm.request.type": "chat", "gen_ai.request.model": "m",
            "gen_ai.completion.0.finish_reason": "tool_calls", "gen_ai.completion.0.role": "assistant",
        },
        {"traceloop.span.kind": "tool", "traceloop.entity.name": "pay"},
    ],
    "vercel": [
        {"ai.operationId": "ai.generateText", "operation.name": "ai.generateText", "ai.model.id": "m"},
        {"ai.operationId": "ai.generateText.doGenerate", "ai.model.id": "m", "ai.response.finishReason": "tool-calls"},
        {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "pay", "ai.toolCall.id": "c1"},
    ],
}  # fmt: skip
"""What instrumentations send of an agent that calls a tool while capture is off."""


def hollow_case(library: str) -> Case:
    """Return the case of such a trace, with a rule that names the tools."""
    spans = [
        a_span(one, span_id=f"{at:016x}", parent_span_id=f"{1:016x}" if at > 1 else None, start_ns=at, end_ns=99)
        for at, one in enumerate(WITH_CAPTURE_OFF[library], 1)
    ]
    return _with_rule(case_of_trace(read_all(*spans), spans))


def _with_rule(case: Case) -> Case:
    rule = {"additions": {"tools": [{"name": "pay", "inputSchema": {"required": ["n"]}}], "expected": EXPECTED}}
    case = case_for_rule(case, rule, asks_for_input=False)
    return case.model_copy(update={"metadata": {**case.metadata, **ADDED}})


def assert_nothing_is_judged(case: Case) -> None:
    """Check that evaluators that read content skip the case, and that the others pass it."""
    for name in sorted(KINDS.keys() - NOTHING_OF_THE_TRACE.keys()):
        outcome = outcome_of(name, case)
        if name in BY_NAMES_AND_NUMBERS:
            assert isinstance(outcome, Verdict), outcome
            assert outcome.success, outcome
        else:
            assert isinstance(outcome, Skipped), (name, outcome)
            assert outcome.reason.startswith("not captured: ")


@pytest.mark.parametrize("library", sorted(WITH_CAPTURE_OFF))
def test_parts_without_content_and_marks_of_redactions_are_not_captured(library: str) -> None:
    """Messages, calls and results with only a type or name, and redaction marks in place of values, are not content."""
    assert_nothing_is_judged(hollow_case(library))


def test_events_without_content_are_not_captured() -> None:
    """OpenTelemetry's log events tell names of calls with capture off, and nothing that could be judged."""
    root = a_span({"gen_ai.operation.name": "invoke_agent"}, span_id="a" * 16, end_ns=99)
    model = a_span(MODEL, span_id="b" * 16, parent_span_id="a" * 16, start_ns=2, end_ns=3)
    again = a_span(MODEL, span_id="c" * 16, parent_span_id="a" * 16, start_ns=4, end_ns=5)
    call: AttributeValue = {"id": "c1", "type": "function", "function": {"name": "pay"}}
    asking: AttributeValue = {
        "index": 0,
        "finish_reason": "tool_calls",
        "message": {"role": "assistant", "tool_calls": [call]},
    }
    logs = [
        a_log(model, "gen_ai.user.message", {}, {}),
        a_log(model, "gen_ai.choice", asking),
        a_log(again, "gen_ai.assistant.message", {"tool_calls": [call]}),
        a_log(again, "gen_ai.tool.message", {"id": "c1"}),
        a_log(again, "gen_ai.choice", {"index": 0, "finish_reason": "stop", "message": {"role": "assistant"}}),
    ]
    assert_nothing_is_judged(_with_rule(case_of_trace(read_all(root, model, again, logs=logs), [root, model, again])))


def test_content_of_spans_that_failed_counts_as_any_other() -> None:
    """A trace with a recorded input and no output has an uncaptured output, failed or not."""
    outcome = outcome_of("regex", case_of(root={"input.value": "hello", "openinference.span.kind": "AGENT"}))
    assert isinstance(outcome, Skipped)
    assert outcome.reason.startswith("not captured: output (set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")


@pytest.mark.parametrize(
    "retrieved, context",
    [
        ([None], None),
        (['{"documents": []}'], []),
        (['{"results": []}', '["a"]'], ["a"]),
        ([""], []),
        ([None, '{"documents": []}'], []),
        (["[]"], []),
        ([" [] "], []),
        (["[]", '["a"]'], ["a"]),
        (["null"], None),
        (["{}"], None),
    ],
)
def test_a_retriever_that_recorded_that_it_retrieved_nothing_is_judged(
    retrieved: list[str | None], context: list[str] | None
) -> None:
    """An empty context that was recorded is one; without a record the context was not captured."""
    span_attributes = {"input.value": "hello", "output.value": "paid", "openinference.span.kind": "CHAIN"}
    spans = [a_span(span_attributes, span_id="a" * 16)]
    for at, output in enumerate(retrieved, 1):
        more = {} if output is None else {"output.value": output}
        attributes = {"openinference.span.kind": "RETRIEVER", **more}
        spans.append(a_span(attributes, span_id=f"{at:016x}", parent_span_id="a" * 16, start_ns=at + 1, end_ns=99))
    case = case_of_trace(read_all(*spans), spans)
    assert case.actual_outputs.get("context") == context
    if not context:
        outcome = outcome_of("contextual_relevance", case)
        assert isinstance(outcome, Skipped) if context is None else getattr(outcome, "score", None) == 0.0


RETRIEVERS: Mapping[str, Mapping[str, Any]] = {
    "as text": {"openinference.span.kind": "RETRIEVER", "output.value": "[]", "output.mime_type": "application/json"},
    "as an array": {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": []},
    "of OpenTelemetry": {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": "[]"},
    "of Traceloop": {"openinference.span.kind": "RETRIEVER", "traceloop.entity.output": "[]"},
}


@pytest.mark.parametrize("attributes", RETRIEVERS.values(), ids=RETRIEVERS)
def test_an_empty_list_is_a_result_of_a_retriever_alone(attributes: Mapping[str, Any]) -> None:
    """A retriever that ended well and recorded an empty list found nothing; of others that is not a record."""
    spans = [a_span(attributes), a_span(attributes, status_code=2)]
    spans.append(a_span({"openinference.span.kind": "LLM", "output.value": "[]"}))
    memory = {"span.type": "memory", "memory.semantic": False, "output": "[]"}
    spans.append(a_span(memory, name="memory.read", scope="@voltagent/core"))
    assert [read_span(span, (), NO_KEYS).output for span in spans] == ["[]", None, None, None]
    assert_alike(a_batch(a_request(spans)))


@pytest.mark.parametrize(
    "answers, output, question",
    [
        (["paid", ""], "", "q0"),
        (["", ""], "", "q0"),
        (["", "paid"], "paid", "q0"),
        (["paid", None], None, "q0"),
    ],
)
def test_the_last_answer_of_a_session_counts_although_it_is_blank(
    answers: list[str | None], output: str | None, question: str
) -> None:
    """A session whose last turn answered nothing has a blank output, and not that of the turn before."""
    traces = []
    for at, answer in enumerate(answers):
        content = {"gen_ai.input.messages": _says("user", f"q{at}")}
        content |= {} if answer is None else {"gen_ai.output.messages": _says("assistant", answer)}
        traces.append(([a_span({**MODEL, **content}, trace_id=f"{at + 1:032x}", start_ns=at + 1, end_ns=at + 2)], ()))
    traces.append(([a_span({"input.value": " ", "output.value": " "}, trace_id="9" * 32, start_ns=90, end_ns=99)], ()))
    case = case_of_session("s", traces, NO_KEYS)
    assert (case.inputs.get("input"), case.actual_outputs.get("output")) == (question, output)
    outcome = outcome_of("regex", case)
    score = None if output is None else float("paid" in output)
    assert getattr(outcome, "score", None) == score
    assert isinstance(outcome, Skipped if output is None else Verdict)


def _says(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


@pytest.mark.parametrize(
    "configuration, score",
    [
        ({"maxToolCalls": 3, "maxTokens": 9, "maxCostUsd": 1}, 1.0),
        ({"maxToolCalls": 0, "maxTokens": 9}, 0.0),
        ({"maxTokens": 9, "maxCostUsd": 1}, None),
    ],
)
def test_unknown_numbers_keep_and_break_no_limit(configuration: Mapping[str, Any], score: float | None) -> None:
    """Limits of tokens and cost that a trace does not tell are left out, and skipped if there are no others."""
    outcome = outcome_of("execution_metrics", case_of({}), configuration)
    assert (outcome.score if isinstance(outcome, Verdict) else None) == score
    assert not isinstance(outcome, Failure)


def test_what_was_not_captured_survives_a_document() -> None:
    """A case that is passed on as JSON still lists the content that was not captured."""
    document = case_of({}).model_dump(mode="json", by_alias=True, exclude_none=True)
    assert isinstance(outcome_of("tool_error", parse_case(document)), Skipped)


@pytest.mark.parametrize("evaluator", ["tool_correctness", "tool_trajectory"])
@pytest.mark.parametrize("mark", ["notCaptured", "inTrace"])
def test_an_expectation_that_is_missing_is_no_missing_content(evaluator: str, mark: str) -> None:
    """A rule without `expected` fails with what it lacks, whatever its traces recorded: these record none."""
    outcome = outcome_of(evaluator, Case.model_validate({"metadata": {mark: ["toolCalls"]}}))
    assert isinstance(outcome, Failure), outcome
    assert outcome.message.endswith("expectedOutputs.toolCalls is missing")


def test_definitions_that_no_span_told_are_asked_of_the_rule() -> None:
    """A check of calls without the definitions of tools says which key of the rule gives them."""
    calls = [{"name": "pay", "arguments": {"amount": 3}}]
    case = Case.model_validate({"actualOutputs": {"toolCalls": calls}, "metadata": {"notCaptured": ["tools"]}})
    outcome = outcome_of("tool_call_validity", case)
    assert isinstance(outcome, Skipped), outcome
    assert "add `tools` to the rule" in outcome.reason
