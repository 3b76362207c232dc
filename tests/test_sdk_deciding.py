"""Functions that detect errors and match arguments and items for the program's evaluators; and juries of functions."""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tracejury import Builtin, Dataset, Example, Experiment, Score, ToolCall, evaluator

COMMAND = (str(Path(sys.executable).parent / "tracejury"), "evaluate", "--batch", "-")

ANY = {"matchMode": "ANY_ORDER"}


def scored(name: str, config: Mapping[str, Any], outputs: Mapping[str, Any], **expected: Any) -> Score:
    """Return the score of outputs."""
    example = Example(inputs={"input": "q"}, expected_outputs=expected)
    result = Experiment("e", Dataset("d", [example]), lambda _: outputs, [Builtin(name, config, command=COMMAND)]).run()
    return next(iter(result.items[0].scores))


def calls(*arguments: Any, name: str = "search") -> list[dict[str, Any]]:
    """Return calls of a tool."""
    return [{"name": name, "arguments": each} for each in arguments]


@pytest.mark.parametrize("key", ["errorDetector", "error_detector"])
def test_a_function_detects_errors(key: str) -> None:
    """It is given the text of each result that is not blank, on top of what else is a failure."""
    texts: list[str] = []

    def detector(text: str) -> bool:
        texts.append(text)
        return "HTTP 500" in text

    outputs = {
        "toolCalls": [
            ToolCall(name="get", result="HTTP 500"),
            ToolCall(name="get", result={"a": 1}),
            ToolCall(name="get", result=" "),
        ]
    }
    score = scored("tool_error", {key: detector}, outputs)
    assert score.value == pytest.approx(1 / 3)
    assert (score.error, texts) == (None, ["HTTP 500", '{"a":1}'])


def near(expected: Any, actual: Any) -> bool:
    """Match numbers that are close, which is not transitive."""
    return bool(abs(expected["n"] - actual["n"]) < 2)


@pytest.mark.parametrize(
    "name, config, value",
    [
        ("tool_trajectory", {"matchMode": "STRICT", "argumentMatcher": near}, 1.0),
        ("tool_trajectory", ANY | {"argumentMatchers": {"search": near}}, 1.0),
        ("tool_trajectory", ANY | {"argumentMatcher": near, "argumentMatchers": {"search": "EXACT"}}, 0.5),
        ("tool_trajectory", ANY | {"argumentMatcher": lambda _, actual: actual["n"] > 2}, 0.5),
        ("tool_correctness", {"matchMode": "NAMES_AND_ARGS", "argument_matcher": near}, 1.0),
    ],
)
def test_a_function_matches_arguments(name: str, config: Mapping[str, Any], value: float) -> None:
    """It is given the expected and the actual arguments of calls of one tool; a matcher of the tool comes before it."""
    made, expected = calls({"n": 1}, {"n": 3}), calls({"n": 2}, {"n": 3})
    score = scored(name, config, {"toolCalls": made}, toolCalls=expected)
    assert (score.value, score.error) == (value, None)


def test_a_function_finds_repeated_calls() -> None:
    """A call that matches an earlier one of its tool is needless."""
    made = [*calls({"n": 1}, {"n": 2}, {"n": 9}), *calls({"n": 1}, name="other")]
    assert scored("tool_efficiency", {"argumentMatcher": near}, {"toolCalls": made}).value == 0.75


@pytest.mark.parametrize("name, value", [("precision", 2 / 3), ("recall", 0.5)])
def test_a_function_matches_items(name: str, value: float) -> None:
    """It is given a retrieved and an expected item; the same item counts once, and matches its like unasked."""
    pairs: list[tuple[Any, Any]] = []

    def strategy(retrieved: Any, expected: Any) -> bool:
        pairs.append((retrieved, expected))
        return str(retrieved).startswith(str(expected))

    retrieved, relevant = ["a1", "a1", "x", {"id": 7}], ["a", {"id": 7}, "b", "bb"]
    score = scored(name, {"matchingStrategy": strategy}, {"retrieved": retrieved}, relevant=relevant)
    assert score.value == pytest.approx(value)
    assert score.error is None
    assert ({"id": 7}, {"id": 7}) not in pairs


def test_scores_of_one_version_of_a_function_are_comparable() -> None:
    """Its name and version are part of the fingerprint."""

    def by(version: str) -> str | None:
        function = evaluator(name="near", version=version)(partial(near))
        made = {"toolCalls": calls({"n": 1})}
        return scored("tool_trajectory", {"argumentMatcher": function}, made, toolCalls=calls({"n": 1})).fingerprint

    assert by("1") == by("1") != by("2")


def test_a_function_that_decides_nothing_is_a_failed_evaluation() -> None:
    """A coroutine, as truthy as it is, is not a decision."""

    async def detector(_: str) -> bool:
        return False

    config: dict[str, Callable[[str], Any]] = {"errorDetector": lambda text: detector(text).close()}
    score = scored("tool_error", config, {"toolCalls": [{"name": "get", "result": "x"}]})
    assert "returns True or False, not NoneType" in str(score.error)


@pytest.mark.parametrize(
    "name, config, message",
    [
        ("exact_match", {"errorDetector": near}, "errorDetector: exact_match calls no function here"),
        ("precision", {"matchingStrategy": {"type": "anyOf", "strategies": [near]}}, r"strategies\[0\]: precision"),
        ("tool_error", {"errorDetector": near, "path": "$.a"}, "path: not allowed with a function"),
    ],
)
def test_a_function_where_none_is_called_is_refused(name: str, config: Mapping[str, Any], message: str) -> None:
    """The reason is said when the evaluator is made, as is that the server calls none."""
    with pytest.raises(ValueError, match=message):
        Builtin(name, config, command=COMMAND)
    with pytest.raises(ValueError, match="errorDetector: the server cannot call a function"):
        Builtin("tool_error", {"errorDetector": near}, on="server")


def judge(score: float) -> Callable[[str], str]:
    """Return a judge of one opinion."""
    return evaluator(name=f"always {score}")(lambda _: json.dumps({"reason": f"it is {score}", "score": score}))


def test_functions_are_a_jury() -> None:
    """The verdict in the middle counts, with the share of judges that agree with it; an even number is refused."""
    config = {"criteria": "Is it right?", "judge": [judge(0.9), judge(0.1), judge(0.8)]}
    score = scored("llm_judge", config, {"output": "Paris"})
    assert (score.value, score.reason) == (0.8, "2 of 3 judges agree. it is 0.8")
    assert [each["model"] for each in (score.metadata or {})["judges"]] == ["always 0.9", "always 0.1", "always 0.8"]
    even = scored("llm_judge", config | {"judge": [judge(0.9), judge(0.1)]}, {"output": "Paris"})
    assert "2 judges, which may be equally divided" in str(even.error)
    with pytest.raises(ValueError, match="judge: the server cannot call a function"):
        Builtin("llm_judge", config, on="server")


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError(), GeneratorExit(), ValueError("x")])
@pytest.mark.parametrize(
    "name, key", [("tool_error", "errorDetector"), ("tool_efficiency", "argumentMatcher"), ("llm_judge", "judge")]
)
def test_whatever_a_function_raises_fails_its_evaluation(name: str, key: str, error: BaseException) -> None:
    """An exception that would end the program ends no run: the evaluation has failed, and its error names it."""

    def raising(*_: Any) -> Any:
        raise error

    calls = [{"name": "f", "arguments": {}, "result": "r"}] * 2
    config = {key: raising, **({"criteria": "Is it right?"} if key == "judge" else {})}
    cases = Dataset("d", [Example(id="a", inputs={"input": "x"})])
    built = Builtin(name, config, command=COMMAND)
    (item,) = Experiment("e", cases, lambda _: {"output": "x", "toolCalls": calls}, [built]).run().items
    assert item.outcome == "not_evaluated"
    assert f"{type(error).__name__}:" in str(item.scores[0].error)
