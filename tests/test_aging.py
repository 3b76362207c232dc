"""Deletion by age while the clock of the machine is wrong, after long stops, and all at once."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.live.upkeep.sweeper import Sweeper
from collector.otlp.decode import Request, decode
from storage import sql
from storage.aging import AgingOptions
from storage.ingest.batch import SpanBatch
from storage.ingest.writer import WriterOptions
from storage.offline.runs import NewRun
from storage.store import Store, StoreOptions
from tests.debian import faketime
from tests.live import PATIENCE_S, a_live_server, until
from tests.serving import a_server, post, run
from tests.storing import RECEIVED_AT_US, a_store, an_export, commit, rows

pytestmark = pytest.mark.costly(
    "collector/access",
    "collector/api",
    "collector/cli",
    "collector/conditions.py",
    "collector/live",
    "collector/otlp",
    "collector/server_conditions.py",
    "collector/server_meters.py",
    "storage",
)

DAY_NS = 86_400 * 10**9
HOUR_NS = 3600 * 10**9
CONFIRM = "`tracejury sweep --yes`"


class Machine:
    """A machine whose clock can be set, which can be off, and which can start again."""

    def __init__(self) -> None:
        self.wall_ns, self.steady_ns, self.boot = RECEIVED_AT_US * 1000, 5 * DAY_NS, "first"

    def passes(self, ns: int) -> None:
        """Let time pass while the machine is up."""
        self.wall_ns += ns
        self.steady_ns += ns

    def is_off(self, ns: int) -> None:
        """Let time pass while the machine is off."""
        self.wall_ns, self.steady_ns, self.boot = self.wall_ns + ns, 30 * 10**9, f"{self.boot}, again"

    @property
    def now_us(self) -> int:
        """Return the time of its clock."""
        return self.wall_ns // 1000

    @contextmanager
    def store(self, directory: Path, *, most_share: float = 0.5) -> Iterator[tuple[Store, Sweeper]]:
        """Open a store of this machine, and its sweeper."""
        aging = AgingOptions(
            most_share=most_share,
            wall_ns=lambda: self.wall_ns,
            steady_ns=lambda: self.steady_ns,
            boot_id=self.boot,
        )
        options = StoreOptions(writer=WriterOptions(commit_interval_s=0.001), aging=aging)
        with Store.open(directory, options) as store:
            yield store, Sweeper(store.retention, interval_s=3600, max_bytes=None, now_us=lambda: self.now_us)

    def receives(self, store: Store, *traces: int, clock_of_sender_ns: int | None = None) -> None:
        """Receive a span of each of these traces."""
        start_ns = self.wall_ns if clock_of_sender_ns is None else clock_of_sender_ns
        exports = [an_export(1, trace=trace, start_ns=start_ns - 10**9) for trace in traces]
        commit(store, a_batch(*exports, received_at_us=self.now_us))


def a_batch(*exports: ExportTraceServiceRequest, received_at_us: int) -> SpanBatch:
    """Return the requests as one batch that was received at a moment."""
    requests = [Request(body=export.SerializeToString()) for export in exports]
    return decode(requests, received_at_us=received_at_us).batch


def stored(store: Store) -> int:
    """Count the stored spans."""
    ((count,),) = rows(store, "SELECT count(*) FROM span")
    return int(str(count))


def test_a_clock_that_jumps_while_the_server_runs_deletes_nothing(tmp_path: Path) -> None:
    """A sweep with the clock 40 days ahead deletes no trace; when time agrees again, sweeps go on by themselves."""
    machine = Machine()
    with machine.store(tmp_path) as (store, sweeper):
        machine.receives(store, 1, 2)
        machine.wall_ns += 40 * DAY_NS
        swept = sweeper.sweep()
        assert (swept.traces, stored(store)) == (0, 2)
        assert swept.held is not None
        assert "was set forward by 40.0 days" in swept.held
        assert CONFIRM in swept.held
        machine.wall_ns -= 40 * DAY_NS
        assert sweeper.sweep().held is None
        machine.passes(31 * DAY_NS)
        assert sweeper.sweep().traces == 2


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_start_with_a_wrong_clock_deletes_nothing(tmp_path: Path, *, is_restarted: bool) -> None:
    """A server that is started again with the clock 40 days ahead deletes nothing, on the same boot or another one."""
    machine = Machine()
    with machine.store(tmp_path) as (store, _):
        machine.receives(store, 1, 2)
    if is_restarted:
        machine.is_off(60 * 10**9)
    machine.wall_ns += 40 * DAY_NS
    for _ in range(3):  # the doubt outlives restarts, and spans that arrive meanwhile do not end it
        with machine.store(tmp_path) as (store, sweeper):
            machine.receives(store, 3)
            assert sweeper.sweep().held is not None
            assert stored(store) == 3
    machine.wall_ns -= 40 * DAY_NS
    with machine.store(tmp_path) as (store, sweeper):
        assert sweeper.sweep().held is None
        assert stored(store) == 3


def test_a_file_that_remembers_no_time_is_judged_by_its_newest_span(tmp_path: Path) -> None:
    """The data of a version that kept no time is safe from a clock that is ahead of its newest span."""
    machine = Machine()
    with machine.store(tmp_path) as (store, _):
        machine.receives(store, 1)
    with machine.store(tmp_path) as (store, _):
        forget = "UPDATE trusted_time SET trusted_at = NULL, boot_id = NULL, uptime_us = NULL"
        store._writer.store(lambda cursor: cursor.execute(forget), 1)
        machine.wall_ns += 40 * DAY_NS  # so that it is not noted at the end
    with machine.store(tmp_path) as (store, sweeper):
        assert sweeper.sweep().held is not None
        assert stored(store) == 1


def test_a_long_stop_of_the_server_alone_is_no_doubt(tmp_path: Path) -> None:
    """A server that was stopped for weeks on a running machine sweeps at once: the uptime confirms the clock."""
    machine = Machine()
    with machine.store(tmp_path) as (store, _):
        machine.receives(store, 1, 2)
    machine.passes(35 * DAY_NS)
    with machine.store(tmp_path) as (store, sweeper):
        assert sweeper.sweep().traces == 2


def test_a_machine_that_was_off_for_long_recovers_by_its_clients(tmp_path: Path) -> None:
    """After weeks without power nothing expires until, for hours, traces have come whose times agree with the clock."""
    machine = Machine()
    with machine.store(tmp_path) as (store, _):
        machine.receives(store, *range(10))
    machine.is_off(35 * DAY_NS)
    with machine.store(tmp_path) as (store, sweeper):
        held = sweeper.sweep().held
        assert held is not None
        assert "is 35.0 days after what the data directory remembers" in held
        machine.receives(store, *range(100, 120))
        assert sweeper.sweep().held is not None, "too soon"
        machine.passes(3 * HOUR_NS)
        assert sweeper.sweep().traces == 10
        assert stored(store) == 20


def test_clients_whose_clocks_disagree_are_no_evidence(tmp_path: Path) -> None:
    """A clock that is ahead of those of the clients stays in doubt, however long the server runs."""
    machine = Machine()
    with machine.store(tmp_path) as (store, _):
        machine.receives(store, *range(10))
    right_ns = machine.wall_ns
    machine.is_off(35 * DAY_NS)
    with machine.store(tmp_path) as (store, sweeper):
        for hour in range(9):
            machine.receives(store, *range(100 + 20 * hour, 120 + 20 * hour), clock_of_sender_ns=right_ns)
            machine.passes(HOUR_NS)
            assert sweeper.sweep().held is not None
        assert stored(store) == 190


def test_traces_that_come_while_the_clock_is_behind_stay(tmp_path: Path) -> None:
    """Spans that came with the clock 40 days behind expire the retention after the newest row of before."""
    machine = Machine()
    with machine.store(tmp_path) as (store, _):
        machine.receives(store, 1)
    machine.is_off(60 * 10**9)
    machine.wall_ns -= 40 * DAY_NS
    with machine.store(tmp_path) as (store, sweeper):
        machine.receives(store, 2)
        assert sweeper.sweep().held is not None
        machine.wall_ns += 40 * DAY_NS
        assert sweeper.sweep().traces == 0
        assert store.aging.held is None
        assert stored(store) == 2
        machine.passes(29 * DAY_NS)
        assert sweeper.sweep().traces == 0
        machine.passes(2 * DAY_NS)
        assert sweeper.sweep().traces == 2


def test_small_steps_of_the_clock_do_not_add_up_unseen(tmp_path: Path) -> None:
    """A clock that is set forward by half an hour between any two sweeps is in doubt when that has become too much."""
    machine = Machine()
    with machine.store(tmp_path) as (store, sweeper):
        machine.receives(store, 1)
        outcomes = []
        for _ in range(8):
            machine.passes(HOUR_NS)
            machine.wall_ns += HOUR_NS // 2
            outcomes.append(sweeper.sweep().held is None)
        assert outcomes == [True] * 4 + [False] * 4


def test_what_expires_all_at_once_waits_for_an_operator(tmp_path: Path) -> None:
    """Expired traces beyond the allowed share of all stay, though the clock agrees, until an operator confirms."""
    machine = Machine()
    with machine.store(tmp_path) as (store, sweeper):
        commit(store, a_batch(an_export(1_500), received_at_us=machine.now_us))
        machine.passes(31 * DAY_NS)
        swept = sweeper.sweep()
        assert (swept.traces, stored(store)) == (0, 1_500)
        assert swept.held is not None
        assert "100% of all spans have expired at once (1,500 of 1,500; sweep_share allows 50%)" in swept.held
        assert store.aging.held == swept.held
        assert sweeper.sweep(is_confirmed=True).traces == 1
        assert stored(store) == 0
        assert sweeper.sweep().held is None


def test_ledgers_runs_deliveries_and_mutes_stay_while_the_clock_is_in_doubt(tmp_path: Path) -> None:
    """Whatever is deleted, or ended, because of its age stays while the clock is 400 days ahead."""
    machine = Machine()
    with machine.store(tmp_path) as (store, sweeper):
        machine.receives(store, 1)
        new = NewRun(tenant="", project="shop", experiment="e", idle_s=3600)
        ended, _ = store.runs.begin(new, now_us=machine.now_us)
        open_run, _ = store.runs.begin(new, now_us=machine.now_us)
        past = f"make_timestamp({machine.now_us}::BIGINT)"
        counts = ("after_batch", "until_batch", "began_batch", "traces", "spans")
        zeros = ", ".join(f"0 AS {each}" for each in counts)
        done = f"'d' AS deletion_id, '' AS tenant, [] AS filters, 'done' AS \"state\", {zeros}"
        for text in (
            f"UPDATE run SET completed_at = {past}, \"state\" = 'SUCCESS' WHERE run_id = '{ended.run_id}'",
            f"INSERT INTO deletion BY NAME SELECT {done}, {past} AS created_at, {past} AS finished_at",
        ):
            store._writer.store(lambda cursor, text=text: cursor.execute(text), 1)  # type: ignore[misc] # each text once

        def left() -> tuple[object, ...]:
            sweeper.sweep()
            store.runs.abandon(now_us=machine.now_us)
            store.runs.expire(before_us=machine.now_us - 90 * DAY_NS // 1000)
            run_stored = store.runs.find(None, open_run.run_id)
            tables = ("run", "deletion", "span")
            return *(
                rows(store, f"SELECT count(*) FROM {table}")[0][0] for table in tables
            ), run_stored and run_stored.status

        machine.wall_ns += 400 * DAY_NS
        assert left() == (2, 1, 1, "RUNNING")
        store.aging.confirm()
        assert left() == (1, 0, 0, "CANCELLED")


def test_every_statement_that_deletes_by_age_is_known() -> None:
    """A statement that deletes rows from before a moment has its line here, with what asks `Aging` before it runs."""
    guarded = {
        "delete_alert_mutes": "AlertMutes.delete",
        "delete_old_alert_deliveries": "Outbox.prune",
        "delete_old_alert_events": "Outbox.prune",
        "sweep_annotation": "Retention.sweep",
        "sweep_backfill": "Retention.sweep",
        "sweep_deletion": "Retention.sweep",
        "sweep_judge_call": "Retention.sweep",
    }
    statements = {
        name
        for name in sql._queries()
        if re.search(r"(?s)\bDELETE FROM\b.*<=? (make_timestamp|now\(|current_timestamp)", sql.query(name))
    }
    assert statements == guarded.keys()


def test_the_clock_in_doubt_is_a_condition_that_an_operator_ends(tmp_path: Path) -> None:
    """Status and metrics tell of a clock that jumped; the command fails without `--yes`, and with it is audited."""
    key = "k" * 32
    with a_server(tmp_path, api_key=key) as server:
        url, headers = f"http://{server.http}", {"authorization": f"Bearer {key}"}
        with httpx.Client(base_url=url, trust_env=False, headers=headers) as client:
            export = an_export(2).SerializeToString()
            sent = {"content-type": "application/x-protobuf"}
            client.post(f"http://{server.otlp_http}/v1/traces", content=export, headers=sent).raise_for_status()
            assert server.store.wait_committed(PATIENCE_S)
            aging = server.store.aging
            aging._options = replace(aging._options, wall_ns=lambda: time.time_ns() + 40 * DAY_NS)
            held = until(lambda: client.get("/api/v1/status").json()["server"]["conditions"], bool)
            assert [each["name"] for each in held] == ["deletion_held"]
            assert CONFIRM in held[0]["message"]
            assert 'tracejury_conditions{name="deletion_held"} 1' in client.get("/metrics").text
            env = {"TRACEJURY_API_KEY": key}
            refused = run("sweep", "--server", url, env=env)
            assert (refused.exit_code, CONFIRM in refused.output) == (1, True)
            assert run("sweep", "--server", url, "--yes", env=env).exit_code == 0
            until(
                lambda: client.get("/api/v1/status").json()["server"]["conditions"], lambda conditions: not conditions
            )
            entries = client.get("/api/v1/audit").json()["content"]
            assert any("/api/v1/sweep" in str(each) for each in entries)


def test_a_server_whose_clock_is_wrong_keeps_everything(tmp_path: Path) -> None:
    """A real server that sweeps each second with the clock 40 days ahead has deleted nothing when it is right again."""
    with a_live_server(tmp_path) as server:
        post(f"{server.otlp_http}/v1/traces", an_export(3).SerializeToString())
        assert server.stop() == 0
    shifted = {
        "TRACEJURY_SWEEP_INTERVAL_SECONDS": 0.2,
        "LD_PRELOAD": faketime(),
        "FAKETIME": "+40d",
        "DONT_FAKE_MONOTONIC": 1,  # else no wait of a thread ends
    }
    with a_live_server(tmp_path, env=shifted, forked=False) as server:
        until(lambda: "deletion_held" in server.log, bool)
        done = re.compile(r'tracejury_sweeps_total\{outcome="done"\} ([0-9.]+)')
        until(
            lambda: done.findall(server.client.get(f"{server.http}/metrics").text), lambda samples: samples[:1] > ["3"]
        )
        assert server.stop() == 0
    with a_store(tmp_path) as store:
        assert (stored(store), store.aging.held) == (3, None)
