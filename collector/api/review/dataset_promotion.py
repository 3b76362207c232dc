"""Promotion of traces, spans, sessions and items of runs to items of a dataset."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import Depends
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.access.tenants import refuse_shared
from collector.api.base.context import Context
from collector.api.base.exact_json import body_of, json_body
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.base.times import time_text
from collector.api.offline.datasets import Description, dataset_seen, maker_of, version_answer
from collector.api.responses.declaration import response_model
from collector.api.responses.offline import VersionDocument
from collector.api.review.annotations import counting
from collector.conventions.trace import read_trace
from collector.datasets.item import BadItem
from collector.datasets.promotion import (
    Correction,
    PromotedTurn,
    case_of_session,
    corrected,
    item_of_case,
    item_of_result,
    named_after,
)
from collector.evaluation.trace_case import case_of_trace
from evaluators.model import Case
from storage.errors import BadQuery, NotFound
from storage.limit import Limit
from storage.offline.datasets import Dataset, DatasetText, Item, Version
from storage.query.trace_criteria import TraceCriteria
from storage.records import Trace
from storage.review.annotations import Annotation, AnnotationCriteria
from tracejury.dataset_text import ItemText

router = api_router(prefix="/api/v1/datasets")

_MOST_TURNS: Final = 100
_SESSION_S: Final = 10.0
"""Most traces of a promoted session, and the time to find them. Guesses: people cannot review a longer conversation."""


def _expecting(expected: Any, *, use_output: bool = False) -> Correction:  # noqa: ANN401 - JSON
    # A value other than an object is the expected output itself.
    wrapped = expected if expected is None or isinstance(expected, dict) else {"output": expected}
    return Correction(expected=wrapped, use_output=use_output)


class Promoted(BaseModel):
    """Source of an item: a trace, a span of it, a session, or an item of a run; with the expected output, if known."""

    model_config = ConfigDict(extra="forbid")

    traceId: str | None = Field(default=None, pattern="^[0-9a-fA-F]{32}$")
    spanId: str | None = Field(default=None, pattern="^[0-9a-fA-F]{16}$")
    sessionId: str | None = Field(default=None, min_length=1, max_length=1_000)
    itemResultId: str | None = Field(default=None, pattern="^[0-9]{1,18}$")
    overriddenExpectedOutput: Any = None
    useOutput: bool = Field(default=False, description="Take the output as the expected output.")

    def correction(self) -> Correction:
        """Return the correction in the request."""
        return _expecting(self.overriddenExpectedOutput, use_output=self.useOutput)

    def key(self) -> tuple[str, ...]:
        """Return the kind of the target and its ids.

        Raises:
            BadQuery: the request names no target, or several.
        """
        named = [each for each in (self.traceId, self.sessionId, self.itemResultId) if each is not None]
        if len(named) != 1 or (self.spanId and not self.traceId):
            raise BadQuery("name one target: a traceId (with or without spanId), a sessionId, or an itemResultId")
        if self.itemResultId is not None:
            return "result", self.itemResultId
        if self.sessionId is not None:
            return "session", self.sessionId
        span = () if self.spanId is None else (self.spanId.lower(),)
        return ("span" if span else "trace", str(self.traceId).lower(), *span)


class Promotion(BaseModel):
    """Items to add to an existing dataset."""

    model_config = ConfigDict(extra="forbid")

    datasetName: str = Field(min_length=1, max_length=200)
    description: Description = ""
    items: list[Promoted] = Field(min_length=1, max_length=200)


Body = Annotated[Promotion, Depends(json_body(Promotion))]


@router.post(
    "/promote",
    status_code=HTTPStatus.CREATED,
    openapi_extra=body_of(Promotion),
    responses={404: {"description": "The dataset, or what is to be promoted, is not here."}},
)
@needs(Permission.WRITE, by_tenant=True)
@response_model(VersionDocument, 200)
def promote(body: Body, context: ContextDep, caller: CallerDep) -> Response:
    """Make a version with the items of the latest one and these. Items that it has are not added again (200).

    An item is a copy: it stays when its trace expires. If it is promoted again with another expected output, it is
    replaced. Unless the request gives the expected output, an annotation's correction is used.
    """
    return version_answer(*promoted(context, caller, dataset_seen(context, caller, body.datasetName), body))


def promoted(
    context: Context, caller: Caller, dataset: Dataset, body: Promotion
) -> tuple[Dataset, tuple[Version, bool]]:
    """Add the items to the dataset; return it with the version that has them, and whether that version is new.

    A dataset that is not stored yet is created once its items are made.

    Raises:
        BadQuery: a target makes no valid item.
        Conflict: another dataset has the name of a new one.
        Forbidden: the caller may not change the dataset.
        NotFound: the dataset's tenant sees no such target.
    """
    refuse_shared(caller, dataset.tenant, f"the dataset {dataset.name!r}")
    latest = context.store.datasets.versions(dataset)
    ids = {_id_of(context, dataset, each): each for each in body.items}
    existing = (
        {item.item_id: item for item in context.store.datasets.items_by_id(latest[0], list(ids))} if latest else {}
    )
    maker = maker_of(context, dataset)
    items = []
    for item_id, each in ids.items():
        try:
            items.append(maker.make(_text(context, dataset, item_id, each, existing.get(item_id))))
        except ValueError as error:
            raise BadQuery(f"{' '.join(each.key())}: {error}") from None
    now_us = context.now_ns() // 1000
    if not dataset.dataset_id:
        dataset = context.store.datasets.create(dataset.tenant, dataset.name, DatasetText(), now_us=now_us)
    table = context.store.datasets.add_items(dataset, items, now_us=now_us)
    return dataset, context.store.datasets.add_version(
        dataset, table, mode="append", description=body.description, created_by=caller.key_name, now_us=now_us
    )


def unstored_dataset(tenant: str, name: str) -> Dataset:
    """Return a new dataset for `promoted`, which creates it."""
    return Dataset(
        tenant=tenant,
        dataset_id="",
        name=name,
        description="",
        tags=(),
        input_schema=None,
        expected_schema=None,
        version=0,
        created_at_ns=0,
        updated_at_ns=0,
        latest_version=0,
        latest_item_count=0,
    )


def id_in(context: Context, dataset: Dataset, target: Promoted) -> str:
    """Return the id that the item of a target has in a dataset."""
    return _id_of(context, dataset, target)


def corrected_by_people(context: Context, tenant: str | None, target: Promoted) -> object:
    """Return the correction in a vote that agrees with the counted vote: an adjudicator's, else the latest; or None."""
    kind, key, *span = target.key()
    if kind == "session":
        return None
    of_item = AnnotationCriteria(item_number=int(key)) if kind == "result" else None
    like = of_item or AnnotationCriteria(trace_id=key, span_id=span[0] if span else None)
    about = {"result": "run_item"}.get(kind, kind)
    votes = [each for each in context.store.annotations.like(like, tenant=tenant) if each.target == about]
    counted = {each.name: counting([one for one in votes if one.name == each.name]) for each in votes}
    vote = counting([each for each in votes if each.expected and _agrees(each, counted[each.name])])
    return None if vote is None or vote.expected is None else json.loads(vote.expected)


def _agrees(vote: Annotation, counted: Annotation | None) -> bool:
    return counted is not None and (vote.label, vote.score) == (counted.label, counted.score)


def recorded_case(context: Context, tenant: str | None, trace_id: str, span_id: str | None) -> Case:
    """Return a trace, or a span of it, as a case.

    Raises:
        NotFound: this tenant sees no such trace or span.
    """
    trace = context.store.queries.trace(trace_id, tenant=tenant)
    if trace is None:
        raise NotFound(f"no trace {trace_id} here; it may have expired")
    return _case(context, trace, span_id)


def _text(context: Context, dataset: Dataset, item_id: str, target: Promoted, stored: Item | None) -> ItemText:
    """Return the item to store; of an item that is already stored, only the expected outputs are replaced."""
    correction = _correction(context, dataset, target)
    if stored is None:
        return _recorded(context, dataset, item_id, target)
    if correction.use_output and correction.expected is None:
        correction = Correction(expected=_recorded(context, dataset, item_id, target).expected_outputs)
    return corrected(stored, correction)


def _correction(context: Context, dataset: Dataset, target: Promoted) -> Correction:
    # The request takes precedence over annotations.
    correction = target.correction()
    if correction.expected is not None or correction.use_output:
        return correction
    return _expecting(corrected_by_people(context, dataset.tenant, target))


def _recorded(context: Context, dataset: Dataset, item_id: str, target: Promoted) -> ItemText:
    correction = _correction(context, dataset, target)
    kind, key, *span = target.key()
    names = {"session": "sessionId", "result": "itemResultId"}.get(kind, "traceId"), "spanId"
    source = {"kind": kind, **dict(zip(names, (key, *span), strict=False)), "promotedAt": time_text(context.now_ns())}
    if kind == "result":
        result = _result(context, dataset, key)
        source |= {"runId": result["run_id"], "traceId": result["trace_id"]}
        return item_of_result(result, item_id, source, correction)
    if kind == "session":
        return item_of_case(_session(context, dataset, key), item_id, source, correction)
    trace = _trace(context, dataset, key)
    source["project"] = trace.summary.project
    case = _case(context, trace, span[0] if span else None)
    return item_of_case(case, item_id, source, correction)


def _id_of(context: Context, dataset: Dataset, target: Promoted) -> str:
    """Return the id of a target's item; for a result of a run on this dataset, the id of the item that was run."""
    kind, key, *rest = target.key()
    if kind == "result":
        result = _result(context, dataset, key)
        if result["dataset_item_id"] is not None and result["dataset_id"] == dataset.dataset_id:
            return str(result["dataset_item_id"])
    return named_after(kind, key, *rest)


def _result(context: Context, dataset: Dataset, number: str) -> Mapping[str, Any]:
    row = context.store.run_items.find(dataset.tenant, int(number))
    if row is None:
        raise NotFound(f"no item {number} of a run here that the dataset {dataset.name!r} may have")
    return row


def _trace(context: Context, dataset: Dataset, trace_id: str) -> Trace:
    # Only traces of the dataset's tenant, or of none: the dataset must not reveal those of other tenants.
    trace = context.store.queries.trace(trace_id, tenant=dataset.tenant)
    if trace is None:
        raise NotFound(f"no trace {trace_id} here that the dataset {dataset.name!r} may have")
    return trace


def _case(context: Context, trace: Trace, span_id: str | None) -> Case:
    spans = [span for span in trace.spans if span_id in {None, span.span_id}]
    logs = [log for log in trace.logs if span_id in {None, log.span_id}]
    if not spans:
        raise NotFound(f"the trace {trace.summary.trace_id} has no span {span_id}")
    return case_of_trace(read_trace(spans, logs, context.own_keys), spans)


def _session(context: Context, dataset: Dataset, session_id: str) -> Case:
    like = TraceCriteria(session=session_id)
    listed = context.store.listing.traces(like, limit=_MOST_TURNS, tenant=dataset.tenant, within_s=_SESSION_S)
    if not listed.traces:
        raise NotFound(f"no trace of the session {session_id} here")
    if listed.next is not None:
        limit = Limit(value=_MOST_TURNS, unit="traces", remedy="make cases of single traces")
        raise BadItem(f"the traces could not be found in time, or the session has more than {limit}")
    turns = []
    for summary in sorted(listed.traces, key=lambda each: each.start_ns):
        trace = _trace(context, dataset, summary.trace_id)
        reading = read_trace(trace.spans, trace.logs, context.own_keys)
        turns.append(PromotedTurn(prompt=reading.input, answered=reading.output))
    return case_of_session(turns)
