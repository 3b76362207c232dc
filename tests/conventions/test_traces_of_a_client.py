"""A client without a span around its requests: each is a trace, and its input repeats the calls of earlier ones."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from storage.records import Span, TraceToolCall
from tests.conventions.making import Attributes, a_log, a_span, call, read_all, response, text
from tests.conventions.test_columnar import assert_traces_alike, sent

ARGUMENTS = [{"item": "hose"}, {"item": "can"}, {"item": "rake"}]
Chat = Mapping[str, Any]
Form = Callable[[Sequence[Chat], Chat], Attributes]


def calling(*numbers: int) -> Chat:
    """Return an answer that asks for calls."""
    calls = [
        {"id": f"call_{at}", "type": "function", "function": {"name": "f", "arguments": json.dumps(ARGUMENTS[at])}}
        for at in numbers
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


USER = {"role": "user", "content": "Is there any?"}
RESULTS = [{"role": "tool", "tool_call_id": f"call_{at}", "content": f"result {at}"} for at in range(3)]
FINAL = {"role": "assistant", "content": "All there."}
REQUESTS: Sequence[tuple[Sequence[Chat], Chat]] = [
    ([USER], calling(0, 1)),
    ([USER, calling(0, 1), *RESULTS[:2]], calling(2)),
    ([USER, calling(0, 1), *RESULTS[:2], calling(2), RESULTS[2]], FINAL),
]


def flat(prefix: str, value: Any) -> Attributes:
    """Yield numbered attributes."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {key: flattened for name, item in items for key, flattened in flat(f"{prefix}.{name}", item).items()}
    return {} if value is None else {prefix: value}


def openinference(prompts: Sequence[Chat], answered: Chat) -> Attributes:
    """Return the attributes of OpenInference over a client."""

    def message(chat: Chat) -> Any:
        calls = [
            {"tool_call": {"id": one["id"], "function": one["function"]}} for one in chat.get("tool_calls", ())
        ]  # fmt: skip
        named = {"tool_call_id": chat.get("tool_call_id"), "tool_calls": calls}
        return {"message": {"role": chat["role"], "content": chat.get("content"), **named}}

    return {
        "openinference.span.kind": "LLM",
        "input.value": json.dumps({"messages": prompts}),
        **flat("llm.input_messages", list(map(message, prompts))),
        **flat("llm.output_messages", [message(answered)]),
    }


def openllmetry(prompts: Sequence[Chat], answered: Chat) -> Attributes:
    """Return OpenLLMetry's numbered prompts."""

    def message(chat: Chat) -> Any:
        calls = [{"id": one["id"], **one["function"]} for one in chat.get("tool_calls", ())]
        named = {"tool_call_id": chat.get("tool_call_id"), "tool_calls": calls}
        return {"role": chat["role"], "content": chat.get("content"), **named}

    return {
        "llm.request.type": "chat",
        **flat("gen_ai.prompt", list(map(message, prompts))),
        **flat("gen_ai.completion", [message(answered)]),
    }


def mlflow(prompts: Sequence[Chat], answered: Chat) -> Attributes:
    """Return the attributes of MLflow's autolog of OpenAI's client."""
    return {
        "mlflow.spanType": json.dumps("CHAT_MODEL"),
        "mlflow.spanInputs": json.dumps({"messages": prompts, "model": "m"}),
        "mlflow.spanOutputs": json.dumps({"choices": [{"index": 0, "message": answered}]}),
    }


def genai(prompts: Sequence[Chat], answered: Chat) -> Attributes:
    """Return OpenTelemetry's messages."""

    def message(chat: Chat) -> Any:
        if chat["role"] == "tool":
            return response(chat["content"], chat["tool_call_id"])
        parts = [
            {"type": "tool_call", "id": one["id"], "name": "f", "arguments": json.loads(one["function"]["arguments"])}
            for one in chat.get("tool_calls", ())
        ]
        words = [{"type": "text", "content": chat["content"]}] if chat.get("content") else []
        return {"role": chat["role"], "parts": [*words, *parts]}

    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(list(map(message, prompts))),
        "gen_ai.output.messages": json.dumps([message(answered)]),
    }


def langfuse(prompts: Sequence[Chat], answered: Chat) -> Attributes:
    """Return the attributes of Langfuse's client for OpenAI."""
    return {
        "langfuse.observation.type": "generation",
        "langfuse.observation.input": json.dumps({"messages": prompts}),
        "langfuse.observation.output": json.dumps(answered),
    }


FORMS: Sequence[Form] = [openinference, openllmetry, mlflow, genai, langfuse]


def traces_of(form: Form) -> list[Span]:
    """Return the requests, each a trace."""
    return [
        a_span(form(prompts, answered), trace_id=f"{at + 1:032x}", start_s=at)
        for at, (prompts, answered) in enumerate(REQUESTS)
    ]


def ids(calls: Sequence[TraceToolCall]) -> list[str | None]:
    """Return the ids of calls."""
    return [one.call_id for one in calls]


@pytest.mark.parametrize("form", FORMS)
def test_each_call_is_counted_in_the_trace_whose_answer_requested_it(form: Form) -> None:
    """Calls that a request repeats from earlier traces are none of its own, in rows as in columns."""
    spans = traces_of(form)
    for each in (spans, [replace(span, end_ns=span.start_ns) for span in spans]):  # also without a duration
        assert [ids(read_all(span).tool_calls) for span in each] == [["call_0", "call_1"], ["call_2"], []]
    earlier = [[(one.call_id, one.result) for one in read_all(span).earlier_calls] for span in spans]
    results = [(f"call_{at}", f"result {at}") for at in range(3)]
    assert earlier == [[], results[:2], results]
    assert_traces_alike(sent(spans))


@pytest.mark.parametrize("form", FORMS)
def test_requests_below_one_span_have_their_calls_with_results(form: Form) -> None:
    """The same requests within one trace tell each call once, in whatever order the spans come."""
    root = a_span()
    spans = [root, *(replace(span, trace_id=root.trace_id, parent_span_id=root.span_id) for span in traces_of(form))]
    for order in (spans, spans[::-1]):
        calls = read_all(*order).tool_calls
        assert [(one.call_id, one.result) for one in calls] == [(f"call_{at}", f"result {at}") for at in range(3)]
    assert_traces_alike(sent(spans))


def test_calls_of_answers_that_were_not_recorded_count() -> None:
    """If an earlier span of the trace was sent the turn without a call, an answer in between requested it."""
    silent, *_ = traces_of(genai)
    silent = replace(silent, attributes={key: silent.attributes[key] for key in list(silent.attributes)[:2]})
    later = replace(traces_of(genai)[1], trace_id=silent.trace_id)
    assert ids(read_all(later, silent).tool_calls) == ["call_0", "call_1", "call_2"]
    at_once = replace(later, start_ns=silent.start_ns)
    assert ids(read_all(at_once, silent).tool_calls) == ["call_2"]


def test_a_history_that_is_cut_counts_nothing() -> None:
    """A client that sends the last messages alone sends results without their calls."""
    cut = [RESULTS[1], calling(2), RESULTS[2]]
    for prompts in (cut, [USER, *cut], cut[:1]):
        assert read_all(a_span(openinference(prompts, FINAL))).tool_calls == ()


def test_an_execution_in_the_trace_of_a_later_request_counts_there() -> None:
    """A run that is resumed executes the tool that an earlier trace was asked for."""
    prompts, answered = REQUESTS[2]
    root = a_span()
    run = a_span(
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f", "gen_ai.tool.call.id": "call_2"},
        parent=root,
        start_s=1,
    )
    reading = read_all(root, run, a_span(genai(prompts, answered), parent=root, start_s=2))
    [one] = reading.tool_calls
    assert (one.call_id, one.arguments, one.result) == ("call_2", ARGUMENTS[2], "result 2")


def test_messages_in_log_records_count_alike() -> None:
    """OpenTelemetry's client for OpenAI records the messages of each request as events."""
    span = a_span({"gen_ai.operation.name": "chat"})
    messages = [
        ("gen_ai.user.message", {"content": "Is there any?"}),
        ("gen_ai.assistant.message", {"tool_calls": calling(0)["tool_calls"]}),
        ("gen_ai.tool.message", {"id": "call_0", "content": "result 0"}),
        ("gen_ai.choice", {"index": 0, "message": calling(1)}),
    ]
    logs = [a_log(span, name, body, time_ns=at) for at, (name, body) in enumerate(messages)]
    assert ids(read_all(span, logs=logs).tool_calls) == ["call_1"]


def test_messages_tell_what_earlier_traces_called() -> None:
    """The conversation of a trace shows calls and results that it does not count."""
    messages = [text("user", "?"), call("f", {"item": "hose"}, "c1"), response("twelve", "c1")]
    reading = read_all(a_span({"gen_ai.operation.name": "chat", "gen_ai.input.messages": messages}))
    assert [message["role"] for message in reading.conversation] == ["user", "assistant", "tool"]
    assert reading.tool_calls == ()


def resumed(prompts: Sequence[Chat], *answered: Chat) -> list[list[Span]]:
    """Return runs that resume after some messages; the outermost span, or a single one, lists the conversation."""

    def messages(chats: Sequence[Chat]) -> list[Any]:
        decoded: list[Any] = json.loads(str(genai(chats, FINAL)["gen_ai.input.messages"]))
        return decoded

    whole = [*prompts, *answered]
    graph = {
        "openinference.span.kind": "CHAIN",
        "input.value": "null",
        "output.value": json.dumps({"messages": messages(whole)}),
    }
    agent = {"gen_ai.operation.name": "invoke_agent", "pydantic_ai.all_messages": json.dumps(messages(whole))}
    roots = [a_span(agent, scope="pydantic-ai"), a_span(graph, scope="openinference.instrumentation.langchain")]
    roots = [replace(root, end_ns=root.start_ns + 10**10) for root in roots]
    model = {**genai(prompts, FINAL), "gen_ai.output.messages": json.dumps(messages(whole[1:]))}
    return [*([root, a_span(genai(prompts, FINAL), parent=root, start_s=1)] for root in roots), [a_span(model)]]


@pytest.mark.parametrize("place", range(3))
def test_a_state_that_begins_with_calls_of_an_earlier_trace_counts_the_others(place: int) -> None:
    """What the first model of a resumed run was sent was requested before; what the state has beyond it was not."""
    prompt = [USER, calling(0), RESULTS[0]]
    for answered, expected in (((FINAL,), []), ((calling(1), RESULTS[1], FINAL), ["call_1"])):
        spans = resumed(prompt, *answered)[place]
        reading = read_all(*spans)
        assert ids(reading.tool_calls) == expected
        assert [(one.call_id, one.result) for one in reading.earlier_calls] == [("call_0", "result 0")]
        assert_traces_alike(sent(spans))
