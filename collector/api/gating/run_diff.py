"""Two runs item by item over HTTP."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Final, Literal

from fastapi import Query
from fastapi.responses import Response
from msgspec import convert
from pydantic import BaseModel, Field

from collector.access.permission import Permission, needs
from collector.api.base.context import Context
from collector.api.base.json_encoding import json_response
from collector.api.base.pages import MAX_PAGE
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.gating.run_gate import compared_runs, run_of_experiment
from collector.api.responses.base import JsonObject
from collector.api.responses.declaration import response_model
from collector.api.responses.gating import GateRepeat
from collector.api.responses.wire import From, PageAnswer, WireDocument, computed, doc
from collector.experiments.comparing import Baseline, ComparedRuns, baseline_of
from collector.experiments.side_by_side import DIFF_FILTERS, DiffCase, DiffSide, cases_of
from collector.gating.gate import repeats_document
from rules.statistics.runs.options import Options
from storage.errors import NotFound
from storage.offline.runs import Run


def _of_item(name: str, case: DiffCase) -> JsonObject:
    side = case.candidate or case.baseline
    return {} if side is None else json.loads(side.row[name])


class DiffSummary(WireDocument):
    """Changes in total. Pass rates count the items that have an outcome in both runs."""

    pairing: Literal["positional", "dataset_item_id"]
    baseline_pass_rate: float | None
    candidate_pass_rate: float | None
    pass_rate_delta: float | None
    significant: Annotated[
        bool, doc("True if the pass rate changed significantly, corrected for the number of evaluators.")
    ]
    improved_count: int
    regressed_count: int
    unchanged_count: int
    unscored_count: Annotated[int, doc("Items of both runs that no evaluator scored in both.")]
    added_count: int
    removed_count: int
    flipped_to_fail_count: int
    flipped_to_pass_count: int
    repeats: Annotated[list[GateRepeat], doc("Empty where one of the runs has one trial of each item.")]
    warnings: list[str]


class DiffScore(WireDocument):
    """One evaluator's mean scores of an item. `status` is UNSCORED if one of the runs has no score."""

    name: str
    baseline_mean: float | None
    candidate_mean: float | None
    delta: float | None
    status: Annotated[Literal["REGRESSED", "IMPROVED", "UNCHANGED", "UNSCORED"], From("movement")]
    significant: Annotated[
        bool, doc("True if this evaluator's scores differ significantly between the runs, over all items.")
    ]


class DiffSideDocument(WireDocument):
    """An item in one of the runs: its most informative trial, and mean cost and latency over the trials."""

    item_id: Annotated[str, From("item_number", str)]
    trial: int
    trials: int
    outcome: Literal["passed", "not_passed", "error", "not_evaluated", "unjudged"]
    actual_output: Annotated[JsonObject, From("actual_outputs", json.loads)]
    error: str | None
    cost_usd: float | None
    latency_ms: float | None


class DiffCaseDocument(WireDocument):
    """An item in both runs. A side is null where that run does not have it."""

    key: str
    status: Annotated[Literal["REGRESSED", "IMPROVED", "UNCHANGED", "UNSCORED", "ADDED", "REMOVED"], From("movement")]
    pass_flip: Annotated[bool, computed(lambda case: case.flip is not None)]
    flip: Literal["to_fail", "to_pass"] | None
    input: Annotated[JsonObject, computed(partial(_of_item, "inputs"))]
    expected_output: Annotated[JsonObject, computed(partial(_of_item, "expected_outputs"))]
    evaluators: list[DiffScore]
    baseline: DiffSideDocument | None
    candidate: DiffSideDocument | None


class DiffCases(PageAnswer):
    """A page of items in both runs: flips first, then the largest losses, then the largest gains."""

    content: list[DiffCaseDocument]


class RunDiffDocument(WireDocument):
    """Differences of a run from a baseline."""

    candidate_run_id: str
    baseline_run_id: str
    summary: DiffSummary
    cases: DiffCases


router = api_router(prefix="/api/v1/experiments/{experiment_id}")

_ALPHA: Final = 0.05


class DiffQuery(BaseModel):
    """Baseline of a comparison, and filter and page of its items."""

    baselineRunId: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    status: Literal["ALL", "CHANGED", "REGRESSED", "IMPROVED", "UNCHANGED", "UNSCORED", "ADDED", "REMOVED"] = "ALL"
    page: Annotated[int, Field(ge=0, le=MAX_PAGE)] = 0
    size: Annotated[int, Field(ge=1, le=200)] = 50


@router.get("/runs/{candidate_id}/diff")
@needs(Permission.READ, by_tenant=True)
@response_model(RunDiffDocument)
def diff(
    experiment_id: str, candidate_id: str, context: ContextDep, caller: CallerDep, query: Annotated[DiffQuery, Query()]
) -> Response:
    """Compare each item of a run with a baseline; 409 if a run has not finished, or the two cannot be compared.

    Without a named baseline, the one that the gate would choose is taken.
    """
    candidate = run_of_experiment(experiment_id, candidate_id, context, caller)
    before = baseline_for(candidate, query.baselineRunId, context, caller)
    if before is None:
        raise NotFound("no successful run that began before it has the same data and branch: name a baseline")
    compared = compared_runs(candidate, before.run, Options(), context)
    significant = {each.name: each.adjusted_p_value < _ALPHA for each in compared.comparison.differences}
    first = query.page * query.size
    listed = compared.table.listed(DIFF_FILTERS[query.status])[first : first + query.size + 1]
    cases = [_case(each, significant) for each in cases_of(compared, listed, context.store.run_items)]
    return json_response(
        RunDiffDocument(
            candidate_run_id=candidate.run_id,
            baseline_run_id=before.run.run_id,
            summary=_summary(compared, before.warnings),
            cases=DiffCases.page(cases, query.page, query.size),
        )
    )


def baseline_for(candidate: Run, named: str | None, context: Context, caller: CallerDep) -> Baseline | None:
    """Return the named run as the baseline, else the one that the gate would choose, or None."""
    if named:
        return Baseline(run_of_experiment(candidate.experiment_id, named, context, caller))
    return baseline_of(candidate, context.store.runs)


def _summary(compared: ComparedRuns, about_baseline: Sequence[str]) -> DiffSummary:
    table, rate = compared.table, compared.comparison.rate
    rates = table.pass_rates or (None, None)
    delta = None if table.pass_rates is None else table.pass_rates[1] - table.pass_rates[0]
    return DiffSummary(
        pairing=compared.candidate.results.pairing,
        baseline_pass_rate=_rounded(rates[0]),
        candidate_pass_rate=_rounded(rates[1]),
        pass_rate_delta=_rounded(delta),
        significant=rate is not None and rate.adjusted_p_value < _ALPHA,
        flipped_to_fail_count=int((table.flips < 0).sum()),
        flipped_to_pass_count=int((table.flips > 0).sum()),
        repeats=convert(repeats_document(compared.comparison.repeats), list[GateRepeat]),
        warnings=[*compared.comparison.warnings, *about_baseline],
        **{f"{name.lower()}_count": count for name, count in table.counts.items()},
    )


def _case(case: DiffCase, significant: Mapping[str, bool]) -> DiffCaseDocument:
    scores = [DiffScore.of(each, significant=significant.get(each.name, False)) for each in case.scores]
    return DiffCaseDocument.of(case, evaluators=scores, baseline=_side(case.baseline), candidate=_side(case.candidate))


def _side(side: DiffSide | None) -> DiffSideDocument | None:
    return None if side is None else DiffSideDocument.of(side, side.row)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
