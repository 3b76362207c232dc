"""A file that takes more memory to open than DuckDB may have, and one that cannot be opened at all."""

import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from collector.conditions import CANNOT_COMMIT, ServerConditions
from collector.ingest import Ingest
from collector.meters import Traffic
from collector.server_conditions import ServerState, server_conditions
from storage.engine.database import FILE_NAME, DatabaseOptions
from storage.errors import Overloaded, Reopened
from storage.ingest.writer import WriterOptions
from storage.store import Store, StoreOptions
from tests.live import until
from tests.storing import a_batch, a_store, an_export, commit, rows

MEMORY = "64MB"
TEXT_BYTES, SPANS_A_COMMIT = 150_000, 10


@contextmanager
def a_small_store(directory: Path) -> Iterator[Store]:
    """Open a store whose DuckDB may hold little."""
    options = StoreOptions(writer=WriterOptions(commit_interval_s=0.001), database=DatabaseOptions(memory_limit=MEMORY))
    with Store.open(directory, options) as store:
        yield store


@pytest.mark.costly("storage")
def test_spans_that_are_too_large_for_the_memory_do_not_keep_the_file_closed(
    tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    """With texts of 150 kB a checkpoint takes more than there is: it is opened with more, now and later."""
    source = random.Random(seed)
    stored = 0
    with a_small_store(tmp_path) as store:
        while store.raised_bytes is None and stored < 1_000:
            request = an_export(SPANS_A_COMMIT, first=stored)
            for span in request.resource_spans[0].scope_spans[0].spans:
                span.attributes.add(key="text").value.string_value = source.randbytes(TEXT_BYTES // 2).hex()
            commit(store, a_batch(request))
            stored += SPANS_A_COMMIT
        assert store.raised_bytes is not None
        assert any("is recovered; DuckDB's memory limit is 64MB again" in line for line in caplog.messages)
        assert any("set duckdb_memory: " in line for line in caplog.messages)
        assert rows(store, "SELECT count(*) FROM spans") == [(stored,)]
    with a_small_store(tmp_path) as store:
        commit(store, a_batch(an_export(1, first=stored)))
        assert rows(store, "SELECT count(*) FROM spans") == [(stored + 1,)]


@pytest.mark.costly("storage")
def test_a_log_that_takes_more_memory_than_there_is_is_replayed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What a process with more memory left is replayed with more, and then there is as much as was set again."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(2)))
    path = str(tmp_path / FILE_NAME)
    with duckdb.connect(path, config={"memory_limit": "1GB", "checkpoint_threshold": "1TB"}) as big:
        big.execute("PRAGMA disable_checkpoint_on_shutdown")
        big.execute("CREATE TABLE heap (text VARCHAR)")
        for _ in range(12):  # small commits, which go through the log
            big.execute("INSERT INTO heap SELECT repeat(md5(random()::VARCHAR), 3000) FROM range(100)")
    caplog.set_level(logging.WARNING)
    with a_small_store(tmp_path) as store:
        assert any("is recovered; DuckDB's memory limit is 64MB again" in line for line in caplog.messages)
        assert store.raised_bytes is None
        assert store._database.memory_bytes < 64_000_001
        commit(store, a_batch(an_export(2, first=2)))
        assert rows(store, "SELECT count(*) FROM spans") == [(4,)]


def test_a_database_that_cannot_be_opened_again_is_told_and_takes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Commits cannot succeed, reads say so at once, and seconds later no span is taken, until the file is back."""
    path, aside = tmp_path / FILE_NAME, tmp_path / "aside"
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(2)))
        conditions = watching(store)
        conditions.look(0)
        store._database._connection.close()  # as after an error that is fatal
        path.rename(aside)
        path.write_bytes(b"no database" * 1000)
        store.append([a_batch(an_export(2, first=2))])
        until(lambda: store.failing, lambda failing: failing is not None)
        with pytest.raises(Reopened):
            store.queries.sql("SELECT 1", max_rows=1, timeout_s=5)
        for second in (10, 16):
            conditions.look(second)
        assert conditions.holds(CANNOT_COMMIT)
        until(lambda: store.overload, lambda why: why is not None)
        with pytest.raises(Overloaded, match="the database cannot be opened"):
            store.append([a_batch(an_export(2, first=4))])
        aside.rename(path)
        until(lambda: store.failing, lambda failing: failing is None)
        conditions.look(20)
        assert not conditions.holds(CANNOT_COMMIT)
        assert store.wait_committed(60)
        assert rows(store, "SELECT count(*) FROM spans") == [(4,)]
    assert sum("cannot reopen the database" in line for line in caplog.messages) == 1
    assert sum("the database is open again" in line for line in caplog.messages) == 1


def watching(store: Store) -> ServerConditions:
    """Watch the conditions of a store without rules."""
    watched = ServerState(
        store=store,
        ingest=Ingest(store, queue_bytes=1 << 20),
        traffic=Traffic(),
        rules=tuple,
        judge_problem=lambda _: None,
    )
    return ServerConditions(server_conditions(watched))
