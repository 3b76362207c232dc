"""`tracejury reread`: see to it that all spans are read by the conventions of this version."""

from pathlib import Path

import click

from collector.cli.options import one_source, source_options
from collector.cli.source import open_source
from collector.units import count_text


@click.command()
@source_options
def reread(*, server: str | None, data: Path | None) -> None:
    """Read the spans again that an older version read, and say how many are left.

    A server does so by itself, when it has nothing else to do; then this waits for it.
    """
    one_source(server, data)
    told = None
    with open_source(server, data) as source:
        for left in source.reread():
            if left and left != told:
                click.echo(f"{count_text(left, 'span')} to be read again", err=True)
            told = left
    click.echo("all spans are read by the conventions of this version")
