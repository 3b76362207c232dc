"""Experiments: how their runs went, over time and one by one."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import Query, Request
from fastapi.responses import Response
from markupsafe import Markup

from collector.access.permission import Permission, needs
from collector.api.base.context import Context
from collector.api.base.pages import MAX_PAGE
from collector.api.base.routing import CallerDep, ContextDep
from collector.path_names import path_segment
from collector.units import instant_text
from collector.web.charts.small import sparkline
from collector.web.charts.trend import Scale, TrendPoint, trend
from collector.web.quality.quality_numbers import short_print
from collector.web.rendering import page, see_other
from collector.web.visitor import page_router
from storage.errors import NotFound
from storage.offline.run_sums import Evaluated, RunSums
from storage.offline.runs import Experiment, Run

router = page_router()

_PAGE_ROWS: Final = 25
_TREND_RUNS: Final = 30
_SPARK_RUNS: Final = 10
_CHARTS: Final = 3  # of evaluators
_CONFIG: Final = 3  # entries of the metadata of a run in the list, such as its model
_COMPARED: Final = 2  # runs
_ENDED: Final = frozenset({"SUCCESS", "FAILED", "EVALUATING"})

EndedRun = tuple[Run, RunSums]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedExperiment:
    """An experiment with its latest run; `spark` draws the pass rates of its latest runs."""

    experiment: Experiment
    latest: Run | None
    sums: RunSums | None
    spark: Markup


@router.get("/experiments")
@needs(Permission.READ, by_tenant=True)
def list_experiments(
    request: Request,
    context: ContextDep,
    caller: CallerDep,
    project: Annotated[str, Query(max_length=200)] = "",
    number: Annotated[int, Query(alias="page", ge=0, le=MAX_PAGE)] = 0,
) -> Response:
    """List experiments by project and name, of every project or of one."""
    visible = sorted(
        context.store.runs.experiments(caller.visible_tenant), key=lambda each: (each.project, each.name, each.tenant)
    )
    chosen = [each for each in visible if project in {"", each.project}]
    begin = number * _PAGE_ROWS
    return page(
        request,
        "experiments.html",
        rows=_rows(context, chosen[begin : begin + _PAGE_ROWS]),
        projects=sorted({each.project for each in visible}),
        project=project,
        number=number,
        is_last=len(chosen) <= begin + _PAGE_ROWS,
    )


@router.get("/experiments/{experiment_id}")
@needs(Permission.READ, by_tenant=True)
def show_experiment(
    request: Request,
    experiment_id: str,
    context: ContextDep,
    caller: CallerDep,
    number: Annotated[int, Query(alias="page", ge=0, le=MAX_PAGE)] = 0,
    chosen: Annotated[Sequence[str], Query(alias="run", max_length=_PAGE_ROWS)] = (),
) -> Response:
    """Show an experiment: its pass rates over time, and its runs, newest first. Two chosen runs lead to their diff."""
    matches = context.store.runs.experiments(caller.visible_tenant, experiment_id=experiment_id)
    if not matches:
        raise NotFound(f"there is no experiment {experiment_id[:64]} here")
    if len(chosen) == _COMPARED:  # as they are listed: the newer one first
        return see_other(f"/runs/{path_segment(chosen[0])}/diff?{urlencode({'baseline': chosen[1]})}")
    listed = context.store.runs.of_experiment(experiment_id, skip=number * _PAGE_ROWS, most=_PAGE_ROWS + 1)
    latest = listed if number == 0 and len(listed) <= _PAGE_ROWS else None
    latest = context.store.runs.of_experiment(experiment_id, most=_TREND_RUNS) if latest is None else latest
    sums = context.store.runs.sums(list({run.run_id for run in (*listed[:_PAGE_ROWS], *latest)}))
    ended = [(run, sums[run.run_id]) for run in reversed(latest) if run.status in _ENDED and sums[run.run_id].items]
    return page(
        request,
        "experiment.html",
        experiment=matches[0],
        about=latest[0].description if latest else "",
        runs=[(run, sums[run.run_id]) for run in listed[:_PAGE_ROWS]],
        ended=ended,
        best=_best(ended),
        charts=_charts(ended) if len(ended) > 1 else (),
        config_of=lambda run: list(json.loads(run.metadata).items())[:_CONFIG],
        chosen=chosen,
        number=number,
        is_last=len(listed) <= _PAGE_ROWS,
    )


def _best(ended: Sequence[EndedRun]) -> EndedRun | None:
    rates = [(sums.pass_rate, at) for at, (_, sums) in enumerate(ended) if sums.pass_rate is not None]
    return ended[max(rates, key=lambda each: each[0])[1]] if rates else None


def _rows(context: Context, experiments: Sequence[Experiment]) -> list[ListedExperiment]:
    runs = {
        each.experiment_id: context.store.runs.of_experiment(each.experiment_id, most=_SPARK_RUNS)
        for each in experiments
    }
    sums = context.store.runs.sums([run.run_id for listed in runs.values() for run in listed])
    return [_listed(each, runs[each.experiment_id], sums) for each in experiments]


def _listed(experiment: Experiment, runs: Sequence[Run], sums: Mapping[str, RunSums]) -> ListedExperiment:
    latest = next(iter(runs), None)
    rates = [sums[run.run_id].pass_rate for run in reversed(runs) if run.status in _ENDED]
    label = f"Pass rates of the latest {len(rates)} runs"
    return ListedExperiment(
        experiment=experiment,
        latest=latest,
        sums=None if latest is None else sums[latest.run_id],
        spark=sparkline(rates, label=label, least=0.0, most=1.0) if len(rates) > 1 else Markup(),
    )


def _charts(ended: Sequence[EndedRun]) -> list[tuple[str, Markup]]:
    """Draw the pass rate, and the mean scores of the evaluators with the most runs, oldest run first."""
    label = "Pass rate of each run, oldest first"
    rates = [_point(run, run[1].pass_rate, run[1].judged) for run in ended]
    percents = [replace(each, value=None if each.value is None else 100 * each.value) for each in rates]
    charts = [("Pass rate", trend(percents, scale=Scale(high=100.0, unit=" %"), label=label, what="Pass rate"))]
    counts: dict[str, int] = {}
    for _, sums in ended:
        for each in sums.evaluators:
            counts[each.name] = counts.get(each.name, 0) + 1
    for name in sorted(counts, key=lambda each: (-counts[each], each))[:_CHARTS]:
        points = _scores(ended, name)
        known = [point.value for point in points if point.value is not None]
        if len(known) > 1:
            scale = Scale(low=min(0.0, *known), high=max(1.0, *known))
            charts.append((name, trend(points, scale=scale, label="Mean score of each run", what="Mean score")))
    return charts


def _scores(ended: Sequence[EndedRun], name: str) -> list[TrendPoint]:
    """Return an evaluator's mean score in each run that it evaluated; a new fingerprint interrupts the line.

    A run in which all evaluations failed is a gap; runs without the evaluator are left out.
    """
    points: list[TrendPoint] = []
    before: str | None = None
    for run in ended:
        sums = next((each for each in run[1].evaluators if each.name == name), None)
        if sums is None:
            continue
        identity = before if sums.failed and not sums.scored else _identity(sums)
        is_new = bool(points) and identity != before
        point = _point(run, sums.mean, sums.scored, begins=f"evaluator {short_print(identity)}" if is_new else None)
        points.append(point)
        before = identity
    return points


def _point(ended: EndedRun, value: float | None, count: int, *, begins: str | None = None) -> TrendPoint:
    run, _ = ended
    label = run.name or instant_text(run.started_at_ns, short=True)[:-3]
    return TrendPoint(label=label, value=value, count=count, href=f"/runs/{run.run_id}", begins=begins)


def _identity(evaluated: Evaluated) -> str | None:
    return evaluated.fingerprint or evaluated.version
