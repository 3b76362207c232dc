"""Conversations: messages, tool calls, and their form for evaluators."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from tracejury.plain import plain

Role = Literal["user", "assistant", "system"]

_SPEAKERS: Final[Mapping[str, str]] = {"user": "User", "assistant": "Assistant", "system": "System"}


@dataclass(frozen=True)
class ToolCall:
    """A tool call and its result.

    `arguments` are an object, or what an agent sent in its place. `isError` in `metadata` marks a call that failed.
    """

    name: str
    arguments: Any = field(default_factory=dict)
    result: Any = None
    id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return the call as JSON for evaluators."""
        arguments = dict(self.arguments) if isinstance(self.arguments, Mapping) else self.arguments
        fields = {"name": self.name, "arguments": arguments, "result": self.result, "id": self.id}
        metadata = {"metadata": dict(self.metadata)} if self.metadata else {}
        return {name: value for name, value in fields.items() if value is not None} | metadata

    @classmethod
    def of(cls, document: Any) -> "ToolCall":
        """Read a call from JSON, in the form of evaluators or of chat completions.

        Raises:
            ValueError: the document is not a tool call.
        """
        call = document.get("function", document) if isinstance(document, Mapping) else {}
        call = call if isinstance(call, Mapping) else {}
        name, arguments = call.get("name"), call.get("arguments") or {}
        if isinstance(arguments, str):
            arguments = json.loads(arguments)
        if not isinstance(name, str) or not name or not isinstance(arguments, Mapping):
            raise ValueError("a tool call has a name, and arguments that are a JSON object")
        return cls(name, arguments, document.get("result"), document.get("id"), document.get("metadata") or {})


@dataclass(frozen=True)
class Message:
    """Message of one side, with the tools that it called: those of the application, or of a simulated user."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()

    def __post_init__(self) -> None:
        if self.role not in _SPEAKERS:
            raise ValueError(f"a role is one of {', '.join(_SPEAKERS)}, not {self.role!r}")
        if not isinstance(self.content, str):
            raise TypeError(f"the content of a message must be text, not {type(self.content).__name__}")

    @classmethod
    def user(cls, content: str, tool_calls: Sequence[ToolCall] = ()) -> "Message":
        """Return a message of the user."""
        return cls("user", content, tuple(tool_calls))

    @classmethod
    def assistant(cls, content: str, tool_calls: Sequence[ToolCall] = ()) -> "Message":
        """Return a message of the application."""
        return cls("assistant", content, tuple(tool_calls))

    @classmethod
    def system(cls, content: str) -> "Message":
        """Return a message with instructions for the application, which no user sees."""
        return cls("system", content)

    def document(self) -> dict[str, Any]:
        """Return the message as JSON for evaluators."""
        calls = {"toolCalls": [call.document() for call in self.tool_calls]} if self.tool_calls else {}
        return {"role": self.role, "content": self.content, **calls}

    @classmethod
    def of(cls, document: Any) -> "Message":
        """Return the message in a JSON document.

        Raises:
            ValueError: the document is not a message, or a tool call is not valid.
        """
        fields: Mapping[str, Any] = document if isinstance(document, Mapping) else {}
        role, content, calls = fields.get("role"), fields.get("content"), fields.get("toolCalls") or ()
        if not isinstance(role, str) or not isinstance(content, str) or not isinstance(calls, (list, tuple)):
            raise ValueError("a message has a role and a content, which are texts, and may have a list of toolCalls")
        return cls(role, content, tuple(ToolCall.of(each) for each in calls))  # type: ignore[arg-type] # checked there


@dataclass(frozen=True)
class ConversationTrajectory:
    """A conversation so far. It is immutable: `plus` returns a longer one."""

    scenario: str = ""
    messages: tuple[Message, ...] = ()

    def plus(self, *messages: Message) -> "ConversationTrajectory":
        """Return a copy with `messages` appended."""
        return replace(self, messages=(*self.messages, *messages))

    @property
    def user_messages(self) -> list[Message]:
        """Return the messages of the user."""
        return [message for message in self.messages if message.role == "user"]

    @property
    def assistant_messages(self) -> list[Message]:
        """Return the messages of the application."""
        return [message for message in self.messages if message.role == "assistant"]

    @property
    def turn_count(self) -> int:
        """Return the number of the user's messages, or of the application's if these are fewer."""
        return min(len(self.user_messages), len(self.assistant_messages))

    @property
    def last_message(self) -> Message | None:
        """Return the last message, or None."""
        return self.messages[-1] if self.messages else None

    @property
    def last_user_message(self) -> Message | None:
        """Return the last message of the user, or None."""
        return next((message for message in reversed(self.messages) if message.role == "user"), None)

    @property
    def last_assistant_message(self) -> Message | None:
        """Return the last message of the application, or None."""
        return next((message for message in reversed(self.messages) if message.role == "assistant"), None)

    def tool_calls_by_turn(self) -> list[list[ToolCall]]:
        """Return the application's calls, a list for each of its messages."""
        return [list(message.tool_calls) for message in self.assistant_messages]

    def tool_calls(self) -> list[ToolCall]:
        """Return the application's calls."""
        return [call for calls in self.tool_calls_by_turn() for call in calls]

    def to_text(self, *, with_arguments: bool = True) -> str:
        """Return a transcript: a line for each message, and below it one for each call."""
        lines = []
        for message in self.messages:
            lines.append(f"{_SPEAKERS[message.role]}: {message.content}")
            lines += [_line(call, with_arguments=with_arguments) for call in message.tool_calls]
        return "\n".join(lines)

    def document(self) -> dict[str, Any]:
        """Return the conversation as JSON for `conversation_trajectory`."""
        return {"scenario": self.scenario, "messages": [message.document() for message in self.messages]}

    def to_json(self) -> str:
        """Return the conversation as indented JSON."""
        return json.dumps(plain(self.document()), indent=2, ensure_ascii=False)

    @classmethod
    def of(cls, document: Any) -> "ConversationTrajectory":
        """Return the conversation in a JSON document.

        Raises:
            ValueError: the document has no list of messages, or a message is not valid.
        """
        messages = document.get("messages") if isinstance(document, Mapping) else None
        if not isinstance(messages, (list, tuple)):
            raise ValueError("a conversation has a list of messages")
        return cls(document.get("scenario") or "", tuple(Message.of(each) for each in messages))

    def to_test_case(
        self, tools: Sequence[Mapping[str, Any]] = (), tasks: Sequence[str] = ()
    ) -> dict[str, dict[str, Any]]:
        """Return the test case for evaluators of tool calls.

        The input is the last message of the user. With tasks it is the transcript with tool names but no arguments, so
        that a judge of arguments does not find them in its evidence.
        """
        last = self.last_user_message
        text = self.to_text(with_arguments=False) if tasks else ("" if last is None else last.content)
        metadata: dict[str, Any] = {"tools": list(tools)} if tools else {}
        if tasks:
            metadata["tasks"] = list(tasks)
        calls = [call.document() for call in self.tool_calls()]
        return {"inputs": {"input": text}, "actualOutputs": {"toolCalls": calls}, "metadata": metadata}


def _line(call: ToolCall, *, with_arguments: bool) -> str:
    is_object = isinstance(call.arguments, Mapping)
    arguments = call.arguments.items() if is_object else ((None, call.arguments),)
    texts = [(name, json.dumps(plain(value), ensure_ascii=False)) for name, value in arguments]
    shown = ", ".join(value if name is None else f"{name}={value}" for name, value in texts)
    return f"[tool: {call.name}({shown})]" if with_arguments else f"[tool: {call.name}]"
