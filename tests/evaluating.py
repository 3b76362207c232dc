"""Evaluations in one line, for tests."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from evaluators.case import parse_case
from evaluators.evaluator import run
from evaluators.judge_interface import Judge, PromptMessage, Reply
from evaluators.outcome import Failure, Outcome, Skipped, Usage, Verdict
from evaluators.registry import build
from storage.records import JsonValue

USAGE = Usage(calls=1, model="judge-1", input_tokens=10, output_tokens=2, cost_usd=None, latency_ms=5.0)


class ScriptedJudge:
    """A judge that gives prepared answers in turn, and records the prompts."""

    model = "judge-1"
    parameters: Mapping[str, JsonValue] = {}

    def __init__(self, *answers: Mapping[str, JsonValue]) -> None:
        self.answers = list(answers)
        self.questions: list[str] = []

    async def __call__(self, messages: Sequence[PromptMessage], schemas: Mapping[str, JsonValue]) -> Reply:
        """Give the next answer."""
        self.questions.append("\n".join(message.content for message in messages))
        assert schemas
        return Reply(fields=self.answers.pop(0), usage=USAGE)


def evaluate(
    name: str, configuration: Mapping[str, Any], case: Mapping[str, Any], judge: Judge | None = None
) -> Outcome:
    """Evaluate the case, which is a document as on the wire."""
    return asyncio.run(run(build(name, configuration, judge), parse_case(case)))


def verdict(
    name: str, configuration: Mapping[str, Any], case: Mapping[str, Any], judge: Judge | None = None
) -> Verdict:
    """Evaluate; return the outcome, which must be a verdict."""
    outcome = evaluate(name, configuration, case, judge)
    assert isinstance(outcome, Verdict), outcome
    return outcome


def failure(name: str, configuration: Mapping[str, Any], case: Mapping[str, Any], judge: Judge | None = None) -> str:
    """Return kind and message of the outcome, which must be a failure."""
    outcome = evaluate(name, configuration, case, judge)
    assert isinstance(outcome, Failure), outcome
    return f"{outcome.kind}: {outcome.message}"


def skip(name: str, configuration: Mapping[str, Any], case: Mapping[str, Any]) -> str:
    """Return the reason why the evaluator skipped the case; fail if it did not."""
    outcome = evaluate(name, configuration, case)
    assert isinstance(outcome, Skipped), outcome
    return outcome.reason


def outputs(actual: object, expected: object = None) -> dict[str, Any]:
    """Return a case with an actual and an expected output."""
    return {"actualOutputs": {"output": actual}, "expectedOutputs": {"output": expected}}


def call(name: str, arguments: object = None, **more: object) -> dict[str, Any]:
    """Return a tool call as on the wire."""
    return {"name": name, "arguments": {} if arguments is None else arguments, **more}


def called(
    *actual: str | Mapping[str, Any], expected: Sequence[str | Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """Return a case with these calls and, if any, expected calls; a name is a call without arguments."""
    case: dict[str, Any] = {"actualOutputs": {"toolCalls": _calls(actual)}}
    return case if expected is None else case | {"expectedOutputs": {"toolCalls": _calls(expected)}}


def _calls(calls: Sequence[str | Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [call(one) if isinstance(one, str) else one for one in calls]
