"""A run of an experiment as text: what its items sum up to, what each evaluator said, and the items."""

from collections.abc import Sequence
from typing import Final

import click

from collector.cli.answer_view import AnswerView, read_view
from collector.cli.render import print_table
from collector.cli.views import ColumnView, TableView
from collector.result_words import GAVE_UP, NO_VERDICT, PASSED, SKIPPED, result_word
from collector.units import usd_text
from collector.visible import one_line, some_lines


class _Evaluator(AnswerView):
    evaluator_name: str
    scored_count: int
    failed_count: int
    skipped_count: int
    passed_count: int
    average_score: float | None


class _Score(AnswerView):
    evaluator_name: str
    outcome: str
    reason: str | None
    error_kind: str | None


class _Item(AnswerView):
    id: str
    item_key: str | None
    trial: int
    outcome: str
    error: str | None
    eval_results: list[_Score]

    @property
    def problem(self) -> str | None:
        """The error of the task, or of the first evaluator that could not judge."""
        failed = (each for each in self.eval_results if each.outcome == "failed")
        return self.error or next((f"{each.evaluator_name}: {each.reason or each.error_kind}" for each in failed), None)


class _Items(AnswerView):
    content: list[_Item]


class RunRate(AnswerView):
    """The pass rate of a run, and the counts beside it."""

    status: str
    pass_rate: float | None
    not_passed_items: int
    error_items: int
    not_evaluated_items: int
    unjudged_items: int
    failed_evaluations: list[str]


RATE_HEADS: Final = (PASSED, "errors", NO_VERDICT, "not judged")


def status_cell(run: RunRate) -> str:
    """Return the status of a run with the evaluations that gave up."""
    failed = ", ".join(run.failed_evaluations)
    return f"{run.status} ({GAVE_UP}: {failed})" if failed else run.status


def rate_cells(run: RunRate) -> tuple[object, ...]:
    """Return the cells below `RATE_HEADS`."""
    return share_text(run.pass_rate), run.error_items, run.not_evaluated_items, run.unjudged_items


class _Detail(RunRate):
    id: str
    experiment_name: str
    name: str | None
    description: str
    status_reason: str | None
    total_items: int
    passed_items: int
    cost_usd: float | None
    priced_item_count: int
    tokenized_item_count: int
    evaluators: list[_Evaluator]
    items: _Items


def print_run(document: object) -> None:
    """Print a run as `GET /runs/{id}` tells it."""
    found = read_view(_Detail, document)
    why = f" ({one_line(found.status_reason)})" if found.status_reason else ""
    named = f" ({one_line(found.name)})" if found.name else ""
    click.echo(f"{one_line(found.experiment_name)}, run {one_line(found.id)}{named}: {found.status}{why}")
    if found.description:
        click.echo(some_lines(found.description))
    click.echo(
        f"{found.passed_items} of {found.passed_items + found.not_passed_items} judged items passed "
        f"({share_text(found.pass_rate)}); of {found.total_items} items {found.error_items} have an error, "
        f"{found.not_evaluated_items} have {NO_VERDICT}, {found.unjudged_items} were not judged"
    )
    if found.failed_evaluations:
        click.echo(f"evaluations that {GAVE_UP}: {one_line(', '.join(found.failed_evaluations))}")
    if found.cost_usd is not None:
        part = found.priced_item_count < found.tokenized_item_count
        of = f" ({found.priced_item_count}/{found.tokenized_item_count} items priced)" if part else ""
        click.echo(f"cost {usd_text(found.cost_usd)}{of}")
    scores = [(each.evaluator_name, each.average_score, each.passed_count, *_counts(each)) for each in found.evaluators]
    if scores:
        print_rows(("evaluator", "mean", PASSED, "scored", NO_VERDICT, SKIPPED), scores)
    items = [
        (each.id, each.item_key, each.trial, result_word(each.outcome), each.problem) for each in found.items.content
    ]
    if items:
        print_rows(("item", "case", "trial", "outcome", "error"), items)


def _counts(evaluator: _Evaluator) -> tuple[int, int, int]:
    return evaluator.scored_count, evaluator.failed_count, evaluator.skipped_count


def share_text(rate: float | None) -> str:
    """A pass rate."""
    return "-" if rate is None else f"{rate:.1%}"


def print_rows(names: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> None:
    """Print a table; means and other numbers have three digits behind the point."""
    columns = tuple(ColumnView(name=name, type="VARCHAR") for name in names)
    told = tuple(tuple(f"{cell:.3f}" if isinstance(cell, float) else cell for cell in row) for row in rows)
    print_table(TableView(columns=columns, rows=told, truncated=False))
