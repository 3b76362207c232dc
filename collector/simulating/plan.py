"""The file of a simulation: which scenarios, what is talked to, who plays the users, and what it may take."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, Strict

from collector.plan_file import Address, AtOnce, Command, Pointer, ProgramPlan, Seconds, Times, Whole
from evaluators.model import NonBlank
from evaluators.wire import WireModel


class TargetPlan(ProgramPlan):
    """What is talked to, and where an answer has the calls of tools and the state that the agent left."""

    tool_calls: Pointer | None = None
    state: Pointer | None = None


class UserToolPlan(WireModel):
    """A tool of the simulated user: a command that reads the arguments as JSON, and prints what comes of them."""

    name: NonBlank
    description: NonBlank
    parameters: Mapping[str, Any] = {"type": "object", "properties": {}}
    command: Command


class UserPlan(WireModel):
    """The model that plays the users, behind chat completions."""

    base_url: Address
    model: NonBlank
    key_env: NonBlank | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    max_output_tokens: Whole | None = None
    time_limit_seconds: Seconds = 60.0
    attempts: Annotated[int, Strict(), Field(ge=1, le=10)] = 3
    input_usd_per_million: Annotated[float, Field(ge=0)] | None = None
    output_usd_per_million: Annotated[float, Field(ge=0)] | None = None
    tools: tuple[UserToolPlan, ...] = ()


class BudgetPlan(WireModel):
    """What the whole simulation may take, of both sides."""

    calls: Whole | None = None
    tokens: Whole | None = None
    usd: Annotated[float, Field(gt=0)] | None = None


class StopPlan(WireModel):
    """Texts that end a conversation once they are said, in any case of letters."""

    assistant_says: tuple[NonBlank, ...] = ()
    user_says: tuple[NonBlank, ...] = ()


class SimulationPlan(WireModel):
    """A simulation."""

    simulation: NonBlank
    project: NonBlank | None = None
    scenarios: str | list[Any]
    target: TargetPlan
    user: UserPlan | None = None
    max_turns: Annotated[int, Strict(), Field(ge=1, le=10_000)] = 10
    stop_when: StopPlan = StopPlan()
    trials: Times = 1
    parallelism: AtOnce = 1
    budget: BudgetPlan = BudgetPlan()
    seed: Annotated[int, Strict()] = 0
