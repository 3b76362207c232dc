"""`pairwise`: which of two answers, or two trajectories, is better; asked in both orders."""

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from evaluators.captured import EVERYTHING
from evaluators.case import actual_calls, actual_value, expected_calls, expected_value, primary_text
from evaluators.configuration import Configuration, Parts, Share, Upper, required
from evaluators.errors import BadCase
from evaluators.evaluator import Assessment, Check, EvaluatorKind
from evaluators.judge_interface import Judge
from evaluators.judges.asking import REASON, JudgeAnswer, JudgeQuestion, Reason, choice, together
from evaluators.model import Case, NonBlank, ToolCall
from evaluators.prompting import fenced, pretty

Side: TypeAlias = Literal["candidate", "baseline", "tie"]

_SCORES: Final[dict[Side, float]] = {"candidate": 1.0, "tie": 0.5, "baseline": 0.0}


def _lower(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


class Preference(JudgeAnswer):
    """The better of two candidates, by the order in which they were shown."""

    winner: Annotated[Literal["first", "second", "tie"], BeforeValidator(_lower)]
    reason: Reason = ""


PREFERENCE: Final = JudgeQuestion(
    prompt="pairwise", fields={"reason": REASON, "winner": choice("first", "second", "tie")}, shape=Preference
)


class Pairwise(Configuration):
    """Settings of `pairwise`."""

    threshold: Share = Field(
        default=0.5, description="The score that passes: the candidate wins with 1, ties with 0.5, loses with 0."
    )
    evaluation_params: Parts = required("INPUT")
    criteria: NonBlank = Field(
        default="Which one answers the question better: correct, complete, relevant and clear?",
        description="The criteria by which one is better, in plain words.",
    )
    compare: Annotated[Literal["ANSWERS", "TRAJECTORIES"], Upper] = Field(
        default="ANSWERS", description="ANSWERS compares the outputs, TRAJECTORIES the tool calls and the outputs."
    )


def pairwise(settings: Pairwise) -> Check:
    """Compare the candidate (actual) with the baseline (expected); a side that does not win in both orders ties."""

    async def check(case: Case, judge: Judge | None) -> Assessment:
        candidate, baseline = _sides(case, settings)
        if candidate == baseline:
            return Assessment(score=0.5, reason="Both are the same.", metadata=_metadata("tie", is_biased=False))
        question = {"question": primary_text(case, "INPUT") or "(not given)"}
        orders = [(candidate, baseline), (baseline, candidate)]
        questions = [
            PREFERENCE.ask(judge, criteria=settings.criteria, **fenced(**question, first=first, second=second))
            for first, second in orders
        ]
        forward, backward = await together(questions)
        sides: list[Side] = [_side(forward, "candidate", "baseline"), _side(backward, "baseline", "candidate")]
        reasons = [forward.reason, backward.reason]
        metadata = [{"winner": side, "reason": reason} for side, reason in zip(sides, reasons, strict=True)]
        if sides[0] == sides[1]:
            winner = sides[0]
            what = "Both orders end in a tie" if winner == "tie" else f"The {winner} wins in both orders"
            return Assessment(
                score=_SCORES[winner],
                reason=f"{what}: {forward.reason}",
                metadata=_metadata(winner, is_biased=False) | {"orders": metadata},
            )
        return Assessment(
            score=0.5,
            reason=f"A tie by position bias: {_found(sides[0])} with the candidate first ({reasons[0]}), "
            f"{_found(sides[1])} with the baseline first ({reasons[1]}).",
            metadata=_metadata("tie", is_biased=True) | {"orders": metadata},
        )

    return check


def _side(preference: Preference, first: Side, second: Side) -> Side:
    sides: dict[str, Side] = {"first": first, "second": second, "tie": "tie"}
    return sides[preference.winner]


def _found(side: Side) -> str:
    return "a tie" if side == "tie" else f"the {side} wins"


def _metadata(winner: Side, *, is_biased: bool) -> dict[str, Any]:
    return {"winner": winner, "positionBias": is_biased}


def _sides(case: Case, settings: Pairwise) -> tuple[str, str]:
    answers = {
        "actualOutputs": actual_value(case, "output", settings.path),
        "expectedOutputs": expected_value(case, "output", settings.path),
    }
    if settings.compare == "TRAJECTORIES":
        candidate = _trajectory(actual_calls(case, reads=EVERYTHING), answers["actualOutputs"])
        return candidate, _trajectory(expected_calls(case), answers["expectedOutputs"])
    for part, answer in answers.items():
        if answer is None:
            raise BadCase(f"{part}.output is missing; both sides of a comparison are required")
    return pretty(answers["actualOutputs"]), pretty(answers["expectedOutputs"])


def _trajectory(calls: tuple[ToolCall, ...], answer: object) -> str:
    steps = [
        {"tool": call.name, "arguments": call.arguments} | ({} if call.result is None else {"result": call.result})
        for call in calls
    ]
    return pretty({"toolCalls": steps} | ({} if answer is None else {"answer": answer}))


KINDS: Final[tuple[EvaluatorKind[Any], ...]] = (
    EvaluatorKind(
        name="pairwise",
        title="Pairwise",
        version=1,
        checks="Which of two answers or trajectories is better, whichever is shown first.",
        reads=(
            "actualOutputs.output",
            "expectedOutputs.output",
            "inputs.input",
            "actualOutputs.toolCalls",
            "expectedOutputs.toolCalls",
        ),
        configuration=Pairwise,
        check=pairwise,
        judge=lambda _: "always",
        prompts=(PREFERENCE.prompt,),
    ),
)
