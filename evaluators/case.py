"""Reading of test cases by evaluators. Errors name missing and malformed parts by their JSON keys."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from evaluators.captured import (
    MARKS,
    CallContent,
    missing,
    require_captured,
    require_part,
)
from evaluators.configuration import Parameter
from evaluators.errors import BadCase, EvaluationError
from evaluators.model import Case, Conversation, ToolCall, ToolDefinition, text_of
from evaluators.path import Path, PathNotFound
from evaluators.wire import explain, parse_json

Item = TypeVar("Item", ToolCall, ToolDefinition)

_LISTS: dict[type[Any], TypeAdapter[Any]] = {
    ToolCall: TypeAdapter(tuple[ToolCall, ...]),
    ToolDefinition: TypeAdapter(tuple[ToolDefinition, ...]),
}
_PARAMETERS: dict[Parameter, tuple[tuple[str, str], ...]] = {
    "INPUT": (("inputs", "input"),),
    "ACTUAL_OUTPUT": (("actual_outputs", "output"),),
    "EXPECTED_OUTPUT": (("expected_outputs", "output"),),
    "TOOL_CALLS": (("actual_outputs", "toolCalls"),),
    "TOOLS": (("metadata", "tools"),),
    "CONTEXT": (
        ("actual_outputs", "context"),
        ("metadata", "context"),
        ("inputs", "context"),
        ("actual_outputs", "retrievalContext"),
    ),
    "CONVERSATION": (("actual_outputs", "trajectory"),),
    "METADATA": (),
}
"""The keys of each part; the first with a value counts. METADATA is all metadata except for other parts and `MARKS`."""
_EXPECTED = "expected_outputs"
_WIRE_NAMES = {"actual_outputs": "actualOutputs", "expected_outputs": "expectedOutputs"}
_OTHER_SPELLINGS = {
    "toolCalls": "tool_calls",
    "reasoningSteps": "reasoning_steps",
    "traceSummary": "trace_summary",
    "toolCallsCount": "tool_calls_count",
    "toolCallsOrder": "tool_calls_order",
    "toolOutputs": "tool_outputs",
}


def require(case: Case, parameters: Sequence[Parameter]) -> None:
    """Refuse a case that lacks one of these parameters.

    Raises:
        NotCaptured: the trace did not record one.
        InTrace: the trace, which was not read yet, may supply one.
        BadCase: a required part is missing or null.
    """
    for parameter in parameters:
        if find_part(case, parameter) is None:
            part, key = next(iter(_PARAMETERS[parameter]), ("metadata", ""))
            place = f"{_WIRE_NAMES.get(part, part)}.{key}".rstrip(".")
            raise _missing(case, part, key, f"{place} is missing; {parameter} is required")


def find_part(case: Case, parameter: Parameter) -> Any:  # noqa: ANN401 - the user's value
    """Return a part of a test case; None if it has none."""
    if parameter == "METADATA":
        shown = {key: each for key, each in case.metadata.items() if key not in MARKS}
        others = {key for places in _PARAMETERS.values() for part, key in places if part == "metadata"}
        # If the metadata holds only other parts, such as a context, return these rather than nothing.
        return {key: value for key, value in shown.items() if key not in others} or shown or None
    values = (find(case, part, key) for part, key in _PARAMETERS[parameter])
    return next((value for value in values if value is not None), None)


def has(values: Mapping[str, Any], key: str) -> bool:
    """Return whether a map has a key, also in the spelling of `_OTHER_SPELLINGS`."""
    return key in values or _OTHER_SPELLINGS.get(key, key) in values


def find(case: Case, part: str, key: str, default: object = None) -> Any:  # noqa: ANN401 - the user's value
    """Return a value of one of the four maps; the keys in `_OTHER_SPELLINGS` may also be in snake_case."""
    values: Mapping[str, Any] = getattr(case, part)
    if key in values:
        return values[key]
    return values.get(_OTHER_SPELLINGS.get(key, key), default)


def get(case: Case, part: str, key: str) -> Any:  # noqa: ANN401 - the user's value
    """Return a value that must be present; it may be null.

    Raises:
        NotCaptured: the trace did not record it.
        InTrace: the trace, which was not read yet, may supply it.
        BadCase: the part has no value under this key.

    """
    value = find(case, part, key, _MISSING)
    if value is _MISSING:
        raise _missing(case, part, key, f"{_WIRE_NAMES.get(part, part)}.{key} is missing")
    return value


def actual_value(case: Case, key: str, path: Path | None) -> Any:  # noqa: ANN401 - the user's value
    """Return the actual output under the key, at the path; without a path, null if there is no such output.

    Raises:
        NotCaptured: the trace did not record the output.
        InTrace: the trace, which was not read yet, may supply it.
        BadCase: there is nothing at the path, or no output to look in.
    """
    value = find(case, "actual_outputs", key)
    if value is None:
        require_part(case, key)
    return value if path is None else enter(value, path, f"actualOutputs.{key}")


def expected_value(case: Case, key: str, path: Path | None) -> Any:  # noqa: ANN401 - the user's value
    """Return the expected output under the key: the value at the path, or all of it if there is nothing at the path.

    So a test case may expect the same structure as the actual output, or only the part that is at the path.
    """
    value = find(case, "expected_outputs", key)
    if path is None or value is None:
        return value
    try:
        return path.find(value)
    except PathNotFound:
        return value


def enter(value: object, path: Path | None, place: str) -> Any:  # noqa: ANN401 - the user's value
    """Return the value at the path.

    Raises:
        BadCase: the path leads nowhere.

    """
    if path is None:
        return value
    try:
        return path.find(value)
    except PathNotFound as nowhere:
        raise BadCase(f"{place}: nothing at {path}: {nowhere}") from None


def actual_calls(
    case: Case, path: Path | None = None, key: str = "toolCalls", *, reads: Collection[CallContent]
) -> tuple[ToolCall, ...]:
    """Return the agent's calls, in order; `reads` names the content of calls that must have been captured.

    Raises:
        NotCaptured: the trace did not record that content of every call, or recorded no calls.
        InTrace: the trace, which was not read yet, may supply the calls.
        BadCase: the calls are missing, or not a list of tool calls.
    """
    place = f"actualOutputs.{key}"
    calls = _read(ToolCall, enter(get(case, "actual_outputs", key), path, place), place)
    require_captured(calls, reads)
    return calls


def expected_calls(case: Case, path: Path | None = None, key: str = "toolCalls") -> tuple[ToolCall, ...]:
    """Return the calls that the agent should have made, in order.

    Raises:
        BadCase: the calls are missing, or not a list of tool calls.

    """
    get(case, "expected_outputs", key)
    return _read(ToolCall, expected_value(case, key, path), f"expectedOutputs.{key}")


def offered_tools(case: Case, path: Path | None = None, key: str = "tools") -> tuple[ToolDefinition, ...]:
    """Return the tools that the agent had.

    Raises:
        NotCaptured: the trace did not record the tools.
        InTrace: the trace, which was not read yet, may supply them.
        BadCase: the tools are missing, or not a list of tool definitions.

    """
    place = f"metadata.{key}"
    return _read(ToolDefinition, enter(get(case, "metadata", key), path, place), place)


def conversation_at(case: Case, key: str, path: Path | None = None) -> Conversation:
    """Return the conversation under a key of the actual outputs: an object, a list of messages, or their JSON.

    Raises:
        NotCaptured: the trace did not record it.
        InTrace: the trace, which was not read yet, may supply it.
        BadCase: the value is missing or not a conversation.
    """
    place = f"actualOutputs.{key}"
    value = enter(get(case, "actual_outputs", key), path, place)
    if isinstance(value, str):
        try:
            value = parse_json(value)
        except ValueError as error:
            raise BadCase(f"{place}: not a conversation, and not the JSON of one ({error})") from None
    try:
        return Conversation.model_validate({"messages": value} if isinstance(value, list | tuple) else value)
    except ValidationError as error:
        raise BadCase(f"{place}: {explain(error, Conversation)}") from None


def primary_text(case: Case, parameter: Parameter) -> str | None:
    """Return the string form of the primary input, actual output or expected output; None if a test case has none.

    Raises:
        NotCaptured: the trace did not record it.
        InTrace: the trace, which was not read yet, may supply it.

    """
    value = find_part(case, parameter)
    part, key = _PARAMETERS[parameter][0]
    if value is None and part != _EXPECTED:
        require_part(case, key)
    return None if value is None else text_of(value)


def parse_case(document: object) -> Case:
    """Return the test case in a JSON document.

    Raises:
        BadCase: the document is not a test case; every wrong key is named.

    """
    try:
        return Case.model_validate(document)
    except ValidationError as error:
        raise BadCase(f"the test case: {explain(error, Case)}") from None


def _missing(case: Case, part: str, key: str, message: str) -> EvaluationError:
    # A trace records no expected outputs, but has the same keys among its actual ones.
    return BadCase(message) if part == _EXPECTED else missing(case, key, message)


def _read(shape: type[Item], value: object, place: str) -> tuple[Item, ...]:
    """Validate calls or tools: models, JSON objects, or one JSON text of these; a single one is a list of one."""
    if isinstance(value, str):
        try:
            value = parse_json(value)
        except ValueError as error:
            raise BadCase(f"{place}: not a list, and not the JSON of one ({error})") from None
    if isinstance(value, Mapping | ToolCall | ToolDefinition):
        value = [value]
    try:
        items: tuple[Item, ...] = _LISTS[shape].validate_python(value)
    except ValidationError as error:
        raise BadCase(explain(error, shape, root=place)) from None
    return items


_MISSING = object()
