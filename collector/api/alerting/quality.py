"""How good the results of a rule were, over HTTP."""

from dataclasses import asdict
from typing import Annotated, Final, Literal

from fastapi import Query
from msgspec import to_builtins
from pydantic import BaseModel, ConfigDict, Field

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.access.tenants import tenant_of
from collector.api.answers.alerting import QualityDocument
from collector.api.answers.declared import answers
from collector.api.base.context import Context
from collector.api.base.routing import Here, Who, api_router
from collector.api.review.annotations import VERDICT
from collector.api.review.judged_by_people import SOURCES, judges_against_people, measured_document
from rules.statistics.formulas.judge_error import JudgeAccuracy
from rules.statistics.formulas.rates import wilson
from rules.statistics.surviving import corrected_rate, known_judge
from storage.alerting.quality import Grouping, GroupOfResults, OfRule
from storage.rates import pass_rate
from storage.review.labels import JudgedByRule

router = api_router(prefix="/api/v1/quality")

_DAY_NS: Final = 86_400_000_000_000
_MOST_LINES: Final = 500


class QualityQuery(BaseModel):
    """Which results are added up, and by what. `rule` is an id or a name."""

    model_config = ConfigDict(extra="forbid")

    rule: str = Field(min_length=1, max_length=500)
    project: str | None = None
    days: int = Field(default=30, ge=1, le=3650)
    by: Grouping = "day"
    time: Literal["trace", "judged"] = "trace"  # of what was judged, or of the judgement


@router.get("")
@needs(Permission.READ, by_tenant=True)
@answers(QualityDocument)
def show_quality(here: Here, who: Who, wanted: Annotated[QualityQuery, Query()]) -> dict[str, object]:
    """How many results of a rule passed, by day, release, or project, and by evaluator; the latest 500 lines."""
    of = OfRule(
        rule=wanted.rule,
        from_us=(here.now_ns() - (wanted.days - 1) * _DAY_NS) // 1000,
        project=wanted.project,
        tenant=who.visible_tenant,
        judged=wanted.time == "judged",
    )
    found = here.quality.groups(of, by=wanted.by, limit=_MOST_LINES + 1)
    judges = _judges(here, who, wanted)
    return {
        "rule": wanted.rule,
        "by": wanted.by,
        "time": wanted.time,
        "lines": [_line(each, judges.get(each.fingerprint)) for each in found[:_MOST_LINES]],
        "truncated": len(found) > _MOST_LINES,
    }


def _judges(here: Context, who: Caller, wanted: QualityQuery) -> dict[str | None, JudgeAccuracy]:
    """What is known of the errors of each judge of the rule, by its fingerprint; nothing where it is not one rule."""
    kept = [each.stored for each in here.rules.kept() if wanted.rule in {each.stored.rule_id, each.stored.name}]
    seen = [each for each in kept if who.sees(each.tenant)]
    if len(seen) != 1:
        return {}
    asked = JudgedByRule(
        tenant=tenant_of(who, None),
        rule_id=seen[0].rule_id,
        project=wanted.project,
        from_us=None,
        name=VERDICT,
        sources=SOURCES["people"],
    )
    found = {each.judge.fingerprint: known_judge(each.calibration) for each in judges_against_people(here, asked)}
    return {fingerprint: judge for fingerprint, judge in found.items() if judge is not None}


def _line(found: GroupOfResults, judge: JudgeAccuracy | None) -> dict[str, object]:
    count = found.passed + found.not_passed
    bounds = wilson(found.passed, count)
    told = asdict(found)
    return {
        "group": found.group,
        "serviceName": found.service,
        "fingerprint": found.fingerprint,
        "passed": found.passed,
        "results": count,
        "rate": pass_rate(found.passed, found.not_passed),
        "low": bounds.low,
        "high": bounds.high,
        **{name: told[name] for name in ("scored", "failed", "skipped")},
        "meanScore": found.mean_score,
        "costUsd": found.cost_usd,
        "unpricedCalls": found.unpriced_calls,
        "corrected": (
            to_builtins(measured_document(corrected_rate(found.passed, count, judge))) if judge and count else None
        ),
    }
