"""OpenAI Evals: samples of the open repository, rows of the platform's evals, and the output items of their runs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from collector.datasets.importers.reading import NO_INPUT, BadExport, Place, non_empty, read_json, read_lines
from tracejury.file_ending import ending_of

_REFERENCE: Final = re.compile(r"\{\{\s*item\.([A-Za-z0-9_]+)\s*\}\}")
_EXPECTED: Final = (
    "ideal",
    "expected_output",
    "expected",
    "ground_truth",
    "reference_answer",
    "reference",
    "correct_label",
    "correct_answer",
    "answer",
    "label",
)
"""Usual keys of the expected answer, if no grader of the file names it."""


def read_openai_evals(path: Path) -> Iterator[Place]:
    """Read samples (`input`, `ideal`), rows (`item`), output items (`datasource_item`), as JSONL or as JSON.

    Raises:
        BadExport: the file holds none of the three.
    """
    if ending_of(path) == "jsonl":
        for place, row in read_lines(path):
            yield place, _item(place, row, ())
        return
    document = read_json(path)
    graders = document.get("testing_criteria") if isinstance(document, Mapping) else None
    references = _references(graders)
    for number, row in enumerate(_rows(document), start=1):
        yield f"row {number}", _item(f"row {number}", row, references)


def _rows(document: object) -> Sequence[Any]:
    """Return the rows of a document: a list, a list of the API, or a run's data source."""
    while isinstance(document, Mapping):
        document = next(
            (document[name] for name in ("data", "content", "source", "data_source", "items") if document.get(name)),
            None,
        )
    if not isinstance(document, list):
        raise BadExport("it holds no rows: JSONL, a list of output items, or a data source with its content does")
    return document


def _references(graders: object) -> tuple[str, ...]:
    listed = graders if isinstance(graders, list) else []
    templates = [str(each.get("reference", "")) for each in listed if isinstance(each, Mapping)]
    return tuple(name for text in templates for name in _REFERENCE.findall(text))


def _item(place: str, document: object, references: Sequence[str]) -> dict[str, Any] | None:
    if not isinstance(document, Mapping):
        raise BadExport(f"{place}: a row must be an object")
    if document.keys() == {"spec"} or document.keys() >= {"run_id", "event_id"}:
        raise BadExport(f"{place}: it is the log of a run; import the samples that the eval names (samples_jsonl)")
    row = document.get("item", document.get("datasource_item", document))
    if not isinstance(row, Mapping):
        raise BadExport(f"{place}: its item is not an object")
    name = next((each for each in (*references, *_EXPECTED) if row.get(each) is not None), None)
    inputs = {key: value for key, value in row.items() if key not in {name, "id", "metadata"} and value is not None}
    messages = inputs.get("input")
    if isinstance(messages, list):
        inputs = {**inputs, "input": _last_user_content(messages), "messages": messages}
    if not non_empty(inputs):
        return NO_INPUT
    metadata = row.get("metadata")
    return non_empty(
        {
            "id": row.get("id") if isinstance(row.get("id"), str | int) else None,
            "inputs": non_empty(inputs),
            "expectedOutputs": {} if name is None else _expected(row[name]),
            "metadata": dict(metadata) if isinstance(metadata, Mapping) else {},
        }
    )


def _expected(value: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Return the expected outputs; of several right answers the first is the output, and all are kept."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list) and value:
        return {"output": value[0]} | ({"alternatives": value} if len(value) > 1 else {})
    return {"output": value}


def _last_user_content(messages: Sequence[Any]) -> object:
    maps = [each for each in messages if isinstance(each, Mapping)]
    return next((each.get("content") for each in reversed(maps) if each.get("role") == "user"), None)
