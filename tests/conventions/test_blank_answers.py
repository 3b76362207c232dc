"""Answers that were recorded and are blank: they are judged, unless words, calls or others were recorded, too."""

import asyncio
import itertools
import json
from typing import Any

import pytest

from collector.evaluation.trace_case import case_of_trace
from evaluators.evaluator import run
from evaluators.outcome import Skipped, Verdict
from evaluators.registry import build
from tests.conventions.making import Attributes, a_span, an_event, call, read, read_all, text
from tests.conventions.test_columnar import a_batch, a_request, assert_alike, assert_traces_alike

CHAT: Any = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps([text("assistant", "")])}
BLANKS: dict[str, Attributes] = {
    "OpenTelemetry": CHAT,
    "of content": {"gen_ai.operation.name": "chat", "gen_ai.output.messages": '[{"role":"assistant","content":""}]'},
    "without messages": {"gen_ai.operation.name": "chat", "gen_ai.output.messages": ""},
    "OpenInference": {"openinference.span.kind": "LLM", "output.value": ""},
    "numbered": {
        "openinference.span.kind": "LLM",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "",
    },
    "an agent": {"openinference.span.kind": "AGENT", "output.value": ""},
    "Traceloop": {
        "llm.request.type": "chat",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": "",
    },
    "Vercel": {"ai.operationId": "ai.streamText.doStream", "ai.response.text": "", "ai.response.finishReason": "stop"},
    "Gemini": {"openinference.span.kind": "LLM", "output.value": '{"role": "model", "parts": [{"text": ""}]}'},
}


@pytest.mark.parametrize("attributes", BLANKS.values(), ids=BLANKS)
def test_a_blank_answer_is_an_answer(attributes: Attributes) -> None:
    """An answer that was recorded as blank is judged: a pattern is not in it, and its calls of tools are none."""
    span = a_span(attributes)
    case = case_of_trace(read_all(span), [span])
    assert case.actual_outputs["output"] == ""
    outcome = asyncio.run(run(build("regex", {"pattern": "."}), case))
    assert isinstance(outcome, Verdict)
    assert outcome.score == 0


def test_blank_answers_are_read_by_columns_alike() -> None:
    """Batches with blank answers, with words and with blanks around them, say what single spans do."""
    attributes = [*BLANKS.values(), {**CHAT, "gen_ai.output.messages": json.dumps([text("assistant", "Let me see.")])}]
    spans = []
    for number, (above, below) in enumerate(itertools.product(attributes, attributes)):
        root = a_span(above, trace_id=f"{number + 1:032x}")
        spans += [root, a_span(below, parent=root, trace_id=root.trace_id, start_s=1)]
        spans.append(
            a_span(
                {"input.value": " ", **attributes[number % len(attributes)]},
                trace_id=root.trace_id,
                parent=root,
                start_s=2,
            )
        )
    batch = a_batch(a_request(spans))
    assert_alike(batch)
    assert_traces_alike(batch)


@pytest.mark.parametrize(
    "more",
    [
        {"gen_ai.output.messages": "null"},
        {"gen_ai.output.messages": "[]"},
        {"gen_ai.output.messages": '[{"role":"assistant"}]'},
        {"gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"text"}]}]'},
        {"gen_ai.response.finish_reasons": ["tool_calls"]},
        {"gen_ai.output.messages": '[{"role":"assistant","content":"","finish_reason":"tool_call"}]'},
    ],
)
def test_null_and_lists_without_text_are_not_recorded(more: Attributes) -> None:
    """Null, an empty list, a message without text, and blank text beside unrecorded calls are not answers."""
    assert read({**CHAT, **more}).output is None


def test_words_and_calls_beside_a_blank_text_count() -> None:
    """A blank text gives way to words in an event or another attribute of its span, and to calls."""
    event = an_event("gen_ai.choice", {"gen_ai.event.content": json.dumps({"message": {"content": "Sunny."}})})
    assert read(CHAT, events=(event,)).output == "Sunny."
    assert read({**CHAT, "output.value": "Sunny."}).output == "Sunny."
    calls: Any = [{"toolCallId": "c", "toolName": "pay", "input": "{}"}]
    reading = read(
        {
            "ai.operationId": "ai.generateText.doGenerate",
            "ai.response.text": "",
            "ai.response.toolCalls": json.dumps(calls),
        }
    )
    assert [part["type"] for part in (reading.output_messages or ())[0]["parts"]] == ["tool_call"]  # type: ignore[index, union-attr, call-overload] # a list


def test_the_words_of_another_span_are_the_output_of_a_blank_root() -> None:
    """A root whose stream was recorded as blank shows the words of its model; a blank last model shows blank."""
    root = a_span({"openinference.span.kind": "AGENT", "output.value": ""})
    words = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps([text("assistant", "Let me see.")])}
    first = a_span(words, parent=root, start_s=1)
    assert read_all(root, first).output == "Let me see."
    last = a_span(CHAT, parent=root, start_s=2)
    assert (read_all(root, first, last).output, read_all(root, first, last).final_response) == ("", "")


def test_a_blank_message_after_a_call_is_the_answer() -> None:
    """Words before a call of a tool are not the answer of a run that ends in a blank message."""
    run_of: Any = [
        text("assistant", "Let me see."),
        call("f", {}, "c1"),
        {"role": "tool", "parts": []},
        text("assistant", ""),
    ]
    span = {"gen_ai.operation.name": "invoke_agent", "gen_ai.output.messages": json.dumps(run_of)}
    assert read(span).output == ""


@pytest.mark.parametrize("kind, is_known", [("invoke_agent", False), ("chat", True)])
def test_the_calls_of_an_agent_that_failed_without_content_are_unknown(kind: str, is_known: bool) -> None:  # noqa: FBT001 - a parameter
    """An agent that failed may have called tools; a model that failed has called none."""
    span = a_span({"gen_ai.operation.name": kind}, status_code=2)
    outcome = asyncio.run(run(build("tool_error", {}), case_of_trace(read_all(span), [span])))
    assert isinstance(outcome, Verdict if is_known else Skipped)


def test_a_tool_that_failed_without_content_is_a_failed_call() -> None:
    """The status of a tool's span says that the call failed, though no result was recorded."""
    span = a_span({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay"}, status_code=2)
    outcome = asyncio.run(run(build("tool_error", {}), case_of_trace(read_all(span), [span])))
    assert isinstance(outcome, Verdict)
    assert outcome.score == 0
