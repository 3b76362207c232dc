"""Evaluators of tool calls against definitions, expectations and results, and the matching of arguments."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from evaluators.case import parse_case
from evaluators.errors import BadConfiguration
from evaluators.evaluator import run
from evaluators.outcome import Failure, Verdict
from evaluators.registry import build
from tests.evaluating import call, called, evaluate, failure, skip, verdict

FLIGHTS = {
    "name": "search_flights",
    "description": "Search for available flights",
    "inputSchema": {
        "type": "object",
        "properties": {
            "origin": {"type": "string", "description": "Origin airport code"},
            "destination": {"type": "string"},
            "cabin": {"type": "string", "enum": ["economy", "business"]},
            "passengers": {"type": "integer", "minimum": 1, "maximum": 9},
            "date": {"type": "string", "format": "date"},
            "legs": {
                "type": "array",
                "maxItems": 2,
                "items": {"type": "object", "properties": {"km": {"type": "number"}}, "required": ["km"]},
            },
        },
        "required": ["origin", "destination"],
    },
}
ROUTE = {"origin": "JFK", "destination": "CDG"}


def validity(arguments: object, schema: object = FLIGHTS["inputSchema"], **configuration: object) -> list[str]:
    """List the errors of a call with these arguments."""
    case = called(call("a_tool", arguments)) | {"metadata": {"tools": [{"name": "a_tool", "inputSchema": schema}]}}
    outcome = verdict("tool_call_validity", configuration, case)
    (result,) = outcome.metadata["validationResults"]
    assert result["valid"] is (not result["errors"])
    assert outcome.score == float(result["valid"])
    errors: list[str] = result["errors"]
    return errors


def an_object(**properties: object) -> dict[str, Any]:
    """Return the schema of an object with these properties."""
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    "arguments, errors",
    [
        (ROUTE, []),
        (ROUTE | {"passengers": 2.0}, []),
        (ROUTE | {"unknown": 1}, []),
        ({"origin": "JFK"}, ["'destination' is a required property"]),
        (ROUTE | {"origin": 5}, ["origin: 5 is not of type 'string'"]),
        (ROUTE | {"origin": None}, ["origin: None is not of type 'string'"]),
        (ROUTE | {"cabin": "first"}, ["cabin: 'first' is not one of ['economy', 'business']"]),
        (ROUTE | {"passengers": 1.5}, ["passengers: 1.5 is not of type 'integer'"]),
        (ROUTE | {"passengers": True}, ["passengers: True is not of type 'integer'"]),
        (ROUTE | {"passengers": 10}, ["passengers: 10 is greater than the maximum of 9"]),
        (ROUTE | {"date": "2025-02-30"}, ["date: '2025-02-30' is not a 'date'"]),
        (ROUTE | {"legs": [{"km": 1}, {"km": "far"}]}, ["legs[1].km: 'far' is not of type 'number'"]),
        (ROUTE | {"legs": [{}]}, ["legs[0]: 'km' is a required property"]),
        ("JFK to CDG", ["the arguments are not an object"]),
    ],
)
def test_validity_checks_the_whole_schema(arguments: object, errors: list[str]) -> None:
    """Required names, types, enums, bounds, formats and nested schemas are checked, and errors name their place."""
    assert validity(arguments) == errors


@pytest.mark.parametrize(
    "schema, arguments, valid",
    [
        (None, {"x": 1}, True),
        ({}, {"x": 1}, True),
        (an_object(x={"type": "date-time"}), {"x": 1}, True),
        (an_object(x={"type": ["string", "null"]}), {"x": None}, True),
        (an_object(x={"type": ["string", "null"]}), {"x": 1}, False),
        (an_object(x={"enum": [1, "a"]}), {"x": 1.0}, True),
        (an_object(x={"enum": [1, "a"]}), {"x": True}, False),
        (an_object(x={"type": "string", "format": "uri"}), {"x": "no uri"}, False),
        (an_object(x={"type": "string", "format": "date-time"}), {"x": "2025-01-31T10:00:00Z"}, True),
        (an_object(x={"type": "string", "format": "date-time"}), {"x": "yesterday"}, False),
        ({"$defs": {"id": {"type": "integer"}}, **an_object(x={"$ref": "#/$defs/id"})}, {"x": "1"}, False),
        ({"oneOf": [an_object(x={"type": "string"}), {"required": ["y"]}]}, {"x": "a"}, True),
        ({"$schema": "http://json-schema.org/draft-04/schema#", **an_object(x={"type": "number"})}, {"x": "1"}, False),
        (an_object(x={"type": "number"}) | {"additionalProperties": False}, {"y": 1}, False),
        ({"type": "object", "additionalProperties": False}, {"y": 1}, False),
    ],
)
def test_validity_of_schemas_as_they_come(
    schema: object,
    arguments: object,
    valid: bool,  # noqa: FBT001 - a parameter
) -> None:
    """Unknown type names pass, unions, references, formats and older drafts work, closed objects are closed."""
    assert (validity(arguments, schema) == []) is valid


def test_strict_mode_refuses_what_no_schema_names() -> None:
    """Strict mode refuses additional arguments if the schema names any, and names them."""
    assert validity(ROUTE | {"x": 1}, strictMode=True) == ["x: not named by the schema, and strictMode is on"]
    assert validity({"x": 1}, {"type": "object"}, strictMode=True) == []
    assert len(validity({"y": 1}, an_object(x={}) | {"additionalProperties": False}, strictMode=True)) == 1


def test_validity_is_the_share_of_valid_calls() -> None:
    """Unknown tools and broken calls lower the share, and are reported with the tool."""
    case = called(call("search_flights", ROUTE), call("search_flights"), "fly") | {"metadata": {"tools": [FLIGHTS]}}
    result = verdict("tool_call_validity", {}, case)
    assert result.score == 1 / 3
    assert "fly: unknown tool; there are: search_flights" in result.reason
    assert not result.success


def test_each_case_is_checked_against_its_own_tools() -> None:
    """An evaluator reads tools that many cases share once, and those of another case by themselves."""
    evaluator = build("tool_call_validity", {})
    shared: list[dict[str, object]] = [{"name": "a", "inputSchema": {"required": ["x"]}}]
    own: list[dict[str, object]] = [{"name": "a"}]
    wrong: list[dict[str, object]] = [{"nam": "a"}]
    reasons = []
    for tools in (shared, own, shared, wrong, wrong, shared):
        case = parse_case(called("a")).model_copy(update={"metadata": {"tools": tools}})
        outcome = asyncio.run(run(evaluator, case))
        reasons.append(outcome.score if isinstance(outcome, Verdict) else type(outcome))
    assert reasons == [0.0, 1.0, 0.0, Failure, Failure, 0.0]


def test_of_two_definitions_the_last_counts() -> None:
    """If a tool is defined twice, the last definition counts."""
    tools = [{"name": "a", "inputSchema": {"required": ["x"]}}, {"name": "a"}]
    assert verdict("tool_call_validity", {}, called("a") | {"metadata": {"tools": tools}}).score == 1


def test_a_chat_without_tools_has_no_calls_to_check() -> None:
    """Tools that are not defined are not a fault of a case that calls none."""
    outcome = verdict("tool_call_validity", {}, called())
    assert (outcome.score, outcome.reason) == (1, "There are no tool calls to check.")


@pytest.mark.parametrize(
    "case, message",
    [
        ({"metadata": {"tools": []}}, "bad_case: actualOutputs.toolCalls is missing"),
        (called("a"), "bad_case: metadata.tools is missing"),
        (called() | {"metadata": {"tools": [{"nam": "x"}]}}, "metadata.tools[0].name: is required"),
        ({"actualOutputs": {"toolCalls": ["x"]}, "metadata": {"tools": []}}, "actualOutputs.toolCalls[0]: "),
        (
            called(call("a", tool="y")),
            "actualOutputs.toolCalls[0].tool: unknown key; there are: arguments, durationMs, ",
        ),
        (called({"name": " "}), "actualOutputs.toolCalls[0].name: "),
        ({"actualOutputs": {"toolCalls": "none"}}, "actualOutputs.toolCalls: not a list, and not the JSON of one"),
    ],
)
def test_malformed_calls_and_tools_are_failures(case: Mapping[str, Any], message: str) -> None:
    """What cannot be read is named by key and element."""
    assert message in failure("tool_call_validity", {}, case)


@pytest.mark.parametrize(
    "schema, message",
    [
        ({"type": "object", "properties": {"x": 5}}, "the inputSchema of a_tool is not a JSON Schema: properties.x: "),
        ({"properties": {"x": {"$ref": "#/nowhere"}}}, "not a JSON Schema: a reference leads nowhere"),
        ({"properties": {"x": {"$ref": "http://127.0.0.1:9/schema"}}}, "a reference leads nowhere"),
        ({"properties": {"x": {"$ref": "#/properties/x"}}}, "it refers to itself without end"),
        ({"properties": {"x": {"pattern": "("}}}, "properties.x.pattern: '(' is not a 'regex'"),
    ],
)
def test_schemas_that_are_none_are_failures(schema: object, message: str) -> None:
    """A tool's broken schema is not a fault of the agent, and nothing is fetched to mend it."""
    case = called(call("a_tool", {"x": "a"})) | {"metadata": {"tools": [{"name": "a_tool", "inputSchema": schema}]}}
    assert message in failure("tool_call_validity", {}, case)


@pytest.mark.parametrize(
    "mode, actual, expected, score",
    [
        ("NAMES_ONLY", ["a", "b"], ["b", "a", "a"], 1.0),
        ("NAMES_ONLY", ["a", "c"], ["a", "b"], 1 / 2),
        ("NAMES_ONLY", ["a"], ["a", "b", "c"], 1 / 2),
        ("NAMES_ONLY", [], ["a"], 0.0),
        ("NAMES_ONLY", ["a"], [], 0.0),
        ("NAMES_AND_ORDER", ["a", "b", "c"], ["a", "c"], 2 / 3),
        ("NAMES_AND_ORDER", ["b", "a"], ["a", "b"], 1 / 2),
        ("NAMES_AND_ORDER", [], ["a"], 0.0),
        ("NAMES_AND_ARGS", [call("a", {"x": 1})], [call("a", {"x": 1.0})], 1.0),
        ("NAMES_AND_ARGS", [call("a", {"x": 1})], [call("a", {"x": 2})], 0.0),
        ("NAMES_AND_ARGS", ["a", "a"], ["a"], 2 / 3),
        ("NAMES_AND_ARGS", ["b", "a"], ["a", "b"], 1.0),
    ],
)
def test_tool_correctness(mode: str, actual: Sequence[Any], expected: Sequence[Any], score: float) -> None:
    """Each mode scores sets, sequences or calls as it says."""
    result = verdict("tool_correctness", {"matchMode": mode}, called(*actual, expected=expected))
    assert result.score == pytest.approx(score)


def test_tool_correctness_lists_tools_as_they_first_came() -> None:
    """The metadata tell right, needless and missing tools."""
    result = verdict("tool_correctness", {}, called("z", "b", "a", "z", expected=["c", "a", "b"]))
    assert result.metadata["correctTools"] == ["b", "a"]
    assert result.metadata["redundantTools"] == ["z"]
    assert result.metadata["missingTools"] == ["c"]


def test_correctness_finds_the_pairing_that_a_greedy_one_misses() -> None:
    """With a matcher that is not symmetric, as many calls as possible are paired."""
    case = called(
        call("a", {"x": 1, "y": 2}), call("a", {"x": 1}), expected=[call("a", {"x": 1}), call("a", {"x": 1, "y": 2})]
    )
    configuration = {"matchMode": "NAMES_AND_ARGS", "argumentMatcher": "SUBSET"}
    assert verdict("tool_correctness", configuration, case).score == 1


@pytest.mark.parametrize(
    "mode, actual, expected, score",
    [
        ("STRICT", "ab", "ab", 1.0),
        ("STRICT", "ba", "ab", 0.0),
        ("STRICT", "abc", "ab", 0.0),
        ("STRICT", "", "a", 0.0),
        ("IN_ORDER", "ab", "ab", 1.0),
        ("IN_ORDER", "axb", "ab", 2 / 3),
        ("IN_ORDER", "ba", "ab", 1 / 2),
        ("IN_ORDER", "a", "", 0.0),
        ("ANY_ORDER", "ba", "ab", 1.0),
        ("ANY_ORDER", "aab", "ab", 2 / 3),
        ("SUPERSET", "cba", "ab", 1.0),
        ("SUPERSET", "ca", "ab", 0.0),
        ("SUPERSET", "ab", "aab", 0.0),
        ("SUBSET", "a", "ab", 1.0),
        ("SUBSET", "ac", "ab", 0.0),
        ("SUBSET", "aa", "ab", 0.0),
        ("SUBSET", "a", "", 0.0),
        ("PRECISION", "abc", "ab", 2 / 3),
        ("PRECISION", "", "ab", 0.0),
        ("RECALL", "a", "ab", 1 / 2),
        ("RECALL", "a", "", 0.0),
    ],
)
def test_tool_trajectory(mode: str, actual: str, expected: str, score: float) -> None:
    """Each mode counts order, extra calls and missing calls as it says; a letter is a call."""
    result = verdict("tool_trajectory", {"matchMode": mode}, called(*actual, expected=[*expected]))
    assert result.score == pytest.approx(score)
    assert result.metadata["actualCount"] == len(actual)
    assert result.metadata["expectedTools"] == list(expected)


@pytest.mark.parametrize("mode", ["STRICT", "IN_ORDER", "ANY_ORDER", "SUPERSET", "SUBSET", "PRECISION", "RECALL"])
def test_trajectory_of_nothing_passes_and_says_so(mode: str) -> None:
    """If no call was expected and none made, every mode passes vacuously, or fails if so configured."""
    case = called(expected=[])
    assert "nothing to check" in verdict("tool_trajectory", {"matchMode": mode}, case).reason
    assert not verdict("tool_trajectory", {"matchMode": mode, "whenVacuous": "FAIL"}, case).success


@pytest.mark.parametrize("mode, actual, expected", [("SUPERSET", "a", ""), ("SUBSET", "", "a")])
def test_coverage_of_nothing_passes_and_says_so(mode: str, actual: str, expected: str) -> None:
    """To cover nothing is vacuous."""
    case = called(*actual, expected=[*expected])
    assert verdict("tool_trajectory", {"matchMode": mode}, case).score == 1
    assert "nothing to check" in skip("tool_trajectory", {"matchMode": mode, "whenVacuous": "SKIP"}, case)


@pytest.mark.parametrize(
    "mode, actual, expected, score",
    [("IN_ORDER", "axbx", "ab", 1.0), ("ANY_ORDER", "xba", "ab", 1.0), ("IN_ORDER", "xa", "ab", 0.5)],
)
def test_extra_calls_may_be_free(mode: str, actual: str, expected: str, score: float) -> None:
    """With extraCalls FREE only the expected calls are counted."""
    configuration = {"matchMode": mode, "extraCalls": "FREE"}
    assert verdict("tool_trajectory", configuration, called(*actual, expected=[*expected])).score == score


@pytest.mark.parametrize(
    "matcher, expected, actual, matches",
    [
        ("EXACT", {"x": 1}, {"x": 1.0}, True),
        ("EXACT", {"x": 1}, {"x": "1"}, False),
        ("EXACT", {"x": 1}, {"x": True}, False),
        ("EXACT", {"x": 1}, {"x": 1, "y": 2}, False),
        ("EXACT", {"x": None}, {}, False),
        ("EXACT", {"x": [1, 2]}, {"x": [2, 1]}, False),
        ("EXACT", {"x": {"y": [1]}}, {"x": {"y": [1.0]}}, True),
        ("EXACT", {"x": 10**23}, {"x": 1e23}, True),
        ("EXACT", {"x": 2**53 + 1}, {"x": float(2**53)}, False),
        ("EXACT", {"x": "A"}, {"x": "a"}, False),
        ("SUBSET", {"x": 1}, {"x": 1, "y": 2}, True),
        ("SUBSET", {"x": 1, "y": 2}, {"x": 1}, False),
        ("SUBSET", {"x": {"y": 1}}, {"x": {"y": 1, "z": 2}}, False),
        ("SUPERSET", {"x": 1, "y": 2}, {"x": 1}, True),
        ("SUPERSET", {"x": 1}, {"x": 1, "y": 2}, False),
        ("IGNORE", {"x": 1}, {"y": 2}, True),
        ({"trimStrings": True}, {"x": [" a "]}, {"x": ["a"]}, True),
        ({"caseInsensitive": True}, {"x": {"y": "A"}}, {"x": {"y": "a"}}, True),
        ({"caseInsensitive": True}, {"X": 1}, {"x": 1}, False),
        ({"mode": "subset", "trim_strings": True, "case_insensitive": True}, {"x": "A "}, {"x": "a", "y": 1}, True),
    ],
)
def test_argument_matchers(
    matcher: object,
    expected: object,
    actual: object,
    matches: bool,  # noqa: FBT001 - a parameter
) -> None:
    """Arguments match by value, with exactly the tolerance of the matcher's configuration."""
    case = called(call("t", actual), expected=[call("t", expected)])
    assert verdict("tool_trajectory", {"argumentMatcher": matcher}, case).score == float(matches)


def test_matcher_of_a_tool_overrides_the_default() -> None:
    """Only the named tool is compared by its own matcher."""
    case = called(
        call("search", {"q": 1}),
        call("book", {"x": 1, "y": 2}),
        expected=[call("search", {"q": 1}), call("book", {"x": 1})],
    )
    assert verdict("tool_trajectory", {}, case).score == 1 / 2
    assert verdict("tool_trajectory", {"argumentMatchers": {"book": {"mode": "SUBSET"}}}, case).score == 1
    assert verdict("tool_trajectory", {"argumentMatchers": {"search": {"mode": "SUBSET"}}}, case).score == 1 / 2


def test_unknown_matchers_are_refused() -> None:
    """A misspelt mode is refused with its path in the configuration."""
    with pytest.raises(BadConfiguration, match=r"argumentMatchers\.book\.mode: input should be 'EXACT', 'SUBSET'"):
        build("tool_trajectory", {"argumentMatchers": {"book": {"mode": "SOME"}}})


@pytest.mark.parametrize("name", ["tool_correctness", "tool_trajectory"])
def test_expectation_that_is_missing_is_a_failure(name: str) -> None:
    """No expectation is not the expectation of nothing."""
    assert failure(name, {}, called("a")) == "bad_case: expectedOutputs.toolCalls is missing"


@pytest.mark.parametrize(
    "result, configuration, failed",
    [
        ("fine", {}, False),
        (None, {}, True),
        ("", {}, True),
        (" \n", {}, True),
        (None, {"treatBlankAsError": False}, False),
        ('{"error": "no such city"}', {}, True),
        ('{"error": null, "temperature": 18}', {}, False),
        ('{"error": false}', {}, False),
        ('{"\\u0065rror": "x"}', {}, True),
        ({"error": "x"}, {}, True),
        ({"data": {"error": "x"}}, {}, False),
        ('[{"error": "x"}]', {}, False),
        ("an error occurred", {}, False),
        ('{"error": "x"', {}, False),
        ('{"error": "x"}', {"detectJsonErrorField": False}, False),
        ("HTTP 500: sorry", {"errorDetector": {"contains": "HTTP 500"}}, True),
        ("HTTP 503: sorry", {"errorDetector": {"contains": ["HTTP 500", "HTTP 503"]}}, True),
        ({"status": "failed"}, {"errorDetector": {"contains": '"failed"'}}, True),
        (0, {}, False),
        ([], {}, False),
    ],
)
def test_tool_error(result: object, configuration: Mapping[str, Any], failed: bool) -> None:  # noqa: FBT001 - a parameter
    """Blank results, error fields and matches of a configured detector are failures, and nothing else is."""
    outcome = verdict("tool_error", configuration, called(call("a", result="ok"), call("b", result=result)))
    assert outcome.score == (0.5 if failed else 1.0)
    assert [failure["toolName"] for failure in outcome.metadata["failedCalls"]] == ["b"] * failed


def test_call_whose_span_failed_is_an_error() -> None:
    """What a trace knows about a call counts, whatever its result says."""
    result = verdict("tool_error", {}, called(call("a", result="x", metadata={"isError": True})))
    assert result.score == 0


@pytest.mark.parametrize(
    "calls, score, redundant, in_a_row",
    [
        (["a", "b"], 1.0, [], 0),
        (["a", "a"], 1 / 2, ["a"], 1),
        (["a", "b", "a", "a"], 2 / 4, ["a", "a"], 1),
        ([call("a", {"x": 1}, result="1"), call("a", {"x": 1.0}, result="2")], 1 / 2, ["a"], 1),
        ([call("a", {"x": 1}), call("a", {"x": 2})], 1.0, [], 0),
        ([call("a", {"x": 1}), call("b", {"x": 1})], 1.0, [], 0),
    ],
)
def test_tool_efficiency(calls: Sequence[Any], score: float, redundant: list[str], in_a_row: int) -> None:
    """Calls that repeat an earlier one with the same arguments are redundant, whatever they answered."""
    result = verdict("tool_efficiency", {}, called(*calls))
    assert result.score == score
    assert result.metadata == {
        "totalCalls": len(calls),
        "distinctCalls": len(calls) - len(redundant),
        "redundantCalls": redundant,
        "consecutiveDuplicates": in_a_row,
    }


def test_efficiency_takes_a_matcher() -> None:
    """What counts as the same call can be configured."""
    case = called(call("a", {"q": " Paris"}), call("a", {"q": "paris"}))
    matcher = {"trimStrings": True, "caseInsensitive": True}
    assert verdict("tool_efficiency", {"argumentMatcher": matcher}, case).score == 1 / 2


@pytest.mark.parametrize("name", ["tool_error", "tool_efficiency", "tool_call_validity"])
def test_no_calls_pass_and_say_so(name: str) -> None:
    """Without calls nothing was checked, which the reason says and the configuration may refuse."""
    case = called() | {"metadata": {"tools": []}}
    assert verdict(name, {}, case).score == 1
    assert verdict(name, {}, case).reason.startswith("There are no tool calls")
    assert not verdict(name, {"whenVacuous": "FAIL"}, case).success


def test_path_picks_calls_out_of_a_structure() -> None:
    """A path leads into the value of toolCalls, to a list of calls or to one."""
    case = {"actualOutputs": {"toolCalls": {"steps": [call("a", result="x"), call("b")]}}}
    assert verdict("tool_error", {"path": "$.steps"}, case).score == 1 / 2
    assert verdict("tool_error", {"path": "$.steps[-1]"}, case).score == 0


def test_both_spellings_and_text_are_read() -> None:
    """Calls under a snake_case key, and calls as JSON text, are calls."""
    case = {"actual_outputs": {"tool_calls": '[{"name": "a", "result": "x", "duration_ms": 5}]'}}
    assert evaluate("tool_error", {}, case).to_document()["score"] == 1


def test_what_takes_too_long_to_compare_is_a_failure() -> None:
    """Thousands of calls in another order are refused rather than compared for minutes; in the same order they pass."""
    names = [f"tool_{number}" for number in range(3000)]
    assert verdict("tool_trajectory", {}, called(*names, expected=names)).score == 1
    error = failure("tool_trajectory", {}, called(*names, expected=names[::-1]))
    assert error.startswith("too_large: 9,000,000 comparisons are needed")
    assert failure("tool_trajectory", {"matchMode": "RECALL"}, called(*names, expected=names[::-1])).startswith(
        "too_large"
    )


@pytest.mark.parametrize(
    "name, keys",
    [
        ("tool_correctness", {"toolCallsKey": "made", "expectedToolCallsKey": "wanted"}),
        ("tool_trajectory", {"toolCallsKey": "made", "expectedToolCallsKey": "wanted"}),
        ("tool_call_validity", {"toolCallsKey": "made", "toolsKey": "offered"}),
        ("tool_error", {"toolCallsKey": "made"}),
        ("tool_efficiency", {"toolCallsKey": "made"}),
        ("tool_call_count", {"toolCallsKey": "made", "toolCallsCount": {"search_flights": ["=", 1]}}),
    ],
)
def test_cases_may_have_their_lists_under_keys_of_their_own(name: str, keys: Mapping[str, Any]) -> None:
    """With configured keys the lists are read from there, and a missing list is reported under its configured key."""
    made = {"name": "search_flights", "arguments": ROUTE, "result": "ok"}
    case = {
        "actualOutputs": {"made": [made]},
        "expectedOutputs": {"wanted": [made]},
        "metadata": {"offered": [FLIGHTS]},
    }
    assert verdict(name, keys, case).score == 1
    assert "actualOutputs.made is missing" in failure(name, keys, {**case, "actualOutputs": {"toolCalls": []}})
