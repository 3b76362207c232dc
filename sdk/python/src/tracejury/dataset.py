"""Datasets: cases from files, or versions of a server, which are cached."""

import codecs
import io
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field

from tracejury.client import Client, Unreachable
from tracejury.dataset_text import (
    LEFT_OUT,
    BadFile,
    csv_documents,
    json_documents,
    json_texts,
    jsonl_documents,
    parsed,
    places_text,
    read_item,
)
from tracejury.file_ending import ending_of

_URI: Final = re.compile(r"dataset://([^@/]+)@(latest|[1-9][0-9]*)")
_FORMS: Final = ("json", "jsonl", "csv")
_log: Final = logging.getLogger(__name__)


class DatasetNotFound(Exception):
    """No named place has the dataset; the message has the reason for each place."""


class Example(BaseModel):
    """One case. `id` names it in every version."""

    model_config = ConfigDict(frozen=True)

    id: str | None = None
    inputs: Mapping[str, Any] = Field(default_factory=dict)
    expected_outputs: Mapping[str, Any] = Field(default_factory=dict)
    metadata: Mapping[str, Any] = Field(default_factory=dict)

    @classmethod
    def of(cls, input: Any, expected: Any = None, **metadata: Any) -> "Example":  # noqa: A002 - the simple form's name
        """Return an example of one input and one expected output."""
        expected_outputs = {} if expected is None else {"output": expected}
        return cls(inputs={"input": input}, expected_outputs=expected_outputs, metadata=metadata)

    @property
    def input(self) -> Any:
        """Return the primary input."""
        return self.inputs.get("input")

    @property
    def expected_output(self) -> Any:
        """Return the primary output that is expected."""
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
    def from_json(cls, text: str, *, name: str = "dataset") -> "Dataset":
        """Read a JSON document: a list of examples, or an object with `examples` or `items`.

        Raises:
            BadFile: the text is not a dataset.
        """
        return _read(io.BytesIO(text.encode()), "json", name)

    @classmethod
    def from_jsonl(cls, text: str, *, name: str = "dataset") -> "Dataset":
        """Read an example from each line.

        Raises:
            BadFile: a line holds none.
        """
        return _read(io.BytesIO(text.encode()), "jsonl", name)

    @classmethod
    def from_csv(cls, text: str, *, name: str = "dataset") -> "Dataset":
        """Read values that are separated by commas, semicolons or tabs, below a header.

        Raises:
            BadFile: a line is wrong.
        """
        return _read(io.BytesIO(text.encode()), "csv", name)

    @classmethod
    def load(cls, *places: "str | Path", client: Client | None = None, cache: "str | Path | None" = None) -> "Dataset":
        """Load the dataset from the first of these places that has it.

        A place is `dataset://NAME@N` or `dataset://NAME@latest`, a path, `file:PATH`, or `package:PACKAGE/PATH` for a
        file that an installed package brings.

        Without a server, `dataset://` is passed over.

        Raises:
            DatasetNotFound: no place has the dataset.
            ValueError: a file holds none; the message names the line.
            Refused: the server rejects the request, for example because it lacks the dataset.
            Unreachable: the server does not respond, and the version is `latest` or not cached.
        """
        problems = []
        for place in places:
            text = str(place)
            if text.startswith("dataset://"):
                loaded = _from_server(text, client, Path(cache) if cache else _default_cache())
                if loaded is not None:
                    return loaded
                problems.append(f"{text}: TRACEJURY_URL names no server")
                continue
            if text.startswith("package:"):
                kept = _from_package(text)
                if kept is not None:
                    return kept
                problems.append(f"{text}: no package that is installed has such a file")
                continue
            path = Path(text.removeprefix("file:"))
            if path.exists():
                return read_file(path)
            problems.append(f"{text}: there is no such file")
        raise DatasetNotFound("; ".join(problems) or "no place was named")


def read_file(path: Path) -> Dataset:
    """Return the dataset in a file, which ends in `.json`, `.jsonl` or `.csv`.

    Raises:
        BadFile: the file holds no dataset; the message names file and line.

    """
    form = ending_of(path)
    if form not in _FORMS:
        raise BadFile(f"{path}: the name ends in none of {', '.join(f'.{each}' for each in _FORMS)}")
    with path.open("rb") as file:
        return _read(file, form, path.stem, f"{path}: ")


def _read(file: BinaryIO, form: str, name: str, where: str = "") -> Dataset:
    try:
        document = parsed(file.read().removeprefix(codecs.BOM_UTF8), "") if form == "json" else None
        examples = list(_examples(file, form, document))
    except BadFile as error:
        raise BadFile(f"{where}{error}") from None
    if not examples:
        raise BadFile(f"{where}there is no item in it")
    head = document if isinstance(document, dict) else {}
    return Dataset(str(head.get("name") or name), examples, description=str(head.get("description") or ""))


def _examples(file: BinaryIO, form: str, document: Any) -> Iterator[Example]:
    documents = {"json": lambda: json_documents(document), "jsonl": lambda: jsonl_documents(file)}
    ids: set[str | None] = {None}
    left_out = []
    for place, each in documents.get(form, lambda: csv_documents(file))():
        if place == LEFT_OUT:
            left_out.append(str(each))
            continue
        try:
            example = example_of(each)
        except ValueError as error:
            raise BadFile(f"{place}: {error}") from None
        if example.id is not None and example.id in ids:
            raise BadFile(f"{place}: id: another item is called {example.id!r}")
        ids.add(example.id)
        yield example
    if left_out:
        _log.warning("left out: %s", places_text(left_out, "rows without a value"))


def example_of(document: Any) -> Example:
    """Return the example in a JSON document. `inputs` and `expectedOutputs` override the short forms unless empty.

    Raises:
        ValueError: the document is not an example.

    """
    item = read_item(document)
    json_texts(item.inputs, item.expected_outputs, item.metadata)
    return Example(id=item.item_id, inputs=item.inputs, expected_outputs=item.expected_outputs, metadata=item.metadata)


def _from_server(uri: str, client: Client | None, cache: Path) -> Dataset | None:
    match = _URI.fullmatch(uri)
    if match is None:
        raise ValueError(f"{uri!r} is not a dataset://NAME@VERSION; the version is a number or `latest`")
    server = client or Client.from_environment()
    if server is None:
        return None
    name, number = match.groups()
    place = f"/datasets/{quote(name, safe='')}/versions"
    is_latest = number == "latest"
    version = int(server.get(f"{place}/{number}")["version"]) if is_latest else int(number)
    kept = _file(cache, name, version)
    patience_s = 0.0 if kept.exists() and not is_latest else None  # the cached file is the same
    try:
        text = server.text(f"{place}/{version}/export", patience_s=patience_s, format="jsonl")
    except Unreachable:
        if is_latest or not kept.exists():
            raise
        text = kept.read_text(encoding="utf-8")
    else:
        _keep(kept, text)
    examples = [example_of(document) for _, document in jsonl_documents(io.BytesIO(text.encode()))]
    return Dataset(name, examples, version=version)


def _from_package(uri: str) -> Dataset | None:
    """Return the dataset in a file of a package, be it in a folder or an archive; None if there is no such file."""
    package, _, place = uri.removeprefix("package:").partition("/")
    if not package or not place:
        raise ValueError(f"{uri!r} is not a package:PACKAGE/PATH, such as package:my_app.evals/qa.jsonl")
    try:
        file = resources.files(package).joinpath(*place.split("/"))
    except ModuleNotFoundError as error:
        if error.name is None or not f"{package}.".startswith(f"{error.name}."):
            raise  # the package exists, but one of its own imports is missing
        return None
    if not file.is_file():
        return None
    with resources.as_file(file) as path:  # from an archive, a temporary copy with another name
        dataset = read_file(path)
        if dataset.name == path.stem:
            dataset.name = Path(place).stem
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
    except OSError:  # go on without a cache if it cannot be written
        return
