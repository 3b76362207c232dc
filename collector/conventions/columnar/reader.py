"""The meaning of the spans of a batch: a table with a row for each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from collector.conventions.columnar.laid import Laid, Shapes
from collector.conventions.columnar.normal import halved, normal_messages
from collector.conventions.columnar.numbered_messages import gathered
from collector.conventions.columnar.recipe import Recipe, recipe_of
from collector.conventions.columnar.simple import (
    ALL_FIELDS,
    COST,
    COUNTS,
    REASON,
    TOOL_TEXTS,
    Simple,
    simple_fields,
)
from collector.conventions.columnar.span_fields import ERROR, SpanFields
from collector.conventions.columnar.stored import Row, definitions_text, json_text, row_of
from collector.conventions.columnar.tools import read_tool
from collector.conventions.counts import read_cost, read_count
from collector.conventions.failure import failure_of
from collector.conventions.finish import last_finish, may_tell_reason, read_finish_reason, reason_of
from collector.conventions.own_keys import OwnKeys
from collector.conventions.parts import may_think
from collector.conventions.plan import ShapePlan
from collector.conventions.raw import raw_text
from collector.conventions.slot_values import Memo, SlotValues
from collector.conventions.span import RAW, is_pending, read_content, read_definitions, read_model
from collector.conventions.table import Slot
from collector.conventions.values import encodable, is_redacted
from storage.ingest.batch import KEYED, MEANINGS
from storage.records import LogRecord, Message, Span

_TEXT: Final = ord("s")
_MOST_RECIPES: Final = 16_384
_SENT_REASON: Final = "sent finish reason"  # a temporary key, for the reason as sent
_LARGEST: Final = 2**63 - 1
_MOST_DEFINITIONS: Final = 4_096
"""Maximum number of cached tool sets, as text to store. A guess: an application has a few, of some kilobytes each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Reading of a batch: the columns to store, and full texts where a column stores only an attribute's key."""

    columns: pa.Table  # of `MEANINGS`
    texts: Mapping[str, pa.StringArray]  # of messages, arguments and results


class SpanReader:
    """Reader of one batch of spans after another. For one thread."""

    def __init__(self, own: OwnKeys) -> None:
        self._shapes = Shapes(own)
        self._recipes: dict[int, Recipe] = {}
        self._definitions: dict[tuple[Any, ...], str | None] = {}

    def read(self, spans: pa.Table) -> Read:
        """Read the spans of a batch; their resources and scopes are columns beside them."""
        laid = self._shapes.lay(spans)
        simple = simple_fields(laid)
        if len(self._definitions) > _MOST_DEFINITIONS:
            self._definitions.clear()
        reading = _Reading(laid, SpanFields(spans), simple, self._definitions)
        recipes = [self._recipe(plan) for plan in laid.plans]
        rows = [reading.row(row, recipes[number]) for row, number in enumerate(laid.plan_of.tolist())]
        columns = _table(rows, simple, laid, recipes)
        return Read(columns=columns, texts={name: _spelled(name, columns, laid) for name in KEYED})

    def _recipe(self, plan: ShapePlan) -> Recipe:
        recipe = self._recipes.get(id(plan))
        if recipe is None or recipe.plan is not plan:
            if len(self._recipes) > _MOST_RECIPES:
                self._recipes.clear()
            recipe = self._recipes[id(plan)] = recipe_of(plan)
        return recipe


class _Reading:
    """The fields of a batch that are not read as whole columns, span by span."""

    def __init__(
        self, laid: Laid, fields: SpanFields, simple: Simple, definitions: dict[tuple[Any, ...], str | None]
    ) -> None:
        self._laid, self._fields = laid, fields
        self._starts: list[int] = laid.starts.tolist()
        self._odd: list[bool] = simple.odd.tolist()
        self._elsewhere = {id(laid.plans[number]): slots for number, slots in simple.elsewhere.items()}
        self._definitions = definitions
        self._memo = Memo()
        self._alike: dict[int, Row | None] = {}  # by recipe

    def row(self, row: int, recipe: Recipe) -> Row | None:
        """Return the fields of a span besides its simple ones; None if there are none."""
        if self._odd[row] or row in self._fields.has_fields:
            return self._slowly(row, recipe, ALL_FIELDS)
        if not recipe.has_content and not recipe.can_fail and self._is_quiet(row):
            return self._without_content(row, recipe)
        elsewhere = self._elsewhere.get(id(recipe.plan), ())
        is_marked = row in self._fields.has_content or self._is_redacted(row, recipe)
        if recipe.prompt is not None and recipe.answered is not None and not is_marked:
            read = self._quickly(row, recipe, elsewhere)
            if read is not None:
                return read
        if recipe.trajectory is not None and not is_marked:
            read = self._by_halves(row, recipe, recipe.trajectory, elsewhere)
            if read is not None:
                return read
        if recipe.tool is not None and not elsewhere and self._is_quiet(row):
            read = read_tool(recipe.tool, self._starts[row], self._laid.texts, self._laid.letters)
            if read is not None:
                return read
        return self._slowly(row, recipe, elsewhere)

    def _is_redacted(self, row: int, recipe: Recipe) -> bool:
        start, texts = self._starts[row], self._laid.texts
        return any(is_redacted(texts[start + at]) for at in recipe.beside)

    def _is_quiet(self, row: int) -> bool:
        fields = self._fields
        return fields.statuses[row] != ERROR and row not in fields.events and not fields.dropped[row]

    def _without_content(self, row: int, recipe: Recipe) -> Row | None:
        """Return the fields that all spans of a plan without content share: the reasons why they have none."""
        elsewhere = self._elsewhere.get(id(recipe.plan), ())
        if elsewhere:
            return self._slowly(row, recipe, elsewhere)
        if id(recipe) not in self._alike:
            reasons = {name: value for name, value in self._slowly(row, recipe, ()).items() if value is not None}
            self._alike[id(recipe)] = reasons or None
        return self._alike[id(recipe)]

    def _collected(self, row: int, recipe: Recipe) -> SlotValues:
        return SlotValues(recipe.plan, self._laid.values(row), self._fields.span(row), memo=self._memo)

    def _slowly(self, row: int, recipe: Recipe, slots: Sequence[Slot]) -> Row:
        """Read the content and the fields in `slots`, in the order of `read`, so that notes have the same order."""
        values, keys = self._laid.values(row), recipe.plan.keys
        slot_values = SlotValues(recipe.plan, values, self._fields.span(row), memo=self._memo)
        content = read_content(slot_values, ())
        read = row_of(content, slot_values, lambda key: values[keys.index(key)] if key in keys else None)
        if row in self._fields.has_content:
            read["tool_definitions"] = definitions_text(read_definitions(slot_values))
        elif recipe.definitions:
            read["tool_definitions"] = self._offered(row, recipe, slot_values)
        if recipe.seeks_reason or row in self._fields.has_content or slots is ALL_FIELDS:
            reason = read_finish_reason(slot_values, content.output_messages)
            if reason is not None or slots is ALL_FIELDS:
                read["finish_reason"] = reason
        _add_fields(read, slot_values, slots)
        if is_pending(slot_values):
            read["pending"] = True
        return read

    def _quickly(self, row: int, recipe: Recipe, slots: Sequence[Slot]) -> Row | None:
        """Read messages that are in the normal form, or numbered; None if they need the slow path."""
        prompt = self._side(row, recipe, "input")
        answered = None if prompt is None else self._side(row, recipe, "output")
        if prompt is None or answered is None or (recipe.replies and self._may_think(row, recipe)):
            return None
        read = prompt | answered
        if recipe.seeks_reason and not self._add_reason(row, recipe, read, read.pop(_SENT_REASON, None)):
            return None
        return self._with_more(row, recipe, read, slots)

    def _may_think(self, row: int, recipe: Recipe) -> bool:
        start, texts = self._starts[row], self._laid.texts
        if recipe.reasoning >= 0 and texts[start + recipe.reasoning] == "0":
            return False
        return any(texts[start + at] is not None and may_think(texts[start + at]) for at in recipe.replies)

    def _add_reason(self, row: int, recipe: Recipe, read: Row, sent: str | None) -> bool:
        """Add the reason why an answer ended, from its messages; return False if that needs the slow path."""
        if recipe.plan.leads.get(REASON):
            return False
        reason = None if sent is None else reason_of(sent)
        if reason is not None:
            read["finish_reason"] = reason
            return True
        start, texts = self._starts[row], self._laid.texts
        return not any(texts[start + at] and may_tell_reason(texts[start + at]) for at in recipe.answers)

    def _by_halves(self, row: int, recipe: Recipe, at: int, slots: Sequence[Slot]) -> Row | None:
        """Read a conversation in one attribute; None if it needs the slow path."""
        place = self._starts[row] + at
        text = self._laid.texts[place]
        halves = halved(text) if self._laid.letters[place] == _TEXT else None
        if halves is None or any(mark in text for marks in recipe.odd_ids.values() for mark in marks):
            return None
        slot_values = self._collected(row, recipe)
        output = raw_text(slot_values, "output", ("output",), None) or halves.answer
        if output is None or slot_values.notes:
            return None
        read: Row = {
            "input": halves.words,
            "output": output,
            "input_messages": halves.prompt,
            "output_messages": halves.answered,
            "output_is_answer": False if halves.answer is None else True if halves.answer == output else None,
        }
        if recipe.seeks_reason and not self._add_reason(row, recipe, read, halves.finish_reason):
            return None
        return self._with_more(row, recipe, read, slots)

    def _with_more(self, row: int, recipe: Recipe, read: Row, slots: Sequence[Slot]) -> Row | None:
        """Add the other fields of a span to `read`, its dialogue, and return it; None if it needs the slow path."""
        if any(self._laid.texts[self._starts[row] + at] == value for at, value in recipe.announcing):
            return None
        may_fail = recipe.can_fail or self._fields.statuses[row] == ERROR or row in self._fields.events
        if not (may_fail or recipe.definitions or slots):
            return read
        slot_values = self._collected(row, recipe)
        if may_fail:
            has_input, has_output = (read.get(side) is not None for side in ("input", "output"))
            read["error"], read["error_type"] = failure_of(
                slot_values, None, has_input=has_input, has_output=has_output
            )
        if recipe.definitions:
            read["tool_definitions"] = self._offered(row, recipe, slot_values)
        for slot in slots:
            read[slot] = _field(slot_values, slot)
        return None if slot_values.notes else read

    def _side(self, row: int, recipe: Recipe, side: Literal["input", "output"]) -> Row | None:
        """Return one side of a dialogue; None if it needs the slow path."""
        start, texts, letters = self._starts[row], self._laid.texts, self._laid.letters
        where, role = (recipe.prompt, "user") if side == "input" else (recipe.answered, "assistant")
        messages: list[Message] | None = None
        row_of_side: Row
        if isinstance(where, int):
            text = texts[start + where]
            normal = normal_messages(text) if letters[start + where] == _TEXT else None
            if normal is None or any(mark in text for mark in recipe.odd_ids[side]):
                return None
            words = normal.prompt if side == "input" else normal.answered
            key = "messages_key" if normal.mended is None else "messages"
            row_of_side = {f"{side}_{key}": recipe.plan.keys[where] if normal.mended is None else normal.mended}
            if recipe.seeks_reason and side == "output":
                row_of_side[_SENT_REASON] = normal.finish_reason
        else:
            message_texts = None if where is None else gathered(where, start, texts, letters, role)
            if message_texts is None:
                return None
            words, messages = message_texts
            row_of_side = {f"{side}_messages": json_text(messages)}
            if recipe.seeks_reason and side == "output":
                row_of_side[_SENT_REASON] = last_finish(messages)
        if side == "output":
            row_of_side["output_is_answer"] = words is not None
        if words is None:
            slot_values = self._collected(row, recipe)
            words = raw_text(slot_values, side, RAW[side], messages)
            if words is None or slot_values.notes:
                return None
        row_of_side[side] = words
        return row_of_side

    def _offered(self, row: int, recipe: Recipe, slot_values: SlotValues) -> str | None:
        """Return the offered tools, read once for all spans that offer the same."""
        start, texts = self._starts[row], self._laid.texts
        sources = ((texts[start + at], word) for at, word in recipe.definitions)
        key = (id(recipe), *[text if text is not None and word in text else None for text, word in sources])
        if key in self._definitions:
            return self._definitions[key]
        notes = len(slot_values.notes)
        text = definitions_text(read_definitions(slot_values))
        if len(slot_values.notes) == notes:
            self._definitions[key] = text
        return text


def row_of_span(span: Span, logs: Sequence[LogRecord], own: OwnKeys) -> Row:
    """Return the stored row of one span and the log records that belong to it."""
    slot_values = SlotValues.of(span, logs, own)
    content = read_content(slot_values, logs)
    read = row_of(content, slot_values, span.attributes.get)
    read["tool_definitions"] = definitions_text(read_definitions(slot_values))
    read["finish_reason"] = read_finish_reason(slot_values, content.output_messages)
    _add_fields(read, slot_values, ALL_FIELDS)
    read["span_type"] = slot_values.kind or "other"
    read["dialect"] = slot_values.dialect.name if slot_values.dialect else None
    read["pending"] = True if is_pending(slot_values) else None
    return read


def _add_fields(row: Row, slot_values: SlotValues, slots: Sequence[Slot]) -> None:
    """Add the fields in `slots`, except those that the content has set, and the notes; `response_id` adds no notes."""
    for slot in slots:
        if slot not in ("response_id", REASON, *TOOL_TEXTS):  # added below, or by the content
            row[slot] = _field(slot_values, slot)
    row["notes"] = "\n".join(slot_values.notes) or None
    if "response_id" in slots:
        row["response_id"] = slot_values.text("response_id")


def rows_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Make a table of `MEANINGS` from rows; missing fields are NULL."""
    columns = [_column([row.get(field.name) for row in rows], field.type) for field in MEANINGS]
    return pa.table(columns, schema=MEANINGS)


def _field(slot_values: SlotValues, slot: Slot) -> str | float | None:
    if slot == "model":
        return read_model(slot_values)
    if slot in COUNTS:
        return read_count(slot_values, slot)
    if slot == COST:
        return read_cost(slot_values)
    return slot_values.text(slot)


def _table(rows: Sequence[Row | None], simple: Simple, laid: Laid, recipes: Sequence[Recipe]) -> pa.Table:
    values: dict[str, list[Any]] = {field.name: [None] * len(rows) for field in MEANINGS}
    places: dict[str, list[int]] = {name: [] for name in simple.columns}
    for number, row in enumerate(rows):
        if row is not None:
            for name, value in row.items():
                values[name][number] = value
            if not places.keys().isdisjoint(row):
                for name in places.keys() & row.keys():
                    places[name].append(number)
    columns = {name: _over(column, places[name], values[name]) for name, column in simple.columns.items()}
    columns["span_type"] = _by_plan([recipe.kind for recipe in recipes], laid)
    columns["dialect"] = _by_plan([recipe.dialect for recipe in recipes], laid)
    rest = [field for field in MEANINGS if field.name not in columns]
    columns |= {field.name: _column(values[field.name], field.type) for field in rest}
    return pa.table(columns, schema=MEANINGS)


def _spelled(name: str, columns: pa.Table, laid: Laid) -> pa.StringArray:
    """Return a column of texts; where only an attribute's key is stored, with the text of that attribute."""
    texts, keys = columns.column(name).combine_chunks(), columns.column(f"{name}_key").combine_chunks()
    rows = np.flatnonzero(keys.is_valid().to_numpy(zero_copy_only=False))
    if not len(rows):
        return texts
    plans, starts = laid.plan_of[rows].tolist(), laid.starts[rows].tolist()
    named = zip(plans, starts, keys.take(pa.array(rows)).to_pylist(), strict=True)
    places = [start + laid.plans[plan].keys.index(key) for plan, start, key in named]
    mask = np.zeros(len(texts), dtype=np.bool_)
    mask[rows] = True
    return pc.replace_with_mask(texts, pa.array(mask), laid.items.take(pa.array(places)))


def _by_plan(values: Sequence[str | None], laid: Laid) -> pa.StringArray:
    return pa.array(values, pa.string()).take(pa.array(laid.plan_of))


def _over(column: pa.Array, places: Sequence[int], values: Sequence[Any]) -> pa.Array:
    """Return a column with the values of some rows replaced."""
    if not places:
        return column
    mask = np.zeros(len(column), dtype=np.bool_)
    mask[places] = True
    return pc.replace_with_mask(column, pa.array(mask), _column([values[at] for at in places], column.type))


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, kind)
    except (UnicodeEncodeError, OverflowError, pa.ArrowException):
        return pa.array([_storable(value) for value in values], kind)


def _storable(value: Any) -> Any:  # noqa: ANN401 - whatever a column holds
    if isinstance(value, str):
        return encodable(value)
    return None if isinstance(value, int) and abs(value) > _LARGEST else value
