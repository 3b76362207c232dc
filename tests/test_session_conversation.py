"""The traces of a session become one conversation: each message once, at its turn, with its cost."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from collector.conversation import SessionTrace, session_conversation
from storage.records import Message, TraceSummary, TraceToolCall

TEXTS = st.sampled_from(["yes", "no", "and in Lagos?", "ümläut"])
"""Few, so that people say the same thing twice."""

SYSTEM: Message = {"role": "system", "parts": [{"type": "text", "content": "Be kind."}]}


def a_message(role: str, text: str) -> Message:
    """Return a message with one text."""
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def tool_exchange(call_id: str) -> list[Message]:
    """Return a model's call of a tool and its result, without a text."""
    call: Message = {"role": "assistant", "parts": [{"type": "tool_call", "id": call_id, "name": "find"}]}
    return [call, {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": "found"}]}]


def a_trace(number: int, conversation: Sequence[Message], *calls: str, cost_usd: float | None = None) -> SessionTrace:
    """Build a trace of a session, `number` seconds after the first."""
    return SessionTrace(
        summary=TraceSummary(
            trace_id=f"{number:032x}", tenant="", project="", service_name="", root_name="",
            start_ns=number * 1_000_000_000, end_ns=number * 1_000_000_000 + 5,
            span_count=2, error_count=number % 2, expires_at_ns=0,
        ),
        conversation=conversation,
        tool_calls=[
            TraceToolCall(
                ordinal=place, span_id="a" * 16, call_id=call_id, name="find", arguments=None, result=None,
                has_arguments=True, has_result=False, is_error=False, error=None, start_ns=number, end_ns=None,
            )
            for place, call_id in enumerate(calls)
        ],
        earlier_calls=(),
        executions=frozenset(),
        input_tokens=None,
        output_tokens=3,
        cost_usd=cost_usd,
        evaluations=[],
    )  # fmt: skip


def exchanges(pairs: Sequence[tuple[str, str]], tools: Sequence[bool]) -> list[list[Message]]:
    """Build the messages of each turn: a question, perhaps a tool call, an answer. Answers are numbered."""
    return [
        [
            a_message("user", question),
            *(tool_exchange(f"call {n}") if has_tool else ()),
            a_message("assistant", f"{n}: {answer}"),
        ]
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
    """However much history is sent again, with or without tool calls, a turn has only the messages it added."""
    added = exchanges(pairs, tools)
    traces, history = [], list[Message]()
    for number, new in enumerate(added):
        window = history[len(history) - min(windows[number], len(history)) :]
        traces.append(a_trace(number, [SYSTEM, *window, *new]))
        history += [message for message in new if resent == "all" or message["parts"][0]["type"] == "text"]  # type: ignore[index,call-overload] # a list
    turns = session_conversation(data.draw(st.permutations(traces)))
    assert [turn.messages for turn in turns] == [[SYSTEM, *added[0]], *added[1:]]


@given(
    st.lists(
        st.lists(
            st.builds(a_message, st.sampled_from(["user", "assistant", "system", "tool", ""]), TEXTS | st.just(""))
        ),
        max_size=6,
    )
)
def test_no_message_is_lost(conversations: list[list[Message]]) -> None:
    """Whatever the traces contain, each message is listed at some turn, and the last of a trace at its own."""
    turns = session_conversation(a_trace(number, messages) for number, messages in enumerate(conversations))
    spoken = [message for turn in turns for message in turn.messages]
    assert all(message in spoken for messages in conversations for message in messages)
    for turn, messages in zip(turns, conversations, strict=True):
        if messages and messages[-1]["role"] != "system":
            assert turn.messages[-1] == messages[-1]


@given(st.lists(st.none() | st.floats(0, 1), max_size=9))
def test_cost_grows_to_the_total(costs: list[float | None]) -> None:
    """What a conversation cost so far never falls, and is the total at the last turn."""
    turns = session_conversation(a_trace(number, [], cost_usd=cost) for number, cost in enumerate(costs))
    grown = [turn.cost_so_far_usd or 0.0 for turn in turns]
    assert grown == sorted(grown)
    assert all((turn.cost_so_far_usd is None) == (costs[: n + 1].count(None) > n) for n, turn in enumerate(turns))
    later = session_conversation([a_trace(1, [], cost_usd=0.5)], cost_before_usd=0.25)
    assert later[0].cost_so_far_usd == 0.75


def test_a_call_is_told_at_the_turn_that_made_it() -> None:
    """A call that later traces repeat with the history is not theirs; one without an id is each time a new one."""
    history = [a_message("user", "hi"), *tool_exchange("1"), a_message("assistant", "hello")]
    turns = session_conversation([a_trace(1, history, "1"), a_trace(2, [*history, *tool_exchange("2")], "1", "2")])
    assert [[call.call_id for call in turn.tool_calls] for turn in turns] == [["1"], ["2"]]


def test_calls_that_are_numbered_anew_each_turn_are_not_taken_for_one() -> None:
    """A call with the id of an earlier one and other arguments is a call of its own turn."""
    first, second = a_trace(1, [], "1"), a_trace(2, [], "1")
    other = replace(second, tool_calls=[replace(second.tool_calls[0], arguments={"order": 2})])
    turns = session_conversation([first, other])
    assert [[call.arguments for call in turn.tool_calls] for turn in turns] == [[None], [{"order": 2}]]


def test_a_call_executed_again_in_a_later_turn_is_told_there_too() -> None:
    """A retry under the same id is an execution of its own, and a call that an earlier turn only asked for is one."""
    executed = [replace(a_trace(number, [], "1"), executions={"a" * 16}) for number in (2, 3)]
    turns = session_conversation([a_trace(1, [], "1"), *executed, a_trace(4, [], "1")])
    assert [len(turn.tool_calls) for turn in turns] == [0, 1, 1, 0]
    (turn,) = session_conversation([executed[1]], context=executed[0])
    assert len(turn.tool_calls) == 1


def test_a_turn_that_goes_on_has_the_rest_alone() -> None:
    """A trace that goes on with the result of a tool repeats neither the question nor the call."""
    call, result = tool_exchange("1")
    question, answer = a_message("user", "hi"), a_message("assistant", "hello")
    turns = session_conversation([a_trace(1, [question, call]), a_trace(2, [question, call, result, answer])])
    assert [turn.messages for turn in turns] == [[question, call], [result, answer]]


def test_who_asks_the_same_again_is_heard_again() -> None:
    """An application that sends no history has each turn whole, also where two turns are the same."""
    same = [a_message("user", "hi"), a_message("assistant", "hello")]
    assert [turn.messages for turn in session_conversation([a_trace(1, same), a_trace(2, same)])] == [same, same]


def test_what_stands_before_the_history_unheard_is_told() -> None:
    """A result of a tool that comes with a question said before is not lost with the history."""
    _, result = tool_exchange("1")
    question, answer = a_message("user", "hi"), a_message("assistant", "hello")
    turns = session_conversation([a_trace(1, [question]), a_trace(2, [result, question, answer])])
    assert [turn.messages for turn in turns] == [[question], [result, answer]]


def test_what_the_trace_before_said_is_history() -> None:
    """If a session is read from its middle on, neither messages nor calls of the previous trace are repeated."""
    history = [a_message("user", "hi"), *tool_exchange("1"), a_message("assistant", "hello")]
    new = [a_message("user", "bye"), a_message("assistant", "see you")]
    (turn,) = session_conversation([a_trace(2, [*history, *new], "1", "2")], context=a_trace(1, history, "1"))
    assert (turn.messages, [call.call_id for call in turn.tool_calls]) == (new, ["2"])


def test_a_result_that_a_later_trace_was_sent_completes_its_call() -> None:
    """A client that makes each request a trace records the result in the next one, as failure or not."""
    first, second = a_trace(0, [a_message("user", "Find.")], "one"), a_trace(1, [a_message("user", "Find.")], "two")
    (one,), (two,) = first.tool_calls, second.tool_calls
    answered = replace(one, result="found", has_result=True)
    failed = replace(two, result="no such", has_result=True, is_error=True, error="no such")
    traces = [
        first,
        replace(second, earlier_calls=(answered,)),
        replace(a_trace(2, ()), earlier_calls=(answered, failed)),
    ]
    for order in (traces, traces[::-1]):
        turns = session_conversation(order)
        assert [list(turn.tool_calls) for turn in turns] == [[answered], [failed], []]


def test_a_result_of_one_of_two_equal_calls_completes_neither() -> None:
    """A result with one id and arguments that match two executions cannot be assigned to either."""
    executed = [replace(a_trace(number, (), "call_0"), executions=frozenset({"a" * 16})) for number in range(2)]
    (call,) = executed[0].tool_calls
    last = replace(a_trace(2, ()), earlier_calls=(replace(call, result="found", has_result=True),))
    turns = session_conversation([*executed, last])
    assert [call.has_result for turn in turns for call in turn.tool_calls] == [False, False]
