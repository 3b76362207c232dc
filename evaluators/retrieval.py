"""Precision and recall: the set of retrieved items against the set of relevant ones."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from pydantic import Field

from evaluators.case import enter, expected_value, get
from evaluators.configuration import Configuration, Share
from evaluators.errors import BadCase
from evaluators.evaluator import Assessment, Check, EvaluatorKind, Need
from evaluators.judge_interface import Judge
from evaluators.matching import PROMPT, AnyStrategy, MatchingStrategy
from evaluators.model import Case
from evaluators.pairing import refuse_more
from evaluators.values import Key, key_of

Items = Mapping[Key, object]
"""Distinct items, in the order in which they came."""


class Retrieval(Configuration):
    """Settings of `precision` and `recall`: keys of the items, and the rule of equality."""

    threshold: Share = Field(default=0.5, description="The score that passes, from 0 to 1.")
    retrieved_key: str = Field(default="retrieved", description="The key of the retrieved items in the actual outputs.")
    expected_key: str = Field(default="relevant", description="The key of the relevant items in the expected outputs.")
    matching_strategy: AnyStrategy = Field(
        default_factory=MatchingStrategy,
        description="The condition under which a retrieved item is relevant.",
    )


def precision(settings: Retrieval) -> Check:
    """Compute the share of distinct retrieved items that are relevant."""
    strategy = settings.matching_strategy

    async def check(case: Case, judge: Judge | None) -> Assessment:
        retrieved, relevant = _retrieved(case, settings), _relevant(case, settings)
        rows = _distinct(retrieved)
        hits = await _count(rows, _distinct(relevant), lambda one, other: strategy.matches(one, other, judge))
        metadata = {"retrieved": len(rows), "relevant": len(relevant), "truePositives": hits}
        if not rows:
            reason = "Nothing was retrieved, so nothing irrelevant was."
            return Assessment(score=1.0, reason=reason, metadata=metadata, vacuous=True)
        reason = f"{hits} of {len(rows)} distinct retrieved items are relevant."
        return Assessment(score=hits / len(rows), reason=reason, metadata=metadata)

    return check


def recall(settings: Retrieval) -> Check:
    """Compute the share of distinct relevant items that were retrieved."""
    strategy = settings.matching_strategy

    async def check(case: Case, judge: Judge | None) -> Assessment:
        retrieved, relevant = _retrieved(case, settings), _relevant(case, settings)
        rows = _distinct(relevant)
        hits = await _count(rows, _distinct(retrieved), lambda one, other: strategy.matches(other, one, judge))
        metadata = {"retrieved": len(retrieved), "relevant": len(rows), "truePositives": hits}
        if not rows:
            reason = "Nothing was relevant, so nothing relevant was missed."
            return Assessment(score=1.0, reason=reason, metadata=metadata, vacuous=True)
        reason = f"{hits} of {len(rows)} distinct relevant items were retrieved."
        return Assessment(score=hits / len(rows), reason=reason, metadata=metadata)

    return check


async def _count(rows: Items, columns: Items, matches: Callable[[object, object], Awaitable[bool]]) -> int:
    refuse_more(sum(key not in columns for key in rows) * len(columns))
    return sum([key in columns or await _any(row, columns, matches) for key, row in rows.items()])


async def _any(row: object, columns: Items, matches: Callable[[object, object], Awaitable[bool]]) -> bool:
    for column in columns.values():
        if await matches(row, column):
            return True
    return False


def _distinct(items: list[Any]) -> Items:
    return {key_of(item): item for item in items}


def _retrieved(case: Case, settings: Retrieval) -> list[Any]:
    key = settings.retrieved_key
    place = f"actualOutputs.{key}"
    return _list(enter(get(case, "actual_outputs", key), settings.path, place), place)


def _relevant(case: Case, settings: Retrieval) -> list[Any]:
    key = settings.expected_key
    return _list(expected_value(case, key, settings.path), f"expectedOutputs.{key}")


def _list(value: object, place: str) -> list[Any]:
    if value is None:
        raise BadCase(f"{place} is missing")
    return list(value) if isinstance(value, list | tuple) else [value]


def _need(settings: Retrieval) -> Need:
    return "always" if settings.matching_strategy.asks else "never"


KINDS: Final[tuple[EvaluatorKind[Any], ...]] = (
    EvaluatorKind(
        name="precision",
        title="Precision",
        version=3,
        checks="What was retrieved is relevant.",
        reads=("actualOutputs[retrievedKey]", "expectedOutputs[expectedKey]"),
        configuration=Retrieval,
        check=precision,
        judge=_need,
        prompts=(PROMPT,),
    ),
    EvaluatorKind(
        name="recall",
        title="Recall",
        version=3,
        checks="What is relevant was retrieved.",
        reads=("actualOutputs[retrievedKey]", "expectedOutputs[expectedKey]"),
        configuration=Retrieval,
        check=recall,
        judge=_need,
        prompts=(PROMPT,),
    ),
)
