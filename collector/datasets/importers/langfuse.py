"""Datasets of Langfuse: the response of `GET /api/public/dataset-items` (whole pages, or its items), and exports."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from collector.datasets.importers.reading import (
    NO_INPUT,
    BadExport,
    Place,
    as_map,
    is_nothing,
    non_empty,
    parsed,
    read_json,
    read_lines,
    read_rows,
)
from tracejury.file_ending import ending_of


def read_langfuse(path: Path) -> Iterator[Place]:
    """Read the items that are not archived.

    Raises:
        BadExport: the file holds no items of a dataset.
    """
    for place, document in _documents(path):
        if not isinstance(document, Mapping):
            raise BadExport(f"{place}: an item must be an object")
        item = {_camel(str(name)): value for name, value in document.items()}
        if str(item.get("status") or "ACTIVE").upper() != "ARCHIVED":
            if "output" in item and "expectedOutput" not in item:
                raise BadExport(
                    f"{place}: it has an output and no expectedOutput, as traces have; rename a correct output"
                )
            yield place, NO_INPUT if is_nothing(item.get("input")) else _item(item)


def _documents(path: Path) -> Iterator[Place]:
    if ending_of(path) == "csv":
        for place, row in read_rows(path, ("input",)):
            yield place, {name: parsed(cell) for name, cell in row.items()}
    elif ending_of(path) == "jsonl":
        yield from read_lines(path)
    else:
        document = read_json(path)
        items = document.get("data", document.get("items")) if isinstance(document, Mapping) else document
        if not isinstance(items, list):
            raise BadExport('not a list of items; expected a list, or {"data": […]}')
        for number, item in enumerate(items, start=1):
            yield f"item {number}", item


def _item(item: Mapping[str, Any]) -> dict[str, Any]:
    source = non_empty(
        {name: item.get(name) for name in ("datasetName", "sourceTraceId", "sourceObservationId", "createdAt")}
    )
    return non_empty(
        {
            "id": item.get("id"),
            "inputs": as_map(item["input"], "input"),
            "expectedOutputs": as_map(item.get("expectedOutput"), "output"),
            "metadata": as_map(item.get("metadata"), "metadata"),
            "source": {"kind": "langfuse", **source},
        }
    )


def _camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), name.strip())
