"""Preview of a judge's prompt, without a call of the model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluators.case import parse_case
from evaluators.errors import EvaluationError
from evaluators.evaluator import run
from evaluators.judge_interface import PromptMessage, Reply
from evaluators.outcome import Failure
from evaluators.registry import build
from storage.records import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptPreview:
    """The first prompt of an evaluator for a test case, or the reason why there is none."""

    messages: tuple[PromptMessage, ...] = ()
    problem: str = ""

    def document(self) -> dict[str, Any]:
        """Return the preview as JSON."""
        messages = [{"role": one.role, "content": one.content} for one in self.messages]
        return {"messages": messages, "problem": self.problem or None}


class _NotCalled(EvaluationError):
    kind = "not_asked"


@dataclass(slots=True)
class _Listener:
    """Implementation of `Judge` that records the first prompt, and never answers."""

    model: str = ""
    parameters: Mapping[str, JsonValue] = field(default_factory=dict)
    heard: tuple[PromptMessage, ...] = ()

    async def __call__(self, messages: Sequence[PromptMessage], schemas: Mapping[str, JsonValue]) -> Reply:  # noqa: ARG002 - the protocol's
        self.heard = self.heard or tuple(messages)
        raise _NotCalled("no model is called")


async def preview_prompt(evaluator: str, configuration: Mapping[str, Any], case: Mapping[str, Any]) -> PromptPreview:
    """Render the first prompt of an evaluator's judge for a test case."""
    listener = _Listener()
    try:
        outcome = await run(build(evaluator, configuration, listener), parse_case(case))
    except EvaluationError as broken:
        return PromptPreview(problem=str(broken))
    if listener.heard:
        return PromptPreview(messages=listener.heard)
    problem = outcome.message if isinstance(outcome, Failure) else "it calls no judge for this case"
    return PromptPreview(problem=problem)
