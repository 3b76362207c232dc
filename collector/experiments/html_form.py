"""A run as one HTML file that loads nothing."""

import base64
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from collector.escaping import one_line, some_lines
from collector.experiments.report import CaseResult, RunReport, plain_number, readable_json
from collector.units import duration_text, instant_text

_MOST_CASES: Final = 5_000
"""A guess: a browser takes some seconds for as many rows; those that did not pass come first."""

_TEXT_CHARACTERS: Final = 6_000
_LINE_CHARACTERS: Final = 120
_FOLDER: Final = Path(__file__).parent / "html"
_STYLE: Final = (_FOLDER / "report.css").read_text(encoding="utf-8")
_SCRIPT: Final = (_FOLDER / "report.js").read_text(encoding="utf-8")


def write_html(report: RunReport) -> Iterator[bytes]:
    """Write numbers, evaluators, and the cases as a page that runs no scripts of outputs and loads nothing."""
    chosen = report.worst_first(_MOST_CASES)
    pieces = _TEMPLATE.generate(
        run=report.run,
        report=report,
        sums=report.sums,
        names=[each.name for each in report.evaluators],
        cases=map(_case, report.cases(chosen)),
        missing=len(report.groups) - len(chosen),
        style=_STYLE,
        script=_SCRIPT,
        policy=_POLICY,
    )
    for piece in pieces:
        yield piece.encode("utf-8", "replace")


def _case(case: CaseResult) -> dict[str, object]:
    shown = case.shown
    return {
        "key": case.key,
        "outcome": case.outcome,
        "input": readable_json(shown["inputs"]),
        "expected": readable_json(shown["expected_outputs"]),
        "actual": readable_json(shown["actual_outputs"]),
        "error": case.error,
        "trace_id": shown["trace_id"],
        "passed": sum(trial["outcome"] == "passed" for trial in case.trials),
        "trials": len(case.trials),
        "evaluations": {each.name: each for each in case.evaluations},
    }


def _block(text: object) -> str:
    whole = str(text)
    rest = len(whole) - _TEXT_CHARACTERS
    return some_lines(whole[:_TEXT_CHARACTERS]) + (f"\n… {rest:,} more characters" if rest > 0 else "")


def _line(text: object, limit: int = _LINE_CHARACTERS) -> str:
    line = " ".join(str(text)[: 4 * limit].split())
    return one_line(line if len(line) <= limit else f"{line[: limit - 1]}…")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}".rstrip("0").rstrip(".")


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _digest(content: str) -> str:
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_digest(_STYLE)}'; script-src 'sha256-{_digest(_SCRIPT)}'; "
    "base-uri 'none'; form-action 'none'"
)
"""Content Security Policy inside the file, so that no other script runs, wherever the file is opened."""


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        line=_line, shown=_block, number=_number, percent=_percent, whole=plain_number, moment=instant_text
    )
    environment.filters["duration"] = duration_text
    return environment


_TEMPLATE: Final = _environment().get_template("report.html")
