"""The store: appended batches are committed once, whatever happens in between."""

import dataclasses
import itertools
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.engine.database import ROW_GROUP_ROWS
from storage.engine.lock import read_holder
from storage.errors import Busy, InUse, Overloaded
from storage.ingest.batch import SPANS, SpanBatch
from storage.ingest.spool import Position, Spool
from storage.ingest.state import Totals, read_state
from storage.store import Store, StoreOptions
from tests.live import a_client, until
from tests.serving import a_server
from tests.storing import (
    START_NS,
    WAIT_S,
    a_batch,
    a_record,
    a_store,
    an_export,
    commit,
    files_no_larger_than,
    rows,
    span_id,
    trace_id,
)

pytestmark = pytest.mark.costly(
    "collector/api/operations",
    "collector/conventions",
    "collector/ingest.py",
    "collector/otlp",
    "collector/reading",
    "storage",
)

NO_SPANS = a_batch(an_export(0))
LATER_NS = START_NS + 3600 * 10**9


def stored_spans(store: Store) -> list[tuple[object, ...]]:
    """Return tenant, trace and span of every stored row."""
    return rows(store, "SELECT tenant, trace_id, span_id FROM spans ORDER BY ALL")


def counted(store: Store) -> tuple[int, int]:
    """Count stored spans and duplicates."""
    totals = store.totals
    kept = "SELECT batch, stored, already_present, logs_stored, logs_already_present, set_aside FROM ingest_state"
    assert rows(store, kept) == [dataclasses.astuple(totals)]
    return totals.stored, totals.already_present


def test_what_was_appended_is_there_after_a_restart(tmp_path: Path) -> None:
    """Closing commits everything, and the totals continue from their earlier values."""
    with a_store(tmp_path, commit_interval_s=60) as store:
        store.append([a_batch(an_export(3))])
        assert store.backlog_bytes > 0
    with a_store(tmp_path) as store:
        assert stored_spans(store) == [("", trace_id(0), span_id(number)) for number in range(3)]
        assert store.totals == Totals(batch=1, stored=3, already_present=0)
        assert store.backlog_bytes == 0


def test_one_batch_delivered_twice_is_stored_once(tmp_path: Path) -> None:
    """A second delivery adds nothing and is counted as already present, also after a restart."""
    with a_store(tmp_path) as store:
        for _ in range(2):
            commit(store, a_batch(an_export(3)))
        assert counted(store) == (3, 3)
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(4)))
        assert counted(store) == (4, 6)
        assert len(stored_spans(store)) == 4


def test_copies_in_one_commit_are_stored_once(tmp_path: Path) -> None:
    """Of a span that one request, one batch, or one commit holds twice, the first copy is stored."""
    with a_store(tmp_path, commit_interval_s=0.3) as store:
        commit(store, a_batch(an_export(2), an_export(2)), a_batch(an_export(3)))
        assert counted(store) == (3, 4)
        assert len(stored_spans(store)) == 3


@pytest.mark.parametrize("moved_ns", [-(5 * 10**17), -1, 1, 60 * 10**9, 10**18])
def test_a_copy_with_another_start_time_is_a_copy(tmp_path: Path, moved_ns: int) -> None:
    """A span is known by its ids: a second copy that claims to have started at another time is not stored."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(2)))
        commit(store, a_batch(an_export(3, start_ns=START_NS + moved_ns)))
        assert counted(store) == (3, 2)
        first_two = f"SELECT epoch_ns(start_time) FROM spans WHERE span_id <> '{span_id(2)}' ORDER BY 1"
        assert rows(store, first_two) == [(START_NS,), (START_NS + 1,)]
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(3, start_ns=START_NS + 2 * moved_ns)))
        assert counted(store) == (3, 5)


def test_the_same_ids_are_another_span_for_another_tenant(tmp_path: Path) -> None:
    """Tenants do not see each other's spans, not even as duplicates; who has none sees the shared one."""
    with a_store(tmp_path) as store:
        for tenant in ("a", "b", "", "a"):
            commit(store, a_batch(an_export(2), tenant=tenant))
        assert counted(store) == (6, 2)
        trace = store.queries.trace(trace_id(0), tenant="b")
        assert trace is not None
        assert {span.tenant for span in trace.spans} == {"b"}
        shared = store.queries.trace(trace_id(0), tenant="c")
        assert shared is not None
        assert {span.tenant for span in shared.spans} == {""}


def test_the_same_span_id_in_another_trace_is_another_span(tmp_path: Path) -> None:
    """A span id needs to be unique within its trace only."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(2, trace=0), an_export(2, trace=1)))
        assert counted(store) == (4, 0)


def test_a_span_of_every_age_is_found_again(tmp_path: Path) -> None:
    """Copies are recognised in a batch whose start times are decades apart, one of them at the beginning of time."""
    times = [0, 1, 10**18, START_NS, START_NS + 86_400 * 10**9, 9 * 10**18]
    exports = [an_export(2, trace=number, start_ns=start_ns) for number, start_ns in enumerate(times)]
    with a_store(tmp_path) as store:
        commit(store, a_batch(*exports))
    with a_store(tmp_path) as store:
        commit(store, a_batch(*reversed(exports), an_export(trace=99)))
        assert counted(store) == (13, 12)


deliveries = st.lists(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.sampled_from([0, 1, 10**12])), min_size=1, max_size=6),
    min_size=1,
    max_size=5,
)
tenants = (f"tenant {number}" for number in itertools.count())


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield a store that examples share, each with a tenant of its own."""
    with a_store(tmp_path_factory.mktemp("shared")) as store:
        yield store


@given(deliveries)
@settings(max_examples=25)
def test_any_deliveries_equal_the_set_of_their_spans(
    shared_store: Store, batches: list[list[tuple[int, int, int]]]
) -> None:
    """However spans are repeated within and across batches, each is stored once, and the sums of the accounts agree."""
    tenant, before = next(tenants), shared_store.totals
    for spans in batches:
        exports = [an_export(trace=trace, first=number, start_ns=START_NS + at) for trace, number, at in spans]
        shared_store.append([a_batch(*exports, tenant=tenant)])
    assert shared_store.wait_committed(WAIT_S)
    distinct = {(trace_id(trace), span_id(number)) for spans in batches for trace, number, _ in spans}
    stored = rows(shared_store, f"SELECT trace_id, span_id FROM spans WHERE tenant = '{tenant}'")
    assert sorted(stored) == sorted(distinct)
    after, delivered = shared_store.totals, sum(map(len, batches))
    assert after.stored - before.stored == len(distinct)
    assert after.already_present - before.already_present == delivered - len(distinct)
    assert rows(shared_store, f"SELECT sum(span_count) FROM traces WHERE tenant = '{tenant}'") == [(len(distinct),)]


def commit_sizes(store: Store) -> list[int]:
    """Return the rows of each commit, in order."""
    return [int(str(count)) for (count,) in rows(store, "SELECT count(*) FROM span GROUP BY batch ORDER BY batch")]


def test_commits_hold_whole_row_groups_when_there_are_enough_rows(tmp_path: Path) -> None:
    """Under load every commit but the last is a multiple of a row group, even if that cuts a batch in two."""
    total = 4 * ROW_GROUP_ROWS + 1000
    with a_store(tmp_path, commit_interval_s=60) as store:
        for first in range(0, total, 1700):
            store.append([a_batch(an_export(min(1700, total - first), first=first))])
    with a_store(tmp_path) as store:
        sizes = commit_sizes(store)
        assert sum(sizes) == total
        assert all(size % ROW_GROUP_ROWS == 0 for size in sizes[:-1])
        assert rows(store, "SELECT count(DISTINCT span_id) FROM span") == [(total,)]


def test_one_large_batch_is_committed_in_parts(tmp_path: Path) -> None:
    """A batch larger than a commit is committed in pieces that together are the batch, in its order."""
    total = 3 * ROW_GROUP_ROWS + 5
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(total)))
        assert max(commit_sizes(store)) <= 2 * ROW_GROUP_ROWS
        ids = rows(store, "SELECT span_id FROM span ORDER BY batch, rowid")
        assert ids == [(span_id(number),) for number in range(total)]


def test_spans_are_visible_soon_after_the_append(tmp_path: Path) -> None:
    """A lone batch is committed after the commit interval, without waiting for more."""
    with a_store(tmp_path, commit_interval_s=0.05) as store:
        store.append([a_batch(an_export())])
        assert store.wait_committed(WAIT_S)
        assert len(stored_spans(store)) == 1


def spooled(directory: Path, *batches: SpanBatch) -> None:
    """Create a data directory as a crash leaves it: batches in the spool, none in the database."""
    with a_store(directory):
        pass
    spool = Spool(directory / "spool", after=Position())
    for batch in batches:
        spool.append([batch])
    spool.close()


def test_a_start_commits_what_the_spool_holds(tmp_path: Path) -> None:
    """Groups that a crash left in the spool are committed before the store is open, and their files go in time."""
    spooled(tmp_path, a_batch(an_export(2)), a_batch(an_export(2, first=2)))
    with a_store(tmp_path) as store:
        assert len(stored_spans(store)) == 4
        assert read_state(store._database).position == Position(2)
        commit(store, a_batch(an_export(1, first=4)))
        assert read_state(store._database).position == Position(3)
        assert len(list((tmp_path / "spool").iterdir())) == 1


def a_database_at(directory: Path, position: Position) -> None:
    """Create an empty database that claims to have the spool up to a position."""
    with a_store(directory) as store, store._database.transaction() as cursor:
        cursor.execute("UPDATE ingest_state SET spool_sequence = ?, spool_rows = ?", [position.sequence, position.rows])


@pytest.mark.parametrize(
    "position", [Position(0), Position(0, 3), Position(1), Position(1, 2), Position(2, 4), Position(3)]
)
def test_a_start_goes_on_exactly_after_the_committed_position(tmp_path: Path, position: Position) -> None:
    """Of groups of five spans, those up to the position are not read again, of the next one the rest is committed."""
    a_database_at(tmp_path, position)
    spool = Spool(tmp_path / "spool", after=Position())
    for number in range(3):
        spool.append([a_batch(an_export(5, first=5 * number))])
    spool.close()
    with a_store(tmp_path) as store:
        done = 5 * position.sequence + position.rows
        assert stored_spans(store) == [("", trace_id(0), span_id(number)) for number in range(done, 15)]


def test_commits_go_on_after_a_start_within_a_large_group(tmp_path: Path) -> None:
    """If a whole row group of a batch was committed before a crash, the rest of it and later batches follow."""
    a_database_at(tmp_path, Position(0, ROW_GROUP_ROWS))
    spool = Spool(tmp_path / "spool", after=Position())
    spool.append([a_batch(an_export(ROW_GROUP_ROWS + 5))])
    spool.close()
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(2, trace=1)))
        assert counted(store) == (7, 0)


def test_a_damaged_group_that_was_committed_in_part_costs_no_other(tmp_path: Path) -> None:
    """If the group after the position is lost, the rows to skip are not skipped in the next group."""
    a_database_at(tmp_path, Position(0, 3))
    spool = Spool(tmp_path / "spool", after=Position())
    for number in range(2):
        spool.append([a_batch(an_export(5, first=5 * number))])
    spool.close()
    (path,) = (tmp_path / "spool").iterdir()
    with path.open("r+b") as file:
        file.seek(1000)
        file.write(b"\xaa" * 64)
    with a_store(tmp_path) as store:
        assert stored_spans(store) == [("", trace_id(0), span_id(number)) for number in range(5, 10)]


def test_a_backlog_over_its_limit_refuses_and_stores_nothing(tmp_path: Path) -> None:
    """Spans that would wait too long for their commit are refused, and are welcome once there is room."""
    with a_store(tmp_path, commit_interval_s=1, backlog_bytes=10_000) as store:
        store.append([a_batch(an_export(200))])
        with pytest.raises(Overloaded, match="behind"):
            store.append([a_batch(an_export(1, first=200))])
        with pytest.raises(Overloaded, match="behind"):
            store.check_room("")
        store.check_room("another")
        assert store.wait_committed(WAIT_S)
        assert len(stored_spans(store)) == 200
        commit(store, a_batch(an_export(1, first=200)))
        assert len(stored_spans(store)) == 201


def test_a_second_store_on_the_directory_is_refused(tmp_path: Path) -> None:
    """The message names the process and the address of who holds it, and closing lets go."""
    with Store.open(tmp_path, StoreOptions(http="127.0.0.1:8080")) as store:
        with pytest.raises(InUse, match=rf"process {os.getpid()}, 127\.0\.0\.1:8080"):
            Store.open(tmp_path)
        assert read_holder(tmp_path) == {"pid": str(os.getpid()), "http": "127.0.0.1:8080"}
        commit(store, a_batch(an_export()))
    assert read_holder(tmp_path) is None
    with a_store(tmp_path) as store:
        assert len(stored_spans(store)) == 1


def with_column(batch: SpanBatch, name: str, values: pa.Array) -> SpanBatch:
    """Return the batch with other values in one column."""
    position = batch.spans.schema.get_field_index(name)
    return dataclasses.replace(batch, spans=batch.spans.set_column(position, SPANS.field(name), values))


def impossible(name: str) -> SpanBatch:
    """Ten spans, the fifth of which no database could take."""
    batch = a_batch(an_export(10))
    match name:
        case "no name":
            values = pa.array(["n"] * 4 + [None] + ["n"] * 5)
            return with_column(batch, "name", values)
        case "no tenant":
            return with_column(batch, "tenant", pa.array([""] * 4 + [None] + [""] * 5))
        case "no start":
            times = pa.array([START_NS] * 4 + [None] + [START_NS] * 5, pa.int64()).cast(pa.timestamp("ns"))
            return with_column(batch, "start_time", times)
        case "no text":
            texts = pa.array([b"fine"] * 4 + [b"\xff\xfe"] + [b"fine"] * 5, pa.binary())
            return with_column(batch, "status_message", texts.view(pa.string()))
        case _:
            ids = [span_id(number) for number in range(10)]
            return with_column(batch, "span_id", pa.array([*ids[:4], "short", *ids[5:]]))


@pytest.mark.parametrize("fault", ["no name", "no tenant", "no start", "no text", "short id"])
def test_a_row_that_cannot_be_stored_is_set_aside(tmp_path: Path, fault: str) -> None:
    """One impossible row is written to a file, all others are committed, and the next batch is too."""
    with a_store(tmp_path) as store:
        store.append([a_batch(an_export(1, trace=1)), impossible(fault)])
        commit(store, a_batch(an_export(1, trace=2)))
        assert store.failing is None
        kept = [number for number in range(10) if number != 4]
        expected = [(trace_id(0), span_id(number)) for number in kept] + [
            (trace_id(1), span_id(0)),
            (trace_id(2), span_id(0)),
        ]
        assert [row[1:] for row in stored_spans(store)] == expected
        assert (store.totals.stored, store.totals.already_present, store.totals.set_aside) == (11, 0, 1)
    with a_store(tmp_path) as store:
        assert (store.totals.stored, store.totals.already_present, store.totals.set_aside) == (11, 0, 1)
    (file,) = (tmp_path / "set-aside").iterdir()
    aside = pa.ipc.open_stream(file.read_bytes()).read_all()
    assert aside.equals(impossible(fault).spans.slice(4, 1))


def test_a_server_tells_what_it_set_aside(tmp_path: Path) -> None:
    """Every span of an append is counted as stored or as set aside, and `/health` reports the latter."""
    with a_server(tmp_path) as server:
        commit(server.store, impossible("no name"))
        totals = server.store.totals
        assert (totals.stored, totals.already_present, totals.set_aside) == (9, 0, 1)
        with a_client() as client:
            assert client.get(f"http://{server.http}/health").json() == {"status": "ok", "setAside": 1, "dropped": 0}


def test_a_row_that_cannot_even_be_set_aside_blocks_visibly_until_it_can(tmp_path: Path) -> None:
    """While the file for an impossible row cannot be written, the store says that it is failing, and then goes on."""
    obstacle = tmp_path / "set-aside"
    obstacle.touch()
    with a_store(tmp_path) as store:
        store.append([impossible("no name")])
        wait_until_failing(store)
        obstacle.unlink()
        assert store.wait_committed(WAIT_S)
        assert len(stored_spans(store)) == 9
        assert (*counted(store), store.totals.set_aside) == (9, 0, 1)
        assert store.failing is None


def test_many_rows_that_cannot_be_stored_are_all_set_aside(tmp_path: Path) -> None:
    """Impossible rows among thousands cost no other row, and a stop on the way counts nothing twice."""
    batch = a_batch(an_export(5000))
    bad = {0, 1, 2500, 4999}
    names = pa.array([None if number in bad else "n" for number in range(5000)], pa.string())
    first = Store.open(tmp_path)
    first.append([with_column(batch, "name", names)])
    until(lambda: first.totals.set_aside, lambda count: count >= 2)
    first.close(timeout_s=0)
    with a_store(tmp_path) as store:
        assert store.wait_committed(WAIT_S)
        assert (*counted(store), store.totals.set_aside) == (4996, 0, 4)
        assert len(list((tmp_path / "set-aside").iterdir())) == 4


def test_a_batch_without_rows_is_no_trouble(tmp_path: Path) -> None:
    """A batch of a request whose spans were all rejected is committed as nothing."""
    batch = dataclasses.replace(a_batch(an_export()), spans=SPANS.empty_table())
    with a_store(tmp_path) as store:
        commit(store, batch, a_batch(an_export(1, first=1)), batch)
        assert len(stored_spans(store)) == 1
    with a_store(tmp_path) as store:
        assert len(stored_spans(store)) == 1


def filled(directory: Path, row_groups: int) -> int:
    """Return a database file of some megabytes; how many spans it holds."""
    with a_store(directory) as store:
        for number in range(row_groups):
            commit(store, a_batch(an_export(ROW_GROUP_ROWS, first=number * ROW_GROUP_ROWS)))
    return row_groups * ROW_GROUP_ROWS


def ends_with_all(store: Store, total: int) -> None:
    """Everything is committed exactly once, and the accounts say so."""
    assert store.wait_committed(WAIT_S)
    assert store.failing is None
    assert rows(store, "SELECT count(*), count(DISTINCT span_id) FROM spans") == [(total, total)]
    assert rows(store, "SELECT sum(span_count) FROM traces") == [(total,)]
    assert counted(store) == (total, 0)


def wait_until_failing(store: Store) -> None:
    """Wait until a commit failed."""
    for _ in range(200):
        if store.failing is not None or store.wait_committed(0.02):
            break
    assert store.failing is not None


def test_a_database_that_cannot_grow_is_tried_again(tmp_path: Path) -> None:
    """While DuckDB cannot write its file, spans stay in the spool and can be read before; then all are committed."""
    total = filled(tmp_path, 4)
    with a_store(tmp_path) as store:
        with files_no_larger_than((tmp_path / "tracejury.duckdb").stat().st_size + 20_000):
            store.append([a_batch(an_export(ROW_GROUP_ROWS, first=total))])
            wait_until_failing(store)
            assert "too large" in str(store.failing).lower()
            assert rows(store, "SELECT count(*) FROM spans") == [(total,)]
        ends_with_all(store, total + ROW_GROUP_ROWS)


def test_a_log_that_cannot_grow_is_tried_again(tmp_path: Path) -> None:
    """While DuckDB cannot write its log, small commits wait in the spool; then all are committed."""
    with a_store(tmp_path) as store:
        with store._database.transaction() as cursor:  # a long log beside a short spool
            cursor.execute("CREATE TABLE filler AS SELECT repeat(md5(i::VARCHAR), 10) FROM range(2000) AS r(i)")
        with files_no_larger_than((tmp_path / "tracejury.duckdb.wal").stat().st_size + 3000):
            for number in range(5):
                store.append([a_batch(an_export(20, first=20 * number))])
            wait_until_failing(store)
        ends_with_all(store, 100)


def test_a_database_that_declares_itself_invalid_is_opened_again(tmp_path: Path) -> None:
    """After a failed checkpoint DuckDB refuses all work: the file is opened again, and nothing is lost or doubled."""
    total = filled(tmp_path, 4)
    with a_store(tmp_path) as store:
        with store._database.cursor() as cursor:
            cursor.execute("SET GLOBAL checkpoint_threshold = '100KB'")
        with files_no_larger_than((tmp_path / "tracejury.duckdb").stat().st_size):
            for number in range(30):
                store.append([a_batch(an_export(50, first=total + 50 * number))])
                store.wait_committed(0.2)
        ends_with_all(store, total + 1500)
    with a_store(tmp_path) as store:
        ends_with_all(store, total + 1500)


def test_a_spool_without_room_refuses_and_recovers(tmp_path: Path) -> None:
    """When the spool cannot be written, nothing of the append is stored, and the same spans are welcome later."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(2)))
        with files_no_larger_than(1000), pytest.raises(Overloaded) as refusal:
            store.append([a_batch(an_export(2, first=2))])
        assert refusal.value.retry_after_s == 5
        assert len(stored_spans(store)) == 2
        commit(store, a_batch(an_export(2, first=2)))
        assert counted(store) == (4, 0)


def test_a_close_that_runs_out_of_time_loses_nothing(tmp_path: Path) -> None:
    """What the deadline cuts off stays in the spool, and the next start commits it."""
    store = Store.open(tmp_path)
    for number in range(3):
        store.append([a_batch(an_export(100, first=100 * number))])
    with files_no_larger_than(0):
        store.close(timeout_s=0.3)
    with a_store(tmp_path) as again:
        ends_with_all(again, 300)


def test_an_open_that_fails_on_the_way_leaves_nothing_open(tmp_path: Path) -> None:
    """When what the spool holds cannot be recovered, the thread is stopped and the files are closed: try again."""
    with a_store(tmp_path):
        pass
    strange = a_batch(an_export()).spans.set_column(0, "tenant", pa.array([{"a": 1}]))
    record = a_record(1, SpanBatch(spans=strange, resources=NO_SPANS.resources, scopes=NO_SPANS.scopes))
    (tmp_path / "spool" / f"{1:020d}-000001.spool").write_bytes(record)
    obstacle = tmp_path / "spool" / f"{1:020d}.unreadable"
    obstacle.mkdir()
    before = set(threading.enumerate())
    with pytest.raises(OSError, match="Is a directory"):
        Store.open(tmp_path)
    assert set(threading.enumerate()) <= before
    assert read_holder(tmp_path) is None
    obstacle.rmdir()
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(2)))
        assert len(stored_spans(store)) == 2


def test_a_checkpoint_waits_for_who_reads_an_older_state(tmp_path: Path) -> None:
    """A read that began before an update holds a checkpoint up, and a backup waits until it has finished."""
    with a_store(tmp_path) as store, store._database.cursor() as reading:
        reading.execute("BEGIN TRANSACTION READ ONLY")
        reading.execute("SELECT * FROM matching_state").fetchall()
        change = "UPDATE matching_state SET seq = 7"
        store._writer.store(lambda cursor: cursor.execute(change), 1)
        with pytest.raises(Busy):
            store._database.checkpoints.make()
        ending = threading.Timer(0.5, reading.rollback)
        ending.start()
        with (tmp_path / "copy.duckdb").open("w+b") as copy:
            store.backup(copy)
        ending.join()
    with duckdb.connect(str(tmp_path / "copy.duckdb"), read_only=True) as copied:
        assert copied.execute("SELECT seq FROM matching_state").fetchall() == [(7,)]


def test_a_commit_that_only_seemed_to_fail_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error after the commit, as of the checkpoint behind it, stores and counts each span once."""
    with a_store(tmp_path) as store:
        writer = store._writer
        commits = writer._commit
        failures = [duckdb.IOException("the checkpoint failed")]

        def fail_behind(batch: SpanBatch, after: Position) -> None:
            commits(batch, after)
            if failures:
                raise failures.pop()

        monkeypatch.setattr(writer, "_commit", fail_behind)
        commit(store, a_batch(an_export(3)))
        assert failures == []
        assert rows(store, "SELECT count(*) FROM span") == [(3,)]
        assert rows(store, "SELECT stored, already_present FROM ingest_state") == [(3, 0)]
