"""The inspector of the Model Context Protocol, over HTTP and over standard input."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collector.access.permission import Permission
from collector.mcp.server import TOOLS
from tests.inspector import inspector
from tests.live import PATIENCE_S, TRACEJURY
from tests.models_client import RULE, McpServer, an_mcp_server

pytestmark = pytest.mark.costly("collector/access", "collector/api", "collector/cli", "collector/mcp")

TRANSPORTS = ("http", "stdio")


@pytest.fixture(scope="module")
def program() -> list[str]:
    """Return the command of the inspector."""
    return inspector()


@pytest.fixture(scope="module")
def server(program: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[McpServer]:
    """Start one server for all tests; skip them if there is no inspector."""
    assert program
    with an_mcp_server(tmp_path_factory.mktemp("inspected") / "data") as running:
        yield running


def inspected(program: list[str], server: McpServer, transport: str, *method: str) -> Any:
    """Call a method with the inspector; return the JSON that it prints."""
    key = server.closed.keys["viewer"]
    of_server = {"TRACEJURY_URL": f"http://{server.closed.running.http}", "TRACEJURY_API_KEY": key}
    target = [TRACEJURY, "mcp"]
    if transport == "http":
        target = [server.url, "--transport", "http", "--header", f"Authorization: Bearer {key}"]
    done = subprocess.run(
        [*program, *target, "--method", *method],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
        cwd=Path(program[1]).parent,  # it finds its own name and version from there
        env=os.environ | {"NO_PROXY": "127.0.0.1"} | of_server,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    return json.loads(done.stdout)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_inspector_lists_what_there_is(program: list[str], server: McpServer, transport: str) -> None:
    """Tools that read, with the schemas that it checks; templates of resources; prompts."""
    tools = {tool["name"]: tool for tool in inspected(program, server, transport, "tools/list")["tools"]}
    assert set(tools) == {tool.name for tool in TOOLS if tool.permission is Permission.READ}
    assert all(tool["outputSchema"]["type"] == "object" for tool in tools.values())
    listed = inspected(program, server, transport, "resources/templates/list")["resourceTemplates"]
    assert {each["uriTemplate"].split("/")[2] for each in listed} == {"trace", "run", "rule"}
    prompts = inspected(program, server, transport, "prompts/list")["prompts"]
    assert [each["name"] for each in prompts] == ["investigate_alert", "write_rule", "triage_failing_cases"]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_inspector_calls_a_tool(program: list[str], server: McpServer, transport: str) -> None:
    """Its client holds the answer against the schema of the tool."""
    called = ("tools/call", "--tool-name", "find_traces", "--tool-arg", f"rule={RULE}", "passed=false", "limit=3")
    result = inspected(program, server, transport, *called)
    assert not result.get("isError")
    assert len(result["structuredContent"]["traces"]) == 3
