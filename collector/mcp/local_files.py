"""Dataset files on the machine of the program's user: a model may name small ones in one folder."""

import itertools
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from collector.datasets.files import Format, read_items
from collector.datasets.item import ItemMaker
from collector.datasets.schema import ItemSchemas
from collector.mcp.errors import ToolRefused
from storage.limit import Limit
from tracejury.file_ending import ending_of

_FORMS: Final[Mapping[str, Format]] = {"json": "json", "jsonl": "jsonl", "csv": "csv"}
_FILE: Final = Limit(value=4 << 20, unit="bytes", remedy="import it instead")  # half of what a request may hold
_ITEMS: Final = Limit(value=1_000, unit="items", remedy="import it instead")
_OF_OTHERS: Final = frozenset({"node_modules", "site-packages", "__pycache__", "venv", "build", "dist", "target"})
_MOST_NAMES: Final = 100
_MOST_LOOKED_AT: Final = 20_000
_MOST_READ: Final = 200
"""Guesses."""

_VERSIONED: Final = re.compile(r"@[0-9]+$")


class LocalFiles:
    """The dataset files below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    def items(self, name: str) -> list[dict[str, Any]]:
        """Read the items of a file as the server would store them; items without an id get one from their inputs.

        Raises:
            ToolRefused: the file is not below the folder, is hidden, too large, or no file of items.
        """
        path = self._path_of(name)
        maker = ItemMaker(schemas=ItemSchemas())
        items: list[dict[str, Any]] = []
        try:
            with path.open("rb") as file:
                for place, text in read_items(file, _FORMS[ending_of(path)]):
                    if len(items) == _ITEMS.value:
                        raise ToolRefused(f"dataset_path: {name} has more than {_ITEMS}")
                    try:
                        made = maker.make(text)
                    except ValueError as error:
                        raise ValueError(f"{place}: {error}") from None
                    texts = {"inputs": made.inputs, "expectedOutputs": made.expected_outputs, "metadata": made.metadata}
                    items.append({"id": made.item_id, **{key: json.loads(value) for key, value in texts.items()}})
        except (ValueError, OSError) as error:
            raise ToolRefused(f"dataset_path: {name}: {error}") from error
        return items

    def names(self) -> list[str]:
        """Return the first files of items, in the folder and below; hidden files are left out."""
        named: list[str] = []
        looked_at, json_files = 0, itertools.count(1)

        def has_items(name: str) -> bool:
            kind = ending_of(Path(name))
            if kind not in _FORMS:
                return False
            try:  # JSON is read, since most files of that kind are something else
                if kind == "json":
                    return next(json_files) <= _MOST_READ and bool(self.items(name))
                return self._path_of(name).is_file()
            except ToolRefused:
                return False

        for place, folders, files in os.walk(self._folder):
            folders[:] = sorted(each for each in folders if not each.startswith(".") and each not in _OF_OTHERS)
            looked_at += len(folders) + len(files)
            names = (str((Path(place) / each).relative_to(self._folder)) for each in sorted(files))
            named += itertools.islice(filter(has_items, names), _MOST_NAMES - len(named))
            if len(named) == _MOST_NAMES or looked_at > _MOST_LOOKED_AT:
                break
        return named

    def _path_of(self, name: str) -> Path:
        try:
            path = (self._folder / name).resolve()
            is_below = path.is_relative_to(self._folder)
            hidden = is_below and any(part.startswith(".") for part in path.relative_to(self._folder).parts)
            is_file = is_below and path.is_file()
            nbytes = path.stat().st_size if is_file else 0
        except (OSError, ValueError) as error:
            raise ToolRefused(f"dataset_path: {name} cannot be looked at") from error
        if not is_below or hidden:
            raise ToolRefused(f"dataset_path: {name} is not below {self._folder}, or hidden")
        if not is_file or ending_of(path) not in _FORMS:
            raise ToolRefused(f"dataset_path: there is no file {name} of items (.json, .jsonl, .csv) in {self._folder}")
        if nbytes > _FILE.value:
            raise ToolRefused(f"dataset_path: {name} is larger than {_FILE}")
        return path


def is_file_name(text: str) -> bool:
    """Return True if a name means a file. A server's dataset with such a name must be named with its version."""
    return _VERSIONED.search(text) is None and ("/" in text or ending_of(text) in _FORMS)
