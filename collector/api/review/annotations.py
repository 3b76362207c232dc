"""Annotations over HTTP: votes of people on traces, spans and items of runs, scores of applications and their users."""

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

from fastapi import Depends, Path, Query
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.access.tenants import Tenant, refuse_shared, tenant_of, visible_tenant_of
from collector.api.base.context import Context
from collector.api.base.exact_json import HexSpan, HexTrace, body_of, json_body
from collector.api.base.json_encoding import json_response
from collector.api.base.numbers import Number
from collector.api.base.problems import problem
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.base.times import time_text
from collector.api.offline.runs import Own, Seen
from collector.api.responses.annotating import ScoresReceipt
from collector.api.responses.annotations import AnnotationDocument
from collector.api.responses.declaration import response_model
from collector.api.review.session_targets import session_target
from collector.datasets.item import BadItem, json_text
from storage.errors import BadQuery, NotFound
from storage.offline.runs import Run
from storage.review.annotations import Annotation, AnnotationCriteria, AnnotationTarget, NewAnnotation, Source

router = api_router(prefix="/api/v1")

VERDICT: Final = "verdict"
"""Default question of an annotation: was that right?"""

MOST_NOTE: Final = 10_000
_MOST_SCORES: Final = 100
"""Maximum number of scores in a request. Each takes the writer 7 ms with 100,000 annotations stored."""

_OF_TRACE: Final = "/traces/{trace_id}/annotation"
_OF_ITEM: Final = "/runs/{run_id}/items/{number}/annotation"

Verdict = Literal["CORRECT", "INCORRECT", "UNSURE"]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")]
Note = Annotated[str, Field(max_length=MOST_NOTE)]
ItemNumber = Annotated[str, Field(pattern="^[0-9]{1,18}$")]
NumberOfItem = Annotated[int, Path(ge=0, lt=10**18)]
SpanId = Annotated[HexSpan | None, Query(alias="spanId", description="A span of the trace; without it, the trace.")]
Question = Annotated[Name, Query(alias="name", description="The name of the question.")]
By = Annotated[
    str | None,
    Query(min_length=1, max_length=200, description="The voter's name, on a server without keys."),
]


class AnnotationBody(BaseModel):
    """A vote. Without a verdict it has a label or a score, for a question that the operator defined."""

    model_config = ConfigDict(extra="forbid")

    name: Name = VERDICT
    verdict: Verdict | None = None
    label: Annotated[str, Field(min_length=1, max_length=1_000)] | None = None
    score: Number | None = None
    note: Note | None = None
    overriddenExpectedOutput: Any = None
    adjudicates: bool = Field(default=False, description="The vote decides, whatever others voted.")
    by: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="The voter's name, on a server without keys."
    )

    @model_validator(mode="after")
    def _one_answer(self) -> "AnnotationBody":
        if self.verdict is not None and self.label is not None:
            raise ValueError("a verdict is a label: send one of them")
        if self.verdict is None and self.label is None and self.score is None:
            raise ValueError("send a verdict, a label or a score")
        return self


class ScoreBody(BaseModel):
    """A score by an application, or a user of it, of a trace, a span, a session or an item of a run."""

    model_config = ConfigDict(extra="forbid")

    traceId: HexTrace | None = None
    spanId: HexSpan | None = None
    sessionId: Annotated[str, Field(min_length=1, max_length=1_000)] | None = None
    itemResultId: ItemNumber | None = None
    name: Name
    score: Number | None = None
    label: Annotated[str, Field(min_length=1, max_length=1_000)] | None = None
    comment: Note | None = None
    source: Literal["application", "user"] = "application"
    author: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="The user, or what judged; without it the name of the key."
    )

    @model_validator(mode="after")
    def _whole(self) -> "ScoreBody":
        named = [each for each in (self.traceId, self.sessionId, self.itemResultId) if each is not None]
        if len(named) != 1 or (self.spanId and not self.traceId):
            raise ValueError("name one target: a traceId (with or without spanId), a sessionId, or an itemResultId")
        if self.score is None and self.label is None and self.comment is None:
            raise ValueError("send a score, a label or a comment")
        return self


class ScoresBody(BaseModel):
    """Scores, all of which are stored, or none."""

    model_config = ConfigDict(extra="forbid")

    scores: Annotated[list[ScoreBody], Field(min_length=1, max_length=_MOST_SCORES)]


class AnnotationFilters(BaseModel):
    """Filter and page of the annotation list."""

    traceId: HexTrace | None = None
    spanId: HexSpan | None = None
    sessionId: Annotated[str, Field(max_length=1_000)] | None = None
    itemResultId: ItemNumber | None = None
    name: Annotated[str, Field(max_length=200)] | None = None
    history: bool = Field(default=False, description="Include votes that were changed or withdrawn later.")
    page: int = Field(default=0, ge=0, le=100_000)
    size: int = Field(default=100, ge=1, le=1_000)

    def like(self) -> AnnotationCriteria:
        """Return the filter in the form that the store takes."""
        return AnnotationCriteria(
            trace_id=self.traceId and self.traceId.lower(),
            span_id=self.spanId and self.spanId.lower(),
            session_id=self.sessionId,
            item_number=None if self.itemResultId is None else int(self.itemResultId),
            name=self.name,
            history=self.history,
        )


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """A vote to withdraw: its question, and its author on a server without keys."""

    name: Question = VERDICT
    by: By = None


Withdrawn = Annotated[Withdrawal, Depends()]
Voted = Annotated[AnnotationBody, Depends(json_body(AnnotationBody))]
Scored = Annotated[ScoresBody, Depends(json_body(ScoresBody))]


@router.get("/annotations")
@needs(Permission.READ, by_tenant=True)
@response_model(list[AnnotationDocument])
def list_annotations(
    context: ContextDep, caller: CallerDep, filters: Annotated[AnnotationFilters, Query()]
) -> Response:
    """List annotations, the latest first."""
    rows = context.store.annotations.like(
        filters.like(), tenant=caller.visible_tenant, most=filters.size, skip=filters.page * filters.size
    )
    return json_response([annotation_document(each) for each in rows])


@router.post(
    "/scores",
    status_code=HTTPStatus.CREATED,
    openapi_extra=body_of(ScoresBody),
    responses={404: {"description": "The session or the item of a run is not here."}},
)
@needs(Permission.SEND, by_tenant=True)
@response_model(ScoresReceipt)
def score(body: Scored, context: ContextDep, caller: CallerDep, tenant: Tenant = None) -> dict[str, object]:
    """Store scores of an application or its users. A repeated score of one author is stored once.

    A trace may be scored before it arrives; a session or an item of a run must exist.
    """
    whose = tenant_of(caller, tenant)
    scores = [_score(context, caller, whose, each) for each in body.scores]
    stored = context.store.annotations.add(scores, now_us=context.now_ns() // 1000)
    return {"tenant": whose, "stored": stored, "unchanged": len(scores) - stored}


@router.put(_OF_TRACE, openapi_extra=body_of(AnnotationBody))
@needs(Permission.WRITE, by_tenant=True)
@response_model(AnnotationDocument)
def annotate_trace(
    trace_id: str, body: Voted, context: ContextDep, caller: CallerDep, tenant: Tenant = None, span_id: SpanId = None
) -> Response:
    """Vote on a trace or a span of it; a vote of the caller's before this one stays in the history."""
    return vote_on(context, caller, own_target(context, tenant_of(caller, tenant), trace_id, span_id), body)


@router.get(_OF_TRACE)
@needs(Permission.READ, by_tenant=True)
@response_model(AnnotationDocument)
def show_of_trace(
    trace_id: str,
    context: ContextDep,
    caller: CallerDep,
    tenant: Tenant = None,
    span_id: SpanId = None,
    name: Question = VERDICT,
) -> Response:
    """Return the vote that counts: the adjudicator's, else the latest of a person."""
    target = _target(context, visible_tenant_of(caller, tenant), trace_id, span_id)
    return _counting(context, target, name)


@router.delete(_OF_TRACE, status_code=HTTPStatus.NO_CONTENT)
@needs(Permission.WRITE, by_tenant=True)
def withdraw_of_trace(
    trace_id: str,
    context: ContextDep,
    caller: CallerDep,
    vote: Withdrawn,
    tenant: Tenant = None,
    span_id: SpanId = None,
) -> Response:
    """Withdraw the caller's vote; it stays in the history."""
    withdraw(context, caller, own_target(context, tenant_of(caller, tenant), trace_id, span_id), vote)
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.put(_OF_ITEM, openapi_extra=body_of(AnnotationBody))
@needs(Permission.WRITE, by_tenant=True)
@response_model(AnnotationDocument)
def annotate_item(run: Own, number: NumberOfItem, body: Voted, context: ContextDep, caller: CallerDep) -> Response:
    """Vote on an item of a run."""
    return vote_on(context, caller, item_target(context, run, number), body)


@router.get(_OF_ITEM)
@needs(Permission.READ, by_tenant=True)
@response_model(AnnotationDocument)
def show_of_item(run: Seen, number: NumberOfItem, context: ContextDep, name: Question = VERDICT) -> Response:
    """Return the vote that counts: the adjudicator's, else the latest of a person."""
    return _counting(context, item_target(context, run, number), name)


@router.delete(_OF_ITEM, status_code=HTTPStatus.NO_CONTENT)
@needs(Permission.WRITE, by_tenant=True)
def withdraw_of_item(
    run: Own, number: NumberOfItem, context: ContextDep, caller: CallerDep, vote: Withdrawn
) -> Response:
    """Withdraw the caller's vote; it stays in the history."""
    withdraw(context, caller, item_target(context, run, number), vote)
    return Response(status_code=HTTPStatus.NO_CONTENT)


def own_target(context: Context, tenant: str, trace_id: str, span_id: str | None) -> AnnotationTarget:
    """Return a trace of this tenant, or a span of it, as a target.

    Raises:
        NotFound: the tenant has no such trace or span.
    """
    target = _target(context, tenant, trace_id, span_id)
    if target.tenant != tenant:
        raise NotFound(f"no trace {trace_id[:64]} here that is yours to vote on")
    return target


def item_target(context: Context, run: Run, number: int) -> AnnotationTarget:
    """Return an item of a run as a target.

    Raises:
        NotFound: the run has no such item.
    """
    if not 0 < number < 2**62 or not context.store.run_items.by_number(run.run_id, [number]):
        raise NotFound("this run has no such item")
    return AnnotationTarget(
        tenant=run.tenant, target="run_item", project=run.project, run_id=run.run_id, item_number=number
    )


def voted(context: Context, caller: Caller, about: AnnotationTarget, body: AnnotationBody) -> NewAnnotation:
    """Return a vote as it is stored."""
    source: Source = "adjudicator" if body.adjudicates else "person"
    return NewAnnotation(
        about=about,
        name=body.name,
        label=body.verdict or body.label,
        score=body.score,
        note=context.redacted(body.note),
        expected=expected_text(context, body.overriddenExpectedOutput),
        source=source,
        author=author_of(caller, body.by),
    )


def author_of(caller: Caller, by: str | None = None) -> str:
    """Return the author of a vote: the name of the key, else the given name, else `anonymous`."""
    return caller.key_name or by or "anonymous"


def withdraw(context: Context, caller: Caller, about: AnnotationTarget, vote: Withdrawal) -> None:
    """Withdraw the caller's votes, as a person and as an adjudicator."""
    sources: tuple[Source, ...] = ("person", "adjudicator")
    author = author_of(caller, vote.by)
    withdrawals = [
        NewAnnotation(about=about, name=vote.name, source=each, author=author, withdrawn=True) for each in sources
    ]
    context.store.annotations.add(withdrawals, now_us=context.now_ns() // 1000)


def counting(annotations: list[Annotation]) -> Annotation | None:
    """Return the vote on a target that counts: the adjudicator's, else the latest of a person, or None."""
    votes = [each for each in annotations if each.source in {"person", "adjudicator"}]
    return next((each for each in votes if each.source == "adjudicator"), votes[0] if votes else None)


def votes_on(context: Context, about: AnnotationTarget, name: str | None = None) -> list[Annotation]:
    """Return the annotations of exactly this target, latest first."""
    like = AnnotationCriteria(trace_id=about.trace_id, span_id=about.span_id, item_number=about.item_number, name=name)
    if about.session_id is not None:
        like = AnnotationCriteria(session_id=about.session_id, name=name)
    rows = context.store.annotations.like(like, tenant=about.tenant)
    return [each for each in rows if (each.target, each.tenant) == (about.target, about.tenant)]


def annotation_document(annotation: Annotation) -> AnnotationDocument:
    """Return an annotation as the API sends it."""
    return AnnotationDocument.of(
        annotation,
        project_name=annotation.project,
        item_result_id=None if annotation.item_number is None else str(annotation.item_number),
        verdict=annotation.label if annotation.label in {"CORRECT", "INCORRECT", "UNSURE"} else None,
        overridden_expected_output=None if annotation.expected is None else json.loads(annotation.expected),
        created_at=time_text(annotation.created_at_ns),
    )


def vote_on(context: Context, caller: Caller, about: AnnotationTarget, body: AnnotationBody) -> Response:
    """Store a vote, and return a response with it.

    Raises:
        Forbidden: the target is shared.
    """
    refuse_shared(caller, about.tenant, "the target of the vote")
    vote = voted(context, caller, about, body)
    context.store.annotations.add([vote], now_us=context.now_ns() // 1000)
    mine = (vote.author, vote.source)
    stored = next(each for each in votes_on(context, about, vote.name) if (each.author, each.source) == mine)
    return json_response(annotation_document(stored))


def _counting(context: Context, about: AnnotationTarget, name: str) -> Response:
    vote = counting(votes_on(context, about, name))
    if vote is None:
        return problem(HTTPStatus.NOT_FOUND, "the target has no votes")
    return json_response(annotation_document(vote))


def expected_text(context: Context, expected: Any) -> str | None:  # noqa: ANN401 - JSON
    """Return a correction as it is stored.

    Raises:
        BadQuery: the correction cannot be stored.
    """
    try:
        return None if expected is None else json_text(context.redacted(expected))
    except BadItem as error:
        raise BadQuery(f"overriddenExpectedOutput: {error}") from None


def _target(context: Context, visible_tenant: str | None, trace_id: str, span_id: str | None) -> AnnotationTarget:
    outline = context.store.outlines.of_trace(trace_id.lower(), tenant=visible_tenant, max_spans=1)
    span = span_id and span_id.lower()
    if outline is None:
        raise NotFound(f"no trace {trace_id[:64]} here; it may have expired")
    if span is not None and context.store.outlines.span(outline, span) is None:
        raise NotFound(f"the trace has no span {span}")
    summary = outline.summary
    return AnnotationTarget(
        tenant=summary.tenant or "",
        target="span" if span else "trace",
        project=summary.project,
        trace_id=summary.trace_id,
        span_id=span,
    )


def _score(context: Context, caller: Caller, tenant: str, body: ScoreBody) -> NewAnnotation:
    return NewAnnotation(
        about=_scored(context, tenant, body),
        name=body.name,
        label=body.label,
        score=body.score,
        note=context.redacted(body.comment),
        source=body.source,
        author=body.author or author_of(caller),
    )


def _scored(context: Context, tenant: str, body: ScoreBody) -> AnnotationTarget:
    """Return the target of a score; the project of a trace that was not received yet is unknown."""
    if body.itemResultId is not None:
        item = context.store.run_items.find(tenant, int(body.itemResultId))
        run = None if item is None else context.store.runs.find(tenant, item["run_id"])
        if run is None or run.tenant != tenant:
            raise NotFound(f"no item {body.itemResultId} of a run here")
        return item_target(context, run, int(body.itemResultId))
    if body.sessionId is not None:
        return session_target(context, tenant, body.sessionId)
    trace_id, span = str(body.traceId).lower(), body.spanId and body.spanId.lower()
    outline = context.store.outlines.of_trace(trace_id, tenant=tenant, max_spans=1)
    is_here = outline is not None and outline.summary.tenant == tenant
    return AnnotationTarget(
        tenant=tenant,
        target="span" if span else "trace",
        project=outline.summary.project if outline is not None and is_here else None,
        trace_id=trace_id,
        span_id=span,
    )
