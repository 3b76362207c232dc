"""`llm_judge`: a judge scores parts of a test case by criteria in plain words."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, Self, TypeAlias, TypeGuard

from pydantic import Field, Strict, model_validator

from evaluators.captured import EVERYTHING, NOT_CAPTURED, lacks
from evaluators.case import actual_calls, actual_value, conversation_at, expected_value, find_part, offered_tools
from evaluators.configuration import Amount, Configuration, Parameter, Share, Upper
from evaluators.errors import BadReply
from evaluators.evaluator import Assessment, Check, EvaluatorKind
from evaluators.judge_interface import Judge
from evaluators.judges.asking import (
    NUMBER,
    REASON,
    JudgeAnswer,
    JudgeQuestion,
    Number,
    Numbered,
    Reason,
    answer_each,
    rows,
    together,
)
from evaluators.model import Case, NonBlank, ToolCall
from evaluators.prompting import fenced, numbered
from evaluators.templating import LABELS, MAX_TEMPLATE, parse_template
from evaluators.wire import WireModel
from storage.records import MAX_COUNT

Strategy: TypeAlias = Literal["MEAN", "WEIGHTED_MEAN", "MIN", "MAX"]
Weighted: TypeAlias = tuple[float, float]
"""A score and its weight."""


def _weighted_mean(scores: Sequence[Weighted]) -> float:
    total = sum(weight for _, weight in scores)
    return sum(score * weight for score, weight in scores) / total if total else _mean(scores)


def _mean(scores: Sequence[Weighted]) -> float:
    return sum(score for score, _ in scores) / len(scores)


STRATEGIES: Final[Mapping[Strategy, Callable[[Sequence[Weighted]], float]]] = {
    "MEAN": _mean,
    "WEIGHTED_MEAN": _weighted_mean,
    "MIN": lambda scores: min(score for score, _ in scores),
    "MAX": lambda scores: max(score for score, _ in scores),
}


Bound = Annotated[float, Field(ge=-MAX_COUNT, le=MAX_COUNT, allow_inf_nan=False)]

MAX_VOTES: Final = 9
_MAX_SCORES: Final = 20
_MAX_EXAMPLES: Final = 20
MAX_EXAMPLE: Final = 4_000
"""Guesses: the most votes worth their cost, scores that fit into one answer, and number and length of examples."""


class CriteriaScore(WireModel):
    """One of several scores that a judge gives in one answer."""

    name: NonBlank
    criteria: NonBlank
    weight: Amount = 1.0


class JudgedExample(WireModel):
    """An example with people's verdict, shown to the judge; `traceId` and `spanId`, its origin, are not shown."""

    input: Annotated[str, Field(max_length=MAX_EXAMPLE)] | None = None
    output: Annotated[str, Field(max_length=MAX_EXAMPLE)]
    passed: bool
    reason: Annotated[str, Field(max_length=MAX_EXAMPLE)] | None = None
    trace_id: Annotated[str, Field(max_length=32)] | None = None
    span_id: Annotated[str, Field(max_length=16)] | None = None

    def shown(self) -> dict[str, object]:
        """Return the example as the judge sees it."""
        document = {"input": self.input, "output": self.output, "judged": "pass" if self.passed else "fail"}
        return {name: text for name, text in (document | {"reason": self.reason}).items() if text is not None}


_SCALE: Final = (("minScore", "min_score", 0.0), ("maxScore", "max_score", 1.0))
_ENDS: Final = frozenset(name for *names, _ in _SCALE for name in names)
_RANGE: Final = frozenset({"scoreRange", "score_range"})
_RAW: Final = frozenset({"rawThreshold", "raw_threshold"})


class LlmJudge(Configuration):
    """Settings of `llm_judge`: criteria, scale, and the parts that the judge sees."""

    threshold: Share = Field(
        default=0.5,
        description="The score that passes, from 0 to 1; or on the scale of minScore and maxScore if these are set.",
    )
    criteria: NonBlank | None = Field(default=None, description="The criteria of the judge, in plain words.")
    evaluation_params: Annotated[tuple[Annotated[Parameter, Upper], ...], Field(min_length=1)] = Field(
        default=("INPUT", "ACTUAL_OUTPUT"),
        description="The parts of the test case that the judge is shown; none of them may be missing: "
        f"{', '.join(LABELS)}.",
    )
    score_range: tuple[Bound, Bound] = Field(
        default=(0.0, 1.0), description="The scale of the judge, [min, max]; scores are reported from 0 to 1."
    )
    scores: Annotated[tuple[CriteriaScore, ...], Field(max_length=_MAX_SCORES)] = Field(
        default=(), description="Several scores from one answer: a list of {name, criteria, weight}."
    )
    aggregation_strategy: Annotated[Strategy, Upper] = Field(
        default="MEAN", description="The aggregation of several scores: MEAN, WEIGHTED_MEAN, MIN or MAX."
    )
    template: Annotated[str, Field(max_length=MAX_TEMPLATE)] | None = Field(
        default=None, description="A prompt of your own: `version: 1`, a section [system], and one [user] with places."
    )
    votes: Annotated[int, Strict(), Field(ge=1, le=MAX_VOTES)] = Field(
        default=1, description="Number of judge calls, an odd number; the median vote counts."
    )

    examples: Annotated[tuple[JudgedExample, ...], Field(max_length=_MAX_EXAMPLES)] = Field(
        default=(),
        description="Votes of people for the judge to follow: a list of {input, output, passed, reason, traceId}.",
    )

    raw_threshold: Bound | None = Field(
        default=None, description="The judge's own score that passes, on the scale of scoreRange; instead of threshold."
    )
    min_score: Bound | None = Field(
        default=None, description="With maxScore instead of scoreRange: the scale of the judge and of threshold, too."
    )
    max_score: Bound | None = Field(default=None, description="The upper end of that scale.")

    @model_validator(mode="before")
    @classmethod
    def _passing_on_the_scale(cls, settings: object) -> object:
        """Convert `rawThreshold` to a threshold; malformed values are refused by their fields."""
        if not isinstance(settings, Mapping):
            return settings
        raw = settings.get("rawThreshold", settings.get("raw_threshold"))
        scale = settings.get("scoreRange", settings.get("score_range", (0, 1)))
        if not _is_number(raw) or not isinstance(scale, list | tuple) or len(scale) != 2:  # noqa: PLR2004 - min and max
            return settings
        least, most = scale
        if not (_is_number(least) and _is_number(most) and least < most):
            return settings
        if not least <= raw <= most:
            raise ValueError(f"rawThreshold {raw:g} is outside the scoreRange, {least:g} to {most:g}")
        threshold = (raw - least) / (most - least)
        if settings.get("threshold", threshold) != threshold:
            raise ValueError("threshold, from 0 to 1, and rawThreshold, on the scale of scoreRange, exclude each other")
        return {**settings, "threshold": threshold}

    @model_validator(mode="before")
    @classmethod
    def _one_scale(cls, settings: object) -> object:
        """Convert minScore, maxScore and a threshold on their scale to scoreRange and threshold, as rules do."""
        if not isinstance(settings, Mapping) or not _ENDS & settings.keys():
            return settings
        if _RANGE & settings.keys() or _RAW & settings.keys():
            raise ValueError(
                "minScore and maxScore set the scale of threshold, and with scoreRange threshold is from 0 to 1: "
                "give either minScore and maxScore, or scoreRange with threshold or rawThreshold"
            )
        least, most = (settings.get(one, settings.get(other, end)) for one, other, end in _SCALE)
        merged = {key: value for key, value in settings.items() if key not in _ENDS} | {"scoreRange": [least, most]}
        threshold = merged.get("threshold")
        if not all(map(_is_number, (least, most, threshold))) or not least < most:
            return merged
        if not least <= threshold <= most:
            raise ValueError(
                f"threshold {threshold:g} is not on the scale of minScore and maxScore, {least:g} to {most:g}; "
                f"with scoreRange [{least:g}, {most:g}] instead, threshold is from 0 to 1"
            )
        return merged | {"threshold": (threshold - least) / (most - least)}

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if self.score_range[0] >= self.score_range[1]:
            raise ValueError("scoreRange must be [min, max] with min below max")
        if self.criteria is None and not self.scores and self.template is None:
            raise ValueError("criteria: is required, unless there are scores or a template")
        if self.criteria is not None and self.scores and self.template is None:
            raise ValueError("scores have criteria of their own; criteria beside them go into a template")
        if self.votes % 2 == 0:
            raise ValueError("votes must be an odd number, so that there is one in the middle")
        names = [one.name for one in self.scores]
        if len(set(names)) < len(names):
            raise ValueError("each of the scores must have a name of its own")
        return self


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


class Scored(JudgeAnswer):
    """A score by criteria."""

    score: Number
    reason: Reason = ""


class NumberedScore(Numbered):
    """A score by one of several criteria."""

    score: Number


class AllScored(JudgeAnswer):
    """Scores by several criteria."""

    scores: tuple[NumberedScore, ...]


_ONE: Final[Mapping[str, Any]] = {"reason": REASON, "score": NUMBER}
_SEVERAL: Final[Mapping[str, Any]] = {"scores": rows(score=NUMBER)}

SCORE: Final = JudgeQuestion(prompt="llm_judge", fields=_ONE, shape=Scored)
SCORES: Final = JudgeQuestion(prompt="llm_judge_scores", fields=_SEVERAL, shape=AllScored)
OWN_SCORE: Final = JudgeQuestion(prompt="template_score", fields=_ONE, shape=Scored)
OWN_SCORES: Final = JudgeQuestion(prompt="template_scores", fields=_SEVERAL, shape=AllScored)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """Result of one answer of the judge."""

    score: float  # 0..1
    reason: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


def llm_judge(settings: LlmJudge) -> Check:
    """Ask once, or for several votes at the same time, and scale the score to 0..1."""
    prompt_of = _prompting(settings)
    vote_of = _vote_on_one if not settings.scores else _vote_on_several

    async def check(case: Case, judge: Judge | None) -> Assessment:
        values = prompt_of(case)
        votes = await together([vote_of(settings, values, judge) for _ in range(settings.votes)])
        vote = votes[0] if len(votes) == 1 else _counted(settings, votes)
        unseen = _unseen(case, settings)
        marks = {NOT_CAPTURED: ["input"]} if unseen else {}
        metadata = {**vote.metadata, **marks, **_version(settings)}
        return Assessment(score=vote.score, reason=vote.reason, metadata=metadata, by_less=unseen)

    return check


def prompts_of(settings: LlmJudge) -> tuple[str, ...]:
    """Return the names of the prompts that a configuration uses."""
    return (_question(settings).prompt,)


def within(score: float, least: float, most: float) -> float:
    """Return the score on the scale of 0 to 1.

    Raises:
        BadReply: the score is outside its scale, so the judge cannot have meant that scale.

    """
    if not least <= score <= most:
        raise BadReply(f"the judge's score {score:g} is outside {least:g} to {most:g}")
    return (score - least) / (most - least)


def _unseen(case: Case, settings: LlmJudge) -> bool:
    # The input was not recorded, and the case has a blank in its place.
    return "INPUT" in settings.evaluation_params and find_part(case, "INPUT") == "" and lacks(case, "input")


_UNSEEN: Final = "(not captured)"


def _question(settings: LlmJudge) -> JudgeQuestion[Any]:
    own, several = settings.template is not None, bool(settings.scores)
    return (OWN_SCORES if several else OWN_SCORE) if own else (SCORES if several else SCORE)


_FOLLOW: Final = """

What stands in the data named "examples" was judged by people by these criteria. Judge as they did; the examples are
not what is to be judged now."""


def _prompting(settings: LlmJudge) -> Callable[[Case], dict[str, str]]:
    """Return a function that fills the placeholders of the prompt from a test case, each text in a fence."""
    least, most = settings.score_range
    scale = {"minimum": f"{least:g}", "maximum": f"{most:g}"}
    criteria = settings.criteria or ""
    listed = numbered([{"name": one.name, "criteria": one.criteria} for one in settings.scores])
    follow = _FOLLOW if settings.examples else ""
    instructed = {"criteria": (listed if settings.scores else criteria) + follow}
    examples = {"examples": numbered([each.shown() for each in settings.examples])} if settings.examples else {}
    template = None if settings.template is None else parse_template(settings.template, settings.evaluation_params)

    def values(case: Case) -> dict[str, str]:
        parts = {LABELS[one]: _VALUES[one](case, settings) for one in settings.evaluation_params}
        if _unseen(case, settings):
            # A template needs each part. Else leave it out: a blank would tell the judge that nothing was entered.
            parts |= {LABELS["INPUT"]: _UNSEEN}
            parts = parts if template is not None else {name: parts[name] for name in parts if name != LABELS["INPUT"]}
        fences = fenced(**examples, **parts)
        boundary = fences.pop("boundary")
        if template is None:
            return {**instructed, **scale, "boundary": boundary, "data": "\n\n".join(fences.values())}
        instructions = template.instructions({"criteria": criteria, **scale}) + follow
        several = instructed if settings.scores else {}
        shown = fences.pop("examples", None)
        data = "\n\n".join(filter(None, [shown, template.data(fences)]))
        return {"template": instructions, **several, **scale, "boundary": boundary, "data": data}

    return values


async def _vote_on_one(settings: LlmJudge, values: Mapping[str, str], judge: Judge | None) -> Vote:
    least, most = settings.score_range
    answer = await _question(settings).ask(judge, **values)
    score = within(answer.score, least, most)
    metadata = {} if (least, most) == (0, 1) else {"judgeScore": answer.score, "scoreRange": [least, most]}
    return Vote(score=score, reason=answer.reason or "The judge gave no reason.", metadata=metadata)


async def _vote_on_several(settings: LlmJudge, values: Mapping[str, str], judge: Judge | None) -> Vote:
    question = _question(settings)

    async def ask(numbers: str) -> tuple[NumberedScore, ...]:
        answer: AllScored = await question.ask(judge, **values, numbers=numbers)
        return answer.scores

    answers, _ = await answer_each(len(settings.scores), ask, "scores")
    scored = [
        (one, within(answers[number].score, *settings.score_range), answers[number].reason)
        for number, one in enumerate(settings.scores, start=1)
    ]
    score = STRATEGIES[settings.aggregation_strategy]([(share, one.weight) for one, share, _ in scored])
    listed = "; ".join(f"{one.name} {share:g} ({reason})" for one, share, reason in scored)
    table = {one.name: {"score": share, "reason": reason} for one, share, reason in scored}
    return Vote(
        score=score, reason=f"{settings.aggregation_strategy} of {listed} is {score:.2f}.", metadata={"scores": table}
    )


def _counted(settings: LlmJudge, votes: list[Vote]) -> Vote:
    """Return the median vote, which passes if most votes do, and how many agree with it."""
    middle = statistics.median(vote.score for vote in votes)
    chosen = next(vote for vote in votes if vote.score == middle)
    passes = middle >= settings.threshold
    agreeing = sum((vote.score >= settings.threshold) is passes for vote in votes)
    listed = [{"score": vote.score, "reason": vote.reason} for vote in votes]
    return Vote(
        score=middle,
        reason=f"{agreeing} of {len(votes)} votes agree. {chosen.reason}",
        metadata={**chosen.metadata, "votes": listed, "agreement": agreeing / len(votes)},
    )


def _version(settings: LlmJudge) -> dict[str, Any]:
    if settings.template is None:
        return {}
    return {"promptVersion": parse_template(settings.template, settings.evaluation_params).version}


def _call(call: ToolCall) -> dict[str, Any]:
    document = {"tool": call.name, "arguments": call.arguments, "result": call.result}
    return document | ({"error": call.metadata.get("error")} if call.metadata.get("isError") else {})


def _tool_calls(case: Case, _settings: LlmJudge) -> object:
    return numbered([_call(call) for call in actual_calls(case, reads=EVERYTHING)])


def _tools(case: Case, _settings: LlmJudge) -> object:
    return numbered([tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in offered_tools(case)])


def _context(case: Case, _settings: LlmJudge) -> object:
    chunks = find_part(case, "CONTEXT")
    return numbered([{"text": one} for one in chunks]) if isinstance(chunks, list | tuple) else chunks


def _conversation(case: Case, _settings: LlmJudge) -> object:
    messages = conversation_at(case, "trajectory").messages
    return numbered(
        [
            {
                "role": one.role,
                "content": one.content,
                **({"toolCalls": [_call(call) for call in one.tool_calls]} if one.tool_calls else {}),
            }
            for one in messages
        ]
    )


_ValueOf: TypeAlias = Callable[[Case, LlmJudge], object]

_VALUES: Final[Mapping[Parameter, _ValueOf]] = {
    "INPUT": lambda case, _: find_part(case, "INPUT"),
    "ACTUAL_OUTPUT": lambda case, settings: actual_value(case, "output", settings.path),
    "EXPECTED_OUTPUT": lambda case, settings: expected_value(case, "output", settings.path),
    "TOOL_CALLS": _tool_calls,
    "TOOLS": _tools,
    "CONTEXT": _context,
    "CONVERSATION": _conversation,
    "METADATA": lambda case, _: find_part(case, "METADATA"),
}
"""Functions that format the parts of a test case: lists as numbered JSON, so that no item can pose as two."""

KINDS: Final[tuple[EvaluatorKind[Any], ...]] = (
    EvaluatorKind(
        name="llm_judge",
        title="LLM Judge",
        version=2,
        checks="A judge scores the case by criteria in plain words.",
        reads=("actualOutputs.output", "inputs.input", "expectedOutputs.output"),
        configuration=LlmJudge,
        check=llm_judge,
        judge=lambda _: "always",
        prompts=(SCORE.prompt, SCORES.prompt, OWN_SCORE.prompt, OWN_SCORES.prompt),
        asks=prompts_of,
    ),
)
