"""Files that a configuration of promptfoo names as `file://…`: tests, variables, values."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from collector.datasets.importers.reading import BadExport, read_json, read_rows, read_text
from tracejury.file_ending import ending_of

FILE: Final = "file://"
_MOST_TESTS: Final = 100_000  # combinations of the variables of one test
_DOCUMENTS: Final = frozenset({"json", "yaml", "yml"})
_PROGRAMS: Final = frozenset({"py", "js", "ts", "mjs", "cjs"})


def files_named(name: str, folder: Path) -> list[Path]:
    """Return the files that match a `file://` path or glob pattern; a relative one starts at `folder`.

    Raises:
        BadExport: no file matches, or one of them is a program.
    """
    pattern = name.removeprefix(FILE)
    paths = _matching(pattern, folder)
    if not paths:
        raise BadExport(f"{name}: no file is called so in {folder}")
    program = next((each for each in paths if ending_of(each) in _PROGRAMS), None)
    if program is not None:
        raise BadExport(f"{name}: only promptfoo can run {program.name}; write its output into a file")
    return paths


def _matching(pattern: str, folder: Path) -> list[Path]:
    place = Path("/") if pattern.startswith("/") else folder
    try:
        if (literal := folder / pattern).is_file():
            return [literal]
        return sorted(each for each in place.glob(pattern.lstrip("/")) if each.is_file())
    except (ValueError, OSError, IndexError):  # `glob` raises IndexError for the pattern `.`
        return []


def read_document(path: Path) -> Any:  # noqa: ANN401 - YAML
    """Read a JSON or YAML file.

    Raises:
        BadExport: the file is neither JSON nor YAML.
    """
    if ending_of(path) == "json":
        return read_json(path)
    text = read_text(path)
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        raise BadExport(f"{path.name}: it is not YAML: {error}") from None


def text_of_file(path: Path) -> str:
    """Return a variable's file as the text that promptfoo inserts into prompts: YAML becomes JSON."""
    if ending_of(path) in {"yaml", "yml"}:
        return json.dumps(read_document(path), ensure_ascii=False, separators=(",", ":"), default=str)
    return read_text(path).strip()


def value_of_file(name: str, folder: Path) -> Any:  # noqa: ANN401 - JSON
    """Return the content of a file that an assertion names: parsed if it is JSON or YAML, else its text."""
    (path, *_) = files_named(name, folder)
    return read_document(path) if ending_of(path) in _DOCUMENTS else text_of_file(path)


def named_variables(test: Mapping[str, Any], folder: Path) -> list[Mapping[str, Any]]:
    """Return the sets of variables that a test runs with; rows of several files are combined.

    Raises:
        BadExport: `vars` is neither an object nor names of files.
    """
    variables = test.get("vars") or {}
    if isinstance(variables, Mapping):
        return [variables]
    names = [variables] if isinstance(variables, str) else variables
    if isinstance(names, list) and all(isinstance(each, Mapping) for each in names):
        return names
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise BadExport("vars must be an object, a list of objects, or names of files")
    merged: list[Mapping[str, Any]] = [{}]
    for path in (path for name in names for path in files_named(name, folder)):
        rows = _rows(path)
        check_combinations(len(merged) * len(rows))
        merged = [{**before, **row} for before in merged for row in rows]
    return merged


def check_combinations(count: int) -> None:
    """Refuse a test with too many combinations of variables.

    Raises:
        BadExport: the variables make more combinations than the limit.
    """
    if count > _MOST_TESTS:
        raise BadExport(f"its variables make {count:,} combinations")


def _rows(path: Path) -> list[Mapping[str, Any]]:
    if ending_of(path) == "csv":
        return [row for _, row in read_rows(path) if row]
    document = read_document(path)
    rows = document if isinstance(document, list) else [document]
    if not all(isinstance(each, Mapping) for each in rows):
        raise BadExport(f"{path.name}: it must hold an object of variables, or a list of these")
    return rows


def with_named_variables(test: object, folder: Path) -> object:
    """Load the files that a test's `vars` names, relative to the folder of the file that holds the test."""
    if not isinstance(test, Mapping) or isinstance(test.get("vars"), Mapping | None):
        return test
    return {**test, "vars": named_variables(test, folder)}
