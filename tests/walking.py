"""All that takes a value from outside, by its declarations: commands, tools, forms, bodies; and values to try there."""

import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, Final, TypeVar

import click
from hypothesis import settings

from tests.trying import SOAK

Value = TypeVar("Value")
Place = tuple[str | int, ...]

NUMBERS: Final = (
    str(2**31), str(2**53 + 1), str(2**63 - 1), str(2**63), str(2**64), "1e308", "1e400", "NaN", "Infinity", "-0.0",
    "-1", "9" * 400, "9" * 5_000,
)  # fmt: skip
TIMES: Final = (
    "0000-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "0001-01-01", "1969-12-31T23:59:59Z", "2262-04-12T00:00",
    "9999-12-31T23:59:59-14:00", "9999-12-31", "10000-01-01T00:00:00Z", "99999999d", "999999999d", "9" * 20 + "s",
)  # fmt: skip
EVIL: Final = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.\x08\x7f\x90q\x9c"
"""What a terminal obeys."""

TEXTS: Final = ("", EVIL, "a\x00b", "a" * 100_000, "']}{\"%s%n{0}../../etc/passwd", "\u2028\ufeff\U000e0041", "\ud800")
JSON_VALUES: Final = (
    *NUMBERS, *(json.dumps(each) for each in (*TEXTS, *TIMES)), '{"\\ud800": "\\u0000"}', '["\\ud800"]', "null", "true",
    "[" * 5_000 + "]" * 5_000, '{"a": 1e400}',
)  # fmt: skip
"""What JSON, or what Python reads as JSON, can say in place of a value."""


def is_soaking() -> bool:
    """Return whether to try everything."""
    return settings.get_current_profile_name() == SOAK


def some_of(values: Sequence[Value], name: str, most: int = 2) -> Sequence[Value]:
    """Return a few values for a place, other ones for each name; in `make soak` all of them."""
    if is_soaking():
        return values
    first = zlib.crc32(name.encode())
    return [values[(first + step * 7) % len(values)] for step in range(min(most, len(values)))]


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield each command that does something, with the words that call it."""
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from commands(each, (*path, name))
    else:
        yield path, command


def arguments(command: click.Command, known: Mapping[str, str], **changed: str) -> list[str]:
    """Return arguments of a command: those that it needs, of `known`, and those that are changed, by their names."""
    options, places = [], []
    for each in command.params:
        value = changed.get(str(each.name), known.get(each.opts[0]) if each.required else None)
        if value is None:
            continue
        if isinstance(each, click.Argument):
            places.append(value)
        else:
            options.append(f"{each.opts[0]}={value}")
    return [*options, "--", *places]


def example(schema: Mapping[str, Any], shapes: Mapping[str, Any], ids: Mapping[str, str], name: str = "") -> Any:
    """Return a value that a JSON schema describes, with every property, about things with these ids."""
    inner = next((schema[key][0] for key in ("anyOf", "oneOf", "allOf") if key in schema), None)
    if "$ref" in schema:
        inner = shapes[schema["$ref"].rpartition("/")[2]]
    if inner is not None:
        return example(inner, shapes, ids, name) if len(name) < 200 else None  # a schema of JSON refers to itself
    for key in ("const", "enum", "examples"):
        if key in schema:
            return schema[key] if key == "const" else schema[key][0]
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            return {key: example(each, shapes, ids, f"{name}.{key}") for key, each in properties.items()}
        case "array":
            return [example(schema.get("items", {}), shapes, ids, f"{name}.s")]
        case "integer" | "number":
            return max(1, schema.get("minimum", 1))
        case "boolean":
            return False
        case "string" if "." in name:
            return ids.get(re.sub(r"([A-Z])", lambda match: f"_{match[1].lower()}", name.rpartition(".")[2]), "qa")
        case _:
            return "qa"


def places(document: Any, place: Place = ()) -> Iterator[Place]:
    """Yield each place in a JSON document, the whole included."""
    yield place
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, each in inner:
        yield from places(each, (*place, key))


def changed_at(document: Any, place: Place, value: str) -> str:
    """Return a document as JSON with other JSON at a place, which need not be JSON."""

    def marked(part: Any, rest: Place) -> Any:
        if not rest:
            return "@here"
        pairs = part.items() if isinstance(part, dict) else enumerate(part)
        made = {key: marked(each, rest[1:]) if key == rest[0] else each for key, each in pairs}
        return made if isinstance(part, dict) else list(made.values())

    return json.dumps(marked(document, place)).replace('"@here"', value)


@dataclass(slots=True)
class PageForm:
    """A form of a page: its method and address, its fields with their values, and the names of empty ones."""

    method: str
    action: str
    fields: dict[str, str] = field(default_factory=dict)
    empty: set[str] = field(default_factory=set)


class PageReader(HTMLParser):
    """The forms and links of a page."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__()
        self.path = path
        self.forms: list[PageForm] = []
        self.links: list[str] = []
        self._form = PageForm("", "")  # for fields outside of any form
        self._name = ""  # of the text area or the selection that is open
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of a form, a field or a link."""
        attributes = {name: value or "" for name, value in attrs}
        name, value = attributes.get("name", ""), attributes.get("value", "")
        if tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
        elif tag == "form":
            self._form = PageForm(attributes.get("method", "get").lower(), attributes.get("action") or self.path)
            self.forms.append(self._form)
        elif tag == "option" and self._name and ("selected" in attributes or not self._form.fields[self._name]):
            self._form.fields[self._name] = value
        elif tag == "button" or (attributes.get("type") in {"checkbox", "radio"} and "checked" not in attributes):
            self._form.empty |= {name} - {""}
        elif tag in {"input", "select", "textarea"} and name:
            self._form.fields[name] = value
            self._name = "" if tag == "input" else name

    def handle_data(self, data: str) -> None:
        """Take note of what stands in a text area."""
        if self._name and self.lasttag == "textarea":
            self._form.fields[self._name] += data

    def handle_endtag(self, tag: str) -> None:
        """Take note that something ends."""
        if tag in {"select", "textarea"}:
            self._name = ""
        elif tag == "form":
            self._form = PageForm("", "")
