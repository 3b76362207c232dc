"""Reading never fails, ends in time, and its result can be written as JSON in UTF-8."""

import json
import time
from dataclasses import asdict, replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from collector.conventions.dialects.order import DIALECTS
from collector.conventions.own_keys import NO_KEYS, OwnKeys
from collector.conventions.span import read_span
from collector.conventions.table import place_of
from collector.conventions.trace import read_trace
from storage.records import AttributeValue, LogRecord, Span, SpanEvent
from tests.conventions.making import Attributes, a_log, a_span, an_event, call, read, read_all, response, text

pytestmark = pytest.mark.costly("collector/conventions", "collector/reading")

# Every key of every dialect, the numbered ones with a number.
ROWS = [(slot, row) for dialect in DIALECTS for slot, rows in dialect.places.items() for row in rows]
PLACES = [place_of(row, slot=slot, rank=1, dialect="") for slot, row in ROWS]
MEMBERS = ("role", "content", "message.role", "message.content", "message.tool_calls.0.tool_call.function.arguments")
KEYS = [place.key for place in PLACES if not place.is_group and not place.event]
KEYS += [f"{place.key}.{number}.{name}" for place in PLACES if place.is_group for number in (0, 1) for name in MEMBERS]
KEYS += [kinds.key for dialect in DIALECTS for kinds in dialect.kinds]
KINDS = [value for dialect in DIALECTS for kinds in dialect.kinds for value in kinds.values]
EVENTS = [
    "gen_ai.user.message",
    "gen_ai.tool.message",
    "gen_ai.choice",
    "exception",
    *(p.event for p in PLACES if p.event),
]
EVENT_KEYS = ["content", "message", "role", "id", "tool_calls", "gen_ai.event.content", "gen_ai.input.messages",
              "exception.type", "exception.message"]  # fmt: skip
WORDS = [
    "role", "parts", "type", "content", "text", "messages", "prompt", "message", "choices", "tool_calls", "function",
    "name", "arguments", "args", "kwargs", "lc", "id", "tool_call_id", "data", "output", "input", "toolUse",
    "toolResult",
    "image_url", "url", "function_call", "function_response", "kind", "value", "json", "status", "error", "tool_call",
    "generations", "update", "json_schema", "parameters", "event.name", "summary", "system", "source", "is_error",
]  # fmt: skip
STRINGS = [
    "user", "assistant", "tool", "system", "text", "tool_call", "tool_call_response", "reasoning", "image", "file",
    "ai",
    "tool_result", "function_call", "function_call_output", "constructor", "error", "json", "message", "tool-result",
    "data:image/png;base64,AAAA", "https://example.com/a.png", "gen_ai.choice", "a\ud800b", "",
]  # fmt: skip

odd_texts = st.sampled_from([*STRINGS, *KINDS]) | st.text(st.characters(), max_size=8)
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | odd_texts | st.binary(max_size=4)
shapes: st.SearchStrategy[AttributeValue] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS) | odd_texts, inner, max_size=5),
    max_leaves=14,
)
json_texts = shapes.map(lambda shape: json.dumps(shape, default=str))
literals = shapes.map(repr)
cut_texts = st.tuples(json_texts | literals, st.integers(0, 60)).map(lambda cut: cut[0][: -cut[1] or None])
values = shapes | json_texts | literals | cut_texts | json_texts.map(json.dumps)
attribute_maps = st.dictionaries(st.sampled_from(KEYS) | odd_texts, values, max_size=10)
events = st.builds(
    SpanEvent,
    time_ns=st.integers(0, 9),
    name=st.sampled_from(EVENTS),
    attributes=st.dictionaries(st.sampled_from(EVENT_KEYS), values, max_size=4),
    dropped_attributes_count=st.just(0),
)
span_ids = st.sampled_from([f"{number:016x}" for number in range(1, 7)])
logs = st.builds(
    LogRecord,
    tenant=st.just(""),
    trace_id=st.just(f"{1:032x}"),
    span_id=span_ids,
    time_ns=st.integers(0, 9),
    event_name=st.sampled_from(EVENTS),
    body=values,
    attributes=st.dictionaries(st.sampled_from(EVENT_KEYS), values, max_size=3),
)
SCOPES = sorted({sign.scope for dialect in DIALECTS for sign in dialect.signs})
spans = st.builds(
    lambda span_id, attributes, events, scope, fields: a_span(
        attributes, scope=scope, span_id=span_id, events=tuple(events), **fields
    ),
    span_ids,
    attribute_maps,
    st.lists(events, max_size=3),
    st.sampled_from(SCOPES) | odd_texts,
    st.fixed_dictionaries(
        {
            "name": odd_texts,
            "parent": st.none() | span_ids | st.just("f" * 16),
            "start_ns": st.integers(0, 9),
            "end_ns": st.none() | st.integers(0, 12),
            "status_code": st.integers(0, 3),
            "status_message": odd_texts,
        }
    ),
)
OWN = OwnKeys({"*": {"input": ["content"], "tool_arguments": ["args"]}, "shop": {"output_messages": ["messages"]}})


def assert_writable(reading: object) -> None:
    """Check that it is JSON without NaN, in UTF-8."""
    json.dumps(asdict(reading), allow_nan=False, ensure_ascii=False).encode()  # type: ignore[call-overload]


@given(spans, st.lists(logs, max_size=3))
@example(a_span({"gen_ai.input.messages": '[{"role": "user", "content": "a\\ud800b"}]'}), [])
@example(a_span({"llm.input_messages.0.message.content": float("nan"), "llm.input_messages.0.message": b"x"}), [])
def test_reading_a_span_never_fails(span: Span, logs: list[LogRecord]) -> None:
    """Whatever values stand under the names of the table, a reading comes out that can be written."""
    assert_writable(read_span(span, logs, OWN))


@given(st.lists(spans, max_size=6), st.lists(logs, max_size=4))
def test_reading_a_trace_never_fails(spans: list[Span], logs: list[LogRecord]) -> None:
    """Cycles, orphans, ids that repeat and messages of any shape make a reading that can be written."""
    reading = read_trace(spans, logs, NO_KEYS)
    assert_writable(reading)
    assert [one.ordinal for one in reading.tool_calls] == list(range(len(reading.tool_calls)))
    assert set(reading.spans) == {span.span_id for span in spans}


@given(st.lists(spans, max_size=6), st.randoms())
def test_the_order_of_spans_does_not_matter(spans: list[Span], random: object) -> None:
    """Spans of one trace come in any order and over many requests, and mean the same."""
    once = [replace(span, start_ns=number, span_id=f"{number + 1:016x}") for number, span in enumerate(spans)]
    mixed = list(once)
    random.shuffle(mixed)  # type: ignore[attr-defined] # hypothesis's random.Random
    assert read_trace(mixed, (), NO_KEYS) == read_trace(once, (), NO_KEYS)


HUGE = "x" * 1_000_000
HOSTILE = {
    "text": HUGE,
    "json": json.dumps([text("user", HUGE)]),
    "many messages": json.dumps([text("user", "hi")] * 6_000),
    "many calls": json.dumps([call("f", {"n": n}, f"c{n}") for n in range(3_000)]),
    "open brackets": "[" * 1_000_000,
    "open braces": '{"a":' * 200_000,
    "nested": "[" * 900 + "]" * 900,
    "nested literal": "[" * 900 + "'a'" + "]" * 900,
    "literal": "{'a': " + repr("b" * 500_000) + "}",
    "literals": json.dumps([call("f", "{'a': '" + "b" * 30_000 + "'}", f"c{n}") for n in range(30)]),
    "minus": "[" + "-" * 1_000_000 + "1]",
    "quotes": "[" + "'" * 1_000_000 + "]",
    "backslashes": '["' + "\\" * 999_999 + '"]',
    "digits": "[" + "9" * 1_000_000 + "]",
    "encoded often": json.dumps(json.dumps(json.dumps(json.dumps([text("user", '"' * 20_000)])))),
    "results": json.dumps([response('{"a": 1}', f"c{n}") for n in range(3_000)]),
    "unknown results": json.dumps([call("f", n) for n in range(2_000)] + [response(n, f"x{n}") for n in range(2_000)]),
}
PLACES_OF_CONTENT = ["gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.call.arguments", "input.value",
                     "gen_ai.prompt.0.content", "mlflow.spanOutputs", "gen_ai.tool.definitions"]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("operation", ["chat", "execute_tool"])
def test_huge_and_broken_values_are_read_in_time(name: str, operation: str) -> None:
    """A megabyte of anything under any name is read within seconds; an honest one takes some milliseconds."""
    for key in PLACES_OF_CONTENT:
        span = a_span({"gen_ai.operation.name": operation, key: HOSTILE[name]})
        begun = time.process_time()
        assert_writable(read_trace([span], (), NO_KEYS))
        assert time.process_time() - begun < 3, key


def test_large_traces_are_read_in_time() -> None:
    """Ten thousand spans are read within seconds: wide, deep, and calls that differ only by their order."""
    root = a_span({"gen_ai.operation.name": "invoke_agent"})
    wide = [root]
    chain = [root]
    for number in range(2_500):
        asks: Attributes = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": [call("f", {"a": 1})]}
        runs = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "f",
            "gen_ai.tool.call.arguments": {"a": 1},
        }
        pair: tuple[Attributes, Attributes] = (asks, runs)
        for attributes in pair:
            wide.append(a_span(attributes, parent=root, start_s=number))
            chain.append(a_span(attributes, parent=chain[-1], start_s=number))
    for spans in (wide, chain, [replace(span, parent_span_id=chain[-1].span_id) for span in chain]):
        begun = time.process_time()
        reading = read_trace(spans, (), NO_KEYS)
        assert time.process_time() - begun < 5
        assert len(reading.tool_calls) == 2_500


def test_cycles_and_orphans_have_a_root() -> None:
    """Parents that lead back to themselves, or that never came, leave a trace with an input and totals."""
    first = a_span({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 3, "input": "a"}, start_s=1)
    second = a_span({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 4}, parent=first, start_s=2)
    orphan = a_span({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 5}, parent="f" * 16, start_s=3)
    cycle = replace(first, parent_span_id=second.span_id)
    alone = replace(orphan, parent_span_id=orphan.span_id)
    reading = read_all(cycle, second, alone)
    assert reading.input == "a"
    assert reading.input_tokens in (3 + 5, 4 + 5)


def test_keys_of_any_length_are_survived() -> None:
    """A key of a megabyte, and thousands of unknown keys, are passed over."""
    strange: dict[str, AttributeValue] = {f"gen_ai.prompt.{'1.' * 200}{n}": n for n in range(2_000)}
    strange |= {"k" * 1_000_000: 1, "llm.input_messages.99999999999.message.content": "x", "input": "kept"}
    assert read(strange).input == "kept"


def test_events_without_end_are_survived() -> None:
    """A span with thousands of events and log records is read."""
    span = a_span(
        {"gen_ai.operation.name": "chat"},
        events=tuple(an_event("gen_ai.user.message", {"content": "hi"}) for _ in range(5_000)),
    )
    logs = [a_log(span, "gen_ai.choice", {"message": {"content": str(n)}}, time_ns=n) for n in range(5_000)]
    assert read_span(span, logs, NO_KEYS).output == "4999"


@pytest.mark.parametrize("kind", [[], {}, 1, None])
@pytest.mark.parametrize("word", ["function_call", "tool_use", "reasoning", "refusal"])
def test_a_type_that_is_no_text_does_not_stop_reading(kind: object, word: str) -> None:
    """A text that looks like a block of an answer may have anything as its type."""
    block = {"type": kind, word: None}
    for content in (json.dumps(block), json.dumps([block]), repr(block), [block]):
        message = {"role": "assistant", "content": content}
        assert read({"gen_ai.operation.name": "chat", "gen_ai.output.messages": [message]}).span_type == "llm"
