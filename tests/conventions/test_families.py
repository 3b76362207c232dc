"""Dialects that have no recording, each according to its documentation or its source."""

import json
from typing import Any

import pytest

from storage.records import SpanReading
from tests.conventions.making import a_resource, an_event, call, read, response, text

CITY = '{"city": "Oslo"}'
OSLO = {"city": "Oslo"}


def fields_of(reading: SpanReading, *names: str) -> tuple[Any, ...]:
    """Return some fields of a reading."""
    return tuple(getattr(reading, name) for name in names)


def test_langfuse_says_all_in_its_own_names() -> None:
    """The type, the usage and the cost of an observation are its own; a level is an error without a status."""
    generation = read(
        {
            "langfuse.observation.type": "generation",
            "langfuse.observation.input": '[{"role": "user", "content": "Hi"}]',
            "langfuse.observation.output": '{"role": "assistant", "content": "Hello."}',
            "langfuse.observation.model.name": "gpt-4o",
            "langfuse.observation.usage_details": '{"input": 5, "output": 7, "total": 12, "input_cached_tokens": 2}',
            "langfuse.observation.cost_details": '{"input": 0.001, "output": 0.002}',
            "session.id": "s",
            "user.id": "u",
            "langfuse.observation.level": "ERROR",
            "langfuse.observation.status_message": "rate limited",
        }
    )
    assert fields_of(generation, "span_type", "dialect", "input", "output") == ("llm", "langfuse", "Hi", "Hello.")
    assert fields_of(generation, "model", "input_tokens", "output_tokens", "cached_tokens") == ("gpt-4o", 5, 7, 2)
    assert generation.cost_usd == pytest.approx(0.003)
    assert fields_of(generation, "session_id", "user_id", "error") == ("s", "u", "rate limited")
    tool = read(
        {"langfuse.observation.type": "tool", "langfuse.observation.input": CITY, "langfuse.observation.output": "sun"},
        name="get_weather",
    )
    assert fields_of(tool, "span_type", "tool_name", "tool_arguments", "tool_result") == (
        "tool",
        "get_weather",
        OSLO,
        "sun",
    )
    plain = read({"langfuse.observation.type": "generation", "langfuse.observation.input": "Hi"}, scope="langfuse-sdk")
    assert plain.input_messages == (text("user", "Hi"),)


def test_claude_code_counts_cached_tokens_apart() -> None:
    """Its input tokens leave the cached ones out; in the reading they are in, and a note says so."""
    request = read(
        {
            "span.type": "llm_request",
            "model": "claude-opus-4-6",
            "new_context": "Fix the test.",
            "response.model_output": "Done.",
            "input_tokens": 10,
            "output_tokens": 5,
            "cache_read_tokens": 700,
            "cache_creation_tokens": 30,
            "session.id": "s",
        },
        name="claude_code.llm_request",
    )
    assert fields_of(request, "span_type", "dialect", "model", "input") == (
        "llm",
        "claude_code",
        "claude-opus-4-6",
        "Fix the test.",
    )
    assert fields_of(request, "output", "output_tokens", "cached_tokens", "session_id") == ("Done.", 5, 700, "s")
    assert request.input_tokens == 10 + 700 + 30
    assert any(note.startswith("input_tokens: 730 cached ones") for note in request.notes)


def test_claude_code_tools_are_read_with_and_without_a_type() -> None:
    """The name of the span gives its type if `span.type` is missing; the result may be in an event."""
    events = (an_event("tool.output", {"output": "3 files"}),)
    attributes = {"tool_name": "Bash", "tool_input": '{"command": "ls"}', "success": "false"}
    tool = read(attributes, name="claude_code.tool", scope="com.anthropic.claude_code", events=events)
    assert fields_of(tool, "span_type", "tool_name", "tool_arguments") == ("tool", "Bash", {"command": "ls"})
    assert fields_of(tool, "tool_result", "error") == ("3 files", "failed without a message")
    assert read({"span.type": "tool_execution"}, name="claude_code.tool.execution").span_type == "chain"
    assert read({}, name="claude_code.tool.blocked_on_user").span_type == "chain"
    interaction = read({"user_prompt": "Fix it."}, name="claude_code.interaction")
    assert fields_of(interaction, "span_type", "input") == ("agent", "Fix it.")


def test_gemini_cli_sends_parts_without_types() -> None:
    """Untyped parts, thoughts among them, one object instead of a list, and operations of its own."""
    attributes = {
        "gen_ai.agent.name": "gemini-cli",
        "gen_ai.operation.name": "llm_call",
        "gen_ai.system_instructions": '"Be kind."',
        "gen_ai.input.messages": '[{"role": "user", "parts": [{"text": "Hi"}]}]',
        "gen_ai.output.messages": '{"role": "model", "parts": [{"text": "hm", "thought": true}, {"text": "Hello."}]}',
        "gen_ai.conversation.id": "c",
    }
    reading = read(attributes)
    assert fields_of(reading, "span_type", "dialect", "output", "session_id") == ("llm", "gemini_cli", "Hello.", "c")
    assert reading.input_messages == (text("system", "Be kind."), text("user", "Hi"))
    requested = {"name": "read_file", "args": {"path": "a"}}
    returned = {"name": "read_file", "response": {"output": "text"}}
    tool = read(
        {
            "gen_ai.operation.name": "tool_call",
            "gen_ai.tool.name": "read_file",
            "gen_ai.input.messages": [{"role": "model", "parts": [{"functionCall": requested}]}],
            "gen_ai.output.messages": [{"role": "user", "parts": [{"functionResponse": returned}]}],
        },
        resource=a_resource(service_name="gemini-cli"),
    )  # fmt: skip
    assert fields_of(tool, "span_type", "dialect", "tool_arguments") == ("tool", "gemini_cli", {"path": "a"})
    assert tool.tool_result == {"output": "text"}
    assert read({"gen_ai.operation.name": "user_prompt"}).span_type == "chain"
    assert read({"gen_ai.operation.name": "agent_call"}).span_type == "agent"


def test_openlit_chat_spans_are_no_tools() -> None:
    """OpenLIT puts the tool that was asked for on the span of the model."""
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.tool.name": "get_weather",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.args": CITY,
        "gen_ai.usage.cost": 0.01,
    }
    reading = read(attributes, resource=a_resource(telemetry_sdk_name="openlit"))
    assert fields_of(reading, "span_type", "dialect", "tool_name", "cost_usd") == ("llm", "openlit", None, 0.01)
    assert read(attributes, scope="openlit.otel.tracing").dialect == "openlit"


def test_semantic_kernel_messages_are_flat() -> None:
    """Its agents have messages without parts, and its tools are named after their plugin."""
    agent = read(
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.input.messages": '[{"role": "user", "content": "Hi", "name": "Ada"}]',
            "gen_ai.output.messages": '[{"role": "assistant", "content": "Hello."}]',
        },
        scope="Microsoft.SemanticKernel.Agents",
    )
    assert fields_of(agent, "span_type", "dialect", "input", "output") == ("agent", "semantic_kernel", "Hi", "Hello.")
    assert agent.input_messages == (text("user", "Hi") | {"name": "Ada"},)
    tool = read(
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather-get", "gen_ai.tool.call.arguments": CITY}
    )
    assert fields_of(tool, "tool_name", "tool_arguments") == ("weather-get", OSLO)


def test_agent_framework_puts_the_whole_trajectory_on_the_agent() -> None:
    """The answer is what follows the last result; its arguments are JSON text in JSON."""
    trajectory = [call("f", CITY, "c1"), response("sun", "c1"), text("assistant", "It is sunny.")]
    agent = read(
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.output.messages": json.dumps(trajectory)},
        scope="agent_framework",
    )
    assert fields_of(agent, "dialect", "output") == ("agent_framework", "It is sunny.")
    assert agent.output_messages is not None
    assert agent.output_messages[0] == call("f", {"city": "Oslo"}, "c1")
    assert read({}, name="executor.process writer", scope="agent_framework").span_type == "chain"


def test_autogen_says_little() -> None:
    """A tool has a name and a call id, and nothing else."""
    tool = read(
        {
            "gen_ai.system": "autogen",
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "f",
            "gen_ai.tool.call.id": "c",
        }
    )
    assert fields_of(tool, "dialect", "tool_name", "tool_call_id", "tool_arguments") == ("autogen", "f", "c", None)
    assert "tool_arguments: are not on the span" in tool.notes
    assert read({"gen_ai.system": "autogen", "gen_ai.operation.name": "create_agent"}).span_type == "other"


def test_genkit_keys_have_colons() -> None:
    """The subtype gives the type of a span; input and output are JSON."""
    tool = read(
        {
            "genkit:metadata:subtype": "tool",
            "genkit:name": "f",
            "genkit:input": CITY,
            "genkit:output": '"sun"',
            "genkit:state": "error",
        }
    )
    assert fields_of(tool, "span_type", "dialect", "tool_name", "tool_arguments") == ("tool", "genkit", "f", OSLO)
    assert fields_of(tool, "tool_result", "output", "error") == ("sun", "sun", "failed without a message")
    model = read(
        {
            "genkit:metadata:subtype": "model",
            "genkit:input": '{"messages": [{"role": "user", "content": [{"text": "Hi"}]}]}',
        }
    )
    assert fields_of(model, "span_type", "input") == ("llm", "Hi")


def test_livekit_is_read_by_span_names() -> None:
    """Requests of the model, and tools with their results."""
    answered = {
        "lk.chat_ctx": '{"items": [{"type": "message", "role": "user", "content": ["Hi"]}]}',
        "lk.response.text": "Hello.",
        "lk.response.function_calls": '[{"id": "c1", "name": "f", "arguments": "{}"}]',
    }
    model = read(answered, name="llm_request", scope="livekit-agents")
    assert fields_of(model, "span_type", "dialect", "output", "input") == ("llm", "livekit", "Hello.", "Hi")
    [answer] = model.output_messages or ()
    parts: Any = answer["parts"]
    assert [part["type"] for part in parts] == ["text", "tool_call"]
    tool = read(
        {
            "lk.function_tool.name": "f",
            "lk.function_tool.arguments": CITY,
            "lk.function_tool.output": "no",
            "lk.function_tool.is_error": True,
        },
        name="function_tool",
    )
    assert fields_of(tool, "span_type", "tool_name", "tool_arguments", "tool_result") == ("tool", "f", OSLO, "no")
    assert tool.error == "failed without a message"
    assert read({"lk.user_input": "Hi"}, name="agent_turn").input == "Hi"


def test_laminar_spans_have_a_type() -> None:
    """A tool's input is its arguments."""
    tool = read({"lmnr.span.type": "TOOL", "lmnr.span.input": CITY, "lmnr.span.output": '"sun"'}, name="f")
    assert fields_of(tool, "span_type", "dialect", "tool_name", "tool_arguments") == ("tool", "laminar", "f", OSLO)
    assert fields_of(tool, "tool_result", "output") == ("sun", "sun")


def test_voltagent_shares_a_key_with_claude_code() -> None:
    """`span.type` gives the type of a span; usage and conversation have bare and own names."""
    agent = read(
        {
            "span.type": "agent",
            "voltagent.conversation_id": "c",
            "agent.messages": '[{"role": "user", "content": "Hi"}]',
            "usage.prompt_tokens": 5,
            "usage.completion_tokens": 7,
        }
    )
    assert fields_of(agent, "span_type", "dialect", "input", "session_id") == ("agent", "voltagent", "Hi", "c")
    assert fields_of(agent, "input_tokens", "output_tokens") == (5, 7)


def test_logfire_of_old_has_request_and_response() -> None:
    """Before the GenAI names, Logfire put the whole request and a part of the answer into JSON."""
    request = '{"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}], "tools": [{"name": "f"}]}'
    answer = (
        '{"message": {"role": "assistant", "content": "Hello."}, "usage": {"prompt_tokens": 5, "completion_tokens": 7}}'
    )
    reading = read({"request_data": request, "response_data": answer}, scope="logfire.openai")
    assert fields_of(reading, "span_type", "dialect", "model", "input", "output") == (
        "llm",
        "logfire",
        "gpt-4o",
        "Hi",
        "Hello.",
    )
    assert fields_of(reading, "input_tokens", "output_tokens") == (5, 7)
    assert [definition.name for definition in reading.tool_definitions] == ["f"]
    streamed = read(
        {"request_data": request, "response_data": '{"combined_chunk_content": "Hello."}'}, scope="logfire.openai"
    )
    assert streamed.output == "Hello."


def test_spans_of_the_seeds_are_tools_by_their_name() -> None:
    """`tool.name` with input and output, whose arguments may be a Python literal; a synthesized one is not a call."""
    attributes = {
        "tool.name": "get_temperature",
        "input.value": "{'city': 'Tokyo'}",
        "output.value": '{"content": {"celsius": 25}}',
    }
    tool = read(attributes)
    assert fields_of(tool, "span_type", "dialect", "tool_name") == ("tool", "openinference", "get_temperature")
    assert fields_of(tool, "tool_arguments", "tool_result") == ({"city": "Tokyo"}, {"content": {"celsius": 25}})
    assert read(attributes | {"tool.synthesized": True}).span_type == "other"
    assert read(attributes | {"tool.synthesized": False}).span_type == "tool"
    assert read(attributes | {"tool.id": 0}).tool_call_id == "0"


@pytest.mark.parametrize(
    "attributes, scope, dialect",
    [
        ({"gen_ai.operation.name": "chat"}, "opentelemetry.instrumentation.openai_v2", "otel_genai"),
        ({"gen_ai.operation.name": "chat"}, "opentelemetry.instrumentation.openai.v1", "openllmetry"),
        ({"gen_ai.operation.name": "chat"}, "opentelemetry.instrumentation.bedrock", "openllmetry"),
        ({"http.request.method": "GET"}, "opentelemetry.instrumentation.httpx", None),
        ({"db.system": "postgresql"}, "opentelemetry.instrumentation.chromadb", None),
        ({"gen_ai.operation.name": "chat"}, "gen_ai", "vercel"),
        ({"gen_ai.operation.name": "chat"}, "gen_ai_other", "otel_genai"),
        ({"gen_ai.operation.name": "chat"}, "org.springframework.boot", "spring_ai"),
        ({"http.route": "/"}, "org.springframework.boot", None),
        ({"outcome": "SUCCESS"}, "io.micrometer.tracing", None),
        ({"outcome": "SUCCESS", "gen_ai.operation.name": "chat"}, "io.micrometer.tracing", "langchain4j"),
        ({"openinference.span.kind": "LLM", "gen_ai.operation.name": "chat"}, "", "openinference"),
        ({"input.value": "x", "gen_ai.operation.name": "chat"}, "", "otel_genai"),
        ({"logfire.msg": "x", "logfire.span_type": "span"}, "shop.web", None),
        ({"dokimos.input": "x"}, "", "dokimos"),
        ({"input": "x"}, "", None),
    ],
)
def test_dialects_are_recognised_by_keys_scopes_and_both(attributes: Any, scope: str, dialect: str | None) -> None:
    """A scope's name counts up to a dot, some signs only beside GenAI attributes, and weak ones only alone."""
    assert read(attributes, scope=scope).dialect == dialect
