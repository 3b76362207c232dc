"""`tracejury status`: how the server stands."""

from pathlib import Path

import click

from collector.cli.answer_view import read_view
from collector.cli.options import one_source, source_options
from collector.cli.render import print_json
from collector.cli.source import open_source
from collector.cli.views import StatusView


@click.command()
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
@source_options
def status(*, as_json: bool, server: str | None, data: Path | None) -> None:
    """What is stored, what is behind, what is to be judged, what failed of late, and what was spent today."""
    from collector.cli.rule_text import print_status

    one_source(server, data)
    with open_source(server, data) as source:
        document = source.status()
    print_json(document) if as_json else print_status(read_view(StatusView, document))
