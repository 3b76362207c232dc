"""`tracejury deletions`: what was asked to be deleted, and how far that is."""

from pathlib import Path

import click

from collector.cli.answer_view import AnswerView, read_view
from collector.cli.options import one_source, source_options
from collector.cli.render import list_table, output_console, print_json, print_list
from collector.cli.source import open_source


class _Deletion(AnswerView):
    """A deletion, and how far it is."""

    id: str
    state: str
    filters: list[str]
    deleted_traces: int
    deleted_spans: int
    looked_through: float
    created_at: str
    created_by: str | None


@click.command()
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most this many.")
@click.option("--json", "as_json", is_flag=True, help="A JSON list, for scripts.")
@source_options
def deletions(*, limit: int, as_json: bool, server: str | None, data: Path | None) -> None:
    """What was asked to be deleted, the latest first, and how far each deletion is."""
    one_source(server, data)
    with open_source(server, data) as source:
        documents = source.deletions(limit=limit)
    if as_json:
        print_json(documents)
    else:
        _print([read_view(_Deletion, document) for document in documents])


def _print(found: list[_Deletion]) -> None:
    from rich.text import Text

    from collector.visible import one_line

    console = output_console()
    if not found:
        console.print("nothing was asked to be deleted")
        return
    table = list_table()
    for title in ("DELETION", "STATE", "BY", "ASKED FOR (UTC)", "KEY"):
        table.add_column(title, no_wrap=True)
    for title in ("LOOKED THROUGH", "TRACES", "SPANS"):
        table.add_column(title, justify="right", no_wrap=True)
    for each in found:
        table.add_row(
            one_line(each.id),
            one_line(each.state),
            Text(one_line(", ".join(each.filters))),
            one_line(each.created_at[:19].replace("T", " ")),
            Text(one_line(each.created_by or "-")),
            f"{each.looked_through:.0%}",
            f"{each.deleted_traces:,}",
            f"{each.deleted_spans:,}",
        )
    print_list(console, table)
