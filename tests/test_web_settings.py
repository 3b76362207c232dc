"""Connections, webhooks, projects, jobs and the status as pages: the effects of forms, and their errors."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
import httpx
import pytest
from fastapi.routing import APIRoute

from collector.app import Running
from collector.delivery.receivers import RequestedWebhook
from collector.web.site import make_site
from storage.alerting.outbox import DeliveryAttempt, SwitchOffPolicy
from storage.alerting.webhooks import Webhook
from tests.access import a_closed_server
from tests.alerting import Script, a_receiver
from tests.browser import PHONE, a_page
from tests.connecting import ENCRYPTION_KEY
from tests.live import until
from tests.paging import Visit, token_on
from tests.serving import PROTOBUF, a_server, an_export

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

pytestmark = pytest.mark.pages("alerts", "operations")

HOSTILE = "<script>alert(1)</script>\u202e\x07 & \"'"
TRACE = "0af7651916cd43dd8448eb211c80319c"
RULE = "name: is it good\nevaluator: llm_judge\ncriteria: Is it good\ntarget: SPAN\n"
FILED = {"baseUrl": "https://models.example/v1", "model": "judge-1", "credentialRef": "JUDGE_KEY"}
KEY = "sk-never-shown-0123456789"
CONNECTION = {"name": "judge", "baseUrl": "http://127.0.0.1:9/v1", "model": "m", "protocol": "CHAT_COMPLETIONS"}

ROUTES = [route for route in make_site().routes if isinstance(route, APIRoute)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operated:
    """A server with a failed evaluation, a visitor who may do everything, and a receiver of webhooks."""

    running: Running
    visit: Visit
    receiver: str
    heard: Script

    def webhook(self, **requested: object) -> Webhook:
        """Create a receiver."""
        options = {"url": self.receiver, "secret": None} | requested
        return self.running.context.receivers.create(None, RequestedWebhook(**options))  # type: ignore[arg-type] # as the test says

    def sql(self, statement: str) -> list[tuple[object, ...]]:
        """Query the server; return the rows."""
        return [tuple(row) for row in self.running.store.queries.sql(statement, max_rows=100, timeout_s=10).rows]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    """Yield one for all; two connections are in its configuration, so that a rule that names none fails."""
    folder: Path = tmp_path_factory.mktemp("operated")
    (folder / "rules").mkdir()
    (folder / "rules" / "good.yaml").write_text(RULE)
    settings = {
        "rules": folder / "rules",
        "settle_after_root_seconds": 0,
        "encryption_key": ENCRYPTION_KEY,
        "webhook_private_hosts": ("127.0.0.1",),
        "llm_connections": {"one": FILED, "two": FILED},
        "project_budgets": {"*": {"callsPerDay": 7}},
        "project_retention_days": {"bank": 90},
    }
    with (
        a_receiver() as (url, script),
        a_server(folder / "data", **settings) as running,
        Visit(f"http://{running.http}") as visit,
    ):
        body = an_export(TRACE, HOSTILE.replace("\x07", ""), project="shop").SerializeToString()
        sent = httpx.post(f"http://{running.otlp_http}/v1/traces", content=body, headers={"content-type": PROTOBUF})
        assert sent.is_success
        operated = Operated(running=running, visit=visit, receiver=url, heard=script)
        until(lambda: operated.sql("SELECT 1 FROM jobs WHERE state = 'failed'"), bool)
        yield operated


def place_of(answer: httpx.Response) -> str:
    """Return the redirect of an accepted form."""
    assert answer.status_code == 303, answer.text
    place: str = answer.headers["location"]
    return place


def test_a_connection_is_made_changed_and_deleted_and_its_key_never_shown(server: Operated) -> None:
    """Forms do what the API does; a key that is left empty stays, and no page holds it."""
    visit, connections = server.visit, server.running.context.judging.connections
    fields = {"name": HOSTILE, "apiKey": KEY, "budget.callsPerDay": "10", "price.inputUsdPerMillion": "1.5"}
    fields |= {"price.outputUsdPerMillion": "2"}
    place = place_of(visit.send("/connections/new", "/connections/new", **(CONNECTION | fields)))
    stored = connections.get(place.rpartition("/")[2])
    assert (stored.credential, stored.text.budget and stored.text.budget.calls_per_day) == ("apiKey", 10)
    pages = [visit.get(path).text for path in ("/connections", place, f"{place}/edit", f"{place}/delete")]
    assert not any(KEY in page or "<script>alert" in page for page in pages)
    assert 'of <span class="number">10</span>' in pages[0]
    place_of(visit.send(f"{place}/edit", f"{place}/edit", **(CONNECTION | {"name": "renamed", "model": "m2"})))
    stored = connections.get(stored.connection_id)
    assert (stored.text.name, stored.text.model, stored.credential, stored.text.budget) == (
        "renamed",
        "m2",
        "apiKey",
        None,
    )
    place_of(visit.send(f"{place}/edit", f"{place}/edit", **(CONNECTION | {"removeKey": "on"})))
    assert connections.get(stored.connection_id).credential is None
    assert "Test failed" in visit.send(place, f"{place}/test").text
    assert place_of(visit.send(f"{place}/delete", f"{place}/delete")) == "/connections"
    assert visit.get(place).status_code == 404


def test_what_is_wrong_with_a_connection_stands_beside_its_field(server: Operated) -> None:
    """The form comes back with the typed values, except the key, and with a message for each wrong field."""
    fields = {"name": "", "baseUrl": "no url", "limits.attempts": "many", "apiKey": KEY, "credentialRef": "OTHER_KEY"}
    answer = server.visit.send("/connections/new", "/connections/new", **(CONNECTION | fields))
    assert (answer.status_code, KEY in answer.text) == (400, False)
    wrong = set(re.findall(r'id="f-([\w-]+)-wrong"', answer.text))
    assert wrong == {"name", "baseUrl", "limits-attempts"}
    assert 'value="no url"' in answer.text
    both = server.visit.send(
        "/connections/new",
        "/connections/new",
        **(CONNECTION | fields | {"name": "x"} | {"baseUrl": "https://x.example", "limits.attempts": ""}),
    )
    assert set(re.findall(r'id="f-([\w-]+)-wrong"', both.text)) == {"apiKey", "credentialRef"}
    taken = server.visit.send("/connections/new", "/connections/new", **(CONNECTION | {"name": "one"}))
    assert (taken.status_code, "already" in taken.text) == (409, True)


def test_a_connection_is_shared_with_tenants_and_no_longer(server: Operated) -> None:
    """The box shows whether a connection is shared, ticking it shares it, and a form without it ends the sharing."""
    visit, connections = server.visit, server.running.context.judging.connections
    sent = CONNECTION | {"name": "for all"}
    place = place_of(visit.send("/connections/new", "/connections/new", **sent, shared="on"))
    stored = connections.get(place.rpartition("/")[2])
    assert (stored.is_shared, "rules of every tenant may use it" in visit.get(place).text) == (True, True)
    assert re.search(r'name="shared"[^>]* checked', visit.get(f"{place}/edit").text)
    place_of(visit.send(f"{place}/edit", f"{place}/edit", **sent))
    assert not connections.get(stored.connection_id).is_shared
    assert re.search(r'name="shared"(?![^>]* checked)', visit.get(f"{place}/edit").text)
    place_of(visit.send(f"{place}/delete", f"{place}/delete"))


def test_connections_of_tenants_are_not_shared(tmp_path: "Path") -> None:
    """No tenant is shown the box of one, a form that ticks it says why not, and only ADMIN keys may send it."""
    document = {"name": "ours", "baseUrl": "https://models.example/v1", "model": "m", "protocol": "RESPONSES"}
    with a_closed_server(tmp_path / "data", encryption_key=ENCRYPTION_KEY) as closed:
        origin = f"http://{closed.running.http}"
        for key, status, whose in (("admin of acme", 303, "acme"), ("editor of acme", 403, ""), ("editor", 403, "")):
            with Visit(origin) as visit:
                visit.send("/sign-in", "/sign-in", key=closed.keys[key])
                fields = document | {"csrf": token_on(visit.get("/connections").text)}
                assert 'name="shared"' not in visit.get("/connections/new").text
                refused = visit.client.post(f"{origin}/connections/new", data=fields | {"shared": "on"})
                assert refused.status_code == (400 if whose else 403)
                assert ('id="f-shared-wrong"' in refused.text) is bool(whose)
                assert visit.client.post(f"{origin}/connections/new", data=fields).status_code == status
        (own,) = closed.running.context.judging.connections.all("acme")
        with Visit(origin) as visit:
            visit.send("/sign-in", "/sign-in", key=closed.keys["admin"])
            edit = f"/connections/{own.connection_id}/edit"
            assert ('name="shared"' in visit.get("/connections/new").text, 'name="shared"' in visit.get(edit).text) == (
                True,
                False,
            )
            refused = visit.send(edit, edit, **document, shared="on")
            assert (refused.status_code, "is for connections of no tenant" in refused.text) == (400, True)


def test_a_connection_of_the_configuration_is_only_looked_at(server: Operated) -> None:
    """Its page offers no change, and a form that is sent all the same is refused with the reason."""
    (filed, *_) = server.running.context.judging.connections.all()
    place = f"/connections/{filed.connection_id}"
    page = server.visit.get(place).text
    assert ("change it there" in page, f"{place}/edit" in page, f"{place}/delete" in page) == (True, False, False)
    for action in ("edit", "delete"):
        assert server.visit.send(f"{place}/{action}", f"{place}/{action}", **CONNECTION).status_code == 409


def test_a_webhook_is_made_tested_replayed_switched_and_deleted(server: Operated) -> None:
    """Forms do what the API does, and the page shows each delivery with what the receiver answered."""
    visit, fields = server.visit, {"template": "json", "events": "alert.opened", "enabled": "on"}
    fields |= {"project": HOSTILE, "url": server.receiver, "secret": "hush-0123456789"}
    place = place_of(visit.send("/webhooks/new", "/webhooks/new", **fields))
    place_of(visit.send(place, f"{place}/test"))
    page = until(lambda: visit.get(place).text, lambda text: "204" in text)
    assert ("<script>alert" in page, "hush" in page) == (False, False)
    replay = re.search(r'action="(/webhooks/\w+/deliveries/[\w-]+/replay)"', page)
    assert replay is not None
    place_of(visit.send(place, replay[1]))
    until(lambda: visit.get(place).text, lambda text: "after 1 replay" in text)
    edited = {"template": "json", "events": "alert.recovered", "url": server.receiver, "enabled": "on"}
    place_of(visit.send(f"{place}/edit", f"{place}/edit", **edited))
    place_of(visit.send(place, f"{place}/switch", enabled="false"))
    stored = next(each for each in server.running.context.receivers.all() if each.webhook_id in place)
    assert (stored.enabled, stored.has_secret, tuple(stored.events)) == (False, True, ("alert.recovered",))
    assert visit.send(place, replay[1]).status_code == 409
    assert visit.get("/webhooks?project=nobody").text.count("data-row") == 0
    assert place_of(visit.send(f"{place}/delete", f"{place}/delete")) == "/webhooks"
    assert visit.get(place).status_code == 404


def test_what_is_wrong_with_a_webhook_stands_beside_its_field(server: Operated) -> None:
    """A forbidden address, no event, and a secret that signs nothing are errors beside their fields."""
    fields = {"project": "*", "template": "json", "events": "alert.opened", "url": server.receiver}
    fields |= {"secret": "hush-0123456789"}
    for wrong, field in (
        ({"url": "http://169.254.169.254/"}, "f-url-wrong"),
        ({"url": ""}, "f-url-wrong"),
        ({"events": "webhook.test"}, 'class="error"'),
        ({"template": "fax"}, "f-template-wrong"),
        ({"secret": "whsec_hush"}, "f-secret-wrong"),
        ({"secret": ""}, "f-secret-wrong"),
        ({"template": "pagerduty", "secret": ""}, "f-secret-wrong"),
        ({"digestMinutes": "0"}, "f-digestMinutes-wrong"),
        ({"template": "pagerduty", "secret": "0123456789", "digestMinutes": "60"}, "f-digestMinutes-wrong"),
    ):
        answer = server.visit.send("/webhooks/new", "/webhooks/new", **(fields | wrong))
        assert (answer.status_code, field in answer.text, "hush" in answer.text) == (400, True, False), wrong


def test_a_form_says_of_which_alerts_and_how_often(server: Operated) -> None:
    """Rules, severities and digests are kept as typed, shown again, and left alone by the buttons."""
    visit, edited = server.visit, {"template": "unsigned", "events": "alert.opened", "url": server.receiver}
    edited |= {"enabled": "on", "rules": " answers \n\nslow traces", "severities": "critical", "digestMinutes": "60"}
    place = place_of(visit.send("/webhooks/new", "/webhooks/new", project="*", **edited))
    place_of(visit.send(place, f"{place}/switch", enabled="false"))
    place_of(visit.send(f"{place}/secret", f"{place}/secret", secret="chosen-0123456789"))
    stored = next(each for each in server.running.context.receivers.all() if each.webhook_id in place)
    assert stored.rules is not None
    assert stored.severities is not None
    assert ([*stored.rules], [*stored.severities], stored.digest_minutes) == (
        ["answers", "slow traces"],
        ["critical"],
        60,
    )
    assert "<dt>Minutes between digests</dt><dd><bdi>60</bdi>" in visit.get(place).text
    form = visit.get(f"{place}/edit").text
    assert "answers\nslow traces" in form
    place_of(visit.send(f"{place}/edit", f"{place}/edit", **(edited | {"rules": "", "digestMinutes": ""})))
    stored = next(each for each in server.running.context.receivers.all() if each.webhook_id in place)
    assert (stored.rules, stored.digest_minutes) == (None, None)


def test_a_new_secret_is_made_and_shown_once(server: Operated) -> None:
    """Left empty, the form makes one that both ways to sign can use; the page of the webhook then does not hold it."""
    webhook = server.webhook(secret="hush-0123456789")
    place = f"/webhooks/{webhook.webhook_id}"
    answer = server.visit.send(f"{place}/secret", f"{place}/secret", secret="")
    shown = re.search(r"whsec_[A-Za-z0-9+/=]{44}", answer.text)
    assert shown is not None
    assert answer.headers["cache-control"] == "no-store"
    assert server.running.context.receivers.receiver(webhook.webhook_id).secrets == (shown[0], "hush-0123456789")  # type: ignore[union-attr] # it is there
    assert shown[0] not in server.visit.get(place).text
    place_of(server.visit.send(f"{place}/secret", f"{place}/secret", secret="chosen-0123456789"))
    assert server.visit.send(f"{place}/secret", f"{place}/secret", secret="whsec_hush").status_code == 400


def test_a_webhook_that_we_switched_off_says_why_and_is_switched_on_again(server: Operated) -> None:
    """The reason is on its page and its state in the list, and one button begins anew."""
    webhook, outbox = server.webhook(enabled=False), server.running.context.store.outbox
    server.running.context.receivers.replace(webhook, RequestedWebhook(url=None, secret=None, enabled=True))
    gone = DeliveryAttempt(
        delivery_id="",
        webhook_id=webhook.webhook_id,
        type="alert.opened",
        replays=0,
        state="failed",
        at_ns=time.time_ns(),
        next_at_ns=0,
        status=410,
        error="410",
        disable=f"it is gone {HOSTILE}",
    )
    outbox.record([gone], SwitchOffPolicy())
    place = f"/webhooks/{webhook.webhook_id}"
    page = server.visit.get(place).text
    assert ("it is gone &lt;script&gt;" in page, "Enable again" in page) == (True, True)
    assert "disabled automatically" in server.visit.get("/webhooks").text
    place_of(server.visit.send(place, f"{place}/switch", enabled="true"))
    assert "it is gone" not in server.visit.get(place).text


def test_projects_show_what_is_stored_and_configured(server: Operated) -> None:
    """A project with spans and one that only the configuration names stand there with their days and budgets."""
    page = server.visit.get("/projects").text
    assert 'of <span class="number">7</span>' in page
    rows = re.findall(r"<tr data-row>(.*?)</tr>", page, re.DOTALL)
    assert [("bank" in row, "90 days" in row, "shop" in row, "30 days" in row) for row in rows] == [
        (True, True, False, False),
        (False, False, True, True),
    ]


def test_projects_are_bounded_and_searched(server: Operated, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page has the largest projects and the total number, and finds others by a part of the name."""
    monkeypatch.setattr("collector.web.operations.projects._MOST_ROWS", 1)
    page = server.visit.get("/projects").text
    assert (page.count("<tr data-row>"), "project=shop" in page, "largest of" in page) == (1, True, True)
    page = server.visit.get("/projects?q=ANK").text
    assert (page.count("<tr data-row>"), "project=bank" in page, "largest of" in page) == (1, True, False)
    assert "No project name contains this text" in server.visit.get("/projects?q=none-such").text


def test_a_trace_that_is_kept_is_let_go(server: Operated) -> None:
    """A trace kept by hand has a button to release it, and any other reason to keep it stays."""
    retention = server.running.context.store.retention
    retention.pin(TRACE, now_us=time.time_ns() // 1000)
    retention.pin(TRACE, now_us=time.time_ns() // 1000, why="an alert")
    page = server.visit.get("/projects").text
    assert (page.count(TRACE) > 1, page.count(">Unpin<")) == (True, 1)
    place_of(server.visit.send("/projects", "/projects/unpin", trace=TRACE, tenant=""))
    assert retention.pins(TRACE) == ["an alert"]
    retention.unpin(TRACE, why="an alert")


def test_a_sweep_says_what_it_would_do_and_does_it(server: Operated) -> None:
    """The page before counts and changes nothing, and the form sweeps."""
    assert "0 traces" in server.visit.get("/projects/sweep").text
    assert "0 traces with 0 spans deleted" in server.visit.send("/projects/sweep", "/projects/sweep").text


def test_a_copy_of_all_is_downloaded(server: Operated, tmp_path: "Path") -> None:
    """What the form sends is a DuckDB file with the spans in it."""
    answer = server.visit.send("/projects", "/projects/backup")
    assert answer.headers["content-disposition"] == 'attachment; filename="tracejury.duckdb"'
    (tmp_path / "copy.duckdb").write_bytes(answer.content)
    with duckdb.connect(str(tmp_path / "copy.duckdb"), read_only=True) as copy:
        assert copy.execute("SELECT count(*) FROM span").fetchall() == [(1,)]


def test_failed_jobs_say_why_and_are_evaluated_again(server: Operated) -> None:
    """One job is retried by its button, all with its failure after a question; missing or done jobs are refused."""
    visit = server.visit
    page = visit.get("/jobs").text
    ((job_id,),) = server.sql("SELECT job_id FROM jobs WHERE state = 'failed'")
    assert page.count("no connection is named") == 2  # in the summary, and as the reason of the job
    place = place_of(visit.send("/jobs", f"/jobs/{job_id}/retry", next="/jobs?state=failed"))
    assert place == "/jobs?state=failed"
    newest = "SELECT coalesce(max(job_id), 0) FROM jobs WHERE state = 'failed'"
    until(lambda: server.sql(newest), lambda rows: rows > [(job_id,)])
    assert visit.send("/jobs", f"/jobs/{job_id}/retry").status_code == 409
    assert visit.send("/jobs", "/jobs/999999/retry").status_code == 404
    assert place_of(visit.send("/jobs", f"/jobs/{server.sql(newest)[0][0]}/retry", next="//evil.example")) == "/"
    until(lambda: server.sql("SELECT count(*) FROM jobs WHERE state = 'failed'"), lambda rows: rows == [(1,)])
    ask = re.search(r'href="(/jobs/retry\?rule=[^"]+)"', visit.get("/jobs").text)
    assert ask is not None
    question = visit.get(ask[1].replace("&amp;", "&")).text
    assert "1 failed evaluation of the rule" in question
    fields = dict(re.findall(r'name="(rule|kind)" value="([^"]+)"', question))
    before = server.sql("SELECT max(job_id) FROM jobs")
    place_of(visit.send(ask[1].replace("&amp;", "&"), "/jobs/retry", **fields))
    until(lambda: server.sql(newest), lambda rows: rows > before)
    assert visit.get("/jobs?state=lost").status_code == 400
    assert visit.get("/jobs?state=scored&rule=nothing&page=3").is_success


def test_the_status_counts_what_came_and_what_failed(server: Operated) -> None:
    """Arrivals, lags, jobs by state, the disk and versions are on one page that renews itself."""
    page = server.visit.get("/status").text
    assert 'data-live="/status"' in page
    assert re.search(r'Spans stored</dt><dd><span class="number">1<', page)
    assert re.search(r'No verdict</dt><dd><a href="/jobs\?state=failed" class="bad"><span class="number">[1-9]', page)
    assert (page.count("up to date"), duckdb.__version__ in page) == (2, True)
    arrivals = server.running.store.status.arrivals(time.time_ns(), stretches=90, step_s=20)
    assert sum(arrivals) == 1


def test_no_form_works_without_its_token(server: Operated) -> None:
    """Each address that changes something refuses what another page could have sent."""
    changing = [route for route in ROUTES if "POST" in (route.methods or ())]
    assert len(changing) > 15
    paths = [re.sub(r"\{[^}]+\}", "1", route.path) for route in changing]
    with Visit(server.visit.origin) as other:
        assert {path for path in paths if other.client.post(other.origin + path).status_code != 403} == set()


def test_pages_with_much_on_them_stay_sound(server: Operated, browser: "Browser") -> None:
    """With hostile names in long lists, nothing is wider than a phone, and the pages are accessible."""
    webhook = server.webhook(events=("alert.opened",))
    server.running.context.receivers.test(webhook)
    name = HOSTILE + "x" * 150
    made = server.running.context.judging.connections.create(CONNECTION | {"name": name, "model": "y" * 200})
    with a_page(browser, server.visit.origin, viewport=PHONE, color_scheme="dark") as watch:
        for path in ("/connections", f"/connections/{made.connection_id}", f"/webhooks/{webhook.webhook_id}", "/jobs"):
            watch.open(path)
            assert (watch.scan(), watch.sideways() <= 0) == ([], True), path
    server.running.context.judging.connections.delete(made.connection_id)


def test_a_connection_is_deleted_by_keyboard_alone(server: Operated, browser: "Browser") -> None:
    """The question before is a page of its own, which Tab and Enter answer."""
    made = server.running.context.judging.connections.create(CONNECTION | {"name": "by keyboard"})
    with a_page(browser, server.visit.origin, java_script_enabled=False) as watch:
        watch.open(f"/connections/{made.connection_id}")
        watch.page.get_by_role("link", name="Delete").focus()
        watch.page.keyboard.press("Enter")
        watch.page.get_by_role("button", name="Delete the connection").focus()
        watch.page.keyboard.press("Enter")
        watch.page.wait_for_url("**/connections")
    assert made.connection_id not in {each.connection_id for each in server.running.context.judging.connections.all()}
