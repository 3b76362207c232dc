"""`faithfulness` and `hallucination`: is each claim of the output supported by the context."""

from collections.abc import Collection, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from evaluators.captured import missing
from evaluators.case import actual_value, find, primary_text
from evaluators.configuration import Configuration, Flag, Parts, Share, required
from evaluators.evaluator import Assessment, Check, EvaluatorKind
from evaluators.judge_interface import Judge
from evaluators.judges.asking import TEXT, JudgeAnswer, JudgeQuestion, Numbered, answer_each, choice, rows
from evaluators.model import Case, text_of
from evaluators.prompting import fenced, numbered, pretty
from evaluators.text import shown

_LISTED = 5
"""Maximum number of claims that a reason quotes; the metadata has all. A guess."""


def _lower(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


class Claims(JudgeAnswer):
    """Claims of an output."""

    claims: tuple[str, ...]


class Support(Numbered):
    """Support of a claim by the context."""

    verdict: Annotated[Literal["yes", "no", "idk"], BeforeValidator(_lower)]


class Supports(JudgeAnswer):
    """Support of each claim by the context."""

    verdicts: tuple[Support, ...]


CLAIMS: Final = JudgeQuestion(prompt="claims", fields={"claims": {"type": "array", "items": TEXT}}, shape=Claims)
SUPPORT: Final = JudgeQuestion(
    prompt="support", fields={"verdicts": rows(verdict=choice("yes", "no", "idk"))}, shape=Supports
)


class Grounding(Configuration):
    """Settings of the context."""

    evaluation_params: Parts = required("INPUT", "ACTUAL_OUTPUT")
    context_key: str = Field(
        default="context", description="The key of the context, in actualOutputs, else of metadata, else of inputs."
    )
    include_reason: Flag = Field(default=True, description="Quote in the reason why claims are not supported.")


class Faithfulness(Grounding):
    """Settings of `faithfulness`."""

    threshold: Share = Field(default=0.8, description="The share of supported claims that passes.")


class Hallucination(Grounding):
    """Settings of `hallucination`."""

    threshold: Share = Field(default=0.5, description="The share of unsupported claims that still passes.")


def faithfulness(settings: Faithfulness) -> Check:
    """Compute the share of claims that the context supports; 1 if nothing is claimed."""

    async def check(case: Case, judge: Judge | None) -> Assessment:
        claims, verdicts = await _judged_claims(settings, case, judge)
        if not claims:
            return Assessment(score=1.0, reason="The output claims nothing.", vacuous=True)
        supported = sum(verdict.verdict == "yes" for verdict in verdicts)
        reason = f"{supported} of {len(claims)} claims are supported by the context."
        return _assessment(settings, supported / len(claims), reason, claims, verdicts, ("no", "idk"))

    return check


def hallucination(settings: Hallucination) -> Check:
    """Compute the share of claims that get a "no", not an "idk"; 0 if nothing is claimed. Lower is better."""

    async def check(case: Case, judge: Judge | None) -> Assessment:
        claims, verdicts = await _judged_claims(settings, case, judge)
        if not claims:
            return Assessment(score=0.0, reason="The output states nothing.", vacuous=True)
        made_up = sum(verdict.verdict == "no" for verdict in verdicts)
        reason = f"{made_up} of {len(claims)} statements are not supported by the context."
        return _assessment(settings, made_up / len(claims), reason, claims, verdicts, ("no",))

    return check


def passages_of(case: Case, key: str) -> list[str]:
    """Return the texts of a context: of the actual outputs, else of the metadata, else of the inputs.

    Raises:
        NotCaptured: the trace did not record the context.
        BadCase: the case has no context.

    """
    for part in ("actual_outputs", "metadata", "inputs"):
        context = find(case, part, key)
        if context is not None:
            items = context if isinstance(context, Sequence) and not isinstance(context, str) else [context]
            return [item if isinstance(item, str) else pretty(item) for item in items]
    raise missing(case, key, f"the context {key!r} is missing in actualOutputs, metadata and inputs")


async def _judged_claims(
    settings: Grounding, case: Case, judge: Judge | None
) -> tuple[Sequence[str], Sequence[Support]]:
    passages = passages_of(case, settings.context_key)
    output = actual_value(case, "output", settings.path)
    text = "" if output is None else text_of(output)
    if not text.strip():
        return (), ()
    question = primary_text(case, "INPUT") or ""
    claims = (await CLAIMS.ask(judge, **fenced(question=question, output=text))).claims
    if not claims:
        return (), ()
    data = fenced(
        context=numbered([{"passage": passage} for passage in passages]),
        claims=numbered([{"claim": claim} for claim in claims]),
    )

    async def ask(which: str) -> Sequence[Support]:
        return (await SUPPORT.ask(judge, which=which, **data)).verdicts

    answers, _ = await answer_each(len(claims), ask, "claims")
    return claims, [answers[number] for number in range(1, len(claims) + 1)]


def _assessment(
    settings: Grounding,
    score: float,
    reason: str,
    claims: Sequence[str],
    verdicts: Sequence[Support],
    counted: Collection[str],
) -> Assessment:
    """Return the assessment; its reason lists the claims whose verdict counts against the output."""
    pairs = zip(claims, verdicts, strict=True)
    against = [(claim, verdict) for claim, verdict in pairs if verdict.verdict in counted]
    if settings.include_reason and against:
        listed = [f"{shown(claim)} ({verdict.verdict}: {verdict.reason})" for claim, verdict in against[:_LISTED]]
        more = f"; and {len(against) - _LISTED} more" if len(against) > _LISTED else ""
        reason = f"{reason} Not supported: {'; '.join(listed)}{more}."
    metadata = {
        "claims": [
            {"claim": claim, "verdict": verdict.verdict, "reason": verdict.reason}
            for claim, verdict in zip(claims, verdicts, strict=True)
        ]
    }
    return Assessment(score=score, reason=reason, metadata=metadata)


KINDS: Final[tuple[EvaluatorKind[Any], ...]] = (
    EvaluatorKind(
        name="faithfulness",
        title="Faithfulness",
        version=1,
        checks="The share of the output's claims that the context supports.",
        reads=("actualOutputs.output", "inputs.input", "actualOutputs.context"),
        configuration=Faithfulness,
        check=faithfulness,
        judge=lambda _: "always",
        prompts=(CLAIMS.prompt, SUPPORT.prompt),
    ),
    EvaluatorKind(
        name="hallucination",
        title="Hallucination",
        version=1,
        checks="The share of the output's statements that the context contradicts or ignores; lower is better.",
        reads=("actualOutputs.output", "inputs.input", "actualOutputs.context"),
        configuration=Hallucination,
        check=hallucination,
        direction="lower",
        judge=lambda _: "always",
        prompts=(CLAIMS.prompt, SUPPORT.prompt),
    ),
)
