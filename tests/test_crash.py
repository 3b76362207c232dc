"""Killed at any moment, or with a damaged spool: every span that was acknowledged is there, once."""

import random
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from storage.store import Store
from tests.live import Live, a_live_server
from tests.traffic import Batch, Load, a_batch, over_grpc, over_http

pytestmark = pytest.mark.costly("collector/listeners", "collector/ingest.py", "collector/otlp", "storage")

LATER = {"TRACEJURY_COMMIT_INTERVAL_MS": 10_000}
"""Long enough that what a test sends is still in the spool, and nowhere else, when it kills the server."""


def stored_ids(server: Live) -> list[str]:
    """Return every stored span id, as often as it is stored."""
    rows = server.sql("SELECT string_agg(span_id, ' ') FROM spans")
    return str(rows[0][0] or "").split()


def check_exactly_once(server: Live, acknowledged: list[str]) -> None:
    """Check that every acknowledged span is stored once, also in the roll-up."""
    ids = stored_ids(server)
    assert len(ids) == len(set(ids))
    assert set(acknowledged) - set(ids) == set()
    assert server.sql("SELECT sum(span_count)::BIGINT FROM traces") == [[len(ids)]]
    assert server.tally().stored == len(ids)


@pytest.mark.timeout(600)
@pytest.mark.kill("collector/listeners", "collector/ingest.py", "collector/otlp", "storage/ingest")
def test_what_was_acknowledged_survives_every_kill(tmp_path: Path, seed: int, kills: int) -> None:
    """A server killed under load, at any moment, loses and doubles no acknowledged span."""
    source = random.Random(seed)
    acknowledged: list[str] = []
    for number in range(kills):
        interval_ms = source.choice([1, 20, 300])
        env = {"TRACEJURY_COMMIT_INTERVAL_MS": interval_ms, "TRACEJURY_SQL_ROWS": 1_000_000}
        with a_live_server(tmp_path / "data", env=env) as server:
            if number % 5 == 4:  # in between as well, so that a loss is not found many kills later
                check_exactly_once(server, acknowledged)
            with Load(server, source.randrange(1 << 32), senders=4, spans=source.choice([1, 10, 100])) as load:
                time.sleep(source.uniform(0.1, 0.8))
                server.kill()
                sent = load.stop()
            acknowledged += sent.acknowledged
            assert sent.counts["rejected"] == sent.counts["later"] == 0
    with a_live_server(tmp_path / "data") as server:
        check_exactly_once(server, acknowledged)
        assert server.stop() == 0
    assert acknowledged


def test_a_kill_while_recovering_loses_nothing(tmp_path: Path, seed: int) -> None:
    """A server that is killed again and again before it has committed what the spool holds gets there in the end."""
    source = random.Random(seed)
    with a_live_server(tmp_path / "data", env=LATER) as server, Load(server, seed, spans=200) as load:
        time.sleep(1)
        server.kill()
        acknowledged = load.stop().acknowledged
    for _ in range(2):
        with Live(tmp_path / "data") as server:
            time.sleep(source.uniform(0.4, 1.2))
            server.kill()
    with a_live_server(tmp_path / "data") as server:
        check_exactly_once(server, acknowledged)


def test_a_kill_between_two_commits_of_one_request_loses_nothing(tmp_path: Path) -> None:
    """A request of which only the first rows are committed is completed after a restart, and not begun again."""
    batch = a_batch(random.Random(), 9000)  # more than one commit takes
    with a_live_server(tmp_path / "data", env=LATER) as server, over_http(server) as send:
        assert send(batch.body).kind == "taken"
        server.committed(1)
        assert server.tally().stored < 9000
        server.kill()
    with a_live_server(tmp_path / "data") as server:
        assert server.committed(9000).already_present == 0
        check_exactly_once(server, list(batch.span_ids))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spooled:
    """A data directory whose spans are in the spool only, in one segment, one batch after the other."""

    data: Path
    segment: Path
    batches: list[Batch]
    ends: list[int]  # how long the segment was after each batch

    @property
    def starts(self) -> list[int]:
        """List the segment's length before each batch."""
        return [0, *self.ends[:-1]]

    def copy(self, to: Path) -> "Spooled":
        """Return the same directory again, to be damaged."""
        shutil.copytree(self.data, to)
        return Spooled(data=to, segment=to / self.segment.relative_to(self.data), batches=self.batches, ends=self.ends)

    def tear(self, at: int, *, tail: Callable[[int], bytes] = lambda _: b"") -> None:
        """Replace the bytes from an offset on by a tail, a function of their number."""
        content = self.segment.read_bytes()
        self.segment.write_bytes(content[:at] + tail(len(content) - at))

    def flip(self, at: int, bit: int) -> None:
        """Change one bit."""
        content = bytearray(self.segment.read_bytes())
        content[at] ^= 1 << bit
        self.segment.write_bytes(content)


def the_segment(data: Path) -> Path:
    """Return the only file of the spool."""
    (segment,) = (data / "spool").glob("*.spool")
    return segment


@pytest.fixture(scope="module")
def spooled(tmp_path_factory: pytest.TempPathFactory) -> Spooled:
    """Return twelve acknowledged batches that a killed server has left in its spool."""
    data = tmp_path_factory.mktemp("spooled") / "data"
    source = random.Random(7)
    batches = [a_batch(source, source.choice([1, 7, 60])) for _ in range(12)]
    ends = []
    with a_live_server(data, env=LATER) as server, over_http(server) as http, over_grpc(server) as call:
        for number, batch in enumerate(batches):
            send = (http, call)[number % 2]
            assert send(batch.body).kind == "taken"
            ends.append(the_segment(data).stat().st_size)
        assert server.tally().committed == 0
        server.kill()
    assert sorted(set(ends)) == ends
    return Spooled(data=data, segment=the_segment(data), batches=batches, ends=ends)


def are_stored(server: Live, batches: list[Batch]) -> list[bool]:
    """Return for each batch whether it is stored; fail if one is stored in part."""
    ids = set(stored_ids(server))
    parts = [len(ids & set(batch.span_ids)) for batch in batches]
    assert [part for part, batch in zip(parts, batches, strict=True) if part not in {0, len(batch.span_ids)}] == []
    return [part > 0 for part in parts]


def check_it_goes_on(server: Live, data: Path) -> None:
    """Check that a server that found damage takes new spans, and keeps them through another crash."""
    batches = [a_batch(random.Random(), 25) for _ in range(3)]
    with over_http(server) as http, over_grpc(server) as call:
        for batch, send in zip(batches, (http, call, http), strict=True):
            assert send(batch.body).kind == "taken"
    server.kill()
    with a_live_server(data) as again:
        assert are_stored(again, batches) == [True, True, True]


def test_a_torn_tail_costs_what_was_torn(spooled: Spooled, tmp_path: Path, seed: int) -> None:
    """A server whose newest segment lost its end starts, says so, and has everything that came before."""
    source = random.Random(seed)
    tears = [source.randrange(spooled.starts[-1] + 1, spooled.ends[-1]), source.randrange(spooled.ends[-1])]
    for number, tear in enumerate(tears):
        torn = spooled.copy(tmp_path / str(number))
        torn.tear(tear)
        with a_live_server(torn.data) as server:
            assert are_stored(server, torn.batches) == [end <= tear for end in torn.ends]
            clean_cut = tear in {0, *torn.ends}
            assert ("is torn at byte" in server.log) is not clean_cut


def test_rubbish_after_the_tear_is_no_span(spooled: Spooled, tmp_path: Path, seed: int) -> None:
    """A tail of zeros or of anything else, as file systems leave it after a power cut, is passed over."""
    source = random.Random(seed)
    fills: list[Callable[[int], bytes]] = [bytes, source.randbytes]
    for number, fill in enumerate(fills):
        torn = spooled.copy(tmp_path / str(number))
        tear = source.randrange(torn.ends[-1] - 1)
        torn.tear(tear, tail=fill)
        with a_live_server(torn.data) as server:
            assert are_stored(server, torn.batches) == [end <= tear for end in torn.ends]
            assert "is damaged at byte" in server.log


def test_a_damaged_record_costs_only_itself(spooled: Spooled, tmp_path: Path, seed: int) -> None:
    """One changed byte in the middle of the spool loses the batch that it belongs to, and no other."""
    source = random.Random(seed)
    number = source.randrange(1, len(spooled.batches) - 1)
    damaged = spooled.copy(tmp_path / "damaged")
    damaged.flip(source.randrange(spooled.starts[number], spooled.ends[number]), source.randrange(8))
    with a_live_server(damaged.data) as server:
        assert are_stored(server, damaged.batches) == [each != number for each in range(len(damaged.batches))]
        assert "is damaged at byte" in server.log
        check_it_goes_on(server, damaged.data)


def test_damage_anywhere_is_survived(spooled: Spooled, tmp_path: Path, seed: int) -> None:
    """Wherever the segment is torn or changed, the store opens with every batch that is whole."""
    source = random.Random(seed)
    for number in range(8):
        damaged = spooled.copy(tmp_path / str(number))
        where = source.randrange(damaged.ends[-1])
        tears = source.random() < 0.5
        if tears:
            damaged.tear(where)
        else:
            damaged.flip(where, source.randrange(8))
        whole = {
            span_id
            for batch, start, end in zip(damaged.batches, damaged.starts, damaged.ends, strict=True)
            if end <= where or (start > where and not tears)
            for span_id in batch.span_ids
        }
        with Store.open(damaged.data) as store:
            assert store.wait_committed(10)
            table = store.queries.sql("SELECT span_id FROM spans", max_rows=1 << 20, timeout_s=10)
            assert sorted(str(span_id) for (span_id,) in table.rows) == sorted(whole)


def test_new_spans_outlive_the_loss_of_a_request_that_was_half_committed(tmp_path: Path) -> None:
    """When the rest of a request is damaged in the spool, none of the spans that come later is taken for it."""
    batch = a_batch(random.Random(), 9000)
    data = tmp_path / "data"
    with a_live_server(data, env=LATER) as server, over_http(server) as send:
        assert send(batch.body).kind == "taken"
        committed = server.committed(1).stored
        assert committed < 9000
        server.kill()
    content = bytearray(the_segment(data).read_bytes())
    content[len(content) // 2] ^= 1
    the_segment(data).write_bytes(content)
    with a_live_server(data) as server:
        assert server.tally().stored == committed
        check_it_goes_on(server, data)


def test_empty_and_foreign_files_in_the_spool_do_no_harm(spooled: Spooled, tmp_path: Path) -> None:
    """A segment without a byte, as a crash right after its creation leaves it, and files of others are passed over."""
    littered = spooled.copy(tmp_path / "littered")
    for name in ("00000000000000000013-000001.spool", "00000000000000000099-000001.spool", "notes.txt", ".hidden"):
        (littered.data / "spool" / name).touch()
    (littered.data / "spool" / "00000000000000000050-000001.spool").write_bytes(b"TJ")
    with a_live_server(littered.data) as server:
        assert all(are_stored(server, littered.batches))
