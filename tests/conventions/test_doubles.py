"""A call of a model that several spans of a trace report counts once, and calls that are alike count each."""

import random
from typing import Any

import pytest

from storage.records import Span
from tests.conventions.making import SECOND_NS, read_all
from tests.conventions.test_records_of_usage import WORDS, a_call, used

LONG = "msg_01XFDUDYJgAACzvnptvVoYEL"

ID = "gen_ai.response.id"


@pytest.mark.parametrize("answer_id", ["chatcmpl-517", "-", "null", " ", 7, ["a"], '"msg_1"'])
def test_calls_with_one_response_id_that_differ_are_several(answer_id: Any) -> None:
    """Proxies and local servers repeat short ids: in time, tokens or model the calls differ."""
    first = a_call({ID: answer_id})
    assert used(first, a_call({ID: answer_id}, start_s=8)) == (2_000, 200)
    assert used(first, a_call({ID: answer_id, "gen_ai.response.model": "gpt-4o"}, scope="b")) == (2_000, 200)
    assert used(first, a_call({ID: answer_id, "gen_ai.usage.output_tokens": 7})) == (2_000, 107)
    one_call = a_call({ID: answer_id} | WORDS)
    other = a_call({ID: answer_id, "gen_ai.input.messages": '[{"role": "user", "content": "bye"}]'})
    assert used(one_call, other) == (2_000, 200)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"gen_ai.usage.input_tokens": 300},
        {"gen_ai.response.model": "openai/gpt-5-mini"},
        WORDS,
        {"input.value": '{"messages": [{"role": "user", "content": "hi"}]}'},
    ],
)
@pytest.mark.parametrize("answer_id", [LONG, f'"{LONG}"', [LONG]])
def test_two_libraries_that_tell_one_response_id_tell_one_call(answer_id: Any, more: dict[str, Any]) -> None:
    """They may count cached tokens separately, and name the provider in the model."""
    first = a_call({ID: answer_id} | WORDS, scope="one")
    assert used(first, a_call({ID: answer_id, "gen_ai.usage.output_tokens": 99}, scope="two")) == (1_000, 100)
    assert used(first, a_call({ID: answer_id} | more, scope="two", start_s=0.1)) == (1_000, 100)


@pytest.mark.parametrize("answer_id", ["-", "null", " ", "", "None"])
def test_a_placeholder_is_no_response_id(answer_id: str) -> None:
    """Calls of one library at one time are two, and of two libraries one, as if they had none."""
    calls = [a_call({ID: answer_id}, scope=scope) for scope in ("one", "one", "two")]
    assert used(*calls[:2]) == (2_000, 200)
    assert used(calls[0], calls[2]) == (1_000, 100)


def test_two_libraries_that_tell_two_inputs_tell_two_calls() -> None:
    """Parallel calls of agents in two frameworks can have as many tokens; one input may be longer than another."""
    inputs = ["classify A", "classify B", "System: be brief. classify A"]
    calls = [
        a_call({"gen_ai.input.messages": f'[{{"role": "user", "content": "{text}"}}]'}, scope=text) for text in inputs
    ]
    assert used(*calls[:2]) == (2_000, 200)
    assert used(calls[0], calls[2]) == (1_000, 100)


def a_timed_call(scope: str, start_s: float, seconds: float = 1.0, **more: Any) -> Span:
    """Return a call of 1,000 and 100 tokens that takes some time."""
    parent = more.pop("parent", None)
    end_ns = int((1 + start_s + seconds) * SECOND_NS)
    return a_call(more, scope=scope, start_s=start_s, end_ns=end_ns, parent=parent)


@pytest.mark.costly("collector/conventions", "collector/reading")
@pytest.mark.parametrize("gap_s", [0, 0.01, 0.04, 0.2, 2])
@pytest.mark.parametrize("ids", [(), ("one",), ("one", "two")])
def test_equal_calls_at_one_time_are_as_many_as_each_library_reports(gap_s: float, ids: tuple[str, ...]) -> None:
    """Each library reports each of ten calls once, however far apart they begin."""
    spans = [
        a_timed_call(scope, gap_s * at + late_s, 1 - 2 * late_s, **({ID: f"msg_{at}"} if scope in ids else {}))
        for at in range(10)
        for scope, late_s in (("one", 0), ("two", 0.001), ("three", 0.002))
    ]
    assert used(*spans[::3]) == (10_000, 1_000)
    assert used(*spans) == (10_000, 1_000)
    random.Random(len(ids)).shuffle(spans)
    assert used(*spans) == (10_000, 1_000)


def test_a_span_is_of_the_call_that_ends_with_it() -> None:
    """A long call takes the long span of the other library, though a short one fits it, too."""
    spans = [a_timed_call(*each) for each in (("a", 0, 9), ("a", 0.1, 1), ("b", 0.2, 0.8), ("b", 0.3, 8.6))]
    assert used(*spans) == (2_000, 200)


def test_the_calls_below_parallel_calls_are_theirs() -> None:
    """A client's span is of the call above it, and not of the equal one beside that; a third library adds nothing."""
    outer = [a_timed_call("a", 0.01 * at) for at in range(3)]
    inner = [a_timed_call("b", 0.01 * at + 0.02, 0.9, parent=each) for at, each in enumerate(outer)]
    beside = [a_timed_call("c", 0.01 * at + 0.03, 0.9) for at in range(3)]
    assert used(*outer, *inner) == (3_000, 300)
    assert used(*outer, *inner, *beside) == (3_000, 300)


CACHED = "gen_ai.usage.cache_read.input_tokens"
SENT, ANSWERED = "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"


@pytest.mark.parametrize("answer_id", ["chatcmpl-123", LONG])
@pytest.mark.parametrize(
    "first, second, expected",
    [
        ({SENT: 10}, {SENT: 2_010, CACHED: 2_000}, (2_010, 100)),
        ({ANSWERED: 0}, {ANSWERED: 55}, (1_000, 55)),
        ({ANSWERED: 7}, {ANSWERED: 8}, (1_000, 8)),
        ({SENT: 10, ANSWERED: 55}, {SENT: 2_010, CACHED: 2_000, ANSWERED: 0}, (2_010, 55)),
    ],
)
def test_the_most_complete_counts_of_a_call_are_its_own(
    answer_id: str, first: dict[str, Any], second: dict[str, Any], expected: tuple[int, int]
) -> None:
    """Whichever library begins first."""
    for early, late in ((first, second), (second, first)):
        spans = [a_call({ID: answer_id} | early, scope="a"), a_call({ID: answer_id} | late, scope="b")]
        assert used(*spans) == expected


@pytest.mark.parametrize(
    "more, inputs",
    [
        ({SENT: 2_000}, ('{"q": 1}', "completely other")),
        ({SENT: 2_000}, (None, None)),
        ({ANSWERED: 200}, (None, None)),
        ({}, ('{"q": 1}', "completely other")),
        ({}, ('{"messages": [{"content": "classify A"}]}', "classify B")),
        ({}, ('{"messages": [{"content": "classify A"}]}', '[{"text": "classify B"}]')),
    ],
)
def test_calls_with_a_short_response_id_differ_by_tokens_and_inputs(
    more: dict[str, Any], inputs: tuple[str | None, str | None]
) -> None:
    """Servers answer each call with one id: neither a cache nor a stream explains what differs."""
    words = [{} if text is None else {"input.value": text} for text in inputs]
    spans = [
        a_call({ID: "chatcmpl-123"} | words[0], scope="a"),
        a_call({ID: "chatcmpl-123"} | more | words[1], scope="b"),
    ]
    assert used(*spans) == (1_000 + more.get(SENT, 1_000), 100 + more.get(ANSWERED, 100))


@pytest.mark.parametrize(
    "other",
    [
        '{"messages": [{"role": "user", "content": "say \\"hi\\"\\nnow"}]}',
        '[{"type": "human", "data": "[{\\"text\\": \\"say \\\\\\"hi\\\\\\"\\\\nnow\\"}]"}]',
        '{"messages": [{"role": "user", "content": "say',
    ],
)
def test_an_input_as_json_is_the_input(other: str) -> None:
    """However it is wrapped and quoted, and cut off."""
    spans = [a_call({"input.value": text}, scope=scope) for scope, text in (("a", 'say "hi"\nnow'), ("b", other))]
    assert used(*spans) == (1_000, 100)


def test_calls_of_one_library_with_a_short_response_id_are_several() -> None:
    """A long one is of one call."""
    assert used(*(a_call({ID: "chatcmpl-123"} | WORDS) for _ in range(3))) == (3_000, 300)
    assert used(*(a_call({ID: LONG} | WORDS) for _ in range(3))) == (1_000, 100)


def test_the_cost_of_a_call_is_that_of_its_most_complete_span() -> None:
    """A computed cost without the cache's discount does not count."""
    model = {"gen_ai.response.model": "gpt-4o"}
    full = a_call({ID: LONG, SENT: 2_010, CACHED: 2_000, **model}, scope="b")
    for spans in (
        (a_call({ID: LONG, SENT: 10, **model}, scope="a"), full),
        (full, a_call({ID: LONG, SENT: 2_010, **model}, scope="c")),
    ):
        assert read_all(*spans).cost_usd == read_all(full).cost_usd
