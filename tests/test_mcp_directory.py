"""`tracejury mcp --data`: a data directory that no server holds, for a model that may look and change nothing."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, types

from collector.mcp.server import TOOLS
from storage.engine.lock import read_holder
from tests import forking
from tests.models_client import HOSTILE, RULE, TRACE, an_mcp_server, text_of
from tests.serving import run

pytestmark = pytest.mark.costly(
    "collector/api",
    "collector/cli",
    "collector/conventions",
    "collector/experiments",
    "collector/gating",
    "collector/live",
    "collector/local_api.py",
    "collector/mcp",
    "collector/reading",
    "rules/statistics",
    "storage",
)

CHANGING = {tool.name for tool in TOOLS if tool.writes or tool.name == "test_rule"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data directory of a stopped server with keys."""
    folder = tmp_path_factory.mktemp("mcp") / "data"
    with an_mcp_server(folder):
        pass
    return folder


def test_a_directory_is_looked_at_and_not_changed(data: Path) -> None:
    """The reading tools answer from the stored data; changing ones are not listed, and refused by name."""

    async def look() -> tuple[set[str], dict[str, types.CallToolResult]]:
        program, *arguments = forking.command(forking.TRACEJURY, "mcp", "--data", data)
        async with Client(StdioServerParameters(command=program, args=arguments)) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            requests: dict[str, dict[str, Any]] = {
                "find_traces": {"rule": RULE, "passed": False},
                "get_trace": {"trace_id": TRACE.format(0)},
                "list_alerts": {},
                "quality_of_rule": {"rule": RULE, "by": "release"},
                "list_experiments": {},
                "list_rules": {},
                "query_sql": {"sql": "SELECT count(*) FROM traces"},
                "annotate": {"trace_id": TRACE.format(0), "verdict": "CORRECT"},
            }
            return names, {name: await client.call_tool(name, arguments) for name, arguments in requests.items()}

    tools, results = asyncio.run(look())
    contents = {name: result.structured_content or {} for name, result in results.items()}
    assert tools == {tool.name for tool in TOOLS} - CHANGING
    assert {name for name, result in results.items() if result.is_error} == {"annotate"}
    assert len(contents["find_traces"]["traces"]) == 15
    assert contents["get_trace"]["input"] == HOSTILE
    assert {each["state"] for each in contents["list_alerts"]["alerts"]} == {"open"}
    assert {line["group"] for line in contents["quality_of_rule"]["lines"]} == {"1.4.2", "1.5.0"}
    assert contents["list_experiments"]["count"] == 2
    assert contents["query_sql"]["rows"] == [[40]]
    assert "VIEWER" in text_of(results["annotate"])
    assert read_holder(data) is None


def test_a_directory_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    """One sentence says so."""
    result = run("mcp", "--data", tmp_path / "nothing")
    assert result.exit_code == 1
    assert "there is no data in" in result.output
    assert not (tmp_path / "nothing").exists()


def test_a_directory_has_no_server_and_no_application(tmp_path: Path) -> None:
    """A command that names both is refused with a question which one is meant."""
    for flags in (["--server", "http://127.0.0.1:1"], ["--app", "true", "--app-runs", "1"]):
        result = run("mcp", "--data", tmp_path, *flags)
        assert result.exit_code == 2
        assert "cannot be combined with" in result.output


@pytest.mark.parametrize("client", ["cursor", "codex"])
def test_a_client_is_configured_with_a_directory_or_an_application(
    client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client starts the program with the given options, and incompatible ones are refused at once."""
    monkeypatch.chdir(tmp_path)
    printed = run("mcp", "install", client, "--data", "kept").stdout
    assert json.dumps(str(tmp_path / "kept")) in printed
    assert '"--server"' not in printed
    app = run("mcp", "install", client, "--app", "python3 answer.py", "--app-runs", "40").stdout
    for word in ("--server", "--app", "python3 answer.py", "--app-runs", "40"):
        assert json.dumps(word) in app
    for flags in (
        ["--data", "kept", "--server", "http://127.0.0.1:1"],
        ["--data", "kept", "--app", "true", "--app-runs", "1"],
        ["--app", "true"],
        ["--over-http", "--data", "kept"],
        ["--over-http", "--app", "true", "--app-runs", "1"],
    ):
        assert run("mcp", "install", client, *flags).exit_code == 2, flags
