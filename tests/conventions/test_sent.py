"""Conversations that are sent again with each call of a model: one pass finds the same results as reading each."""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.conventions.calls import tool_calls
from collector.conventions.member import TraceMember
from collector.conventions.sent import Conversations
from collector.conventions.tree import tree_of
from storage.records import TraceToolCall

ids = st.sampled_from(["a", "b", "c", "d", "", None])
names = st.sampled_from(["look", "send", None])
calls = st.builds(
    lambda identity, name, value: {"type": "tool_call", "id": identity, "name": name, "arguments": {"q": value}},
    ids,
    names,
    st.integers(0, 1),
)
responses = st.builds(
    lambda identity, name, value: {"type": "tool_call_response", "id": identity, "name": name, "response": value},
    ids,
    names,
    st.sampled_from(["x", "y"]),
)
words = st.just({"type": "text", "content": "] , [ tool_call"})
messages = st.builds(
    lambda role, parts: {"role": role, "parts": parts},
    st.sampled_from(["user", "assistant", "tool"]),
    st.lists(calls | responses | words, max_size=3),
)
lists = st.lists(messages, max_size=4)

_NEW = 3  # of four kinds of turns the one that begins a conversation anew


def member(number: int, **fields: Any) -> TraceMember:
    """Return a span below the root, which is number 0; each begins after the previous one."""
    nothing: dict[str, Any] = dict.fromkeys(TraceMember.__slots__)
    return TraceMember(
        **nothing
        | {
            "span_id": f"{number:016x}",
            "parent_span_id": None if number == 0 else f"{0:016x}",
            "start_ns": number * 10,
            "end_ns": number * 10 + 5,
            "span_type": "llm",
            "has_stored_arguments": True,
        }
        | fields
    )


def trace(turns: Sequence[tuple[list[Any], list[Any], int]], indent: int | None) -> list[TraceMember]:
    """Return an agent whose models get a growing or a new conversation, with a tool run after each call."""
    spans = [member(0, span_type="agent")]
    conversation: list[Any] = []
    for number, (sent, answered, kind) in enumerate(turns):
        conversation = sent if kind == _NEW else [*conversation, *sent]
        encoded = json.dumps(conversation, indent=indent)
        spans.append(member(2 * number + 1, prompt=encoded, answered=json.dumps(answered)))
        run = {"tool_name": "look", "tool_call_id": "abcd"[number % 4], "arguments": '{"q": 0}', "tool_result": "x"}
        spans.append(member(2 * number + 2, span_type="tool", **run))
        conversation = [*conversation, *answered]
    return spans


def calls_of(spans: list[TraceMember]) -> tuple[TraceToolCall, ...]:
    """Return the calls of a trace."""
    return tool_calls(tree_of(spans))


@settings(max_examples=300)
@given(
    st.lists(st.tuples(lists, lists, st.integers(0, 3)), min_size=1, max_size=5),
    st.sampled_from([None, 1]),
)
def test_what_is_looked_through_once_tells_all(turns: list[tuple[list[Any], list[Any], int]], indent: int) -> None:
    """The calls of a trace are those that are found where every message of every span is looked through."""
    memory = calls_of(trace(turns, indent))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Conversations, "results", lambda _self, _span: None)
        assert memory == calls_of(trace(turns, indent))


def an_exchange(number: int) -> tuple[list[Any], list[Any]]:
    """Build an answer of a model that calls a tool, and the tool's result."""
    call = {"type": "tool_call", "id": f"c{number}", "name": "look", "arguments": {"q": number}}
    result = {"type": "tool_call_response", "id": f"c{number}", "response": f"found {number}"}
    return [{"role": "assistant", "parts": [call]}], [{"role": "tool", "parts": [result]}]


def test_a_conversation_that_grows_is_looked_through_once() -> None:
    """Of what a model is sent again with each call, only the results since the call before it are looked at."""
    exchanges = [an_exchange(number) for number in range(5)]
    turns = [([{"role": "user", "parts": [{"type": "text", "content": "Go"}]}], exchanges[0][0], 0)]
    turns += [(result, answer, 0) for (_, result), (answer, _) in pairwise(exchanges)]
    spans = [span for span in trace(turns, None) if span.has_tools_in_input]
    conversations = Conversations({(f"c{number}", "look") for number in range(5)})
    results = [conversations.results(span) for span in spans]
    assert [[part["response"] for _, part in parts.results] if parts else [] for parts in results] == [
        ["found 0"],
        ["found 1"],
        ["found 2"],
        ["found 3"],
    ]


@pytest.mark.parametrize(
    "parts",
    [
        [{"type": "tool_call", "id": "other", "name": "look"}],
        [{"type": "tool_call", "id": "c0", "name": "send"}],
        [{"type": "tool_call", "id": None, "name": "look"}],
        [{"type": "tool_call_response", "id": "c0", "response": "x"}],
        [{"type": "tool_call", "id": "c0", "name": "look"}] * 2,
    ],
    ids=["call of nobody", "other name", "no id", "result without its call", "call twice"],
)
def test_what_is_no_more_than_results_is_told_apart(parts: list[Any]) -> None:
    """If a conversation has more of tools than results of its earlier calls, it has to be read in full."""
    span = member(1, prompt=json.dumps([{"role": "user", "parts": parts}]))
    assert Conversations({("c0", "look")}).results(span) is None
