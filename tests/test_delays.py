"""Stored delays last as long as they were made for, however the clock of the machine is set meanwhile."""

from pathlib import Path

import duckdb
import pytest

from collector.addresses import AddressPolicy
from collector.delivery.receivers import Receivers, RequestedWebhook
from collector.secrets import Secrets
from storage.alerting.outbox import DeliveryAttempt, SwitchOffPolicy
from storage.clock import ClockShift, in_seconds, steady_clock
from storage.delays import StoredDelays
from storage.errors import Overloaded
from storage.store import Store
from tests.alerting import ENCRYPTION_KEY, a_finding
from tests.storing import a_store, rows

HOUR_NS = 3600 * 10**9
ROWS = """
INSERT INTO review_turn SELECT '', 'q', 'e', NULL, 'Ada', 'leased', make_timestamp($end_us::BIGINT), 1;
INSERT INTO metric_monitor BY NAME
SELECT '' AS tenant, 'm' AS monitor_id, 'm' AS name, '{}' AS document, 1 AS version,
    make_timestamp(0) AS created_at, make_timestamp(0) AS updated_at, make_timestamp($now_us::BIGINT) AS looked_at;
INSERT INTO run BY NAME
SELECT '' AS tenant, 'r' AS run_id, 'e' AS experiment_id, 'p' AS project, 'e' AS experiment, '{}' AS metadata,
    1 AS trials, 'RUNNING' AS state, 3600 AS idle_s, make_timestamp($now_us::BIGINT) AS started_at,
    make_timestamp($now_us::BIGINT) AS reported_at;
"""
ENDS = """
SELECT
    (SELECT epoch_us(leased_until) FROM review_turn),
    (SELECT epoch_us(looked_at) FROM metric_monitor) + 3600000000,
    (SELECT epoch_us(reported_at) FROM run) + 3600000000
"""


class Machine:
    """A clock that can be set, and the time since the machine started."""

    def __init__(self) -> None:
        self.wall_ns, self.steady_ns = 1_700_000_000 * 10**9, 5 * 10**9

    def pass_time(self, ns: int) -> None:
        """Let time pass."""
        self.wall_ns += ns
        self.steady_ns += ns

    def delays(self, store: Store) -> StoredDelays:
        """Return the delays of a store on this machine."""
        return StoredDelays(store._writer, ClockShift(lambda: self.wall_ns, lambda: self.steady_ns))


def a_webhook(store: Store) -> str:
    """Build a receiver of the project shop; its id."""
    policy, secrets = AddressPolicy(["127.0.0.0/8"]), Secrets(ENCRYPTION_KEY)
    receivers = Receivers(store.webhooks, store.outbox, policy, secrets=secrets, rotation_s=86_400)
    return receivers.create("shop", RequestedWebhook(url="http://127.0.0.1:9/hook", secret=None)).webhook_id


def attempt(store: Store, webhook_id: str, at_ns: int, next_ns: int) -> None:
    """Note that the only delivery failed, and when it is tried again."""
    (delivery,) = store.outbox.deliveries(webhook_id)
    failed = DeliveryAttempt(
        delivery_id=delivery.delivery_id,
        webhook_id=webhook_id,
        type="alert.opened",
        replays=0,
        state="pending",
        at_ns=at_ns,
        next_at_ns=next_ns,
        status=503,
        error="busy",
    )
    store.outbox.record([failed], SwitchOffPolicy())


@pytest.mark.parametrize("set_hours", [-22, -20_000, -0.5, 0.5, 22, 20_000])
def test_a_delay_is_over_when_it_was_to_be_over(tmp_path: Path, set_hours: float) -> None:
    """Of a day, of which 23 hours are over when the clock is set by anything, one hour is left: no more and no less."""
    machine = Machine()
    with a_store(tmp_path) as store:
        delays, webhook_id = machine.delays(store), a_webhook(store)
        store.alerts.open(a_finding(0), delays.now_ns())
        attempt(store, webhook_id, delays.now_ns(), delays.now_ns() + 24 * HOUR_NS)
        machine.pass_time(23 * HOUR_NS)
        machine.wall_ns += int(set_hours * HOUR_NS)
        now_ns = delays.now_ns()
        assert now_ns == machine.wall_ns
        assert store.outbox.next_due_ns(now_ns) == now_ns + HOUR_NS
        assert store.outbox.due(now_ns, each=4, limit=4) == []
        machine.pass_time(HOUR_NS)
        assert len(store.outbox.due(delays.now_ns(), each=4, limit=4)) == 1


def test_what_is_queued_after_the_clock_was_set_forward_is_due_at_once(tmp_path: Path) -> None:
    """A new delivery is not moved with the earlier ones, although these are moved after it is queued."""
    machine = Machine()
    with a_store(tmp_path) as store:
        delays, _ = machine.delays(store), a_webhook(store)
        machine.pass_time(HOUR_NS)
        machine.wall_ns += 24 * HOUR_NS
        machine.pass_time(10**9)
        store.alerts.open(a_finding(0), machine.wall_ns)
        assert len(store.outbox.due(delays.now_ns(), each=4, limit=4)) == 1


@pytest.mark.parametrize("set_hours", [-22, 22])
def test_leases_looks_and_runs_move_along(tmp_path: Path, set_hours: int) -> None:
    """A reviewer's lease, a metric's next check and the wait for a run's evaluations end an hour after they begin."""
    machine = Machine()
    with a_store(tmp_path) as store:
        delays = machine.delays(store)
        now_us = delays.now_ns() // 1000

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            for statement in filter(str.strip, ROWS.split(";")):
                values = {"now_us": now_us, "end_us": now_us + 3_600_000_000}
                used = {name: value for name, value in values.items() if name in statement}
                cursor.execute(statement, used)

        store._writer.store(write, 3)
        machine.pass_time(HOUR_NS // 2)
        machine.wall_ns += set_hours * HOUR_NS
        left_us = delays.now_ns() // 1000 + 1_800_000_000
        assert rows(store, ENDS) == [(left_us, left_us, left_us)]


def test_a_move_that_cannot_be_stored_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until stored delays have moved, they are compared with the time as if the clock had not been set."""
    machine = Machine()
    with a_store(tmp_path) as store:
        delays = machine.delays(store)
        before_ns = delays.now_ns()
        machine.wall_ns += 24 * HOUR_NS
        with monkeypatch.context() as full:
            full.setattr(store._writer, "store", lambda *_, **__: (_ for _ in ()).throw(Overloaded("full")))
            assert delays.now_ns() == before_ns
        assert delays.now_ns() == machine.wall_ns


def test_a_steady_clock_begins_with_the_time_of_day() -> None:
    """It goes on from the time of the machine, also in seconds."""
    clock = steady_clock()
    assert clock() <= clock()
    assert abs(in_seconds(clock)() - clock() / 1e9) < 1
