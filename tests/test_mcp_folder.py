"""`tracejury mcp --folder`: files of a folder are evaluated without a server, and their runs are kept beside them."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from mcp import Client, MCPError, StdioServerParameters

from storage.engine.lock import read_holder
from tests import forking
from tests.model_server import Hangs, ModelServer, Says, Step, a_model
from tests.model_server import ModelRequest as Question
from tests.models_client import text_of
from tests.serving import run

pytestmark = pytest.mark.costly(
    "collector/api",
    "collector/cli",
    "collector/experiment_runner",
    "collector/datasets",
    "collector/evaluation",
    "collector/experiments",
    "collector/gating",
    "collector/live",
    "collector/local_api.py",
    "collector/mcp",
    "evaluators",
    "rules/statistics",
    "storage",
)

T = TypeVar("T")
ITEMS = [
    {"id": f"sum-{number}", "inputs": {"input": f"{number}+{number}"}, "expectedOutputs": {"output": str(2 * number)}}
    for number in range(4)
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a project with a file of sums, and other files."""
    folder = tmp_path / "project"
    (folder / "cases").mkdir(parents=True)
    (folder / "cases" / "sums.jsonl").write_text("".join(f"{json.dumps(item)}\n" for item in ITEMS), encoding="utf-8")
    (folder / "package.json").write_text('{"name": "app"}', encoding="utf-8")
    (folder / "few.json").write_text(json.dumps(ITEMS[:2]), encoding="utf-8")
    (folder / ".hidden.csv").write_text("input\nx\n", encoding="utf-8")
    return folder


def with_program(folder: Path, act: Callable[[Client], Awaitable[T]], *flags: str, **environ: str) -> T:
    """Return the tools of the program that a client starts for a folder."""

    async def ask() -> T:
        program, *arguments = forking.command(forking.TRACEJURY, "mcp", "--folder", folder, *flags)
        async with Client(StdioServerParameters(command=program, args=arguments, env=environ)) as client:
            return await act(client)

    return asyncio.run(ask())


async def content_of(client: Client, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """Return the answer of a tool."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def judged(client: Client, *answers: str) -> dict[str, Any]:
    """Evaluate these answers to the sums."""
    outputs = [{"item_id": item["id"], "output": answer} for item, answer in zip(ITEMS, answers, strict=True)]
    return await content_of(client, "run_evaluation", dataset_path="cases/sums.jsonl", outputs=outputs)


def judge_flags(model: ModelServer, calls: int) -> tuple[str, ...]:
    """Return the options that describe a model."""
    url = ("--judge-base-url", model.base_url, "--judge-model", "m", "--judge-protocol", "CHAT_COMPLETIONS")
    return (*url, "--judge-calls", str(calls))


def test_files_are_evaluated_and_their_runs_outlive_the_program(folder: Path) -> None:
    """Listed, shown, evaluated; the next program compares with what the first has kept, and nothing else is written."""

    async def first(client: Client) -> str:
        assert (await content_of(client, "list_datasets"))["files"] == ["few.json", "cases/sums.jsonl"]
        shown = await content_of(client, "get_dataset", name="cases/sums.jsonl", page=1, limit=3)
        assert (shown["version"], shown["total"], [each["id"] for each in shown["items"]]) == (None, 4, ["sum-3"])
        made = await judged(client, "0", "2", "4", "6")
        assert (made["pass_rate"], made["status"]) == (1, "SUCCESS")
        return str(made["run_id"])

    async def second(client: Client) -> dict[str, Any]:
        made = await judged(client, "0", "2", "3", "3")
        listed = await content_of(client, "list_experiments", dataset_name="sums")
        assert [each["run_id"] for each in listed["runs"]] == [made["run_id"], before]
        return await content_of(client, "compare_runs", run_id_a=before, run_id_b=made["run_id"])

    before = with_program(folder, first)
    assert with_program(folder, second)["comparison"]["pass_rate"]["delta"] == -0.5
    assert {each.name for each in folder.iterdir()} == {
        *("cases", "package.json", "few.json", ".hidden.csv", ".tracejury"),
    }
    assert (folder / ".tracejury" / ".gitignore").read_text(encoding="utf-8") == "*\n"


def test_two_clients_share_a_folder_and_nobody_else_is_answered(folder: Path) -> None:
    """The second program asks the server of the first; without the key, which the owner can read, all is refused."""

    async def look(client: Client) -> None:
        made = await judged(client, "0", "2", "4", "6")
        program, *arguments = forking.command(forking.TRACEJURY, "mcp", "--folder", folder)
        async with Client(StdioServerParameters(command=program, args=arguments)) as other:
            assert [each["run_id"] for each in (await content_of(other, "list_experiments"))["runs"]] == [
                made["run_id"]
            ]
        holder = read_holder(folder / ".tracejury" / "mcp")
        assert holder is not None
        async with httpx.AsyncClient(trust_env=False) as stranger:
            assert (await stranger.get(f"{holder['http']}/api/v1/runs")).status_code == 401

    with_program(folder, look)
    assert (folder / ".tracejury" / "mcp.key").stat().st_mode & 0o777 == 0o600
    assert read_holder(folder / ".tracejury" / "mcp") is None


def test_a_model_answers_and_judges_within_its_calls(folder: Path) -> None:
    """Four answers and four verdicts are all that eight calls a day allow, over all programs of that day."""

    def script(question: Question) -> Step:
        return Says({"score": 1.0, "reason": "it is"}) if question.schema else Says("4")

    by = {"evaluator": "llm_judge", "criteria": "It is a number.", "model": "m"}

    async def evaluate(client: Client) -> dict[str, Any]:
        return await content_of(client, "run_evaluation", dataset_path="cases/sums.jsonl", **by)

    with a_model(script) as model:
        made = with_program(folder, evaluate, *judge_flags(model, 8))
        assert (made["pass_rate"], made["total_examples"], len(model.requests)) == (1, 4, 8)
        again = with_program(folder, evaluate, *judge_flags(model, 8))
        assert (again["error_count"], len(model.requests)) == (4, 8)
        assert "too little of the budget of connection 'default' is left for today" in again["problem"]


def test_a_model_of_the_environment_answers_too(folder: Path) -> None:
    """The environment configures a model's connection as for servers; its other settings of a server do not count."""
    with a_model("4") as model:
        keys = {"baseUrl": model.base_url, "model": "m", "protocol": "CHAT_COMPLETIONS", "budget": {"callsPerDay": 9}}

        async def evaluate(client: Client) -> dict[str, Any]:
            return await content_of(client, "run_evaluation", dataset_path="cases/sums.jsonl", model="m")

        environ = {
            "TRACEJURY_LLM_CONNECTIONS": json.dumps({"own": keys}),
            "TRACEJURY_HTTP": "127.0.0.1:1",
            "TRACEJURY_API_KEY": "that-of-another-server",
        }
        made = with_program(folder, evaluate, **environ)
    assert (made["pass_count"], made["fail_count"], len(model.requests)) == (1, 3, 4)


def test_a_call_that_is_cancelled_ends_the_run(folder: Path) -> None:
    """The model is asked about no further item, and the run says so."""

    async def cancel(client: Client) -> dict[str, Any]:
        arguments = {"dataset_path": "cases/sums.jsonl", "model": "m"}
        with pytest.raises(MCPError):
            await client.call_tool("run_evaluation", arguments, read_timeout_seconds=3)
        run: dict[str, Any] = {"status": "RUNNING"}
        while run["status"] == "RUNNING":
            (run,) = (await content_of(client, "list_experiments"))["runs"]
        return run

    with a_model(lambda question: Says("0") if "0+0" in question.user else Hangs()) as model:
        run = with_program(folder, cancel, *judge_flags(model, 9))
    assert run["status"] == "CANCELLED"
    assert run["total_examples"] <= 1
    assert len(model.requests) <= 4  # the one that was answered, and as many as are asked at a time


@pytest.mark.parametrize(
    "flags, why",
    [
        (["--server", "http://127.0.0.1:1"], "has a server of its own"),
        (["--data", "."], "has a server of its own"),
        (["--judge-model", "m", "--judge-base-url", "http://127.0.0.1:1"], "need each other"),
        (["--judge-calls", "3"], "need each other"),
        (["--judge-model", "m", "--judge-calls", "3"], "--judge-base-url"),
    ],
)
def test_options_that_do_not_fit_are_refused(folder: Path, flags: list[str], why: str) -> None:
    """Before anything is written, and by `install` in the same words."""
    for command in (["mcp"], ["mcp", "install", "cursor"]):
        result = run(*command, "--folder", folder, *flags)
        assert result.exit_code == 2
        assert why in result.output
    assert not (folder / ".tracejury").exists()


def test_a_judge_without_a_folder_is_refused() -> None:
    """A server has connections of its own."""
    result = run("mcp", "--judge-model", "m", "--judge-base-url", "http://127.0.0.1:1", "--judge-calls", "3")
    assert result.exit_code == 2
    assert "are for --folder" in result.output


def test_a_client_is_configured_with_a_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its absolute path, with the options of the judge, and the variable of its key in place of the server's."""
    monkeypatch.chdir(folder.parent)
    judge = ("--judge-model", "m", "--judge-base-url", "http://127.0.0.1:1/v1", "--judge-key-env", "MODEL_KEY")
    flags = ("--folder", "project", *judge, "--judge-calls", "9")
    entry = json.loads(run("mcp", "install", "claude-code", *flags).stdout)["mcpServers"]["tracejury"]
    assert entry["env"] == {"MODEL_KEY": "${MODEL_KEY}"}
    assert entry["args"][:2] == ["mcp", "--folder"]
    assert entry["args"][2] == str(folder)
    assert set(judge) <= set(entry["args"])
    printed = run("mcp", "install", "codex", *flags).stdout
    assert 'env_vars = ["MODEL_KEY"]' in printed
    plain = json.loads(run("mcp", "install", "claude-code", "--folder", "project").stdout)["mcpServers"]["tracejury"]
    assert "env" not in plain
