"""The settings reference in docs/configuration.md and deploy/config.example.yaml, made of the model."""

import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import click
import yaml

from collector.cli.serve import serve
from collector.settings import Settings

_LINK = re.compile(r"\[([^]]+)\]\([^)]*\)")
_CHOICES = re.compile(r"\^\(([\w|]+)\)\$")
_MIB = 1 << 20
_WIDTH = 120

EXAMPLE_HEAD = """\
# Every setting of `tracejury serve --config FILE` with its default. TRACEJURY_* variables and flags are stronger.
# Sizes are in bytes; an address is HOST:PORT, and port 0 picks one. A key that is not listed here is refused.
# Made of collector/settings.py; docs/configuration.md tells more.
"""


def table() -> str:
    """Return the table of docs/configuration.md."""
    flags = {parameter.name: max(parameter.opts, key=len) for parameter in serve.params if _is_option(parameter)}
    rows = ["| YAML key | flag | variable | default | values | meaning |", "|---|---|---|---|---|---|"]
    for name, schema in _schemas():
        cells = (
            f"`{name}`",
            f"`{flags[name]}`" if name in flags else "",
            f"`TRACEJURY_{name.upper()}`",
            _shown(Settings.model_fields[name].get_default()),
            _values(schema),
            _meaning(name),
        )
        rows.append(f"| {' | '.join(cells)} |".replace("|  |", "| |"))
    return "\n".join(rows)


def example() -> str:
    """Return the example of a configuration."""
    return EXAMPLE_HEAD + "".join(f"\n{_block(name, schema)}" for name, schema in _schemas())


def _schemas() -> Iterator[tuple[str, Mapping[str, Any]]]:
    document = Settings.model_json_schema()
    yield from document["properties"].items()


def _is_option(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Option)


def _meaning(name: str) -> str:
    field = Settings.model_fields[name]
    shown = " or ".join(f"`{example}`" for example in field.examples or ())
    return f"{field.description}{f'; as in {shown}' if shown else ''}"


def _shown(default: Any) -> str:
    if default is None or (not isinstance(default, bool | int | float | str) and not _plain(default)):
        return "none"
    if isinstance(default, int) and default >= _MIB and default % _MIB == 0:
        return f"{default} ({default // _MIB} MiB)"
    return f"`{_plain(default)}`" if not isinstance(default, bool) else f"`{str(default).lower()}`"


def _plain(default: Any) -> Any:
    """Return a default as YAML has it."""
    if hasattr(default, "model_dump"):
        return default.model_dump(mode="json", exclude_defaults=True)
    if isinstance(default, tuple):
        return list(default)
    return default if isinstance(default, bool | int | float | str | dict) or default is None else str(default)


def _values(schema: Mapping[str, Any]) -> str:
    """Describe the allowed values of a setting if they are numbers or words."""
    kinds = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    kind = kinds[0]
    choices = _CHOICES.fullmatch(kind.get("pattern", ""))
    if choices:
        return ", ".join(f"`{choice}`" for choice in choices.group(1).split("|"))
    if kind.get("type") == "boolean":
        return "`true`, `false`"
    if kind.get("type") not in {"integer", "number"}:
        return ""
    least, above, most = kind.get("minimum"), kind.get("exclusiveMinimum"), kind.get("maximum")
    lower = _number(least) if least is not None else f"more than {_number(above)}"
    return f"{lower} to {_number(most)}" if most is not None else f"{lower} or more"


def _number(number: float) -> str:
    return f"{number:,.0f}" if number >= 1 or not number else f"{number:g}"


def _block(name: str, schema: Mapping[str, Any]) -> str:
    field = Settings.model_fields[name]
    description = _LINK.sub(r"\1", str(field.description)).replace("none:", "null:")
    values = _values(schema).replace("`", "")
    sentence = f"{description[0].upper()}{description[1:]}{f' ({values})' if values else ''}."
    lines = textwrap.wrap(sentence, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
    lines += [f"#   {name}: {example}" for example in field.examples or ()]
    value = yaml.safe_dump({name: _plain(field.get_default())}, width=_WIDTH)
    return "\n".join([*lines, value])
