"""Tool call validity: does every call fit the definition of its tool."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import Field

from evaluators.captured import NAMES_ONLY, is_captured, is_whole
from evaluators.case import actual_calls, find, offered_tools
from evaluators.configuration import Flag, ReadsCalls, ReadsTools
from evaluators.errors import BadCase, NotCaptured, NotRead
from evaluators.evaluator import Assessment, Check, EvaluatorKind, pure
from evaluators.model import Case, ToolCall, ToolDefinition
from evaluators.tool_schema import BadSchema, compile_schema

_SHOWN_ERRORS = 5
"""A reason lists this many errors, and the metadata all. A guess."""


class ToolCallValidity(ReadsCalls, ReadsTools):
    """Settings of `tool_call_validity`."""

    strict_mode: Flag = Field(
        default=False, description="Refuse arguments that the schema does not name, even where it would allow them."
    )


def tool_call_validity(settings: ToolCallValidity) -> Check:
    """Compute the share of calls that name an existing tool, with arguments that fit its schema."""
    cached_tools: object = None  # of the last case: a rule with `tools` passes the same object for each case
    errors_of: _Checker | None = None

    def check(case: Case) -> Assessment:
        nonlocal cached_tools, errors_of
        calls = actual_calls(case, settings.path, settings.tool_calls_key, reads=NAMES_ONLY)
        tools = find(case, "metadata", settings.tools_key)
        if tools is None and not calls:  # a chat without tools has no definitions of them
            return _nothing({"validationResults": []})
        if errors_of is None or tools is not cached_tools:
            cached_tools, errors_of = tools, _Checker(_tools_of(case, settings.tools_key), strict=settings.strict_mode)
        every, unknown = calls, [call for call in calls if not is_captured(call, "arguments") and errors_of.knows(call)]
        calls = tuple(call for call in calls if call not in unknown) if unknown else calls
        if every and not calls:
            raise NotCaptured("the arguments of the tool calls")
        errors = [errors_of(call) for call in calls]
        valid = errors.count([])
        results = [
            {"toolName": call.name, "valid": not each, "errors": each} for call, each in zip(calls, errors, strict=True)
        ]
        metadata: dict[str, Any] = {"validationResults": results} | ({"notCaptured": len(unknown)} if unknown else {})
        if not calls:
            return _nothing(metadata)
        listed = [f"{call.name}: {error}" for call, each in zip(calls, errors, strict=True) for error in each]
        reason = _reason(valid, len(calls), listed)
        return Assessment(
            score=valid / len(calls),
            reason=f"{reason} Of {len(unknown)} more the arguments were not captured." if unknown else reason,
            metadata=metadata,
            by_less=not all(map(is_whole, every)),
        )

    return pure(check)


def _tools_of(case: Case, key: str) -> Mapping[str, ToolDefinition]:
    try:
        return {tool.name: tool for tool in offered_tools(case, key=key)}
    except NotRead:
        raise
    except NotCaptured:
        raise NotCaptured(
            "the definitions of the tools: add `tools` to the rule, each with name and inputSchema"
        ) from None


def _nothing(metadata: dict[str, Any]) -> Assessment:
    return Assessment(score=1.0, reason="There are no tool calls to check.", metadata=metadata, vacuous=True)


class _Checker:
    """Checker of calls of these tools."""

    def __init__(self, tools: Mapping[str, ToolDefinition], *, strict: bool) -> None:
        self._tools = tools
        self._strict = strict
        self._compiled: dict[str, Callable[[object], list[str]]] = {}

    def knows(self, call: ToolCall) -> bool:
        """Return whether a tool of this name is defined."""
        return call.name in self._tools

    def __call__(self, call: ToolCall) -> list[str]:
        tool = self._tools.get(call.name)
        if tool is None:
            return [f"unknown tool; there are: {', '.join(self._tools) or 'none'}"]
        if not isinstance(call.arguments, Mapping):
            return ["the arguments are not an object"]
        schema = True if tool.input_schema is None else tool.input_schema
        try:
            if call.name not in self._compiled:
                self._compiled[call.name] = compile_schema(schema).errors
            errors = self._compiled[call.name](call.arguments)
        except BadSchema as error:
            raise BadCase(f"metadata.tools: the inputSchema of {call.name} is not a JSON Schema: {error}") from None
        return errors + (_unexpected(call.arguments, schema) if self._strict else [])


def _unexpected(arguments: Mapping[str, Any], schema: Mapping[str, Any] | bool) -> list[str]:  # noqa: FBT001 - true and false are schemas
    """Return arguments that a schema does not name, unless it names none, or forbids others itself."""
    if isinstance(schema, bool) or schema.get("additionalProperties") is False:
        return []
    named = schema.get("properties")
    if not named:
        return []
    return [f"{name}: not named by the schema, and strictMode is on" for name in arguments if name not in named]


def _reason(valid: int, calls: int, errors: list[str]) -> str:
    if not errors:
        return f"All {calls} tool calls are valid."
    more = f"; and {len(errors) - _SHOWN_ERRORS} more" if len(errors) > _SHOWN_ERRORS else ""
    return f"{valid} of {calls} tool calls are valid. {'; '.join(errors[:_SHOWN_ERRORS])}{more}."


KINDS: Final[tuple[EvaluatorKind[Any], ...]] = (
    EvaluatorKind(
        name="tool_call_validity",
        title="Tool Call Validity",
        version=2,
        checks="Every call names a tool that the agent has, with arguments that its JSON Schema allows.",
        reads=("actualOutputs.toolCalls", "metadata.tools"),
        configuration=ToolCallValidity,
        check=tool_call_validity,
    ),
)
