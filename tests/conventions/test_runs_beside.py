"""Tool runs that two libraries record side by side are counted once."""

import json
from typing import Any

from storage.records import Span
from tests.conventions.making import SECOND_NS, a_span, read_all

OSLO: dict[str, Any] = {"city": "Oslo"}
RUN = {"traceloop.span.kind": "tool", "traceloop.entity.name": "weather"}
AGAIN = {"openinference.span.kind": "TOOL", "tool.name": "weather"}


def recorded_twice(
    arguments: object = "Oslo", *, start_s: float = 0, call_id: str = "c1", again_id: str = "c1", late_s: float = 0
) -> tuple[Span, Span]:
    """Return a run by OpenLLMetry, with another by OpenInference of a tenth of a second within its time."""
    own = {**RUN, "gen_ai.tool.call.arguments": json.dumps(OSLO), "traceloop.entity.output": '"7"'}
    other = {**AGAIN, "input.value": arguments, "output.value": "7"}
    first = a_span(
        own | ({"gen_ai.tool.call.id": call_id} if call_id else {}),
        scope="opentelemetry.instrumentation.langchain",
        start_s=start_s,
    )
    start_ns = first.start_ns + 1_000_000 + int(late_s * SECOND_NS)
    second = a_span(
        other | ({"tool_call.id": again_id} if again_id else {}),
        scope="openinference.instrumentation.langchain",
        start_ns=start_ns,
        end_ns=start_ns + SECOND_NS // 10,
    )
    return first, second


def test_a_run_with_one_id_and_a_bare_argument_is_one_call() -> None:
    """OpenInference writes the only argument bare; the map of it is kept."""
    (tool_call,) = read_all(*recorded_twice()).tool_calls
    assert (tool_call.call_id, tool_call.arguments, tool_call.result) == ("c1", OSLO, "7")


def test_a_run_without_an_id_is_the_run_of_its_time_and_argument() -> None:
    """On a failure the message that has the id never came."""
    (tool_call,) = read_all(*recorded_twice(again_id="")).tool_calls
    assert (tool_call.call_id, tool_call.arguments) == ("c1", OSLO)


def test_the_map_of_the_arguments_is_kept_whichever_came_first() -> None:
    """The bare text is the poorer one."""
    first, second = recorded_twice()
    (tool_call,) = read_all(
        second, a_span(first.attributes, scope=first.scope.name, start_ns=second.start_ns - 1)
    ).tool_calls
    assert tool_call.arguments == OSLO


def test_other_runs_stay_two() -> None:
    """Another argument, another id, another time or one library: two calls."""
    own = recorded_twice()[0]
    again = a_span({**own.attributes, "gen_ai.tool.call.id": "c2"}, scope=own.scope.name, start_ns=own.start_ns + 1)
    for spans in (
        recorded_twice("Bergen", again_id=""),
        recorded_twice(again_id="c2"),
        recorded_twice(late_s=3),
        (own, again),
    ):
        assert len(read_all(*spans).tool_calls) == 2


def test_equal_runs_at_one_time_are_as_many_as_one_library_tells() -> None:
    """Each span of the other library is one of them, and none takes two."""
    spans = [*recorded_twice(call_id="", again_id=""), *recorded_twice(call_id="", again_id="")]
    assert len(read_all(*spans).tool_calls) == 2
