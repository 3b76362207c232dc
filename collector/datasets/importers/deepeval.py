"""Goldens and test cases of DeepEval: what `EvaluationDataset.save_as` writes as JSON, JSONL or CSV."""

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
    read_json,
    read_lines,
    read_rows,
    read_text,
)
from tracejury.file_ending import ending_of

_KEPT: Final = (
    "actual_output",
    "retrieval_context",
    "source_file",
    "comments",
    "custom_column_key_values",
    "name",
    "expectations",
)
_LISTS: Final = ("context", "retrieval_context")  # which CSV and JSONL hold as one text
_CONVERSATION: Final = ("scenario", "user_description", "persona", "turns", "context")
_DOCUMENTS: Final = {  # of datasets, and of files of results, whose cases are read
    "goldens": "golden",
    "testCases": "test case",
    "conversationalTestCases": "conversational test case",
}
_SAVED: Final = "custom_column_key_values"  # a column that DeepEval writes, and that handwritten files lack


def read_deepeval(path: Path) -> Iterator[Place]:
    """Read goldens of one turn and of conversations, and test cases of results.

    Raises:
        BadExport: the file holds neither goldens nor test cases.
    """
    for place, document in _documents(path):
        if not isinstance(document, Mapping):
            raise BadExport(f"{place}: must be a JSON object")
        golden = {_snake(name): value for name, value in document.items()}
        golden |= {name: _listed(golden[name], golden) for name in _LISTS if name in golden}
        if golden.get("scenario"):
            yield place, _conversation(golden)
        else:
            yield place, NO_INPUT if is_nothing(golden.get("input")) else _golden(golden)


def _documents(path: Path) -> Iterator[Place]:
    ending = ending_of(path)
    if ending == "csv":
        saved = {_SAVED: None} if _SAVED in read_text(path).partition("\n")[0] else {}
        for place, row in read_rows(path, ("scenario", "input")):
            yield place, saved | {name: parsed(cell) for name, cell in row.items()}
    elif ending == "jsonl":
        yield from read_lines(path)
    else:
        document = read_json(path)
        if not isinstance(document, Mapping):
            document = {"goldens": document}
        lists = {name: document[name] for name in _DOCUMENTS if isinstance(document.get(name), list)}
        if not lists:
            raise BadExport(f"expected a list of goldens, or an object with a list as {' or '.join(_DOCUMENTS)}")
        for name, goldens in lists.items():
            for number, golden in enumerate(goldens, start=1):
                yield f"{_DOCUMENTS[name]} {number}", golden


def _listed(value: object, golden: Mapping[str, Any]) -> object:
    if not isinstance(value, str) or not value:
        return value
    return value.split("|" if "|" in value or _SAVED in golden else ";")


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", lambda match: f"_{match[1].lower()}", name)


def _golden(golden: Mapping[str, Any]) -> dict[str, Any]:
    expected = {
        "output": golden.get("expected_output"),
        "context": golden.get("context"),
        "toolCalls": _calls(golden.get("expected_tools")),
    }
    metadata = non_empty({name: golden.get(name) for name in _KEPT})
    return non_empty(
        {
            "inputs": {"input": golden["input"]},
            "expectedOutputs": non_empty(expected),
            "metadata": metadata
            | as_map(golden.get("additional_metadata", golden.get("metadata")), "additional_metadata"),
        }
    )


def _conversation(golden: Mapping[str, Any]) -> dict[str, Any]:
    inputs = non_empty({name: golden.get(name) for name in _CONVERSATION})
    if isinstance(golden.get("turns"), list):
        inputs["turns"] = [non_empty(turn) if isinstance(turn, dict) else turn for turn in golden["turns"]]
    kept = ("name", "comments", "custom_column_key_values", "expectations")
    metadata = non_empty({name: golden.get(name) for name in kept})
    return non_empty(
        {
            "inputs": {"input": golden["scenario"]} | inputs,
            "expectedOutputs": non_empty({"output": golden.get("expected_outcome")}),
            "metadata": metadata | as_map(golden.get("additional_metadata"), "additional_metadata"),
        }
    )


def _calls(tools: object) -> list[dict[str, Any]]:
    """Convert tool calls to the form that Tracejury's evaluators read; CSV has only names."""
    names = [each.strip() for each in tools.split("|" if "|" in tools else ";")] if isinstance(tools, str) else tools
    calls = []
    for each in names if isinstance(names, list) else []:
        if isinstance(each, Mapping):
            arguments = each.get("inputParameters") or each.get("input_parameters") or {}
            calls.append({"name": each.get("name"), "arguments": arguments})
        elif each:
            calls.append({"name": each})
    return calls
