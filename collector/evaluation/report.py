"""Report of an eval set: one document for programs, JUnit XML for CI."""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as ET

from collector.evaluation.batch import Summary
from collector.evaluation.eval_set import EvalItemResult, EvalSet
from evaluators.outcome import Failure, Outcome, Skipped, Verdict

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def summary_of(results: Sequence[EvalItemResult]) -> Summary:
    """Count evaluations by ending."""
    summary = Summary()
    for result in results:
        for outcome in result.outcomes.values():
            summary.add(outcome)
    return summary


def report_document(eval_set: EvalSet, results: Sequence[EvalItemResult]) -> dict[str, Any]:
    """Return the report. Scores are means of verdicts, weighted by evaluator; 1 - score if lower is better.

    An item with a failure has no score, so that an error never counts as a bad result.
    """
    weights = {member.id: member.weight for member in eval_set.members}
    scores = [score_of(result.outcomes, weights) for result in results]
    known = [score for score in scores if score is not None]
    items = [
        {
            "id": result.item.id,
            "name": result.item.name,
            "traceId": result.trace_id,
            "score": score,
            "outcomes": {key: outcome.to_document() for key, outcome in result.outcomes.items()},
        }
        for result, score in zip(results, scores, strict=True)
    ]
    summary = summary_of(results)
    return {
        "evalSet": eval_set.name,
        "passed": summary.exit_code == 0,
        "score": sum(known) / len(known) if known else None,
        "counts": dict(summary.counts),
        "evaluators": [
            {"id": member.id, "kind": member.kind, "weight": member.weight, "mean": _mean(results, member.id)}
            for member in eval_set.members
        ],
        "items": items,
    }


def junit(eval_set: EvalSet, results: Sequence[EvalItemResult]) -> str:
    """Render the report as JUnit XML: a verdict that does not pass is a failure, a broken evaluation an error."""
    suite = ET.Element("testsuite", name=_clean(eval_set.name))
    for result in results:
        for evaluator, outcome in result.outcomes.items():
            case = ET.SubElement(
                suite, "testcase", classname=_clean(evaluator), name=_clean(result.item.name or result.item.id)
            )
            _tell(case, outcome)
    tags = [child.tag for case in suite for child in case]
    suite.attrib |= {
        "tests": str(len(suite)),
        "failures": str(tags.count("failure")),
        "errors": str(tags.count("error")),
        "skipped": str(tags.count("skipped")),
    }
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def score_of(outcomes: Mapping[str, Outcome], weights: Mapping[str, float]) -> float | None:
    """Return the weighted mean of verdicts, 1 - score if lower is better; None after a failure, or without weights."""
    if any(isinstance(outcome, Failure) for outcome in outcomes.values()):
        return None
    verdicts = {key: outcome for key, outcome in outcomes.items() if isinstance(outcome, Verdict)}
    whole = sum(weights[key] for key in verdicts)
    return sum(weights[key] * _quality(verdict) for key, verdict in verdicts.items()) / whole if whole else None


def _mean(results: Sequence[EvalItemResult], evaluator: str) -> float | None:
    outcomes = [result.outcomes.get(evaluator) for result in results]
    scores = [outcome.score for outcome in outcomes if isinstance(outcome, Verdict)]
    return sum(scores) / len(scores) if scores else None


def _quality(verdict: Verdict) -> float:
    return verdict.score if verdict.direction == "higher" else 1 - verdict.score


def _tell(case: ET.Element, outcome: Outcome) -> None:
    match outcome:
        case Verdict(success=True):
            pass
        case Verdict():
            message = f"score {outcome.score:g}, threshold {outcome.threshold:g}"
            ET.SubElement(case, "failure", message=message).text = _clean(outcome.reason)
        case Failure():
            ET.SubElement(case, "error", type=_clean(outcome.kind), message=_clean(outcome.message))
        case Skipped():
            ET.SubElement(case, "skipped", message=_clean(outcome.reason))


def _clean(text: str) -> str:
    return _NOT_IN_XML.sub("�", text)
