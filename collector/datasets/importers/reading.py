"""What all importers need: documents, rows, and maps of what may be anything."""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from evaluators.wire import parse_json
from storage.limit import Limit

MAX_FILE_BYTES: Final = 256 << 20
"""Of one file, which is read as a whole. A guess: 100,000 items of 2.5 kB."""

_FILE: Final = Limit(value=MAX_FILE_BYTES, unit="bytes", remedy="import it in parts")

Place = tuple[str, Any]
"""A document, and where it stands in its file."""


class BadExport(ValueError):
    """A file is not what its tool writes; the message says where."""


def read_text(path: Path) -> str:
    """A file as text.

    Raises:
        BadExport: it is too large, no UTF-8, or not there.
    """
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise BadExport(f"{path.name}: larger than {_FILE}")
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadExport(f"{path.name}: {error}") from None


def read_json(path: Path) -> Any:  # noqa: ANN401 - JSON
    """A JSON document.

    Raises:
        BadExport: it is none.
    """
    try:
        return parse_json(read_text(path))
    except BadExport:
        raise
    except ValueError as error:
        raise BadExport(f"{path.name}: it is not JSON: {error}") from None


def read_lines(path: Path) -> Iterator[Place]:
    """The documents of JSONL, each with its line; texts may hold what else Unicode takes for the end of a line."""
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            try:
                yield f"line {number}", parse_json(line)
            except ValueError as error:
                raise BadExport(f"line {number}: it is not JSON: {error}") from None


def read_rows(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows of a CSV file by their columns, each with the line where it ends; empty cells are left out."""
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""), restkey="")
    for row in reader:
        place = f"line {reader.line_num}"
        if "" in row:
            raise BadExport(f"{place}: it has more cells than the header")
        yield place, {name.strip(): cell for name, cell in row.items() if cell}


def as_map(value: object, name: str) -> dict[str, Any]:
    """A map as it is, and anything else as the one value of one; nothing of what is not there."""
    if value is None:
        return {}
    return dict(value) if isinstance(value, Mapping) else {name: value}


def parsed(cell: object) -> object:
    """What a cell holds where that is an object or a list of JSON; else its text."""
    if isinstance(cell, str) and cell.lstrip()[:1] in {"{", "["}:
        try:
            return parse_json(cell)
        except ValueError:
            return cell
    return cell


def without_nothing(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that say something."""
    return {name: value for name, value in values.items() if value not in (None, "", [], {})}


def line_of(item: Mapping[str, Any]) -> str:
    """An item as a line of JSONL."""
    return json.dumps(item, ensure_ascii=False, allow_nan=False)
