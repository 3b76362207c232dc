"""The time when the writer's queue is due: at once for single requests, later while more keep coming."""

import itertools
from pathlib import Path

import pytest

from storage.errors import BadQuery
from storage.ingest.backlog import MAX_COMMIT_ROWS, Backlog, Chunk, WriteTask
from storage.ingest.shares import Shares
from storage.ingest.spool import Position, SpoolGroup
from tests.storing import a_batch, a_store, an_export

INTERVAL_S = 1.0
GATHERED_BYTES = 1000


class Requests:
    """A backlog whose time is set by the test, and the requests that come into it."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._numbers = itertools.count()
        self._backlog = Backlog(
            Position(-1, 0),
            INTERVAL_S,
            gathered_bytes=GATHERED_BYTES,
            shares=Shares(1 << 30),
            clock=lambda: self.now_s,
        )

    def come(self, spans: int = 1, *, nbytes: int = 1) -> None:
        """Add a request."""
        number = next(self._numbers)
        batch = a_batch(an_export(spans, first=number * MAX_COMMIT_ROWS))
        self._backlog.add([SpoolGroup(sequence=number, batch=batch, nbytes=nbytes)])

    def committed_at(self, now_s: float) -> int:
        """Return the number of spans in a commit; do a write task if none are due."""
        self.now_s = now_s
        write_task = self._backlog.ask(lambda: None, 0)
        work = self._backlog.next_work()
        if isinstance(work, WriteTask):
            return 0
        assert isinstance(work, Chunk)
        self._backlog.done(work)
        assert isinstance(self._backlog.next_work(), WriteTask)
        assert not write_task.done()
        return work.batch.num_rows


def test_what_comes_now_and_then_waits_for_one_interval() -> None:
    """However soon after the last commit it comes, and however many come at once."""
    requests = Requests()
    for start_s in (0, 2.1, 4.2, 6.3, 8.4):
        requests.now_s = start_s
        requests.come()
        assert requests.committed_at(start_s + 0.9) == 0
        assert requests.committed_at(start_s + 1.0) == 1
    requests.now_s = 20
    for _ in range(9):
        requests.come()
    assert requests.committed_at(21.0) == 9


def test_what_keeps_coming_is_gathered_for_three() -> None:
    """Until none has come for a while."""
    requests = Requests()
    for start_s in (0, 1.1, 2.2, 3.3):
        requests.now_s = start_s
        requests.come()
        assert requests.committed_at(start_s + 1.0) == 1
    for start_s in (4.4, 5.5, 6.6):
        requests.now_s = start_s
        requests.come()
        assert requests.committed_at(7.3) == 0
    assert requests.committed_at(7.4) == 3
    requests.now_s = 11.0
    requests.come()
    assert requests.committed_at(12.0) == 1


def test_much_of_it_is_not_gathered() -> None:
    """Many bytes are due after one interval, and whole row groups at once."""
    requests = Requests()
    for _ in range(4):
        requests.come()
    assert requests.committed_at(1.0) == 4
    requests.come(nbytes=GATHERED_BYTES - 1)
    assert requests.committed_at(2.0) == 0
    requests.come()
    assert requests.committed_at(2.0) == 2
    requests.come(MAX_COMMIT_ROWS)
    assert requests.committed_at(2.0) == MAX_COMMIT_ROWS


@pytest.mark.parametrize("value", ["x", str(2**63), 2**70, 1e400])
def test_a_value_that_no_column_can_hold_is_bad_input(tmp_path: Path, value: object) -> None:
    """A change whose value DuckDB cannot convert is refused with DuckDB's message, since no retry would help."""
    with a_store(tmp_path / "data") as store, pytest.raises(BadQuery, match=r"a value cannot be stored .*: send one"):
        store._writer.store(lambda cursor: cursor.execute("SELECT $value::BIGINT", {"value": value}), 1)
