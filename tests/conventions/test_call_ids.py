"""The ids of calls: those that the model gave, instead of those of items and of libraries."""

import json
from typing import Any

from tests.conventions.making import a_span, call, read, read_all, response, text

OSLO: Any = {"city": "Oslo"}
CHAT = {"gen_ai.operation.name": "chat"}
AGNO, TRACELOOP = "openinference.instrumentation.agno", "opentelemetry.instrumentation.openai.v1"
PYDANTIC, MADE_UP = "pydantic-ai", "pyd_ai_1"


def numbered(at: str, *ids: str) -> dict[str, str]:
    """Return an answer of calls, as OpenInference writes messages."""
    attributes = {f"{at}.message.role": "assistant"}
    for number, call_id in enumerate(ids):
        one = f"{at}.message.tool_calls.{number}.tool_call"
        attributes |= {f"{one}.id": call_id, f"{one}.function.name": "f", f"{one}.function.arguments": json.dumps(OSLO)}
    return attributes


def requested(*ids: tuple[str, str]) -> dict[str, Any]:
    """Return an answer of calls, as Agno keeps it."""
    function = {"name": "f", "arguments": json.dumps(OSLO)}
    calls = [{"id": item, "call_id": one, "type": "function", "function": function} for item, one in ids]
    return {"role": "assistant", "tool_calls": calls}


def test_ids_of_items_are_those_of_calls_where_the_request_has_both() -> None:
    """Agno's messages over OpenAI's responses name items, as do the results; its own JSON has the calls beside them."""
    both = (("fc_1", "call_1"), ("ctc_2", "call_2"))
    result = {"role": "tool", "tool_call_id": "fc_1", "content": "sun"}
    reading = read(
        {
            "openinference.span.kind": "LLM",
            "input.value": json.dumps({"messages": [requested(*both), result]}),
            **numbered("llm.input_messages.0", "fc_1", "ctc_2"),
            "llm.input_messages.1.message.role": "tool",
            "llm.input_messages.1.message.tool_call_id": "fc_1",
            "llm.input_messages.1.message.content": "sun",
            "output.value": json.dumps([requested(("fc_3", "call_3"))]),
            **numbered("llm.output_messages.0", "fc_3"),
        },
        scope=AGNO,
    )
    messages: Any = reading.input_messages
    assert [part["id"] for message in messages for part in message["parts"]] == ["call_1", "call_2", "call_1"]
    assert reading.output_messages == (call("f", OSLO, "call_3"),)


def test_an_item_without_a_call_beside_it_keeps_its_id() -> None:
    """What a stream of Agno leaves out is not made up, whatever the JSON says of other calls."""
    other = json.dumps([requested(("fc_2", "call_2"))])
    reading = read(
        {"openinference.span.kind": "LLM", "output.value": other, **numbered("llm.output_messages.0", "fc_1")}
    )
    assert reading.output_messages == (call("f", OSLO, "fc_1"),)


def test_traceloops_calls_have_the_ids_of_their_results() -> None:
    """For the Responses API, OpenLLMetry uses the item's id in the call, and the call's id in the result."""
    sent = [text("user", "Hi"), call("f", OSLO, "fc_1"), response("sun", "call_1")]
    first = a_span({**CHAT, "gen_ai.output.messages": json.dumps([call("f", OSLO, "fc_1")])}, scope=TRACELOOP)
    second = a_span({**CHAT, "gen_ai.input.messages": json.dumps(sent)}, scope=TRACELOOP, start_s=2)
    reading = read_all(first, second)
    assert reading.spans[second.span_id].input_messages == (sent[0], call("f", OSLO, "call_1"), sent[2])
    assert [(one.call_id, one.result) for one in reading.tool_calls] == [("call_1", "sun")]


def test_ids_that_pydantic_ai_makes_up_are_none() -> None:
    """Gemini's calls have no ids: what the library makes up is in its later requests, and on the tool's span."""
    sent = [call("f", OSLO, MADE_UP), response("sun", MADE_UP)]
    first = a_span({**CHAT, "gen_ai.output.messages": json.dumps([sent[0]])}, scope=PYDANTIC)
    ran = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f", "gen_ai.tool.call.id": MADE_UP}
    tool = a_span({**ran, "gen_ai.tool.call.arguments": json.dumps(OSLO)}, scope=PYDANTIC, start_s=1)
    second = a_span({**CHAT, "gen_ai.input.messages": json.dumps(sent)}, scope=PYDANTIC, start_s=2)
    for spans in ([first, tool, second], [first, second]):
        reading = read_all(*spans)
        assert reading.spans[first.span_id].output_messages == (call("f", OSLO),)
        assert reading.spans[second.span_id].input_messages == tuple(sent)
        assert [(one.call_id, one.result) for one in reading.tool_calls] == [(None, "sun")]


def test_the_agent_of_pydantic_ai_answers_without_made_up_ids() -> None:
    """A run's own list of messages has the calls in its answer."""
    messages = [text("user", "Hi"), call("f", OSLO, MADE_UP), response("sun", MADE_UP), text("assistant", "Sunny.")]
    reading = read({"pydantic_ai.all_messages": json.dumps(messages)}, scope=PYDANTIC)
    assert reading.output_messages == (call("f", OSLO), response("sun"), text("assistant", "Sunny."))


def test_tools_of_langchain_have_the_id_that_they_were_called_with() -> None:
    """The call id is recorded beside the input, also for a tool that failed without a result."""
    langfuse = {"langfuse.observation.type": "tool", "langfuse.observation.metadata.tool_call_id": '"call_1"'}
    assert read(langfuse).tool_call_id == "call_1"
    attributes = {"inputs": OSLO, "input_str": str(OSLO), "kwargs": {"tool_call_id": "call_1"}}
    traceloop = {"traceloop.span.kind": "tool", "traceloop.entity.input": json.dumps(attributes)}
    assert read(traceloop, scope="opentelemetry.instrumentation.langchain").tool_call_id == "call_1"
