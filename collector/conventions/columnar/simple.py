"""Fields that one attribute holds unchanged: these are read as whole columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from collector.conventions.columnar.laid import Laid
from collector.conventions.finish import reason_of
from collector.conventions.plan import ShapePlan
from collector.conventions.slot_values import BLANKS
from collector.conventions.span import UNKNOWN_MODEL
from collector.conventions.table import Slot
from collector.conventions.tool import METHOD

_Rows = npt.NDArray[np.bool_]
_Places = npt.NDArray[np.int64]

TEXTS: Final[Sequence[Slot]] = ("provider", "session_id", "user_id", "run_id", "item_key", "response_id")
TOOL_TEXTS: Final[Sequence[Slot]] = ("tool_name", "tool_call_id")
COUNTS: Final[Sequence[Slot]] = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
COST: Final[Slot] = "cost_usd"

REASON: Final[Slot] = "finish_reasons"

ALL_FIELDS: Final[Sequence[Slot]] = ("model", "provider", *COUNTS, REASON, COST, *TEXTS[1:])
"""Fields that the slow path reads, in this order."""

NOWHERE, ELSEWHERE = -1, -2
"""Places of a field that no attribute holds, and of one that takes more than reading an attribute."""

_AS_TEXT: Final = np.isin(np.arange(256), [ord(letter) for letter in "sib"])
_AS_COUNT: Final = np.isin(np.arange(256), [ord(letter) for letter in "si"])
_AS_AMOUNT: Final = np.isin(np.arange(256), [ord(letter) for letter in "id"])
_AS_REASON: Final = np.isin(np.arange(256), [ord(letter) for letter in "sam"])
_BLANKS: Final = pa.array(sorted(BLANKS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Simple:
    """Fields that were read as whole columns."""

    columns: Mapping[str, pa.Array]
    odd: _Rows  # spans with an attribute that needs the slow path
    elsewhere: Mapping[int, tuple[Slot, ...]]  # by plan: fields to read span by span


def simple_fields(laid: Laid) -> Simple:
    """Read, for all spans, the fields that one attribute holds unchanged."""
    odd = np.zeros(len(laid.plan_of), dtype=np.bool_)
    elsewhere: dict[int, list[Slot]] = {}
    columns: dict[str, pa.Array] = {}
    letters = np.frombuffer(laid.letters, dtype=np.uint8)

    def of(slot: Slot, at_of: Sequence[int], fitting: npt.NDArray[np.bool_]) -> tuple[pa.StringArray, _Rows]:
        for number, at in enumerate(at_of):
            if at == ELSEWHERE:
                elsewhere.setdefault(number, []).append(slot)
        at_row = np.array(at_of, dtype=np.int64)[laid.plan_of]
        is_here = at_row >= 0
        if not is_here.any():
            return pa.nulls(len(at_row), pa.string()), is_here
        places = np.where(is_here, laid.starts[:-1] + at_row, 0)
        odd[is_here & ~fitting[letters[places]]] = True
        return laid.items.take(pa.array(places, mask=~is_here)), is_here

    columns["model"] = _text(*of("model", [model_at(plan) for plan in laid.plans], _AS_TEXT), odd, UNKNOWN_MODEL)
    for slot in TEXTS:
        columns[slot] = _text(*of(slot, [place_at(plan, slot) for plan in laid.plans], _AS_TEXT), odd)
    for slot in TOOL_TEXTS:
        texts, is_here = of(slot, [_tool_at(plan, slot) for plan in laid.plans], _AS_TEXT)
        columns[slot] = _text(texts, is_here, odd)
        if is_here.any():
            odd |= pc.fill_null(pc.ends_with(texts, METHOD), fill_value=False).to_numpy(zero_copy_only=False)
    for slot in COUNTS:
        columns[slot] = _counts(*of(slot, [count_at(plan, slot) for plan in laid.plans], _AS_COUNT), odd)
    beside = {slot: _counts(*of(slot, _places_beside(laid, slot), _AS_COUNT), odd) for slot in _COMPLETING}
    odd |= _are_incomplete({slot: columns[slot] for slot in COUNTS} | beside)
    columns["finish_reason"] = _reasons(*of(REASON, [reason_at(plan) for plan in laid.plans], _AS_REASON), odd)
    columns[COST] = _amounts(*of(COST, [place_at(plan, COST) for plan in laid.plans], _AS_AMOUNT), odd)
    return Simple(
        columns=columns,
        odd=odd,
        elsewhere={number: tuple(sorted(slots, key=_turn)) for number, slots in elsewhere.items()},
    )


def _turn(slot: Slot) -> int:
    return ALL_FIELDS.index(slot) if slot in ALL_FIELDS else -1


def place_at(plan: ShapePlan, slot: Slot) -> int:
    """Return the number of the key that holds a field unchanged; else `NOWHERE` or `ELSEWHERE`."""
    leads = plan.leads.get(slot)
    if not leads:
        return NOWHERE
    place = leads[0].place
    return ELSEWHERE if place.path or place.is_group else leads[0].at


def model_at(plan: ShapePlan) -> int:
    """Return the number of the key that holds the model: the answering one, else the requested one."""
    at = place_at(plan, "model")
    if at == NOWHERE and plan.leads.get("raw_answer"):
        return ELSEWHERE
    at = place_at(plan, "named_model") if at == NOWHERE else at
    return place_at(plan, "asked_model") if at == NOWHERE else at


def count_at(plan: ShapePlan, slot: Slot) -> int:
    """Return the number of the key that holds a count, unless other keys may change it on the slow path."""
    at = place_at(plan, slot)
    if slot not in _PARTS or at == NOWHERE:
        return at
    by_itself: Slot = "cached_apart" if slot == "input_tokens" else "total_as_output"
    if by_itself in plan.mentioned or "usage_apart" in plan.mentioned:
        return ELSEWHERE
    parts = _PARTS[slot]
    has_total = "total_tokens" in plan.leads and any(part in plan.leads for part in parts)
    others = (*_PARTS, *sum(_PARTS.values(), ()), "total_tokens") if has_total else parts
    return ELSEWHERE if any(place_at(plan, other) == ELSEWHERE for other in others) else at


_PARTS: Final[Mapping[Slot, tuple[Slot, ...]]] = {
    "input_tokens": ("cached_tokens", "written_tokens"),
    "output_tokens": ("reasoning_tokens",),
}
"""Counts that are parts of the count in the key. If they exceed it, or make up the difference from the total, that
count leaves them out."""
_COMPLETING: Final[Sequence[Slot]] = ("written_tokens", "total_tokens")


def _places_beside(laid: Laid, slot: Slot) -> list[int]:
    return [max(place_at(plan, slot), NOWHERE) if _counts_sides(plan) else NOWHERE for plan in laid.plans]


def _counts_sides(plan: ShapePlan) -> bool:
    return any(slot in plan.leads for slot in ("cached_tokens", "reasoning_tokens", "written_tokens"))


def _are_incomplete(counts: Mapping[Slot, pa.Int64Array]) -> _Rows:
    """Return the spans whose input or output leaves tokens out, as `left_beside` decides for one."""
    prompt, answered, cached, reasoned, written, total = (
        counts[slot].fill_null(0).to_numpy(zero_copy_only=False) for slot in (*COUNTS, *_COMPLETING)
    )
    apart = cached + written
    gap = total - prompt - answered
    is_named = (apart > 0) | (reasoned > 0)
    completes = (gap == apart) | (gap == reasoned) | (gap == apart + reasoned)
    incomplete: _Rows = is_named & ((apart > prompt) | (reasoned > answered) | (completes & (gap > 0)))
    return incomplete


def reason_at(plan: ShapePlan) -> int:
    """Return the number of the key that holds the finish reason, unless it needs the slow path."""
    return max(place_at(plan, REASON), NOWHERE)


def _tool_at(plan: ShapePlan, slot: Slot) -> int:
    return place_at(plan, slot) if plan.kind == "tool" else NOWHERE


def _text(texts: pa.StringArray, is_here: _Rows, odd: _Rows, strange: str = "") -> pa.StringArray:
    if is_here.any():
        unusual = pc.or_(pc.utf8_is_space(texts), pc.is_in(texts, value_set=_BLANKS))
        unusual = pc.or_(unusual, pc.or_(pc.equal(texts, strange), pc.starts_with(texts, '"')))
        odd |= is_here & pc.fill_null(pc.or_(unusual, pc.equal(texts, "")), fill_value=True).to_numpy(
            zero_copy_only=False
        )
    return texts


def _reasons(texts: pa.StringArray, is_here: _Rows, odd: _Rows) -> pa.StringArray:
    if not is_here.any():
        return texts
    encoded = texts.dictionary_encode()
    words = pa.array([reason_of(text) for text in encoded.dictionary.to_pylist()], pa.string())
    reasons = words.take(encoded.indices)
    odd |= is_here & reasons.is_null().to_numpy(zero_copy_only=False)
    return reasons


def _counts(texts: pa.StringArray, is_here: _Rows, odd: _Rows) -> pa.Int64Array:
    if not is_here.any():
        return pa.nulls(len(texts), pa.int64())
    is_count = pc.match_substring_regex(texts, "^[0-9]{1,15}$")
    odd |= is_here & ~pc.fill_null(is_count, fill_value=False).to_numpy(zero_copy_only=False)
    return pc.if_else(is_count, texts, None).cast(pa.int64())


def _amounts(texts: pa.StringArray, is_here: _Rows, odd: _Rows) -> pa.DoubleArray:
    if not is_here.any():
        return pa.nulls(len(texts), pa.float64())
    is_amount = pc.match_substring_regex(texts, "^[0-9]{1,9}([.][0-9]{1,17})?(e-[0-9]{1,2})?$")
    odd |= is_here & ~pc.fill_null(is_amount, fill_value=False).to_numpy(zero_copy_only=False)
    return pc.if_else(is_amount, texts, None).cast(pa.float64())
