"""The known attributes of a batch, laid end to end, and the plan of each span.

Spans of one shape share a plan. The shape of a span is looked up by a hash of all that makes it up; the hash is seeded
in each process, so that a collision cannot be sent on purpose.
"""

import secrets
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from collector.conventions import index
from collector.conventions.own_keys import OwnKeys
from collector.conventions.plan import Mark, Shape, ShapePlan, mark_of, name_mark, plan_of
from collector.conventions.values import taken
from storage.ingest.attributes import decode_value
from storage.ingest.dimensions import resource_of
from storage.records import AttributeValue

_Hashes = npt.NDArray[np.uint64]
_Places = npt.NDArray[np.int64]

_MOST_KNOWN: Final = 65_536
"""Limit of the remembered keys, values and shapes; beyond half of it, all are forgotten. A guess: 20 MB."""

_MARK_CHARACTERS: Final = 256
"""Characters of a value on which its mark may depend: the values that dialects look for are far shorter."""

_TEXT: Final = ord("s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Laid:
    """The known attributes of some spans, one span after the other."""

    starts: _Places  # the first attribute of each span; and at the end, their number
    plans: Sequence[ShapePlan]
    plan_of: _Places  # by span: the index of its plan
    items: pa.StringArray  # by attribute: its value as text
    letters: bytes  # of each attribute, the letter of its type
    texts: npt.NDArray[np.object_]  # the same texts as Python objects

    def values(self, row: int) -> "LaidValues":
        """Return the values of one span, indexed by the position of the key in its plan."""
        return LaidValues(self, int(self.starts[row]))


class LaidValues:
    """The values of one span, decoded on first use."""

    __slots__ = ("_letters", "_start", "_texts")

    def __init__(self, laid: Laid, start: int) -> None:
        self._texts, self._letters = laid.texts, laid.letters
        self._start = start

    def __getitem__(self, at: int) -> AttributeValue:
        """Return a value by the number of its key."""
        place = self._start + at
        letter = self._letters[place]
        text: str = self._texts[place]
        return text if letter == _TEXT else taken(decode_value(text, chr(letter)))


class Shapes:
    """Cache of keys, values and shapes, across batches."""

    def __init__(self, own: OwnKeys) -> None:
        self._own = own
        self._own_keys = frozenset(key for fields in own.projects.values() for keys in fields.values() for key in keys)
        self._random = np.random.default_rng(secrets.randbits(128))
        self._weights = _odd(self._random, 64)
        self._drawn = _odd(self._random, 3 * _MOST_KNOWN)
        self._forget()

    def _forget(self) -> None:
        self._keys: dict[str, int] = {}  # number by key; 0: no dialect knows the key
        self._names: list[str] = [""]
        self._marks: list[Mark | None] = [None]
        self._marks_of: dict[int, dict[str, int]] = {}  # by number of the key, then by value: the mark's number
        self._same_marks: dict[Mark, int] = {}
        self._others: dict[Hashable, int] = {}
        self._plans: dict[int, ShapePlan] = {}

    def lay(self, spans: pa.Table) -> Laid:
        """Lay out the attributes of spans with their resources and scopes as columns, and find the plan of each."""
        if max(len(self._keys), len(self._marks), len(self._others), len(self._plans)) > _MOST_KNOWN // 2:
            self._forget()
        maps, types = _whole(spans.column("attributes")), _whole(spans.column("attribute_types"))
        offsets = maps.offsets.to_numpy().astype(np.int64)
        first, last = int(offsets[0]), int(offsets[-1])
        keys = self._keys_of(maps.keys.slice(first, last - first))
        known = np.flatnonzero(keys)
        starts = np.searchsorted(known, offsets - first)
        codes = keys[known]
        items = maps.items.slice(first, last - first)
        if len(known) < len(keys):
            items = items.take(pa.array(known))
        texts = items.to_numpy(zero_copy_only=False)
        letters = _letters(types, last - first)[known]
        marks = self._marks_at(codes, texts, letters)
        others = list(_others(spans, self._own))
        distinct, firsts, plan_of_row = np.unique(
            self._hashes(starts, codes, marks, others), return_index=True, return_inverse=True
        )
        plans = []
        for number, row in zip(distinct.tolist(), firsts.tolist(), strict=True):
            plan = self._plans.get(number)
            if plan is None:
                start, stop = int(starts[row]), int(starts[row + 1])
                plan = self._plan(codes[start:stop], marks[start:stop], [other.of(row) for other in others])
                self._plans[number] = plan
            plans.append(plan)
        return Laid(
            starts=starts, plans=plans, plan_of=plan_of_row, items=items, letters=letters.tobytes(), texts=texts
        )

    def _plan(self, codes: _Places, marks: _Places, others: Sequence[Any]) -> ShapePlan:
        scope, resource_rank, name, own = others
        keys = tuple(self._names[code] for code in codes.tolist())
        values = tuple(self._marks[mark] for mark in marks.tolist())
        return plan_of(Shape(keys=keys, marks=values, scope=scope, resource_rank=resource_rank, name=name, own=own))

    def _keys_of(self, keys: pa.StringArray) -> _Places:
        encoded = keys.dictionary_encode()
        numbers = np.array([self._key(key) for key in encoded.dictionary.to_pylist()], dtype=np.int64)
        return numbers[encoded.indices.to_numpy()] if len(numbers) else np.zeros(0, dtype=np.int64)

    def _key(self, key: str) -> int:
        number = self._keys.get(key)
        if number is None:
            known = index.key_known(key)
            number = 0
            if key in self._own_keys or known is not None:
                number = len(self._names)
                self._names.append(key)
                if known is not None and (known.kinds or known.valued):
                    self._marks_of[number] = {}
            if len(key) <= index.LONGEST_NAME:
                self._keys[key] = number
        return number

    def _marks_at(self, codes: _Places, texts: npt.NDArray[np.object_], letters: npt.NDArray[np.uint8]) -> _Places:
        """Return the mark of each attribute's value, as a number."""
        marks = np.zeros(len(codes), dtype=np.int64)
        for code in set(np.flatnonzero(np.bincount(codes)).tolist()) & self._marks_of.keys():
            places = np.flatnonzero(codes == code)
            numbers: list[int | None] = list(map(self._marks_of[code].get, texts[places].tolist()))
            closer = set(np.flatnonzero(letters[places] != _TEXT).tolist())
            if None in numbers:
                closer.update(number for number, mark in enumerate(numbers) if mark is None)
            for number in sorted(closer):
                place = int(places[number])
                numbers[number] = self._mark(code, texts[place], int(letters[place]))
            marks[places] = np.array(numbers, dtype=np.int64)
        return marks

    def _mark(self, code: int, text: str | None, letter: int) -> int:
        key = self._names[code]
        if letter != _TEXT or text is None:
            return self._number_of_mark(mark_of(key, decode_value(text, chr(letter))))
        mark = self._number_of_mark(mark_of(key, text[:_MARK_CHARACTERS]))
        of_key = self._marks_of[code]
        if len(text) <= _MARK_CHARACTERS and len(of_key) < _MOST_KNOWN:
            of_key[text] = mark
        return mark

    def _number_of_mark(self, mark: Mark | None) -> int:
        if mark is None:
            return 0
        number = self._same_marks.get(mark)
        if number is None:
            number = self._same_marks[mark] = len(self._marks)
            self._marks.append(mark)
        return number

    def _hashes(self, starts: _Places, codes: _Places, marks: _Places, others: "Iterable[_Other]") -> _Hashes:
        lengths = np.diff(starts)
        longest = int(lengths.max(initial=0))
        if longest > len(self._weights):
            self._weights = np.concatenate([self._weights, _odd(self._random, longest)])
        within = np.arange(len(codes)) - np.repeat(starts[:-1], lengths)
        each = (self._drawn[codes] + self._drawn[_MOST_KNOWN + marks]) * self._weights[within]
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(each, dtype=np.uint64)])
        hashes: _Hashes = sums[starts[1:]] - sums[starts[:-1]]
        for place, other in enumerate(others):
            numbers = np.array([self._other((place, each)) for each in other.distinct], dtype=np.int64)
            hashes = hashes * self._weights[place] + self._drawn[2 * _MOST_KNOWN + numbers][other.rows]
        return hashes

    def _other(self, part: Hashable) -> int:
        number = self._others.get(part)
        if number is None:
            number = self._others[part] = len(self._others)
        return number


@dataclass(frozen=True, slots=True)
class _Other:
    """A part of shapes besides the attributes' keys and marks: its distinct values, and for each span their index."""

    distinct: Sequence[Any]
    rows: _Places

    def of(self, row: int) -> Any:  # noqa: ANN401 - whatever it is
        """Return the value of a span."""
        return self.distinct[self.rows[row]]


def _others(spans: pa.Table, own: OwnKeys) -> Iterator[_Other]:
    yield _by_text(spans, "scope_name", str)
    yield _ranks(spans)
    yield _by_text(spans, "name", name_mark)
    yield _by_text(spans, "project", lambda project: tuple(own.of(project)))


def _ranks(spans: pa.Table) -> _Other:
    attributes, meta = (_texts(spans, name) for name in ("resource_attributes", "resource_meta"))
    both = attributes.indices.to_numpy().astype(np.int64) * len(meta.dictionary) + meta.indices.to_numpy()
    distinct, rows = np.unique(both, return_inverse=True)
    resources = zip(
        attributes.dictionary.take(pa.array(distinct // len(meta.dictionary))).to_pylist(),
        meta.dictionary.take(pa.array(distinct % len(meta.dictionary))).to_pylist(),
        strict=True,
    )
    return _Other([index.resource_rank(resource_of(*texts).attributes) for texts in resources], rows)


def _by_text(spans: pa.Table, column: str, what: Callable[[str], Any]) -> _Other:
    encoded = _texts(spans, column)
    return _Other([what(text) for text in encoded.dictionary.to_pylist()], encoded.indices.to_numpy())


def _texts(spans: pa.Table, column: str) -> pa.DictionaryArray:
    return _whole(spans.column(column)).fill_null("").dictionary_encode()


def _letters(types: pa.StringArray, count: int) -> npt.NDArray[np.uint8]:
    """Return the letter of each attribute, as one text per span, end to end."""
    offsets = np.frombuffer(types.buffers()[1], dtype=np.int32)[types.offset : types.offset + len(types) + 1]
    data = types.buffers()[2]
    letters = np.frombuffer(data, dtype=np.uint8)[offsets[0] : offsets[-1]] if data else np.zeros(0, np.uint8)
    if len(letters) != count:
        raise ValueError(f"{count} attributes have {len(letters)} types")
    return letters


def _odd(random: np.random.Generator, count: int) -> _Hashes:
    return random.integers(0, 2**63, count, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


def _whole(column: pa.ChunkedArray | pa.Array) -> Any:  # noqa: ANN401 - an array of the column's type
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
