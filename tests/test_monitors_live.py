"""Monitors from end to end: a process of the server, traces over HTTP, a real receiver, and kills at any moment."""

import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from standardwebhooks import Webhook as StandardWebhook

from tests.alerting import ENCRYPTION_KEY, SECRET, Script, a_receiver
from tests.live import ANY_PORTS, Live, a_live_server, until
from tests.serving import run as execute
from tests.storing import a_store
from tests.test_online import command
from tests.traffic import over_http
from tests.watching import rebuild, remembered
from tests.working import Book, in_force

pytestmark = pytest.mark.costly(
    "collector/api",
    "collector/children",
    "collector/cli",
    "collector/conventions",
    "collector/delivery",
    "collector/listeners",
    "collector/evaluation",
    "collector/live",
    "collector/otlp",
    "collector/reading",
    "collector/web",
    "evaluators",
    "rules",
    "storage",
)

MONITOR = {"baseline": 256, "off": "drift"}
"""Of a release whose first results fail where all passed before, drift may well be found before there are ten."""
RULE = f"""
name: short answers
evaluator: length
config: {{maximumOutputLength: 20}}
monitor: {json.dumps(MONITOR)}
"""


def answers(
    source: random.Random, count: int, rate: float, release: str, *, project: str = "shop", service: str = "shop"
) -> bytes:
    """Return spans whose answers are short at this rate, each of a trace and a session of its own, as a request."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    for key, value in (("service.name", service), ("service.version", release), ("dokimos.project", project)):
        resource.resource.attributes.add(key=key).value.string_value = value
    spans = resource.scope_spans.add().spans
    now = time.time_ns() // 1_000 * 1_000 + 999  # which a microsecond cuts
    for _ in range(count):
        span = spans.add(
            trace_id=source.randbytes(16),
            span_id=source.randbytes(8),
            name="chat",
            start_time_unix_nano=now,
            end_time_unix_nano=now + 1_000_000,
        )
        text = "on its way" if source.random() < rate else "I am sorry, but I do not know where your order is."
        span.attributes.add(key="output.value").value.string_value = text
        span.attributes.add(key="session.id").value.string_value = span.trace_id.hex()
    return request.SerializeToString()


@contextmanager
def a_watching_server(folder: Path, url: str) -> Iterator[Live]:
    """Start a server with the rule and the receiver in its configuration."""
    (folder / "rules").mkdir(exist_ok=True)
    (folder / "rules" / "short.yaml").write_text(RULE)
    webhook = {"project": "shop", "url": url, "secret": SECRET}
    settings = {
        "rules": str(folder / "rules"),
        "alert_webhooks": [webhook],
        "webhook_private_hosts": ["127.0.0.0/8"],
        "encryption_key": ENCRYPTION_KEY,
    }
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump(settings))
    with a_live_server(folder / "data", flags=(*ANY_PORTS, "--config", str(config))) as server:
        yield server


def watched(server: Live, results: int) -> dict[str, Any]:
    """Wait until the monitors have read `results` results; return the one stream."""

    def look() -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = server.client.get(f"{server.http}/api/v1/monitors").json()["content"]
        return entries

    (stream,) = until(look, lambda streams: bool(streams) and streams[0]["results"] == results, within_s=100)
    return stream


def payloads(script: Script) -> list[dict[str, Any]]:
    """Return the payloads that the receiver got, after verifying their signatures."""
    return [StandardWebhook(SECRET).verify(each.body, dict(each.headers)) for each in script.taken]


def changes(script: Script) -> list[dict[str, Any]]:
    """Return the events of opened or ended alerts: a drop that opens at 90 % and goes on to 70 % escalates."""
    return [each for each in payloads(script) if each["type"] != "alert.escalated"]


@pytest.mark.timeout(600)
def test_a_release_that_gets_worse_is_one_alert_and_one_webhook(tmp_path: Path, seed: int) -> None:
    """Nothing is sent while nothing changes; a bad release is sent once, signed; and so is the recovery."""
    source = random.Random(seed)
    with a_receiver() as (url, script), a_watching_server(tmp_path, url) as server, over_http(server) as send:

        def come(count: int, rate: float, release: str) -> None:
            assert send(answers(source, count, rate, release)).kind == "taken"

        come(400, 1.0, "1.4.0")
        assert watched(server, 400)["monitors"][0]["candidate"]["count"] == 400
        come(300, 1.0, "1.4.1")
        stream = watched(server, 700)
        assert (stream["openAlertId"], stream["measure"], stream["began"]) == (None, "passed", "first")
        assert script.taken == []
        come(200, 0.7, "1.5.0")
        stream = watched(server, 900)
        (body,) = until(lambda: changes(script), lambda seen: len(seen) == 1)
        assert (body["type"], body["projectName"], body["experimentName"]) == ("alert.opened", "shop", "short answers")
        assert (body["baselineRunId"], body["runId"]) == ("1.4.1", "1.5.0")
        assert body["data"]["alertId"] == stream["openAlertId"]
        assert body["candidatePassRate"] < body["baselinePassRate"] == 1
        sides = server.sql(body["data"]["details"]["sql"])
        assert sides == [
            [side, body["data"][side]["count"], pytest.approx(body["data"][side]["rate"])]
            for side in ("baseline", "candidate")
        ]
        shown = command(server, "monitors", "--project", "shop", "--rule", "short answers")
        assert "release, recovery" in shown
        assert stream["openAlertId"] in shown
        assert json.loads(command(server, "monitors", "--project", "other", "--json")) == []
        come(300, 1.0, "1.5.1")
        assert watched(server, 1_200)["openAlertId"] is None
        back = until(lambda: changes(script), lambda seen: len(seen) == 2)[1]
        assert (back["type"], back["data"]["recovery"]["how"]) == ("alert.recovered", "recovered")
        assert len(server.sql("SELECT * FROM alert")) == 1


@pytest.mark.timeout(600)
@pytest.mark.kill(
    "collector/delivery", "collector/live/monitors", "rules/statistics", "storage/alerting", "storage/judging"
)
def test_kills_lose_no_alert_and_double_none(tmp_path: Path, seed: int, kills: int) -> None:
    """Killed at random moments, the server reports each episode once, and its state follows from the results."""
    source = random.Random(seed)
    sent = 0
    with a_receiver() as (url, script):
        for number in range(kills):
            with a_watching_server(tmp_path, url) as server:
                with over_http(server) as send:
                    for _ in range(source.randrange(1, 4)):
                        count = source.randrange(60, 100)
                        bad = number % 4 == 2
                        body = answers(source, count, 0.3 if bad else 1.0, f"{number // 2}")
                        assert send(body).kind == "taken"
                        sent += count
                time.sleep(source.uniform(0, 3))
                server.kill()
        with a_watching_server(tmp_path, url) as server:
            stream = watched(server, sent)
            events = server.sql("SELECT event_id FROM alert_event")
            assert events
            until(lambda: {each.headers["webhook-id"] for each in script.taken}, lambda ids: len(ids) == len(events))
            assert server.sql("SELECT count(*), count(DISTINCT number) FROM evaluation") == [[sent, sent]]
            assert server.sql("SELECT count(*), count(DISTINCT episode) FROM alert WHERE state = 'open'") == [
                [int(stream["openAlertId"] is not None)] * 2
            ]
            assert server.stop() == 0
    ids: dict[tuple[str, str], set[str]] = {}
    for event, each in zip(payloads(script), script.taken, strict=True):
        ids.setdefault((event["type"], event["data"]["alertId"]), set()).add(each.headers["webhook-id"])
    assert {len(ids_of_one) for ids_of_one in ids.values()} == {1}
    assert len(set().union(*ids.values())) == len(ids)
    with a_store(tmp_path / "data") as store:
        before = remembered(store)
        book = Book(store)
        revision = before[0]["state"]["settings_of"]
        book.revisions[revision] = in_force(revision, "check", {"evaluator": "length", "monitor": MONITOR})
        assert rebuild(book) == before


@pytest.mark.timeout(300)
def test_an_edit_of_the_evaluator_says_that_comparison_begins_anew_and_can_judge_again(
    tmp_path: Path, seed: int
) -> None:
    """Saving, status and pages say so; after the baseline the drop that came with the edit is an alert."""
    source = random.Random(seed)
    with a_live_server(tmp_path / "data", flags=ANY_PORTS) as server, over_http(server) as send:
        api = f"{server.http}/api/v1"
        rules = f"{api}/projects/shop/trace-eval-rules"

        def rule(characters: int) -> dict[str, Any]:
            config = {"maximumOutputLength": characters}
            return {"name": "short", "evaluator": "length", "config": config, "monitor": MONITOR}

        def results(count: int) -> None:
            listed = lambda: server.client.get(f"{api}/monitors").json()["content"]  # noqa: E731
            until(listed, lambda streams: any(each["results"] == count for each in streams), within_s=100)

        made = server.client.post(rules, json=rule(20)).json()
        send(answers(source, 70, 0.8, "1"))
        results(70)
        saved = server.client.put(f"{rules}/{made['id']}", json=rule(21)).json()
        assert (
            made["comparison"],
            "required results of the previous release in project 'shop'" in saved["comparison"],
        ) == (None, True)
        send(answers(source, 60, 0.2, "2"))
        results(60)
        (noted,) = server.client.get(f"{api}/status").json()["rules"]["comparingAnew"]
        assert (noted["name"], noted["message"]) == ("short", saved["comparison"])
        assert "Evaluate them again" in server.client.get(f"{server.http}/rules/{made['id']}").text
        assert server.client.get(f"{api}/alerts").json()["content"] == []
        begun = execute("rules", "baseline", "short", "--follow", "--server", server.http)
        assert (begun.exit_code, "done, 70 looked at, 70 matched" in begun.output) == (0, True), begun.output
        results(130)
        send(answers(source, 5, 0.0, "2"))
        alerts = until(lambda: server.client.get(f"{api}/alerts").json()["content"], bool, within_s=100)
        assert [(each["baseline"]["release"], each["candidate"]["release"]) for each in alerts] == [("1", "2")]
        assert server.client.get(f"{rules}/{made['id']}").json()["comparison"] is None
        server.client.put(f"{rules}/{made['id']}", json=rule(22))
        assert "the comparison restarted" in server.client.get(f"{server.http}/alerts/{alerts[0]['alertId']}").text
        begun = execute("rules", "baseline", "short", "--follow", "--server", server.http)
        assert "done, 135 looked at, 135 matched" in begun.output
        results(135)
        assert [each["alertId"] for each in server.client.get(f"{api}/alerts").json()["content"]] == [
            alerts[0]["alertId"]
        ]
        until(lambda: server.client.get(f"{api}/status").json()["rules"]["comparingAnew"], lambda seen: not seen)
