"""The trajectory of a run or a conversation: demands on its tools, and its length beside the best run."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from evaluators.errors import BadConfiguration
from evaluators.outcome import Failure, Verdict
from evaluators.registry import build
from tests.evaluating import evaluate


def verdict(name: str, config: Mapping[str, Any], case: Mapping[str, Any]) -> Verdict:
    """Return the verdict of an evaluator."""
    outcome = evaluate(name, config, case)
    assert isinstance(outcome, Verdict), outcome
    return outcome


def called(*names: str) -> dict[str, Any]:
    """Return a case with these calls."""
    return {"actualOutputs": {"toolCalls": [{"name": name} for name in names]}}


def talk(*turns: Sequence[str]) -> dict[str, Any]:
    """Return a case of a conversation with these calls in its turns, the last in two messages of the assistant.

    A system message and a greeting come before the first.
    """
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Help."}, {"role": "assistant", "content": "Hello"}]
    for turn in turns:
        messages.append({"role": "user", "content": "?"})
        calls = [[{"name": name} for name in names] for names in (turn[:1], turn[1:])]
        messages += [{"role": "assistant", "content": "!", "toolCalls": each} for each in calls]
    return {"actualOutputs": {"trajectory": messages}}


@pytest.mark.parametrize(
    "config, names, score, violations",
    [
        ({"required": ["a", "b"]}, "ab", 1, []),
        ({"required": ["a", "b"]}, "a", 0.5, ["b was not called"]),
        ({"forbidden": ["x"]}, "ab", 1, []),
        ({"forbidden": ["x", "y"]}, "xax", 0.5, ["x was called 2 times"]),
        ({"order": ["a", "b", "c"]}, "aabc", 1, []),
        ({"order": ["a", "b", "c"]}, "a", 1, []),
        ({"order": ["a", "b", "c"]}, "bac", 0.5, ["b was called before a"]),
        ({"order": ["a", "b"]}, "b", 0, ["b was called before a"]),
        ({"required": ["a"], "forbidden": ["x"], "order": ["a", "b"]}, "xb", 0, None),
    ],
)
def test_demands_on_the_calls_of_a_run(
    config: Mapping[str, Any], names: str, score: float, violations: list[str] | None
) -> None:
    """Each required tool, each forbidden tool and each two neighbours of the order are one demand."""
    result = verdict("tool_policy", config, called(*names))
    assert result.score == score
    assert violations is None or result.metadata["violations"] == violations


def test_demands_on_each_turn() -> None:
    """A call in an earlier turn does not count in a later one, and a turn has several messages."""
    order = {"order": ["find", "pay"], "scope": "TURN"}
    assert verdict("tool_policy", order, talk(["find", "pay"], [], ["find"])).score == 1
    result = verdict("tool_policy", order, talk(["find", "pay"], ["pay"]))
    assert (result.score, result.metadata["violations"]) == (0.5, ["turn 2: pay was called before find"])
    every = verdict("tool_policy", {"required": ["find"], "scope": "TURN"}, talk(["find"], [], ["pay", "find"]))
    assert every.metadata["violations"] == ["turn 2: find was not called"]
    early = [{"role": "assistant", "content": "", "toolCalls": [{"name": "greet"}]}, {"role": "user", "content": "?"}]
    before = {"actualOutputs": {"trajectory": early}}
    missing = verdict("tool_policy", {"required": ["find"], "scope": "TURN"}, before)
    assert missing.metadata["violations"] == ["turn 1: find was not called", "turn 2: find was not called"]
    empty = verdict("tool_policy", {"required": ["find"], "scope": "TURN"}, {"actualOutputs": {"trajectory": []}})
    assert (empty.score, empty.reason) == (1, "There are no turns.")


@pytest.mark.parametrize(
    "config", [{}, {"order": ["a"]}, {"required": ["a"], "forbidden": ["a"]}, {"forbidden": ["a"], "scope": "DAY"}]
)
def test_a_policy_that_demands_nothing_or_the_impossible_is_refused(config: Mapping[str, Any]) -> None:
    """A configuration is refused before anything is judged by it."""
    with pytest.raises(BadConfiguration):
        build("tool_policy", config)


def test_efficiency_is_the_mean_of_what_both_tell() -> None:
    """Less than the best is as good as the best; what one side does not tell is not compared."""
    best = {"best": {"toolCalls": 2, "costUsd": 1}}
    assert verdict("efficiency", best, called("a", "b", "c", "d")).score == 0.5
    assert verdict("efficiency", best, called("a")).score == 1
    summary = {"metadata": {"traceSummary": {"costUsd": 4, "tokenUsage": {"input": 1, "output": 1}}}}
    assert verdict("efficiency", best, called("a", "b") | summary).score == (1 + 0.25) / 2
    turns = verdict("efficiency", {"best": {"turns": 1}}, talk(["a"], ["b"]) | {"metadata": {}})
    assert turns.score == 0.5
    case = called("a", "b") | {"expectedOutputs": {"bestRun": {"toolCalls": 0}}}
    assert verdict("efficiency", {}, case).score == 0


@pytest.mark.parametrize(
    "case, message",
    [
        (called("a"), "expectedOutputs.bestRun is missing"),
        (called("a") | {"expectedOutputs": {"bestRun": {"tokens": 5}}}, "none of the best run's numbers"),
        (called("a") | {"expectedOutputs": {"bestRun": {"tokens": -5}}}, "expectedOutputs.bestRun.tokens"),
        (called("a") | {"expectedOutputs": {"bestRun": 3}}, "expectedOutputs.bestRun"),
    ],
)
def test_a_best_run_that_cannot_be_compared_is_a_bad_case(case: Mapping[str, Any], message: str) -> None:
    """There is no score, neither a good nor a bad one."""
    outcome = evaluate("efficiency", {}, case)
    assert isinstance(outcome, Failure)
    assert outcome.kind == "bad_case"
    assert message in outcome.message
