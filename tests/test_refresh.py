"""Opening the file again while the store runs: the freed memory, and the readers it must not disturb."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from storage.ingest.writer import WriterOptions
from storage.store import Store, StoreOptions
from tests.live import until
from tests.storing import WAIT_S, a_batch, an_export, commit, rows

pytestmark = pytest.mark.costly("storage")


def totals(store: Store) -> tuple[int, int]:
    """Read the counts of stored and duplicate spans from the file."""
    ((stored, already_present),) = rows(store, "SELECT stored, already_present FROM ingest_state")
    assert (stored, already_present) == (store.totals.stored, store.totals.already_present)
    assert rows(store, "SELECT count(*) FROM spans") == [(stored,)]
    return store.totals.stored, store.totals.already_present


def a_refreshing_store(directory: Path) -> Store:
    """Build a store that opens its file again after every commit."""
    writer = WriterOptions(commit_interval_s=0.001, refresh_rows=1)
    return Store.open(directory, StoreOptions(writer=writer))


def opened(store: Store) -> object:
    """Return the file as it is open now."""
    return store._database._connection


def wait_until_not(store: Store, before: object) -> None:
    """Wait until the file was opened again."""
    until(lambda: opened(store), lambda now: now is not before)


def test_the_file_is_opened_again_after_so_many_rows(tmp_path: Path) -> None:
    """Opening the file again, which frees memory, loses and doubles nothing; readers are served before and after."""
    with a_refreshing_store(tmp_path) as store:
        for number in range(5):
            before = opened(store)
            commit(store, a_batch(an_export(3, first=3 * number)))
            wait_until_not(store, before)
            commit(store, a_batch(an_export(3, first=3 * number)))
            assert rows(store, "SELECT count(*) FROM spans") == [(3 * number + 3,)]
        assert totals(store) == (15, 15)


def test_a_reader_is_never_cut_off(tmp_path: Path) -> None:
    """While there is a reader, the file stays open, and commits go on; afterwards it is opened again."""
    with a_refreshing_store(tmp_path) as store:
        commit(store, a_batch(an_export(3)))
        with store._database.cursor() as reader:
            before = opened(store)
            reader.execute("SELECT i FROM range(10000) AS r(i), span")
            commit(store, a_batch(an_export(3, first=3)))
            assert len(reader.fetchall()) == 30_000
            assert opened(store) is before
        commit(store, a_batch(an_export(3, first=6)))
        wait_until_not(store, before)
        assert rows(store, "SELECT count(*) FROM spans") == [(9,)]


def test_readers_and_refreshes_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Many readers beside a file that is opened again all the time see every commit, and none of them fails."""
    with a_refreshing_store(tmp_path) as store, ThreadPoolExecutor(4) as pool:
        done = threading.Event()

        def read() -> list[int]:
            seen = []
            while not done.is_set():
                ((count,),) = rows(store, "SELECT count(*) FROM spans")
                assert isinstance(count, int)
                seen.append(count)
                time.sleep(0.005)
            return seen

        readers = [pool.submit(read) for _ in range(4)]
        for number in range(25):
            commit(store, a_batch(an_export(2, first=2 * number)))
        done.set()
        for reader in readers:
            seen = reader.result(WAIT_S)
            assert seen == sorted(seen)
        assert rows(store, "SELECT count(*) FROM spans") == [(50,)]


def test_a_file_that_cannot_be_opened_again_is_tried_until_it_can(tmp_path: Path) -> None:
    """A refresh that fails is repeated: meanwhile spans are taken, afterwards all are there."""
    with a_refreshing_store(tmp_path) as store:
        file = tmp_path / "tracejury.duckdb"
        with store._database.cursor():  # keeps the file open until it is out of reach
            commit(store, a_batch(an_export(3)))
            file.rename(tmp_path / "away")
            file.mkdir()
        store.append([a_batch(an_export(3, first=3))])
        assert until(lambda: store.failing, bool) is not None
        file.rmdir()
        (tmp_path / "away").rename(file)
        commit(store, a_batch(an_export(3, first=6)))
        assert totals(store) == (9, 0)
