"""Input and output as they were recorded, if they are not messages."""

import json
from collections.abc import Iterator
from typing import Final

from collector.conventions import unwrap
from collector.conventions.messages import message_of
from collector.conventions.pieces import have_content
from collector.conventions.slot_values import BLANKS, Candidate, SlotValues
from collector.conventions.table import Slot
from collector.conventions.values import REDACTION, NotJson, decode, encodable, is_redacted, text_of, why_redacted
from storage.records import Message

EMPTY_LIST = "[]"
EMPTY = frozenset({"", "{}", EMPTY_LIST, "null", '""'})
_OURS = 2  # below this rank are `dokimos.*` and an operator's own keys


def ours(slot_values: SlotValues, slot: Slot) -> str | None:
    """Return the text under `dokimos.*` or an operator's own key, which overrides all messages."""
    if not slot_values.tells(slot):
        return None
    return _first(slot_values, slot, [one for one in slot_values.candidates(slot) if one[0] < _OURS])


def raw_text(
    slot_values: SlotValues, field: str, slots: tuple[Slot, ...], messages: list[Message] | None
) -> str | None:
    """Return the raw text of the first slot that has one; else the messages as JSON."""
    for slot in slots:
        if slot_values.tells(slot):
            text = _first(slot_values, field, slot_values.candidates(slot))
            if text is not None:
                return text
    is_scrubbed = f"{field}: {REDACTION}" in slot_values.notes  # then the rest of the messages is not content
    if messages and have_content(messages) and not is_scrubbed:
        return encodable(json.dumps(messages, ensure_ascii=False))
    return None


def blank_text(slot_values: SlotValues, field: str, slots: tuple[Slot, ...]) -> str | None:
    """Return the first blank text that is recorded under one of the slots; None if there is none.

    Null, and empty objects and lists, are not texts: they are also written in place of content that is not captured.
    """
    for slot in slots:
        for _, place, value, source in slot_values.candidates(slot):
            item: object = slot_values.member(place, value, source) if place.path else value
            if isinstance(item, str) and item.strip() in ("", '""'):
                slot_values.sources[field] = source
                return "" if item.strip() else item
    return None


def empty_list(slot_values: SlotValues, slot: Slot) -> str | None:
    """Return the empty list that is recorded under a slot; None if there is none."""
    for _, place, value, source in slot_values.candidates(slot):
        recorded: object = slot_values.member(place, value, source) if place.path else value
        is_text = isinstance(recorded, str) and recorded.strip() == EMPTY_LIST
        if is_text or (isinstance(recorded, list | tuple) and not recorded):
            slot_values.sources[slot] = source
            return EMPTY_LIST
    return None


def _first(slot_values: SlotValues, field: str, candidates: list[Candidate]) -> str | None:
    for _, place, value, source in candidates:
        if place.is_group and not place.path:
            continue
        item: object = slot_values.member(place, value, source) if place.path else value
        if place.is_json:
            item = _unquoted(item)
        if isinstance(item, dict) and "role" in item and not have_content([message_of(item, "")]):
            continue  # a message without content
        if is_redacted(item) or _is_scrubbed(slot_values, item, source):
            slot_values.note(field, why_redacted(item))
            continue
        text = text_of(item)
        if text is not None and text[:1] == "{":
            text = unwrap.lone_text(text) or text
        if text is None or text.isspace() or text.strip() in EMPTY:
            continue
        if text in BLANKS:
            slot_values.note(field, f"{source} holds only the placeholder {text}")
            continue
        slot_values.note_redacted(field, text)
        slot_values.sources[field] = source
        return text
    return None


def _is_scrubbed(slot_values: SlotValues, value: object, source: str) -> bool:
    """Return True if all content of a request or response in JSON is marked as redacted."""
    if isinstance(value, str):
        value = slot_values.opened(value, source) if value[:1] in ("{", "[") and _may_be_marked(value.lower()) else None
    if isinstance(value, dict):
        value = next((value[name] for name in _CONVERSATIONS if value.get(name)), None)
    words = list(_words(value))
    return bool(words) and all(map(is_redacted, words))


def _words(value: object) -> Iterator[str]:
    """Yield the texts of messages, without roles and without the application's `system` texts."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _words(item)
    elif isinstance(value, dict) and value.get("role") not in ("system", "developer"):
        for name, part in value.items():
            if name not in _NO_WORDS:
                yield from _words(part)


def _may_be_marked(text: str) -> bool:
    return "redact" in text or "[filtered" in text or "[scrubbed" in text


_CONVERSATIONS: Final = ("messages", "input", "contents", "prompt", "message", "content")
_NO_WORDS: Final = frozenset({"role", "type", "id", "name", "tool_call_id", "call_id"})


def _unquoted(value: object) -> object:
    """Return a JSON string unquoted; several of them, one per line."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "\n".join(str(_unquoted(item)) for item in value)
    if isinstance(value, str) and value[:1] == '"':
        try:
            inner = decode(value)
        except NotJson:
            return value
        return inner if isinstance(inner, str) else value
    return value
