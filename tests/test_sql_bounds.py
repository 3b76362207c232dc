"""Limits of SQL: memory, and concurrent statements."""

import asyncio
import os
import re
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import duckdb
import httpx
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from collector.api.base.fair_scheduler import FairScheduler, QueryScheduler
from collector.api.base.problems import answer_problems
from storage.engine.database import DatabaseOptions
from storage.errors import BadQuery, Overloaded
from storage.memory import LackOfMemory, QueryMemory, advice
from storage.store import Store, StoreOptions
from tests.access import a_closed_server
from tests.live import PATIENCE_S, a_live_server, until
from tests.serving import a_server
from tests.storing import a_batch, a_store, an_export, commit, rows

pytestmark = pytest.mark.costly("collector/access", "collector/api", "storage")

UNSTOPPABLE = "SELECT levenshtein(repeat('ab', 500000), repeat('cd', 500000))"

HUNGRY = [
    "SELECT md5(i::VARCHAR) AS k, list(i) FROM range(20000000) t(i) GROUP BY k ORDER BY 1",
    "SELECT i FROM range(50000000) t(i) ORDER BY hash(i)",
    "SELECT string_agg(repeat('x', 1000)) FROM range(1000000)",
    "SELECT count(*) FROM (SELECT DISTINCT md5(i::VARCHAR) FROM range(20000000) t(i))",
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield a store of which queries may take 64 MiB."""
    options = StoreOptions(database=DatabaseOptions(query_bytes=64 << 20))
    with Store.open(Path(tmp_path_factory.mktemp("bounds")), options) as opened:
        yield opened


@pytest.mark.parametrize("statement", HUNGRY)
def test_hungry_queries_are_stopped_and_storing_goes_on(store: Store, statement: str) -> None:
    """A query that needs more memory than all queries may take is stopped, and spans are stored meanwhile."""
    refusals: list[str] = []

    def ask() -> None:
        with pytest.raises(BadQuery) as refusal:
            store.queries.sql(statement, max_rows=10, timeout_s=PATIENCE_S)
        refusals.append(str(refusal.value))

    thread = threading.Thread(target=ask)
    thread.start()
    commit(store, a_batch(an_export(3)))
    thread.join()
    (message,) = refusals
    assert (
        "set sql_memory_bytes: 134217728 and duckdb_memory: 256MiB;" in message
        or "set duckdb_memory: 488MiB" in message
    )
    assert rows(store, "SELECT count(*) FROM span") == [(3,)]
    assert len(store._database._cursors) == 0


ADVISED = re.compile(r"or set (?:sql_memory_bytes: (\d+))?(?: and )?(?:duckdb_memory: (\d+)MiB)?")


@pytest.mark.parametrize(
    "statement, sql_bytes",
    [
        ("SELECT len(list(i)), quantile_cont(i, 0.5) FROM range(3000000) t(i)", 1 << 20),  # in a process of its own
        ("SELECT count(*) FROM (SELECT DISTINCT i FROM range(1000000) t(i))", 2 << 20),  # in the server
    ],
)
def test_advice_that_is_followed_lets_the_statement_run(tmp_path: Path, statement: str, sql_bytes: int) -> None:
    """An error advises a higher value than the current one and lowers none, until the statement runs."""
    duckdb_mib, share_bytes, texts = 244, 0, list[str]()
    for _ in range(6):
        memory = DatabaseOptions(query_bytes=sql_bytes, memory_limit=f"{duckdb_mib}MiB")
        with Store.open(tmp_path, StoreOptions(database=memory)) as store:
            before, share_bytes = share_bytes, store._database.query_memory.share_bytes
            assert share_bytes > before or "together" in texts[-1]
            try:
                store.queries.sql(statement, max_rows=1, timeout_s=PATIENCE_S)
                break
            except BadQuery as error:
                texts.append(str(error))
        match = ADVISED.search(texts[-1])
        assert match, texts
        assert match[1] is None or int(match[1]) > sql_bytes
        assert match[2] is None or int(match[2]) > duckdb_mib
        sql_bytes, duckdb_mib = int(match[1] or sql_bytes), int(match[2] or duckdb_mib)
    else:
        pytest.fail("\n".join(texts))
    assert texts


def test_advice_ends_at_the_memory_of_the_machine() -> None:
    """What a machine does not have is not advised, and the share of a statement has a floor that the error names."""
    small = QueryMemory(duckdb_bytes=6 << 30, at_once=2, all_bytes=20_000_000, machine_bytes=24 << 30)
    assert "more than 32 MiB" in small.advice_for_one()
    assert "or set sql_memory_bytes: 134217728; if" in small.advice_for_one()
    large = replace(small, all_bytes=8 << 30)
    for text in (large.advice_for_one(), large.advice_for_all()):
        assert "set" not in text.partition("stopped")[2]
        assert "this machine has no more memory (24576 MiB)" in text


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT count(*) FROM spans WHERE input ILIKE '%refund%'",
        "SELECT input FROM spans WHERE output ILIKE '%refund%' ORDER BY start_time DESC LIMIT 100",
        "SELECT model, resource_attributes['service.name'], scope_name, sum(input_tokens) FROM spans GROUP BY ALL",
    ],
)
def test_questions_about_spans_join_nothing(tmp_path: Path, statement: str) -> None:
    """The reading, resource and scope of a span stand in its row."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(100)))
        plan = str(rows(store, f"EXPLAIN {statement}")[0][1])
    assert "JOIN" not in plan.upper()
    assert "SCAN" in plan.upper()


@pytest.mark.parametrize(
    "message, error",
    [
        ("failed to pin block of size 256.0 KiB (244.1 MiB/244.1 MiB used)", "of 244.1 MiB"),
        ("could not allocate block of size 256.0 KiB (1.8 GiB/1.8 GiB used)", "set duckdb_memory: 3686MiB"),
        ("Allocation failure", "set duckdb_memory: to twice as much"),
    ],
)
def test_a_lack_of_memory_names_the_setting(message: str, error: str) -> None:
    """Whatever DuckDB says of it, the setting is named, and what to set."""
    assert error in advice(LackOfMemory(message))


def test_a_page_that_finds_no_memory_says_what_to_set() -> None:
    """A route that reads more than DuckDB may hold is answered 503 with the setting, and not as a failure of ours."""
    application = FastAPI()
    answer_problems(application)

    @application.get("/hungry")
    def hungry() -> None:
        duckdb.connect(config={"memory_limit": "8MB", "temp_directory": ""}).execute(HUNGRY[1]).fetchall()

    answer = TestClient(application).get("/hungry")
    assert (answer.status_code, "set duckdb_memory: 15MiB" in answer.json()["detail"]) == (503, True)


def test_a_late_error_is_told_as_what_it_is(store: Store) -> None:
    """An error in the middle of an answer is the query's, in rows and in batches of Arrow."""
    late = "SELECT CASE WHEN i = 100000 THEN error('it is late') ELSE i END AS n FROM range(200000) t(i)"
    with pytest.raises(BadQuery, match="it is late"):
        list(store.queries.batches(late, timeout_s=PATIENCE_S))
    with pytest.raises(BadQuery, match="it is late"):
        store.queries.arrow(late, max_rows=1_000_000, timeout_s=PATIENCE_S)


def test_batches_end_with_whoever_takes_them(store: Store) -> None:
    """An answer that is read in batches holds its cursor until it is closed, and gives DuckDB's types first."""
    batches = store.queries.batches("SELECT 1::HUGEINT AS a, 'x' AS b", timeout_s=PATIENCE_S)
    first = next(batches)
    assert (first.num_rows, first.schema.metadata) == (0, {b"duckdb": b'["HUGEINT", "VARCHAR"]'})
    assert len(store._database._cursors) >= 1
    batches.close()  # type: ignore[attr-defined] # it is a generator
    assert len(store._database._cursors) == 0


@asynccontextmanager
async def turns(*, at_once: int, wait_s: float) -> AsyncIterator[QueryScheduler]:
    """Yield turns that are closed at the end."""
    made = QueryScheduler(at_once=at_once, wait_s=wait_s)
    try:
        yield made
    finally:
        made.close()


async def _crowd(at_once: int, queries: int) -> int:
    most, now = 0, 0

    async def ask(places: QueryScheduler) -> None:
        nonlocal most, now
        async with places.turn():
            now += 1
            most = max(most, now)
            await places.run(lambda: None)
            now -= 1

    async with turns(at_once=at_once, wait_s=PATIENCE_S) as places:
        await asyncio.gather(*(ask(places) for _ in range(queries)))
    return most


def test_so_many_queries_run_at_once_and_the_others_wait() -> None:
    """Of a crowd no more run at the same time than may, and all have their turn."""
    assert asyncio.run(_crowd(at_once=2, queries=20)) == 2


def test_who_waits_for_too_long_or_in_too_long_a_queue_is_told_to_come_again() -> None:
    """A query that gets no turn is refused for now, and so is one more than may wait."""

    async def crowd() -> list[str]:
        async with turns(at_once=1, wait_s=0.05) as places, places.turn():
            waiting = [asyncio.create_task(_wait(places)) for _ in range(257)]
            return [error for error in await asyncio.gather(*waiting) if error]

    refusals = asyncio.run(crowd())
    assert (
        refusals.count(
            "other requests took all the time for 0.05 s; the limit is 1 at a time (setting sql_at_once): try again"
            " later"
        )
        == 256
    )
    assert (
        refusals.count("no more may wait than 256 requests (fixed): send fewer at the same time, or try again later")
        == 1
    )


def test_who_leaves_waits_no_longer_and_takes_no_place() -> None:
    """The place of one that left in the queue is free for another, and so is the turn that it would have had."""

    async def left() -> bool:
        return True

    async def wait() -> None:
        async with turns(at_once=1, wait_s=PATIENCE_S) as places:
            async with places.turn():
                gone = [asyncio.create_task(_wait(places, left)) for _ in range(64)]
                assert set(await asyncio.gather(*gone)) == {"the client has disconnected"}
                stays = asyncio.create_task(_wait(places))
            assert await stays == ""
            assert await _wait(places, left) == ""  # without waiting, the client is not checked

    asyncio.run(wait())


def test_a_refused_address_learns_that_it_shares_its_turns() -> None:
    """Clients without a key, or behind a proxy that is not trusted, are one client; its error names both remedies."""

    async def refused() -> str:
        async with turns(at_once=1, wait_s=0.01) as places, places.turn(client_id="10.0.0.7"):
            return await _wait(places, client_id="10.0.0.7")

    assert asyncio.run(refused()) == (
        "other requests took all the time for 0.01 s; the limit is 1 at a time (setting sql_at_once): try again later."
        " All requests without a key from 10.0.0.7 count as one"
        " client: send an API key, or list 10.0.0.7 in trusted_proxies if it is a proxy"
    )


def test_one_asker_leaves_a_place_and_half_of_the_queue_to_others() -> None:
    """A key whose statement runs waits with the next one, while another key has a place at once."""

    async def crowd() -> None:
        async with turns(at_once=2, wait_s=PATIENCE_S) as places:
            async with places.turn(client_id="a"):
                waiting = [asyncio.create_task(_wait(places, client_id="a")) for _ in range(33)]
                await asyncio.sleep(0)
                assert await _wait(places, client_id="b") == ""
                (refused,) = [task for task in waiting if task.done()]
                assert refused.result().startswith("no more may wait than 32 requests of yours (fixed): send fewer")
            assert [await task for task in waiting].count("") == 32
            assert (places._free, places._running) == (2, {})

    asyncio.run(crowd())


def test_of_more_askers_than_places_each_gets_its_turn() -> None:
    """While two keys have a statement at each place and 32 more waiting, a third key gets the next place."""

    async def crowd() -> None:
        order: list[str] = []

        async def ask(places: FairScheduler, client_id: str) -> None:
            async with places.turn(client_id=client_id):
                order.append(client_id)
                await asyncio.sleep(0.01)

        async with turns(at_once=2, wait_s=PATIENCE_S) as places:
            waiting = [asyncio.create_task(ask(places, name)) for _ in range(33) for name in ("a", "b")]
            await asyncio.sleep(0)
            await asyncio.gather(ask(places, "c"), *waiting)
        assert sorted(order[:3]) == ["a", "b", "c"]
        assert order.count("a") == order.count("b") == 33

    asyncio.run(crowd())


def test_the_keys_of_a_tenant_count_as_one_asker_among_others_and_take_turns() -> None:
    """Of 40 keys of a tenant two run at once, other clients wait for none of them, and each key has its turn."""

    async def crowd() -> None:
        order: list[str] = []
        most: list[int] = []
        places = FairScheduler(at_once=4, wait_s=PATIENCE_S, of_one=1)

        async def ask(client_id: str) -> None:
            async with places.turn(client_id=client_id):
                order.append(client_id)
                most.append(places._groups["acme/"])
                await asyncio.sleep(0)

        keys = [f"acme/key_{number}" for number in range(40)]
        waiting = [asyncio.create_task(ask(key)) for key in (*keys, *keys)]
        await asyncio.sleep(0)
        await asyncio.gather(ask("globex/key_1"), ask("key_2"), *waiting)
        assert max(most) == 2
        assert set(order[:4]) == {*keys[:2], "globex/key_1", "key_2"}
        assert sorted(order[4:42]) == sorted(keys[2:])  # each once before one goes again
        assert (places._free, places._running, places._groups) == (4, {}, {})

    asyncio.run(crowd())


def test_the_keys_of_a_tenant_leave_half_of_the_queue_to_others() -> None:
    """The 129th request of a tenant that waits is refused, by whatever key, and one of another key waits."""

    async def crowd() -> None:
        places = FairScheduler(at_once=2, wait_s=PATIENCE_S)
        async with places.turn(client_id="acme/a"):
            waiting = [asyncio.create_task(_wait(places, client_id=f"acme/{number % 10}")) for number in range(129)]
            await asyncio.sleep(0)
            (refused,) = [task for task in waiting if task.done() and task.result()]
            assert refused.result().startswith("no more may wait than 128 requests of your tenant (fixed): send fewer")
            assert await _wait(places, client_id="globex/a") == ""
        assert [await task for task in waiting].count("") == 128

    asyncio.run(crowd())


def test_a_viewer_with_endless_statements_keeps_nobody_from_asking(tmp_path: Path) -> None:
    """Two statements of one key that nothing interrupts leave a place to another key, and end with their clients."""
    with a_closed_server(tmp_path, sql_seconds=3600) as server:
        url, headers = f"http://{server.running.http}/api/v1/sql", {"authorization": f"Bearer {server.keys['viewer']}"}
        gone = []

        def ask() -> None:
            with pytest.raises(httpx.ReadTimeout):
                httpx.post(url, json={"sql": UNSTOPPABLE}, headers=headers, timeout=5, trust_env=False)
            gone.append(True)

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        until(lambda: len(server.running.context.turns._waiting), lambda waiting: waiting == 1)
        answer = server.ask("POST", "/api/v1/sql", key=server.keys["editor"], json={"sql": "SELECT median(1)"})
        assert answer.json()["rows"] == [[1.0]]
        for thread in threads:
            thread.join()
        until(lambda: server.running.context.turns._free, lambda free: free == 2)


def test_a_server_ends_on_sigterm_while_statements_run(tmp_path: Path) -> None:
    """A statement that cannot be interrupted does not hold up the end, and no process is left."""
    with a_live_server(tmp_path, env={"TRACEJURY_SQL_SECONDS": 3600}) as server:

        def ask() -> None:
            with suppress(httpx.TransportError):
                httpx.post(f"{server.http}/api/v1/sql", json={"sql": UNSTOPPABLE}, timeout=PATIENCE_S, trust_env=False)

        thread = threading.Thread(target=ask)
        thread.start()
        folder = tmp_path / "tmp"
        until(folder.exists, lambda exists: exists)
        assert server.stop() == 0
        thread.join()


async def _wait(
    places: FairScheduler, has_left: Callable[[], Awaitable[bool]] | None = None, *, client_id: str | None = None
) -> str:
    try:
        async with places.turn(has_left, client_id=client_id):
            return ""
    except Overloaded as error:
        return str(error)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread has no priority of its own")
def test_queries_step_back_behind_ingest() -> None:
    """A query runs in a thread of lower priority than the one that it was asked on."""

    async def priority() -> int:
        async with turns(at_once=1, wait_s=1) as places:
            return await places.run(lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    here = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    assert asyncio.run(priority()) == min(here + 10, 19)


def test_a_refused_query_is_told_when_to_come_again(tmp_path: Path) -> None:
    """Over HTTP, a query that gets no turn is answered 503 with `Retry-After`."""
    with a_server(tmp_path, sql_at_once=1, sql_seconds=0.3) as server:
        places = server.context.turns
        places._free = 0  # and none is given back
        answer = httpx.post(f"http://{server.http}/api/v1/sql", json={"sql": "SELECT 1"}, trust_env=False)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
