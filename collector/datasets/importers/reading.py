"""Functions that all importers share: to read documents and CSV rows, and to normalize unchecked values."""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from evaluators.wire import parse_json
from storage.limit import Limit
from tracejury.dataset_text import QUOTES, BadFile, named_separator, not_utf8, separator_of, table_rows

MAX_FILE_BYTES: Final = 256 << 20
"""Limit of one file, which is read as a whole. A guess: 100,000 items of 2.5 kB."""

_FILE: Final = Limit(value=MAX_FILE_BYTES, unit="bytes", remedy="import it in parts")

Place = tuple[str, Any]
"""The place of a document in its file, and the document."""

NO_INPUT: Final = None
"""Stands for the item of a document without input, which the import skips and reports."""


class BadExport(ValueError):
    """Refusal of a file that is not in the format of its tool; the message says where it differs."""


def read_text(path: Path) -> str:
    """Read a file as text.

    Raises:
        BadExport: the file is too large, not UTF-8, or does not exist.
    """
    try:
        if not path.is_file():  # a device or a pipe would never end
            raise BadExport(f"{path.name}: there is no such file")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise BadExport(f"{path.name}: larger than {_FILE}")
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise BadExport(f"{path.name}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise BadExport(f"{path.name}: {not_utf8(line, error)}") from None


def read_json(path: Path) -> Any:  # noqa: ANN401 - JSON
    """Read a JSON document.

    Raises:
        BadExport: the text is not JSON.
    """
    try:
        return parse_json(read_text(path))
    except BadExport:
        raise
    except ValueError as error:
        raise BadExport(f"{path.name}: it is not JSON: {error}") from None


def read_lines(path: Path) -> Iterator[Place]:
    """Read the documents of a JSONL file, each with its line number; only LF ends a line, no Unicode separator."""
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            try:
                yield f"line {number}", parse_json(line)
            except ValueError as error:
                raise BadExport(f"line {number}: it is not JSON: {error}") from None


def read_rows(path: Path, needed: Sequence[str] = ()) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the rows of a CSV file as maps by column, each with its line number. Empty cells and lines are skipped.

    Raises:
        BadExport: a line is wrong, or it has none of the needed columns.
    """
    try:
        for place, row in table_rows(_records(read_text(path)), needed):
            yield place, {name: cell for name, cell in row.items() if cell}
    except BadFile as error:
        raise BadExport(str(error)) from None


def _records(text: str) -> Iterator[tuple[int, list[str]]]:
    """Read the records of a CSV text, each with its first line number; unlike in our files, cells may hold quotes."""
    csv.field_size_limit(MAX_FILE_BYTES)
    first, _, rest = text.partition("\n")
    named = named_separator(first)
    lines = io.StringIO(rest if named else text, newline="")
    reader = csv.reader(lines, delimiter=named or separator_of(first), strict=True)
    before = 1 if named else 0
    begins = before + 1
    try:
        for cells in reader:
            if cells:
                yield begins, cells
            begins = before + reader.line_num + 1
    except csv.Error as error:
        raise BadExport(f"line {begins}: {error}: {QUOTES}") from None


def read_header(path: Path) -> list[str]:
    """Read the column names of a CSV file, also of one that `read_rows` refuses."""
    return next(_records(read_text(path)), (1, list[str]()))[1]


def is_nothing(value: object) -> bool:
    """Return True for an empty value: null, or an empty text, list or object."""
    return value is None or (isinstance(value, str | list | Mapping) and not value)


def as_map(value: object, name: str) -> dict[str, Any]:
    """Return a map as it is, anything else as a map of one value, and None as an empty one."""
    if value is None:
        return {}
    return dict(value) if isinstance(value, Mapping) else {name: value}


def parsed(cell: object) -> object:
    """Parse a cell that holds a JSON object or array; return any other value unchanged."""
    if isinstance(cell, str) and cell.lstrip()[:1] in {"{", "["}:
        try:
            return parse_json(cell)
        except ValueError:
            return cell
    return cell


def non_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are not empty."""
    return {name: value for name, value in values.items() if not is_nothing(value)}


def line_of(item: Mapping[str, Any]) -> str:
    """Encode an item as a line of JSONL."""
    return json.dumps(item, ensure_ascii=False, allow_nan=False)
