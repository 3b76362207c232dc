"""Signatures and templates: compatible with other implementations and receivers."""

import base64
import datetime as dt
import email.utils
import json
import random
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook as StandardWebhook

from collector.delivery.alert_document import Document
from collector.delivery.sending import MOST_ATTEMPTS, DeliveryResponse, judge, retry_after_s
from collector.delivery.signing import BadSecret, check_secret, signature_headers, standard_key
from collector.delivery.templates import EventData, render
from storage.alerting.alerts import Alert, ComparedSide
from storage.alerting.outbox import DIGEST
from storage.alerting.webhook_options import Template
from storage.records import EventType
from tests.alerting import a_finding

OPENED_NS = 1_795_255_200_000_000_000  # 2026-11-21T10:00:00Z
NOW = dt.datetime(2026, 11, 21, 10, tzinfo=dt.UTC)

TEXTS = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FFF), min_size=1, max_size=40).filter(
    lambda text: text.isprintable() and text == text.strip() and not text.startswith("whsec_")
)


def test_the_example_of_standard_webhooks() -> None:
    """The id, time, body and secret that the libraries of Standard Webhooks test with give their signature."""
    headers = signature_headers(
        b'{"test": 2432232314}',
        event_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        timestamp_s=1614265330,
        secrets=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@given(TEXTS | st.binary(min_size=24, max_size=64).map(lambda key: "whsec_" + base64.b64encode(key).decode()))
def test_any_secret_signs_as_the_library_does(secret: str) -> None:
    """Of a key in base64 the bytes count, of any other text its UTF-8, as the independent library has it."""
    check_secret(secret)
    library = StandardWebhook(secret if secret.startswith("whsec_") else secret.encode())
    headers = signature_headers(b"{}", event_id="e", timestamp_s=int(NOW.timestamp()), secrets=[secret])
    assert headers["webhook-signature"] == library.sign("e", NOW, "{}")


def test_padding_of_a_key_does_not_matter() -> None:
    """A key in base64 is the same key with and without its padding."""
    padded = "whsec_" + base64.b64encode(b"k" * 25).decode()
    assert standard_key(padded) == standard_key(padded.rstrip("=")) == b"k" * 25


@pytest.mark.parametrize(
    "secret",
    ["", " x", "x ", "a\nb", "x" * 513, "whsec_", "whsec_short", "whsec_%%%%", "whsec_" + "A" * 120],
)
def test_what_cannot_sign_is_refused_without_being_told(secret: str) -> None:
    """A secret that one of the two ways cannot use is refused, and the message does not hold it."""
    with pytest.raises(BadSecret) as bad:
        check_secret(secret)
    assert len(secret) < 2 or secret.strip() == "whsec_" or secret not in str(bad.value)


A_RUN: Document = {
    "tenant": "",
    "projectName": "shop",
    "experimentId": "6f1ed002ab5595859014ebf0951522d9",
    "experimentName": "qa",
    "runId": "01a20a44-6dae-78c9-a6c5-e644f6e7900c",
    "runName": "nightly <2>",
    "baselineRunId": "01a20a40-7174-7272-8fba-2d1f534d625c",
    "baselineRunName": None,
    "gitBranch": "main",
    "gitSha": None,
    "baselinePassRate": 0.92,
    "candidatePassRate": 0.78,
    "passRateDelta": -0.14,
    "verdict": "regressed",
    "significant": True,
    "regressedCount": 20,
    "improvedCount": 3,
    "regressedEvaluators": [
        {"evaluator": "exact", "baselineMean": 0.92, "candidateMean": 0.78, "delta": -0.14, "pValue": 0.001}
    ],
    "failures": [],
    "warnings": [],
}


def an_alert(event: EventType) -> Alert:
    """Build an alert in its state at the time of the event."""
    opened = Alert(finding=a_finding(), state="open", opened_at_ns=OPENED_NS)
    later_ns = OPENED_NS + 600 * 10**9
    return {
        "alert.acknowledged": replace(opened, state="acknowledged", acknowledged_by="Ada", acknowledged_at_ns=later_ns),
        "alert.recovered": replace(opened, state="recovered", recovery={"rate": 0.93}, recovered_at_ns=later_ns),
        "alert.escalated": replace(
            opened,
            finding=a_finding(
                candidate=ComparedSide(release="1.5.0", rate=0.2, low=0.11, high=0.33, count=60),
                document={"told": [{"at": "2026-11-21T10:00:00Z", "rate": 0.78, "count": 91}]},
            ),
            escalations=1,
            escalated_at_ns=later_ns,
        ),
    }.get(event, opened)


A_DIGEST: dict[str, Any] = {
    "from_ns": OPENED_NS,
    "until_ns": OPENED_NS + 3_600 * 10**9,
    "counts": {"alert.opened": 3, "alert.escalated": 1},
    "alerts": [
        {"alert": asdict(an_alert("alert.escalated")), "events": ["alert.opened", "alert.escalated"]},
        {"alert": asdict(replace(an_alert("alert.opened"), finding=a_finding(2))), "events": ["alert.opened"]},
    ],
    "left_out": 1,
}


@pytest.mark.parametrize("template", get_args(Template))
def test_bodies_are_as_they_were(golden: Callable[[str, str], None], template: Template) -> None:
    """Each event in each template is what the golden file holds."""
    digests = {}
    for event in get_args(EventType):
        alert = an_alert(event) if event.startswith("alert.") and event != DIGEST else None
        digest = A_DIGEST if event == DIGEST else None
        run = A_RUN if event == "RUN_REGRESSION" else None
        telling = EventData(
            event_id="e1",
            type=event,
            at_ns=OPENED_NS,
            project="shop",
            alert=alert,
            run=run,
            digest=digest,
            secret="routing-key",
        )
        digests[event] = json.loads(render(template, telling))
    golden(f"webhooks/{template}.json", json.dumps(digests, indent=2, ensure_ascii=False) + "\n")


@pytest.mark.parametrize("template", get_args(Template))
def test_texts_of_others_are_only_text(template: Template) -> None:
    """Names and reasons that look like links, mentions or markup, or are very long, arrive as harmless text."""
    hostile = "<https://evil.example|click> <!channel> [x](https://evil.example) *b* " + "x" * 5000
    finding = a_finding(
        rule=hostile,
        evaluator=hostile,
        project=hostile,
        candidate=ComparedSide(release=hostile, rate=0.5, low=0.4, high=0.6, count=9),
        document={"examples": [{"traceId": hostile, "reason": hostile}] * 50},
    )
    alert = Alert(finding=finding, state="open", opened_at_ns=OPENED_NS)
    body = render(
        template, EventData(event_id="e", type="alert.opened", at_ns=0, project=hostile, alert=alert, secret="k")
    )
    document = json.loads(body)
    if template == "slack":
        header, summary, facts, examples, _ = document["blocks"]
        marked = [summary["text"], *facts["fields"], examples["text"]]
        assert all(each["verbatim"] and not {"<", ">"} & set(each["text"]) for each in marked)
        assert (header["text"]["type"], "<" in document["text"]) == ("plain_text", False)
        assert len(header["text"]["text"]) <= 150
        assert max(len(each["text"]) for each in marked) <= 2000
    if template == "teams":
        assert {each["type"] for each in document["attachments"][0]["content"]["body"]} == {"RichTextBlock"}
        assert len(body) < 28_000
    if template == "pagerduty":
        assert len(document["payload"]["summary"]) <= 1024


def test_numbers_that_json_lacks_are_texts() -> None:
    """Evidence beyond every number is the text "Infinity", and the body stays JSON."""
    alert = Alert(finding=a_finding(evidence=float("inf")), state="open", opened_at_ns=OPENED_NS)
    telling = EventData(event_id="e", type="alert.opened", at_ns=0, project="shop", alert=alert, secret=None)
    assert json.loads(render("json", telling))["data"]["evidence"] == "Infinity"


@given(status=st.integers(200, 599), attempts=st.integers(1, MOST_ATTEMPTS))
def test_every_answer_ends_or_is_tried_again(status: int, attempts: int) -> None:
    """Success ends it, what the sender did wrong ends it, the last attempt ends it, and everything else comes again."""
    verdict = judge(DeliveryResponse(status=status), attempts=attempts, source=random.Random(0))
    final = 400 <= status < 500 and status not in {408, 429}
    expected = "delivered" if status < 300 else "failed" if final or attempts == MOST_ATTEMPTS else "pending"
    assert verdict.state == expected
    assert (verdict.delay_s > 0) is (expected == "pending")


def test_delays_grow_and_cover_a_day() -> None:
    """Each delay is at least as long as the previous one, give or take a fifth, and together they make a day."""
    for seed in range(100):
        source = random.Random(seed)
        delays = [
            judge(DeliveryResponse(), attempts=number, source=source).delay_s for number in range(1, MOST_ATTEMPTS)
        ]
        assert delays == sorted(delays)
        assert 18 * 3600 < sum(delays) < 29 * 3600


def test_no_receiver_may_ask_for_more_than_a_day() -> None:
    """A `Retry-After` of a year is a day, and one shorter than our own delay changes nothing."""
    assert judge(DeliveryResponse(status=429, retry_after_s=1e9), attempts=1, source=random.Random(0)).delay_s == 86_400
    assert 8 <= judge(DeliveryResponse(status=429, retry_after_s=1), attempts=1, source=random.Random(0)).delay_s <= 12


@given(st.text(max_size=40) | st.integers(0, 10**12).map(str))
def test_any_retry_after_is_read_or_passed_over(text: str) -> None:
    """Whatever a receiver writes there, the answer is a number of seconds from now on, or none."""
    seconds = retry_after_s(text, NOW)
    assert seconds is None or seconds >= 0


def test_retry_after_is_seconds_or_a_date() -> None:
    """Both forms of HTTP are read, and a date that is over is now."""
    later, earlier = NOW + dt.timedelta(minutes=5), NOW - dt.timedelta(minutes=5)
    texts = ["120", email.utils.format_datetime(later, usegmt=True), email.utils.format_datetime(earlier, usegmt=True)]
    assert [retry_after_s(text, NOW) for text in texts] == [120.0, 300.0, 0.0]
