"""The finish reason of an answer is one word, in whichever form a library sends it."""

import json
import math
from typing import Any

import pytest

from collector.conventions.finish import FINISH_REASONS, reason_of
from rules.fields import FIELDS
from storage.records import SpanEvent
from tests.conventions.making import a_log, a_span, an_event, read, read_all, text
from tests.conventions.test_columnar import assert_alike, assert_traces_alike, sent

ANSWER = {"role": "assistant", "content": "cut o"}


@pytest.mark.parametrize(
    "sent, word",
    [
        ("stop", "stop"),
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("COMPLETE", "stop"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("MAX_TOKENS", "length"),
        ("FinishReason.MAX_TOKENS", "length"),
        ("max_output_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_calls", "tool_call"),
        ("tool-calls", "tool_call"),
        ("tool_use", "tool_call"),
        ("toolUse", "tool_call"),
        ("function_call", "tool_call"),
        ("content_filter", "content_filter"),
        ("SAFETY", "content_filter"),
        ("refusal", "content_filter"),
        ("guardrail_intervened", "content_filter"),
        ("MALFORMED_FUNCTION_CALL", "error"),
        ("pause_turn", "other"),
        ("stopstop", "stop"),  # LangChain, of the pieces of a stream
        ('["stop", "length"]', "length"),
        (["stop"], "stop"),
        ('"stop"', "stop"),
        ({"unified": "length", "raw": "max_tokens"}, "length"),
        ("", None),
        ("null", None),
        ("FINISH_REASON_UNSPECIFIED", None),
        ("It ended because of this.", None),
        ([], None),
        (5, None),
    ],
)
def test_each_spelling_has_one_word(sent: object, word: str | None) -> None:
    """The words are those of OpenTelemetry GenAI, and `other`; of several choices the worst counts."""
    assert reason_of(sent) == word


def test_rules_know_the_words() -> None:
    """A condition on the finish reason can name each word, and nothing else."""
    assert FIELDS["finish_reason"].choices == FINISH_REASONS


CUT = {**text("assistant", "cut o"), "finish_reason": "length"}
LANGCHAIN = {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "AIMessage"]}
RESPONSE = {"object": "response", "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
GENAI = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
SPANS: dict[str, dict[str, Any]] = {
    "otel": {**GENAI, "gen_ai.response.finish_reasons": ["length"]},
    "semantic_kernel": {**GENAI, "gen_ai.response.finish_reason": "FinishReason.LENGTH"},
    "anthropic": {**GENAI, "anthropic.message.stop_reason": "max_tokens"},
    "messages": {**GENAI, "gen_ai.output.messages": json.dumps([CUT])},
    "openllmetry_prompts": {
        **GENAI,
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": "cut o",
        "gen_ai.completion.0.finish_reason": "length",
    },
    "openinference": {"openinference.span.kind": "LLM", "llm.finish_reason": "length", "llm.model_name": "m"},
    "openinference_raw": {
        "openinference.span.kind": "LLM",
        "output.value": json.dumps({"choices": [{"message": ANSWER, "finish_reason": "length"}]}),
    },
    "openinference_anthropic": {
        "openinference.span.kind": "LLM",
        "output.value": json.dumps({"role": "assistant", "content": [], "stop_reason": "max_tokens"}),
    },
    "openinference_haystack": {
        "openinference.span.kind": "LLM",
        "output.value": json.dumps({"replies": ["ChatMessage(_meta={'finish_reason': 'length', 'index': 0})"]}),
    },
    "langsmith": {
        "langsmith.span.kind": "llm",
        "gen_ai.completion": json.dumps(
            {"generations": [[{"text": "cut o", "generation_info": {"finish_reason": "length"}, "message": ANSWER}]]}
        ),
    },
    "langsmith_langchain": {
        "langsmith.span.kind": "llm",
        "gen_ai.completion": json.dumps(
            {
                "generations": [
                    [
                        {
                            "message": {
                                **LANGCHAIN,
                                "kwargs": {"content": "cut o", "response_metadata": {"stop_reason": "max_tokens"}},
                            }
                        }
                    ]
                ]
            }
        ),
    },
    "langchain_responses": {
        "langsmith.span.kind": "llm",
        "gen_ai.completion": json.dumps({**LANGCHAIN, "kwargs": {"content": "cut o", "response_metadata": RESPONSE}}),
    },
    "langfuse": {
        "langfuse.observation.type": "generation",
        "langfuse.observation.output": json.dumps({**ANSWER, "finish_reason": "length"}),
    },
    "langfuse_langchain": {
        "langfuse.observation.type": "generation",
        "langfuse.observation.output": json.dumps({**ANSWER, "response_metadata": {"finish_reason": "length"}}),
    },
    "mlflow": {
        "mlflow.spanType": "CHAT_MODEL",
        "mlflow.spanOutputs": json.dumps({"choices": [{"message": ANSWER, "finish_reason": "length"}]}),
    },
    "mlflow_gemini": {
        "mlflow.spanType": "LLM",
        "mlflow.spanOutputs": json.dumps({"candidates": [{"content": {"parts": []}, "finish_reason": "MAX_TOKENS"}]}),
    },
    "adk": {
        "gen_ai.system": "gcp.vertex.agent",
        "gen_ai.operation.name": "generate_content",
        "gcp.vertex.agent.llm_response": json.dumps(
            {"content": {"parts": [{"text": "cut o"}], "role": "model"}, "finish_reason": "MAX_TOKENS"}
        ),
    },
    "genkit": {
        "genkit:metadata:subtype": "model",
        "genkit:output": json.dumps(
            {"message": {"role": "model", "content": [{"text": "cut o"}]}, "finishReason": "length"}
        ),
    },
    "vercel": {"ai.operationId": "ai.generateText.doGenerate", "ai.response.finishReason": "length"},
    "mastra": {"mastra.span.type": "model_step", "mastra.model_step.output": json.dumps({"finishReason": "length"})},
    "haystack": {
        "haystack.component.type": "OpenAIChatGenerator",
        "haystack.component.output": json.dumps({"replies": [{"meta": {"finish_reason": "length"}}]}),
    },
    "litellm": {
        "litellm.call_id": "c",
        "gen_ai.operation.name": "chat",
        "llm.openai.choices": json.dumps([{"message": ANSWER, "finish_reason": "length"}]),
    },
    "logfire": {"response_data": json.dumps({"message": ANSWER, "finish_reason": "length"})},
    "logfire_responses": {"response_data": json.dumps(RESPONSE)},
    "claude_code": {"span.type": "llm_request", "stop_reason": "max_tokens", "model": "claude-sonnet-4-5"},
    "bedrock": {**GENAI, "output": json.dumps({"output": {"message": ANSWER}, "stopReason": "max_tokens"})},
    "ollama": {**GENAI, "output": json.dumps({"message": ANSWER, "done_reason": "length"})},
    "dokimos": {**GENAI, "dokimos.finish_reason": "length"},
}
EVENTS: dict[str, SpanEvent] = {
    "strands": an_event("gen_ai.choice", {"message": '[{"text": "cut o"}]', "finish_reason": "max_tokens"}),
    "details": an_event(
        "gen_ai.client.inference.operation.details",
        {"gen_ai.output.messages": json.dumps([{**text("assistant", "cut o"), "finish_reason": "max_tokens"}])},
    ),
    "reasons": an_event("gen_ai.client.inference.operation.details", {"gen_ai.response.finish_reasons": ["length"]}),
}


def a_span_of(name: str) -> Any:
    """Build a span of one library."""
    scope = "com.anthropic.claude_code.tracing" if name == "claude_code" else "s"
    scope = "logfire.openai" if name.startswith("logfire") else scope
    return a_span(SPANS[name], scope=scope)


@pytest.mark.parametrize("name", SPANS)
def test_each_library_is_read(name: str) -> None:
    """An answer that was cut off at the limit ended for `length`; the reason has a source."""
    span = a_span_of(name)
    reading = read(span.attributes, scope=span.scope.name)
    assert reading.finish_reason == "length"
    assert reading.sources["finish_reason"]


@pytest.mark.parametrize("name", EVENTS)
def test_events_are_read(name: str) -> None:
    """Events on the span tell it as attributes do."""
    assert read(GENAI, events=(EVENTS[name],)).finish_reason == "length"


def test_log_records_are_read() -> None:
    """A log record of OpenTelemetry's older conventions has the finish reason in its body."""
    span = a_span(GENAI)
    log = a_log(span, "gen_ai.choice", {"index": 0, "finish_reason": "length", "message": {"content": "cut o"}})
    assert read_all(span, logs=[log]).finish_reason == "length"


def test_columns_tell_the_same() -> None:
    """A batch of all libraries is read as its spans are, and so are their traces."""
    spans = [a_span_of(name) for name in SPANS] + [a_span(GENAI, events=(event,)) for event in EVENTS.values()]
    assert_alike(sent(spans))
    assert_traces_alike(sent(spans))


@pytest.mark.parametrize("key", ["gen_ai.response.finish_reasons", "llm.finish_reason"])
@pytest.mark.parametrize("value", [False, True, math.nan, 7, 0.5, b"\xde\xad"])
def test_what_is_no_text_is_no_reason(key: str, value: Any) -> None:
    """Neither alone nor for the columns."""
    span = a_span({**GENAI, key: value})
    assert read_all(span).finish_reason is None
    assert_alike(sent([span]))


@pytest.mark.parametrize("count", [30, 199, 200, 10_000])
def test_many_reasons_are_read_alike_as_a_list_and_as_json(count: int) -> None:
    """Of a list the first 200 are looked at."""
    reasons = ["stop"] * count + ["length"]
    spans = [a_span({**GENAI, "gen_ai.response.finish_reasons": value}) for value in (reasons, json.dumps(reasons))]
    assert {read_all(span).finish_reason for span in spans} == {"length" if count < 200 else "stop"}
    assert_alike(sent(spans))


@pytest.mark.parametrize("first", ["finish_reason", "content"])
def test_a_redacted_attribute_of_an_answer_does_not_take_the_others_with_it(first: str) -> None:
    """Whichever attribute of a numbered message comes first."""
    fields = {"finish_reason": "stop", "role": "assistant", "content": "Hi."}
    fields = {first: "[REDACTED]"} | {name: text for name, text in fields.items() if name != first}
    span = a_span({**GENAI, **{f"gen_ai.completion.0.{name}": text for name, text in fields.items()}})
    assert read_all(span).output == (None if first == "content" else "Hi.")
    assert_alike(sent([span]))


def test_an_answer_of_responses_that_calls_a_tool_says_so() -> None:
    """OpenAI's responses have a status and no reason: one that completed with a call ended for it."""
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    words = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]}
    for output, word in (([call], "tool_call"), ([words], "stop")):
        answer = {"object": "response", "status": "completed", "incomplete_details": None, "output": output}
        reading = read({"openinference.span.kind": "LLM", "output.value": json.dumps(answer)})
        assert reading.finish_reason == word


@pytest.mark.parametrize(
    "sent_word, word", [("tool_calls", "tool_call"), ("length", "length"), ("stop", "stop"), (None, "stop")]
)
def test_mlflows_streams_end_for_the_reason_of_their_pieces(sent_word: str | None, word: str) -> None:
    """MLflow puts `stop` into the answer if a piece with usage follows the reason, and all pieces into events."""
    choices: list[Any] = [{"index": 0, "delta": {"content": "cut o"}, "finish_reason": None}]
    pieces = [{"choices": choices}, {"choices": [{"delta": {}, "finish_reason": sent_word}]}, {"choices": []}]
    events = [
        an_event(f"mlflow.chunk.item.{n}", {"mlflow.chunk.value": json.dumps(piece)}) for n, piece in enumerate(pieces)
    ]
    answer = {"object": "chat.completion", "choices": [{"index": 0, "message": ANSWER, "finish_reason": "stop"}]}
    span = a_span({"mlflow.spanType": '"CHAT_MODEL"', "mlflow.spanOutputs": json.dumps(answer)}, events=events)
    assert read_all(span).spans[span.span_id].finish_reason == word
    assert_alike(sent([span]))


ANSWERS: dict[str, dict[str, Any]] = {
    "gen_ai.output.messages": GENAI,
    "output": GENAI,
    "output.value": {"openinference.span.kind": "LLM", "llm.model_name": "m"},
    "langfuse.observation.output": {"langfuse.observation.type": "generation"},
    "gen_ai.completion": {"langsmith.span.kind": "llm"},
    "mlflow.spanOutputs": {"mlflow.spanType": "CHAT_MODEL"},
}


@pytest.mark.parametrize("key", ANSWERS)
@pytest.mark.parametrize(
    "reply",
    [
        "the parser printed finish_reason='length' today",
        "finish_reason='length' is what I got",
        "{'finish_reason': 'length'} is what I got",
        "Choice(finish_reason='length') is what I got",
        '{"finish_reason": "length"}',
        '{"stop_reason": "refusal"}',
        '{"data": [{"stopReason": "safety"}]}',
        '{"finish_reason": "length", "choices": ["red"], "usage": "daily"}',
        '{"choices": "a", "data": {"finish_reason": "length"}}',
        "{'finish_reason': 'length'}",
    ],
)
def test_an_answer_about_reasons_has_none(key: str, reply: str) -> None:
    """An answer may be any text and any JSON, alone or in a message; only the object around it has a reason."""
    for value in (reply, json.dumps({**ANSWER, "content": reply}), json.dumps([text("assistant", reply)])):
        span = a_span({**ANSWERS[key], key: value})
        assert read(span.attributes).finish_reason is None
        assert_alike(sent([span]))


@pytest.mark.parametrize(
    "written",
    [
        "ChatCompletion(id='c', choices=[Choice(finish_reason='length', message=M(content='finish_reason=\"x\"'))])",
        "finish_reason='length' content='cut o' usage=Usage(prompt_tokens=1)",
        "ChatMessage(_content=[], _meta={'finish_reason': 'length'})",
        "GenerateContentResponse(candidates=[Candidate(finish_reason=<FinishReason.MAX_TOKENS: 'MAX_TOKENS'>)])",
    ],
)
def test_an_object_that_python_wrote_has_a_reason(written: str) -> None:
    """It is that of its fields, and not one in its texts."""
    span = a_span({"openinference.span.kind": "LLM", "output.value": written})
    assert read(span.attributes).finish_reason == "length"
    assert_alike(sent([span]))


def test_the_words_of_an_answer_are_no_reason() -> None:
    """What the user or the model says about reasons is not one, nor are fields of what a tool returned."""
    for reply in ('{"finish_reason": "length"}', "finish_reason: length", 'The "finish_reason" was length.'):
        assert read({**GENAI, "gen_ai.output.messages": json.dumps([text("assistant", reply)])}).finish_reason is None
        assert read({**GENAI, "gen_ai.input.messages": json.dumps([text("user", reply)])}).finish_reason is None
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.result": '{"finish_reason": "length"}'}
    assert read(tool).finish_reason is None


def test_a_trace_has_the_reason_of_its_last_answer() -> None:
    """The finish reason is that of the last model call with one, or of an agent if no model has one."""
    agent = a_span({"gen_ai.operation.name": "invoke_agent", "gen_ai.response.finish_reasons": ["stop"]})
    calls = [
        a_span({**GENAI, "gen_ai.response.finish_reasons": [reason]}, parent=agent, start_s=at)
        for at, reason in enumerate(("tool_calls", "length"))
    ]
    silent = a_span(GENAI, parent=agent, start_s=5)
    assert read_all(agent, *calls, silent).finish_reason == "length"
    assert read_all(agent, silent).finish_reason == "stop"
    assert_traces_alike(sent([agent, *calls, silent]))
