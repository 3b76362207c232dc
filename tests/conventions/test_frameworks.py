"""Spans of VoltAgent, LiteLLM and LlamaIndex, each in its library's form as recorded."""

import json
from typing import Any

import pytest

from storage.records import Span, SpanType
from tests.conventions.making import a_span, an_event, call, read, read_all, response, text

OSLO: dict[str, Any] = {"city": "Oslo"}
VOLT = "@voltagent/core"
CALLED = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": json.dumps(OSLO)}}


def a_volt_run(*, last: int, whole: int, parent: Span | None = None) -> list[Span]:
    """Build VoltAgent's agent span, which has all tokens, and its model span, which has those of the last step."""
    attributes = {"entity.type": "agent", "voltagent.operation_id": "o", "usage.prompt_tokens": whole}
    agent = a_span({**attributes, "usage.completion_tokens": whole}, name="shop", scope=VOLT, parent=parent)
    model_attributes = {"entity.type": "agent", "span.type": "llm", "llm.usage.prompt_tokens": last}
    model_attributes["llm.usage.completion_tokens"] = last
    return [agent, a_span(model_attributes, name="llm:generateText", scope=VOLT, parent=agent, start_s=1)]


def test_voltagents_agent_knows_of_all_steps() -> None:
    """Its span of the model has the usage of the last step alone; the agent's counts then."""
    reading = read_all(*a_volt_run(last=124, whole=187))
    assert (reading.input_tokens, reading.output_tokens) == (187, 187)
    assert read_all(*a_volt_run(last=187, whole=187)).input_tokens == 187


def test_an_agent_above_voltagents_agent_does_not_count_again() -> None:
    """Of a team, what the agents' models tell is counted."""
    team = a_volt_run(last=20, whole=50)
    assert read_all(*team, *a_volt_run(last=7, whole=30, parent=team[0])).input_tokens == 50


@pytest.mark.parametrize(
    "name, kind",
    [("memory.read", "retriever"), ("memory.write", "other"), ("memory.steps.write", "other")],
)
def test_voltagents_writing_is_no_retrieval(name: str, kind: SpanType) -> None:
    """Whatever of a conversation is written, nothing is looked up."""
    assert read({"entity.type": "agent", "span.type": "memory"}, name=name, scope=VOLT).span_type == kind


def test_voltagents_tool_is_one_call_with_its_failure() -> None:
    """The run has the model's call id; the arguments and the failure are on the tool's span."""
    attributes = {"entity.type": "tool", "span.type": "tool", "tool.name": "weather", "tool.call.id": "c1"}
    attributes |= {"tool.arguments": json.dumps(OSLO), "input": json.dumps(OSLO)}
    span = a_span(attributes, name="tool.execution:weather", scope=VOLT, status_code=2, status_message="unknown city")
    (tool_call,) = read_all(span).tool_calls
    assert (tool_call.call_id, tool_call.name, tool_call.arguments, tool_call.error) == (
        "c1",
        "weather",
        OSLO,
        "unknown city",
    )


def test_calls_in_messages_of_an_interface_have_their_results() -> None:
    """Vercel's UI messages keep a call and its result in one part."""
    done = {"type": "tool-weather", "toolCallId": "c1", "state": "output-available", "input": OSLO, "output": 7}
    failed = {"type": "dynamic-tool", "toolName": "track", "toolCallId": "c2", "state": "output-error", "input": {}}
    requested = {"type": "tool-weather", "toolCallId": "c3", "state": "input-available", "input": OSLO}
    messages = [{"role": "assistant", "parts": [done, {**failed, "errorText": "lost"}, requested]}]
    (message,) = read({"agent.messages": json.dumps(messages), "entity.type": "agent"}, scope=VOLT).input_messages or ()
    assert message["parts"] == [
        *call("weather", OSLO, "c1")["parts"],
        {**response(7, "c1")["parts"][0], "name": "weather"},
        *call("track", {}, "c2")["parts"],
        {**response("lost", "c2")["parts"][0], "name": "track", "is_error": True},
        *call("weather", OSLO, "c3")["parts"],
    ]


def a_raw_request(service: str, body: dict[str, Any], parent: Span | None = None) -> Span:
    """Build the span in which LiteLLM records a raw request and its response, with members as Python literals."""
    named = {f"llm.{service}.{name}": value if isinstance(value, str) else str(value) for name, value in body.items()}
    return a_span(named, name="raw_gen_ai_request", scope="litellm", parent=parent, start_s=1)


@pytest.mark.parametrize("service", ["openai", "openrouter", "nvidia_nim", "azure_ai", "perplexity"])
def test_litellms_raw_request_tells_a_call_of_a_model(service: str) -> None:
    """Below an application's span, the raw request is the only full record: LiteLLM writes the rest on that span."""
    usage = {"prompt_tokens": 63, "completion_tokens": 34, "completion_tokens_details": {"reasoning_tokens": 3}}
    usage["prompt_tokens_details"] = {"cached_tokens": 8}
    body = {"messages": [{"role": "user", "content": "q"}], "model": "m", "usage": usage}
    body["choices"] = [{"index": 0, "message": {"role": "assistant", "content": None, "tool_calls": [CALLED]}}]
    span = a_raw_request(service, {**body, "tools": [{"type": "function", "function": {"name": "weather"}}]})
    reading = read_all(span).spans[span.span_id]
    assert reading.output_messages == (call("weather", OSLO, "c1"),)
    counts = reading.input_tokens, reading.output_tokens, reading.cached_tokens, reading.reasoning_tokens
    assert (reading.model, counts) == ("m", (63, 34, 8, 3))
    assert [tool.name for tool in reading.tool_definitions] == ["weather"]


def test_litellms_raw_answer_of_anthropic_is_read() -> None:
    """Its words are blocks without a message, and its input tokens leave the cached ones out."""
    usage = {"input_tokens": 13, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 32, "output_tokens": 11}
    body = {"messages": [{"role": "user", "content": [{"type": "text", "text": "q"}]}], "usage": usage}
    body |= {"system": [{"type": "text", "text": "s"}], "content": [{"type": "text", "text": "a"}]}
    reading = read(a_raw_request("anthropic", body).attributes, scope="litellm", name="raw_gen_ai_request")
    assert (reading.input_tokens, reading.cached_tokens, reading.output_tokens) == (45, 32, 11)
    assert reading.output_messages == (text("assistant", "a"),)
    assert reading.input_messages == (text("system", "s"), text("user", "q"))


def test_all_calls_below_a_span_that_litellm_wrote_on_are_counted() -> None:
    """LiteLLM writes the first call on the span of the application, and nothing of the second."""
    first = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 63, "gen_ai.usage.output_tokens": 34}
    first |= {"gen_ai.output.messages": '[{"role": "assistant", "parts": [], "finish_reason": "tool_calls"}]'}
    whole = a_span({**first, "litellm.call_id": "l"}, name="POST /ask")
    answered = {"choices": [{"message": {"role": "assistant", "content": "a"}}]}
    body = {"usage": {"prompt_tokens": 63, "completion_tokens": 34}}
    raw = [a_raw_request("openai", body, whole)]
    raw.append(a_raw_request("openai", {**answered, "usage": {"prompt_tokens": 124, "completion_tokens": 16}}, whole))
    reading = read_all(whole, *raw)
    assert (reading.input_tokens, reading.output_tokens, reading.final_response) == (187, 50, "a")


def test_a_model_that_only_asked_for_tools_gave_no_final_response() -> None:
    """The output of a model that only requested tools is the JSON of its messages, and no final response."""
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps([call("weather", OSLO, "c1")])}
    reading = read_all(a_span(attributes))
    assert (reading.output is None, reading.final_response) == (False, None)


LLAMA = "opentelemetry.instrumentation.llamaindex"


def test_llama_indexs_tools_are_tools_in_openllmetry() -> None:
    """OpenLLMetry labels every LlamaIndex tool a task; the tool's name is in the result."""
    output = {"blocks": [{"block_type": "text", "text": "7"}], "tool_name": "weather", "is_error": False}
    attributes = {"traceloop.span.kind": "task", "traceloop.entity.name": "FunctionTool.task"}
    attributes |= {
        "traceloop.entity.input": '{"kwargs": {"city": "Oslo"}}',
        "traceloop.entity.output": json.dumps(output),
    }
    reading = read(attributes, name="FunctionTool.task", scope=LLAMA)
    assert (reading.span_type, reading.tool_name, reading.tool_arguments, reading.tool_result) == (
        "tool",
        "weather",
        OSLO,
        "7",
    )


def test_a_failed_tool_of_llama_index_is_told_by_its_step() -> None:
    """A tool that raised has no span of its own; the step's span has the result and the failure."""
    requested = [{"role": "assistant", "tool_calls": [CALLED]}]
    model = a_span({"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps(requested)})
    output = {"blocks": [{"block_type": "text", "text": "gone"}], "tool_name": "weather", "is_error": True}
    attributes = {"tool_name": "weather", "tool_kwargs": OSLO, "tool_id": "c1", "tool_output": output}
    step = {"traceloop.span.kind": "task", "traceloop.entity.output": json.dumps(attributes)}
    (tool_call,) = read_all(model, a_span(step, scope=LLAMA, start_s=1)).tool_calls
    assert (tool_call.call_id, tool_call.result, tool_call.is_error) == ("c1", "gone", True)


def test_logfires_request_data_holds_the_answer_of_openais_agents() -> None:
    """The client's list of messages has grown when the span ends; the prompt is in `input`, token counts in `usage`."""
    prompt = [{"role": "user", "content": "q"}]
    answer = {"role": "assistant", "content": None, "tool_calls": [CALLED]}
    usage = {"input_tokens_details": {"cached_tokens": 8}, "output_tokens_details": {"reasoning_tokens": 2}}
    attributes = {"input": prompt, "output": [answer], "usage": usage, "request_data": {"messages": [*prompt, answer]}}
    reading = read(
        {key: json.dumps(value) for key, value in attributes.items()},
        name="Chat completion with {gen_ai.request.model!r}",
        scope="logfire.openai_agents",
    )
    assert reading.input_messages == (text("user", "q"),)
    assert reading.output_messages == (call("weather", OSLO, "c1"),)
    assert (reading.cached_tokens, reading.reasoning_tokens) == (8, 2)


def test_logfires_tool_says_how_it_failed_and_null_is_no_session() -> None:
    """Values are JSON: the failure is a map, and a group without an id is `null`."""
    attributes = {"name": "weather", "error": json.dumps({"message": "Error running tool"}), "group_id": "null"}
    reading = read(attributes, name="Function: {name}", scope="logfire.openai_agents", status_code=2)
    assert (reading.error, reading.session_id) == ('{"message": "Error running tool"}', None)


HAYSTACK_STEP = "haystack.agent.step.tool"


def test_haystacks_step_of_one_tool_is_a_call_with_its_failure() -> None:
    """Haystack 3.4 makes a span of each call: the flag says that it failed, and the result why, if it was captured."""
    attributes = {
        "haystack.tool.name": "track",
        "haystack.tool.error": True,
        f"{HAYSTACK_STEP}.input": json.dumps(OSLO),
    }
    reading = read(attributes | {f"{HAYSTACK_STEP}.output": json.dumps({"error": "lost at sea"})}, name=HAYSTACK_STEP)
    assert (reading.span_type, reading.tool_name, reading.tool_arguments) == ("tool", "track", OSLO)
    assert "lost at sea" in str(reading.error)
    without = read({"haystack.tool.name": "track", "haystack.tool.error": True}, name=HAYSTACK_STEP)
    assert without.error == "failed without a message"


def test_haystacks_step_of_all_tools_is_no_call() -> None:
    """Haystack 3.0 makes one span of all calls of a step and names no tool: the messages in it have the calls."""
    requested = {
        "role": "assistant",
        "content": [{"tool_call": {"tool_name": "weather", "arguments": OSLO, "id": "c1"}}],
    }
    attributes = {f"{HAYSTACK_STEP}.input": json.dumps({"messages": [requested]})}
    origin = {"tool_name": "weather", "arguments": OSLO, "id": "c1"}
    answer = {"role": "tool", "content": [{"tool_call_result": {"result": "7", "origin": origin, "error": False}}]}
    attributes |= {f"{HAYSTACK_STEP}.output": json.dumps({"tool_messages": [answer]})}
    model = a_span(
        {"haystack.agent.step.llm.output": json.dumps({"replies": [requested]})}, name="haystack.agent.step.llm"
    )
    tools = a_span(attributes, name=HAYSTACK_STEP, start_s=1)
    reading = read_all(model, tools)
    span = reading.spans[tools.span_id]
    assert (span.span_type, span.tool_name) == ("chain", None)
    assert [(one.call_id, one.name, one.result) for one in reading.tool_calls] == [("c1", "weather", 7)]


def test_litellms_answer_has_its_words_and_the_calls_beside_them() -> None:
    """Its messages have words or nothing, and the calls are numbered elsewhere, without their ids."""
    beside = {"gen_ai.completion.0.function_call.name": "weather"}
    beside["gen_ai.completion.0.function_call.arguments"] = json.dumps(OSLO)
    words = {"type": "text", "content": "Let me look."}
    (requested,) = call("weather", OSLO)["parts"]
    for parts in ([words], []):
        messages = json.dumps([{"role": "assistant", "parts": parts, "finish_reason": "tool_calls"}])
        chat = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": messages}
        (message,) = read({**chat, **beside}, scope="litellm").output_messages or ()
        assert message["parts"] == [*parts, requested]


def test_litellms_results_have_their_ids() -> None:
    """They stand beside the parts of the message."""
    messages = [{"role": "tool", "tool_call_id": "c1", "parts": [{"type": "text", "content": "sun"}]}]
    chat = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(messages)}
    assert read(chat, scope="litellm").input_messages == (response("sun", "c1"),)


def test_mlflows_stream_has_the_calls_that_its_answer_lacks() -> None:
    """For a streamed chat completion, MLflow records the text in the answer, and all deltas in events."""
    deltas: list[dict[str, Any]] = [{"content": "Let me look."}]
    for index, name in enumerate(("weather", "track")):
        begun = {"index": index, "id": f"c{index}", "function": {"name": name, "arguments": ""}}
        deltas.append({"tool_calls": [begun]})
        texts = ('{"city', '": "Oslo"}')
        deltas += [{"tool_calls": [{"index": index, "id": None, "function": {"arguments": one}}]} for one in texts]
    pieces = [json.dumps({"choices": [{"index": 0, "delta": delta}]}) for delta in deltas]
    events = [an_event(f"mlflow.chunk.item.{n}", {"mlflow.chunk.value": piece}) for n, piece in enumerate(pieces)]
    answer = {"role": "assistant", "content": "Let me look.", "tool_calls": None}
    attributes = {
        "mlflow.spanType": '"CHAT_MODEL"',
        "mlflow.spanOutputs": json.dumps({"choices": [{"message": answer}]}),
    }
    (message,) = read(attributes, events=events).output_messages or ()
    calls = [part for n, name in enumerate(("weather", "track")) for part in call(name, OSLO, f"c{n}")["parts"]]
    assert message["parts"] == [{"type": "text", "content": "Let me look."}, *calls]
