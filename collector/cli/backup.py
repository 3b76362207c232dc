"""`tracejury backup` and `tracejury restore`."""

import shutil
from pathlib import Path

import click

from collector.cli.options import one_source, source_options
from collector.cli.source import open_source
from collector.units import count_text
from collector.visible import one_line


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@source_options
def backup(*, directory: Path, server: str | None, data: Path | None) -> None:
    """Copy the database into a new directory, while the server goes on; `tracejury restore` reads it."""
    from storage.engine.database import FILE_NAME

    one_source(server, data)
    target = directory / FILE_NAME
    if target.exists():
        raise click.ClickException(f"{one_line(str(target))} exists already; choose another directory")
    part = directory / f"{FILE_NAME}.part"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with open_source(server, data) as source:
            source.backup(part)
        part.rename(target)
    except OSError as error:
        raise click.ClickException(f"the backup cannot be written: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
    click.echo(f"{one_line(str(target))}: {target.stat().st_size / (1 << 20):,.1f} MiB")


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option(
    "--data",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="A new data directory.",
)
def restore(*, directory: Path, data: Path) -> None:
    """Make a data directory of a backup, and check that it opens."""
    from storage.engine.database import FILE_NAME
    from storage.errors import Unusable
    from storage.store import Store

    source, target = directory / FILE_NAME, data / FILE_NAME
    if not source.exists():
        raise click.ClickException(f"{one_line(str(directory))} holds no backup: there is no {FILE_NAME}")
    if target.exists():
        raise click.ClickException(f"{one_line(str(data))} holds a database already; nothing was changed")
    part = data / f"{FILE_NAME}.part"
    try:
        data.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, part)
        part.rename(target)
        with Store.open(data) as store:
            stored = store.totals.stored
    except OSError as error:
        raise click.ClickException(f"the backup cannot be restored: {error.strerror}") from error
    except Unusable as error:
        raise click.ClickException(one_line(str(error))) from error
    finally:
        part.unlink(missing_ok=True)
    click.echo(f"{one_line(str(data))}: a data directory into which {count_text(stored, 'span')} were ever stored")
