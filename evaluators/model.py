"""Input of evaluators: a test case, and the agent's run in it. Users choose the keys inside a case's four maps."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, field_validator

from evaluators.wire import WireModel

Role = Literal["user", "assistant", "system", "tool"]
Values = Mapping[str, Any]
NonBlank = Annotated[str, Field(pattern=r"\S")]


class ToolCall(WireModel):
    """A call of a tool.

    `arguments` are an object, as agents are meant to send them; anything else that an agent sent is kept unchanged,
    so that it can be judged.
    """

    name: NonBlank
    arguments: Any = Field(default=None, validate_default=True)
    result: Any = None
    id: str | None = None
    start_time: datetime | None = None
    duration_ms: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    metadata: Values = Field(default_factory=dict)

    @field_validator("arguments")
    @classmethod
    def _none_are_empty(cls, arguments: object) -> object:
        return {} if arguments is None else arguments

    @field_validator("metadata", mode="before")
    @classmethod
    def _no_metadata_is_empty(cls, metadata: object) -> object:
        return {} if metadata is None else metadata

    @property
    def result_text(self) -> str | None:
        """Return the result as text: a structured one as compact JSON."""
        return None if self.result is None else text_of(self.result)


class ToolDefinition(WireModel):
    """A tool that the agent may call: the schema of its arguments is a JSON Schema."""

    name: NonBlank
    description: str | None = None
    input_schema: Mapping[str, Any] | bool | None = None


class Message(WireModel):
    """A message of a conversation, with the assistant's calls."""

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()


class Conversation(WireModel):
    """The messages that a user and an assistant exchanged."""

    messages: tuple[Message, ...] = ()
    scenario: str | None = None

    @property
    def turn_count(self) -> int:
        """Return the number of the user's messages, or of the assistant's if these are fewer."""
        roles = [message.role for message in self.messages]
        return min(roles.count("user"), roles.count("assistant"))

    def with_calls(self, calls: Sequence[ToolCall]) -> Self:
        """Return the conversation with these calls in the assistant's last message, unless a message has calls."""
        places = [place for place, message in enumerate(self.messages) if message.role == "assistant"]
        if not places or not calls or any(message.tool_calls for message in self.messages):
            return self
        last = self.messages[places[-1]].model_copy(update={"tool_calls": tuple(calls)})
        return self.model_copy(
            update={"messages": (*self.messages[: places[-1]], last, *self.messages[places[-1] + 1 :])}
        )

    @property
    def tool_calls_by_turn(self) -> tuple[tuple[ToolCall, ...], ...]:
        """Return the calls of each message of the assistant; an empty tuple for one without calls."""
        return tuple(message.tool_calls for message in self.messages if message.role == "assistant")

    def to_text(self, *, tool_calls: Literal["no", "names", "arguments"] = "no") -> str:
        """Return the transcript: each message begins a line, and each tool call is a line below its message."""
        lines: list[str] = []
        for message in self.messages:
            lines.append(f"{message.role.capitalize()}: {message.content}")
            if tool_calls != "no":
                lines += [
                    f"  [tool: {_rendered(call, with_arguments=tool_calls == 'arguments')}]"
                    for call in message.tool_calls
                ]
        return "\n".join(lines)


class AgentTrace(WireModel):
    """Calls, reasoning and answer of an agent."""

    tool_calls: tuple[ToolCall, ...] = ()
    final_response: str | None = None
    reasoning_steps: tuple[str, ...] = ()

    def to_outputs(self) -> dict[str, Any]:
        """Return the actual outputs of a test case: empty lists for nothing done, no output without an answer."""
        outputs: dict[str, Any] = {"toolCalls": self.tool_calls, "reasoningSteps": self.reasoning_steps}
        return outputs | ({} if self.final_response is None else {"output": self.final_response})

    def to_case(
        self, question: str | None, *, tools: Sequence[ToolDefinition] | None = None, tasks: Sequence[str] | None = None
    ) -> "Case":
        """Return a test case with this run as its actual outputs; tools and tasks are left out if unknown."""
        metadata = {"tools": tools, "tasks": tasks}
        return Case(
            inputs={} if question is None else {"input": question},
            actual_outputs=self.to_outputs(),
            metadata={key: list(value) for key, value in metadata.items() if value is not None},
        )


class Case(WireModel):
    """A test case: inputs, actual outputs, expected outputs, and metadata."""

    inputs: Values = Field(default_factory=dict)
    actual_outputs: Values = Field(default_factory=dict)
    expected_outputs: Values = Field(default_factory=dict)
    metadata: Values = Field(default_factory=dict)

    @field_validator("*", mode="before")
    @classmethod
    def _null_is_empty(cls, values: object) -> object:
        return {} if values is None else values


def unchecked_case(*, inputs: Values, actual_outputs: Values, expected_outputs: Values, metadata: Values) -> Case:
    """Build a case from maps without validation, and without reading their values."""
    parts = {
        "inputs": inputs,
        "actual_outputs": actual_outputs,
        "expected_outputs": expected_outputs,
        "metadata": metadata,
    }
    return _EMPTY.model_copy(update=parts)  # `model_construct` takes four times as long


_EMPTY: Final = Case()


def text_of(value: object) -> str:
    """Return the string form of a value: text as it is, everything else as compact JSON."""
    return value if isinstance(value, str) else _COMPACT.encode(value)


def _plain(value: object) -> object:
    """Convert what `json` cannot serialize: our own models, and mappings that are not dictionaries."""
    if isinstance(value, WireModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(value, Mapping):
        return dict(value)
    return float(value) if isinstance(value, Decimal) else str(value)


_COMPACT: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain)


def _rendered(call: ToolCall, *, with_arguments: bool) -> str:
    return f"{call.name}({text_of(call.arguments)})" if with_arguments else call.name
