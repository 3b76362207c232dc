"""A statement that breaks DuckDB: its client alone gets an error; all others wait and get their response."""

import itertools
import operator
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import duckdb
import httpx
import pyarrow as pa
import pytest

from storage.engine.rule_matcher_db import Expression, RuleMatcherDb, RuleQuery
from storage.errors import BadQuery, Barred, Reopened
from storage.query import quack, statements
from storage.query.quarantine import Offences
from storage.query.query_options import QueryOptions
from storage.store import Store
from tests.access import OPERATOR_KEY, Closed, a_closed_server
from tests.live import NO_TLS, PATIENCE_S, until
from tests.quack_client import a_client
from tests.serving import ANY_PORT, PROTOBUF
from tests.serving import an_export as a_trace
from tests.storing import a_batch, a_store, an_export, commit, rows, trace_id

BREAKS = "SELECT reservoir_quantile(-0.0, [])"
"""One of those that are refused by name: here they are let through, as one would be that nobody has found yet."""


@pytest.fixture(autouse=True)
def unknown_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let statements through that are known to break DuckDB."""
    monkeypatch.setattr(statements, "is_plain", lambda *_: True)
    monkeypatch.setattr(quack, "is_plain", lambda *_: True)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Yield a store with three spans."""
    with a_store(tmp_path) as opened:
        commit(opened, a_batch(an_export(3)))
        yield opened


def breaks(store: Store, statement: str = BREAKS, *, client_id: str = "") -> str:
    """Run a statement that breaks the database; return the error of its caller."""
    with pytest.raises(BadQuery) as error:
        store.queries.sql(statement, max_rows=1, timeout_s=PATIENCE_S, terms=QueryOptions(client_id=client_id))
    return str(error.value)


def spellings() -> Iterator[str]:
    """Yield the same bug in other words, as often as one likes."""
    return (f"{BREAKS} AS v{number}" for number in itertools.count())


def test_the_statement_alone_has_an_error_and_the_database_is_there_again(store: Store) -> None:
    """The failing statement gets the reason, without a stack; then all data is still there, and more is stored."""
    error = breaks(store)
    assert error == (
        "this statement makes the database fail, and is refused for now: "
        "INTERNAL Error: Attempted to access index 0 within vector of size 0"
    )
    assert rows(store, "SELECT count(*) FROM span") == [(3,)]
    commit(store, a_batch(an_export(2, first=3)))
    assert rows(store, "SELECT count(*) FROM span") == [(5,)]
    assert store.queries.offences.count == 1


def test_arrow_and_batches_break_it_no_worse(store: Store) -> None:
    """The same statement in the other forms of an answer is the asker's error too, and the next one is answered."""
    statement, terms = spellings(), QueryOptions(client_id="a")
    with pytest.raises(BadQuery, match="INTERNAL Error"):
        store.queries.arrow(next(statement), max_rows=1, timeout_s=PATIENCE_S, terms=terms)
    with pytest.raises(BadQuery, match="INTERNAL Error"):
        list(store.queries.batches(next(statement), timeout_s=PATIENCE_S, terms=terms))
    late = "SELECT date_part(CASE WHEN i < 9000 THEN 'year' ELSE 'epoch' END, now()) FROM range(9999) t(i)"
    with pytest.raises(BadQuery, match="INTERNAL Error"):
        list(store.queries.batches(late, timeout_s=PATIENCE_S, terms=terms))
    assert rows(store, "SELECT count(*) FROM span") == [(3,)]


def test_a_statement_that_broke_it_is_refused_before_it_is_run(store: Store) -> None:
    """Repeated, also by another caller, it opens nothing again; after some of them its caller is refused."""
    breaks(store, client_id="a")
    assert "is refused" in breaks(store, client_id="b")
    assert store.queries.offences.count == 1
    for statement in itertools.islice(spellings(), 2):
        breaks(store, statement, client_id="a")
    with pytest.raises(Barred) as barred:
        store.queries.sql("SELECT 7", max_rows=1, timeout_s=PATIENCE_S, terms=QueryOptions(client_id="a"))
    assert 500 < barred.value.retry_after_s <= 600
    assert store.queries.sql("SELECT 7", max_rows=1, timeout_s=PATIENCE_S, terms=QueryOptions(client_id="b")).rows == (
        (7,),
    )


def test_offences_are_forgotten() -> None:
    """Ten minutes later both may be asked again."""
    now_s = 0.0
    offences = Offences(lambda: now_s)
    for number in range(3):
        offences.add("a", f"statement {number}")
    with pytest.raises(Barred):
        offences.check("a", "SELECT 1")
    with pytest.raises(BadQuery):
        offences.check("b", " statement 0\n")
    now_s = 599.0
    with pytest.raises(Barred) as later:
        offences.check("a", "SELECT 1")
    assert later.value.retry_after_s == 1
    now_s = 600.0
    offences.check("a", "statement 0")


def test_what_is_remembered_of_offences_is_bounded() -> None:
    """However many askers and statements there are, a thousand of each are remembered."""
    offences = Offences()
    for number in range(3_000):
        offences.add(f"asker {number}", f"statement {number}")
    assert (len(offences._askers), len(offences._statements)) == (1_000, 1_000)


def test_who_takes_an_answer_bit_by_bit_does_not_keep_it_closed(store: Store) -> None:
    """A reader that dawdles over its answer loses it, as the file cannot be opened while it has it open."""
    dawdling = store.queries.batches("FROM range(100000000)", timeout_s=PATIENCE_S)
    assert next(dawdling).num_rows == 0
    assert next(dawdling).num_rows > 0
    began_s = time.monotonic()
    breaks(store)
    assert rows(store, "SELECT count(*) FROM span") == [(3,)]
    assert time.monotonic() - began_s < 60
    with pytest.raises(Reopened):
        next(dawdling)


def test_who_holds_a_snapshot_is_told_and_the_next_question_is_answered(store: Store) -> None:
    """A reader in the middle of several queries is told to retry, and not that the database is broken."""
    database = store._database
    breaking = threading.Thread(target=breaks, args=(store,))

    def read() -> None:
        with database.snapshot() as cursor:
            breaking.start()
            until(lambda: store.queries.offences.count, lambda count: count == 1)
            cursor.execute("SELECT count(*) FROM span").fetchall()

    with pytest.raises(Reopened):
        read()
    breaking.join()
    assert rows(store, "SELECT count(*) FROM span") == [(3,)]


@pytest.mark.costly("collector/api/base", "collector/quack", "storage")
def test_a_long_query_of_somebody_else_is_answered(store: Store) -> None:
    """A query that runs while another one breaks the database is asked again, and its asker learns nothing of it."""
    answers: list[object] = []
    long = "SELECT count(*) FROM range(30000) AS a, range(30000) AS b WHERE a.range < b.range"
    asking = threading.Thread(
        target=lambda: answers.append(store.queries.sql(long, max_rows=1, timeout_s=PATIENCE_S).rows)
    )
    asking.start()
    until(lambda: len(store._database._cursors), lambda cursors: cursors > 0)
    breaks(store)
    asking.join()
    assert answers == [((29_999 * 30_000 // 2,),)]


def test_what_is_written_meanwhile_is_stored_once(store: Store) -> None:
    """Commits and other writes that meet a broken database are made all the same, each once."""
    stop = threading.Event()

    def ingest() -> None:
        for number in itertools.count(3):
            if stop.is_set():
                return
            store.append([a_batch(an_export(1, first=number))])
            sent.append(number)
            time.sleep(0.002)  # some hundreds in all

    sent: list[int] = []
    thread = threading.Thread(target=ingest)
    thread.start()
    for number, statement in enumerate(itertools.islice(spellings(), 5)):
        breaks(store, statement, client_id=str(number))
    stop.set()
    thread.join()
    assert store.wait_committed(PATIENCE_S)
    assert rows(store, "SELECT count(*), count(DISTINCT span_id) FROM span") == [(3 + len(sent), 3 + len(sent))]
    assert store.failing is None


@contextmanager
def again_and_again(acts: list[Callable[[], int]]) -> Iterator[Counter[int]]:
    """Repeat all of this in threads during the block; count the responses."""
    answers: Counter[int] = Counter()
    stop = threading.Event()

    def repeat(act: Callable[[], int]) -> None:
        while not stop.is_set():
            answers[act()] += 1

    threads = [threading.Thread(target=repeat, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.costly("collector/api/base", "collector/quack", "storage")
def test_over_http_everybody_else_has_an_answer(tmp_path: Path) -> None:
    """While a viewer breaks the database, pages, lists, other queries and spans are answered as if nothing was."""
    with a_closed_server(tmp_path) as server:
        numbers = itertools.count()

        def send() -> int:
            body = a_trace(trace_id(next(numbers)), "root", "step").SerializeToString()
            url = f"http://{server.running.otlp_http}/v1/traces"
            headers = {"content-type": PROTOBUF, "authorization": f"Bearer {server.keys['ingest']}"}
            answer = httpx.post(url, content=body, headers=headers, trust_env=False, timeout=PATIENCE_S, verify=NO_TLS)
            return answer.status_code

        def get(path: str) -> Callable[[], int]:
            return lambda: server.ask("GET", path, key=server.keys["editor"]).status_code

        def ask() -> int:
            body = {"sql": "SELECT count(*) FROM spans"}
            return server.ask("POST", "/api/v1/sql", key=server.keys["editor"], json=body).status_code

        with again_and_again(
            [send, get("/api/v1/traces"), get("/traces"), get("/ready"), get("/metrics"), ask]
        ) as seen:
            until(lambda: seen[200], lambda count: count > 30)
            statuses = []
            for statement, key in zip(spellings(), ("viewer", "viewer", "admin", "viewer"), strict=False):
                answer = server.ask("POST", "/api/v1/sql", key=server.keys[key], json={"sql": statement})
                statuses.append((answer.status_code, "INTERNAL Error" in answer.text))
                enough = seen[200] + 30
                until(partial(seen.__getitem__, 200), partial(operator.lt, enough))
        assert statuses == [(400, True)] * 4
        assert set(seen) == {200}
        barred = server.ask("POST", "/api/v1/sql", key=server.keys["viewer"], json={"sql": "SELECT 1"})
        assert (barred.status_code, int(barred.headers["retry-after"]) > 0) == (429, True)
        metrics = server.ask("GET", "/metrics", key=server.keys["editor"]).text
        assert "tracejury_broken_queries_total 4.0\n" in metrics
        assert server.running.store.wait_committed(PATIENCE_S)
        answer = server.ask("POST", "/api/v1/sql", key=OPERATOR_KEY, json={"sql": "SELECT count(*) FROM spans"})
        assert answer.json()["rows"] == [[2 * next(numbers)]]


@pytest.fixture
def attached_server(tmp_path: Path) -> Iterator[Closed]:
    """Yield a server where DuckDB attaches."""
    with a_closed_server(tmp_path, quack=ANY_PORT) as server:
        yield server


@pytest.mark.costly("collector/api/base", "collector/quack", "storage")
def test_over_quack_it_is_one_error(attached_server: Closed) -> None:
    """The client gets an error, and both its next query and another client's are answered."""
    address = attached_server.running.quack
    assert address is not None
    with a_client(address, attached_server.keys["viewer"]) as one, a_client(address, OPERATOR_KEY) as other:
        assert "makes the database fail" in one.remotely(f"{BREAKS} FROM spans UNION ALL {BREAKS}")["error"]
        for client in (one, other):
            assert client.remotely("SELECT count(*) FROM spans")["rows"] == [[0]]
        for statement in itertools.islice(spellings(), 2):
            one.remotely(statement)
        assert "too often" in one.remotely("SELECT 1")["error"]
        assert other.rows("SELECT count(*) FROM tj.spans") == [[0]]


def test_the_catalog_of_quack_is_made_anew(tmp_path: Path) -> None:
    """A query that breaks the DuckDB of the catalog breaks it for this one query only."""
    options = quack.QuackOptions(
        address=ANY_PORT,
        views={"spans": [("name", "VARCHAR")]},
        answers=tmp_path,
        answer_bytes=1 << 20,
        all_bytes=1 << 20,
    )

    class DenyNone:
        def admit(self, _token: str) -> bool:
            """Admit every token."""
            return True

        def batches(self, _token: str, _statement: str) -> Iterator[pa.RecordBatch]:
            """Yield nothing."""
            yield pa.RecordBatch.from_pylist([])

    one = quack.Quack(options, DenyNone())
    one._sessions["s"] = quack._QuackSession(token="t")
    assert "INTERNAL Error" in str(one._answer("s", f"{BREAKS} FROM duckdb_tables()"))
    select = one._answer("s", "SELECT table_name FROM duckdb_tables()")
    assert select is not None
    assert one._connection.execute(select).fetchall() == [("spans",)]


def test_the_database_of_the_rules_is_made_anew() -> None:
    """Whatever statement about rules breaks it, the next questions about spans are answered."""
    matcher_db = RuleMatcherDb("true")
    spans = pa.table({"tenant": [""], "seq": pa.array([1], pa.int64()), "trace_id": ["t"], "name": ["n"]})
    question = RuleQuery(
        revision=1, tenant=None, clause=Expression(sql="CASE WHEN false THEN 0 END", parameters={}), sampled_below=None
    )
    for _ in range(2):
        assert matcher_db.decide_spans(spans, [question]).num_rows == 1
        with pytest.raises(duckdb.InternalException):
            matcher_db._answer(BREAKS)
    matcher_db.rest()
    assert matcher_db.decide_spans(spans, [question]).num_rows == 1
    matcher_db.close()
