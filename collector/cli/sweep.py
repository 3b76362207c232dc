"""`tracejury sweep`: let expired traces leave now."""

from pathlib import Path

import click

from collector.cli.options import one_source, source_options
from collector.cli.render import print_json
from collector.cli.source import open_source
from collector.units import count_text

_MIB = 1 << 20


@click.command()
@click.option("--dry-run", is_flag=True, help="Say what would leave, and delete nothing.")
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
@source_options
def sweep(*, dry_run: bool, as_json: bool, server: str | None, data: Path | None) -> None:
    """Delete the traces that have expired, and give what they took back to the disk."""
    one_source(server, data)
    with open_source(server, data) as source:
        document = source.sweep(dry_run=dry_run)
    if as_json:
        print_json(document)
        return
    numbers = {name: value if isinstance(value, int) else 0 for name, value in document.items()}
    if dry_run:
        click.echo(
            f"would leave: {count_text(numbers['expiredTraces'], 'trace')} with "
            f"{count_text(numbers['expiredSpans'], 'span')} that have expired, and about "
            f"{count_text(numbers['overSpans'], 'span')} more because of max_bytes; of "
            f"{count_text(numbers['spans'], 'span')} in {numbers['usedBytes'] / _MIB:,.1f} MiB"
        )
        return
    freed = "the disk gets its room back with the next sweep, because somebody is reading"
    if document.get("freedBytes") is not None:
        freed = f"{numbers['freedBytes'] / _MIB:,.1f} MiB were given back to the disk"
    click.echo(f"{count_text(numbers['traces'], 'trace')} left with {count_text(numbers['spans'], 'span')}; {freed}")
