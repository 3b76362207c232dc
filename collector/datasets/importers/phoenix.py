"""Datasets of Arize Phoenix: what `GET /v1/datasets/{id}/examples` answers, and its downloads as CSV and JSONL."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from collector.datasets.importers.reading import (
    BadExport,
    Place,
    as_map,
    parsed,
    read_json,
    read_lines,
    read_rows,
    without_nothing,
)

_PARTS: Final = {"input": "inputs", "output": "expectedOutputs", "metadata": "metadata"}
_COLUMN: Final = re.compile(r"(input|output|metadata)[._](.+)", re.DOTALL)
"""Version 20 writes a point; an underscore is what descriptions of earlier versions have."""


def read_phoenix(path: Path) -> Iterator[Place]:
    """The examples of a version.

    Raises:
        BadExport: it is none of these.
    """
    suffix = path.suffix.lower()
    if suffix == ".csv":
        yield from _rows(path)
    elif suffix == ".jsonl":
        for place, told in read_lines(path):
            yield place, _example(place, told)
    else:
        document = read_json(path)
        data = document.get("data", document) if isinstance(document, Mapping) else document
        examples = data.get("examples") if isinstance(data, Mapping) else data
        if not isinstance(examples, list):
            raise BadExport('it is no list of examples: {"data": {"examples": […]}} or a list is')
        for number, told in enumerate(examples, start=1):
            yield f"example {number}", _example(f"example {number}", told)


def _rows(path: Path) -> Iterator[Place]:
    """Of CSV, a column belongs to what its name begins with."""
    for place, row in read_rows(path):
        item: dict[str, Any] = {"id": row.get("id", row.get("example_id"))}
        for name, cell in row.items():
            column = _COLUMN.fullmatch(name)
            if column is not None:
                item.setdefault(_PARTS[column[1]], {})[column[2]] = parsed(cell)
        if "inputs" not in item:
            raise BadExport(f"{place}: no column that begins with input. or input_ says something")
        yield place, without_nothing(item)


def _example(place: str, told: object) -> dict[str, Any]:
    if not isinstance(told, Mapping):
        raise BadExport(f"{place}: an example is an object")
    if "messages" in told:
        return _of_messages(place, told)
    if not told.get("input"):
        raise BadExport(f"{place}: it has no input")
    return without_nothing(
        {
            "id": told.get("id"),
            "inputs": as_map(told["input"], "input"),
            "expectedOutputs": as_map(told.get("output"), "output"),
            "metadata": as_map(told.get("metadata"), "metadata"),
        }
    )


def _of_messages(place: str, told: Mapping[str, Any]) -> dict[str, Any]:
    """An example as OpenAI has it: with `ideal`, or for fine-tuning, where the last message is what is expected."""
    messages = told["messages"]
    if not isinstance(messages, list) or not all(isinstance(each, Mapping) for each in messages):
        raise BadExport(f"{place}: messages is a list of objects")
    if not messages:
        raise BadExport(
            f"{place}: there are no messages; Phoenix writes so what is no conversation, so take JSON or CSV"
        )
    expected = told.get("ideal")
    if "ideal" not in told and messages[-1].get("role") == "assistant":
        *messages, last = messages
        expected = last.get("content")
    if not messages:
        raise BadExport(f"{place}: nothing was asked")
    inputs = without_nothing({"input": _last_user_content(messages), "messages": messages})
    metadata = without_nothing({"tools": told.get("tools")})
    expectation = as_map(expected or None, "output")
    return without_nothing({"inputs": inputs, "expectedOutputs": expectation, "metadata": metadata})


def _last_user_content(messages: list[Mapping[str, Any]]) -> object:
    """The last that a user said."""
    return next((each.get("content") for each in reversed(messages) if each.get("role") == "user"), None)
