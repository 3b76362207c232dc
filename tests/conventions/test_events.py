"""Content that is not in attributes: events on spans, and log records of other requests."""

import json

import pytest

from storage.records import AttributeValue
from tests.conventions.making import a_log, a_span, an_event, call, read, read_all, response, text

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.system": "openai"}
MESSAGES = [
    text("system", "Be kind."),
    text("user", "Weather?"),
    call("f", {"city": "Oslo"}, "c1"),
    response("sun", "c1"),
]
CALLS: AttributeValue = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"city": "Oslo"}'}}]
RECORDS: list[tuple[str, dict[str, AttributeValue]]] = [
    ("gen_ai.system.message", {"content": "Be kind."}),
    ("gen_ai.user.message", {"content": "Weather?"}),
    ("gen_ai.assistant.message", {"tool_calls": CALLS}),
    ("gen_ai.tool.message", {"id": "c1", "content": "sun"}),
    ("gen_ai.choice", {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Sunny."}}),
]


def test_log_records_are_the_messages_of_their_span() -> None:
    """The bodies of the older events are read in the order of their times, whenever each of them came."""
    span = a_span(CHAT)
    logs = [a_log(span, name, body, time_ns=number) for number, (name, body) in enumerate(RECORDS)]
    for order in (logs, logs[::-1], logs[2:] + logs[:2]):
        reading = read_all(span, logs=order).spans[span.span_id]
        assert reading.input_messages == tuple(MESSAGES)
        assert reading.output_messages == (text("assistant", "Sunny."),)
        assert (reading.input, reading.output) == ("Weather?", "Sunny.")
        assert reading.sources["input"] == "log gen_ai.user.message"
        assert reading.sources["output_messages"] == "log gen_ai.choice"


def test_a_span_before_its_log_records_says_what_is_missing() -> None:
    """Without its log records a model's span has no content and says how to have it sent."""
    reading = read(CHAT)
    assert (reading.input, reading.output, reading.dialect) == (None, None, "otel_genai")
    assert any("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in note for note in reading.notes)


def test_log_records_of_another_span_are_not_read() -> None:
    """Records join by span id."""
    span, other = a_span(CHAT), a_span(CHAT)
    reading = read_all(span, other, logs=[a_log(other, "gen_ai.user.message", {"content": "Hi"})])
    assert (reading.spans[span.span_id].input, reading.spans[other.span_id].input) == (None, "Hi")


@pytest.mark.parametrize("as_text", [True, False])
def test_details_of_an_operation_are_attributes_of_one_record(as_text: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """The newer event has all content in its attributes, or in its body."""
    attributes: dict[str, AttributeValue] = {
        "gen_ai.system_instructions": [{"type": "text", "content": "Be kind."}],
        "gen_ai.input.messages": [text("user", "Hi")],
        "gen_ai.output.messages": [text("assistant", "Hello.")],
        "gen_ai.tool.definitions": [
            {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}}
        ],
    }
    attributes = {key: json.dumps(value) for key, value in attributes.items()} if as_text else attributes
    span = a_span(CHAT)
    name = "gen_ai.client.inference.operation.details"
    for log in (
        a_log(span, name, None, attributes),
        a_log(span, name, attributes),
        a_log(span, name, json.dumps(attributes)),
    ):
        reading = read_all(span, logs=[log]).spans[span.span_id]
        assert reading.input_messages == (text("system", "Be kind."), text("user", "Hi"))
        assert reading.output == "Hello."
        assert [definition.name for definition in reading.tool_definitions] == ["f"]
        assert reading.sources["output"] == f"log {name}"


def test_several_details_on_one_span_are_put_together() -> None:
    """Strands sends one event for each side, and one for each message."""
    name = "gen_ai.client.inference.operation.details"
    events = (
        an_event(name, {"gen_ai.input.messages": [text("user", "a")]}),
        an_event(name, {"gen_ai.input.messages": [text("user", "b")]}),
        an_event(name, {"gen_ai.input.messages": [text("user", "b")]}),
        an_event(name, {"gen_ai.output.messages": [text("assistant", "c")]}),
    )
    reading = read(CHAT, events=events)
    assert reading.input_messages == (text("user", "a"), text("user", "b"))
    assert (reading.input, reading.output) == ("b", "c")
    assert reading.sources["input"] == f"event {name}"


def test_attributes_beat_events_and_events_beat_log_records() -> None:
    """Each side of the dialogue comes from the strongest place that has it."""
    span = a_span(
        CHAT | {"gen_ai.output.messages": [text("assistant", "of the attribute")]},
        events=(
            an_event("gen_ai.user.message", {"content": "of the event"}),
            an_event("gen_ai.choice", {"message": "no"}),
        ),
    )
    name = "gen_ai.client.inference.operation.details"
    log = a_log(span, name, None, {"gen_ai.output.messages": [text("assistant", "of the log")]})
    reading = read_all(span, logs=[log]).spans[span.span_id]
    assert (reading.input, reading.output) == ("of the event", "of the attribute")


def test_messages_as_json_in_one_attribute_of_an_event() -> None:
    """Azure and Semantic Kernel for .NET put a whole message into `gen_ai.event.content`."""
    events = (
        an_event("gen_ai.user.message", {"gen_ai.event.content": '{"role": "user", "content": "Hi"}'}),
        an_event(
            "gen_ai.choice",
            {"gen_ai.event.content": '{"index": 0, "message": {"role": "Assistant", "content": "Hello."}}'},
        ),
    )
    reading = read(CHAT, events=events)
    assert reading.input_messages == (text("user", "Hi"),)
    assert reading.output_messages == (text("assistant", "Hello."),)


def test_bodies_that_are_json_text_are_opened() -> None:
    """Semantic Kernel for Python logs its messages as JSON text."""
    span = a_span(CHAT, scope="semantic_kernel.utils.telemetry")
    logs = [
        a_log(span, "gen_ai.user.message", '{"role": "user", "content": "Hi"}'),
        a_log(span, "gen_ai.choice", '{"index": 0, "message": {"role": "assistant", "content": "Hello."}}', time_ns=2),
    ]
    reading = read_all(span, logs=logs).spans[span.span_id]
    assert (reading.input, reading.output, reading.dialect) == ("Hi", "Hello.", "semantic_kernel")


def test_the_oldest_events_hold_prompt_and_completion() -> None:
    """`gen_ai.content.prompt` was an event with one attribute."""
    events = (
        an_event("gen_ai.content.prompt", {"gen_ai.prompt": '[{"role": "user", "content": "Hi"}]'}),
        an_event("gen_ai.content.completion", {"gen_ai.completion": '[{"role": "assistant", "content": "Hello."}]'}),
    )
    reading = read(CHAT, events=events)
    assert (reading.input, reading.output) == ("Hi", "Hello.")


def test_several_choices_are_several_messages() -> None:
    """A model that was asked for two answers gives two."""
    events = tuple(
        an_event("gen_ai.choice", {"index": n, "message": json.dumps([{"text": f"answer {n}"}])}) for n in (0, 1)
    )
    reading = read(CHAT, events=events)
    assert reading.output_messages == (text("assistant", "answer 0"), text("assistant", "answer 1"))
