"""A trace as a conversation with tool calls, and the explanation of a span, as the command line prints them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.api.responses.base import JsonObject
from collector.api.responses.traces import SpanDocument, ToolCallDocument, TraceDocument
from collector.app import Running
from collector.cli.conversation_text import conversation_text, part_text
from collector.cli.explanation_text import FIELDS, explanation_text
from tests.serving import a_server, post, run
from tests.test_readings import a_talk
from tests.wiring import a_document

HOSTILE = "\x1b[2J\x1b]0;owned\x07 \u202egnp.exe \x00 \ud800"
TRACE, MODEL, TOOL = "0" * 31 + "1", "0" * 15 + "1", "0" * 15 + "2"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Yield a server that holds a model's span, which asks for a tool, and the tool's."""
    with a_server(tmp_path_factory.mktemp("server") / "data") as running:
        post(f"http://{running.http}/api/v1/traces", a_talk().SerializeToString())
        assert running.store.wait_committed(10)
        yield running


def a_trace(*messages: JsonObject, calls: tuple[ToolCallDocument, ...] = ()) -> TraceDocument:
    """Build a trace that says these."""
    return a_document(
        TraceDocument,
        trace_id=TRACE,
        project="shop",
        service_name="shop",
        root_span_name="ask",
        duration_ms=5,
        span_count=0,
        error_count=0,
        conversation=list(messages),
        tool_calls=list(calls),
    )


def a_call(*, result: object = None, is_error: bool = False, error: str | None = None) -> ToolCallDocument:
    """Build a call of a tool."""
    arguments = {"city": "Oslo", "days": 3}
    return a_document(
        ToolCallDocument,
        name="weather",
        call_id="c1",
        arguments=arguments,
        result=result,
        is_error=is_error,
        error=error,
        duration_ms=12.0,
    )


def lines(trace: TraceDocument) -> list[str]:
    """Return the printed lines."""
    return [line for text in conversation_text(trace, width=80, ellipsis="…") for line in text.plain.split("\n")]


def test_a_conversation_reads_as_one() -> None:
    """Each message stands behind its role: texts as they are, calls as calls, results and other parts named."""
    call = {"type": "tool_call", "id": "c1", "name": "weather", "arguments": {"city": "Oslo"}}
    answer = {"type": "tool_call_response", "id": "c1", "response": {"celsius": 8}}
    picture = {"type": "uri", "modality": "image", "uri": "https://example.com/a.png"}
    trace = a_trace(
        {"role": "user", "parts": [{"type": "text", "content": "How is\nOslo?"}, picture]},
        {"role": "assistant", "parts": [{"type": "reasoning", "content": "look it up"}, call]},
        {"role": "tool", "parts": [answer]},
        {"role": "assistant", "parts": [{"type": "text", "content": "8 degrees."}]},
    )
    assert lines(trace) == [
        "",
        "CONVERSATION",
        "user       How is",
        "           Oslo?",
        '           [uri] {"modality": "image", "uri": "https://example.com/a.png"}',
        "assistant  (reasoning) look it up",
        '           calls weather(city="Oslo")',
        'tool       = {"celsius": 8}',
        "assistant  8 degrees.",
    ]


def test_calls_are_listed_with_what_came_of_them() -> None:
    """A call shows its arguments, its time, its id, and its result or its error."""
    calls = (a_call(result="rain"), a_call(is_error=True, error="no such city"), a_call())
    assert lines(a_trace(calls=calls)) == [
        "",
        "TOOL CALLS",
        '  1. weather(city="Oslo", days=3)  12 ms  c1',
        "     = rain",
        '  2. weather(city="Oslo", days=3)  12 ms  c1',
        "     error no such city",
        '  3. weather(city="Oslo", days=3)  12 ms  c1',
    ]


def test_nothing_is_said_of_a_trace_that_says_nothing() -> None:
    """Without messages and calls there are no headings."""
    assert lines(a_trace()) == []


def test_long_conversations_are_cut_from_the_front() -> None:
    """Of many messages the last are shown, and how many are not."""
    messages = [{"role": "user", "parts": [{"type": "text", "content": f"m{n}"}]} for n in range(100)]
    shown = lines(a_trace(*messages))
    assert shown[2] == "… 60 earlier messages; --json shows all"
    assert shown[3].endswith("m60")
    assert shown[-1].endswith("m99")


@pytest.mark.parametrize("part", [HOSTILE, None, 5, {"type": HOSTILE}, {"type": "tool_call", "name": HOSTILE}, []])
def test_no_message_can_touch_the_terminal(part: object) -> None:
    """Whatever a part is, nothing that it holds reaches the terminal as a command."""
    printed = "\n".join(lines(a_trace({"role": HOSTILE, "parts": [part]}, calls=(a_call(result=HOSTILE),))))
    assert all(character.isprintable() or character == "\n" for character in printed)
    assert isinstance(part_text(part), str)


def test_an_explanation_names_every_field_and_its_source() -> None:
    """Each field is listed, with the attribute key it was read from, if any, and the notes come last."""
    sources = {"model": "gen_ai.response.model"}
    span = a_document(SpanDocument, span_id=MODEL, name="chat", model="m-1", sources=sources, notes=["why"])
    printed = [text.plain for text in explanation_text(span, width=120)]
    assert [line.split()[0] for line in printed[2:-1]] == list(FIELDS)
    assert next(line for line in printed if line.startswith("model")).split() == [
        "model",
        "gen_ai.response.model",
        "m-1",
    ]
    assert printed[-1] == "note: why"


def test_a_stored_trace_is_shown_with_its_conversation(server: Running) -> None:
    """`traces show` prints the conversation and the tool calls below the tree."""
    shown = run("traces", "show", TRACE, "--server", server.http).stdout
    assert "CONVERSATION\nuser       Weather?\nassistant  calls w(a=1)\n" in shown
    assert "TOOL CALLS\n  1. w(a=1)" in shown


def test_a_span_is_explained_by_a_part_of_its_id(server: Running) -> None:
    """`--explain` takes the beginning of a span's id, and reports one that matches no span or several."""
    explained = run("traces", "show", TRACE, "--explain", TOOL, "--server", server.http).stdout
    assert "toolCallId       gen_ai.tool.call.id" in explained
    both = run("traces", "show", TRACE, "--explain", "0", "--server", server.http)
    assert (both.exit_code, both.stderr) == (1, "Error: the trace has 2 spans whose id starts with 0\n")
    none = run("traces", "show", TRACE, "--explain", "f", "--server", server.http)
    assert (none.exit_code, none.stderr) == (1, "Error: the trace has no span whose id starts with f\n")
    twice = run("traces", "show", TRACE, "--explain", "f", "--json", "--server", server.http)
    assert twice.exit_code == 2


def test_own_keys_are_read(tmp_path: Path) -> None:
    """Attributes that the configuration names are read, and appear in SQL and on the terminal."""
    request = a_talk()
    span = request.resource_spans[0].scope_spans[0].spans[0]
    span.attributes.add(key="shop.question").value.string_value = "Where is my lamp?"
    own = {"shop": {"input": ["shop.question"]}}
    with a_server(tmp_path / "data", attribute_keys=own) as running:
        post(f"http://{running.http}/api/v1/traces", request.SerializeToString())
        assert running.store.wait_committed(10)
        assert running.traces.wait_idle(30)
        answer = run("sql", f"SELECT input FROM spans WHERE span_id = '{MODEL}'", "--json", "--server", running.http)
        assert json.loads(answer.stdout) == [{"input": "Where is my lamp?"}]
        document = json.loads(run("traces", "show", TRACE, "--json", "--server", running.http).stdout)
        (model,) = (span for span in document["spans"] if span["spanId"] == MODEL)
        assert (model["input"], model["sources"]["input"]) == ("Where is my lamp?", "shop.question")
