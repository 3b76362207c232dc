"""Alerts and their outbox in the store: one transaction, one id for each episode, and the state after a failure."""

import time
from pathlib import Path

import duckdb
import pytest

from storage.alerting.alerts import AlertFilter, ComparedSide, Escalation, alert_of, open_alert, recover_alert
from storage.alerting.outbox import DeliveryAttempt, DueDelivery, SwitchOffPolicy
from storage.alerting.webhooks import WebhookText
from storage.store import Store
from tests.alerting import a_finding
from tests.storing import a_store, rows

AT_NS = 1_795_255_200_000_000_000


def a_webhook(store: Store, name: str = "w1", tenant: str = "") -> None:
    """Create a receiver of everything of the project shop."""
    text = WebhookText(
        url="https://hooks.example",
        template="json",
        events=("alert.opened", "alert.escalated", "alert.acknowledged", "alert.recovered"),
        enabled=True,
        sealed=None,
        has_secret=False,
        previous_until_ns=None,
    )
    store.webhooks.create(name, "shop", text, AT_NS, tenant=tenant)


def an_attempt(due: DueDelivery, *, at_ns: int = AT_NS, **changes: object) -> DeliveryAttempt:
    """Build an attempt, by default a success."""
    outcome: dict[str, object] = {"state": "delivered", "status": 200, "error": None, "next_at_ns": at_ns} | changes
    return DeliveryAttempt(
        delivery_id=due.delivery_id,
        webhook_id=due.webhook_id,
        type=due.type,
        replays=due.replays,
        at_ns=at_ns,
        **outcome,  # type: ignore[arg-type] # of the test's making
    )


def test_an_alert_without_its_deliveries_is_never_stored(tmp_path: Path) -> None:
    """When whatever else is in the transaction fails, there is neither an alert, nor an event, nor a delivery."""
    with a_store(tmp_path) as store:
        a_webhook(store)

        def fail(cursor: duckdb.DuckDBPyConnection) -> None:
            assert open_alert(cursor, a_finding(), AT_NS)
            raise LookupError("the caller's own part failed")

        with pytest.raises(LookupError):
            store._writer.store(fail, 1)
        for table in ("alert", "alert_event", "alert_delivery"):
            assert rows(store, f"SELECT count(*) FROM {table}") == [(0,)]


def test_whoever_watches_results_can_open_and_recover_in_their_own_transaction(tmp_path: Path) -> None:
    """Several alerts and their end are stored in one transaction, and delivered in the order of their creation."""
    with a_store(tmp_path) as store:
        a_webhook(store)

        def watch(cursor: duckdb.DuckDBPyConnection) -> None:
            assert open_alert(cursor, a_finding(1), AT_NS)
            assert open_alert(cursor, a_finding(2), AT_NS)
            assert recover_alert(cursor, "", a_finding(1).alert_id, {"rate": 0.9}, AT_NS + 10**9)

        store._writer.store(watch, 1)
        due = store.outbox.due(AT_NS + 10**9, each=10, limit=10)
        assert sorted(each.type for each in due) == ["alert.opened", "alert.opened", "alert.recovered"]
        assert [alert.state for alert in store.alerts.newest(AlertFilter(state="recovered"))] == ["recovered"]


def test_an_event_holds_the_alert_as_it_was_then(tmp_path: Path) -> None:
    """A late delivery contains the alert's state at the time of the event, not the current one."""
    with a_store(tmp_path) as store:
        a_webhook(store)
        assert store.alerts.open(a_finding(), AT_NS)
        opened = store.alerts.get(a_finding().alert_id)
        assert store.alerts.acknowledge(a_finding().alert_id, AT_NS + 10**9, by="Ada")
        alerts = {each.type: alert_of(each.document) for each in store.outbox.due(time.time_ns(), each=9, limit=9)}
        assert alerts["alert.opened"] == opened
        assert alerts["alert.acknowledged"] == store.alerts.get(a_finding().alert_id)


def test_the_same_episode_is_opened_once_for_ever(tmp_path: Path) -> None:
    """Looking at the same results again opens nothing, also when the episode was over, and after a restart."""
    for number in range(3):
        with a_store(tmp_path) as store:
            assert store.alerts.open(a_finding(), AT_NS) is (number == 0)
            store.alerts.recover(a_finding().alert_id, {}, AT_NS)
            assert store.alerts.open(a_finding(), AT_NS) is False
            assert rows(store, "SELECT count(*) FROM alert") == [(1,)]
            assert rows(store, "SELECT count(*) FROM alert_event") == [(2,)]


def test_an_outcome_of_before_a_replay_is_not_one_of_it(tmp_path: Path) -> None:
    """A failure that is noted late does not end the delivery that was queued again meanwhile."""
    with a_store(tmp_path) as store:
        a_webhook(store)
        store.alerts.open(a_finding(), AT_NS)
        (due,) = store.outbox.due(AT_NS, each=1, limit=1)
        store.outbox.record([an_attempt(due, state="failed", status=404, error="answered 404")], SwitchOffPolicy())
        assert store.outbox.replay("w1", due.delivery_id, AT_NS)
        assert not store.outbox.replay("w1", due.delivery_id, AT_NS)  # it waits
        store.outbox.record([an_attempt(due, state="failed", status=404, error="answered 404")], SwitchOffPolicy())
        (delivery,) = store.outbox.deliveries("w1")
        assert (delivery.state, delivery.attempts, delivery.replays) == ("pending", 0, 1)


def test_a_busy_receiver_leaves_room_for_others(tmp_path: Path) -> None:
    """Each receiver has its share of the due deliveries, however many wait for one of them."""
    with a_store(tmp_path) as store:
        a_webhook(store, "busy")
        for number in range(20):
            store.alerts.open(a_finding(number), AT_NS + number * 1000)
        a_webhook(store, "other")
        store.alerts.open(a_finding(20), AT_NS + 10**9)
        due = store.outbox.due(AT_NS + 10**9, each=3, limit=100)
        assert [each.webhook_id for each in due] == ["busy", "busy", "busy", "other"]


def test_a_receiver_that_is_gone_gets_nothing_that_waited(tmp_path: Path) -> None:
    """Deleting a receiver, or switching it off, cancels its waiting deliveries, and keeps the finished ones."""
    with a_store(tmp_path) as store:
        a_webhook(store)
        store.alerts.open(a_finding(1), AT_NS)
        (due,) = store.outbox.due(AT_NS, each=1, limit=1)
        store.outbox.record([an_attempt(due)], SwitchOffPolicy())
        store.alerts.open(a_finding(2), AT_NS)
        assert not store.webhooks.delete("w1", 2, AT_NS)
        assert store.webhooks.delete("w1", 1, AT_NS)
        assert not store.webhooks.delete("w1", 1, AT_NS)
        assert sorted(each.state for each in store.outbox.deliveries("w1")) == ["cancelled", "delivered"]
        assert store.outbox.next_due_ns(0) is None
        assert store.webhooks.all() == []


def test_receivers_of_a_tenant_hear_of_its_alerts_and_those_of_nobody_of_all(tmp_path: Path) -> None:
    """Every event of an alert is queued for its tenant and for the operator, and for no other receiver."""
    with a_store(tmp_path) as store:
        for tenant in ("", "acme", "other"):
            a_webhook(store, f"w-{tenant}", tenant)
        for number, tenant in enumerate(("", "acme")):
            assert store.alerts.open(a_finding(number, tenant=tenant), AT_NS)
        alert_id = a_finding(1, tenant="acme").alert_id
        assert not store.alerts.acknowledge(alert_id, AT_NS, tenant="other")
        assert store.alerts.acknowledge(alert_id, AT_NS, tenant="acme")
        types = {tenant: [each.type for each in store.outbox.deliveries(f"w-{tenant}")] for tenant in ("acme", "other")}
        assert (sorted(types["acme"]), types["other"]) == (["alert.acknowledged", "alert.opened"], [])
        assert len(store.outbox.deliveries("w-")) == 3
        seen = {tenant: len(store.alerts.newest(tenant=tenant)) for tenant in ("", "acme", "other", None)}
        assert seen == {"": 1, "acme": 2, "other": 1, None: 2}


def worse(rate: float, *, trace: str = "0" * 32) -> Escalation:
    """Let the alert of `a_finding()` worsen."""
    side = ComparedSide(release="1.5.0", rate=rate, low=rate - 0.1, high=rate + 0.1, count=40)
    finding = a_finding(9, candidate=side, regressed_count=30, document={"examples": [{"traceId": trace}], "sql": "s"})
    return Escalation(tenant="", alert_id=a_finding().alert_id, finding=finding)


def test_an_alert_that_is_worse_is_open_again_and_told_each_time(tmp_path: Path) -> None:
    """It has the current and the earlier numbers, needs to be acknowledged again, and its traces stay."""
    with a_store(tmp_path) as store:
        a_webhook(store)
        alert_id = a_finding().alert_id
        assert not store.alerts.escalate(worse(0.2), AT_NS), "there is no such alert yet"
        store.alerts.open(a_finding(), AT_NS)
        store.alerts.acknowledge(alert_id, AT_NS + 10**9, by="Ada")
        assert store.alerts.escalate(worse(0.4), AT_NS + 60 * 10**9)
        assert store.alerts.acknowledge(alert_id, AT_NS + 61 * 10**9, by="Ben")
        assert store.alerts.escalate(worse(0.2, trace="f" * 32), AT_NS + 120 * 10**9)
        (alert,) = store.alerts.newest()
        finding = alert.finding
        assert (alert.state, alert.acknowledged_by, alert.escalations) == ("open", None, 2)
        assert alert.escalated_at_ns == AT_NS + 120 * 10**9
        assert (finding.candidate.rate, finding.baseline.rate, finding.rule) == (0.2, 0.92, "answers")
        reported = finding.document["told"]
        assert isinstance(reported, list)
        assert [(each["at"], each["rate"]) for each in reported if isinstance(each, dict)] == [
            ("2026-11-21T10:00:00Z", 0.78),
            ("2026-11-21T10:01:00Z", 0.4),
        ]
        pinned = rows(store, "SELECT trace_id FROM trace_pin ORDER BY ALL")
        assert {("0" * 32,), ("f" * 32,), ("f8d18f56aac69da52ff48aa312bf2c4d",)} <= {*pinned}
        types = [each.type for each in store.outbox.due(AT_NS + 10**12, each=9, limit=9)]
        assert types.count("alert.escalated") == types.count("alert.acknowledged") == 2
        assert store.alerts.recover(alert_id, {"how": "resolved"}, AT_NS + 180 * 10**9)
        assert not store.alerts.escalate(worse(0.1), AT_NS + 190 * 10**9), "what is resolved is not told any more"
        assert rows(store, "SELECT count(*) FROM trace_pin") == [(0,)]
