"""Evaluators of the server on the items of runs: scored once, stored under their names, apart from the status."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.live import PATIENCE_S, a_client, a_live_server, until
from tests.model_server import ModelRequest, Says, Status, Step, a_model
from tests.offline import Offline, an_offline_server
from tests.serving import run as execute

pytestmark = pytest.mark.costly(
    "collector/api",
    "collector/children",
    "collector/cli",
    "collector/conventions",
    "collector/evaluation",
    "collector/experiments",
    "collector/live",
    "evaluators",
    "storage",
)

PRICE = {"inputUsdPerMillion": 1.0, "outputUsdPerMillion": 2.0}
EXACT: dict[str, Any] = {"evaluator": "exact_match"}


@pytest.fixture(name="server", scope="module")
def a_running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    """Start one server for all tests."""
    with an_offline_server(tmp_path_factory.mktemp("evaluations") / "data") as server:
        yield server


@pytest.fixture(name="api")
def one_server(server: Offline) -> Offline:
    """Return the server; each test begins runs of its own."""
    return server


def answers(count: int = 2, **more: Any) -> list[dict[str, Any]]:
    """Return items of which every second has the answer that is expected."""
    return [
        {
            "itemKey": str(number),
            "inputs": {"input": "2+2?"},
            "expectedOutputs": {"output": "4"},
            "actualOutputs": {"output": "4" if number % 2 else "5"},
            **more,
        }
        for number in range(1, count + 1)
    ]


def ended(api: Offline, *items: dict[str, Any]) -> str:
    """Return a run with these items that has ended."""
    run = api.begin()
    api.report(run, *items)
    api.end(run)
    return run


def ask(api: Offline, run: str, status: int = 201, **body: Any) -> Any:
    """Ask an evaluator about a run."""
    return api.ask("POST", f"runs/{run}/evaluations", status, json=body)


def evaluated(api: Offline, run: str) -> Any:
    """Return the run once nothing is open."""
    return until(
        lambda: api.ask("GET", f"runs/{run}"),
        lambda document: document["status"] != "EVALUATING",
        within_s=2 * PATIENCE_S,
    )


def test_the_items_of_a_run_are_scored(api: Offline) -> None:
    """A check scores each item, with the fingerprint that it has everywhere; the run is EVALUATING until it is done."""
    run = ended(api, *answers(4))
    made = ask(api, run, **EXACT)
    assert (made["evaluator"], made["status"]) == ("exact_match", "WAITING")
    evaluation = evaluated(api, run)
    assert (evaluation["status"], evaluation["passedItems"], evaluation["notPassedItems"]) == ("SUCCESS", 2, 2)
    (evaluator,) = evaluation["evaluators"]
    assert (evaluator["evaluatorName"], evaluator["scoredCount"], evaluator["direction"]) == (
        "Exact Match",
        4,
        "higher",
    )
    assert len(evaluator["fingerprint"]) == 64
    (listed,) = api.ask("GET", f"runs/{run}/evaluations")
    assert (listed["status"], listed["completedAt"] is not None) == ("DONE", True)


def test_an_evaluation_waits_until_the_run_has_ended(api: Offline) -> None:
    """Requested while items come in, it scores later ones too; a run that has ended ends in no other state."""
    run = api.begin()
    ask(api, run, **EXACT)
    api.report(run, *answers(3))
    assert api.ask("GET", f"runs/{run}")["status"] == "RUNNING"
    api.end(run)
    api.end(run, "FAILED", 409)
    api.end(run)
    assert evaluated(api, run)["evaluators"][0]["scoredCount"] == 3


def test_asked_again_with_another_threshold_the_later_scores_count(api: Offline) -> None:
    """The application is not run again; the earlier scores stay, and count no more."""
    run = ended(api, {"itemKey": "a", "inputs": {"input": "x"}, "actualOutputs": {"output": "four words are here"}})
    config = {"minimumOutputLength": 0, "maximumOutputLength": 100}
    ask(api, run, evaluator="length", config=config)
    assert evaluated(api, run)["passedItems"] == 1
    ask(api, run, evaluator="length", config=config | {"maximumOutputLength": 3})
    assert evaluated(api, run)["passedItems"] == 0
    scores = api.sql(f"SELECT passed, superseded FROM run_scores WHERE run_id = '{run}' ORDER BY score_number")
    assert scores == [[True, True], [False, False]]


def test_what_cannot_be_judged_is_told_apart(api: Offline) -> None:
    """An item whose task failed is skipped, one without what the evaluator needs is a failure; neither has a score."""
    run = ended(api, answers(1)[0], {"itemKey": "b", "error": "boom"}, {"itemKey": "c", "inputs": {"input": "x"}})
    ask(api, run, **EXACT)
    evaluation = evaluated(api, run)
    (evaluator,) = evaluation["evaluators"]
    assert [evaluator[name] for name in ("scoredCount", "failedCount", "skippedCount")] == [1, 1, 1]
    assert (evaluation["passedItems"], evaluation["errorItems"], evaluation["notEvaluatedItems"]) == (1, 1, 1)


@pytest.mark.parametrize(
    "body, status",
    [
        ({"evaluator": "no_such"}, 400),
        ({"evaluator": "regex", "config": {}}, 400),
        ({"evaluator": "code_judge", "config": {"command": ["true"]}}, 400),
        ({"evaluator": "faithfulness"}, 409),
        ({"connectionId": "none", "evaluator": "faithfulness"}, 400),
        ({}, 400),
    ],
)
def test_an_evaluator_that_cannot_be_asked_is_refused(api: Offline, body: dict[str, Any], status: int) -> None:
    """An evaluator that does not exist, is misconfigured, runs a program, or has no model is refused at once."""
    run = ended(api, *answers())
    api.ask("POST", f"runs/{run}/evaluations", status, json=body)
    assert api.ask("GET", f"runs/{run}")["status"] == "SUCCESS"


def test_an_evaluation_is_cancelled(api: Offline) -> None:
    """A waiting evaluation is cancelled, a finished one cannot be, and one of another run is 404."""
    run = api.begin()
    made = ask(api, run, **EXACT)
    ask(api, run, 409, **EXACT)
    api.ask("DELETE", f"runs/{api.begin()}/evaluations/{made['id']}", 404)
    api.ask("DELETE", f"runs/{run}/evaluations/{made['id']}", 204)
    api.ask("DELETE", f"runs/{run}/evaluations/{made['id']}", 409)
    api.report(run, *answers())
    api.end(run)
    assert evaluated(api, run)["unjudgedItems"] == 2


def test_evaluations_of_a_cancelled_run_are_cancelled(tmp_path: Path) -> None:
    """The run stays cancelled, and the judge is not asked about the items that it had."""
    with (
        a_model(Says({"score": 0.9, "reason": "it is right"})) as model,
        with_models(tmp_path, local=model.base_url) as api,
    ):
        run = api.begin()
        ask(api, run, criteria="Is it right?")
        api.report(run, *answers())
        api.ask("PATCH", f"runs/{run}", json={"status": "CANCELLED"})
        assert api.ask("GET", f"runs/{run}")["status"] == "CANCELLED"
        until(lambda: api.ask("GET", f"runs/{run}/evaluations")[0]["status"], lambda status: status == "CANCELLED")
        assert (api.ask("GET", f"runs/{run}")["unjudgedItems"], model.requests) == (2, [])


def with_models(tmp_path: Path, **urls: str) -> Any:
    """Return a server with connections of these names."""
    connections = {
        name: {"baseUrl": url, "model": f"model of {name}", "protocol": "CHAT_COMPLETIONS", "price": PRICE}
        for name, url in urls.items()
    }
    return an_offline_server(tmp_path / "data", llm_connections=connections)


def test_a_judge_scores_over_its_connection(tmp_path: Path) -> None:
    """What the seeds send makes a judge; its cost is on record with the scores, and with what judges took today."""
    with (
        a_model(Says({"score": 0.9, "reason": "it is right"})) as model,
        with_models(tmp_path, local=model.base_url) as api,
    ):
        run = ended(api, *answers(3))
        job = {"connectionId": "local", "evaluatorName": "Quality", "criteria": "Is it right?", "threshold": 0.8}
        made = api.ask("POST", f"runs/{run}/judge-jobs", 201, json=job)
        assert made["evaluatorName"] == "Quality"
        evaluation = evaluated(api, run)
        (evaluator,) = evaluation["evaluators"]
        assert (evaluator["scoredCount"], evaluator["averageScore"]) == (3, pytest.approx(0.9))
        assert evaluator["costUsd"] > 0
        assert evaluation["passedItems"] == 3
        counted = "SELECT count(*) FROM judge_call WHERE outcome = 'answered'"
        until(lambda: api.sql(counted), lambda rows: rows == [[3]])


def test_a_jury_votes_on_each_item(tmp_path: Path) -> None:
    """Each of three judges is asked once about each item; the one in the middle counts, and all are paid."""
    with ExitStack() as stack:
        models = {
            name: stack.enter_context(a_model(Says({"score": score, "reason": f"so {score}"})))
            for name, score in (("local", 0.1), ("second", 0.9), ("third", 0.7))
        }
        urls = {name: model.base_url for name, model in models.items()}
        api = stack.enter_context(with_models(tmp_path, **urls))
        run = ended(api, *answers(2))
        body: dict[str, Any] = {
            "connectionId": "local",
            "evaluatorName": "Quality",
            "criteria": "Is it right?",
            "threshold": 0.5,
        }
        assert "odd" in str(ask(api, run, 400, **body, jury=["second", "third", "local"]))
        ask(api, run, **body, jury=["second", "third"])
        (evaluator,) = evaluated(api, run)["evaluators"]
        assert (evaluator["scoredCount"], evaluator["averageScore"]) == (2, pytest.approx(0.7))
        assert [len(model.requests) for model in models.values()] == [2, 2, 2]
        rows = api.sql("SELECT DISTINCT reason, judge_calls FROM run_scores")
        assert rows == [["2 of 3 judges agree. so 0.7", 3]]
        again = ended(api, *answers(1))
        named = ("--connection", "local", "--jury", "second", "--jury", "third", "--name", "Again")
        config = ("--evaluator", "llm_judge", "--config", '{"criteria": "Is it right?"}')
        shown = execute("experiments", "evaluate", again, *config, *named, "--wait", "--server", api.url)
        assert (shown.exit_code, [len(model.requests) for model in models.values()]) == (0, [3, 3, 3]), shown.output


def test_only_the_judge_of_a_jury_that_failed_is_asked_again_about_an_item(tmp_path: Path) -> None:
    """The votes of the others are kept until all have answered."""
    outage = iter(range(4))  # two requests about each of two items

    def script(_: ModelRequest) -> Step:
        return Says({"score": 1.0, "reason": "so"}) if next(outage, None) is None else Status(503)

    with ExitStack() as stack:
        good = Says({"score": 1.0, "reason": "so"})
        models = {name: stack.enter_context(a_model(good)) for name in ("local", "second")}
        models["third"] = stack.enter_context(a_model(script))
        api = stack.enter_context(with_models(tmp_path, **{name: model.base_url for name, model in models.items()}))
        run = ended(api, *answers(2))
        ask(api, run, connectionId="local", jury=["second", "third"], evaluatorName="Q", criteria="Is it right?")
        (evaluator,) = evaluated(api, run)["evaluators"]
        assert evaluator["scoredCount"] == 2
        assert [len(models[name].requests) for name in ("local", "second")] == [2, 2]
        assert len(models["third"].requests) > 4


def test_a_judge_that_breaks_is_not_a_bad_score(tmp_path: Path) -> None:
    """An endpoint that refuses makes failures, and items that were not evaluated."""
    with a_model(Status(400)) as model, with_models(tmp_path, local=model.base_url) as api:
        run = ended(api, *answers(2))
        ask(api, run, evaluatorName="Quality", criteria="Is it right?", connectionId="local")
        evaluation = evaluated(api, run)
        assert (evaluation["notEvaluatedItems"], evaluation["notPassedItems"]) == (2, 0)
        assert evaluation["evaluators"][0]["failedCount"] == 2


def test_an_evaluation_that_judged_nothing_has_failed(tmp_path: Path) -> None:
    """It is FAILED and says why, marks the run until a later one succeeds, and no rate says that items failed."""
    steps: list[Any] = [Status(400)]
    with a_model(lambda _: steps[-1]) as model, with_models(tmp_path, local=model.base_url) as api:
        run = api.begin(experimentName="broken")
        passes = {"name": "exact", "score": 1.0, "success": True}
        api.report(run, *(each | {"evalResults": [passes]} for each in answers(2)))
        api.end(run)
        assert api.ask("GET", f"runs/{run}")["passRate"] == 1.0
        config = ("--evaluator", "llm_judge", "--config", '{"criteria": "Is it right?"}', "--connection", "local")
        waited = execute("experiments", "evaluate", run, *config, "--name", "Q", "--wait", "--server", api.url)
        assert (waited.exit_code, "FAILED, 0 scored, 2 no verdict" in waited.output) == (1, True), waited.output
        (evaluation,) = api.ask("GET", f"runs/{run}/evaluations")
        assert (evaluation["status"], evaluation["failedCount"]) == ("FAILED", 2)
        assert evaluation["lastError"].startswith("none of 2 items was judged: 2 no verdict, 0 skipped; the first: ")
        run_document = api.ask("GET", f"runs/{run}")
        assert (run_document["status"], run_document["passRate"], run_document["failedEvaluations"]) == (
            "SUCCESS",
            None,
            ["Q"],
        )
        assert (run_document["notPassedItems"], run_document["notEvaluatedItems"]) == (0, 2)
        (trend,) = api.ask("GET", f"experiments/{run_document['experimentId']}/trends")["runs"]
        (listed,) = api.ask("GET", f"experiments/{run_document['experimentId']}/runs")
        for each in (trend, listed):
            assert (each["passRate"], each["notEvaluatedItems"], each["failedEvaluations"]) == (None, 2, ["Q"])
        assert api.sql("SELECT pass_rate, not_evaluated, failed_evaluations FROM runs") == [[None, 2, ["Q"]]]
        summary = json.loads(api.answer("GET", f"runs/{run}/export?format=json").text)["summary"]
        assert (summary["passRate"], summary["failCount"], summary["notEvaluatedCount"]) == (None, 0, 2)
        assert "0 of 0 judged, 2 without a verdict" in api.answer("GET", f"runs/{run}/export?format=markdown").text
        steps.append(Says({"score": 1.0, "reason": "right"}))
        listed = execute("experiments", "list", "shop", "--server", api.url).output
        assert "SUCCESS (gave up: Q)" in listed
        assert "Q: status 400" in execute("experiments", "show", run, "--server", api.url).output
        again = execute("experiments", "evaluate", run, *config, "--name", "Q", "--wait", "--server", api.url)
        assert again.exit_code == 0, again.output
        run_document = api.ask("GET", f"runs/{run}")
        assert (run_document["passRate"], run_document["failedEvaluations"]) == (1.0, [])


def test_an_evaluation_of_a_run_without_items_has_failed(api: Offline) -> None:
    """It judged nothing either, and says that there was nothing."""
    run = api.begin()
    ask(api, run, **EXACT)
    api.end(run)
    evaluated(api, run)
    (evaluation,) = api.ask("GET", f"runs/{run}/evaluations")
    assert (evaluation["status"], evaluation["lastError"]) == ("FAILED", "the run has no items")


def test_a_killed_server_goes_on_where_it_was(tmp_path: Path) -> None:
    """Whenever the server is killed, each item has one score that counts in the end."""
    items = answers(1_500)
    with a_live_server(tmp_path / "data") as live, a_client() as client:
        api = Offline(live.http, client)
        run = ended(api, *items)
        ask(api, run, **EXACT)
        until(lambda: api.sql("SELECT count(*) FROM run_score"), lambda rows: rows[0][0] > 0)
        live.kill()
    with a_live_server(tmp_path / "data") as live, a_client() as client:
        api = Offline(live.http, client)
        evaluation = evaluated(api, run)
        assert (evaluation["evaluators"][0]["scoredCount"], evaluation["passedItems"]) == (1_500, 750)
        assert api.sql("SELECT count(*), count(DISTINCT item_number) FROM run_score") == [[1_500, 1_500]]


def test_the_command_line_shows_runs_and_has_them_scored(api: Offline) -> None:
    """A run is listed under its experiment, scored by the server, and shown with its scores."""
    where = ("--server", api.url)
    run = ended(api, *answers(4, tokensIn=1), {"itemKey": "priced", "costUsd": 0.5, "tokensIn": 2})
    result = execute("experiments", "evaluate", run, "--evaluator", "exact_match", "--name", "Same", "--wait", *where)
    assert (result.exit_code, "(Same): DONE, 4 scored, 1 no verdict, 0 skipped" in result.output) == (0, True), (
        result.output
    )
    shown = execute("experiments", "show", run, "--outcome", "not_passed", *where).output
    assert "2 of 4 judged items passed (50.0%); of 5 items 0 have an error, 1 have no verdict" in shown
    assert "(1/5 items priced)" in shown
    assert "Same" in shown
    assert run in execute("experiments", "runs", "shop", "qa", "--limit", "1000", "--json", *where).output
    assert "qa" in execute("experiments", "list", "shop", *where).output
    assert execute("experiments", "runs", "shop", "nothing", *where).exit_code == 1
    assert execute("experiments", "evaluate", run, "--evaluator", "none", *where).exit_code == 1
