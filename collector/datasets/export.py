"""A version as a file, piece by piece: imported again, it is the same version."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from collector.datasets.files import Format
from storage.offline.datasets import Dataset, Item

_ROWS_AT_ONCE: Final = 1_000  # rows of a piece; a guess
_MAPS: Final = (("inputs", "inputs"), ("expectedOutputs", "expected_outputs"), ("metadata", "metadata"))
_COLUMNS: Final = ("id", *(name for name, _ in _MAPS), "source")
_PARQUET: Final = pa.schema([(name, pa.string()) for name in _COLUMNS])


def export_items(dataset: Dataset, items: Iterable[Item], form: Format) -> Iterator[bytes]:
    """Yield the file in pieces."""
    return _WRITERS[form](dataset, iter(items))


def item_json(item: Item) -> str:
    """Encode an item as JSON: the texts as they are stored, so that numbers stay as they are."""
    members = [f'"id":{json.dumps(item.item_id, ensure_ascii=False)}']
    members += [f'"{name}":{getattr(item, field)}' for name, field in _MAPS]
    if item.source is not None:
        members.append(f'"source":{item.source}')
    return "{" + ",".join(members) + "}"


def _json(dataset: Dataset, items: Iterator[Item]) -> Iterator[bytes]:
    head = {"name": dataset.name, "description": dataset.description}
    yield json.dumps(head, ensure_ascii=False)[:-1].encode() + b', "examples": ['
    between = "\n"
    while page := list(islice(items, _ROWS_AT_ONCE)):
        yield (between + ",\n".join(map(item_json, page))).encode()
        between = ",\n"
    yield b"\n]}\n"


def _jsonl(_: Dataset, items: Iterator[Item]) -> Iterator[bytes]:
    while page := list(islice(items, _ROWS_AT_ONCE)):
        yield "".join(f"{item_json(item)}\n" for item in page).encode()


def _csv(_: Dataset, items: Iterator[Item]) -> Iterator[bytes]:
    file = io.StringIO(newline="")
    writer = csv.writer(file, quoting=csv.QUOTE_ALL)
    writer.writerow(_COLUMNS)
    while page := list(islice(items, _ROWS_AT_ONCE)):
        writer.writerows(_row(item) for item in page)
        yield file.getvalue().encode()
        file.seek(0)
        file.truncate()


class _WrittenPieces(io.RawIOBase):
    """File object that returns the bytes written to it."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._written = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:  # noqa: ANN401 - a buffer
        """Keep a copy."""
        part = bytes(data)
        self._parts.append(part)
        self._written += len(part)
        return len(part)

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._written

    def take(self) -> bytes:
        """Return the bytes written since the last call."""
        parts, self._parts = self._parts, []
        return b"".join(parts)


def _parquet(_: Dataset, items: Iterator[Item]) -> Iterator[bytes]:
    pieces = _WrittenPieces()
    with pq.ParquetWriter(pieces, _PARQUET, compression="zstd") as writer:
        while page := list(islice(items, _ROWS_AT_ONCE)):
            columns = zip(*(_row(item) for item in page), strict=True)
            arrays = [pa.array([value or None for value in column], pa.string()) for column in columns]
            writer.write_table(pa.table(arrays, schema=_PARQUET))
            yield pieces.take()
    yield pieces.take()


def _row(item: Item) -> tuple[str, ...]:
    return (item.item_id, *(str(getattr(item, field)) for _, field in _MAPS), item.source or "")


_WRITERS: Final[Mapping[Format, Callable[[Dataset, Iterator[Item]], Iterator[bytes]]]] = {
    "json": _json,
    "jsonl": _jsonl,
    "csv": _csv,
    "parquet": _parquet,
}
