"""Spans of OpenInference's instrumentations that no recording holds, each in its library's form."""

import json
from typing import Any

import pytest

from tests.conventions.making import a_span, call, read, read_all, text

OSLO: dict[str, Any] = {"city": "Oslo"}


@pytest.mark.parametrize(
    "usage, expected",
    [
        (
            {"prompt_tokens_details": {"cached_tokens": 8}, "completion_tokens_details": {"reasoning_tokens": 4}},
            (61, 8, 4),
        ),
        ({"input_tokens_details": {"cached_tokens": 8}, "output_tokens_details": {"reasoning_tokens": 4}}, (61, 8, 4)),
        ({"prompt_tokens": 61}, (61, None, None)),
    ],
)
def test_counts_that_openinference_leaves_out_are_in_the_raw_answer(
    usage: dict[str, Any], expected: tuple[int | None, ...]
) -> None:
    """OpenInference's instrumentation of Mistral records no cached or reasoning tokens; the response has them."""
    attributes = {
        "openinference.span.kind": "LLM",
        "llm.token_count.prompt": 61,
        "output.value": json.dumps({"usage": usage}),
    }
    reading = read(attributes, scope="openinference.instrumentation.mistralai")
    assert (reading.input_tokens, reading.cached_tokens, reading.reasoning_tokens) == expected


def test_smolagents_thoughts_and_counts_are_in_the_response_that_python_wrote() -> None:
    """The instrumentation of smolagents appends reasoning to the text, and records no cached or reasoning tokens."""
    message = "ChatCompletionMessage(content='7 °C', role='assistant', reasoning_content='Look it up.')"
    usage = (
        "CompletionUsage(completion_tokens=30, completion_tokens_details=CompletionTokensDetails(reasoning_tokens=9), "
        "prompt_tokens_details=PromptTokensDetails(cached_tokens=8))"
    )
    raw = f"ChatCompletion(id='c', choices=[Choice(finish_reason='stop', message={message})], usage={usage})"
    attributes: dict[str, Any] = {"openinference.span.kind": "LLM", "llm.output_messages.0.message.role": "assistant"}
    for number, words in enumerate(("7 °C", "Look it up.")):
        place = f"llm.output_messages.0.message.contents.{number}.message_content"
        attributes |= {f"{place}.type": "text", f"{place}.text": words}
    attributes |= {
        "llm.token_count.prompt": 61,
        "llm.token_count.completion": 30,
        "output.value": json.dumps({"raw": raw}),
    }
    reading = read(attributes, scope="openinference.instrumentation.smolagents")
    parts = [{"type": "reasoning", "content": "Look it up."}, {"type": "text", "content": "7 °C"}]
    assert (reading.output, reading.output_messages) == ("7 °C", ({"role": "assistant", "parts": parts},))
    assert (reading.cached_tokens, reading.reasoning_tokens) == (8, 9)


THINKING = {"type": "thinking", "thinking": "Look it up.", "signature": "c2ln"}


@pytest.mark.parametrize(
    "reply",
    [
        {"choices": [{"message": {"role": "assistant", "content": "7 °C", "reasoning_content": "Look it up."}}]},
        {"choices": [{"message": {"role": "assistant", "content": "7 °C", "reasoning": "Look it up."}}]},
        {"role": "assistant", "content": [THINKING, {"type": "text", "text": "7 °C"}]},
        {
            "generations": [
                [{"text": "7 °C", "message": {"lc": 1, "kwargs": {"type": "ai", "content": [THINKING, "7 °C"]}}}]
            ]
        },
    ],
)
def test_thoughts_that_attributes_leave_out_are_in_the_reply(reply: dict[str, Any]) -> None:
    """The attributes have the text alone; the raw reply of the model has the reasoning before it."""
    attributes = {"openinference.span.kind": "LLM", "output.value": json.dumps(reply)}
    attributes |= {"llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": "7 °C"}
    reading = read(attributes)
    parts = [{"type": "reasoning", "content": "Look it up."}, {"type": "text", "content": "7 °C"}]
    assert (reading.output, reading.output_messages) == ("7 °C", ({"role": "assistant", "parts": parts},))


def test_dspys_answer_has_words_thoughts_and_calls_as_python_wrote_them() -> None:
    """A model that calls a tool answers a map in a list; words alone would be a text."""
    requested = f"Call(function=Function(arguments='{json.dumps(OSLO)}', name='weather'), id='c1', type='function')"
    attributes = {"text": None, "reasoning_content": "Look it up.", "tool_calls": [requested]}
    reading = read({"openinference.span.kind": "LLM", "output.value": json.dumps([attributes])})
    parts = [{"type": "reasoning", "content": "Look it up."}, *call("weather", OSLO, "c1")["parts"]]
    assert reading.output_messages == ({"role": "assistant", "parts": parts},)


def test_a_request_that_counts_tokens_asks_no_model() -> None:
    """CrewAI has OpenAI count what a request would have, which the client's instrumentation calls a model's answer."""
    attributes = {"openinference.span.kind": "LLM", "output.value": json.dumps({"input_tokens": 61})}
    assert read(attributes, name="InputTokenCountResponse").span_type == "other"


def test_a_crew_was_asked_its_inputs_else_its_first_task() -> None:
    """The span of a crew has no other input; a task is a template if the crew has inputs."""
    attributes = {"openinference.span.kind": "CHAIN", "crew_tasks": json.dumps([{"description": "Ask about {city}."}])}
    scope = "openinference.instrumentation.crewai"
    assert read({**attributes, "crew_inputs": ""}, scope=scope).input == "Ask about {city}."
    assert read({**attributes, "crew_inputs": json.dumps(OSLO)}, scope=scope).input == json.dumps(OSLO)


def test_langgraphs_metadata_tells_session_and_user() -> None:
    """What a run of a graph is given as metadata is on each of its spans."""
    metadata = {"thread_id": "th-1", "userId": "u-1", "ls_integration": "langgraph"}
    reading = read({"openinference.span.kind": "CHAIN", "metadata": json.dumps(metadata)})
    assert (reading.session_id, reading.user_id) == ("th-1", "u-1")


def test_llama_indexs_messages_are_blocks() -> None:
    """The span around the client has the answer as LlamaIndex writes it: words and calls are blocks."""
    requested = {"tool_call_id": "c1", "tool_name": "weather", "tool_kwargs": json.dumps(OSLO)}
    again = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": json.dumps(OSLO)}}
    blocks = [{"text": "Looking."}, requested]
    message = {"role": "assistant", "additional_kwargs": {"tool_calls": [again]}, "blocks": blocks}
    attributes = {"openinference.span.kind": "LLM", "llm.output_messages.0.message.role": "assistant"}
    reading = read({**attributes, "output.value": json.dumps({"message": message, "raw": None})})
    parts = [*text("assistant", "Looking.")["parts"], *call("weather", OSLO, "c1")["parts"]]
    assert (reading.output, reading.output_messages) == ("Looking.", ({"role": "assistant", "parts": parts},))


def test_autogens_own_span_tells_that_a_tool_failed() -> None:
    """OpenInference's span around it has the text of the failure as a result, and no error."""
    attributes = {"openinference.span.kind": "TOOL", "tool.name": "weather", "input.value": json.dumps(OSLO)}
    outer = a_span({**attributes, "output.value": "unknown city: Oslo"}, scope="openinference.instrumentation.autogen")
    ran = {"gen_ai.system": "autogen", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather"}
    inner = a_span(
        {**ran, "gen_ai.tool.call.id": "c1", "error.type": "ValueError"},
        scope="autogen-core",
        parent=outer,
        status_code=2,
        status_message="ValueError: unknown city: Oslo",
    )
    (tool_call,) = read_all(outer, inner).tool_calls
    assert (tool_call.call_id, tool_call.arguments, tool_call.is_error) == ("c1", OSLO, True)
    assert tool_call.error == "ValueError: unknown city: Oslo"


def test_a_result_that_says_it_is_an_error_is_one() -> None:
    """The model's next input contains a failure that the tool's span lacks."""
    prefix = "llm.output_messages.0.message.tool_calls.0.tool_call"
    model = a_span(
        {
            "openinference.span.kind": "LLM",
            f"{prefix}.id": "c1",
            f"{prefix}.function.name": "weather",
            f"{prefix}.function.arguments": json.dumps(OSLO),
        }
    )
    attributes = {"openinference.span.kind": "TOOL", "tool.name": "weather", "input.value": json.dumps(OSLO)}
    tool = a_span({**attributes, "output.value": "unknown city: Oslo"}, start_s=1)
    result = json.dumps({"name": "weather", "content": "unknown city: Oslo", "call_id": "c1", "is_error": True})
    then = a_span(
        {
            "openinference.span.kind": "LLM",
            "llm.input_messages.0.message.role": "function",
            "llm.input_messages.0.function.0": result,
        },
        start_s=2,
    )
    (tool_call,) = read_all(model, tool, then).tool_calls
    assert (tool_call.call_id, tool_call.is_error, tool_call.error) == ("c1", True, "unknown city: Oslo")


def test_a_call_of_litellms_responses_has_the_id_that_its_result_has() -> None:
    """OpenInference writes the id of the item at the call, and that of the call at the message."""
    message = "llm.output_messages.0.message"
    attributes = {
        f"{message}.role": "assistant",
        f"{message}.tool_call_id": "call_1",
        f"{message}.tool_calls.0.tool_call.id": "fc_1",
        f"{message}.tool_calls.0.tool_call.function.name": "weather",
        f"{message}.tool_calls.0.tool_call.function.arguments": json.dumps(OSLO),
    }
    reading = read({"openinference.span.kind": "LLM", **attributes}, scope="openinference.instrumentation.litellm")
    assert reading.output_messages == (call("weather", OSLO, "call_1"),)
