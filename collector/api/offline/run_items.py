"""Items of runs: validated as reported, and converted for storage."""

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
"""Maximum number of items in a request. A guess: as many items of 1.5 KB make the largest request body."""

_DEFAULT_THRESHOLD = 0.5

Name = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARACTERS, pattern=r"\S")]
Text = Annotated[str, Field(max_length=100_000)]
Map = dict[str, Any]


class ReportedScore(BaseModel):
    """A score of an evaluator.

    With an error, its outcome is `failed` unless it is reported as `skipped`. Without an outcome and an error, it is
    `scored` if there is a score or `success`, else `skipped`.
    """

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
        """Return `failed` for an error unless reported as skipped, else the reported outcome, `scored` or `skipped`."""
        is_broken = self.error is not None or self.errorKind is not None
        if is_broken and self.outcome != "skipped":
            return "failed"
        has_result = self.score is not None or self.success is not None
        return self.outcome or ("scored" if has_result else "skipped")

    @property
    def passed(self) -> bool | None:
        """Return the reported verdict, else whether the score meets the threshold (0.5 by default)."""
        if self.outcome_name != "scored" or self.success is not None or self.score is None:
            return self.success if self.outcome_name == "scored" else None
        threshold = _DEFAULT_THRESHOLD if self.threshold is None else self.threshold
        return self.score >= threshold if self.direction == "higher" else self.score <= threshold


class ReportedItem(BaseModel):
    """Result of an item in one trial. `success` is ignored: the scores decide."""

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
    context: Context, run: Run, body: ReportedItems, batch: str | None
) -> tuple[list[NewRunItem], list[list[NewScore]]]:
    """Convert reported items and their scores for storage; inputs that were not sent come from the run's dataset.

    An item without a key is identified by its index and `batch`, the idempotency key. If there is no `batch` either, a
    repeated request stores it again.

    Raises:
        BadQuery: an item cannot be stored.
    """
    reported = _filled(context, run, body.items)
    items = []
    scores = []
    for place, each in enumerate(reported):
        try:
            items.append(_item(context, each, place, batch))
            scores.append([_score(context, score) for score in each.evalResults])
        except BadItem as error:
            raise BadQuery(f"items[{place}]: {error}") from None
    return items, scores


def _filled(context: Context, run: Run, items: Sequence[ReportedItem]) -> list[ReportedItem]:
    """Fill in items without inputs from the dataset."""
    item_ids = [each.datasetItemId for each in items if each.datasetItemId is not None and not each.inputs]
    if not item_ids or run.dataset_id is None or run.dataset_version is None:
        return list(items)
    cases = context.store.datasets.items_of_run(run.dataset_id, run.dataset_version, item_ids)
    filled = []
    for each in items:
        case = cases.get(each.datasetItemId or "")
        if case is not None and not each.inputs:
            fields = {"inputs": json.loads(case.inputs)}
            fields |= {} if each.expectedOutputs else {"expectedOutputs": json.loads(case.expected_outputs)}
            fields |= {} if each.metadata else {"metadata": json.loads(case.metadata)}
            filled.append(each.model_copy(update=fields))
        else:
            filled.append(each)
    return filled


def _item(context: Context, reported: ReportedItem, place: int, batch: str | None) -> NewRunItem:
    maps = [
        context.redacted(each)
        for each in (reported.inputs, reported.expectedOutputs, reported.actualOutputs, reported.metadata)
    ]
    error = context.redacted(reported.error)
    key = reported.itemKey or reported.datasetItemId
    unnamed = f"item:{uuid.uuid4().hex}" if batch is None else f"batch:{batch}:{place}"
    numbers = (reported.tokensIn, reported.tokensOut, reported.costUsd, reported.latencyMs, reported.traceId)
    scores = [each.model_dump(exclude_none=True) for each in reported.evalResults]
    return NewRunItem(
        item_key=key or unnamed,
        is_keyed=key is not None,
        dataset_item_id=reported.datasetItemId,
        trial=reported.trial,
        digest=digest_of(maps, error, reported.errorKind, numbers, scores),
        inputs=json_text(maps[0]),
        expected_outputs=json_text(maps[1]),
        actual_outputs=json_text(maps[2]),
        metadata=json_text(maps[3]),
        error=error,
        error_kind=reported.errorKind,
        stop_reason=reported.stopReason,
        cached=reported.cached,
        retries=reported.retries,
        tokens_in=reported.tokensIn,
        tokens_out=reported.tokensOut,
        tokens_cached=reported.cachedTokens,
        tokens_reasoning=reported.reasoningTokens,
        cost_usd=reported.costUsd,
        latency_ms=reported.latencyMs,
        trace_id=reported.traceId and reported.traceId.lower(),
        span_id=reported.spanId and reported.spanId.lower(),
    )


def _score(context: Context, reported: ReportedScore) -> NewScore:
    outcome = reported.outcome_name
    texts = (reported.error, reported.reason) if outcome == "failed" else (reported.reason, reported.error)
    return NewScore(
        name=reported.name,
        outcome=outcome,
        score=reported.score if outcome == "scored" else None,
        label=reported.label,
        passed=reported.passed,
        threshold=reported.threshold,
        direction=reported.direction,
        reason=context.redacted(next((text for text in texts if text is not None), None)),
        error_kind=reported.errorKind or ("error" if outcome == "failed" else None),
        fingerprint=reported.fingerprint,
        evaluator_version=reported.version,
        metadata=None if reported.metadata is None else json_text(context.redacted(reported.metadata)),
        judge_model=reported.judgeModel,
        cost_usd=reported.costUsd,
        latency_ms=reported.latencyMs,
    )
