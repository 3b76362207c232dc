"""Runs over HTTP: items are stored once, statuses end once, and sums say how much they know."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.access import a_closed_server
from tests.live import a_client, a_live_server
from tests.offline import Offline, an_offline_server
from tests.serving import run

pytestmark = pytest.mark.costly(
    "collector/access",
    "collector/api",
    "collector/cli",
    "collector/datasets",
    "collector/evaluation",
    "collector/experiments",
    "collector/redaction",
    "storage",
)

SCORED = {"name": "exact", "score": 1.0, "threshold": 1.0, "success": True, "fingerprint": "f1"}
WRONG = {"name": "exact", "score": 0.0, "threshold": 1.0, "reason": "4 is not 5", "fingerprint": "f1"}


@pytest.fixture(name="server", scope="module")
def a_running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    """Start one server for all tests."""
    with an_offline_server(tmp_path_factory.mktemp("runs") / "data") as server:
        yield server


@pytest.fixture(name="api")
def one_server(server: Offline) -> Offline:
    """Return the server; each test begins runs of its own."""
    return server


def an_item(key: object, *scores: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Build an item as it is reported."""
    return {
        "itemKey": str(key),
        "inputs": {"q": "2+2?"},
        "actualOutputs": {"output": "4"},
        "evalResults": [*scores],
    } | more


def test_a_run_is_shown_with_its_name_and_description(api: Offline) -> None:
    """As text; characters that would control a terminal are escaped."""
    run_id = api.begin(name="nightly", description="By memory\nand \x1b[31mred")
    lines = run("experiments", "show", run_id, "--server", api.url).stdout.splitlines()
    assert lines[0].endswith(f"run {run_id} (nightly): RUNNING")
    assert lines[1:3] == ["By memory", r"and \x1b[31mred"]


def test_a_run_is_begun_reported_and_ended(api: Offline) -> None:
    """The fields that the seed projects send are accepted, and returned under their names."""
    run = api.begin(metadata={"model": "m1"}, gitSha="9f1c", gitBranch="main", name="nightly", description="By memory")
    reported = {
        "inputs": {"q": "2+2?"},
        "expectedOutputs": {"output": "4"},
        "actualOutputs": {"output": "5"},
        "metadata": {"big": 12345678901234567890123},
        "tokensIn": 12,
        "tokensOut": 3,
        "costUsd": 0.000041,
        "latencyMs": 310,
        "success": True,
        "evalResults": [WRONG | {"success": False}],
    }
    assert api.report(run, reported) == {"status": "ok", "stored": 1, "alreadyPresent": 0, "conflicting": []}
    api.end(run)
    run_document = api.ask("GET", f"runs/{run}")
    assert (run_document["status"], run_document["config"], run_document["gitBranch"]) == (
        "SUCCESS",
        {"model": "m1"},
        "main",
    )
    assert (run_document["totalItems"], run_document["passedItems"], run_document["passRate"]) == (1, 0, 0.0)
    assert (
        run_document["tokensIn"],
        run_document["tokensOut"],
        run_document["costUsd"],
        run_document["latencyMs"],
    ) == (12, 3, 0.000041, 310)
    assert run_document["description"] == "By memory"
    assert [each["description"] for each in api.ask("GET", "projects/shop/experiments")] == ["By memory"]
    (item,) = run_document["items"]["content"]
    assert (item["input"], item["expectedOutput"], item["actualOutput"]) == (
        {"q": "2+2?"},
        {"output": "4"},
        {"output": "5"},
    )
    assert (item["success"], item["outcome"], item["metadata"]["big"]) == (False, "not_passed", 12345678901234567890123)
    (score,) = item["evalResults"]
    assert (score["evaluatorName"], score["score"], score["reason"]) == ("exact", 0.0, "4 is not 5")
    (listed,) = [
        each for each in api.ask("GET", f"experiments/{run_document['experimentId']}/runs") if each["id"] == run
    ]
    assert (listed["itemCount"], listed["passedCount"], listed["gitSha"]) == (1, 0, "9f1c")


def test_an_item_is_stored_once_for_its_key_and_trial(api: Offline) -> None:
    """A repeated item is already present; another trial is another item; other content under its key is a conflict."""
    run = api.begin(trials=2)
    assert api.report(run, an_item(1, SCORED), an_item(2))["stored"] == 2
    again = api.report(run, an_item(2), an_item(3), an_item(1, SCORED))
    assert (again["stored"], again["alreadyPresent"], again["conflicting"]) == (1, 2, [])
    assert api.report(run, an_item(1, SCORED, trial=2))["stored"] == 1
    other = api.report(run, an_item(1, WRONG))
    assert (other["stored"], other["alreadyPresent"], other["conflicting"]) == (0, 1, ["1"])
    run_document = api.ask("GET", f"runs/{run}")
    assert (run_document["totalItems"], run_document["caseCount"]) == (4, 3)
    assert run_document["items"]["content"][0]["evalResults"][0]["score"] == 1.0
    keys = api.ask("GET", f"runs/{run}/keys")
    assert [(each["itemKey"], each["trial"]) for each in keys["content"]] == [("1", 1), ("2", 1), ("3", 1), ("1", 2)]


def test_the_same_key_twice_in_a_batch_is_one_item(api: Offline) -> None:
    """The first of them counts."""
    run = api.begin()
    response = api.report(run, an_item(1), an_item(1), an_item(1, SCORED))
    assert (response["stored"], response["alreadyPresent"], response["conflicting"]) == (1, 2, ["1"])


def test_a_batch_with_a_key_is_stored_once_across_a_restart(tmp_path: Path) -> None:
    """Items without keys of their own are known by the batch's, which nothing in memory has to remember."""
    item = {"inputs": {"q": 1}}
    with an_offline_server(tmp_path / "data") as api:
        run = api.begin()
        assert api.report(run, item, item, idempotency_key="b-1")["stored"] == 2
    with an_offline_server(tmp_path / "data") as api:
        again = api.report(run, item, item, idempotency_key="b-1")
        assert (again["stored"], again["alreadyPresent"]) == (0, 2)
        assert api.report(run, item, idempotency_key="b-2")["stored"] == 1
        assert api.report(run, item)["stored"] == 1


@pytest.mark.parametrize("ending", ["SUCCESS", "FAILED", "CANCELLED"])
def test_a_run_ends_once(api: Offline, ending: str) -> None:
    """Ending it alike again changes nothing; another ending and new items are refused; stored items may be repeated."""
    run = api.begin()
    api.report(run, an_item(1))
    api.end(run, ending)
    ended_at = api.ask("GET", f"runs/{run}")["completedAt"]
    assert api.end(run, ending)["runStatus"] == ending
    api.end(run, "SUCCESS" if ending != "SUCCESS" else "FAILED", 409)
    api.end(run, "RUNNING", 409)
    api.report(run, an_item(2), status=409)
    assert api.report(run, an_item(1))["alreadyPresent"] == 1
    assert api.ask("GET", f"runs/{run}")["completedAt"] == ended_at


def test_a_verdict_is_apart_from_the_status(api: Offline) -> None:
    """What a gate said stands beside how the run ended."""
    run = api.begin()
    api.end(run)
    assert api.ask("PATCH", f"runs/{run}", json={"verdict": "FAIL"})["runStatus"] == "SUCCESS"
    assert api.ask("GET", f"runs/{run}")["verdict"] == "FAIL"


def test_scored_failed_and_skipped_are_three_things(api: Offline) -> None:
    """An item passes by scores alone; an error makes it not evaluated, whatever its scores; a skip changes nothing."""
    broken = {"name": "judge", "error": "the model is down", "errorKind": "unreachable", "score": 1.0}
    run = api.begin()
    items = {
        "passed": an_item("a", SCORED, {"name": "judge", "outcome": "skipped", "reason": "no context"}),
        "not_evaluated": an_item("b", WRONG, broken),
        "not_passed": an_item("c", WRONG),
        "error": an_item("d", SCORED, error="ValueError: no", errorKind="task"),
        "unjudged": an_item("e"),
    }
    api.report(run, *items.values())
    run_document = api.ask("GET", f"runs/{run}")
    counted = [
        run_document[name]
        for name in ("passedItems", "notPassedItems", "errorItems", "notEvaluatedItems", "unjudgedItems")
    ]
    assert counted == [1, 1, 1, 1, 1]
    assert run_document["passRate"] == 0.5
    assert api.sql(f"SELECT pass_rate FROM runs WHERE run_id = '{run}'") == [[0.5]]
    assert [each["outcome"] for each in run_document["items"]["content"]] == list(items)
    for outcome, item in items.items():
        (shown,) = api.ask("GET", f"runs/{run}?outcome={outcome}")["items"]["content"]
        assert shown["itemKey"] == item["itemKey"]
    by_name = {each["evaluatorName"]: each for each in run_document["evaluators"]}
    assert [by_name["judge"][name] for name in ("scoredCount", "failedCount", "skippedCount")] == [0, 1, 1]
    assert by_name["judge"]["averageScore"] is None
    assert (by_name["exact"]["scoredCount"], by_name["exact"]["passedCount"]) == (4, 2)
    assert (by_name["exact"]["averageScore"], by_name["exact"]["fingerprint"]) == (0.5, "f1")


@pytest.mark.parametrize(
    "fields, passed",
    [
        ({"score": 0.5}, True),
        ({"score": 0.49}, False),
        ({"score": 0.7, "threshold": 0.8}, False),
        ({"score": 0.2, "threshold": 0.3, "direction": "lower"}, True),
        ({"score": 0.1, "threshold": 0.9, "success": True}, True),
        ({"success": False}, False),
    ],
)
def test_a_score_passes_by_its_threshold(api: Offline, fields: dict[str, Any], passed: bool) -> None:  # noqa: FBT001 - a case
    """A reported verdict decides, else the threshold in the evaluator's direction, which is 0.5 by default."""
    run = api.begin()
    api.report(run, an_item(1, {"name": "x", **fields}))
    (item,) = api.ask("GET", f"runs/{run}")["items"]["content"]
    assert item["evalResults"][0]["success"] is passed


def test_sums_say_of_how_many_items_they_are(api: Offline) -> None:
    """Reported costs are summed; items with a cost and items with tokens are counted separately."""
    run = api.begin()
    api.report(run, an_item(1, costUsd=0.5, tokensIn=10), an_item(2, tokensIn=5, tokensOut=1), an_item(3))
    run_document = api.ask("GET", f"runs/{run}")
    assert (run_document["costUsd"], run_document["pricedItemCount"], run_document["tokenizedItemCount"]) == (0.5, 1, 2)
    assert (run_document["tokensIn"], run_document["tokensOut"]) == (15, 1)
    empty = api.ask("GET", f"runs/{api.begin()}")
    assert (empty["passRate"], empty["costUsd"], empty["totalItems"]) == (None, None, 0)


def test_a_run_key_names_one_run(api: Offline) -> None:
    """A second begin with the key, such as another worker of the same session, gets the run that there is."""
    begun = {"experimentName": "keyed", "runKey": "session 7"}
    first = api.ask("POST", "projects/shop/runs", 201, json=begun)
    again = api.ask("POST", "projects/shop/runs", 200, json=begun)
    assert again["runId"] == first["runId"]
    other = api.ask("POST", "projects/shop/runs", 201, json=begun | {"experimentName": "other"})
    assert other["runId"] != first["runId"]


def test_a_run_knows_its_version_and_fills_in_what_it_says(api: Offline) -> None:
    """An item that names its case alone has the inputs and expectations of that version."""
    api.dataset("cases")
    api.version({"id": "paris", "input": "France?", "expectedOutput": "Paris", "metadata": {"l": 1}}, name="cases")
    run = api.begin(datasetName="cases", datasetVersion=1)
    api.version({"id": "paris", "input": "changed"}, name="cases")
    api.report(run, {"datasetItemId": "paris", "actualOutputs": {"output": "Paris"}})
    run_document = api.ask("GET", f"runs/{run}")
    assert (run_document["datasetName"], run_document["datasetVersion"]) == ("cases", 1)
    (item,) = run_document["items"]["content"]
    assert (item["input"], item["expectedOutput"]) == ({"input": "France?"}, {"output": "Paris"})
    assert (item["itemKey"], item["metadata"]) == ("paris", {"l": 1})
    for wrong, status in (
        ({"datasetName": "cases"}, 400),
        ({"datasetName": "cases", "datasetVersion": 9}, 404),
        ({"datasetName": "none", "datasetVersion": 1}, 404),
    ):
        api.ask("POST", "projects/shop/runs", status, json={"experimentName": "qa", **wrong})


def test_the_latest_runs_of_all_experiments_are_one_list(api: Offline) -> None:
    """Whatever experiment and project they are of, newest first, with what each evaluator said, by dataset too."""
    api.dataset("latest")
    api.version({"id": "1", "input": "?"}, name="latest")
    older = api.begin("farm", experimentName="other", datasetName="latest", datasetVersion=1)
    newer = api.begin()
    api.report(newer, an_item(1))
    first, second = api.ask("GET", "runs?size=2")
    assert [first["id"], second["id"]] == [newer, older]
    assert [second[key] for key in ("projectName", "experimentName", "datasetName")] == ["farm", "other", "latest"]
    detail = api.ask("GET", f"runs/{newer}")
    assert (first["evaluators"], first["itemCount"]) == (detail["evaluators"], 1)
    assert [each["id"] for each in api.ask("GET", "runs?size=1&page=1")] == [older]
    assert [each["id"] for each in api.ask("GET", "runs?datasetName=latest")] == [older]
    assert api.ask("GET", "runs?datasetName=none") == []


def test_an_abandoned_run_ends(api: Offline) -> None:
    """A run of which nothing was heard for as long as it said has ended, and says why; one that goes on has not."""
    run, other = api.begin(idleSeconds=60), api.begin(idleSeconds=120)
    assert api.running is not None
    runs = api.running.store.runs
    reported_us = runs.find(None, run).reported_at_ns // 1000  # type: ignore[union-attr] # it is there
    runs.abandon(now_us=reported_us + 61_000_000)
    run_document = api.ask("GET", f"runs/{run}")
    assert (run_document["status"], "abandoned" in run_document["statusReason"]) == ("CANCELLED", True)
    assert api.ask("GET", f"runs/{other}")["status"] == "RUNNING"


def test_a_deleted_run_is_gone(api: Offline) -> None:
    """No row of it is left."""
    run = api.begin()
    api.report(run, an_item(1, SCORED))
    api.ask("DELETE", f"runs/{run}", 204)
    api.ask("GET", f"runs/{run}", 404)
    tables = ("run", "run_item", "run_score")
    counted = " UNION ALL ".join(f"SELECT count(*) FROM {table} WHERE run_id = '{run}'" for table in tables)
    assert api.sql(counted) == [[0]] * 3


def test_runs_expire(tmp_path: Path) -> None:
    """Runs that ended before a moment are deleted, and those that did not end are left."""
    with an_offline_server(tmp_path / "data") as api:
        ended, running = api.begin(), api.begin()
        api.report(ended, an_item(1, SCORED))
        api.end(ended)
        assert api.running is not None
        assert api.running.store.runs.expire(before_us=1) == 0
        assert api.running.store.runs.expire(before_us=1 << 52) == 1
        api.ask("GET", f"runs/{ended}", 404)
        assert api.ask("GET", f"runs/{running}")["status"] == "RUNNING"


def test_trends_are_of_runs_that_ended_as_they_should(api: Offline) -> None:
    """Runs that go on, or were cancelled, are none; the oldest comes first."""
    for ending, scores in (("SUCCESS", [SCORED]), ("FAILED", [WRONG]), ("CANCELLED", [SCORED])):
        run = api.begin(experimentName="trend")
        api.report(run, an_item(1, *scores))
        api.end(run, ending)
    run = api.begin(experimentName="trend")
    api.end(run, "CANCELLED")
    experiment = api.ask("GET", f"runs/{run}")["experimentId"]
    trends = api.ask("GET", f"experiments/{experiment}/trends")
    assert [each["passRate"] for each in trends["runs"]] == [1.0, 0.0]
    (listed,) = [each for each in api.ask("GET", "projects/shop/experiments") if each["name"] == "trend"]
    assert listed["latestRun"]["status"] == "CANCELLED"


def test_the_views_say_the_same(api: Offline) -> None:
    """The SQL views for dashboards have the same values as the API."""
    run = api.begin()
    api.report(run, an_item(1, SCORED, traceId="A" * 32), an_item(2, WRONG))
    where = f"WHERE run_id = '{run}'"
    assert api.sql(f"SELECT status, items, passed, pass_rate FROM runs {where}") == [["RUNNING", 2, 1, 0.5]]
    items = api.sql(f"SELECT item_key, outcome, trace_id FROM run_items {where} ORDER BY 1")
    assert items == [["1", "passed", "a" * 32], ["2", "not_passed", None]]
    scores = api.sql(f"SELECT item_key, name, score, origin, superseded FROM run_scores {where} ORDER BY 1")
    assert scores == [["1", "exact", 1.0, "client", False], ["2", "exact", 0.0, "client", False]]


@pytest.mark.parametrize(
    "item",
    [
        {"trial": 0},
        {"costUsd": -1},
        {"traceId": "x"},
        {"evalResults": [{"score": 1}]},
        {"inputs": []},
        {"unknown": 1},
    ],
)
def test_what_is_wrong_with_an_item_is_told(api: Offline, item: dict[str, Any]) -> None:
    """The answer names the place, and nothing of the batch is stored."""
    run = api.begin()
    response = api.report(run, an_item(1), item, status=400)
    assert any(each["field"].startswith("items.1.") for each in response["errors"])
    assert api.ask("GET", f"runs/{run}")["totalItems"] == 0


def test_an_item_is_no_deeper_than_it_can_be_shown(api: Offline) -> None:
    """Values that are stored can be read again: deeper ones are refused, also in the metadata of a score."""
    run, deepest, deeper = api.begin(), nested(199), nested(200)
    api.report(run, {"itemKey": "a", "actualOutputs": {"output": deepest}})
    assert api.ask("GET", f"runs/{run}")["items"]["content"][0]["actualOutput"] == {"output": deepest}
    for item in (
        {"inputs": {"input": deeper}},
        {"evalResults": [{"name": "n", "score": 1, "metadata": {"a": deeper}}]},
    ):
        response = api.report(run, {"itemKey": "b", **item}, status=400)
        assert response["error"] == "items[0]: nested in more than 200 levels (fixed): nest it less"
    assert api.ask("GET", f"runs/{run}")["totalItems"] == 1


def nested(levels: int) -> Any:
    """Return lists in each other."""
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


def test_items_are_redacted(tmp_path: Path) -> None:
    """Redaction patterns and keys apply to all fields of a run, reasons and errors too."""
    with an_offline_server(tmp_path / "data", redaction={"presets": ["email"], "keys": ["secret"]}) as api:
        run = api.begin(metadata={"by": "ann@example.org"})
        score = SCORED | {"reason": "as bob@example.org said"}
        api.report(run, {"inputs": {"secret": 1}, "error": "no carl@example.org", "evalResults": [score]})
        run_document = api.ask("GET", f"runs/{run}")
        (item,) = run_document["items"]["content"]
        assert "example.org" not in str(run_document)
        assert (item["input"], item["error"]) == ({"secret": "[redacted]"}, "no [redacted]")


def test_tenants_see_their_own_runs_and_the_shared_ones(tmp_path: Path) -> None:
    """A run belongs to the tenant of the key that began it, and no other tenant changes it."""
    with a_closed_server(tmp_path / "data") as server:

        def ask(method: str, path: str, key: str, **content: Any) -> Any:
            return server.ask(method, f"/api/v1/{path}", key=server.keys[key], **content)

        body = {"experimentName": "qa"}
        runs = {
            key: ask("POST", "projects/shop/runs", key, json=body).json()["runId"]
            for key in ("editor", "editor of acme", "editor of other")
        }
        seen = {key: ask("GET", f"runs/{run}", "viewer of acme").status_code for key, run in runs.items()}
        assert seen == {"editor": 200, "editor of acme": 200, "editor of other": 404}
        listed = {each["id"] for each in ask("GET", "runs", "viewer of acme").json()}
        assert listed == {runs["editor"], runs["editor of acme"]}
        items = {"items": [an_item(1)]}
        statuses = {
            key: ask("POST", f"runs/{run}/items", "editor of acme", json=items).status_code for key, run in runs.items()
        }
        assert statuses == {"editor": 403, "editor of acme": 201, "editor of other": 404}
        assert ask("POST", f"runs/{runs['editor']}/items", "viewer", json=items).status_code == 403


@pytest.mark.timeout(600)
@pytest.mark.kill("collector/api/base", "collector/api/offline", "collector/experiments", "storage/offline")
def test_each_item_is_there_once_whenever_the_server_is_killed(tmp_path: Path, kills: int) -> None:
    """A client that repeats unanswered requests has every item stored once, though the server is killed repeatedly."""
    with a_live_server(tmp_path / "data") as live, a_client() as client:
        run = Offline(live.http, client).begin()
    acknowledged, size = 0, 40
    for number in range(kills):
        with a_live_server(tmp_path / "data") as live, a_client() as client:
            api = Offline(live.http, client)
            known = {each["itemKey"] for each in api.ask("GET", f"runs/{run}/keys")["content"]}
            assert {str(key) for key in range(acknowledged)} <= known
            for start in range(0, size * (number + 1), 10):
                api.report(run, *(an_item(key, SCORED) for key in range(start, start + 10)))
                acknowledged = max(acknowledged, start + 10)
            live.kill()
    with a_live_server(tmp_path / "data") as live, a_client() as client:
        run_document = Offline(live.http, client).ask("GET", f"runs/{run}")
        assert (run_document["totalItems"], run_document["caseCount"], run_document["passedItems"]) == (
            kills * size,
        ) * 3


def test_what_failed_becomes_a_case_that_the_next_run_is_measured_on(api: Offline) -> None:
    """An item of a run on the dataset is that item, corrected; one of another run is added, once."""
    api.dataset("loop")
    api.version({"id": "paris", "input": "France?", "expectedOutput": "Lyon"}, name="loop")
    run = api.begin(datasetName="loop", datasetVersion=1)
    api.report(run, {"datasetItemId": "paris", "actualOutputs": {"output": "Paris"}})
    other = api.begin()
    api.report(other, an_item("x", traceId="b" * 32))
    ids = [api.ask("GET", f"runs/{each}")["items"]["content"][0]["id"] for each in (run, other)]
    promotions = [{"itemResultId": ids[0], "overriddenExpectedOutput": {"output": "Paris"}}, {"itemResultId": ids[1]}]
    promotion = {"datasetName": "loop", "description": "misses", "items": promotions}
    made = api.ask("POST", "datasets/promote", 201, json=promotion)
    assert (made["version"], made["added"], made["changed"], made["description"]) == (2, 1, 1, "misses")
    paris, added = api.items("loop")
    assert (paris["id"], paris["expectedOutputs"]) == ("paris", {"output": "Paris"})
    assert (added["inputs"], added["source"]["runId"], added["source"]["traceId"]) == ({"q": "2+2?"}, other, "b" * 32)
    api.ask("POST", "datasets/promote", 200, json=promotion)
    api.ask("DELETE", f"runs/{other}", 204)
    assert len(api.items("loop")) == 2
    api.ask("POST", "datasets/promote", 404, json={"datasetName": "loop", "items": [{"itemResultId": ids[1]}]})
