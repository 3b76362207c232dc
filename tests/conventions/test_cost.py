"""The cost of reading a large attribute: no more than its length allows, however it is made."""

import sys
from collections.abc import Callable, Iterable
from functools import partial
from types import FrameType

import pytest

from collector.conventions.items_as_text import with_items
from collector.conventions.messages import find_messages
from storage.records import JsonValue, Message
from tests.conventions.making import a_log, a_span, read_all

N = 400
"""Items of a list. To compare each with all others takes N²/2 calls, 80,000 for the smaller list."""


def _of(numbers: Iterable[int], kind: str) -> list[JsonValue]:
    numbers = list(numbers)
    responses: list[JsonValue] = [
        {"type": "tool_call_response", "id": f"c{number}", "response": f"r{number}"} for number in numbers
    ]
    functions: list[JsonValue] = [
        {"id": f"c{number}", "type": "function", "function": {"name": "f", "arguments": "{}"}} for number in numbers
    ]
    literal = "ResponseFunctionToolCall(arguments='{}', call_id='c', name='f', type='function_call')"
    made: dict[str, list[JsonValue]] = {
        "results of one message": [{"role": "tool", "parts": responses}],
        "calls of one message": [{"role": "assistant", "content": "", "tool_calls": functions}],
        "messages with a call": [
            {"role": "assistant", "parts": [{"type": "tool_call", "id": f"c{number}", "name": "f", "arguments": {}}]}
            for number in numbers
        ],
        "items of calls": [
            {"type": "function_call", "call_id": f"c{number}", "name": "f", "arguments": "{}"} for number in numbers
        ],
        "items of thoughts": [{"type": "reasoning", "summary": [{"text": f"t{number}"}]} for number in numbers],
        "items of blank words": [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ""}]} for _ in numbers
        ],
        "calls among words": [{"role": "assistant", "parts": [{"type": "text", "content": literal} for _ in numbers]}],
        "pieces of a stream": [
            {"role": "assistant", "content": f"{number} ", "finish_reason": ""} for number in numbers
        ],
    }
    return made[kind]


KINDS = (
    "results of one message", "calls of one message", "messages with a call", "items of calls", "items of thoughts",
    "items of blank words", "calls among words", "pieces of a stream",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_twice_as_many_items_take_twice_as_many_calls(kind: str) -> None:
    """Calls of functions, Python's and built-in ones: lists that are compared item by item take four times as many."""
    few, many = (_calls(_of(range(count), kind)) for count in (N, 2 * N))
    assert many < 2.2 * few, (few, many)


@pytest.mark.parametrize("kind", KINDS)
def test_all_that_is_no_repetition_is_kept(kind: str) -> None:
    """One copy of a repeated call is kept, one of blank texts, and all of the rest."""
    parts = [part for message in _messages(_of(range(N), kind)) for part in _parts(message["parts"])]
    expected = {"calls among words": 1, "items of blank words": 1, "pieces of a stream": 1}.get(kind, N)
    assert len(parts) == expected
    if kind == "pieces of a stream":
        assert parts[0] == {"type": "text", "content": "".join(f"{number} " for number in range(N))}


def test_log_records_of_one_call_are_not_read_for_each_span() -> None:
    """Twice as many spans and records of a call take twice as many calls of functions, not four times as many."""
    few, many = (_counted(partial(_read_call, count)) for count in (N // 4, N // 2))
    assert many < 2.2 * few, (few, many)


def _read_call(count: int) -> None:
    tools = [
        a_span({"span.type": "tool", "tool_use_id": "t1"}, name="claude_code.tool", start_s=at) for at in range(count)
    ]
    turn = a_span({"span.type": "interaction"}, name="claude_code.interaction")
    attributes = {"tool_use_id": "t1", "success": "true"}
    logs = [a_log(turn, "claude_code.tool_result", attributes=attributes, time_ns=at) for at in range(count)]
    assert len(read_all(turn, *tools, logs=logs).spans) == count + 1


def _messages(value: JsonValue) -> list[Message]:
    return with_items(find_messages(value, "user") or [])


def _parts(value: JsonValue) -> list[JsonValue]:
    assert isinstance(value, list)
    return value


def _calls(value: list[JsonValue]) -> int:
    _messages(value)  # warm the caches of texts, whose work is not counted
    return _counted(lambda: _messages(value))


def _counted(act: Callable[[], object]) -> int:
    count = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(before)
    return count
