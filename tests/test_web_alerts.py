"""The pages about alerts: the list, one alert with its evidence, and who looks after it."""

import re
import time
from collections.abc import Iterator
from html import unescape
from typing import TYPE_CHECKING

import pytest

from storage.alerting.alerts import AlertFinding
from tests.access import Closed, a_closed_server
from tests.alerting import ENCRYPTION_KEY, a_finding
from tests.browser import a_page
from tests.paging import Visit, token_on
from tests.quality_history import HOSTILE
from tests.test_web_quality import words

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.pages("alerts")

NOW_NS = time.time_ns()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    """Yield a server with keys, and an unreachable receiver."""
    settings = {
        "alert_webhooks": [{"project": "shop", "url": "https://receiver.invalid/hook"}],
        "encryption_key": ENCRYPTION_KEY,
    }
    with a_closed_server(tmp_path_factory.mktemp("alerts") / "data", **settings) as closed:
        yield closed


def opened(server: Closed, number: int, **changes: object) -> AlertFinding:
    """Return an alert of the server."""
    finding = a_finding(number, **changes)
    assert server.running.store.alerts.open(finding, NOW_NS - 3_600 * 10**9 + number)
    return finding


@pytest.fixture
def visit(server: Closed) -> Iterator[Visit]:
    """Sign in with an editor's key."""
    with Visit(f"http://{server.running.http}") as visit:
        assert visit.send("/sign-in", "/sign-in", key=server.keys["editor"]).status_code == 303
        yield visit


def test_an_alert_has_all_that_is_needed_to_check_it(server: Closed, visit: Visit) -> None:
    """Rates with intervals and counts, evidence, releases, SQL, traces and deliveries."""
    finding = opened(server, 1)
    page = visit.get(f"/alerts/{finding.alert_id}").text
    shown = words(page)
    for text in (
        "The pass rate of release 1.5.0 is 78.0 % after 92.0 % of 1.4.1 : \u221214.0 points",
        "89.1 % to 94.3 %, 500 results",
        "68.1 % to 86.0 %, 91 results, of which 20 failed",
        "Evidence against its threshold An alert opens at 20",
        "SELECT release, avg(passed::INT) FROM evaluations GROUP BY ALL",
        "It <@U1> & did",
        "alert.opened",
    ):
        assert text in shown, text
    assert 'href="/traces/f8d18f56aac69da52ff48aa312bf2c4d"' in page
    assert "/quality/compare?" in page
    assert "baseline=1.4.1&candidate=1.5.0" in unescape(page)
    assert "receiver.invalid" in shown


def test_acknowledging_names_who_did_and_is_done_once(server: Closed, visit: Visit) -> None:
    """The button is there while the alert is open, and the name of the key stands beside the alert from then on."""
    finding = opened(server, 2)
    path = f"/alerts/{finding.alert_id}"
    assert "Acknowledge" in visit.get(path).text
    answer = visit.send(path, f"{path}/acknowledge")
    assert (answer.status_code, answer.headers["location"]) == (303, path)
    alert = server.running.store.alerts.get(finding.alert_id)
    assert alert is not None
    assert (alert.state, alert.acknowledged_by) == ("acknowledged", "editor")
    page = visit.get(path).text
    assert "Assigned to editor , acknowledged" in words(page)
    assert 'acknowledge"' not in page
    assert "alert.acknowledged" in page


def test_an_alert_that_is_over_says_how_it_ended(server: Closed, visit: Visit) -> None:
    """The page says how the alert ended, and it cannot be acknowledged, by the button or without it."""
    finding = opened(server, 3)
    path = f"/alerts/{finding.alert_id}"
    token = token_on(visit.get(path).text)
    server.running.store.alerts.recover(finding.alert_id, {"how": "withdrawn"}, NOW_NS)
    page = visit.get(path).text
    assert "the release has no more results" in words(page)
    assert '<button class="primary">' not in page
    late = visit.client.post(f"{visit.origin}{path}/acknowledge", data={"csrf": token})
    assert late.status_code == 409
    assert "cannot be acknowledged" in late.text


def test_viewers_read_and_do_not_acknowledge(server: Closed) -> None:
    """A viewer sees no button, and is refused without one; so is a form without its token."""
    finding = opened(server, 4)
    path = f"/alerts/{finding.alert_id}"
    with Visit(f"http://{server.running.http}") as viewer:
        viewer.send("/sign-in", "/sign-in", key=server.keys["viewer"])
        page = viewer.get(path).text
        assert "Unassigned." in page
        assert 'acknowledge"' not in page
        assert (
            viewer.client.post(f"{viewer.origin}{path}/acknowledge", data={"csrf": token_on(page)}).status_code == 403
        )
    with Visit(f"http://{server.running.http}") as editor:
        editor.send("/sign-in", "/sign-in", key=server.keys["editor"])
        assert editor.client.post(f"{editor.origin}{path}/acknowledge", data={}).status_code == 403
    alert = server.running.store.alerts.get(finding.alert_id)
    assert alert is not None
    assert alert.state == "open"


def test_alerts_are_listed_by_state(server: Closed, visit: Visit) -> None:
    """Alerts are listed newest first, filtered by state on request, and an empty page says so."""
    mine = opened(server, 5, project="lists", kind="drift")
    page = words(visit.get("/alerts?project=lists").text)
    assert "answers in lists drift 92.0 % of 500 78.0 % of 91 open" in page
    assert "No alerts match" in visit.get("/alerts?project=lists&state=recovered").text
    assert mine.alert_id in visit.get("/alerts?state=open").text
    assert visit.get("/alerts?state=closed").status_code in {400, 422}
    assert visit.get("/alerts/00000000000000000000000000000000").status_code == 404


def test_an_alert_shows_the_criteria_under_which_it_was_raised(server: Closed, visit: Visit) -> None:
    """An edit of the rule, or its end, changes neither the criteria on the alert's page nor those in the list."""
    key, place = server.keys["editor"], "/api/v1/projects/criteria/trace-eval-rules"
    connection = {"name": "local", "baseUrl": "http://127.0.0.1:9/v1", "model": "m"}
    server.running.pipeline.judging.connections.create(connection)
    rule = {"name": "refunds", "evaluator": "llm_judge", "connectionId": "local"}
    rule["criteria"] = "It names the refund period."
    made = server.ask("POST", place, key=key, json=rule).json()
    finding = opened(server, 60, project="criteria", rule_id=made["id"], revision=made["revision"])
    one = f"{place}/{made['id']}"
    edited = server.ask("PUT", one, key=key, json=rule | {"criteria": "It names the refund period in days."})
    assert edited.json()["revision"] != made["revision"]
    pages = (f"/alerts/{finding.alert_id}", "/alerts?project=criteria")
    for state in ("edited", "recovered", "deleted"):
        if state == "recovered":
            server.running.store.alerts.recover(finding.alert_id, {"how": "recovered"}, NOW_NS)
        if state == "deleted":
            assert server.ask("DELETE", one, key=key).status_code == 204
        for page in pages:
            text = words(visit.get(page).text)
            assert "It names the refund period." in text, (state, page)
            assert "in days" not in text, (state, page)


def test_hostile_alerts_are_text(server: Closed, visit: Visit, browser: "Browser") -> None:
    """Names, reasons and documents of alerts may hold anything, also what no monitor writes."""
    document = {
        "examples": [{"traceId": HOSTILE, "spanId": HOSTILE, "score": "NaN", "reason": HOSTILE}, "no object", {}],
        "sql": HOSTILE * 50,
        "alpha": HOSTILE,
    }
    names = {"project": HOSTILE, "rule": HOSTILE, "evaluator": HOSTILE, "fingerprint": HOSTILE, "document": document}
    finding = opened(server, 6, **names)
    empty = opened(server, 7, document={}, measure="score", fingerprint=None, project=None)
    for path in (f"/alerts/{finding.alert_id}", f"/alerts/{empty.alert_id}", "/alerts"):
        answer = visit.get(path)
        assert answer.is_success
        assert "<script>alert" not in answer.text
        assert "\x1b" not in re.sub(r'value="[^"]*"', "", answer.text)
    with a_page(browser, f"http://{server.running.http}") as watch:
        watch.open("/sign-in")
        watch.page.fill("input[name=key]", server.keys["viewer"])
        watch.page.keyboard.press("Enter")
        watch.page.wait_for_url(f"http://{server.running.http}/")
        watch.open(f"/alerts/{finding.alert_id}")
        assert watch.scan() == []
        assert watch.sideways() <= 0
