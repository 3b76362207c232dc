"""What is deleted or has expired leaves the lake as well: rows, files and log; all other rows stay."""

import datetime as dt
import random
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.sample import send_sample
from storage.errors import Overloaded
from storage.lake.tables import BY_NAME, LAKE_TABLES
from storage.store import Store
from storage.upkeep.deletions import DELETING, DONE, ERASING, DeletionCriteria
from tests.lake import MOVED, Place, a_place, erase_all, publish_all, publish_in_the_end, rows_as_one
from tests.live import until
from tests.matching import write
from tests.serving import a_server, run
from tests.storing import RECEIVED_AT_US, START_NS, WAIT_S, a_batch, a_store, an_export, commit, rows, trace_id
from tests.test_lake_moving import DAY_NS, Days, a_trace, days, move_and_kill, same
from tests.test_lake_reading import move

pytestmark = pytest.mark.costly("storage/lake", "storage/upkeep", "storage/queries/lake", "collector/live/upkeep")

SECRET = "the-words-of-a-person"
ABOUT = ("annotation", "counted_score", "review_entry", "review_turn")
LONG_AGO = f"make_timestamp({RECEIVED_AT_US})"
START = dt.datetime.fromtimestamp(RECEIVED_AT_US / 1e6, dt.UTC)


@pytest.fixture(params=["file", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Yield a lake in a directory, and one in an object store."""
    with a_place(request.param, tmp_path / "place") as made:
        yield made


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Place]:
    """Yield a lake in a directory."""
    with a_place("file", tmp_path / "place") as made:
        yield made


def a_secret_trace(number: int, day: int, *, user: str = SECRET, first: int = 0) -> ExportTraceServiceRequest:
    """Build a trace of a user, whose texts are to be erased."""
    export = a_trace(number, day, first=first)
    for span in export.resource_spans[0].scope_spans[0].spans:
        span.name = f"step of {SECRET}"
        for name, value in {"user.id": user, "gen_ai.tool.call.result": f"result for {SECRET}"}.items():
            span.attributes.add(key=name).value.string_value = value
    return export


def files_with(folder: Place, text: str) -> list[str]:
    """Return the files of a lake that hold a text, in any value or as bytes: also those that no commit names."""
    holders = []
    for path in Path(folder.uri).rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            if path.suffix == ".parquet":
                content += repr(pq.ParquetFile(path).read().to_pylist()).encode()
            if text.encode() in content:
                holders.append(str(path))
    return holders


def without(made: Days, *traces: int) -> dict[str, set[object]]:
    """Return the numbers of the rows that are not about these traces, by table."""
    ids = {trace_id(number) for number in traces}
    whole = rows_as_one(made.store, made.place)
    seqs = {row["seq"] for row in whole["span"].to_pylist() if row["trace_id"] in ids}
    jobs = {row["job_id"] for row in whole["evaluation"].to_pylist() if row["trace_id"] in ids}
    return {
        table.name: {
            row[table.number]
            for row in whole[table.name].to_pylist()
            if row.get("trace_id") not in ids and row.get("seq") not in seqs and row.get("job_id") not in jobs
        }
        for table in MOVED
    }


@pytest.mark.parametrize("by", ["id", "user"])
def test_an_erased_trace_is_in_no_file_of_the_lake(folder: Place, tmp_path: Path, by: str) -> None:
    """Of cold and hot traces, deleted by id or by user, no file, log or checkpoint holds a word; others stay."""
    with days(tmp_path / "data", folder) as made:
        made.send(0, a_secret_trace(0, 0), a_trace(1, 0), logs=0)
        made.send(3, a_secret_trace(2, 3), a_trace(3, 3), logs=2)
        made.publish()
        made.move(2)
        assert made.hot() == [2, 3]
        made.send(3, a_secret_trace(4, 3))  # not published
        folder.table("span").create_checkpoint()
        assert len(files_with(folder, SECRET)) >= 4
        expected = without(made, 0, 2, 4)
        one = [DeletionCriteria(trace_id=trace_id(number)) for number in (0, 2, 4)]
        for criteria in one if by == "id" else [DeletionCriteria(user_id=SECRET)]:
            made.store.deletions.request(criteria, now_us=RECEIVED_AT_US)
        erase_all(made.store)
        assert without(made) == expected
        assert files_with(folder, SECRET) == []
        assert [each.state for each in made.store.deletions.page(tenant=None, skip=0, most=5)] == [DONE] * len(
            one if by == "id" else [None]
        )
        page = made.store.deletions.page(tenant=None, skip=0, most=5)
        assert (sum(each.traces for each in page), sum(each.spans for each in page)) == (3, 9)
        publish_all(made.lake)
        made.move(5)
        assert without(made) == expected
        assert files_with(folder, SECRET) == []


def test_a_trace_that_comes_after_the_request_stays(folder: Place, tmp_path: Path) -> None:
    """A deletion by user leaves a trace that came and was published before its end, also once that has moved."""
    with days(tmp_path / "data", folder) as made:
        made.send(0, a_secret_trace(0, 0))
        made.publish()
        made.move(2)
        made.store.deletions.request(DeletionCriteria(user_id=SECRET), now_us=RECEIVED_AT_US)
        made.send(3, a_secret_trace(1, 3))
        made.publish()
        expected = without(made, 0)
        erase_all(made.store)
        publish_all(made.lake)
        made.move(5)
        assert made.hot() == []
        assert without(made) == expected
        assert set(folder.rows("span").column("trace_id").to_pylist()) == {trace_id(1)}


def test_a_trace_that_begins_again_while_it_is_deleted_stays(
    folder: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spans and logs that come after a deletion has looked for the trace, and are published before its end, stay."""
    with days(tmp_path / "data", folder) as made:
        made.send(0, a_secret_trace(0, 0), a_secret_trace(1, 0), logs=1)
        made.publish()
        made.move(2)
        forget_moved = made.store.erasure.forget_moved

        def forget_and_send(traces: pa.Table) -> None:
            forget_moved(traces)
            made.send(3, a_trace(0, 3, first=3), logs=1)
            publish_all(made.lake)

        made.store.deletions.request(DeletionCriteria(user_id=SECRET), now_us=RECEIVED_AT_US)
        with monkeypatch.context() as patch:
            patch.setattr(made.store.erasure, "forget_moved", forget_and_send)
            erase_all(made.store)
        assert files_with(folder, SECRET) == []
        before = made.publish()
        assert before["span"].num_rows == 3
        assert before["log_record"].num_rows == 1
        assert before["evaluation"].num_rows > 0
        made.move(5)
        assert made.hot() == []
        same(before, rows_as_one(made.store, folder))


@pytest.mark.timeout(900)
@pytest.mark.kill("storage/lake", "storage/upkeep", "collector/live/upkeep")
def test_kills_while_traces_are_erased_leave_no_text(folder: Place, tmp_path: Path, seed: int, kills: int) -> None:
    """After kill -9 of what moves and erases, deletions go on, and in the end no file has a word of theirs."""
    source = random.Random(seed)
    with days(tmp_path / "data", folder) as made:
        for day in range(3):
            made.send(day, a_secret_trace(10 * day, day), a_trace(10 * day + 1, day), logs=10 * day)
            made.publish()
        expected = without(made, 0, 10, 20)
        made.store.deletions.request(DeletionCriteria(user_id=SECRET), now_us=RECEIVED_AT_US)
    for _ in range(kills):
        move_and_kill(tmp_path / "data", folder, source, START_NS + 3 * DAY_NS, loses_store=False)
    with days(tmp_path / "data", folder) as made:
        made.move(3)
        erase_all(made.store)
        assert without(made) == expected
        assert files_with(folder, SECRET) == []


@pytest.mark.parametrize("place", ["s3"], indirect=True)  # a directory is not away
def test_a_deletion_waits_for_a_lake_that_is_away(place: Place, tmp_path: Path) -> None:
    """While the store is unavailable, a deletion is not done, says why, and leaves nothing visible of what was here."""
    with days(tmp_path / "data", place) as made:
        made.send(0, a_secret_trace(0, 0), a_trace(1, 0))
        made.send(3, a_secret_trace(2, 3))
        made.publish()
        made.move(2)
        expected = without(made, 0, 2)
        place.kill_store()
        assert made.store.erasure.is_stored(DeletionCriteria(trace_id=trace_id(0)))
        for number in (2, 0):
            made.store.deletions.request(DeletionCriteria(trace_id=trace_id(number)), now_us=RECEIVED_AT_US)
        for _ in range(2):  # the first does not keep the other one from the rows that are here
            with pytest.raises(Overloaded, match="the lake may hold what was deleted"):
                erase_all(made.store)
        assert made.hot() == []
        assert made.store.retention.sweep(now_us=RECEIVED_AT_US).held is None
        assert "the lake may hold" in (made.store.erasure.blocked or "")
        place.start_store()
        erase_all(made.store)
        assert without(made) == expected
        assert set(place.rows("span").column("trace_id").to_pylist()) == {trace_id(1)}
        assert made.store.erasure.blocked is None


def test_what_is_swept_after_the_boundary_leaves_the_lake(folder: Place, tmp_path: Path) -> None:
    """A trace that was kept by a pin, and expires, is hidden at once, and removed from the lake the next time."""
    with days(tmp_path / "data", folder) as made:
        made.send(0, a_trace(0, 0), a_trace(1, 0))
        made.store.retention.pin(trace_id(0), now_us=RECEIVED_AT_US)
        made.publish()
        made.move(2)
        assert made.hot() == [0]
        expected = without(made, 0)
        made.store.retention.unpin(trace_id(0))
        assert made.store.retention.sweep(now_us=RECEIVED_AT_US + 31 * DAY_NS // 1000).traces == 1
        assert without(made) == expected
        made.move(3)
        assert set(folder.rows("span").column("trace_id").to_pylist()) == {trace_id(1)}
        assert rows(made.store, "SELECT count(*) FROM lake_removal") == [(0,)]


def test_expired_traces_leave_the_lake(place: Place, tmp_path: Path) -> None:
    """A moved trace whose parts have all expired is removed from every table, unless it is pinned; others stay."""
    with days(tmp_path / "data", place) as made:
        made.send(0, a_trace(0, 0), a_trace(1, 0), a_trace(2, 0), logs=0)
        made.send(5, a_trace(3, 5), a_trace(2, 5, first=3))
        made.publish()
        made.move(7)
        assert made.hot() == []
        made.store.retention.pin(trace_id(1), now_us=RECEIVED_AT_US)
        expected = without(made, 0)
        upkeep = made.store.lake_upkeep(made.lake)
        assert upkeep.erasure.expire(START + dt.timedelta(days=20)) == 0
        assert upkeep.erasure.expire(START + dt.timedelta(days=31)) == 1
        assert without(made) == expected
        assert [place.rows(name).num_rows for name in ("trace_reading", "trace_part")] == [3, 4]


def test_results_whose_trace_has_left_leave_within_a_day(folder: Place, tmp_path: Path) -> None:
    """After a removal that was killed between a trace's parts and its results, these go with the daily maintenance."""
    with days(tmp_path / "data", folder) as made:
        made.send(0, a_trace(0, 0), a_trace(1, 0))
        about = "write_number, tenant, trace_id, start_time"
        judged = f"'one' AS job, 'n' AS name, 'e' AS evaluator, 'scored' AS outcome, {LONG_AGO} AS created_at"
        write(made.store, f"INSERT INTO backfill_result BY NAME SELECT {about}, {judged} FROM trace_part")
        made.publish()
        write(made.store, "DELETE FROM backfill_result")
        made.move(2)
        assert folder.rows("backfill_result").num_rows == 2
        folder.table("trace_part").delete(f"trace_id = '{trace_id(0)}'")
        made.store.lake_upkeep(made.lake).tidy(START)
        assert folder.rows("backfill_result").column("trace_id").to_pylist() == [trace_id(1)]


def test_a_restored_directory_erases_what_it_published_under_its_earlier_name(folder: Place, tmp_path: Path) -> None:
    """Of a backup from before the first move, a deletion also takes copies under the old name; any lake is accepted."""
    with days(tmp_path / "data", folder) as made:
        made.send(0, a_secret_trace(0, 0), a_trace(1, 0))
        made.publish()
    assert run("backup", tmp_path / "backup", "--data", tmp_path / "data").exit_code == 0
    assert run("restore", tmp_path / "backup", "--data", tmp_path / "new").exit_code == 0
    with a_store(tmp_path / "new") as store:
        publish_all(store.lake(str(tmp_path / "another lake")))
    shutil.rmtree(tmp_path / "new")
    assert run("restore", tmp_path / "backup", "--data", tmp_path / "new").exit_code == 0
    with days(tmp_path / "new", folder) as made:
        made.publish()
        assert made.store.lake_upkeep(made.lake).moved_before() is None
        assert made.store.lake_scope() is None
        expected = without(made, 0)
        made.store.deletions.request(DeletionCriteria(trace_id=trace_id(0)), now_us=RECEIVED_AT_US)
        erase_all(made.store)
        assert files_with(folder, SECRET) == []
        made.move(2)
        assert made.hot() == []
        assert without(made) == expected


def test_a_restored_directory_deletes_and_counts_once_before_it_publishes(folder: Place, tmp_path: Path) -> None:
    """What is in the lake under the old name alone goes with its trace, hot or moved, and each span counts once."""
    with days(tmp_path / "data", folder) as made:
        made.send(0, a_trace(0, 0))
        made.publish()
        made.move(2)
        made.send(3, a_trace(1, 3))
        made.publish()
    assert run("backup", tmp_path / "backup", "--data", tmp_path / "data").exit_code == 0
    assert run("restore", tmp_path / "backup", "--data", tmp_path / "new").exit_code == 0
    with a_store(tmp_path / "new") as store:
        store.lake_upkeep(store.lake(folder.uri))
        for number in range(2):
            deletion = store.deletions.request(DeletionCriteria(trace_id=trace_id(number)), now_us=RECEIVED_AT_US)
            erase_all(store)
            done = store.deletions.find(deletion.deletion_id)
            assert done is not None
            assert (done.traces, done.spans) == (1, 3)
        assert folder.rows("span").num_rows == 0


def late(made: Days, trace: int) -> None:
    """Store a job, a decision and a result about a trace that moved."""
    seq = next(row["seq"] for row in made.place.rows("span").to_pylist() if row["trace_id"] == trace_id(trace))
    of_span = f"{seq} AS seq, 3 AS revision"
    of_trace = f"{of_span}, '' AS tenant, '{trace_id(trace)}' AS trace_id, 0 AS round"
    result = f"'n' AS name, 'scored' AS outcome, '{SECRET}' AS reason, 1 AS attempts"
    number = "(SELECT max(last_number) + 1 FROM result_state) AS number"
    for table, row in {
        "job": f"77 AS job_id, {of_trace}, 'ready' AS state, 0 AS attempts, {LONG_AGO} AS created_at",
        "decision": f"{of_span}, 2 AS outcome, {LONG_AGO} AS decided_at",
        "evaluation": f"78 AS job_id, {of_trace}, {result}, {LONG_AGO} AS created_at, {number}",
        "superseded": f"78 AS job_id, {LONG_AGO} AS superseded_at",
    }.items():
        write(made.store, f"INSERT INTO {table} BY NAME SELECT {row}")
    write(made.store, "UPDATE result_state SET last_number = last_number + 1")


@pytest.mark.parametrize("by", ["id", "user", "expiry"])
@pytest.mark.parametrize("is_published", [False, True])
def test_what_came_after_the_move_leaves_with_the_trace(
    folder: Place, tmp_path: Path, by: str, *, is_published: bool
) -> None:
    """Late results, jobs and spans of a moved trace go with it, here and in the lake, published or not; others stay."""
    with days(tmp_path / "data", folder) as made:
        made.send(0, a_secret_trace(0, 0), a_trace(1, 0))
        made.publish()
        made.move(2)
        if by != "expiry":
            made.send(2, a_trace(0, 0, first=3))
        late(made, 0)
        if is_published:
            publish_all(made.lake)
        expected = without(made, 0)
        if by == "expiry":
            assert made.store.lake_upkeep(made.lake).erasure.expire(START + dt.timedelta(days=31)) == 2
            expected = without(made, 0, 1)
        else:
            criteria = DeletionCriteria(trace_id=trace_id(0)) if by == "id" else DeletionCriteria(user_id=SECRET)
            made.store.deletions.request(criteria, now_us=RECEIVED_AT_US)
            erase_all(made.store)
            assert files_with(folder, SECRET) == []
        assert rows(made.store, "SELECT count(*) FROM job") == [(0,)]
        assert without(made) == expected
        publish_all(made.lake)
        made.move(4)
        assert without(made) == expected
        assert set(folder.rows("span").column("trace_id").to_pylist()) == ({trace_id(1)} if by != "expiry" else set())


def test_a_result_that_was_published_before_its_span_is_erased(folder: Place, tmp_path: Path) -> None:
    """Of a trace that is deleted while its spans are not published yet, its results leave the lake."""
    with days(tmp_path / "data", folder) as made:
        made.send(0, a_secret_trace(0, 0))
        write(made.store, f"UPDATE evaluation SET reason = '{SECRET}'")
        made.mover(0)  # deletions are about the lake from now on
        made.lake.publish(BY_NAME["evaluation"])
        assert folder.rows("evaluation").num_rows > 0
        made.store.deletions.request(DeletionCriteria(trace_id=trace_id(0)), now_us=RECEIVED_AT_US)
        erase_all(made.store)
        assert files_with(folder, SECRET) == []


def test_a_late_span_that_names_a_user_takes_the_moved_trace_with_it(folder: Place, tmp_path: Path) -> None:
    """A deletion by user selects a trace by the span that came after its move, and removes what moved before, too."""
    with days(tmp_path / "data", folder) as made:
        made.send(0, a_trace(0, 0), a_trace(1, 0))
        made.publish()
        made.move(2)
        made.send(2, a_secret_trace(0, 2, first=3))
        expected = without(made, 0)
        made.store.deletions.request(DeletionCriteria(user_id=SECRET), now_us=RECEIVED_AT_US)
        erase_all(made.store)
        assert without(made) == expected
        assert set(folder.rows("span").column("trace_id").to_pylist()) == {trace_id(1)}


def test_a_moved_trace_that_goes_on_here_does_not_expire_in_part(folder: Place, tmp_path: Path) -> None:
    """What moved of a trace stays in the lake while the database has a part of it."""
    with days(tmp_path / "data", folder) as made:
        made.send(0, a_trace(0, 0))
        made.publish()
        made.move(2)
        made.send(20, a_trace(0, 20, first=3))
        expected = without(made)
        assert made.store.lake_upkeep(made.lake).erasure.expire(START + dt.timedelta(days=31)) == 0
        assert without(made) == expected


def test_a_deletion_waits_for_what_an_earlier_one_took(place: Place, tmp_path: Path) -> None:
    """A deletion by project is not done before a trace of the project is erased that another deletion took first."""
    for day, is_moved in ((0, True), (9, False)):
        with days(tmp_path / "data", place) as made:
            made.send(day, a_secret_trace(day, day))
            made.publish()
            if is_moved:
                made.move(2)
            made.store.deletions.request(DeletionCriteria(trace_id=trace_id(day)), now_us=RECEIVED_AT_US)
            while [each.state for each in made.store.deletions.open()] == [DELETING]:
                made.store.erasure.work()
            of_project = made.store.deletions.request(DeletionCriteria(project="shop"), now_us=RECEIVED_AT_US)
            states: list[str] = []
            while open_ones := made.store.deletions.open():
                states = [each.state for each in open_ones]
                assert of_project.deletion_id in {each.deletion_id for each in open_ones}
                made.store.erasure.work()
            assert states == [ERASING, ERASING]


def vote_on(store: Store, *traces: int) -> None:
    """Store votes on traces, with scores that a rule counts and entries of a queue."""
    for number in traces:
        of_trace = f"'' AS tenant, '{trace_id(number)}' AS trace_id"
        vote = f"{of_trace}, 'tone' AS name, 'person' AS source, 'Ada' AS author, '{SECRET}' AS note"
        vote = f"{vote}, {LONG_AGO} AS created_at"
        entry = f"{of_trace}, 'q' AS queue_id, 'e{number}' AS entry_id, {number} AS number"
        for table, row in {
            "annotation": f"{vote}, {number} AS number, 'trace' AS target, 'good' AS label, false AS withdrawn",
            "counted_score": f"{vote}, {number} AS number, {number} AS annotation, 1 AS revision",
            "review_entry": f"{entry}, 'trace' AS target, 'hand' AS reason, {LONG_AGO} AS added_at",
            "review_turn": f"{entry}, 'Ada' AS author, 'voted' AS state",
        }.items():
            write(store, f"INSERT INTO {table} BY NAME SELECT {row}")


def about_of(store: Store) -> dict[str, list[int]]:
    """Return by table the traces that have such rows."""
    ids_of = {table: rows(store, f"SELECT trace_id FROM {table} ORDER BY ALL") for table in ABOUT}
    return {table: [int(str(each), 16) - 1 for (each,) in ids] for table, ids in ids_of.items()}


@pytest.mark.parametrize("by", ["id", "user", "expiry"])
def test_votes_on_a_moved_trace_leave_with_it(folder: Place, tmp_path: Path, by: str) -> None:
    """When a trace leaves the lake, its votes, counted scores, entries and records set aside do; others stay."""
    with days(tmp_path / "data", folder) as made:
        made.send(0, a_secret_trace(0, 0), a_trace(1, 0))
        made.publish()
        made.move(2)
        made.send(2, a_trace(1, 2, first=3))  # it goes on here
        vote_on(made.store, 0, 1)
        unstored = tmp_path / "data" / "spool" / "1.unreadable"
        unstored.write_text(trace_id(0))
        if by == "expiry":
            expired = START + dt.timedelta(days=31)
            assert made.store.lake_upkeep(made.lake).erasure.expire(expired) == 1
        else:
            criteria = DeletionCriteria(trace_id=trace_id(0)) if by == "id" else DeletionCriteria(user_id=SECRET)
            made.store.deletions.request(criteria, now_us=RECEIVED_AT_US)
            erase_all(made.store)
            assert not unstored.exists()
            assert files_with(folder, SECRET) == []
        assert about_of(made.store) == {table: [1] for table in ABOUT}


def test_votes_on_a_moved_trace_stay_with_it(folder: Place, tmp_path: Path) -> None:
    """A sweep after more than 90 days keeps votes on traces that are in the lake alone."""
    with days(tmp_path / "data", folder) as made:
        made.send(0, a_trace(0, 0))
        made.publish()
        made.move(2)
        vote_on(made.store, 0)
        made.store.retention.sweep(now_us=RECEIVED_AT_US + 100 * DAY_NS // 1000)
        assert about_of(made.store) == {table: [0] for table in ABOUT}


def test_a_moved_trace_is_deleted_by_its_id(folder: Place, tmp_path: Path) -> None:
    """Requests delete traces that are in the lake alone, one after another; for an unknown id the answer is 404."""
    with a_server(tmp_path / "data", lake=folder.uri, lake_interval_seconds=3600) as server:
        report = send_sample(grpc=server.grpc, otlp_http=server.otlp_http)
        assert server.store.wait_committed(WAIT_S)
        assert server.traces.wait_idle(WAIT_S)
        until(lambda: server.store.erasure.lake, bool)
        move(server.store, folder.uri, list(report.trace_ids))
        with httpx.Client(base_url=f"http://{server.http}/api/v1", trust_env=False, timeout=60) as client:
            for trace in report.trace_ids[:2]:  # the second one is looked for in files that were written again
                assert client.get(f"/traces/{trace}").status_code == 200
                assert client.delete(f"/traces/{trace}").status_code in {200, 202}
                until(lambda: client.get("/deletions").json()["content"][0]["state"], lambda state: state == DONE)
                assert client.get(f"/traces/{trace}").status_code == 404
            assert client.get(f"/traces/{report.trace_ids[2]}").status_code == 200
            assert client.delete(f"/traces/{'f' * 32}").status_code == 404


def test_small_files_are_merged_beside_publishing(place: Place, tmp_path: Path) -> None:
    """Files of earlier days become one a day while another directory publishes, and no row is lost or double."""
    commits = 8
    with a_store(tmp_path / "one") as one, a_store(tmp_path / "two") as two:
        lake = one.lake(place.uri)
        for trace in range(commits):
            commit(one, a_batch(an_export(3, trace=trace, first=10 * trace)))
            publish_all(lake)
        assert len(place.table("span").file_uris()) == commits

        def publish() -> None:
            for trace in range(commits):
                commit(two, a_batch(an_export(3, trace=100 + trace, first=1000 + 10 * trace)))
                publish_in_the_end(two, place.uri)

        thread = threading.Thread(target=publish)
        thread.start()
        upkeep = one.lake_upkeep(lake)
        tomorrow = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
        for _ in range(3):
            upkeep.tidy(tomorrow)
        thread.join()
        upkeep.tidy(tomorrow)
        for name in ("span", "trace_part"):
            published = place.rows(name)
            numbers = zip(
                published.column("directory_id").to_pylist(), published.column("write_number").to_pylist(), strict=True
            )
            assert len(set(numbers)) == published.num_rows == (6 if name == "span" else 2) * commits
            assert len(place.table(name).file_uris()) == 1
        assert upkeep.size is not None
        assert upkeep.size.files == sum(len(place.table(table.name).file_uris()) for table in LAKE_TABLES)
