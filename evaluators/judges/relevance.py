"""`contextual_relevance`: how relevant is each retrieved chunk to the question."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import Field, model_validator

from evaluators.case import enter, primary_text
from evaluators.configuration import Configuration, Flag, Parts, Share, required
from evaluators.evaluator import Assessment, Check, EvaluatorKind
from evaluators.judge_interface import Judge
from evaluators.judges.asking import NUMBER, REASON, JudgeAnswer, JudgeQuestion, Number, Reason, together
from evaluators.judges.criteria import within
from evaluators.judges.grounding import passages_of
from evaluators.model import Case
from evaluators.prompting import fenced
from evaluators.text import shown

_IRRELEVANT = 0.5
"""Score below which a reason quotes a chunk. A guess."""


class Relevance(JudgeAnswer):
    """Relevance of a chunk."""

    score: Number
    reason: Reason = ""


RELEVANCE: Final = JudgeQuestion(
    prompt="contextual_relevance", fields={"reason": REASON, "score": NUMBER}, shape=Relevance
)


class ContextualRelevance(Configuration):
    """Settings of `contextual_relevance`."""

    threshold: Share = Field(default=0.5, description="The mean score that passes.")
    evaluation_params: Parts = required("INPUT")
    retrieval_context_key: str = Field(
        default="retrievalContext",
        description="The key of the chunks, in actualOutputs, else of metadata, else of inputs.",
    )
    include_reason: Flag = Field(default=True, description="Quote in the reason which chunks are not relevant.")
    strict_mode: Flag = Field(default=False, description="Pass only at 1.0, whatever the threshold.")

    @model_validator(mode="before")
    @classmethod
    def _strict_is_one(cls, document: object) -> object:
        return at_one_where_strict(document)


def at_one_where_strict(document: object) -> object:
    """Return the configuration, with a threshold of 1 if it sets the strict mode."""
    if isinstance(document, Mapping) and True in (document.get("strictMode"), document.get("strict_mode")):
        return {**document, "threshold": 1.0}
    return document


def contextual_relevance(settings: ContextualRelevance) -> Check:
    """Score by the mean of the chunks' scores; 0 if nothing was retrieved."""

    async def check(case: Case, judge: Judge | None) -> Assessment:
        chunks = passages_of(case, settings.retrieval_context_key)
        question = enter(primary_text(case, "INPUT"), settings.path, "inputs.input")
        if not chunks:
            return Assessment(score=0.0, reason="Nothing was retrieved.", vacuous=True)
        answers = await together([RELEVANCE.ask(judge, **fenced(question=question, chunk=chunk)) for chunk in chunks])
        scores = [within(answer.score, 0, 1) for answer in answers]
        details: list[dict[str, Any]] = [
            {"chunk": chunk, "score": score, "reason": answer.reason}
            for chunk, score, answer in zip(chunks, scores, answers, strict=True)
        ]
        mean = sum(scores) / len(scores)
        reason = f"The mean relevance of {len(chunks)} chunks is {mean:.2f}."
        low = sorted((one for one in details if one["score"] < _IRRELEVANT), key=lambda one: float(one["score"]))
        if settings.include_reason and low:
            quoted = "; ".join(f"{shown(one['chunk'])} ({one['score']:g}: {one['reason']})" for one in low[:3])
            reason = f"{reason} Least relevant: {quoted}."
        return Assessment(score=mean, reason=reason, metadata={"contextScores": details})

    return check


KINDS: Final[tuple[EvaluatorKind[Any], ...]] = (
    EvaluatorKind(
        name="contextual_relevance",
        title="ContextualRelevance",
        version=2,
        checks="How relevant the retrieved chunks are to the question, on average.",
        reads=("inputs.input", "actualOutputs.retrievalContext"),
        configuration=ContextualRelevance,
        check=contextual_relevance,
        judge=lambda _: "always",
        prompts=(RELEVANCE.prompt,),
    ),
)
