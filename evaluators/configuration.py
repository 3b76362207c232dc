"""Settings that all evaluators share, and the types that configurations consist of."""

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BeforeValidator, Field, Strict

from evaluators.path import Path, parse_path
from evaluators.wire import WireModel
from storage.records import MAX_COUNT

Parameter: TypeAlias = Literal[
    "INPUT", "ACTUAL_OUTPUT", "EXPECTED_OUTPUT", "TOOL_CALLS", "TOOLS", "CONTEXT", "CONVERSATION", "METADATA"
]
"""A part of a test case: its primary input, actual output and expected output, the calls of tools, the tools that were
offered, the retrieved context, the conversation, and the metadata."""

Flag: TypeAlias = Annotated[bool, Strict()]
Count: TypeAlias = Annotated[int, Strict(), Field(ge=0)]
Amount: TypeAlias = Annotated[float, Strict(), Field(ge=0, le=MAX_COUNT, allow_inf_nan=False)]
Share: TypeAlias = Annotated[float, Strict(), Field(ge=0, le=1, allow_inf_nan=False)]


Key: TypeAlias = Annotated[str, Field(min_length=1)]
"""The key of a map of the test case."""


def _upper(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _path(value: object) -> object:
    return parse_path(value) if isinstance(value, str) else value


def required(*parts: Parameter) -> Any:  # noqa: ANN401 - as pydantic's own Field
    """Return the field `evaluationParams` with the default parts of a case that an evaluator needs."""
    return Field(default=parts, description="The parts of a test case that must not be missing.")


Upper = BeforeValidator(_upper)
"""A choice that is written in upper case, and accepted in any case."""

Lower = BeforeValidator(_lower)
"""A choice that is written in lower case, and accepted in any case."""

Parts: TypeAlias = tuple[Annotated[Parameter, Upper], ...]
"""Parts of a test case."""

WhenVacuous: TypeAlias = Annotated[Literal["PASS", "FAIL", "SKIP"], Upper]
"""Outcome of a check that had nothing to check."""


class Configuration(WireModel):
    """Settings that all evaluators share. Subclasses set the defaults of their evaluator."""

    unfingerprinted: ClassVar[frozenset[str]] = frozenset({"name"})
    """Settings that affect no verdict, and are left out of the fingerprint: after a rename, scores stay comparable."""

    name: str | None = Field(default=None, description="The name in outcomes; by default the evaluator's title.")
    threshold: Share = Field(default=1.0, description="The score that passes, from 0 to 1.")
    path: Annotated[Path, BeforeValidator(_path)] | None = Field(
        default=None, description="The path of the value to judge, within the value that the evaluator reads."
    )
    evaluation_params: Parts = required()
    when_vacuous: WhenVacuous = Field(
        default="PASS", description="The outcome if there is nothing to check: PASS, FAIL or SKIP."
    )


class ReadsCalls(Configuration):
    """Settings of an evaluator of the calls that were made."""

    tool_calls_key: Key = Field(
        default="toolCalls", description="The key of actualOutputs under which the tool calls are."
    )


class ReadsTools(Configuration):
    """Settings of an evaluator of the tools that an agent was offered."""

    tools_key: Key = Field(default="tools", description="The key of metadata under which the tool definitions are.")
