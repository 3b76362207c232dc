"""A run as JUnit XML: one test case for each case, over all of its trials."""

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from collector.experiments.report import CaseEvaluation, CaseOutcome, CaseResult, RunReport, readable_json
from collector.gating.summary import clean

_ELEMENTS: Final[Mapping[CaseOutcome, str]] = {
    "not_passed": "failure",
    "error": "error",
    "not_evaluated": "error",
    "unjudged": "skipped",
}
"""JUnit elements inside a test case, by outcome."""

_NAME_CHARACTERS: Final = 200
_TEXT_CHARACTERS: Final = 2_000


def write_junit(report: RunReport) -> Iterator[bytes]:
    """Write one suite."""
    counts = Counter(_ELEMENTS.get(outcome) for outcome in report.outcomes)
    suite = ET.Element(
        "testsuite",
        name=clean(report.run.experiment),
        tests=str(len(report.outcomes)),
        failures=str(counts["failure"]),
        errors=str(counts["error"]),
        skipped=str(counts["skipped"]),
    )
    begin = ET.tostring(suite, encoding="unicode", short_empty_elements=False).removesuffix("</testsuite>")
    yield f'<?xml version="1.0" encoding="utf-8"?>\n{begin}\n'.encode()
    for case in report.cases():
        yield ET.tostring(_test(report.run.experiment, case), encoding="unicode").encode() + b"\n"
    yield b"</testsuite>\n"


def _test(experiment: str, case: CaseResult) -> ET.Element:
    name = case.key or " ".join(readable_json(case.first["inputs"]).split()) or str(case.first["item_number"])
    test = ET.Element("testcase", classname=clean(experiment), name=clean(name[:_NAME_CHARACTERS]))
    times = [each["latency_ms"] for each in case.trials if each["latency_ms"] is not None]
    if times:
        test.set("time", f"{sum(times) / 1000:.3f}")
    element = _ELEMENTS.get(case.outcome)
    if element is not None:
        inside = ET.SubElement(test, element, message=clean(_message(case)[:_TEXT_CHARACTERS]))
        inside.text = clean(_text(case))
    return test


def _message(case: CaseResult) -> str:
    if case.outcome == "unjudged":
        return "nothing was scored"
    if case.error is not None:
        return case.error
    return "; ".join(_evaluation_text(each) for each in case.evaluations if each.success is not True)


def _evaluation_text(evaluation: CaseEvaluation) -> str:
    score = evaluation.outcome if evaluation.mean is None else f"{evaluation.mean:g}"
    return f"{evaluation.name}: {score}" + (f" ({evaluation.reason})" if evaluation.reason else "")


def _text(case: CaseResult) -> str:
    passed = sum(trial["outcome"] == "passed" for trial in case.trials)
    trials = f"{passed} of {len(case.trials)} trials passed\n" if len(case.trials) > 1 else ""
    parts = (("input", "inputs"), ("expected", "expected_outputs"), ("actual", "actual_outputs"))
    texts = {name: readable_json(case.shown[column])[:_TEXT_CHARACTERS] for name, column in parts}
    return trials + "\n".join(f"{name}: {text}" for name, text in texts.items())
