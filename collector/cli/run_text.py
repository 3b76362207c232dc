"""A run of an experiment as text: totals, evaluators, and items."""

from collections.abc import Sequence
from typing import Final

import click

from collector.api.responses.offline import EvaluatorSummary, LatestRun, RunDetail, RunDocument, RunItemDocument
from collector.cli.render import print_table
from collector.cli.responses import parse_response
from collector.cli.views import ColumnView, TableView
from collector.escaping import one_line, some_lines
from collector.result_labels import GAVE_UP, NO_VERDICT, PASSED, SKIPPED, result_word
from collector.units import usd_text

RunRate = LatestRun | RunDocument | RunDetail

RATE_HEADS: Final = (PASSED, "errors", NO_VERDICT, "not judged")


def status_cell(run: RunRate) -> str:
    """Return the status of a run with the evaluations that gave up."""
    failed = ", ".join(run.failed_evaluations)
    return f"{run.status} ({GAVE_UP}: {failed})" if failed else run.status


def rate_cells(run: RunRate) -> tuple[object, ...]:
    """Return the cells below `RATE_HEADS`."""
    return share_text(run.pass_rate), run.error_items, run.not_evaluated_items, run.unjudged_items


def print_run(document: object) -> None:
    """Print a run as `GET /runs/{id}` describes it."""
    run = parse_response(RunDetail, document)
    why = f" ({one_line(run.status_reason)})" if run.status_reason else ""
    named = f" ({one_line(run.name)})" if run.name else ""
    click.echo(f"{one_line(run.experiment_name)}, run {one_line(run.id)}{named}: {run.status}{why}")
    if run.description:
        click.echo(some_lines(run.description))
    click.echo(
        f"{run.passed_items} of {run.passed_items + run.not_passed_items} judged items passed "
        f"({share_text(run.pass_rate)}); of {run.total_items} items {run.error_items} have an error, "
        f"{run.not_evaluated_items} have {NO_VERDICT}, {run.unjudged_items} were not judged"
    )
    if run.failed_evaluations:
        click.echo(f"evaluations that {GAVE_UP}: {one_line(', '.join(run.failed_evaluations))}")
    if run.cost_usd is not None:
        part = run.priced_item_count < run.tokenized_item_count
        of = f" ({run.priced_item_count}/{run.tokenized_item_count} items priced)" if part else ""
        click.echo(f"cost {usd_text(run.cost_usd)}{of}")
    scores = [(each.evaluator_name, each.average_score, each.passed_count, *_counts(each)) for each in run.evaluators]
    if scores:
        print_rows(("evaluator", "mean", PASSED, "scored", NO_VERDICT, SKIPPED), scores)
    items = [
        (each.id, each.item_key, each.trial, result_word(each.outcome), _problem(each)) for each in run.items.content
    ]
    if items:
        print_rows(("item", "case", "trial", "outcome", "error"), items)


def _problem(item: RunItemDocument) -> str | None:
    failed = (each for each in item.eval_results if each.outcome == "failed")
    return item.error or next((f"{each.evaluator_name}: {each.reason or each.error_kind}" for each in failed), None)


def _counts(evaluator: EvaluatorSummary) -> tuple[int, int, int]:
    return evaluator.scored_count, evaluator.failed_count, evaluator.skipped_count


def share_text(rate: float | None) -> str:
    """Return a pass rate as text."""
    return "-" if rate is None else f"{rate:.1%}"


def print_rows(names: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> None:
    """Print a table; means and other numbers have three digits after the decimal point."""
    columns = tuple(ColumnView(name=name, type="VARCHAR") for name in names)
    cells = tuple(tuple(f"{cell:.3f}" if isinstance(cell, float) else cell for cell in row) for row in rows)
    print_table(TableView(columns=columns, rows=cells, truncated=False))
