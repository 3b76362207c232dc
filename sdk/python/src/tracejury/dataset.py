"""Datasets: cases from files, or versions of a server that are kept for when it does not answer."""

import csv
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field

from tracejury.client import Client, Unreachable

_URI: Final = re.compile(r"dataset://([^@/]+)@(latest|[1-9][0-9]*)")
_EXPECTED: Final = ("expectedoutput", "expected_output", "output")


class DatasetNotFound(Exception):
    """None of the places that were named has the dataset; the message says why of each."""


class Example(BaseModel):
    """One case. `id` names it in every version."""

    model_config = ConfigDict(frozen=True)

    id: str | None = None
    inputs: Mapping[str, Any] = Field(default_factory=dict)
    expected_outputs: Mapping[str, Any] = Field(default_factory=dict)
    metadata: Mapping[str, Any] = Field(default_factory=dict)

    @property
    def input(self) -> Any:
        """The primary input."""
        return self.inputs.get("input")

    @property
    def expected_output(self) -> Any:
        """The primary output that is expected."""
        return self.expected_outputs.get("output")


class Dataset(Sequence[Example]):
    """Cases in their order. `version` is that of a server's dataset."""

    def __init__(
        self, name: str, examples: Sequence[Example], *, description: str = "", version: int | None = None
    ) -> None:
        self.name = name
        self.description = description
        self.version = version
        self._examples = tuple(examples)

    def __len__(self) -> int:
        return len(self._examples)

    def __getitem__(self, index: Any) -> Any:
        return self._examples[index]

    @classmethod
    def load(cls, *places: "str | Path", client: Client | None = None, cache: Path | None = None) -> "Dataset":
        """The dataset at the first of these places that has it.

        A place is `dataset://NAME@N`, a path, `file:PATH`, or `package:PACKAGE/PATH` for a file that an installed
        package brings.

        Without a server, `dataset://` is passed over.

        Raises:
            DatasetNotFound: none has it.
            ValueError: a file holds none; the message names the line.
            Refused: the server says that there is none.
        """
        told = []
        for place in places:
            text = str(place)
            if text.startswith("dataset://"):
                found = _from_server(text, client, cache or _default_cache())
                if found is not None:
                    return found
                told.append(f"{text}: TRACEJURY_URL names no server")
                continue
            if text.startswith("package:"):
                kept = _from_package(text)
                if kept is not None:
                    return kept
                told.append(f"{text}: no package that is installed has such a file")
                continue
            path = Path(text.removeprefix("file:"))
            if path.exists():
                return read_file(path)
            told.append(f"{text}: there is no such file")
        raise DatasetNotFound("; ".join(told) or "no place was named")


def read_file(path: Path) -> Dataset:
    """The dataset in a file, which ends in `.json`, `.jsonl` or `.csv`.

    Raises:
        ValueError: it holds none.
    """
    readers = {".json": _json, ".jsonl": _jsonl, ".csv": _csv}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"{path}: the name ends in none of {', '.join(readers)}")
    name, examples = path.stem, []
    for place, document in reader(path):
        if place == "name":
            name = str(document)
            continue
        try:
            examples.append(example_of(document))
        except ValueError as error:
            raise ValueError(f"{path}: {place}: {error}") from None
    if not examples:
        raise ValueError(f"{path}: there is no example in it")
    return Dataset(name, examples)


def example_of(document: Any) -> Example:
    """The example in a JSON document, simple or not; a map that is not empty counts before the simple form.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(document, Mapping):
        raise ValueError("an example is a JSON object")
    inputs = document.get("inputs") or ({"input": document["input"]} if "input" in document else {})
    if not inputs:
        raise ValueError("inputs: every example needs some")
    simple = {"output": document["expectedOutput"]} if "expectedOutput" in document else {}
    key = document.get("id")
    return Example(
        id=None if key is None or not str(key).strip() else str(key).strip(),
        inputs=inputs,
        expected_outputs=document.get("expectedOutputs") or simple,
        metadata=document.get("metadata") or {},
    )


def _from_server(uri: str, client: Client | None, cache: Path) -> Dataset | None:
    found = _URI.fullmatch(uri)
    if found is None:
        raise ValueError(f"{uri!r} is no dataset://NAME@VERSION; the version is a number or `latest`")
    asked = client or Client.from_environment()
    if asked is None:
        return None
    name, number = found.groups()
    place = f"/datasets/{quote(name, safe='')}/versions"
    is_latest = number == "latest"
    version = int(asked.get(f"{place}/{number}")["version"]) if is_latest else int(number)
    kept = _file(cache, name, version)
    patience_s = 0.0 if kept.exists() and not is_latest else None  # what is kept is the same
    try:
        text = asked.text(f"{place}/{version}/export", patience_s=patience_s, format="jsonl")
    except Unreachable:
        if is_latest or not kept.exists():
            raise
        text = kept.read_text(encoding="utf-8")
    else:
        _keep(kept, text)
    examples = [example_of(json.loads(line)) for line in text.splitlines() if line.strip()]
    return Dataset(name, examples, version=version)


def _from_package(uri: str) -> Dataset | None:
    """The dataset in a file of a package, be it in a folder or an archive; None if there is no such file."""
    package, _, path = uri.removeprefix("package:").partition("/")
    if not package or not path:
        raise ValueError(f"{uri!r} is no package:PACKAGE/PATH, such as package:my_app.evals/qa.jsonl")
    try:
        file = resources.files(package).joinpath(*path.split("/"))
    except ModuleNotFoundError as error:
        if error.name is None or not f"{package}.".startswith(f"{error.name}."):
            raise  # the package is there, and lacks what it needs itself
        return None
    if not file.is_file():
        return None
    with resources.as_file(file) as found:  # of an archive it is a copy with a name of its own
        dataset = read_file(found)
        if dataset.name == found.stem:
            dataset.name = Path(path).stem
        return dataset


def _default_cache() -> Path:
    return Path.home() / ".tracejury" / "datasets-cache"


def _file(cache: Path, name: str, version: int) -> Path:
    return cache / f"{quote(name, safe='')}@{version}" / "items.jsonl"


def _keep(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}.part")
        part.write_text(text, encoding="utf-8")
        part.replace(file)
    except OSError:  # a cache that cannot be written is none
        return


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _json(path: Path) -> Iterator[tuple[str, Any]]:
    document = json.loads(path.read_text(encoding="utf-8-sig"), parse_constant=_refuse)
    examples = document.get("examples") if isinstance(document, dict) else document
    if not isinstance(examples, list):
        raise ValueError(f"{path}: it has no list of examples")
    if isinstance(document, dict) and document.get("name"):
        yield "name", document["name"]
    for number, example in enumerate(examples, start=1):
        yield f"example {number}", example


def _jsonl(path: Path) -> Iterator[tuple[str, Any]]:
    with path.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    yield f"line {number}", json.loads(line, parse_constant=_refuse)
                except ValueError as error:
                    raise ValueError(f"{path}: line {number}: {error}") from None


def _csv(path: Path) -> Iterator[tuple[str, Any]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file)
        names = [name.strip() for name in next(rows, [])]
        lower = [name.lower() for name in names]
        if "input" not in lower:
            raise ValueError(f"{path}: line 1: there is no column `input`")
        expected = next((name for name in _EXPECTED if name in lower), "")
        for row in rows:
            if not row:
                continue
            cells = dict(zip(lower, row, strict=False))
            taken = {"input", "id", expected}
            document = {"id": cells.get("id"), "input": cells.get("input", "")}
            if expected in cells:
                document["expectedOutput"] = cells[expected]
            metadata = {name: cell for name, cell in zip(names, row, strict=False) if name.lower() not in taken}
            yield f"line {rows.line_num}", {**document, "metadata": metadata}
