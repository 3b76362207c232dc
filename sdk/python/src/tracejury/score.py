"""Results of evaluators: a score, a failure, or skipped because there was nothing to judge."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeVar

from tracejury.plain import text

_Function = TypeVar("_Function", bound=Callable[..., Any])
_MARK: Final = "__tracejury_evaluator__"
DEFAULT_THRESHOLD: Final = 0.5
MOST: Final = 2**53 - 1  # the largest number that a server stores


@dataclass(frozen=True)
class Score:
    """A score with its reason. Without `passed`, it passes if it reaches the threshold in its direction."""

    value: float | None = None
    passed: bool | None = None
    threshold: float | None = None
    direction: Literal["higher", "lower"] = "higher"
    reason: str | None = None
    label: str | None = None
    name: str | None = None
    metadata: Mapping[str, Any] | None = None
    error: str | None = None  # why it could not be scored
    error_kind: str | None = None
    fingerprint: str | None = None  # scores with equal fingerprints are comparable
    version: str | None = None  # of the evaluator, as declared
    judge_model: str | None = None
    cost_usd: float | None = None

    @property
    def success(self) -> bool | None:
        """Return `passed` if it is set, else compare the value with the threshold; None if both are missing."""
        if self.passed is not None or self.value is None:
            return self.passed
        threshold = DEFAULT_THRESHOLD if self.threshold is None else self.threshold
        return self.value >= threshold if self.direction == "higher" else self.value <= threshold


@dataclass(frozen=True)
class Named:
    """Description of an evaluator. Scores are compared only within a version: raise it when the evaluator changes."""

    name: str
    version: str | None = None
    threshold: float | None = None


def evaluator(
    *, name: str | None = None, version: str | None = None, threshold: float | None = None
) -> Callable[[_Function], _Function]:
    """Describe a function as an evaluator.

    Raises:
        TypeError: the threshold is not a number.
        ValueError: the threshold is NaN, or outside the range that a server stores.
    """
    least = _number(threshold, "threshold")

    def declare(function: _Function) -> _Function:
        setattr(function, _MARK, Named(name or _name(function), version, least))
        return function

    return declare


def named(function: Callable[..., Any]) -> Named:
    """Return the description that `@evaluator` gave a function, else one with only the function's name."""
    description = getattr(function, _MARK, None)
    return description if isinstance(description, Named) else Named(_name(function))


def scores_of(returned: Any, of: Named) -> list[Score]:
    """Convert the return value of an evaluator to scores.

    Raises:
        TypeError: the value cannot be converted to a score.
        ValueError: a number is invalid, such as NaN, or beyond what a server stores.

    """
    if isinstance(returned, list):
        return [score for each in returned for score in scores_of(each, of)]
    if returned is None:
        return [Score(name=of.name, threshold=of.threshold, version=of.version)]
    if isinstance(returned, bool):
        return [Score(name=of.name, value=float(returned), passed=returned, version=of.version)]
    if hasattr(returned, "__float__"):  # a number of Python, of numpy, or a Decimal
        return [Score(name=of.name, value=_number(returned, "score"), threshold=of.threshold, version=of.version)]
    if isinstance(returned, Score):
        return [_checked(returned, of)]
    raise TypeError(f"an evaluator returns a number, bool, Score, None or list of these, not {type(returned).__name__}")


def _checked(score: Score, of: Named) -> Score:
    if score.passed is not None and not isinstance(score.passed, bool):
        raise TypeError(f"passed is True, False or None, not {text(score.passed)}")
    if score.direction not in {"higher", "lower"}:
        raise ValueError(f"direction is 'higher' or 'lower', not {text(score.direction)}")
    if score.metadata is not None and not isinstance(score.metadata, Mapping):
        raise TypeError(f"metadata must be a mapping, not {type(score.metadata).__name__}")
    return replace(
        score,
        name=text(score.name).strip() if score.name is not None and text(score.name).strip() else of.name,
        value=_number(score.value, "score"),
        threshold=_number(of.threshold if score.threshold is None else score.threshold, "threshold"),
        cost_usd=amount(score.cost_usd, "cost_usd"),
        version=score.version or of.version,
    )


def amount(value: Any, name: str) -> float | None:
    """Return a number that is 0 or more; None for None.

    Raises:
        TypeError: the value is not a number.
        ValueError: the value is negative, NaN, or larger than a server stores.
    """
    number = _number(value, name)
    if number is not None and number < 0:
        raise ValueError(f"{name} is {number}, and has to be 0 or more")
    return number


def _number(value: Any, name: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, str) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}")
    if not math.isfinite(number := float(value)) or abs(number) > MOST:
        raise ValueError(f"the {name} is {number}; it has to be a number from -(2^53 - 1) to 2^53 - 1")
    return number


def _name(function: Callable[..., Any]) -> str:
    of = getattr(function, "evaluator", None)  # a built-in evaluator of the program `tracejury`
    if isinstance(of, str):
        return of
    return function.__name__ if inspect.isroutine(function) else type(function).__name__


def assert_eval(said: Any, of: Callable[..., Any] | None = None) -> None:
    """Assert that no score of an evaluator's result failed; the AssertionError shows the score and its reason.

    A score without a verdict, such as that of a skipped evaluation, passes.

    Raises:
        AssertionError: the evaluation did not pass, or could not be scored.
    """
    for score in scores_of(said, Named("score") if of is None else named(of)):
        if score.error is not None or score.error_kind is not None:
            raise AssertionError(f"Evaluation '{score.name}' could not be made: {score.error or score.error_kind}")
        if score.success is False:
            threshold = "" if score.threshold is None else f" (threshold={score.threshold:.2f})"
            reason = "" if score.reason is None else f"\nReason: {score.reason}"
            value = "failed" if score.value is None else f"score={score.value:.2f}"
            raise AssertionError(f"Evaluation '{score.name}' failed: {value}{threshold}{reason}")
