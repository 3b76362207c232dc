"""Files that a configuration of promptfoo names as `file://…`: tests, variables, values."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from collector.datasets.importers.reading import BadExport, read_json, read_rows, read_text
from tracejury.file_ending import ending_of

FILE: Final = "file://"
_MOST_TESTS: Final = 100_000  # of one test, by its variables
_DOCUMENTS: Final = frozenset({"json", "yaml", "yml"})
_PROGRAMS: Final = frozenset({"py", "js", "ts", "mjs", "cjs"})


def files_named(name: str, folder: Path) -> list[Path]:
    """Return the files of a name or pattern, which is relative to a folder.

    Raises:
        BadExport: there is none, or it is a program.
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
    except (ValueError, OSError, IndexError):  # an index error is what `glob` makes of `.`
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
    """Return the text of a file that a variable names, as prompts have it: YAML as JSON."""
    if ending_of(path) in {"yaml", "yml"}:
        return json.dumps(read_document(path), ensure_ascii=False, separators=(",", ":"), default=str)
    return read_text(path).strip()


def value_of_file(name: str, folder: Path) -> Any:  # noqa: ANN401 - JSON
    """Return the value of a file that an assertion names."""
    (path, *_) = files_named(name, folder)
    return read_document(path) if ending_of(path) in _DOCUMENTS else text_of_file(path)


def named_variables(test: Mapping[str, Any], folder: Path) -> list[Mapping[str, Any]]:
    """Return the variables of a test, also from files; of a table, those of each row.

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
        raise BadExport("vars is an object, or names files")
    merged: list[Mapping[str, Any]] = [{}]
    for path in (path for name in names for path in files_named(name, folder)):
        rows = _rows(path)
        check_combinations(len(merged) * len(rows))
        merged = [{**before, **row} for before in merged for row in rows]
    return merged


def check_combinations(count: int) -> None:
    """Refuse a test whose variables make too many.

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
        raise BadExport(f"{path.name}: it holds no variables, which are an object")
    return rows


def with_named_variables(test: object, folder: Path) -> object:
    """Return a test of a file with its variables, since names in it are relative to that file."""
    if not isinstance(test, Mapping) or isinstance(test.get("vars"), Mapping | None):
        return test
    return {**test, "vars": named_variables(test, folder)}
