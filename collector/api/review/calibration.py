"""Calibration of a rule's judges against people, over HTTP."""

from typing import Annotated, Final, Literal

from fastapi import Query
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from collector.access.permission import Permission, needs
from collector.api.access.keys import TENANT_PATTERN
from collector.api.access.tenants import tenant_of
from collector.api.base.json_encoding import json_response
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.responses.annotating import (
    CalibrationDocument,
    CalibrationMonth,
    DisagreementDocument,
    JudgeCalibration,
    MeasuredDocument,
)
from collector.api.responses.declaration import response_model
from collector.api.review.annotations import VERDICT
from collector.api.review.judge_accuracy import SOURCES, JudgeAgainstPeople, judges_against_people
from collector.api.rules.rules import about_of, find
from rules.statistics.correcting import Confusion
from rules.statistics.formulas.agreement import kappa
from storage.review.labels import JudgedByRule, LabelledResult

router = api_router(prefix="/api/v1")

_DAY_US: Final = 86_400_000_000
_MOST_SHOWN: Final = 50


class CalibrationQuery(BaseModel):
    """Selection of the results and votes that a judge is calibrated with."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(
        default=VERDICT, min_length=1, max_length=200, description="The name of the question that the votes answer."
    )
    source: Literal["people", "user", "application"] = "people"
    days: int | None = Field(default=None, ge=1, le=3_650, description="Only results of so many days.")
    tenant: str | None = Field(default=None, pattern=TENANT_PATTERN, description="The tenant of the results.")


@router.get("/projects/{project:name}/trace-eval-rules/{rule_id}/calibration")
@needs(Permission.READ, by_tenant=True)
@response_model(CalibrationDocument)
def show_calibration(
    project: str, rule_id: str, context: ContextDep, caller: CallerDep, query: Annotated[CalibrationQuery, Query()]
) -> Response:
    """Measure each judge of a rule against people, and correct its pass rate."""
    kept = find(context, caller, project, rule_id)
    selection = JudgedByRule(
        tenant=tenant_of(caller, query.tenant),
        rule_id=kept.stored.rule_id,
        project=about_of(context, caller, project),
        from_us=None if query.days is None else context.now_ns() // 1000 - query.days * _DAY_US,
        name=query.name,
        sources=SOURCES[query.source],
    )
    return json_response(
        CalibrationDocument(
            rule_id=selection.rule_id,
            tenant=selection.tenant,
            name=query.name,
            source=query.source,
            judges=[_judge_document(each) for each in judges_against_people(context, selection)],
        )
    )


def _judge_document(measured: JudgeAgainstPeople) -> JudgeCalibration:
    calibration, table = measured.calibration, measured.calibration.confusion
    return JudgeCalibration.of(
        calibration,
        fingerprint=measured.judge.fingerprint,
        name=measured.judge.name,
        judged=measured.judge.passed + measured.judge.failed,
        labelled=table.labels,
        undecided=sum(each.label is None for each in measured.results),
        left_out=measured.left_out,
        alpha_of_people=MeasuredDocument.of(measured.people),
        in_words=measured.in_words,
        months=[_month(month, table) for month, table in measured.months],
        disagreements=[_disagreement(each) for each in measured.disagreements[:_MOST_SHOWN]],
    )


def _month(month: str, table: Confusion) -> CalibrationMonth:
    agreed = table.passed_passed + table.failed_failed
    return CalibrationMonth(
        month=month,
        labelled=table.labels,
        agreement=agreed / table.labels if table.labels else None,
        kappa=kappa(table.table) if table.labels else None,
    )


def _disagreement(result: LabelledResult) -> DisagreementDocument:
    return DisagreementDocument.of(result, judge_passed=result.judged, people_passed=result.label)
