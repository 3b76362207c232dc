"""Webhooks about runs that are worse: which receivers, once, and also after an outage."""

import time
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest
from standardwebhooks import Webhook as StandardWebhook

from collector.experiments.kept import LruCache
from collector.experiments.watching import RunWatcher
from tests.alerting import Script, a_receiver
from tests.live import until
from tests.model_server import Status, a_model
from tests.offline import Offline, an_offline_server
from tests.test_run_diff import Scores, stored

pytestmark = pytest.mark.costly(
    "collector/api",
    "collector/delivery",
    "collector/evaluation",
    "collector/experiments",
    "collector/gating",
    "collector/live",
    "collector/web",
    "evaluators",
    "rules/statistics",
    "storage",
)

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OPTIONS: dict[str, Any] = {"webhook_private_hosts": ("127.0.0.0/8",), "encryption_key": "0" * 64}
ITEM = {"inputs": {"input": "2+2?"}, "actualOutputs": {"output": "5"}}
WRONG = {"name": "exact", "threshold": 0.5, "fingerprint": "f1", "score": 0.0}
GOOD: Scores = {f"{at}": [1.0] for at in range(20)}
BAD: Scores = {f"{at}": [0.0] for at in range(20)}


def looked_at(api: Offline, run: str) -> None:
    """Wait until it was looked at a run."""
    assert api.running is not None
    looks = api.running.store.run_looks
    until(lambda: looks.due(most=100, now_ns=time.time_ns()), lambda due: run not in due)


def webhook(api: Offline, url: str, *events: str) -> str:
    """Return a receiver of these events, or one that names none."""
    body: dict[str, Any] = {"url": url, "secret": SECRET} | ({"events": [*events]} if events else {})
    return str(api.ask("POST", "projects/shop/alert-webhooks", 201, json=body)["id"])


def payloads(script: Script) -> list[dict[str, Any]]:
    """Return the payloads that the receiver got, after verifying their signatures."""
    return [StandardWebhook(SECRET).verify(each.body, dict(each.headers)) for each in script.taken]


@pytest.mark.timeout(300)
def test_a_run_that_is_worse_is_told_once(tmp_path: Path) -> None:
    """The payload says what the gate says, signed, to receivers that name no events; other runs are not reported."""
    with (
        a_receiver() as (url, script),
        a_receiver() as (other_url, other),
        an_offline_server(tmp_path / "data", **OPTIONS) as api,
    ):
        webhook(api, url)
        webhook(api, other_url, "alert.opened")
        before = stored(api, "e", GOOD)
        same = stored(api, "e", GOOD)
        dead = stored(api, "e", {key: [None] for key in GOOD})
        after = stored(api, "e", BAD)
        until(lambda: len(script.taken), lambda count: count == 1)
        few = stored(api, "e", {"0": [0.0]})
        for run in (before, same, dead, after, few):
            looked_at(api, run)
        (body,) = payloads(script)
        experiment = api.ask("GET", f"runs/{after}")["experimentId"]
        verdict = api.ask("POST", f"experiments/{experiment}/gate", json={"candidateRunId": after})
        assert (verdict["verdict"], verdict["baselineRunId"]) == ("regressed", same)
        assert {name: body[name] for name in body if name not in {"data", "timestamp"}} == {
            "type": "RUN_REGRESSION",
            "projectName": "shop",
            "experimentId": experiment,
            "experimentName": "e",
            "runId": after,
            "baselineRunId": same,
            "baselinePassRate": 1.0,
            "candidatePassRate": 0.0,
            "passRateDelta": -1.0,
            "regressedCaseCount": 20,
        }
        assert body["data"]["verdict"] == verdict["verdict"]
        assert any(f"the run before, {dead}," in each for each in verdict["warnings"])
        diff = api.ask("GET", f"experiments/{experiment}/runs/{after}/diff")
        assert (diff["baselineRunId"], verdict["warnings"][-1] in diff["summary"]["warnings"]) == (same, True)
        shown = api.answer("GET", f"../../runs/{after}/diff").text
        assert "has too few scores of exact" in shown
        assert f'value="{same}" selected' in shown
        tile = api.answer("GET", f"../../experiments/{experiment}").text
        assert f"/runs/{few}/diff?baseline={after}" in tile
        assert any(f"the run before, {dead}, has too few scores of exact" in each for each in body["data"]["warnings"])
        assert body["data"]["regressedEvaluators"] == verdict["regressedEvaluators"]
        assert other.taken == []


@pytest.mark.timeout(300)
def test_what_ended_before_a_restart_is_told_and_what_was_told_is_not(tmp_path: Path) -> None:
    """A run that was not looked at before the server ended is reported after the next start, and no run twice."""
    with a_receiver() as (url, script):
        with an_offline_server(tmp_path / "data", **OPTIONS) as api:
            webhook(api, url, "RUN_REGRESSION")
            stored(api, "e", GOOD)
            after = stored(api, "e", BAD)
            until(lambda: len(script.taken), lambda count: count == 1)
            looked_at(api, after)
            stored(api, "e", GOOD)
            going_on = stored(api, "e", BAD, end="RUNNING")
        statement = f"UPDATE run SET looked_at = NULL, state = 'SUCCESS' WHERE run_id IN ('{after}', '{going_on}')"
        with duckdb.connect(tmp_path / "data" / "tracejury.duckdb") as file:
            file.execute(statement)  # as if the server had been killed before it looked
        with an_offline_server(tmp_path / "data", **OPTIONS) as api:
            looked_at(api, after)
            looked_at(api, going_on)
            until(lambda: len(script.taken), lambda count: count >= 2)
            assert [each["runId"] for each in payloads(script)] == [after, going_on]
            assert api.sql("SELECT count(*) FROM alert_delivery") == [[2]]


@pytest.mark.timeout(300)
def test_who_asks_later_is_not_told_of_earlier_runs(tmp_path: Path) -> None:
    """A run that ended while there was no receiver stays unreported, even if it is checked again."""
    with a_receiver() as (url, script), an_offline_server(tmp_path / "data", **OPTIONS) as api:
        stored(api, "e", GOOD)
        earlier = stored(api, "e", BAD)
        looked_at(api, earlier)
        webhook(api, url, "RUN_REGRESSION", "alert.opened")
        stored(api, "e", GOOD)
        later = stored(api, "e", BAD)
        until(lambda: len(script.taken), lambda count: count == 1)
        looked_at(api, later)
        assert [each["runId"] for each in payloads(script)] == [later]


def judged(api: Offline, run: str) -> None:
    """Have the server evaluate a run, and wait until it was looked at after that."""
    body = {"evaluator": "length", "config": {"maximumOutputLength": 100}}
    api.ask("POST", f"runs/{run}/evaluations", 201, json=body)
    until(lambda: api.ask("GET", f"runs/{run}")["status"], lambda status: status != "EVALUATING")
    looked_at(api, run)


@pytest.mark.timeout(300)
def test_a_run_that_is_judged_after_its_end_is_no_regression(tmp_path: Path) -> None:
    """A missing evaluator of the baseline is a note, also beside a reported loss, and no loss by itself."""
    with a_receiver() as (url, script), an_offline_server(tmp_path / "data", **OPTIONS) as api:
        webhook(api, url, "RUN_REGRESSION")
        judged(api, stored(api, "e", GOOD))
        same = stored(api, "e", GOOD)
        looked_at(api, same)  # before its evaluation is requested
        judged(api, same)
        stored(api, "e", BAD)
        until(lambda: len(script.taken), lambda count: count == 1)
        assert api.sql("SELECT count(*) FROM alert_event") == [[1]]
        (body,) = payloads(script)
        assert (body["baselineRunId"], body["candidatePassRate"]) == (same, 0.0)
        assert body["data"]["failures"] == []
        assert "evaluator Length of the baseline is missing" in body["data"]["warnings"]


@pytest.mark.timeout(300)
def test_a_run_waits_an_hour_for_its_evaluations(tmp_path: Path) -> None:
    """While one is open, its run and later ones are not compared; after an hour they are, with the stored scores."""
    connection = {"model": "m", "protocol": "CHAT_COMPLETIONS"}
    with a_receiver() as (url, _), a_model(Status(503, headers={"retry-after": "3000"})) as model:
        settings = OPTIONS | {"llm_connections": {"local": connection | {"baseUrl": model.base_url}}}
        with an_offline_server(tmp_path / "data", **settings) as api:
            webhook(api, url, "RUN_REGRESSION")
            stored(api, "e", GOOD)
            run = api.begin(experimentName="e")
            body = {"evaluatorName": "Q", "criteria": "Is it right?", "connectionId": "local"}
            api.ask("POST", f"runs/{run}/evaluations", 201, json=body)
            items = [{"itemKey": key, "evalResults": [WRONG], **ITEM} for key in GOOD]
            api.report(run, *items)
            api.end(run)
            later = stored(api, "e", GOOD)
            assert api.running is not None
            store, now_ns = api.running.store, time.time_ns()
            due = partial(store.run_looks.due, most=100)
            until(lambda: due(now_ns=now_ns), lambda events: events == [])
            assert due(now_ns=now_ns + 3_500 * 10**9) == []
            assert due(now_ns=now_ns + 3_700 * 10**9) == [run, later]
            clock = lambda: now_ns + 3_700 * 10**9  # noqa: E731 - of the watcher
            watcher = RunWatcher(store.runs, store.run_items, store.run_looks, LruCache(), clock=clock)
            assert watcher.look_now() == 2
            assert api.sql("SELECT document FROM alert_event")[0][0].count(run) == 1
