"""Recipe for reading the spans of one plan, derived once for all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collector.conventions.call_ids import MADE_UP
from collector.conventions.columnar.numbered_messages import NumberedMessages, numbered_messages
from collector.conventions.columnar.simple import NOWHERE, REASON, place_at, reason_at
from collector.conventions.columnar.tools import ToolRecipe, tool_recipe
from collector.conventions.finish import ANSWERS
from collector.conventions.numbered import places_in
from collector.conventions.parts import ITEM_IDS
from collector.conventions.plan import ShapePlan
from collector.conventions.span import OFFERING, TALKING
from collector.conventions.table import Slot

_OURS = 2  # below this rank are `dokimos.*` and an operator's own keys, which override messages
_CONTENT: frozenset[Slot] = frozenset(
    {
        "input",
        "output",
        "input_messages",
        "output_messages",
        "trajectory",
        "system",
        "answer_text",
        "answer_reasoning",
        "answer_calls",
        "tool_arguments",
        "tool_result",
        "tool_definitions",
        "offered",
        "pending",
    }
)
_CLOSER: frozenset[Slot] = frozenset(
    {"system", "whole_input", "automatic_calls", "calls_beside", "call_ids", "made_up_ids"}
)
_ODD_IDS: Mapping[str, tuple[Slot, Sequence[str]]] = {
    "input": ("result_ids", ITEM_IDS),
    "output": ("marked_ids", MADE_UP),
}
_BESIDE_TRAJECTORY: tuple[Slot, ...] = (
    "input_messages",
    "output_messages",
    "answer_text",
    "answer_calls",
    "raw_dialogue",
)
_FAILURES: tuple[Slot, ...] = ("failed", "error", "error_type")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Instructions for the spans of one plan. Numbers are those of the plan's keys."""

    plan: ShapePlan
    kind: str
    dialect: str | None
    prompt: int | NumberedMessages | None  # an int: key of messages, perhaps in the normal form; None: slow path
    answered: int | NumberedMessages | None
    trajectory: int | None  # the key of an attribute with the whole conversation
    beside: Sequence[int]  # other keys of content; if one was redacted: slow path
    odd_ids: Mapping[str, Sequence[str]]  # by side: a quote and the beginning of ids that need the slow path
    announcing: Sequence[tuple[int, str]]  # keys, each with the value of spans that only announce another span
    can_fail: bool  # attributes may say that the span failed
    definitions: Sequence[tuple[int, str]]  # keys of tool definitions, and a word without which there are none
    tool: ToolRecipe | None  # if the parts of a tool call are attributes by themselves
    seeks_reason: bool  # no attribute holds the finish reason: search the messages
    answers: Sequence[int]  # keys of what a model may have sent, which may contain the reason if `seeks_reason`
    replies: Sequence[int]  # keys of a model's replies, which may contain reasoning
    reasoning: int  # the key of the number of reasoning tokens; negative if no attribute holds just that
    has_content: bool  # there may be an input, an output, messages, arguments or results


def recipe_of(plan: ShapePlan) -> Recipe:
    """Derive the recipe of a plan."""
    kind = plan.kind or "other"
    is_quick = kind in TALKING and not any(plan.leads.get(slot) for slot in _CLOSER) and not _is_ours(plan)
    can_fail = any(slot in plan.mentioned for slot in _FAILURES)
    return Recipe(
        plan=plan,
        kind=kind,
        dialect=plan.dialect.name if plan.dialect else None,
        prompt=_messages(plan, "input_messages") if is_quick else None,
        answered=_messages(plan, "output_messages") if is_quick else None,
        trajectory=_trajectory(plan) if is_quick else None,
        beside=_beside(plan) if is_quick else (),
        odd_ids={
            side: tuple(f'"{mark}' for mark in marks) if plan.leads.get(slot) else ()
            for side, (slot, marks) in _ODD_IDS.items()
        },
        announcing=tuple((lead.at, lead.place.value) for lead in plan.leads.get("pending", ())),
        can_fail=can_fail,
        definitions=_places_of_definitions(plan) if kind in OFFERING else (),
        tool=None if can_fail else tool_recipe(plan),
        seeks_reason=reason_at(plan) == NOWHERE and (kind == "llm" or bool(plan.leads.get(REASON))),
        answers=tuple(lead.at for slot in ANSWERS for lead in plan.leads.get(slot, ()) if not lead.place.is_group),
        replies=tuple({lead.at: None for lead in plan.leads.get("reply", ())}),
        reasoning=place_at(plan, "reasoning_tokens"),
        has_content=kind == "tool" or not _CONTENT.isdisjoint(plan.mentioned),
    )


def _beside(plan: ShapePlan) -> tuple[int, ...]:
    leads = (lead for slot in _CONTENT for lead in plan.leads.get(slot, ()) if not lead.place.is_group)
    messages = {place_at(plan, slot) for slot in ("input_messages", "output_messages", "trajectory")}
    return tuple({lead.at: None for lead in leads if lead.at not in messages})


def _messages(plan: ShapePlan, slot: Slot) -> int | NumberedMessages | None:
    at = place_at(plan, slot)
    if at < 0:
        return numbered_messages(plan, slot)
    return None if plan.leads.get("raw_dialogue") else at


def _trajectory(plan: ShapePlan) -> int | None:
    at = place_at(plan, "trajectory")
    return None if at < 0 or any(plan.leads.get(slot) for slot in _BESIDE_TRAJECTORY) else at


def _is_ours(plan: ShapePlan) -> bool:
    return any(lead.rank < _OURS for slot in ("input", "output") for lead in plan.leads.get(slot, ()))


def _places_of_definitions(plan: ShapePlan) -> tuple[tuple[int, str], ...]:
    places: dict[tuple[int, str], None] = {}
    for lead in (*plan.leads.get("tool_definitions", ()), *plan.leads.get("offered", ())):
        places[lead.at, lead.place.path[0] if lead.place.path else ""] = None
        if lead.place.is_group:
            places.update(((at, ""), None) for at in places_in(plan.groups[lead.place.key]))
    return tuple(places)
