"""Index of all dialects' rows by attribute key: reading a span walks its attributes, and not the whole table."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from collector.conventions.dialects.order import BY_NAME, DIALECTS, KIND_ORDER, SOURCES
from collector.conventions.table import Dialect, FieldSource, Sign, Slot, place_of
from collector.conventions.values import text_of
from storage.records import AttributeValue, SpanType

NO_DIALECT = 1_000_000  # the rank of no sign
_WEAK = 1_000
LONGEST_NAME = 256  # characters: the longest key of a row has 56; longer ones would fill the caches
_KNOWN_KEYS = 8_192  # a guess: some 200 bytes each; the dialects have some 800 keys, applications bring theirs
_KNOWN_SCOPES = 1_024  # a guess
_NUMBER = re.compile(r"\.(\d{1,9})(?=\.|$)")


@dataclass(frozen=True, slots=True)
class Known:
    """Facts about one key of attributes."""

    rank: int = NO_DIALECT  # of the dialect that the key is a sign of
    valued: tuple[tuple[str, int], ...] = ()  # values that are signs, and the ranks of their dialects
    kinds: tuple[tuple[int, Mapping[str, SpanType]], ...] = ()
    places: tuple[FieldSource, ...] = ()
    group: tuple[str, tuple[str, ...]] | None = None  # the key before the number, and the steps after it
    is_genai: bool = False
    with_genai: int = NO_DIALECT  # the rank of its sign if the span has a `gen_ai.` attribute


def key_known(key: str) -> Known | None:
    """Return the facts about a key; None for an unknown one."""
    known = _EXACT.get(key)
    if known is not None or len(key) > LONGEST_NAME:
        return known
    return _guess(key)


def scope_rank(name: str) -> tuple[int, int]:
    """Return the rank of a scope's dialect, without and with some `gen_ai.` attribute on the span."""
    return _scope_rank(name[:LONGEST_NAME])


@lru_cache(maxsize=_KNOWN_SCOPES)
def _scope_rank(name: str) -> tuple[int, int]:
    alone = [rank for rank, sign in _SIGNS if sign.scope and not sign.with_genai and is_below(name, sign.scope)]
    with_genai = [rank for rank, sign in _SIGNS if sign.scope and is_below(name, sign.scope)]
    return min(alone, default=NO_DIALECT), min(with_genai, default=NO_DIALECT)


def resource_rank(attributes: Mapping[str, AttributeValue]) -> int:
    """Return the rank of the dialect that a resource indicates."""
    for rank, sign in _RESOURCE_SIGNS:
        if attributes.get(sign.resource) == sign.value:
            return rank
    return NO_DIALECT


def span_rank(name: str) -> int:
    """Return the rank of the dialect that a span's name indicates."""
    for rank, sign in _SPAN_SIGNS:
        if name.startswith(sign.span):
            return rank
    return NO_DIALECT


def dialect_at(rank: int) -> Dialect | None:
    """Return the dialect of a rank; None for no sign."""
    return None if rank == NO_DIALECT else DIALECTS[rank % _WEAK]


def event_places(name: str) -> tuple[FieldSource, ...]:
    """Return the rows about events of a name."""
    return _EVENTS.get(name, ())


@lru_cache(maxsize=_KNOWN_KEYS)
def _guess(key: str) -> Known | None:
    """Return the facts about a key without a row of its own: its beginning is a sign, or it is numbered."""
    places: tuple[FieldSource, ...] = ()
    group = None
    number = _NUMBER.search(key)
    head = key[: number.start()] if number else ""
    if head in _GROUPS:
        places = _GROUPS[head]
        group = (head, tuple(key[len(head) + 1 :].split(".")))
    rank, with_genai = _key_ranks(key)
    is_genai = key.startswith("gen_ai.")
    if not places and rank == with_genai == NO_DIALECT and not is_genai:
        return None
    return Known(rank=rank, places=places, group=group, is_genai=is_genai, with_genai=with_genai)


_SIGNS: tuple[tuple[int, Sign], ...] = tuple(
    (number + (_WEAK if sign.is_weak else 0), sign) for number, dialect in enumerate(DIALECTS) for sign in dialect.signs
)
_KEY_SIGNS = tuple((rank, sign) for rank, sign in _SIGNS if sign.key and not sign.value)
_RESOURCE_SIGNS = tuple((rank, sign) for rank, sign in _SIGNS if sign.resource)
_SPAN_SIGNS = tuple((rank, sign) for rank, sign in _SIGNS if sign.span)


def is_below(name: str, beginning: str) -> bool:
    """Return True if `name` is `beginning`, or continues it after a dot, slash, space or dash (not `openai_v2`)."""
    if not name.startswith(beginning):
        return False
    return len(name) == len(beginning) or beginning[-1] in "./" or name[len(beginning)] in "./ -"


def _key_ranks(key: str) -> tuple[int, int]:
    fitting = [(rank, sign) for rank, sign in _KEY_SIGNS if key == sign.key or _is_prefix(sign.key, key)]
    alone = min((rank for rank, sign in fitting if not sign.with_genai), default=NO_DIALECT)
    return alone, min((rank for rank, _ in fitting), default=NO_DIALECT)


def _is_prefix(sign: str, key: str) -> bool:
    return sign[-1] in ".:" and key.startswith(sign)


def _all_places() -> list[FieldSource]:
    places: list[FieldSource] = []
    ranks: dict[Slot, int] = {}
    for dialect in SOURCES:
        for slot, rows in dialect.places.items():
            for row in rows:
                ranks[slot] = ranks.get(slot, 0) + 1
                places.append(place_of(row, slot=slot, rank=ranks[slot], dialect=dialect.name))
    return places


_PLACES = _all_places()


def _gathered(places: list[FieldSource], by: str) -> dict[str, tuple[FieldSource, ...]]:
    by_name: dict[str, tuple[FieldSource, ...]] = {}
    for place in places:
        name: str = getattr(place, by)
        by_name[name] = (*by_name.get(name, ()), place)
    return by_name


_EVENTS = _gathered([place for place in _PLACES if place.event], "event")
_GROUPS = _gathered([place for place in _PLACES if place.is_group and not place.event], "key")


def _kinds_by_key() -> dict[str, tuple[tuple[int, Mapping[str, SpanType]], ...]]:
    by_key: dict[str, tuple[tuple[int, Mapping[str, SpanType]], ...]] = {}
    for dialect in DIALECTS:
        for kinds in dialect.kinds:
            rank = -1 if kinds.is_first else KIND_ORDER.index(kinds.key)
            by_key[kinds.key] = (*by_key.get(kinds.key, ()), (rank, kinds.values))
    return by_key


BY_NAME_RANK = KIND_ORDER.index(BY_NAME)


def _exact() -> dict[str, Known]:
    kinds = _kinds_by_key()
    places = _gathered([place for place in _PLACES if not place.is_group and not place.event], "key")
    valued = [(sign.key, text_of(sign.value) or "", rank) for rank, sign in _SIGNS if sign.key and sign.value]
    keys = {*kinds, *places, *(key for key, _, _ in valued), *(sign.key for _, sign in _KEY_SIGNS)}
    by_key = {}
    for key in keys:
        rank, with_genai = _key_ranks(key)
        by_key[key] = Known(
            rank=rank,
            valued=tuple((value, number) for other, value, number in valued if other == key),
            kinds=kinds.get(key, ()),
            places=places.get(key, ()),
            is_genai=key.startswith("gen_ai."),
            with_genai=with_genai,
        )
    return by_key


_EXACT = _exact()
