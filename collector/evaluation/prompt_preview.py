"""What a judge would be asked, without asking it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluators.case import parse_case
from evaluators.errors import Broken
from evaluators.evaluator import run
from evaluators.judging import PromptMessage, Reply
from evaluators.outcome import Failure
from evaluators.registry import build
from storage.records import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptPreview:
    """The first question of an evaluator about a test case; or why it asks none."""

    messages: tuple[PromptMessage, ...] = ()
    problem: str = ""

    def document(self) -> dict[str, Any]:
        """As JSON."""
        messages = [{"role": one.role, "content": one.content} for one in self.messages]
        return {"messages": messages, "problem": self.problem or None}


class _NotAsked(Broken):
    kind = "not_asked"


@dataclass(slots=True)
class _Listener:
    """Implements `Judge`: hears the first question, and answers none."""

    model: str = ""
    parameters: Mapping[str, JsonValue] = field(default_factory=dict)
    heard: tuple[PromptMessage, ...] = ()

    async def __call__(self, messages: Sequence[PromptMessage], schemas: Mapping[str, JsonValue]) -> Reply:  # noqa: ARG002 - the protocol's
        self.heard = self.heard or tuple(messages)
        raise _NotAsked("nobody is asked")


async def preview_prompt(evaluator: str, configuration: Mapping[str, Any], case: Mapping[str, Any]) -> PromptPreview:
    """The first question that an evaluator with a judge would ask about a test case."""
    listener = _Listener()
    try:
        outcome = await run(build(evaluator, configuration, listener), parse_case(case))
    except Broken as broken:
        return PromptPreview(problem=str(broken))
    if listener.heard:
        return PromptPreview(messages=listener.heard)
    told = outcome.message if isinstance(outcome, Failure) else "it asks no judge about this"
    return PromptPreview(problem=told)
