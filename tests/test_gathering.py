"""How long spans wait for their commit: longer while commits take long, and no longer once many bytes wait."""

from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from storage.ingest.backlog import Backlog, Chunk
from storage.ingest.spool import Position, SpoolGroup
from storage.ingest.writer import gathering_s
from tests.storing import WAIT_S, a_batch, an_export

SECONDS = st.floats(0, 1e4)


@given(interval_s=SECONDS, commit_s=SECONDS)
def test_a_commit_gathers_from_one_to_three_intervals(interval_s: float, commit_s: float) -> None:
    """Whatever the last commit took, the next one is due within three intervals, and after one at the earliest."""
    assert interval_s <= gathering_s(interval_s, commit_s) <= 3 * interval_s


def test_quick_commits_do_not_wait_and_slow_ones_share_their_cost() -> None:
    """A commit that took a tenth of the interval changes nothing; one of half of it lets the next one gather longer."""
    assert gathering_s(0.3, 0.03) == 0.3
    assert gathering_s(0.3, 0.15) == 3 * 0.15
    assert gathering_s(0.3, 10) == 3 * 0.3


def test_many_bytes_end_the_wait() -> None:
    """Spans that would wait for an hour are due as soon as so many bytes wait that they shall not."""
    backlog = Backlog(Position(sequence=0, rows=0))
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(backlog.next_work, lambda nbytes: 3600 if nbytes < 1_000 else 0)
        backlog.add([a_group(1, nbytes=999)])
        assert not coming.done()
        backlog.add([a_group(2, nbytes=1)])
        chunk = coming.result(WAIT_S)
    assert isinstance(chunk, Chunk)
    assert chunk.groups_done == 2
    assert chunk.batch.spans.num_rows == 2


def a_group(number: int, *, nbytes: int) -> SpoolGroup:
    """One span that is durable as this group of the spool."""
    return SpoolGroup(sequence=number, batch=a_batch(an_export(1, first=number)), nbytes=nbytes)
