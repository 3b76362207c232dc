"""Count the violations of the rules for names, docstrings and documents (docs/extending.md).

`python -m tests.prose` fails if a rule has more violations than tests/prose.toml allows. `python -m tests.prose RULE`
lists those of a rule, and `python -m tests.prose --lower`, which `make format` runs, writes the numbers that fell.
"""

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from tests.source_tree import ROOT

COUNTS: Final = Path("tests", "prose.toml")
FOLDERS: Final = ("benchmarks", "collector", "evaluators", "rules", "sdk/python/src", "storage", "tests")
DOCUMENTS: Final = ("*.md", "docs/*.md", "docs/evaluators/*.md", "sdk/python/README.md")
"""Decisions are records of their time, and so is the changelog."""

RULES: Final = (
    "verb",
    "data",
    "people",
    "short",
    "raises",
    "raises-text",
    "description",
    "is-no",
    "long",
    "docs-people",
)

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Violation: TypeAlias = tuple[str, int]
"""The rule, and the line."""

_NO_VERB: Final = re.compile(
    r"(?:How|What|Whatever|When|Where|Whether|Which|Who|Whoever|Whom|Whose|Why"
    r"|Anybody|He|It|Nobody|She|Somebody|That|These|They|This|Those)\b"
)
_DATA: Final = frozenset({"asked", "came", "found", "given", "said", "there", "told", "wanted"})
_PEOPLE: Final = re.compile(r"\b(?:anybody|nobody|somebody|whoever)\b", re.IGNORECASE)
_IS_NO: Final = re.compile(
    r"\b(?:it|that|this|which)\s+(?:is|are)\s+no\s+(?!better\b|fewer\b|less\b|longer\b|more\b|worse\b|\w+er\s+than\b)\w",
    re.IGNORECASE,
)
_DESCRIBING: Final = frozenset({"Field", "Prompt", "Tool", "add_argument", "addoption", "doc", "option"})
_RAISED: Final = re.compile(r"^    \w+(?:, \w+)*: (.*(?:\n {5,}.*)*)", re.MULTILINE)
"""An entry of `Raises:`, with its further lines."""

_REFERS_BACK: Final = re.compile(r"(?:he|it|its|none|one|that|there|they)\b", re.IGNORECASE)
_BRIEF: Final = 7
"""Words of an entry of `Raises:` that hardly says more than its pronoun."""

_SHORT: Final = 4
"""Lines of a body that needs no docstring."""

_LONG: Final = 25
"""Words that a sentence of a document may have."""
_NO_PROSE: Final = re.compile(r"^ *(```|~~~).*?^ *\1|^ *[|#>].*?$|<!--.*?-->|<[^>]*>", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"(`+).+?\1", re.DOTALL)
_TARGET: Final = re.compile(r"\]\([^)]*\)")
_PARAGRAPH: Final = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*+]|\d+\.)\s)")
_SENTENCE: Final = re.compile(r"(?<=[.!?])[)*_\"]*\s+(?=[\[(*_\"]*[A-Z0-9])")


def violations(text: str) -> Iterator[Violation]:
    """Yield what a module violates. A claim, the docstring of a test, may begin as it likes."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _of_docstring(node)
        if isinstance(node, ast.Call):
            yield from (("description", node.lineno) for each in _described(node) if _NO_VERB.match(each))
        yield from (("data", line) for name, line in _bound(node) if not _DATA.isdisjoint(name.lower().split("_")))
    rules = [(rule, pattern) for rule, pattern in (("people", _PEOPLE), ("is-no", _IS_NO)) if pattern.search(text)]
    lines = io.StringIO(text if rules else "")  # since reading tokens takes as long as parsing
    for token in tokenize.generate_tokens(lines.readline):
        if token.type == tokenize.COMMENT:
            yield from ((rule, token.start[0]) for rule, pattern in rules if pattern.search(token.string))


def violations_of_document(text: str) -> Iterator[Violation]:
    """Yield what the prose of a Markdown document violates: code, tables, headings and quotations are none."""
    for pattern, word in ((_NO_PROSE, ""), (_CODE, "Code"), (_TARGET, "]")):
        text = "".join(_blanked(pattern, word, text))
    for rule, pattern in (("docs-people", _PEOPLE), ("is-no", _IS_NO)):
        yield from ((rule, _line(text, match.start())) for match in pattern.finditer(text))
    ends = [*(match.start() for pattern in (_PARAGRAPH, _SENTENCE) for match in pattern.finditer(text)), len(text)]
    start = 0
    for end in sorted(ends):
        words = re.findall(r"\S*\w\S*", text[start:end])
        if len(words) > _LONG:
            yield "long", _line(text, start + len(text[start:end]) - len(text[start:end].lstrip()))
        start = end


def _blanked(pattern: re.Pattern[str], word: str, text: str) -> Iterator[str]:
    """Yield the text with a word, and the line breaks, in place of what matches, so that lines keep their numbers."""
    start = 0
    for match in pattern.finditer(text):
        yield text[start : match.start()] + word + "\n" * match[0].count("\n")
        start = match.end()
    yield text[start:]


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _of_docstring(node: Function | ast.ClassDef) -> Iterator[Violation]:
    docstring = ast.get_docstring(node)
    if not docstring:
        return
    if not node.name.startswith("test_") and _NO_VERB.match(docstring):
        yield "verb", node.lineno
    if _PEOPLE.search(docstring):
        yield "people", node.lineno
    if _IS_NO.search(docstring):
        yield "is-no", node.lineno
    for entry in _RAISED.findall(docstring.partition("Raises:")[2]):
        if _REFERS_BACK.match(entry) and len(entry.split()) <= _BRIEF:
            yield "raises-text", node.lineno
    is_private = node.name.startswith("_") and not node.name.startswith("__")
    if isinstance(node, ast.ClassDef) or not is_private:
        return
    if (node.body[-1].end_lineno or 0) - (node.body[0].end_lineno or 0) <= _SHORT:
        yield "short", node.lineno
    if "Raises:" in docstring:
        yield "raises", node.lineno


def _described(call: ast.Call) -> Iterator[str]:
    """Yield the texts with which a call describes a field, an option or a tool to users."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name not in _DESCRIBING:
        return
    values = (
        call.args if name == "doc" else [each.value for each in call.keywords if each.arg in {"description", "help"}]
    )
    parts = (value.values[0] if isinstance(value, ast.JoinedStr) and value.values else value for value in values)
    yield from (part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str))


def _bound(node: ast.AST) -> Iterator[tuple[str, int]]:
    if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield (node.id if isinstance(node, ast.Name) else node.attr), node.lineno
    elif isinstance(node, ast.arg):
        yield node.arg, node.lineno


def count(root: Path) -> Mapping[str, Sequence[str]]:
    """Return the places of each rule's violations, as path:line."""
    places: dict[str, list[str]] = {rule: [] for rule in RULES}
    for file in sorted(file for folder in FOLDERS for file in (root / folder).rglob("*.py")):
        for rule, line in violations(file.read_text(encoding="utf-8")):
            places[rule].append(f"{file.relative_to(root)}:{line}")
    for file in documents(root):
        for rule, line in violations_of_document(file.read_text(encoding="utf-8")):
            places[rule].append(f"{file.relative_to(root)}:{line}")
    return places


def documents(root: Path) -> Sequence[Path]:
    """Return the documents whose prose is counted."""
    return sorted(file for pattern in DOCUMENTS for file in root.glob(pattern) if file.name != "CHANGELOG.md")


def main(arguments: Sequence[str]) -> int:
    """Compare the counts with those of the file; the exit code."""
    places = count(ROOT)
    for rule in places.keys() & set(arguments):
        sys.stdout.writelines(f"{place}\n" for place in places[rule])
    text = (ROOT / COUNTS).read_text(encoding="utf-8")
    allowed = tomllib.loads(text)
    over = {rule: len(listed) for rule, listed in places.items() if len(listed) > allowed[rule]}
    for rule, number in over.items():
        hint = f"list them with python -m tests.prose {rule}"
        sys.stderr.write(f"{COUNTS}: {rule} allows {allowed[rule]} violations, and there are {number}; {hint}\n")
    if "--lower" in arguments:
        for rule, listed in places.items():
            lower = min(len(listed), allowed[rule])
            text = re.sub(rf"^{rule} = \d+", f"{rule} = {lower}", text, flags=re.MULTILINE)
        (ROOT / COUNTS).write_text(text, encoding="utf-8")
    return int(bool(over))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
