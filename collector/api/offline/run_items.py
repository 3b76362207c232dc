"""Items of runs as they are reported, and as they are stored."""

import json
import uuid
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from collector.api.base.context import Context
from collector.api.base.numbers import Amount, Count, Number
from collector.datasets.item import BadItem, digest_of, json_text
from storage.errors import BadQuery
from storage.offline.run_items import NewRunItem, NewScore
from storage.offline.runs import Run
from tracejury.dataset_text import MAX_ID_CHARACTERS

MAX_ITEMS = 5_000
"""Of one request. A guess: items of a kilobyte and a half fill it."""

_DEFAULT_THRESHOLD = 0.5

Name = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARACTERS, pattern=r"\S")]
Text = Annotated[str, Field(max_length=100_000)]
Map = dict[str, Any]


class ReportedScore(BaseModel):
    """A score of an evaluator. An error failed; without an outcome, a score or success is scored, else skipped."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    outcome: Literal["scored", "failed", "skipped"] | None = None
    score: Number | None = None
    label: Annotated[str, Field(max_length=1_000)] | None = None
    threshold: Number | None = None
    direction: Literal["higher", "lower"] = "higher"
    success: bool | None = None
    reason: Text | None = None
    error: Text | None = None
    errorKind: Annotated[str, Field(max_length=MAX_ID_CHARACTERS)] | None = None
    fingerprint: Annotated[str, Field(max_length=MAX_ID_CHARACTERS)] | None = None
    version: Annotated[str, Field(max_length=MAX_ID_CHARACTERS)] | None = None
    metadata: Map | None = None
    judgeModel: Annotated[str, Field(max_length=MAX_ID_CHARACTERS)] | None = None
    costUsd: Amount | None = None
    latencyMs: Amount | None = None

    @property
    def outcome_name(self) -> str:
        """Which outcome it is."""
        is_broken = self.error is not None or self.errorKind is not None
        if is_broken and self.outcome != "skipped":
            return "failed"
        said = self.score is not None or self.success is not None
        return self.outcome or ("scored" if said else "skipped")

    @property
    def passed(self) -> bool | None:
        """Whether it passed: as was told, else by the threshold, which is 0.5 where there is none."""
        if self.outcome_name != "scored" or self.success is not None or self.score is None:
            return self.success if self.outcome_name == "scored" else None
        threshold = _DEFAULT_THRESHOLD if self.threshold is None else self.threshold
        return self.score >= threshold if self.direction == "higher" else self.score <= threshold


class ReportedItem(BaseModel):
    """What came of an item in one trial. `success` is not looked at: the scores say it."""

    model_config = ConfigDict(extra="forbid")

    datasetItemId: Name | None = None
    itemKey: Name | None = None
    trial: Annotated[int, Field(ge=1, le=10_000)] = 1
    inputs: Map = {}
    expectedOutputs: Map = {}
    actualOutputs: Map = {}
    metadata: Map = {}
    evalResults: Annotated[list[ReportedScore], Field(max_length=200)] = []
    success: bool | None = None
    error: Text | None = None
    errorKind: Annotated[str, Field(max_length=MAX_ID_CHARACTERS)] | None = None
    stopReason: Annotated[str, Field(max_length=MAX_ID_CHARACTERS)] | None = None
    cached: bool | None = None
    retries: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    tokensIn: Count | None = None
    tokensOut: Count | None = None
    cachedTokens: Count | None = None
    reasoningTokens: Count | None = None
    costUsd: Amount | None = None
    latencyMs: Amount | None = None
    traceId: Annotated[str, Field(pattern="^[0-9a-fA-F]{32}$")] | None = None
    spanId: Annotated[str, Field(pattern="^[0-9a-fA-F]{16}$")] | None = None


class ReportedItems(BaseModel):
    """Items of a run."""

    model_config = ConfigDict(extra="forbid")

    items: Annotated[list[ReportedItem], Field(min_length=1, max_length=MAX_ITEMS)]


def items_of(
    here: Context, run: Run, body: ReportedItems, batch: str | None
) -> tuple[list[NewRunItem], list[list[NewScore]]]:
    """The items as they are stored, each with its scores. What was told of a case of a dataset alone is filled in.

    Without a key of its own, an item of a batch that has one is known by its place in it, and else by nothing.

    Raises:
        BadQuery: something in them cannot be stored.
    """
    told = _filled(here, run, body.items)
    items = []
    scores = []
    for place, each in enumerate(told):
        try:
            items.append(_item(here, each, place, batch))
            scores.append([_score(here, score) for score in each.evalResults])
        except BadItem as error:
            raise BadQuery(f"items[{place}]: {error}") from None
    return items, scores


def _filled(here: Context, run: Run, items: Sequence[ReportedItem]) -> list[ReportedItem]:
    """The items with what their dataset says of them, where they say nothing."""
    wanted = [each.datasetItemId for each in items if each.datasetItemId is not None and not each.inputs]
    if not wanted or run.dataset_id is None or run.dataset_version is None:
        return list(items)
    found = here.datasets.items_of_run(run.dataset_id, run.dataset_version, wanted)
    filled = []
    for each in items:
        case = found.get(each.datasetItemId or "")
        if case is not None and not each.inputs:
            said = {"inputs": json.loads(case.inputs)}
            said |= {} if each.expectedOutputs else {"expectedOutputs": json.loads(case.expected_outputs)}
            said |= {} if each.metadata else {"metadata": json.loads(case.metadata)}
            filled.append(each.model_copy(update=said))
        else:
            filled.append(each)
    return filled


def _item(here: Context, told: ReportedItem, place: int, batch: str | None) -> NewRunItem:
    maps = [here.redacted(each) for each in (told.inputs, told.expectedOutputs, told.actualOutputs, told.metadata)]
    error = here.redacted(told.error)
    key = told.itemKey or told.datasetItemId
    unnamed = f"item:{uuid.uuid4().hex}" if batch is None else f"batch:{batch}:{place}"
    numbers = (told.tokensIn, told.tokensOut, told.costUsd, told.latencyMs, told.traceId)
    said = [each.model_dump(exclude_none=True) for each in told.evalResults]
    return NewRunItem(
        item_key=key or unnamed,
        is_keyed=key is not None,
        dataset_item_id=told.datasetItemId,
        trial=told.trial,
        digest=digest_of(maps, error, told.errorKind, numbers, said),
        inputs=json_text(maps[0]),
        expected_outputs=json_text(maps[1]),
        actual_outputs=json_text(maps[2]),
        metadata=json_text(maps[3]),
        error=error,
        error_kind=told.errorKind,
        stop_reason=told.stopReason,
        cached=told.cached,
        retries=told.retries,
        tokens_in=told.tokensIn,
        tokens_out=told.tokensOut,
        tokens_cached=told.cachedTokens,
        tokens_reasoning=told.reasoningTokens,
        cost_usd=told.costUsd,
        latency_ms=told.latencyMs,
        trace_id=told.traceId and told.traceId.lower(),
        span_id=told.spanId and told.spanId.lower(),
    )


def _score(here: Context, told: ReportedScore) -> NewScore:
    outcome = told.outcome_name
    texts = (told.error, told.reason) if outcome == "failed" else (told.reason, told.error)
    return NewScore(
        name=told.name,
        outcome=outcome,
        score=told.score if outcome == "scored" else None,
        label=told.label,
        passed=told.passed,
        threshold=told.threshold,
        direction=told.direction,
        reason=here.redacted(next((text for text in texts if text is not None), None)),
        error_kind=told.errorKind or ("error" if outcome == "failed" else None),
        fingerprint=told.fingerprint,
        evaluator_version=told.version,
        metadata=None if told.metadata is None else json_text(here.redacted(told.metadata)),
        judge_model=told.judgeModel,
        cost_usd=told.costUsd,
        latency_ms=told.latencyMs,
    )
