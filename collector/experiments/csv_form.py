"""A run as CSV for spreadsheets: a row for each trial of each case."""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from collector.experiments.report import VERDICTS, RunReport, plain_number, readable_json
from collector.spreadsheet import safe_cell

_HEAD: Final = ("input", "expected_output", "actual_output", "success")
_FLAGS: Final = {None: "", True: "true", False: "false"}


def write_csv(report: RunReport) -> Iterator[bytes]:
    """Write a row for each trial: its case, scores by evaluator, error, reasons, and the trial's number if several."""
    names = [each.name for each in report.evaluators]
    columns = _columns(names)
    has_trials = report.trial_count > 1
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    head = [f"{name}_{what}" for name in columns for what in ("score", "pass")]
    why = ["error", *(f"{name}_reason" for name in columns)]
    writer.writerow([*_HEAD, *head, *why, *(["trial"] if has_trials else [])])
    for case in report.cases():
        for trial in case.trials:
            writer.writerow([*_row(trial, names), *([trial["trial"]] if has_trials else [])])
        yield file.getvalue().encode()
        file.seek(0)
        file.truncate()
    yield file.getvalue().encode()


def _row(trial: Mapping[str, Any], names: list[str]) -> list[object]:
    by_name = {score["name"]: score for score in trial["scores"]}
    row: list[object] = [
        *(safe_cell(readable_json(trial[name])) for name in ("inputs", "expected_outputs", "actual_outputs")),
        _FLAGS[VERDICTS.get(trial["outcome"])],
    ]
    for name in names:
        score = by_name.get(name)
        row += ["", ""] if score is None else [plain_number(score["score"]), _FLAGS[score["passed"]]]
    reasons = (by_name[name]["reason"] or by_name[name]["error_kind"] if name in by_name else None for name in names)
    error = trial["error"] or trial["error_kind"]
    return [*row, *(safe_cell(text or "") for text in (error, *reasons))]


def _columns(names: list[str]) -> list[str]:
    """Return unique column names for evaluators."""
    columns: list[str] = []
    for name in names:
        apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
        plain = re.sub(r"\W+", "_", apart).strip("_").lower() or "evaluator"
        column, number = plain, 1
        while column in columns:
            number += 1
            column = f"{plain}_{number}"
        columns.append(column)
    return columns
