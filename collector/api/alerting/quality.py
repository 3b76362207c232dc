"""Pass rates of a rule over HTTP."""

from typing import Annotated, Final, Literal

from fastapi import Query
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.access.tenants import tenant_of
from collector.api.base.context import Context
from collector.api.base.json_encoding import json_response
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.responses.alerting import QualityDocument, QualityLineDocument
from collector.api.responses.annotating import MeasuredDocument
from collector.api.responses.declaration import response_model
from collector.api.review.annotations import VERDICT
from collector.api.review.judge_accuracy import SOURCES, judges_against_people
from rules.statistics.formulas.judge_error import JudgeAccuracy
from rules.statistics.formulas.rates import wilson
from rules.statistics.surviving import corrected_rate, known_judge
from storage.alerting.quality import GroupOfResults, OfRule
from storage.rates import pass_rate
from storage.records import Grouping
from storage.review.labels import JudgedByRule

router = api_router(prefix="/api/v1/quality")

_DAY_NS: Final = 86_400_000_000_000
_MOST_LINES: Final = 500


class QualityQuery(BaseModel):
    """Selection and grouping of results. `rule` is an id or a name."""

    model_config = ConfigDict(extra="forbid")

    rule: str = Field(min_length=1, max_length=500)
    project: str | None = None
    days: int = Field(default=30, ge=1, le=3650)
    by: Grouping = "day"
    time: Literal["trace", "judged"] = "trace"  # whether to group by the time of the judged trace or of its judgement


@router.get("")
@needs(Permission.READ, by_tenant=True)
@response_model(QualityDocument)
def show_quality(context: ContextDep, caller: CallerDep, query: Annotated[QualityQuery, Query()]) -> Response:
    """Count the passed results of a rule by day, release or project, and by evaluator; the latest 500 rows."""
    of = OfRule(
        rule=query.rule,
        from_us=(context.now_ns() - (query.days - 1) * _DAY_NS) // 1000,
        project=query.project,
        tenant=caller.visible_tenant,
        judged=query.time == "judged",
    )
    groups = context.store.quality.groups(of, by=query.by, limit=_MOST_LINES + 1)
    judges = _judges(context, caller, query)
    lines = [_line(each, judges.get(each.fingerprint)) for each in groups[:_MOST_LINES]]
    return json_response(QualityDocument.of(query, lines=lines, truncated=len(groups) > _MOST_LINES))


def _judges(context: Context, caller: Caller, query: QualityQuery) -> dict[str | None, JudgeAccuracy]:
    """Return the error rates of each judge, by fingerprint; empty unless the query selects exactly one rule."""
    kept = [each.stored for each in context.rules.kept() if query.rule in {each.stored.rule_id, each.stored.name}]
    seen = [each for each in kept if caller.sees(each.tenant)]
    if len(seen) != 1:
        return {}
    selection = JudgedByRule(
        tenant=tenant_of(caller, None),
        rule_id=seen[0].rule_id,
        project=query.project,
        from_us=None,
        name=VERDICT,
        sources=SOURCES["people"],
    )
    known = {
        each.judge.fingerprint: known_judge(each.calibration) for each in judges_against_people(context, selection)
    }
    return {fingerprint: judge for fingerprint, judge in known.items() if judge is not None}


def _line(group: GroupOfResults, judge: JudgeAccuracy | None) -> QualityLineDocument:
    count = group.passed + group.not_passed
    bounds = wilson(group.passed, count)
    return QualityLineDocument.of(
        group,
        results=count,
        rate=pass_rate(group.passed, group.not_passed),
        low=bounds.low,
        high=bounds.high,
        corrected=MeasuredDocument.of(corrected_rate(group.passed, count, judge)) if judge and count else None,
    )
