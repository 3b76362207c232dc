"""The file of an experiment: the cases, the task that runs on them, and the evaluators that judge."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Field, Strict, field_validator, model_validator

from collector.plan_file import AtOnce, ProgramPlan, Times
from evaluators.model import NonBlank
from evaluators.wire import WireModel


class EvaluatorPlan(WireModel):
    """One of the evaluators that `tracejury evaluators` lists, with its configuration."""

    evaluator: NonBlank
    config: Mapping[str, Any] = {}


class Plan(WireModel):
    """An experiment: a task on the cases of a dataset, or conversations with simulated users."""

    experiment: NonBlank
    project: NonBlank = "default"
    description: Annotated[str, Field(max_length=2_000)] = ""
    dataset: NonBlank | None = None
    task: ProgramPlan | None = None
    simulation: NonBlank | None = None
    evaluators: Annotated[tuple[EvaluatorPlan, ...], Field(min_length=1)]
    trials: Times = 1
    parallelism: AtOnce = 1
    link_traces: Annotated[bool, Strict()] = False
    metadata: Mapping[str, Any] = {}

    @field_validator("evaluators", mode="before")
    @classmethod
    def _by_name(cls, value: object) -> object:
        if not isinstance(value, list):
            return value
        return [{"evaluator": each} if isinstance(each, str) else each for each in value]

    @model_validator(mode="after")
    def _runs_one_thing(self) -> Self:
        if (self.task is None) is (self.simulation is None):
            raise ValueError("needs either a task or a simulation (the path of its file), not both")
        if self.task is not None and self.dataset is None:
            raise ValueError("dataset: required with a task")
        if self.simulation is not None and self.link_traces:
            raise ValueError("linkTraces: each turn of a simulation has a trace of its own")
        return self
