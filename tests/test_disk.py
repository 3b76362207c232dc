"""Full disks: senders are told to retry, nothing acknowledged is lost, and freed space is enough to go on."""

import random
import resource
import sys
import time
from pathlib import Path

import pytest

from tests import forking
from tests.disks import Disks, faulty_syncs, small_disks
from tests.live import Live, a_live_server, until
from tests.traffic import DOORS, Load, Sent, a_batch, over_http

pytestmark = pytest.mark.costly(
    "collector/listeners", "collector/ingest.py", "collector/otlp", "collector/server_conditions.py", "storage"
)

MIB = 1 << 20
SMALL_BACKLOG = {"TRACEJURY_BACKLOG_BYTES": 4 * MIB}
"""So that the spool needs little of a disk; its segments are given back at 32 MiB each."""


def refused(load: Load, spans: int) -> None:
    """Wait until `spans` more spans were refused."""
    before = load.sent.counts["later"]
    until(lambda: load.sent.counts["later"], lambda count: count >= before + spans)


def taken(load: Load, spans: int) -> None:
    """Wait until `spans` more spans were acknowledged."""
    before = load.sent.counts["taken"]
    until(lambda: load.sent.counts["taken"], lambda count: count >= before + spans)


def check_all_stored(server: Live, sent: Sent) -> None:
    """Check that exactly the acknowledged spans are stored, each once, and that the others may be sent again."""
    assert (sent.counts["rejected"], sent.without_delay) == (0, 0)
    server.committed(sent.counts["taken"])
    rows = server.sql("SELECT string_agg(span_id, ' ') FROM spans")
    ids = str(rows[0][0] or "").split()
    assert sorted(ids) == sorted(sent.acknowledged)


def test_a_full_disk_is_the_senders_news_and_passes(tmp_path: Path, seed: int) -> None:
    """While the disk is full, senders are told to retry and readers are served; with space, all goes on."""
    disk = tmp_path / "disk"
    with (
        small_disks({disk: 160 * MIB}) as disks,
        a_live_server(disk / "data", env=SMALL_BACKLOG, before=disks.inside) as server,
        Load(server, seed, senders=4, spans=30, text="x" * 300) as load,
    ):
        taken(load, 1000)
        for _ in range(2):
            disks.fill(disk)
            refused(load, 1000)
            assert server.client.get(f"{server.http}/health").status_code == 200
            until(lambda: server.client.get(f"{server.http}/api/v1/traces").status_code, lambda status: status == 200)
            check_every_door_refuses(server)
            disks.give_back(disk)
            taken(load, 2000)
        sent = load.stop()
        assert sent.counts["lost"] == 0
        assert any("No space left" in reason or "the disk" in reason for reason in sent.reasons), sent.reasons
        check_all_stored(server, sent)
        assert "Traceback" not in server.log
        assert server.stop() == 0


def check_every_door_refuses(server: Live) -> None:
    """Check that both protocols report overload, and for how long."""
    for door in DOORS.values():
        with door(server) as send:
            answer = send(a_batch(random.Random(), 1).body)
            assert answer.kind == "later"
            assert answer.retry_after_s


def test_a_crash_on_a_full_disk_loses_nothing(tmp_path: Path, seed: int) -> None:
    """A server killed while its disk is full has all that it acknowledged when it starts again."""
    disk = tmp_path / "disk"
    with small_disks({disk: 160 * MIB}) as disks:
        with (
            a_live_server(disk / "data", env=SMALL_BACKLOG, before=disks.inside) as server,
            Load(server, seed, senders=4, spans=30, text="x" * 300) as load,
        ):
            taken(load, 1000)
            disks.fill(disk)
            refused(load, 500)
            server.kill()
            sent = load.stop()
        with Live(disk / "data", env=SMALL_BACKLOG, before=disks.inside) as early:
            time.sleep(2)  # it may start, or say that it cannot
            assert early.process.poll() in {None, 1}
            assert "Traceback" not in early.log
            early.kill()
        disks.give_back(disk)
        with a_live_server(disk / "data", before=disks.inside) as server:
            check_all_stored(server, sent)


def on_two_disks(tmp_path: Path) -> tuple[Path, Path, dict[Path, int]]:
    """Return a disk for the database and one for its spool."""
    database, spool = tmp_path / "disk", tmp_path / "disk" / "data" / "spool"
    return database, spool, {database: 96 * MIB, spool: 256 * MIB}


def test_a_database_that_cannot_be_written_is_waited_for(tmp_path: Path, seed: int) -> None:
    """Spans go on into the spool up to the limit, then are refused with the reason; with room, all are committed."""
    database, _, sizes = on_two_disks(tmp_path)
    with (
        small_disks(sizes) as disks,
        a_live_server(database / "data", env=SMALL_BACKLOG, before=disks.inside) as server,
        Load(server, seed, senders=4, spans=30, text="x" * 300) as load,
    ):
        taken(load, 500)
        disks.fill(database)
        refused(load, 500)
        assert any("cannot be written" in reason for reason in load.sent.reasons), load.sent.reasons
        check_every_door_refuses(server)
        committed = server.tally().committed
        disks.give_back(database)
        taken(load, 1000)
        sent = load.stop()
        assert sent.counts["taken"] > committed
        check_all_stored(server, sent)


def test_a_start_on_a_full_disk_waits_for_room(tmp_path: Path, seed: int) -> None:
    """A server that cannot commit what the spool holds when it starts commits it once there is room."""
    database, _, sizes = on_two_disks(tmp_path)
    env = SMALL_BACKLOG | {"TRACEJURY_COMMIT_INTERVAL_MS": 10_000}
    with small_disks(sizes) as disks:
        with a_live_server(database / "data", env=env, before=disks.inside) as server:
            with Load(server, seed, senders=2, spans=100) as load:
                taken(load, 2000)
                sent = load.stop()
            server.kill()
        disks.fill(database, leaving=MIB // 2)
        with Live(database / "data", before=disks.inside) as server:
            time.sleep(3)
            assert server.process.poll() is None
            disks.give_back(database)
            check_all_stored(server.wait_ready(), sent)


def test_a_database_that_declares_itself_invalid_is_opened_again(tmp_path: Path, seed: int) -> None:
    """A failed checkpoint invalidates DuckDB's database until the file is opened again, which happens during reads."""
    # Small commits go through the log, of 4 MB with this memory, and the log into a checkpoint.
    env = {"TRACEJURY_COMMIT_INTERVAL_MS": 20, "TRACEJURY_DUCKDB_MEMORY": "256MB"}
    source = random.Random(seed)
    with a_live_server(tmp_path / "data", env=env) as server, over_http(server) as send:
        sent = Sent()

        def write_and_read() -> bool:
            batch = a_batch(source, 1, text=source.randbytes(20_000).hex())
            sent.add(batch, send(batch.body))
            server.client.get(f"{server.http}/api/v1/traces")
            return "invalidated" in server.log

        # As a disk that fails without being full: then no checkpoint would be tried.
        size = (tmp_path / "data" / "tracejury.duckdb").stat().st_size
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (max(size, 12 * MIB), resource.RLIM_INFINITY))
        until(write_and_read, bool)
        for _ in range(10):
            write_and_read()
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        until(lambda: server.client.get(f"{server.http}/api/v1/traces").status_code, lambda status: status == 200)
        check_all_stored(server, sent)
        batch = a_batch(source, 20)
        answer = until(lambda: send(batch.body), lambda answer: answer.kind == "taken")
        sent.add(batch, answer)
        check_all_stored(server, sent)
        assert server.stop() == 0


@pytest.mark.parametrize("fault", ["error=EIO:when=3+7", "delay_exit=200000"], ids=["failing", "slow"])
def test_only_what_is_synced_is_acknowledged(tmp_path: Path, seed: int, fault: str) -> None:
    """A disk that fails some syncs, or takes 200 ms for each, costs time and refusals, and no acknowledged span."""
    with (
        a_live_server(tmp_path / "data") as server,
        faulty_syncs(server.process.pid, fault),
        Load(server, seed, spans=20) as load,
    ):
        taken(load, 400)
        server.kill()
        sent = load.stop()
        assert sent.counts["later"] > 0 or "delay" in fault
        assert sent.without_delay == 0
    with a_live_server(tmp_path / "data") as server:
        rows = server.sql("SELECT string_agg(span_id, ' ') FROM spans")
        ids = str(rows[0][0]).split()
        assert len(ids) == len(set(ids))
        assert set(sent.acknowledged) - set(ids) == set()


def test_a_little_room_goes_to_what_was_promised(tmp_path: Path, seed: int) -> None:
    """When only some room is made, what is acknowledged is committed before more is taken in, however many send."""
    disk = tmp_path / "disk"
    with (
        small_disks({disk: 160 * MIB}) as disks,
        a_live_server(disk / "data", env=SMALL_BACKLOG, before=disks.inside) as server,
        Load(server, seed, senders=4, spans=30, text="x" * 300) as load,
    ):
        taken(load, 1000)
        disks.fill(disk)
        refused(load, 500)
        for _ in range(3):
            disks.give_back(disk, 2 * MIB)
            time.sleep(1)
        sent = load.stop()
        check_all_stored(server, sent)


def a_dataset(server: Live, name: str) -> int:
    """Create a dataset, a write that is not of spans; return the status."""
    document = {"name": name, "description": "y" * 2000}
    return server.client.post(f"{server.http}/api/v1/datasets", json=document).status_code


def test_a_server_starts_on_a_full_disk_and_resumes_by_itself(tmp_path: Path, seed: int) -> None:
    """Other writes stop before spans do, the database stays open, and a killed server starts and reads without room."""
    disk = tmp_path / "disk"
    with small_disks({disk: 160 * MIB}) as disks:
        with (
            a_live_server(disk / "data", env=SMALL_BACKLOG, before=disks.inside) as server,
            Load(server, seed, senders=4, spans=30, text="x" * 300) as load,
        ):
            taken(load, 1000)
            assert a_dataset(server, "before") == 201
            disks.fill(disk, leaving=30 * MIB)  # enough for spans, and for nothing else
            until(lambda: a_dataset(server, "during"), lambda status: status == 503)
            taken(load, 300)
            disks.fill(disk)
            refused(load, 500)
            assert a_dataset(server, "full") == 503
            assert "reopened it" not in server.log
            server.kill()
            sent = load.stop()
        with a_live_server(disk / "data", env=SMALL_BACKLOG, before=disks.inside) as server:
            assert "deleted the reserve" in server.log
            assert server.client.get(f"{server.http}/api/v1/traces").status_code == 200
            assert a_dataset(server, "still full") == 503
            disks.give_back(disk)
            until(lambda: a_dataset(server, "after"), lambda status: status == 201)
            check_all_stored(server, sent)
            until((disks.seen(disk) / "data" / "reserve").exists, bool)
            assert server.stop() == 0


_OPENING = """
import sys; from pathlib import Path; from storage.errors import NoRoom; from storage.store import Store, StoreOptions
try:
    with Store.open(Path(sys.argv[1]), StoreOptions(http="http://127.0.0.1:8080")) as store:
        store.keep_room()
except NoRoom as error:
    print(error)
"""


def opened(disks: Disks, data: Path) -> str:
    """Have a process on those disks open a directory and close it; return its error, if that is for want of room."""
    command = [*disks.inside, sys.executable, "-c", _OPENING, str(data)]
    return forking.run(command, check=True).stdout


def test_a_stopped_server_starts_without_one_byte_of_room(tmp_path: Path) -> None:
    """The reserve is released before anything is written; a small disk has a small one, which grows with the room."""
    disk = tmp_path / "disk"
    with small_disks({disk: 64 * MIB}) as disks:
        reserve = disks.seen(disk) / "data" / "reserve"
        disks.fill(disk, leaving=20 * MIB)
        assert opened(disks, disk / "data") == ""
        assert reserve.stat().st_size == 2 * MIB
        disks.give_back(disk)
        assert opened(disks, disk / "data") == ""
        assert 6 * MIB < reserve.stat().st_size < 8 * MIB
        disks.fill(disk)
        assert opened(disks, disk / "data") == ""
        assert not reserve.exists()


def test_a_start_without_room_or_reserve_says_what_to_do(tmp_path: Path) -> None:
    """Whatever cannot be written first, the error names its path, the room that is left and how much to free."""
    disk = tmp_path / "disk"
    with small_disks({disk: 32 * MIB}) as disks:
        assert opened(disks, disk / "data") == ""
        (disks.seen(disk) / "data" / "reserve").unlink()
        for leaving, data, written in ((0, "data", "data/lock"), (16 << 10, "new", "new/tracejury.duckdb")):
            disks.fill(disk, leaving=leaving)
            error = opened(disks, disk / data)
            assert f"the disk of {disk / data} is full" in error
            assert f"KiB are left ({disk / written}" in error
            assert "free 32 MiB there" in error
            disks.give_back(disk)


def test_no_backup_takes_the_last_room(tmp_path: Path) -> None:
    """A backup that would leave too little space is refused before it begins."""
    disk = tmp_path / "disk"
    with small_disks({disk: 96 * MIB}) as disks, a_live_server(disk / "data", before=disks.inside) as server:
        disks.fill(disk, leaving=40 * MIB)
        answer = server.client.post(f"{server.http}/api/v1/backup")
        assert (answer.status_code, "No space left" in answer.json()["detail"]) == (503, True)
