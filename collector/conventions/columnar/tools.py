"""Spans of tools whose call is in plain attributes: read on the fast path."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from collector.conventions import unwrap
from collector.conventions.columnar.normal import MAYBE_JSON, normal_messages
from collector.conventions.columnar.stored import LONG_ENOUGH, Row, json_text
from collector.conventions.plan import Lead, ShapePlan
from collector.conventions.raw import EMPTY
from collector.conventions.slot_values import BLANKS, REDACTED
from collector.conventions.table import Slot
from collector.conventions.values import NotJson, decode, is_redacted

Texts: TypeAlias = NDArray[np.object_]
_TEXT: Final = ord("s")
_ADK: Final = "adk"
_ARGUMENTS: Final[Sequence[Slot]] = ("tool_arguments", "input")
_RESULT: Final[Sequence[Slot]] = ("tool_result", "output")
_INPUT: Final[Sequence[Slot]] = ("input", "input_messages", "tool_arguments")
_OUTPUT: Final[Sequence[Slot]] = ("output", "output_messages", "answer_calls", "tool_result")
_BOUND: Final = frozenset({"args", "kwargs", "input_str", "inputs"})
_LAYERS: Final = frozenset({"toolResult", "lc", "type", "output", "content", "blocks", "response"})
"""Keys of what frameworks wrap around arguments, and around results."""

_NO_ARGUMENTS: Final = "tool_arguments: are not on the span"
_MARKED_CHARS: Final = 200  # below which a text may be the mark of a redaction


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRecipe:
    """Positions of a tool call's fields among the plan's keys, strongest first; `used` has all in ascending order."""

    keys: Sequence[str]
    arguments: Sequence[int]
    result: Sequence[int]
    prompt: Sequence[int]  # messages that may contain the call
    answered: Sequence[int]
    input: Sequence[int]
    output: Sequence[int]
    used: Sequence[int]


def tool_recipe(plan: ShapePlan) -> ToolRecipe | None:
    """Return how to read the spans of a plan as tool calls; None if attributes alone do not suffice."""
    leads = {slot: plan.leads.get(slot, ()) for slot in {*_ARGUMENTS, *_RESULT, *_INPUT, *_OUTPUT}}
    is_plain = not any(_is_special(lead) for places in leads.values() for lead in places)
    if plan.kind != "tool" or not is_plain or "pending" in plan.mentioned or not plan.leads.get("tool_name"):
        return None
    if plan.dialect is not None and plan.dialect.name == _ADK:
        return None

    def places(slots: Sequence[Slot]) -> tuple[int, ...]:
        return tuple(lead.at for slot in slots for lead in leads[slot])

    return ToolRecipe(
        keys=plan.keys,
        arguments=places(_ARGUMENTS),
        result=places(_RESULT),
        prompt=places(["input_messages"]),
        answered=places(["output_messages"]),
        input=places(_INPUT),
        output=places(_OUTPUT),
        used=tuple(sorted({*places(_INPUT), *places(_OUTPUT)})),
    )


def _is_special(lead: Lead) -> bool:
    place = lead.place
    return bool(place.path or place.value or place.is_group or place.is_json)


def read_tool(recipe: ToolRecipe, start: int, texts: Texts, letters: bytes) -> Row | None:
    """Return the row of a tool's span that did not fail, with attributes from `start` on; None: read it slowly."""
    for at in recipe.used:
        if letters[start + at] != _TEXT:
            return None
    row: Row = {}
    for name, places in (("input", recipe.input), ("output", recipe.output)):
        at_place = _first(places, start, texts)
        if at_place is None:
            return None
        if at_place >= 0:
            row[name] = texts[start + at_place]
    is_read = _arguments(recipe, start, texts, row) and _result(recipe, start, texts, row)
    return row if is_read else None


def _first(places: Sequence[int], start: int, texts: Texts) -> int | None:
    """Return the number of the first key with a value; -1 if none has one; None if it needs the slow path."""
    for at in places:
        text = texts[start + at]
        if text.strip() in ("", '""'):
            return None  # a recorded blank counts only if no other attribute has a value: the slow path decides
        if text.strip() in EMPTY:
            continue
        if text.startswith(unwrap.BOUND_TEXTS):
            return None
        return None if text in BLANKS or _may_be_redacted(text) else at
    return -1


def _may_be_redacted(text: str) -> bool:
    return is_redacted(text) or (len(text) < _MARKED_CHARS and text.strip().startswith(REDACTED))


def _call(places: Sequence[int], messages: Sequence[int], start: int, texts: Texts) -> int | None:
    """Return the number of the key of arguments or a result; -1: not even messages have any. None: slow path."""
    for at in places:
        text = texts[start + at]
        if not text or text.isspace():
            return None  # a recorded blank counts only if no other attribute has a value: the slow path decides
        return None if text.strip() in BLANKS or _may_be_redacted(text) else at
    for at in messages:
        messages_read = normal_messages(texts[start + at])
        if messages_read is None or messages_read.has_calls:
            return None
    return -1


def _arguments(recipe: ToolRecipe, start: int, texts: Texts, row: Row) -> bool:
    at = _call(recipe.arguments, recipe.prompt, start, texts)
    if at is None:
        return False
    if at < 0:
        row["notes"] = _NO_ARGUMENTS
        return True
    value = _object(texts[start + at])
    if value is None or not _BOUND.isdisjoint(value):
        return False
    _keep(row, "tool_arguments", recipe.keys[at], texts[start + at], value)
    return True


def _result(recipe: ToolRecipe, start: int, texts: Texts, row: Row) -> bool:
    at = _call(recipe.result, recipe.answered, start, texts)
    if at is None:
        return False
    if at < 0:
        return True
    text = texts[start + at]
    if text[:1] not in MAYBE_JSON:
        if text.startswith(unwrap.WRITTEN):
            return False
        is_long = len(text) >= LONG_ENOUGH
        row["tool_result_key" if is_long else "tool_result"] = recipe.keys[at] if is_long else text
        row["tool_result_is_text"] = True
        return not unwrap.says_error(text)
    value = _object(text)
    if not value or not _LAYERS.isdisjoint(value) or unwrap.says_error(value):
        return False
    _keep(row, "tool_result", recipe.keys[at], text, value)
    return True


def _object(text: str) -> dict[str, object] | None:
    """Decode a JSON object; return None for any other text, and for surrogates, which DuckDB rejects."""
    if text[:1] != "{" or "\\ud" in text.lower():
        return None
    try:
        value = decode(text)
    except NotJson:
        return None
    return value if isinstance(value, dict) else None  # type: ignore[return-value] # of JSON


def _keep(row: Row, name: str, key: str, text: str, value: object) -> None:
    if len(text) >= LONG_ENOUGH:
        row[f"{name}_key"] = key
    else:
        row[name] = json_text(value)  # type: ignore[arg-type] # JSON of any kind
