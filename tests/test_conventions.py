"""The table that says where each dialect keeps what we read."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector import conventions
from collector.conventions import (
    INPUT,
    OUTPUT,
    Attributes,
    Place,
    Shape,
    input_text,
    output_text,
    project_of,
    service_of,
)
from storage.records import AttributeValue

SEED_INPUT = ["dokimos.input", "input.value", "gen_ai.prompt", "llm.input", "input", "prompt"]
SEED_OUTPUT = ["dokimos.output", "output.value", "gen_ai.completion", "llm.output", "output", "completion"]

Message = dict[str, AttributeValue]
CALL_PART: Message = {"type": "tool_call", "id": "1", "name": "find", "arguments": {"id": 4711}}
RESULT_PART: Message = {"type": "tool_call_response", "id": "1", "response": "on its way"}
USER: Message = {"role": "user", "parts": [{"type": "text", "content": "Where is my order?"}]}
CALL: Message = {"role": "assistant", "parts": [CALL_PART]}
RESULT: Message = {"role": "tool", "parts": [RESULT_PART]}
FINAL: Message = {"role": "assistant", "parts": [{"type": "text", "content": "On its way."}]}

attribute_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
json_shapes = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["role", "parts", "type", "content", "text", "messages", "prompt", "message", "choices"]),
            inner | st.sampled_from(["user", "assistant", "text", "tool_call_response", "reasoning"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


def only_texts(places: tuple[Place, ...]) -> list[str]:
    """The keys that are read as they are."""
    return [place.key for place in places if place.shape is Shape.TEXT]


@pytest.mark.parametrize("keys, places, read", [(SEED_INPUT, INPUT, input_text), (SEED_OUTPUT, OUTPUT, output_text)])
def test_the_first_key_of_the_seeds_lists_wins(
    keys: list[str], places: tuple[Place, ...], read: Callable[[Attributes], str | None]
) -> None:
    """Of the seeds' keys the earlier one wins, and a blank one counts as missing."""
    assert [key for key in only_texts(places) if key in keys] == keys
    for at, key in enumerate(keys):
        attributes: dict[str, AttributeValue] = {other: other for other in keys[at:]}
        attributes |= dict.fromkeys(keys[:at], " \n")
        assert read(attributes) == key


def test_no_place_is_listed_twice() -> None:
    """A second line for the same place could never win."""
    for places in (INPUT, OUTPUT):
        assert len({(place.key, place.shape) for place in places}) == len(places)


@pytest.mark.parametrize("as_text", [True, False])
def test_genai_messages_give_what_was_asked_and_answered(as_text: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Of OTel GenAI messages, as JSON text or structured, the last words of user and model are read."""
    system: Message = {"role": "system", "parts": [{"type": "text", "content": "Be kind."}]}
    asked: AttributeValue = [system, {"role": "user", "parts": [{"type": "text", "content": "Hi"}]}, USER, CALL, RESULT]
    answered: AttributeValue = [CALL, RESULT, FINAL]
    attributes: dict[str, AttributeValue] = {
        "gen_ai.input.messages": json.dumps(asked) if as_text else asked,
        "gen_ai.output.messages": json.dumps(answered) if as_text else answered,
    }
    assert input_text(attributes) == "Where is my order?"
    assert output_text(attributes) == "On its way."


def test_an_answer_that_is_only_a_tool_call_is_shown_whole() -> None:
    """Messages without any text are not nothing: they are shown as they came."""
    messages = json.dumps([CALL])
    assert output_text({"gen_ai.output.messages": messages}) == messages


def test_the_final_answer_follows_the_last_tool_result() -> None:
    """Where one message holds a whole trajectory, its text before the last tool result is not the answer."""
    parts = [
        {"type": "text", "content": "Let me look."},
        CALL_PART,
        RESULT_PART,
        {"type": "reasoning", "content": "It is on its way."},
        {"type": "text", "content": "On its way."},
    ]
    assert output_text({"gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": parts}])}) == "On its way."


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "q"},
        {"role": "user", "content": [{"type": "text", "text": "q"}]},
        {"role": "user", "content": [{"type": "input_text", "text": "q"}, {"type": "input_image", "image_url": "x"}]},
        {"role": "User", "parts": [{"text": "q"}]},
        {"role": "user", "parts": ["q"]},
        {"role": "user", "parts": [{"type": "text", "content": "q"}, {"type": "blob", "content": "aGVsbG8="}]},
        {"parts": [{"type": "text", "content": "q"}]},
        {"role": "human", "content": "q"},
    ],
)
def test_messages_are_read_by_their_shape(message: dict[str, AttributeValue]) -> None:
    """OpenAI, Anthropic, Bedrock and Gemini put other shapes under the GenAI keys, and all are read."""
    assert input_text({"gen_ai.input.messages": json.dumps([message])}) == "q"
    assert input_text({"gen_ai.input.messages": json.dumps(message)}) == "q"


@pytest.mark.parametrize(
    "text", ['[{"role":"user","parts":[{"type":"te', "plain words", "[" * 100_000, "{}", "[]", "5"]
)
def test_what_does_not_parse_degrades_to_its_text(text: str) -> None:
    """JSON that an attribute length limit cut in the middle, or no JSON at all, is shown as it came."""
    assert input_text({"gen_ai.input.messages": text}) == text


def test_half_a_surrogate_pair_cannot_break_an_answer() -> None:
    """JSON may spell text that UTF-8 cannot carry; what is read can always be encoded."""
    text = input_text({"gen_ai.input.messages": '[{"role": "user", "content": "a\\ud800b"}]'})
    assert text == "a?b"


def test_numbered_messages_are_put_together() -> None:
    """OpenInference and OpenLLMetry spread messages over attributes, and number 10 comes after number 2."""
    openinference: dict[str, AttributeValue] = {
        "llm.input_messages.0.message.role": "system",
        "llm.input_messages.0.message.content": "Be kind.",
        "llm.input_messages.2.message.role": "user",
        "llm.input_messages.2.message.content": "two",
        "llm.input_messages.10.message.role": "user",
        "llm.input_messages.10.message.contents.0.message_content.text": "ten",
        "llm.input_messages.10.message.contents.1.message_content.text": "and more",
        "input.value": '{"messages": []}',
    }
    openllmetry: dict[str, AttributeValue] = {
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": '[{"type": "text", "text": "hello"}]',
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": "hi",
    }
    assert input_text(openinference) == "ten\nand more"
    assert (input_text(openllmetry), output_text(openllmetry)) == ("hello", "hi")


@pytest.mark.parametrize(
    "attributes, asked, answered",
    [
        (
            {"gen_ai.tool.call.arguments": '{"id": 1}', "gen_ai.tool.call.result": {"ok": True}},
            '{"id": 1}',
            '{"ok": true}',
        ),
        ({"ai.toolCall.args": '{"id":1}', "ai.toolCall.result": '"done"'}, '{"id":1}', "done"),
        ({"ai.prompt": '{"system": "s", "prompt": "q"}', "ai.response.text": "a"}, "q", "a"),
        (
            {"ai.prompt.messages": '[{"role":"user","content":[{"type":"text","text":"q"}]}]', "ai.response.text": "a"},
            "q",
            "a",
        ),
        ({"traceloop.entity.input": '{"x": 1}', "traceloop.entity.output": "y"}, '{"x": 1}', "y"),
        ({"mlflow.spanInputs": '"q"', "mlflow.spanOutputs": '{"a": 1}'}, "q", '{"a": 1}'),
        ({"tool_arguments": '{"x": 1}', "tool_response": "sunny"}, '{"x": 1}', "sunny"),
        (
            {
                "request_data": '{"model": "m", "messages": [{"role": "user", "content": "q"}]}',
                "response_data": '{"message": {"role": "assistant", "content": "a"}}',
            },
            "q",
            "a",
        ),
        (
            {
                "gcp.vertex.agent.llm_request": '{"contents": [{"role": "user", "parts": [{"text": "q"}]}]}',
                "gcp.vertex.agent.llm_response": '{"content": {"role": "model", "parts": [{"text": "a"}]}}',
            },
            "q",
            "a",
        ),
        ({"langfuse.observation.input": "q", "langfuse.observation.output": "a"}, "q", "a"),
        ({"input.value": 5, "output.value": True}, "5", "true"),
    ],
)
def test_each_dialect_is_understood(attributes: dict[str, AttributeValue], asked: str, answered: str) -> None:
    """What each instrumentation sends has an input and an output."""
    assert (input_text(attributes), output_text(attributes)) == (asked, answered)


def test_our_own_names_beat_every_dialect() -> None:
    """A span that says `dokimos.input` and `dokimos.output` is believed."""
    everything: dict[str, AttributeValue] = {place.key: "theirs" for place in (*INPUT, *OUTPUT)}
    everything |= {"dokimos.input": "ours", "dokimos.output": "ours too"}
    assert (input_text(everything), output_text(everything)) == ("ours", "ours too")


def test_a_span_without_content_has_no_texts() -> None:
    """Nothing is made up."""
    assert (input_text({"http.request.method": "GET"}), output_text({})) == (None, None)


@given(st.dictionaries(st.sampled_from([place.key for place in (*INPUT, *OUTPUT)]), attribute_values))
def test_reading_never_fails(attributes: dict[str, AttributeValue]) -> None:
    """Whatever values stand under the names, the answer is text that can be encoded, or nothing."""
    for text in (input_text(attributes), output_text(attributes)):
        assert text is None or text.encode().strip()


@given(json_shapes)
def test_reading_messages_never_fails(shape: AttributeValue) -> None:
    """Whatever JSON stands where messages should, something is shown."""
    messages = json.dumps(shape)
    assert input_text({"gen_ai.input.messages": messages})
    assert output_text({"gen_ai.output.messages": messages})
    assert output_text({"gen_ai.output.messages": [shape]})


def test_the_project_is_named_by_the_resource() -> None:
    """The strongest name wins, and the service's name is the project's when there is no other."""
    resource: dict[str, AttributeValue] = {key: key for key in conventions.PROJECT_KEYS}
    for key in conventions.PROJECT_KEYS:
        assert project_of(resource) == key
        del resource[key]
    assert project_of({}) == ""
    assert project_of({"dokimos.project": " ", "service.name": "shop"}) == "shop"
    assert service_of({"service.name": "shop"}) == "shop"
