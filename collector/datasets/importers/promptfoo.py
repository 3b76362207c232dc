"""Tests of promptfoo: a configuration (YAML or JSON) with the files that it names, a file of tests, or results."""

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from collector.datasets.importers.promptfoo_files import (
    FILE,
    check_combinations,
    files_named,
    named_variables,
    read_document,
    text_of_file,
    value_of_file,
    with_named_variables,
)
from collector.datasets.importers.reading import (
    NO_INPUT,
    BadExport,
    Place,
    non_empty,
    read_header,
    read_lines,
    read_rows,
)
from tracejury.dataset_text import shown
from tracejury.file_ending import ending_of

_INTERNAL: Final = "_promptfooFileMetadata"  # metadata that promptfoo adds to results
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
_PROGRAMS: Final = frozenset({"py", "js", "ts", "mjs", "cjs", "xlsx", "xls"})
_OUTPUT: Final = re.compile(r"\[.+\] .*", re.DOTALL)  # the column of a prompt in results: "[provider] prompt"


def read_promptfoo(path: Path) -> Iterator[Place]:
    """Read a case for each test, and for each combination of its list variables; of results, each case once.

    Raises:
        BadExport: the file has neither tests nor results, or names something that only promptfoo can run.
    """
    results = _results(path)
    if results is not None:
        yield from _of_results(results, path.parent)
        return
    tests: object = path.name
    default: object = {}
    if ending_of(path) not in {"csv", "jsonl"}:
        document = read_document(path)
        tests = document.get("tests") if isinstance(document, Mapping) else document
        default = document.get("defaultTest") if isinstance(document, Mapping) else {}
    if tests is None:
        raise BadExport(f"{path.name}: it has no tests")
    if isinstance(default, str):
        default = read_document(path.parent / default.removeprefix(FILE))
    for place, test in _tests(tests, path.parent):
        yield from _cases(place, test, default if isinstance(default, Mapping) else {}, path.parent)


def _results(path: Path) -> Iterable[Any] | None:
    """Return the results in a file that `promptfoo eval --output` wrote; None for other files."""
    if ending_of(path) == "csv":
        output = next((name for name in read_header(path) if _OUTPUT.fullmatch(name)), None)
        if output is not None:
            raise BadExport(
                f"{path.name}: the column {shown(output)} holds outputs: these are results without their assertions; "
                "import the configuration, or results as JSON, JSONL or YAML (promptfoo eval --output out.json)"
            )
        return None
    if ending_of(path) == "jsonl":
        lines = [line for _, line in read_lines(path)]
        return lines if lines and all(isinstance(each, Mapping) and "testCase" in each for each in lines) else None
    document = read_document(path)
    results = document.get("results") if isinstance(document, Mapping) else None
    if results is None:
        return None
    listed = results.get("results") if isinstance(results, Mapping) else results
    if not isinstance(listed, list) or not all(isinstance(each, Mapping) and "testCase" in each for each in listed):
        raise BadExport(f"{path.name}: these are results without their tests; import the configuration")
    return listed


def _of_results(results: Iterable[Mapping[str, Any]], folder: Path) -> Iterator[Place]:
    """Read the cases of tests that ran, once each, for any number of prompts, models and repeats."""
    known = set[str]()
    for result in sorted(results, key=_number):
        for place, case in _cases(f"test {_number(result) + 1}", result["testCase"], {}, folder):
            text = repr(case or place)
            if text not in known:
                yield place, case
            known.add(text)


def _number(result: Mapping[str, Any]) -> int:
    number = result.get("testIdx")
    return number if isinstance(number, int) else 0


def _tests(tests: object, folder: Path) -> Iterator[Place]:
    """Yield inline tests, and those of the named files."""
    if isinstance(tests, Mapping) and "path" in tests:
        tests = tests["path"]
    if isinstance(tests, str):
        yield from _of_file(tests, folder)
    elif isinstance(tests, list):
        for number, each in enumerate(tests, start=1):
            if isinstance(each, str) or (isinstance(each, Mapping) and "path" in each):
                yield from _tests(each, folder)
            else:
                yield f"test {number}", with_named_variables(each, folder)
    else:
        raise BadExport("tests must be a list or the name of a file")


def _of_file(name: str, folder: Path) -> Iterator[Place]:
    if "://" in name.removeprefix(FILE) or ending_of(name.removeprefix(FILE).partition(":")[0]) in _PROGRAMS:
        raise BadExport(f"{name}: only promptfoo can read that; have it write the tests as CSV, JSON or YAML")
    for path in files_named(name, folder):
        if ending_of(path) == "csv":
            yield from ((f"{path.name}, {place}", _test_of_row(row)) for place, row in read_rows(path))
        elif ending_of(path) == "jsonl":
            lines = ((place, with_named_variables(test, path.parent)) for place, test in read_lines(path))
            yield from ((f"{path.name}, {place}", test) for place, test in lines)
        else:
            document = read_document(path)
            tests = document.get("tests", [document]) if isinstance(document, Mapping) else document
            yield from ((f"{path.name}, {place}", test) for place, test in _tests(tests, path.parent))


def _test_of_row(row: Mapping[str, str]) -> dict[str, Any]:
    """Read a test of CSV: columns are variables, except those that begin with two underscores."""
    test: dict[str, Any] = {"vars": {}, "assert": [], "metadata": {}}
    for name, cell in row.items():
        if _EXPECTED.match(name):
            test["assert"].append(_assertion(cell))
        elif name.startswith("__metadata:"):
            key = name.removeprefix("__metadata:")
            parts = [part.strip().replace("\\,", ",") for part in re.split(r"(?<!\\),", cell)]
            test["metadata"][key.removesuffix("[]")] = parts if key.endswith("[]") else cell
        elif name.startswith("__"):
            test.setdefault(name.removeprefix("__").partition(":")[0], cell)
        else:
            test["vars"][name] = cell
    return test


def _assertion(cell: str) -> dict[str, Any]:
    """Parse an assertion of a cell: `contains: text`, `similar(0.8): text`; a bare text is compared for equality."""
    match = _ASSERTION.match(cell.strip())
    kind = "" if match is None else _OTHERS.get(match[2], match[2])
    if match is None or kind not in _TYPES:
        return {"type": "equals", "value": cell}
    threshold = None if match[3] is None else float(match[3])
    return non_empty({"type": f"{match[1] or ''}{kind}", "value": match[4], "threshold": threshold})


def _cases(place: str, test: object, default: Mapping[str, Any], folder: Path) -> Iterator[Place]:
    if not isinstance(test, Mapping):
        raise BadExport(f"{place}: a test must be an object")
    for each in (default, test):
        if not isinstance(each.get("assert") or [], list) or not isinstance(each.get("metadata") or {}, Mapping):
            raise BadExport(f"{place}: assert must be a list, and metadata an object")
    asserted = [*(default.get("assert") or []), *(test.get("assert") or [])]
    metadata = {**(default.get("metadata") or {}), **(test.get("metadata") or {})}
    metadata.pop(_INTERNAL, None)
    metadata |= non_empty({name: test.get(name) for name in ("description", "threshold", "metric")})
    metadata |= {"assert": asserted} if asserted else {}
    try:
        tables = named_variables(default, folder), named_variables(test, folder)
        check_combinations(math.prod(map(len, tables)))
        for variables in itertools.product(*tables):
            merged = {**variables[0], **variables[1]}
            if not non_empty(merged):
                yield place, NO_INPUT
                continue
            for inputs in _combined(merged, folder):
                expected = _expected(asserted, inputs, folder)
                case = {"inputs": inputs, "expectedOutputs": expected, "metadata": metadata}
                yield place, non_empty(case)
    except BadExport as error:
        raise BadExport(f"{place}: {error}") from None


def _combined(variables: Mapping[str, Any], folder: Path) -> Iterator[dict[str, Any]]:
    choices = {name: _choices(value, folder) for name, value in variables.items()}
    check_combinations(math.prod(map(len, choices.values())))
    for chosen in itertools.product(*choices.values()):
        yield dict(zip(choices, chosen, strict=True))


def _choices(value: object, folder: Path) -> list[Any]:
    if isinstance(value, str) and value.startswith(FILE):
        return [text_of_file(each) for each in files_named(value, folder)]
    if isinstance(value, list) and value and isinstance(value[0], str):
        return [choice for each in value for choice in _choices(each, folder)]
    return [value]


def _expected(asserted: Sequence[Any], inputs: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the output that a test expects by `equals`, if any; all its assertions stay in the metadata."""
    for each in asserted:
        if isinstance(each, Mapping) and each.get("type") == "equals" and each.get("value") is not None:
            value = each["value"]
            if isinstance(value, str) and value.startswith(FILE):
                return {"output": value_of_file(value, folder)}
            return {"output": _filled(value, inputs)}
    return {}


def _filled(value: Any, inputs: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    if not isinstance(value, str):
        return value
    return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda match: str(inputs.get(match[1], match[0])), value)
