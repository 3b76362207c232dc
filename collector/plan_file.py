"""Plan files of commands: reading them, and their common parts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Self, TypeVar

import yaml
from pydantic import Field, Strict, ValidationError, model_validator

from evaluators.model import NonBlank
from evaluators.wire import WireModel, explain
from storage.limit import Limit

Seconds = Annotated[float, Field(gt=0, le=3_600)]
Pointer = Annotated[str, Field(pattern="^/", max_length=1_000)]
"""A JSON Pointer (RFC 6901): the path of a value in a document."""
Whole = Annotated[int, Strict(), Field(ge=1)]
Command = Annotated[tuple[NonBlank, ...], Field(min_length=1)]
Address = Annotated[str, Field(pattern="^https?://[^/]")]
Times = Annotated[int, Strict(), Field(ge=1, le=10_000)]
AtOnce = Annotated[int, Strict(), Field(ge=1, le=1_000)]

MAX_PLAN_BYTES: Final = 16 << 20
_SIZE: Final = Limit(value=MAX_PLAN_BYTES, unit="bytes", remedy="keep cases in files of their own")

Shape = TypeVar("Shape", bound=WireModel)


class BadPlan(ValueError):
    """Refusal of a plan file; the message names the wrong key."""


class ProgramPlan(WireModel):
    """The application that answers: a command, or an endpoint that takes JSON; and pointers into its answer."""

    command: Command | None = None
    url: Address | None = None
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
            raise ValueError("needs either a command or a url, not both")
        others = {"headers", "headers_from", "body"} if self.url is None else {"environment"}
        wrong = sorted(others & self.model_fields_set)
        if wrong:
            raise ValueError(f"{', '.join(wrong)}: not used with a {'command' if self.url is None else 'url'}")
        return self


def read_plan_file(file: Path, shape: type[Shape]) -> Shape:
    """Read a plan from a YAML file.

    Raises:
        BadPlan: the file cannot be read, or is not a valid plan.
    """
    try:
        with file.open("rb") as handle:
            content = handle.read(MAX_PLAN_BYTES + 1)
        if len(content) > MAX_PLAN_BYTES:
            raise BadPlan(f"it is larger than {_SIZE}")
        return shape.model_validate(yaml.safe_load(content.decode("utf-8-sig")))
    except OSError as error:
        raise BadPlan(error.strerror or str(error)) from None
    except UnicodeDecodeError as error:
        raise BadPlan(f"it is not UTF-8: {error}") from None
    except ValidationError as error:
        raise BadPlan(explain(error, shape)) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # such as an invalid date, or endless brackets
        raise BadPlan(f"it is not YAML: {' '.join(str(error).split())}") from None
