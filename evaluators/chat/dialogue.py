"""Requests that continue a conversation, in each of the protocols: messages, tool calls and tools.

Pictures are sent only as data and in messages of users; a picture that is given by its URL is refused, not fetched.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from evaluators.chat.images import (
    ALL_PICTURES,
    MOST_SENT,
    MOST_SENT_BYTES,
    MOST_SENT_BYTES_IN_ALL,
    PICTURE,
    PICTURES,
    Image,
    image_of,
)
from evaluators.chat.wire import Protocol
from storage.records import JsonValue, Message, OfferedTool

Part: TypeAlias = Mapping[str, JsonValue]

_NO_SCHEMA: Final[dict[str, JsonValue]] = {"type": "object", "properties": {}}
_SYSTEM: Final = ("system", "developer")
MEDIA: Final = ("uri", "blob", "file")
"""The types of parts that are pictures, sounds and files."""

ROLES: Final = ("system", "user", "assistant", "tool")
"""Roles in a conversation that is sent; `developer` is a synonym of the first."""


class NotSendable(ValueError):
    """The protocol has no representation for a part; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatDialogue:
    """Messages in their normal form, and the tools that the model may call."""

    messages: Sequence[Message]
    tools: Sequence[OfferedTool]
    top_p: float | None = None

    @property
    def pictures(self) -> list[Image]:
        """Return the pictures to send.

        Raises:
            NotSendable: a message has a part that cannot be sent.

        """
        return [each for turn in _turns(self.messages) for each in turn.content if isinstance(each, Image)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    """A message with its parts by kind; a result has the id of its call."""

    role: str
    content: Sequence[str | Image]  # of texts and pictures, in their order
    calls: Sequence[tuple[str, Part]]
    results: Sequence[tuple[str, Part]]

    @property
    def has_pictures(self) -> bool:
        """Return True if the turn has a picture."""
        return any(isinstance(each, Image) for each in self.content)

    @property
    def text(self) -> str:
        """Return the texts of the turn, separated by blank lines."""
        return "\n\n".join(each for each in self.content if isinstance(each, str))


def dialogue_request(protocol: Protocol, model: str, dialogue: ChatDialogue) -> dict[str, Any]:
    """Return the body of a request, without the parameters that `with_parameters` adds.

    Raises:
        NotSendable: a part cannot be sent, pictures are too many or too large, or all messages are of the system.

    """
    turns = list(_turns(dialogue.messages))
    _check_pictures([each for turn in turns for each in turn.content if isinstance(each, Image)])
    if not any(turn.role not in _SYSTEM for turn in turns):
        raise NotSendable("the conversation needs a message of a user")
    request = _sendable(_WRITERS[protocol](model, turns, dialogue.tools))
    return request if dialogue.top_p is None else request | {"top_p": dialogue.top_p}


def _sendable(request: dict[str, Any]) -> dict[str, Any]:
    # JSON can express lone surrogates, which UTF-8 cannot encode.
    text = json.dumps(request, ensure_ascii=False)
    sendable: dict[str, Any] = json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    return sendable


def _turns(messages: Sequence[Message]) -> Iterator[_Turn]:
    """Yield the messages in order, without reasoning, which only the provider that signed it can verify."""
    waiting: list[str] = []
    made = 0
    for message in messages:
        role = str(message.get("role") or "user")
        content: list[str | Image] = []
        calls: list[tuple[str, Part]] = []
        results: list[tuple[str, Part]] = []
        for part in _parts(message):
            part_id = part.get("id")
            match part.get("type"):
                case "text":
                    content.append(str(part.get("content") or ""))
                case "reasoning":
                    pass
                case "tool_call":
                    made += 1
                    call_id = part_id if isinstance(part_id, str) and part_id else f"call_{made}"
                    waiting.append(call_id)
                    calls.append((call_id, part))
                case "tool_call_response":
                    call_id = part_id if isinstance(part_id, str) and part_id else (waiting or ["call_0"])[0]
                    waiting = [each for each in waiting if each != call_id]
                    results.append((call_id, part))
                case kind:
                    content.append(_picture(part, role, str(kind)))
        yield _Turn(role=role, content=content, calls=calls, results=results)


def _picture(part: Part, role: str, kind: str) -> Image:
    """Return the picture in a part that is neither text nor a call."""
    picture = image_of(part) if kind in MEDIA else None
    if picture is None:
        raise NotSendable(f"a part of the type {kind!r} cannot be sent: take it out. A picture must be there as data")
    if role != "user":
        raise NotSendable(f"pictures are allowed only in messages of users, not of {role!r}: remove it")
    return picture


def _check_pictures(pictures: Sequence[Image]) -> None:
    sizes = [len(each.content) for each in pictures]
    if len(sizes) > MOST_SENT:
        raise NotSendable(f"it has {len(sizes)} pictures, which is more than {PICTURES}")
    if max(sizes, default=0) > MOST_SENT_BYTES:
        raise NotSendable(f"a picture has {max(sizes):,} bytes, which is more than {PICTURE}")
    if sum(sizes) > MOST_SENT_BYTES_IN_ALL:
        raise NotSendable(f"the pictures have {sum(sizes):,} bytes, which is more than {ALL_PICTURES}")


def _parts(message: Message) -> list[dict[str, JsonValue]]:
    parts = message.get("parts")
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _chat(model: str, turns: Sequence[_Turn], tools: Sequence[OfferedTool]) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    for turn in turns:
        messages += [
            {"role": "tool", "tool_call_id": call_id, "content": _result(part)} for call_id, part in turn.results
        ]
        if not (turn.content or turn.calls) and turn.results:
            continue
        role = "user" if turn.role == "tool" else turn.role
        message: dict[str, Any] = {"role": role, "content": _chat_content(turn) if turn.has_pictures else turn.text}
        if turn.calls:
            message["tool_calls"] = [
                {"id": call_id, "type": "function", "function": {"name": _name(part), "arguments": _arguments(part)}}
                for call_id, part in turn.calls
            ]
            message["content"] = message["content"] or None
        messages.append(message)
    request: dict[str, Any] = {"model": model, "messages": messages}
    if tools:
        request["tools"] = [{"type": "function", "function": _function(tool)} for tool in tools]
    return request


def _chat_content(turn: _Turn) -> list[dict[str, Any]]:
    return [
        {"type": "image_url", "image_url": {"url": _data_url(each)}}
        if isinstance(each, Image)
        else {"type": "text", "text": each}
        for each in turn.content
    ]


def _data_url(picture: Image) -> str:
    return f"data:{picture.media_type};base64,{picture.base64}"


def _responses(model: str, turns: Sequence[_Turn], tools: Sequence[OfferedTool]) -> dict[str, Any]:
    begins = next(place for place, turn in enumerate(turns) if turn.role not in _SYSTEM)
    items: list[dict[str, Any]] = []
    for turn in turns[begins:]:
        items += [
            {"type": "function_call_output", "call_id": call_id, "output": _result(part)}
            for call_id, part in turn.results
        ]
        if turn.content:
            kind = "output_text" if turn.role == "assistant" else "input_text"
            role = "user" if turn.role == "tool" else turn.role
            content = [
                {"type": "input_image", "image_url": _data_url(each)}
                if isinstance(each, Image)
                else {"type": kind, "text": each}
                for each in turn.content
            ]
            items.append({"role": role, "content": content})
        items += [
            {"type": "function_call", "call_id": call_id, "name": _name(part), "arguments": _arguments(part)}
            for call_id, part in turn.calls
        ]
    request: dict[str, Any] = {"model": model, "input": items, "store": False}
    if begins:
        request["instructions"] = "\n\n".join(turn.text for turn in turns[:begins])
    if tools:
        request["tools"] = [{"type": "function", **_function(tool)} for tool in tools]
    return request


def _anthropic(model: str, turns: Sequence[_Turn], tools: Sequence[OfferedTool]) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    for turn in turns:
        if turn.role in _SYSTEM:
            continue
        role = "assistant" if turn.role == "assistant" else "user"
        blocks: list[dict[str, Any]] = [
            {"type": "tool_result", "tool_use_id": call_id, "content": _result(part)} for call_id, part in turn.results
        ]
        blocks += [_anthropic_block(each) for each in turn.content if each]
        blocks += [
            {"type": "tool_use", "id": call_id, "name": _name(part), "input": _argument_map(part)}
            for call_id, part in turn.calls
        ]
        if messages and messages[-1]["role"] == role:  # roles must alternate
            messages[-1]["content"] += blocks
        elif blocks:
            messages.append({"role": role, "content": blocks})
    request: dict[str, Any] = {"model": model, "messages": messages}
    system = [turn.text for turn in turns if turn.role in _SYSTEM]
    if system:
        request["system"] = "\n\n".join(system)
    if tools:
        request["tools"] = [_anthropic_tool(tool) for tool in tools]
    return request


def _anthropic_block(part: str | Image) -> dict[str, Any]:
    if isinstance(part, Image):
        return {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": part.base64}}
    return {"type": "text", "text": part}


def _anthropic_tool(tool: OfferedTool) -> dict[str, Any]:
    definition: dict[str, Any] = {"name": tool.name, "input_schema": _schema(tool)}
    return definition if tool.description is None else definition | {"description": tool.description}


def _function(tool: OfferedTool) -> dict[str, Any]:
    definition: dict[str, Any] = {"name": tool.name, "parameters": _schema(tool)}
    return definition if tool.description is None else definition | {"description": tool.description}


def _schema(tool: OfferedTool) -> JsonValue:
    return tool.parameters if isinstance(tool.parameters, dict) else _NO_SCHEMA


def _name(part: Part) -> str:
    name = part.get("name")
    if not isinstance(name, str) or not name:
        raise NotSendable("a call of a tool needs the name of the tool")
    return name


def _arguments(part: Part) -> str:
    arguments = part.get("arguments")
    return arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)


def _argument_map(part: Part) -> dict[str, JsonValue]:
    arguments = part.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            arguments = {"arguments": arguments}
    return arguments if isinstance(arguments, dict) else {}


def _result(part: Part) -> str:
    response = part.get("response")
    return response if isinstance(response, str) else json.dumps(response, ensure_ascii=False)


_WRITERS: Final = {"CHAT_COMPLETIONS": _chat, "RESPONSES": _responses, "ANTHROPIC": _anthropic}
