"""Token counts and cost of a span."""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from collector.conventions.slot_values import SlotValues
from collector.conventions.table import Slot
from collector.conventions.values import amount, fraction, text_of, whole
from storage.records import MAX_COUNT

_TOTAL_COSTS = ("total", "total_cost", "totalCost", "total_cost_usd")
_SIDES: Final[Mapping[Slot, str]] = {"input_tokens": "input", "output_tokens": "output"}
_READ: Final = "cache_read"
_CACHED_INPUT: Final = ("cache_read_input_tokens", "cache_creation_input_tokens")
"""Anthropic's names of the tokens that its input tokens leave out."""


def read_count(slot_values: SlotValues, slot: Slot) -> int | None:
    """Return a number of tokens: input including cached ones, output including reasoning."""
    count = _count(slot_values, slot)
    if count is None or slot not in _SIDES:
        return count
    apart = _cached_apart(slot_values) if slot == "input_tokens" and slot_values.tells("cached_apart") else 0
    if slot_values.tells("usage_apart"):
        apart += _named_apart(slot_values, _SIDES[slot])
    if not apart:
        apart = _beyond(slot_values, slot)
    if count + apart > MAX_COUNT:
        _note_unread(
            slot_values, slot, f"{slot_values.sources.pop(slot)} with those counted apart", count + apart, "count"
        )
        return None
    if apart < 0:
        slot_values.note(slot, f"{-apart} input tokens, which are counted again, are taken off")
    elif apart:
        sort = "cached" if slot == "input_tokens" else "reasoning"
        slot_values.note(slot, f"{apart} {sort} ones, which are reported separately, are added")
    return count + apart


class Counts(NamedTuple):
    """Token counts of one call, as sent; missing ones are 0."""

    prompt: int
    answered: int
    cached: int  # read from a cache and written to it
    reasoned: int
    total: int


def left_beside(counts: Counts) -> tuple[int, int]:
    """Return how many tokens the input and the output leave out.

    A part (cached, reasoning) that exceeds its whole is not included in it. Neither is a part that equals the
    difference between the total and the sum of input and output.
    """
    gap = counts.total - counts.prompt - counts.answered
    both = counts.cached + counts.reasoned
    cached = counts.cached if counts.cached > counts.prompt or gap in (counts.cached, both) else 0
    reasoned = counts.reasoned if counts.reasoned > counts.answered or gap == cached + counts.reasoned else 0
    return cached, reasoned


def _beyond(slot_values: SlotValues, slot: Slot) -> int:
    if slot_values.beside is None:
        slot_values.beside = _beside(slot_values) if slot_values.tells_any(_BESIDE) else (0, 0)
    return slot_values.beside[slot == "output_tokens"]


def _beside(slot_values: SlotValues) -> tuple[int, int]:
    cached = (_count(slot_values, "cached_tokens") or 0) + (_count(slot_values, "written_tokens") or 0)
    reasoned = _count(slot_values, "reasoning_tokens") or 0
    may_be_total = slot_values.tells("total_as_output")
    if not (cached or reasoned or may_be_total):
        return 0, 0
    sides = [_count(slot_values, side) for side in _SIDES]
    prompt, answered = (count or 0 for count in sides)
    repeated = prompt if may_be_total and prompt and _count(slot_values, "total_as_output") == answered else 0
    total = 0 if None in sides or not (cached or reasoned) else _count(slot_values, "total_tokens") or 0
    counts = Counts(prompt=prompt, answered=answered - repeated, cached=cached, reasoned=reasoned, total=total)
    of_input, of_output = left_beside(counts)
    return of_input, of_output - repeated


_BESIDE: Final[frozenset[Slot]] = frozenset({"cached_tokens", "written_tokens", "reasoning_tokens", "total_as_output"})
UNSTORED: Final[Sequence[Slot]] = ("written_tokens", "total_tokens", "total_as_output")
"""Counts that only serve to complete other counts; they are not fields of a span."""


def _count(slot_values: SlotValues, slot: Slot) -> int | None:
    counts = slot_values.counts
    if slot not in counts:
        counts[slot] = _sent(slot_values, slot) if slot_values.tells(slot) else None
    return counts[slot]


def _sent(slot_values: SlotValues, slot: Slot) -> int | None:
    for _, place, value, source in slot_values.candidates(slot):
        if place.path and isinstance(value, str) and place.path[-1] not in value:
            continue  # a whole answer is not decoded for a count that it cannot have
        item = slot_values.member(place, value, source) if place.path else value
        if item is None and isinstance(value, str):
            item = _named(value, place.path[-1])
        count = whole(item)
        if slot in UNSTORED:
            if count is not None:
                return count
            continue
        if count is not None:
            slot_values.sources[slot] = source
            return count
        if item is not None:
            _note_unread(slot_values, slot, source, item, "count")
    return None


def _note_unread(slot_values: SlotValues, slot: Slot, source: str, value: object, kind: str) -> None:
    text = (text_of(value) or "")[:40]
    slot_values.note(slot, f"{source} is {text!r}, which is not a {kind} from 0 to {MAX_COUNT}")


def tells_tokens(slot_values: SlotValues, slot: Slot) -> bool:
    """Return True if a count above 0 is recorded."""
    return bool(_count(slot_values, slot))


def _named(text: str, name: str) -> str | None:
    if text.lstrip()[:1] in ("{", "["):
        return None
    match = re.search(rf"(?<!\w){re.escape(name)}=(\d{{1,18}})(?!\w)", text[:_MAX_WRITTEN])
    return match[1] if match else None


_MAX_WRITTEN: Final = 4_096  # characters of such a text; a guess: CrewAI's has some 170


def _cached_apart(slot_values: SlotValues) -> int:
    """Return the tokens read from a cache plus those written to it, each from the strongest attribute."""
    amounts: dict[str, int] = {}
    counted = slot_values.sources.get("input_tokens")
    for _, place, value, source in slot_values.candidates("cached_apart"):
        if place.path and source != counted:
            continue  # only a map's own count leaves its cached tokens out; Logfire's attributes include them
        item = slot_values.member(place, value, source) if place.path else value
        count = whole(item)
        if count is not None:
            spelled = place.path[-1] if place.path else place.key
            amounts.setdefault("read" if _READ in spelled else "written", count)
    return sum(amounts.values())


def _named_apart(slot_values: SlotValues, side: str) -> int:
    """Return the tokens that a map of counts names beside `input` or `output` and that its total includes."""
    for _, _, value, source in slot_values.candidates("usage_apart"):
        usage = slot_values.opened(value, source) if isinstance(value, str) else value
        if isinstance(usage, dict):
            return left_out(usage, side)
    return 0


def left_out(usage: Mapping[str, object], side: str) -> int:
    """Return the tokens that a map of counts names for a side, but that its count of the side leaves out."""
    cached = [whole(usage.get(name)) or 0 for name in _CACHED_INPUT] if side == "input" else []
    if side not in usage:
        return sum(cached) if f"{side}_tokens" in usage else 0
    named = [whole(count) or 0 for name, count in usage.items() if name.startswith(f"{side}_") and name not in _WHOLE]
    both = [whole(usage.get(name)) or 0 for name in _SIDES.values()]
    is_total = whole(usage.get("total")) == sum(both)
    return 0 if is_total else sum(named) + sum(cached)


_WHOLE: Final = frozenset({"input_tokens", "output_tokens"})


def read_cost(slot_values: SlotValues) -> float | None:
    """Return the cost in US dollars; of a map of amounts, the total, or the sum if there is no total."""
    for _, place, value, source in slot_values.candidates("cost_usd"):
        reported: object = slot_values.member(place, value, source) if place.path else value
        if isinstance(reported, str):
            reported = slot_values.opened(reported, source)
        if isinstance(reported, dict):
            totals = [reported[key] for key in _TOTAL_COSTS if key in reported]
            reported = totals[0] if totals else sum(fraction(item) or 0.0 for item in reported.values())
        cost = amount(reported)
        if cost is not None and place.event:
            reported, cost = None, amount(_of_events(slot_values, source))
        if cost is not None:
            slot_values.sources["cost_usd"] = source
            return cost
        if reported is not None:
            _note_unread(slot_values, "cost_usd", source, reported, "cost")
    return None


def _of_events(slot_values: SlotValues, source: str) -> float:
    costs = (amount(value) for _, _, value, other in slot_values.candidates("cost_usd") if other == source)
    return sum(cost for cost in costs if cost is not None)
