"""Digests: receivers that get many events at once, at predictable times."""

import json
from pathlib import Path

import pytest

from collector.delivery.receivers import RequestedWebhook
from storage.alerting.alerts import ComparedSide, Escalation
from tests.alerting import Alerting, a_finding, a_receiver, an_alerting, answer
from tests.storing import rows

pytestmark = pytest.mark.costly("collector/delivery", "storage/alerting")

HOUR_S = 3_600.0


def to_the_hour(alerting: Alerting) -> None:
    """Let time pass until a minute after the next full hour."""
    alerting.forward(HOUR_S - alerting.clock() % HOUR_S + 60)


def escalate(alerting: Alerting, number: int, rate: float) -> None:
    """Let an alert be about something worse."""
    side = ComparedSide(release="1.5.0", rate=rate, low=rate, high=rate, count=40)
    escalation = Escalation(
        tenant="", alert_id=a_finding(number).alert_id, finding=a_finding(number, candidate=side, document={})
    )
    assert alerting.store.alerts.escalate(escalation, int(alerting.clock() * 1e9))


def test_an_hour_of_events_is_one_message(tmp_path: Path) -> None:
    """It comes at the full hour and not before, has each alert once as it is by then, and counts what happened."""
    with a_receiver() as (url, script), an_alerting(tmp_path, behind_s=20 * HOUR_S) as alerting:
        to_the_hour(alerting)
        webhook = alerting.webhook(url, digest_minutes=60)
        ids = [alerting.open(number) for number in range(3)]
        escalate(alerting, 1, 0.2)
        alerting.store.alerts.recover(ids[2], {"how": "recovered"}, int(alerting.clock() * 1e9))
        alerting.settled(webhook, *["gathered"] * 5)
        assert not script.taken
        to_the_hour(alerting)
        alerting.settled(webhook, "delivered", *["digested"] * 5)
        (taken,) = script.taken
        body = json.loads(taken.body)
        assert (body["type"], body["experimentId"], body["passRateDelta"]) == ("alert.digest", None, None)
        digest = body["data"]
        assert digest["counts"] == {"alert.opened": 3, "alert.escalated": 1, "alert.recovered": 1}
        by_id = {each["alertId"]: each for each in digest["alerts"]}
        assert (set(by_id), digest["alertsLeftOut"]) == ({*ids}, 0)
        assert by_id[ids[1]]["candidate"]["rate"] == 0.2
        assert by_id[ids[1]]["events"] == ["alert.opened", "alert.escalated"]
        assert by_id[ids[2]]["state"] == "recovered"
        assert digest["until"].endswith(":00:00.000000000Z")
        to_the_hour(alerting)
        alerting.deliverer.wake()
        alerting.settled(webhook, "delivered", *["digested"] * 5)
        assert len(script.taken) == 1, "where nothing happened there is no digest"


def test_each_event_is_in_one_digest_after_a_restart_too(tmp_path: Path) -> None:
    """Events gathered before the end of the process come in the digest of their hour, once."""
    with a_receiver() as (url, script):
        with an_alerting(tmp_path, behind_s=20 * HOUR_S) as alerting:
            webhook = alerting.webhook(url, digest_minutes=60)
            alerting.open(1)
        with an_alerting(tmp_path, behind_s=18 * HOUR_S) as alerting:
            alerting.settled(webhook, "delivered", "digested")
            alerting.open(2)
            to_the_hour(alerting)
            alerting.settled(webhook, "delivered", "delivered", "digested", "digested")
        digests = [json.loads(taken.body)["data"] for taken in script.taken]
        assert [len(each["alerts"]) for each in digests] == [1, 1]
        assert digests[0]["alerts"][0]["alertId"] != digests[1]["alerts"][0]["alertId"]


def test_a_clock_that_is_set_back_holds_up_no_digest(tmp_path: Path) -> None:
    """Events gathered before the clock was set back by a day are delivered at once."""
    with a_receiver() as (url, script), an_alerting(tmp_path) as alerting:
        webhook = alerting.webhook(url, digest_minutes=1_440)
        alerting.open(1)
        alerting.settled(webhook, "gathered")
        alerting.forward(-24 * HOUR_S)
        alerting.settled(webhook, "delivered", "digested")
        assert len(script.taken) == 1


def test_an_event_newer_than_the_clock_that_was_read_waits_for_its_digest(tmp_path: Path) -> None:
    """One that is stored between reading the clock and asking for due digests is not taken for a clock set back."""
    with a_receiver() as (url, script), an_alerting(tmp_path, behind_s=20 * HOUR_S) as alerting:
        webhook = alerting.webhook(url, digest_minutes=1_440)
        before_ns = int(alerting.clock() * 1e9)
        alerting.open(1)
        assert not alerting.store.outbox.gather(before_ns)
        assert alerting.states(webhook) == ["gathered"]
        assert not script.taken


def test_others_are_told_at_once_and_a_digest_is_tried_again(tmp_path: Path) -> None:
    """A receiver without digests does not wait for them; a digest that fails has the id that it had."""
    with a_receiver() as (url, script), an_alerting(tmp_path, behind_s=20 * HOUR_S) as alerting:
        quick = alerting.webhook(f"{url}/quick")
        slow = alerting.webhook(url, digest_minutes=1_440)
        alerting.open(1)
        alerting.settled(quick, "delivered")
        alerting.settled(slow, "gathered")
        script.act = lambda handler, number: answer(handler, 503 if number == 2 else 204)
        alerting.forward(24 * HOUR_S)
        alerting.attempted(slow, 1)
        alerting.forward(60)
        alerting.settled(slow, "delivered", "digested")
        first, *digests = script.ids
        assert len(digests) == 2
        assert {*digests} == {digests[0]} != {first}


def test_what_is_gathered_is_called_off_with_the_receiver(tmp_path: Path) -> None:
    """A receiver that is switched off or deleted gets no digest, and nothing that waits for one is queued alone."""
    with a_receiver() as (url, script), an_alerting(tmp_path, behind_s=20 * HOUR_S) as alerting:
        webhook = alerting.webhook(url, digest_minutes=60)
        alerting.open(1)
        (waiting,) = alerting.store.outbox.deliveries(webhook.webhook_id)
        assert waiting.next_attempt_at_ns is not None
        assert not alerting.receivers.replay(webhook, waiting.delivery_id)
        alerting.receivers.replace(webhook, RequestedWebhook(url=None, secret=None, enabled=False, digest_minutes=60))
        to_the_hour(alerting)
        alerting.settled(webhook, "cancelled")
        assert not script.taken


def test_a_digest_of_very_many_alerts_counts_what_it_leaves_out(tmp_path: Path) -> None:
    """The digest lists the latest hundred alerts."""
    with a_receiver() as (url, script), an_alerting(tmp_path, behind_s=20 * HOUR_S) as alerting:
        webhook = alerting.webhook(url, digest_minutes=60, template="slack")
        every = alerting.webhook(url, digest_minutes=60)
        last = [alerting.open(number) for number in range(103)][-1]
        to_the_hour(alerting)
        alerting.settled(webhook, "delivered", *["digested"] * 103)
        alerting.settled(every, "delivered", *["digested"] * 103)
        assert rows(alerting.store, "SELECT count(*) FROM alert_event WHERE type = 'alert.digest'") == [(2,)]
        slack, plain = sorted((json.loads(taken.body) for taken in script.taken), key=lambda body: "data" in body)
        assert slack["text"] == "Digest: 103 alerts: 103 opened"
        assert "and 93 more" in json.dumps(slack)
        assert (len(plain["data"]["alerts"]), plain["data"]["alertsLeftOut"]) == (100, 3)
        assert last in {each["alertId"] for each in plain["data"]["alerts"]}


def test_tests_and_runs_are_told_at_once(tmp_path: Path) -> None:
    """A digest is of alerts: a test of the receiver does not wait for the hour."""
    with a_receiver() as (url, script), an_alerting(tmp_path, behind_s=20 * HOUR_S) as alerting:
        webhook = alerting.webhook(url, digest_minutes=60)
        assert alerting.receivers.test(webhook)
        alerting.settled(webhook, "delivered")
        assert json.loads(script.taken[0].body)["type"] == "webhook.test"
