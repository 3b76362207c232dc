"""Precision and recall, and the strategies that say when a retrieved item is a relevant one."""

from collections.abc import Mapping
from typing import Any

import pytest

from evaluators.errors import BadConfiguration
from evaluators.registry import build
from tests.evaluating import ScriptedJudge, evaluate, failure, verdict

TRIPLE = {"subject": "Bill Gates", "predicate": "founded", "object": "Microsoft"}
OTHER = {"subject": "Paul Allen", "predicate": "co-founded", "object": "Microsoft"}


def items(retrieved: object, relevant: object) -> dict[str, Any]:
    """Return a case with retrieved and relevant items."""
    return {"actualOutputs": {"retrieved": retrieved}, "expectedOutputs": {"relevant": relevant}}


@pytest.mark.parametrize(
    "retrieved, relevant, precision, recall",
    [
        (["doc_1", "doc_2", "doc_3"], ["doc_1", "doc_3", "doc_5"], 2 / 3, 2 / 3),
        (["a", "a", "a", "b"], ["a"], 1 / 2, 1.0),
        (["a"], ["a", "a", "b"], 1.0, 1 / 2),
        ([], ["a"], 1.0, 0.0),
        (["a"], [], 0.0, 1.0),
        ([], [], 1.0, 1.0),
        ("a", ["a", "b"], 1.0, 1 / 2),
        ([1, 1.0, True], [1], 1 / 2, 1.0),
        ([{"b": 1, "a": [1]}], [{"a": [1.0], "b": 1}], 1.0, 1.0),
    ],
)
def test_precision_and_recall(retrieved: object, relevant: object, precision: float, recall: float) -> None:
    """Both are shares of distinct items, and of nothing everything is right."""
    case = items(retrieved, relevant)
    assert verdict("precision", {}, case).score == pytest.approx(precision)
    assert verdict("recall", {}, case).score == pytest.approx(recall)


def test_precision_of_triples() -> None:
    """Keys and strategy of the configuration are used."""
    case = {"actualOutputs": {"triples": [TRIPLE]}, "expectedOutputs": {"relevantTriples": [TRIPLE, OTHER]}}
    configuration = {
        "retrievedKey": "triples",
        "expectedKey": "relevantTriples",
        "matchingStrategy": {"type": "byFields", "fields": ["subject", "predicate", "object"]},
    }
    assert verdict("precision", configuration, case).score == 1
    assert verdict("recall", configuration, case).score == 1 / 2


def test_counts_are_in_the_metadata() -> None:
    """Precision counts distinct retrieved items, recall distinct relevant ones."""
    case = items(["a", "a", "b"], ["a", "c", "c"])
    assert verdict("precision", {}, case).metadata == {"retrieved": 2, "relevant": 3, "truePositives": 1}
    assert verdict("recall", {}, case).metadata == {"retrieved": 3, "relevant": 2, "truePositives": 1}


@pytest.mark.parametrize("name, vacuous", [("precision", items([], ["a"])), ("recall", items(["a"], []))])
def test_nothing_to_check_is_said(name: str, vacuous: Mapping[str, Any]) -> None:
    """A score of nothing says that there was nothing."""
    assert "othing" in verdict(name, {}, vacuous).reason
    assert not verdict(name, {"whenVacuous": "FAIL"}, vacuous).success


@pytest.mark.parametrize("part", ["actualOutputs", "expectedOutputs"])
def test_missing_items_are_a_failure(part: str) -> None:
    """A missing key is a failure, and not an empty list."""
    case = items(["a"], ["a"])
    assert failure("precision", {}, case | {part: {}}).endswith(" is missing")
    assert failure("recall", {}, case | {part: {}}).endswith(" is missing")


@pytest.mark.parametrize(
    "strategy, one, other, matches",
    [
        ("byEquality", "a", "A", False),
        ("byEquality", {"a": 5}, {"a": 5.0}, True),
        ("caseInsensitive", "Straße", "STRASSE", True),
        ("caseInsensitive", {"a": "x"}, {"a": "X"}, False),
        ({"type": "byField", "field": "id"}, {"id": 1, "t": "x"}, {"id": 1, "t": "y"}, True),
        ({"type": "byField", "field": "id"}, {"id": 1}, 1, True),
        ({"type": "byField", "field": "id"}, {"t": "x"}, {"t": "y"}, False),
        ({"type": "byField", "field": "id"}, {"t": "x"}, {"t": "x"}, True),
        ({"type": "byFields", "fields": ["a", "b"]}, {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2}, True),
        ({"type": "byFields", "fields": ["a", "b"]}, {"a": 1, "b": 2}, {"a": 1, "b": 3}, False),
        ({"type": "byFields", "fields": ["a", "b"]}, {"c": 1}, {"c": 2}, False),
        ({"type": "byFields", "fields": ["a"]}, "x", "x", True),
        ("byContainment", "the whole chunk", "whole", True),
        ("byContainment", "whole", "the whole chunk", True),
        ("byContainment", "Whole", "the whole  chunk", False),
        ({"type": "byContainment", "normalize": True}, "WHOLE\n chunk", "the whole  chunk", True),
        ("byContainment", "", "anything", False),
        ("byContainment", 1, 1, True),
        ({"type": "anyOf", "strategies": ["caseInsensitive", {"type": "byField", "field": "id"}]}, "A", "a", True),
        ({"type": "allOf", "strategies": ["caseInsensitive", "byContainment"]}, "A", "a", False),
        ({"type": "allOf", "strategies": ["caseInsensitive", "byContainment"]}, "a", "a", True),
    ],
)
def test_strategies(strategy: object, one: object, other: object, matches: bool) -> None:  # noqa: FBT001 - a parameter
    """Each strategy matches as documented, in both directions."""
    configuration = {"matchingStrategy": strategy}
    for case in (items([one], [other]), items([other], [one])):
        assert verdict("precision", configuration, case).score == float(matches)
        assert verdict("recall", configuration, case).score == float(matches)


@pytest.mark.parametrize(
    "strategy, message",
    [
        ({"type": "byField"}, "matchingStrategy: byField needs field"),
        ({"type": "anyOf"}, "matchingStrategy: anyOf needs strategies"),
        ({"type": "byEquality", "field": "id"}, "matchingStrategy: byEquality does not use field"),
        ({"type": "equality"}, "matchingStrategy.type: input should be 'byEquality'"),
        ({"type": "anyOf", "strategies": [{"type": "byFields"}]}, "strategies[0]: byFields needs fields"),
        ({"typ": "byField"}, "matchingStrategy.typ: unknown key"),
    ],
)
def test_strategies_that_cannot_be_used_are_refused(strategy: object, message: str) -> None:
    """A strategy that lacks a needed key, or has an unused one, is refused with its path."""
    with pytest.raises(BadConfiguration) as refused:
        build("recall", {"matchingStrategy": strategy})
    assert message in str(refused.value)


def test_judge_decides_what_is_not_equal() -> None:
    """The judge is asked about pairs that differ, with both items, and its cost is reported."""
    judge = ScriptedJudge({"match": False}, {"match": True})
    result = verdict("recall", {"matchingStrategy": "llmBased"}, items(["a", "sea", "lake"], ["a", "ocean"]), judge)
    assert result.score == 1
    assert result.usage is not None
    assert result.usage.calls == 2
    assert "\nsea\n" in judge.questions[1]
    assert "\nocean\n" in judge.questions[1]


def test_judge_is_asked_only_where_cheaper_strategies_decide_nothing() -> None:
    """A strategy that is combined with others is asked in their order."""
    judge = ScriptedJudge()
    strategy = {"type": "anyOf", "strategies": ["caseInsensitive", "llmBased"]}
    assert verdict("recall", {"matchingStrategy": strategy}, items(["A"], ["a"]), judge).score == 1


@pytest.mark.parametrize("answer, score", [("yes", 1.0), ("No", 0.0), (True, 1.0)])
def test_judge_may_answer_in_words(answer: bool | str, score: float) -> None:  # noqa: FBT001 - a parameter
    """Yes and no are understood."""
    judge = ScriptedJudge({"match": answer})
    assert verdict("precision", {"matchingStrategy": "llmBased"}, items(["a"], ["b"]), judge).score == score


def test_judge_that_says_neither_is_a_failure() -> None:
    """An answer that is neither yes nor no is not a verdict."""
    judge = ScriptedJudge({"match": "perhaps"})
    error = failure("precision", {"matchingStrategy": "llmBased"}, items(["a"], ["b"]), judge)
    assert error == "bad_reply: the judge's match is neither true nor false: 'perhaps'"


def test_strategy_that_asks_needs_a_judge() -> None:
    """Without a judge the strategy is refused when it is configured, not when it is asked."""
    with pytest.raises(BadConfiguration, match="precision: needs a judge"):
        evaluate("precision", {"matchingStrategy": {"type": "allOf", "strategies": ["llmBased"]}}, {})
