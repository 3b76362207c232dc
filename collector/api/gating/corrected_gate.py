"""What of a gate's findings is left once the errors of judges are taken out, by votes on items of runs."""

from collections.abc import Sequence
from typing import Any

from collector.api.base.context import Context
from collector.api.review.annotations import VERDICT
from collector.api.review.judged_by_people import difference_document
from rules.statistics.calibration import calibrate
from rules.statistics.correcting import Confusion
from rules.statistics.surviving import CorrectedDifference, JudgedSide, corrected_difference
from storage.offline.runs import Run
from storage.review.labels import LabelledRun


def corrected_evaluators(here: Context, baseline: Run, candidate: Run) -> list[dict[str, Any]]:
    """For each evaluator that judged both runs, and whose items people voted on: the pass rates that they would find.

    Only votes on what one evaluator judged count for it: of two fingerprints neither is held against the votes of the
    other.
    """
    rows = here.labels.of_runs(
        candidate.tenant, VERDICT, candidate.experiment_id, runs=[baseline.run_id, candidate.run_id]
    )
    found = []
    for name, fingerprint in sorted({(each.name, each.fingerprint) for each in rows}):
        own = [each for each in rows if (each.name, each.fingerprint) == (name, fingerprint)]
        sides = [next((each for each in own if each.run_id == run.run_id), None) for run in (baseline, candidate)]
        difference = None if sides[0] is None or sides[1] is None else _difference(own, sides[0], sides[1])
        document = difference_document(difference)
        if document is not None:
            found.append({"evaluator": name, "fingerprint": fingerprint, **document})
    return found


def correction_warnings(corrected: Sequence[dict[str, Any]], document: dict[str, Any]) -> list[str]:
    """Which of the evaluators that became worse do not survive the correction."""
    worse = {each["evaluator"] for each in document["regressedEvaluators"]}
    return [
        f"{each['evaluator']}: {each['inWords']}"
        for each in corrected
        if each["evaluator"] in worse and not each["survives"]
    ]


def _difference(rows: Sequence[LabelledRun], before: LabelledRun, after: LabelledRun) -> CorrectedDifference | None:
    """By the labels of each run, or of all runs that this evaluator judged."""
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
