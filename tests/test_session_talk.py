"""The traces of a session become one talk: each message once, at its turn, with what it cost."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from collector.talk import TalkTrace, talk_of
from storage.records import Message, TraceToolCall

TEXTS = st.sampled_from(["yes", "no", "and in Lagos?", "ümläut"])
"""Few, so that people say the same thing twice."""

SYSTEM: Message = {"role": "system", "parts": [{"type": "text", "content": "Be kind."}]}


def said(role: str, text: str) -> Message:
    """A message with one text."""
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def asked_tool(call_id: str) -> list[Message]:
    """A model's call of a tool and its result, without a text."""
    call: Message = {"role": "assistant", "parts": [{"type": "tool_call", "id": call_id, "name": "find"}]}
    return [call, {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": "found"}]}]


def a_trace(number: int, conversation: Sequence[Message], *calls: str, cost_usd: float | None = None) -> TalkTrace:
    """A trace of a session, so many seconds after the first."""
    return TalkTrace(
        trace_id=f"{number:032x}",
        start_ns=number * 1_000_000_000,
        end_ns=number * 1_000_000_000 + 5,
        span_count=2,
        error_count=number % 2,
        conversation=conversation,
        tool_calls=[
            TraceToolCall(
                ordinal=place, span_id="a" * 16, call_id=call_id, name="find", arguments=None, result=None,
                is_error=False, error=None, start_ns=number, end_ns=None,
            )
            for place, call_id in enumerate(calls)
        ],
        input_tokens=None,
        output_tokens=3,
        cost_usd=cost_usd,
        evaluations=[],
    )  # fmt: skip


def exchanges(pairs: Sequence[tuple[str, str]], tools: Sequence[bool]) -> list[list[Message]]:
    """What each turn adds: a question, perhaps the call of a tool, an answer. Answers are numbered."""
    return [
        [said("user", question), *(asked_tool(f"call {n}") if has_tool else ()), said("assistant", f"{n}: {answer}")]
        for n, ((question, answer), has_tool) in enumerate(zip(pairs, tools, strict=False))
    ]


@given(
    pairs=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=8),
    tools=st.lists(st.booleans(), min_size=8, max_size=8),
    windows=st.lists(st.integers(0, 20), min_size=8, max_size=8),
    resent=st.sampled_from(["all", "texts"]),
    data=st.data(),
)
def test_each_message_is_told_once(
    pairs: list[tuple[str, str]], tools: list[bool], windows: list[int], resent: str, data: st.DataObject
) -> None:
    """However much history is sent again, with calls of tools or without: a turn has what it added."""
    added = exchanges(pairs, tools)
    traces, history = [], list[Message]()
    for number, new in enumerate(added):
        window = history[len(history) - min(windows[number], len(history)) :]
        traces.append(a_trace(number, [SYSTEM, *window, *new]))
        history += [message for message in new if resent == "all" or message["parts"][0]["type"] == "text"]  # type: ignore[index,call-overload] # a list
    talk = talk_of(data.draw(st.permutations(traces)))
    assert [turn.messages for turn in talk.turns] == [[SYSTEM, *added[0]], *added[1:]]


@given(
    st.lists(
        st.lists(st.builds(said, st.sampled_from(["user", "assistant", "system", "tool", ""]), TEXTS | st.just(""))),
        max_size=6,
    )
)
def test_no_message_is_lost(conversations: list[list[Message]]) -> None:
    """Whatever traces say, each message is told at some turn, and the last of a trace at its own."""
    talk = talk_of(a_trace(number, messages) for number, messages in enumerate(conversations))
    told = [message for turn in talk.turns for message in turn.messages]
    assert all(message in told for messages in conversations for message in messages)
    for turn, messages in zip(talk.turns, conversations, strict=True):
        if messages and messages[-1]["role"] != "system":
            assert turn.messages[-1] == messages[-1]


@given(st.lists(st.none() | st.floats(0, 1), max_size=9))
def test_cost_grows_to_the_total(costs: list[float | None]) -> None:
    """What a talk cost so far never falls, and is the total at the last turn."""
    talk = talk_of(a_trace(number, [], cost_usd=cost) for number, cost in enumerate(costs))
    grown = [turn.cost_so_far_usd or 0.0 for turn in talk.turns]
    assert grown == sorted(grown)
    assert talk.totals.cost_usd == (talk.turns[-1].cost_so_far_usd if talk.turns else None)
    assert (talk.totals.cost_usd is None) == all(cost is None for cost in costs)


def test_totals_are_those_of_all_traces() -> None:
    """Counts are added up, what nobody told stays unknown, and the time is from the first start to the last end."""
    totals = talk_of([a_trace(2, []), a_trace(1, []), a_trace(3, [])]).totals
    assert (totals.traces, totals.error_traces, totals.spans, totals.errors) == (3, 2, 6, 2)
    assert (totals.input_tokens, totals.output_tokens, totals.duration_ns) == (None, 9, 2_000_000_005)


def test_a_call_is_told_at_the_turn_that_made_it() -> None:
    """A call that later traces repeat with the history is not theirs; one without an id is each time a new one."""
    history = [said("user", "hi"), *asked_tool("1"), said("assistant", "hello")]
    turns = talk_of([a_trace(1, history, "1"), a_trace(2, [*history, *asked_tool("2")], "1", "2")]).turns
    assert [[call.call_id for call in turn.tool_calls] for turn in turns] == [["1"], ["2"]]


def test_a_turn_that_goes_on_has_the_rest_alone() -> None:
    """A trace that goes on with the result of a tool repeats neither the question nor the call."""
    call, result = asked_tool("1")
    question, answer = said("user", "hi"), said("assistant", "hello")
    turns = talk_of([a_trace(1, [question, call]), a_trace(2, [question, call, result, answer])]).turns
    assert [turn.messages for turn in turns] == [[question, call], [result, answer]]


def test_who_asks_the_same_again_is_heard_again() -> None:
    """An application that sends no history has each turn whole, also where two turns are the same."""
    same = [said("user", "hi"), said("assistant", "hello")]
    assert [turn.messages for turn in talk_of([a_trace(1, same), a_trace(2, same)]).turns] == [same, same]


def test_what_stands_before_the_history_unheard_is_told() -> None:
    """A result of a tool that comes with a question said before is not lost with the history."""
    _, result = asked_tool("1")
    question, answer = said("user", "hi"), said("assistant", "hello")
    turns = talk_of([a_trace(1, [question]), a_trace(2, [result, question, answer])]).turns
    assert [turn.messages for turn in turns] == [[question], [result, answer]]
