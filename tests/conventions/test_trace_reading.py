"""The reading of a trace as a whole: totals, root, answer, conversation, session."""

from pathlib import Path
from typing import Any

import pytest

from storage.records import Span
from tests.conventions.making import a_span, call, read_all, response, text


def a_model(tokens: int | None = None, **fields: Any) -> Span:
    """Build a model's call with its usage."""
    used = {} if tokens is None else {"gen_ai.usage.input_tokens": tokens, "gen_ai.usage.output_tokens": 2 * tokens}
    attributes = {"gen_ai.operation.name": "chat"} | used | fields.pop("attributes", {})
    return a_span(attributes, **fields)


def an_agent(tokens: int | None = None, **fields: Any) -> Span:
    """Build an agent's run with the usage that it sums up."""
    used = {} if tokens is None else {"gen_ai.usage.input_tokens": tokens}
    return a_span({"gen_ai.operation.name": "invoke_agent"} | used | fields.pop("attributes", {}), **fields)


def test_totals_count_leaves_once() -> None:
    """An agent that sums up, a wrapper with the usage of its last step, and a model's span around another."""
    agent = an_agent(12)
    step = a_span({"ai.operationId": "ai.generateText", "ai.usage.inputTokens": 7}, parent=agent)
    outer = a_model(5, parent=step)
    reading = read_all(agent, step, outer, a_model(5, parent=outer), a_model(7, parent=step))
    assert (reading.input_tokens, reading.output_tokens) == (12, 24)
    assert read_all(agent).input_tokens == 12
    assert read_all(an_agent()).input_tokens is None


def test_models_within_a_tool_are_no_repetition_of_the_model_above() -> None:
    """ADK hangs tools below the model that asked for them, and an agent may be a tool."""
    outer = a_model(5)
    tool = a_span({"gen_ai.operation.name": "execute_tool"}, parent=outer)
    assert read_all(outer, tool, a_model(7, parent=tool)).input_tokens == 5 + 7


@pytest.mark.parametrize("is_below", [True, False])
def test_the_span_of_the_client_itself_is_counted_once(is_below: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Anthropic's client makes a span of its own: below the instrumentation's, or beside it with one response id."""
    root = a_span()
    same = {"gen_ai.response.id": "msg_1"}
    first = a_model(5, parent=root, attributes=same)
    second = a_model(5, parent=first if is_below else root, attributes=same, scope="com.anthropic.sdk.python")
    assert read_all(root, first, second).input_tokens == 5


def test_costs_add_up_where_they_are_told() -> None:
    """The sum of the leaves' costs; null if no leaf has one."""
    root = an_agent(attributes={"operation.cost": 0.3})
    models = [a_model(parent=root, attributes={"operation.cost": cost}) for cost in (0.1, 0.2)]
    assert read_all(root, *models).cost_usd == pytest.approx(0.3)
    assert read_all(a_model(1)).cost_usd is None


def test_input_and_output_are_those_of_the_root() -> None:
    """The input and output of the root are used if it has them, whatever is below it."""
    root = a_span({"input": "q", "output": "a"})
    below = a_model(parent=root, attributes={"gen_ai.input.messages": [text("user", "other")]})
    reading = read_all(root, below)
    assert (reading.input, reading.output) == ("q", "a")


def test_below_a_silent_root_the_topmost_span_that_tells_is_taken() -> None:
    """A web request around two calls of a model: the first question, the last answer."""
    root = a_span(name="POST /ask")
    spans = [
        a_model(
            parent=root,
            start_s=number,
            attributes={
                "gen_ai.input.messages": [text("user", f"q{number}")],
                "gen_ai.output.messages": [text("assistant", f"a{number}")],
            },
        )
        for number in (1, 2)
    ]
    tool = a_span({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.result": "t"}, parent=root, start_s=3)
    reading = read_all(root, *spans, tool)
    assert (reading.input, reading.output) == ("q1", "a2")


def test_steps_without_a_span_around_them_end_with_the_last_one() -> None:
    """Spans beside each other have one output, that of the last; an agent's span is around what began beside it."""
    model = {"gen_ai.output.messages": [text("assistant", "first")]}
    last = {"gen_ai.output.messages": [text("assistant", "last")]}
    documents = a_span({"openinference.span.kind": "RETRIEVER", "output.value": "docs"}, parent="f" * 16)
    for first in (a_model(attributes=model), documents, a_span({"output": "a web request"})):
        parent = first.parent_span_id
        assert read_all(first, a_model(parent=parent, start_s=2, attributes=last)).output == "last"
    agent = an_agent(attributes=model)
    assert read_all(agent, a_model(start_s=2, attributes=last)).output == "first"


def test_messages_without_words_are_no_output_while_there_are_words() -> None:
    """A root with only tool calls, or only blanks, as its output gives way to the last text below it."""
    root = an_agent(attributes={"gen_ai.output.messages": [call("f", {})]})
    words = a_model(parent=root, start_s=1, attributes={"gen_ai.output.messages": [text("assistant", "said")]})
    assert read_all(root, words).output == "said"
    assert '"f"' in str(read_all(root).output)
    assert read_all(a_span({"output": "said\n"}), words).output == "said"


def test_no_code_prefers_the_last_words_to_the_output() -> None:
    """The output is the one text that is shown and judged, and the final response is read nowhere else."""
    folder = Path(__file__).parents[2] / "collector"
    named = {
        str(path.relative_to(folder))
        for path in folder.rglob("*.py")
        if ".final_response" in path.read_text(encoding="utf-8")
    }
    assert named == {
        "conventions/trace.py",
        "conventions/columnar/stored_trace.py",
    }


def test_a_root_that_never_came_is_stood_in_for() -> None:
    """Of spans whose parents are missing, the first is the root."""
    spans = [a_span({"input": str(number)}, parent="f" * 16, start_s=number) for number in (2, 1)]
    assert read_all(*spans).input == "1"


def test_the_final_response_is_the_last_that_a_model_said() -> None:
    """Calls are not words; where models tell none, the agent's answer stands; then the root's output."""
    agent = an_agent(attributes={"gen_ai.output.messages": [text("assistant", "of the agent")]})
    first = a_model(parent=agent, start_s=1, attributes={"gen_ai.output.messages": [text("assistant", "said")]})
    second = a_model(parent=agent, start_s=2, attributes={"gen_ai.output.messages": [call("f", {})]})
    assert read_all(agent, first, second).final_response == "said"
    assert read_all(agent, second).final_response == "of the agent"
    assert read_all(a_span({"mlflow.spanType": '"AGENT"', "mlflow.spanOutputs": '"raw"'})).final_response == "raw"
    assert read_all(a_span({"output": "of no agent"})).final_response is None


def test_the_conversation_is_the_longest_that_is_told() -> None:
    """What the last model was sent, and its answer."""
    sent: list[Any] = [text("user", "q"), call("f", {}, "c1"), response("r", "c1")]
    first = a_model(start_s=1, attributes={"gen_ai.input.messages": sent[:1], "gen_ai.output.messages": sent[1:2]})
    answer = [text("assistant", "a")]
    second = a_model(start_s=2, attributes={"gen_ai.input.messages": sent, "gen_ai.output.messages": answer})
    assert read_all(first, second).conversation == (*sent, *answer)
    assert read_all(a_span()).conversation == ()


def test_parallel_answers_to_one_question_are_all_in_the_conversation() -> None:
    """Models that were sent the same at one time answered both; a retry, and what two libraries tell, count once."""
    agent = an_agent()
    question = [text("user", "q")]

    def answer(words: str, start_s: int) -> Span:
        attributes = {"gen_ai.input.messages": question, "gen_ai.output.messages": [text("assistant", words)]}
        return a_model(parent=agent, start_s=start_s, end_ns=(start_s + 6) * 10**9, attributes=attributes)

    spans = [answer("a", 1), answer("b", 2), answer("c", 30)]
    assert read_all(agent, *spans[:2]).conversation == (
        text("user", "q"),
        text("assistant", "a"),
        text("assistant", "b"),
    )
    assert read_all(agent, *spans).conversation == (text("user", "q"), text("assistant", "c"))
    assert len(read_all(agent, answer("a", 1), answer("a", 2)).conversation) == 2


def test_tools_are_defined_once_by_name() -> None:
    """The first definition is kept, unless only a later one has a schema."""
    offers = [
        [{"name": "f", "description": "first"}, {"name": "g", "parameters": {"type": "object"}}],
        [{"name": "f", "description": "second", "inputSchema": {"json": {"type": "object"}}}],
        [{"type": "function", "function": {"name": "f", "description": "third", "parameters": {}}}],
    ]
    spans = [a_model(start_s=n, attributes={"gen_ai.tool.definitions": offer}) for n, offer in enumerate(offers)]
    tools = {one.name: (one.description, one.parameters) for one in read_all(*spans).tool_definitions}
    assert tools == {"f": ("second", {"type": "object"}), "g": (None, {"type": "object"})}


def test_session_and_user_are_the_roots_else_the_first_told() -> None:
    """A span below may know what the root does not."""
    root = a_span({"session.id": "s1"})
    below = a_span({"session.id": "s2", "user.id": "u"}, parent=root)
    reading = read_all(root, below)
    assert (reading.session_id, reading.user_id) == ("s1", "u")


def test_announced_spans_are_counted_when_they_have_ended() -> None:
    """Logfire sends a span twice: the announcement adds no tokens and no words."""
    attributes = {"gen_ai.output.messages": [text("assistant", "twice")], "logfire.span_type": "pending_span"}
    reading = read_all(a_model(5, attributes=attributes), a_model(5))
    assert (reading.input_tokens, reading.final_response) == (5, None)


def test_an_empty_trace_means_nothing() -> None:
    """No spans, no claims."""
    reading = read_all()
    assert (reading.spans, reading.input, reading.tool_calls, reading.input_tokens) == ({}, None, (), None)
