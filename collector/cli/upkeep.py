"""The commands `sweep`, `reread`, `backup`, `restore` and `check`: maintenance of the stored data."""

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from collector.cli.client import LONG_S, ServerClient, StoppedData, find_data, open_source
from collector.cli.options import one_source, source_options
from collector.cli.render import print_json
from collector.cli.responses import parse_response
from collector.escaping import file_problem, one_line
from collector.units import count_text

if TYPE_CHECKING:
    from storage.ingest.spool import SpoolReport
    from storage.store import Store
    from storage.upkeep.checking import DatabaseReport

_MIB = 1 << 20
_CHUNK_BYTES = 1 << 18
_LOOK_S = 1.0  # between two polls of the number of spans that are left


@click.command()
@click.option("--dry-run", is_flag=True, help="Only report what would be deleted.")
@click.option("--yes", "is_confirmed", is_flag=True, help="Confirm that the clock is right: delete all expired data.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object, for scripts.")
@source_options
def sweep(*, dry_run: bool, is_confirmed: bool, as_json: bool, server: str | None, data: Path | None) -> None:
    """Delete expired traces and free their disk space.

    If the machine's clock is in doubt, or too much has expired at once, keeps what has expired and exits with 1;
    `--yes` confirms that the clock is right. The limit of size applies in any case.
    """
    one_source(server, data)
    params = {"dryRun": dry_run, "confirm": is_confirmed}
    with open_source(server, data) as source:
        document = source.document("POST", "/api/v1/sweep", params=params, timeout=LONG_S)
    if as_json:
        print_json(document)
        if document.get("held") is not None and not dry_run:
            sys.exit(1)
        return
    numbers = {name: value if isinstance(value, int) else 0 for name, value in document.items()}
    if dry_run:
        click.echo(
            f"would delete: {count_text(numbers['expiredTraces'], 'trace')} with "
            f"{count_text(numbers['expiredSpans'], 'span')} that have expired, and about "
            f"{count_text(numbers['overSpans'], 'span')} more because of max_bytes; of "
            f"{count_text(numbers['spans'], 'span')} in {numbers['usedBytes'] / _MIB:,.1f} MiB"
        )
        if document.get("held") is not None:
            click.echo(f"but what has expired stays: {one_line(str(document['held']))}")
        return
    freed = "disk space is freed by the next sweep, because queries are running"
    if document.get("freedBytes") is not None:
        freed = f"{numbers['freedBytes'] / _MIB:,.1f} MiB were given back to the disk"
    click.echo(f"{count_text(numbers['traces'], 'trace')} deleted with {count_text(numbers['spans'], 'span')}; {freed}")
    if document.get("held") is not None:
        raise click.ClickException(f"what has expired stays: {one_line(str(document['held']))}")


@click.command()
@source_options
def reread(*, server: str | None, data: Path | None) -> None:
    """Read spans again that an older version read, and report how many are left.

    A server does this when idle; the command then waits for it.
    """
    one_source(server, data)
    reported = None
    with find_data(server, data) as source:
        for left in _reread_by_server(source) if isinstance(source, ServerClient) else _reread_here(source):
            if left and left != reported:
                click.echo(f"{count_text(left, 'span')} to be read again", err=True)
            reported = left
    click.echo("all spans are read by the conventions of this version")


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@source_options
def backup(*, directory: Path, server: str | None, data: Path | None) -> None:
    """Copy the database into a new directory while the server runs, and verify the copy by reading all of it."""
    from collector.encryption_key import KEY_FILE
    from collector.secrets import VARIABLE
    from storage.engine.database import FILE_NAME
    from storage.engine.permissions import keep_new_files_private
    from storage.upkeep.checking import count_secrets

    keep_new_files_private()
    one_source(server, data)
    target = directory / FILE_NAME
    if target.exists():
        raise click.ClickException(f"{one_line(str(target))} exists already; choose another directory")
    part = directory / f"{FILE_NAME}.part"
    try:
        with _made(directory, part):
            with find_data(server, data) as source:
                _back_up(source, part)
            _read_back(part, "the copy; the database may be damaged, too: stop the server and run `tracejury check`")
            part.rename(target)
    except OSError as error:
        raise click.ClickException(f"the backup cannot be written: {file_problem(error, directory)}") from error
    click.echo(f"{one_line(str(target))}: {target.stat().st_size / (1 << 20):,.1f} MiB")
    if count := count_secrets(target):
        click.echo(
            f"{count_text(count, 'secret')} in it {'is' if count == 1 else 'are'} encrypted, and the key is not in it: "
            f"keep {KEY_FILE} of the data directory, or {VARIABLE} if it is set, elsewhere"
        )


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option(
    "--data",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="A new data directory.",
)
@click.option(
    "--encryption-key-file",
    "key_file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="`encryption.key` of the original data directory; backups do not contain it.",
)
@click.option("--without-lake", is_flag=True, help="Give up traces that moved to a lake, such as one that is lost.")
def restore(*, directory: Path, data: Path, key_file: Path | None, without_lake: bool) -> None:
    """Restore a backup to a data directory, and verify it by reading all of it and opening it.

    Encrypted data in it requires the server's key: the file `encryption.key`, or TRACEJURY_ENCRYPTION_KEY.
    """
    from collector.encryption_key import BadKeyFile, take_key
    from storage.engine.database import FILE_NAME
    from storage.engine.permissions import keep_new_files_private
    from storage.errors import Unusable
    from storage.store import Store

    keep_new_files_private()
    source, target = directory / FILE_NAME, data / FILE_NAME
    if not source.exists():
        raise click.ClickException(f"{one_line(str(directory))} holds no backup: there is no {FILE_NAME}")
    if target.exists():
        raise click.ClickException(f"{one_line(str(data))} holds a database already; nothing was changed")
    part = data / f"{FILE_NAME}.part"
    try:
        with _made(data, part):
            if key_file is not None:
                take_key(key_file, data)
            shutil.copyfile(source, part)
            _read_back(part, "the backup; take another one")
            part.rename(target)
        with Store.open(data) as store:
            store.rename_in_lake(gives_up=without_lake)
            stored, lost = store.totals.stored, _unreadable(store, data)
    except OSError as error:
        raise click.ClickException(f"the backup cannot be restored: {file_problem(error, data)}") from error
    except (Unusable, BadKeyFile) as error:
        raise click.ClickException(one_line(str(error))) from error
    click.echo(f"{one_line(str(data))}: a data directory into which {count_text(stored, 'span')} were ever stored")
    if lost is not None and key_file is not None:
        raise click.ClickException(one_line(f"with the key of {key_file}, {lost}"))
    if lost is not None:
        click.echo(one_line(lost), err=True)


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path, file_okay=False, exists=True))
def check(*, directory: Path) -> None:
    """Verify a backup, or a data directory that no server uses, by reading all of it.

    Reports damage and changes nothing. Exits with 1 if anything is damaged, or if the server would refuse to start.
    """
    from storage.engine.database import FILE_NAME
    from storage.engine.lock import read_holder
    from storage.errors import Unusable
    from storage.ingest.spool import Position, Spool
    from storage.upkeep.checking import check_database, remedies

    file = directory / FILE_NAME
    if not file.exists():
        raise click.ClickException(f"{one_line(str(directory))} holds no database: there is no {FILE_NAME}")
    if read_holder(directory) is not None:
        raise click.ClickException(f"{one_line(str(directory))} is in use: stop its server first, or check a backup")
    try:
        report = check_database(file)
        spool = Spool.check(directory / "spool", report.position or Position())
    except OSError as error:
        raise click.ClickException(f"it cannot be read completely: {file_problem(error, directory)}") from error
    except Unusable as error:
        raise click.ClickException(one_line(str(error))) from error
    _print_database(report)
    _print_spool(spool, knows_position=report.position is not None)
    if report.damage is not None:
        lines = [f"{report.damage}; these help:", *remedies(directory, report.problem)]
        raise click.ClickException("\n- ".join(map(one_line, lines)))
    if report.refusal is not None:
        raise click.ClickException(one_line(f"the server would not start: {report.refusal}"))
    if spool.damaged or report.lost is not None:
        sys.exit(1)
    click.echo("no damage")


def _reread_by_server(source: ServerClient) -> Iterator[int]:
    """Wait until the server has reread older spans; yield how many are left."""
    from collector.api.responses.server import StatusDocument

    while left := parse_response(StatusDocument, source.get("/api/v1/status")).older_spans:
        yield left
        time.sleep(_LOOK_S)


def _reread_here(data: StoppedData) -> Iterator[int]:
    """Reread the older spans of a directory; yield how many are left."""
    from collector.reading.spans import ConventionsReader
    from collector.reading.updater import TraceUpdater

    with data.store() as store:
        store.require_writable()
        reads = ConventionsReader(data.settings.own_keys)
        traces = TraceUpdater(store.trace_meanings, reads, ingest_is_behind=lambda: False)
        traces.start()
        try:
            while not traces.wait_idle(_LOOK_S):
                yield store.status.status(time.time_ns()).older_spans
        finally:
            traces.close()


def _back_up(source: ServerClient | StoppedData, target: Path) -> None:
    """Write a copy of the database into a file."""
    if isinstance(source, StoppedData):
        with source.store() as store, target.open("w+b") as copy:
            store.backup(copy)
        return
    with source.stream("POST", "/api/v1/backup") as response, target.open("wb") as file:
        for chunk in response.iter_bytes(_CHUNK_BYTES):
            if chunk.strip(b"\0"):
                file.write(chunk)
            else:  # a hole
                file.seek(len(chunk), os.SEEK_CUR)
        file.truncate()
        os.fsync(file.fileno())


@contextmanager
def _made(directory: Path, part: Path) -> Iterator[None]:
    """Make a directory; on exit remove an unfinished file, and the directory if it is new and empty."""
    is_new = not directory.exists()
    directory.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        with suppress(OSError):  # as on a read-only disk, even if the file does not exist
            part.unlink()
        with suppress(OSError):  # it is not empty
            if is_new:
                directory.rmdir()


def _print_spool(spool: "SpoolReport", *, knows_position: bool) -> None:
    """Print how much of the spool is intact, and what happened to the rest."""
    from storage.engine.damage import LOST_RECORDS

    click.echo(f"spool: {count_text(spool.records, 'whole record')}")
    for place in spool.torn:
        click.echo(f"spool: {one_line(place)}, where its server was killed; what it wrote there was not acknowledged")
    for place in spool.damaged:
        click.echo(f"spool: {one_line(place)}", err=True)
    if not spool.damaged:
        return
    if not knows_position:
        outcome = f"unless the database has them, {spool.loss}; {LOST_RECORDS}"
    elif spool.loss.records:
        outcome = f"{spool.loss}; {LOST_RECORDS}"
    else:
        outcome = "all spans and log records in the damaged places are in the database: none is lost"
    click.echo(f"spool: {outcome}; the next start removes what is damaged", err=True)


def _print_database(report: "DatabaseReport") -> None:
    """Print the tables of a database, and the parts of its log that were lost or not read."""
    from storage.engine.damage import LOST_COMMITS

    for table in report.tables:
        rows = "rows not counted" if table.rows is None else count_text(table.rows, "row")
        click.echo(f"{table.name}: {rows}{', damaged' if table.damage else ''}")
    if report.lost is not None:
        click.echo(one_line(f"log: {report.lost}; a start goes on without them: {LOST_COMMITS}"), err=True)
    if report.unread:
        names = ", ".join(path.name for path in report.unread)
        click.echo(f"log: not read, because a kill left it within a checkpoint; the next start reads it: {names}")


def _unreadable(store: "Store", data: Path) -> str | None:
    """Return a message about secrets that no available key decrypts, with the remedy; None if there are none."""
    from collector.encryption_key import KEY_FILE, cannot_be_read, kept_secrets, secrets_for_looking, unreadable
    from collector.secrets import VARIABLE
    from collector.settings_loading import environment_variable

    lost = unreadable(secrets_for_looking(data, environment_variable(VARIABLE) or None), kept_secrets(store))
    if not lost:
        return None
    return (
        f"{cannot_be_read(lost)}; no backup holds their key: copy {KEY_FILE} of the old data directory to "
        f"{data / KEY_FILE}, or set {VARIABLE} for the server as it was; "
        "if the key is lost, set that variable to a new one and enter the secrets again"
    )


def _read_back(copy: Path, advice: str) -> None:
    """Read every value of a copy; refuse a damaged one."""
    from storage.upkeep.checking import check_database

    damage = check_database(copy).damage
    if damage is not None:
        raise click.ClickException(one_line(f"{damage}; nothing was kept of {advice}"))
