"""Redaction of the columns of a batch: whole columns at once.

The texts that senders choose are searched: names and status messages of spans, names of events, bodies of
log records, the project and service, and all attribute values, of spans, events, links, resources, scopes and log
records. A value that is changed and no longer has its type becomes text.
"""

import json
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from collector.redaction.plan import REDACTED, RedactionPlan, Replacement
from storage.ingest.batch import SpanBatch

_TEXT, _LISTS, _MAPS = ord("s"), ord("a"), ord("m")
_TEXTS_OF_SPANS = ("name", "status_message", "project", "service_name")
_Mask = npt.NDArray[np.bool_]


class Redactor:
    """Redaction of batches by a plan. `count` is the number of values changed since the start."""

    def __init__(self, plan: RedactionPlan) -> None:
        self._plan = plan
        self.count = 0

    def redact(self, batch: SpanBatch) -> SpanBatch:
        """Redact a batch.

        Raises:
            Exception: the redaction failed, and no part of the batch may be written.
        """
        spans = batch.spans
        for name in _TEXTS_OF_SPANS:
            spans = _set(spans, {name: self._text(_whole(spans, name))[0]})
        spans = self._attributes(spans)
        for name in ("events", "links"):
            spans = _set(spans, {name: self._items(_whole(spans, name))})
        return replace(
            batch,
            spans=spans,
            resources=self._attributes(batch.resources),
            scopes=self._attributes(batch.scopes),
            logs=self._logs(batch.logs) if batch.logs.num_rows else batch.logs,
        )

    def texts(self, texts: pa.StringArray) -> list[str]:
        """Redact texts by all patterns."""
        after: list[str] = self._text(texts)[0].to_pylist()
        return after

    def hidden_among(self, keys: list[str]) -> list[str]:
        """Return the keys whose values are removed."""
        hidden = self._hidden(pa.array(keys, pa.string()))
        return [key for key, is_hidden in zip(keys, hidden, strict=True) if is_hidden]

    def _logs(self, logs: pa.Table) -> pa.Table:
        bodies, changed = self._text(_whole(logs, "body"))
        types = _whole(logs, "body_type")
        if changed.any():
            letters = _letters(types, len(bodies))
            letters[changed] = _types_after(bodies, letters, changed)
            types = _with_letters(types, letters)
        return self._attributes(_set(logs, {"body": bodies, "body_type": types}))

    def _attributes(self, table: pa.Table) -> pa.Table:
        if not table.num_rows:
            return table
        maps, types = self._map(_whole(table, "attributes"), _whole(table, "attribute_types"))
        return _set(table, {"attributes": maps, "attribute_types": types})

    def _items(self, lists: pa.ListArray) -> pa.ListArray:
        items = lists.values
        if not len(items):
            return lists
        maps, types = self._map(items.field("attributes"), items.field("attribute_types"))
        columns = {"attributes": maps, "attribute_types": types}
        if "name" in items.type.names:
            columns["name"], _ = self._text(items.field("name"))
        fields = [columns[field.name] if field.name in columns else items.field(field.name) for field in items.type]
        return pa.ListArray.from_arrays(lists.offsets, pa.StructArray.from_arrays(fields, fields=list(items.type)))

    def _map(self, maps: pa.MapArray, types: pa.StringArray) -> tuple[pa.MapArray, pa.StringArray]:
        """Redact attributes and the letters of their types, which are as many as the values, in the same order."""
        keys, values = maps.keys, maps.items
        hidden = self._hidden(keys)
        if hidden.any():
            self.count += int(hidden.sum())
            values = pc.replace_with_mask(values, pa.array(hidden), pa.scalar(REDACTED))
        values, changed = self._text(values, ~hidden)
        changed = changed | hidden
        if not changed.any():
            return maps, types
        letters = _letters(types, len(values))
        letters[changed] = np.where(hidden[changed], _TEXT, _types_after(values, letters, changed))
        return pa.MapArray.from_arrays(maps.offsets, keys, values), _with_letters(types, letters)

    def _hidden(self, keys: pa.StringArray) -> _Mask:
        """Return a mask of the keys whose values are removed; each distinct key is checked once."""
        hidden = np.zeros(len(keys), dtype=np.bool_)
        if not self._plan.keys or not len(keys):
            return hidden
        encoded = keys.dictionary_encode()
        for pattern in self._plan.keys:
            is_secret = pc.match_substring_regex(encoded.dictionary, pattern).to_numpy(zero_copy_only=False)
            hidden |= is_secret[encoded.indices.to_numpy()]
        return hidden

    def _text(self, texts: pa.StringArray, where: _Mask | None = None) -> tuple[pa.StringArray, _Mask]:
        """Redact texts by all patterns; return them, and a mask of those that changed."""
        changed = np.zeros(len(texts), dtype=np.bool_)
        for each in self._plan.replacements:
            matches = _matches_of(texts, each)
            if where is not None:
                matches = matches & where
            if matches.any():
                mask = pa.array(matches)
                after = pc.replace_substring_regex(texts.filter(mask), pattern=each.pattern, replacement=each.by)
                texts = pc.replace_with_mask(texts, mask, after)
                changed |= matches
        self.count += int(changed.sum())
        return texts, changed


def _matches_of(texts: pa.StringArray, replacement: Replacement) -> _Mask:
    """Return a mask of the texts to replace in."""
    if replacement.sign:
        mask = _mask(pc.match_substring(texts, replacement.sign))
        if mask.any():
            mask[mask] = _mask(pc.match_substring_regex(texts.filter(pa.array(mask)), replacement.pattern))
        return mask
    return _mask(pc.match_substring_regex(texts, replacement.pattern))


def _mask(matches: pa.BooleanArray) -> _Mask:
    mask: _Mask = matches.fill_null(fill_value=False).to_numpy(zero_copy_only=False).copy()
    return mask


def _types_after(values: pa.StringArray, letters: npt.NDArray[np.uint8], changed: _Mask) -> npt.NDArray[np.uint8]:
    """Return the types of the changed values: lists and maps keep theirs while they are JSON."""
    after = np.full(int(changed.sum()), _TEXT, dtype=np.uint8)
    rows = np.flatnonzero(changed)
    structured = np.flatnonzero((letters[rows] == _LISTS) | (letters[rows] == _MAPS))
    texts = values.take(pa.array(rows[structured])).to_pylist()
    still_json = structured[[_is_json(text) for text in texts]] if texts else structured
    after[still_json] = letters[rows[still_json]]
    return after


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _letters(types: pa.StringArray, values: int) -> npt.NDArray[np.uint8]:
    """Join the letters of all rows."""
    _, ends, data = types.buffers()
    starts = np.frombuffer(ends, dtype=np.int32)[types.offset : types.offset + len(types) + 1]
    first, last = (int(starts[0]), int(starts[-1])) if len(types) else (0, 0)
    if last - first != values:
        msg = f"{values} attribute values have {last - first} types"
        raise ValueError(msg)
    return np.frombuffer(data or b"", dtype=np.uint8)[first:last].copy()


def _with_letters(types: pa.StringArray, letters: npt.NDArray[np.uint8]) -> pa.StringArray:
    lengths = pc.binary_length(types).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.StringArray.from_buffers(len(types), pa.py_buffer(offsets), pa.py_buffer(letters.tobytes()))


def _whole(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name).combine_chunks()
    if column.offset or (len(column) and pa.types.is_nested(column.type) and column.offsets[0].as_py()):
        column = column.take(pa.array(np.arange(len(column))))
    return column


def _set(table: pa.Table, columns: dict[str, pa.Array]) -> pa.Table:
    for name, column in columns.items():
        table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), column)
    return table
