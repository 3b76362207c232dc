"""Evaluators of one text or one structure: exact match, regex, length, structural match."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.evaluating import failure, outputs, skip, verdict

LONG = json.dumps({"a": "x" * 500})


@pytest.mark.parametrize(
    "configuration, actual, expected, score",
    [
        ({}, "Paris", "Paris", 1.0),
        ({}, "paris", "Paris", 0.0),
        ({"ignoreCase": True}, "PARIS", "paris", 1.0),
        ({}, " Paris", "Paris", 0.0),
        ({"trimWhiteSpace": True}, " Paris\n", "\tParis", 1.0),
        ({"trimWhiteSpace": True}, "a  b", "a b", 0.0),
        ({}, 5, "5", 1.0),
        ({}, 5, "5.0", 0.0),
        ({}, True, "true", 1.0),
        ({}, {"b": 1, "a": [2]}, '{"b":1,"a":[2]}', 1.0),
        ({}, "", "", 1.0),
        ({"evaluationParams": ["ACTUAL_OUTPUT"]}, "x", None, 0.0),
        ({"evaluationParams": []}, None, None, 1.0),
        ({"path": "$.city"}, '{"city": "Paris", "n": 2}', {"city": "Paris"}, 1.0),
        ({"path": "$.city"}, {"city": "Paris"}, "Paris", 1.0),
        ({"path": "$.city"}, {"city": "Paris"}, {"city": "Rome"}, 0.0),
    ],
)
def test_exact_match(configuration: Mapping[str, Any], actual: object, expected: object, score: float) -> None:
    """The string forms are compared as configured, at the path if there is one."""
    assert verdict("exact_match", configuration, outputs(actual, expected)).score == score


@pytest.mark.parametrize(
    "configuration, actual, expected, message",
    [
        ({}, None, "x", "bad_case: actualOutputs.output is missing; ACTUAL_OUTPUT is required"),
        ({}, "x", None, "bad_case: expectedOutputs.output is missing; EXPECTED_OUTPUT is required"),
        ({"path": "$.x"}, {"y": 1}, "x", "bad_case: actualOutputs.output: nothing at $[\"x\"]: there is no member 'x'"),
        ({"path": "$.x"}, "plain", "x", "cannot be entered in text that is not JSON"),
        ({"evaluationParams": ["INPUT"]}, "x", "x", "bad_case: inputs.input is missing; INPUT is required"),
    ],
)
def test_missing_values_are_failures(
    configuration: Mapping[str, Any], actual: object, expected: object, message: str
) -> None:
    """What a required value lacks is a failure that names it, never a score."""
    assert message in failure("exact_match", configuration, outputs(actual, expected))


@pytest.mark.parametrize(
    "configuration, actual, score",
    [
        ({"pattern": r"\d{4}-\d{2}-\d{2}"}, "on 2025-01-31.", 1.0),
        ({"pattern": r"\d{4}-\d{2}-\d{2}"}, "on 2025-1-31.", 0.0),
        ({"pattern": r"[A-Z0-9._%+-]+@[A-Z0-9.-]+\.[A-Z]{2,}", "ignoreCase": True}, "mail ann@example.org", 1.0),
        ({"pattern": r"[A-Z0-9._%+-]+@[A-Z0-9.-]+\.[A-Z]{2,}"}, "mail ann@example.org", 0.0),
        ({"pattern": ".*"}, "", 1.0),
        ({"pattern": r"^\d+$", "path": "$.id"}, {"id": 17}, 1.0),
    ],
)
def test_regex(configuration: Mapping[str, Any], actual: object, score: float) -> None:
    """The pattern is searched anywhere in the output."""
    assert verdict("regex", configuration, outputs(actual)).score == score


@pytest.mark.parametrize("text, score", [("a", 0.0), ("ab", 1.0), ("abcd", 1.0), ("abcde", 0.0), ("😀😀😀😀", 1.0)])
def test_length_counts_code_points_within_both_bounds(text: str, score: float) -> None:
    """Both bounds are allowed, and a character outside of the basic plane is one."""
    result = verdict("length", {"minimumOutputLength": 2, "maximumOutputLength": 4}, outputs(text))
    assert result.score == score
    assert result.metadata == {"length": len(text)}


INVOICE = {"id": "INV-1", "total": 42.0, "items": ["a", "b"]}


@pytest.mark.parametrize(
    "mode, expected, actual, score",
    [
        ("STRICT", INVOICE, '{"items": ["a", "b"], "total": 42, "id": "INV-1"}', 1.0),
        ("STRICT", INVOICE, INVOICE | {"total": 41}, 3 / 4),
        ("STRICT", INVOICE, INVOICE | {"items": ["b", "a"]}, 2 / 4),
        ("STRICT", INVOICE, INVOICE | {"extra": 1}, 4 / 5),
        ("STRICT", INVOICE, INVOICE | {"extra": {"x": 1, "y": [1, 2]}}, 4 / 7),
        ("STRICT", INVOICE, {"id": "INV-1"}, 1 / 4),
        ("STRICT", [1, 2], [1, 2, 3], 2 / 3),
        ("STRICT", {"a": None}, {}, 0.0),
        ("STRICT", {"a": None}, {"a": None}, 1.0),
        ("STRICT", {"a": {"b": 1}}, {"a": [1]}, 0.0),
        ("STRICT", {"a": {"b": 1, "c": 2}, "d": 1}, {"a": 5, "d": 1}, 1 / 2),
        ("STRICT", {"a": 1}, None, 0.0),
        ("STRICT", {}, {}, 1.0),
        ("STRICT", {"a": 1.0}, {"a": 1}, 1.0),
        ("STRICT", '{"a": 1e2}', {"a": 100}, 1.0),
        ("STRICT", '{"a": 0.1}', {"a": 0.1}, 1.0),
        ("STRICT", '{"a": 0.1}', '{"a": 0.10000000000000000001}', 0.0),
        ("STRICT", '{"a": 1e400}', '{"a": 10e399}', 1.0),
        ("STRICT", {"a": 1}, {"a": True}, 0.0),
        ("STRICT", {"a": 1}, {"a": "1"}, 0.0),
        ("STRICT", "5", 5.0, 1.0),
        ("LENIENT", INVOICE, INVOICE | {"items": ["c", "b", "a"], "extra": 1}, 1.0),
        ("LENIENT", {"a": [1, 1, 2]}, {"a": [1, 2]}, 2 / 3),
        ("LENIENT", {"a": None}, {}, 1.0),
        ("LENIENT", {}, {"a": None}, 1.0),
        ("LENIENT", {"a": None}, {"a": 0}, 0.0),
        ("LENIENT", {"a": 1}, {"a": None}, 0.0),
        ("LENIENT", [{"a": 1, "b": 2}, 3], [3, {"a": 1}], 1 / 3),
        ("LENIENT", [{}, 3], [3], 1 / 2),
        ("LENIENT", [{"a": 1}, {"a": 1, "b": 2}], [{"a": 1, "b": 2}, {"a": 1}], 1.0),
        ("LENIENT", [{"a": 1}, {"a": 1, "b": 2}], [{"a": 1, "b": 2}, {"a": 1, "c": 3}], 1.0),
        ("LENIENT", [{}, {"a": None}], [{}, {"a": 5}], 1.0),
    ],
)
def test_structural_match(mode: str, expected: object, actual: object, score: float) -> None:
    """Leaves are counted as the mode says; lenient arrays find the best pairing."""
    result = verdict("structural_match", {"mode": mode}, outputs(actual, expected))
    assert result.score == pytest.approx(score)
    binary = verdict("structural_match", {"mode": mode, "binary": True}, outputs(actual, expected))
    assert binary.score == float(score == 1)


def test_structural_match_names_the_places_that_differ() -> None:
    """Each difference is reported with its path, and a name that is not an identifier in brackets."""
    result = verdict("structural_match", {}, outputs({"a": [{"x y": 1}]}, {"a": [{"x y": 2}, 3]}))
    assert result.metadata["differences"] == [
        '$.a[0]["x y"]: expected 2 and it is 1',
        "$.a[1]: expected 3 and it is missing",
    ]
    assert result.reason == f"0 of 2 leaves match: {'; '.join(result.metadata['differences'])}."


@pytest.mark.parametrize(
    "configuration, actual, expected, message",
    [
        ({}, {"a": 1}, None, "bad_case: expectedOutputs.output is missing"),
        ({}, "not JSON", {"a": 1}, "bad_case: actualOutputs.output is not JSON"),
        ({}, {"a": 1}, '{"a": 1, "a": 2}', "the name 'a' occurs twice in one object"),
        ({}, '{"a": 1} and more', {"a": 1}, "bad_case: actualOutputs.output is not JSON: Extra data"),
        ({}, {"a": float("nan")}, {"a": 1}, "NaN is not JSON"),
        ({}, '{"a": Infinity}', {"a": 1}, "Infinity is not JSON"),
        ({}, "[" * 100_000, {"a": 1}, "bad_case: actualOutputs.output is not JSON: nested too deeply"),
        ({"outputKey": "result"}, {"a": 1}, {"a": 1}, "bad_case: expectedOutputs.result is missing"),
    ],
)
def test_what_is_no_structure_is_a_failure(
    configuration: Mapping[str, Any], actual: object, expected: object, message: str
) -> None:
    """Operands that are not JSON are failures that say which side is wrong."""
    assert message in failure("structural_match", configuration, outputs(actual, expected))


def test_structural_match_enters_a_path() -> None:
    """With a path one field is judged by itself, whether the whole or the field is expected."""
    actual = {"address": {"city": "Paris"}, "other": 1}
    for expected in ({"address": {"city": "Paris"}, "other": 2}, {"city": "Paris"}):
        assert verdict("structural_match", {"path": "$.address"}, outputs(actual, expected)).score == 1


def test_structural_match_that_expects_nothing_says_so() -> None:
    """A lenient match without a leaf to compare is vacuous, and a strict one of empty objects is a match."""
    case = outputs({"a": 1}, {})
    assert "nothing in particular is expected" in verdict("structural_match", {"mode": "LENIENT"}, case).reason
    assert "nothing in particular" in skip("structural_match", {"mode": "LENIENT", "whenVacuous": "SKIP"}, case)
    assert verdict("structural_match", {"whenVacuous": "FAIL"}, outputs({}, {})).success


def test_large_shuffled_arrays_are_matched_in_time() -> None:
    """Two thousand records in another order are all found, without comparing each with each."""
    records = [{"id": number, "tags": ["a", number]} for number in range(2000)]
    result = verdict("structural_match", {"mode": "LENIENT"}, outputs(records[::-1], records))
    assert result.score == 1


def test_reasons_stay_short() -> None:
    """A reason quotes the beginning of a long text only."""
    assert len(verdict("exact_match", {}, outputs(LONG, "x")).reason) < 200
    assert len(verdict("regex", {"pattern": "zzz"}, outputs(LONG)).reason) < 200
