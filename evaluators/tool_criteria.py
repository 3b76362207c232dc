"""Criteria of calls: how often, in which order, with which arguments, with which output."""

import ast
import functools
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError, model_validator

from evaluators.arguments import MODES, members_of
from evaluators.captured import ARGUMENTS, NAMES_ONLY, RESULT
from evaluators.case import actual_calls, find
from evaluators.configuration import Flag, ReadsCalls, Upper
from evaluators.errors import BadCase
from evaluators.evaluator import Assessment, Check, EvaluatorKind, pure
from evaluators.model import Case, NonBlank, ToolCall, text_of
from evaluators.pairing import longest_common, most_pairs
from evaluators.values import same
from evaluators.wire import WireModel, explain, parse_json

Calls = Sequence[ToolCall]
Criteria = TypeVar("Criteria")

_NAME_CHARACTERS = 64
"""Longer names are cut, as the APIs of models do."""


def _whole_number(value: object) -> object:
    # A number as text is accepted, and nothing is rounded.
    return int(value) if isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,18}\s*", value) else value


Operator = Literal["=", "==", "!=", ">", "<", ">=", "<="]
CountCriterion = tuple[Operator, Annotated[int, BeforeValidator(_whole_number)]]


class ExpectedArguments(WireModel):
    """An expected call with its arguments: `{name, args, id}`, or a tool call, without its id."""

    name: NonBlank
    args: Mapping[str, Any]
    id: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_a_call(cls, value: object) -> object:
        if isinstance(value, Mapping) and "arguments" in value:
            value = ToolCall.model_validate(value)
        return {"name": value.name, "args": value.arguments} if isinstance(value, ToolCall) else value


class ExpectedOutput(WireModel):
    """A call that is expected, with its output."""

    name: NonBlank
    output: Any
    id: str | None = None


class _Criteria(ReadsCalls):
    """Settings that the four criteria share."""

    strict: Flag = Field(
        default=False,
        description="1 when everything holds, else 0, instead of a share; calls with ids are meant by these alone.",
    )


class ToolCallCount(_Criteria):
    """Settings of `tool_call_count`."""

    tool_calls_count: Mapping[str, CountCriterion] | None = Field(
        default=None, description='By tool, an operator (= == != > < >= <=) and a number, as in ["<=", 2].'
    )


class ToolCallOrder(_Criteria):
    """Settings of `tool_call_order`."""

    tool_calls_order: tuple[NonBlank, ...] | None = Field(default=None, description="Names or ids of tools, in order.")


class ToolCallArgs(_Criteria):
    """Settings of `tool_call_args`."""

    subset: Flag = Field(default=True, description="Arguments beyond the expected ones are allowed.")
    tool_calls: tuple[ExpectedArguments, ...] | None = Field(
        default=None, description="Expected calls in any order: name, args, and id where calls have one."
    )


class ToolCallOutput(_Criteria):
    """Settings of `tool_call_output`."""

    output_comparison: Annotated[Literal["TEXT", "VALUE"], Upper] = Field(
        default="TEXT",
        description="TEXT: the outputs' texts are equal; VALUE: the values are, parsed where they are text.",
    )
    tool_outputs: tuple[ExpectedOutput, ...] | None = Field(
        default=None, description="Expected outputs in any order: name, output, and id where calls have one."
    )


_COUNTS: Final = TypeAdapter(Mapping[str, CountCriterion])
_ORDER: Final = TypeAdapter(tuple[NonBlank, ...])
_ARGUMENTS: Final = TypeAdapter(tuple[ExpectedArguments, ...])
_OUTPUTS: Final = TypeAdapter(tuple[ExpectedOutput, ...])


def tool_call_count(settings: ToolCallCount) -> Check:
    """Count the calls of each tool that the criteria name."""

    def check(case: Case) -> Assessment:
        criteria = _criteria(case, "toolCallsCount", settings.tool_calls_count, _COUNTS)
        calls = actual_calls(case, settings.path, settings.tool_calls_key, reads=NAMES_ONLY)
        if not criteria:
            return _without_criteria(calls)
        counts = {
            name: [is_call_of(call, name, strict=settings.strict) for call in calls].count(True) for name in criteria
        }
        results = {
            name: {
                "actual": counts[name],
                "operator": sign,
                "expected": number,
                "score": float(_SIGNS[sign](counts[name], number)),
            }
            for name, (sign, number) in criteria.items()
        }
        misses = [
            f"{name} was called {counts[name]} times, expected {sign} {number}"
            for name, (sign, number) in criteria.items()
            if not results[name]["score"]
        ]
        return _share(len(criteria) - len(misses), len(criteria), settings, misses, {"toolCallsCount": results})

    return pure(check)


def tool_call_order(settings: ToolCallOrder) -> Check:
    """Compare the order of the calls with the expected one, by their longest common subsequence."""

    def check(case: Case) -> Assessment:
        expected = _criteria(case, "toolCallsOrder", settings.tool_calls_order, _ORDER)
        calls = actual_calls(case, settings.path, settings.tool_calls_key, reads=NAMES_ONLY)
        names = [call.name for call in calls]
        if not expected:
            return _without_criteria(calls)
        pairs = longest_common(
            len(calls),
            len(expected),
            lambda row, column: is_call_of(calls[row], expected[column], strict=settings.strict),
        )
        metadata = {"expected": list(expected), "actual": names, "lcs": [expected[column] for _, column in pairs]}
        if settings.strict:
            exact = len(calls) == len(expected) == len(pairs)
            reason = f"The calls are {'' if exact else 'not '}exactly the expected ones in order: {', '.join(names)}."
            return Assessment(score=float(exact), reason=reason, metadata=metadata)
        misses = [] if len(pairs) == len(expected) else [f"called {', '.join(names) or 'nothing'}"]
        return _share(len(pairs), len(expected), settings, misses, metadata)

    return pure(check)


def tool_call_args(settings: ToolCallArgs) -> Check:
    """Pair expected calls with calls that have their arguments."""
    within = MODES["SUBSET" if settings.subset else "EXACT"]

    def check(case: Case) -> Assessment:
        criteria = _criteria(case, "toolCalls", settings.tool_calls, _ARGUMENTS)
        calls = actual_calls(case, settings.path, settings.tool_calls_key, reads=ARGUMENTS)
        if not criteria:
            return _without_criteria(calls)
        arguments = [members_of(call.arguments) for call in calls]
        expected = [members_of(item.args) for item in criteria]

        def matches(row: int, column: int) -> bool:
            called = is_call_of(calls[column], criteria[row].name, criteria[row].id, strict=settings.strict)
            return called and within(expected[row], arguments[column])

        pairs = most_pairs(len(criteria), len(calls), matches)
        misses = [
            f"no call of {item.name} has the arguments {text_of(item.args)}"
            for item, column in zip(criteria, pairs, strict=True)
            if column is None
        ]
        empty = settings.subset and not any(item.args for item in criteria)
        note = "; no arguments are expected, so any will do" if empty else ""
        return _share(len(criteria) - len(misses), len(criteria), settings, misses, _paired(criteria, pairs), note)

    return pure(check)


def tool_call_output(settings: ToolCallOutput) -> Check:
    """Pair expected outputs with calls that gave them."""
    equal = _same_value if settings.output_comparison == "VALUE" else _same_text

    def check(case: Case) -> Assessment:
        criteria = _criteria(case, "toolOutputs", settings.tool_outputs, _OUTPUTS)
        calls = actual_calls(case, settings.path, settings.tool_calls_key, reads=RESULT)
        if not criteria:
            return _without_criteria(calls)

        def matches(row: int, column: int) -> bool:
            called = is_call_of(calls[column], criteria[row].name, criteria[row].id, strict=settings.strict)
            return called and equal(criteria[row].output, calls[column].result)

        pairs = most_pairs(len(criteria), len(calls), matches)
        misses = [
            f"no call of {item.name} gave {text_of(item.output)}"
            for item, column in zip(criteria, pairs, strict=True)
            if column is None
        ]
        return _share(len(criteria) - len(misses), len(criteria), settings, misses, _paired(criteria, pairs))

    return pure(check)


def is_call_of(call: ToolCall, name: str, expected_id: str | None = None, *, strict: bool = False) -> bool:
    """Return True if this is the expected call: if both have an id, by these, else if `name` is its id or its tool.

    If `strict`, `name` must be the id of a call that has one. Names of tools are compared as model APIs write them:
    white space as one underscore, other punctuation left out.

    """
    if expected_id is not None and call.id is not None:
        return call.id == expected_id
    if strict and call.id is not None:
        return call.id == name
    return call.id == name or _plain_name(call.name) == _plain_name(name)


@functools.lru_cache(maxsize=4096)
def _plain_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "", re.sub(r"\s+", "_", name.strip()))[:_NAME_CHARACTERS]


def _criteria(case: Case, key: str, configured: Criteria | None, adapter: TypeAdapter[Criteria]) -> Criteria:
    """Return the criteria of the case; without any, the configured ones."""
    for part, place in (("expected_outputs", f"expectedOutputs.{key}"), ("metadata", f"metadata.{key}")):
        value = find(case, part, key)
        if value is not None:
            try:
                return adapter.validate_python(value)
            except ValidationError as error:
                raise BadCase(explain(error, root=place)) from None
    if configured is None:
        raise BadCase(f"expectedOutputs.{key} is missing, and the configuration has no {key}")
    return configured


def _without_criteria(calls: Calls) -> Assessment:
    if calls:
        return Assessment(score=0.0, reason=f"Nothing is expected, and {len(calls)} calls were made.")
    return Assessment(score=1.0, reason="Nothing is expected, and no calls were made.", vacuous=True)


def _share(
    hits: int, whole: int, settings: _Criteria, misses: Sequence[str], metadata: Mapping[str, Any], note: str = ""
) -> Assessment:
    score = float(hits == whole) if settings.strict else hits / whole
    reason = f"{hits} of {whole} hold{': ' * bool(misses)}{'; '.join(misses)}{note}."
    return Assessment(score=score, reason=reason, metadata=metadata, vacuous=bool(note) and hits == whole)


def _paired(criteria: Sequence[ExpectedArguments | ExpectedOutput], pairs: Sequence[int | None]) -> Mapping[str, Any]:
    return {"pairs": [{"name": item.name, "call": call} for item, call in zip(criteria, pairs, strict=True)]}


def _same_text(expected: object, result: object) -> bool:
    return expected == _output_text(result) if isinstance(expected, str) else _same_value(expected, result)


def _output_text(result: object) -> str:
    """Return the text of a result, without the wrapper `{"content": …}`, its content as Python prints it."""
    value = _parsed(result)
    if isinstance(value, Mapping) and "content" in value:
        return str(value["content"] or "")
    if result is None:
        return ""
    return text_of(result) if isinstance(result, str | Mapping) else str(result)


def _same_value(expected: object, result: object) -> bool:
    return any(same(one, other) for one in _readings(_literal(expected)) for other in _readings(_parsed(result)))


def _readings(value: object) -> list[object]:
    return [value, value["content"]] if isinstance(value, Mapping) and "content" in value else [value]


def _parsed(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return parse_json(value)
    except ValueError:
        return value


def _literal(value: object) -> object:
    """Parse an expected value that is a text, as JSON or as a Python literal, if possible."""
    parsed = _parsed(value)
    if not isinstance(parsed, str):
        return parsed
    try:
        return ast.literal_eval(parsed)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return parsed


_SIGNS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}

KINDS: Final[tuple[EvaluatorKind[Any], ...]] = (
    EvaluatorKind(
        name="tool_call_count",
        title="Tool Call Count",
        version=3,
        checks="Tools were called as often as they should be.",
        reads=("actualOutputs.toolCalls", "expectedOutputs.toolCallsCount"),
        configuration=ToolCallCount,
        check=tool_call_count,
    ),
    EvaluatorKind(
        name="tool_call_order",
        title="Tool Call Order",
        version=3,
        checks="Tools were called in the order in which they should be.",
        reads=("actualOutputs.toolCalls", "expectedOutputs.toolCallsOrder"),
        configuration=ToolCallOrder,
        check=tool_call_order,
    ),
    EvaluatorKind(
        name="tool_call_args",
        title="Tool Call Arguments",
        version=3,
        checks="Tools were called with the arguments that they should be.",
        reads=("actualOutputs.toolCalls", "expectedOutputs.toolCalls"),
        configuration=ToolCallArgs,
        check=tool_call_args,
    ),
    EvaluatorKind(
        name="tool_call_output",
        title="Tool Call Output",
        version=3,
        checks="Tools gave the outputs that they should give.",
        reads=("actualOutputs.toolCalls", "expectedOutputs.toolOutputs"),
        configuration=ToolCallOutput,
        check=tool_call_output,
    ),
)
