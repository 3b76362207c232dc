"""A run as Markdown, for pull requests and logs."""

from collections.abc import Iterator, Mapping
from typing import Final

from collector.experiments.report import CaseEvaluation, CaseOutcome, CaseResult, RunReport, plain_number, readable_json
from collector.gating.summary import plain
from collector.units import instant_text

_TITLE_CHARACTERS: Final = 80
_TEXT_CHARACTERS: Final = 1_000
_BESIDE: Final[Mapping[CaseOutcome, str]] = {
    "error": "with an error",
    "not_evaluated": "without a verdict",
    "unjudged": "not judged",
}
_SECTIONS: Final[Mapping[str, frozenset[CaseOutcome]]] = {
    "Failed Examples": frozenset({"not_passed"}),
    "Examples Without a Verdict": frozenset(_BESIDE),
}
_MOST_CASES: Final = 50
"""Guesses: a comment of GitHub holds 65,536 characters, and readers stop earlier."""


def write_markdown(report: RunReport) -> Iterator[bytes]:
    """Write the summary, and the cases that did not pass."""
    lines = [
        f"# Experiment: {plain(report.run.experiment)}",
        "",
        f"**Date:** {instant_text(report.run.started_at_ns)}",
        f"**Pass Rate:** {_percent(report.pass_rate)} ({_counts(report)})",
    ]
    if report.run.description:
        lines.append(f"**Description:** {plain(report.run.description)}")
    if report.run.failed_evaluations:
        lines.append(f"**Evaluations that failed:** {plain(', '.join(report.run.failed_evaluations))}")
    if report.evaluators:
        lines += [
            "",
            "## Evaluator Summary",
            "",
            "| Evaluator | Avg Score | Std Dev | Pass Rate | No Verdict | Skipped |",
            "|---|---|---|---|---|---|",
        ]
        lines += [
            f"| {plain(each.name)} | {_number(each.mean)} | {_number(each.deviation)} | {_percent(each.pass_rate)} "
            f"| {each.failed} | {each.skipped} |"
            for each in report.evaluators
        ]
    yield "\n".join([*lines, ""]).encode()
    for title, outcomes in _SECTIONS.items():
        yield from _section(report, title, outcomes)


def _section(report: RunReport, title: str, outcomes: frozenset[CaseOutcome]) -> Iterator[bytes]:
    """Write the first cases with some outcomes, below a title; nothing without any."""
    groups = [group for outcome, group in zip(report.outcomes, report.groups, strict=True) if outcome in outcomes]
    if not groups:
        return
    yield f"\n## {title}\n".encode()
    for case in report.cases(groups[:_MOST_CASES]):
        yield "\n".join(["", *_case(case), ""]).encode()
    if len(groups) > _MOST_CASES:
        yield f"\nand {len(groups) - _MOST_CASES:,} more\n".encode()


def _counts(report: RunReport) -> str:
    passed, judged = report.count("passed"), report.count("passed") + report.count("not_passed")
    others = [(report.count(outcome), word) for outcome, word in _BESIDE.items()]
    beside = [f"{plain_number(count)} {word}" for count, word in others if count]
    return ", ".join([f"{plain_number(passed)} of {plain_number(judged)} judged", *beside])


def _case(case: CaseResult) -> list[str]:
    shown = case.shown
    lines = [
        f"### {_short(readable_json(shown['inputs']), _TITLE_CHARACTERS)}",
        "",
        f"**Expected:** {_short(readable_json(shown['expected_outputs']), _TEXT_CHARACTERS)}",
        "",
        f"**Actual:** {_short(readable_json(shown['actual_outputs']), _TEXT_CHARACTERS)}",
    ]
    if case.error is not None:
        lines += ["", f"**Error:** {_short(case.error, _TEXT_CHARACTERS)}"]
    for each in case.evaluations:
        if each.success is not True:
            lines += ["", _evaluation(each)]
    return lines


def _evaluation(evaluation: CaseEvaluation) -> str:
    state = "FAIL" if evaluation.success is False else "SKIPPED" if evaluation.outcome == "skipped" else "NO VERDICT"
    score = "" if evaluation.mean is None else f"{_number(evaluation.mean)} "
    reason = f": {_short(evaluation.reason, _TEXT_CHARACTERS)}" if evaluation.reason else ""
    return f"**{plain(evaluation.name)}:** {score}({state}){reason}"


def _short(text: str, limit: int) -> str:
    return plain(text if len(text) <= limit else f"{text[: limit - 1]}…") or "-"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}".removesuffix(".0") + "%"
