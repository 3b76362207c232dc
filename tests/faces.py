"""Output for clients in a reproducible form: outlines of pages, and responses without ids and numbers."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, Final, TypeAlias

from tests.conftest import GOLDEN

Golden: TypeAlias = Callable[[str, str], None]

VOID: Final = {"input", "br", "hr", "img", "link", "meta", "source", "wbr"}
SKIPPED: Final = {"script", "style", "svg"}
QUIET: Final = {
    "b", "br", "code", "dd", "div", "dl", "em", "footer", "header", "i", "kbd", "mark", "section", "small", "span",
    "strong", "tbody", "thead", "wbr",
}  # fmt: skip
"""Tags that show nothing by themselves: without a shown attribute, their content stands in their place."""

SHOWN: Final = {
    "action", "aria-current", "aria-label", "autocomplete", "checked", "colspan", "disabled", "formaction", "href",
    "max", "maxlength", "method", "min", "minlength", "name", "open", "pattern", "placeholder", "readonly", "required",
    "role", "selected", "src", "step", "title", "type", "value",
}  # fmt: skip
"""Attributes that a user notices. Classes, ids and data of scripts change with the look."""

LIMITS: Final = {"max", "maxlength", "min", "minlength", "pattern", "step"}
LINE_LENGTH: Final = 120
VALUE_LENGTH: Final = 200
"""A longer value of a field is a document, which other tests check."""

ID_LENGTH: Final = 12
"""Shorter ids are words or numbers, which stand elsewhere too."""

_AGO: Final = re.compile(r"just now|\b(?:an?|\d+) ?(?:second|minute|hour|day|month|year|s|min|h|d)s? ago\b")
_ID: Final = re.compile(r"tj_[\w-]+|key_[0-9a-f]+|(?<![0-9A-Za-z])[0-9a-f]{8,}(?![0-9A-Za-z])")
_TIME: Final = re.compile(
    r"\d{4}-\d\d-\d\d(?:(?:[T ]|%20)\d\d(?::|%3A)\d\d(?:(?::|%3A)\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?)?"
)


def compare(golden: Golden, folder: str, texts: Mapping[str, str]) -> None:
    """Compare each text with its file in a folder, which has no others."""
    for name, text in texts.items():
        golden(f"{folder}/{name}.txt", text)
    assert {path.stem for path in (GOLDEN / folder).iterdir()} == set(texts)


class Normalizer:
    """The replacement of what differs from one store to the next."""

    def __init__(self, names: Mapping[str, str]) -> None:
        """Set the `names` of ids."""
        self._names = {value: f"{{{name}}}" for value, name in names.items() if len(value) >= ID_LENGTH}

    def text(self, text: str) -> str:
        """Return a text with names for ids, times and ages, and 0 for each number."""
        for value, name in self._names.items():
            text = text.replace(value, name)
        text = _ID.sub("{id}", _TIME.sub("{time}", text))
        return re.sub(r"\d+(?:[.,]\d+)*", "0", _AGO.sub("{age}", text))

    def value(self, value: Any) -> Any:
        """Return a value of JSON with the same keys and types; of equal items, one."""
        match value:
            case dict():
                return {self.text(name): self.value(each) for name, each in value.items()}
            case list():
                return _in_order([self.value(each) for each in value])
            case str():
                return self.text(value)
            case bool() | None:
                return value
            case _:
                return type(value)()

    def document(self, text: str) -> str:
        """Return a document of JSON, or one for each line, with the keys in their order; what fits stands on a line."""
        try:
            documents = [json.loads(text)]
        except json.JSONDecodeError:
            documents = [json.loads(line) for line in text.splitlines()]
        return "".join(_laid_out(self.value(each)) + "\n" for each in documents)

    def printed(self, text: str) -> str:
        """Return what a command prints, with columns two spaces apart."""
        lines = (re.sub(r"(?<=\S) {2,}", "  ", line.rstrip()) for line in self.text(text).splitlines())
        return "\n".join(lines) + "\n"

    def page(self, text: str) -> str:
        """Return the outline of a page: a line for each tag that shows something, and for each text."""
        return "".join(f"{'  ' * depth}{line}\n" for depth, line in self._outline(_Tree(text).main(), 0))

    def _outline(self, tag: "Tag", depth: int) -> Iterator[tuple[int, str]]:
        words: list[str] = []
        for each in tag.flat():
            if isinstance(each, str):
                words.append(each)
                continue
            if text := self.text(" ".join("".join(words).split())):
                yield depth, f'"{text}"'
            words = []
            inner = list(self._outline(each, depth + 1))
            line = " ".join([each.name, *(self._attribute(*pair) for pair in each.shown.items())])
            if inner and inner[0][0] == depth + 1 and inner[0][1].startswith('"'):
                line += f" {inner.pop(0)[1]}"
            yield depth, line
            yield from inner
        if text := self.text(" ".join("".join(words).split())):
            yield depth, f'"{text}"'

    def _attribute(self, name: str, value: str | None) -> str:
        if value is None or (name == "value" and len(value) > VALUE_LENGTH):
            return name
        return f"{name}={value if name in LIMITS else self.text(value)}"


@dataclass(slots=True)
class Tag:
    """A tag with its shown attributes and its content."""

    name: str
    shown: dict[str, str | None] = field(default_factory=dict)
    inside: list["Tag | str"] = field(default_factory=list)

    def flat(self) -> "Iterator[Tag | str]":
        """Yield texts and tags that show something; other tags are replaced by their content."""
        for each in self.inside:
            if isinstance(each, Tag) and each.name in QUIET and not each.shown:
                yield " "
                yield from each.flat()
                yield " "
            else:
                yield each


def _laid_out(value: Any, indent: str = "") -> str:
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(line) < LINE_LENGTH or not isinstance(value, dict | list):
        return line
    inner = indent + "  "
    if isinstance(value, list):
        parts, brackets = [_laid_out(each, inner) for each in value], "[]"
    else:
        parts, brackets = [f"{json.dumps(name)}: {_laid_out(each, inner)}" for name, each in value.items()], "{}"
    return brackets[0] + "".join(f"\n{inner}{part}," for part in parts) + f"\n{indent}{brackets[1]}"


def _in_order(values: list[Any]) -> list[Any]:
    # In the order of their text: random ids decide the order of items made at one time.
    if not all(isinstance(each, dict) for each in values):
        return values
    return [json.loads(text) for text in sorted({json.dumps(each, ensure_ascii=False) for each in values})]


class _Tree(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self._open = [Tag("page")]
        self.feed(page)

    def main(self) -> Tag:
        """Return the content of `main`, or all of a fragment."""
        tags = [self._open[0]]
        for tag in tags:
            if tag.name == "main":
                return tag
            tags += [each for each in tag.inside if isinstance(each, Tag)]
        return self._open[0]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Tag(tag, {name: value for name, value in attrs if name in SHOWN})
        if made.shown.get("name") == "csrf":
            return
        self._open[-1].inside.append(made)
        if tag not in VOID:
            self._open.append(made)

    def handle_endtag(self, tag: str) -> None:
        names = [each.name for each in self._open]
        if tag in names[1:]:
            del self._open[len(names) - 1 - names[::-1].index(tag) :]

    def handle_data(self, data: str) -> None:
        inside = {each.name for each in self._open}
        if "time" in inside:
            data = "{time}"
        if not inside & SKIPPED:
            self._open[-1].inside.append(data)
