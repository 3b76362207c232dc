"""One line for an alert: rule, project, service, release and change, the same on every face."""

import dataclasses
import json
import time
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest

from collector.alert_lines import alert_line
from collector.delivery.event_words import words_of_digest
from collector.delivery.words import words_of
from storage.alerting.alerts import Alert, ComparedSide
from tests.alerting import a_finding
from tests.serving import a_server, run
from tests.test_web_quality import words

CHANGE = "92.0 % → 78.0 % passed (-14.0 points)"
LIMIT = ComparedSide(release=None, rate=0.05, low=0.05, high=0.05, count=0)
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
    assert alert_line(a_finding(1, **changes)) == line


def test_alerts_of_two_services_differ_on_every_face(tmp_path: Path) -> None:
    """API, command line, pages, Home, messages and digests have the same line, with service and release."""
    findings = [a_finding(number, document={"service": service}) for number, service in enumerate(("cart", "pay"))]
    lines = [alert_line(finding) for finding in findings]
    now_ns = time.time_ns()
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
    alerts = [Alert(finding=finding, state="open", opened_at_ns=now_ns) for finding in findings]
    for alert, line in zip(alerts, lines, strict=True):
        message = words_of("alert.opened", alert, "shop")
        assert f"{message.title}: {message.summary}" == f"Quality dropped: {line}"
    kept = [json.loads(json.dumps({"alert": dataclasses.asdict(each), "events": ["alert.opened"]})) for each in alerts]
    digest = words_of_digest({"alerts": kept, "left_out": 0, "counts": {"alert.opened": 2}})
    assert [each.partition("; ")[0] for each in digest.examples] == lines
