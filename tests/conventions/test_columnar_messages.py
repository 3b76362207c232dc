"""Messages that are read at once, of numbered attributes or nearly in the normal form, mean what `read_span` says."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.conventions.columnar.normal import halved, normal_messages
from collector.conventions.columnar.reader import SpanReader
from collector.conventions.own_keys import NO_KEYS
from collector.conventions.slot_values import SlotValues
from storage.records import Span
from tests.conventions.making import a_span
from tests.conventions.test_columnar import a_batch, a_request, assert_alike, rows_of
from tests.trying import tried

pytestmark = pytest.mark.timeout(900)  # hypothesis, on a machine that may be busy

ROLES = ("user", "assistant", "system", "tool", "human", "AI", "model", "", "critic")
WORDS = (
    "What is the weather?", "It rains, and will rain tomorrow.", " ", "", "[", "[1]", '[{"type": "text", "text": "x"}]',
    '{"a": 1}', "é", "N/A", 7, None,
)  # fmt: skip
numbered = st.lists(
    st.tuples(st.sampled_from(ROLES[:3]) | st.sampled_from(ROLES), st.sampled_from(WORDS[:2]) | st.sampled_from(WORDS)),
    min_size=1,
    max_size=3,
)


def numbered_attributes(
    sent: list[tuple[str, Any]], answered: list[tuple[str, Any]], *, nested: bool, finish: str | None
) -> dict[str, Any]:
    """Return a dialogue as OpenInference numbers it, below `message`, or as OpenLLMetry does."""
    *sides, within = SIDES[nested]
    attributes: dict[str, Any] = {"openinference.span.kind": "LLM"} if nested else {"llm.request.type": "chat"}
    for side, messages in zip(sides, (sent, answered), strict=True):
        for number, (role, words) in enumerate(messages):
            attributes[f"{side}.{number}{within}.role"] = role
            attributes[f"{side}.{number}{within}.content"] = words
            if finish is not None and side == sides[1]:
                attributes[f"{side}.{number}{within}.finish_reason"] = finish
    return {key: value for key, value in attributes.items() if value is not None}


@given(
    numbered,
    numbered,
    st.booleans(),
    st.none() | st.sampled_from(["stop", ""]),
    st.none() | st.sampled_from(['{"messages": [{"role": "user", "content": "raw"}]}', "raw"]),
    st.sampled_from([0, 2]),
)
@tried(100)
def test_numbered_messages_are_read_alike(
    sent: list[tuple[str, Any]],
    answered: list[tuple[str, Any]],
    nested: bool,  # noqa: FBT001 - a parameter of the test
    finish: str | None,
    raw: str | None,
    status_code: int,
) -> None:
    """Whatever roles and words are numbered, with a request beside them or without."""
    attributes = numbered_attributes(sent, answered, nested=nested, finish=finish)
    attributes |= {} if raw is None else {"input.value": raw, "output.value": raw}
    assert_alike(a_batch(a_request([a_span(attributes, status_code=status_code)])))


PARTS: tuple[dict[str, Any], ...] = (
    {"type": "text", "content": "It rains."},
    {"type": "text", "content": "It rains.", "more": 1},
    {"type": "text", "content": ""},
    {"type": "reasoning", "content": "Think."},
    {"type": "tool_call", "id": "a", "name": "weather", "arguments": {"city": "Oslo"}},
    {"type": "tool_call", "id": "b", "name": "weather", "arguments": '{"city": "Oslo"}'},
    {"type": "tool_call", "id": None, "name": "weather", "arguments": '{"args": [], "kwargs": {"a": 1}}'},
    {"type": "tool_call", "id": "c", "name": "weather", "arguments": '{"cut": off'},
    {"type": "tool_call_response", "id": "a", "response": '{"celsius": 7}'},
    {"type": "tool_call_response", "id": "b", "response": "sunny"},
    {"type": "tool_call_response", "id": "a", "result": {"celsius": 7}, "name": "weather"},
    {"type": "tool_call_response", "id": "a", "result": '{"output": "wrapped"}'},
    {"type": "tool_call_response", "id": "a", "response": '{"content": [{"type": "text", "text": "x"}]}'},
    {"type": "tool_call_response", "id": "a", "response": None, "result": "sunny"},
    {"type": "tool_call_response", "id": "a"},
    {"type": "uri", "modality": "image", "uri": "https://example.com/cat.png"},
)
messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(ROLES[:4]), "parts": st.lists(st.sampled_from(PARTS), max_size=3)},
        optional={"finish_reason": st.sampled_from(["stop", ""]), "name": st.sampled_from(["Ada", ""])},
    ),
    max_size=4,
)


def a_call(sent: object, answered: object) -> Span:
    """Return the span of a call of a model with its messages as JSON."""
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(sent),
        "gen_ai.output.messages": json.dumps(answered),
    }
    return a_span(attributes)


@given(messages, messages)
@tried(150)
def test_messages_nearly_in_the_normal_form_are_read_alike(sent: list[Any], answered: list[Any]) -> None:
    """Arguments and results as JSON in JSON, empty texts, results of another name: mended, or read one by one."""
    assert_alike(a_batch(a_request([a_call(sent, answered)])))


ARGUMENTS = ('{"city": "Oslo"}', '{"args": [], "kwargs": {"a": 1}}', "{}", "Oslo", '{"cut": off', "", None)
RESULTS = ("sunny", '{"celsius": 7}', '{"type": "text", "text": "x"}', "[1]", "7", "Error: no", "content='x'", "", None)
called = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["a", "b", "", None]) | st.just("a"),
        "name": st.just("weather") | st.sampled_from(["", None, 7]),
        "arguments": st.just(ARGUMENTS[0]) | st.sampled_from(ARGUMENTS),
        "words": st.sampled_from([None, "Wait.", ""]),
        "result": st.sampled_from(RESULTS[:2]) | st.sampled_from(RESULTS),
        "result_id": st.just("a") | st.sampled_from(["", None]),
        "role": st.just("tool") | st.sampled_from(["function", "user"]),
        "as": st.none() | st.sampled_from(["weather", ""]),
        "twice": st.booleans(),
    }
)


@given(
    st.lists(called, max_size=2),
    called,
    st.booleans(),
    st.none() | st.just(json.dumps({"messages": [{"role": "user", "content": "raw"}]})),
)
@tried(120)
def test_numbered_calls_are_read_alike(
    before: list[dict[str, Any]],
    last: dict[str, Any],
    nested: bool,  # noqa: FBT001 - a parameter of the test
    raw: str | None,
) -> None:
    """Whatever calls of tools and their results are numbered, whole or with something missing."""
    sent, answered, within = SIDES[nested]
    attributes: dict[str, Any] = {"openinference.span.kind": "LLM"} if nested else {"llm.request.type": "chat"}
    attributes |= {f"{sent}.0{within}.role": "user", f"{sent}.0{within}.content": "What is the weather?"}
    for number, call in enumerate(before):
        attributes |= numbered_call(f"{sent}.{2 * number + 1}{within}", call, nested=nested)
        attributes |= {
            f"{sent}.{2 * number + 2}{within}.{name}": call[field]
            for name, field in (("role", "role"), ("content", "result"), ("tool_call_id", "result_id"), ("name", "as"))
        }
    attributes |= numbered_call(f"{answered}.0{within}", last, nested=nested)
    attributes |= {} if raw is None else {"input.value": raw, "output.value": "raw"}
    assert_alike(a_batch(a_request([a_span({key: value for key, value in attributes.items() if value is not None})])))


SIDES = {
    True: ("llm.input_messages", "llm.output_messages", ".message"),
    False: ("gen_ai.prompt", "gen_ai.completion", ""),
}


def numbered_call(under: str, call: dict[str, Any], *, nested: bool) -> dict[str, Any]:
    """Return a message that calls a tool, once or twice."""
    attributes = {f"{under}.role": "assistant", f"{under}.content": call["words"]}
    for number in range(1 + call["twice"]):
        beginning = f"{under}.tool_calls.{number}" + (".tool_call" if nested else "")
        function = f"{beginning}.function" if nested else beginning
        attributes |= {f"{beginning}.id": call["id"] and call["id"] + "x" * number}
        attributes |= {f"{function}.name": call["name"], f"{function}.arguments": call["arguments"]}
    return attributes


@given(messages, st.sampled_from([None, "It rains.", "N/A", ""]), st.sampled_from(["chat", "invoke_agent"]))
@tried(120)
def test_a_whole_conversation_is_read_alike(conversation: list[Any], result: str | None, operation: str) -> None:
    """However the messages of both sides follow each other, in one list."""
    attributes = {
        "gen_ai.operation.name": operation,
        "pydantic_ai.all_messages": json.dumps(conversation),
        "final_result": result,
    }
    kept = {key: value for key, value in attributes.items() if value is not None}
    assert_alike(a_batch(a_request([a_span(kept, scope="pydantic-ai")])))


def test_a_conversation_is_halved_after_the_last_words_of_the_user() -> None:
    """The prompt ends with the last user message, and the answer follows."""
    last_words = {"role": "user", "parts": [{"type": "text", "content": "Is it warm?"}]}
    rest = [{"role": "assistant", "parts": [PARTS[4]]}, {"role": "tool", "parts": [PARTS[9]]}]
    halves = halved(json.dumps([last_words, *rest]))
    assert halves is not None
    assert (halves.words, halves.answer) == ("Is it warm?", None)
    assert (json.loads(halves.prompt), json.loads(halves.answered)) == ([last_words], rest)


def test_what_is_nearly_in_the_normal_form_is_mended() -> None:
    """Arguments and results that are JSON in JSON are opened, and a message of results alone is the tool's."""
    calling = {"role": "assistant", "parts": [PARTS[0], PARTS[2], PARTS[5]]}
    mended = normal_messages(json.dumps([calling, {"role": "user", "parts": [PARTS[8]]}]))
    assert mended is not None
    assert json.loads(mended.mended or "") == [
        {"role": "assistant", "parts": [PARTS[0], {**PARTS[5], "arguments": {"city": "Oslo"}}]},
        {"role": "tool", "parts": [{**PARTS[8], "response": {"celsius": 7}}]},
    ]


def test_a_result_after_its_call_is_in_the_normal_form() -> None:
    """Messages already in the normal form are not written anew."""
    mended = normal_messages(
        json.dumps([{"role": "assistant", "parts": [PARTS[4]]}, {"role": "tool", "parts": [PARTS[9]]}])
    )
    assert mended is not None
    assert (mended.has_calls, mended.mended) == (True, None)


CALL = {"id": "a", "name": "weather", "arguments": '{"city": "Oslo"}', "words": None, "twice": False}
RESULT = {"role": "tool", "content": '{"celsius": 7}', "tool_call_id": "a"}


@pytest.mark.parametrize("nested", [True, False])
def test_numbered_messages_are_gathered(nested: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001 - a parameter of the test
    """Spans whose numbered messages are words, calls and results are not walked through one by one."""
    monkeypatch.setattr(SlotValues, "group", None)
    attributes = numbered_attributes([("user", "q")], [("assistant", "a")], nested=nested, finish=None)
    sent, _, within = SIDES[nested]
    attributes |= numbered_call(f"{sent}.1{within}", CALL, nested=nested)
    attributes |= {f"{sent}.2{within}.{name}": words for name, words in RESULT.items()}
    batch = a_batch(a_request([a_span({key: value for key, value in attributes.items() if value is not None})]))
    table = SpanReader(NO_KEYS).read(rows_of(batch)).columns
    (row,) = table.to_pylist()
    assert (row["input"], row["output"]) == ("q", "a")
    assert json.loads(row["input_messages"])[1:] == [
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "a", "name": "weather", "arguments": {"city": "Oslo"}}],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "a", "response": {"celsius": 7}}]},
    ]
    assert json.loads(row["output_messages"]) == [{"role": "assistant", "parts": [{"type": "text", "content": "a"}]}]
