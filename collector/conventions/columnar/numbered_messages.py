"""Messages in numbered attributes. The positions of their roles, texts and calls are computed once for each plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from collector.conventions.columnar.normal import bare_arguments, bare_response
from collector.conventions.items_as_text import SLOTS, may_hide_blocks
from collector.conventions.messages import ROLES
from collector.conventions.numbered import Branches, Node
from collector.conventions.parts import ITEM_IDS
from collector.conventions.plan import ShapePlan
from collector.conventions.table import Slot
from collector.conventions.values import is_redacted
from storage.records import JsonValue, Message

Texts: TypeAlias = NDArray[np.object_]
_TEXT: Final = ord("s")
_NAMES: Final = ("name", "finish_reason")  # of a message, beside its parts
_KNOWN: Final = frozenset({"role", "content", "tool_call_id", *_NAMES})


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedMessages:
    """Positions of the messages of a plan, each with a role, and words, calls of tools or a result."""

    places: "Sequence[_Place]"
    may_hide: bool  # the library may write content blocks into texts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """The numbers of the keys of one message, and of each of its calls."""

    fields: Mapping[str, int]
    calls: Sequence[Mapping[str, int]]
    used: Sequence[int]


def numbered_messages(plan: ShapePlan, slot: Slot) -> NumberedMessages | None:
    """Return the positions of a slot's strongest messages; None if these are not numbered, or have unknown keys."""
    leads = plan.leads.get(slot)
    if not leads or not leads[0].place.is_group or leads[0].place.path:
        return None
    items = plan.groups[leads[0].place.key]
    places = [_place(item) for item in items] if isinstance(items, list) else []
    known = [place for place in places if place is not None]
    return (
        NumberedMessages(places=known, may_hide=not SLOTS.isdisjoint(plan.mentioned))
        if known and len(known) == len(places)
        else None
    )


def _place(item: Node) -> _Place | None:
    below = dict(_unwrapped(item, "message"))  # OpenInference's
    listed = below.pop("tool_calls", [])
    calls = [_call_place(call) for call in listed] if isinstance(listed, list) else [None]
    fields = {name: number for name, number in below.items() if isinstance(number, int)}
    known = [call for call in calls if call is not None]
    is_known = "role" in fields and fields.keys() == below.keys() <= _KNOWN and len(known) == len(calls)
    if not is_known or (known and "tool_call_id" in fields) or not (known or "content" in fields):
        return None
    used = (*fields.values(), *(number for call in known for number in call.values()))
    return _Place(fields=fields, calls=known, used=used)


def _call_place(item: Node) -> Mapping[str, int] | None:
    """Return the numbers of the keys of a call: its id, its name and its arguments, wrapped or not."""
    below = dict(_unwrapped(item, "tool_call"))
    function = dict(_unwrapped(below.pop("function", Branches(()))))
    if "id" in function:
        return None
    below.update(function)
    fields = {name: number for name, number in below.items() if isinstance(number, int)}
    return fields if fields.keys() == below.keys() == {"id", "name", "arguments"} else None


def _unwrapped(item: Node, wrapping: str = "") -> tuple[tuple[str, Node], ...]:
    """Return the branches of a map, or those of its only key."""
    if not isinstance(item, Branches):
        return ()
    if len(item.below) == 1 and item.below[0][0] == wrapping:
        return _unwrapped(item.below[0][1])
    return item.below


def gathered(
    numbered: NumberedMessages, start: int, texts: Texts, letters: bytes, role: str
) -> tuple[str | None, list[Message]] | None:
    """Read messages of the span whose attributes begin at `start`; return the last text of `role` and the messages.

    None if the messages need the slow path.
    """
    messages: list[Message] = []
    spoken = None
    was_calling = False
    for place in numbered.places:
        for at in place.used:
            if letters[start + at] != _TEXT or not texts[start + at]:
                return None
        fields = {name: texts[start + at] for name, at in place.fields.items()}
        if numbered.may_hide and may_hide_blocks(fields.get("content", "")):
            return None
        message = _message(fields, [{name: texts[start + at] for name, at in call.items()} for call in place.calls])
        if message is None or (was_calling and place.calls):
            return None
        messages.append(message)
        was_calling = bool(place.calls)
        if message["role"] == role and "content" in fields:
            spoken = fields["content"]
    if role == "assistant" and messages[-1]["role"] in ("user", "system"):
        spoken = None
    return spoken, messages


def _message(fields: Mapping[str, str], calls: Sequence[Mapping[str, str]]) -> Message | None:
    role, content = ROLES.get(fields["role"]), fields.get("content", "")
    if (
        role is None
        or content[:1] == "["
        or content.isspace()
        or is_redacted(content)
        or (calls and role != "assistant")
    ):
        return None
    parts: list[JsonValue] = [{"type": "text", "content": content}] if content else []
    if role == "tool":
        response = bare_response(content) if "tool_call_id" in fields else None
        if response is None or fields["tool_call_id"].startswith(ITEM_IDS):
            return None
        result: dict[str, JsonValue] = {
            "type": "tool_call_response",
            "id": fields["tool_call_id"],
            "response": response,
        }
        if "name" in fields:
            result["name"] = fields["name"]
        parts = [result]
    elif "tool_call_id" in fields:
        return None
    for call in calls:
        arguments = bare_arguments(call["arguments"])
        part: JsonValue = {"type": "tool_call", "id": call["id"], "name": call["name"], "arguments": arguments}
        if arguments is None or part in parts or call["id"].startswith(ITEM_IDS):
            return None
        parts.append(part)
    message: Message = {"role": role, "parts": parts}
    for name in _NAMES:
        if name in fields:
            message[name] = fields[name]
    return message
