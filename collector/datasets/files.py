"""Files of items: JSON, JSONL, CSV and Parquet, read row by row. What is wrong is told with its line or row."""

import io
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, BinaryIO, Final, Literal, TextIO, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from collector.datasets.item import MAX_ITEM_BYTES, ItemText, read_item
from evaluators.wire import parse_json
from storage.offline.datasets import MOST_ITEMS

Format: TypeAlias = Literal["json", "jsonl", "csv", "parquet"]

MEDIA_TYPES: Final[Mapping[str, Format]] = {
    "application/json": "json",
    "application/x-ndjson": "jsonl",
    "application/jsonl": "jsonl",
    "text/csv": "csv",
    "application/vnd.apache.parquet": "parquet",
}

MAX_JSON_FILE_BYTES: Final = 64 << 20
"""A JSON document is parsed as a whole. A guess; what is larger comes as JSONL."""

_ROWS_AT_ONCE: Final = 256
_MAPS: Final = {"inputs": "inputs", "expectedoutputs": "expectedOutputs", "metadata": "metadata", "source": "source"}
_EXPECTED: Final = ("expectedoutput", "expected_output", "output")
_CELL: Final = re.compile(r'[ \t]*+"([^"]*+(?:""[^"]*+)*+)"[ \t]*+(?=,|\Z)|([^,"]*+)(?=,|\Z)')


class BadFile(ValueError):
    """A file of which no items can be read; the message says in which line or row."""


def read_items(file: BinaryIO, form: Format) -> Iterator[tuple[str, ItemText]]:
    """The items of a file in their order, each with the line or row where it stands.

    Raises:
        BadFile: something in it is wrong; the items before it were handed out.
    """
    none = True
    for place, document in _READERS[form](file):
        try:
            item = read_item(document)
        except ValueError as error:
            raise BadFile(f"{place}: {error}") from None
        none = False
        yield place, item
    if none:
        raise BadFile("there is no item in it")


def _json(file: BinaryIO) -> Iterator[tuple[str, object]]:
    content = file.read(MAX_JSON_FILE_BYTES + 1)
    if len(content) > MAX_JSON_FILE_BYTES:
        raise BadFile(f"a JSON document has at most {MAX_JSON_FILE_BYTES >> 20} MiB; JSONL may be longer")
    document = _parsed(content.removeprefix(b"\xef\xbb\xbf"))
    examples = document.get("examples", document.get("items")) if isinstance(document, dict) else document
    if not isinstance(examples, list):
        raise BadFile('it is no dataset: {"name": …, "examples": […]} or a list of items is')
    for number, example in enumerate(examples, start=1):
        yield f"example {number}", example


def _jsonl(file: BinaryIO) -> Iterator[tuple[str, object]]:
    number = 0
    while line := file.readline(MAX_ITEM_BYTES + 1):
        number += 1
        if len(line) > MAX_ITEM_BYTES:
            raise BadFile(f"line {number}: longer than {MAX_ITEM_BYTES} bytes")
        text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if text.strip():
            yield f"line {number}", _parsed(text, f"line {number}: ")


def _csv(file: BinaryIO) -> Iterator[tuple[str, object]]:
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    try:
        records = _records(text)
        _, header = next(records, (0, []))
        names = [name.strip() for name in header]
        lower = [name.lower() for name in names]
        if len(set(lower)) < len(lower):
            raise BadFile("line 1: two columns have one name")
        if "input" not in lower and "inputs" not in lower:
            raise BadFile("line 1: there is no column `input`")
        for line, cells in records:
            if len(cells) > len(names):
                raise BadFile(f"line {line}: {len(cells)} cells, and the header has {len(names)}")
            row = dict(zip(names, cells, strict=False))
            yield f"line {line}", _of_row(row, f"line {line}: ")
    except UnicodeDecodeError as error:
        raise BadFile(f"it is not UTF-8: {error}") from None
    finally:
        text.detach()  # the file is closed by whoever opened it


def _records(file: TextIO) -> Iterator[tuple[int, list[str]]]:
    """The records of RFC 4180, each with the line where it begins: cells in quotes as they are, others trimmed."""
    number = 0
    while text := file.readline(MAX_ITEM_BYTES):
        number += 1
        begins, lines, size, is_open = number, [text], len(text), text.count('"') % 2
        while is_open:
            more = file.readline(MAX_ITEM_BYTES)
            number += 1
            size += len(more)
            if not more or size > MAX_ITEM_BYTES:
                raise BadFile(f"line {begins}: a quote is not closed")
            lines.append(more)
            is_open ^= more.count('"') % 2
        record = "".join(lines).rstrip("\r\n")
        if record.strip():
            yield begins, _cells(record, begins)


def _cells(record: str, line: int) -> list[str]:
    cells, at = [], 0
    while True:
        found = _CELL.match(record, at)
        if found is None:
            raise BadFile(f"line {line}: a quote stands inside of a cell; a cell with quotes is written in quotes")
        quoted, plain = found.groups()
        cells.append(plain.strip() if quoted is None else quoted.replace('""', '"'))
        at = found.end() + 1
        if found.end() >= len(record):
            return cells


def _parquet(file: BinaryIO) -> Iterator[tuple[str, object]]:
    try:
        parquet = pq.ParquetFile(file)
        if parquet.metadata.num_rows > MOST_ITEMS:
            raise BadFile(f"it has {parquet.metadata.num_rows:,} rows, and a version at most {MOST_ITEMS:,}")
        number = 0
        for batch in parquet.iter_batches(batch_size=_ROWS_AT_ONCE):
            for row in batch.to_pylist():
                number += 1
                yield f"row {number}", _of_row(row, f"row {number}: ")
    except (pa.ArrowException, OSError) as error:
        raise BadFile(f"it is not Parquet that can be read: {error}") from None


def _of_row(row: Mapping[str, Any], place: str) -> dict[str, Any]:
    """The document of a row: JSON texts in `inputs`, `expectedOutputs`, `metadata`, or plain columns as in CSV."""
    lower = {name.lower(): name for name in row}
    document: dict[str, Any] = {"id": row.get(lower.get("id", ""))}
    if "inputs" in lower:
        for name, key in _MAPS.items():
            text = row.get(lower.get(name, ""))
            if text is not None and not isinstance(text, str):
                raise BadFile(f"{place}{key}: JSON text is read, and this is {type(text).__name__}")
            if text:
                document[key] = _parsed(text.encode(), f"{place}{key}: ")
        return document
    expected = next((name for name in _EXPECTED if name in lower), None)
    taken = {lower.get("id"), lower.get("input"), lower.get(expected or "")}
    if row.get(lower.get("input", "")) is not None:
        document["input"] = _plain(row[lower["input"]], place)
    if expected is not None and row.get(lower[expected]) is not None:
        document["expectedOutput"] = _plain(row[lower[expected]], place)
    document["metadata"] = {name: _plain(value, place) for name, value in row.items() if name not in taken}
    return document


def _plain(value: object, place: str) -> object:
    """A value of a column as JSON has it."""
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


def _parsed(content: bytes, place: str = "") -> Any:  # noqa: ANN401 - JSON
    try:
        return parse_json(content.decode())
    except UnicodeDecodeError as error:
        raise BadFile(f"{place}it is not UTF-8: {error}") from None
    except ValueError as error:
        raise BadFile(f"{place}it is not JSON: {error}") from None


_READERS: Final[Mapping[Format, Callable[[BinaryIO], Iterator[tuple[str, object]]]]] = {
    "json": _json,
    "jsonl": _jsonl,
    "csv": _csv,
    "parquet": _parquet,
}
