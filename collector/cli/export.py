"""`tracejury export`: stored spans as files."""

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

import click

from collector.cli.client import DamagedData, ServerClient, StoppedData, find_data
from collector.cli.connecting import NoAnswer
from collector.cli.options import one_source, source_options
from collector.cli.times import PAST
from collector.cli.whole_file import whole_file
from collector.escaping import file_problem, one_line
from collector.units import count_text

if TYPE_CHECKING:
    import httpx
    import pyarrow as pa

    from storage.query.exports import DamagedRange, Exports

_DAY = dt.timedelta(days=1)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LAST = dt.datetime(2261, 1, 1, tzinfo=dt.UTC)  # a year before DuckDB's nanoseconds end

_ROW_GROUP_ROWS: Final = 8192
_ROW_GROUP_BYTES: Final = 16 << 20  # a guess: 8,192 spans are some 20 MB, and readers load whole row groups


class SpanSource(Protocol):
    """Source of spans for exports. Damaged spans are left out, and appended to `unread`."""

    def spans(self, from_ns: int, to_ns: int, unread: "list[DamagedRange]") -> "Iterator[pa.RecordBatch]":
        """Yield the spans that start between two instants, by time, after an empty batch with the schema."""

    def otlp_lines(self, from_ns: int, to_ns: int, unread: "list[DamagedRange]") -> Iterator[bytes]:
        """Yield the spans that start between two instants as OTLP/JSON export requests, some whole lines at a time."""


class _StoredSpans:
    """Spans of a database, read without the API, which needs an undamaged data directory."""

    def __init__(self, exports: "Exports") -> None:
        self._exports = exports

    def spans(self, from_ns: int, to_ns: int, unread: "list[DamagedRange]") -> "Iterator[pa.RecordBatch]":
        return self._exports.rows(from_ns, to_ns, tenant=None, unread=unread)

    def otlp_lines(self, from_ns: int, to_ns: int, unread: "list[DamagedRange]") -> Iterator[bytes]:
        from collector.otlp.encode import json_lines

        return json_lines(self._exports.spans(from_ns, to_ns, tenant=None, unread=unread))


class _ServedSpans:
    """Spans of a server."""

    def __init__(self, client: ServerClient) -> None:
        self._client = client

    def spans(self, from_ns: int, to_ns: int, unread: "list[DamagedRange]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        from storage.query.exports import LEFT_OUT, left_out_in

        with self._export(from_ns, to_ns, form="arrow") as response:
            reader = pa.ipc.open_stream(_Body(response.iter_bytes()))
            yield pa.RecordBatch.from_pylist([], schema=reader.schema)
            for batch, metadata in reader.iter_batches_with_custom_metadata():
                if metadata is not None and LEFT_OUT in metadata:
                    unread += left_out_in(metadata[LEFT_OUT])
                else:
                    yield batch

    def otlp_lines(self, from_ns: int, to_ns: int, unread: "list[DamagedRange]") -> Iterator[bytes]:
        from collector.otlp.encode import LINES_TYPE
        from storage.query.exports import LEFT_OUT, left_out_in

        begin = f'{{"{LEFT_OUT}":'.encode()
        with self._export(from_ns, to_ns, form="otlp-json") as response:
            if not response.headers.get("content-type", "").startswith(LINES_TYPE):  # from an older server
                raise NoAnswer(f"the server at {self._client.address} cannot export OTLP; use its own version")
            for lines in _whole_lines(response.iter_bytes()):
                rest, end, last = lines[:-1].rpartition(b"\n")
                if last.startswith(begin):
                    unread += left_out_in(last[len(begin) : -1])
                    yield from [rest + end] * bool(rest)
                else:
                    yield lines

    def _export(self, from_ns: int, to_ns: int, *, form: str) -> "AbstractContextManager[httpx.Response]":
        from collector.api.base.times import time_text

        bounds = {"from": time_text(from_ns) or "1970-01-01T00:00:00Z", "to": time_text(to_ns) or ""}
        return self._client.stream("GET", "/api/v1/export/spans", bounds | {"format": form, "damage": "leave-out"})


class _Body:
    """Body of a response as a file object."""

    closed = False

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def read(self, size: int) -> bytes:
        """Return `size` bytes, or fewer at the end."""
        parts, missing = [self._rest], size - len(self._rest)
        while missing > 0 and (chunk := next(self._chunks, b"")):
            parts.append(chunk)
            missing -= len(chunk)
        data = b"".join(parts)
        self._rest = data[size:]
        return data[:size]

    def close(self) -> None:
        """Do nothing: the code that opened the response closes it."""


def _whole_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the chunks again, cut at line ends."""
    parts: list[bytes] = []
    for chunk in chunks:
        lines, end, begun = chunk.rpartition(b"\n")
        if end:
            yield b"".join([*parts, lines, end])
            parts = [begun]
        else:
            parts.append(chunk)


@contextmanager
def _open_spans(server: str | None, data: Path | None) -> Iterator[SpanSource]:
    """Open the spans that the options name, also those of a damaged database, on which no server can start."""
    with ExitStack() as stack:
        source = stack.enter_context(find_data(server, data))
        if isinstance(source, ServerClient):
            yield _ServedSpans(source)
        else:
            yield _StoredSpans(_exports(source, stack))


def _exports(source: StoppedData, stack: ExitStack) -> "Exports":
    try:
        return stack.enter_context(source.store()).exports
    except DamagedData as error:
        click.echo(f"{error.message}. Reading the database without what only the spool holds", err=True)
        return stack.enter_context(_open_damaged(error.data))


@contextmanager
def _open_damaged(data: Path) -> "Iterator[Exports]":
    from storage.engine.database import Database, DatabaseOptions
    from storage.engine.lock import DirectoryLock
    from storage.engine.read_database import ReadDatabase
    from storage.errors import Damaged, Unusable
    from storage.query.exports import Exports

    try:
        with DirectoryLock(data, only_reads=True):
            database = Database(data, DatabaseOptions(), is_read_only=True)
            try:
                yield Exports(ReadDatabase(database))
            finally:
                database.close()
    except (Damaged, Unusable) as error:
        raise NoAnswer(one_line(str(error))) from error


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--from", "start", required=True, type=PAST, metavar="TIME", help="The first day, UTC, or a time in it.")
@click.option(
    "--to",
    "end",
    type=PAST,
    metavar="TIME",
    help="The day after the last, UTC, or a time in the last. [default: tomorrow]",
)
@click.option("--format", "form", default="parquet", show_default=True, type=click.Choice(["parquet", "otlp-json"]))
@source_options
def export(
    *, directory: Path, start: dt.datetime, end: dt.datetime | None, form: str, server: str | None, data: Path | None
) -> None:
    """Export the spans that start on each day, by time, to DIR/day=YYYY-MM-DD/. Days without spans are omitted.

    Parquet files contain the rows of the view `spans`. In otlp-json, each line is an export request of some hundred
    spans, grouped by resource and scope; `tracejury send` accepts these files.

    Incomplete files, also of an interrupted export, end in `.part`.
    """
    one_source(server, data)
    days = _days(start, end, dt.datetime.now(dt.UTC))
    write = _FORMS[form]
    unread: list[DamagedRange] = []
    try:
        with _open_spans(server, data) as source:
            for day in days:
                folder = directory / f"day={day:%Y-%m-%d}"
                count = write(source, folder, (_nanoseconds(day), _nanoseconds(day + _DAY)), unread)
                if count:
                    click.echo(f"{one_line(str(folder))}: {count_text(count, 'span')}")
    except OSError as error:
        raise click.ClickException(f"the export cannot be written: {file_problem(error, directory)}") from error
    if unread:
        raise click.ClickException(_damage_text(unread))


def _damage_text(unread: "Sequence[DamagedRange]") -> str:
    counted = count_text(sum(each.rows or 0 for each in unread), "span")
    more = ", and others that cannot be counted" * any(each.rows is None for each in unread)
    first, last = (_EPOCH + dt.timedelta(microseconds=ns // 1000) for ns in (unread[0].first_ns, unread[-1].last_ns))
    return f"the data is damaged: {counted}{more} are left out, which start between {first} and {last}"


def _days(start: dt.datetime, end: dt.datetime | None, now: dt.datetime) -> list[dt.datetime]:
    """Return the days from `start` to before `end`, or up to now without an end."""
    for option, day in (("--from", start), ("--to", end)):
        if day is not None and not _EPOCH <= day <= _LAST:
            raise click.BadParameter(f"{day:%Y-%m-%d} is not between 1970-01-01 and 2261-01-01", param_hint=option)
    if end is None and start > now:
        raise click.BadParameter(f"{start:%Y-%m-%d} has not come yet; give --to as well", param_hint="--from")
    start, last = _day(start), _day(now if end is None else end - dt.timedelta.resolution) + _DAY
    if last <= start:
        raise click.BadParameter("must be later than --from; it is the day after the last day", param_hint="--to")
    return [start + number * _DAY for number in range((last - start) // _DAY)]


def _day(moment: dt.datetime) -> dt.datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _nanoseconds(moment: dt.datetime) -> int:
    return (moment - _EPOCH) // dt.timedelta(microseconds=1) * 1000


@contextmanager
def _file_in(folder: Path, name: str) -> Iterator[BinaryIO]:
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with whole_file(folder / name) as file:
            yield file
    finally:
        with suppress(OSError):  # the folder is not empty
            folder.rmdir()


def _parquet(source: SpanSource, folder: Path, bounds_ns: tuple[int, int], unread: "list[DamagedRange]") -> int:
    import pyarrow.parquet as pq

    batches = source.spans(*bounds_ns, unread)
    schema, rows = next(batches).schema, 0
    first = next(batches, None)
    if first is None:
        return 0
    with (
        _file_in(folder, "spans.parquet") as file,
        pq.ParquetWriter(file, schema, compression="zstd") as writer,
    ):
        for table in _row_groups(chain([first], batches)):
            writer.write_table(table)
            rows += table.num_rows
    return rows


def _row_groups(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.Table]":
    """Join batches to tables of the size of a row group."""
    import pyarrow as pa

    gathered: list[pa.RecordBatch] = []
    rows = nbytes = 0
    for batch in batches:
        gathered.append(batch)
        rows, nbytes = rows + batch.num_rows, nbytes + batch.nbytes
        if rows >= _ROW_GROUP_ROWS or nbytes >= _ROW_GROUP_BYTES:
            yield pa.Table.from_batches(gathered)
            gathered, rows, nbytes = [], 0, 0
    if gathered:
        yield pa.Table.from_batches(gathered)


def _otlp(source: SpanSource, folder: Path, bounds_ns: tuple[int, int], unread: "list[DamagedRange]") -> int:
    from collector.otlp.encode import spans_in

    lines = source.otlp_lines(*bounds_ns, unread)
    first = next(lines, None)
    if first is None:
        return 0
    spans = 0
    with _file_in(folder, "traces.jsonl") as file:
        for text in chain([first], lines):
            file.write(text)
            spans += spans_in(text)
    return spans


_FORMS: "Final[dict[str, Callable[[SpanSource, Path, tuple[int, int], list[DamagedRange]], int]]]" = {
    "parquet": _parquet,
    "otlp-json": _otlp,
}
