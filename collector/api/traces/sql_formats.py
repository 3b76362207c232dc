"""Formats of SQL results, and content negotiation."""

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
from fastapi.responses import Response

from collector.api.base.json_encoding import written_in_pieces
from collector.api.documents.documents import table_document
from collector.api.responses.base import json_value
from collector.spreadsheet import safe_cell
from storage.records import Table

TRUNCATED = "tracejury-truncated"
"""The header that is `true` if rows were left out, for formats that cannot say so themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableForm:
    """A format that is written by rows."""

    media_type: str
    write: Callable[[Table], Response]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowForm:
    """A format that is written by columns."""

    media_type: str
    write: Callable[[pa.Table], bytes]


def _csv(table: Table, shown: Callable[[str], str]) -> Response:
    """Write CSV with a header; arrays and maps as JSON, NULL empty."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([shown(column.name) for column in table.columns])
    for row in table.rows:
        cells = [_cell(json_value(value)) for value in row]
        writer.writerow([shown(cell) if isinstance(cell, str) else cell for cell in cells])
    return Response(text.getvalue(), media_type="text/csv", headers=truncation(is_cut=table.truncated))


def _cell(value: object) -> object:
    match value:
        case None:
            return ""
        case bool() | list() | dict():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return value


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())


def truncation(*, is_cut: bool) -> dict[str, str]:
    """Return the header that marks a truncated result."""
    return {TRUNCATED: "true"} if is_cut else {}


FORMS: dict[str, TableForm | ArrowForm] = {
    "json": TableForm(media_type="application/json", write=lambda table: written_in_pieces(table_document(table))),
    "csv": TableForm(media_type="text/csv", write=partial(_csv, shown=safe_cell)),
    "rawcsv": TableForm(media_type="text/csv", write=partial(_csv, shown=str)),
    "arrow": ArrowForm(media_type="application/vnd.apache.arrow.stream", write=_stream),
    "parquet": ArrowForm(media_type="application/vnd.apache.parquet", write=_parquet),
}


def form_of(name: str | None, accept: str) -> TableForm | ArrowForm:
    """Return the named format, else the first that `Accept` lists, else JSON."""
    if name is not None:
        return FORMS[name]
    accepted = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    by_type = {form.media_type: form for form in reversed(FORMS.values())}  # the first of a type wins
    return next((by_type[each] for each in accepted if each in by_type), FORMS["json"])
