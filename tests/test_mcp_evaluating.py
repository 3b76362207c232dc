"""Models that evaluate: a run over an application's outputs, its failures, and the run after the change."""

import asyncio
import json
import os
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, StdioServerParameters, types

from collector.mcp.application import Application, ApplicationResult
from collector.mcp.background import Background
from collector.mcp.client import Api
from collector.mcp.tools import evaluations
from tests import forking
from tests.model_server import ModelServer, Says, Status, a_model
from tests.models_client import McpServer, an_mcp_server, text_of
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
    "collector/mcp",
    "evaluators",
    "rules/statistics",
    "storage",
)

DATASET = "sums"
ITEMS = [
    {"id": f"sum-{number}", "inputs": {"input": f"{number}+{number}"}, "expectedOutputs": {"output": str(2 * number)}}
    for number in range(4)
]


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    """Start the model that judges use."""
    with a_model(Says({"score": 1.0, "reason": "it is right"})) as model:
        yield model


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, model: ModelServer) -> Iterator[McpServer]:
    """Yield one server for all, with a dataset of four sums, and two connections of which one has a limit."""
    connection = {"baseUrl": model.base_url, "model": "m", "protocol": "CHAT_COMPLETIONS"}
    connections = {"open": connection, "limited": connection | {"budget": {"callsPerDay": 5}}}
    with an_mcp_server(tmp_path_factory.mktemp("mcp") / "data", llm_connections=connections) as running:
        made = running.closed.ask("POST", "/api/v1/datasets", key=running.closed.keys["editor"], json={"name": DATASET})
        where = f"/api/v1/datasets/{made.json()['id']}/versions"
        response = running.closed.ask("POST", where, key=running.closed.keys["editor"], json={"items": ITEMS})
        assert response.status_code == 201, response.text
        yield running


def outputs(*answers: object) -> list[dict[str, Any]]:
    """Build the outputs of an application, in the order of the items."""
    return [{"item_id": item["id"], "output": answer} for item, answer in zip(ITEMS, answers, strict=False)]


def runs_of(server: McpServer, experiment: str) -> int:
    """Count the runs of an experiment."""
    listed = server.content("list_experiments", limit=200)["runs"]
    return sum(each["experiment_name"] == experiment for each in listed)


@pytest.mark.costly("collector/experiments", "collector/mcp", "evaluators", "storage/offline")
def test_an_agent_evaluates_changes_and_evaluates_again(server: McpServer) -> None:
    """The rest of the session in the documentation shows the failures, and that the change fixed them."""
    before = server.content(
        "run_evaluation", dataset_path=DATASET, outputs=outputs("0", "2", "5", "7"), model="gpt-5-mini", project="shop"
    )
    assert (before["dataset"], before["model"], before["status"]) == (f"{DATASET}@1", "gpt-5-mini", "SUCCESS")
    assert (before["total_examples"], before["pass_count"], before["fail_count"]) == (4, 2, 2)
    assert (before["pass_rate"], before["average_scores"]) == (0.5, {"Exact Match": 0.5})
    failing = server.content("get_failing_queries", run_id=before["run_id"])["failing_queries"]
    assert [each["input"] for each in failing] == [{"input": "2+2"}, {"input": "3+3"}]
    again = [{"item_id": each["dataset_item_id"], "output": each["expected_output"]} for each in failing]
    assert server.content("run_evaluation", dataset_path=DATASET, outputs=again)["pass_rate"] == 1
    after = server.content(
        "run_evaluation", dataset_path=f"{DATASET}@1", outputs=outputs("0", "2", "4", "6"), project="shop"
    )
    assert after["pass_rate"] == 1
    compared = server.content("compare_runs", run_id_a=before["run_id"], run_id_b=after["run_id"])["comparison"]
    assert (compared["pass_rate"]["delta"], compared["has_regressions"]) == (0.5, False)


def test_a_stored_run_is_scored_by_one_more_evaluator(server: McpServer) -> None:
    """A stored run gets one more evaluator without running again, and its evaluations are listed, newest first."""
    made = server.content("run_evaluation", dataset_path=DATASET, outputs=outputs("0", "twenty"))
    more = server.content(
        "evaluate_run", run_id=made["run_id"], evaluator="length", config={"maximumOutputLength": 3}, threshold=1.0
    )
    assert more["average_scores"] == {"Exact Match": 0.5, "Length": 0.5}
    listed = server.content("list_run_evaluations", key="viewer", run_id=made["run_id"])["evaluations"]
    assert [(each["evaluatorName"], each["status"]) for each in listed] == [("Length", "DONE"), ("Exact Match", "DONE")]


def test_a_run_of_many_evaluations_gets_one_more(server: McpServer) -> None:
    """The newest evaluation is found behind 200 others, and begins the list."""
    key = server.closed.keys["editor"]
    begun = server.closed.ask("POST", "/api/v1/projects/shop/runs", key=key, json={"experimentName": "many"}).json()
    run = f"/api/v1/runs/{begun['runId']}"
    body = {"evaluator": "exact_match", "config": {"name": "Earlier"}}
    made = server.closed.ask("POST", f"{run}/evaluations", key=key, json=body).json()
    assert server.closed.ask("DELETE", f"{run}/evaluations/{made['id']}", key=key).status_code == 204
    copied = f"""INSERT INTO run_evaluation BY NAME
        SELECT * EXCLUDE (evaluation_id, i), 'earlier ' || i AS evaluation_id
        FROM run_evaluation, range(200) AS r (i) WHERE evaluation_id = '{made["id"]}'"""
    server.closed.running.store._writer.store(lambda cursor: cursor.execute(copied), 200)
    item = {"itemKey": "a", "inputs": {}, "expectedOutputs": {"output": "4"}, "actualOutputs": {"output": "4"}}
    assert server.closed.ask("POST", f"{run}/items", key=key, json={"items": [item]}).status_code == 201
    assert server.closed.ask("PATCH", run, key=key, json={"status": "SUCCESS"}).status_code == 200
    result = server.content("evaluate_run", run_id=begun["runId"], config={"name": "Latest"})
    assert (result["status"], result["average_scores"]["Latest"]) == ("SUCCESS", 1)
    listed = server.content("list_run_evaluations", run_id=begun["runId"])["evaluations"]
    assert (listed[0]["evaluatorName"], listed[1]["evaluatorName"]) == ("Latest", "Earlier")


def test_what_the_application_could_not_do_is_counted_beside_the_rate(server: McpServer) -> None:
    """An item on which it failed is an error with its text, and neither a failure nor a part of the pass rate."""
    reported = [*outputs("0"), {"item_id": "sum-1", "error": "it timed out"}]
    made = server.content("run_evaluation", dataset_path=DATASET, outputs=reported)
    assert (made["total_examples"], made["pass_count"], made["fail_count"], made["error_count"]) == (2, 1, 0, 1)
    assert (made["pass_rate"], made["problem"]) == (
        1,
        "the application failed on 1 of 2 items; the first: it timed out",
    )
    (failing,) = server.content("get_failing_queries", run_id=made["run_id"])["failing_queries"]
    assert failing["error"] == "it timed out"


def test_an_application_that_always_crashes_has_no_pass_rate(server: McpServer) -> None:
    """Nothing was judged: the evaluation failed, the rate is not known, and the problem is the application's error."""
    reported = [{"item_id": item["id"], "error": "no such module"} for item in ITEMS]
    made = server.content("run_evaluation", dataset_path=DATASET, outputs=reported)
    assert (made["pass_rate"], made["fail_count"], made["error_count"]) == (None, 0, 4)
    assert made["failed_evaluations"] == ["Exact Match"]
    assert "none of 4 items was judged" in made["problem"]
    assert "no such module" in made["problem"]
    (listed,) = server.content("list_run_evaluations", run_id=made["run_id"])["evaluations"]
    assert (listed["status"], listed["skippedCount"]) == ("FAILED", 4)
    shown = next(e for e in server.content("list_experiments", limit=200)["runs"] if e["run_id"] == made["run_id"])
    assert (shown["pass_rate"], shown["error_count"], shown["failed_evaluations"]) == (None, 4, ["Exact Match"])
    good = server.content("run_evaluation", dataset_path=DATASET, outputs=outputs("0", "2", "4", "6"))
    compared = server.content("compare_runs", run_id_a=good["run_id"], run_id_b=made["run_id"])["comparison"]
    assert (compared["pass_rate"]["status"], compared["has_regressions"]) == ("unknown", True)
    assert (compared["summary_counts"]["unchanged"], compared["summary_counts"]["unscored"]) == (0, 4)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"dataset_path": DATASET}, "give `outputs`"),
        ({"dataset_path": "unheard", "outputs": outputs("0")}, "there is no dataset 'unheard'"),
        ({"dataset_path": f"{DATASET}@one", "outputs": outputs("0")}, "'one' is not a version"),
        (
            {"dataset_path": DATASET, "outputs": [{"item_id": "sum-9", "output": "1"}]},
            "has no items sum-9; it begins with",
        ),
        ({"dataset_path": DATASET, "outputs": outputs("0"), "evaluator": "exact_mach"}, "did you mean exact_match?"),
    ],
)
def test_what_cannot_be_evaluated_is_told(server: McpServer, arguments: dict[str, Any], message: str) -> None:
    """With what would be right; no run is left that looks like one."""
    result = server.call("run_evaluation", experiment_name="refused", **arguments)
    assert result.is_error
    assert message in text_of(result)
    messages = [
        each for each in server.content("list_experiments", limit=200)["runs"] if each["experiment_name"] == "refused"
    ]
    assert {each["status"] for each in messages} <= {"CANCELLED"}


def test_a_judge_is_asked_within_a_budget_or_not_at_all(server: McpServer, model: ModelServer) -> None:
    """A connection without a limit is refused before anything is kept; one with a limit judges."""
    judged: dict[str, Any] = {
        "dataset_path": DATASET,
        "outputs": outputs("0", "2"),
        "evaluator": "llm_judge",
        "criteria": "It is right.",
        "experiment_name": "judged",
    }
    assert "there are: limited, open" in text_of(server.call("run_evaluation", **judged))
    assert "has no budget" in text_of(server.call("run_evaluation", **judged, connection="open"))
    assert (runs_of(server, "judged"), model.requests) == (0, [])
    made = server.content("run_evaluation", **judged, connection="limited")
    assert (made["pass_rate"], len(model.requests)) == (1, 2)
    refused = server.call("evaluate_run", run_id=made["run_id"], evaluator="faithfulness", connection="open")
    assert "has no budget" in text_of(refused)
    # The limit of a tenant's connection of that name is none of the shared one, which the server would call.
    theirs = {"name": "open", "baseUrl": "https://models.example.com/v1", "model": "m", "budget": {"callsPerDay": 5}}
    added = server.closed.ask("POST", "/api/v1/llm-connections", key=server.closed.keys["admin of acme"], json=theirs)
    assert added.status_code == 201, added.text
    assert "has no budget" in text_of(server.call("run_evaluation", **judged, connection="open"))


def test_a_judge_that_refuses_all_is_a_problem_and_no_pass_rate(
    server: McpServer, model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of items that passed by another evaluator too: a broken judge makes no failure and no rate of 0."""
    made = server.content("run_evaluation", dataset_path=DATASET, outputs=outputs("0", "2"))
    monkeypatch.setattr(model, "script", lambda _: Status(400))
    by = {"evaluator": "llm_judge", "criteria": "Is it right?", "connection": "limited"}
    judged = server.content("evaluate_run", run_id=made["run_id"], **by)
    assert (judged["pass_rate"], judged["fail_count"], judged["not_evaluated_count"]) == (None, 0, 2)
    assert (judged["status"], len(judged["failed_evaluations"])) == ("SUCCESS", 1)
    assert "none of 2 items was judged: 2 no verdict" in judged["problem"]


def test_a_judge_that_fails_on_some_items_is_a_problem(
    server: McpServer, model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rate is of the others, and the problem says of how many items it is not, and why."""
    working = model.script
    monkeypatch.setattr(model, "script", lambda request: Says("I pass.") if "two" in request.user else working(request))
    by = {"evaluator": "llm_judge", "criteria": "Is it right?", "connection": "limited"}
    made = server.content("run_evaluation", dataset_path=DATASET, outputs=outputs("0", "two"), **by)
    assert (made["pass_rate"], made["pass_count"], made["not_evaluated_count"]) == (1, 1, 1)
    assert (
        "1 of 2 items have no verdict and are not part of the rate; the first: LLM Judge: bad_reply" in made["problem"]
    )


@pytest.mark.parametrize("budget", [None, {"allowUnpriced": True}, {"usdPerDay": 5, "allowUnpriced": True}])
@pytest.mark.parametrize("evaluator", ["llm_judge", "faithfulness"])
def test_a_rule_that_asks_a_model_needs_a_limit(
    server: McpServer, evaluator: str, budget: dict[str, bool] | None
) -> None:
    """Whatever its evaluator is called, and not only some budget."""
    rule = {"name": f"{evaluator} {budget}", "evaluator": evaluator, "connectionId": "any"}
    if evaluator == "llm_judge":
        rule["criteria"] = "It is kind."
    refused = server.call("create_rule", project="shop", rule=rule | ({} if budget is None else {"budget": budget}))
    assert "needs a budget of its own" in text_of(refused)


APPLICATION = """
import json, sys
item = json.load(sys.stdin)
left, right = item["inputs"]["input"].split("+")
if left == "3":
    sys.exit("three is too much")
print(int(left) + int(right))
"""


def test_the_application_is_run_where_its_user_allowed_it(server: McpServer, tmp_path: Path) -> None:
    """The application runs over standard input, as often as the command line allows; a failure has its message."""
    program = tmp_path / "application.py"
    program.write_text(APPLICATION, encoding="utf-8")
    of_server = ("mcp", "--server", f"http://{server.closed.running.http}")
    of_application = ("--app", f"'{sys.executable}' '{program}'", "--app-runs", "5")
    command, *arguments = forking.command(forking.TRACEJURY, *of_server, *of_application)
    parameters = StdioServerParameters(
        command=command,
        args=arguments,
        env={"TRACEJURY_API_KEY": server.closed.keys["editor"]},
    )

    async def look() -> tuple[types.CallToolResult, types.CallToolResult, types.CallToolResult]:
        async with Client(parameters) as client:
            made = await client.call_tool("run_evaluation", {"dataset_path": DATASET})
            assert made.structured_content is not None, text_of(made)
            of_run = {"run_id": made.structured_content["run_id"]}
            failing = await client.call_tool("get_failing_queries", of_run)
            return made, failing, await client.call_tool("run_evaluation", {"dataset_path": DATASET})

    made, failing, refused = asyncio.run(look())
    assert made.structured_content is not None
    counts = [made.structured_content[name] for name in ("pass_count", "fail_count", "error_count")]
    assert counts == [3, 0, 1]
    assert "three is too much" in text_of(failing)
    assert refused.is_error
    assert "may be run 1 times more, and 4 were requested" in text_of(refused)


def test_an_application_that_takes_long_goes_on_after_the_answer(
    server: McpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tool answers in time, and each output is in the run once it is there."""
    monkeypatch.setattr(evaluations, "_LONGEST_S", 0.5)
    program = tmp_path / "application.py"
    program.write_text(f"import time; time.sleep(1)\n{APPLICATION}", encoding="utf-8")
    application = Application([sys.executable, str(program)], {}, runs=4)
    headers = {"authorization": f"Bearer {server.closed.keys['editor']}"}

    async def look() -> tuple[evaluations.RunResult, Any]:
        url = f"http://{server.closed.running.http}"
        async with httpx.AsyncClient(base_url=url, headers=headers, trust_env=False) as client:
            api = Api(client, Background(), application)
            made = await evaluations.run_evaluation(api, evaluations.RunEvaluation(dataset_path=DATASET))
            run: Any = None
            for _ in range(600):
                run = await api.get(f"/api/v1/runs/{made.run_id}")
                if run["status"] == "SUCCESS":
                    break
                await asyncio.sleep(0.1)
            return made, run

    made, run = asyncio.run(look())
    assert (made.status, made.total_examples) == ("RUNNING", 0)
    assert (run["status"], run["totalItems"], run["passedItems"]) == ("SUCCESS", 4, 3)


async def over_one(application: Application, results: list[ApplicationResult]) -> None:
    """Run an application on an item, and add its result."""

    async def store(_item: dict[str, Any], result: ApplicationResult) -> None:
        results.append(result)

    await application.over(None, [{"id": "a", "inputs": {}}], store)


def produced_by(application: Application) -> list[ApplicationResult]:
    """Return the result of an application for an item."""
    results: list[ApplicationResult] = []
    asyncio.run(over_one(application, results))
    return results


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_an_application_that_prints_without_end_is_bounded(stream: str) -> None:
    """It is ended at the limit of its output, of which no more is held; of its messages the last ones are kept."""
    endless = f"import sys\nfor _ in range(1_000): sys.{stream}.write('x' * 100_000)\nsys.exit('the end')"
    application = Application([sys.executable, "-c", endless], {}, runs=1)
    tracemalloc.start()
    try:
        (produced,) = produced_by(application)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert produced.error is not None
    assert produced.error.endswith("print the answer only" if stream == "stdout" else "the end")
    assert peak < 20 << 20


def test_an_application_is_ended_with_what_it_started(tmp_path: Path) -> None:
    """Once its caller gives up, no process goes on that it has started."""
    command = ["/bin/sh", "-c", '(while sleep 0.05; do echo beat >> "$BEATS"; done) & wait']
    beats = tmp_path / "beats"
    application = Application(command, {"PATH": os.defpath, "BEATS": str(beats)}, runs=1)

    async def give_up() -> None:
        async with asyncio.timeout(2):
            await over_one(application, [])

    with pytest.raises(TimeoutError):
        asyncio.run(give_up())
    size = beats.stat().st_size
    time.sleep(0.5)
    assert beats.stat().st_size == size > 0


def test_a_file_of_the_user_is_evaluated_on_his_machine(server: McpServer, tmp_path: Path) -> None:
    """Only files below the folder of the program's start are read; the run keeps their items, with ids."""
    (tmp_path / "home" / "cases").mkdir(parents=True)
    lines = "".join(f"{json.dumps(item)}\n" for item in ITEMS)
    for name in ("outside.jsonl", "home/.hidden.jsonl", "home/cases/sums.jsonl", "home/secret.txt"):
        (tmp_path / name).write_text(lines, encoding="utf-8")
    (tmp_path / "home" / "link.jsonl").symlink_to(tmp_path / "outside.jsonl")
    (tmp_path / "home" / "package.json").write_text('{"name": "app"}', encoding="utf-8")
    (tmp_path / "home" / "large.jsonl").write_bytes(b" " * (5 << 20))
    (tmp_path / "home" / "many.csv").write_text("input\n" + "x\n" * 1_001, encoding="utf-8")
    refused = {
        "../outside.jsonl": "is not below",
        str(tmp_path / "outside.jsonl"): "is not below",
        "link.jsonl": "is not below",
        ".hidden.jsonl": "hidden",
        "./secret.txt": "there is no file",
        "none.json": "there is no file",
        "package.json": "not a dataset",
        "large.jsonl": "larger than 4 MiB",
        "many.csv": "more than 1,000 items",
    }
    command, *arguments = forking.command(forking.TRACEJURY, "mcp", "--server", f"http://{server.closed.running.http}")
    parameters = StdioServerParameters(
        command=command,
        args=arguments,
        env={"TRACEJURY_API_KEY": server.closed.keys["editor"]},
        cwd=tmp_path / "home",
    )

    names = ("cases/sums.jsonl", "sums.jsonl", "sums", "cases", "sum")

    async def look() -> tuple[types.CallToolResult, types.CallToolResult, dict[str, types.CallToolResult]]:
        async with Client(parameters) as client:
            params = {"dataset_path": "cases/sums.jsonl", "outputs": outputs("0", "2", "5")}
            made = await client.call_tool("run_evaluation", params)
            assert made.structured_content is not None, text_of(made)
            failing = await client.call_tool("get_failing_queries", {"run_id": made.structured_content["run_id"]})
            for name in names:
                listed = await client.call_tool("list_experiments", {"dataset_name": name})
                assert listed.structured_content is not None, text_of(listed)
                outcomes[name] = [each["dataset"] for each in listed.structured_content["runs"]]
            return (
                made,
                failing,
                {n: await client.call_tool("run_evaluation", params | {"dataset_path": n}) for n in refused},
            )

    outcomes: dict[str, list[str]] = {}
    made, failing, tools = asyncio.run(look())
    assert [name for name in names if "cases/sums.jsonl" in outcomes[name]] == [*names[:3]]
    assert made.structured_content is not None
    assert failing.structured_content is not None
    assert made.structured_content["dataset"] == "cases/sums.jsonl"
    assert (made.structured_content["total_examples"], made.structured_content["pass_count"]) == (3, 2)
    (failed,) = failing.structured_content["failing_queries"]
    assert (failed["input"], failed["expected_output"]) == ({"input": "2+2"}, {"output": "4"})
    for name, why in refused.items():
        assert tools[name].is_error, name
        assert why in text_of(tools[name]), text_of(tools[name])


def test_a_server_reads_no_files(server: McpServer) -> None:
    """Over HTTP a name of a file is refused, with what would be right."""
    for name in ("cases/sums.jsonl", "/etc/passwd", "sums.json"):
        result = server.call("run_evaluation", dataset_path=name, outputs=outputs("0"))
        assert result.is_error
        assert "this server reads none of its own or yours" in text_of(result)


@pytest.mark.parametrize("flags", [["--app", "true"], ["--app-runs", "3"]])
def test_an_application_has_a_limit(flags: list[str]) -> None:
    """What may be run without one is not run."""
    result = run("mcp", *flags)
    assert result.exit_code == 2
    assert "need each other" in result.output
