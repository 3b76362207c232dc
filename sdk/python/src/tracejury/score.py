"""What evaluators say: a score, a failure, or nothing because there was nothing to judge."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])
_MARK: Final = "__tracejury_evaluator__"
DEFAULT_THRESHOLD: Final = 0.5


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
    fingerprint: str | None = None  # scores with the same one are comparable
    version: str | None = None  # of the evaluator, as declared
    judge_model: str | None = None
    cost_usd: float | None = None

    @property
    def success(self) -> bool | None:
        """Whether it passed; None where nothing was scored."""
        if self.passed is not None or self.value is None:
            return self.passed
        threshold = DEFAULT_THRESHOLD if self.threshold is None else self.threshold
        return self.value >= threshold if self.direction == "higher" else self.value <= threshold


@dataclass(frozen=True)
class Named:
    """What is said of an evaluator. The version makes its scores comparable: raise it when it judges otherwise."""

    name: str
    version: str | None = None
    threshold: float | None = None


def evaluator(
    *, name: str | None = None, version: str | None = None, threshold: float | None = None
) -> Callable[[_Function], _Function]:
    """Say more of a function that judges."""

    def declare(function: _Function) -> _Function:
        setattr(function, _MARK, Named(name or _name(function), version, threshold))
        return function

    return declare


def named(function: Callable[..., Any]) -> Named:
    """What is said of it, or its name alone."""
    found = getattr(function, _MARK, None)
    return found if isinstance(found, Named) else Named(_name(function))


def scores_of(said: Any, of: Named) -> list[Score]:
    """What an evaluator returned, as scores.

    Raises:
        TypeError: it cannot be one.
        ValueError: it is no number, such as NaN.
    """
    if isinstance(said, list):
        return [score for each in said for score in scores_of(each, of)]
    if said is None:
        return [Score(name=of.name, threshold=of.threshold, version=of.version)]
    if isinstance(said, bool):
        return [Score(name=of.name, value=float(said), passed=said, version=of.version)]
    if isinstance(said, (int, float)):
        return [Score(name=of.name, value=_finite(said), threshold=of.threshold, version=of.version)]
    if isinstance(said, Score):
        threshold = of.threshold if said.threshold is None else said.threshold
        _finite(said.value)
        return [replace(said, name=said.name or of.name, threshold=threshold, version=said.version or of.version)]
    raise TypeError(f"an evaluator returns a number, a bool, a Score or None, not {type(said).__name__}")


def _finite(value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise ValueError(f"the score is {value}")
    return None if value is None else float(value)


def _name(function: Callable[..., Any]) -> str:
    of = getattr(function, "evaluator", None)  # one of the program's
    if isinstance(of, str):
        return of
    return function.__name__ if inspect.isroutine(function) else type(function).__name__


def assert_eval(said: Any, of: Callable[..., Any] | None = None) -> None:
    """Let what an evaluator returned pass, or fail with its score and reason.

    Raises:
        AssertionError: it did not pass, or could not be scored.
    """
    for score in scores_of(said, Named("score") if of is None else named(of)):
        if score.error is not None:
            raise AssertionError(f"Evaluation '{score.name}' could not be made: {score.error}")
        if score.success is False:
            threshold = "" if score.threshold is None else f" (threshold={score.threshold:.2f})"
            reason = "" if score.reason is None else f"\nReason: {score.reason}"
            value = "failed" if score.value is None else f"score={score.value:.2f}"
            raise AssertionError(f"Evaluation '{score.name}' failed: {value}{threshold}{reason}")
