"""`llm_judge`: a judge scores parts of a test case by criteria in plain words."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Self, TypeGuard

from pydantic import Field, model_validator

from evaluators.case import actual_value, expected_value, find
from evaluators.configuration import Configuration, Parameter, Share, Upper
from evaluators.errors import BadReply
from evaluators.evaluator import Assessment, Check, Kind
from evaluators.fencing import fenced
from evaluators.judges.asking import NUMBER, REASON, JudgeAnswer, JudgeQuestion, Number, Reason
from evaluators.judging import Judge
from evaluators.model import Case, NonBlank

Bound = Annotated[float, Field(allow_inf_nan=False)]

_LABELS: dict[Parameter, str] = {
    "INPUT": "input",
    "ACTUAL_OUTPUT": "actual_output",
    "EXPECTED_OUTPUT": "expected_output",
}


class LlmJudge(Configuration):
    """By what a judge scores, and what it is shown."""

    threshold: Share = Field(default=0.5, description="The score that passes, from 0 to 1 whatever the scoreRange.")
    criteria: NonBlank = Field(description="What the judge should look at, in plain words.")
    evaluation_params: Annotated[tuple[Annotated[Parameter, Upper], ...], Field(min_length=1)] = Field(
        description="The parts of the test case that the judge is shown; none of them may be missing."
    )
    score_range: tuple[Bound, Bound] = Field(
        default=(0.0, 1.0), description="The scale of the judge, [min, max]; scores are reported from 0 to 1."
    )

    raw_threshold: Bound | None = Field(
        default=None, description="The judge's own score that passes, on the scale of scoreRange; instead of threshold."
    )

    @model_validator(mode="before")
    @classmethod
    def _passing_on_the_scale(cls, told: object) -> object:
        """Bring `rawThreshold` to the threshold that it means; what is malformed is left to the fields to refuse."""
        if not isinstance(told, Mapping):
            return told
        raw = told.get("rawThreshold", told.get("raw_threshold"))
        scale = told.get("scoreRange", told.get("score_range", (0, 1)))
        if not _is_number(raw) or not isinstance(scale, list | tuple) or len(scale) != 2:  # noqa: PLR2004 - min and max
            return told
        least, most = scale
        if not (_is_number(least) and _is_number(most) and least < most):
            return told
        if not least <= raw <= most:
            raise ValueError(f"rawThreshold {raw:g} is outside the scoreRange, {least:g} to {most:g}")
        threshold = (raw - least) / (most - least)
        if told.get("threshold", threshold) != threshold:
            raise ValueError("threshold, from 0 to 1, and rawThreshold, on the scale of scoreRange, exclude each other")
        return {**told, "threshold": threshold}

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if self.score_range[0] >= self.score_range[1]:
            raise ValueError("scoreRange must be [min, max] with min below max")
        return self


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


class Scored(JudgeAnswer):
    """A score by criteria."""

    score: Number
    reason: Reason = ""


SCORE: Final = JudgeQuestion(prompt="llm_judge", wanted={"reason": REASON, "score": NUMBER}, shape=Scored)


def llm_judge(settings: LlmJudge) -> Check:
    """Ask once, and bring the score to 0..1."""
    least, most = settings.score_range

    async def check(case: Case, judge: Judge | None) -> Assessment:
        shown = {_LABELS[parameter]: _value(case, parameter, settings) for parameter in settings.evaluation_params}
        fences = fenced(**shown)
        boundary = fences.pop("boundary")
        answer = await SCORE.ask(
            judge,
            criteria=settings.criteria,
            minimum=f"{least:g}",
            maximum=f"{most:g}",
            boundary=boundary,
            data="\n\n".join(fences.values()),
        )
        score = within(answer.score, least, most)
        metadata = {} if (least, most) == (0, 1) else {"judgeScore": answer.score, "scoreRange": [least, most]}
        return Assessment(score=score, reason=answer.reason or "The judge gave no reason.", metadata=metadata)

    return check


def within(score: float, least: float, most: float) -> float:
    """The score on the scale of 0 to 1.

    Raises:
        BadReply: it is outside its own scale, so the judge cannot have meant that scale.
    """
    if not least <= score <= most:
        raise BadReply(f"the judge's score {score:g} is outside {least:g} to {most:g}")
    return (score - least) / (most - least)


def _value(case: Case, parameter: Parameter, settings: Configuration) -> Any:  # noqa: ANN401 - the user's value
    if parameter == "INPUT":
        return find(case, "inputs", "input")
    read = actual_value if parameter == "ACTUAL_OUTPUT" else expected_value
    return read(case, "output", settings.path)


KINDS: Final[tuple[Kind[Any], ...]] = (
    Kind(
        name="llm_judge",
        title="LLM Judge",
        version=1,
        checks="A judge scores the case by criteria in plain words.",
        reads=("actualOutputs.output", "inputs.input", "expectedOutputs.output"),
        configuration=LlmJudge,
        check=llm_judge,
        judge=lambda _: "always",
        prompts=("llm_judge",),
    ),
)
