"""Results of the calls: how many failed, and how many were redundant."""

import functools
import itertools
from collections.abc import Mapping
from typing import Any, Final

from pydantic import Field

from evaluators.arguments import MODES, AnyMatcher, ArgumentMatcher, members_of
from evaluators.captured import ARGUMENTS, NAMES_ONLY, is_blank, is_captured, is_whole
from evaluators.case import actual_calls
from evaluators.configuration import Flag, ReadsCalls
from evaluators.errors import NotCaptured
from evaluators.evaluator import Assessment, Check, EvaluatorKind, pure
from evaluators.model import Case, ToolCall
from evaluators.wire import WireModel, parse_json


class ErrorDetector(WireModel):
    """Text in a result that means that the call failed."""

    contains: str | tuple[str, ...] = Field(description="A text, or several of which one must match.")

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the texts that mark a failure."""
        return (self.contains,) if isinstance(self.contains, str) else self.contains


class ToolError(ReadsCalls):
    """Settings of `tool_error`: the conditions of a failed call."""

    treat_blank_as_error: Flag = Field(
        default=True,
        description="A recorded result that is blank is a failure; in a test case, so is a missing result.",
    )
    detect_json_error_field: Flag = Field(
        default=True,
        description='A JSON object with an "error" is a failed result, unless the error is null, false, 0 or empty.',
    )
    error_detector: ErrorDetector | None = Field(default=None, description="Further conditions of a failure.")


class ToolEfficiency(ReadsCalls):
    """Settings of `tool_efficiency`: the conditions of a repeated call."""

    argument_matcher: AnyMatcher = Field(
        default_factory=ArgumentMatcher,
        description="The comparison of arguments with those of earlier calls of the tool.",
    )


def tool_error(settings: ToolError) -> Check:
    """Compute the share of calls that succeeded."""
    texts = settings.error_detector.texts if settings.error_detector else ()

    def why(call: ToolCall) -> str | None:
        if _has_failed(call):
            return "its span has an error"
        if is_blank(call):
            return "no result" if settings.treat_blank_as_error else None
        if settings.detect_json_error_field and _has_error(call.result):
            return 'the result has an "error"'
        result_text = (call.result_text or "") if texts else ""
        return next((f"the result contains {text!r}" for text in texts if text in result_text), None)

    def check(case: Case) -> Assessment:
        calls = actual_calls(case, settings.path, settings.tool_calls_key, reads=NAMES_ONLY)
        if not calls:
            return Assessment(score=1.0, reason="There are no tool calls that could have failed.", vacuous=True)
        known = [(index, call) for index, call in enumerate(calls) if is_captured(call, "result") or _has_failed(call)]
        if not known:
            raise NotCaptured("the results of the tool calls")
        failed = [
            {"index": index, "toolName": call.name, "reason": reason}
            for index, call in known
            if (reason := why(call)) is not None
        ]
        reasons = "; ".join(f"{failure['toolName']}: {failure['reason']}" for failure in failed)
        reason = f"{len(known) - len(failed)} of {len(known)} tool calls succeeded{': ' * bool(reasons)}{reasons}."
        unknown = len(calls) - len(known)
        return Assessment(
            score=(len(known) - len(failed)) / len(known),
            reason=f"{reason} Of {unknown} more the result was not captured." if unknown else reason,
            metadata={"totalCalls": len(calls), "failedCalls": failed} | ({"notCaptured": unknown} if unknown else {}),
            by_less=not all(map(is_whole, calls)),
        )

    return pure(check)


def tool_efficiency(settings: ToolEfficiency) -> Check:
    """Compute the share of calls that repeat no earlier call."""
    fold = settings.argument_matcher.fold
    matches = MODES[settings.argument_matcher.mode]
    reads = NAMES_ONLY if settings.argument_matcher.mode == "IGNORE" else ARGUMENTS

    def check(case: Case) -> Assessment:
        calls = actual_calls(case, settings.path, settings.tool_calls_key, reads=reads)
        if not calls:
            return Assessment(score=1.0, reason="There are no tool calls that could be needless.", vacuous=True)
        members = functools.cache(lambda index: members_of(calls[index].arguments, fold))
        first: dict[str, list[int]] = {}  # by tool, the calls that repeat no earlier one
        redundant = []
        for index, call in enumerate(calls):
            known = first.setdefault(call.name, [])
            if any(matches(members(earlier), members(index)) for earlier in known):
                redundant.append(call.name)
            else:
                known.append(index)
        in_a_row = [
            matches(members(index), members(index + 1))
            for index, (one, other) in enumerate(itertools.pairwise(calls))
            if one.name == other.name
        ]
        distinct = len(calls) - len(redundant)
        metadata = {
            "totalCalls": len(calls),
            "distinctCalls": distinct,
            "redundantCalls": redundant,
            "consecutiveDuplicates": in_a_row.count(True),
        }
        repeated = f"; repeated: {', '.join(redundant)}" * bool(redundant)
        reason = f"{distinct} of {len(calls)} tool calls are distinct{repeated}."
        return Assessment(score=distinct / len(calls), reason=reason, metadata=metadata)

    return pure(check)


def _has_failed(call: ToolCall) -> bool:
    return call.metadata.get("isError") is True


def _has_error(result: object) -> bool:
    """Return True if the result is an object with an `error`, or its JSON text.

    An `error` that is null, false, 0 or empty means success: some APIs have the field in each reply.
    """
    if isinstance(result, str):
        if not result.lstrip().startswith("{") or not ('"error"' in result or "\\u" in result):
            return False  # no such object, and no need to parse
        try:
            result = parse_json(result)
        except ValueError:
            return False
    error = result.get("error") if isinstance(result, Mapping) else None
    return bool(error.strip() if isinstance(error, str) else error)


KINDS: Final[tuple[EvaluatorKind[Any], ...]] = (
    EvaluatorKind(
        name="tool_error",
        title="Tool Error",
        version=4,
        checks="The agent's tool calls succeeded.",
        reads=("actualOutputs.toolCalls",),
        configuration=ToolError,
        check=tool_error,
    ),
    EvaluatorKind(
        name="tool_efficiency",
        title="Tool Efficiency",
        version=3,
        checks="No tool call repeats an earlier one.",
        reads=("actualOutputs.toolCalls",),
        configuration=ToolEfficiency,
        check=tool_efficiency,
    ),
)
