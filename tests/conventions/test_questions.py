"""The input of a trace is what the user asked, not what a library sends in the user's place."""

import json
from typing import Any

import pytest

from storage.records import Span
from tests.conventions.making import a_span, call, read_all, response, text
from tests.conventions.test_columnar import assert_traces_alike, sent

QUESTION = "How many hoses are left?"
REJECTED = text("assistant", "A dozen")
FEEDBACK = [
    "Your previous response failed the application's validation (this is automated feedback):\n<pyai:retry_feedback>",
    "Validation feedback:\nName a number.\n\nFix the errors and try again.",
    "1 validation error:\n```json\n[]\n```\n\nFix the errors and try again.",
    "Please include your response in a tool call.\n\nFix the errors and try again.",
    "Validation Error found:\n1 validation error for Answer\nRecall the function correctly, fix the errors",
    "Correct your JSON ONLY RESPONSE, based on the following errors:\n1 validation error for Answer",
    "Recall the function correctly, fix the errors, exceptions found\n1 validation error for Answer",
]


def a_model(sent_messages: Any, answer: Any, **fields: Any) -> Span:
    """Build a call of a model."""
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps([answer])}
    return a_span(attributes | {"gen_ai.input.messages": json.dumps(sent_messages)}, **fields)


def input_of(*spans: Span) -> str | None:
    """Return the input of a trace, checked against the columnar reader, for any order of its spans."""
    read = {read_all(*order).input for order in (spans, spans[::-1])}
    assert_traces_alike(sent(spans))
    (text_read,) = read
    return text_read


@pytest.mark.parametrize("feedback", FEEDBACK)
@pytest.mark.parametrize("before", [[], [text("user", "Hello"), text("assistant", "Hi")]])
def test_feedback_on_a_rejected_answer_is_no_input(feedback: str, before: list[Any]) -> None:
    """An agent that lists its messages was asked what stands before the answer that was rejected."""
    prompt = [*before, text("user", QUESTION)]
    again = [*prompt, REJECTED, text("user", feedback)]
    root = a_span(
        {
            "gen_ai.operation.name": "invoke_agent",
            "pydantic_ai.all_messages": json.dumps([*again, text("assistant", "12")]),
        },
        scope="pydantic-ai",
    )
    spans = [
        a_model(prompt, REJECTED, parent=root, start_s=1),
        a_model(again, text("assistant", "12"), parent=root, start_s=2),
    ]
    assert input_of(root, *spans) == QUESTION
    assert input_of(spans[1]) == QUESTION


@pytest.mark.parametrize("feedback", FEEDBACK)
def test_a_root_that_was_sent_feedback_alone_has_the_question_of_the_first_model(feedback: str) -> None:
    """A root of which the earlier messages were not recorded gives way to the first question below it."""
    root = a_span(
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.input.messages": json.dumps([text("user", feedback)])}
    )
    assert input_of(root, a_model([text("user", QUESTION)], REJECTED, parent=root, start_s=1)) == QUESTION
    assert input_of(root) == feedback


@pytest.mark.parametrize(
    "question",
    [
        "Fix the errors and try again.",
        "Why does my agent print Validation feedback: and Fix the errors and try again.",
        "What is a validation error?",
        "Recall the function of the liver.",
    ],
)
def test_questions_about_feedback_are_questions(question: str) -> None:
    """A user's words count, even if they name what libraries send."""
    messages = [text("user", "Hello"), text("assistant", "Hi"), text("user", question)]
    assert input_of(a_model(messages, text("assistant", "So."))) == question


STATE = '{"init_state": {"is_running": false}, "start_event": "AgentWorkflowStartEvent()"}'


def a_workflow() -> list[Span]:
    """Build LlamaIndex's agent as OpenInference records it."""
    kind = "openinference.span.kind"
    root = a_span({kind: "CHAIN", "input.value": STATE, "output.value": "StopEvent(result=AgentOutput(respon..."})
    step = a_span(
        {kind: "CHAIN", "input.value": '{"ctx": "<workflows.context.context.Context object at 0x7f>", "ev": "S()"}'},
        parent=root,
        start_s=1,
    )
    model = {
        kind: "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": QUESTION,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "Twelve.",
    }
    return [root, step, a_span(model, parent=step, start_s=2)]


def test_the_state_of_a_workflow_is_neither_input_nor_output() -> None:
    """What the model below was asked and answered counts instead, and the state only if nothing else is recorded."""
    spans = a_workflow()
    assert input_of(*spans) == QUESTION
    assert read_all(*spans).output == "Twelve."
    assert input_of(*spans[:2]) == STATE


def test_results_and_failures_of_tools_are_no_input() -> None:
    """A request that ends with a tool's failure was asked what the user said before."""
    messages = [text("user", QUESTION), call("f", {}, "c1"), response("Error: out of reach", "c1")]
    assert input_of(a_model(messages, text("assistant", "Sorry."))) == QUESTION
