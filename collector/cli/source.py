"""Where the commands read from: a running server, or the data directory when none runs."""

import shlex
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import click

from collector.cli.connecting import (
    DEFAULT_SERVER,
    NO_PARAMETERS,
    Document,
    NoAnswer,
    Parameters,
    ServerUnreachable,
    chosen_server,
    connect,
    listens,
    reachable,
)
from collector.cli.directory import Directory, StoredSpans, read_settings
from collector.cli.server import Server
from collector.visible import file_problem, one_line, some_lines
from storage.records import ANY_JUDGING, Judging

if TYPE_CHECKING:
    import pyarrow as pa

    from collector.settings import Settings
    from storage.query.exports import Unread
    from storage.store import Store


class SpanSource(Protocol):
    """The spans that exports read. Damaged ones are left out, and appended to `unread`."""

    def spans(self, from_ns: int, to_ns: int, unread: "list[Unread]") -> "Iterator[pa.RecordBatch]":
        """The spans that start between two instants, by time, after an empty batch with the schema."""

    def otlp_lines(self, from_ns: int, to_ns: int, unread: "list[Unread]") -> Iterator[bytes]:
        """The spans that start between two instants, as OTLP/JSON export requests, some whole lines at a time."""


class Source(SpanSource, Protocol):
    """A server or a directory that commands read. Documents are those of the HTTP API."""

    def traces(self, *, project: str | None, limit: int, judging: Judging = ANY_JUDGING) -> list[Document]:
        """The newest traces, or those that were judged so."""

    def rules(self) -> Document:
        """All rules, what each did of late, and what is wrong with files."""

    def status(self) -> Document:
        """How it stands."""

    def trace(self, trace_id: str) -> Document | None:
        """One trace with its spans."""

    def otlp(self, trace_id: str) -> Document | None:
        """One trace as an OTLP/JSON export request."""

    def sql(self, statement: str, parameters: Parameters = NO_PARAMETERS) -> Document:
        """The answer to a query; `parameters` are what its `$name`s stand for."""

    def deletions(self, *, limit: int) -> list[Document]:
        """The latest deletions, and how far each is."""

    def sweep(self, *, dry_run: bool, is_confirmed: bool) -> Document:
        """Let expired traces leave, or say what would."""

    def reread(self) -> Iterator[int]:
        """Have the spans read again that an older version read; how many are left, at last 0."""

    def backup(self, target: Path) -> None:
        """Write a copy of the database to a file."""

    def jobs(self, wanted: Mapping[str, str], *, limit: int) -> list[Document]:
        """The newest jobs, of a `state`, `rule` and `trace` where these are given."""

    def retry_job(self, job_id: int) -> int:
        """Evaluate a failed job again; how many are."""

    def retry_failed(self, filters: Mapping[str, str]) -> int:
        """Evaluate again what failed, of a `rule` and with an `errorKind` where these are given; how many are."""

    def connections(self) -> list[Document]:
        """The connections to models that judge."""

    def try_connection(self, connection_id: str) -> Document:
        """Whether a connection works."""


@contextmanager
def open_source(server: str | None, data: Path | None) -> Iterator[Source]:
    """The source that the options name, or the environment; else the default server, or the default directory.

    Raises:
        click.ClickException: there is none, said in one sentence.
    """
    named = chosen_server() if server is None and data is None else server
    if named is not None:
        with connect(named) as client:
            yield Server(client)
        return
    if data is None:
        with connect(DEFAULT_SERVER) as client:
            if listens(client):
                yield Server(client)
                return
    with _open_directory(data) as source:
        yield source


@contextmanager
def open_spans(server: str | None, data: Path | None) -> Iterator[SpanSource]:
    """The source as of `open_source`; a database that no server can start on, because it is damaged, is read alone.

    Raises:
        click.ClickException: as `open_source`.
    """
    with ExitStack() as stack:
        source: SpanSource
        try:
            source = stack.enter_context(open_source(server, data))
        except _DamagedData as error:
            click.echo(f"{error.message}. Reading the database without what only the spool holds", err=True)
            source = stack.enter_context(_open_damaged(error.data))
        yield source


class _DamagedData(ServerUnreachable):
    """The data directory cannot be opened, because it is damaged."""

    def __init__(self, data: Path, error: Exception) -> None:
        check = f"run `tracejury check {shlex.quote(str(data))}`, which names the commands that help"
        super().__init__(one_line(f"{error}; {check}"))
        self.data = data


@contextmanager
def _open_damaged(data: Path) -> Iterator[StoredSpans]:
    from storage.engine.database import Database, DatabaseOptions
    from storage.engine.lock import DirectoryLock
    from storage.engine.read_database import ReadDatabase
    from storage.errors import Damaged, Unusable
    from storage.query.exports import Exports

    try:
        with DirectoryLock(data, only_reads=True):
            database = Database(data, DatabaseOptions(), is_read_only=True)
            try:
                yield StoredSpans(Exports(ReadDatabase(database)))
            finally:
                database.close()
    except (Damaged, Unusable) as error:
        raise NoAnswer(one_line(str(error))) from error


@contextmanager
def _open_directory(chosen: Path | None) -> Iterator[Source]:
    """The server that holds the directory, or the directory itself; it is never created."""
    from storage.engine.lock import read_holder
    from storage.errors import Damaged, StorageError

    settings = read_settings(None, {} if chosen is None else {"data": chosen})
    data = settings.data
    holder = read_holder(data)
    if holder is not None and holder.get("http"):
        with connect(reachable(holder["http"])) as client:
            yield Server(client)
        return
    try:
        with _open_store(settings, nowhere="" if chosen else f"no server answers at {DEFAULT_SERVER} and ") as store:
            yield Directory(store, settings)
    except Damaged as error:
        raise _DamagedData(data, error) from error
    except StorageError as error:  # as a change of a read-only directory, or a full disk
        raise NoAnswer(some_lines(str(error))) from error


def _open_store(settings: "Settings", *, nowhere: str) -> "Store":
    """Open the data directory of the settings, which is never made.

    Raises:
        ServerUnreachable: it cannot be opened; `nowhere` begins the sentence if there is none.
    """
    from collector.parts import aging_options
    from collector.reading.spans import ConventionsReader
    from storage.engine.damage import is_damage_text
    from storage.engine.database import FILE_NAME
    from storage.errors import Damaged, Unusable
    from storage.ingest.writer import WriterOptions
    from storage.store import Store, StoreOptions

    data = settings.data
    options = StoreOptions(
        writer=WriterOptions(reads=ConventionsReader(settings.own_keys)),
        aging=aging_options(settings),
        may_only_read=True,
    )
    try:
        if (data / FILE_NAME).exists():
            return Store.open(data, options)
    except (Damaged, Unusable) as error:
        if is_damage_text(str(error)):
            raise _DamagedData(data, error) from error
        raise ServerUnreachable(some_lines(str(error))) from error
    except OSError as error:
        raise ServerUnreachable(file_problem(error, data)) from error
    raise ServerUnreachable(
        f"{nowhere}there is no data in {one_line(str(data))}; start a server with `tracejury serve`"
    )
