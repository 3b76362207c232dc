"""Files of items: JSON, JSONL, CSV and Parquet, read row by row. Errors name the line or row."""

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, BinaryIO, Final, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from collector.datasets.apart import Unread, path_of, read_apart
from collector.datasets.item import ITEM, read_item
from collector.json_values import MOST_VALUES, has_more_values
from storage.limit import Limit
from storage.offline.datasets import MOST_ITEMS, VERSION
from tracejury.dataset_text import (
    LEFT_OUT,
    MAX_COLUMNS,
    MAX_ITEM_BYTES,
    BadFile,
    Documents,
    ItemText,
    csv_documents,
    document_of_row,
    json_documents,
    jsonl_documents,
    parsed,
)

Format: TypeAlias = Literal["json", "jsonl", "csv", "parquet"]

MEDIA_TYPES: Final[Mapping[str, Format]] = {
    "application/json": "json",
    "application/x-ndjson": "jsonl",
    "application/jsonl": "jsonl",
    "text/csv": "csv",
    "application/vnd.apache.parquet": "parquet",
}

FORMS: Final[tuple[Format, ...]] = ("json", "jsonl", "csv", "parquet")

MAX_JSON_FILE_BYTES: Final = 64 << 20
"""Limit of a JSON document, which is parsed as a whole; a larger one has to be sent as JSONL. A guess."""

MOST_FILE_BYTES: Final = 1 << 30
"""Limit of a file, also when it is unpacked."""

_COLUMNS: Final = Limit(value=MAX_COLUMNS, unit="columns", remedy="join some of them")
_FILE: Final = Limit(value=MOST_FILE_BYTES, unit="bytes", remedy="send it in parts, by mode=append")
_JSON_DOCUMENT: Final = Limit(value=MAX_JSON_FILE_BYTES, unit="bytes", remedy="send JSONL, which may be longer")
_DESCRIPTION: Final = "description"
_ROWS_AT_ONCE, _BYTES_AT_ONCE, _BUFFER_BYTES = 256, 16 << 20, 1 << 20


def read_items(
    file: BinaryIO,
    form: Format,
    described: Callable[[str], None] = lambda _: None,
    left_out: Callable[[str], None] = lambda _: None,
) -> Iterator[tuple[str, ItemText]]:
    """Yield the items of a file in their order, each with its line or row.

    `described` is called with the description that a JSON document has beside its items, before the first of them;
    `left_out` with the place of each empty row of a table.

    Raises:
        BadFile: something in it is wrong; the items before it were yielded.
    """
    none, empty = True, 0
    for place, document in _documents(file, form):
        if place == _DESCRIPTION:
            described(str(document))
            continue
        if place == LEFT_OUT:
            left_out(str(document))
            empty += 1
            continue
        try:
            item = read_item(document)
        except ValueError as error:
            raise BadFile(f"{place}: {error}") from None
        none = False
        yield place, item
    if none:
        raise BadFile(f"there is no item in it{f', and {empty:,} rows without a value' if empty else ''}")


def in_this_process(file: BinaryIO, form: Format) -> Iterator[tuple[str, object]]:
    """Yield the documents of a file, each with its line or row. The memory for them is not bounded.

    Raises:
        BadFile: something in it is wrong.
    """
    try:
        yield from _READERS[form](file)
    except MemoryError:
        raise BadFile(f"reading this {form} takes too much memory; {_LESS_MEMORY[form]}") from None


def _documents(file: BinaryIO, form: Format) -> Iterator[tuple[str, object]]:
    """Yield the documents of a file. Parquet, and JSON of many values, are read in a child process.

    They take much more memory than the size of the file, or hold the GIL.
    """
    path = (
        path_of(file) if form == "parquet" or (form == "json" and has_more_values(_content(file), MOST_VALUES)) else ""
    )
    if not path:
        yield from in_this_process(file, form)
        return
    size = 0
    try:
        for place, text in read_apart(path, form):
            size += len(text)
            if size > MOST_FILE_BYTES:
                raise BadFile(f"{place}: unpacked, it has more than {_FILE}")
            yield place, _parsed(text.encode(), f"{place}: ")
    except Unread as error:
        raise BadFile(f"{error}; {_LESS_MEMORY[form]}" if error.is_lost else str(error)) from None


def _content(file: BinaryIO) -> bytes:
    content = file.read(MAX_JSON_FILE_BYTES + 1)
    file.seek(0)
    if len(content) > MAX_JSON_FILE_BYTES:
        raise BadFile(f"a JSON document has at most {_JSON_DOCUMENT}")
    return content


def _json(file: BinaryIO) -> Documents:
    document = _parsed(_content(file).removeprefix(b"\xef\xbb\xbf"), most=None)
    if isinstance(document, Mapping) and (description := document.get("description")):
        yield _DESCRIPTION, description  # as a document: a child process can send nothing else
    yield from json_documents(document)


def _jsonl(file: BinaryIO) -> Documents:
    return jsonl_documents(file, _parsed)


def _csv(file: BinaryIO) -> Documents:
    return csv_documents(file, _parsed)


def _parquet(file: BinaryIO) -> Iterator[tuple[str, object]]:
    try:
        parquet = _opened(file)
        sizes = [parquet.metadata.row_group(each) for each in range(parquet.metadata.num_row_groups)]
        row_bytes = max((each.total_byte_size // max(1, each.num_rows) for each in sizes), default=1)
        rows_at_once = min(max(1, _BYTES_AT_ONCE // max(1, row_bytes)), _ROWS_AT_ONCE)
        number = 0
        for batch in parquet.iter_batches(batch_size=rows_at_once, use_threads=False):
            step = batch.num_rows if _longest(batch) * batch.num_rows <= _BYTES_AT_ONCE else 1
            for row in (row for at in range(0, batch.num_rows, step) for row in batch.slice(at, step).to_pylist()):
                number += 1
                long = next(
                    (name for name, value in row.items() if isinstance(value, str) and len(value) > MAX_ITEM_BYTES),
                    None,
                )
                if long is not None:
                    size = f"{len(row[long]):,} characters"
                    raise BadFile(f"row {number}: column {long!r}: {size}, and an item has at most {ITEM}")
                if all(value is None for value in row.values()):
                    yield LEFT_OUT, f"row {number}"
                else:
                    yield f"row {number}", _of_row(row, f"row {number}: ")
    except pa.ArrowMemoryError:
        raise MemoryError from None
    except (pa.ArrowException, OSError) as error:
        raise BadFile(f"it is not Parquet that can be read: {error}") from None


def _longest(batch: pa.RecordBatch) -> int:
    dictionaries = [each.dictionary for each in batch.columns if isinstance(each, pa.DictionaryArray)]
    return sum(pc.max(pc.binary_length(each)).as_py() or 0 for each in dictionaries)


def _opened(file: BinaryIO) -> pq.ParquetFile:
    """Open a file that is not larger than allowed; texts in dictionaries stay there."""
    metadata = pq.read_metadata(file)
    if metadata.num_rows > MOST_ITEMS:
        raise BadFile(f"it has {metadata.num_rows:,} rows, and a version at most {VERSION}")
    if metadata.num_columns > _COLUMNS.value:
        raise BadFile(f"it has {metadata.num_columns:,} columns, which is more than {_COLUMNS}")
    columns = [metadata.schema.column(each) for each in range(metadata.num_columns)]
    texts = [each.path for each in columns if each.physical_type == "BYTE_ARRAY" and "." not in each.path]
    file.seek(0)
    return pq.ParquetFile(file, read_dictionary=texts, buffer_size=_BUFFER_BYTES)


def _of_row(row: Mapping[str, Any], place: str) -> dict[str, Any]:
    is_json = any(name.lower() == "inputs" for name in row)
    values = row if is_json else {name: _plain(each, place) for name, each in row.items()}
    return document_of_row(values, place, _parsed)


def _plain(value: object, place: str) -> object:
    """Convert a value of a column to JSON."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, list):
        return [_plain(each, place) for each in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(each, place) for key, each in value.items()}
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise BadFile(f"{place}a value of the type {type(value).__name__} has no place in JSON")


def _parsed(content: bytes, place: str = "", *, most: int | None = MOST_VALUES) -> Any:  # noqa: ANN401 - JSON
    if most is not None and has_more_values(content, most):
        raise BadFile(f"{place}more than {Limit(value=most, unit='values', remedy='leave some out')}")
    return parsed(content, place)


_LESS_MEMORY: Final[Mapping[Format, str]] = dict.fromkeys(FORMS, "send it in parts, by mode=append") | {
    "json": "send JSONL",
    "parquet": "write it with smaller row groups and pages, or send JSONL",
}

_READERS: Final[Mapping[Format, Callable[[BinaryIO], Iterator[tuple[str, object]]]]] = {
    "json": _json,
    "jsonl": _jsonl,
    "csv": _csv,
    "parquet": _parquet,
}
