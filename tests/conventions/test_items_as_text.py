"""Items of OpenAI's clients that an instrumentation wrote as a Python repr are read as the items."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.conventions import literals, values
from collector.conventions.items_as_text import with_items
from collector.conventions.pieces import parts_by_type
from storage.records import JsonValue, Message, Span
from tests.conventions.making import a_span, read, read_all
from tests.conventions.test_columnar import assert_alike, sent

SCOPE = "opentelemetry.instrumentation.openai_agents"
CALL = (
    "ResponseFunctionToolCall(arguments='{\"item\": \"hose\"}', call_id='call_1', name='lookup', type='function_call', "
    "id='fc_1', caller=None, namespace=None, status='completed')"
)
CALLED = {"type": "tool_call", "id": "call_1", "name": "lookup", "arguments": {"item": "hose"}}
THOUGHTS = (
    "ResponseReasoningItem(id='rs_1', summary=[Summary(text=\"It's stock\", type='summary_text')], type='reasoning', "
    "content=None, encrypted_content='gAAA==', status=None)"
)
THOUGHT = {"type": "reasoning", "content": "It's stock"}
REFUSAL = (
    "ResponseOutputMessage(id='msg_1', content=[ResponseOutputRefusal(refusal='No.', type='refusal')], "
    "role='assistant', status='completed', type='message', phase=None)"
)
SEARCH = (
    "ResponseFunctionWebSearch(id='ws_1', action=ActionSearch(type='search', query='hose', sources=None), "
    "status='completed', type='web_search_call')"
)
CUSTOM = "ResponseCustomToolCall(call_id='call_2', input='ls -l', name='shell', type='custom_tool_call', id='ctc_1')"
CHAT: dict[str, Any] = {"content": None, "refusal": None, "role": "assistant", "function_call": None}
FUNCTION = {"id": "call_1", "function": {"arguments": '{"item": "hose"}', "name": "lookup"}, "type": "function"}
PICTURE = "A" * 100_000


def words(content: str) -> dict[str, Any]:
    """Return a part of words."""
    return {"type": "text", "content": content}


def opened(text: str, role: str = "assistant") -> Any:
    """Return the parts of a message with one text, as a library that makes texts of items sent it."""
    (message,) = with_items([{"role": role, "parts": [words(text)]}])
    return message["parts"]


def a_chat(prompt_items: list[Any], answered: list[str]) -> Span:
    """Return a call as the official instrumentation of OpenAI's agents writes it: every part is a text."""
    messages = [{"role": role, "parts": [words(one) for one in parts]} for role, parts in prompt_items]
    output = [{"role": "assistant", "parts": [words(one) for one in answered]}]
    attributes = {"gen_ai.input.messages": json.dumps(messages), "gen_ai.output.messages": json.dumps(output)}
    return a_span({"gen_ai.operation.name": "chat", **attributes}, scope=SCOPE)


@pytest.mark.parametrize(
    "text, expected",
    [
        (CALL, CALLED),
        (THOUGHTS, THOUGHT),
        (REFUSAL, words("No.")),
        (CUSTOM, {"type": "tool_call", "id": "call_2", "name": "shell", "arguments": "ls -l"}),
        (
            str({"annotations": [], "text": "Let me look.", "type": "output_text", "logprobs": []}),
            words("Let me look."),
        ),
        (str({"type": "input_text", "text": "hi"}), words("hi")),
        (str({"text": "hm", "type": "reasoning_text"}), {"type": "reasoning", "content": "hm"}),
        (str({**CHAT, "tool_calls": [FUNCTION]}), CALLED),
        (str({**CHAT, "refusal": "No.", "tool_calls": None}), words("No.")),
        (
            str({"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PICTURE}"}),
            {"type": "blob", "modality": "image", "mime_type": "image/png", "content": PICTURE},
        ),
    ],
)
def test_an_item_is_read_as_what_it_is(text: str, expected: dict[str, Any]) -> None:
    """Calls with ids and arguments, thoughts, refusals, earlier answers, pictures, messages of chat completions."""
    assert opened(text) == [expected]


def test_calls_without_an_id_are_those_with_other_arguments() -> None:
    """Beside an item that is a text, calls of one tool stay two; one that is there twice is one."""
    calls: list[JsonValue] = [
        {"type": "tool_call", "id": None, "name": "lookup", "arguments": {"item": each}} for each in "aba"
    ]
    (message,) = with_items([{"role": "assistant", "parts": [words(THOUGHTS), *calls]}])
    assert message["parts"] == [THOUGHT, *calls[:2]]


def test_what_a_provider_did_itself_is_no_answer() -> None:
    """A provider's own search call is kept unchanged, and is not a text."""
    (part,) = opened(SEARCH)
    assert isinstance(part, dict)
    assert (part["type"], part["id"]) == ("web_search_call", "ws_1")


@pytest.mark.parametrize(
    "text",
    [
        "See ResponseFunctionToolCall(type='function_call')",
        "Call(type='function_call', name=open('/etc/passwd').read())",
        "call(type='function_call', name='f')",
        "Order(type='pizza')",
        "Order(type='refund_call', id='1')",
        "Foo(type='reasoning', summary='secret')",
        "ResponseReasoningItem(type='reasoning', content='secret')",
        "ResponseFunctionToolCall(type='function_call', name='refund')",
        "{'type': 'refund_call', 'id': '1'}",
        "Order(type='call', what=1 + 1)",
        "{'type': 'pizza', 'text': 'hi'}",
        "{'role': 'user', 'tool_calls': [], 'x': {'type': 'y'}}",
        '{"type": "output_text", "text": "hi"}',
        CALL[:-1],
    ],
)
def test_other_words_stay_words(text: str) -> None:
    """Prose about an item, objects and maps of other kinds, what the grammar does not know, and cut-off items."""
    for role in ("assistant", "user", "system"):
        assert opened(text, role) == [words(text)]


WRITTEN = (
    CALL,
    THOUGHTS,
    str({"text": "hm", "type": "reasoning_text"}),
    '{"type": "function_call", "name": "refund", "arguments": "{}", "call_id": "c", "id": "fc_1"}',
    '[{"type": "tool_use", "id": "t", "name": "refund", "input": {}}]',
    '{"id": "rs_1", "summary": [{"text": "hm", "type": "summary_text"}], "type": "reasoning"}',
    '{"reasoningContent": {"reasoningText": {"text": "hm"}}}',
)
"""Texts that are calls or reasoning, for libraries that write these as texts."""


@pytest.mark.parametrize("text", WRITTEN)
@pytest.mark.parametrize(
    "scope", ["", "my.own", "opentelemetry.instrumentation.openai_v2", "openlit.instrumentation.openai"]
)
def test_words_that_look_like_items_are_words(text: str, scope: str) -> None:
    """What users and models write is opened on no span of another library, in JSON or in numbered attributes."""
    prompted, answered = ([{"role": role, "parts": [words(text)]}] for role in ("user", "assistant"))
    span = a_span(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps(prompted),
            "gen_ai.output.messages": json.dumps(answered),
        },
        scope=scope,
    )
    reading = read(span.attributes, scope=scope)
    assert (reading.input, reading.output) == (text, text)
    assert (list(reading.input_messages or ()), list(reading.output_messages or ())) == (prompted, answered)
    assert_alike(sent([span]))


@pytest.mark.parametrize("text", WRITTEN)
@pytest.mark.parametrize("role", ["user", "system"])
@pytest.mark.parametrize(
    "keys",
    [
        {"role": "gen_ai.prompt.0.role", "content": "gen_ai.prompt.0.content"},
        {"role": "llm.input_messages.0.message.role", "content": "llm.input_messages.0.message.content"},
    ],
)
def test_words_in_numbered_attributes_are_words(text: str, role: str, keys: dict[str, str]) -> None:
    """A user's or an operator's words are neither calls nor thoughts, and keep their role."""
    scope = "opentelemetry.instrumentation.langchain"
    kind = {"openinference.span.kind": "LLM", "llm.request.type": "chat"}
    span = a_span({**kind, keys["role"]: role, keys["content"]: text}, scope=scope)
    reading = read(span.attributes, scope=scope)
    assert reading.input_messages == ({"role": role, "parts": [words(text)]},)
    assert_alike(sent([span]))


@pytest.mark.parametrize("text", [text for text in WRITTEN if text[0] in "{["])
def test_blocks_in_numbered_answers_are_read_alike(text: str) -> None:
    """An answer of LangChain in numbered attributes is opened one span at a time and together."""
    scope = "opentelemetry.instrumentation.langchain"
    answer = {"gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": text}
    span = a_span({"llm.request.type": "chat", **answer}, scope=scope)
    assert_alike(sent([span]))


@pytest.mark.parametrize("scope", ["opentelemetry.instrumentation.langchain", SCOPE])
@pytest.mark.parametrize("text", [text for text in WRITTEN if text[0] in "{[" and text[1] != "'"])
def test_a_user_writes_json_where_answers_are_json(scope: str, text: str) -> None:
    """Also on the spans of the libraries that make texts of blocks, a user's JSON is words."""
    prompt = [{"role": "user", "parts": [words(text)]}]
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(prompt)}
    assert list(read(attributes, scope=scope).input_messages or ()) == prompt
    assert_alike(sent([a_span(attributes, scope=scope)]))


def test_a_turn_of_openais_agents_is_a_call_and_its_answer() -> None:
    """Reasoning and calls end the answer; reasoning in the prompt is the model's own, whatever role it has."""
    prompt = [("user", ["Is there hose?"]), ("user", [str({"text": "hm", "type": "reasoning_text"})])]
    span = a_chat(prompt, [THOUGHTS, CALL])
    reading = read(span.attributes, scope=SCOPE)
    assert reading.output_messages == ({"role": "assistant", "parts": [THOUGHT, CALLED]},)
    assert [message["role"] for message in reading.input_messages or ()] == ["user", "assistant"]
    assert reading.input == "Is there hose?"
    refused = read(a_chat([], [REFUSAL]).attributes, scope=SCOPE)
    assert refused.output == "No."
    assert_alike(sent([span, a_chat(prompt, [REFUSAL]), a_chat(prompt, ["It is here."])]))


def test_a_result_beside_its_own_words_is_one_result() -> None:
    """Over chat completions a tool's message has both."""
    result = {"type": "tool_call_response", "id": "call_1", "result": '{"units": 3}'}
    messages = [{"role": "tool", "parts": [words('{"units": 3}'), result]}]
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(messages)}
    (message,) = read(attributes, scope=SCOPE).input_messages or ()
    assert message["parts"] == [{"type": "tool_call_response", "id": "call_1", "response": {"units": 3}}]


def test_a_handoff_is_a_step() -> None:
    """A handoff is neither a model, a tool nor an agent."""
    assert read({"gen_ai.operation.name": "agent_handoff"}, scope=SCOPE).span_type == "chain"
    assert read({"gen_ai.operation.name": "guardrail_check"}, scope=SCOPE).span_type == "evaluator"


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
pieces = st.sampled_from(["ResponseFunctionToolCall(", "type='", "function_call", "'", '"', "\\", "(", ")", "[", "{'"])
hostile = st.lists(pieces | st.text(max_size=4), max_size=40).map("".join)


@given(st.text(st.characters(exclude_categories=["Cs"])), plain_values)
def test_any_arguments_come_back(name: str, arguments: Any) -> None:
    """What Python writes of a call is read as that call, with whatever characters and quotes."""
    text = (
        f"ResponseFunctionToolCall(arguments={json.dumps({'a': arguments})!r}, call_id='c', name={name!r}, "
        "type='function_call')"
    )
    (part,) = opened(text)
    assert part == {"type": "tool_call", "id": "c", "name": name, "arguments": json.loads(json.dumps({"a": arguments}))}


@given(hostile, st.sampled_from(["", ")", "type='x')", "'type': 'refusal'}"]))
def test_any_text_is_read(text: str, end: str) -> None:
    """Whatever a text holds, it is words or parts that can be written as JSON."""
    for whole in (text + end, "{'" + text + end):
        json.dumps(opened(whole))


@pytest.mark.parametrize("endless", ["['" + "\\'" * 9_000 + "]", '{"' + '\\"' * 9_000 + "}"])
def test_a_string_without_an_end_is_looked_for_once(endless: str) -> None:
    """Searching for the end at each quote within takes quadratic time: 22 s for 32 kB."""
    for pattern in (literals._STRING, values._LITERAL_STRING):
        assert len([*pattern.finditer(endless)]) == 1
    assert values.parsed(endless) == endless


LITERALS = (
    "{'type': 'reasoning', 'id': 'r', 'summary': [{'text': 'print secrets', 'type': 'summary_text'}]}",
    "{'type': 'function_call', 'name': 'refund', 'arguments': '{}', 'call_id': 'c9'}",
)


@pytest.mark.parametrize("literal", LITERALS)
def test_the_first_and_the_last_words_that_a_model_is_sent_are_no_item_of_a_model(literal: str) -> None:
    """A user who writes an item keeps the message; between others it is what the library made a text of."""
    talk = (("user", "hi"), ("assistant", "hi"), ("user", literal))
    messages: list[Message] = [{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in talk]
    user, answer, item = messages
    for sent_messages, at in (([item], 0), ([user, answer, item], 2), ([item, answer, user], 0)):
        assert with_items(sent_messages)[at] == item
    assert with_items([user, item, user])[1]["role"] == "assistant"


@pytest.mark.parametrize("reason, kind", [("stop", "text"), ("tool_call", "tool_call")])
@pytest.mark.parametrize("scope", ["opentelemetry.instrumentation.langchain", "opentelemetry.instrumentation.bedrock"])
def test_an_answer_that_ended_has_no_calls_in_its_words(scope: str, reason: str, kind: str) -> None:
    """A user may ask for JSON that looks like Anthropic's calls, whose answers end with a reason of their own."""
    words = '[{"type": "tool_use", "id": "c9", "name": "refund", "input": {}}]'
    answer = [{"role": "assistant", "parts": [{"type": "text", "content": words}]}]
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.response.finish_reasons": [reason]}
    span = a_span(attributes | {"gen_ai.output.messages": json.dumps(answer)}, scope=scope)
    (message,) = read(span.attributes, scope=scope).output_messages or ()
    assert [part["type"] for part in parts_by_type(message, kind)] == [kind]
    assert [each.name for each in read_all(span).tool_calls] == (["refund"] if kind == "tool_call" else [])
    assert_alike(sent([span]))
