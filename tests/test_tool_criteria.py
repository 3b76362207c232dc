"""Criteria of calls: count, order, arguments, output."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from evaluators.errors import BadConfiguration
from evaluators.registry import build
from tests.evaluating import call, called, failure, verdict

TOKYO_TOOLS = ["get_temperature", "get_weather_condition", "get_humidity", "get_forecast"]
TOKYO_RESULTS = [
    '{"content": {"temperature": 25.0, "unit": "fahrenheit"}}',
    '{"content": {"condition": "cloudy"}}',
    '{"content": {"humidity": 65}}',
    '{"content": {"forecast": "Overcast with mild temperatures"}}',
]
TOKYO = called(
    *[call(name, {"city": "Tokyo"}, result=result) for name, result in zip(TOKYO_TOOLS, TOKYO_RESULTS, strict=True)]
)
TOKYO_CRITERIA: Mapping[str, Mapping[str, Any]] = {
    "tool_call_count": {"toolCallsCount": {name: ["=", 1] for name in TOKYO_TOOLS}},
    "tool_call_order": {"toolCallsOrder": TOKYO_TOOLS},
    "tool_call_args": {"toolCalls": [{"name": name, "args": {"city": "Tokyo"}} for name in TOKYO_TOOLS]},
    "tool_call_output": {
        "toolOutputs": [
            {"name": "get_temperature", "output": "{'temperature': 25.0, 'unit': 'fahrenheit'}"},
            {"name": "get_weather_condition", "output": "{'condition': 'cloudy'}"},
            {"name": "get_humidity", "output": "{'humidity': 65}"},
            {"name": "get_forecast", "output": "{'forecast': 'Overcast with mild temperatures'}"},
        ]
    },
}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", TOKYO_CRITERIA)
def test_the_forecast_of_tokyo_passes(name: str, strict: bool) -> None:  # noqa: FBT001 - a parameter
    """The example of the documentation holds, with its criteria in the configuration or in the case."""
    criteria = TOKYO_CRITERIA[name]
    assert verdict(name, {"strict": strict, **criteria}, TOKYO).score == 1
    assert verdict(name, {"strict": strict}, TOKYO | {"expectedOutputs": criteria}).score == 1


def test_criteria_of_the_case_beat_those_of_the_configuration() -> None:
    """What a case expects is more special than what its evaluator expects of all cases."""
    case = called("a") | {"expectedOutputs": {"toolCallsCount": {"a": ["=", 1]}}}
    assert verdict("tool_call_count", {"toolCallsCount": {"a": ["=", 2]}}, case).score == 1


@pytest.mark.parametrize("name, key", [("tool_call_count", "toolCallsCount"), ("tool_call_args", "toolCalls")])
def test_criteria_that_are_nowhere_are_a_failure(name: str, key: str) -> None:
    """Without criteria there is nothing to say about a run."""
    assert failure(name, {}, called("a")) == (
        f"bad_case: expectedOutputs.{key} is missing, and the configuration has no {key}"
    )


@pytest.mark.parametrize(
    "counts, score, strict",
    [
        ({"a": ["=", 2]}, 1.0, 1.0),
        ({"a": ["==", 2], "b": [">", 1]}, 0.5, 0.0),
        ({"a": [">=", 2], "b": ["<=", 1], "c": ["<", 1], "d": ["!=", 1]}, 1.0, 1.0),
        ({"a": ["=", "2"]}, 1.0, 1.0),
        ({"c": ["=", 0]}, 1.0, 1.0),
        ({}, 0.0, 0.0),
    ],
)
def test_tool_call_count(counts: object, score: float, strict: float) -> None:
    """Every operator counts the calls of its tool, tools that were not called included, and other tools not."""
    for configuration, expected_score in (({}, score), ({"strict": True}, strict)):
        case = called("a", "b", "a", "x") | {"expectedOutputs": {"toolCallsCount": counts}}
        assert verdict("tool_call_count", configuration, case).score == expected_score


def test_expecting_no_call_holds_for_a_run_without_calls() -> None:
    """An expectation of zero calls of a tool holds, even if no tool was called at all."""
    assert verdict("tool_call_count", {"toolCallsCount": {"delete": ["=", 0]}}, called()).score == 1


def test_counts_are_told_with_their_operator() -> None:
    """The reason and the metadata have the expected and the actual count."""
    result = verdict("tool_call_count", {"toolCallsCount": {"a": ["<=", 1]}}, called("a", "a"))
    assert result.reason == "0 of 1 hold: a was called 2 times, expected <= 1."
    expected = {"a": {"actual": 2, "operator": "<=", "expected": 1, "score": 0.0}}
    assert result.metadata == {"toolCallsCount": expected}


@pytest.mark.parametrize(
    "counts, message",
    [
        ({"a": ["~", 1]}, "toolCallsCount.a[0]: input should be '=', "),
        ({"a": ["=", 1.5]}, "toolCallsCount.a[1]: input should be a valid integer"),
        ({"a": 1}, "toolCallsCount.a: input should be a valid tuple"),
    ],
)
def test_malformed_counts_are_refused(counts: object, message: str) -> None:
    """Criteria are checked in the configuration, and in the test case if they come with it."""
    with pytest.raises(BadConfiguration) as refused:
        build("tool_call_count", {"toolCallsCount": counts})
    assert message in str(refused.value)
    case = called("a") | {"expectedOutputs": {"toolCallsCount": counts}}
    assert f"bad_case: expectedOutputs.{message}" in failure("tool_call_count", {}, case)


@pytest.mark.parametrize(
    "actual, order, score, strict, common",
    [
        ("abc", "abc", 1.0, 1.0, "abc"),
        ("axbxc", "abc", 1.0, 0.0, "abc"),
        ("acb", "abc", 2 / 3, 0.0, "ab"),
        ("ab", "abc", 2 / 3, 0.0, "ab"),
        ("", "ab", 0.0, 0.0, ""),
        ("cab", "abc", 2 / 3, 0.0, "ab"),
    ],
)
def test_tool_call_order(actual: str, order: str, score: float, strict: float, common: str) -> None:
    """Extra calls cost nothing unless the order is strict; the longest common subsequence is reported."""
    for configuration, expected_score in (({}, score), ({"strict": True}, strict)):
        result = verdict("tool_call_order", {"toolCallsOrder": list(order), **configuration}, called(*actual))
        assert result.score == pytest.approx(expected_score)
        assert result.metadata["lcs"] == list(common)


def test_strict_order_fails_where_only_the_lengths_agree() -> None:
    """Strict order compares position by position."""
    assert verdict("tool_call_order", {"strict": True, "toolCallsOrder": ["a", "b"]}, called("b", "a")).score == 0


@pytest.mark.parametrize("name, key, empty", [
    ("tool_call_count", "toolCallsCount", {}),
    ("tool_call_order", "toolCallsOrder", []),
    ("tool_call_args", "toolCalls", []),
    ("tool_call_output", "toolOutputs", []),
])  # fmt: skip
def test_expecting_nothing(name: str, key: str, empty: object) -> None:
    """Nothing expected of a run without calls passes vacuously, and of a run with calls fails."""
    assert verdict(name, {key: empty}, called("a")).score == 0
    assert verdict(name, {key: empty}, called()).score == 1
    assert not verdict(name, {key: empty, "whenVacuous": "FAIL"}, called()).success


@pytest.mark.parametrize(
    "subset, args, actual, score",
    [
        (True, {"city": "Paris"}, {"city": "Paris", "unit": "C"}, 1.0),
        (False, {"city": "Paris"}, {"city": "Paris", "unit": "C"}, 0.0),
        (False, {"city": "Paris"}, {"city": "Paris"}, 1.0),
        (True, {"city": "Paris", "unit": "C"}, {"city": "Paris"}, 0.0),
        (True, {"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, 0.0),
        (True, {"n": 1}, {"n": 1.0}, 1.0),
        (True, {"n": 1}, {"n": True}, 0.0),
        (True, {"n": 1}, {"n": "1"}, 0.0),
    ],
)
def test_tool_call_args(subset: bool, args: object, actual: object, score: float) -> None:  # noqa: FBT001 - a parameter
    """Subset allows further arguments, and its opposite allows none."""
    configuration = {"subset": subset, "toolCalls": [{"name": "t", "args": args}]}
    assert verdict("tool_call_args", configuration, called(call("t", actual))).score == score


def test_subset_is_the_default() -> None:
    """Without configuration further arguments are allowed, as documented."""
    case = called(call("t", {"a": 1, "b": 2}))
    assert verdict("tool_call_args", {"toolCalls": [{"name": "t", "args": {"a": 1}}]}, case).score == 1


def test_arguments_find_the_pairing_that_a_greedy_one_misses() -> None:
    """A call that could serve two expectations serves the one that nothing else can."""
    case = called(call("y", {"a": 1, "b": 2}), call("y", {"a": 1}))
    expected = [{"name": "y", "args": {"a": 1}}, {"name": "y", "args": {"a": 1, "b": 2}}]
    result = verdict("tool_call_args", {"strict": True, "toolCalls": expected}, case)
    assert result.score == 1
    assert result.metadata == {"pairs": [{"name": "y", "call": 1}, {"name": "y", "call": 0}]}


def test_one_call_serves_one_expectation() -> None:
    """The same call is not counted twice, and the missing one is reported."""
    expected = [{"name": "y", "args": {"a": 1}}, {"name": "y", "args": {"a": 1}}]
    result = verdict("tool_call_args", {"toolCalls": expected}, called(call("y", {"a": 1})))
    assert result.score == 1 / 2
    assert result.reason == '1 of 2 hold: no call of y has the arguments {"a":1}.'


def test_empty_expected_arguments_are_said_to_check_nothing() -> None:
    """A green that any arguments would have got says so."""
    configuration = {"toolCalls": [{"name": "y", "args": {}}]}
    case = called(call("y", {"a": 1}))
    assert "any will do" in verdict("tool_call_args", configuration, case).reason
    assert not verdict("tool_call_args", configuration | {"whenVacuous": "FAIL"}, case).success
    assert verdict("tool_call_args", configuration | {"subset": False}, case).score == 0


def test_expected_calls_may_be_whole_tool_calls() -> None:
    """The calls that trajectory evaluators expect serve here too; their own ids and results are not compared."""
    expected = [call("y", {"a": 1}, id="call_9", result="x", startTime="2025-01-01T00:00:00Z")]
    assert verdict("tool_call_args", {}, called(call("y", {"a": 1}, id="call_1"), expected=expected)).score == 1


@pytest.mark.parametrize(
    "actual, expected_call, matches",
    [
        (call("Web Search"), {"name": "Web_Search"}, True),
        (call("web_search"), {"name": "Web_Search"}, False),
        (call("search!"), {"name": "search"}, True),
        (call("x" * 80), {"name": "x" * 70}, True),
        (call("search", id="t-1"), {"name": "t-1"}, True),
        (call("search", id="t-1"), {"name": "search"}, True),
        (call("search", id="t-1"), {"name": "search", "id": "t-1"}, True),
        (call("search", id="t-1"), {"name": "search", "id": "t-2"}, False),
        (call("search"), {"name": "search", "id": "t-2"}, True),
    ],
)
def test_one_rule_says_which_call_is_meant(
    actual: Mapping[str, Any],
    expected_call: Mapping[str, Any],
    matches: bool,  # noqa: FBT001 - a parameter
) -> None:
    """Calls are found by id or by name as APIs write it, alike for arguments, outputs, order and count."""
    case = called(actual)
    assert verdict("tool_call_args", {"toolCalls": [{"args": {}, **expected_call}]}, case).score == float(matches)
    assert verdict("tool_call_output", {"toolOutputs": [{"output": "", **expected_call}]}, case).score == float(matches)
    if "id" not in expected_call:
        assert verdict("tool_call_order", {"toolCallsOrder": [expected_call["name"]]}, case).score == float(matches)
        assert verdict("tool_call_count", {"toolCallsCount": {expected_call["name"]: ["=", 1]}}, case).score == float(
            matches
        )


@pytest.mark.parametrize(
    "result, text",
    [
        ('{"content": {"b": true, "n": null}}', "{'b': True, 'n': None}"),
        ('{"content": "plain"}', "plain"),
        ('{"content": [1, 1.50]}', "[1, 1.5]"),
        ('{"content": 0}', ""),
        ({"content": {"a": 1}}, "{'a': 1}"),
        ({"a": 1}, '{"a":1}'),
        ('{"a": 1}', '{"a": 1}'),
        ("[1, 2]", "[1, 2]"),
        ("{'content': 'x'}", "{'content': 'x'}"),
        ("plain text", "plain text"),
        (None, ""),
        ([1, 2], "[1, 2]"),
        (True, "True"),
    ],
)
def test_output_is_compared_as_text(result: object, text: str) -> None:
    """The wrapper is taken off, and the text is what Python prints."""
    case = called(call("t", result=result))
    expected = [{"name": "t", "output": text}]
    assert verdict("tool_call_output", {"toolOutputs": expected}, case).score == 1
    assert verdict("tool_call_output", {"toolOutputs": [{"name": "t", "output": f"{text} "}]}, case).score == 0


@pytest.mark.parametrize(
    "result, output",
    [
        ('{"content": {"a": 1.0}}', {"a": 1}),
        ('{"content": {"a": 1.0}}', '{"a": 1}'),
        ('{"content": {"a": 1.0}}', "{'a': 1}"),
        ('{"a": [1, 2]}', {"a": [1, 2]}),
        ("plain", "plain"),
        ('{"content": 0}', 0),
    ],
)
def test_output_may_be_compared_as_a_value(result: object, output: object) -> None:
    """As values, formatting and the way numbers are written do not count."""
    configuration = {"outputComparison": "VALUE", "toolOutputs": [{"name": "t", "output": output}]}
    assert verdict("tool_call_output", configuration, called(call("t", result=result))).score == 1
    assert verdict("tool_call_output", configuration, called(call("t", result="other"))).score == 0


@pytest.mark.parametrize("configuration", [{}, {"strict": True}])
def test_later_call_of_a_tool_may_give_the_expected_output(configuration: Mapping[str, Any]) -> None:
    """The first call of a tool is not the only one that counts."""
    expected: Sequence[Mapping[str, Any]] = [{"name": "t", "output": "second"}]
    case = called(call("t", result="first"), call("t", result="second"))
    assert verdict("tool_call_output", {"toolOutputs": expected, **configuration}, case).score == 1


@pytest.mark.parametrize(
    "name, criteria",
    [
        ("tool_call_count", {"toolCallsCount": {"get_weather": ["=", 1]}}),
        ("tool_call_order", {"toolCallsOrder": ["get_weather"]}),
        ("tool_call_args", {"toolCalls": [{"name": "get_weather", "args": {}}]}),
        ("tool_call_output", {"toolOutputs": [{"name": "get_weather", "output": "rain"}]}),
    ],
)
def test_strict_criteria_mean_calls_with_ids_by_these_alone(name: str, criteria: Mapping[str, Any]) -> None:
    """A strict criterion that has only the name of a tool does not match a call that has an id; other criteria do."""
    with_id = called({"name": "get_weather", "id": "call_1", "arguments": {}, "result": "rain"})
    without = called({"name": "get_weather", "arguments": {}, "result": "rain"})
    assert [verdict(name, {**criteria, "strict": strict}, with_id).score for strict in (False, True)] == [1, 0]
    assert verdict(name, {**criteria, "strict": True}, without).score == 1


def test_a_strict_criterion_may_name_an_id() -> None:
    """The id of a call stands where its name would."""
    case = called({"name": "get_weather", "id": "call_1", "arguments": {}})
    assert verdict("tool_call_order", {"toolCallsOrder": ["call_1"], "strict": True}, case).score == 1
