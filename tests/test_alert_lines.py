"""One line for an alert: rule, project, service, release and change, the same on every face."""

import dataclasses
import json
import re
import time
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest

from collector.alert_lines import alert_line
from collector.delivery.event_words import words_of_digest
from collector.delivery.templates import EventData, render
from collector.delivery.words import words_of
from collector.live.monitors.streams import log_text
from storage.alerting.alerts import Alert, ComparedSide
from tests.alerting import a_finding
from tests.serving import a_server, run
from tests.test_web_quality import words

CHANGE = "92.0 % → 78.0 % passed (-14.0 points)"
LIMIT = ComparedSide(release=None, rate=0.05, low=0.05, high=0.05, count=0)
BACK: dict[str, Any] = {
    "how": "recovered",
    "release": "1.5.1",
    "candidate": {"rate": 0.941, "low": 0.809, "high": 0.984, "count": 34},
}
METRIC: dict[str, Any] = {"kind": "limit", "metric": "span_errors", "measure": "share", "baseline": LIMIT}


@pytest.mark.parametrize(
    "changes,line",
    [
        ({}, f"answers in shop, release 1.5.0: {CHANGE}"),
        ({"document": {"service": "cart"}}, f"answers in shop, service cart, release 1.5.0: {CHANGE}"),
        ({"document": {"service": "cart"}, "kind": "drift"}, f"answers in shop, service cart: {CHANGE}"),
        ({"project": None, "document": {"service": ""}}, f"answers in no project, release 1.5.0: {CHANGE}"),
        (
            METRIC | {"document": {"unit": "share", "scope": {"project": "shop", "model": "m"}}},
            "answers in shop, model m: span_errors is 78 %, the limit is 5 %",
        ),
        (
            METRIC | {"project": None, "document": {"unit": "share"}},
            "answers in all projects: span_errors is 78 %, the limit is 5 %",
        ),
        ({"rule": "a\n" + 300 * "b"}, f"a {197 * 'b'}… in shop, release 1.5.0: {CHANGE}"),
    ],
)
def test_a_line_has_what_tells_an_alert_from_others(changes: dict[str, Any], line: str) -> None:
    """Whatever the alert has of service, release and scope stands in its line, and nothing else does."""
    finding = a_finding(1, **changes)
    assert alert_line(Alert(finding=finding, state="open", opened_at_ns=0)) == line
    assert log_text(finding) == f"alert {finding.alert_id} ({finding.metric or finding.kind}): {line}"


@pytest.mark.parametrize(
    "recovery,changes,line",
    [
        (BACK, {}, f"recovered: 94.1 % of 34 in release 1.5.1; the alert: {CHANGE}"),
        (BACK | {"release": None}, {}, f"recovered: 94.1 % of 34; the alert: {CHANGE}"),
        (
            BACK,
            {"measure": "score"},
            "recovered: 0.941 of 34 in release 1.5.1; the alert: 0.920 → 0.780 on average (-0.140)",
        ),
        (BACK | {"how": "withdrawn"}, {}, f"the release has no more results; the alert: {CHANGE}"),
        ({"how": "resolved", "by": "ada"}, {}, f"it was resolved manually; the alert: {CHANGE}"),
        (None, {}, f"over; the alert: {CHANGE}"),
        (
            {"how": "recovered", "candidate": {"rate": 0.01, "count": 200}, "value": 0.01},
            METRIC | {"document": {"unit": "share"}},
            "recovered: 1 % of 200; the alert: span_errors is 78 %, the limit is 5 %",
        ),
    ],
)
def test_a_line_of_an_alert_that_is_over_begins_with_how_it_ended(
    recovery: dict[str, Any] | None, changes: dict[str, Any], line: str
) -> None:
    """It has the rate, count and release of the recovery, or why else the alert is over; messages have the same."""
    alert = Alert(finding=a_finding(1, **changes), state="recovered", opened_at_ns=0, recovery=recovery)
    assert alert_line(alert).endswith(f": {line}")
    message = words_of("alert.recovered", alert, "shop")
    assert message.summary == line
    assert "Now" not in dict(message.facts)
    assert line in words_of_digest_of(alert, "alert.recovered")


def test_a_recovered_alert_reads_as_recovered_on_every_face(tmp_path: Path) -> None:
    """API, lists, the command line and the page have the rate and the release with which the alert ended."""
    finding = a_finding(1)
    with (
        a_server(tmp_path / "data") as server,
        httpx.Client(base_url=f"http://{server.http}", trust_env=False) as http,
    ):
        assert server.store.alerts.open(finding, time.time_ns())
        assert server.store.alerts.recover(finding.alert_id, BACK, time.time_ns())
        back = "94.1 % of 34 in release 1.5.1"
        assert (
            f"recovered: {back}; the alert: {CHANGE}" in http.get(f"/api/v1/alerts/{finding.alert_id}").json()["line"]
        )
        assert f"recovered: {back}" in run("alerts", "list", "--server", server.http).stdout
        shown = run("alerts", "show", finding.alert_id, "--server", server.http).stdout
        assert "at alert    1.5.0: 78.0 % of 91" in shown
        assert "ended       recovered, 1.5.1: 94.1 % of 34 (80.9 % to 98.4 %)" in shown
        assert "\nnow" not in shown
        assert f"{back}; the rate recovered" in words(http.get(f"/alerts/{finding.alert_id}").text)


def test_alerts_of_two_services_differ_on_every_face(tmp_path: Path) -> None:
    """API, command line, pages, Home, messages and digests have the same line, with service and release."""
    findings = [a_finding(number, document={"service": service}) for number, service in enumerate(("cart", "pay"))]
    now_ns = time.time_ns()
    alerts = [Alert(finding=finding, state="open", opened_at_ns=now_ns) for finding in findings]
    lines = [alert_line(alert) for alert in alerts]
    with (
        a_server(tmp_path / "data") as server,
        httpx.Client(base_url=f"http://{server.http}", trust_env=False) as http,
    ):
        for finding in findings:
            assert server.store.alerts.open(finding, now_ns)
        listed = http.get("/api/v1/alerts").json()["content"]
        assert {(each["line"], each["serviceName"]) for each in listed} == set(zip(lines, ("cart", "pay"), strict=True))
        command = run("alerts", "list", "--server", server.http).stdout
        home, page = words(http.get("/").text), words(http.get("/alerts").text)
        for finding, line in zip(findings, lines, strict=True):
            assert line in command
            assert line in run("alerts", "show", finding.alert_id, "--server", server.http).stdout
            assert line in home
            subject = line.partition(":")[0]
            assert subject in page
            assert subject in words(unescape(http.get(f"/alerts/{finding.alert_id}").text))
    for alert, line in zip(alerts, lines, strict=True):
        message = words_of("alert.opened", alert, "shop")
        assert f"{message.title}: {message.summary}" == f"Quality dropped: {line}"
    assert [words_of_digest_of(each, "alert.opened").partition("; ")[0] for each in alerts] == lines


def words_of_digest_of(alert: Alert, event: str) -> str:
    """Return the line of a digest about one alert, which was queued as JSON."""
    kept = json.loads(json.dumps({"alert": dataclasses.asdict(alert), "events": [event]}))
    return words_of_digest({"alerts": [kept], "left_out": 0, "counts": {event: 1}}).examples[0]


def test_no_two_of_many_services_look_alike(tmp_path: Path) -> None:
    """Rows differ for 17 services of a project and for two tenants, and so do messages whose title is cut."""
    services = [f"service-{number}" for number in range(17)]
    findings = [a_finding(number, document={"service": service}) for number, service in enumerate(services)]
    findings.append(a_finding(17, tenant="acme", document={"service": services[0]}))
    with (
        a_server(tmp_path / "data") as server,
        httpx.Client(base_url=f"http://{server.http}", trust_env=False) as http,
    ):
        for finding in findings:
            assert server.store.alerts.open(finding, time.time_ns())
        rows = re.findall(r"<tr data-row.*?</a>(?: <small>tenant.*?</small>)?", http.get("/alerts").text, re.DOTALL)
        assert len(rows) == 18
        assert len({words(f"<main>{re.sub('(id|href)=.[^>]*', '', row)}") for row in rows}) == 18
    for service in services[:2]:
        finding = a_finding(1, rule=160 * "r", document={"service": service})
        alert = Alert(finding=finding, state="open", opened_at_ns=0)
        event = EventData(event_id="e", type="alert.opened", at_ns=0, alert=alert, project="shop", secret=None)
        blocks = json.loads(render("slack", event))["blocks"]
        assert f"service {service}, release 1.5.0" in json.dumps(blocks[:2])
