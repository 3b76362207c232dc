"""The quality pages: the results of rules over time and by release, and the results behind each number."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Final

from fastapi import Query, Request
from fastapi.responses import RedirectResponse, Response
from markupsafe import Markup

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.access.tenants import tenant_of
from collector.api.base.context import Context
from collector.api.base.routing import CallerDep, ContextDep
from collector.api.documents.monitor_documents import monitor_document
from collector.api.responses.alerting import StreamDocument
from collector.api.review.annotations import VERDICT
from collector.api.review.judge_accuracy import (
    SOURCES,
    JudgeAgainstPeople,
    against_people,
    difference_for_people,
    judge_against_people,
    judges_against_people,
)
from collector.escaping import one_line
from collector.web.charts.histogram import histogram
from collector.web.charts.small import evidence_bar, sparkline, whisker
from collector.web.charts.trend import trend
from collector.web.quality import quality_numbers as numbers
from collector.web.quality.quality_chosen import About, Chosen, cells_of, chosen_of, period_of
from collector.web.quality.quality_comparison import (
    SCORES_OF_EACH,
    IncomparableReleases,
    ReleaseComparison,
    common_evaluator,
    compare,
    of_common_service,
)
from collector.web.quality.quality_numbers import BINS, PERIODS, Measure
from collector.web.questions import questions_of
from collector.web.rendering import in_snapshot, page
from collector.web.visitor import page_router
from rules.statistics.surviving import CorrectedDifference
from storage.alerting.alerts import Alert, AlertFilter
from storage.alerting.monitors import RuleKey
from storage.alerting.quality import Cell, OneResult, ResultCriteria, ScoresOf
from storage.review.labels import JudgedByRule, JudgedCount

router = page_router()

_MOST_ALERTS: Final = 200
_MOST_STREAMS: Final = 200
_MOST_PROJECTS: Final = 500
_MOST_TENANTS: Final = 1_000
_WORST: Final = 5
_MOST_CORRECTED: Final = 30
"""Maximum number of rates per page that are corrected by votes; each takes two SQL statements. A guess."""


class One(About):
    """Query parameters: the rule, and the evaluator by its fingerprint."""

    fingerprint: str = ""


class Pair(One):
    """Query parameters of a comparison. By default, the latest evaluator that judged both releases is compared.

    Without `service`, it is the latest service with both releases; "" selects spans without a service.
    """

    service: str | None = None
    baseline: str = ""
    candidate: str = ""


@router.get("/quality")
@needs(Permission.READ, by_tenant=True)
@in_snapshot
def show_quality(
    request: Request,
    context: ContextDep,
    caller: CallerDep,
    query: Annotated[One, Query()],
) -> Response:
    """Show all rules with their results, or one rule in one project."""
    if not query.rule:
        return _overview(request, context, caller, query)
    chosen = chosen_of(context, caller, query)
    cells = cells_of(context, chosen)
    every = numbers.evaluators_of(cells)
    evaluators = [each for each in every if not numbers.is_of_people(each.fingerprint)]
    questions = [each for each in every if numbers.is_of_people(each.fingerprint)]
    shown = query.fingerprint or next((each.fingerprint for each in (*evaluators, *questions)), None)
    own = [cell for cell in cells if cell.fingerprint == shown]
    of_people = numbers.is_of_people(shown)
    releases, own_sum = numbers.releases_of(own, shown), numbers.sum_of(own)
    cells = own if of_people else [cell for cell in cells if not numbers.is_of_people(cell.fingerprint)]
    return page(
        request,
        "quality_rule.html",
        chosen=chosen,
        sum=numbers.sum_of(cells),
        own=own_sum,
        evaluators=[] if of_people else evaluators,
        questions=questions,
        question=numbers.short_print(shown) if of_people else None,
        fingerprint=shown,
        short_print=numbers.short_print,
        periods=PERIODS,
        trends=_trends(chosen, cells),
        scores=_histogram(chosen, own, shown),
        releases=releases[: numbers.MOST_RELEASES],
        has_services=len({each.service for each in releases}) > 1,
        latest_two=numbers.latest_two(releases),
        monitors=_monitors(context, chosen, shown),
        alerts=_open_alerts(context, chosen.key),
        people=_people(context, chosen, shown, own_sum),
        whisker=whisker,
        evidence_bar=evidence_bar,
    )


@router.get("/quality/compare")
@needs(Permission.READ, by_tenant=True)
@in_snapshot
def compare_releases(
    request: Request, context: ContextDep, caller: CallerDep, query: Annotated[Pair, Query()]
) -> Response:
    """Compare two releases by a rule, if one evaluator judged both."""
    if not query.rule:
        return RedirectResponse("/quality", 303)
    chosen = chosen_of(context, caller, query)
    cells = cells_of(context, chosen)
    scored = [cell for cell in cells if cell.release is not None and cell.scored]
    services = sorted({cell.service or "" for cell in scored})
    names = sorted({cell.release or "" for cell in scored if query.service in {None, cell.service or ""}})
    comparison: ReleaseComparison | None = None
    corrected: CorrectedDifference | None = None
    why = ""
    if query.baseline and query.candidate:
        try:
            comparison = _compared(context, chosen, cells, query)
            corrected = _for_people(context, chosen, comparison)
        except IncomparableReleases as error:
            why = str(error)
    sides = (query.baseline, query.candidate)
    worst = {each: _worst(context, chosen, each, comparison) for each in sides} if comparison else {}
    shown = [each.trace_id for results in worst.values() for each in results]
    return page(
        request,
        "quality_compare.html",
        status=409 if why else 200,
        chosen=chosen,
        names=names,
        services=services,
        service=query.service if comparison is None else comparison.service,
        baseline=query.baseline,
        candidate=query.candidate,
        comparison=comparison,
        corrected=corrected,
        why=why,
        worst=worst,
        questions=questions_of(context, shown, chosen.key.tenant),
        periods=PERIODS,
        short_print=numbers.short_print,
        scores_of_each=SCORES_OF_EACH,
        whisker=whisker,
    )


def _overview(request: Request, context: Context, caller: Caller, query: One) -> Response:
    tenant, project, days = tenant_of(caller, query.tenant), query.project or None, query.days
    now_us, period = context.now_ns() // 1_000, period_of(days)
    from_us = numbers.begin_us(now_us, days, "day")
    steps = numbers.steps_between(from_us, now_us, "day")
    streams = numbers.streams_of(
        context.store.quality.streams(from_us=from_us, tenant=tenant, judged=query.basis.judged), steps
    )
    alerts: dict[tuple[str | None, str | None, str | None], list[Alert]] = {}
    for alert in _unsettled(context, tenant):
        alerts.setdefault(_stream_of(alert), []).append(alert)
    shown = [each for each in streams if project is None or each.project == project]
    return page(
        request,
        "quality.html",
        streams=shown[:_MOST_STREAMS],
        more=max(len(shown) - _MOST_STREAMS, 0),
        lines=[sparkline(each.days, label="By day", least=0.0, most=1.0) for each in shown[:_MOST_STREAMS]],
        alerts=alerts,
        corrected=_corrected(context, tenant, shown[:_MOST_STREAMS], from_us),
        projects=_projects(streams, project),
        project=project or "",
        tenants=_tenants(context, caller, tenant),
        tenant=tenant if caller.sees_all else "",
        periods=PERIODS,
        days=days,
        time=query.time,
        period=period.label,
        has_rules=any(each.stored.tenant in {tenant, ""} for each in context.rules.kept()),
    )


def _projects(streams: Sequence[numbers.ResultSeries], chosen: str | None) -> list[str]:
    known = sorted({each.project for each in streams if each.project is not None})
    return sorted({*known[:_MOST_PROJECTS], *([chosen] if chosen else [])})


def _people(
    context: Context, chosen: Chosen, fingerprint: str | None, own: numbers.ResultSum
) -> JudgeAgainstPeople | None:
    """Return how people rate the results of one evaluator; None if it neither passes nor fails any."""
    if fingerprint is None or numbers.is_of_people(fingerprint) or not own.passed + own.not_passed:
        return None
    judged = JudgedByRule(
        tenant=chosen.key.tenant,
        rule_id=chosen.key.rule_id,
        project=chosen.key.project,
        from_us=chosen.from_us,
        name=VERDICT,
        sources=SOURCES["people"],
    )
    judge = JudgedCount(fingerprint=fingerprint, name=chosen.rule, passed=own.passed, failed=own.not_passed)
    return against_people(context, judged, judge)


def _tenants(context: Context, caller: Caller, chosen: str) -> list[str]:
    if not caller.sees_all:
        return []
    return sorted({*context.store.quality.tenants(limit=_MOST_TENANTS), chosen} - {""})


def _trends(chosen: Chosen, cells: Sequence[Cell]) -> list[tuple[str, Markup]]:
    """Draw the pass rate, and the mean score unless all scores are 0 or 1."""
    if not any(cell.scored for cell in cells):
        return []
    steps = numbers.steps_between(min(cell.at_us for cell in cells), chosen.now_us, chosen.step)
    own = numbers.sum_of(cells)
    titles: dict[Measure, str] = {"passed": "Pass rate", "score": "Mean score"}
    drawn = []
    for measure, what in titles.items():
        if own.rate(measure) is None or (measure == "score" and own.is_pass_or_fail):
            continue
        points = numbers.points_of(
            cells,
            steps,
            chosen.step,
            measure,
            lambda from_us, to_us, each: chosen.results(
                from_us=from_us, to_us=to_us, fingerprint=each, verdict="scored"
            ),
        )
        label = f"{what} of {one_line(chosen.rule)} by {chosen.step}"
        drawn.append((what, trend(points, scale=numbers.scale_of(points, measure), label=label, what=what)))
    return drawn


def _histogram(chosen: Chosen, cells: Sequence[Cell], fingerprint: str | None) -> Markup | None:
    counts = numbers.bins_of(cells)
    if not any(counts):
        return None
    thresholds = {cell.threshold for cell in cells if cell.threshold is not None}
    edges = [number / BINS for number in range(BINS)]
    hrefs = [
        chosen.results(fingerprint=fingerprint, low=edge, high=edge + 1 / BINS if number < BINS - 1 else None)
        for number, edge in enumerate(edges)
    ]
    return histogram(
        counts,
        low=0,
        high=1,
        threshold=thresholds.pop() if len(thresholds) == 1 else None,
        label=f"Scores of {one_line(chosen.rule)}",
        hrefs=hrefs,
    )


def _monitors(context: Context, chosen: Chosen, fingerprint: str | None) -> list[StreamDocument]:
    """Return the state of the monitors of each service."""
    rows = context.store.monitors.page(
        project=chosen.key.project, rule=chosen.key.rule_id, tenant=chosen.key.tenant, limit=_MOST_STREAMS
    )
    own = [row for row in rows if row.key.rule == chosen.key and row.fingerprint == fingerprint]
    return [monitor_document(row, context.rules.revision) for row in own]


def _unsettled(context: Context, tenant: str) -> list[Alert]:
    """Return the open and acknowledged alerts about a tenant's spans."""
    return [
        alert
        for state in ("acknowledged", "open")
        for alert in context.store.alerts.newest(AlertFilter(state=state), tenant=tenant, limit=_MOST_ALERTS)
        if alert.finding.tenant == tenant
    ]


def _stream_of(alert: Alert) -> tuple[str | None, str | None, str | None]:
    fingerprint = alert.finding.fingerprint
    question = numbers.short_print(fingerprint) if numbers.is_of_people(fingerprint) else None
    return alert.finding.project, alert.finding.rule_id, question


def _open_alerts(context: Context, key: RuleKey) -> list[Alert]:
    return [
        each
        for each in _unsettled(context, key.tenant)
        if (each.finding.project, each.finding.rule_id) == (key.project, key.rule_id)
    ]


def _compared(context: Context, chosen: Chosen, cells: Sequence[Cell], query: Pair) -> ReleaseComparison:
    names = (query.baseline, query.candidate)
    service, own = of_common_service(cells, names, query.service)
    shared = common_evaluator(own, *names, query.fingerprint or None)
    of = ScoresOf(fingerprint=shared, service=service, releases=names)
    return compare(
        own,
        of,
        lambda: context.store.quality.scores(
            chosen.key, of, from_us=chosen.from_us, each=SCORES_OF_EACH, basis=chosen.basis
        ),
        lower_is_better=chosen.lower_is_better,
    )


def _for_people(context: Context, chosen: Chosen, comparison: ReleaseComparison) -> CorrectedDifference | None:
    """Return the difference of the pass rates, corrected by the judge's errors."""
    judge = judge_against_people(
        context,
        tenant=chosen.key.tenant,
        rule_id=chosen.key.rule_id,
        project=chosen.key.project,
        fingerprint=comparison.fingerprint,
    )
    if judge is None:
        return None
    sides = (
        judge.of_release(comparison.service, each.release, passed=each.sum.passed, failed=each.sum.not_passed)
        for each in (comparison.baseline, comparison.candidate)
    )
    return difference_for_people(judge, *sides)


def _corrected(
    context: Context, tenant: str, streams: Sequence[numbers.ResultSeries], from_us: int
) -> list[JudgeAgainstPeople | None]:
    voted = context.store.labels.voted_rules(tenant, VERDICT, SOURCES["people"]) if streams else set()
    looked_up = [each for each in streams if (each.rule_id, each.project) in voted][:_MOST_CORRECTED]
    return [_judge_of(context, tenant, each, from_us) if each in looked_up else None for each in streams]


def _judge_of(context: Context, tenant: str, of: numbers.ResultSeries, from_us: int) -> JudgeAgainstPeople | None:
    judged = JudgedByRule(
        tenant=tenant,
        rule_id=of.rule_id,
        project=of.project,
        from_us=from_us,
        name=VERDICT,
        sources=SOURCES["people"],
    )
    judges = judges_against_people(context, judged)
    return next((each for each in judges if each.judge.fingerprint == of.fingerprint), None)


def _worst(context: Context, chosen: Chosen, release: str, of: ReleaseComparison) -> list[OneResult]:
    like = ResultCriteria(
        from_us=chosen.from_us,
        service=of.service,
        release=release,
        fingerprint=of.fingerprint,
        outcome="scored",
        **asdict(chosen.basis),
    )
    return context.store.quality.results(chosen.key, like, worst=chosen.worst, limit=_WORST)
