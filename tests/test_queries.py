"""Questions to the store: traces as a list and by id, and SQL that cannot harm."""

import itertools
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from storage.errors import BadQuery
from storage.query import queries
from storage.query.listing import ListPosition
from storage.query.query_options import CANCELLED, QueryOptions
from storage.query.trace_criteria import TraceCriteria
from storage.records import QueryColumn, Table, TraceSummary
from storage.store import Store
from tests import forking
from tests.attacks import ATTACKS, LETHAL
from tests.live import PATIENCE_S
from tests.source_tree import ROOT
from tests.storing import RECEIVED_AT_US, START_NS, a_batch, a_store, an_export, commit, rows, span_id, trace_id

pytestmark = pytest.mark.costly("collector/conventions", "collector/reading", "storage")

EXPIRES_NS = (RECEIVED_AT_US + 30 * 86_400 * 10**6) * 1000

tenants = (f"tenant {number}" for number in itertools.count())


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield one store for all: each test and each example is a tenant of its own."""
    with a_store(tmp_path_factory.mktemp("data")) as opened:
        commit(opened, a_batch(an_export(3), tenant="sql"))
        yield opened


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """A span that a commit brings."""

    trace: int
    at: int
    root: bool = False
    project: str = "shop"
    failed: bool = False
    ended: bool = True


def deliver(store: Store, commits: list[list[Brought]]) -> tuple[str, list[TraceSummary]]:
    """Commit spans for a new tenant, in these commits; return the tenant, and the expected list of its traces."""
    tenant, number = next(tenants), itertools.count()
    spans_of: dict[int, list[tuple[int, str, Brought]]] = defaultdict(list)
    for brought in commits:
        request = ExportTraceServiceRequest()
        for each in brought:
            name = f"span {next(number)}"
            start_ns = START_NS + each.at * 1000 + len(spans_of[each.trace])  # no two of a trace start together
            spans_of[each.trace].append((start_ns, name, each))
            add_span(request, each, name, start_ns)
        commit(store, a_batch(request, tenant=tenant))
    summaries = [summary_of(trace, tenant, spans) for trace, spans in spans_of.items()]
    return tenant, sorted(summaries, key=lambda summary: (-summary.start_ns, summary.trace_id))


def add_span(request: ExportTraceServiceRequest, brought: Brought, name: str, start_ns: int) -> None:
    """Add a span under a resource of its own."""
    resource_spans = request.resource_spans.add()
    for key, value in (("dokimos.project", brought.project), ("service.name", f"{brought.project} service")):
        resource_spans.resource.attributes.add(key=key).value.string_value = value
    span = resource_spans.scope_spans.add().spans.add(
        trace_id=bytes.fromhex(trace_id(brought.trace)),
        span_id=bytes.fromhex(span_id(int(name.split()[1]))),
        parent_span_id=b"" if brought.root else b"p" * 8,
        name=name,
        start_time_unix_nano=start_ns,
        end_time_unix_nano=start_ns + 500 if brought.ended else 0,
    )
    span.status.code = 2 if brought.failed else 1  # type: ignore[assignment] # an open enum


def summary_of(trace: int, tenant: str, spans: list[tuple[int, str, Brought]]) -> TraceSummary:
    """Compute the summary of a trace from its spans."""
    ordered = sorted(spans, key=lambda span: span[0])
    _, name, named_by = next((span for span in ordered if span[2].root), ordered[0])
    ends = [start_ns + 500 for start_ns, _, brought in spans if brought.ended]
    return TraceSummary(
        trace_id=trace_id(trace),
        tenant=tenant,
        project=named_by.project,
        service_name=f"{named_by.project} service",
        root_name=name,
        start_ns=ordered[0][0],
        end_ns=max(ends, default=None),
        span_count=len(spans),
        error_count=sum(brought.failed for _, _, brought in spans),
        expires_at_ns=EXPIRES_NS,
    )


spans_brought = st.builds(
    Brought,
    trace=st.integers(0, 9),
    at=st.integers(0, 3),
    root=st.booleans(),
    project=st.sampled_from(["shop", "bank"]),
    failed=st.booleans(),
    ended=st.booleans(),
)


@given(
    st.lists(st.lists(spans_brought, min_size=1, max_size=8), min_size=1, max_size=6),
    st.integers(1, 4),
    st.sampled_from([None, "shop", "bank", "none"]),
)
@settings(max_examples=25)
def test_the_list_of_traces_is_right_on_every_page(
    store: Store, commits: list[list[Brought]], limit: int, project: str | None
) -> None:
    """However the spans of traces were spread over commits, paging gives each trace once, newest first, rolled up."""
    tenant, expected = deliver(store, commits)
    expected = [summary for summary in expected if project in {None, summary.project}]
    pages = [
        store.queries.newest_traces(tenant=tenant, project=project, offset=offset, limit=limit)
        for offset in range(0, len(expected) + 1, limit)
    ]
    assert [summary for page in pages for summary in page] == expected
    assert store.queries.newest_traces(tenant=tenant, project=project) == expected


def test_many_parts_do_not_hide_a_trace(store: Store) -> None:
    """A trace that came in thirty commits leaves room on the first page for those that came in one."""
    commits = [[Brought(trace=0, at=2 + number)] for number in range(30)] + [[Brought(trace=1, at=1)]]
    tenant, expected = deliver(store, commits)
    assert store.queries.newest_traces(tenant=tenant, limit=2) == expected
    assert store.queries.newest_traces(tenant=tenant, limit=1, offset=1) == expected[1:]


def test_a_root_that_comes_late_names_its_trace(store: Store) -> None:
    """Until the root comes a trace is named by its first span, and then by the root, wherever it starts."""
    tenant, (before,) = deliver(store, [[Brought(trace=0, at=1, project="bank")]])
    assert store.queries.newest_traces(tenant=tenant) == [before]
    tenant, (after,) = deliver(store, [[Brought(trace=0, at=1, project="bank")], [Brought(trace=0, at=5, root=True)]])
    assert store.queries.newest_traces(tenant=tenant) == [after]
    assert (before.root_name, before.project) == ("span 0", "bank")
    assert (after.root_name, after.project) == ("span 1", "shop")


def test_of_several_roots_the_first_names_the_trace(store: Store) -> None:
    """A trace with two roots has the name and the project of the one that starts first, in whatever order they came."""
    late, early = Brought(trace=0, at=5, root=True), Brought(trace=0, at=1, root=True, project="bank")
    for commits in ([[late], [early]], [[early], [late]], [[late, early]]):
        tenant, expected = deliver(store, commits)
        assert store.queries.newest_traces(tenant=tenant) == expected
        assert [summary.project for summary in expected] == ["bank"]


def test_a_trace_of_unfinished_spans_has_no_end(store: Store) -> None:
    """The end of a trace is the last end of its spans, and unknown while none has ended."""
    tenant, _ = deliver(store, [[Brought(trace=0, at=1, ended=False)], [Brought(trace=0, at=2, ended=False)]])
    (summary,) = store.queries.newest_traces(tenant=tenant)
    assert summary.end_ns is None
    trace = store.queries.trace(trace_id(0), tenant=tenant)
    assert trace is not None
    assert [span.end_ns for span in trace.spans] == [None, None]


@given(st.lists(st.lists(spans_brought, min_size=1, max_size=8), min_size=1, max_size=4))
@settings(max_examples=12)
def test_a_trace_by_id_has_all_its_spans(store: Store, commits: list[list[Brought]]) -> None:
    """A trace comes with its summary and every span of it, by start time, whichever commits brought them."""
    tenant, expected = deliver(store, commits)
    for summary in expected:
        trace = store.queries.trace(summary.trace_id, tenant=tenant)
        assert trace is not None
        assert trace.summary == summary
        starts = [span.start_ns for span in trace.spans]
        assert starts == sorted(starts)
        assert len({span.span_id for span in trace.spans}) == summary.span_count
        assert {span.trace_id for span in trace.spans} == {summary.trace_id}


def test_a_trace_that_leaves_meanwhile_is_shown_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The queries for one trace share a snapshot, so that a sweep in between removes nothing from the answer."""

    def leave(cursor: duckdb.DuckDBPyConnection) -> None:
        for table in ("span", "trace_part", "log_record"):
            cursor.execute(f"DELETE FROM {table}")

    fetch = queries._first_rows

    def swept_meanwhile(cursor: duckdb.DuckDBPyConnection, select: str, parameters: dict[str, object]) -> pa.Table:
        own._writer.store(leave, 1)
        return fetch(cursor, select, parameters)

    with a_store(tmp_path / "data") as own:
        commit(own, a_batch(an_export(3)))
        monkeypatch.setattr(queries, "_first_rows", swept_meanwhile)
        trace = own.queries.trace(trace_id(0))
        assert trace is not None
        assert [span.resource.attributes["service.name"] for span in trace.spans] == ["shop"] * 3
        assert own.queries.trace(trace_id(0)) is None


def test_an_unknown_trace_is_none(store: Store) -> None:
    """A trace that is not stored, an id that is none, and the trace of another tenant are all nothing."""
    for unknown in (trace_id(4711), "", "no id", "%", trace_id(0).upper() + "'", " " * 32, "-" * 32, "1_" * 16):
        assert store.queries.trace(unknown, tenant="sql") is None
    assert store.queries.newest_traces(tenant="nobody") == []
    assert store.queries.newest_traces(tenant="sql", limit=0) == []
    assert store.queries.newest_traces(tenant="sql", project="nothing") == []


def test_traces_whose_ids_end_alike_are_told_apart(store: Store) -> None:
    """The half of an id by which a trace is looked up need not be its own."""
    ids = [f"{number:016x}{4712:016x}" for number in (0, 1, 2)]
    for identity in ids[:2]:
        export = an_export(2)
        for span in export.resource_spans[0].scope_spans[0].spans:
            span.trace_id = bytes.fromhex(identity)
        commit(store, a_batch(export, tenant="alike"))
    traces = [store.queries.trace(identity, tenant="alike") for identity in ids]
    assert [trace and {span.trace_id for span in trace.spans} for trace in traces] == [{ids[0]}, {ids[1]}, None]
    assert len(store.queries.newest_traces(tenant="alike")) == 2


WRONG = [
    "SELECT",
    "SELECT * FROM nowhere",
    "SELECT nothing",
    "SELEKT 1",
    "SELECT 1/",
    "SELECT 'x'::INTEGER",
    "SELECT error('x')",
]


@pytest.mark.costly("storage/query", "storage/views")
@pytest.mark.parametrize("statement", [*ATTACKS, *WRONG])
def test_sql_refuses_what_is_not_reading(store: Store, statement: str) -> None:
    """Statements that write, touch files, change settings, have effects, are several, or are wrong change nothing."""
    before = rows(store, "SELECT * FROM spans")
    with pytest.raises(BadQuery) as refusal:
        store.queries.sql(statement, max_rows=10, timeout_s=10)
    assert str(refusal.value)
    assert rows(store, "SELECT * FROM spans") == before


ASKING = """
import pathlib, sys
from storage.errors import BadQuery
from storage.store import Store
with Store.open(pathlib.Path(sys.argv[1])) as store:
    try:
        store.queries.sql(sys.argv[2], max_rows=10, timeout_s=10)
    except BadQuery:
        print("refused")
    assert store.queries.sql("SELECT 7 AS n", max_rows=10, timeout_s=10).rows == ((7,),)
"""


@pytest.mark.parametrize("statement", LETHAL)
def test_sql_cannot_kill_the_process(tmp_path: Path, statement: str) -> None:
    """Functions that crash DuckDB or leave it unable to go on are refused, and the next query is answered."""
    program = [sys.executable, "-c", ASKING, str(tmp_path), statement]
    done = forking.run(program, cwd=ROOT, timeout=60)
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr[-2000:]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT count(*) FROM spans",
        "select 1;",
        "  SELECT 1 -- with a comment",
        "FROM spans SELECT name",
        "TABLE spans",
        "VALUES (1), (2)",
        "WITH s AS (SELECT * FROM spans) SELECT count(*) FROM s",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT * FROM n",
        "SELECT * FROM range(5)",
        "SELECT unnest([1, 2])",
        "SELECT * FROM traces ORDER BY start_time DESC LIMIT 3",
        "SELECT name, count(*) FROM spans GROUP BY ALL HAVING count(*) > 0",
        "DESCRIBE spans",
        "SHOW TABLES",
        "SUMMARIZE span",
        "EXPLAIN SELECT * FROM spans",
        "EXPLAIN ANALYZE SELECT * FROM spans",
        "explain (format json) SELECT 1",
        "EXPLAIN (SELECT 1)",
        "SELECT table_name FROM duckdb_tables()",
        "SELECT * FROM information_schema.columns",
        "SELECT * FROM pragma_table_info('span')",
        "SELECT k.value FROM json_each('[1]') AS k",
        "SELECT 'DELETE FROM span; DROP TABLE span'",
        "SELECT query FROM (SELECT 'checkpoint' AS query)",
        "SELECT ';'",
    ],
)
def test_sql_answers_what_reads(store: Store, statement: str) -> None:
    """Every way of reading is allowed, even if its text mentions a forbidden statement."""
    table = store.queries.sql(statement, max_rows=100, timeout_s=10)
    assert table.columns
    assert table.rows


def test_sql_tells_names_and_types(store: Store) -> None:
    """An answer has its columns with DuckDB's names of their types, and its rows."""
    table = store.queries.sql("SELECT 1 AS n, 'x' AS t, NULL AS z, [1.5] AS l", max_rows=10, timeout_s=10)
    assert [(column.name, column.type) for column in table.columns][:2] == [("n", "INTEGER"), ("t", "VARCHAR")]
    assert [column.name for column in table.columns] == ["n", "t", "z", "l"]
    assert len(table.rows) == 1
    assert not table.truncated


def test_sql_keeps_nanoseconds(store: Store) -> None:
    """A start time is answered with all nine digits of its second."""
    table = store.queries.sql(
        "SELECT name, start_time FROM spans WHERE tenant = 'sql' ORDER BY start_time DESC", max_rows=10, timeout_s=10
    )
    assert [str(row[1]) for row in table.rows] == [f"2026-11-21T10:00:00.00000000{number}Z" for number in (2, 1)] + [
        "2026-11-21T10:00:00Z"
    ]


_AT = "make_timestamp_ns(1795255200000000123)"
_TEXT = "2026-11-21T10:00:00.000000123Z"


@pytest.mark.parametrize(
    "expression, value",
    [
        (f"[{_AT}, NULL]", [_TEXT, None]),
        (f"{{'at': {_AT}, 'n': 1}}", {"at": _TEXT, "n": 1}),
        ("NULL::STRUCT(t TIMESTAMP_NS)", None),
        (f"{{'it''s \"odd\"': {_AT}}}", {'it\'s "odd"': _TEXT}),
        (f"MAP {{{_AT}: 1}}", {_TEXT: 1}),
        (f"MAP {{'at': {_AT}, 'not': NULL}}", {"at": _TEXT, "not": None}),
        (f"[{{'x': [[{_AT}]], 'm': MAP {{'a': [{_AT}]}}}}, NULL]", [{"x": [[_TEXT]], "m": {"a": [_TEXT]}}, None]),
        (f"[{_AT}]::TIMESTAMP_NS[1]", [_TEXT]),
    ],
)
def test_sql_keeps_nanoseconds_inside_values(store: Store, expression: str, value: object) -> None:
    """An instant inside an array, a struct or a map, at any depth, is answered with all nine digits."""
    table = store.queries.sql(f"SELECT {expression} AS v, {_AT} AS t", max_rows=10, timeout_s=10)
    assert table.rows == ((value, _TEXT),)


@pytest.mark.parametrize("end", [";", "; /* x */", "; -- x; y", " -- x", "\n;\n-- 'x'\n"])
def test_sql_may_end_in_a_comment(store: Store, end: str) -> None:
    """A semicolon and a comment behind a statement change nothing, also where times are made into texts."""
    table = store.queries.sql(f"-- 'what'\nSELECT {_AT} AS t{end}", max_rows=10, timeout_s=10)
    assert table.rows == ((_TEXT,),)


@pytest.mark.parametrize("max_rows, shown, truncated", [(1, 1, True), (4, 4, True), (5, 5, False), (6, 5, False)])
def test_sql_answers_at_most_so_many_rows(store: Store, max_rows: int, shown: int, truncated: bool) -> None:  # noqa: FBT001
    """An answer with more rows than asked for is cut and says so; one with exactly as many is whole."""
    table = store.queries.sql("SELECT range AS n FROM range(5)", max_rows=max_rows, timeout_s=10)
    numbers = tuple((number,) for number in range(shown))
    assert table == Table(columns=(QueryColumn(name="n", type="BIGINT"),), rows=numbers, truncated=truncated)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT count(*) FROM range(1000000000) AS a, range(1000000000) AS b",
        "SELECT a.range + b.range FROM range(1000000000) AS a, range(1000000000) AS b WHERE a.range + b.range < 0",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n",
        "EXPLAIN ANALYZE SELECT count(*) FROM range(1000000000) AS a, range(1000000000) AS b",
    ],
)
def test_sql_stops_at_its_time_limit(store: Store, statement: str) -> None:
    """A query without end is stopped after its time, with a message that says so, and the next one is answered."""
    started = time.monotonic()
    with pytest.raises(BadQuery, match=r"ran longer than 0\.2 s"):
        store.queries.sql(statement, max_rows=10, timeout_s=0.2)
    assert time.monotonic() - started < 60
    assert rows(store, "SELECT 7") == [(7,)]


def test_an_answer_without_end_is_cut_without_being_computed(store: Store) -> None:
    """The first rows of a huge answer come at once, without the rest being held in memory."""
    started = time.monotonic()
    table = store.queries.sql("SELECT range FROM range(100000000000)", max_rows=3, timeout_s=20)
    assert (table.rows, table.truncated) == (((0,), (1,), (2,)), True)
    assert time.monotonic() - started < 60


def test_sql_that_needs_too_much_memory_is_refused(store: Store) -> None:
    """A query over DuckDB's memory limit fails by itself, and the store goes on."""
    huge = "SELECT length(string_agg(repeat('x', 10000000), '')) FROM range(200)"
    with pytest.raises(BadQuery):
        store.queries.sql(huge, max_rows=10, timeout_s=30)
    commit(store, a_batch(an_export(), tenant="after"))
    assert rows(store, "SELECT count(*) FROM spans WHERE tenant = 'after'") == [(1,)]


def test_a_long_query_does_not_hold_up_commits(store: Store) -> None:
    """While a reader is busy, spans are committed and others see them; the reader sees the state at its start."""
    answers: list[str] = []
    terms = QueryOptions()
    endless = "SELECT count(*) FROM spans AS a, range(10000000000) AS b"

    def read() -> None:
        try:
            store.queries.sql(endless, max_rows=1, timeout_s=PATIENCE_S, terms=terms)
        except BadQuery as error:
            answers.append(str(error))

    reader = threading.Thread(target=read)
    reader.start()
    commit(store, a_batch(an_export(5), tenant="meanwhile"))
    assert rows(store, "SELECT count(*) FROM spans WHERE tenant = 'meanwhile'") == [(5,)]
    assert reader.is_alive()
    terms.stop.ask()
    reader.join()
    assert answers == [CANCELLED]


WISHES = (
    TraceCriteria(),
    TraceCriteria(project="shop"),
    TraceCriteria(service="bank service", is_error=False),
    TraceCriteria(is_error=True),
    TraceCriteria(name="SPAN 1"),
    TraceCriteria(from_ns=START_NS + 1000, to_ns=START_NS + 3000),
)


def is_like(trace: TraceSummary, like: TraceCriteria) -> bool:
    """Apply each filter to the summary."""
    return (
        like.project in {None, trace.project}
        and like.service in {None, trace.service_name}
        and like.is_error in {None, trace.error_count > 0}
        and (like.name or "").lower() in trace.root_name
        and like.from_ns <= trace.start_ns < like.to_ns
    )


@given(
    commits=st.lists(st.lists(spans_brought, min_size=1, max_size=6), min_size=1, max_size=5),
    wish=st.sampled_from(WISHES),
    limit=st.integers(1, 3),
    within_s=st.sampled_from([0.0, 60.0]),
)
@settings(max_examples=40)
def test_pages_of_a_list_are_the_whole_list(
    store: Store, commits: list[list[Brought]], wish: TraceCriteria, limit: int, within_s: float
) -> None:
    """Page after page, even if the time for each is over at once, every matching trace comes once, in order."""
    tenant, everything = deliver(store, commits)
    summaries: list[TraceSummary] = []
    place: ListPosition | None = None
    while True:
        listed = store.listing.traces(wish, after=place, limit=limit, tenant=tenant, within_s=within_s)
        assert len(listed.traces) <= limit
        summaries += listed.traces
        place = listed.next
        if place is None:
            break
    of_tenant = [trace for trace in summaries if trace.tenant == tenant]  # one trace of the store is shared by all
    assert of_tenant == [trace for trace in everything if is_like(trace, wish)]


def test_traces_are_found_by_what_their_spans_say(store: Store) -> None:
    """An attribute of any span, or of its resource, finds a trace, several those that one span has together."""
    first, second = an_export(2, trace=501), an_export(1, trace=502, project="bank")
    for request, values in ((first, ("gold", "1")), (second, ("gold", "2"))):
        span = request.resource_spans[0].scope_spans[0].spans[-1]
        for key, value in zip(("tier", "try"), values, strict=True):
            span.attributes.add(key=key).value.string_value = value
    commit(store, a_batch(first, second, tenant="attributed"))

    def ids(**attributes: str) -> list[str]:
        like = TraceCriteria(attributes={key.replace("_", "."): value for key, value in attributes.items()})
        listed = store.listing.traces(like, limit=9, tenant="attributed", within_s=60)
        return sorted(trace.trace_id for trace in listed.traces)

    assert ids(tier="gold") == [trace_id(501), trace_id(502)]
    assert ids(tier="gold", **{"try": "2"}) == ids(service_name="bank") == [trace_id(502)]
    assert ids(tier="silver") == []


def test_a_trace_is_shown_as_far_as_its_bytes_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of long texts fewer spans are shown, and one at least; the summary counts all of them."""
    export = an_export(50)
    for span in export.resource_spans[0].scope_spans[0].spans:
        span.attributes.add(key="text").value.string_value = "x" * 10_000
    with a_store(tmp_path) as store:
        commit(store, a_batch(export))
        for limit, least, most in ((1, 1, 1), (100_000, 5, 10), (10_000_000, 50, 50)):
            monkeypatch.setattr(queries, "MAX_TRACE_BYTES", limit)
            trace = store.queries.trace(trace_id(0))
            assert trace is not None
            assert least <= len(trace.spans) <= most
            assert trace.summary.span_count == 50
