"""The judges of a rule against people, over HTTP."""

from typing import Annotated, Final, Literal

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from collector.access.permission import Permission, needs
from collector.api.access.keys import TENANT_PATTERN
from collector.api.access.tenants import tenant_of
from collector.api.answers.annotating import CalibrationDocument
from collector.api.answers.declared import answers
from collector.api.base.routing import Here, Who, api_router
from collector.api.review.annotations import VERDICT
from collector.api.review.judged_by_people import SOURCES, JudgeAgainstPeople, judges_against_people, measured_document
from collector.api.rules.rules import about_of, find
from rules.statistics.correcting import Confusion
from rules.statistics.formulas.agreement import kappa
from storage.review.labels import JudgedByRule, LabelledResult

router = api_router(prefix="/api/v1")

_DAY_US: Final = 86_400_000_000
_MOST_SHOWN: Final = 50


class CalibrationQuery(BaseModel):
    """What a judge is held against."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(default=VERDICT, min_length=1, max_length=200, description="The question that the votes answer.")
    source: Literal["people", "user", "application"] = "people"
    days: int | None = Field(default=None, ge=1, le=3_650, description="Only results of so many days.")
    tenant: str | None = Field(default=None, pattern=TENANT_PATTERN, description="Whose results, for who sees all.")


@router.get("/projects/{project:name}/trace-eval-rules/{rule_id}/calibration")
@needs(Permission.READ, by_tenant=True)
@answers(CalibrationDocument)
def show_calibration(
    project: str, rule_id: str, here: Here, who: Who, asked: Annotated[CalibrationQuery, Query()]
) -> dict[str, object]:
    """How far each judge of a rule can be trusted, and the pass rate that people would find."""
    kept = find(here, who, project, rule_id)
    wanted = JudgedByRule(
        tenant=tenant_of(who, asked.tenant),
        rule_id=kept.stored.rule_id,
        project=about_of(here, who, project),
        from_us=None if asked.days is None else here.now_ns() // 1000 - asked.days * _DAY_US,
        name=asked.name,
        sources=SOURCES[asked.source],
    )
    return {
        "ruleId": wanted.rule_id,
        "tenant": wanted.tenant,
        "name": asked.name,
        "source": asked.source,
        "judges": [_judge_document(each) for each in judges_against_people(here, wanted)],
    }


def _judge_document(found: JudgeAgainstPeople) -> dict[str, object]:
    said, table = found.calibration, found.calibration.confusion
    return {
        "fingerprint": found.judge.fingerprint,
        "name": found.judge.name,
        "judged": found.judge.passed + found.judge.failed,
        "labelled": table.labels,
        "undecided": sum(each.label is None for each in found.results),
        "leftOut": found.left_out,
        "confusion": {
            "passedPassed": table.passed_passed,
            "passedFailed": table.passed_failed,
            "failedPassed": table.failed_passed,
            "failedFailed": table.failed_failed,
        },
        "raw": measured_document(said.raw),
        "agreement": measured_document(said.agreement),
        "kappa": measured_document(said.kappa),
        "ac1": said.ac1,
        "sensitivity": measured_document(said.sensitivity),
        "specificity": measured_document(said.specificity),
        "alphaOfPeople": measured_document(found.people),
        "standing": said.standing,
        "inWords": found.in_words,
        "method": said.method,
        "corrected": measured_document(said.corrected),
        "moreLabels": None if said.more is None else {"count": said.more.count, "of": said.more.of},
        "months": [_month(month, table) for month, table in found.months],
        "disagreements": [_disagreement(each) for each in found.disagreements[:_MOST_SHOWN]],
    }


def _month(month: str, table: Confusion) -> dict[str, object]:
    agreed = table.passed_passed + table.failed_failed
    return {
        "month": month,
        "labelled": table.labels,
        "agreement": agreed / table.labels if table.labels else None,
        "kappa": kappa(table.table) if table.labels else None,
    }


def _disagreement(result: LabelledResult) -> dict[str, object]:
    return {
        "traceId": result.trace_id,
        "spanId": result.span_id,
        "sessionId": result.session_id,
        "judgePassed": result.judged,
        "peoplePassed": result.label,
        "score": result.score,
        "reason": result.reason,
    }
