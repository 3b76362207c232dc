"""Tests of promptfoo: a configuration (YAML or JSON) with the files that it names, or a file of tests by itself."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from collector.datasets.importers.reading import (
    BadExport,
    Place,
    read_json,
    read_lines,
    read_rows,
    read_text,
    without_nothing,
)

_MOST_TESTS: Final = 100_000  # of one whose variables are lists
_FILE: Final = "file://"
_EXPECTED: Final = re.compile(r"__expected\d*$")
_ASSERTION: Final = re.compile(r"(not-)?([a-z][a-z-]*)(?:\((\d+(?:\.\d+)?)\))?(?::\s*(.*))?$", re.DOTALL)
_ASSERTIONS: Final = """
answer-relevance bleu classifier contains contains-all contains-any contains-html contains-json contains-sql
contains-xml context-faithfulness context-recall context-relevance cost equals factuality f-score finish-reason
g-eval gleu guardrails icontains icontains-all icontains-any is-html is-json is-refusal is-sql
is-valid-function-call is-valid-openai-function-call is-valid-openai-tools-call is-xml javascript latency
levenshtein llm-rubric meteor moderation model-graded-closedqa model-graded-factuality perplexity perplexity-score
pi python regex rouge-n ruby select-best similar starts-with trace-error-spans trace-span-count trace-span-duration
webhook word-count
"""
_TYPES: Final = frozenset(_ASSERTIONS.split())
_OTHERS: Final = {"fn": "javascript", "eval": "javascript", "grade": "llm-rubric"}
_NO_FILES: Final = (".py", ".js", ".ts", ".mjs", ".cjs", ".xlsx", ".xls")


def read_promptfoo(path: Path) -> Iterator[Place]:
    """A case for each test, and for each combination of its variables that are lists.

    Raises:
        BadExport: it is none of these, or names what only promptfoo can run.
    """
    document: Any = path.name if path.suffix.lower() in {".csv", ".jsonl"} else _document(path)
    if not isinstance(document, Mapping):
        document = {"tests": document}
    if document.get("tests") is None:
        raise BadExport(f"{path.name}: it has no tests")
    default = document.get("defaultTest")
    for place, test in _tests(document["tests"], path.parent):
        yield from _cases(place, test, default if isinstance(default, Mapping) else {})


def _document(path: Path) -> Any:  # noqa: ANN401 - YAML
    if path.suffix.lower() == ".json":
        return read_json(path)
    try:
        return yaml.safe_load(read_text(path))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadExport(f"{path.name}: it is not YAML: {error}") from None


def _tests(wanted: object, folder: Path) -> Iterator[Place]:
    """Tests as they stand there, and those of the files that are named."""
    if isinstance(wanted, Mapping) and "path" in wanted:
        wanted = wanted["path"]
    if isinstance(wanted, str):
        yield from _of_file(wanted, folder)
    elif isinstance(wanted, list):
        for number, each in enumerate(wanted, start=1):
            if isinstance(each, str) or (isinstance(each, Mapping) and "path" in each):
                yield from _tests(each, folder)
            else:
                yield f"test {number}", each
    else:
        raise BadExport("tests is a list, or names a file")


def _of_file(name: str, folder: Path) -> Iterator[Place]:
    told = name.removeprefix(_FILE)
    if "://" in told or told.partition(":")[0].endswith(_NO_FILES):
        raise BadExport(f"{name}: only promptfoo can read that; have it write the tests as CSV, JSON or YAML")
    found = sorted(folder.glob(told)) if "*" in told else [folder / told]
    if not found:
        raise BadExport(f"{name}: no file is called so")
    for path in found:
        suffix = path.suffix.lower()
        if suffix == ".csv":
            yield from ((f"{path.name}, {place}", _test_of_row(row)) for place, row in read_rows(path))
        elif suffix == ".jsonl":
            yield from ((f"{path.name}, {place}", test) for place, test in read_lines(path))
        else:
            document = _document(path)
            tests = document.get("tests", [document]) if isinstance(document, Mapping) else document
            yield from ((f"{path.name}, {place}", test) for place, test in _tests(tests, path.parent))


def _test_of_row(row: Mapping[str, str]) -> dict[str, Any]:
    """A row of CSV: columns are variables, but for those that begin with two underscores."""
    test: dict[str, Any] = {"vars": {}, "assert": [], "metadata": {}}
    for name, cell in row.items():
        if _EXPECTED.match(name):
            test["assert"].append(_assertion(cell))
        elif name.startswith("__metadata:"):
            key = name.removeprefix("__metadata:")
            parts = [part.strip().replace("\\,", ",") for part in re.split(r"(?<!\\),", cell)]
            test["metadata"][key.removesuffix("[]")] = parts if key.endswith("[]") else cell
        elif name.startswith("__"):
            test[name.removeprefix("__").partition(":")[0]] = cell
        else:
            test["vars"][name] = cell
    return test


def _assertion(cell: str) -> dict[str, Any]:
    """What a cell expects: `contains: text`, `similar(0.8): text`; a text by itself is to be equalled."""
    found = _ASSERTION.match(cell.strip())
    kind = "" if found is None else _OTHERS.get(found[2], found[2])
    if found is None or kind not in _TYPES:
        return {"type": "equals", "value": cell}
    threshold = None if found[3] is None else float(found[3])
    return without_nothing({"type": f"{found[1] or ''}{kind}", "value": found[4], "threshold": threshold})


def _cases(place: str, test: object, default: Mapping[str, Any]) -> Iterator[Place]:
    if not isinstance(test, Mapping):
        raise BadExport(f"{place}: a test is an object")
    said, own = default.get("vars") or {}, test.get("vars") or {}
    if not isinstance(said, Mapping) or not isinstance(own, Mapping):
        raise BadExport(f"{place}: vars are not written there; only promptfoo can read them")
    variables = {**said, **own}
    if not variables:
        raise BadExport(f"{place}: it has no variables, which are what goes in")
    asserted = [*(default.get("assert") or []), *(test.get("assert") or [])]
    metadata = {**(default.get("metadata") or {}), **(test.get("metadata") or {})}
    metadata |= without_nothing({name: test.get(name) for name in ("description", "threshold", "metric")})
    for inputs in _combined(place, variables):
        yield (
            place,
            without_nothing(
                {
                    "inputs": inputs,
                    "expectedOutputs": _expected(asserted, inputs),
                    "metadata": metadata | ({"assert": asserted} if asserted else {}),
                }
            ),
        )


def _combined(place: str, variables: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One for each combination of variables that are lists, as promptfoo does it."""
    lists = {name: value for name, value in variables.items() if isinstance(value, list) and value}
    count = 1
    for value in lists.values():
        count *= len(value)
    if count > _MOST_TESTS:
        raise BadExport(f"{place}: its variables make {count:,} combinations")
    for chosen in itertools.product(*lists.values()):
        yield {**variables, **dict(zip(lists, chosen, strict=True))}


def _expected(asserted: Sequence[Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What the output has to equal, where a test says that; all else that it asserts stays in the metadata."""
    for each in asserted:
        if isinstance(each, Mapping) and each.get("type") == "equals" and each.get("value") is not None:
            return {"output": _filled(each["value"], inputs)}
    return {}


def _filled(value: Any, inputs: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    """A text in which variables stand for themselves."""
    if not isinstance(value, str):
        return value
    return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda found: str(inputs.get(found[1], found[0])), value)
