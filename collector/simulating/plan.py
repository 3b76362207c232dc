"""The file of a simulation: which scenarios, what is talked to, who plays the users, and what it may take."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Self

import yaml
from pydantic import Field, Strict, ValidationError, model_validator

from evaluators.model import NonBlank
from evaluators.wire import WireModel, explain

MAX_FILE_BYTES: Final = 16 << 20

Seconds = Annotated[float, Field(gt=0, le=3_600)]
Pointer = Annotated[str, Field(pattern="^/", max_length=1_000)]
Whole = Annotated[int, Strict(), Field(ge=1)]
Command = Annotated[tuple[NonBlank, ...], Field(min_length=1)]
Address = Annotated[str, Field(pattern="^https?://[^/]")]


class BadSimulation(ValueError):
    """A file of which no simulation can be made; the message says which key is wrong."""


class TargetPlan(WireModel):
    """What is talked to: a command, or an endpoint that is sent JSON; and what of the answer is what."""

    command: Command | None = None
    url: Address | None = None
    environment: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    headers_from: Mapping[str, str] = {}
    body: Any = None
    output: Pointer | None = None
    tool_calls: Pointer | None = None
    state: Pointer | None = None
    tokens_in: Pointer | None = None
    tokens_out: Pointer | None = None
    cost_usd: Pointer | None = None
    timeout_seconds: Seconds = 60.0

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if (self.command is None) is (self.url is None):
            raise ValueError("a target is a command or a url")
        others = {"headers", "headers_from", "body"} if self.url is None else {"environment"}
        wrong = sorted(others & self.model_fields_set)
        if wrong:
            raise ValueError(f"{', '.join(wrong)}: not used with a {'command' if self.url is None else 'url'}")
        return self


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
    trials: Annotated[int, Strict(), Field(ge=1, le=10_000)] = 1
    parallelism: Annotated[int, Strict(), Field(ge=1, le=1_000)] = 1
    budget: BudgetPlan = BudgetPlan()
    seed: Annotated[int, Strict()] = 0


def read_simulation(file: Path) -> SimulationPlan:
    """The simulation in a file.

    Raises:
        BadSimulation: there is none.
    """
    try:
        with file.open("rb") as handle:
            content = handle.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise BadSimulation(f"it is larger than {MAX_FILE_BYTES} bytes")
        return SimulationPlan.model_validate(yaml.safe_load(content.decode("utf-8-sig")))
    except OSError as error:
        raise BadSimulation(error.strerror or str(error)) from None
    except UnicodeDecodeError as error:
        raise BadSimulation(f"it is not UTF-8: {error}") from None
    except yaml.YAMLError as error:
        raise BadSimulation(f"it is not YAML: {' '.join(str(error).split())}") from None
    except ValidationError as error:
        raise BadSimulation(explain(error, SimulationPlan)) from None
