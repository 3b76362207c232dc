"""Ids of tool calls in messages: removal of ids that frameworks make up, and call ids in place of OpenAI's item ids."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from collector.conventions.parts import ITEM_IDS, Part, is_item
from collector.conventions.pieces import parts_by_type
from collector.conventions.values import as_list
from storage.records import JsonValue, Message

BY_PYDANTIC: Final = "pyd_ai_"
MADE_UP: Final = ("adk-", BY_PYDANTIC)
"""Prefixes of the ids that ADK and Pydantic AI give to calls of models that give none."""

_NUMBERED: Final = re.compile(r"(.+)_\d+", re.DOTALL)  # by ADK, for messages whose calls have no id: lookup_0


def is_made_up(call_id: str | None) -> bool:
    """Return True if a framework made an id up."""
    return call_id is not None and call_id.startswith(MADE_UP)


def given(call_id: str | None) -> str | None:
    """Return the id of a call, unless a framework made it up."""
    return None if call_id is None or call_id.startswith(MADE_UP) else call_id


def without_marked(messages: list[Message]) -> list[Message]:
    """Return messages without the ids that begin with a prefix of `MADE_UP`."""
    return _changed(messages, lambda part: {**part, "id": None} if is_made_up(_id(part)) else part)


def without_made_up(messages: list[Message]) -> list[Message]:
    """Return messages without made-up ids, ADK's numbered `lookup_0` included: name and order tie results to calls."""
    names = {part.get("name") for message in messages for part in parts_by_type(message, "tool_call")}
    return _changed(messages, lambda part: _as_it_was(part, names))


def _as_it_was(part: Part, names: set[JsonValue]) -> Part:
    identity = part.get("id")
    if not isinstance(identity, str):
        return part
    if is_made_up(identity):
        return {**part, "id": None}
    numbered = _NUMBERED.fullmatch(identity)
    if numbered is None or numbered[1] not in names or part.get("name") not in (None, numbered[1]):
        return part
    return {**part, "id": None, "name": numbered[1]}


def with_ids_of_calls(messages: list[Message], ids: Sequence[str]) -> list[Message]:
    """Replace the item ids of calls by `ids`, in order, if these are as many and all calls have item ids."""
    calls = [part for message in messages for part in parts_by_type(message, "tool_call")]
    if not calls or len(calls) != len(ids) or not all(is_item(call) for call in calls):
        return messages
    return _renamed(messages, zip(map(id, calls), ids, strict=True))


def have_items(messages: Iterable[Message]) -> bool:
    """Return whether any call or result has the id of an item of OpenAI's Responses API (`ITEM_IDS`)."""
    return any(is_item(part) for message in messages for part in as_list(message["parts"]) if isinstance(part, dict))


def calls_of_items(value: JsonValue) -> Iterator[tuple[str, str]]:
    """Yield pairs of item id and call id from all objects of a JSON value that have both."""
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from calls_of_items(inner)
    if isinstance(value, dict) and is_item(value):
        call_id = value.get("call_id")
        if isinstance(call_id, str) and not call_id.startswith(ITEM_IDS):
            yield str(value["id"]), call_id


def with_calls_for_items(messages: list[Message], calls: Mapping[str, str]) -> list[Message]:
    """Return messages whose calls and results have call ids instead of item ids, if known."""
    return _changed(messages, lambda part: {**part, "id": calls[str(part["id"])]} if _id(part) in calls else part)


def with_ids_of_results(messages: list[Message]) -> list[Message]:
    """Return messages whose calls have the ids of their results instead of item ids.

    Results come in the order of their calls. Nothing changes if their numbers differ, if some call has no item id,
    or if results have no ids, ids of items or equal ids.
    """
    calls = [part for message in messages for part in parts_by_type(message, "tool_call")]
    results = [part for message in messages for part in parts_by_type(message, "tool_call_response")]
    if not calls or not all(is_item(call) for call in calls):
        return messages
    ids = [identity for part in results if isinstance(identity := part.get("id"), str) and not is_item(part)]
    if not len(ids) == len(results) == len(calls) == len(set(ids)):
        return messages
    return _renamed(messages, zip(map(id, calls), ids, strict=True))


def _renamed(messages: list[Message], ids: Iterable[tuple[int, str]]) -> list[Message]:
    names = dict(ids)
    return _changed(messages, lambda part: {**part, "id": names[id(part)]} if id(part) in names else part)


def _id(part: Part) -> str | None:
    identity = part.get("id")
    return identity if isinstance(identity, str) else None


def _changed(messages: list[Message], change: Callable[[Part], Part]) -> list[Message]:
    """Return messages with changed parts; the same list if no part changes."""
    changed_messages: list[Message] = []
    is_other = False
    for message in messages:
        parts = as_list(message["parts"])
        changed: list[JsonValue] = [change(part) if isinstance(part, dict) else part for part in parts]
        is_same = all(part is before for part, before in zip(changed, parts, strict=True))
        changed_messages.append(message if is_same else {**message, "parts": changed})
        is_other = is_other or not is_same
    return changed_messages if is_other else messages
