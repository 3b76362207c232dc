"""Alerts and webhooks over HTTP and from the command line of the real server; secrets go in, and do not come out."""

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest

from collector.app import Running, running
from collector.delivery.receivers import BadWebhook, RequestedWebhook
from collector.setting_groups import WebhookSettings
from collector.settings import BadSettings, Settings
from tests.alerting import ENCRYPTION_KEY, Script, a_finding, a_receiver, an_alerting, answer
from tests.live import a_client, until
from tests.serving import ANY_PORT, a_server, run

NOW_NS = 1_795_255_200_000_000_000
HUSH = "hush-0123456789"
ROOT = "/api/v1/projects/shop/alert-webhooks"


class Api:
    """The API of a running server."""

    def __init__(self, server: Running, client: httpx.Client) -> None:
        self.server = server
        self.url = f"http://{server.http}"
        self._client = client
        self.heard: list[str] = []

    def ask(self, method: str, path: str, status: int = 200, **content: Any) -> Any:
        """Send a request; return the document of a response with that status."""
        response = self._client.request(method, self.url + path, **content)
        self.heard.append(response.text)
        assert response.status_code == status, response.text
        return response.json() if response.content else None

    def open(self, number: int = 0, **changes: Any) -> str:
        """Open an alert; its id."""
        finding = a_finding(number, **changes)
        assert self.server.store.alerts.open(finding, NOW_NS + number * 10**6)
        return finding.alert_id


@pytest.fixture(name="receiver")
def a_running_receiver() -> Iterator[tuple[str, Script]]:
    """Yield a receiver that takes everything."""
    with a_receiver() as receiver:
        yield receiver


@pytest.fixture(name="api")
def a_running_api(tmp_path: Path) -> Iterator[Api]:
    """Yield a server that may send to this machine and has a key for secrets."""
    hosts = ("127.0.0.1",)
    with (
        a_server(tmp_path / "data", webhook_private_hosts=hosts, encryption_key=ENCRYPTION_KEY) as server,
        a_client() as client,
    ):
        yield Api(server, client)


def test_alerts_are_listed_in_pages_and_by_filters(api: Api) -> None:
    """The newest alert comes first, pages join without a gap, and filters select the matching alerts."""
    ways = [{"project": "shop", "kind": "release"}, {"project": "bank", "kind": "drift"}]
    ids = [api.open(number, **ways[number % 2]) for number in range(5)]
    listed = [api.ask("GET", f"/api/v1/alerts?size=2&page={page}") for page in range(3)]
    assert [each["alertId"] for page in listed for each in page["content"]] == ids[::-1]
    assert [page["last"] for page in listed] == [False, False, True]
    api.ask("POST", f"/api/v1/alerts/{ids[0]}/acknowledge")
    for query, expected in {
        "project=bank": [ids[3], ids[1]],
        "state=acknowledged": [ids[0]],
        "kind=drift": [ids[3], ids[1]],
        "rule=answers&state=open": [ids[4], ids[3], ids[2], ids[1]],
        "rule=6f1ed002ab5595859014ebf0951522d9&size=1": [ids[4]],
        "rule=other": [],
    }.items():
        assert [each["alertId"] for each in api.ask("GET", f"/api/v1/alerts?{query}")["content"]] == expected
    for query in ("size=0", "size=201", "page=-1", "state=lost", "colour=blue"):
        assert "error" in api.ask("GET", f"/api/v1/alerts?{query}", 400)


def test_an_alert_shows_what_a_person_needs(api: Api) -> None:
    """Both sides, evidence, examples and SQL come back as they were found."""
    document = api.ask("GET", f"/api/v1/alerts/{api.open()}")
    assert document["baseline"] == {"release": "1.4.1", "rate": 0.92, "low": 0.8914, "high": 0.9427, "count": 500}
    assert (document["evidence"], document["evidenceThreshold"], document["regressedCount"]) == (24.31, 20.0, 20)
    assert document["details"] == a_finding().document
    assert document["openedAt"] == "2026-11-21T10:00:00.000000000Z"
    assert api.ask("GET", "/api/v1/alerts/nowhere", 404)["error"] == "no alert nowhere here"


def test_an_alert_is_acknowledged_once(api: Api) -> None:
    """The first acknowledgement stays, another changes nothing, and an alert that is over cannot be acknowledged."""
    first, second = api.open(1), api.open(2)
    for by in ("Ada", "Grace"):
        document = api.ask("POST", f"/api/v1/alerts/{first}/acknowledge", json={"by": by})
        assert (document["state"], document["acknowledgedBy"]) == ("acknowledged", "Ada")
    api.server.store.alerts.recover(second, {}, NOW_NS)
    assert "is over" in api.ask("POST", f"/api/v1/alerts/{second}/acknowledge", 409)["error"]
    api.ask("POST", "/api/v1/alerts/nowhere/acknowledge", 404)
    api.ask("POST", f"/api/v1/alerts/{first}/acknowledge", 400, json={"by": ""})


def test_an_alert_outlives_a_restart(tmp_path: Path) -> None:
    """An open alert is unchanged after the server was stopped and started."""
    for _ in range(2):
        with a_server(tmp_path / "data") as server, a_client() as client:
            api = Api(server, client)
            server.store.alerts.open(a_finding(), NOW_NS)  # the same episode the second time
            assert len(api.ask("GET", "/api/v1/alerts")["content"]) == 1


def test_webhooks_are_made_changed_and_taken_away(api: Api, receiver: tuple[str, Script]) -> None:
    """The seeds' requests work as they are written there, with the defaults that they have."""
    url, _ = receiver
    made = api.ask("POST", ROOT, 201, json={"url": url, "secret": HUSH, "enabled": True})
    place = f"{ROOT}/{made['id']}"
    assert (made["hasSecret"], made["enabled"], made["template"], made["origin"]) == (True, True, "json", "API")
    alerts = ["alert.opened", "alert.escalated", "alert.acknowledged", "alert.recovered"]
    assert made["events"] == [*alerts, "RUN_REGRESSION"]
    for chosen in ({"rules": ["answers"]}, {"severities": ["critical"]}, {"template": "pagerduty"}):
        response = api.ask("POST", ROOT, 201, json={"url": url, "secret": HUSH} | chosen)
        assert response["events"] == alerts
        api.ask("DELETE", f"{ROOT}/{response['id']}", 204)
    assert api.ask("GET", ROOT) == [made]
    assert api.ask("GET", place) == made
    changed = api.ask("PUT", place, json={"url": url + "/2", "enabled": False, "events": ["alert.opened"]})
    assert (changed["hasSecret"], changed["enabled"], changed["url"]) == (True, False, url + "/2")
    removed = api.ask("PUT", place, json={"url": url, "secret": None})
    assert (removed["hasSecret"], removed["enabled"]) == (False, True)
    api.ask("DELETE", place, 204)
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/test"), ("GET", "/deliveries")):
        api.ask(method, place + path, 404)
    api.ask("PUT", place, 404, json={"url": url})
    assert api.ask("GET", ROOT) == []


def test_a_webhook_belongs_to_its_project(api: Api, receiver: tuple[str, Script]) -> None:
    """Another project does not see it, and one for all projects stands under the name of an asterisk."""
    made = api.ask("POST", ROOT, 201, json={"url": receiver[0]})
    every = api.ask("POST", "/api/v1/projects/*/alert-webhooks", 201, json={"url": receiver[0]})
    api.ask("GET", f"/api/v1/projects/bank/alert-webhooks/{made['id']}", 404)
    assert api.ask("GET", "/api/v1/projects/*/alert-webhooks") == [every]
    assert (every["projectName"], api.ask("GET", ROOT)) == ("*", [made])
    assert api.ask("GET", "/api/v1/alert-webhooks") == [made, every]


def test_a_project_has_a_name_and_an_id(api: Api, receiver: tuple[str, Script]) -> None:
    """A project's id in the path means the same as its name."""

    def insert(cursor: duckdb.DuckDBPyConnection) -> None:
        cursor.execute("INSERT INTO project VALUES ('', 'p-1', 'shop', now()::TIMESTAMP)")

    api.server.store._writer.store(insert, 1)
    made = api.ask("POST", "/api/v1/projects/p-1/alert-webhooks", 201, json={"url": receiver[0]})
    assert (made["projectName"], api.ask("GET", ROOT)) == ("shop", [made])


@pytest.mark.parametrize(
    "body, why",
    [
        ({}, "url"),
        ({"url": ""}, "url"),
        ({"url": "http://169.254.169.254/"}, "nothing is ever sent"),
        ({"url": "http://10.0.0.1/"}, "not listed"),
        ({"url": "https://x", "secret": "whsec_hush"}, "base64"),
        ({"url": "https://x", "secret": "hush\n"}, "printable"),
        ({"url": "https://x", "secret": ["hush"]}, "secret"),
        ({"url": "https://x", "events": []}, "events"),
        ({"url": "https://x", "events": ["webhook.test"]}, "events"),
        ({"url": "https://x", "template": "fax"}, "template"),
        ({"url": "https://x", "template": "pagerduty"}, "routing key"),
        ({"url": "https://x", "template": "pagerduty", "secret": "k", "digestMinutes": 60}, "digestMinutes"),
        ({"url": "https://x", "digestMinutes": 0}, "digestMinutes"),
        ({"url": "https://x", "digestMinutes": 10_081}, "digestMinutes"),
        ({"url": "https://x", "colour": "blue"}, "colour"),
    ],
)
def test_what_cannot_be_a_webhook_is_told(api: Api, body: dict[str, Any], why: str) -> None:
    """A body that cannot be used is answered 400 with the reason, and the reason holds no secret."""
    message = api.ask("POST", ROOT, 400, json=body)["error"]
    assert why in message
    assert "hush" not in message


def test_secrets_stay_inside(tmp_path: Path, caplog: pytest.LogCaptureFixture, receiver: tuple[str, Script]) -> None:
    """No reply, no SQL, no log line and no file holds a secret, a routing key, or the URL of a Slack hook."""
    url, script = receiver
    caplog.set_level(logging.DEBUG)
    script.act = lambda handler, _: answer(handler, 500)
    hosts = ("127.0.0.1",)
    data = tmp_path / "data"
    with a_server(data, webhook_private_hosts=hosts, encryption_key=ENCRYPTION_KEY) as server, a_client() as client:
        api = Api(server, client)
        bodies = [
            {"url": url, "secret": HUSH},
            {"url": f"{url}/{HUSH}", "template": "slack"},
            {"url": f"{url}/{HUSH}", "template": "teams", "secret": HUSH},
            {"url": url, "secret": HUSH, "template": "pagerduty"},
        ]
        made = [api.ask("POST", ROOT, 201, json=body) for body in bodies]
        assert [each["url"].endswith("/…") for each in made] == [False, True, True, False]
        for each in made:
            api.ask("PUT", f"{ROOT}/{each['id']}", json={"template": each["template"]})
        api.open()
        look = server.store.outbox.deliveries
        until(lambda: sum(look(each["id"])[0].attempts for each in made), lambda count: count == 4)
        for each in made:
            api.ask("GET", f"{ROOT}/{each['id']}/deliveries")
        for table in ("alert_webhook", "alert_delivery", "alert_event"):
            api.ask("POST", "/api/v1/sql", json={"sql": f"SELECT * FROM {table}"})
        assert {each.path for each in script.taken} == {"/hook", f"/hook/{HUSH}"}
        assert [json.loads(each.body)["routing_key"] for each in script.taken if b"routing_key" in each.body] == [HUSH]
        server.store.wait_committed(10)
    texts = [*api.heard, caplog.text]
    assert [text for text in texts if HUSH in text] == []
    stored = [file for file in data.rglob("*") if file.is_file() and HUSH.encode() in file.read_bytes()]
    assert stored == []


def test_without_a_key_no_secret_is_taken(tmp_path: Path, receiver: tuple[str, Script]) -> None:
    """A server whose key is damaged refuses secrets it could not encrypt, and accepts a webhook without one."""
    with a_server(tmp_path / "data"):
        pass
    (tmp_path / "data" / "encryption.key").write_text("damaged")
    with a_server(tmp_path / "data", webhook_private_hosts=("127.0.0.1",)) as server, a_client() as client:
        api = Api(server, client)
        for body in ({"url": receiver[0], "secret": HUSH}, {"url": receiver[0], "template": "slack"}):
            assert "TRACEJURY_ENCRYPTION_KEY" in api.ask("POST", ROOT, 400, json=body)["error"]
        api.ask("POST", ROOT, 201, json={"url": receiver[0]})


def test_a_kept_secret_cannot_be_sent_elsewhere(tmp_path: Path, receiver: tuple[str, Script]) -> None:
    """No secret leaks by making it a routing key, by moving a routing key, or by showing a hook's URL."""
    with an_alerting(tmp_path) as alerting:
        change = alerting.receivers.replace
        signed = alerting.webhook(receiver[0], secret=HUSH)
        paged = alerting.webhook(receiver[0], secret=HUSH, template="pagerduty")
        slack = alerting.webhook(receiver[0], template="slack")
        keep = {"secret": None, "keeps_secret": True}
        for webhook, requested in (
            (signed, RequestedWebhook(url=None, template="pagerduty", **keep)),  # type: ignore[arg-type] # as the test writes it
            (paged, RequestedWebhook(url="http://127.0.0.1:9/", template="pagerduty", **keep)),  # type: ignore[arg-type] # as the test writes it
            (slack, RequestedWebhook(url=None, secret=None)),
            (slack, RequestedWebhook(url=slack.url, secret=None)),
        ):
            with pytest.raises(BadWebhook, match="give it again"):
                change(webhook, requested)
        assert (
            change(paged, RequestedWebhook(url="http://127.0.0.1:9/", template="pagerduty", secret=HUSH)).url
            == "http://127.0.0.1:9/"
        )


def test_deliveries_are_shown_and_replayed(api: Api, receiver: tuple[str, Script]) -> None:
    """A failed delivery has its reason, and a replay has the same id, unless the webhook is off."""
    url, script = receiver
    script.act = lambda handler, _: answer(handler, 404)
    made = api.ask("POST", ROOT, 201, json={"url": url})
    place = f"{ROOT}/{made['id']}"
    alert_id = api.open()
    (failed,) = until(lambda: api.ask("GET", f"{place}/deliveries?state=failed")["content"], bool)
    assert (failed["lastError"], failed["lastStatus"], failed["alertId"]) == ("answered 404", 404, alert_id)
    assert api.ask("GET", f"{place}/deliveries/{failed['id']}") == failed
    script.act = lambda handler, _: answer(handler, 200)
    assert api.ask("POST", f"{place}/deliveries/{failed['id']}/replay", 202)["eventId"] == failed["eventId"]
    (done,) = until(lambda: api.ask("GET", f"{place}/deliveries?state=delivered")["content"], bool)
    assert (done["replays"], len(set(script.ids))) == (1, 1)
    api.ask("POST", f"{place}/deliveries/nowhere/replay", 404)
    api.ask("GET", f"{place}/deliveries/nowhere", 404)
    api.ask("PUT", place, json={"enabled": False})
    assert "switched off" in api.ask("POST", f"{place}/deliveries/{failed['id']}/replay", 409)["error"]


def test_webhooks_of_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, receiver: tuple[str, Script]
) -> None:
    """They need no key, keep their ids over a restart, are changed in the file alone, and go when they leave it."""
    url, script = receiver
    monkeypatch.setenv("SHOP_HOOK_SECRET", HUSH)
    monkeypatch.setenv("SHOP_HOOK_URL", url)
    one = WebhookSettings(project="shop", urlEnv="SHOP_HOOK_URL", secretEnv="SHOP_HOOK_SECRET")
    more = {"webhook_private_hosts": ("127.0.0.1",)}
    ids = []
    for configured in ((one,), (one.model_copy(update={"events": ("alert.opened",)}),), ()):
        with a_server(tmp_path / "data", alert_webhooks=configured, **more) as server, a_client() as client:
            api = Api(server, client)
            response = api.ask("GET", ROOT)
            ids += [each["id"] for each in response]
            assert [(each["origin"], each["hasSecret"]) for each in response] == [("FILE", True)] * len(configured)
            for each in response:
                assert "configuration" in api.ask("PUT", f"{ROOT}/{each['id']}", 409, json={})["error"]
                assert "configuration" in api.ask("DELETE", f"{ROOT}/{each['id']}", 409)["error"]
                api.ask("POST", f"{ROOT}/{each['id']}/test", 202)
                until(lambda: "x-dokimos-signature" in script.taken[-1].headers if script.taken else False, bool)
    assert len(ids) == 2
    assert len(set(ids)) == 1


@pytest.mark.parametrize(
    "more, why",
    [
        ({"alert_webhooks": ({"project": "shop", "url": "http://10.0.0.1/"},)}, "not listed"),
        ({"alert_webhooks": ({"project": "shop", "urlEnv": "NO_SUCH_VARIABLE"},)}, "NO_SUCH_VARIABLE is not set"),
        ({"alert_webhooks": ({"project": "shop", "url": "https://x/"},) * 2}, "twice"),
        ({"alert_webhooks": ({"project": "shop", "url": "https://x/", "template": "pagerduty"},)}, "routing key"),
        ({"webhook_private_hosts": ("10.0.0.0/99",)}, "10.0.0.0/99"),
    ],
)
def test_a_configuration_that_cannot_be_is_told_at_the_start(tmp_path: Path, more: dict[str, Any], why: str) -> None:
    """The server does not start with a receiver that it could not reach, and says which setting is wrong."""

    async def start() -> None:
        async with running(Settings(data=tmp_path / "data", grpc=ANY_PORT, otlp_http=ANY_PORT, http=ANY_PORT, **more)):
            raise AssertionError("it started")

    with pytest.raises(BadSettings, match=why):
        asyncio.run(start())


def test_the_commands_do_what_the_api_does(api: Api, receiver: tuple[str, Script]) -> None:
    """Alerts are listed, shown and acknowledged, and webhooks listed, tested and replayed, from the command line."""
    url, script = receiver
    made = api.ask("POST", ROOT, 201, json={"url": url, "secret": HUSH})
    alert_id = api.open()
    server = ("--server", api.url)
    assert alert_id in run("alerts", "list", *server).output
    assert json.loads(run("alerts", "list", "--json", "--state", "open", *server).output)[0]["alertId"] == alert_id
    assert "no alerts here" in run("alerts", "list", "--project", "bank", *server).output
    shown = run("alerts", "show", alert_id, *server).output
    for part in ("1.4.1: 92.0 % of 500 (89.1 % to 94.3 %)", "24.31, needed 20", "cc517eb1e9d1e660", "SELECT release"):
        assert part in shown
    assert json.loads(run("alerts", "show", alert_id, "--json", *server).output)["alertId"] == alert_id
    assert "by Ada" in run("alerts", "acknowledge", alert_id, "--by", "Ada", *server).output
    assert run("alerts", "show", "nowhere", *server).exit_code == 1
    listed = run("webhooks", "list", *server).output
    assert (made["id"] in listed, HUSH in listed) == (True, False)
    assert run("webhooks", "list", "--project", "bank", *server).output == "no webhooks here\n"
    assert run("webhooks", "test", made["id"], *server).output == "delivered: answered 204\n"
    script.act = lambda handler, _: answer(handler, 400)
    failed = run("webhooks", "test", made["id"], *server)
    assert (failed.exit_code, "answered 400" in failed.output) == (1, True)
    assert run("webhooks", "replay", made["id"], "--failed", *server).output == "1 queued\n"
    assert run("webhooks", "replay", made["id"], *server).exit_code == 2
    assert run("webhooks", "test", "nowhere", *server).exit_code == 1


def test_the_commands_say_that_no_server_runs(tmp_path: Path) -> None:
    """For a data directory without a server, the command says that no server holds it."""
    result = run("webhooks", "test", "a", "--data", tmp_path)
    assert (result.exit_code, "no server holds" in result.output) == (1, True)
