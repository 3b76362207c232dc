"""The gate over HTTP: whether a run is worse than another one of its experiment."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from collector.access.permission import Permission, needs
from collector.api.base.context import Context
from collector.api.base.json_encoding import json_response
from collector.api.base.numbers import Amount, Number
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.offline.runs import run_seen
from collector.api.responses.declaration import response_model
from collector.api.responses.gating import CorrectedEvaluator, GateVerdict
from collector.api.review.annotations import VERDICT
from collector.experiments.comparing import Baseline, ComparedRuns, RunComparer, baseline_of
from collector.gating.gate import Policy
from rules.statistics.calibration import calibrate
from rules.statistics.correcting import Confusion
from rules.statistics.runs.options import Options
from rules.statistics.surviving import CorrectedDifference, JudgedSide, corrected_difference
from storage.errors import NotFound
from storage.offline.runs import Run
from storage.review.labels import LabelledRun

router = api_router(prefix="/api/v1/experiments/{experiment_id}")

_Key = Annotated[str, Field(min_length=1, max_length=200)]


class GateQuestion(BaseModel):
    """Runs to compare, and thresholds of a difference. Without a named baseline, one is chosen."""

    model_config = ConfigDict(extra="forbid")

    candidateRunId: _Key
    baselineRunId: _Key | None = None
    baselineBranch: _Key | None = None
    margin: Annotated[Amount, Field(description="A loss that is smaller is tolerated.")] = 0.05
    alpha: Annotated[float, Field(gt=0, lt=1, description="The error level for all evaluators together.")] = 0.05
    severityMargin: Annotated[Amount, Field(description="The largest allowed loss of an item.")] | None = None
    floor: (
        Annotated[int, Field(ge=0, le=10_000, description="The number of trials of each item that must pass.")] | None
    ) = None
    margins: Annotated[dict[_Key, Amount], Field(max_length=100, description="The margins of single evaluators.")] = {}
    costMargin: Annotated[Amount, Field(description="0.1: it may cost 10 % more.")] | None = None
    latencyMargin: Annotated[Amount, Field(description="0.1: it may take 10 % longer.")] | None = None
    thresholds: Annotated[
        dict[_Key, Number],
        Field(max_length=100, description="Thresholds by evaluator, in place of those of the stored scores."),
    ] = {}
    evaluators: Annotated[list[_Key], Field(min_length=1, max_length=100)] | None = None
    slices: Annotated[list[_Key], Field(max_length=20, description="Keys of metadata.")] = []
    unscored: dict[Literal["failed", "skipped", "missing"], Literal["check", "worst", "exclude", "refuse"]] = {}
    failOnInconclusive: bool = False
    allowRemovedEvaluators: Annotated[bool, Field(description="An evaluator that the candidate lacks only warns.")] = (
        False
    )


@router.post("/gate")
@needs(Permission.READ, by_tenant=True)
@response_model(GateVerdict)
def gate(experiment_id: str, body: GateQuestion, context: ContextDep, caller: CallerDep) -> Response:
    """Decide whether a run is worse than a baseline; 409 if a run has not finished, or the two cannot be compared.

    Without a named baseline, it is the newest successful run of the experiment that began before the candidate and that
    no gate failed. It has the same version of the dataset, and the named branch or else that of the
    candidate. Of each evaluator it has at least half as many scores as the candidate; if no run has these, the run that
    lacks the fewest evaluators is taken.
    """
    candidate = run_of_experiment(experiment_id, body.candidateRunId, context, caller)
    named = None
    if body.baselineRunId is not None:
        named = run_of_experiment(experiment_id, body.baselineRunId, context, caller)
    return json_response(_verdict(candidate, named, body, context))


def compared_runs(candidate: Run, baseline: Run, options: "Options", context: Context) -> "ComparedRuns":
    """Compare two runs, or return their cached comparison. Comparisons run one at a time.

    Raises:
        Conflict: a run has not finished, or the two cannot be compared.
        Overloaded: other comparisons took too long.
    """
    comparer = _comparer_of(context)
    return comparer.compare(comparer.pair(candidate, baseline, options))


def _comparer_of(context: Context) -> "RunComparer":
    return RunComparer(context.store.run_items, context.kept_comparisons)


def run_of_experiment(experiment_id: str, run_id: str, context: Context, caller: CallerDep) -> Run:
    """Return a run that is named with its experiment.

    Raises:
        NotFound: the caller sees no such run, or the run belongs to another experiment.
    """
    run = run_seen(run_id, context, caller)
    if run.experiment_id != experiment_id:
        raise NotFound(f"the run {run_id} is not of the experiment {experiment_id}")
    return run


def _verdict(candidate: Run, named: Run | None, body: GateQuestion, context: Context) -> dict[str, Any]:
    before = Baseline(named) if named else baseline_of(candidate, context.store.runs, branch=body.baselineBranch)
    policy = Policy(
        options=_options(body),
        fail_on_inconclusive=body.failOnInconclusive,
        fail_on_removed_evaluator=not body.allowRemovedEvaluators,
    )
    if before is None:
        decision = _comparer_of(context).without_baseline(candidate, policy)
    else:
        decision = compared_runs(candidate, before.run, policy.options, context).decision(policy)
    corrected = [] if before is None else corrected_evaluators(context, before.run, candidate)
    document = dict(decision.document)
    about_baseline = () if before is None else before.warnings
    return {
        **document,
        "warnings": [*document["warnings"], *about_baseline, *correction_warnings(corrected, document)],
        "corrected": corrected,
        "candidateRunId": candidate.run_id,
        "baselineRunId": None if before is None else before.run.run_id,
    }


def _options(body: GateQuestion) -> Options:
    return Options(
        margin=body.margin,
        margins=dict(sorted(body.margins.items())),
        alpha=body.alpha,
        severity=body.severityMargin,
        floor=body.floor,
        cost_margin=body.costMargin,
        latency_margin=body.latencyMargin,
        evaluators=None if body.evaluators is None else tuple(sorted(set(body.evaluators))),
        thresholds=dict(sorted(body.thresholds.items())),
        slices=tuple(body.slices),
        unscored=dict(body.unscored.items()),
    )


def corrected_evaluators(context: Context, baseline: Run, candidate: Run) -> list[CorrectedEvaluator]:
    """Return the pass rates that people would find, for evaluators that judged both runs and whose items have votes.

    Votes count only for the evaluator whose results they judge, which its fingerprint identifies.
    """
    rows = context.store.labels.of_runs(
        candidate.tenant, VERDICT, candidate.experiment_id, runs=[baseline.run_id, candidate.run_id]
    )
    corrected = []
    for name, fingerprint in sorted({(each.name, each.fingerprint) for each in rows}):
        own = [each for each in rows if (each.name, each.fingerprint) == (name, fingerprint)]
        sides = [next((each for each in own if each.run_id == run.run_id), None) for run in (baseline, candidate)]
        difference = None if sides[0] is None or sides[1] is None else _difference(own, sides[0], sides[1])
        if difference is not None:
            corrected.append(CorrectedEvaluator.of(difference, evaluator=name, fingerprint=fingerprint))
    return corrected


def correction_warnings(corrected: Sequence[CorrectedEvaluator], document: dict[str, Any]) -> list[str]:
    """Return a warning for each regressed evaluator that is not significant after the correction."""
    worse = {each["evaluator"] for each in document["regressedEvaluators"]}
    return [f"{each.evaluator}: {each.in_words}" for each in corrected if each.evaluator in worse and not each.survives]


def _difference(rows: Sequence[LabelledRun], before: LabelledRun, after: LabelledRun) -> CorrectedDifference | None:
    """Correct a difference, with the labels of the compared runs or of all runs that this evaluator judged."""
    known = calibrate(
        Confusion(
            passed_passed=sum(each.passed_passed for each in rows),
            passed_failed=sum(each.passed_failed for each in rows),
            failed_passed=sum(each.failed_passed for each in rows),
            failed_failed=sum(each.failed_failed for each in rows),
        ),
        judged_passed=sum(each.passed for each in rows),
        judged_failed=sum(each.failed for each in rows),
    )
    return corrected_difference(_side(before), _side(after), known)


def _side(row: LabelledRun) -> JudgedSide:
    labels = Confusion(
        passed_passed=row.passed_passed,
        passed_failed=row.passed_failed,
        failed_passed=row.failed_passed,
        failed_failed=row.failed_failed,
    )
    return JudgedSide(passed=row.passed, failed=row.failed, labels=labels)
