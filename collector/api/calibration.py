"""The judges of a rule against people, over HTTP."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from collector.access.permission import Permission, needs
from collector.api.annotations import VERDICT
from collector.api.answers.annotating import CalibrationDocument
from collector.api.answers.declared import answers
from collector.api.context import Context, Here, Who
from collector.api.keys import TENANT_PATTERN
from collector.api.rules import about_of, find
from collector.api.tenants import tenant_of
from rules.statistics.calibration import (
    Calibration,
    Confusion,
    Measured,
    alpha_of_people,
    calibrate,
    in_words,
)
from storage.annotations import Source
from storage.labels import JudgedByRule, JudgedCount, LabelledResult

router = APIRouter(prefix="/api/v1")

_DAY_US: Final = 86_400_000_000
_MOST_SHOWN: Final = 50

SOURCES: Final[Mapping[str, Sequence[Source]]] = {
    "people": ("person", "adjudicator"),
    "user": ("user",),
    "application": ("application",),
}
"""Whose votes are taken for the truth."""


class CalibrationQuery(BaseModel):
    """What a judge is held against."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(default=VERDICT, min_length=1, max_length=200, description="The question that the votes answer.")
    source: Literal["people", "user", "application"] = "people"
    days: int | None = Field(default=None, ge=1, le=3_650, description="Only results of so many days.")
    tenant: str | None = Field(default=None, pattern=TENANT_PATTERN, description="Whose results, for who sees all.")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeAgainstPeople:
    """One judge of a rule, and what people say of its results."""

    judge: JudgedCount
    results: Sequence[LabelledResult]
    calibration: Calibration
    people: Measured

    @property
    def disagreements(self) -> list[LabelledResult]:
        """What people see otherwise, the latest first."""
        return [each for each in self.results if each.label is not None and each.label is not each.judged]


@router.get("/projects/{project:path}/trace-eval-rules/{rule_id}/calibration")
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


def judges_against_people(here: Context, wanted: JudgedByRule) -> list[JudgeAgainstPeople]:
    """Each judge of a rule against people, the latest first."""
    results = here.labels.results(wanted)
    return [
        _against_people(each, [result for result in results if result.fingerprint == each.fingerprint])
        for each in here.labels.judged(wanted)
    ]


def _against_people(judge: JudgedCount, results: Sequence[LabelledResult]) -> JudgeAgainstPeople:
    cells = [(each.label, each.judged) for each in results]
    confusion = Confusion(
        passed_passed=cells.count((True, True)),
        passed_failed=cells.count((True, False)),
        failed_passed=cells.count((False, True)),
        failed_failed=cells.count((False, False)),
    )
    return JudgeAgainstPeople(
        judge=judge,
        results=results,
        calibration=calibrate(confusion, judged_passed=judge.passed, judged_failed=judge.failed),
        people=alpha_of_people([each.votes for each in results if each.votes]),
    )


def _judge_document(found: JudgeAgainstPeople) -> dict[str, object]:
    said, table = found.calibration, found.calibration.confusion
    return {
        "fingerprint": found.judge.fingerprint,
        "name": found.judge.name,
        "judged": found.judge.passed + found.judge.failed,
        "labelled": table.labels,
        "undecided": len(found.results) - table.labels,
        "confusion": {
            "passedPassed": table.passed_passed,
            "passedFailed": table.passed_failed,
            "failedPassed": table.failed_passed,
            "failedFailed": table.failed_failed,
        },
        "raw": _measured(said.raw),
        "agreement": _measured(said.agreement),
        "kappa": _measured(said.kappa),
        "ac1": said.ac1,
        "sensitivity": _measured(said.sensitivity),
        "specificity": _measured(said.specificity),
        "alphaOfPeople": _measured(found.people),
        "standing": said.standing,
        "inWords": in_words(said),
        "method": said.method,
        "corrected": _measured(said.corrected),
        "moreLabels": None if said.more is None else {"count": said.more.count, "of": said.more.of},
        "disagreements": [_disagreement(each) for each in found.disagreements[:_MOST_SHOWN]],
    }


def _measured(found: Measured) -> dict[str, float | None]:
    low, high = (None, None) if found.interval is None else (found.interval.low, found.interval.high)
    return {"value": found.value, "low": low, "high": high}


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
