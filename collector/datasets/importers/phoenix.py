"""Datasets of Arize Phoenix: the response of `GET /v1/datasets/{id}/examples`, and downloads as CSV and JSONL."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from collector.datasets.importers.reading import (
    NO_INPUT,
    BadExport,
    Place,
    as_map,
    is_nothing,
    non_empty,
    parsed,
    read_header,
    read_json,
    read_lines,
    read_rows,
)
from tracejury.file_ending import ending_of

_COLUMN: Final = re.compile(r"(input|output|metadata)[._](.+)", re.DOTALL)
"""Phoenix 20 writes a dot after the prefix; the documentation of earlier versions has an underscore."""


def read_phoenix(path: Path) -> Iterator[Place]:
    """Read the examples of a version, or those of the results of an experiment.

    Raises:
        BadExport: the file holds neither of them.
    """
    results = set[str]()
    for place, document in _documents(path):
        if (
            isinstance(document, Mapping) and "reference_output" in document
        ):  # a result: yield each example once, however often it was run
            name = document.get("example_id")
            example = {
                "id": None if name is None else str(name),
                "input": document.get("input"),
                "output": document["reference_output"],
            }
            key = repr(example) if name is None else str(name)
            if key not in results:
                yield place, _example(place, example)
            results.add(key)
        else:
            yield place, _example(place, document)


def _documents(path: Path) -> Iterator[Place]:
    ending = ending_of(path)
    if ending == "csv":
        yield from _rows(path)
    elif ending == "jsonl":
        yield from read_lines(path)
    else:
        document = read_json(path)
        data = document.get("data", document) if isinstance(document, Mapping) else document
        examples = data.get("examples") if isinstance(data, Mapping) else data
        if not isinstance(examples, list):
            raise BadExport('not a list of examples; expected a list, or {"data": {"examples": […]}}')
        for number, example in enumerate(examples, start=1):
            yield f"example {number}", example


def _rows(path: Path) -> Iterator[Place]:
    """Read the rows of CSV; the beginning of a column's name is the part that it belongs to."""
    header = read_header(path)
    is_results = "reference_output" in header
    if not is_results and not any(name.startswith(("input.", "input_")) for name in header):
        raise BadExport("line 1: no column begins with input. or input_: export the dataset, or the results of a run")
    for place, row in read_rows(path):
        cells = {name: parsed(cell) for name, cell in row.items()}
        if is_results:
            yield place, {"input": None, "reference_output": None} | cells
            continue
        example: dict[str, Any] = {"id": row.get("id", row.get("example_id"))}
        for name, cell in cells.items():
            column = _COLUMN.fullmatch(name)
            if column is not None:
                example.setdefault(column[1], {})[column[2]] = cell
        yield place, example


def _example(place: str, document: object) -> dict[str, Any] | None:
    if not isinstance(document, Mapping):
        raise BadExport(f"{place}: an example must be an object")
    if "messages" in document:
        return _of_messages(place, document)
    if is_nothing(document.get("input")):
        return NO_INPUT
    return non_empty(
        {
            "id": document.get("id"),
            "inputs": as_map(document["input"], "input"),
            "expectedOutputs": as_map(document.get("output"), "output"),
            "metadata": as_map(document.get("metadata"), "metadata"),
        }
    )


def _of_messages(place: str, example: Mapping[str, Any]) -> dict[str, Any]:
    """Convert an OpenAI example: with `ideal`, or for fine-tuning, whose last message is the expected one."""
    messages = example["messages"]
    if not isinstance(messages, list) or not all(isinstance(each, Mapping) for each in messages):
        raise BadExport(f"{place}: messages must be a list of objects")
    if not messages:
        raise BadExport(
            f"{place}: there are no messages; Phoenix writes other examples as JSON or CSV, so export one of these"
        )
    expected = example.get("ideal")
    if "ideal" not in example and messages[-1].get("role") == "assistant":
        *messages, last = messages
        expected = last.get("content")
    if not messages:
        raise BadExport(f"{place}: the input is missing")
    inputs = non_empty({"input": _last_user_content(messages), "messages": messages})
    metadata = non_empty({"tools": example.get("tools")})
    expectation = as_map(expected or None, "output")
    return non_empty({"inputs": inputs, "expectedOutputs": expectation, "metadata": metadata})


def _last_user_content(messages: list[Mapping[str, Any]]) -> object:
    return next((each.get("content") for each in reversed(messages) if each.get("role") == "user"), None)
