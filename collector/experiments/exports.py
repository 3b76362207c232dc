"""Formats of exported runs."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from collector.experiments.csv_form import write_csv
from collector.experiments.html_form import write_html
from collector.experiments.json_form import write_json
from collector.experiments.junit_form import write_junit
from collector.experiments.markdown_form import write_markdown
from collector.experiments.report import RunReport
from storage.offline.run_items import RunItems
from storage.offline.run_sums import RunSums
from storage.offline.runs import Run

RunForm: TypeAlias = Literal["json", "csv", "markdown", "html", "junit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportForm:
    """A format of exported runs."""

    media_type: str
    suffix: str
    write: Callable[[RunReport], Iterator[bytes]]


REPORT_FORMS: Final[Mapping[RunForm, ReportForm]] = {
    "json": ReportForm(media_type="application/json", suffix="json", write=write_json),
    "csv": ReportForm(media_type="text/csv; charset=utf-8", suffix="csv", write=write_csv),
    "markdown": ReportForm(media_type="text/markdown; charset=utf-8", suffix="md", write=write_markdown),
    "html": ReportForm(media_type="text/html; charset=utf-8", suffix="html", write=write_html),
    "junit": ReportForm(media_type="application/xml", suffix="xml", write=write_junit),
}


def report_of(run: Run, sums: RunSums, items: RunItems) -> RunReport:
    """Return the report of a run."""
    return RunReport(
        run=run,
        sums=sums,
        outline=items.outline(run.run_id),
        trials=items.evaluators_by_trial(run.run_id),
        items=items,
    )
