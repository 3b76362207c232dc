"""Reading of the lake: what moved there is read as if it had stayed, by every way that leads to it."""

import datetime as dt
import itertools
import random
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from collector.app import Running
from collector.sample import SampleReport, send_sample
from storage import sql
from storage.engine.arrow import arrow_table
from storage.errors import BadQuery, Overloaded, Reopened
from storage.lake.catalog import COLD_TABLES
from storage.lake.cold_files import DAY_NS
from storage.lake.scans import Scan, scans_of
from storage.query.listing import Listing, ListPosition
from storage.query.query_options import QueryOptions
from storage.query.trace_criteria import TraceCriteria
from storage.store import Store
from tests.attacks import ATTACKS, HIDDEN
from tests.lake import MOVED, Place, a_place, publish_all, publish_in_the_end, rows_as_one
from tests.live import until
from tests.log_requests import a_log, a_log_batch, a_log_export, some_logs
from tests.matching import active, adding_up, remember, write
from tests.serving import a_server, post, run
from tests.storing import START_NS, WAIT_S, a_batch, a_store, an_export, commit, rows, trace_id

pytestmark = pytest.mark.costly("storage/lake", "storage/queries", "storage/query", "storage/views", "storage/engine")

RULE = """
name: judged
conditions:
  - {field: name, op: contains, value: tool}
evaluator: regex
config: {pattern: x}
"""
PATHS = (
    "/jaeger/api/services",
    "/jaeger/api/traces?service=support-agent&limit=10",
    "/api/v1/traces?rule=judged",
    "/api/v1/traces?size=2&text=a&status=ok",
    "/api/v1/traces?attribute=gen_ai.operation.name%3Dchat",
    "/api/v1/sessions?size=1",
    "/api/v1/quality?rule=judged&days=30",
    "/api/v1/quality?rule=judged&days=30&by=release",
    "/api/v1/jobs",
    "/api/v1/export/spans?from=2020-01-01T00:00:00Z&to=2100-01-01T00:00:00Z&format=otlp-json",
)
RESULTS = """
INSERT INTO evaluation
    (job_id, revision, seq, tenant, trace_id, round, "name", outcome, score, attempts, created_at, number)
SELECT seq, 1, seq, tenant, trace_id, 0, 'n', 'scored', 0.5, 1, received_at, seq FROM span
"""
DECISIONS = "INSERT INTO decision (revision, seq, outcome, decided_at) SELECT 1, seq, 2, received_at FROM span"
DOCS = Path(__file__).parent.parent / "docs"
SHOWING = ("SELECT getvariable('lake') FROM spans", "FROM duckdb_settings()", "FROM duckdb_databases()")
ROWS = 20
TRACES = 12
WITH_TEXT = [trace_id(number) for number in reversed(range(1, TRACES, 2))]
FAR_FUTURE, LATEST_NS = "2100-01-01", 4_102_444_800_123_456_789
PLACED: dict[str, Callable[[int], Any]] = {
    "tenant": lambda _: "",
    "trace_id": lambda _: trace_id(0),
    "trace_key": lambda number: number,
    "last_start_time": lambda _: LATEST_NS,  # nothing that moved started later
    "batch": lambda number: number,
    "seq": lambda number: number,
    "number": lambda number: number + 1,
    "job_id": lambda number: number,
}


@pytest.fixture(params=["file", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Yield a lake in a directory, and one in an object store."""
    with a_place(request.param, tmp_path / "place") as made:
        yield made


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield a store whose only trace is in the lake alone."""
    path = tmp_path_factory.mktemp("moved")
    with a_store(path / "data", lake=str(path / "lake")) as store:
        commit(store, a_batch(an_export(3)))
        move(store, str(path / "lake"), [trace_id(0)])
        yield store


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Place]:
    """Yield a lake in a directory."""
    with a_place("file", tmp_path / "place") as made:
        yield made


def bound(store: Store, lake: str, day: str = FAR_FUTURE) -> int:
    """Publish everything, and let the boundary be after it; return the number of the first span behind it."""
    publish_in_the_end(store, lake)
    ((batch, seq),) = rows(store, "SELECT (SELECT max(batch) FROM trace_part) + 1, (SELECT max(seq) FROM span) + 1")
    write(store, "DELETE FROM lake_boundary")
    write(
        store,
        "INSERT INTO lake_boundary SELECT DISTINCT directory_id, $day::DATE, $batch, $seq, 1, 1 FROM lake_position",
        {"day": day, "batch": batch, "seq": seq},
    )
    assert isinstance(seq, int)
    return seq


def move(store: Store, lake: str, trace_ids: list[str], day: str = FAR_FUTURE) -> None:
    """Leave some traces to the lake alone."""
    seq = bound(store, lake, day)
    ids = ", ".join(f"'{trace_id}'" for trace_id in trace_ids)
    sums = sql.query("sum_evaluations").replace("$by_day", sql.select_of("evaluation_by_day"))
    sums = sums.replace("SELECT seq FROM leaving_spans", f"SELECT seq FROM span WHERE trace_id IN ({ids})")
    write(store, sums, {"first_seq": 0, "last_seq": seq})
    of_spans = f"SELECT seq FROM span WHERE trace_id IN ({ids})"
    write(store, f"DELETE FROM superseded WHERE job_id IN (SELECT job_id FROM evaluation WHERE trace_id IN ({ids}))")
    write(store, f"DELETE FROM decision WHERE seq IN ({of_spans})")
    for table in COLD_TABLES:
        if table not in {"superseded", "decision"}:
            write(store, f"DELETE FROM {table} WHERE trace_id IN ({ids})")


def a_filled(server: Running) -> SampleReport:
    """Send a sample with logs, and wait for its sums and results."""
    report = send_sample(grpc=server.grpc, otlp_http=server.otlp_http)
    records = [a_log(number, trace=int(report.trace_ids[number], 16) - 1) for number in range(3)]
    post(f"http://{server.otlp_http}/v1/logs", a_log_export(*records).SerializeToString())
    assert server.store.wait_committed(WAIT_S)
    assert server.traces.wait_idle(WAIT_S)
    assert server.pipeline.matcher.wait_matched(WAIT_S)
    counts = "SELECT (SELECT count(*) FROM decision) > 0, (SELECT count(*) FROM job)"
    until(lambda: rows(server.store, counts), lambda counts: counts == [(True, 0)])
    return report


def examples() -> list[str]:
    """Return the statements of the documentation."""
    blocks = [
        block
        for page in sorted(DOCS.glob("*.md"))
        for block in re.findall(r"```sql\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    ]
    return [statement.strip() for block in blocks for statement in block.split(";\n") if statement.strip()]


def answers(server: Running, trace_ids: list[str]) -> dict[str, Any]:
    """Return the answers to everything that reads traces."""
    answered: dict[str, Any] = {}
    with httpx.Client(base_url=f"http://{server.http}", trust_env=False, timeout=60) as client:
        for view in sql.documented_views():
            body = {"sql": f"SELECT * FROM {view} ORDER BY ALL"}
            answer = client.post("/api/v1/sql", json=body)
            assert answer.status_code == 200, (view, answer.text)
            answered[view] = answer.json()
        for statement in examples():
            answer = client.post("/api/v1/sql", json={"sql": statement})
            body = answer.json()
            answered[statement] = sorted(map(str, body["rows"])) if answer.status_code == 200 else body["detail"]
        assert sum(isinstance(answered[statement], list) for statement in examples()) > 20
        paths = ["/api/v1/traces", "/api/v1/sessions", *PATHS]
        for trace_id in trace_ids:
            paths += [f"/api/v1/traces/{trace_id}", f"/api/v1/traces/{trace_id}/otlp", f"/jaeger/api/traces/{trace_id}"]
        paths += [f"/api/v1/sessions/{session}" for (session,) in rows(server.store, "SELECT session_id FROM sessions")]
        for path in paths:
            answer = client.get(path)
            assert answer.status_code == 200, (path, answer.text)
            answered[path] = answer.text
    return answered


def test_what_moved_answers_as_before(place: Place, tmp_path: Path) -> None:
    """Each view, list, trace, session, export and Jaeger answer is the same with all traces here and most moved."""
    (rules := tmp_path / "rules").mkdir()
    (rules / "judged.yaml").write_text(RULE, encoding="utf-8")
    with a_server(tmp_path / "data", lake=place.uri, lake_interval_seconds=3600, rules=rules) as server:
        ids = list(a_filled(server).trace_ids)
        before = answers(server, ids)
        move(server.store, place.uri, ids[1:])
        assert len(rows(server.store, "SELECT DISTINCT trace_id FROM tracejury.span")) == 1
        after = answers(server, ids)
    assert [name for name, answer in before.items() if after[name] != answer] == []


@pytest.fixture(scope="module")
def days_apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield a store with a trace for each of twelve days, every second one with a text, all but the newest moved."""
    path = tmp_path_factory.mktemp("days")
    with a_store(path / "data", lake=str(path / "lake")) as store:
        for number in range(TRACES):
            export = an_export(2, trace=number, first=2 * number, start_ns=START_NS + number * DAY_NS)
            value = export.resource_spans[0].scope_spans[0].spans[1].attributes.add(key="said").value
            value.string_value = "no such PARCEL" if number % 2 else "found it"
            commit(store, a_batch(export))
        move(store, str(path / "lake"), [trace_id(number) for number in range(TRACES - 2)])
        yield store


def test_a_text_is_found_in_the_lake_page_by_page(days_apart: Store) -> None:
    """Pages of a search lead from the newest trace with the text to the oldest, here and in the lake, each once."""
    assert listed(days_apart.listing, TraceCriteria(text="such parcel"), within_s=60) == WITH_TEXT
    between = TraceCriteria(text="such parcel", from_ns=START_NS + 3 * DAY_NS, to_ns=START_NS + 7 * DAY_NS)
    assert listed(days_apart.listing, between, within_s=60) == [trace_id(5), trace_id(3)]
    assert listed(days_apart.listing, TraceCriteria(text="nobody wrote this"), within_s=60) == []


def test_a_search_of_the_lake_ends_in_time_and_goes_on(days_apart: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever the time is over, the next page goes on where the search stopped, and in the end all are found."""
    monkeypatch.setattr("storage.query.listing._FIRST_SPANS", 1)
    seconds = itertools.count()
    hurried = Listing(days_apart.listing._database, lambda: float(next(seconds)))
    first = hurried.traces(TraceCriteria(text="nobody wrote this"), limit=1, within_s=0.5)
    assert (first.traces, first.is_full) == ([], False)
    assert START_NS <= (first.searched_to_ns or 0) < START_NS + (TRACES - 2) * DAY_NS  # in the lake
    assert listed(hurried, TraceCriteria(text="such parcel"), within_s=0.5) == WITH_TEXT


@pytest.mark.parametrize("text", [None, "such parcel"])
def test_the_next_trace_leads_from_the_lake_to_the_database(days_apart: Store, text: str | None) -> None:
    """Each step to the newer or the older trace is that of the list, wherever both traces are."""
    criteria = TraceCriteria(text=text)
    ids = WITH_TEXT if text else [trace_id(number) for number in reversed(range(TRACES))]
    traces = days_apart.listing.traces(criteria, limit=TRACES, within_s=60).traces
    assert [trace.trace_id for trace in traces] == ids
    for trace, newer, older in zip(traces, [None, *ids], [*ids[1:], None], strict=False):
        place = ListPosition(start_ns=trace.start_ns, trace_id=trace.trace_id, tenant=trace.tenant)
        following = days_apart.listing.newer(criteria, place, within_s=60)
        assert (following and following.trace_id) == newer
        before = days_apart.listing.traces(criteria, after=place, limit=1, within_s=60).traces
        assert [each.trace_id for each in before] == ([older] if older else [])


def listed(listing: Listing, criteria: TraceCriteria, *, within_s: float) -> list[str]:
    """Return the ids on all pages of a list."""
    ids: list[str] = []
    page = listing.traces(criteria, limit=2, within_s=within_s)
    while True:
        ids += [trace.trace_id for trace in page.traces]
        if page.next is None:
            return ids
        page = listing.traces(criteria, after=page.next, limit=2, within_s=within_s)


def test_while_traces_move_every_view_answers_the_same(folder: Place, tmp_path: Path, seed: int) -> None:
    """Before, between and after the deletions of a move, which come in any order, each view has the same rows."""
    ids = [trace_id(number) for number in range(6)]
    with a_store(tmp_path / "data", lake=folder.uri) as store, adding_up(store) as traces:
        for number in range(6):
            commit(store, a_batch(an_export(3, trace=number, first=10 * number)), a_log_batch(some_logs(2)))
        assert traces.wait_idle(WAIT_S)
        remember(store, active(1))
        write(store, RESULTS)
        write(store, DECISIONS)
        before = views_of(store)
        assert min(map(len, before.values())) > 0
        random.Random(seed).shuffle(ids)
        bound(store, folder.uri)
        assert views_of(store) == before
        for number in range(6):
            move(store, folder.uri, ids[: number + 1])
            assert views_of(store) == before
            for table, whole in rows_as_one(store, folder).items():
                (number_column,) = (each.number for each in MOVED if each.name == table)
                numbers = arrow_of(store, f"SELECT {number_column} FROM {table} ORDER BY ALL").column(0)
                assert numbers.to_pylist() == whole.column(number_column).to_pylist(), table
        assert rows(store, "SELECT count(*) FROM tracejury.span") == [(0,)]


def views_of(store: Store) -> dict[str, list[tuple[object, ...]]]:
    """Return the rows of the views that have rows in the lake."""
    return {
        view: rows(store, f"SELECT * FROM {view} ORDER BY ALL")
        for view in ("spans", "logs", "traces", "evaluations", "decisions")
    }


def test_each_value_comes_back(folder: Place, tmp_path: Path, seed: int) -> None:
    """Rows of any values, nested nanoseconds and unsigned numbers included, are the same when they have moved."""
    source = random.Random(seed)
    with a_store(tmp_path / "data", lake=folder.uri) as store:
        for table in COLD_TABLES:
            write_rows(store, table, source)
        read = {table: f"SELECT * FROM {table} ORDER BY ALL" for table in COLD_TABLES}
        before = {table: arrow_of(store, select) for table, select in read.items()}
        bound(store, folder.uri)
        for table in COLD_TABLES:
            write(store, f"DELETE FROM {table}")
        after = {table: arrow_of(store, select) for table, select in read.items()}
    for table, stored in before.items():
        assert stored.num_rows == ROWS, table
        assert after[table].schema == stored.schema, table
        assert after[table].equals(stored), table


def arrow_of(store: Store, select: str) -> pa.Table:
    """Return rows without loss."""
    with store.queries._database.cursor() as cursor:
        return arrow_table(cursor, select)


def write_rows(store: Store, table: str, source: random.Random) -> None:
    """Store rows of one trace with any values in all columns that say nothing about the place of the row."""
    with store._database.cursor() as cursor:
        schema = arrow_table(cursor, f"FROM {table} LIMIT 0").schema
        required = {row[1] for row in cursor.execute(f"PRAGMA table_info({table})").fetchall() if row[3]}
    names = [name for name in schema.names if name != "write_number"]
    columns = {}
    for name in names:
        least = 0 if name in required else 1
        columns[name] = [
            PLACED[name](number)
            if name in PLACED
            else None
            if least and source.random() < 0.2
            else any_value(schema.field(name).type, source)
            for number in range(ROWS)
        ]
    made = pa.table({name: pa.array(values, schema.field(name).type) for name, values in columns.items()})

    def insert(cursor: duckdb.DuckDBPyConnection) -> None:
        cursor.register("made", made)
        cursor.execute(f"INSERT INTO {table} BY NAME FROM made")

    store._writer.store(insert, 1)


def any_value(kind: pa.DataType, source: random.Random) -> Any:
    """Return a value of a type, among them the least and the greatest."""
    if pa.types.is_integer(kind):
        bits = kind.bit_width - pa.types.is_signed_integer(kind)
        least = -(1 << bits) if pa.types.is_signed_integer(kind) else 0
        return source.choice([least, (1 << bits) - 1, 0, source.randrange(1 << bits)])
    if pa.types.is_timestamp(kind):
        digits = 1 if kind.unit == "ns" else 1000
        return pa.scalar(source.choice([0, 1, -1, LATEST_NS // digits, source.randrange(1 << 50)]), kind)
    if pa.types.is_floating(kind):
        return source.choice([0.0, -0.0, 1e308, 5e-324, float("inf"), source.random()])
    if pa.types.is_boolean(kind):
        return source.random() < 0.5
    if pa.types.is_list(kind):
        return [any_value(kind.value_type, source) for _ in range(source.randrange(3))]
    if pa.types.is_struct(kind):
        return {field.name: any_value(field.type, source) for field in kind}
    if pa.types.is_map(kind):
        return [(f"key {number}", any_value(kind.item_type, source)) for number in range(source.randrange(3))]
    return source.choice(["", "ß\U0001f600", "x" * 300, "\x00 zero", "{}"])


@pytest.mark.parametrize(
    "statement, views_only", [*((each, False) for each in ATTACKS), *((each, True) for each in HIDDEN)]
)
def test_clients_cannot_name_what_the_lake_is_read_by(moved: Store, statement: str, *, views_only: bool) -> None:
    """With traces in the lake, statements that write, read files or other tables are refused as without."""
    with pytest.raises(BadQuery):
        moved.queries.sql(statement, max_rows=10, timeout_s=10, terms=QueryOptions(views_only=views_only))


def test_no_path_of_the_lake_is_shown(moved: Store, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No statement that may be run shows where the files of the lake are, or reads one by its path."""
    (file, *_) = (tmp_path_factory.getbasetemp()).rglob("span/partition_day=*/*.parquet")
    stem = str(file).removesuffix(".parquet")
    ways = (
        "DESCRIBE $",
        "SUMMARIZE $",
        "FROM (DESCRIBE $)",
        "SHOW $",
        "PIVOT $ ON name",
        "UNPIVOT $ ON name",
        "TABLE $",
    )
    for statement in ways:
        for name in (f"'{file}'", f'"{file}"', f'"{stem}".parquet'):
            with pytest.raises(BadQuery):
                rows(moved, statement.replace("$", name))
    for source in (
        f"'{file}'",
        f'"{file}"',
        f'"{stem}".parquet',
        f'"{stem}"."PARQUET"',
        f"read_parquet('{file}')",
        f"parquet_schema('{file}')",
        f"query_table('{file}')",
        f"query_table(['{file}'])",
        f'(WITH "{file}" AS (SELECT 1) FROM "{file}"), \'{file}\'',
        f"spans WHERE EXISTS (FROM '{file}')",
        f"spans WHERE name IN (SELECT name FROM '{file.parent}/*.parquet')",
    ):
        with pytest.raises(BadQuery):
            rows(moved, f"SELECT count(*) FROM {source}")
    for statement in ("FROM duckdb_views()", "EXPLAIN ANALYZE FROM spans", *SHOWING):
        assert str(file.parents[2]) not in str(rows(moved, statement))  # the directory of the lake
    assert rows(moved, "SELECT count(*) FROM spans") == [(3,)]


def test_files_of_another_time_are_not_read(folder: Place, tmp_path: Path) -> None:
    """Statements, lists and exports about a day find their rows although all files of other days are gone."""
    ids = [trace_id(0), trace_id(1)]
    with a_store(tmp_path / "data", lake=folder.uri) as store:
        commit(store, a_batch(an_export(3)))
        publish_all(store.lake(folder.uri))
        earlier = list(Path(folder.uri).rglob("*.parquet"))
        commit(store, a_batch(an_export(3, trace=1, first=10, start_ns=START_NS + DAY_NS)))
        move(store, folder.uri, ids)
        assert rows(store, "SELECT count(*) FROM spans") == [(6,)]
        for file in earlier:
            file.unlink()
        first_ns, end_ns = START_NS + DAY_NS, START_NS + 2 * DAY_NS
        day = "start_time >= TIMESTAMP '2026-11-22' AND start_time < TIMESTAMP '2026-11-23'"
        assert rows(store, f"SELECT count(*) FROM spans WHERE {day}") == [(3,)]
        assert rows(
            store, f"SELECT upper(regexp_replace(name, 's', 't')) FROM spans WHERE {day} ORDER BY ALL LIMIT 1"
        ) == [("TPAN 10",)]
        assert [
            each.trace_id
            for each in store.listing.traces(TraceCriteria(from_ns=first_ns, to_ns=end_ns), limit=9).traces
        ] == [ids[1]]
        assert sum(batch.num_rows for batch in store.exports.rows(first_ns, end_ns, tenant=None)) == 3
        assert sum(batch.num_rows for batch in store.queries.batches(f"FROM spans WHERE {day}", timeout_s=60)) == 3
        with pytest.raises(Reopened, match="a file of the lake is gone"):
            rows(store, "SELECT count(*) FROM spans")


def test_what_stayed_is_read_without_a_plan_or_a_file(
    folder: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists, traces and results of what stayed need neither a plan nor a file, although files also hold what moved."""
    plans: list[str] = []

    def planned(statement: str, *rest: Any) -> list[Scan]:
        plans.append(statement)
        return scans_of(statement, *rest)

    monkeypatch.setattr("storage.lake.reading.scans_of", planned)
    with a_store(tmp_path / "data", lake=folder.uri) as store, adding_up(store) as traces:
        for number in range(3):
            export = an_export(3, trace=number, first=10 * number, start_ns=START_NS + number * DAY_NS)
            commit(store, a_batch(export))
        assert traces.wait_idle(WAIT_S)
        remember(store, active(1))
        write(store, RESULTS)
        publish_in_the_end(store, folder.uri)
        ((batch, seq),) = rows(store, f"SELECT min(batch), min(seq) FROM span WHERE trace_id = '{trace_id(1)}'")
        boundary = "SELECT DISTINCT directory_id, DATE '2026-11-22', $batch, $seq, 1, 3 FROM lake_position"
        write(store, f"INSERT INTO lake_boundary {boundary}", {"batch": batch, "seq": seq})
        for table in ("evaluation", "trace_reading", "span", "trace_part"):
            write(store, f"DELETE FROM {table} WHERE trace_id = '{trace_id(0)}'")
        assert rows(store, "SELECT count(*) FROM spans") == [(9,)]
        for file in Path(folder.uri).rglob("*.parquet"):
            file.unlink()
        plans.clear()
        newest = [trace_id(2), trace_id(1)]
        listed = store.listing.traces(TraceCriteria(), limit=1)
        assert [each.trace_id for each in listed.traces] == newest[:1]
        assert len(store.listing.briefs(listed.traces, listed.commits)) == 1
        assert len(store.listing.named_by_spans(listed.traces, listed.commits)) == 1
        assert [each.trace_id for each in store.queries.newest_traces(limit=2)] == newest
        for each in newest:
            trace, outline = store.queries.trace(each), store.outlines.of_trace(each)
            assert trace is not None
            assert outline is not None
            assert len(trace.spans) == len(outline.spans) == len(store.judgements.of_trace(each).evaluations) == 3
        assert plans == []
        assert rows(store, "SELECT count(*) FROM spans WHERE start_time >= '2026-11-22'") == [(6,)]
        with pytest.raises(Reopened, match="a file of the lake is gone"):
            store.queries.trace(trace_id(0))


def test_what_stayed_is_read_while_the_store_is_away(
    folder: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Questions about the time after the boundary are answered; others are refused, and answered once it is back."""
    monkeypatch.setattr("storage.lake.cold_files._STALE_S", 0)
    with a_store(tmp_path / "data", lake=folder.uri) as store:
        commit(store, a_batch(an_export(3)))
        move(store, folder.uri, [trace_id(0)], day="2026-11-22")
        commit(store, a_batch(*(an_export(1, trace=n, first=10 * n, start_ns=START_NS + DAY_NS) for n in (1, 2))))
    away = Path(folder.uri).rename(tmp_path / "away")
    with a_store(tmp_path / "data", lake=folder.uri) as store:
        assert rows(store, "SELECT count(*) FROM spans WHERE start_time >= TIMESTAMP '2026-11-22 01:00:00'") == [(2,)]
        assert len(store.listing.traces(TraceCriteria(), limit=1).traces) == 1
        assert store.queries.trace(trace_id(1)) is not None
        for question in (lambda: rows(store, "SELECT count(*) FROM spans"), lambda: store.queries.trace(trace_id(0))):
            with pytest.raises(Overloaded, match=r"the lake cannot be read now .* after 2026-11-22"):
                question()
        away.rename(folder.uri)
        assert rows(store, "SELECT count(*) FROM spans") == [(5,)]
        assert store.queries.trace(trace_id(0)) is not None


def test_while_nothing_has_moved_the_lake_is_not_read(folder: Place, tmp_path: Path) -> None:
    """A boundary that no trace has crossed leaves every question to the database, also while the store is away."""
    with a_store(tmp_path / "data", lake=folder.uri) as store:
        commit(store, a_batch(an_export(3)))
        publish_in_the_end(store, folder.uri)
        boundary, _ = store.lake_upkeep(store.lake(folder.uri)).move_boundary(dt.date(2026, 11, 1))
        assert boundary.first_batch > 0
        Path(folder.uri).rename(tmp_path / "away")
        assert rows(store, "SELECT count(*) FROM spans") == [(3,)]
        assert store.queries.trace(trace_id(0)) is not None


def test_a_directory_without_a_server_is_read_with_its_lake(
    folder: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tracejury export` and `tracejury sql` on a data directory read what moved; without the extra they say so."""
    with a_store(tmp_path / "data", lake=folder.uri) as store:
        commit(store, a_batch(an_export(3)))
        move(store, folder.uri, [trace_id(0)])
        commit(store, a_batch(an_export(2, trace=1, first=10)))
    where, env = ("--data", tmp_path / "data"), {"TRACEJURY_LAKE": folder.uri}
    exported = run("export", tmp_path / "out", "--from", "2026-11-20", "--to", "2026-11-25", *where, env=env)
    assert exported.exit_code == 0, exported.output
    assert sum(pq.read_metadata(path).num_rows for path in (tmp_path / "out").rglob("*.parquet")) == 5
    assert "5" in run("sql", "SELECT count(*) FROM spans", *where, env=env).output
    monkeypatch.setitem(sys.modules, "storage.lake.reading", None)
    missing = run("sql", "SELECT count(*) FROM spans", *where, env=env)
    assert (missing.exit_code, "install tracejury[lake]" in missing.output) == (1, True)


def test_a_file_that_is_gone_is_looked_for_again(folder: Place, tmp_path: Path) -> None:
    """After compaction and vacuum, statements of ours and of clients find the rows in the new files."""
    with a_store(tmp_path / "data", lake=folder.uri) as store:
        for number in range(3):
            commit(store, a_batch(an_export(3, trace=number, first=10 * number)))
            publish_all(store.lake(folder.uri))
        move(store, folder.uri, [trace_id(number) for number in range(3)])
        assert rows(store, "SELECT count(*) FROM spans") == [(9,)]
        for table in COLD_TABLES:
            delta = folder.table(table)
            delta.optimize.compact()
            delta.vacuum(0, dry_run=False, enforce_retention_duration=False)
        assert store.queries.trace(trace_id(0)) is not None
        assert rows(store, "SELECT count(*) FROM spans") == [(9,)]
