"""Checks of one text: does it equal another, match a pattern, keep to a length."""

from typing import Annotated, Any, Final, Self

from pydantic import Field, Strict, field_validator, model_validator

from evaluators.case import actual_value, expected_value
from evaluators.configuration import Configuration, Count, Flag, Parts, required
from evaluators.errors import BadCase
from evaluators.evaluator import Assessment, Check, EvaluatorKind, pure
from evaluators.model import Case, text_of
from evaluators.regular import UnusableRegex, safe_regex

_SHOWN_CHARACTERS = 60
"""The most characters of a text that a reason quotes. A guess."""


class ExactMatch(Configuration):
    """Settings of `exact_match`."""

    evaluation_params: Parts = required("ACTUAL_OUTPUT", "EXPECTED_OUTPUT")
    trim_white_space: Flag = Field(default=False, description="Leave out white space at both ends of both texts.")
    ignore_case: Flag = Field(default=False, description="Take capitals and small letters for the same.")


class Regex(Configuration):
    """Settings of `regex`."""

    evaluation_params: Parts = required("ACTUAL_OUTPUT")
    pattern: str = Field(
        description="A regular expression of RE2, searched anywhere in the text; without lookaround or backreferences."
    )
    ignore_case: Flag = Field(default=False, description="Take capitals and small letters for the same.")

    @field_validator("pattern")
    @classmethod
    def _usable(cls, pattern: str) -> str:
        if not pattern.strip():
            raise ValueError("must not be blank")
        try:
            safe_regex(pattern)
        except UnusableRegex as error:
            raise ValueError(f"must be a regular expression of RE2: {error}") from None
        return pattern


class Length(Configuration):
    """Settings of `length`, in Unicode code points, both bounds included."""

    evaluation_params: Parts = required("ACTUAL_OUTPUT")
    minimum_output_length: Count = Field(default=0, description="The fewest code points that pass.")
    maximum_output_length: Annotated[int, Strict(), Field(ge=1)] = Field(description="The most code points that pass.")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.minimum_output_length > self.maximum_output_length:
            raise ValueError("minimumOutputLength must not be above maximumOutputLength")
        return self


def exact_match(settings: ExactMatch) -> Check:
    """Compare the string forms of the actual and the expected output."""

    def normal(value: object) -> str | None:
        if value is None:
            return None
        text = text_of(value).strip() if settings.trim_white_space else text_of(value)
        return text.casefold() if settings.ignore_case else text

    def check(case: Case) -> Assessment:
        actual = actual_value(case, "output", settings.path)
        expected = expected_value(case, "output", settings.path)
        if normal(actual) == normal(expected):
            return Assessment(score=1.0, reason="The output equals what was expected.")
        return Assessment(score=0.0, reason=f"Expected {shown(expected)}, and the output is {shown(actual)}.")

    return pure(check)


def regex(settings: Regex) -> Check:
    """Search the pattern in the string form of the output."""
    pattern = safe_regex(settings.pattern, ignore_case=settings.ignore_case)

    def check(case: Case) -> Assessment:
        text = _output_text(case, settings)
        match = pattern.search(text)
        if match is None:
            return Assessment(
                score=0.0, reason=f"The pattern {settings.pattern} is nowhere in the output {shown(text)}."
            )
        return Assessment(score=1.0, reason=f"The pattern {settings.pattern} matches {shown(match)}.")

    return pure(check)


def length(settings: Length) -> Check:
    """Count the code points of the output."""
    least, most = settings.minimum_output_length, settings.maximum_output_length

    def check(case: Case) -> Assessment:
        characters = len(_output_text(case, settings))
        within = least <= characters <= most
        return Assessment(
            score=float(within),
            reason=f"The output has {characters} characters; {least} to {most} are allowed.",
            metadata={"length": characters},
        )

    return pure(check)


def shown(value: object) -> str:
    """Quote a value for a reason, cut if it is long."""
    if value is None:
        return "missing"
    text = text_of(value)
    return repr(text) if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]!r}…"


def _output_text(case: Case, settings: Configuration) -> str:
    value = actual_value(case, "output", settings.path)
    if value is None:
        raise BadCase("actualOutputs.output is missing")
    return text_of(value)


KINDS: Final[tuple[EvaluatorKind[Any], ...]] = (
    EvaluatorKind(
        name="exact_match",
        title="Exact Match",
        version=4,
        checks="The output is, as text, exactly what was expected.",
        reads=("actualOutputs.output", "expectedOutputs.output"),
        configuration=ExactMatch,
        check=exact_match,
    ),
    EvaluatorKind(
        name="regex",
        title="Regex Match",
        version=5,
        checks="The output contains what a regular expression describes.",
        reads=("actualOutputs.output",),
        configuration=Regex,
        check=regex,
    ),
    EvaluatorKind(
        name="length",
        title="Length",
        version=4,
        checks="The output is neither too short nor too long.",
        reads=("actualOutputs.output",),
        configuration=Length,
        check=length,
    ),
)
