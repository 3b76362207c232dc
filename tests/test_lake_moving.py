"""Whole traces move to the lake once all of their rows are there, and no reader sees a row less or twice."""

import datetime as dt
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.live.upkeep.lake_mover import LakeMover
from collector.otlp.decode import Request, decode
from collector.otlp.signals import LOGS
from storage.errors import Overloaded, Unpublished, Unusable
from storage.lake.publishing import Lake
from storage.lake.scope import moved_to_lake
from storage.lake.tables import LAKE_TABLES
from storage.store import Store
from storage.upkeep.deletions import DeletionCriteria
from tests.lake import MOVED, Place, a_place, compare, erase_all, publish_all, rows_as_one
from tests.log_requests import a_log, a_log_export
from tests.matching import Clock, InForce, active, reading_and_matching, remember, write
from tests.serving import run
from tests.storing import RECEIVED_AT_US, START_NS, a_batch, a_store, an_export, commit, rows, trace_id

pytestmark = pytest.mark.costly("storage/lake", "storage/upkeep", "storage/queries/lake", "collector/live/upkeep")

DAY_NS = 86_400_000_000_000
RULES = (active(1), active(2, target="TRACE"))


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


@dataclass(slots=True)
class Days:
    """A store to which traces come day by day, judged by two rules, and its lake."""

    store: Store
    place: Place
    lake: Lake
    clock: Clock
    in_force: InForce

    def send(self, day: int, *traces: ExportTraceServiceRequest, logs: int | None = None) -> None:
        """Commit traces of a day, and a log record about the first span of a trace; wait until all is decided."""
        received_at_us = RECEIVED_AT_US + day * DAY_NS // 1000
        requests = [Request(body=trace.SerializeToString()) for trace in traces]
        if logs is not None:
            record = a_log(day, trace=logs, span=100 * logs, at_ns=START_NS + day * DAY_NS)
            requests.append(Request(body=a_log_export(record).SerializeToString(), signal=LOGS))
        commit(self.store, *(decode([request], received_at_us=received_at_us).batch for request in requests))
        self.settle()

    def settle(self) -> None:
        """Let all traces be added up and decided."""
        with reading_and_matching(self.store, self.in_force) as wait:
            assert wait()
            self.clock.pass_s(3700)
            assert wait()
        self.judge()

    def judge(self) -> None:
        """Store a result of each job that waits."""
        write(self.store, _JUDGE)
        write(
            self.store,
            "UPDATE result_state SET last_number = greatest(last_number, (SELECT max(number) FROM evaluation))",
        )
        write(self.store, "DELETE FROM job")

    def publish(self) -> dict[str, pa.Table]:
        """Publish all, and return the rows as one."""
        publish_all(self.lake)
        return rows_as_one(self.store, self.place)

    def mover(self, day: int, hot_days: int = 1) -> LakeMover:
        """Return what moves traces on a day."""
        now_ns = START_NS + day * DAY_NS
        return LakeMover(self.store.lake_upkeep(self.lake), self.store.moving, hot_days=hot_days, clock=lambda: now_ns)

    def move(self, day: int) -> None:
        """Move what is due on a day, of which the one before is hot."""
        self.mover(day).move(lambda: False)

    def hot(self) -> list[int]:
        """Return the numbers of the traces that are in the database."""
        ids = rows(self.store, "SELECT DISTINCT trace_id FROM trace_part ORDER BY trace_id")
        return [int(str(each), 16) - 1 for (each,) in ids]


_JUDGE = """
    INSERT INTO evaluation BY NAME
    SELECT job_id, revision, seq, tenant, project, trace_id, span_id, round, 'tone' AS name, 'scored' AS outcome,
        0.5 AS score, true AS passed, 1 AS attempts, now()::TIMESTAMP AS created_at, 'f' AS fingerprint,
        (SELECT last_number FROM result_state) + row_number() OVER (ORDER BY job_id) AS number
    FROM job
"""


@contextmanager
def days(directory: Path, place: Place) -> Iterator[Days]:
    """Open a store whose traces come day by day."""
    clock = Clock()
    in_force = InForce(rules=RULES, clock=clock)
    with a_store(directory) as store:
        store.moving.doubt = lambda: None  # the clock of these tests is set
        if not rows(store, "SELECT 1 FROM rule_revision"):
            remember(store, *RULES)
        yield Days(store=store, place=place, lake=store.lake(place.uri), clock=clock, in_force=in_force)


def a_trace(number: int, day: int, *, spans: int = 3, first: int = 0) -> ExportTraceServiceRequest:
    """Build a trace of a day, which calls tools."""
    export = an_export(spans, trace=number, first=100 * number + first, start_ns=START_NS + day * DAY_NS)
    for span in export.resource_spans[0].scope_spans[0].spans:
        for name, value in {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add"}.items():
            span.attributes.add(key=name).value.string_value = value
    return export


def same(one: dict[str, pa.Table], other: dict[str, pa.Table]) -> None:
    """Check that two states have the same rows."""
    for table in MOVED:
        assert one[table.name].to_pylist() == other[table.name].to_pylist(), table.name


def test_traces_move_and_no_row_is_lost_or_double(place: Place, tmp_path: Path) -> None:
    """Rows here and in the lake together are those of before, in each table, by number and value; old ones left."""
    with days(tmp_path / "data", place) as made:
        made.send(0, a_trace(0, 0), a_trace(1, 0), logs=0)
        made.send(1, a_trace(2, 1))
        made.send(2, a_trace(3, 2), logs=3)
        before = made.publish()
        assert all(before[table.name].num_rows for table in MOVED if table.name != "superseded")
        for day, hot in ((2, [2, 3]), (3, [3]), (4, [])):
            made.move(day)
            assert made.hot() == hot
            same(before, rows_as_one(made.store, place))
        for table in MOVED:
            assert rows(made.store, f"SELECT count(*) FROM {table.name}") == [(0,)], table.name
        assert rows(made.store, "SELECT sum(scored) FROM evaluation_day") == [(before["evaluation"].num_rows,)]
        assert made.store.moving.counts == {"traces": 4, "spans": 12}


def test_nothing_moves_before_it_is_published(place: Place, tmp_path: Path) -> None:
    """A trace of which any table has an unpublished row stays, and moves the next time."""
    with days(tmp_path / "data", place) as made:
        made.send(0, *(a_trace(number, 0) for number in range(8)))
        made.send(1, a_trace(8, 1))
        publish_all(made.lake)
        for number, table in enumerate(MOVED):
            column = table.number
            value = (
                "nextval('write_number')" if column == "write_number" else "(SELECT max(number) + 1 FROM evaluation)"
            )
            where = f"trace_id = '{trace_id(number)}'"
            if table.name == "decision":
                where = f"seq IN (SELECT seq FROM span WHERE {where})"
            if table.name == "superseded":
                job = f"(SELECT min(job_id) FROM evaluation WHERE {where})"
                write(made.store, f"INSERT INTO superseded (job_id, superseded_at) VALUES ({job}, now()::TIMESTAMP)")
            elif table.name == "log_record":
                made.send(0, logs=number)
            else:
                row = f"(SELECT min(rowid) FROM {table.name} WHERE {where})"
                write(made.store, f"UPDATE {table.name} SET {column} = {value} WHERE rowid = {row}")
        made.move(2)
        assert made.hot() == list(range(9))
        before = made.publish()
        made.move(2)
        assert made.hot() == [8]
        same(before, rows_as_one(made.store, place))


@pytest.mark.timeout(900)
@pytest.mark.kill("storage/lake", "storage/upkeep", "collector/live/upkeep")
def test_kills_while_traces_move_lose_no_row(place: Place, tmp_path: Path, seed: int, kills: int) -> None:
    """After kill -9 of what moves, and of the store, rows here and in the lake are those of before; then all move."""
    source = random.Random(seed)
    before: dict[str, pa.Table] = {}
    for kill in range(kills + 1):
        with days(tmp_path / "data", place) as made:
            if before:
                same(before, rows_as_one(made.store, place))
            number = 10 * kill
            made.send(kill, *(a_trace(number + each, kill) for each in range(6)), logs=number)
            publish_all(made.lake)
            made.send(kill, a_trace(number, kill, first=3), a_trace(max(0, number - 30), kill, first=3 * kill))
            before = made.publish()
        if kill < kills:
            move_and_kill(tmp_path / "data", place, source, START_NS + (kill + 2) * DAY_NS, loses_store=kill % 3 == 1)
    with days(tmp_path / "data", place) as made:
        made.move(kills + 3)
        assert made.hot() == []
        same(before, rows_as_one(made.store, place))
        for table in MOVED:
            assert place.rows(table.name).num_rows == before[table.name].num_rows, table.name


def move_and_kill(data: Path, place: Place, source: random.Random, now_ns: int, *, loses_store: bool) -> None:
    """Publish, move and erase in a process that is killed, and the store with it, if it is not done before."""
    command = [sys.executable, "-m", "tests.lake_moving_process", str(data), place.uri, str(now_ns)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"at work\n"
        time.sleep(source.uniform(0, 4))
        if loses_store and place.store is not None:
            place.kill_store()
            time.sleep(source.uniform(0, 1))
        process.kill()
    if loses_store and place.store is not None:
        place.start_store()


def test_traces_that_go_on_are_pinned_or_wait_stay_whole(folder: Place, tmp_path: Path) -> None:
    """A trace with a later part, a pin or a job stays with all of its rows, and moves as a whole once that is over."""
    with days(tmp_path / "data", folder) as made:
        made.send(0, a_trace(0, 0), a_trace(1, 0), a_trace(2, 0), a_trace(3, 0))
        made.store.retention.pin(trace_id(1), now_us=RECEIVED_AT_US)
        write(
            made.store,
            "INSERT INTO job BY NAME SELECT 99 AS job_id, 1 AS revision, 5 AS seq, '' AS tenant, "
            f"'{trace_id(2)}' AS trace_id, 0 AS round, 'ready' AS state, 0 AS attempts, now()::TIMESTAMP AS created_at",
        )
        commit(
            made.store,
            decode(
                [Request(body=a_trace(0, 1, first=3).SerializeToString())],
                received_at_us=RECEIVED_AT_US + DAY_NS // 1000,
            ).batch,
        )
        with reading_and_matching(made.store, made.in_force) as wait:
            assert wait()
            made.clock.pass_s(3700)
            assert wait()
        write(made.store, "DELETE FROM job WHERE job_id <> 99")
        before = made.publish()
        made.move(2)
        assert made.hot() == [0, 1, 2]
        same(before, rows_as_one(made.store, folder))
        made.store.retention.unpin(trace_id(1))
        write(made.store, "DELETE FROM job")
        made.move(3)
        assert made.hot() == []
        same(before, rows_as_one(made.store, folder))
        lake = folder.rows("span")
        assert lake.num_rows == before["span"].num_rows


def test_earlier_versions_of_what_moves_leave_the_lake(place: Place, tmp_path: Path) -> None:
    """Of moved traces that grew, were decided again or got a late log record the lake has the last rows alone."""
    with days(tmp_path / "data", place) as made:
        made.send(0, a_trace(0, 0), a_trace(1, 0))
        publish_all(made.lake)
        made.send(0, a_trace(0, 0, first=3, spans=4))
        publish_all(made.lake)
        made.send(0, logs=1)
        write(
            made.store,
            f"UPDATE span SET input = 'late', write_number = nextval('write_number') WHERE trace_id = '{trace_id(1)}'",
        )
        before = made.publish()
        older = {name: place.rows(name).num_rows for name in ("span", "decision", "trace_reading", "tool_call")}
        assert all(count > before[name].num_rows for name, count in older.items()), older
        made.move(2)
        assert made.hot() == []
        same(before, rows_as_one(made.store, place))
        for table in MOVED:
            assert place.rows(table.name).num_rows == before[table.name].num_rows, table.name


def test_a_trace_that_comes_back_moves_again(folder: Place, tmp_path: Path) -> None:
    """Late spans, log records and results of a trace that moved are here, seen once, and follow it later."""
    with days(tmp_path / "data", folder) as made:
        made.send(0, a_trace(0, 0), a_trace(1, 0))
        made.publish()
        made.move(2)
        assert made.hot() == []
        made.send(2, a_trace(0, 0, first=3), logs=1)
        seq = folder.rows("evaluation").column("seq")[0].as_py()
        write(
            made.store,
            f"INSERT INTO decision (revision, seq, outcome, decided_at) VALUES (3, {seq}, 2, now()::TIMESTAMP)",
        )
        before = made.publish()
        publish_all(made.lake)
        made.send(2, a_trace(0, 0, first=6))  # so that its sums have an earlier version
        before = made.publish()
        assert before["span"].num_rows == 12
        assert before["trace_reading"].num_rows == 3
        for day in (3, 4):
            made.move(day)
            same(before, rows_as_one(made.store, folder))
        for table in MOVED:
            assert rows(made.store, f"SELECT count(*) FROM {table.name}") == [(0,)], table.name
            assert folder.rows(table.name).num_rows == before[table.name].num_rows, table.name


@pytest.mark.parametrize("day", [0, 9])
def test_a_trace_that_moves_twice_is_one_trace(folder: Place, tmp_path: Path, day: int) -> None:
    """A trace that moved has one row in `traces` while later spans of it are here, and once these have moved."""
    with days(tmp_path / "data", folder) as made:
        made.send(0, a_trace(0, 0), a_trace(1, 0))
        made.publish()
        made.move(2)
        made.send(9, a_trace(0, day, first=3), a_trace(2, 9))
        made.publish()
    for moves_on in (9, 11) if day == 0 else (11,):
        with days(tmp_path / "data", folder) as made:
            made.move(moves_on)
        with a_store(tmp_path / "data", lake=folder.uri) as store:
            counted = rows(store, "SELECT trace_id, count(*) FROM traces GROUP BY ALL ORDER BY ALL")
            assert counted == [(trace_id(number), 1) for number in range(3)]
            assert rows(store, "SELECT count(*) FROM spans") == [(12,)]


def test_what_expired_does_not_come_back(folder: Place, tmp_path: Path) -> None:
    """A trace that expired here before it could move is not in the lake once the boundary has passed it."""
    with days(tmp_path / "data", folder) as made:
        made.send(0, a_trace(0, 0), a_trace(1, 0), logs=0)
        made.publish()
        write(
            made.store,
            f"UPDATE trace_part SET expires_at = make_timestamp({RECEIVED_AT_US}) WHERE trace_id = '{trace_id(0)}'",
        )
        assert made.store.retention.sweep(now_us=RECEIVED_AT_US + 1).traces == 1
        before = rows_as_one(made.store, folder)
        made.move(2)
        same(before, rows_as_one(made.store, folder))
        assert set(folder.rows("span").column("trace_id").to_pylist()) == {trace_id(1)}
        assert set(folder.rows("trace_reading").column("trace_id").to_pylist()) == {trace_id(1)}


def test_a_doubtful_clock_and_unmatched_spans_hold_moving_up(folder: Place, tmp_path: Path) -> None:
    """Nothing moves while the clock is in doubt, and no trace that is not matched."""
    with days(tmp_path / "data", folder) as made:
        made.send(0, a_trace(0, 0))
        commit(
            made.store, decode([Request(body=a_trace(1, 0).SerializeToString())], received_at_us=RECEIVED_AT_US).batch
        )
        made.publish()
        made.store.moving.doubt = lambda: "the clock is in doubt"
        with pytest.raises(Unpublished, match="the clock is in doubt"):
            made.move(2)
        made.store.moving.doubt = lambda: None
        made.move(2)
        assert made.hot() == [1]


def test_a_restored_directory_reads_what_had_moved(folder: Place, tmp_path: Path) -> None:
    """It has each trace of the backup once, before and after these move under its name, and none that came later."""
    with days(tmp_path / "data", folder) as made:
        made.send(0, a_trace(0, 0), a_trace(1, 0))
        made.publish()
        made.move(2)
        made.send(3, a_trace(2, 3))
        made.publish()
    assert run("backup", tmp_path / "backup", "--data", tmp_path / "data").exit_code == 0
    with days(tmp_path / "data", folder) as made:
        made.send(4, a_trace(3, 4))
        made.publish()
        made.move(6)
        assert made.hot() == []
    assert run("restore", tmp_path / "backup", "--data", tmp_path / "new").exit_code == 0
    traces = "SELECT trace_id, count(*) FROM spans GROUP BY ALL ORDER BY ALL"
    expected = [(trace_id(number), 3) for number in range(3)]
    with a_store(tmp_path / "new", lake=folder.uri) as store:
        assert rows(store, traces) == expected
    with days(tmp_path / "new", folder) as made:
        made.publish()
        assert made.hot() == [2]
        whole = rows_as_one(made.store, folder)
        made.move(6)
        assert made.hot() == []
        same(whole, rows_as_one(made.store, folder))
    with a_store(tmp_path / "new", lake=folder.uri) as store:
        assert rows(store, traces) == expected
        assert rows(store, "SELECT trace_id, count(*) FROM traces GROUP BY ALL ORDER BY ALL") == [
            (trace, 1) for trace, _ in expected
        ]
    shutil.rmtree(folder.uri)
    with (
        a_store(tmp_path / "new", lake=folder.uri) as store,
        pytest.raises(Overloaded, match="lacks traces that moved"),
    ):
        rows(store, traces)
    assert run("backup", tmp_path / "again", "--data", tmp_path / "new").exit_code == 0
    assert run("restore", tmp_path / "again", "--data", tmp_path / "newer").exit_code == 0
    with a_store(tmp_path / "newer") as store, pytest.raises(Unpublished, match="lacks traces that moved"):
        publish_all(store.lake(folder.uri))
    restored = run("restore", tmp_path / "again", "--data", tmp_path / "newest", "--without-lake")
    assert restored.exit_code == 0
    with a_store(tmp_path / "newest", lake=folder.uri) as store:
        assert rows(store, traces) == []
        publish_all(store.lake(folder.uri))


def test_what_the_original_stores_later_is_not_of_a_restored_directory(folder: Place, tmp_path: Path) -> None:
    """Of jobs and traces that both have under the same numbers and ids, each reads its own results and sums alone."""
    with days(tmp_path / "data", folder) as made:
        made.send(0, a_trace(0, 0))
        made.publish()
        made.move(2)
    assert run("backup", tmp_path / "backup", "--data", tmp_path / "data").exit_code == 0
    assert run("restore", tmp_path / "backup", "--data", tmp_path / "new").exit_code == 0
    with days(tmp_path / "new", folder) as made:
        made.send(3, a_trace(1, 3))
        jobs = set(rows(made.store, "SELECT job_id FROM evaluation"))
        made.publish()
        made.move(6)
    with days(tmp_path / "data", folder) as made:
        made.send(3, a_trace(2, 3), a_trace(1, 3))
        assert set(rows(made.store, "SELECT job_id FROM evaluation")) > jobs
        marks = "SELECT job_id, now()::TIMESTAMP AS superseded_at FROM evaluation"
        write(made.store, f"INSERT INTO superseded (job_id, superseded_at) {marks}")
        made.publish()
    with a_store(tmp_path / "new", lake=folder.uri) as store:
        assert rows(store, "SELECT trace_id FROM traces ORDER BY ALL") == [(trace_id(0),), (trace_id(1),)]
        counted = rows(store, "SELECT count(*), count(*) FILTER (superseded) FROM evaluations")
        assert counted == [(len(jobs) * 2, 0)]


@pytest.mark.parametrize("instead", ["empty", "foreign", "older"])
def test_a_lake_that_lacks_what_moved_is_refused(
    folder: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instead: str
) -> None:
    """In another lake, or an older state, nothing is published, moved, read or erased until the right one is back."""
    monkeypatch.setattr("storage.lake.cold_files._STALE_S", 0)
    data, lake_folder = tmp_path / "data", Path(folder.uri)
    with days(data, folder) as made:
        made.send(0, a_trace(0, 0))
        made.publish()
        shutil.copytree(lake_folder, tmp_path / "older")
        made.send(1, a_trace(1, 1))
        before = made.publish()
        made.move(3)
        assert made.hot() == []
    lake_folder.rename(tmp_path / "whole")
    if instead == "older":
        shutil.copytree(tmp_path / "older", lake_folder)
    if instead == "foreign":
        with a_store(tmp_path / "other") as other:
            commit(other, a_batch(an_export(3)))
            publish_all(other.lake(folder.uri))
    state = files_of(folder)
    with a_store(data, lake=folder.uri) as store:
        store.moving.doubt = lambda: None
        lake = store.lake(folder.uri)
        mover = LakeMover(store.lake_upkeep(lake), store.moving, hot_days=1, clock=lambda: START_NS + 5 * DAY_NS)
        commit(store, a_batch(an_export(3, trace=2, first=20)))
        refusal = r"lacks traces that moved to the lake.* restore the right one"
        with pytest.raises(Unpublished, match=refusal):
            lake.check()
        for table in LAKE_TABLES:
            with suppress(Unpublished):  # for some, an older state is enough
                lake.load(table)
        with pytest.raises(Unpublished, match=refusal):
            publish_all(lake)
        with pytest.raises(Unpublished, match=refusal):
            mover.move(lambda: False)
        with pytest.raises(Overloaded, match=r"the lake cannot be read now .*lacks traces that moved"):
            rows(store, "SELECT count(*) FROM spans")
        deletion = store.deletions.request(DeletionCriteria(project="shop"), now_us=RECEIVED_AT_US)
        with pytest.raises(Overloaded, match=r"the lake may hold what was deleted: .*lacks traces that moved"):
            erase_all(store)
        assert store.deletions.open() == [store.deletions.find(deletion.deletion_id)]
        assert files_of(folder) == state
        shutil.rmtree(lake_folder, ignore_errors=True)
        (tmp_path / "whole").rename(lake_folder)
        assert rows(store, "SELECT count(*) FROM spans") == [(before["span"].num_rows,)]
        publish_all(lake)
        erase_all(store)
        assert folder.rows("span").num_rows == 0


def test_the_place_may_be_another_until_something_has_moved(folder: Place, tmp_path: Path) -> None:
    """All rows are published in the new place, if everything that was due had to stay so far."""
    with days(tmp_path / "data", folder) as made:
        made.send(0, a_trace(0, 0))
        write(made.store, f"INSERT INTO trace_pin VALUES ('', '{trace_id(0)}', 'hand', now())")
        made.publish()
        mover = made.mover(3)
        mover.move(lambda: False)
        assert made.hot() == [0]
        assert mover.lake.moved_before() is None
        other = Place(uri=str(tmp_path / "other"), env={})
        lake = made.store.lake(other.uri)
        lake.check()
        publish_all(lake)
        compare(made.store, other)
        write(made.store, "DELETE FROM trace_pin")
        LakeMover(made.store.lake_upkeep(lake), made.store.moving, hot_days=1, clock=mover._clock).move(lambda: False)
        assert made.hot() == []
        assert moved_to_lake(made.store._database) == (dt.date(2026, 11, 23), 1, 3)


@pytest.mark.parametrize(
    "place, problem",
    [
        ("data", "within the data directory"),
        ("data/lake", "within the data directory"),
        ("file", "is not a directory"),
        ("file/lake", "is not a directory"),
        ("/proc/nope", "cannot be made"),
    ],
)
def test_a_place_that_can_never_be_a_lake_ends_the_start(tmp_path: Path, place: str, problem: str) -> None:
    """The data directory, a folder in it, a file, and a folder that cannot exist are refused with the remedy."""
    (tmp_path / "file").touch()
    uri = str(tmp_path / place)
    with pytest.raises(Unusable, match=f"lake: .*{problem}.*; set it to "), a_store(tmp_path / "data", lake=uri):
        pass
    assert not (tmp_path / "data" / "lake").exists()


def files_of(place: Place) -> set[Path]:
    """Return all files of a lake."""
    return {path for path in Path(place.uri).rglob("*") if path.is_file()}


def test_for_lack_of_room_traces_move_early_and_none_is_deleted(folder: Place, tmp_path: Path) -> None:
    """A sweep by size lets traces move that would be hot; what cannot move stays until it can, with the reason."""
    with days(tmp_path / "data", folder) as made:
        made.send(0, *(a_trace(number, 0) for number in range(4)))
        made.send(3, a_trace(4, 3), a_trace(5, 3))
        now = "now()::TIMESTAMP"
        write(made.store, f"INSERT INTO trace_open VALUES ('', '{trace_id(5)}', {now}, {now}, false, 3, 0)")
        before = made.publish()
        now_ns = START_NS + 3 * DAY_NS
        upkeep = made.store.lake_upkeep(made.lake)
        mover = LakeMover(upkeep, made.store.moving, hot_days=7, max_bytes=1, clock=lambda: now_ns)
        retention = made.store.retention
        retention.note_size = mover.note_size
        assert retention.due(now_us=RECEIVED_AT_US, max_bytes=1).over_spans == 0
        assert retention.sweep(now_us=RECEIVED_AT_US, max_bytes=1).traces == 0
        assert "under way" in str(mover.shortage)
        mover.move(lambda: False)
        assert made.hot() == [5]
        same(before, rows_as_one(made.store, folder))
        assert retention.sweep(now_us=RECEIVED_AT_US, max_bytes=1).traces == 0
        assert "larger than max_bytes: traces stay that are pinned, not settled" in str(mover.shortage)
        write(made.store, "DELETE FROM trace_open")
        mover.move(lambda: False)
        assert made.hot() == []
        same(before, rows_as_one(made.store, folder))
        retention.sweep(now_us=RECEIVED_AT_US)
        assert mover.shortage is None


def test_a_full_disk_does_not_stop_what_makes_room(folder: Place, tmp_path: Path) -> None:
    """Traces are published and move while the disk has room for spans alone."""
    with days(tmp_path / "data", folder) as made:
        made.send(0, a_trace(0, 0))
        made.store._writer.kept_free_bytes = 1 << 62
        before = made.publish()
        made.move(2)
        assert made.hot() == []
        same(before, rows_as_one(made.store, folder))


def test_a_lack_of_room_outlasts_a_daily_move(folder: Place, tmp_path: Path) -> None:
    """A need of room that arises in a daily move stops its merging, and is met by the next move."""
    with days(tmp_path / "data", folder) as made:
        made.send(0, a_trace(0, 0))
        made.send(3, a_trace(1, 3))
        made.publish()
        now_ns = START_NS + 3 * DAY_NS
        upkeep = made.store.lake_upkeep(made.lake)
        mover = LakeMover(upkeep, made.store.moving, hot_days=1, max_bytes=1, clock=lambda: now_ns)

        def looks() -> bool:
            mover.note_size(is_too_large=True)
            return False

        mover.move(looks)
        assert made.hot() == [1]
        assert upkeep.size is None
        mover.move(lambda: False)
        assert made.hot() == []
        assert upkeep.size is not None


def test_the_boundary_never_goes_back(folder: Place, tmp_path: Path) -> None:
    """More hot days, or a clock that is behind, leave the boundary where it is."""
    with days(tmp_path / "data", folder) as made:
        made.send(0, a_trace(0, 0))
        made.send(3, a_trace(1, 3))
        before = made.publish()
        made.move(5)
        boundary = rows(made.store, "FROM lake_boundary")
        made.mover(5, hot_days=4).move(lambda: False)
        assert rows(made.store, "FROM lake_boundary") == boundary
        assert boundary[0][1] == dt.date(2026, 11, 25)
        same(before, rows_as_one(made.store, folder))
