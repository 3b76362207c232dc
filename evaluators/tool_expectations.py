"""Comparison of actual with expected calls: by names, by order, with arguments."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from evaluators.arguments import AnyMatcher, ArgumentMatcher, CallMatcher
from evaluators.captured import NAMES_ONLY
from evaluators.case import actual_calls, expected_calls
from evaluators.configuration import Key, ReadsCalls, Upper
from evaluators.evaluator import Assessment, Check, EvaluatorKind, pure
from evaluators.model import Case, ToolCall
from evaluators.pairing import Matches, longest_common, most_pairs

Calls = Sequence[ToolCall]


class _Matching(ReadsCalls):
    """Settings of the expected calls, and of the comparison of arguments."""

    expected_tool_calls_key: Key = Field(
        default="toolCalls", description="The key of expectedOutputs under which the expected tool calls are."
    )

    argument_matcher: AnyMatcher = Field(
        default_factory=ArgumentMatcher,
        description="The condition under which arguments of a call equal the expected ones.",
    )
    argument_matchers: Mapping[str, AnyMatcher] = Field(
        default_factory=dict, description="Matchers of single tools, instead of argumentMatcher."
    )


class ToolCorrectness(_Matching):
    """Settings of `tool_correctness`."""

    match_mode: Annotated[Literal["NAMES_ONLY", "NAMES_AND_ORDER", "NAMES_AND_ARGS"], Upper] = Field(
        default="NAMES_ONLY",
        description="NAMES_ONLY: which tools, as sets; NAMES_AND_ORDER: the sequence of names; NAMES_AND_ARGS: calls "
        "with their arguments, in any order.",
    )


class ToolTrajectory(_Matching):
    """Settings of `tool_trajectory`."""

    match_mode: Annotated[
        Literal["STRICT", "IN_ORDER", "ANY_ORDER", "SUPERSET", "SUBSET", "PRECISION", "RECALL"], Upper
    ] = Field(
        default="IN_ORDER",
        description="STRICT: the same calls in the same order; IN_ORDER: how much of both is in the same order; "
        "ANY_ORDER: how much of both is the same; SUPERSET: every expected call was made; SUBSET: every call made was "
        "expected; PRECISION: the share of the calls made that was expected; RECALL: the share of the expected calls "
        "that was made.",
    )
    extra_calls: Annotated[Literal["COUNT", "FREE"], Upper] = Field(
        default="COUNT",
        description="For IN_ORDER and ANY_ORDER: whether calls beyond the expected ones lower the score.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    """Both sides of a comparison, and the predicate by which an expected call matches an actual one."""

    expected: Calls
    actual: Calls
    matches: Matches

    def in_order(self) -> int:
        """Count the calls that both have in the same order."""
        return len(longest_common(len(self.expected), len(self.actual), self.matches))

    def any_order(self) -> int:
        """Count the calls that both have, each once."""
        pairs = most_pairs(len(self.expected), len(self.actual), self.matches)
        return len(pairs) - pairs.count(None)

    def by_position(self) -> int:
        """Count the calls that are at the same position."""
        return sum(self.matches(index, index) for index in range(min(len(self.expected), len(self.actual))))


def tool_correctness(settings: ToolCorrectness) -> Check:
    """Compare actual with expected calls, in the configured mode."""
    score = _CORRECTNESS[settings.match_mode]
    matcher = CallMatcher(settings.argument_matcher, settings.argument_matchers)

    def check(case: Case) -> Assessment:
        expected, actual = _both(case, settings)
        expected_names, actual_names = _names(expected), _names(actual)
        metadata = {
            "matchMode": settings.match_mode,
            "correctTools": [name for name in actual_names if name in expected_names],
            "redundantTools": [name for name in actual_names if name not in expected_names],
            "missingTools": [name for name in expected_names if name not in actual_names],
        }
        if not expected and not actual:
            reason = "No calls were expected, and none were made."
            return Assessment(score=1.0, reason=reason, metadata=metadata, vacuous=True)
        compared = _Compared(expected=expected, actual=actual, matches=matcher.between(expected, actual))
        listed = _names_or_nothing(expected_names), _names_or_nothing(actual_names)
        reason = f"{settings.match_mode}: expected {listed[0]}; called {listed[1]}."
        return Assessment(score=score(compared), reason=reason, metadata=metadata)

    return pure(check)


def tool_trajectory(settings: ToolTrajectory) -> Check:
    """Compare the sequence of calls with the expected one, in the configured mode."""
    rule = _TRAJECTORY[settings.match_mode]
    whole_of = _expected if rule.longer_side and settings.extra_calls == "FREE" else rule.whole
    matcher = CallMatcher(settings.argument_matcher, settings.argument_matchers)

    def check(case: Case) -> Assessment:
        expected, actual = _both(case, settings)
        compared = _Compared(expected=expected, actual=actual, matches=matcher.between(expected, actual))
        matched, whole = rule.matched(compared), whole_of(compared)
        metadata = {
            "matchMode": settings.match_mode,
            "matchedCount": matched,
            "actualCount": len(actual),
            "expectedCount": len(expected),
            "actualTools": [call.name for call in actual],
            "expectedTools": [call.name for call in expected],
        }
        counts = f"{len(expected)} calls expected, {len(actual)} made, {matched} of them matched"
        if (not expected and not actual) or (rule.empty_passes and not whole):
            reason = f"{settings.match_mode}: {counts}; that leaves nothing to check."
            return Assessment(score=1.0, reason=reason, metadata=metadata, vacuous=True)
        share = matched / whole if whole else 0.0
        score = float(share == 1) if rule.all_or_nothing else share
        return Assessment(score=score, reason=f"{settings.match_mode}: {counts}.", metadata=metadata)

    return pure(check)


def _both(case: Case, settings: _Matching) -> tuple[Calls, Calls]:
    expected = expected_calls(case, settings.path, settings.expected_tool_calls_key)
    return expected, actual_calls(case, settings.path, settings.tool_calls_key, reads=NAMES_ONLY)


def _expected(compared: _Compared) -> int:
    return len(compared.expected)


def _actual(compared: _Compared) -> int:
    return len(compared.actual)


def _longer(compared: _Compared) -> int:
    return max(_expected(compared), _actual(compared))


@dataclass(frozen=True, slots=True, kw_only=True)
class _TrajectoryMode:
    """A mode of comparing trajectories: the number of matched calls, and the total."""

    matched: Callable[[_Compared], int]
    whole: Callable[[_Compared], int]
    all_or_nothing: bool = False
    empty_passes: bool = False  # if no calls have to match

    @property
    def longer_side(self) -> bool:
        """Return True if calls beyond the expected ones lower a graded score."""
        return self.whole is _longer and not self.all_or_nothing


_TRAJECTORY: Final[Mapping[str, _TrajectoryMode]] = {
    "STRICT": _TrajectoryMode(matched=_Compared.by_position, whole=_longer, all_or_nothing=True),
    "IN_ORDER": _TrajectoryMode(matched=_Compared.in_order, whole=_longer),
    "ANY_ORDER": _TrajectoryMode(matched=_Compared.any_order, whole=_longer),
    "SUPERSET": _TrajectoryMode(matched=_Compared.any_order, whole=_expected, all_or_nothing=True, empty_passes=True),
    "SUBSET": _TrajectoryMode(matched=_Compared.any_order, whole=_actual, all_or_nothing=True, empty_passes=True),
    "PRECISION": _TrajectoryMode(matched=_Compared.any_order, whole=_actual),
    "RECALL": _TrajectoryMode(matched=_Compared.any_order, whole=_expected),
}


def _f1(both: int, compared_size: int) -> float:
    return 2 * both / compared_size


def _by_names(compared: _Compared) -> float:
    expected, actual = set(_names(compared.expected)), set(_names(compared.actual))
    return _f1(len(expected & actual), len(expected) + len(actual))


def _by_order(compared: _Compared) -> float:
    expected, actual = ([call.name for call in calls] for calls in (compared.expected, compared.actual))
    common = longest_common(len(expected), len(actual), lambda row, column: expected[row] == actual[column])
    return len(common) / _longer(compared)


def _by_arguments(compared: _Compared) -> float:
    return _f1(compared.any_order(), _expected(compared) + _actual(compared))


_CORRECTNESS: Final[Mapping[str, Callable[[_Compared], float]]] = {
    "NAMES_ONLY": _by_names,
    "NAMES_AND_ORDER": _by_order,
    "NAMES_AND_ARGS": _by_arguments,
}


def _names(calls: Calls) -> Mapping[str, None]:
    return dict.fromkeys(call.name for call in calls)


def _names_or_nothing(names: Mapping[str, None]) -> str:
    return ", ".join(names) or "nothing"


KINDS: Final[tuple[EvaluatorKind[Any], ...]] = (
    EvaluatorKind(
        name="tool_correctness",
        title="Tool Correctness",
        version=2,
        checks="The agent called the tools that it should have called.",
        reads=("actualOutputs.toolCalls", "expectedOutputs.toolCalls"),
        configuration=ToolCorrectness,
        check=tool_correctness,
    ),
    EvaluatorKind(
        name="tool_trajectory",
        title="Trajectory",
        version=2,
        checks="The agent's calls follow the expected trajectory.",
        reads=("actualOutputs.toolCalls", "expectedOutputs.toolCalls"),
        configuration=ToolTrajectory,
        check=tool_trajectory,
    ),
)
