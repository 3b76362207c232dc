"""The file of an experiment: which dataset, what is run on each case of it, and which evaluators judge."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Self

import yaml
from pydantic import Field, Strict, ValidationError, field_validator, model_validator

from evaluators.model import NonBlank
from evaluators.wire import WireModel, explain

MAX_FILE_BYTES: Final = 1 << 20

Seconds = Annotated[float, Field(gt=0, le=3_600)]
Pointer = Annotated[str, Field(pattern="^/", max_length=1_000)]
"""Where a value stands in a JSON document: RFC 6901."""


class BadPlan(ValueError):
    """A file of which no experiment can be made; the message says which key is wrong."""


class TaskPlan(WireModel):
    """What is run on a case: a command, or an endpoint that is sent JSON; and what of the answer is what."""

    command: Annotated[tuple[NonBlank, ...], Field(min_length=1)] | None = None
    url: Annotated[str, Field(pattern="^https?://[^/]")] | None = None
    environment: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    headers_from: Mapping[str, str] = {}
    body: Any = None
    output: Pointer | None = None
    tokens_in: Pointer | None = None
    tokens_out: Pointer | None = None
    cost_usd: Pointer | None = None
    timeout_seconds: Seconds = 60.0

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if (self.command is None) is (self.url is None):
            raise ValueError("a task is a command or a url")
        others = {"headers", "headers_from", "body"} if self.url is None else {"environment"}
        wrong = sorted(others & self.model_fields_set)
        if wrong:
            raise ValueError(f"{', '.join(wrong)}: not used with a {'command' if self.url is None else 'url'}")
        return self


class EvaluatorPlan(WireModel):
    """One of the evaluators that `tracejury evaluators` lists, with its configuration."""

    evaluator: NonBlank
    config: Mapping[str, Any] = {}


class Plan(WireModel):
    """An experiment."""

    experiment: NonBlank
    project: NonBlank = "default"
    dataset: NonBlank
    task: TaskPlan
    evaluators: Annotated[tuple[EvaluatorPlan, ...], Field(min_length=1)]
    trials: Annotated[int, Strict(), Field(ge=1, le=10_000)] = 1
    parallelism: Annotated[int, Strict(), Field(ge=1, le=1_000)] = 1
    link_traces: Annotated[bool, Strict()] = False
    metadata: Mapping[str, Any] = {}

    @field_validator("evaluators", mode="before")
    @classmethod
    def _by_name(cls, value: object) -> object:
        """A name alone is an evaluator without a configuration."""
        if not isinstance(value, list):
            return value
        return [{"evaluator": each} if isinstance(each, str) else each for each in value]


def read_plan(file: Path) -> Plan:
    """The experiment in a file.

    Raises:
        BadPlan: there is none.
    """
    try:
        with file.open("rb") as handle:
            content = handle.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise BadPlan(f"it is larger than {MAX_FILE_BYTES} bytes")
        return Plan.model_validate(yaml.safe_load(content.decode("utf-8-sig")))
    except OSError as error:
        raise BadPlan(error.strerror or str(error)) from None
    except UnicodeDecodeError as error:
        raise BadPlan(f"it is not UTF-8: {error}") from None
    except yaml.YAMLError as error:
        raise BadPlan(f"it is not YAML: {' '.join(str(error).split())}") from None
    except ValidationError as error:
        raise BadPlan(explain(error, Plan)) from None
