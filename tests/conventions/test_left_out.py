"""Parts that libraries leave out of messages, and send elsewhere, are read into these messages."""

import json
from typing import Any

import pytest

from storage.records import Span
from tests.conventions.making import a_log, a_span, call, read, read_all, text
from tests.conventions.test_columnar import assert_alike, assert_traces_alike, sent

GOOGLE = "openinference.instrumentation.google_genai"
BOTOCORE = "opentelemetry.instrumentation.botocore.bedrock-runtime"
REFUSED: dict[str, Any] = {"content": "", "additional_kwargs": {"refusal": "No."}, "type": "ai"}
SERIALIZED = {"lc": 1, "id": ["langchain", "schema", "messages", "AIMessage"], "kwargs": REFUSED}
BLOCK = {"type": "refusal", "refusal": "No."}


def generated(message: dict[str, Any]) -> str:
    """Return an answer as LangChain has it."""
    return json.dumps({"generations": [[{"text": "", "message": message}]]})


@pytest.mark.parametrize(
    "scope, attributes",
    [
        (
            "openinference.instrumentation.langchain",
            {
                "openinference.span.kind": "LLM",
                "llm.output_messages.0.message.role": "assistant",
                "output.value": generated(SERIALIZED),
            },
        ),
        ("langsmith", {"langsmith.span.kind": "llm", "gen_ai.completion": generated(SERIALIZED)}),
        (
            "langsmith",
            {"langsmith.span.kind": "llm", "gen_ai.completion": generated({"content": [BLOCK], "type": "ai"})},
        ),
        (
            "langfuse-sdk",
            {
                "langfuse.observation.type": "generation",
                "langfuse.observation.output": json.dumps({**REFUSED, "role": "assistant"}),
            },
        ),
        (
            "opentelemetry.instrumentation.langchain",
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.output.messages": json.dumps([text("assistant", json.dumps(BLOCK))]),
            },
        ),
    ],
)
def test_a_refusal_through_langchain_is_the_answer(scope: str, attributes: dict[str, Any]) -> None:
    """It stands beside an empty content, or in a block that is the JSON of itself."""
    span = a_span(attributes, scope=scope)
    assert read(attributes, scope=scope).output == "No."
    assert_alike(sent([span]))


def automatic(response: bool) -> Span:  # noqa: FBT001 - whether the response itself is recorded
    """Return a call in which Google's client called a function itself, as OpenInference writes it."""
    history = [
        {"parts": [{"text": "stock?"}], "role": "user"},
        {"parts": [{"function_call": {"args": {"item": "hose"}, "name": "lookup"}}], "role": "model"},
        {"parts": [{"function_response": {"name": "lookup", "response": {"result": "12"}}}], "role": "user"},
    ]
    attributes = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "stock?",
        "llm.output_messages.0.message.role": "model",
        "llm.output_messages.0.message.content": "12 left",
        "message.tool_calls.0.tool_call.function.name": "lookup",
        "message.tool_calls.0.tool_call.function.arguments": '{"item": "hose"}',
    }
    whole = {
        "candidates": [{"content": {"parts": [{"text": "12 left"}]}}],
        "automatic_function_calling_history": history,
    }
    return a_span(attributes | ({"output.value": json.dumps(whole)} if response else {}), scope=GOOGLE)


@pytest.mark.parametrize("response, result", [(True, "12"), (False, None)])
def test_automatic_calls_of_googles_client_are_calls(response: bool, result: str | None) -> None:  # noqa: FBT001 - as above
    """They stand at the top of the span, outside of its messages; the response has their results."""
    span = automatic(response)
    trace = read_all(span)
    (called,) = trace.tool_calls
    assert (called.name, called.arguments, called.result) == ("lookup", {"item": "hose"}, result)
    assert (trace.output, trace.final_response) == ("12 left", "12 left")
    assert_traces_alike(sent([span]))


def test_ids_that_google_genai_numbers_are_none() -> None:
    """OpenTelemetry's instrumentation names a call without an id after its function and its place."""
    requested = {"type": "tool_call", "id": "lookup_0", "name": "lookup", "arguments": {}}
    messages = json.dumps([{"role": "assistant", "parts": [requested]}])
    attributes = {"gen_ai.operation.name": "generate_content", "gen_ai.output.messages": messages}
    google = read(attributes, scope="opentelemetry.instrumentation.google_genai")
    assert google.output_messages == (call("lookup", {}, None),)
    assert read(attributes).output_messages == (call("lookup", {}, "lookup_0"),)


def bedrock(*content: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the messages after a request with results, each of which botocore sends as a tool's, and then all."""
    span = a_span({"gen_ai.operation.name": "chat"}, scope=BOTOCORE)
    results = [block["toolResult"] for block in content if "toolResult" in block]
    tool_results = [({"id": one["toolUseId"], "content": one["content"]}, "gen_ai.tool.message") for one in results]
    tool_results.append(({"content": list(content)}, "gen_ai.user.message"))
    logs = [a_log(span, name, body, time_ns=at) for at, (body, name) in enumerate(tool_results)]
    return [*(read(span.attributes, logs=logs, scope=BOTOCORE).input_messages or ())]


def result(number: int, **more: str) -> dict[str, Any]:
    """Return a block with the result of a call."""
    return {"toolResult": {"toolUseId": f"t{number}", "content": [{"json": {"n": number}}], **more}}


def test_results_in_one_message_of_botocore_are_told_once() -> None:
    """Two of them, a failed one, and some with words beside them."""
    parts = [{"type": "tool_call_response", "id": f"t{number}", "response": {"n": number}} for number in (1, 2)]
    assert bedrock(result(1), result(2)) == [{"role": "tool", "parts": parts}]
    failed = {**parts[1], "is_error": True}
    assert bedrock(result(1), result(2, status="error")) == [{"role": "tool", "parts": [parts[0], failed]}]
    words = {"type": "text", "content": "And now?"}
    assert bedrock(result(1), result(2), {"text": "And now?"}) == [{"role": "user", "parts": [*parts, words]}]


def test_langfuses_instructions_over_responses_are_the_system_text() -> None:
    """Its JavaScript has them in the metadata of the answer."""
    attributes = {
        "langfuse.observation.type": "generation",
        "langfuse.observation.input": "q",
        "langfuse.observation.metadata.instructions": "Be kind.",
    }
    reading = read(attributes, scope="langfuse-sdk")
    assert reading.input_messages == (text("system", "Be kind."), text("user", "q"))
    assert read({**attributes, "langfuse.observation.type": "span"}, scope="langfuse-sdk").input_messages is None


def chat(request: list[Any], answered: list[Any], start_s: float) -> Span:
    """Return a call as OpenLIT writes it: without the calls of earlier answers in its input."""
    attributes = {"gen_ai.input.messages": json.dumps(request), "gen_ai.output.messages": json.dumps(answered)}
    scope = "openlit.instrumentation.openai"
    return a_span({"gen_ai.operation.name": "chat", **attributes}, scope=scope, start_s=start_s)


def test_openlits_conversation_has_the_calls_of_its_results() -> None:
    """They are in the answers of earlier spans: several of one answer, and one beside words."""
    calls = [{"type": "tool_call", "id": f"c{number}", "name": "f", "arguments": {}} for number in (1, 2, 3)]
    results = [
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": one["id"], "response": "7 pieces"}]}
        for one in calls
    ]
    question, words = text("user", "q"), text("assistant", "w")
    both = {"role": "assistant", "parts": [*words["parts"], calls[2]]}
    trace = read_all(
        chat([question], [{"role": "assistant", "parts": calls[:2]}], 0),
        chat([question, *results[:2]], [both], 1),
        chat([question, *results[:2], words, results[2]], [text("assistant", "done")], 2),
    )
    requested = {"role": "assistant", "parts": calls[:2]}
    assert [*trace.conversation] == [question, requested, *results[:2], both, results[2], text("assistant", "done")]
