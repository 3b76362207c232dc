"""A rule's document as YAML that parses to the same document."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

import yaml

from rules.errors import BadRule
from rules.tree import read_tree
from storage.records import JsonValue

_WIDTH: Final = 110
_FLAT: Final = 90  # characters of a condition, or of a list of scalars, that stands on one line


def yaml_of(document: Mapping[str, JsonValue]) -> str:
    """Format a document, in the order of its keys; texts of several lines as blocks, short conditions on one line."""
    return yaml.dump(
        document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH, default_flow_style=False
    )


def spelled(value: JsonValue) -> str:
    """Return a value on one line, as `meant` reads it: a text without quotes if that parses to the same text."""
    if isinstance(value, str):
        return value if _is_plain(value) else _json(value)
    return repr(value) if isinstance(value, float) else _json(value)


def meant(text: str) -> JsonValue:
    """Parse the text of a form field: as YAML if that gives a value, else as plain text.

    On one line, `a: b` and `- a` are texts.

    """
    try:
        value = read_tree(text).plain()
    except BadRule:
        return text
    is_written_out = isinstance(value, dict | list) and text.lstrip()[:1] not in {"{", "["}
    return text if value is None or (is_written_out and "\n" not in text.strip()) else value


def _json(value: JsonValue) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value)


def _is_plain(text: str) -> bool:
    return text == text.strip() and text.isprintable() and bool(text) and meant(text) == text


class _Dumper(yaml.SafeDumper):
    """Dumper that quotes texts of one line, except ASCII words that YAML parses as text, and uses no aliases."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the same for all data
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: FBT001, FBT002, ARG002 - as PyYAML calls it
        super().increase_indent(flow, indentless=False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    if "\n" in text and _is_block(text):
        style = "|"
    elif text.isascii() and text.replace("_", "a").replace(" ", "a").isalnum() and _is_plain(text):
        style = ""
    else:
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _is_block(text: str) -> bool:
    lines = text.split("\n")
    return all(line.isprintable() and line == line.rstrip() for line in lines) and not text.startswith((" ", "\n"))


def _number(dumper: yaml.SafeDumper, number: float) -> yaml.ScalarNode:
    mantissa, exponent, power = repr(number).partition("e")
    decimal = (
        mantissa if "." in mantissa else f"{mantissa}.0"
    )  # without a decimal point, PyYAML would tag 1e-05 as a string
    return dumper.represent_scalar("tag:yaml.org,2002:float", f"{decimal}{exponent}{power}")


def _list(dumper: yaml.SafeDumper, items: Sequence[JsonValue]) -> yaml.SequenceNode:
    scalars = all(not isinstance(item, dict | list) for item in items)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=scalars and _fits(items))


def _mapping(dumper: yaml.SafeDumper, members: Mapping[str, JsonValue]) -> yaml.MappingNode:
    is_condition = members.keys() == {"field", "op", "value"}
    flow = is_condition and _fits(members)
    return dumper.represent_mapping("tag:yaml.org,2002:map", members.items(), flow_style=flow)


def _fits(value: object) -> bool:
    return len(json.dumps(value, ensure_ascii=False)) <= _FLAT


_Dumper.add_representer(str, _text)
_Dumper.add_representer(float, _number)
_Dumper.add_representer(list, _list)
_Dumper.add_representer(dict, _mapping)


def has_comments(text: str) -> bool:
    """Return True if YAML has a comment, on a line of its own or at the end of one; a # in a value does not count."""
    end = 0
    try:
        for token in yaml.scan(text):
            begin = token.start_mark.index
            if getattr(token, "style", None) in {"|", ">"}:  # the token of a block begins with its header
                begin = text.find("\n", begin)
            if "#" in text[end:begin]:
                return True
            end = token.end_mark.index
    except yaml.YAMLError:
        pass
    return False
