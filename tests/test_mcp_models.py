"""Models of connections that answer the items of a dataset for `run_evaluation`, within the budgets of judges."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError

from collector.mcp.tools import evaluations
from tests.live import until
from tests.model_server import Hangs, ModelRequest, ModelServer, Says, Status, Step, a_model
from tests.models_client import McpServer, an_mcp_server, text_of
from tests.serving import run

pytestmark = pytest.mark.costly(
    "collector/experiment_runner",
    "collector/datasets",
    "collector/experiments",
    "collector/live",
    "collector/mcp",
    "evaluators",
    "storage/judging",
    "storage/offline",
)

DATASET = "capitals"
CAPITALS = {"Austria": "Vienna", "Norway": "Oslo", "Peru": "Lima", "Kenya": "Nairobi"}
ITEMS = [
    {
        "id": country,
        "inputs": {"input": f"Capital of {country}?", "country": country},
        "expectedOutputs": {"output": capital},
        "metadata": {"style": "one word"},
    }
    for country, capital in CAPITALS.items()
]
PRICE = {"inputUsdPerMillion": 10, "outputUsdPerMillion": 100}


def geography(question: ModelRequest) -> Step:
    """Answer with the capital of the country that the question names."""
    return Says(next(capital for country, capital in CAPITALS.items() if country in question.user))


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    """Yield a model that knows four capitals."""
    with a_model(geography) as model:
        yield model


@pytest.fixture(autouse=True)
def fresh(model: ModelServer) -> None:
    """Reset the model's requests, since each test counts its own."""
    model.requests.clear()
    model.script = geography


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[McpServer]:
    """Yield a server with a dataset of four countries."""
    with an_mcp_server(tmp_path_factory.mktemp("mcp") / "data") as running:
        made = _ask(running, "POST", "datasets", {"name": DATASET})
        _ask(running, "POST", f"datasets/{made['id']}/versions", {"items": ITEMS})
        yield running


def _ask(server: McpServer, method: str, path: str, body: object = None, key: str = "editor") -> Any:
    answer = server.closed.ask(method, f"/api/v1/{path}", key=server.closed.keys[key], json=body)
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


def connect(server: McpServer, model: ModelServer, **connections: dict[str, Any]) -> None:
    """Replace all connections by ones to the model with these keys."""
    for each in _ask(server, "GET", "llm-connections", key="admin"):
        _ask(server, "DELETE", f"llm-connections/{each['id']}", key="admin")
    for name, keys in connections.items():
        protocol = {"protocol": "CHAT_COMPLETIONS", "maxOutputTokens": 100}
        body = {"name": name, "baseUrl": model.base_url, "model": f"model-{name}", **protocol, **keys}
        _ask(server, "POST", "llm-connections", body, key="admin")


def run_of(server: McpServer, run_id: str) -> Any:
    """Return a run with its items."""
    return _ask(server, "GET", f"runs/{run_id}?size=200")


def runs_of(server: McpServer, experiment: str) -> list[dict[str, Any]]:
    """Return the runs of an experiment, as a list shows them."""
    listed = server.content("list_experiments", limit=200)["runs"]
    return [each for each in listed if each["experiment_name"] == experiment]


def test_a_model_answers_each_item_and_is_paid_from_the_budget(server: McpServer, model: ModelServer) -> None:
    """The run has the answers, their usage, their traces and the parameters; the connection's budget counts them."""
    connect(server, model, main={"budget": {"callsPerDay": 10}, "price": PRICE})
    made = server.content("run_evaluation", dataset_path=DATASET, model="model-main", temperature=0.5, project="shop")
    assert (made["status"], made["pass_rate"], made["problem"]) == ("SUCCESS", 1, None)
    assert (made["dataset"], made["model"], made["total_examples"]) == (f"{DATASET}@1", "model-main", 4)
    assert sorted(each.user for each in model.requests) == sorted(item["inputs"]["input"] for item in ITEMS)  # type: ignore[index]
    assert {each.body["temperature"] for each in model.requests} == {0.5}
    run = run_of(server, made["run_id"])
    assert run["config"] == {"model": "model-main", "temperature": 0.5}
    for item in run["items"]["content"]:
        assert (item["tokensIn"], item["tokensOut"], item["costUsd"]) == (100, 20, 0.003)
        assert item["latencyMs"] > 0
        trace = until(lambda: server.call("get_trace", trace_id=item["traceId"]), lambda result: not result.is_error)  # noqa: B023 - called at once
        assert item["actualOutput"]["output"] in text_of(trace)
    (connection,) = _ask(server, "GET", "llm-connections", key="admin")
    assert (connection["spentToday"]["calls"], connection["spentToday"]["usd"]) == (4, pytest.approx(0.012))


def test_a_prompt_is_filled_with_the_item_and_never_with_what_is_expected(
    server: McpServer, model: ModelServer
) -> None:
    """In the system prompt too; an item that has nothing for a place has no answer, and the model is not asked."""
    connect(server, model, main={"budget": {"callsPerDay": 10}})
    prompts = {"prompt": "{{inputs.country}}: capital? {{inputs}}", "system_prompt": "Answer in {{metadata.style}}."}
    made = server.content("run_evaluation", dataset_path=DATASET, limit=1, **prompts)
    (question,) = model.requests
    assert (made["model"], run_of(server, made["run_id"])["config"]["model"]) == ("model-main", "model-main")
    assert question.system == "Answer in one word."
    assert question.user == 'Austria: capital? {"input":"Capital of Austria?","country":"Austria"}'
    assert made["pass_rate"] == 1
    model.requests.clear()
    for place in ("{{inputs.city}}", "{{expectedOutputs.output}}"):
        made = server.content("run_evaluation", dataset_path=DATASET, prompt=place)
        assert (made["error_count"], made["pass_rate"], model.requests) == (4, None, [])
        assert "the case has nothing for" in made["problem"]


def test_what_cannot_be_asked_is_refused_before_anything_is_kept(server: McpServer, model: ModelServer) -> None:
    """Without a budget, without the name of one of several connections, without a model, with outputs as well."""
    limited = {"budget": {"callsPerDay": 10}}
    connect(server, model, open={}, limited=limited, other=limited)
    for arguments, why in (
        ({}, "name a `model` that answers"),
        ({"model": "gpt"}, "needs the name of its `model_connection`; there are: limited, open, other"),
        ({"model_connection": "open"}, "has no budget"),
        ({"model": "model-open"}, "has no budget"),
        ({"model_connection": "none"}, "there are: limited, open, other"),
        ({"model_connection": "limited", "max_output_tokens": 101}, "allows answers of 100 tokens"),
        ({"model_connection": "limited", "outputs": [{"item_id": "Peru", "output": "Lima"}]}, "and not both"),
        ({"model_connection": "limited", "evaluator": "llm_judge", "criteria": "good"}, "a judge needs the name"),
        ({"model_connection": "limited", "evaluator": "exact_mach"}, "did you mean exact_match?"),
    ):
        result = server.call("run_evaluation", dataset_path=DATASET, experiment_name="refused", **arguments)
        assert result.is_error, arguments
        assert why in text_of(result)
    assert {each["status"] for each in runs_of(server, "refused")} <= {"CANCELLED"}
    assert model.requests == []
    viewer = server.call("run_evaluation", key="viewer", dataset_path=DATASET, model_connection="limited")
    assert viewer.is_error
    assert model.requests == []


def test_an_item_whose_request_fails_is_failed_and_not_the_run(server: McpServer, model: ModelServer) -> None:
    """Refused, unanswered or cut off: each is an error of its item, which no evaluator judges, and keeps its kind."""
    connect(server, model, main={"budget": {"callsPerDay": 99}, "limits": {"timeoutSeconds": 1, "attempts": 1}})
    steps: dict[str, Step] = {"Norway": Status(400), "Peru": Hangs()}

    def script(question: ModelRequest) -> Step:
        return next((step for country, step in steps.items() if country in question.user), geography(question))

    model.script = script
    made = server.content("run_evaluation", dataset_path=DATASET, model_connection="main")
    assert (made["status"], made["pass_count"], made["fail_count"], made["error_count"]) == ("SUCCESS", 2, 0, 2)
    assert (made["pass_rate"], made["failed_evaluations"]) == (1, [])
    assert "2 of 4 items have no answer; the first: " in made["problem"]
    failing = server.content("get_failing_queries", run_id=made["run_id"])["failing_queries"]
    kinds = {each["input"]["country"]: each["error_kind"] for each in failing}
    assert kinds == {"Norway": "refused", "Peru": "timeout"}


def test_a_request_that_fails_in_passing_is_made_again_as_for_a_judge(server: McpServer, model: ModelServer) -> None:
    """As often as the connection allows, and each answer is counted once."""
    connect(server, model, main={"budget": {"callsPerDay": 99}, "limits": {"attempts": 2}})
    failed: set[str] = set()

    def script(question: ModelRequest) -> Step:
        if question.user in failed:
            return geography(question)
        failed.add(question.user)
        return Status(503)

    model.script = script
    made = server.content("run_evaluation", dataset_path=DATASET, model_connection="main")
    assert (made["pass_rate"], made["error_count"], len(model.requests)) == (1, 0, 8)


def test_a_budget_that_is_used_up_ends_the_answers_and_not_the_run(server: McpServer, model: ModelServer) -> None:
    """Exactly as many are asked as it allows; each of the other items says that no budget was left."""
    connect(server, model, main={"budget": {"callsPerDay": 2}})
    made = server.content("run_evaluation", dataset_path=DATASET, model_connection="main")
    assert len(model.requests) == 2
    assert (made["pass_count"], made["error_count"], made["not_evaluated_count"]) == (2, 2, 0)
    assert "2 of 4 items have no answer; the first: over_budget" in made["problem"]
    failing = server.content("get_failing_queries", run_id=made["run_id"])["failing_queries"]
    assert [each["error_kind"] for each in failing] == ["over_budget"] * 2
    assert all("budget" in each["error"] for each in failing)


def test_the_budgets_of_answers_and_of_judges_are_one(server: McpServer, model: ModelServer) -> None:
    """Four answers leave one call of five for the judge, whose other items are not judged."""
    connect(server, model, main={"budget": {"callsPerDay": 5}})

    def script(question: ModelRequest) -> Step:
        return Says({"score": 1.0, "reason": "it is"}) if question.schema else geography(question)

    model.script = script
    by = {"evaluator": "llm_judge", "criteria": "It is right.", "connection": "main"}
    made = server.content("run_evaluation", dataset_path=DATASET, model_connection="main", **by)
    assert (made["pass_count"], len(model.requests)) == (1, 5)
    assert made["fail_count"] == 0


def test_a_model_that_takes_long_is_asked_on_after_the_answer(
    server: McpServer, model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tool says that the run goes on; it ends by itself, judged."""
    connect(server, model, main={"budget": {"callsPerDay": 10}, "limits": {"timeoutSeconds": 60, "attempts": 1}})
    monkeypatch.setattr(evaluations, "_LONGEST_S", 1.0)
    goes_on = asyncio.Event()

    def script(question: ModelRequest) -> Step:
        while not goes_on.is_set():
            model.stopping.wait(0.02)
        return geography(question)

    model.script = script
    made = server.content("run_evaluation", dataset_path=DATASET, model_connection="main")
    assert (made["status"], made["total_examples"], made["pass_rate"]) == ("RUNNING", 0, None)
    goes_on.set()
    run = until(lambda: run_of(server, made["run_id"]), lambda run: run["status"] == "SUCCESS")
    assert (run["passRate"], run["totalItems"]) == (1, 4)


def test_a_run_that_is_cancelled_asks_no_more(
    server: McpServer, model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a cancellation neither the model nor the judge is called again, and the running call is the last."""
    connect(server, model, main={"budget": {"callsPerDay": 10}, "limits": {"timeoutSeconds": 60, "attempts": 1}})
    monkeypatch.setattr(evaluations, "_LONGEST_S", 0.5)
    goes_on = asyncio.Event()

    def script(question: ModelRequest) -> Step:
        while "Austria" not in question.user and not goes_on.is_set():
            model.stopping.wait(0.02)
        return Says({"score": 1.0, "reason": "it is"}) if question.schema else geography(question)

    model.script = script
    by = {"evaluator": "llm_judge", "criteria": "It is right.", "connection": "main"}
    made = server.content("run_evaluation", dataset_path=DATASET, model_connection="main", **by)
    until(lambda: run_of(server, made["run_id"])["totalItems"], lambda count: count == 1)
    assert server.content("cancel_run", run_id=made["run_id"])["status"] == "CANCELLED"
    goes_on.set()
    (line,) = until(
        lambda: server.content("list_run_evaluations", run_id=made["run_id"])["evaluations"],
        lambda lines: lines[0]["status"] == "CANCELLED",
    )
    assert (line["scoredCount"], [each for each in model.requests if each.schema]) == (0, [])
    assert run_of(server, made["run_id"])["totalItems"] == 1


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_that_cancels_its_call_ends_the_run(server: McpServer, model: ModelServer, mode: str) -> None:
    """In both generations of the protocol: the items that it has stay, and no other is asked about."""
    connect(server, model, main={"budget": {"callsPerDay": 10}, "limits": {"timeoutSeconds": 60, "attempts": 1}})
    model.script = lambda question: geography(question) if "Austria" in question.user else Hangs()
    arguments = {"dataset_path": DATASET, "model_connection": "main", "experiment_name": f"left, {mode}"}

    async def leave(client: Client) -> None:
        with pytest.raises(MCPError):
            await client.call_tool("run_evaluation", arguments, read_timeout_seconds=2)

    server.with_client("editor", leave, mode)
    (run,) = until(
        lambda: runs_of(server, f"left, {mode}"), lambda runs: [each["status"] for each in runs] == ["CANCELLED"]
    )
    assert len(model.requests) <= 4  # the one that was answered, and as many as are asked at a time
    assert run["total_examples"] <= 1
    assert "cancelled" in run_of(server, run["run_id"])["statusReason"]


def test_a_server_that_stops_ends_the_runs_that_it_answers(tmp_path: Path, model: ModelServer) -> None:
    """The run says so after the next start, and is not left as if it went on."""
    model.script = lambda _: Hangs()
    keys = {"budget": {"callsPerDay": 10}, "limits": {"timeoutSeconds": 60, "attempts": 1}}
    connection = {"baseUrl": model.base_url, "model": "m", "protocol": "CHAT_COMPLETIONS", **keys}
    with an_mcp_server(tmp_path / "data", llm_connections={"main": connection}) as running:
        made = _ask(running, "POST", "datasets", {"name": DATASET})
        _ask(running, "POST", f"datasets/{made['id']}/versions", {"items": ITEMS})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(evaluations, "_LONGEST_S", 0.5)
            begun = running.content("run_evaluation", dataset_path=DATASET, model_connection="main")
        assert begun["status"] == "RUNNING"
    result = run("sql", "--json", "--data", tmp_path / "data", "SELECT run_id, status, status_reason FROM runs")
    (row,) = [each for each in json.loads(result.stdout) if each["run_id"] == begun["run_id"]]
    assert (row["status"], row["status_reason"]) == ("CANCELLED", "the client cancelled it, or the program ended")
