"""Spans of real libraries that no recording holds, each in its library's form."""

import json
from typing import Any

import pytest

from storage.records import SpanType
from tests.conventions.making import SECOND_NS, a_log, a_span, call, read, read_all, response, text

OSLO: dict[str, Any] = {"city": "Oslo"}
USAGE = "langfuse.observation.usage_details"


def test_claude_codes_detailed_arguments_stand_below_a_headline() -> None:
    """The line that names the tool is not part of its arguments."""
    attributes = {"span.type": "tool", "tool_name": "Bash", "tool_input": '[TOOL INPUT: Bash]\n{"command": "ls"}'}
    assert read(attributes, name="claude_code.tool").tool_arguments == {"command": "ls"}


def test_a_failed_execution_is_a_failure_of_its_tool() -> None:
    """Without a log record, the span of the execution shows that the call failed."""
    tool = a_span({"span.type": "tool", "tool_name": "Bash", "tool_use_id": "t1"}, name="claude_code.tool")
    attributes = {"span.type": "tool.execution", "success": False, "error": "Shell command failed"}
    below = a_span(attributes, name="claude_code.tool.execution", parent=tool, status_code=2)
    (tool_call,) = read_all(tool, below).tool_calls
    assert (tool_call.name, tool_call.is_error, tool_call.error) == ("Bash", True, "Shell command failed")


def test_claude_codes_log_records_tell_calls_answer_and_cost() -> None:
    """All of a turn that its spans leave out is on the span that the records belong to."""
    turn = a_span({"span.type": "interaction", "user_prompt": "q"}, name="claude_code.interaction")
    ran = {"tool_use_id": "t1", "tool_name": "Read", "tool_input": '{"path": "a"}', "success": "false", "error": "gone"}
    logs = [
        a_log(turn, "claude_code.tool_result", attributes=ran, time_ns=1),
        a_log(turn, "claude_code.api_request", attributes={"cost_usd": 0.25}, time_ns=2),
        a_log(turn, "claude_code.api_request", attributes={"cost_usd": 0.5}, time_ns=3),
        a_log(turn, "claude_code.assistant_response", attributes={"response": "Done."}, time_ns=4),
    ]
    reading = read_all(turn, logs=logs)
    (tool_call,) = reading.tool_calls
    assert (tool_call.arguments, tool_call.is_error, tool_call.error) == ({"path": "a"}, True, "gone")
    assert (reading.final_response, reading.cost_usd) == ("Done.", 0.75)


@pytest.mark.parametrize(
    "usage, expected",
    [
        ({"input": 5, "output": 3, "total": 12, "input_cache_read": 3, "output_reasoning": 1}, (8, 4, 3, 1)),
        ({"input": 8, "output": 4, "total": 12, "input_cached_tokens": 3}, (8, 4, 3, None)),
        ({"prompt_tokens": 8, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 3}}, (8, 4, 3, None)),
        ({"input_tokens": 5, "output_tokens": 4, "cache_read_input_tokens": 3}, (8, 4, 3, None)),
    ],
    ids=["disjoint", "the total says whole", "nested", "Anthropic"],
)
def test_langfuses_counts_are_whole(usage: dict[str, Any], expected: tuple[int | None, ...]) -> None:
    """Input has the cached tokens and output those of reasoning, however a library splits them."""
    reading = read({"langfuse.observation.type": "generation", USAGE: json.dumps(usage)})
    assert (reading.input_tokens, reading.output_tokens, reading.cached_tokens, reading.reasoning_tokens) == expected


@pytest.mark.parametrize(
    "bound, expected",
    [
        ({"args": ["hello"], "kwargs": {}}, "hello"),
        ({"args": [], "kwargs": {"question": "hello"}}, "hello"),
        ({"args": [], "kwargs": {"a": 1, "b": 2}}, '{"a": 1, "b": 2}'),
    ],
)
def test_the_input_of_an_observed_function_is_its_arguments(bound: dict[str, Any], expected: str) -> None:
    """What a decorator wraps around them is left out, and a lone text is bare."""
    attributes = {"langfuse.observation.type": "chain", "langfuse.observation.input": json.dumps(bound)}
    assert read(attributes).input == expected


def test_calls_with_two_ids_are_told_once() -> None:
    """A run whose id is the framework's own is the call of its name and arguments, under the id that the model gave."""
    model = a_span(
        {"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps([call("f", OSLO, "call_1")])},
        start_s=0,
    )
    ran = {"gen_ai.tool.name": "f", "gen_ai.tool.call.id": "run-1", "gen_ai.tool.call.arguments": json.dumps(OSLO)}
    tool = a_span({"gen_ai.operation.name": "execute_tool", **ran}, start_s=2)
    (tool_call,) = read_all(model, tool).tool_calls
    assert (tool_call.call_id, tool_call.span_id) == ("call_1", tool.span_id)


def test_ids_that_adk_makes_up_are_none() -> None:
    """Gemini gives its calls no ids: two calls of one name are distinguished by arguments and order."""
    calls = [call("f", {"a": number}, f"adk-{number}")["parts"][0] for number in (1, 2)]
    model_attributes = {"gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": calls}])}
    numbered = [{**one, "id": f"f_{number}"} for number, one in enumerate(calls)]
    received = [response("Error: gone", "f_0")["parts"][0], response("7", "f_1")["parts"][0]]
    sent = [{"role": "assistant", "parts": numbered}, {"role": "tool", "parts": received}]
    model, scope = {"gen_ai.operation.name": "generate_content"}, "gcp.vertex.agent"
    ran = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f"}
    tools = [
        a_span(
            {**ran, "gen_ai.tool.call.id": f"adk-{number}", "gen_ai.tool.call.arguments": json.dumps({"a": number})},
            scope=scope,
            start_s=number,
        )
        for number in (1, 2)
    ]
    first = a_span({**model, **model_attributes}, scope=scope, start_s=0)
    then = a_span({**model, "gen_ai.input.messages": json.dumps(sent)}, scope=scope, start_s=4)
    reading = read_all(first, *tools, then)
    calls_read = [(one.call_id, one.arguments, one.result, one.is_error, one.span_id) for one in reading.tool_calls]
    assert calls_read == [
        (None, {"a": 1}, "Error: gone", True, tools[0].span_id),
        (None, {"a": 2}, 7, False, tools[1].span_id),
    ]
    (results,) = [one["parts"] for one in reading.spans[then.span_id].input_messages or () if one["role"] == "tool"]
    assert [(part["id"], part["name"]) for part in results] == [(None, "f"), (None, "f")]  # type: ignore[index,call-overload,union-attr]


def test_calls_whose_arguments_cannot_be_compared_are_paired_by_name() -> None:
    """If a framework writes arguments in its own form and no id, calls are paired by name and order."""
    model = a_span(
        {"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps([call("f", OSLO, "c1")])}, start_s=0
    )
    tool = a_span(
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "f",
            "gen_ai.tool.call.arguments": '{"input": 1}',
        },
        start_s=2,
    )
    (tool_call,) = read_all(model, tool).tool_calls
    assert (tool_call.call_id, tool_call.span_id) == ("c1", tool.span_id)


def test_llama_indexs_results_are_their_blocks() -> None:
    """A ToolOutput is read as the tool's result, without its arguments."""
    output = {
        "blocks": [{"block_type": "text", "text": "7 degrees"}],
        "tool_name": "f",
        "raw_input": {},
        "is_error": False,
    }
    attributes = {"openinference.span.kind": "TOOL", "tool.name": "f", "output.value": json.dumps(output)}
    reading = read({**attributes, "input.value": json.dumps({"kwargs": OSLO})})
    assert (reading.tool_result, reading.tool_arguments) == ("7 degrees", OSLO)


def test_mastras_runs_are_agents_with_their_words() -> None:
    """The text of an answer stands in a map with other things."""
    attributes = {"mastra.span.type": "agent_run", "mastra.agent_run.input": "q", "mastra.metadata.userId": "u"}
    reading = read({**attributes, "mastra.agent_run.output": '{"text": "a", "files": []}'})
    assert (reading.span_type, reading.dialect, reading.input, reading.output, reading.user_id) == (
        "agent",
        "mastra",
        "q",
        "a",
        "u",
    )


def a_call_of_a_model(scope: str, start_s: float, seconds: float, **more: object) -> Any:
    """Build a model's span of some library."""
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 2,
        **more,
    }
    start_ns = int(start_s * SECOND_NS) + SECOND_NS
    return a_span(attributes, scope=scope, start_s=start_s, end_ns=start_ns + int(seconds * SECOND_NS))


def test_a_call_that_two_libraries_tell_side_by_side_is_counted_once() -> None:
    """The same tokens, one within the time of the other, are one call."""
    assert read_all(a_call_of_a_model("a", 0, 3), a_call_of_a_model("b", 1, 1)).input_tokens == 10


@pytest.mark.parametrize(
    "other",
    [
        a_call_of_a_model("a", 1, 1),
        a_call_of_a_model("b", 5, 1),
        a_call_of_a_model("b", 1, 1, **{"gen_ai.request.model": "n"}),
    ],
    ids=["one library", "later", "another model"],
)
def test_calls_that_are_two_are_counted_twice(other: Any) -> None:
    """Parallel calls of one library, later ones and those of another model happen to have as many tokens."""
    first = a_call_of_a_model("a", 0, 3, **{"gen_ai.request.model": "m"})
    assert read_all(first, other).input_tokens == 20


def test_an_unknown_role_is_the_models() -> None:
    """OpenLLMetry does not know who speaks in LangChain's streams."""
    messages = json.dumps([{"role": "unknown", "parts": [{"type": "text", "content": "a"}]}])
    assert read({"gen_ai.operation.name": "chat", "gen_ai.output.messages": messages}).output == "a"


def test_the_whole_after_its_pieces_is_all() -> None:
    """A stream that ends with the whole message does not say everything twice."""
    pieces = [{**text("assistant", piece), "finish_reason": ""} for piece in ("Final ", "words.")]
    messages = json.dumps([*pieces, {**text("assistant", "Final words."), "finish_reason": "stop"}])
    assert read({"gen_ai.operation.name": "chat", "gen_ai.output.messages": messages}).output == "Final words."


def test_a_tools_message_as_text_is_its_content() -> None:
    """Python's repr of a LangChain message is parsed, also if the tool failed."""
    written = "content='Error: gone' name='f' tool_call_id='c1' status='error'"
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f", "gen_ai.tool.call.result": written}
    reading = read(attributes)
    assert (reading.tool_result, reading.tool_call_id, reading.error) == ("Error: gone", "c1", "Error: gone")


def test_mastra_tells_of_a_failure_in_the_result() -> None:
    """A tool whose input does not fit answers that it is an error, and with words."""
    attributes = {
        "mastra.span.type": "tool_call",
        "gen_ai.tool.name": "track_order",
        "mastra.tool_call.input": '{"id": 7}',
    }
    result = {"error": True, "message": "Tool input validation failed", "validationErrors": {}}
    (tool_call,) = read_all(a_span({**attributes, "mastra.tool_call.output": json.dumps(result)})).tool_calls
    assert (tool_call.arguments, tool_call.is_error) == ({"id": 7}, True)


def test_a_result_that_speaks_of_an_error_is_none() -> None:
    """Neither a flag without words nor words without a flag make a failure."""
    for result in ({"error": True}, {"error": False, "message": "lost"}, {"message": "lost"}):
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "f",
            "gen_ai.tool.call.result": result,
        }
        assert not read_all(a_span(attributes)).tool_calls[0].is_error


def test_botocores_input_gets_the_cached_tokens() -> None:
    """Bedrock's counts leave out the tokens read from and written to the cache."""
    attributes = {
        "gen_ai.usage.input_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 3,
        "gen_ai.operation.name": "chat",
    }
    scope = "opentelemetry.instrumentation.botocore.bedrock-runtime"
    assert read(attributes, scope=scope).input_tokens == 8
    assert read(attributes, scope="opentelemetry.instrumentation.openai_v2").input_tokens == 5


@pytest.mark.parametrize("read_key", ["cache_read.input_tokens", "cache_read_input_tokens"])
@pytest.mark.parametrize(
    "written_key", ["cache_creation.input_tokens", "cache_write.input_tokens", "cache_creation_input_tokens"]
)
def test_cached_tokens_are_added_once_however_they_are_spelled(read_key: str, written_key: str) -> None:
    """Releases of one library spell them in their own ways, and some in two at once."""
    attributes: dict[str, Any] = {"gen_ai.usage.input_tokens": 5, "gen_ai.operation.name": "chat"}
    attributes |= {f"gen_ai.usage.{read_key}": 30, f"gen_ai.usage.{written_key}": 200}
    scope = "opentelemetry.instrumentation.bedrock"
    assert read(attributes, scope=scope).input_tokens == 235
    twice = {"gen_ai.usage.cache_read.input_tokens": 30, "gen_ai.usage.cache_creation.input_tokens": 200}
    assert read(attributes | twice, scope=scope).input_tokens == 235


@pytest.mark.parametrize(
    "name, kind",
    [
        ("Agent run: {name!r}", "agent"),
        ("Function: {name}", "tool"),
        ("Handoff: {from_agent} → {to_agent}", "chain"),
        ("Guardrail {name!r} {triggered=}", "evaluator"),
    ],
)
def test_logfires_spans_of_agents_are_known_by_name(name: str, kind: SpanType) -> None:
    """Their names are the templates of messages."""
    assert read({"gen_ai.system": "openai", "name": "x"}, name=name, scope="logfire.openai_agents").span_type == kind


@pytest.mark.parametrize(
    "name, attributes, kind",
    [
        ("shop", {"entity.type": "agent", "ai.model.name": "m"}, "agent"),
        ("llm:stream", {"entity.type": "agent", "span.type": "llm", "llm.model": "m"}, "llm"),
        ("memory.write", {"entity.type": "agent", "span.type": "memory"}, "other"),
        ("memory.read", {"entity.type": "agent", "span.type": "memory"}, "retriever"),
    ],
)
def test_voltagents_spans_are_its_own(name: str, attributes: dict[str, Any], kind: SpanType) -> None:
    """The name of a model does not make a span Vercel's, and writing is not retrieving."""
    reading = read({**attributes, "llm.usage.prompt_tokens": 4}, name=name, scope="@voltagent/core")
    assert (reading.dialect, reading.span_type, reading.input_tokens) == ("voltagent", kind, 4)


def test_the_instructions_of_an_answer_do_not_precede_it() -> None:
    """OpenAI's responses repeat the instructions, which are not part of the answer."""
    answer = {"instructions": "Be kind.", "output": [{"type": "message", "role": "assistant", "content": "a"}]}
    reading = read({"mlflow.spanType": '"CHAT_MODEL"', "mlflow.spanOutputs": json.dumps(answer)})
    assert reading.output_messages == (text("assistant", "a"),)


def test_an_empty_first_message_gives_way_to_the_raw_input() -> None:
    """LangGraph's root has the role of a message as an attribute, and its text in the raw input."""
    attributes = {"openinference.span.kind": "CHAIN", "llm.input_messages.0.message.role": "user"}
    reading = read({**attributes, "input.value": json.dumps({"messages": [{"role": "user", "content": "q"}]})})
    assert reading.input == "q"


def test_all_texts_that_are_embedded_are_the_input() -> None:
    """A batch is more than its last text."""
    messages = json.dumps([text("user", "a"), text("user", "b")])
    assert read({"gen_ai.operation.name": "embeddings", "gen_ai.input.messages": messages}).input == "a\nb"


def test_autogens_results_are_results() -> None:
    """They stand beside the message, each as JSON."""
    attributes = {"openinference.span.kind": "LLM", "llm.input_messages.0.message.role": "function"}
    result = json.dumps({"name": "f", "content": "7", "call_id": "c1", "is_error": False})
    (message,) = read({**attributes, "llm.input_messages.0.function.0": result}).input_messages or ()
    assert message == {"role": "tool", "parts": [{**response(7, "c1")["parts"][0], "name": "f"}]}


def test_a_handoff_is_no_call() -> None:
    """OpenInference calls it a tool; the model's own call is there already."""
    assert read({"openinference.span.kind": "TOOL"}, name="handoff to Desk").span_type == "chain"


def test_the_tools_of_a_raw_request_are_offered() -> None:
    """Where attributes leave them out, the request has them."""
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    attributes = {"openinference.span.kind": "LLM", "input.value": json.dumps({"messages": [], "tools": tools})}
    assert [tool.name for tool in read(attributes).tool_definitions] == ["f"]


def test_a_result_that_botocore_sends_twice_is_one() -> None:
    """Each result is a message of the tool and one of the user; the request had one."""
    span = a_span({"gen_ai.system": "aws.bedrock", "gen_ai.operation.name": "chat"})
    result: Any = {"toolResult": {"toolUseId": "t1", "content": [{"text": "7"}]}}
    logs = [
        a_log(span, "gen_ai.user.message", {"content": [{"text": "q"}]}, time_ns=1),
        a_log(span, "gen_ai.tool.message", {"id": "t1", "content": [{"text": "7"}]}, time_ns=2),
        a_log(span, "gen_ai.user.message", {"content": [result]}, time_ns=3),
    ]
    messages = read_all(span, logs=logs).spans[span.span_id].input_messages or ()
    assert [message["role"] for message in messages] == ["user", "tool"]


def test_logfires_own_counts_have_the_cached_tokens() -> None:
    """What the service counted apart is added to the service's count, and not to the library's, which has it."""
    usage = {"input_tokens": 20, "output_tokens": 9, "cache_read_input_tokens": 10}
    attributes = {"request_data": json.dumps({"model": "m"}), "response_data": json.dumps({"usage": usage})}
    both = attributes | {"gen_ai.usage.input_tokens": 30, "gen_ai.usage.output_tokens": 9}
    assert [read(one, scope="logfire.anthropic").input_tokens for one in (attributes, both)] == [30, 30]


def test_logfire_tells_what_anthropic_cached_in_the_raw_usage_alone() -> None:
    """Its input tokens have the cached ones in them; how many these are is in what Anthropic said."""
    raw = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 8, "input_tokens": 53, "output_tokens": 17}
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 61, "gen_ai.usage.raw": json.dumps(raw)}
    reading = read(attributes, scope="logfire.anthropic")
    assert (reading.input_tokens, reading.cached_tokens) == (61, 8)


def test_mlflows_usage_of_responses_may_stand_beside_the_answer() -> None:
    """The attributes `usage` and `instructions` are read if the answer has neither."""
    usage = {"input_tokens": 10, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 4}}
    answer = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]}]
    attributes = {"mlflow.spanType": '"CHAT_MODEL"', "mlflow.spanInputs": '{"input": "hi", "model": "m"}'}
    attributes |= {"mlflow.spanOutputs": json.dumps({"output": answer}), "usage": json.dumps(usage)}
    reading = read(attributes | {"instructions": '"Be brief."'})
    assert (reading.input_tokens, reading.output_tokens, reading.cached_tokens, reading.output) == (10, 5, 4, "Hello.")
    assert [message["role"] for message in reading.input_messages or ()] == ["system", "user"]


def test_openlits_failing_tool_is_one_call() -> None:
    """OpenLIT's tool span has a name and no id; the model's next input contains the same call."""
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.output.messages": json.dumps([call("track", {"a": 1}, "c1")]),
    }
    ran = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "track", "error.type": "ToolException"}
    history = [call("track", {"a": 1}, "c1"), response("Error: boom", "c1")]
    then = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(history)}
    spans = [
        a_span(attributes, scope="openlit.x"),
        a_span(ran, scope="openlit.x", start_s=1, status_code=2, status_message="boom"),
        a_span(then, scope="openlit.x", start_s=2),
    ]
    (tool_call,) = read_all(*spans).tool_calls
    assert (tool_call.call_id, tool_call.arguments, tool_call.is_error, tool_call.error) == (
        "c1",
        {"a": 1},
        True,
        "boom",
    )


def test_a_call_that_openinference_flattens_into_its_message_is_a_call() -> None:
    """A function that was called without an id has its name and arguments beside the role."""
    message = "llm.output_messages.0.message"
    attributes = {
        f"{message}.role": "assistant",
        f"{message}.function_call_name": "weather",
        f"{message}.function_call_arguments_json": '{"city": "Oslo"}',
    }
    reading = read({"openinference.span.kind": "LLM", **attributes})
    assert reading.output_messages == (call("weather", OSLO),)


def test_genkits_thoughts_are_no_words_of_the_answer() -> None:
    """A part whose one key is `reasoning` is what the model thought, and the calls after it stay calls."""
    requested = {"toolRequest": {"name": "weather", "ref": "c1", "input": OSLO}}
    answer = {"message": {"role": "model", "content": [{"reasoning": "Look it up."}, requested]}}
    reading = read({"genkit:metadata:subtype": "model", "genkit:output": json.dumps(answer)})
    thought = {"type": "reasoning", "content": "Look it up."}
    parts = [thought, *call("weather", OSLO, "c1")["parts"]]
    assert reading.output_messages == ({"role": "assistant", "parts": parts},)


@pytest.mark.parametrize("written", ["{0}", "UsageMetrics({0})"], ids=["its text", "its form"])
def test_crewais_usage_may_be_what_python_writes_of_it(written: str) -> None:
    """If the usage is a repr instead of a map, each count is read from beside its name."""
    usage = "total_tokens=18 prompt_tokens=11 cached_prompt_tokens=3 completion_tokens=7 reasoning_tokens=2"
    attributes = {"crewai.crew.token_usage": written.format(usage), "traceloop.span.kind": "workflow"}
    reading = read(attributes, scope="opentelemetry.instrumentation.crewai.instrumentation")
    assert (reading.input_tokens, reading.output_tokens, reading.cached_tokens, reading.reasoning_tokens) == (
        11,
        7,
        3,
        2,
    )


def test_a_span_keeps_what_it_tells_itself_of_its_call() -> None:
    """Log records complete what the span of a tool leaves out, the last of them; a failure that they tell is one."""
    turn = a_span({"span.type": "interaction"}, name="claude_code.interaction")
    own = {"span.type": "tool", "tool_name": "Bash", "tool_use_id": "t1", "tool_input": '{"command": "ls"}'}
    tool = a_span({**own, "tool.output": "a.txt"}, name="claude_code.tool", parent=turn, start_s=1)
    ran = {"tool_use_id": "t1", "tool_input": "{}"}
    logs = [
        a_log(turn, "claude_code.tool_result", attributes=ran | {"success": success}, time_ns=number)
        for number, success in enumerate(("true", "false"))
    ]
    reading = read_all(turn, tool, logs=logs).spans[tool.span_id]
    assert (reading.tool_arguments, reading.tool_result, reading.error) == ({"command": "ls"}, "a.txt", "a.txt")
    of_another = a_log(turn, "claude_code.tool_result", attributes=ran | {"tool_use_id": "t2", "success": "false"})
    assert read_all(turn, tool, logs=[of_another]).spans[tool.span_id].error is None


def test_a_record_of_the_span_itself_counts_before_that_of_another() -> None:
    """A call that is executed twice under one id has each time the values from the record of that execution."""
    turn = a_span({"span.type": "interaction"}, name="claude_code.interaction")
    own = {"span.type": "tool", "tool_name": "Bash", "tool_use_id": "t1"}
    first, second, third = (a_span(own, name="claude_code.tool", parent=turn, start_s=at) for at in (1, 5, 9))
    logs = [
        a_log(first, "claude_code.tool_result", attributes=FAILED | {"tool_use_id": "t1"}, time_ns=1),
        a_log(second, "claude_code.tool_result", attributes={"tool_use_id": "t1", "success": "true"}, time_ns=2),
    ]
    spans = read_all(turn, first, second, third, logs=logs).spans
    assert [spans[each.span_id].error for each in (first, second, third)] == ["boom", None, None]


FAILED = {"success": "false", "error": "boom"}


def test_codex_tells_calls_in_log_records() -> None:
    """Prompt, arguments, results and failures are in records of spans around and within the tool's own."""
    scope, conversation = "codex_exec", {"conversation.id": "c1"}
    turn = a_span({"model": "gpt-5"}, name="session_task.turn", scope=scope)
    prompted = a_span(name="run_hooks_and_record_inputs", scope=scope, parent=turn)
    attributes = {"tool_name": "exec_command", "call_id": "call_1", "codex.tool.phase": "dispatch", **conversation}
    tool = a_span(attributes, name="exec_command", scope=scope, parent=turn, start_s=1)
    within = a_span(name="dispatch_tool_call_with_state", scope=scope, parent=tool, start_s=1)
    ran = {
        "tool_name": "exec_command",
        "call_id": "call_1",
        "arguments": '{"cmd": "ls"}',
        "output": "a",
        "success": "true",
    }
    prompt = a_log(prompted, "codex.user_prompt", attributes={"prompt": "q"}, time_ns=1)
    for success, failure in (("true", (False, None)), ("false", (True, "a"))):
        result = a_log(within, "codex.tool_result", attributes=ran | {"success": success}, time_ns=2)
        reading = read_all(turn, prompted, tool, within, logs=[prompt, result])
        (tool_call,) = reading.tool_calls
        assert (tool_call.call_id, tool_call.name, tool_call.arguments, tool_call.result) == (
            "call_1",
            "exec_command",
            {"cmd": "ls"},
            "a",
        )
        assert (tool_call.is_error, tool_call.error) == failure
        assert (reading.input, reading.session_id) == ("q", "c1")
