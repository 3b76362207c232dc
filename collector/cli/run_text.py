"""A run of an experiment as text: what its items sum up to, what each evaluator said, and the items."""

from collections.abc import Sequence

import click

from collector.cli.answer_view import AnswerView, read_view
from collector.cli.render import print_table
from collector.cli.views import ColumnView, TableView
from collector.visible import one_line


class _Evaluator(AnswerView):
    evaluator_name: str
    scored_count: int
    failed_count: int
    skipped_count: int
    passed_count: int
    average_score: float | None


class _Item(AnswerView):
    id: str
    item_key: str | None
    trial: int
    outcome: str
    error: str | None


class _Items(AnswerView):
    content: list[_Item]


class _Detail(AnswerView):
    id: str
    experiment_name: str
    status: str
    status_reason: str | None
    total_items: int
    passed_items: int
    not_passed_items: int
    error_items: int
    not_evaluated_items: int
    unjudged_items: int
    pass_rate: float | None
    cost_usd: float | None
    priced_item_count: int
    tokenized_item_count: int
    evaluators: list[_Evaluator]
    items: _Items


def print_run(document: object) -> None:
    """Print a run as `GET /runs/{id}` tells it."""
    found = read_view(_Detail, document)
    why = f" ({one_line(found.status_reason)})" if found.status_reason else ""
    click.echo(f"{one_line(found.experiment_name)}, run {one_line(found.id)}: {found.status}{why}")
    click.echo(
        f"{found.passed_items} of {found.total_items} items passed ({share_text(found.pass_rate)}), "
        f"{found.not_passed_items} did not, {found.error_items} failed, {found.not_evaluated_items} not evaluated, "
        f"{found.unjudged_items} not judged"
    )
    if found.cost_usd is not None:
        part = found.priced_item_count < found.tokenized_item_count
        of = f" ({found.priced_item_count}/{found.tokenized_item_count} items priced)" if part else ""
        click.echo(f"USD {found.cost_usd:.4f}{of}")
    said = [
        (each.evaluator_name, each.average_score, each.passed_count, each.scored_count, each.failed_count)
        for each in found.evaluators
    ]
    if said:
        print_rows(("evaluator", "mean", "passed", "scored", "failed"), said)
    items = [(each.id, each.item_key, each.trial, each.outcome, each.error) for each in found.items.content]
    if items:
        print_rows(("item", "case", "trial", "outcome", "error"), items)


def share_text(rate: float | None) -> str:
    """A pass rate."""
    return "-" if rate is None else f"{rate:.1%}"


def print_rows(names: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> None:
    """Print a table."""
    columns = tuple(ColumnView(name=name, type="VARCHAR") for name in names)
    print_table(TableView(columns=columns, rows=tuple(rows), truncated=False))
