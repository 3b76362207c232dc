"""`tracejury export`: what is stored, as files for others."""

import datetime as dt
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import click

from collector.cli.options import one_source, source_options
from collector.cli.source import Source, open_source
from collector.units import count_text

_DAY = dt.timedelta(days=1)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_PAGE = 1_000
_TRACES = """
    SELECT trace_id FROM traces
    WHERE start_time >= make_timestamp_ns($from_ns) AND start_time < make_timestamp_ns($to_ns) AND trace_id > $after
    ORDER BY trace_id LIMIT 1000
"""


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--from", "start", required=True, type=click.DateTime(["%Y-%m-%d"]), help="The first day, UTC.")
@click.option("--to", "end", required=True, type=click.DateTime(["%Y-%m-%d"]), help="The day after the last.")
@click.option("--format", "form", default="parquet", show_default=True, type=click.Choice(["parquet", "otlp-json"]))
@source_options
def export(
    *, directory: Path, start: dt.datetime, end: dt.datetime, form: str, server: str | None, data: Path | None
) -> None:
    """Write the spans of each day into DIR/day=YYYY-MM-DD/, days without any left out.

    Parquet holds the rows of the view `spans` that start on that day; otlp-json the traces that start on that day, an
    export request a line, as `tracejury send` takes them.
    """
    one_source(server, data)
    if end <= start:
        raise click.UsageError("--to is the day after the last, so it lies after --from")
    write, what = _FORMS[form]
    with open_source(server, data) as source:
        for day in _days(start.replace(tzinfo=dt.UTC), end.replace(tzinfo=dt.UTC)):
            folder = directory / f"day={day:%Y-%m-%d}"
            count = write(source, folder, _nanoseconds(day), _nanoseconds(day + _DAY))
            if count:
                click.echo(f"{folder}: {count_text(count, what)}")


def _days(start: dt.datetime, end: dt.datetime) -> Iterator[dt.datetime]:
    while start < end:
        yield start
        start += _DAY


def _nanoseconds(moment: dt.datetime) -> int:
    return (moment - _EPOCH) // dt.timedelta(microseconds=1) * 1000


def _parquet(source: Source, folder: Path, from_ns: int, to_ns: int) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    batches = source.spans(from_ns, to_ns)
    schema, writer, rows = next(batches).schema, None, 0
    part = folder / "spans.parquet.part"
    try:
        for batch in batches:
            if writer is None:
                folder.mkdir(parents=True, exist_ok=True)
                writer = pq.ParquetWriter(part, schema, compression="zstd")
            writer.write_table(pa.Table.from_batches([batch]))
            rows += batch.num_rows
    finally:
        if writer is not None:
            writer.close()
    if writer is not None:
        part.rename(folder / "spans.parquet")
    return rows


def _otlp(source: Source, folder: Path, from_ns: int, to_ns: int) -> int:
    traces = 0
    part = folder / "traces.jsonl.part"
    for trace_id in _trace_ids(source, from_ns, to_ns):
        document = source.otlp(trace_id)
        if document is None:  # it left meanwhile
            continue
        folder.mkdir(parents=True, exist_ok=True)
        with part.open("a" if traces else "w", encoding="utf-8") as file:
            file.write(json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n")
        traces += 1
    if traces:
        part.rename(folder / "traces.jsonl")
    return traces


def _trace_ids(source: Source, from_ns: int, to_ns: int) -> Iterator[str]:
    after = ""
    while True:
        rows = source.sql(_TRACES, {"from_ns": from_ns, "to_ns": to_ns, "after": after})["rows"]
        ids = [str(row[0]) for row in rows] if isinstance(rows, list) else []
        yield from ids
        if len(ids) < _PAGE:
            return
        after = ids[-1]


_FORMS: Final[dict[str, tuple[Callable[[Source, Path, int, int], int], str]]] = {
    "parquet": (_parquet, "span"),
    "otlp-json": (_otlp, "trace"),
}
