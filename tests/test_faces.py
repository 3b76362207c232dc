"""Output for clients without a server, as files: a change of it is a diff to review.

`--update-golden` writes them again; a commit that changes one says what and why. What a server prints and answers is in
tests/test_tenants.py, which has one.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from click.testing import CliRunner

from collector.cli.main import main
from collector.mcp.server import TOOLS
from tests.faces import Golden, compare
from tests.walking import commands


def test_the_help_of_each_command(golden: Golden) -> None:
    """Names, arguments, options and descriptions, a file for each group of commands."""
    texts: dict[str, str] = defaultdict(str)
    for path, _ in commands(main):
        result = CliRunner(env={"COLUMNS": "120"}).invoke(main, [*path, "--help"], prog_name="tracejury")
        texts[path[0]] += result.output + "\n"
    compare(golden, "help", texts)


def test_the_tools_of_the_protocol_for_models(golden: Golden) -> None:
    """Names, descriptions, and the schemas of arguments and results, a line for each property."""
    compare(golden, "tools", {tool.name: "\n".join(_tool_lines(tool.as_tool())) + "\n" for tool in TOOLS})


def _tool_lines(tool: Any) -> Iterator[str]:
    shown = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
    schemas = [(name, shown.pop(name)) for name in ("inputSchema", "outputSchema") if name in shown]
    for name, value in shown.items():
        yield f"{name}: {json.dumps(value, ensure_ascii=False)}"
    for name, schema in schemas:
        yield from _schema_lines(name, schema)


def _schema_lines(name: str, schema: dict[str, Any]) -> Iterator[str]:
    parts = {each: schema.get(each, {}) for each in ("properties", "$defs")}
    rest = {each: value for each, value in schema.items() if each not in parts}
    yield f"{name}: {json.dumps(rest, ensure_ascii=False, sort_keys=True)}"
    for each, value in parts["properties"].items():
        yield f"{name}.{each}: {json.dumps(value, ensure_ascii=False, sort_keys=True)}"
    for each, value in parts["$defs"].items():
        yield from _schema_lines(f"{name}#{each}", value)
