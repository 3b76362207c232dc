"""Corrected rates and differences as the JSON documents that the API shows, and what of an alert they are."""

from collector.api.base.context import Context
from collector.api.review.judged_by_people import JudgeAgainstPeople, difference_for_people, judge_against_people
from rules.statistics.correcting import IntervalMeasure
from rules.statistics.surviving import CorrectedDifference, JudgedSide
from storage.alerting.alerts import AlertFinding, ComparedSide


def measured_document(found: IntervalMeasure) -> dict[str, float | None]:
    """A measure with its interval."""
    low, high = (None, None) if found.interval is None else (found.interval.low, found.interval.high)
    return {"value": found.value, "low": low, "high": high}


def difference_document(found: CorrectedDifference | None) -> dict[str, object] | None:
    """Both sides as people would find them, and whether the difference survives."""
    if found is None:
        return None
    return {
        "baseline": measured_document(found.baseline),
        "candidate": measured_document(found.candidate),
        "difference": {"value": found.difference, "low": found.interval.low, "high": found.interval.high},
        "basis": found.basis,
        "survives": found.survives,
        "inWords": found.in_words,
    }


def corrected_alert(here: Context, finding: AlertFinding) -> CorrectedDifference | None:
    """What of an alert about a pass rate is left once the judge's errors are taken out; None while nobody knows."""
    if finding.metric is not None or finding.measure != "passed":
        return None
    judge = judge_against_people(
        here,
        tenant=finding.tenant,
        rule_id=finding.rule_id,
        project=finding.project,
        fingerprint=finding.fingerprint,
    )
    if judge is None:
        return None
    sides = (_side(judge, finding, each) for each in (finding.baseline, finding.candidate))
    return difference_for_people(judge, *sides)


def _side(judge: JudgeAgainstPeople, finding: AlertFinding, side: ComparedSide) -> JudgedSide:
    """The counts of one side; labels only where it is one release."""
    passed = round(side.rate * side.count)
    failed = side.count - passed
    if side.release is None:
        return JudgedSide(passed=passed, failed=failed)
    return judge.of_release(str(finding.document.get("service", "")), side.release, passed=passed, failed=failed)
