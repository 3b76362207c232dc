"""Statements that nothing could stop run in processes that can be killed, with the answers that they had before."""

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from storage.child_process import child_environment, start_program
from storage.engine.database import DatabaseOptions
from storage.engine.opening import IS_DUCKDB_2
from storage.errors import BadQuery
from storage.ingest.writer import WriterOptions
from storage.query import plain, query_child, statements
from storage.query.parsing import tree_of
from storage.query.plain import is_plain
from storage.query.query_options import CANCELLED, QueryOptions
from storage.query.relations import relations_of
from storage.query.sql_allowlist import nodes_of
from storage.query.statements import Parameter
from storage.store import Store, StoreOptions
from storage.wire import send
from tests.live import PATIENCE_S, until
from tests.storing import a_batch, an_export, commit

pytestmark = pytest.mark.costly("storage")

AMPLIFYING = [
    "SELECT length(replace(repeat('a', 1000000), 'a', repeat('b', 1000000)))",
    "SELECT length(regexp_replace(repeat('a', 1000000), 'a', repeat('b', 1000000), 'g'))",
    "SELECT length(array_to_string(list_transform(range(1000000), lambda x: repeat('a', 10000)), ''))",
    "SELECT length(repeat(repeat('a', 1000000), 1000000))",
    "SELECT max(len(list_transform(range(1000000), lambda x: list_transform(range(1000000), lambda y: x + y))))",
    "SELECT len(range(1000000000))",
    "SELECT sum(len(list_resize([i], 1000000))) FROM range(2048) t(i)",
    "SELECT sum(length(a)) FROM (SELECT repeat('x', 1000000) || i AS a FROM range(2048) t(i))",
    "WITH RECURSIVE t(s) AS (SELECT 'aaaa' UNION ALL SELECT s || s FROM t) SELECT max(length(s)) FROM t",
    "WITH "
    + ", ".join(f"t{n} AS (SELECT s || s AS s FROM t{n - 1})" for n in range(1, 30)).replace(
        "t1 AS (SELECT s || s AS s FROM t0)", "t1 AS (SELECT 'aaaa' AS s)"
    )
    + " SELECT length(s) FROM t29",
    "SELECT length(string_agg(repeat('x', 1000), '')) FROM range(1000000)",
    "SELECT length(list(i)::VARCHAR) FROM range(100000000) t(i)",
    "SELECT median(i) FROM range(1000000000) t(i)",
    "SELECT length(system.main.repeat('x', 2000000000))",
    "SELECT length(main.repeat('x', 2000000000))",
    "SELECT ('x').repeat(2000000000).length()",
    "SELECT length(printf('%2000000000d', 1))",
    "SELECT length(to_json(list_transform(range(1000000), lambda x: repeat('a', 1000)))::VARCHAR)",
]
ENDLESS = [
    "SELECT levenshtein(repeat('ab', 500000), repeat('cd', 500000))",
    "SELECT editdist3(repeat('ab', 500000), repeat('cd', 500000))",
    "SELECT sum(a.i * b.i) FROM range(10000000) a(i), range(10000000) b(i)",
]
BREAKING = [
    *([] if IS_DUCKDB_2 else ["SELECT reservoir_quantile(-0.0, [])"]),
    "SELECT regexp_extract('a', '(a)', NULL::VARCHAR[])",
    "SELECT x - 1.5 FROM (VALUES ([1]::VARIANT)) AS t(x)",
]
EQUAL = [
    "SELECT count(*), sum(duration_ms), min(start_time) FROM spans",
    "SELECT * FROM spans ORDER BY start_time",
    "SELECT * FROM traces",
    "SELECT s.name, t.span_count FROM spans AS s JOIN traces AS t USING (trace_id) WHERE s.name LIKE '%1%' ORDER BY 1",
    "SELECT s.name, l.body FROM spans AS s LEFT JOIN logs AS l USING (trace_id) WHERE l.body IS NULL ORDER BY 1",
    "WITH some AS (SELECT name AS n FROM spans WHERE name > 'span 3') SELECT a.n, b.n FROM some a, some b ORDER BY ALL",
    "SELECT name, (SELECT count(*) FROM spans AS o WHERE o.name < s.name) FROM spans AS s ORDER BY 1",
    "SELECT name AS start_time FROM spans WHERE start_time >= TIMESTAMP '2020-01-01' ORDER BY 1",
    "SELECT resource_attributes['service.name'], count(*) FROM main.spans GROUP BY ALL",
    "FROM tracejury.spans SELECT name WHERE name = 'span 2'",
    "SELECT s FROM spans s ORDER BY s.name LIMIT 1",
    "SELECT #1 FROM spans ORDER BY 1",
    "SELECT x FROM spans AS t(x, y) ORDER BY 1",
    "SELECT name, name FROM spans NATURAL JOIN (SELECT 'span 1' AS name)",
    "SELECT 1::HUGEINT, 2.50::DECIMAL(9, 3), NULL, true, INTERVAL 1 DAY, TIME '10:00:00', '{\"a\": 1}'::JSON, 'é'",
    "SELECT $number + 1, $text",
    "SELECT name FROM spans WHERE name = $text AND duration_ms < $number",
    "SELECT unnest(['a', 'b']), count(*) FILTER (duration_ms > 0) OVER () FROM spans LIMIT 3",
    "SELECT INTERVAL '2147483647' MONTH, INTERVAL '-2147483648' DAY",
    "EXPLAIN SELECT 1",
    "SELECT nothing FROM spans",
    "SELECT 1 / 0, error('it failed') FROM spans",
]
PARAMETERS: dict[str, Parameter] = {"number": 10_000, "text": "span 2"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield a store with some spans, of which two statements may share 128 MiB."""
    options = StoreOptions(
        database=DatabaseOptions(query_bytes=128 << 20, queries_at_once=2),
        writer=WriterOptions(commit_interval_s=0.001),
    )
    with Store.open(tmp_path_factory.mktemp("apart"), options) as opened:
        commit(opened, a_batch(an_export(7)))
        yield opened


def memory_bytes() -> int:
    """Return the resident memory of this process."""
    (pages,) = Path("/proc/self/statm").read_text().split()[1:2]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("statement", AMPLIFYING, ids=range(len(AMPLIFYING)))
def test_a_statement_that_amplifies_takes_no_memory_of_the_server(store: Store, statement: str) -> None:
    """It fails in a process of its own, whose memory has a limit that the kernel keeps."""
    before = memory_bytes()
    with pytest.raises(BadQuery):
        store.queries.sql(statement, max_rows=1, timeout_s=10)
    assert memory_bytes() - before < 64 << 20
    assert len(store._database._cursors) == 0


@pytest.mark.parametrize("statement", ENDLESS, ids=range(len(ENDLESS)))
def test_a_statement_that_cannot_be_interrupted_ends(store: Store, statement: str) -> None:
    """Its process is killed when its time is over, and no cursor is left."""
    with pytest.raises(BadQuery, match=r"longer than 0\.5 s \(setting sql_seconds\)"):
        store.queries.sql(statement, max_rows=1, timeout_s=0.5)
    assert len(store._database._cursors) == 0


@pytest.mark.parametrize("statement", BREAKING, ids=range(len(BREAKING)))
def test_a_statement_that_breaks_duckdb_breaks_its_own(store: Store, statement: str) -> None:
    """The server's database stays valid, and the next statement is answered."""
    with pytest.raises(BadQuery) as refusal:
        store.queries.sql(statement, max_rows=1, timeout_s=PATIENCE_S)
    assert "Stack Trace" not in str(refusal.value)
    assert store.queries.offences.count == 0
    assert store.queries.sql("SELECT median(1)", max_rows=1, timeout_s=PATIENCE_S).rows == ((1.0,),)


@pytest.mark.parametrize("statement", EQUAL, ids=range(len(EQUAL)))
def test_an_answer_does_not_depend_on_where_it_is_made(
    store: Store, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows, names and types are the same here and apart, with the conditions and columns that are handed over."""

    def answer() -> object:
        values: dict[str, Parameter] = {name: value for name, value in PARAMETERS.items() if f"${name}" in statement}
        try:
            table = store.queries.sql(statement, values, max_rows=100, timeout_s=PATIENCE_S)
            arrow, is_cut = store.queries.arrow(statement, values, max_rows=100, timeout_s=PATIENCE_S)
        except BadQuery as error:
            return str(error).splitlines()[0]
        return table, arrow.schema.names, arrow.num_rows, is_cut

    here = answer()
    monkeypatch.setattr(
        statements, "is_plain", lambda nodes, values: "statements" not in nodes[0] and is_plain(nodes, values)
    )
    apart = answer()
    assert "EXPLAIN" in statement or here == apart


def test_only_what_is_asked_for_is_handed_over() -> None:
    """A relation has the columns that are named, and the rows that its own conditions let through."""
    tree = tree_of(
        "SELECT median(s.duration_ms) FROM spans s JOIN logs l ON s.trace_id = l.trace_id "
        "WHERE s.start_time >= now()::TIMESTAMP - INTERVAL 1 DAY AND l.body = s.name AND s.name LIKE '%x'"
    )
    relations = {each.name: each for each in relations_of(tree, {"spans", "logs"}, lambda nodes: is_plain(nodes, {}))}
    columns = [("start_time", "T"), ("name", "T"), ("duration_ms", "T"), ("input", "T")]
    assert relations["spans"].columns(columns) == columns[:3]
    ((text,),) = duckdb.execute(
        "SELECT json_deserialize_sql($tree::JSON)", {"tree": relations["spans"].tree}
    ).fetchall()
    assert ("start_time" in text, "LIKE" in text or "~~" in text, "body" in text) == (True, True, False)
    ((text,),) = duckdb.execute("SELECT json_deserialize_sql($tree::JSON)", {"tree": relations["logs"].tree}).fetchall()
    assert "start_time" not in text


@pytest.mark.parametrize(
    "statement, expected",
    [
        ("SELECT model, count(*), avg(duration_ms) FROM spans WHERE start_time >= now()::TIMESTAMP GROUP BY 1", True),
        ("SELECT count(*) FROM spans WHERE input ILIKE '%refund%'", True),
        ("SELECT time_bucket(INTERVAL 1 MINUTE, start_time::TIMESTAMP) AS m, count(*) FROM spans GROUP BY m", True),
        ("SELECT left(input, 100), substr(input, 1, 1000), input FROM spans WHERE model = 'x'", True),
        ("SELECT attributes['x'] AS x, length(input) FROM traces WHERE map_contains(attributes, 'x')", True),
        ("SELECT count(*) FROM spans s JOIN logs l USING (trace_id) WHERE s.name = 'x'", True),
        ("SELECT name::VARCHAR, '1'::JSON FROM spans", False),
        ("SELECT input, '[1]'::JSON FROM spans", True),
        ("SELECT attributes['x']::JSON->>'y' FROM spans", False),
        ("SELECT upper(input) FROM spans", False),
        ("SELECT left(input, duration_ms) FROM spans", False),
        ("SELECT substr(input, 1) FROM spans", False),
        ("SELECT json_valid(input) FROM spans", False),
        ("SELECT count(*) FROM spans WHERE input ILIKE '%a text that is longer%'", False),
        ("SELECT md5(a.input) FROM spans a, range(1000) b", False),
        ("SELECT length((SELECT input FROM spans)) FROM spans", False),
        ("SELECT length(first_value(input) OVER ()) FROM spans", False),
        ("SELECT length(reason) FROM evaluations", False),
        ("SELECT count(*) FROM spans a JOIN spans b ON a.input <> b.input", False),
        ("SELECT count(*) FROM spans a JOIN spans b ON a.input IS DISTINCT FROM b.input", False),
        ("SELECT count(*) FROM spans a JOIN spans b USING (trace_id) WHERE a.model <> 'x'", True),
        ("SELECT a_function_of_the_future(input) FROM spans", False),
        ("SELECT main.upper(input) FROM spans", False),
        ("SELECT input LIKE name FROM spans", False),
        ("SELECT input LIKE '%a%b%' FROM spans", False),
        ("SELECT contains(input, name) FROM spans", False),
        ("SELECT a || a || a || a || a FROM spans", False),
        ("SELECT max(input, 1000000) FROM spans", False),
        ("SELECT first(input ORDER BY name) FROM spans", False),
        ("SELECT input::INTEGER[] FROM spans", False),
        ("SELECT list_transform([1], lambda x: x)", False),
        ("SELECT count(*) FROM spans GROUP BY CUBE (" + ", ".join("abcdefghijkl") + ")", False),
        ("WITH a AS (FROM spans), b AS (FROM a, a x, a y, a z), c AS (FROM b, b x, b y, b z, b w) FROM c", False),
        ("SELECT " + ", ".join(f"left(input, {n})" for n in range(20)) + " FROM spans", False),
        ("FROM repeat('x', 1000000)", False),
    ],
)
def test_what_runs_in_the_server_is_bounded(statement: str, *, expected: bool) -> None:
    """Plain dashboards run in the server, and what may amplify, or is not known, runs apart."""
    assert is_plain(nodes_of(tree_of(statement)), {}) is expected


def test_every_function_that_runs_in_the_server_is_one_of_duckdb() -> None:
    """The list has no misspelled name; unlisted functions, such as those of a newer DuckDB, run in another process."""
    known = {name for (name,) in duckdb.execute("SELECT function_name FROM duckdb_functions()").fetchall()}
    grammar = {"current_date", "current_timestamp", "ifnull", "grouping"}
    listed = {*plain._FREE, *plain._SCANS, *plain._CONSTANT, *plain._LIKE, *plain._SOURCES}
    assert listed - known - grammar == set()


def test_a_client_that_leaves_ends_its_process(store: Store) -> None:
    """The statement of a client that has left is ended at once, wherever it is."""
    terms = QueryOptions()
    refusals: list[str] = []

    def ask() -> None:
        with pytest.raises(BadQuery) as refusal:
            store.queries.sql(ENDLESS[0], max_rows=1, timeout_s=3600, terms=terms)
        refusals.append(str(refusal.value))

    thread = threading.Thread(target=ask)
    thread.start()
    until(lambda: len(store.queries._apart._all) - len(store.queries._apart._idle), lambda busy: busy == 1)
    terms.stop.ask()
    thread.join()
    assert refusals == [CANCELLED]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT current_setting('temp_directory')",
        "SELECT current_setting('secret_directory')",
        "SELECT system.main.current_setting('allowed_directories')",
        "SELECT current_setting(name) FROM (VALUES ('temp_directory')) AS t(name)",
        "SELECT current_setting('TEMP' || '_directory')",
        "SELECT current_setting($name)",
        "FROM duckdb_settings()",
        "FROM duckdb_databases()",
        "FROM duckdb_temporary_files()",
        "FROM pragma_database_size()",
        "FROM pg_catalog.pg_settings",
        "FROM pg_settings",
        "SELECT getenv('HOME')",
    ],
)
def test_who_reads_reads_no_path(store: Store, statement: str) -> None:
    """A key with read permission is refused the settings, and all else that reveals the paths of files."""
    values = {"name": "temp_directory"} if "$name" in statement else {}
    with pytest.raises(BadQuery):
        store.queries.sql(statement, values, max_rows=9, timeout_s=PATIENCE_S, terms=QueryOptions(views_only=True))


def test_harmless_settings_are_told(store: Store) -> None:
    """The time zone is not a secret."""
    query = "SELECT current_setting('TimeZone')"
    assert store.queries.sql(query, max_rows=1, timeout_s=PATIENCE_S).rows == (("UTC",),)


def test_rows_beyond_the_share_of_a_statement_go_to_scratch_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More rows than its memory holds are taken, and no checkpoint invalidates the database that they are in."""
    monkeypatch.chdir(tmp_path)
    columns, batches = range(60), range(70)
    values = ", ".join(f"hash(range + {column}) >> 1" for column in columns)
    with query_child._connect(64 << 20) as connection:
        connection.execute(f"CREATE TABLE t ({', '.join(f'c{column} BIGINT' for column in columns)})")
        for batch in batches:
            connection.execute(f"INSERT INTO t SELECT {values} FROM range({batch * 2048}, {(batch + 1) * 2048})")
        assert connection.execute("SELECT count(*) FROM t").fetchall() == [(2048 * len(batches),)]


def test_rows_for_a_table_that_cannot_be_made_are_taken_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next message of the server is its next request, whichever statement failed."""
    monkeypatch.chdir(tmp_path)
    sent = io.BytesIO()
    for header in ({"into": "t"}, {}):
        send(sent, header, [pa.table({"c": [1]})] if header else [])
    sent.seek(0)
    request = {"tables": [{"name": "t", "columns": [["c", "NO_TYPE"]]}], "isLossless": False}
    with query_child._connect(64 << 20) as connection, pytest.raises(duckdb.Error, match="NO_TYPE"):
        query_child._load_tables(connection, request, sent)
    assert sent.read() == b""


def test_child_processes_have_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the environment a child gets only the variables it needs to run, and no key, password or setting."""
    variables = {"PATH": "/bin", "LC_ALL": "C", "TRACEJURY_API_KEY": "k", "OPENAI_API_KEY": "k", "AWS_SECRET": "k"}
    assert child_environment(variables) == {"PATH": "/bin", "LC_ALL": "C"}
    monkeypatch.setenv("OPENAI_API_KEY", "a key")
    with start_program("import json, os; print(json.dumps(dict(os.environ)))") as process:
        assert process.stdout is not None
        assert "OPENAI_API_KEY" not in json.loads(process.stdout.read())


INTERRUPTED = """
import os, signal, subprocess, sys, time
from storage.child_process import start_program
signal.signal(signal.SIGINT, lambda *_: None)
endless = f"import os\\nwhile True: os.killpg({os.getpgid(0)}, {signal.SIGINT})"
sender = subprocess.Popen([sys.executable, "-c", endless], process_group=0)
codes = []
for _ in range(40):
    with start_program("import sys; sys.stdin.buffer.read()") as child:
        time.sleep(0.01)
        codes.append(child.poll())
sender.kill()
sys.exit(len([code for code in codes if code is not None]))
"""


def test_ctrl_c_ends_no_child_that_starts() -> None:
    """Of 40 children that start while their parent's group gets SIGINT all the time, none dies of it."""
    assert subprocess.run([sys.executable, "-c", INTERRUPTED], process_group=0, check=False).returncode == 0
