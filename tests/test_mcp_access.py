"""Every tool of the Model Context Protocol, called with every kind of key: listed tools work, all else is refused."""

from collections.abc import Iterator
from typing import Any

import pytest
from mcp import Client, types

from collector.mcp.server import TOOLS
from tests.access import request
from tests.models_client import RULE, TRACE, McpServer, an_mcp_server, text_of

pytestmark = pytest.mark.costly("collector/access", "collector/api", "collector/mcp")

READING = {"viewer", "editor", "admin", "viewer of acme", "editor of acme", "admin of acme"}
WRITING = {"editor", "admin", "editor of acme", "admin of acme"}
OF_ALL = {"viewer", "editor", "admin"}

TRIED = {"name": "tried", "evaluator": "tool_error"}

WHO: dict[str, set[str]] = {
    "list_experiments": READING,
    "compare_runs": READING,
    "get_failing_queries": READING,
    "list_run_evaluations": READING,
    "run_evaluation": WRITING,
    "cancel_run": WRITING,
    "evaluate_run": WRITING,
    "find_traces": READING,
    "get_trace": READING,
    "get_span": READING,
    "explain_decisions": READING,
    "find_sessions": READING,
    "get_session": READING,
    "list_agents": READING,
    "list_alerts": READING,
    "get_alert": READING,
    "acknowledge_alert": WRITING,
    "list_rules": READING,
    "test_rule": WRITING,
    "quality_of_rule": READING,
    "compare_releases": READING,
    "create_rule": WRITING,
    "list_datasets": READING,
    "get_dataset": READING,
    "promote_to_dataset": WRITING,
    "annotate": WRITING,
    "query_sql": OF_ALL,
    "list_views": OF_ALL,
}
"""The tools, and the keys that may use each. Whoever adds one lists its keys here."""

# A key with a tenant may not change shared resources.
SHARED = {"acknowledge_alert", "cancel_run", "evaluate_run", "annotate"}
RIGHTS = ("role", "may not", "needs a key", "belongs to no tenant", "not for keys with a tenant", "that is yours")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[McpServer]:
    """Yield one server for all; what there is belongs to no tenant."""
    with an_mcp_server(tmp_path_factory.mktemp("mcp") / "data") as running:
        for name, key in (("sums", "editor"), ("kept", "editor"), ("kept of acme", "editor of acme")):
            items = {"items": [{"id": "one", "inputs": {"input": "1+1"}, "expectedOutputs": {"output": "2"}}]}
            shown = running.closed.keys[key]
            dataset = running.closed.ask("POST", "/api/v1/datasets", key=shown, json={"name": name}).json()
            where = f"/api/v1/datasets/{dataset['id']}/versions"
            assert running.closed.ask("POST", where, key=shown, json=items).status_code == 201
        yield running


def arguments_of(server: McpServer, tool: str, key: str) -> dict[str, Any]:
    """Return valid arguments for each tool."""
    before, after = server.runs
    trace = {"trace_id": TRACE.format(1)}
    if tool == "cancel_run":
        shown, where = server.closed.keys["editor"], "/api/v1/projects/shop/runs"
        return {"run_id": server.closed.ask("POST", where, key=shown, json={"experimentName": "qa"}).json()["runId"]}
    known: dict[str, dict[str, Any]] = {
        "compare_runs": {"run_id_a": before, "run_id_b": after},
        "get_failing_queries": {"run_id": after, "limit": 2},
        "list_run_evaluations": {"run_id": after},
        "run_evaluation": {"dataset_path": "sums", "outputs": [{"item_id": "one", "output": "2"}]},
        "evaluate_run": {"run_id": after, "config": {"name": f"once more {key}"}},
        "get_trace": trace,
        "get_span": trace | {"span_id": "0000000000000002"},
        "explain_decisions": trace,
        "get_session": {"session_id": "a session"},
        "get_alert": {"alert_id": server.alert},
        "acknowledge_alert": {"alert_id": server.alert},
        "test_rule": {"project": "shop", "rule": TRIED},
        "quality_of_rule": {"rule": RULE, "by": "release"},
        "compare_releases": {"rule": RULE, "baseline": "1.4.2", "candidate": "1.5.0"},
        "create_rule": {"project": "shop", "rule": TRIED | {"name": f"of {key}", "enabled": False}},
        "get_dataset": {"name": "sums"},
        "promote_to_dataset": {"dataset_name": "kept of acme" if "acme" in key else "kept", "items": [trace]},
        "annotate": trace | {"verdict": "UNSURE"},
        "query_sql": {"sql": "SELECT 1"},
    }
    return known.get(tool, {})


def test_each_tool_is_in_the_matrix() -> None:
    """A new one is closed to all keys until it is added."""
    assert set(WHO) == {tool.name for tool in TOOLS}


@pytest.mark.parametrize("key", sorted(READING))
def test_what_a_key_is_told_of_works_and_all_else_is_refused(server: McpServer, key: str) -> None:
    """Each tool is called; an answer that is none says that the rights are missing, and nothing else."""

    async def look(client: Client) -> tuple[set[str], dict[str, types.CallToolResult]]:
        names = {tool.name for tool in (await client.list_tools()).tools}
        return names, {name: await client.call_tool(name, arguments_of(server, name, key)) for name in WHO}

    tools, results = server.with_client(key, look)
    assert tools == {name for name, keys in WHO.items() if key in keys}
    for name, result in results.items():
        may = name in tools and not (name in SHARED and key.endswith("acme"))
        assert result.is_error is not may, (name, text_of(result))
        assert may or any(word in text_of(result) for word in RIGHTS), (name, text_of(result))


@pytest.mark.parametrize("key", ["ingest", "ingest of acme", "reviewer", "reviewer of acme"])
def test_keys_that_read_nothing_are_not_answered(server: McpServer, key: str) -> None:
    """Neither of these keys may read traces, so no tool is open to them."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    assert request(server.url, "POST", key=server.closed.keys[key], json=body).status_code == 403


def test_every_answer_is_as_its_schema_says(server: McpServer) -> None:
    """Each tool is called once, and its answer is validated against its published schema."""
    answers = server.contents(*((name, arguments_of(server, name, "schema")) for name in WHO), key="admin")
    assert len(answers) == len(WHO)
