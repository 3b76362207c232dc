"""DuckDB has all threads during queries, and one while the server works alone."""

import os
import sys
import threading
from pathlib import Path

import pytest

from storage.engine import threads
from storage.engine.database import Database, DatabaseOptions
from storage.engine.read_database import ReadDatabase
from storage.errors import BadQuery
from storage.ingest.writer import WriterOptions
from storage.store import Store, StoreOptions
from tests.storing import a_batch, an_export, commit, rows

QUERY = "SELECT current_setting('threads')"


@pytest.fixture(autouse=True)
def rests_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rest at once instead of waiting for the next query of a page."""
    monkeypatch.setattr(threads, "_REST_S", 0.0)


def of_own_work(database: Database) -> int:
    """Return the threads that a statement of the server's own work has."""
    with database.cursor() as cursor:
        ((number,),) = cursor.execute(QUERY).fetchall()
    return int(number)


def test_a_commit_has_one_thread_and_a_question_all(tmp_path: Path) -> None:
    """A query has all threads, also right after a commit; a commit takes them back when there are no queries."""
    options = StoreOptions(database=DatabaseOptions(threads=3), writer=WriterOptions(commit_interval_s=0.001))
    with Store.open(tmp_path, options) as store:
        for number in range(3):
            commit(store, a_batch(an_export(2, first=2 * number)))
            assert of_own_work(store._database) == 1
            with ReadDatabase(store._database).cursor() as cursor:
                assert cursor.execute(QUERY).fetchall() == [(3,)]
            assert rows(store, "SELECT count(*) FROM spans") == [(2 * number + 2,)]


def niceness_of(thread: int) -> int | None:
    """Return the niceness of a thread; None if it has ended."""
    try:
        return os.getpriority(os.PRIO_PROCESS, thread)
    except ProcessLookupError:
        return None


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads have no priority of their own")
def test_threads_that_come_back_stand_back(tmp_path: Path) -> None:
    """Questions leave ingest its part of the processors, also after their threads were taken and given again."""
    database = Database(tmp_path, DatabaseOptions(threads=5))
    with database.transaction():
        pass
    before = {int(each.name) for each in Path("/proc/self/task").iterdir()}
    with ReadDatabase(database).cursor():
        started = {int(each.name) for each in Path("/proc/self/task").iterdir()} - before
        started -= {each.native_id for each in threading.enumerate()}
        own = os.getpriority(os.PRIO_PROCESS, 0)
        levels = [niceness for each in started if (niceness := niceness_of(each)) is not None]
        assert len(levels) >= 4  # and for a moment the one that started them
        assert set(levels) == {min(own + 10, 19)}
    database.close()


def test_a_commit_takes_no_thread_from_who_asks(tmp_path: Path) -> None:
    """While a question is open, commits leave it its threads."""
    database = Database(tmp_path, DatabaseOptions(threads=3))
    read_db = ReadDatabase(database)
    with read_db.cursor() as cursor:
        with database.transaction():
            pass
        assert cursor.execute(QUERY).fetchall() == [(3,)]
        with read_db.snapshot():
            pass
        with database.transaction():
            pass
        assert cursor.execute(QUERY).fetchall() == [(3,)]
    with database.transaction():
        pass
    assert of_own_work(database) == 1
    database.close()


def test_a_file_that_is_opened_again_has_all_threads(tmp_path: Path) -> None:
    """The known number of threads belongs to the open connection."""
    database = Database(tmp_path, DatabaseOptions(threads=3))
    with database.transaction():
        pass
    assert of_own_work(database) == 1
    assert database.refresh()
    assert of_own_work(database) == 3
    with database.transaction():
        pass
    assert of_own_work(database) == 1
    database.close()


@pytest.mark.costly("storage")
def test_questions_and_commits_at_once_end(tmp_path: Path) -> None:
    """However they overlap, each question is answered, and each commit made."""
    options = StoreOptions(database=DatabaseOptions(threads=2), writer=WriterOptions(commit_interval_s=0.001))
    with Store.open(tmp_path, options) as store:
        commit(store, a_batch(an_export(500)))
        answers: list[object] = []

        def ask() -> None:
            answers.extend(rows(store, "SELECT count(*) FROM spans AS a, range(2000)") for _ in range(40))

        asking = [threading.Thread(target=ask) for _ in range(3)]
        for each in asking:
            each.start()
        for number in range(60):
            commit(store, a_batch(an_export(2, trace=1, first=1000 + 2 * number)))
        for each in asking:
            each.join(60)
        assert not any(each.is_alive() for each in asking)
        assert len(answers) == 120
        assert rows(store, "SELECT count(*) FROM spans") == [(620,)]


def test_a_statement_that_fails_does_not_end_a_moment(tmp_path: Path) -> None:
    """A statement of a user may fail, and the page that shows it goes on querying."""
    with Store.open(tmp_path, StoreOptions()) as store:
        commit(store, a_batch(an_export(2)))
        with store.queries.in_snapshot():
            assert len(store.queries.newest_traces()) == 1
            with pytest.raises(BadQuery, match="zz"):
                rows(store, "SELECT error('zz') FROM spans")
            assert len(store.queries.newest_traces()) == 1
