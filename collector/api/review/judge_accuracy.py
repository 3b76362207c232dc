"""Judges compared with people: confusion by votes, and corrected pass rates."""

import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from collector.api.base.context import Context
from collector.api.review.annotations import VERDICT
from rules.statistics.calibration import Calibration, alpha_of_people, calibrate, confusion_of, in_words
from rules.statistics.correcting import Confusion, DrawnLabel, IntervalMeasure
from rules.statistics.surviving import CorrectedDifference, JudgedSide, corrected_difference
from storage.alerting.alerts import AlertFinding, ComparedSide
from storage.review.annotations import Source
from storage.review.labels import JudgedByRule, JudgedCount, LabelledResult

SOURCES: Final[Mapping[str, Sequence[Source]]] = {
    "people": ("person", "adjudicator"),
    "user": ("user",),
    "application": ("application",),
}
"""Sources of the votes that count as the truth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeAgainstPeople:
    """A judge of a rule, compared with people's votes on its results.

    `left_out` counts the labels that are ignored, because they would bias the correction: their results were selected
    by what the judge had returned, or are examples in its prompt.
    """

    judge: JudgedCount
    results: Sequence[LabelledResult]
    calibration: Calibration
    people: IntervalMeasure
    left_out: int

    @property
    def disagreements(self) -> list[LabelledResult]:
        """Return the results with which people disagree, latest first."""
        return [each for each in self.results if each.label is not None and each.label is not each.judged]

    @property
    def months(self) -> list[tuple[str, Confusion]]:
        """Return the confusion of judge and people for the results of each month."""
        by_month: dict[str, list[LabelledResult]] = {}
        for each in self.results:
            month = f"{dt.datetime.fromtimestamp(each.created_us / 1_000_000, dt.UTC):%Y-%m}"
            by_month.setdefault(month, []).append(each)
        return [(month, _confusion(held)) for month, held in sorted(by_month.items())]

    @property
    def in_words(self) -> str:
        """Explain what the calibration means for the judge's rate."""
        text = in_words(self.calibration)
        if not self.left_out:
            return text
        if all(each.is_example for each in self.results if each.is_chosen):
            return f"{text} {self.left_out} labels are excluded: they are examples in the prompt of the judge."
        return (
            f"{text} {self.left_out} labels are excluded: they were selected by uncertainty or disagreement. "
            "If the queue also draws a random sample of the rule, they count with their weight."
        )

    def of_release(self, service: str, release: str | None, *, passed: int, failed: int) -> JudgedSide:
        """Return the counts and labels of a release of a service; "" is not a service."""
        own = [
            each
            for each in self.results
            if (each.service or "", each.release) == (service, release) and not each.is_chosen
        ]
        return JudgedSide(passed=passed, failed=failed, labels=_confusion(own))


def judges_against_people(context: Context, selection: JudgedByRule) -> list[JudgeAgainstPeople]:
    """Compare each judge of a rule with people, latest first."""
    results = context.store.labels.results(selection)
    return [
        _against_people(each, [result for result in results if result.fingerprint == each.fingerprint])
        for each in context.store.labels.judged(selection)
    ]


def against_people(context: Context, selection: JudgedByRule, judge: JudgedCount) -> JudgeAgainstPeople:
    """Compare one judge of a rule, already counted, with people."""
    results = [each for each in context.store.labels.results(selection) if each.fingerprint == judge.fingerprint]
    return _against_people(judge, results)


def judge_against_people(
    context: Context, *, tenant: str, rule_id: str, project: str | None, fingerprint: str | None
) -> JudgeAgainstPeople | None:
    """Compare one judge of a rule with people, over all time; None without results or votes."""
    selection = JudgedByRule(
        tenant=tenant, rule_id=rule_id, project=project, from_us=None, name=VERDICT, sources=SOURCES["people"]
    )
    own = [each for each in context.store.labels.results(selection) if each.fingerprint == fingerprint]
    if not own:
        return None
    counts = (each for each in context.store.labels.judged(selection) if each.fingerprint == fingerprint)
    judged = next(counts, None)
    return None if judged is None else _against_people(judged, own)


def difference_for_people(
    judge: JudgeAgainstPeople | None, baseline: JudgedSide, candidate: JudgedSide
) -> CorrectedDifference | None:
    """Correct a difference for the judge's errors; None while too little is known."""
    return None if judge is None else corrected_difference(baseline, candidate, judge.calibration)


def _against_people(judge: JudgedCount, results: Sequence[LabelledResult]) -> JudgeAgainstPeople:
    drawn = _drawn(results)
    blind = [each for each in results if not each.is_chosen]
    calibration = calibrate(_confusion(blind), judged_passed=judge.passed, judged_failed=judge.failed, drawn=drawn)
    left_out = (
        0 if calibration.method == "by_weight" else sum(each.is_chosen and each.label is not None for each in results)
    )
    return JudgeAgainstPeople(
        judge=judge,
        results=results,
        calibration=calibration,
        people=alpha_of_people([each.votes for each in results if each.votes]),
        left_out=left_out,
    )


def _drawn(results: Sequence[LabelledResult]) -> list[DrawnLabel]:
    """Return labels with sampling probabilities, from the queue that draws from all results and has the most labels."""
    known = [each for each in results if each.label is not None and not each.is_example]
    queues = Counter(
        entry.queue_id
        for each in known
        for entry in each.entries or ()
        if entry.whole and entry.probability is not None
    )
    if not queues:
        return []
    ((queue_id, _),) = queues.most_common(1)
    chances = [(each, each.chance_in(queue_id)) for each in known]
    return [
        DrawnLabel(people=bool(each.label), judged=each.judged, probability=chance)
        for each, chance in chances
        if chance is not None
    ]


def _confusion(results: Sequence[LabelledResult]) -> Confusion:
    return confusion_of((each.label, each.judged) for each in results)


def corrected_alert(context: Context, finding: AlertFinding) -> CorrectedDifference | None:
    """Correct the difference of an alert about a pass rate for the judge's errors; None while they are unknown."""
    if finding.metric is not None or finding.measure != "passed":
        return None
    judge = judge_against_people(
        context,
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
    """Return the counts of one side; with labels only if the side is one release."""
    passed = round(side.rate * side.count)
    failed = side.count - passed
    if side.release is None:
        return JudgedSide(passed=passed, failed=failed)
    return judge.of_release(str(finding.document.get("service", "")), side.release, passed=passed, failed=failed)
