"""The spool: appended batches are found again, whatever happened to the rest of the file."""

import itertools
import os
import resource
import struct
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.errors import Overloaded
from storage.ingest.batch import RESOURCES, SCOPES, SPANS, SpanBatch
from storage.ingest.spool import Position, Spool, SpoolGroup
from tests.otlp_requests import requests, valid_spans
from tests.storing import a_batch, a_record, an_export, files_no_larger_than, span_id

HEADER_BYTES = 24  # of a record
LENGTHS_BYTES = 24  # before the three Arrow streams of a batch


def a_group(number: int, spans: int = 1) -> SpanBatch:
    """Build a batch that holds its number."""
    return a_batch(an_export(spans, trace=number))


BATCHES = [a_group(number) for number in range(4)]


def recovered(directory: Path, after: Position | None = None) -> list[SpoolGroup]:
    """Return what a restart would recover."""
    after = after or Position()
    return list(Spool(directory, after=after).recover(after))


def numbers(groups: list[SpoolGroup]) -> list[tuple[int, int]]:
    """Return the sequence number of each group, and which of `BATCHES` it is."""
    return [(group.sequence, _which(group.batch)) for group in groups]


def _which(batch: SpanBatch) -> int:
    (number_of,) = (number for number, original in enumerate(BATCHES) if same(batch, original))
    return number_of


def same(one: SpanBatch, other: SpanBatch) -> bool:
    """Return whether two batches hold the same rows."""
    return bool(
        one.spans.equals(other.spans) and one.resources.equals(other.resources) and one.scopes.equals(other.scopes)
    )


def a_segment(directory: Path, count: int = 3) -> Path:
    """Build a segment that holds the first of `BATCHES`, one record each."""
    spool = Spool(directory, after=Position())
    for batch in BATCHES[:count]:
        spool.append([batch])
    spool.close()
    (path,) = directory.iterdir()
    return path


def record_starts(path: Path) -> list[int]:
    """Return the offsets of the records of an undamaged segment, and the end of the last one."""
    data, offset = path.read_bytes(), 0
    starts = [0]
    while offset < len(data):
        offset += HEADER_BYTES + int(struct.unpack_from("<Q", data, offset + 8)[0])
        starts.append(offset)
    return starts


folders = (f"case {number}" for number in itertools.count())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[int]]:
    """Return the bytes of a segment with three records, and where those begin and end."""
    path = a_segment(tmp_path_factory.mktemp("segment"))
    return path.read_bytes(), record_starts(path)


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a place for the folder of each example."""
    return tmp_path_factory.mktemp("cases")


def find_in(cases: Path, data: bytes) -> list[SpoolGroup]:
    """Recover a segment of these bytes."""
    folder = cases / next(folders)
    folder.mkdir()
    (folder / "00000000000000000001-000001.spool").write_bytes(data)
    return recovered(folder)


@given(st.lists(requests(valid_spans), min_size=1, max_size=4))
@settings(max_examples=25)
def test_batches_come_back_as_they_were(cases: Path, exports: list[object]) -> None:
    """Whatever a batch holds, reading the spool gives it back unchanged, in order."""
    batches = [a_batch(export) for export in exports]  # type: ignore[arg-type] # hypothesis does not say what it lists
    folder = cases / next(folders)
    spool = Spool(folder, after=Position())
    groups = spool.append(batches)
    spool.close()
    groups_read = recovered(folder)
    assert [group.sequence for group in groups_read] == [group.sequence for group in groups]
    assert all(same(group.batch, batch) for group, batch in zip(groups_read, batches, strict=True))


def test_what_was_appended_holds_only_what_was_written(tmp_path: Path) -> None:
    """A durable group is counted with all that it holds, and holds nothing of the columns that it was made of."""
    batch = a_group(0, spans=500)
    (group,) = Spool(tmp_path, after=Position()).append([batch])
    tables = (group.batch.spans, group.batch.resources, group.batch.scopes)
    assert group.nbytes >= sum(table.get_total_buffer_size() for table in tables)
    assert not addresses(group.batch.spans) & addresses(batch.spans)


def addresses(table: pa.Table) -> set[int]:
    """Return the memory addresses of a table's columns."""
    chunks = [chunk for column in table.columns for chunk in column.chunks]
    return {buffer.address for chunk in chunks for buffer in chunk.buffers() if buffer is not None and buffer.size}


def test_sequence_numbers_go_on_after_a_restart(tmp_path: Path) -> None:
    """A restart numbers its groups after those on disk, and after those the database has."""
    first = Spool(tmp_path, after=Position())
    assert [group.sequence for group in first.append(BATCHES[:2])] == [1, 2]
    first.close()
    second = Spool(tmp_path, after=Position(1))
    assert [group.sequence for group in second.append(BATCHES[2:3])] == [3]
    second.close()
    assert numbers(recovered(tmp_path)) == [(1, 0), (2, 1), (3, 2)]
    third = Spool(tmp_path, after=Position(40))
    assert [group.sequence for group in third.append(BATCHES[3:4])] == [41]
    third.close()
    assert numbers(recovered(tmp_path)) == [(1, 0), (2, 1), (3, 2), (41, 3)]


def test_what_the_database_has_is_not_found_again(tmp_path: Path) -> None:
    """Recovery begins after the committed position; a group of which only some rows are committed comes whole."""
    a_segment(tmp_path)
    assert numbers(recovered(tmp_path, Position(1))) == [(2, 1), (3, 2)]
    assert numbers(recovered(tmp_path, Position(1, rows=7))) == [(2, 1), (3, 2)]
    assert numbers(recovered(tmp_path, Position(3))) == []


def test_a_file_is_removed_once_all_of_it_is_committed(tmp_path: Path) -> None:
    """Releasing keeps every file that holds a later group, and the bytes on disk are known throughout."""
    for batch in BATCHES:
        spool = Spool(tmp_path, after=Position())
        spool.append([batch])
        spool.close()
    spool = Spool(tmp_path, after=Position())
    for released, left in ((0, 4), (1, 3), (3, 1), (4, 0)):
        spool.release(released)
        files = sorted(tmp_path.iterdir())
        assert len(files) == left
        assert spool.nbytes == sum(file.stat().st_size for file in files)


def test_the_file_that_is_written_to_is_never_removed(tmp_path: Path) -> None:
    """Releasing everything leaves the open segment in place, and the next appended batch is found."""
    spool = Spool(tmp_path, after=Position())
    spool.append(BATCHES[:1])
    spool.release(1)
    spool.append(BATCHES[1:2])
    assert numbers(recovered(tmp_path, Position(1))) == [(2, 1)]


def test_a_spool_cut_off_anywhere_holds_its_whole_records(cases: Path, whole: tuple[bytes, list[int]]) -> None:
    """Whatever the byte at which a power cut stopped the file, the records before it are found and nothing else."""
    data, starts = whole
    near_headers = {start + offset for start in starts for offset in range(-2, HEADER_BYTES + 3)}
    for end in sorted(near_headers | set(range(0, len(data), 97))):
        if 0 <= end <= len(data):
            complete = sum(stop <= end for stop in starts[1:])
            assert numbers(find_in(cases, data[:end])) == [(n + 1, n) for n in range(complete)], f"cut at {end}"


@given(place=st.floats(0, 1, exclude_max=True), bits=st.integers(1, 255))
@settings(max_examples=150)
def test_a_damaged_record_costs_no_other(cases: Path, whole: tuple[bytes, list[int]], place: float, bits: int) -> None:
    """A byte gone wrong in one record leaves the others as they were."""
    data, starts = whole
    spoil(cases, data, starts, int(place * len(data)), bits)


def test_a_damaged_header_costs_no_other_record(cases: Path, whole: tuple[bytes, list[int]]) -> None:
    """A byte gone wrong anywhere in a header, the sequence number included, is noticed."""
    data, starts = whole
    for start in starts[:-1]:
        for offset in range(HEADER_BYTES):
            spoil(cases, data, starts, start + offset, 0x40)


def spoil(cases: Path, data: bytes, starts: list[int], offset: int, bits: int) -> None:
    """Change one byte, and find all records but the one that holds it."""
    damaged = bytearray(data)
    damaged[offset] ^= bits
    hit = sum(start <= offset for start in starts) - 1
    expected = [(number + 1, number) for number in range(3) if number != hit]
    assert numbers(find_in(cases, bytes(damaged))) == expected, (
        f"byte {offset}, which is {offset - starts[hit]} of its record"
    )


@given(st.lists(st.binary(max_size=60) | st.just(b"TJsp") | st.just(b"TJsp" * 9), min_size=4, max_size=4))
@settings(max_examples=40)
def test_rubbish_between_records_is_passed_over(
    cases: Path, whole: tuple[bytes, list[int]], rubbish: list[bytes]
) -> None:
    """Bytes that are not a record, even such as look like the beginning of one, hide none that follows."""
    data, starts = whole
    mixed = rubbish[0]
    for number in range(3):
        mixed += data[starts[number] : starts[number + 1]] + rubbish[number + 1]
    assert numbers(find_in(cases, mixed)) == [(1, 0), (2, 1), (3, 2)]


def test_appending_goes_on_beside_a_torn_file(tmp_path: Path) -> None:
    """After a power cut the next groups go to a new file, with numbers after those that are whole."""
    path = a_segment(tmp_path)
    os.truncate(path, record_starts(path)[2] + 100)
    spool = Spool(tmp_path, after=Position())
    spool.append(BATCHES[3:4])
    spool.close()
    assert numbers(recovered(tmp_path)) == [(1, 0), (2, 1), (3, 3)]


def test_an_empty_file_and_other_files_do_no_harm(tmp_path: Path) -> None:
    """A segment that was created and never written to, and files that are not segments, are passed over."""
    a_segment(tmp_path)
    (tmp_path / "00000000000000000009-000001.spool").touch()
    (tmp_path / "notes.txt").write_text("TJsp")
    assert numbers(recovered(tmp_path)) == [(1, 0), (2, 1), (3, 2)]


def test_a_full_disk_refuses_and_stores_nothing(tmp_path: Path) -> None:
    """An append that does not fit raises `Overloaded`, leaves no record, and its number is used by the next."""
    spool = Spool(tmp_path, after=Position())
    spool.append(BATCHES[:1])
    size = spool.nbytes
    for room in (0, 1, HEADER_BYTES, 1000, size + 10):
        with files_no_larger_than(size + room), pytest.raises(Overloaded, match="cannot be written"):
            spool.append(BATCHES[1:3])
        assert spool.nbytes == size == sum(file.stat().st_size for file in tmp_path.iterdir())
    assert [group.sequence for group in spool.append(BATCHES[1:3])] == [2, 3]
    spool.close()
    assert numbers(recovered(tmp_path)) == [(1, 0), (2, 1), (3, 2)]


def test_a_number_that_was_written_is_not_given_again(tmp_path: Path) -> None:
    """If a failed append cannot be undone, the number of its possible remains is not reused."""
    spool = Spool(tmp_path, after=Position())
    spool.append(BATCHES[:1])
    full = os.open("/dev/full", os.O_WRONLY)  # takes no byte, and cannot be cut to a size
    os.dup2(full, spool._file)
    os.close(full)
    with pytest.raises(Overloaded):
        spool.append(BATCHES[1:3])
    assert [group.sequence for group in spool.append(BATCHES[3:])] == [4]
    assert numbers(recovered(tmp_path)) == [(1, 0), (4, 3)]


def test_a_file_that_cannot_be_made_durable_is_not_left_open(tmp_path: Path) -> None:
    """When the directory cannot be synced, the new file is closed and gone, and the next append makes another."""
    spool = Spool(tmp_path, after=Position())
    before = open_files()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (first_unused_descriptor() + 1, hard))  # for the file and nothing else
    try:
        with pytest.raises(Overloaded, match="Too many open files"):
            spool.append(BATCHES[:1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert open_files() == before
    assert list(tmp_path.iterdir()) == []
    spool.append(BATCHES[:1])
    assert numbers(recovered(tmp_path)) == [(1, 0)]


def open_files() -> list[str]:
    """Return the descriptors of this process."""
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


def first_unused_descriptor() -> int:
    """Return the number that the next file gets."""
    descriptor = os.open("/dev/null", os.O_RDONLY)
    os.close(descriptor)
    return descriptor


def test_no_file_is_written_over(tmp_path: Path) -> None:
    """A file that an earlier start left under the name that would come next stays as it is."""
    left = tmp_path / f"{1:020d}-000001.spool"
    left.write_bytes(b"left")
    Spool(tmp_path, after=Position()).append(BATCHES[:1])
    assert left.read_bytes() == b"left"
    assert numbers(recovered(tmp_path)) == [(1, 0)]


def test_a_disk_that_is_full_from_the_start_refuses(tmp_path: Path) -> None:
    """Where not even the first record fits, the append is refused, and it works once there is room."""
    spool = Spool(tmp_path, after=Position())
    with files_no_larger_than(0), pytest.raises(Overloaded):
        spool.append(BATCHES[:1])
    assert recovered(tmp_path) == []
    spool.append(BATCHES[:1])
    assert numbers(recovered(tmp_path)) == [(1, 0)]


def older(batch: SpanBatch) -> list[pa.Buffer | bytes]:
    """Return the batch as a version would have written it that lacked some columns, and had them in another order."""
    spans = batch.spans.drop_columns(["flags", "trace_state", "received_at"])
    events = pa.struct([pa.field("name", pa.string())])
    spans = spans.set_column(
        spans.schema.get_field_index("events"), "events", pa.array([[{"name": "e"}]] * len(spans), pa.list_(events))
    )
    return SpanBatch(
        spans=spans.select(sorted(spans.column_names)),
        resources=batch.resources.drop_columns(["entity_refs"]),
        scopes=batch.scopes.drop_columns(["version"]),
    ).to_buffers()


def test_a_batch_of_an_older_version_is_read() -> None:
    """Columns that an older version did not write are NULL, at the top and inside of events; the rest is as it was."""
    batch = a_group(0, spans=3)
    read = SpanBatch.from_buffer(pa.py_buffer(b"".join(bytes(memoryview(part)) for part in older(batch))))
    assert read.spans.schema.equals(SPANS)
    assert read.resources.schema.equals(RESOURCES)
    assert read.scopes.schema.equals(SCOPES)
    assert read.spans["span_id"].to_pylist() == [span_id(number) for number in range(3)]
    assert read.spans["attributes"].equals(batch.spans["attributes"])
    assert read.spans["flags"].null_count == read.spans["received_at"].null_count == 3
    assert [events[0]["name"] for events in read.spans["events"].to_pylist()] == ["e"] * 3
    assert [events[0]["time"] for events in read.spans["events"].to_pylist()] == [None] * 3
    assert read.resources["entity_refs"].null_count == read.scopes["version"].null_count == 1


def test_a_record_that_cannot_be_read_is_skipped_and_kept(tmp_path: Path) -> None:
    """A record of a kind that this version does not know hides no other, and stays on disk when all is committed."""
    a_segment(tmp_path, count=1)
    strange = a_group(0).spans.set_column(0, "tenant", pa.array([{"a": 1}]))
    batch = SpanBatch(spans=strange, resources=BATCHES[0].resources, scopes=BATCHES[0].scopes)
    (tmp_path / f"{2:020d}-000001.spool").write_bytes(a_record(2, batch))
    spool = Spool(tmp_path, after=Position())
    spool.append(BATCHES[2:3])
    spool.close()
    assert numbers(recovered(tmp_path)) == [(1, 0), (3, 2)]
    again = Spool(tmp_path, after=Position(3))
    again.release(3)
    (kept,) = tmp_path.iterdir()
    assert pa.ipc.open_stream(kept.read_bytes()[LENGTHS_BYTES:]).read_all().equals(strange)
