"""Experiments and runs over HTTP: begin a run, report items, end it."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

from fastapi import Depends, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.access.tenants import refuse_shared
from collector.api.base.context import Context
from collector.api.base.exact_json import body_of, json_body
from collector.api.base.json_encoding import json_response
from collector.api.base.pages import PARTED, At, Part
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.offline.datasets import NAME_PATTERN, Description, dataset_seen
from collector.api.offline.run_items import ReportedItems, items_of
from collector.api.responses.declaration import response_model
from collector.api.responses.offline import (
    BegunRun,
    ExperimentDocument,
    ItemsReceipt,
    LatestRun,
    PinnedRun,
    ReportedKey,
    ReportedKeys,
    RunChangeReceipt,
    RunDetail,
    RunDocument,
    RunItemDocument,
    RunItemPage,
    RunWithEvaluators,
    TrendDocument,
    TrendRun,
)
from collector.datasets.item import BadItem, json_text
from storage.errors import BadQuery, Conflict, NotFound
from storage.offline.runs import Experiment, NewRun, Run

router = api_router(prefix="/api/v1")

_RUN: Final = "/runs/{run_id}"
_EXPERIMENT: Final = "/experiments/{experiment_id}"
_IDLE_S: Final = 86_400
"""A run without a report for a day is abandoned, unless it sets another limit. A guess."""

_LONGEST_IDLE_S: Final = 30 * 86_400
_KEYS: Final = 10_000  # item keys in a response
_Short = Annotated[str, Field(min_length=1, max_length=200)]


class RunBody(BaseModel):
    """A new run. With the `runKey` of an existing run, that run is returned."""

    model_config = ConfigDict(extra="forbid")

    experimentName: Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")]
    name: _Short | None = None
    description: Description = ""
    runKey: _Short | None = None
    metadata: dict[str, Any] = {}
    gitSha: _Short | None = None
    gitBranch: _Short | None = None
    triggeredBy: _Short | None = None
    datasetName: Annotated[str, Field(pattern=NAME_PATTERN)] | None = None
    datasetVersion: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    trials: Annotated[int, Field(ge=1, le=10_000)] = 1
    idleSeconds: Annotated[int, Field(ge=60, le=_LONGEST_IDLE_S)] = _IDLE_S

    @model_validator(mode="after")
    def _both_or_none(self) -> "RunBody":
        if (self.datasetName is None) is not (self.datasetVersion is None):
            raise ValueError("datasetName and datasetVersion need each other")
        return self


class RunChange(BaseModel):
    """Final status of a run; `RUNNING` reports that it still runs. `verdict` is that of a gate."""

    model_config = ConfigDict(extra="forbid")

    status: Literal["RUNNING", "SUCCESS", "FAILED", "CANCELLED"] | None = None
    reason: Annotated[str, Field(max_length=2_000)] | None = None
    verdict: Literal["PASS", "FAIL", "NO_BASELINE", "INCONCLUSIVE"] | None = None


RunId = Annotated[str, Path(max_length=100)]
Outcome = Literal["passed", "not_passed", "error", "not_evaluated", "unjudged"]


def run_seen(run_id: RunId, context: ContextDep, caller: CallerDep) -> Run:
    """Return the run that a path names.

    Raises:
        NotFound: the caller sees no such run.
    """
    run = context.store.runs.find(caller.visible_tenant, run_id.lower())
    if run is None:
        raise NotFound(f"there is no run {run_id} here")
    return run


Seen = Annotated[Run, Depends(run_seen)]


def run_owned(run: Seen, caller: CallerDep) -> Run:
    """Return a run that the caller may change."""
    refuse_shared(caller, run.tenant, f"the run {run.run_id}")
    return run


Own = Annotated[Run, Depends(run_owned)]
Begun = Annotated[RunBody, Depends(json_body(RunBody))]
Items = Annotated[ReportedItems, Depends(json_body(ReportedItems))]


@router.get("/projects/{project:name}/experiments", responses=PARTED)
@needs(Permission.READ, by_tenant=True)
@response_model(list[ExperimentDocument])
def list_experiments(project: str, context: ContextDep, caller: CallerDep, part: Part) -> Response:
    """List the experiments of a project by name, each with its latest run."""

    def document(experiment: Experiment) -> ExperimentDocument:
        latest = next(iter(context.store.runs.of_experiment(experiment.experiment_id)), None)
        if latest is None:
            return ExperimentDocument.of(experiment, description="", latest_run=None)
        run = LatestRun.of(latest, context.store.runs.sums([latest.run_id])[latest.run_id])
        return ExperimentDocument.of(experiment, description=latest.description, latest_run=run)

    return part.answer(
        context.store.runs.experiments(caller.visible_tenant, project=context.project_named(caller, project)), document
    )


@router.post(
    "/projects/{project:name}/runs",
    status_code=HTTPStatus.CREATED,
    openapi_extra=body_of(RunBody),
    responses={404: {"description": "The dataset, or its version, is not here."}},
)
@needs(Permission.WRITE, by_tenant=True)
@response_model(BegunRun, 200)
def begin(
    project: Annotated[str, Path(min_length=1, max_length=200)], body: Begun, context: ContextDep, caller: CallerDep
) -> Response:
    """Begin a run, and create its project and experiment if they are missing. A known key returns its run (200)."""
    run, is_new = context.store.runs.begin(_new_run(context, caller, project, body), now_us=context.now_ns() // 1000)
    status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
    return json_response(BegunRun.of(run), status=status, headers={"location": f"/api/v1/runs/{run.run_id}"})


def _metadata_text(context: Context, metadata: Mapping[str, Any]) -> str:
    try:
        return json_text(context.redacted(metadata))
    except BadItem as error:
        raise BadQuery(f"metadata: {error}") from None


def _new_run(context: Context, caller: Caller, project: str, body: RunBody) -> NewRun:
    dataset = None if body.datasetName is None else dataset_seen(context, caller, body.datasetName)
    if dataset is not None and not context.store.datasets.versions(dataset, version=body.datasetVersion):
        raise NotFound(f"the dataset {dataset.name!r} has no version {body.datasetVersion}")
    return NewRun(
        tenant=caller.tenant,
        project=context.project_named(caller, project),
        experiment=body.experimentName,
        run_key=body.runKey,
        name=body.name,
        description=body.description,
        metadata=_metadata_text(context, body.metadata),
        git_sha=body.gitSha,
        git_branch=body.gitBranch,
        triggered_by=body.triggeredBy,
        dataset_id=None if dataset is None else dataset.dataset_id,
        dataset=None if dataset is None else dataset.name,
        dataset_version=body.datasetVersion,
        trials=body.trials,
        idle_s=body.idleSeconds,
        created_by=caller.key_name,
    )


@router.get(_EXPERIMENT + "/runs")
@needs(Permission.READ, by_tenant=True)
@response_model(list[RunDocument])
def list_runs(experiment_id: str, context: ContextDep, caller: CallerDep, at: At) -> Response:
    """List the runs of an experiment, newest first."""
    _experiment(context, caller, experiment_id)
    runs = context.store.runs.of_experiment(experiment_id, skip=at.page * at.size, most=at.size)
    sums = context.store.runs.sums([run.run_id for run in runs])
    return json_response([RunDocument.of(run, sums[run.run_id]) for run in runs])


@router.get("/runs")
@needs(Permission.READ, by_tenant=True)
@response_model(list[RunWithEvaluators])
def list_latest_runs(
    context: ContextDep,
    caller: CallerDep,
    at: At,
    dataset: Annotated[str | None, Query(max_length=200, alias="datasetName")] = None,
) -> Response:
    """List the runs of all experiments, newest first, with results by evaluator.

    `datasetName` also matches `datasetFile` in a run's metadata: its path, its file name, or that name without suffix.
    """
    runs = context.store.runs.latest(caller.visible_tenant, dataset=dataset, skip=at.page * at.size, most=at.size)
    sums = context.store.runs.sums([run.run_id for run in runs])
    return json_response([RunWithEvaluators.of(run, sums[run.run_id]) for run in runs])


@router.get(_EXPERIMENT + "/trends")
@needs(Permission.READ, by_tenant=True)
@response_model(TrendDocument)
def show_trends(
    experiment_id: str, context: ContextDep, caller: CallerDep, limit: Annotated[int, Query(ge=1, le=200)] = 20
) -> Response:
    """Return the pass rates of the latest runs with status SUCCESS or FAILED, oldest first.

    Only the latest runs, ten times `limit`, are searched.
    """
    experiment = _experiment(context, caller, experiment_id)
    ended = [
        run
        for run in context.store.runs.of_experiment(experiment_id, most=10 * limit)
        if run.status in {"SUCCESS", "FAILED"}
    ]
    shown = ended[:limit][::-1]
    sums = context.store.runs.sums([run.run_id for run in shown])
    return json_response(
        TrendDocument(
            experiment_name=experiment.name,
            project_name=experiment.project,
            runs=[TrendRun.of(run, sums[run.run_id]) for run in shown],
        )
    )


@router.get(_RUN)
@needs(Permission.READ, by_tenant=True)
@response_model(RunDetail)
def show(run: Seen, context: ContextDep, at: At, outcome: Outcome | None = None) -> Response:
    """Return a run with totals, and a page of its items in the order received."""
    sums = context.store.runs.sums([run.run_id])[run.run_id]
    items = context.store.run_items.page(run.run_id, outcome=outcome, skip=at.page * at.size, most=at.size + 1)
    documents = [RunItemDocument.of(each) for each in items]
    return json_response(RunDetail.of(run, sums, items=RunItemPage.page(documents, at.page, at.size)))


@router.get(_RUN + "/keys")
@needs(Permission.READ, by_tenant=True)
@response_model(ReportedKeys)
def list_keys(run: Seen, context: ContextDep, after: Annotated[int, Query(ge=0, le=2**62)] = 0) -> Response:
    """List the reported items, to resume a run; `next` is the position of the next page."""
    keys = context.store.run_items.keys(run.run_id, after=after, most=_KEYS + 1)
    content = [ReportedKey(item_key=key, trial=trial) for _, key, trial in keys[:_KEYS]]
    return json_response(ReportedKeys(content=content, next=keys[_KEYS - 1][0] if len(keys) > _KEYS else None))


@router.post(_RUN + "/items", status_code=HTTPStatus.CREATED, openapi_extra=body_of(ReportedItems))
@needs(Permission.WRITE, by_tenant=True)
@response_model(ItemsReceipt)
def report(run: Own, body: Items, context: ContextDep, request: Request) -> Response:
    """Report items. Each key and trial is stored once, however often it is sent, also after a crash."""
    items, scores = items_of(context, run, body, request.headers.get("idempotency-key"))
    receipt = context.store.run_items.add(run, items, scores, now_us=context.now_ns() // 1000)
    return json_response(ItemsReceipt.of(receipt, status="ok"), status=HTTPStatus.CREATED)


@router.patch(_RUN)
@needs(Permission.WRITE, by_tenant=True)
@response_model(RunChangeReceipt)
def patch(run: Own, body: RunChange, context: ContextDep) -> Response:
    """End a run, once; or report that it still runs; or record the verdict of a gate."""
    if body.status == "RUNNING":
        if run.status != "RUNNING":
            raise Conflict(f"the run is {run.status}, and does not begin again")
        context.store.runs.touch(run, now_us=context.now_ns() // 1000)
    elif body.status is not None:
        run = context.store.runs.end(run, body.status, reason=body.reason, now_us=context.now_ns() // 1000)
        context.run_evaluator.wake()
    if body.verdict is not None:
        run = context.store.runs.set_verdict(run, body.verdict)
    return json_response(RunChangeReceipt(status="updated", run_status=run.status, verdict=run.verdict))


@router.post(_RUN + "/pin")
@needs(Permission.WRITE, by_tenant=True)
@response_model(PinnedRun)
def pin(run: Own, context: ContextDep) -> Response:
    """Keep a run beyond its expiry."""
    return _pinned(context, run, keep=True)


@router.delete(_RUN + "/pin")
@needs(Permission.WRITE, by_tenant=True)
@response_model(PinnedRun)
def unpin(run: Own, context: ContextDep) -> Response:
    """Unpin a run."""
    return _pinned(context, run, keep=False)


@router.delete(_RUN, status_code=HTTPStatus.NO_CONTENT)
@needs(Permission.WRITE, by_tenant=True)
def delete(run: Own, context: ContextDep) -> Response:
    """Delete a run with its items and scores."""
    context.store.runs.delete(run.run_id)
    return Response(status_code=HTTPStatus.NO_CONTENT)


def _pinned(context: Context, run: Run, *, keep: bool) -> Response:
    return json_response(PinnedRun.of(context.store.runs.pin(run, keep=keep, now_us=context.now_ns() // 1000)))


def _experiment(context: Context, caller: Caller, experiment_id: str) -> Experiment:
    experiments = context.store.runs.experiments(caller.visible_tenant, experiment_id=experiment_id)
    if not experiments:
        raise NotFound(f"there is no experiment {experiment_id} here")
    return experiments[0]
