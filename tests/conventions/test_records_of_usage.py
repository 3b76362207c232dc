"""Spans that only record what a call of a model used are not calls beside it."""

from typing import Any

import pytest

from storage.records import Span
from tests.conventions.making import SECOND_NS, a_span, read, read_all
from tests.conventions.test_columnar import assert_traces_alike, sent

AG2 = "opentelemetry.instrumentation.ag2"
COUNTS = {"gen_ai.usage.input_tokens": 1_000, "gen_ai.usage.output_tokens": 100}
WORDS = {
    "gen_ai.input.messages": '[{"role": "user", "content": "hi"}]',
    "gen_ai.output.messages": '[{"role": "assistant", "content": "ho"}]',
}
ANSWERED = {"gen_ai.response.model": "gpt-5-mini-2025-08-07", "gen_ai.provider.name": "openai"}
CALL = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-5-mini", **ANSWERED, **COUNTS}
USE = {**ANSWERED, **COUNTS}


def used(*spans: Span) -> tuple[int | None, int | None]:
    """Return the tokens of a trace, checked against the columnar reader."""
    assert_traces_alike(sent(spans))
    reading = read_all(*spans)
    return reading.input_tokens, reading.output_tokens


def a_call(more: dict[str, Any] | None = None, **fields: Any) -> Span:
    """Return a call of a model."""
    return a_span(CALL | (more or {}), name="chat gpt-5-mini", **fields)


def a_record(more: dict[str, Any] | None = None, **fields: Any) -> Span:
    """Return a record of what a call used, of no time."""
    begins = {"start_s": 0.6, **fields}
    end_ns = int((1 + begins["start_s"]) * SECOND_NS) + 1_000
    return a_span(USE | (more or {}), name="usage", **{"end_ns": end_ns, **begins})


def ag2(kind: str, **more: Any) -> dict[str, Any]:
    """Return the attributes of AG2 2026 about a record of usage."""
    return {"ag2.span.type": "usage", "ag2.usage.kind": kind, **more}


@pytest.mark.parametrize("words", [{}, WORDS])
@pytest.mark.parametrize("more", [{}, ag2("model_call"), {"gen_ai.request.model": "gpt-5-mini"}])
@pytest.mark.parametrize("scope", [AG2, "shop.tracing"])
def test_a_record_beside_a_call_is_not_counted(words: dict[str, Any], more: dict[str, Any], scope: str) -> None:
    """Every instrumentation is treated alike, whether messages are captured or not."""
    agent = a_span({"gen_ai.operation.name": "invoke_agent"}, scope=scope)
    call = a_call(words, scope=scope, parent=agent)
    assert used(agent, call, a_record(more, scope=scope, parent=agent)) == (1_000, 100)


def test_a_record_that_tells_no_model_is_not_counted() -> None:
    """A record without a model is not counted, since the call beside it has the same tokens."""
    assert used(a_call(), a_span(COUNTS, name="usage", start_ns=int(1.6 * SECOND_NS), end_ns=int(1.6 * SECOND_NS))) == (
        1_000,
        100,
    )


@pytest.mark.parametrize("words", [{}, WORDS])
def test_two_calls_with_as_many_tokens_are_two(words: dict[str, Any]) -> None:
    """Two equal calls are counted twice, with or without records; a record whose call has no span counts as one."""
    calls = [a_call(words, scope=AG2, start_s=second) for second in (0, 2)]
    records = [a_record(ag2("model_call"), scope=AG2, start_s=second) for second in (0.6, 2.6)]
    assert used(*calls) == (2_000, 200)
    assert used(*calls, *records) == (2_000, 200)
    assert used(calls[0], *records) == (2_000, 200)


def test_a_record_of_other_work_is_counted() -> None:
    """A record counts if its tokens, model or response id differ from the call's, or if the call had not ended."""
    others = [
        a_record({"gen_ai.usage.input_tokens": 1_001}),
        a_record({"gen_ai.response.model": "gpt-4o"}),
        a_record({"gen_ai.response.id": "other"}),
        a_record(start_s=-0.9),
    ]
    for record in others:
        assert (used(a_call({"gen_ai.response.id": "first"}), record)[1] or 0) == 200


@pytest.mark.parametrize(
    "more",
    [
        {"gen_ai.response.finish_reasons": ["stop"]},
        {"gen_ai.request.model": "gpt-5-mini", "gen_ai.request.temperature": 0.5},
        {"gen_ai.request.model": "gpt-5-mini", "gen_ai.request.max_tokens": 10},
    ],
)
def test_a_span_that_tells_how_a_call_was_made_or_ended_is_a_call(more: dict[str, Any]) -> None:
    """A library may name no operation: parameters and reasons are a call's own."""
    assert used(a_call(), a_record(more)) == (2_000, 200)


@pytest.mark.parametrize("attributes", [USE, COUNTS, USE | {"server.address": "api.openai.com"}])
@pytest.mark.parametrize("start_s", [4, 3_600])
def test_what_is_not_recorded_beside_a_call_is_counted(attributes: dict[str, Any], start_s: float) -> None:
    """Such a span counts, whether the call stands alone or below an agent."""
    agent = a_span({"gen_ai.operation.name": "invoke_agent"}, scope=AG2)
    later = a_span(attributes, start_s=start_s)
    assert used(a_call(), later) == (2_000, 200)
    assert used(agent, a_call(parent=agent), later) == (2_000, 200)


@pytest.mark.parametrize("seconds, calls", [(0.04, 1), (0.06, 2), (6.5, 2)])
def test_a_record_takes_no_time(seconds: float, calls: int) -> None:
    """A longer span is a call, such as one of a custom client whose spans have only a model and tokens."""
    later = a_record(end_ns=int((1.6 + seconds) * SECOND_NS))
    assert used(a_call(), later) == (calls * 1_000, calls * 100)


def test_records_alone_are_calls() -> None:
    """A program that records only models and tokens has these counted."""
    assert used(a_record(), a_record(start_s=1)) == (2_000, 200)
    assert read(USE).span_type == "llm"


def test_the_record_is_no_step_without_an_answer() -> None:
    """A record after a tool request is not a step that lacks an answer, so the request's text stays the output."""
    asks = '[{"role": "assistant", "content": "Wait.", "tool_calls": [{"function": {"name": "form"}}]}]'
    trace = read_all(a_call({"gen_ai.output.messages": asks}), a_record())
    assert trace.output == "Wait."


def test_the_record_says_what_it_is() -> None:
    """A record has a note that it only has tokens, and none about missing content; one of AG2 has no note."""
    (note,) = read(USE).notes
    assert note.startswith("span: has token counts of a model")
    assert read(ag2("model_call") | USE, scope=AG2).notes == ()


@pytest.mark.parametrize("kind, expected", [("compaction", "llm"), ("aggregation", "llm"), ("subtask", "other")])
def test_ag2_records_calls_that_no_span_tells(kind: str, expected: str) -> None:
    """Maintenance calls have no other span; the usage of a worker counts if the worker has no span."""
    record = a_record(ag2(kind, **{"gen_ai.usage.input_tokens": 7}), scope=AG2, start_s=3)
    assert read(record.attributes, scope=AG2).span_type == expected
    assert used(a_call(scope=AG2), record) == (1_007, 200)


def test_what_a_worker_used_is_counted_once() -> None:
    """A record that sums up an agent's calls, with those of agents below it, is not counted; a second one is."""
    chief = a_span({"ag2.span.type": "agent"}, scope=AG2, end_ns=20 * SECOND_NS)
    tool = a_span({"ag2.span.type": "tool", "gen_ai.tool.name": "delegate"}, scope=AG2, parent=chief)
    worker = a_span({"ag2.span.type": "agent"}, scope=AG2, parent=tool, end_ns=9 * SECOND_NS)
    helper = a_span({"ag2.span.type": "agent"}, scope=AG2, parent=worker, end_ns=8 * SECOND_NS)
    spans = [chief, tool, worker, helper]
    for above in (chief, worker, helper, helper):
        at = len(spans) / 4
        spans.append(a_call(scope=AG2, parent=above, start_s=at))
        spans.append(a_record(ag2("model_call"), scope=AG2, parent=above, start_s=at + 0.6))
    of_helper = {"gen_ai.usage.input_tokens": 2_000, "gen_ai.usage.output_tokens": 200}
    of_worker = {"gen_ai.usage.input_tokens": 3_000, "gen_ai.usage.output_tokens": 300}
    spans.append(a_record(ag2("subtask", **of_helper), scope=AG2, parent=worker, start_s=8))
    spans.append(a_record(ag2("subtask", **of_worker), scope=AG2, parent=chief, start_s=9))
    assert used(*spans) == (4_000, 400)
    assert used(*spans, a_record(ag2("subtask", **of_worker), scope=AG2, parent=chief, start_s=9.5)) == (7_000, 700)


def test_ag2s_people_are_asked_and_answer() -> None:
    """What a person was asked stands under AG2's own names."""
    attributes = {
        "ag2.span.type": "human_input",
        "ag2.human_input.prompt": "Ship it?",
        "ag2.human_input.response": "yes",
    }
    reading = read(attributes, scope=AG2)
    assert (reading.dialect, reading.span_type, reading.input, reading.output) == ("ag2", "other", "Ship it?", "yes")
