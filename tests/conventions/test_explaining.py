"""Explanations: the source of each field, and the reason why one is missing."""

import json
from typing import Any

import pytest

from collector.conventions.dialects.order import DIALECTS
from collector.conventions.names import capture_hint
from collector.conventions.own_keys import NO_KEYS
from collector.conventions.span import read_span
from storage.records import SpanReading
from tests.conventions.making import a_resource, a_span, an_event, call, read, text
from tests.conventions.test_columnar import assert_alike, sent

FIELDS = [field for field in SpanReading.__dataclass_fields__ if field not in ("sources", "notes")]


def test_every_told_field_names_its_source() -> None:
    """Whatever is not null has a source, which is a key, an event, or the name of the span."""
    chat = read(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "m",
            "gen_ai.usage.input_tokens": 5,
            "gen_ai.usage.output_tokens": 7,
            "gen_ai.usage.cache_read.input_tokens": 1,
            "gen_ai.usage.reasoning_tokens": 1,
            "gen_ai.response.finish_reasons": ["stop"],
            "gen_ai.usage.cost": 0.1,
            "gen_ai.input.messages": [text("user", "q")],
            "gen_ai.output.messages": [text("assistant", "a")],
            "gen_ai.tool.definitions": [{"name": "f"}],
            "session.id": "s",
            "user.id": "u",
            "tracejury.run.id": "r",
            "tracejury.item.key": "i",
            "error.type": "Timeout",
        },
        status_code=2,
        status_message="late",
    )
    tool = read(
        {
            "openinference.span.kind": "TOOL",
            "input.value": "{}",
            "output.value": '{"type": "tool", "content": "7", "tool_call_id": "c"}',
        },
        name="f",
        events=(an_event("exception", {"exception.type": "E", "exception.message": "m"}),),
    )
    for reading in (chat, tool):
        present = {field for field in FIELDS if getattr(reading, field) not in (None, ())}
        assert present <= set(reading.sources)
    assert {getattr(chat, field) is not None for field in FIELDS if not field.startswith("tool_")} == {True}
    assert (chat.sources["input"], chat.sources["error"]) == ("gen_ai.input.messages", "status")
    assert (tool.sources["tool_name"], tool.sources["tool_call_id"]) == ("the name of the span", "output.value")
    assert (tool.sources["error"], tool.sources["error_type"]) == ("event exception", "event exception")


@pytest.mark.parametrize(
    "fields, source",
    [
        ({"attributes": {"gen_ai.operation.name": "chat"}}, "gen_ai.operation.name"),
        ({"scope": "openinference.instrumentation.openai"}, "scope openinference.instrumentation.openai"),
        ({"attributes": {"gen_ai.system": "autogen"}}, "gen_ai.system=autogen"),
        ({"attributes": {"gen_ai.system": "x"}, "resource": a_resource(telemetry_sdk_name="openlit")}, "the resource"),
        ({"name": "claude_code.tool"}, "the name of the span"),
    ],
)
def test_the_sign_of_a_dialect_is_named(fields: Any, source: str) -> None:
    """A key, a value, a scope, a resource or the name of the span."""
    assert read(**fields).sources["dialect"] == source


@pytest.mark.parametrize("dialect", [one for one in DIALECTS if one.capture], ids=lambda one: one.name)
def test_a_models_span_without_content_says_how_to_have_it(dialect: Any) -> None:
    """Each dialect has its own switch, and the note names it."""
    [sign, *_] = dialect.signs
    attributes = {"gen_ai.operation.name": "chat"} | (
        {sign.key: sign.value or "llm"} if sign.key[-1:] not in ("", ".", ":") else {}
    )
    attributes |= {f"{sign.key}x": "y"} if sign.key[-1:] in (".", ":") and sign.key != "gen_ai." else {}
    resource = a_resource(**({sign.resource.replace(".", "_"): sign.value} if sign.resource else {}))
    reading = read(attributes, scope=sign.scope, name=f"{sign.span}x", resource=resource)
    assert reading.dialect == dialect.name
    if reading.span_type == "llm":
        assert f"input: content is not captured ({dialect.capture})" in reading.notes
        assert f"output: content is not captured ({dialect.capture})" in reading.notes


@pytest.mark.parametrize(
    "scope, words",
    [
        ("opentelemetry.util.genai.handler", ["gen_ai_latest_experimental", "SPAN_ONLY", "true is rejected"]),
        ("opentelemetry.instrumentation.openai_v2", ["gen_ai_latest_experimental", "SPAN_ONLY", "since 2.4"]),
        ("opentelemetry.instrumentation.botocore", ["=true", "log records"]),
        ("opentelemetry.instrumentation.openai_agents", ["SPAN_ONLY", "TRACELOOP_TRACE_CONTENT"]),
        ("openlit.instrumentation.openai", ["openlit.init"]),
        ("opentelemetry.instrumentation.ag2", ["TelemetryMiddleware"]),
        ("shop.tracing", ["SPAN_ONLY", "older libraries take true"]),
    ],
)
def test_the_setting_is_that_of_the_library(scope: str, words: list[str]) -> None:
    """Libraries of one dialect differ, and their versions do."""
    hint = capture_hint(read(CALL, scope=scope).notes, "output")
    assert hint is not None
    assert all(word in hint for word in words)


def test_no_setting_is_named_where_nothing_is_missing() -> None:
    """Neither of a whole call nor of other notes."""
    whole = CALL | ANSWERED | {"gen_ai.input.messages": ANSWERED["gen_ai.output.messages"].replace("assistant", "user")}
    assert capture_hint(read(whole).notes) is None
    assert capture_hint(["span: 3 attributes were dropped by the sender"]) is None
    assert capture_hint(["input: content is not captured"], "output") is None


CALL = {"gen_ai.operation.name": "chat"}
ANSWERED = {"gen_ai.output.messages": '[{"role": "assistant", "parts": [{"type": "text", "content": "7"}]}]'}
QUESTION = {"gen_ai.input.messages": [text("user", "q")]}
REFUSAL = {"gen_ai.output.messages": [{"role": "assistant", "parts": [], "finish_reason": "content_filter"}]}
PYDANTIC, OPENAI = "pydantic-ai", "opentelemetry.instrumentation.openai_v2"
FAILED = "the call failed, perhaps before the library recorded it"
LEFT_OUT = "capture is on, as the {} shows: the library left the {} out"


@pytest.mark.parametrize(
    "attributes, fields, hints",
    [
        (QUESTION | REFUSAL, {"scope": OPENAI}, {"output": LEFT_OUT.format("input", "output")}),
        (QUESTION, {"scope": PYDANTIC}, {"output": LEFT_OUT.format("input", "output")}),
        (ANSWERED, {"scope": PYDANTIC}, {"input": LEFT_OUT.format("output", "input")}),
        (
            {},
            {"scope": PYDANTIC, "status_code": 2},
            {"input": FAILED},
        ),
        ({"dokimos.input": "q"}, {"scope": OPENAI}, {"output": "set OTEL_SEMCONV_STABILITY_OPT_IN"}),
        (REFUSAL, {"scope": OPENAI}, {"input": "set OTEL_SEMCONV", "output": "set OTEL_SEMCONV"}),
        (QUESTION | {"ai.operationId": "ai.generateText.doGenerate"}, {"scope": "ai"}, {"output": "set recordInputs"}),
    ],
)
def test_no_setting_is_named_that_is_on(attributes: dict[str, Any], fields: Any, hints: dict[str, str]) -> None:
    """A side with content shows that the only switch is on; Vercel has one for each side."""
    span = a_span(CALL | attributes, **fields)
    notes = read_span(span, (), NO_KEYS).notes
    assert {side for side in ("input", "output") if capture_hint(notes, side) is not None} == set(hints)
    for side, hint in hints.items():
        assert (capture_hint(notes, side) or "").startswith(hint)
    assert_alike(sent([span]))


def test_a_setting_is_named_before_the_reason_of_one_span() -> None:
    """A call that failed does not hide that another call was sent without content."""
    notes = [note for code in (2, 0) for note in read(CALL, scope=PYDANTIC, status_code=code).notes]
    assert capture_hint(notes) == "set include_content=True in the InstrumentationSettings of Pydantic AI"


def test_a_refused_call_misses_no_output() -> None:
    """If the service answered with an error, there is no output to capture."""
    reading = read({"gen_ai.operation.name": "chat", "input": "q"}, status_code=2)
    assert reading.notes == ()


@pytest.mark.parametrize(
    "attributes, note",
    [
        (
            {"gen_ai.operation.name": "chat", "gen_ai.input.messages": '[{"role": "user", "parts": [{"ty'},
            "gen_ai.input.messages: its JSON is cut off, so it is shown as text",
        ),
        (
            {"gen_ai.operation.name": "chat", "gen_ai.input.messages": '[{"role": user}]'},
            "gen_ai.input.messages: its JSON breaks at character 10, so it is shown as text",
        ),
        (
            {"openinference.span.kind": "TOOL", "input.value": '{"city": "Os'},
            "input.value: its JSON is cut off, so it is shown as text",
        ),
        (
            {"gen_ai.operation.name": "chat", "gen_ai.input.messages": "<REDACTED>"},
            "gen_ai.input.messages: was redacted before it was sent",
        ),
        ({"openinference.span.kind": "CHAIN", "input.value": "__REDACTED__"}, "input: was redacted before it was sent"),
        *(
            ({kind: "LLM", key: value}, "output: is an object as Python shows it, without its content")
            for kind, key, value in (
                ("mlflow.spanType", "mlflow.spanOutputs", '"<anthropic.Stream object at 0x7f0c8ae20050>"'),
                ("openinference.span.kind", "output.value", "<async_generator object C.<locals>.f at 0x7f0c8ae20050>"),
            )
        ),
        (
            {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": "<not specified>"},
            "tool_call_id: gen_ai.tool.call.id holds only the placeholder <not specified>",
        ),
        (
            {"gen_ai.operation.name": "execute_tool", "gcp.vertex.agent.tool_response": "<not serializable>"},
            "tool_result: gcp.vertex.agent.tool_response holds only the placeholder <not serializable>",
        ),
        *(
            (
                {key: value},
                f"{field}: {key} is {str(value)[:40]!r}, which is not a {kind} from 0 to 9007199254740992",
            )
            for field, key, kind in (
                ("input_tokens", "gen_ai.usage.input_tokens", "count"),
                ("reasoning_tokens", "dokimos.reasoning_tokens", "count"),
                ("cost_usd", "dokimos.cost_usd", "cost"),
            )
            for value in ("NaN", 2**63 - 1, -1, 1e308, "9" * 30)
        ),
        (
            {"gen_ai.operation.name": "chat", "gen_ai.input.messages": [{"role": "user", "parts": []}]},
            "input: gen_ai.input.messages has messages without content",
        ),
    ],
)
def test_what_is_wrong_with_a_value_is_said(attributes: Any, note: str) -> None:
    """Cut off, broken, redacted, a placeholder, no number, nothing in it."""
    assert note in read(attributes).notes


@pytest.mark.parametrize(
    "attributes",
    [
        {"tool.name": "f", "input.value": "{'city': 'Oslo'}", "output.value": "{'celsius': 7}"},
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.arguments": "{'a': None}"},
        {"gen_ai.operation.name": "chat", "input": "[{'role': 'user', 'content': 'q'}]", "output": "a"},
    ],
)
def test_python_literals_are_nothing_to_complain_about(attributes: Any) -> None:
    """They are not JSON, and are read all the same."""
    reading = read(attributes)
    assert reading.notes == ()
    assert reading.tool_arguments or reading.input == "q"


def test_messages_that_were_encoded_twice_are_opened() -> None:
    """JSON text of JSON text."""
    twice = json.dumps(json.dumps([text("user", "q")]))
    assert read({"gen_ai.operation.name": "chat", "gen_ai.input.messages": twice}).input_messages == (
        text("user", "q"),
    )


def test_a_text_that_a_function_returned_keeps_its_own_quotes() -> None:
    """MLflow writes every value as JSON: only that layer is taken off."""
    reading = read({"mlflow.spanType": '"CHAIN"', "mlflow.spanOutputs": json.dumps('{"a": 1}')})
    assert reading.output == '{"a": 1}'


def test_broken_messages_are_shown_as_they_came() -> None:
    """JSON that an attribute length limit cut in the middle is still the input."""
    cut = '[{"role":"user","parts":[{"type":"te'
    reading = read({"gen_ai.operation.name": "chat", "gen_ai.input.messages": cut})
    assert (reading.input, reading.input_messages, reading.sources["input"]) == (cut, None, "gen_ai.input.messages")


def test_broken_arguments_are_kept_as_text() -> None:
    """The model's call and the tool's span have them as they came."""
    reading = read({"gen_ai.operation.name": "chat", "gen_ai.output.messages": [call("f", '{"city": "Os')]})
    assert reading.output_messages == (call("f", '{"city": "Os'),)
    tool = read({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.arguments": '{"city": "Os'})
    assert (tool.tool_arguments, tool.input) == ('{"city": "Os', '{"city": "Os')


LANGSMITH = {"langsmith.span.kind": "llm", "gen_ai.operation.name": "chat"}
RAN = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather"}


@pytest.mark.parametrize(
    "attributes, exception, has_failed",
    [
        (LANGSMITH, {"exception.type": "Exception", "exception.message": "Error code: 400"}, True),
        (LANGSMITH | ANSWERED, {"exception.type": "Exception", "exception.message": "cut off"}, True),
        (LANGSMITH, {"exception.type": "Exception", "exception.message": "GraphInterrupt((Interrupt(),))"}, False),
        (CALL, {"exception.type": "APIError"}, True),
        (CALL, {"exception.type": "APIError", "exception.escaped": "False"}, True),
        (CALL | ANSWERED, {"exception.type": "APIError", "exception.escaped": "False"}, False),
        (CALL | ANSWERED, {"exception.type": "APIError", "exception.escaped": "True"}, True),
        (CALL, {"exception.type": "langgraph.errors.GraphInterrupt"}, False),
        (CALL, {"exception.type": "GeneratorExit"}, False),
        (CALL, {"exception.type": "StopAsyncIteration"}, False),
        (CALL, {"exception.type": "asyncio.exceptions.CancelledError"}, False),
        (CALL | {"gen_ai.usage.output_tokens": 5}, {"exception.type": "RateLimitError"}, False),
        (
            CALL | {"gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 0},
            {"exception.type": "APIError"},
            True,
        ),
        (CALL | {"gen_ai.response.finish_reasons": ["stop"]}, {"exception.type": "RateLimitError"}, False),
        (CALL | {"gen_ai.response.finish_reasons": ["error"]}, {"exception.type": "APIError"}, True),
        (RAN, {"exception.type": "ValueError"}, False),
        ({"gen_ai.operation.name": "invoke_agent"}, {"exception.type": "ValueError"}, False),
        ({"gen_ai.operation.name": "invoke_agent", "input.value": "q"}, {"exception.type": "ValueError"}, True),
        (RAN | {"gen_ai.tool.call.arguments": "{}"}, {"exception.type": "ValueError"}, False),
        (RAN | {"gen_ai.tool.call.arguments": '{"city": "Oslo"}'}, {"exception.type": "ValueError"}, True),
        (RAN | {"gen_ai.tool.call.result": "7"}, {"exception.type": "ValueError"}, False),
        ({}, {"exception.type": "ValueError"}, False),
    ],
)
def test_an_exception_is_a_failure_though_the_status_is_ok(
    attributes: dict[str, Any], exception: dict[str, str], has_failed: object
) -> None:
    """There is none if the step reports an end, has no content, was left on purpose, or is not a model call."""
    span = a_span(attributes, status_code=1, events=(an_event("exception", exception),))
    reading = read_span(span, (), NO_KEYS)
    assert (reading.error_type is not None) == has_failed
    if has_failed:
        assert reading.error_type == exception["exception.type"]
    assert_alike(sent([span]))


def test_a_pause_for_a_person_is_a_failure_if_the_status_says_so() -> None:
    """Without a status it is none."""
    events = (an_event("exception", {"exception.type": "GraphInterrupt"}),)
    assert [read(CALL, status_code=code, events=events).error_type for code in (0, 2)] == [None, "GraphInterrupt"]


def test_attributes_that_the_sender_dropped_are_told() -> None:
    """The count of dropped attributes is noted, as a possible reason for missing values."""
    reading = read({"gen_ai.operation.name": "chat"}, dropped_attributes_count=3)
    assert "span: 3 attributes were dropped by the sender" in reading.notes


def test_an_answer_of_calls_alone_is_shown_as_it_came() -> None:
    """Without words, the output is the raw text of the messages."""
    reading = read({"gen_ai.operation.name": "chat", "gen_ai.output.messages": [call("f", {"a": 1})]})
    assert reading.output is not None
    assert '"tool_call"' in reading.output


@pytest.mark.parametrize(
    "fields, error, error_type",
    [
        ({"status_code": 2, "status_message": "late"}, "late", None),
        ({"status_code": 2}, "failed without a message", None),
        ({"status_code": 2, "attributes": {"error.type": "Timeout"}}, None, "Timeout"),
        ({"attributes": {"error.type": "Timeout"}}, None, "Timeout"),
        ({"events": (an_event("exception", {"exception.type": "E", "exception.message": "m"}),)}, "m", "E"),
        ({"status_code": 1, "events": (an_event("exception", {"exception.type": "E"}),)}, None, None),
        (
            {"status_code": 2, "status_message": "ValueError('x')Traceback (most recent call last):\n"},
            "ValueError('x')",
            None,
        ),
        ({"attributes": {"gen_ai.tool.status": "error"}}, "failed without a message", None),
        ({"attributes": {"gen_ai.tool.status": "success"}}, None, None),
        ({}, None, None),
    ],
)
def test_errors_are_told_by_status_exceptions_and_attributes(
    fields: Any, error: str | None, error_type: str | None
) -> None:
    """A status that says OK is believed against an exception that was handled; a traceback is not the message."""
    reading = read(fields.pop("attributes", {}) | {}, **fields)
    assert (reading.error, reading.error_type) == (error, error_type)
