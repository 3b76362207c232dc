"""How good the results of a rule were, over HTTP."""

from dataclasses import asdict
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from collector.access.permission import Permission, needs
from collector.api.answers.alerting import QualityDocument
from collector.api.answers.declared import answers
from collector.api.context import Here, Who
from rules.statistics.formulas.rates import wilson
from storage.quality import Grouping, GroupOfResults, OfRule

router = APIRouter(prefix="/api/v1/quality")

_DAY_NS: Final = 86_400_000_000_000
_MOST_LINES: Final = 500


class QualityQuery(BaseModel):
    """Which results are added up, and by what. `rule` is an id or a name."""

    model_config = ConfigDict(extra="forbid")

    rule: str = Field(min_length=1, max_length=500)
    project: str | None = None
    days: int = Field(default=30, ge=1, le=3650)
    by: Grouping = "day"


@router.get("")
@needs(Permission.READ, by_tenant=True)
@answers(QualityDocument)
def show_quality(here: Here, who: Who, wanted: Annotated[QualityQuery, Query()]) -> dict[str, object]:
    """How many results of a rule passed, by day, release or project and by evaluator; the latest 500 lines."""
    of = OfRule(
        rule=wanted.rule,
        from_us=(here.now_ns() - (wanted.days - 1) * _DAY_NS) // 1000,
        project=wanted.project,
        tenant=who.sight,
    )
    found = here.quality.groups(of, by=wanted.by, limit=_MOST_LINES + 1)
    return {
        "rule": wanted.rule,
        "by": wanted.by,
        "lines": [_line(each) for each in found[:_MOST_LINES]],
        "truncated": len(found) > _MOST_LINES,
    }


def _line(found: GroupOfResults) -> dict[str, object]:
    count = found.passed + found.not_passed
    bounds = wilson(found.passed, count)
    told = asdict(found)
    rate = found.passed / count if count else None
    return {
        "group": found.group,
        "fingerprint": found.fingerprint,
        "passed": found.passed,
        "results": count,
        "rate": rate,
        "low": bounds.low,
        "high": bounds.high,
        **{name: told[name] for name in ("scored", "failed", "skipped")},
        "meanScore": found.mean_score,
        "costUsd": found.cost_usd,
    }
