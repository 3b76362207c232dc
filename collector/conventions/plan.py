"""Positions of the fields of a span, by its shape: computed once for all spans that look alike.

A shape is everything that decides these positions: the attribute keys that the table of conventions knows and the
operator's own keys, in their order, the scope, the resource, and the span's name. Values of attributes are not part of
it, apart from the kind and the dialect that some of them show. So the spans of one program have few shapes.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from collector.conventions import index
from collector.conventions.dialects.order import MODEL_NAMES, NAMING
from collector.conventions.numbered import Node, planted
from collector.conventions.table import Dialect, FieldSource, Slot
from collector.conventions.values import text_of
from storage.records import AttributeValue, Resource, SpanType

_OURS = 1  # the rank of `dokimos.*` in each slot of `own_keys.FIELDS`; an operator's own keys rank right after it
_MAX_OWN_KEYS = 1_000_000
_PLANS = 8_192  # a guess: some 5 kB each; with numbered attributes, each length of a conversation is a shape of its own
_NAMES = 8_192  # a guess: applications put ids into span names, so their number is unbounded


class Mark(NamedTuple):
    """Meaning of a value: the kinds of span, as the table orders them, and a dialect's rank."""

    kinds: tuple[SpanType | None, ...]
    rank: int


class NameMark(NamedTuple):
    """Meaning of a span's name: the rank of a dialect, and the kind in each dialect that names kinds."""

    rank: int
    kinds: tuple[SpanType | None, ...]
    sure: tuple[SpanType | None, ...]  # likewise, if the name overrides the keys (`Dialect.sure_names`)


class Shape(NamedTuple):
    """The facts about a span that decide where its fields are."""

    keys: tuple[str, ...]  # those that the table knows, and the operator's own
    marks: tuple[Mark | None, ...]  # of each key; None if its value has no meaning
    scope: str
    resource_rank: int
    name: NameMark
    own: tuple[tuple[Slot, str], ...]  # the operator's own keys for the project, strongest first


class Lead(NamedTuple):
    """Possible position of a field; the lowest rank comes first."""

    rank: float
    place: FieldSource
    at: int  # the number of the key in the shape
    source: str  # its name in `sources` and notes


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapePlan:
    """Plan for reading all spans of one shape."""

    keys: tuple[str, ...]
    dialect: Dialect | None
    dialect_source: str
    kind: SpanType | None
    kind_source: str
    capture: str  # how to have content sent
    is_bare: bool  # a model name without any other sign
    leads: Mapping[Slot, tuple[Lead, ...]]  # strongest first, without rows that count for another dialect only
    mentioned: frozenset[Slot]  # slots of any matching row, also of one for another dialect only
    groups: Mapping[str, Node]  # trees of numbered attributes, by the key above them


@lru_cache(maxsize=_PLANS)
def plan_of(shape: Shape) -> ShapePlan:
    """Derive the plan for a shape."""
    seen = [index.key_known(key) for key in shape.keys]
    rank = _rank(shape, seen)
    dialect = index.dialect_at(rank)
    kind, kind_source = _kind(shape, seen, dialect)
    groups: dict[str, list[tuple[tuple[str, ...], int]]] = {}
    leads: dict[Slot, list[Lead]] = {}
    for at, known in enumerate(seen):
        if known is None:
            continue
        if known.group is not None:
            head, steps = known.group
            groups.setdefault(head, []).append((steps, at))
            if len(groups[head]) > 1:
                continue
        for place in known.places:
            if place.scope and not index.is_below(shape.scope, place.scope):
                continue
            if place.kind and place.kind != kind:
                continue
            source = f"{place.key}.*" if place.is_group else shape.keys[at]
            leads.setdefault(place.slot, []).append(Lead(place.rank, place, at, source))
    for number, (slot, key) in enumerate(shape.own):
        if key in shape.keys:
            own_rank = _OURS + (number + 1) / _MAX_OWN_KEYS
            place = FieldSource(slot=slot, rank=_OURS, dialect="", key=key)
            leads.setdefault(slot, []).append(Lead(own_rank, place, shape.keys.index(key), key))
    return ShapePlan(
        keys=shape.keys,
        dialect=dialect,
        dialect_source="" if dialect is None else _sign(shape, seen, rank),
        kind=kind,
        kind_source=kind_source,
        capture="" if dialect is None else _capture(dialect, shape.scope),
        is_bare=kind_source in MODEL_NAMES and _only_names_model(shape, seen),
        leads={slot: _in_order(slot_leads, dialect) for slot, slot_leads in leads.items()},
        mentioned=frozenset(leads),
        groups={head: planted(places) for head, places in groups.items()},
    )


def shape_of(
    attributes: Mapping[str, AttributeValue],
    *,
    scope: str,
    resource: Resource,
    name: str,
    own: Sequence[tuple[Slot, str]],
) -> Shape:
    """Return the shape of a span."""
    own_keys = {key for _, key in own}
    keys = tuple(key for key in attributes if key in own_keys or index.key_known(key) is not None)
    return Shape(
        keys=keys,
        marks=tuple(mark_of(key, attributes[key]) for key in keys),
        scope=scope,
        resource_rank=index.resource_rank(resource.attributes),
        name=name_mark(name),
        own=tuple(own),
    )


def mark_of(key: str, value: AttributeValue) -> Mark | None:
    """Return the meaning of a key's value."""
    known = index.key_known(key)
    if known is None or not (known.kinds or known.valued):
        return None
    ranks = [number for text, number in known.valued if value == text]
    return Mark(tuple(_kind_of(value, values) for _, values in known.kinds), min(ranks, default=index.NO_DIALECT))


def name_mark(name: str) -> NameMark:
    """Return the meaning of a span's name."""
    return _name_mark(name) if len(name) <= index.LONGEST_NAME else _name_mark(name[: index.LONGEST_NAME])


@lru_cache(maxsize=_NAMES)
def _name_mark(name: str) -> NameMark:
    kinds = tuple(_by_beginning(name, dialect.span_names) for dialect in NAMING)
    sure = tuple(_by_beginning(name, dialect.sure_names) for dialect in NAMING)
    return NameMark(index.span_rank(name), kinds, sure)


def _by_beginning(name: str, kinds: Mapping[str, SpanType]) -> SpanType | None:
    return next((kind for beginning, kind in kinds.items() if name.startswith(beginning)), None)


def _in_order(leads: list[Lead], dialect: Dialect | None) -> tuple[Lead, ...]:
    name = dialect.name if dialect else None
    kept = [lead for lead in leads if not lead.place.is_only or lead.place.dialect == name]
    return tuple(sorted(kept, key=lambda lead: lead.rank))


def _rank(shape: Shape, seen: Sequence[index.Known | None]) -> int:
    """Return the rank of the strongest sign among the keys, values, scope, resource and name of the span."""
    rank, genai_rank = index.scope_rank(shape.scope)
    is_genai = False
    for known, mark in zip(seen, shape.marks, strict=True):
        if known is not None:
            is_genai = is_genai or known.is_genai
            rank, genai_rank = min(rank, known.rank), min(genai_rank, known.with_genai)
        if mark is not None:
            rank = min(rank, mark.rank)
    if is_genai:
        rank = min(rank, genai_rank, shape.resource_rank)
    return min(rank, shape.name.rank)


def _sign(shape: Shape, seen: Sequence[index.Known | None], rank: int) -> str:
    """Return the sign of a dialect on the span."""
    if rank in index.scope_rank(shape.scope):
        return f"scope {shape.scope}"
    for key, known, mark in zip(shape.keys, seen, shape.marks, strict=True):
        if known is not None and rank in (known.rank, known.with_genai):
            return key
        if known is not None and mark is not None and mark.rank == rank:
            return f"{key}={next(text for text, number in known.valued if number == rank)}"
    return "the name of the span" if shape.name.rank == rank else "the resource"


def _kind(shape: Shape, seen: Sequence[index.Known | None], dialect: Dialect | None) -> tuple[SpanType | None, str]:
    """Return the kind and its source: the strongest key, or the span's name if its dialect encodes the kind there."""
    strongest = math.inf
    strongest_kind: tuple[SpanType | None, str] = None, ""
    for key, known, mark in zip(shape.keys, seen, shape.marks, strict=True):
        if known is None or mark is None:
            continue
        for (number, _), kind in zip(known.kinds, mark.kinds, strict=True):
            if number < strongest and kind is not None:
                strongest, strongest_kind = number, (kind, key)
    if dialect is None or dialect not in NAMING:
        return strongest_kind
    number = NAMING.index(dialect)
    sure = shape.name.sure[number]
    if sure is not None:
        return sure, "the name of the span"
    if strongest < index.BY_NAME_RANK:
        return strongest_kind
    named = shape.name.kinds[number]
    return strongest_kind if named is None else (named, "the name of the span")


def _capture(dialect: Dialect, scope: str) -> str:
    of_scope = (text for beginning, text in dialect.captures.items() if index.is_below(scope, beginning))
    return next(of_scope, dialect.capture)


def _only_names_model(shape: Shape, seen: Sequence[index.Known | None]) -> bool:
    telling = {key for key, known in zip(shape.keys, seen, strict=True) if known is not None and known.kinds}
    is_request = any(key.startswith(_REQUEST) and key not in MODEL_NAMES for key in shape.keys)
    return telling <= MODEL_NAMES and not is_request


_REQUEST = "gen_ai.request."  # prefix of request parameters, which a mere record of usage lacks


def _kind_of(value: object, values: Mapping[str, SpanType]) -> SpanType | None:
    text = value if isinstance(value, str) else text_of(value)
    if not text:
        return None
    kind = values.get(text)
    if kind is not None:
        return kind
    lowered = text.strip('"').lower()
    kind = values.get(lowered) or values.get(lowered.split(" ", 1)[0])
    return (
        kind
        or next((kind for end, kind in values.items() if end[:1] == "*" and lowered.endswith(end[1:])), None)
        or (values.get(""))
    )
