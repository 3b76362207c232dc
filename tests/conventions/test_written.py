"""Frameworks' objects that an instrumentation wrote as Python literals."""

import json
from typing import Any

import pytest

from collector.conventions.python_repr import MAX_CHARS, plain, written_message, written_object
from tests.conventions.making import call, read, text

OSLO: dict[str, Any] = {"city": "Oslo"}
HAYSTACK_CALL = (
    "ChatMessage(_role=<ChatRole.ASSISTANT: 'assistant'>, _content=[ToolCall(tool_name='weather', "
    "arguments={'city': 'Oslo'}, id='c1', extra=None)], _name=None, _meta={'usage': {'prompt_tokens': 45, "
    "'completion_tokens': 11, 'completion_tokens_details': {'reasoning_tokens': 5}, "
    "'prompt_tokens_details': {'cached_tokens': 32}}})"
)
HAYSTACK_RESULT = (
    "ChatMessage(_role=<ChatRole.TOOL: 'tool'>, _content=[ToolCallResult(result='it\\'s \"gone\"', origin="
    "ToolCall(tool_name='weather', arguments={'city': 'Oslo'}, id='c1', extra=None), error=True)], _name=None)"
)
HAYSTACK_QUESTION = "ChatMessage(_role=<ChatRole.USER: 'user'>, _content=[TextContent(text='q')], _name=None)"
HAYSTACK_TOOL = (
    "Tool(name='weather', description='Of a city.', parameters={'type': 'object'}, "
    "function=<function weather at 0x7fa6e2ef8220>, outputs_to_string=None)"
)


def test_haystacks_ids_results_and_tools_are_read_where_python_wrote_them() -> None:
    """OpenInference's attributes leave out ids, results and tools; the request and the answer have them as `repr`."""
    request = {"messages": [HAYSTACK_QUESTION, HAYSTACK_CALL, HAYSTACK_RESULT], "tools": [HAYSTACK_TOOL]}
    attributes = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "q",
        "llm.input_messages.1.message.role": "assistant",
        "llm.input_messages.2.message.role": "tool",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "weather",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": json.dumps(OSLO),
        "llm.token_count.prompt": 45,
        "input.value": json.dumps(request),
        "output.value": json.dumps({"replies": [HAYSTACK_CALL]}),
    }
    reading = read(attributes, scope="openinference.instrumentation.haystack")
    assert reading.output_messages == (call("weather", OSLO, "c1"),)
    failed = {"type": "tool_call_response", "id": "c1", "response": 'it\'s "gone"', "name": "weather", "is_error": True}
    assert reading.input_messages == (
        text("user", "q"),
        call("weather", OSLO, "c1"),
        {"role": "tool", "parts": [failed]},
    )
    assert [(tool.name, tool.description, tool.parameters) for tool in reading.tool_definitions] == [
        ("weather", "Of a city.", {"type": "object"})
    ]
    assert (reading.cached_tokens, reading.reasoning_tokens) == (32, 5)


def test_mistrals_own_message_between_maps_is_not_lost() -> None:
    """The application hands the client its answer back, which OpenInference writes as text among the messages."""
    own = (
        "role='assistant' content=None tool_calls=[ToolCall(function=FunctionCall(name='weather', "
        "arguments='{\"city\": \"Oslo\"}'), id='c1', type='function', index=0)] prefix=False"
    )
    result = {"role": "tool", "tool_call_id": "c1", "name": "weather", "content": "7"}
    attributes = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "q",
        "llm.input_messages.2.message.role": "tool",
        "llm.input_messages.2.message.content": "7",
        "input.value": json.dumps({"messages": [{"role": "user", "content": "q"}, own, result]}),
    }
    reading = read(attributes, scope="openinference.instrumentation.mistralai").input_messages or ()
    assert [message["role"] for message in reading] == ["user", "assistant", "tool"]
    assert reading[1] == call("weather", OSLO, "c1")


def test_autogens_task_is_what_the_user_said() -> None:
    """Its messages are written with their sources."""
    one = (
        "id='4' source='user' models_usage=None metadata={} created_at=datetime.datetime(2026, 1, 2, "
        "tzinfo=datetime.timezone.utc) content='q' type='TextMessage'"
    )
    attributes = {"openinference.span.kind": "AGENT", "input.value": json.dumps({"messages": [one]})}
    assert read(attributes, scope="openinference.instrumentation.autogen_agentchat").input == "q"


@pytest.mark.parametrize(
    "written, expected",
    [
        ("A(x=1, y=-2.5, z=None, w=True)", {"x": 1, "y": -2.5, "z": None, "w": True}),
        ("A(B(x=1), y=[B(x=1), (2, 3)], z={'k': B(x='v')})", {"y": [{"x": 1}, [2, 3]], "z": {"k": {"x": "v"}}}),
        ("a.b.C(x=<E.M: 'm'>, y=<object at 0x1>)", {"x": "m", "y": None}),
        ("x='a' y=Z()", {"x": "a", "y": {}}),
        ("A()", {}),
    ],
)
def test_objects_are_maps_of_their_named_fields(written: str, expected: dict[str, Any]) -> None:
    """Enumerations are their values, and fields without a name or a value are left out or null."""
    assert plain(written_object(written)) == expected


@pytest.mark.parametrize(
    "other",
    [
        "hello",
        "It was (as he said) fine",
        "A(x=1",
        "A(x=1) and more",
        "A(x=1 + 2)",
        "x='a' and then",
        "x=__import__('os').system('true') ; y",
        "A(" * 200 + ")" * 200,
        "A(x='" + "a" * MAX_CHARS + "')",
        "A(x='\\d')",
        "A(x=01)",
        "A(x=)",
        "A(,)",
        "[A(x=1)]",
        "A(x={1})",
    ],
)
def test_anything_else_is_no_object(other: str) -> None:
    """Prose, cut-off objects, expressions, and too deep or too long texts are not read, and none raises."""
    assert written_object(other) is None


def test_an_object_that_is_no_message_is_none() -> None:
    """An object without a role or without content is not a message."""
    for other in ("A(x=1)", "A(role='user')", "A(content='hi')", "content='hi' source='user'"):
        assert written_message(other) is None


def test_half_a_surrogate_pair_can_be_written_again() -> None:
    """What no answer can carry is replaced."""
    assert plain(written_object(r"A(x='\ud800')")) == {"x": "?"}
