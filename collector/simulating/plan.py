"""The file of a simulation: its scenarios, the target application, the simulated users, and the limits."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, Strict

from collector.plan_file import Address, AtOnce, Command, Pointer, ProgramPlan, Seconds, Times, Whole
from evaluators.model import NonBlank
from evaluators.wire import WireModel


class TargetPlan(ProgramPlan):
    """The application to talk to, and the paths of tool calls and state in its answers."""

    tool_calls: Pointer | None = None
    state: Pointer | None = None


class UserToolPlan(WireModel):
    """A tool of the simulated user: a command that reads the arguments as JSON, and prints the result."""

    name: NonBlank
    description: NonBlank
    parameters: Mapping[str, Any] = {"type": "object", "properties": {}}
    command: Command


class UserPlan(WireModel):
    """The model of the simulated users, behind chat completions."""

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
    """Budget of the whole simulation, of both sides."""

    calls: Whole | None = None
    tokens: Whole | None = None
    usd: Annotated[float, Field(gt=0)] | None = None


class StopPlan(WireModel):
    """Texts that end a conversation, in any case of letters."""

    assistant_says: tuple[NonBlank, ...] = ()
    user_says: tuple[NonBlank, ...] = ()


class SimulationPlan(WireModel):
    """Plan of a simulation."""

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
