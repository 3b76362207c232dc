"""Results of agents as evaluators read them: those of OpenAI by its classes, others by recordings."""

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from evaluators.case import parse_case
from evaluators.evaluator import run
from evaluators.outcome import Verdict
from evaluators.registry import build
from tracejury import (
    AgentTrace,
    ConversationTrajectory,
    Dataset,
    Example,
    Experiment,
    Message,
    ToolCall,
    ToolDefinition,
)

STOCK = ToolCall("lookup_stock", {"sku": "A-1"}, "13 units", "call_1")
SCHEMA = {"type": "object", "properties": {"sku": {"type": "string"}}}
REQUEST = {"role": "assistant", "content": "Let me look.", "tool_calls": [
    {"id": "call_1", "type": "function", "function": {"name": "lookup_stock", "arguments": '{"sku": "A-1"}'}}
]}  # fmt: skip


def a_completion(message: dict[str, Any]) -> ChatCompletion:
    """Build a response of the chat completions API."""
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return ChatCompletion.model_validate(
        {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    )


def test_chat_completions_of_openai() -> None:
    """Calls have the results of tool messages, and the answer is the text after the last call."""
    request, answered = a_completion(REQUEST), a_completion({"role": "assistant", "content": "There are 13."})
    question = {"role": "user", "content": "How many?"}
    result = {"role": "tool", "tool_call_id": "call_1", "content": "13 units"}
    assert AgentTrace.from_openai([question, request, result, answered]) == AgentTrace((STOCK,), "There are 13.")
    nothing = AgentTrace.from_openai([request, result | {"content": [{"type": "text", "text": ""}]}])
    assert nothing.tool_calls[0].result == ""
    assert AgentTrace.from_openai(request) == AgentTrace((ToolCall("lookup_stock", {"sku": "A-1"}, None, "call_1"),))


ITEMS: list[dict[str, Any]] = [
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Look first."}]},
    {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "lookup_stock", "arguments": '{"sku": "A-1"}'},
    {"type": "function_call_output", "call_id": "call_1", "output": "13 units"},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "There are 13.", "annotations": []}],
    },
]


def test_responses_of_openai() -> None:
    """Responses, their items, and results of the Agents SDK are read alike, with the reasoning."""
    expected = AgentTrace((STOCK,), "There are 13.", ("Look first.",))
    more = {"object": "response", "created_at": 1, "model": "m", "parallel_tool_calls": True, "tool_choice": "auto"}
    first, second = (
        Response.model_validate({"id": "r", "tools": [], "output": items, **more}) for items in (ITEMS[:2], ITEMS[3:])
    )
    assert AgentTrace.from_openai([first, ITEMS[2], second]) == expected
    assert AgentTrace.from_openai(ITEMS) == expected
    assert AgentTrace.from_openai(SimpleNamespace(to_input_list=lambda: ITEMS)) == expected


def test_messages_of_anthropic() -> None:
    """A result with `is_error` marks its call as failed (recorded)."""
    use = {"id": "toolu_377_0", "input": {"order_id": 404}, "name": "track_order", "type": "tool_use"}
    thinking = {"type": "thinking", "thinking": "Look first.", "signature": "c2ln"}
    error = "error: order 404 is lost"
    answer = {"type": "tool_result", "tool_use_id": "toolu_377_0", "content": error, "is_error": True}
    text = {"citations": None, "text": "It is lost.", "type": "text"}
    messages = [
        {"role": "user", "content": "FAILTOOL: order 404"},
        {"role": "assistant", "content": [thinking, use]},
        {"role": "user", "content": [answer]},
        {"id": "msg_378", "content": [text], "role": "assistant", "stop_reason": "end_turn", "type": "message"},
    ]
    trace = AgentTrace.from_anthropic(messages)
    call = ToolCall("track_order", {"order_id": 404}, error, "toolu_377_0", {"isError": True, "error": error})
    assert trace == AgentTrace((call,), "It is lost.", ("Look first.",))


LANGCHAIN: list[dict[str, Any]] = [
    {"content": "stock then order", "type": "human", "id": "1"},
    {
        "content": [
            {"signature": "c2ln", "thinking": "Look first.", "type": "thinking"},
            {"id": "call_1", "input": {"sku": "A-1"}, "name": "lookup_stock", "type": "tool_use"},
        ],
        "type": "ai",
        "tool_calls": [{"name": "lookup_stock", "args": {"sku": "A-1"}, "id": "call_1", "type": "tool_call"}],
        "invalid_tool_calls": [{"name": "track_order", "args": "{no JSON", "id": "call_2", "error": None}],
    },
    {
        "content": "13 units",
        "type": "tool",
        "name": "lookup_stock",
        "tool_call_id": "call_1",
        "status": "success",
    },
    {"content": "Error: broken", "type": "tool", "name": "track_order", "tool_call_id": "call_2", "status": "error"},
    {"content": [{"text": "There are 13.", "type": "text"}], "type": "ai", "tool_calls": []},
]


def test_messages_of_langchain() -> None:
    """Objects and their JSON (recorded) are read alike; arguments that are not JSON stay as the model wrote them."""
    failed = ToolCall("track_order", "{no JSON", "Error: broken", "call_2", {"isError": True, "error": "Error: broken"})
    expected = AgentTrace((STOCK, failed), "There are 13.", ("Look first.",))
    assert AgentTrace.from_langchain({"messages": LANGCHAIN}) == expected
    assert AgentTrace.from_langchain([SimpleNamespace(**each) for each in LANGCHAIN]) == expected
    assert expected.tool_calls[1].document()["arguments"] == "{no JSON"


def test_steps_of_an_agent_executor() -> None:
    """Intermediate steps are calls with their results."""
    action = SimpleNamespace(tool="lookup_stock", tool_input={"sku": "A-1"}, tool_call_id="call_1")
    result = {"input": "x", "output": "There are 13.", "intermediate_steps": [(action, "13 units")]}
    assert AgentTrace.from_langchain(result) == AgentTrace((STOCK,), "There are 13.")


def test_messages_of_pydantic_ai() -> None:
    """Retries are failed calls, and structured output is the JSON of it without the call that gave it."""
    call: dict[str, Any] = {"part_kind": "tool-call", "tool_name": "lookup_stock", "args": '{"sku": "A-1"}'}
    answer: dict[str, Any] = {"part_kind": "tool-return", "tool_name": "lookup_stock", "content": "13 units"}
    retry: dict[str, Any] = {"part_kind": "retry-prompt", "tool_name": "lookup_stock", "content": "no such SKU"}
    call_fields: dict[str, Any] = {"part_kind": "tool-call", "tool_name": "final_result", "args": {"units": 13}}
    messages = [
        {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "How many?"}]},
        {"kind": "response", "parts": [call | {"tool_call_id": "call_0"}]},
        {"kind": "request", "parts": [retry | {"tool_call_id": "call_0"}]},
        {"kind": "response", "parts": [call | {"tool_call_id": "call_1"}]},
        {"kind": "request", "parts": [answer | {"tool_call_id": "call_1"}]},
        {"kind": "response", "parts": [call_fields | {"tool_call_id": "call_2"}]},
    ]
    result = SimpleNamespace(output={"units": 13}, all_messages=lambda: messages)
    trace = AgentTrace.from_pydantic_ai(result)
    assert trace.tool_calls[1:] == (STOCK,)
    assert trace.tool_calls[0].metadata == {"isError": True, "error": "no such SKU"}
    assert json.loads(trace.final_response or "") == {"units": 13}
    plain = AgentTrace.from_pydantic_ai(SimpleNamespace(output="13", all_messages=list))
    assert plain == AgentTrace((), "13")
    text = [{"kind": "response", "parts": [{"part_kind": "text", "content": "There are 13."}]}]
    assert AgentTrace.from_pydantic_ai(text) == AgentTrace((), "There are 13.")


HOSTED: list[dict[str, Any]] = [
    {"type": "reasoning", "id": "rs", "summary": [], "content": [{"type": "reasoning_text", "text": "Look first."}]},
    {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search", "query": "A-1"}},
    {"type": "mcp_call", "id": "m1", "name": "lookup", "server_label": "s", "arguments": '{"k": 1}', "output": "13"},
    {"type": "mcp_call", "id": "m2", "name": "lookup", "server_label": "s", "arguments": "{}", "error": "down"},
    {"type": "file_search_call", "id": "fs", "status": "failed", "queries": ["A-1"]},
    {"type": "local_shell_call", "id": "ls", "call_id": "c", "action": {"type": "exec", "command": ["ls"], "env": {}}},
    {"type": "local_shell_call_output", "id": "c", "output": "files"},
    {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "There are 13."}]},
]
DOWN: dict[str, Any] = {"isError": True, "error": "down"}


def test_calls_that_openai_makes_itself() -> None:
    """Calls of its own tools and of MCP servers are calls, with results and failures."""
    assert AgentTrace.from_openai(HOSTED) == AgentTrace(
        (
            ToolCall("web_search", {"type": "search", "query": "A-1"}, None, "ws"),
            ToolCall("lookup", {"k": 1}, "13", "m1"),
            ToolCall("lookup", {}, "down", "m2", DOWN),
            ToolCall("file_search", {"queries": ["A-1"]}, None, "fs", {"isError": True}),
            ToolCall("local_shell", {"type": "exec", "command": ["ls"], "env": {}}, "files", "c"),
        ),
        "There are 13.",
        ("Look first.",),
    )
    assert AgentTrace.from_openai([SimpleNamespace(raw_item=each) for each in ITEMS]) == AgentTrace.from_openai(ITEMS)


def test_older_and_other_messages_of_chat_completions() -> None:
    """A function call is a call, an audio transcript is an answer, and open models return their reasoning."""
    called = {"role": "assistant", "function_call": {"name": "lookup_stock", "arguments": '{"sku": "A-1"}'}}
    answered = {"role": "function", "name": "lookup_stock", "content": "13 units"}
    spoken = {"role": "assistant", "content": None, "reasoning_content": "Add.", "audio": {"transcript": "13."}}
    expected = AgentTrace((ToolCall("lookup_stock", {"sku": "A-1"}, "13 units"),), "13.", ("Add.",))
    assert AgentTrace.from_openai([called, answered, spoken]) == expected


SERVER_TOOLS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "Look first.", "signature": "c2ln"},
    {"type": "text", "text": "I search."},
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "A-1"}},
    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "web_search_result", "url": "u"}]},
    {"type": "server_tool_use", "id": "s2", "name": "web_search", "input": {"query": "B-2"}},
    {"type": "web_search_tool_result", "tool_use_id": "s2", "content": {"type": "web_search_tool_result_error"}},
    {"type": "text", "text": "There are"},
    {"type": "text", "text": " 13."},
]


@pytest.mark.parametrize("read", [AgentTrace.from_anthropic, AgentTrace.from_langchain])
def test_calls_of_the_same_message_as_the_answer(read: Callable[[Any], AgentTrace]) -> None:
    """Tools that Anthropic runs are called within a message: the text after them is the answer."""
    trace = read({"role": "assistant", "type": "ai", "content": SERVER_TOOLS})
    error = {"type": "web_search_tool_result_error"}
    failed = {"isError": True, "error": json.dumps(error)}
    assert trace.tool_calls == (
        ToolCall("web_search", {"query": "A-1"}, [{"type": "web_search_result", "url": "u"}], "s1"),
        ToolCall("web_search", {"query": "B-2"}, error, "s2", failed),
    )
    assert (trace.final_response, trace.reasoning_steps) == ("There are 13.", ("Look first.",))


def test_sums_of_chunks_and_serialized_messages_of_langchain() -> None:
    """Sums of streams are read, and messages in the forms of `messages_to_dict`, `dumpd` and `GraphOutput`."""
    expected = AgentTrace.from_langchain(LANGCHAIN)
    names = {"ai": "AIMessageChunk", "human": "HumanMessageChunk", "tool": "ToolMessageChunk"}
    chunks = [{**each, "type": names[each["type"]]} for each in LANGCHAIN]
    assert AgentTrace.from_langchain(chunks) == expected
    assert AgentTrace.from_langchain([{"type": each["type"], "data": each} for each in LANGCHAIN]) == expected
    assert AgentTrace.from_langchain([{"type": "constructor", "kwargs": each} for each in LANGCHAIN]) == expected
    assert AgentTrace.from_langchain(SimpleNamespace(value={"messages": LANGCHAIN})) == expected
    refused = {"type": "ai", "content": "", "additional_kwargs": {"refusal": "No.", "reasoning_content": "Harm."}}
    assert AgentTrace.from_langchain(refused) == AgentTrace((), "No.", ("Harm.",))


def test_structured_output_of_langchain() -> None:
    """Structured output is the answer, and the calls by which a model gave it, also in vain, are none."""
    messages = [*LANGCHAIN[:3]]
    for number, content in enumerate(["Error: Failed to parse", "Returning structured response: units=13"]):
        call = {"name": "Stock", "args": {"units": 13}, "id": f"o{number}"}
        messages.append({"type": "ai", "content": "", "tool_calls": [call]})
        messages.append({"type": "tool", "content": content, "name": "Stock", "tool_call_id": f"o{number}"})
    trace = AgentTrace.from_langchain({"messages": messages, "structured_response": {"units": 13}})
    assert ([call.name for call in trace.tool_calls], trace.final_response) == (
        ["lookup_stock", "track_order"],
        '{"units": 13}',
    )
    assert AgentTrace.from_langchain(messages) == trace


@pytest.mark.parametrize("outcome", ["failed", "retried", "denied", "interrupted"])
def test_outcomes_and_output_tools_of_pydantic_ai(outcome: str) -> None:
    """A call that was not a success has failed; an output tool of any name is the answer, also of messages alone."""
    parts: list[dict[str, Any]] = [
        {"part_kind": "text", "content": "I search."},
        {"part_kind": "builtin-tool-call", "tool_name": "web_search", "args": {"q": 1}, "tool_call_id": "n"},
        {"part_kind": "builtin-tool-return", "tool_name": "web_search", "content": "13", "tool_call_id": "n"},
        {"part_kind": "tool-call", "tool_name": "look", "args": "{}", "tool_call_id": "a"},
        {"part_kind": "tool-return", "tool_name": "look", "content": "bad", "tool_call_id": "a", "outcome": outcome},
    ]
    calls = (ToolCall("web_search", {"q": 1}, "13", "n"), ToolCall("look", {}, "bad", "a", DOWN | {"error": "bad"}))
    text = {"part_kind": "text", "content": "There are 13."}
    assert AgentTrace.from_pydantic_ai([{"parts": [*parts, text]}]) == AgentTrace(calls, "There are 13.")
    fields = {"tool_name": "answer", "tool_call_id": "o"}
    parts.append({"part_kind": "tool-call", "args": {"units": 13}, **fields})
    parts.append({"part_kind": "tool-return", "content": "Final result processed.", **fields})
    expected = AgentTrace(calls, '{"units": 13}')
    assert AgentTrace.from_pydantic_ai([{"parts": parts}]) == expected
    result = SimpleNamespace(output="13 units", _output_tool_name="answer", all_messages=lambda: [{"parts": parts}])
    assert AgentTrace.from_pydantic_ai(result) == AgentTrace(calls, "13 units")


@pytest.mark.parametrize(
    "read, value",
    [
        (AgentTrace.from_openai, None),
        (AgentTrace.from_openai, [{"choices": [{"index": 0, "delta": {"content": "x"}}]}]),
        (AgentTrace.from_openai, {"type": "response.output_text.delta", "delta": "x"}),
        (AgentTrace.from_anthropic, {"type": "message_start", "message": {}}),
        (AgentTrace.from_langchain, [{"model": {"messages": LANGCHAIN}}]),
        (AgentTrace.from_pydantic_ai, b"[]"),
    ],
)
def test_what_is_no_result_is_an_error(read: Callable[[Any], AgentTrace], value: Any) -> None:
    """Chunks and events of a stream, and values of no known library, are refused instead of read as empty traces."""
    with pytest.raises(ValueError, match="of a stream, give the result that it adds up to"):
        read(value)


def search(query: str) -> str:
    """Find things."""
    return query


def test_tools_without_a_name_of_their_own() -> None:
    """Functions, tools that OpenAI runs, and objects that hold a definition."""
    of = ToolDefinition.of
    assert of(search) == ToolDefinition("search", "Find things.")
    assert of({"type": "web_search"}) == ToolDefinition("web_search")
    tool = SimpleNamespace(name="x", tool_def=SimpleNamespace(name="x", description="d", parameters_json_schema=SCHEMA))
    assert of(tool) == ToolDefinition("x", "d", SCHEMA)
    both = SimpleNamespace(name="x", description="d", tool_call_schema=SCHEMA, args_schema={"of": "the program"})
    assert of(both) == ToolDefinition("x", "d", SCHEMA)


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "function", "function": {"name": "lookup_stock", "description": "stock", "parameters": SCHEMA}},
        {"type": "function", "name": "lookup_stock", "description": "stock", "parameters": SCHEMA},
        {"name": "lookup_stock", "description": "stock", "input_schema": SCHEMA},
        SimpleNamespace(name="lookup_stock", description="stock", inputSchema=SCHEMA),
        SimpleNamespace(name="lookup_stock", description="stock", parameters_json_schema=SCHEMA),
        SimpleNamespace(
            name="lookup_stock",
            description="stock",
            args_schema=SimpleNamespace(model_json_schema=lambda: SCHEMA),
        ),
    ],
)
def test_tools_as_each_library_offers_them(tool: object) -> None:
    """The same tool of each library is the same definition."""
    assert ToolDefinition.of(tool) == ToolDefinition("lookup_stock", "stock", SCHEMA)


def test_a_case_of_a_trace_is_judged() -> None:
    """`to_case` has what evaluators of tool calls read: the tools that were offered, too."""
    trace = AgentTrace((STOCK,), "There are 13.")
    tools = [{"name": "lookup_stock", "input_schema": SCHEMA}]
    case = parse_case(trace.to_case("How many?", tools=tools, tasks=["Count."]))
    outcome = asyncio.run(run(build("tool_call_validity", {}), case))
    assert isinstance(outcome, Verdict), outcome
    assert outcome.score == 1.0


def test_a_conversation_is_a_trace() -> None:
    """Calls of all turns, and what the application said last."""
    talk = ConversationTrajectory("stock").plus(
        Message.user("How many?"), Message.assistant("There are 13.", [STOCK]), Message.user("Thanks")
    )
    assert AgentTrace.from_conversation(talk) == AgentTrace((STOCK,), "There are 13.")


def test_a_task_may_return_a_trace() -> None:
    """Its calls and its answer are the outputs of the item."""
    cases = Dataset("one", [Example(id="1", inputs={"input": "How many?"})])
    trace = AgentTrace((STOCK,), "There are 13.")
    result = Experiment("traced", cases, lambda _: trace, [lambda _, outputs: bool(outputs)]).run()
    (item,) = result.items
    assert item.outputs == {"output": "There are 13.", "toolCalls": [STOCK.document()], "reasoningSteps": []}
