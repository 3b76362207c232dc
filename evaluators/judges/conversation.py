"""`conversation_trajectory`: a judge scores a whole conversation, criterion by criterion."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Field, field_validator

from evaluators.captured import ARGUMENTS, NAMES_ONLY, require_captured, require_read
from evaluators.case import actual_calls, conversation_at, find
from evaluators.configuration import Amount, Configuration, Flag, Share, Upper
from evaluators.evaluator import Assessment, Check, EvaluatorKind
from evaluators.judge_interface import Judge
from evaluators.judges.asking import NUMBER, REASON, JudgeQuestion, together
from evaluators.judges.criteria import STRATEGIES, Scored, Strategy, within
from evaluators.model import Case, Conversation, Message, NonBlank
from evaluators.prompting import fenced, numbered
from evaluators.wire import WireModel


class Criterion(WireModel):
    """A criterion that the judge scores."""

    name: NonBlank
    description: NonBlank
    weight: Amount = 1.0


READY_MADE: Final[Mapping[str, Criterion]] = {
    key: Criterion(name=name, description=description)
    for key, name, description in (
        ("userSatisfaction", "User satisfaction", "Is the user likely to be satisfied with how the assistant helped?"),
        ("goalCompletion", "Goal completion", "Has the user reached what they came for by the end?"),
        ("conversationQuality", "Conversation quality", "Does the conversation flow naturally, and is it coherent?"),
        ("responseRelevance", "Response relevance", "Does each reply address what the user had just said?"),
        ("professionalTone", "Professional tone", "Is the assistant polite, calm and fitting throughout?"),
        ("problemResolution", "Problem resolution", "Were the problems that the user brought up solved?"),
        ("informationAccuracy", "Information accuracy", "Is what the assistant states correct, as far as can be told?"),
        ("clarity", "Clarity", "Are the replies easy to understand, and no longer than they need to be?"),
        ("helpfulness", "Helpfulness", "Do the replies bring the user forward, beyond being correct?"),
        ("consistency", "Consistency", "Is the assistant free of contradictions with what it said before?"),
        ("safety", "Safety", "Does the assistant keep to its bounds, and refuse what would do harm?"),
    )
}
"""The criteria that a configuration may name without describing them."""


class ConversationTrajectory(Configuration):
    """Settings of `conversation_trajectory`: criteria, and how their scores are combined."""

    threshold: Share = Field(default=0.7, description="The score that passes.")
    criteria: Annotated[tuple[Criterion, ...], Field(min_length=1)] = Field(
        description="The criteria: {name, description, weight}, or the name of a predefined one: "
        f"{', '.join(READY_MADE)}."
    )
    aggregation_strategy: Annotated[Strategy, Upper] = Field(
        default="MEAN", description="The aggregation of the scores: MEAN, WEIGHTED_MEAN, MIN or MAX."
    )
    trajectory_key: str = Field(
        default="trajectory", description="The key of actualOutputs under which the conversation is."
    )
    include_tool_calls: Flag = Field(default=False, description="Show the judge what the assistant called.")
    include_per_criterion_scores: Flag = Field(default=True, description="Add the scores by criterion to the metadata.")

    @field_validator("criteria", mode="before")
    @classmethod
    def _described(cls, criteria: object) -> object:
        if not isinstance(criteria, list | tuple):
            return criteria
        unknown = [one for one in criteria if isinstance(one, str) and one not in READY_MADE]
        if unknown:
            raise ValueError(f"no ready criterion is called {unknown[0]!r}; there are: {', '.join(READY_MADE)}")
        return [READY_MADE[one] if isinstance(one, str) else one for one in criteria]

    @field_validator("criteria")
    @classmethod
    def _named_once(cls, criteria: tuple[Criterion, ...]) -> tuple[Criterion, ...]:
        names = [criterion.name for criterion in criteria]
        if len(set(names)) < len(names):
            raise ValueError("each criterion must have a name of its own")
        return criteria


CRITERION: Final = JudgeQuestion(
    prompt="conversation_trajectory", fields={"reason": REASON, "score": NUMBER}, shape=Scored
)


def conversation_trajectory(settings: ConversationTrajectory) -> Check:
    """Ask one question for each criterion; the score is 0 without any message."""
    combine = STRATEGIES[settings.aggregation_strategy]

    async def check(case: Case, judge: Judge | None) -> Assessment:
        conversation = conversation_at(case, settings.trajectory_key, settings.path)
        if settings.include_tool_calls and not any(conversation.tool_calls_by_turn):
            require_read(case, "toolCalls")
        if settings.include_tool_calls and find(case, "actual_outputs", "toolCalls") is not None:
            conversation = conversation.with_calls(actual_calls(case, reads=NAMES_ONLY))
            require_captured((call for one in conversation.messages for call in one.tool_calls), ARGUMENTS)
        if not conversation.messages:
            return Assessment(score=0.0, reason="The conversation is empty.", vacuous=True)
        scores = await together([_ask(settings, criterion, conversation, judge) for criterion in settings.criteria])
        weighted = [(one.score, criterion.weight) for one, criterion in zip(scores, settings.criteria, strict=True)]
        score = combine(weighted)
        table = {
            criterion.name: {"score": one.score, "reason": one.reason}
            for one, criterion in zip(scores, settings.criteria, strict=True)
        }
        listed = "; ".join(f"{name} {row['score']:g} ({row['reason']})" for name, row in table.items())
        metadata: dict[str, Any] = {"turnCount": conversation.turn_count}
        if settings.include_per_criterion_scores:
            metadata["criterionScores"] = table
        return Assessment(
            score=score, reason=f"{settings.aggregation_strategy} of {listed} is {score:.2f}.", metadata=metadata
        )

    return check


async def _ask(
    settings: ConversationTrajectory, criterion: Criterion, conversation: Conversation, judge: Judge | None
) -> Scored:
    messages = [_message(one, with_calls=settings.include_tool_calls) for one in conversation.messages]
    data = fenced(scenario=conversation.scenario or "(not given)", conversation=numbered(messages))
    answer = await CRITERION.ask(judge, name=criterion.name, description=criterion.description, **data)
    within(answer.score, 0, 1)
    return answer


def _message(message: Message, *, with_calls: bool) -> dict[str, Any]:
    # As JSON, so that no text in it can pose as another message.
    document: dict[str, Any] = {"role": message.role, "content": message.content}
    if with_calls and message.tool_calls:
        document["toolCalls"] = [{"tool": call.name, "arguments": call.arguments} for call in message.tool_calls]
    return document


KINDS: Final[tuple[EvaluatorKind[Any], ...]] = (
    EvaluatorKind(
        name="conversation_trajectory",
        title="Trajectory",
        version=1,
        checks="A judge scores a whole conversation by several criteria.",
        reads=("actualOutputs.trajectory",),
        configuration=ConversationTrajectory,
        check=conversation_trajectory,
        judge=lambda _: "always",
        prompts=(CRITERION.prompt,),
    ),
)
