"""Run policies: tools that are required, forbidden or in order; and usage compared with the best run."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, ValidationError, model_validator

from evaluators.captured import NAMES_ONLY, missing, require_read
from evaluators.case import actual_calls, conversation_at, find
from evaluators.configuration import Amount, Configuration, ReadsCalls, Share, Upper
from evaluators.errors import BadCase, NotCaptured
from evaluators.evaluator import Assessment, Check, EvaluatorKind, pure
from evaluators.model import Case, Conversation, NonBlank
from evaluators.summary import RunSummary, summary_of
from evaluators.wire import WireModel, explain

_SHOWN_VIOLATIONS = 10
"""A reason lists this many violations, and the metadata all. A guess."""

Names = tuple[NonBlank, ...]


class ToolPolicy(ReadsCalls):
    """Settings of `tool_policy`."""

    required: Names = Field(default=(), description="Tools that have to be called.")
    forbidden: Names = Field(default=(), description="Tools that must not be called.")
    order: Names = Field(
        default=(), description="Tools in their required order: none may be called before the one listed before it."
    )
    scope: Annotated[Literal["RUN", "TURN"], Upper] = Field(
        default="RUN", description="RUN: over all calls; TURN: in each turn of the conversation by itself."
    )
    trajectory_key: str = Field(
        default="trajectory", description="For TURN: the key of actualOutputs under which the conversation is."
    )

    @model_validator(mode="after")
    def _some_demand(self) -> Self:
        if not self.required and not self.forbidden and len(self.order) <= 1:
            raise ValueError("needs required, forbidden, or an order of two tools at least")
        both = sorted({*self.required} & {*self.forbidden})
        if both:
            raise ValueError(f"required and forbidden must not name one tool (got {both[0]!r})")
        return self


def tool_policy(settings: ToolPolicy) -> Check:
    """Compute the share of the demands that are met, of each turn or of all calls."""

    def check(case: Case) -> Assessment:
        if settings.scope == "RUN":
            calls = actual_calls(case, settings.path, settings.tool_calls_key, reads=NAMES_ONLY)
            parts = [("", [call.name for call in calls])]
        else:
            conversation = conversation_at(case, settings.trajectory_key, settings.path)
            turns = enumerate(called_by_turn(conversation), 1)
            parts = [(f"turn {number}: ", called) for number, called in turns]
        demands = len({*settings.required}) + len({*settings.forbidden}) + max(len(settings.order) - 1, 0)
        broken = [f"{where}{violation}" for where, called in parts for violation in _violations(settings, called)]
        if not parts:
            return Assessment(score=1.0, reason="There are no turns.", metadata={"violations": []}, vacuous=True)
        met = demands * len(parts) - len(broken)
        more = f"; and {len(broken) - _SHOWN_VIOLATIONS} more" if len(broken) > _SHOWN_VIOLATIONS else ""
        violation = f": {'; '.join(broken[:_SHOWN_VIOLATIONS])}{more}" if broken else ""
        reason = f"{met} of {demands * len(parts)} demands are met{violation}."
        return Assessment(score=met / (demands * len(parts)), reason=reason, metadata={"violations": broken})

    return pure(check)


def called_by_turn(conversation: Conversation) -> list[list[str]]:
    """Return the names of the tools that were called between each message of the user and the next.

    Calls before the first message of the user make a turn of their own; messages without calls there do not.
    """
    turns: list[list[str]] = []
    for message in conversation.messages:
        called = [] if message.role == "user" else [call.name for call in message.tool_calls]
        if message.role == "user" or (called and not turns):
            turns.append([])
        if called:
            turns[-1] += called
    return turns


def _violations(settings: ToolPolicy, called: Sequence[str]) -> list[str]:
    """Return a message for each demand that is not met."""
    violations = [f"{name} was not called" for name in dict.fromkeys(settings.required) if name not in called]
    violations += [
        f"{name} was called {called.count(name)} times" for name in dict.fromkeys(settings.forbidden) if name in called
    ]
    for first, then in itertools.pairwise(settings.order):
        if then in called and first not in called[: called.index(then)]:
            violations.append(f"{then} was called before {first}")
    return violations


class BestRun(WireModel):
    """Usage of the best known run. None is unknown, and not compared."""

    turns: Amount | None = None
    tool_calls: Amount | None = None
    llm_calls: Amount | None = None
    tokens: Amount | None = None
    cost_usd: Amount | None = None
    duration_ms: Amount | None = None


class Efficiency(Configuration):
    """Settings of `efficiency`."""

    threshold: Share = Field(default=0.8, description="The score that passes.")
    best: BestRun | None = Field(
        default=None,
        description="Numbers of the best run: turns, toolCalls, llmCalls, tokens, costUsd, durationMs; by default "
        "those of expectedOutputs.bestRun.",
    )
    trajectory_key: str = Field(
        default="trajectory", description="The key of actualOutputs under which the conversation is, for its turns."
    )


def efficiency(settings: Efficiency) -> Check:
    """Compute the best run's usage as a share of this run's, on average; better than the best counts as 1."""

    def check(case: Case) -> Assessment:
        best = settings.best
        if best is None:
            document = find(case, "expected_outputs", "bestRun")
            if document is None:
                raise BadCase("expectedOutputs.bestRun is missing, and the configuration has no best")
            best = _best(document)
        best_usage = best.model_dump(by_alias=True, exclude_none=True)
        actual = _taken(case, settings) if best_usage else {}
        known = {name: took for name in best_usage if (took := actual.get(name)) is not None}
        shares = {name: _share(best_usage[name], took) for name, took in known.items()}
        if not shares:
            if best_usage and find(case, "metadata", "traceSummary") is not None:
                raise NotCaptured(f"the numbers for {', '.join(best_usage)}")
            raise missing(case, "traceSummary", "none of the best run's numbers is known of this run")
        score = sum(shares.values()) / len(shares)
        listed = ", ".join(f"{name} {known[name]:g} (best {best_usage[name]:g})" for name in shares)
        table = {
            name: {"actual": known[name], "best": best_usage[name], "score": share} for name, share in shares.items()
        }
        return Assessment(
            score=score, reason=f"Took {listed}.", metadata={"measures": table}, by_less=len(known) < len(best_usage)
        )

    return pure(check)


def _best(document: object) -> BestRun:
    try:
        return BestRun.model_validate(document)
    except ValidationError as error:
        raise BadCase(explain(error, BestRun, root="expectedOutputs.bestRun")) from None


def _share(best: float, actual: float) -> float:
    return 1.0 if actual <= best else best / actual


def _taken(case: Case, settings: Efficiency) -> Mapping[str, float | None]:
    """Return the run's known usage."""
    require_read(case, "traceSummary")
    has_calls = find(case, "actual_outputs", "toolCalls") is not None
    has_any = has_calls or find(case, "metadata", "traceSummary") is not None
    summary = summary_of(case, settings.path) if has_any else RunSummary()
    has_talk = find(case, "actual_outputs", settings.trajectory_key) is not None
    return {
        "turns": conversation_at(case, settings.trajectory_key, settings.path).turn_count if has_talk else None,
        "toolCalls": summary.event_count,
        "llmCalls": summary.llm_call_count,
        "tokens": summary.tokens,
        "costUsd": summary.cost_usd,
        "durationMs": summary.duration_ms,
    }


KINDS: Final[tuple[EvaluatorKind[Any], ...]] = (
    EvaluatorKind(
        name="tool_policy",
        title="Tool Policy",
        version=2,
        checks=("The agent made the required calls, no forbidden ones, and in order, in the run or in each turn."),
        reads=("actualOutputs.toolCalls", "actualOutputs.trajectory"),
        configuration=ToolPolicy,
        check=tool_policy,
    ),
    EvaluatorKind(
        name="efficiency",
        title="Efficiency",
        version=2,
        checks="The run took little more than the best run known.",
        reads=(
            "actualOutputs.toolCalls",
            "actualOutputs.trajectory",
            "metadata.traceSummary",
            "expectedOutputs.bestRun",
        ),
        configuration=Efficiency,
        check=efficiency,
    ),
)
