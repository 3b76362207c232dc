"""Comparison of the arguments of two tool calls."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from evaluators.captured import ARGUMENTS, require_captured
from evaluators.configuration import Flag, Upper
from evaluators.model import ToolCall
from evaluators.pairing import Matches
from evaluators.values import Key, member_keys
from evaluators.wire import WireModel

Mode: TypeAlias = Annotated[Literal["EXACT", "SUBSET", "SUPERSET", "IGNORE"], Upper]
Members: TypeAlias = Mapping[str, Key]

_WHOLE: Final = ""
"""The name of the one member of arguments that are not an object."""


class ArgumentMatcher(WireModel):
    """Rule by which the arguments of two calls are equal."""

    mode: Mode = Field(
        default="EXACT",
        description="EXACT: the same names; SUBSET: what is expected is among the actual ones; SUPERSET: the actual "
        "ones are among the expected; IGNORE: not compared.",
    )
    trim_strings: Flag = Field(default=False, description="Leave out white space at both ends of texts.")
    case_insensitive: Flag = Field(default=False, description="Take capitals and small letters for the same.")

    @property
    def fold(self) -> Callable[[str], str] | None:
        """Return the function that normalizes texts before they are compared, or None."""
        return _FOLDS[self.trim_strings, self.case_insensitive]


def _by_mode(value: object) -> object:
    return {"mode": value} if isinstance(value, str) else value


AnyMatcher: TypeAlias = Annotated[ArgumentMatcher, BeforeValidator(_by_mode)]
"""A matcher, or the name of its mode."""


class CallMatcher:
    """Matcher of expected and actual calls: equal names, and arguments that match by the tool's rule."""

    def __init__(self, default: ArgumentMatcher, by_tool: Mapping[str, ArgumentMatcher]) -> None:
        self._default = default
        self._by_tool = by_tool

    def between(self, expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> Matches:
        """Return a predicate on indices: the expected call matches the actual call."""
        expected_names, actual_names = [call.name for call in expected], [call.name for call in actual]
        expected_members = functools.cache(lambda row: self._members(expected[row]))
        actual_members = functools.cache(lambda column: self._members(actual[column]))
        rules = {name: MODES[self._of(name).mode] for name in expected_names}

        def matches(row: int, column: int) -> bool:
            name = expected_names[row]
            return name == actual_names[column] and rules[name](expected_members(row), actual_members(column))

        return matches

    def _of(self, name: str) -> ArgumentMatcher:
        return self._by_tool.get(name, self._default)

    def _members(self, call: ToolCall) -> Members:
        matcher = self._of(call.name)
        if matcher.mode == "IGNORE":
            return {}
        require_captured([call], ARGUMENTS)
        return members_of(call.arguments, matcher.fold)


def members_of(arguments: object, fold: Callable[[str], str] | None = None) -> Members:
    """Return the comparison key of each argument's value, by name; arguments other than objects count as one value."""
    if isinstance(arguments, Mapping):
        return member_keys(arguments, fold)
    return member_keys({_WHOLE: arguments}, fold)


def _within(part: Members, whole: Members) -> bool:
    return part.items() <= whole.items()


MODES: Final[Mapping[str, Callable[[Members, Members], bool]]] = {
    "EXACT": lambda expected, actual: expected == actual,
    "SUBSET": _within,
    "SUPERSET": lambda expected, actual: _within(actual, expected),
    "IGNORE": lambda _expected, _actual: True,
}
"""Each mode's rule over expected and actual arguments."""

_FOLDS: Final[Mapping[tuple[bool, bool], Callable[[str], str] | None]] = {
    (False, False): None,
    (True, False): str.strip,
    (False, True): str.casefold,
    (True, True): lambda text: text.strip().casefold(),
}
